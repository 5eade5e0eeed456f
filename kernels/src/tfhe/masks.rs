//! The mask stream of imported keys, defined by tfhe-rs: AES-128 in counter mode over an all-zero plaintext. The
//! counter block is a little-endian 128-bit number that starts at 0, and words are little-endian. Every object takes
//! its masks from one stream, in the stored order of its rows and without gaps, so the position of each row is known.

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipherSeek};

use super::params::Params;
use crate::xof::next_words;

/// The start of a tfhe-rs mask stream. Releases 1.0 to 1.5 begin at byte 1 of the key stream. Later releases store the
/// position, which is byte 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TfheRsSeed {
    /// The AES-128 key, as the little-endian number of its bytes.
    pub key: u128,
    /// The index of the first used byte of the key stream, 0 to 15.
    pub first_byte: u8,
}

type Stream = ctr::Ctr128LE<Aes128>;

/// Writes to `out` the masks of the bootstrapping rows of key bit `i < n`: `[l][k + 1][k][N]` torus words, level 1
/// first.
///
/// # Panics
/// When `out` has another length.
pub fn bootstrap_masks(seed: TfheRsSeed, params: &Params, i: usize, out: &mut [u32]) {
    let level_words = (params.glwe_dimension + 1) * params.glwe_dimension * params.polynomial_size;
    item_masks(seed, i, params.bootstrap_level_count, level_words, out);
}

/// Writes to `out` the masks of the key-switching rows of input coefficient `i < kN`: `[levels][n]` torus words, level
/// 1 first.
///
/// # Panics
/// When `out` has another length.
pub fn key_switch_masks(seed: TfheRsSeed, params: &Params, i: usize, out: &mut [u32]) {
    item_masks(seed, i, params.key_switch_level_count, params.lwe_dimension, out);
}

/// Writes to `out` the mask of a compressed ciphertext, `[n]` torus words.
pub(crate) fn ciphertext_mask(seed: TfheRsSeed, out: &mut [u32]) {
    item_masks(seed, 0, 1, out.len(), out);
}

/// Writes to `out` the masks of item `i` in a list whose items have `level_count` levels of `level_words` words. The
/// stream has the last level first.
fn item_masks(seed: TfheRsSeed, i: usize, level_count: usize, level_words: usize, out: &mut [u32]) {
    assert_eq!(out.len(), level_count * level_words, "a whole item's masks");
    let mut stream = Stream::new(&seed.key.to_le_bytes().into(), &[0; 16].into());
    stream.seek(u64::from(seed.first_byte) + 4 * (i * out.len()) as u64);
    for level in out.chunks_exact_mut(level_words).rev() {
        next_words(&mut stream, level);
    }
}
