//! The frame of every container: header, payload, and a checksum over both (docs/wire-format.md 2).

use sha2::{Digest, Sha256};

use super::Error;
use crate::tfhe::Preset;

/// The first four bytes of every container.
pub const MAGIC: [u8; 4] = *b"ANGO";
/// The first version of the format. Every type of container has this version.
pub const VERSION: u16 = 1;
/// The version of an evaluation key for bits, if gates under the key use the centred mod switch
/// ([`crate::tfhe::ModSwitch`]).
pub const VERSION_CENTRED: u16 = 2;
/// Size of the header, in bytes. The payload follows the header.
pub const HEADER_BYTES: usize = 32;
/// Size of the checksum, in bytes. The checksum is at the end of the header.
pub const CHECKSUM_BYTES: usize = 8;

/// The type of a container's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A secret key; it stays with the client.
    SecretKey = 1,
    /// An evaluation key, seeded.
    EvaluationKey = 2,
    /// A bit's ciphertext.
    Ciphertext = 3,
    /// Ciphertexts of bits. Their masks come from a seed.
    SeededCiphertexts = 4,
    /// A secret key of arithmetic; it stays with the client.
    ArithmeticSecretKey = 5,
    /// A public key of arithmetic.
    ArithmeticPublicKey = 6,
    /// An evaluation key of arithmetic: a head, then rows.
    ArithmeticEvaluationKey = 7,
    /// A ciphertext of arithmetic, which encrypts numbers.
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

    /// Returns the type that these bytes claim, if they begin like a container.
    pub fn of(bytes: &[u8]) -> Option<Tag> {
        let code = *bytes.strip_prefix(&MAGIC)?.get(2)?;
        Tag::ALL.into_iter().find(|&tag| tag as u8 == code)
    }

    /// Returns the type in words, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Tag::SecretKey => "a secret key for bits",
            Tag::EvaluationKey => "an evaluation key for bits",
            Tag::Ciphertext => "a ciphertext of a bit",
            Tag::SeededCiphertexts => "seeded ciphertexts of bits",
            Tag::ArithmeticSecretKey => "a secret key for numbers",
            Tag::ArithmeticPublicKey => "a public key for numbers",
            Tag::ArithmeticEvaluationKey => "an evaluation key for numbers",
            Tag::ArithmeticCiphertext => "a ciphertext of numbers",
        }
    }

    /// Returns the newest version of this type that this build writes and reads.
    fn newest_version(self) -> u16 {
        if self == Tag::EvaluationKey { VERSION_CENTRED } else { VERSION }
    }

    /// Whether the type is a secret key of any scheme.
    fn is_secret(self) -> bool {
        matches!(self, Tag::SecretKey | Tag::ArithmeticSecretKey)
    }
}

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The container's version, from 1 to the newest version of its type.
    pub version: u16,
    /// The preset of the payload.
    pub preset: Preset,
    /// Random fingerprint of the key, if the writer gave one.
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

/// The value of byte 7, the preset, in containers of arithmetic. These containers have no preset, because their payload
/// states the parameters.
const NO_PRESET: u8 = 0;

/// Writes a container of version 1. `put` appends the payload.
pub fn frame(tag: Tag, preset: Preset, fingerprint: Option<[u8; 8]>, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame_of_version(VERSION, tag, preset, fingerprint, put)
}

/// Like [`frame`], but writes a container of version `version`. The type `tag` must have this version.
pub(super) fn frame_of_version(
    version: u16,
    tag: Tag,
    preset: Preset,
    fingerprint: Option<[u8; 8]>,
    put: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    framed(version, tag, preset_code(preset), fingerprint.unwrap_or_default(), put)
}

/// Like [`frame`], but writes a container of arithmetic, which has no preset and always has a fingerprint.
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

/// Makes a header whose checksum is zero.
fn header(version: u16, tag: Tag, preset: u8, fingerprint: [u8; 8], payload_bytes: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&version.to_le_bytes());
    out[6..8].copy_from_slice(&[tag as u8, preset]);
    out[8..16].copy_from_slice(&fingerprint);
    out[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
    out
}

/// Writes the head of a container of arithmetic: a frame header that announces `payload_bytes` bytes, and the first
/// bytes of the payload. The checksum covers only this head.
pub(crate) fn frame_head(tag: Tag, fingerprint: [u8; 8], payload_bytes: u64, first: &[u8]) -> Vec<u8> {
    let mut out = header(VERSION, tag, NO_PRESET, fingerprint, payload_bytes).to_vec();
    out.extend(first);
    let checksum = checksum(&out);
    out[24..HEADER_BYTES].copy_from_slice(&checksum);
    out
}

/// Checks a container of type `wanted` (magic, version, tag, preset, length, checksum) and returns its header and
/// payload.
///
/// # Errors
/// [`Error::SecretKey`] for a secret key if `wanted` is another type, even if other checks would fail too. Other
/// variants for a failed check.
pub fn unframe(bytes: &[u8], wanted: Tag) -> Result<(Header, &[u8]), Error> {
    let opened = open(bytes, wanted)?;
    let Some(preset) = Preset::ALL.into_iter().find(|&preset| preset_code(preset) == opened.preset) else {
        return Err(Error::Params(format!("unknown preset {}", opened.preset)));
    };
    let payload = opened.whole(bytes)?;
    let Opened { version, fingerprint, .. } = opened;
    Ok((Header { version, preset, fingerprint: (fingerprint != [0; 8]).then_some(fingerprint) }, payload))
}

/// Like [`unframe`], but for a container of arithmetic. Returns the fingerprint, which these containers always have,
/// and the payload.
pub(crate) fn unframe_arithmetic(bytes: &[u8], wanted: Tag) -> Result<([u8; 8], &[u8]), Error> {
    let opened = open(bytes, wanted)?;
    let fingerprint = opened.of_arithmetic()?;
    Ok((fingerprint, opened.whole(bytes)?))
}

/// Like [`unframe_arithmetic`], but for a head alone, with the first `first` bytes of the payload. Returns the
/// fingerprint, the announced number of payload bytes, and the first bytes of the payload.
pub(crate) fn unframe_head(bytes: &[u8], wanted: Tag, first: usize) -> Result<([u8; 8], u64, &[u8]), Error> {
    let opened = open(bytes, wanted)?;
    let fingerprint = opened.of_arithmetic()?;
    let Some(head) = bytes.get(..HEADER_BYTES + first) else {
        return Err(Error::Malformed(format!("the head has {} bytes, found {}", HEADER_BYTES + first, bytes.len())));
    };
    check_sum(head)?;
    Ok((fingerprint, opened.announced, &head[HEADER_BYTES..]))
}

/// The content of a header, before the payload is checked.
struct Opened {
    version: u16,
    preset: u8,
    fingerprint: [u8; 8],
    /// Announced number of payload bytes.
    announced: u64,
}

impl Opened {
    /// Returns the fingerprint, after a check that this is a container of arithmetic.
    fn of_arithmetic(&self) -> Result<[u8; 8], Error> {
        match (self.preset, self.fingerprint) {
            (NO_PRESET, [0, 0, 0, 0, 0, 0, 0, 0]) => Err(Error::Malformed("the fingerprint is missing".into())),
            (NO_PRESET, fingerprint) => Ok(fingerprint),
            (preset, _) => {
                Err(Error::Params(format!("a container of arithmetic has no preset, found preset {preset}")))
            }
        }
    }

    /// Checks the announced length and the checksum and returns the payload.
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

/// Checks the magic bytes, the version and the tag, and returns the header's content.
fn open(bytes: &[u8], wanted: Tag) -> Result<Opened, Error> {
    let malformed = |why: String| Err(Error::Malformed(why));
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::UnknownForm);
    }
    let tag = Tag::of(bytes);
    // checked before everything else, because bytes that claim to be a secret key are treated as a secret key; only a
    // client reads secret keys, and it may name the kind that it found
    match tag.filter(|&tag| tag.is_secret() && tag != wanted) {
        Some(tag) if wanted.is_secret() => {
            return Err(Error::WrongType { expected: wanted.name(), found: tag.name() });
        }
        Some(_) => return Err(Error::SecretKey),
        None => {}
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

/// Computes the checksum: the first bytes of SHA-256 over the header without its checksum, then the payload. The
/// checksum detects damage, not malice.
fn checksum(container: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Sha256::new();
    hash.update(&container[..HEADER_BYTES - CHECKSUM_BYTES]);
    hash.update(&container[HEADER_BYTES..]);
    hash.finalize()[..CHECKSUM_BYTES].try_into().expect("a digest is longer")
}
