//! Gates on a GPU, written once for every [`crate::gpu::Gpu`]: one launch for each stem, in order.

mod backend;
pub mod blind_rotate;
pub mod cells;
mod constants;
mod distance;
mod linear;
pub mod lwe_key_switch;
pub mod mod_switch;
pub mod sample_extract;
mod texts;

pub use backend::{Arena, CompiledStems, GpuBackend, Key};
use constants::constants;
