//! What endpoints share: addresses, bodies, answers, errors, pages of lists, requests sent again, the API's description.

pub mod openapi;
pub mod peer;

pub(crate) mod base64_text;
pub(crate) mod body;
pub(crate) mod cors;
pub(crate) mod edge;
pub(crate) mod envelope;
pub(crate) mod error;
pub(crate) mod idempotency;
pub(crate) mod json;
pub(crate) mod octets;
pub(crate) mod offload;
pub(crate) mod pagination;
pub(crate) mod path;
