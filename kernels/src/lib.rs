//! The mathematics of Ango, as a column: backend < ring < tfhe. No clock, no network, no JSON.

pub mod backend;
pub mod container;
pub mod error;
pub mod tfhe;
pub mod tfhe_rs;

pub use backend::{Backend, DeviceInfo};
pub use error::{Error, Result};
