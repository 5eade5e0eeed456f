//! The results of mapped circuits on encrypted bits decrypt to the results of their netlists on plain bits. Tests run
//! cells one by one, random netlists under small keys, and the public netlists under the presets' keys.
//!
//! Ciphertexts of small keys have little noise, so every phase is close to its exact value.

mod cells;
mod netlists;
mod party;
mod random;
