//! Launches of `linear`: the sums of gates before their bootstraps, and NOT.

use crate::error::Result;
use crate::gpu::distance::Distance;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, Table, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gates::Linear as Sum;
use crate::tfhe::gpu::{constants, texts};
use crate::tfhe::lwe::EIGHTH;

/// Number of words in a row of the table of [`Linear::add`].
pub const ADD_WORDS: usize = 7;
/// Number of words in a row of the table of [`Linear::negate`].
pub const NEGATE_WORDS: usize = 4;

/// A row of the table of [`Linear::add`] for the sum of two ciphertexts, which are given by their distances.
pub(super) fn add_row(sum: Sum, [[x_low, x_high], [y_low, y_high]]: [Distance; 2]) -> [u32; ADD_WORDS] {
    let [f, g] = sum.factors.map(|factor| factor as u32);
    [EIGHTH.wrapping_mul(sum.constant as u32), f, x_low, x_high, g, y_low, y_high]
}

/// A row of the table of [`Linear::add`] that copies one ciphertext.
pub(super) fn copy_row([low, high]: Distance) -> [u32; ADD_WORDS] {
    [0, 1, low, high, 0, low, high]
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
                &[&texts::DISTANCE, &texts::LINEAR],
                &constants(params),
                threads(gpu.properties()),
                &[],
            )?,
        })
    }

    /// `out[row] = constant + f x + g y`. `table` is `[rows][7]` words: the constant, which is added to the body; f;
    /// the distance of x; g; and the distance of y. A distance is two words and starts at the first of the `chunks`,
    /// which hold rows of `n + 1` words. `out` is `[rows][n + 1]`.
    pub fn add<'a>(
        &'a self,
        chunks: &'a [ViewOf<'a, G>],
        table: Table<'a, G>,
        out: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read_each(chunks), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("linear", rows, bind, [rows as u32, table.first as u32])
    }

    /// `result = -operand`. `table` is `[rows][4]` words: the distances of the operand and of the result, as in
    /// [`Linear::add`].
    pub fn negate<'a>(
        &'a self,
        chunks: &'a [ViewOf<'a, G>],
        table: Table<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::write_each(chunks), Bind::read(table.all)];
        self.stem.launch("negate", rows, bind, [rows as u32, table.first as u32])
    }
}
