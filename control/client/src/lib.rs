//! The client's side. Only this crate holds secret keys.
//!
//! A server that computes on encrypted data never links this crate's [`SecretKey`]; see ARCHITECTURE.md, "Allowed
//! dependencies".

pub mod bundle;
pub mod ckks;
#[cfg(test)]
mod constant_time;
#[cfg(feature = "http")]
pub mod evaluate;
pub mod forecast;
mod gaussian;
#[cfg(feature = "http")]
pub mod http;
mod keygen;
pub mod netlists;
mod secret_key;
pub mod value;

pub use kernels::container;
pub use kernels::tfhe::builtin as circuits;
pub use kernels::tfhe::{Circuit, Gate, Preset};
pub use netlists::Netlist;
pub use secret_key::SecretKey;
