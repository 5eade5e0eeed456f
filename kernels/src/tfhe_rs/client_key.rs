//! `ClientKey`: this module only recognizes such a key, so that it can be refused (readings K5).

use super::reader::Reader;

/// Smallest number of bits in a secret key. Shorter sequences could be small numbers of another object.
const BITS_MIN: u64 = 64;
/// Largest number of bits in a secret key; larger than the dimension of every parameter set.
const BITS_MAX: u64 = 1 << 16;

/// Whether the bytes begin like a `ClientKey` or like a bare secret key of tfhe-rs: a length, then that many words,
/// each 0 or 1. The bytes may be cut short, because half a secret key is secret too.
pub fn is_client_key(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let Ok(count @ BITS_MIN..=BITS_MAX) = reader.u64() else { return false };
    let there = (reader.remaining() / 4).min(count as usize);
    there as u64 >= BITS_MIN
        && reader.rest()[..4 * there].chunks_exact(4).all(|word| matches!(word, [0, 0, 0, 0] | [1, 0, 0, 0]))
}
