//! This package has tests only: `tfhe_rs` compares the bytes that Ango reads and writes, and its results, with the
//! `tfhe` crate.
