//! Where a session's key rests on the host, and how devices get at it.

use crate::task::{KeyParams, KeyPart};

/// A part of a session's key, by its place: a device needs all parts that a task names, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId(pub u32);

/// A key at rest. The engine keeps the source, not the key: it fetches a part whenever a device is to load it, and drops
/// what it fetched when the device has its own form. The source is dropped when its session is closed.
pub trait KeySource: Send + Sync + 'static {
    /// What is known of the key without reading it.
    fn params(&self) -> KeyParams;

    /// Host memory that it takes while its session is open, in bytes: the key's own where it rests in memory, none where
    /// it rests elsewhere.
    fn host_bytes(&self) -> u64;

    /// Reads a part. Called on a thread of its own, so it may block; it bounds its own waits and repeats what is worth
    /// repeating, since a device loads nothing else meanwhile.
    ///
    /// # Errors
    /// Why it cannot be read, for the operator's log: the session's operations end with [`crate::Error::Key`], and the next
    /// one tries again.
    fn fetch(&self, part: PartId) -> Result<KeyPart, String>;
}
