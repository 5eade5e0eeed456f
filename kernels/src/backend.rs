//! What a device must be able to do. One implementation a device kind; everything above speaks plain words.

use crate::error::Result;
use crate::tfhe::{EvaluationKey, Params};

/// A device and what the engine may ask of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Short build string for `fhe_engine` (readings O7): `cpu-avx512`, `cpu-avx2`, `cpu-portable`, later `cuda`, `wgpu`.
    pub backend: String,
    /// The processor's or card's own name.
    pub name: String,
    /// Memory for keys and rows, in bytes.
    pub memory_bytes: u64,
    /// Rows of one call beyond which nothing gets faster.
    pub rows_max: usize,
}

/// One device, opened. Results are the same words on every backend (design/arithmetic.md 1).
///
/// Methods are the stems of a gate; `tfhe::bootstrap` strings them together. All rows of a call use one key.
pub trait Backend: Send + 'static {
    /// An evaluation key on this device, in the order its kernels read. Overwritten on drop.
    type Key: Send;

    /// What this device is.
    fn info(&self) -> &DeviceInfo;

    /// Expands the key's masks and lays it out for this device.
    fn load_key(&self, key: &EvaluationKey) -> Result<Self::Key>;

    /// Bytes that a key of these parameters takes on this device.
    fn key_bytes(&self, params: &Params) -> u64;

    /// Blind rotation and extraction: `inputs` is `[rows][n + 1]` words on the torus; the result is `[rows][kN + 1]`
    /// words on the torus, bits of amplitude 1/8 under the ring key.
    fn bootstrap(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;

    /// Key switch from the ring key to the small key: `[rows][kN + 1]` words to `[rows][n + 1]`.
    fn key_switch(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;
}
