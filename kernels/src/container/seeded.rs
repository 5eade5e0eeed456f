//! The payload of seeded ciphertexts (docs/wire-format.md 7): seed, bodies.

use super::frame::{Header, MAGIC, Tag, frame, unframe};
use super::{Error, check_key};
use crate::bytes::{put_words, words};
use crate::tfhe::seeded::SEED_BYTES;
use crate::tfhe::{Preset, SeededLweList};

/// Largest number of ciphertexts in one container.
pub const SEEDED_CIPHERTEXTS_MAX: usize = 1 << 16;

/// Whether the header of the bytes announces a container of seeded ciphertexts.
pub fn is_seeded(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && bytes.get(6) == Some(&(Tag::SeededCiphertexts as u8))
}

/// Writes the container of seeded ciphertexts.
///
/// # Panics
/// When the list is empty or has more than [`SEEDED_CIPHERTEXTS_MAX`] ciphertexts.
pub fn write_seeded(list: &SeededLweList, preset: Preset, fingerprint: Option<[u8; 8]>) -> Vec<u8> {
    assert!((1..=SEEDED_CIPHERTEXTS_MAX).contains(&list.len()), "{} ciphertexts of a seed", list.len());
    frame(Tag::SeededCiphertexts, preset, fingerprint, |out| {
        out.extend(list.seed());
        put_words(out, list.bodies());
    })
}

/// Reads a container of seeded ciphertexts for a preset and a key, without expanding the masks. `fingerprint` is the
/// fingerprint of the session's key.
///
/// # Errors
/// [`Error::Params`] for ciphertexts of another preset or key; other variants for bytes that cannot be read.
pub fn read_seeded(bytes: &[u8], preset: Preset, fingerprint: Option<[u8; 8]>) -> Result<SeededLweList, Error> {
    let (header, list) = unframe_seeded(bytes)?;
    check_key(&header, preset, fingerprint)?;
    Ok(list)
}

/// Reads a container of seeded ciphertexts without a check of its preset and key. The returned header states the preset
/// and the fingerprint of the key.
///
/// # Errors
/// [`Error`] for bytes that are not such a container.
pub fn unframe_seeded(bytes: &[u8]) -> Result<(Header, SeededLweList), Error> {
    let (header, payload) = unframe(bytes, Tag::SeededCiphertexts)?;
    let cut = || Error::Malformed(format!("a seed has {SEED_BYTES} bytes, found {}", payload.len()));
    let (seed, bodies) = payload.split_first_chunk::<SEED_BYTES>().ok_or_else(cut)?;
    let count = bodies.len() / 4;
    if !bodies.len().is_multiple_of(4) || !(1..=SEEDED_CIPHERTEXTS_MAX).contains(&count) {
        let found = bodies.len();
        return Err(Error::Malformed(format!(
            "1 to {SEEDED_CIPHERTEXTS_MAX} words must follow the seed, found {found} bytes"
        )));
    }
    Ok((header, SeededLweList::new(*seed, words(bodies).collect())))
}
