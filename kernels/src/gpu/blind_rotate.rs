//! Launches of `blind_rotate`: exponents to accumulators, by the way that suits the card.
//!
//! A [`Variant`] is one way. The order of its key's words and the number of its launches are its own; the exponents it
//! reads and the accumulators it leaves, `[rows][k + 1][N]` words in `[0, q)`, are the same for all.

use super::ntt::{self, Ntt};
use super::stem::{Compiler, Stem};
use super::{Card, Gpu, Language, source};
use crate::error::Result;
use crate::tfhe::{EvaluationKey, Params};

/// Words of the key that are made on the host at a time.
const CHUNK_WORDS: usize = 1 << 22;
/// Steps of a launch, times its rows, on cards that may have a screen to draw: their drivers end what takes seconds. A small
/// one takes some 50 us for a step of a row.
const WGSL_ROW_STEPS: usize = 4096;
/// Steps of a launch there at most: software drivers leave loops after 65535 turns, all of a kernel's loops together.
const WGSL_STEPS_MAX: usize = 16;

/// A way to rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// A group a row, transforms in shared memory: every card.
    Plain,
}

impl Variant {
    /// The best for a card and parameters.
    pub fn of(_card: &Card, _params: &Params) -> Variant {
        Variant::Plain
    }

    /// Words of a bootstrapping key on the card.
    pub fn key_words(self, params: &Params) -> usize {
        match self {
            Variant::Plain => params.bootstrap_body_words() * (params.glwe_dimension + 1),
        }
    }

    /// Rows that one multiprocessor works on at the same time.
    pub fn rows_of_a_multiprocessor(self) -> usize {
        match self {
            // eight groups of 256 threads are what a multiprocessor holds
            Variant::Plain => 8,
        }
    }
}

/// Words of a row's accumulator, `[k + 1][N]`.
pub fn accumulator_words(params: &Params) -> usize {
    (params.glwe_dimension + 1) * params.polynomial_size
}

/// The stem for one parameter set.
pub struct BlindRotate<G: Gpu> {
    variant: Variant,
    stem: Stem<G>,
    params: Params,
}

impl<G: Gpu> BlindRotate<G> {
    /// Compiled for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params, variant: Variant) -> Result<Self> {
        let stem = match variant {
            Variant::Plain => {
                let texts = [&source::NTT, &source::BLIND_ROTATE];
                compiler.stem(gpu, "blind_rotate", &texts, params, ntt::threads(params), &[])?
            }
        };
        Ok(BlindRotate { variant, stem, params: *params })
    }

    /// The key in the variant's order. Its masks are written out on the host, a part at a time, and transformed on the card.
    pub fn load(&self, gpu: &G, ntt: &Ntt<G>, roots: &G::Buf, key: &EvaluationKey) -> Result<G::Buf> {
        let p = &self.params;
        let loaded = super::alloc(gpu, self.variant.key_words(p))?;
        let step_words = p.rgsw_rows() * accumulator_words(p);
        match self.variant {
            Variant::Plain => {
                super::upload(gpu, &loaded, p.lwe_dimension, step_words, CHUNK_WORDS, |i, out| {
                    key.expand_bootstrap(i, out);
                })?;
                ntt.key(gpu, &loaded, roots, p.lwe_dimension * step_words / p.polynomial_size)?;
            }
        }
        Ok(loaded)
    }

    /// `exponents` is `[rows][n + 1]` words in `[0, 2N)`; `acc` becomes `[rows][k + 1][N]`. At most as many rows as the card
    /// has groups.
    pub fn run(
        &self,
        gpu: &G,
        key: &G::Buf,
        roots: &G::Buf,
        exponents: &G::Buf,
        acc: &G::Buf,
        rows: usize,
    ) -> Result<()> {
        match self.variant {
            Variant::Plain => {
                self.stem.launch(gpu, "blind_rotate_start", rows, &[exponents, acc], &[rows as u32])?;
                let steps = match gpu.card().language {
                    Language::Cuda => self.params.lwe_dimension,
                    Language::Wgsl => (WGSL_ROW_STEPS / rows.max(1)).clamp(1, WGSL_STEPS_MAX),
                };
                for first in (0..self.params.lwe_dimension).step_by(steps) {
                    let count = steps.min(self.params.lwe_dimension - first);
                    let args = [first as u32, count as u32];
                    self.stem.launch_whole(gpu, "blind_rotate", rows, &[key, roots, exponents, acc], &args)?;
                }
                Ok(())
            }
        }
    }
}
