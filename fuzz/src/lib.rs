//! What the targets share.

use kernels::container::{CHECKSUM_BYTES, HEADER_BYTES};
use sha2::{Digest, Sha256};

/// The same bytes as a container whose length and checksum are right, so that what comes after those checks is reached;
/// none if there is no room for a header.
pub fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let payload = bytes.len().checked_sub(HEADER_BYTES)? as u64;
    bytes[16..24].copy_from_slice(&payload.to_le_bytes());
    let mut hash = Sha256::new();
    hash.update(&bytes[..HEADER_BYTES - CHECKSUM_BYTES]);
    hash.update(&bytes[HEADER_BYTES..]);
    bytes[HEADER_BYTES - CHECKSUM_BYTES..HEADER_BYTES].copy_from_slice(&hash.finalize()[..CHECKSUM_BYTES]);
    Some(bytes)
}
