//! What tfhe-rs makes, we read; what we make of it, tfhe-rs reads. Every layout and mask word is compared with the crate.

mod ciphertext;
mod container;
mod fixture;
mod gates;
mod masks;
mod refused;
