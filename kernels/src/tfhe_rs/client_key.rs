//! `ClientKey`: recognised so that it can be refused, never read (readings K5).

use super::reader::Reader;

/// Fewer bits than this are no key, and could be another object's small numbers.
const BITS_MIN: u64 = 64;
/// More than any parameter set has.
const BITS_MAX: u64 = 1 << 16;

/// Whether the bytes begin as a `ClientKey` does, and as a lone secret key of tfhe-rs does: with a length and that many
/// words, every one 0 or 1. What is missing at the end does not matter: half a secret key is secret too.
pub fn is_client_key(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let Ok(count @ BITS_MIN..=BITS_MAX) = reader.u64() else { return false };
    let there = (reader.remaining() / 4).min(count as usize);
    there as u64 >= BITS_MIN
        && reader.rest()[..4 * there].chunks_exact(4).all(|word| matches!(word, [0, 0, 0, 0] | [1, 0, 0, 0]))
}
