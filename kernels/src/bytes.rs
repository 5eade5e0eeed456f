//! The reasons for which readers refuse bytes, and the conversion between words and bytes.

/// The reason why a reader refuses bytes. The service maps these errors to the specification's codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes hold a secret key, either of Ango or of tfhe-rs (a client key; readings K5). A secret key must never
    /// be sent to a server.
    #[error("these bytes are a secret key")]
    SecretKey,
    /// The bytes are neither an Ango container nor in a form of tfhe-rs.
    #[error("the bytes are neither an Ango container nor a tfhe-rs object")]
    UnknownForm,
    /// The bytes are an Ango container of a version that this build does not read.
    #[error("container version {0} is not supported")]
    UnknownVersion(u16),
    /// The bytes are a well-formed object of another kind than the caller asked for.
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

/// Reads `bytes` as little-endian words. Up to three remaining bytes are ignored.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
}

/// Appends words to `out`, each in little-endian byte order.
pub(crate) fn put_words(out: &mut Vec<u8>, words: &[u32]) {
    out.reserve(4 * words.len());
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
