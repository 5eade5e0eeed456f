//! Keys at rest: a worker finds there the key that a name means, and opens it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::bits::{FetchedKey, StoredKey};
use super::key::KeyName;
use super::numbers::StoredNumbersKey;
use crate::web::error::ApiError;

/// A key that was found by its name.
pub enum RestingKey {
    /// The key of a gate session.
    Session(Arc<StoredKey>),
    /// The key of a gate session of a fleet.
    Fetched(Arc<FetchedKey>),
    /// A stored key for encrypted numbers.
    Numbers(StoredNumbersKey),
}

/// The key of a name, once it is found. `None`: no key of this name is at rest.
pub type Finding = Pin<Box<dyn Future<Output = Result<Option<RestingKey>, ApiError>> + Send>>;

/// The place of the keys at rest.
pub trait KeysAtRest: Send + Sync {
    /// Finds a key. A name that has ended means no key.
    fn find(&self, name: KeyName) -> Finding;

    /// Ends the name of a session's key: from now on, the name means no key. The bytes at rest are removed when no
    /// worker reads them any more. Names of other keys end with their records.
    fn end(&self, name: KeyName);
}
