//! Launch of `mod_switch`: torus words to exponents of X.

use crate::error::Result;
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Bind, Gpu, LaunchOf, ViewOf};
use crate::tfhe::Params;
use crate::tfhe::gpu::{constants, texts};

/// The stem for one ring degree.
pub struct ModSwitch<G: Gpu> {
    stem: Stem<G>,
    threads: usize,
}

impl<G: Gpu> ModSwitch<G> {
    /// Compiled for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let threads = threads(gpu.card());
        let stem = compiler.stem(gpu, "mod_switch", &[&texts::MOD_SWITCH], &constants(params), threads, &[])?;
        Ok(ModSwitch { stem, threads: threads as usize })
    }

    /// The first `count` words, in place, to `[0, 2N)`.
    pub fn run<'a>(&'a self, words: ViewOf<'a, G>, count: usize) -> Option<LaunchOf<'a, G>> {
        self.stem.launch("mod_switch", count.div_ceil(self.threads), [Bind::write(words)], [count as u32])
    }
}
