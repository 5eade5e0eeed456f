//! Launches of `cells`: the sums of cells before and after their key switch.

use crate::error::Result;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, Table, Touched, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gpu::{constants, texts};

/// Number of words in a row of the table of [`Cells::wire_sum`].
pub const WIRE_SUM_WORDS: usize = 3;
/// Number of words in a row of the table of [`Cells::input_sum`].
pub const INPUT_SUM_WORDS: usize = 4;

/// The kernels of the stem `cells`, compiled for one parameter set.
pub struct Cells<G: Gpu> {
    stem: Stem<G>,
    threads: usize,
}

impl<G: Gpu> Cells<G> {
    /// Compiles the kernels for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let (threads, texts) = (threads(gpu.properties()), [&texts::PLACE, &texts::CELLS]);
        let stem = compiler.stem(gpu, "cells", &texts, &constants(params), threads, &[])?;
        Ok(Cells { stem, threads: threads as usize })
    }

    /// `out[row]` = the sum of all `factor * wire`, plus the constant. `table` is `[rows][3]` words: the constant,
    /// which is added to the body; the index of the table word where the terms begin; and the number of terms. A term
    /// is a factor and the place of each slot of the wire in `arena`, whose slots have `n + 1` words. `out` is
    /// `[rows][kN + 1]`.
    pub fn wire_sum<'a>(
        &'a self,
        arena: Touched<'a, G::Buf>,
        table: Table<'a, G>,
        out: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read_touched(arena), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("wire_sum", rows, bind, [rows as u32, table.first as u32])
    }

    /// Adds to `out[row]` the sum of all `factor * input` and the constant. `table` is `[rows][4]` words: the constant;
    /// the index of the table word where the terms begin; the number of terms; and 1 if `out[row]` already holds a sum,
    /// or 0 if `out[row]` counts as zero. A term is a factor and the input's place in `arena`. `out` is
    /// `[rows][n + 1]`.
    pub fn input_sum<'a>(
        &'a self,
        arena: Touched<'a, G::Buf>,
        table: Table<'a, G>,
        out: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read_touched(arena), Bind::read(table.all), Bind::write(out)];
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
