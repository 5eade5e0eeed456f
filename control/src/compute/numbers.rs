//! Encrypted numbers: keys and ciphertexts that are kept, operations on them, the vault in which both lie.

pub(crate) mod arithmetic;
pub(crate) mod ciphertexts;
pub(crate) mod keys;
pub mod vault;
