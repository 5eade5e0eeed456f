//! The mathematics of Ango. A module depends only on modules before it in this order: modular < ring, conversion < backend <
//! cpu, gpu < tfhe, ckks. No module uses a clock, the network or JSON.

pub mod backend;
pub mod bytes;
pub mod ckks;
pub mod container;
pub mod conversion;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod detect;
pub mod error;
pub mod gpu;
pub mod modular;
pub mod ring;
pub mod schemes;
pub mod security;
pub mod stems;
pub mod tfhe;
pub mod tfhe_rs;
#[cfg(feature = "wgpu")]
pub mod wgpu;
pub mod xof;

pub use backend::{Backend, DeviceInfo};
pub use error::{Error, Result};
pub use schemes::{Card, Schemes};
