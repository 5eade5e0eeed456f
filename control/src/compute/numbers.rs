//! Encrypted numbers: stored keys and ciphertexts, operations on ciphertexts, and the vault that stores keys and
//! ciphertexts.

pub(crate) mod arithmetic;
pub(crate) mod ciphertexts;
pub(crate) mod keys;
pub mod vault;
