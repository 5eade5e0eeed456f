//! Launches of `linear`: what gates add up before their bootstraps, and NOT.

use crate::error::Result;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, Table, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gates::Linear as Sum;
use crate::tfhe::gpu::{constants, texts};
use crate::tfhe::lwe::EIGHTH;

/// Words of a row of [`Linear::add`]'s table.
pub const ADD_WORDS: usize = 7;
/// Words of a row of [`Linear::negate`]'s table.
pub const NEGATE_WORDS: usize = 4;

/// A row of [`Linear::add`]'s table: the sum of the ciphertexts in slots `x` and `y` of an arena so far from the first.
pub(super) fn add_row(sum: Sum, [x, y]: [u32; 2], [low, high]: [u32; 2]) -> [u32; ADD_WORDS] {
    let [f, g] = sum.factors.map(|factor| factor as u32);
    [EIGHTH.wrapping_mul(sum.constant as u32), x, f, y, g, low, high]
}

/// A row of [`Linear::add`]'s table: a copy of the ciphertext in a slot.
pub(super) fn copy_row(slot: u32, [low, high]: [u32; 2]) -> [u32; ADD_WORDS] {
    [0, slot, 1, slot, 0, low, high]
}

/// The stem for one LWE dimension.
pub struct Linear<G: Gpu> {
    stem: Stem<G>,
}

impl<G: Gpu> Linear<G> {
    /// Compiled for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        Ok(Linear {
            stem: compiler.stem(
                gpu,
                "linear",
                &[&texts::DISTANCE, &texts::LINEAR],
                &constants(params),
                threads(gpu.card()),
                &[],
            )?,
        })
    }

    /// `out[row] = constant + f arena[x] + g arena[y]`: `arenas` are `[slots][n + 1]` each, `table` `[rows][7]` words: constant
    /// (of the body), x, f, y, g, and two: words from the first arena to the row's own; `out` `[rows][n + 1]`.
    pub fn add<'a>(
        &'a self,
        arenas: &'a [ViewOf<'a, G>],
        table: Table<'a, G>,
        out: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read_each(arenas), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("linear", rows, bind, [rows as u32, table.first as u32])
    }

    /// `arena[result] = -arena[operand]`: `table` is `[rows][4]` words: operand, result, and two: words from the first arena to
    /// the row's own.
    pub fn negate<'a>(
        &'a self,
        arenas: &'a [ViewOf<'a, G>],
        table: Table<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::write_each(arenas), Bind::read(table.all)];
        self.stem.launch("negate", rows, bind, [rows as u32, table.first as u32])
    }
}
