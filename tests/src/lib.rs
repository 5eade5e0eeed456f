//! What the suites share.

pub mod host_cuda;
pub mod http;
pub mod keys;
pub mod naive;
pub mod server;

pub use server::TestServer;
