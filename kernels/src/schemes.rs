//! What a device computes: every scheme. The only file that knows both of them, but for tests.

use crate::ckks::{Arithmetic, NoPart};
use crate::gpu::Gpu;
use crate::tfhe::Gates;
use crate::tfhe::gpu::GpuBackend;

/// A device that the engine may open. One that does not compute on numbers says so ([`Arithmetic::part_bytes`]).
pub trait Schemes: Gates + Arithmetic {}

impl<B: Gates + Arithmetic> Schemes for B {}

/// Arithmetic on cards: not there yet.
impl<G: Gpu> Arithmetic for GpuBackend<G> {
    type Part = NoPart;
}
