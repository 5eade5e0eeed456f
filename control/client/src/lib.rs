//! The client's side: the only home of secret keys.
//!
//! A server that computes blindly never links this crate's [`SecretKey`]; see ARCHITECTURE.md, "Who may know whom".

mod gaussian;
mod keygen;
mod secret_key;

pub use secret_key::SecretKey;
