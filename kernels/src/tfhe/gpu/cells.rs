//! Launches of `cells`: the sums of gates and cells, before their key switch and after it.

use crate::error::Result;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, Table, Touched, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gpu::{constants, texts};

/// A row of the table of [`Cells::add_terms`]: the constant, which is added to the body; the index of the row's first
/// word of terms; the number of terms; and where the sum goes: [`TO_ROW`], [`ONTO_ROW`] or a place in the arena.
pub type SumRow = [u32; 4];

/// The sum goes to its row of `out`. No slot of an arena has this number as its place.
pub const TO_ROW: u32 = u32::MAX;
/// The sum is added to its row of `out`. No slot of an arena has this number as its place.
pub const ONTO_ROW: u32 = u32::MAX - 1;

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

    /// Computes the sum of all `factor * value` and the constant, for each of `rows` rows of the table ([`SumRow`]).
    /// The terms begin at word `first_term` of the same buffer. A term is a factor and the place of each slot of the
    /// value in `arena`, whose slots have `n + 1` words. A value has `words` words: `n + 1` for an input, `kN + 1` for
    /// a wire. `out` is `[rows][words]`; if all sums go to places, `out` is any range. `arena` counts as written,
    /// because WGSL has one argument for a buffer that is read and written.
    pub fn add_terms<'a>(
        &'a self,
        arena: Touched<'a, G::Buf>,
        (table, rows): (Table<'a, G>, usize),
        first_term: usize,
        (out, words): (ViewOf<'a, G>, usize),
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::write_touched(arena), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("add_terms", rows, bind, [rows, table.first, first_term, words].map(|word| word as u32))
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
