//! Reads containers of keys and ciphertexts. Gives the values that the service needs, or an error with a code of the
//! specification.

use std::sync::Arc;

use api::Code;
use engine::ckks::PartKind;
use engine::ckks::container::{self, KeyHead};
use engine::container::Error;

use super::{Params, Sources, Tail};
use crate::web::error::ApiError;
use crate::web::json::secret_key_rejected;

pub use engine::ckks::container::{KEY_HEAD_BYTES, ROW_HEADER_BYTES};

/// Largest size of a row in bytes: 32,768 coefficients modulo primes that have 881 bits together, and a header.
pub const ROW_BYTES_MAX: usize = 4 << 20;

/// The values in a public key's container that the service needs.
pub struct PublicKeyFacts {
    /// The key's parameters.
    pub params: Params,
    /// Identifies the secret key.
    pub fingerprint: [u8; 8],
    /// The seed of the mask.
    pub seed: [u8; 32],
}

/// The head of an evaluation key, which stands before its rows. A clone shares the same head.
#[derive(Clone)]
pub struct EvaluationKeyHead {
    head: Arc<KeyHead>,
}

/// The values in the header of an evaluation key's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// The name of the part's kind.
    pub kind: &'static str,
    /// Galois element of a rotation or conjugation. For the parts `to-sparse` and `from-sparse`: the tag of the sparse
    /// secret, or 0. 0 for relinearization.
    pub element: u32,
    /// Level of the part.
    pub level: u8,
    /// Index of the row in its part.
    pub digit: u8,
    /// Number of rows of the part.
    pub digits: u8,
    /// Bytes of the row, including its header.
    pub bytes: usize,
    /// The seed of the row's masks.
    pub seed: [u8; 32],
}

/// The values in a ciphertext's container that the service needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CiphertextFacts {
    /// Level.
    pub level: usize,
    /// Exact scale.
    pub scale: f64,
    /// Bound on the absolute values in the slots.
    pub value_bound: f64,
    /// Variance of the noise.
    pub variance: f64,
    /// The slots that `matmul` takes for zeros.
    pub tail: Tail,
    /// The fresh encryptions from which the ciphertext was computed.
    pub sources: Sources,
    /// The seed of the mask. `None`: the container has the mask itself.
    pub seed: Option<[u8; 32]>,
}

/// Reads a public key. Takes CPU time for every byte, so call this outside the async threads.
pub fn read_public_key(bytes: &[u8]) -> Result<PublicKeyFacts, ApiError> {
    let key = container::read_public_key(bytes).map_err(|error| refused("public_key", &error))?;
    Ok(PublicKeyFacts { params: key.params, fingerprint: key.fingerprint, seed: key.seed })
}

impl EvaluationKeyHead {
    /// Reads the head: the [`KEY_HEAD_BYTES`] bytes before the rows. May search for the primes of new parameters, which
    /// takes CPU time, so call this outside the async threads.
    pub fn read(bytes: &[u8]) -> Result<EvaluationKeyHead, ApiError> {
        let head = container::read_key_head(bytes).map_err(|error| refused("eval_key", &error))?;
        Ok(EvaluationKeyHead { head: Arc::new(head) })
    }

    /// Makes the head of a key whose upload began earlier, from the key's record. The head does not contain the
    /// announced size, which was checked when the upload began.
    pub fn on_record(params: Params, fingerprint: [u8; 8], rows: u32) -> EvaluationKeyHead {
        EvaluationKeyHead { head: Arc::new(KeyHead { params, fingerprint, rows, bytes: 0 }) }
    }

    /// Returns the key's parameters.
    pub fn params(&self) -> &Params {
        &self.head.params
    }

    /// Returns the fingerprint, which identifies the secret key.
    pub fn fingerprint(&self) -> [u8; 8] {
        self.head.fingerprint
    }

    /// Returns the number of rows that the head announces.
    pub fn rows(&self) -> u32 {
        self.head.rows
    }

    /// Reads the header of a row: its first [`ROW_HEADER_BYTES`] bytes.
    pub fn row(&self, header: &[u8]) -> Result<RowFacts, ApiError> {
        let row = container::read_row_header(&self.head, header).map_err(|error| refused("eval_key", &error))?;
        let (kind, element) = match row.kind {
            PartKind::Relinearization => ("relinearization", 0),
            PartKind::Galois(element) => ("galois", element),
            PartKind::ToSparse => ("to-sparse", row.sparse_tag),
            PartKind::FromSparse => ("from-sparse", row.sparse_tag),
        };
        let bytes = container::row_bytes(&self.head.params, row.kind, row.level);
        Ok(RowFacts { kind, element, level: row.level, digit: row.digit, digits: row.digits, bytes, seed: row.seed })
    }

    /// Checks a whole row: its checksum and its residues. Takes a millisecond of CPU time for each megabyte, so call
    /// this outside the async threads.
    pub fn check_row(&self, bytes: &[u8]) -> Result<(), ApiError> {
        container::read_row(&self.head, bytes).map(drop).map_err(|error| refused("eval_key", &error))
    }

    /// Returns the size in bytes of the whole key, which the head announces.
    pub fn bytes(&self) -> u64 {
        (KEY_HEAD_BYTES as u64).saturating_add(self.head.bytes)
    }
}

/// Reads a ciphertext under the key with these parameters and this fingerprint (readings C17). Takes CPU time for every
/// byte, so call this outside the async threads.
pub fn read_ciphertext(bytes: &[u8], params: &Params, fingerprint: [u8; 8]) -> Result<CiphertextFacts, ApiError> {
    let read = container::read_ciphertext(bytes, params, fingerprint);
    let read = read.map_err(|error| match error {
        Error::SecretKey => secret_key_rejected(),
        // a well-formed container that has another secret key's fingerprint in its frame
        _ if bytes.len() > 16
            && bytes[8..16] != fingerprint
            && container::read_ciphertext(bytes, params, named(bytes)).is_ok() =>
        {
            ApiError::new(Code::MismatchedKey, "the ciphertext was made under another key")
                .at("ciphertext", "made under another key")
        }
        error => ApiError::new(Code::InvalidCiphertext, format!("not a usable ciphertext: {error}"))
            .at("ciphertext", error.to_string()),
    })?;
    Ok(CiphertextFacts {
        level: read.level,
        scale: read.scale,
        value_bound: read.noise.value_bound,
        variance: read.noise.variance,
        tail: read.noise.tail,
        sources: read.noise.sources,
        seed: container::ciphertext_seed(bytes),
    })
}

/// Reads the fingerprint in a container's frame: that of the secret key to which the container belongs.
fn named(bytes: &[u8]) -> [u8; 8] {
    bytes[8..16].try_into().expect("eight bytes")
}

fn refused(member: &'static str, error: &Error) -> ApiError {
    match error {
        Error::SecretKey => secret_key_rejected(),
        error => {
            ApiError::new(Code::InvalidParams, format!("{member} is not usable: {error}")).at(member, error.to_string())
        }
    }
}
