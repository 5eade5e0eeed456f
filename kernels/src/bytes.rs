//! What all readers of bytes share: why they refuse, and words in bytes.

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

/// Little-endian words of `bytes`; a remainder of under four bytes is left out.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
}

/// Appends words, little-endian.
pub(crate) fn put_words(out: &mut Vec<u8>, words: &[u32]) {
    out.reserve(4 * words.len());
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
