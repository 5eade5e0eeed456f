//! Mapped circuits run on encrypted bits. Their results must decrypt to the results of the netlists on plain bits.
//! Tests run cells one by one, random netlists under small keys, and the public netlists under the presets' keys.
//!
//! Ciphertexts of small keys have little noise, so every phase is close to its exact value.

mod cells;
mod netlists;
mod party;
mod random;
