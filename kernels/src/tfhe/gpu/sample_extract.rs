//! Launches of `sample_extract`: accumulators to LWE samples under the ring key, or to wires. The two accumulators of a
//! MUX become one sample.

use crate::error::Result;
use crate::gpu::source::MODULAR;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, Table, Touched, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gpu::{constants, texts};

/// The table word that stands for a missing second row.
pub const NO_ROW: u32 = u32::MAX;

/// The kernels of the stem `sample_extract`, compiled for ring ciphertexts of one rank and degree.
pub struct SampleExtract<G: Gpu> {
    stem: Stem<G>,
}

impl<G: Gpu> SampleExtract<G> {
    /// Compiles the kernels for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let threads = threads(gpu.properties());
        Ok(SampleExtract {
            stem: compiler.stem(
                gpu,
                "sample_extract",
                &[&MODULAR, &texts::TORUS, &texts::PLACE, &texts::SAMPLE_EXTRACT],
                &constants(params),
                threads,
                &[],
            )?,
        })
    }

    /// Extracts samples. `acc` is `[rows][k + 1][N]` words in `[0, q)`; `table` is `[gates][2]` words: a row, and a
    /// MUX's second row or [`NO_ROW`]; `out` gets `[gates][kN + 1]` torus words, from row `first_out` on.
    pub fn run<'a>(
        &'a self,
        acc: ViewOf<'a, G>,
        table: Table<'a, G>,
        (out, first_out): (ViewOf<'a, G>, usize),
        gates: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read(acc), Bind::read(table.all), Bind::write(out)];
        self.stem.launch("sample_extract", gates, bind, [gates as u32, table.first as u32, first_out as u32])
    }

    /// Extracts wires to slots. `table` is `[wires][2 + slots of a wire]` words: a row of `acc`, a coefficient, and the
    /// place of each slot in `arena`. A slot has `n + 1` words.
    pub fn run_wires<'a>(
        &'a self,
        acc: ViewOf<'a, G>,
        table: Table<'a, G>,
        arena: Touched<'a, G::Buf>,
        wires: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let bind = [Bind::read(acc), Bind::read(table.all), Bind::write_touched(arena)];
        self.stem.launch("extract_wires", wires, bind, [wires as u32, table.first as u32])
    }
}
