//! What a device computes: every scheme.

use crate::ckks::Arithmetic;
use crate::tfhe::Gates;

/// A device that the engine may open. One that does not compute on numbers says so ([`Arithmetic::part_bytes`]).
pub trait Schemes: Gates + Arithmetic {}

impl<B: Gates + Arithmetic> Schemes for B {}
