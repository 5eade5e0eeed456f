//! What the suites share.

pub mod canary;
pub mod database;
pub mod evaluation_key;
pub mod host_cuda;
pub mod http;
pub mod issuer;
pub mod keys;
pub mod ledger;
pub mod mailbox;
pub mod naive;
pub mod numbers;
pub mod payments;
pub mod receiver;
pub mod redis;
pub mod s3;
pub mod server;
pub mod small_key;
pub mod users;
pub mod wire;

pub use server::TestServer;
