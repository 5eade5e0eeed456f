//! Errors below the engine, classified by how the caller can react.

use std::any::Any;

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

/// Returns the message of a panic that was caught.
pub fn message_of(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("without a message").to_owned(),
    }
}
