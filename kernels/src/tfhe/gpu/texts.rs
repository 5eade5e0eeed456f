//! The kernel texts of gates in `shaders/`.

pub use crate::gpu::source::PLACE;
use crate::gpu::source::{Text, cuda_text, text};

/// Helper: converts residues to torus words.
pub const TORUS: Text = text!("torus");
/// Sums of gates and cells.
pub const CELLS: Text = text!("cells");
/// Mod switch.
pub const MOD_SWITCH: Text = text!("mod_switch");
/// Blind rotation.
pub const BLIND_ROTATE: Text = text!("blind_rotate");
/// Helper: asynchronous copies, and groups that read each other's memory.
pub const ASYNC: Text = cuda_text!("blind_rotate.async");
/// Helper: transforms in registers.
pub const REGISTERS: Text = cuda_text!("blind_rotate.registers");
/// Blind rotation with a warp for each polynomial.
pub const BLIND_ROTATE_WARP: Text = cuda_text!("blind_rotate.warp");
/// Blind rotation in which several groups share a row.
pub const BLIND_ROTATE_CLUSTER: Text = cuda_text!("blind_rotate.cluster");
/// Sample extraction.
pub const SAMPLE_EXTRACT: Text = text!("sample_extract");
/// Key switch.
pub const LWE_KEY_SWITCH: Text = text!("lwe_key_switch");
