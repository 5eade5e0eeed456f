//! The frame every container has: header, payload, checksum over both (docs/wire-format.md 2).

use sha2::{Digest, Sha256};

use super::Error;
use crate::tfhe::Preset;

/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"ANGO";
/// The version of every type.
pub const VERSION: u16 = 1;
/// The version of evaluation keys of bits whose gates switch the modulus centred ([`crate::tfhe::ModSwitch`]).
pub const VERSION_CENTRED: u16 = 2;
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
    /// A secret key of arithmetic; stays with the client.
    ArithmeticSecretKey = 5,
    /// A public key of arithmetic.
    ArithmeticPublicKey = 6,
    /// An evaluation key of arithmetic: a head, then rows.
    ArithmeticEvaluationKey = 7,
    /// A ciphertext of numbers.
    ArithmeticCiphertext = 8,
}

impl Tag {
    const ALL: [Tag; 8] = [
        Tag::SecretKey,
        Tag::EvaluationKey,
        Tag::Ciphertext,
        Tag::SeededCiphertexts,
        Tag::ArithmeticSecretKey,
        Tag::ArithmeticPublicKey,
        Tag::ArithmeticEvaluationKey,
        Tag::ArithmeticCiphertext,
    ];

    /// In words, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Tag::SecretKey => "a secret key",
            Tag::EvaluationKey => "an evaluation key",
            Tag::Ciphertext => "a ciphertext",
            Tag::SeededCiphertexts => "seeded ciphertexts",
            Tag::ArithmeticSecretKey => "a secret key of arithmetic",
            Tag::ArithmeticPublicKey => "a public key of arithmetic",
            Tag::ArithmeticEvaluationKey => "an evaluation key of arithmetic",
            Tag::ArithmeticCiphertext => "a ciphertext of numbers",
        }
    }

    /// The newest version that this build writes and reads.
    fn newest_version(self) -> u16 {
        if self == Tag::EvaluationKey { VERSION_CENTRED } else { VERSION }
    }

    /// Whether it is a secret key of any scheme.
    fn is_secret(self) -> bool {
        matches!(self, Tag::SecretKey | Tag::ArithmeticSecretKey)
    }
}

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The container's version: 1, or up to the newest of its type.
    pub version: u16,
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
        Preset::Fast128K2 => 4,
        Preset::Standard128K2 => 5,
    }
}

/// Byte 7 of containers of arithmetic, whose payload names its parameters.
const NO_PRESET: u8 = 0;

/// A container of version 1 whose payload `put` appends.
pub fn frame(tag: Tag, preset: Preset, fingerprint: Option<[u8; 8]>, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame_of_version(VERSION, tag, preset, fingerprint, put)
}

/// The same of a version that the type has.
pub(super) fn frame_of_version(
    version: u16,
    tag: Tag,
    preset: Preset,
    fingerprint: Option<[u8; 8]>,
    put: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    framed(version, tag, preset_code(preset), fingerprint.unwrap_or_default(), put)
}

/// The same for arithmetic.
pub(crate) fn frame_arithmetic(tag: Tag, fingerprint: [u8; 8], put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    framed(VERSION, tag, NO_PRESET, fingerprint, put)
}

fn framed(version: u16, tag: Tag, preset: u8, fingerprint: [u8; 8], put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = header(version, tag, preset, fingerprint, 0).to_vec();
    put(&mut out);
    let payload_bytes = (out.len() - HEADER_BYTES) as u64;
    out[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
    let checksum = checksum(&out);
    out[24..HEADER_BYTES].copy_from_slice(&checksum);
    out
}

/// A header whose checksum is still zero.
fn header(version: u16, tag: Tag, preset: u8, fingerprint: [u8; 8], payload_bytes: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&version.to_le_bytes());
    out[6..8].copy_from_slice(&[tag as u8, preset]);
    out[8..16].copy_from_slice(&fingerprint);
    out[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
    out
}

/// The head of a container of arithmetic whose checksum covers no more than the head: the frame's header for so many payload bytes,
/// and the first of these.
pub(crate) fn frame_head(tag: Tag, fingerprint: [u8; 8], payload_bytes: u64, first: &[u8]) -> Vec<u8> {
    let mut out = header(VERSION, tag, NO_PRESET, fingerprint, payload_bytes).to_vec();
    out.extend(first);
    let checksum = checksum(&out);
    out[24..HEADER_BYTES].copy_from_slice(&checksum);
    out
}

/// The header and payload of a container of kind `wanted`, checked: magic, version, tag, preset, length, checksum.
///
/// # Errors
/// [`Error::SecretKey`] for a secret key where something else is wanted, whatever else is wrong with it.
pub fn unframe(bytes: &[u8], wanted: Tag) -> Result<(Header, &[u8]), Error> {
    let opened = open(bytes, wanted)?;
    let Some(preset) = Preset::ALL.into_iter().find(|&preset| preset_code(preset) == opened.preset) else {
        return Err(Error::Params(format!("unknown preset {}", opened.preset)));
    };
    let payload = opened.whole(bytes)?;
    let Opened { version, fingerprint, .. } = opened;
    Ok((Header { version, preset, fingerprint: (fingerprint != [0; 8]).then_some(fingerprint) }, payload))
}

/// The fingerprint and payload of a container of arithmetic, checked in the same way. It always has a fingerprint.
pub(crate) fn unframe_arithmetic(bytes: &[u8], wanted: Tag) -> Result<([u8; 8], &[u8]), Error> {
    let opened = open(bytes, wanted)?;
    let fingerprint = opened.of_arithmetic()?;
    Ok((fingerprint, opened.whole(bytes)?))
}

/// The same of a head alone, `first` bytes of payload with it: the fingerprint, the announced payload's bytes, the first of them.
pub(crate) fn unframe_head(bytes: &[u8], wanted: Tag, first: usize) -> Result<([u8; 8], u64, &[u8]), Error> {
    let opened = open(bytes, wanted)?;
    let fingerprint = opened.of_arithmetic()?;
    let Some(head) = bytes.get(..HEADER_BYTES + first) else {
        return Err(Error::Malformed(format!("the head has {} bytes, found {}", HEADER_BYTES + first, bytes.len())));
    };
    check_sum(head)?;
    Ok((fingerprint, opened.announced, &head[HEADER_BYTES..]))
}

/// What a header says, before the payload is looked at.
struct Opened {
    version: u16,
    preset: u8,
    fingerprint: [u8; 8],
    /// Bytes of the payload.
    announced: u64,
}

impl Opened {
    /// The fingerprint of a container of arithmetic.
    fn of_arithmetic(&self) -> Result<[u8; 8], Error> {
        match (self.preset, self.fingerprint) {
            (NO_PRESET, [0, 0, 0, 0, 0, 0, 0, 0]) => Err(Error::Malformed("there is no fingerprint".into())),
            (NO_PRESET, fingerprint) => Ok(fingerprint),
            (preset, _) => Err(Error::Params(format!("arithmetic has no presets, found preset {preset}"))),
        }
    }

    /// The payload that the header announces, undamaged.
    fn whole<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let payload = &bytes[HEADER_BYTES..];
        if self.announced != payload.len() as u64 {
            let (announced, found) = (self.announced, payload.len());
            return Err(Error::Malformed(format!("the header announces {announced} payload bytes, found {found}")));
        }
        check_sum(bytes)?;
        Ok(payload)
    }
}

/// Checks magic, version and tag.
fn open(bytes: &[u8], wanted: Tag) -> Result<Opened, Error> {
    let malformed = |why: String| Err(Error::Malformed(why));
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::UnknownForm);
    }
    let tag = bytes.get(6).and_then(|&code| Tag::ALL.into_iter().find(|&tag| tag as u8 == code));
    // before anything else can refuse it for another reason: whatever says it is a secret key is one
    if tag.is_some_and(|tag| tag.is_secret() && tag != wanted) {
        return Err(Error::SecretKey);
    }
    if bytes.len() < HEADER_BYTES {
        return malformed(format!("a container has at least {HEADER_BYTES} bytes, found {}", bytes.len()));
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if !(VERSION..=tag.map_or(VERSION, Tag::newest_version)).contains(&version) {
        return Err(Error::UnknownVersion(version));
    }
    let Some(tag) = tag else {
        return malformed(format!("unknown container type {}", bytes[6]));
    };
    if tag != wanted {
        return Err(Error::WrongType { expected: wanted.name(), found: tag.name() });
    }
    let eight = |at: usize| -> [u8; 8] { bytes[at..at + 8].try_into().expect("eight bytes") };
    Ok(Opened { version, preset: bytes[7], fingerprint: eight(8), announced: u64::from_le_bytes(eight(16)) })
}

fn check_sum(container: &[u8]) -> Result<(), Error> {
    match checksum(container) == container[24..HEADER_BYTES] {
        true => Ok(()),
        false => Err(Error::Malformed("the checksum does not match: the container is damaged".into())),
    }
}

/// First bytes of SHA-256 over the header without its checksum, then the payload. Against damage, not against malice.
fn checksum(container: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Sha256::new();
    hash.update(&container[..HEADER_BYTES - CHECKSUM_BYTES]);
    hash.update(&container[HEADER_BYTES..]);
    hash.finalize()[..CHECKSUM_BYTES].try_into().expect("a digest is longer")
}
