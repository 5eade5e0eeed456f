//! The data that client and service exchange: request and response types, typed ids, money, error codes.
//!
//! Only plain data and serde, so that clients can use the crate anywhere. One file per section of the platform
//! specification; names on the wire are the specification's. With the feature `openapi` every type has an OpenAPI
//! schema.

pub mod accounts;
pub mod billing;
pub mod ciphertexts;
pub mod circuits;
pub mod compute;
pub mod encryption_keys;
pub mod error;
pub mod gates;
pub mod health;
pub mod ids;
pub mod keys;
mod lists;
pub mod models;
pub mod money;
mod numbers;
mod objects;
pub mod octets;
pub mod office;
pub mod pages;
pub mod params;
pub mod seeds;
pub mod sign_in;
pub mod user_keys;
pub mod webhooks;
pub mod words;

pub use accounts::{Environment, KeyStatus, Plan, Role};
pub use error::{Code, Detail, ErrorBody, ErrorEnvelope};
pub use ids::{
    AccountId, CiphertextId, EmailId, EncryptionKeyId, EventId, HandleId, InvoiceId, KeyId, LineageId, OperationId,
    RequestId, SessionId, SignInId, TransferId, UploadId, UsageId, UserId, WebhookId,
};
pub use money::{MicroYen, MilliYen, NanoUsd};
pub use words::Word;
