//! How a worker gets a key: the answer of the API node that asked, as JSON.

use std::future::Future;
use std::pin::Pin;

use api::encryption_keys::KeyParams;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::super::key::KeyName;
use crate::web::error::ApiError;

/// Where the key of a name is, and how it is opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyAccess {
    /// The key of a gate session.
    Session {
        /// The object in the bucket.
        object: String,
        /// The object's data key, sealed under the fleet's key. Hexadecimal digits.
        secret: String,
        /// The time in milliseconds until the session expires.
        left_ms: u64,
    },
    /// A stored key for encrypted numbers.
    Numbers {
        /// The key's parameters.
        params: KeyParams,
        /// Hexadecimal digits.
        fingerprint: String,
        /// The rows, in the key's order.
        rows: Vec<RowAccess>,
        /// How the worker opens the rows in the bucket. `None`: the worker reads the rows from the API node, because they are
        /// sealed under keys that only API nodes have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<SealedRows>,
    },
}

/// The data key of a stored key's rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedRows {
    /// The material of the rows.
    pub material_id: String,
    /// The data key, sealed under the fleet's key. Hexadecimal digits.
    pub secret: String,
}

/// A row of a stored key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowAccess {
    /// The name of the part's kind.
    pub kind: String,
    /// Galois element of the part.
    pub element: u32,
    /// Level of the part.
    pub level: usize,
    /// Index of the row in the key.
    pub row_index: i64,
    /// The object in the bucket. `None`: the worker reads the row from the API node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

/// Something that is read for a worker.
pub type Reading<T> = Pin<Box<dyn Future<Output = Result<Option<T>, ApiError>> + Send>>;

/// Whether a checkpoint was kept. False: another node has the operation.
pub type Kept = Pin<Box<dyn Future<Output = Result<bool, ApiError>> + Send>>;

/// The checkpoints of operations, as an API node keeps them.
pub trait Checkpoints: Send + Sync {
    /// Returns the last checkpoint of the operation with this id.
    fn read(&self, id: String) -> Reading<Bytes>;

    /// Keeps a checkpoint, in place of the one before.
    fn keep(&self, id: String, bytes: Bytes) -> Kept;
}

/// The keys of a fleet, as an API node knows them.
pub trait FleetKeys: Send + Sync {
    /// Returns the access to a key. `None`: the name means no key, or its session has ended.
    fn access(&self, name: KeyName) -> Reading<KeyAccess>;

    /// Returns the container of a row of a stored key. `None`: there is no such row, or workers read the row from the bucket.
    fn row(&self, name: KeyName, row_index: i64) -> Reading<Zeroizing<Vec<u8>>>;
}
