//! Why the engine did not do what was asked, named by what the client can do about it.

use std::time::Duration;

/// The engine's refusals and failures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A queue is full (or the host has no room for another key): try again after this long (readings E8).
    #[error("busy, retry after {retry_after:?}")]
    Busy {
        /// A guess at when there will be room, at least a second.
        retry_after: Duration,
    },
    /// The deadline passed before the work was done; nothing of it counts (readings E9).
    #[error("deadline passed")]
    DeadlinePassed,
    /// The session is closed or was never open.
    #[error("session gone")]
    Gone,
    /// The operation was cancelled before it was done.
    #[error("cancelled")]
    Cancelled,
    /// The engine is shutting down and takes no new work.
    #[error("shutting down")]
    ShuttingDown,
    /// The device failed; the work may be sent again.
    #[error("device failed: {0}")]
    Device(String),
    /// The session's key could not be read where it rests; the work may be sent again.
    #[error("the key could not be read: {0}")]
    Key(String),
    /// The key alone is larger than all of the device's room for keys: only another device or setting helps.
    #[error("the key takes {bytes} bytes on the device, which has {bytes_max} for keys")]
    KeyTooLarge {
        /// Bytes of the prepared key.
        bytes: u64,
        /// Bytes for prepared keys altogether.
        bytes_max: u64,
    },
    /// The circuit alone is larger than a bound: only another device or setting helps.
    #[error("the circuit takes {needed} {of}, more than {max}")]
    CircuitTooLarge {
        /// What it has too many of: gates, bytes on the device, bytes of inputs and outputs.
        of: &'static str,
        /// How many.
        needed: u64,
        /// How many there may be.
        max: u64,
    },
    /// A setting is out of range; the text names it.
    #[error("{0}")]
    Config(String),
}
