//! Arithmetic on cards: not there yet.

use super::backend::{Arithmetic, NoPart};
use crate::gpu::Gpu;
use crate::tfhe::gpu::GpuBackend;

impl<G: Gpu> Arithmetic for GpuBackend<G> {
    type Part = NoPart;
}
