//! The reasons for which readers refuse bytes, and the conversion between words and bytes.

/// Why bytes are refused. The service maps these errors to the specification's codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes hold a secret key (of Ango, or a tfhe-rs client key; readings K5), which must never be sent to a
    /// server.
    #[error("the upload contains a secret key")]
    SecretKey,
    /// Neither an Ango container nor a form of tfhe-rs.
    #[error("the bytes are neither an Ango container nor a tfhe-rs object")]
    UnknownForm,
    /// A version of the Ango container that this build does not read.
    #[error("container version {0} is not supported")]
    UnknownVersion(u16),
    /// A well-formed object of another kind than the caller asked for.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// The kind of object that the caller expected.
        expected: &'static str,
        /// The kind of object that the bytes hold.
        found: &'static str,
    },
    /// The parameters match no preset, contradict each other, or belong to another session.
    #[error("{0}")]
    Params(String),
    /// The bytes are truncated, too long or damaged, or a value is out of range.
    #[error("{0}")]
    Malformed(String),
}

/// Little-endian words of `bytes`. Up to three remaining bytes are ignored.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
}

/// Appends words, little-endian.
pub(crate) fn put_words(out: &mut Vec<u8>, words: &[u32]) {
    out.reserve(4 * words.len());
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
