//! Bytes to types and back: the container format of docs/wire-format.md, and the forms of tfhe-rs clients.
//!
//! Every length and residue is checked before use. A header alone causes no allocation.

mod evaluation_key;
mod frame;
mod seeded;

pub use crate::bytes::Error;
pub use frame::{CHECKSUM_BYTES, HEADER_BYTES, Header, MAGIC, Tag, VERSION, VERSION_CENTRED, frame, unframe};
pub(crate) use frame::{frame_arithmetic, frame_head, unframe_arithmetic, unframe_head};
pub use seeded::{SEEDED_CIPHERTEXTS_MAX, is_seeded, read_seeded, unframe_seeded, write_seeded};

use crate::bytes::{put_words, words};
use crate::tfhe::{EvaluationKey, Lwe, Preset};
use crate::tfhe_rs;

/// The format family of a ciphertext. Results are returned in the form of their inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Ango's container.
    Ango,
    /// bincode 1.3 `Ciphertext` of the tfhe crate's Boolean API.
    TfheRs,
}

/// Reads an evaluation key of Ango or of tfhe-rs.
///
/// # Errors
/// [`Error::SecretKey`] for a secret key of Ango or of tfhe-rs; the caller then overwrites the bytes. Other variants
/// for bytes that cannot be read.
pub fn read_evaluation_key(bytes: &[u8]) -> Result<EvaluationKey, Error> {
    if bytes.starts_with(&MAGIC) {
        evaluation_key::read(bytes)
    } else if tfhe_rs::is_client_key(bytes) {
        Err(Error::SecretKey)
    } else if tfhe_rs::looks_like_server_key(bytes) {
        tfhe_rs::read_server_key(bytes)
    } else if tfhe_rs::looks_like_ciphertext(bytes) {
        Err(Error::WrongType { expected: Tag::EvaluationKey.name(), found: Tag::Ciphertext.name() })
    } else {
        Err(Error::UnknownForm)
    }
}

/// Writes a key in Ango's container.
///
/// # Panics
/// For an imported key, which keeps its original form.
pub fn write_evaluation_key(key: &EvaluationKey) -> Vec<u8> {
    evaluation_key::write(key)
}

/// Reads a bit's ciphertext of Ango or of tfhe-rs, for a key with this preset and fingerprint. The fingerprint is
/// checked only if the ciphertext and the key both have one (readings G11).
///
/// # Errors
/// [`Error::Params`] for a ciphertext of another preset or key; other variants for bytes that cannot be read.
pub fn read_ciphertext(bytes: &[u8], preset: Preset, fingerprint: Option<[u8; 8]>) -> Result<(Lwe, Form), Error> {
    let dimension = preset.params().lwe_dimension;
    if is_seeded(bytes) {
        let seeded = read_seeded(bytes, preset, fingerprint)?;
        match seeded.len() {
            1 => Ok((Lwe::new(seeded.expand(dimension).into_words()), Form::Ango)),
            found => Err(Error::Malformed(format!("expected one ciphertext, found {found} seeded ciphertexts"))),
        }
    } else if bytes.starts_with(&MAGIC) {
        let (header, payload) = unframe(bytes, Tag::Ciphertext)?;
        check_key(&header, preset, fingerprint)?;
        if payload.len() != 4 * (dimension + 1) {
            return Err(Error::Malformed(format!(
                "a ciphertext of the preset {} has {} words of 4 bytes, found {} bytes",
                preset.name(),
                dimension + 1,
                payload.len()
            )));
        }
        Ok((Lwe::new(words(payload).collect()), Form::Ango))
    } else if tfhe_rs::is_client_key(bytes) {
        Err(Error::SecretKey)
    } else if tfhe_rs::looks_like_ciphertext(bytes) {
        Ok((tfhe_rs::read_ciphertext(bytes, dimension)?, Form::TfheRs))
    } else {
        Err(Error::UnknownForm)
    }
}

/// Refuses client keys of tfhe-rs, because these are secret keys and no request may contain one (readings K5).
pub(crate) fn refuse_foreign_secrets(bytes: &[u8]) -> Result<(), Error> {
    match !bytes.starts_with(&MAGIC) && tfhe_rs::is_client_key(bytes) {
        true => Err(Error::SecretKey),
        false => Ok(()),
    }
}

/// Refuses a ciphertext of another preset. Also refuses a ciphertext of another key, if the ciphertext and the key both
/// have a fingerprint.
fn check_key(header: &Header, preset: Preset, fingerprint: Option<[u8; 8]>) -> Result<(), Error> {
    if header.preset != preset {
        let (found, wanted) = (header.preset.name(), preset.name());
        return Err(Error::Params(format!(
            "the ciphertext has the preset {found}, but the session's key has the preset {wanted}"
        )));
    }
    match (header.fingerprint, fingerprint) {
        (Some(found), Some(wanted)) if found != wanted => {
            Err(Error::Params("the ciphertext was made under another key".into()))
        }
        _ => Ok(()),
    }
}

/// Writes a bit's ciphertext in the given form.
///
/// # Panics
/// When the ciphertext's dimension is not the preset's.
pub fn write_ciphertext(lwe: &Lwe, preset: Preset, fingerprint: Option<[u8; 8]>, form: Form) -> Vec<u8> {
    assert_eq!(lwe.dimension(), preset.params().lwe_dimension, "a ciphertext of another preset");
    match form {
        Form::Ango => frame(Tag::Ciphertext, preset, fingerprint, |out| put_words(out, lwe.words())),
        Form::TfheRs => tfhe_rs::write_ciphertext(lwe),
    }
}

#[cfg(test)]
mod tests;
