//! What can go wrong below the engine, named by what the caller can do about it.

/// A backend's failure. What a caller got wrong in code is an assertion instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The backend, its driver or its adapter is not on this machine; another backend may be.
    #[error("backend unavailable: {0}")]
    Unavailable(String),
    /// The device has no room; evict something and try again.
    #[error("device out of memory: {0}")]
    OutOfMemory(String),
    /// A kernel did not compile for this device; a bug or an unsupported driver.
    #[error("kernel failed to compile: {0}")]
    Compile(String),
    /// A call failed; its results are not to be used. The next one may succeed.
    #[error("device failed: {0}")]
    Device(String),
    /// The device is gone, or in a state from which no call succeeds any more.
    #[error("device lost: {0}")]
    Lost(String),
}

/// Result of a backend call.
pub type Result<T> = std::result::Result<T, Error>;
