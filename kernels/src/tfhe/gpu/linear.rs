//! Launches of `linear`: the sums of gates before their bootstraps, and NOT.

use crate::error::Result;
use crate::gpu::space::Place;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, Table, Touched, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gates::Linear as Sum;
use crate::tfhe::gpu::{constants, texts};
use crate::tfhe::lwe::EIGHTH;

/// Number of words in a row of the table of [`Linear::add`].
pub const ADD_WORDS: usize = 5;
/// Number of words in a row of the table of [`Linear::negate`].
pub const NEGATE_WORDS: usize = 2;

/// A row of the table of [`Linear::add`] for the sum of two ciphertexts, which are given by their places.
pub(super) fn add_row(sum: Sum, [x, y]: [Place; 2]) -> [u32; ADD_WORDS] {
    let [f, g] = sum.factors.map(|factor| factor as u32);
    [EIGHTH.wrapping_mul(sum.constant as u32), f, x, g, y]
}

/// A row of the table of [`Linear::add`] that copies one ciphertext.
pub(super) fn copy_row(place: Place) -> [u32; ADD_WORDS] {
    [0, 1, place, 0, place]
}

/// The kernels of the stem `linear`, compiled for one LWE dimension.
pub struct Linear<G: Gpu> {
    stem: Stem<G>,
}

impl<G: Gpu> Linear<G> {
    /// Compiles the kernels for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        Ok(Linear {
            stem: compiler.stem(
                gpu,
                "linear",
                &[&texts::PLACE, &texts::LINEAR],
                &constants(params),
                threads(gpu.properties()),
                &[],
            )?,
        })
    }

    /// `out[row] = constant + f x + g y`. `table` is `[rows][5]` words: the constant, which is added to the body; f; the
    /// place of x in `arena`; g; and the place of y. A row of `arena` has `n + 1` words, and `out` is `[rows][n + 1]`.
    pub fn add<'a>(
        &'a self,
        arena: Touched<'a, G::Buf>,
        table: Table<'a, G>,
        out: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read_touched(arena), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("linear", rows, bind, [rows as u32, table.first as u32])
    }

    /// `result = -operand`. `table` is `[rows][2]` words: the places of the operand and of the result in `arena`.
    pub fn negate<'a>(
        &'a self,
        arena: Touched<'a, G::Buf>,
        table: Table<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::write_touched(arena), Bind::read(table.all)];
        self.stem.launch("negate", rows, bind, [rows as u32, table.first as u32])
    }
}
