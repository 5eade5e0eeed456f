//! The mask stream of imported keys, that of tfhe-rs: AES-128 in counter mode over an all-zero plaintext, the counter block a little-endian
//! 128-bit number that starts at 0, words little-endian. Every object takes its masks from one stream in the order in
//! which its rows are stored, without gaps, so that each row's place is known.

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipherSeek};

use super::params::Params;
use crate::xof::next_words;

/// Where a mask stream of tfhe-rs begins. Releases 1.0 to 1.5 begin at byte 1 of the key stream, later ones say so
/// themselves and begin at byte 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TfheRsSeed {
    /// AES-128 key, as the little-endian number of its bytes.
    pub key: u128,
    /// First byte of the key stream that is used, 0 to 15.
    pub first_byte: u8,
}

type Stream = ctr::Ctr128LE<Aes128>;

/// Masks of bootstrapping row group `i < n`: `[l][k + 1][k][N]` torus words, level 1 first.
///
/// # Panics
/// When `out` is not of that length.
pub fn bootstrap_masks(seed: TfheRsSeed, params: &Params, i: usize, out: &mut [u32]) {
    let level_words = (params.glwe_dimension + 1) * params.glwe_dimension * params.polynomial_size;
    item_masks(seed, i, params.bootstrap_level_count, level_words, out);
}

/// Masks of the key-switching rows of input coefficient `i < kN`: `[levels][n]` torus words, level 1 first.
///
/// # Panics
/// When `out` is not of that length.
pub fn key_switch_masks(seed: TfheRsSeed, params: &Params, i: usize, out: &mut [u32]) {
    item_masks(seed, i, params.key_switch_level_count, params.lwe_dimension, out);
}

/// The mask of a compressed ciphertext, `[n]` torus words.
pub(crate) fn ciphertext_mask(seed: TfheRsSeed, out: &mut [u32]) {
    item_masks(seed, 0, 1, out.len(), out);
}

/// Item `i` of a list of items of `level_count` levels, which the stream has last level first.
fn item_masks(seed: TfheRsSeed, i: usize, level_count: usize, level_words: usize, out: &mut [u32]) {
    assert_eq!(out.len(), level_count * level_words, "a whole item's masks");
    let mut stream = Stream::new(&seed.key.to_le_bytes().into(), &[0; 16].into());
    stream.seek(u64::from(seed.first_byte) + 4 * (i * out.len()) as u64);
    for level in out.chunks_exact_mut(level_words).rev() {
        next_words(&mut stream, level);
    }
}
