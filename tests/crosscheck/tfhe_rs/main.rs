//! Ango reads the bytes of tfhe-rs, and tfhe-rs reads Ango's results. Every layout and mask word is compared with the
//! crate.

mod ciphertext;
mod container;
mod fixture;
mod gates;
mod masks;
mod refused;
