//! Bytes to types and back: the container format of docs/wire-format.md, and the forms of tfhe-rs clients.
//!
//! Every length and residue is checked before it is used; nothing is allocated on the word of a header alone.

use crate::tfhe::{EvaluationKey, Lwe, Preset};

/// Why bytes are refused. The service maps these to the specification's codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The blob holds a secret key, ours or a tfhe-rs client key (readings K5): never to be sent to a server.
    #[error("the upload contains a secret key")]
    SecretKey,
    /// Neither our container nor a form of tfhe-rs.
    #[error("not an Ango container nor a tfhe-rs object")]
    UnknownForm,
    /// A version of our container that this build does not read.
    #[error("container version {0} is not supported")]
    UnknownVersion(u16),
    /// Well-formed, but of another kind than asked for.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What the caller wanted.
        expected: &'static str,
        /// What the bytes are.
        found: &'static str,
    },
    /// Parameters that are no preset, contradict each other, or are another session's.
    #[error("{0}")]
    Params(String),
    /// Truncated, too long, damaged or out of range.
    #[error("{0}")]
    Malformed(String),
}

/// Which family a ciphertext came from; results go back in the form of their inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Our container.
    Ango,
    /// bincode 1.3 `Ciphertext` of the tfhe crate's Boolean API.
    TfheRs,
}

/// Reads an evaluation key of either form; consumes the bytes so that a large upload is not held twice.
pub fn read_evaluation_key(_bytes: Vec<u8>) -> Result<EvaluationKey, Error> {
    todo!("being written")
}

/// Writes our container.
pub fn write_evaluation_key(_key: &EvaluationKey) -> Vec<u8> {
    todo!("being written")
}

/// Reads a bit's ciphertext of either form for a key of `preset` and `fingerprint`; the fingerprint is checked only where
/// both sides have one (readings G11).
pub fn read_ciphertext(_bytes: &[u8], _preset: Preset, _fingerprint: Option<[u8; 8]>) -> Result<(Lwe, Form), Error> {
    todo!("being written")
}

/// Writes a bit's ciphertext in the given form.
pub fn write_ciphertext(_lwe: &Lwe, _preset: Preset, _fingerprint: Option<[u8; 8]>, _form: Form) -> Vec<u8> {
    todo!("being written")
}
