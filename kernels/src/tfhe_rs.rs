//! The formats of tfhe-rs clients: the Boolean API of the `tfhe` crate 1.x and of the npm package `node-tfhe`, as
//! bincode 1.3 writes them (readings G5, G6, K5).
//!
//! Only the layout is implemented here. The crate itself is a dependency only of a test: `tests/crosscheck` compares
//! every line of the layout below with the crate. bincode 1.3 in its default configuration writes the bare fields in
//! order: integers little-endian, `usize` and lengths as u64, an enum's variant as u32, a bool as one byte. The bytes
//! contain neither a magic number nor a version, so a format is recognized by the values of its fields. The "safe"
//! serialization of tfhe-rs, which has a header, is a different format and is refused.
//!
//! ```text
//! CompressedServerKey   bootstrap key   u64 words, [n][l][k + 1][N] u32 bodies, last level first
//!                                       u64 k + 1, u64 N, u64 log2 of the base, u64 l, seed, modulus
//!                       key-switch key  u64 words, [kN][levels] u32 bodies, last level first
//!                                       u64 log2 of the base, u64 levels, u64 n + 1, seed, modulus
//!                       order           u32: 1 = bootstrap then key switch (0, the other order, is refused)
//! Ciphertext            encrypted       u32 0, u64 n + 1, [n + 1] u32 mask then body, modulus
//!                       trivial         u32 1, bool
//! CompressedCiphertext                  u32 body, u64 n + 1, seed, modulus
//! ClientKey             (refused)       u64 n, [n] u32 bits, u64 kN, [kN] u32 bits, u64 N, parameters
//!
//! modulus               u128 0 (a whole word), u64 32 (bits of a word)
//! seed, 1.0 to 1.5      u128 AES-128 key; the stream begins at byte 1
//! seed, later           u32 0 (AES-CTR; 1, a XOF seed, is refused), u128 AES-128 key, u128 block, u64 byte
//! ```
//!
//! Signs already agree with Ango's: row `(i, j, c)` of the bootstrapping key has phase `-S_c s_i 2^32 / B^j` for
//! `c < k` and `s_i 2^32 / B^j` for `c = k`; row `(i, j)` of the key-switching key has phase `z_i 2^32 / D^j`. Only
//! the order of levels is reversed.

mod ciphertext;
mod client_key;
mod reader;
mod server_key;

pub use ciphertext::{looks_like_ciphertext, read_ciphertext, write_ciphertext};
pub use client_key::is_client_key;
pub use server_key::{accepted_params, looks_like_server_key, read_server_key};
