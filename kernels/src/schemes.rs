//! The interface of a device for all schemes. Apart from tests, only this file knows both of them.

use crate::ckks::{Arithmetic, NoPart};
use crate::gpu::Gpu;
use crate::tfhe::Gates;
use crate::tfhe::gpu::GpuBackend;

/// A device that the engine may open. A device that does not compute on numbers reports that through
/// [`Arithmetic::part_bytes`].
pub trait Schemes: Gates + Arithmetic {}

impl<B: Gates + Arithmetic> Schemes for B {}

/// Cards do not compute on numbers yet, so the defaults apply.
impl<G: Gpu> Arithmetic for GpuBackend<G> {
    type Part = NoPart;
}
