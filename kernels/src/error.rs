//! Errors below the engine, classified by how the caller can react.

/// A backend's failure. Programming errors of the caller fail assertions instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The backend, its driver or its adapter is not on this machine. Another backend may be available.
    #[error("backend unavailable: {0}")]
    Unavailable(String),
    /// The device has no room; evict something and try again.
    #[error("device out of memory: {0}")]
    OutOfMemory(String),
    /// A kernel did not compile for this device, because of a bug or an unsupported driver.
    #[error("kernel failed to compile: {0}")]
    Compile(String),
    /// A call failed, and its results must not be used. The next call may succeed.
    #[error("device failed: {0}")]
    Device(String),
    /// The device is gone, or no call to it succeeds any more.
    #[error("device lost: {0}")]
    Lost(String),
}

/// Result of a backend call.
pub type Result<T> = std::result::Result<T, Error>;
