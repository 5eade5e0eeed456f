//! Mapped circuits on encrypted bits decrypt to what their netlists give on plain bits: cells one by one, random netlists
//! under small keys, and the public netlists under the presets' keys.
//!
//! Ciphertexts of small keys have little noise, so that every phase is close to what it should be.

mod cells;
mod netlists;
mod party;
mod random;
