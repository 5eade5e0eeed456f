//! The texts of gates in `shaders/`.

use crate::gpu::source::{Text, cuda_text, text};

/// Residues as torus words: a helper.
pub const TORUS: Text = text!("torus");
/// From the buffer that an entry is given to another, or to what is in it.
pub const DISTANCE: Text = cuda_text!("distance");
/// Linear parts of gates, and NOT.
pub const LINEAR: Text = text!("linear");
/// What cells add up.
pub const CELLS: Text = text!("cells");
/// Modulus switch.
pub const MOD_SWITCH: Text = text!("mod_switch");
/// Blind rotation.
pub const BLIND_ROTATE: Text = text!("blind_rotate");
/// Copies beside the threads, groups that see each other's memory.
pub const ASYNC: Text = cuda_text!("blind_rotate.async");
/// Transforms in registers.
pub const REGISTERS: Text = cuda_text!("blind_rotate.registers");
/// Blind rotation, a warp a polynomial.
pub const BLIND_ROTATE_WARP: Text = cuda_text!("blind_rotate.warp");
/// Blind rotation, a row over several groups.
pub const BLIND_ROTATE_CLUSTER: Text = cuda_text!("blind_rotate.cluster");
/// Sample extraction.
pub const SAMPLE_EXTRACT: Text = text!("sample_extract");
/// Key switch.
pub const LWE_KEY_SWITCH: Text = text!("lwe_key_switch");
