//! Arithmetic on cards: not there yet.

use super::backend::{Arithmetic, NoPart};
use crate::gpu::Gpu;
use crate::tfhe::gpu::Evaluator;

impl<G: Gpu> Arithmetic for Evaluator<G> {
    type Part = NoPart;
}
