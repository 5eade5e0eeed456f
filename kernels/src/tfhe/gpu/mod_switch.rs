//! Launch of `mod_switch`: torus words to exponents of X.

use crate::error::Result;
use crate::gpu::stem::{Compiler, Stem};
use crate::gpu::{Bind, Gpu, LaunchOf, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gpu::{constants, texts};

/// Number of threads for a row, a power of two. Each thread has about ten words, and the sum over all threads takes few
/// steps.
const THREADS: u32 = 64;

/// The kernel of the stem `mod_switch`, compiled for one LWE dimension, ring degree and kind of mod switch.
pub struct ModSwitch<G: Gpu> {
    stem: Stem<G>,
}

impl<G: Gpu> ModSwitch<G> {
    /// Compiles the kernels for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let stem = compiler.stem(gpu, "mod_switch", &[&texts::MOD_SWITCH], &constants(params), THREADS, &[])?;
        Ok(ModSwitch { stem })
    }

    /// Converts the first `count` rows of `[rows][n + 1]` torus words in place to exponents in `[0, 2N)`. `count` is at
    /// most the number of groups that the GPU allows.
    pub fn run<'a>(&'a self, rows: ViewOf<'a, G>, count: usize) -> Option<LaunchOf<'a, G>> {
        self.stem.launch_whole("mod_switch", count, [Bind::write(rows)], [])
    }
}
