//! The parts that the suites over the service share.

pub mod canary;
pub mod fleet;
pub mod gates;
pub mod http;
pub mod issuer;
pub mod keys;
pub mod ledger;
pub mod mailbox;
pub mod node;
pub mod numbers;
pub mod payments;
pub mod ports;
pub mod receiver;
pub mod redis;
pub mod s3;
pub mod server;
pub mod users;
pub mod wire;
pub mod worker;

use std::time::Duration;

pub use server::TestServer;

/// Longest time that a test waits for something to become true: much longer than a machine under load takes.
pub const PATIENCE: Duration = Duration::from_secs(300);
