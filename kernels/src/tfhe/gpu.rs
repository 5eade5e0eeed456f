//! Gates on a GPU, written once for every [`crate::gpu::Gpu`]: a module for the launches of each kernel stem, and
//! `backend.rs`, which starts these launches in sequence.

mod backend;
pub mod blind_rotate;
pub mod cells;
mod constants;
mod linear;
pub mod lwe_key_switch;
pub mod mod_switch;
pub mod sample_extract;
mod texts;

pub use backend::{CompiledStems, GpuBackend, Key};
use constants::constants;
