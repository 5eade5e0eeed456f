//! The interface of a device for all schemes. Apart from tests, only this file refers to both schemes (`tfhe` and
//! `ckks`).

use crate::ckks::{Arithmetic, Unsupported};
use crate::gpu::Gpu;
use crate::tfhe::Gates;
use crate::tfhe::gpu::GpuBackend;

/// A device that the engine may open. A device that cannot compute on encrypted numbers (CKKS) reports that through
/// [`Arithmetic::tables_bytes`].
pub trait Schemes: Gates + Arithmetic {}

impl<B: Gates + Arithmetic> Schemes for B {}

/// GPUs do not compute on encrypted numbers (CKKS) yet, so the defaults of [`Arithmetic`] apply.
impl<G: Gpu> Arithmetic for GpuBackend<G> {
    type Tables = Unsupported;
    type Part = Unsupported;
}
