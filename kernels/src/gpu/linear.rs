//! Launches of `linear`: what gates add up before their bootstraps, and NOT.

use super::stem::{Compiler, Stem, threads};
use super::{Gpu, Table, source};
use crate::error::Result;
use crate::tfhe::Params;
use crate::tfhe::gates::Linear as Sum;
use crate::tfhe::lwe::EIGHTH;

/// Words of a row of [`Linear::add`]'s table.
pub const ADD_WORDS: usize = 5;
/// Words of a row of [`Linear::negate`]'s table.
pub const NEGATE_WORDS: usize = 2;

/// A row of [`Linear::add`]'s table: the sum of the ciphertexts in slots `x` and `y`.
pub(super) fn add_row(sum: Sum, [x, y]: [u32; 2]) -> [u32; ADD_WORDS] {
    let [f, g] = sum.factors.map(|factor| factor as u32);
    [EIGHTH.wrapping_mul(sum.constant as u32), x, f, y, g]
}

/// The stem for one LWE dimension.
pub struct Linear<G: Gpu> {
    stem: Stem<G>,
}

impl<G: Gpu> Linear<G> {
    /// Compiled for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        Ok(Linear { stem: compiler.stem(gpu, "linear", &[&source::LINEAR], params, threads(gpu.card()), &[])? })
    }

    /// `out[row] = constant + f arena[x] + g arena[y]`: `arena` is `[slots][n + 1]`, `table` `[rows][5]` words: constant
    /// (of the body), x, f, y, g; `out` `[rows][n + 1]`.
    pub fn add(&self, gpu: &G, arena: &G::Buf, table: Table<'_, G>, out: &G::Buf, rows: usize) -> Result<()> {
        self.stem.launch(gpu, "linear", rows, &[arena, table.buf, out], &[rows as u32, table.first as u32])
    }

    /// `arena[result] = -arena[operand]`: `table` is `[rows][2]` words: operand, result.
    pub fn negate(&self, gpu: &G, arena: &G::Buf, table: Table<'_, G>, rows: usize) -> Result<()> {
        self.stem.launch(gpu, "negate", rows, &[arena, table.buf], &[rows as u32, table.first as u32])
    }
}
