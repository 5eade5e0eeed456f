//! Why the engine refused or failed a request, classified by how the client can react.

use std::time::Duration;

/// The engine's refusals and failures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A queue is full, or the host has no room for another key. The client may try again after this time (readings
    /// E8).
    #[error("busy, retry after {retry_after:?}")]
    Busy {
        /// Estimated time until there is room; at least a second.
        retry_after: Duration,
    },
    /// The deadline passed before the work was done. No results of the work are delivered (readings E9).
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
    /// The device failed. The client may send the work again.
    #[error("device failed: {0}")]
    Device(String),
    /// The session's key could not be read from its source. The client may send the work again.
    #[error("the key could not be read: {0}")]
    Key(String),
    /// The key alone exceeds the device's memory for keys. Trying again does not help: another device or setting is
    /// needed.
    #[error("the key takes {bytes} bytes on the device, which has {bytes_max} bytes for keys")]
    KeyTooLarge {
        /// Bytes of the prepared key.
        bytes: u64,
        /// The device's memory for prepared keys, in bytes.
        bytes_max: u64,
    },
    /// The circuit alone exceeds a bound. Trying again does not help: another device or setting is needed.
    #[error("the operation takes {needed} {of}; the largest has {max}")]
    CircuitTooLarge {
        /// The bounded quantity.
        of: CircuitBound,
        /// The quantity that the circuit needs.
        needed: u64,
        /// The bound.
        max: u64,
    },
    /// A setting is out of range. The text says which setting.
    #[error("{0}")]
    Config(String),
}

/// A quantity of a circuit, or of an operation on numbers, that has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CircuitBound {
    /// Rows, such as bootstraps.
    #[error("rows")]
    Rows,
    /// Host memory for inputs and outputs, in bytes.
    #[error("bytes of inputs and outputs")]
    HostBytes,
    /// Memory of a device for all values of the circuit, in bytes.
    #[error("bytes on the device")]
    DeviceBytes,
}
