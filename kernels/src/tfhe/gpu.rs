//! Gates on a card, written once for every [`crate::gpu::Gpu`]: a module for the launches of each kernel stem;
//! `evaluate.rs`, which starts these launches in sequence; and `kernels.rs`, the part that gates add to a
//! [`crate::gpu::Device`].

pub mod blind_rotate;
pub mod cells;
mod compiled;
mod constants;
mod evaluate;
mod kernels;
mod key;
mod limits;
pub mod lwe_key_switch;
pub mod mod_switch;
pub mod sample_extract;
#[cfg(test)]
mod tests;
mod texts;

pub use compiled::CompiledStems;
use constants::constants;
pub use kernels::Kernels;
pub use key::Key;
pub use limits::device_info;
