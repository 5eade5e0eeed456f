//! The kernel stems of gates, compiled for one parameter set.

use super::blind_rotate::{BlindRotate, Variant};
use super::cells::Cells;
use super::lwe_key_switch::LweKeySwitch;
use super::mod_switch::ModSwitch;
use super::sample_extract::SampleExtract;
use crate::error::{Error, Result};
use crate::gpu::ntt::{self, Ntt};
use crate::gpu::{Compiler, Gpu, alloc};
use crate::tfhe::{Params, ring};

/// All kernel stems, compiled for one parameter set.
pub struct CompiledStems<G: Gpu> {
    /// Transforms.
    pub ntt: Ntt<G>,
    /// The roots of the ring's transforms, in the form of the kernels.
    pub roots: G::Buf,
    /// Sums of gates and cells.
    pub cells: Cells<G>,
    /// Mod switch.
    pub mod_switch: ModSwitch<G>,
    /// Blind rotation.
    pub blind_rotate: BlindRotate<G>,
    /// Sample extraction.
    pub sample_extract: SampleExtract<G>,
    /// Key switch.
    pub key_switch: LweKeySwitch<G>,
}

impl<G: Gpu> CompiledStems<G> {
    /// Compiles the stems, or takes them from the cache of `compiler`.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params, variant: Variant) -> Result<Self> {
        let words = ntt::roots(&ring(params.polynomial_size));
        let roots = alloc(gpu, words.len())?;
        gpu.write(&roots, 0, &words)?;
        Ok(CompiledStems {
            ntt: Ntt::new(gpu, compiler, &ring(params.polynomial_size))?,
            roots,
            cells: Cells::new(gpu, compiler, params)?,
            mod_switch: ModSwitch::new(gpu, compiler, params)?,
            blind_rotate: BlindRotate::new(gpu, compiler, params, variant)?,
            sample_extract: SampleExtract::new(gpu, compiler, params)?,
            key_switch: LweKeySwitch::new(gpu, compiler, params)?,
        })
    }

    /// Runs `work`, which launches kernels. A GPU that is shared may refuse groups that wait for each other. Then
    /// `work` runs again with other kernels. This is safe, because no kernel before the bootstraps writes a result.
    pub(super) fn again_without_clusters<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        match work() {
            Err(Error::Unavailable(_)) if self.blind_rotate.leave_clusters() => work(),
            other => other,
        }
    }
}
