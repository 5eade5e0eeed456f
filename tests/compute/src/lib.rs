//! Code that the suites over `kernels`, `engine` and `client` share.

pub mod counted;
pub mod evaluation_key;
pub mod host_cuda;
pub mod naive;
pub mod small_key;
