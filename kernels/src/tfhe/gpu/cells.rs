//! Launches of `cells`: the sums of cells before and after their key switch.

use crate::error::Result;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, Table, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gpu::{constants, texts};

/// Words of a row of [`Cells::wire_sum`]'s table.
pub const WIRE_SUM_WORDS: usize = 3;
/// Words of a row of [`Cells::input_sum`]'s table.
pub const INPUT_SUM_WORDS: usize = 4;

/// The stem for one parameter set.
pub struct Cells<G: Gpu> {
    stem: Stem<G>,
    threads: usize,
}

impl<G: Gpu> Cells<G> {
    /// Compiles the stem for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let (threads, texts) = (threads(gpu.card()), [&texts::DISTANCE, &texts::CELLS]);
        let stem = compiler.stem(gpu, "cells", &texts, &constants(params), threads, &[])?;
        Ok(Cells { stem, threads: threads as usize })
    }

    /// `out[row] = sum of factor wire + constant`. `table` is `[rows][3]` words: the constant (of the body), the index
    /// of the table word where the terms begin, and their number. A term is a factor and, for each slot of the wire,
    /// its distance from the first of the `chunks` (two words a slot). `chunks` hold slots of `n + 1` words; `out` is
    /// `[rows][kN + 1]`.
    pub fn wire_sum<'a>(
        &'a self,
        chunks: &'a [ViewOf<'a, G>],
        table: Table<'a, G>,
        out: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read_each(chunks), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("wire_sum", rows, bind, [rows as u32, table.first as u32])
    }

    /// `out[row] = out[row] + sum of factor input + constant`, where a flag decides about the first term. `table` is
    /// `[rows][4]` words: the constant, the index of the table word where the terms begin, their number, and 1 if the
    /// row already holds a sum, else 0. A term is a factor and the input's distance from the first of the `chunks`
    /// (two words). `out` is `[rows][n + 1]`.
    pub fn input_sum<'a>(
        &'a self,
        chunks: &'a [ViewOf<'a, G>],
        table: Table<'a, G>,
        out: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read_each(chunks), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("input_sum", rows, bind, [rows as u32, table.first as u32])
    }

    /// Marks the rows of `exponents` whose rotation starts with amplitude 1/4. `table` is `[count]` row numbers.
    pub fn mark_quarter<'a>(
        &'a self,
        table: Table<'a, G>,
        exponents: ViewOf<'a, G>,
        count: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read(table.all), Bind::write(exponents)];
        let groups = count.div_ceil(self.threads);
        self.stem.launch("mark_quarter", groups, bind, [count as u32, table.first as u32])
    }
}
