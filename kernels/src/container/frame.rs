//! The frame every container has: header, payload, checksum over both (docs/wire-format.md 2).

use sha2::{Digest, Sha256};

use super::Error;
use crate::tfhe::Preset;

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"ANGO";
/// The version this build writes and reads.
pub const VERSION: u16 = 1;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 32;
/// Bytes of the header that hold the checksum, at its end.
pub const CHECKSUM_BYTES: usize = 8;

/// What a container holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A secret key; stays with the client.
    SecretKey = 1,
    /// An evaluation key, seeded.
    EvaluationKey = 2,
    /// A bit's ciphertext.
    Ciphertext = 3,
    /// Ciphertexts of bits whose masks are a seed's.
    SeededCiphertexts = 4,
}

impl Tag {
    const ALL: [Tag; 4] = [Tag::SecretKey, Tag::EvaluationKey, Tag::Ciphertext, Tag::SeededCiphertexts];

    /// In words, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Tag::SecretKey => "a secret key",
            Tag::EvaluationKey => "an evaluation key",
            Tag::Ciphertext => "a ciphertext",
            Tag::SeededCiphertexts => "seeded ciphertexts",
        }
    }
}

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The preset of the payload.
    pub preset: Preset,
    /// The key's random name, where the writer gave one.
    pub fingerprint: Option<[u8; 8]>,
}

fn preset_code(preset: Preset) -> u8 {
    match preset {
        Preset::Fast128 => 1,
        Preset::Standard128 => 2,
        Preset::Conservative128 => 3,
    }
}

/// A container whose payload `put` appends.
pub fn frame(tag: Tag, preset: Preset, fingerprint: Option<[u8; 8]>, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.push(tag as u8);
    out.push(preset_code(preset));
    out.extend(fingerprint.unwrap_or_default());
    out.extend([0; 8 + CHECKSUM_BYTES]);
    put(&mut out);
    let payload_bytes = (out.len() - HEADER_BYTES) as u64;
    out[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
    let checksum = checksum(&out);
    out[24..HEADER_BYTES].copy_from_slice(&checksum);
    out
}

/// The header and payload of a container of kind `wanted`, checked: magic, version, tag, preset, length, checksum.
///
/// # Errors
/// [`Error::SecretKey`] for a secret key where something else is wanted, whatever else is wrong with it.
pub fn unframe(bytes: &[u8], wanted: Tag) -> Result<(Header, &[u8]), Error> {
    let malformed = |why: String| Err(Error::Malformed(why));
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::UnknownForm);
    }
    // before anything else can refuse it for another reason: whatever says it is a secret key is one
    if wanted != Tag::SecretKey && bytes.get(6) == Some(&(Tag::SecretKey as u8)) {
        return Err(Error::SecretKey);
    }
    if bytes.len() < HEADER_BYTES {
        return malformed(format!("a container has at least {HEADER_BYTES} bytes, found {}", bytes.len()));
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if version != VERSION {
        return Err(Error::UnknownVersion(version));
    }
    let Some(tag) = Tag::ALL.into_iter().find(|&tag| tag as u8 == bytes[6]) else {
        return malformed(format!("unknown container type {}", bytes[6]));
    };
    if tag != wanted {
        return Err(Error::WrongType { expected: wanted.name(), found: tag.name() });
    }
    let Some(preset) = Preset::ALL.into_iter().find(|&preset| preset_code(preset) == bytes[7]) else {
        return Err(Error::Params(format!("unknown preset {}", bytes[7])));
    };
    let announced = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
    let payload = &bytes[HEADER_BYTES..];
    if announced != payload.len() as u64 {
        return malformed(format!("the header announces {announced} payload bytes, found {}", payload.len()));
    }
    if checksum(bytes) != bytes[24..HEADER_BYTES] {
        return malformed("the checksum does not match: the container is damaged".into());
    }
    let fingerprint: [u8; 8] = bytes[8..16].try_into().expect("eight bytes");
    Ok((Header { preset, fingerprint: (fingerprint != [0; 8]).then_some(fingerprint) }, payload))
}

/// First bytes of SHA-256 over the header without its checksum, then the payload. Against damage, not against malice.
fn checksum(container: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Sha256::new();
    hash.update(&container[..HEADER_BYTES - CHECKSUM_BYTES]);
    hash.update(&container[HEADER_BYTES..]);
    hash.finalize()[..CHECKSUM_BYTES].try_into().expect("a digest is longer")
}

/// Little-endian words of `bytes`; a remainder of under four bytes is left out.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
}

/// Appends words, little-endian.
pub(super) fn put_words(out: &mut Vec<u8>, words: &[u32]) {
    out.reserve(4 * words.len());
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
