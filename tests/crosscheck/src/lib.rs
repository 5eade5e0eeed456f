//! Only tests: `tfhe_rs` compares what this product reads, writes and computes with the `tfhe` crate.
