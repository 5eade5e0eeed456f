//! Gates on encrypted bits (TFHE, eprint 2018/421), from the parameters to the bootstrapped gate.
//!
//! A bit is an LWE ciphertext on the 32-bit torus with phase `+2^29` (true) or `-2^29` (false). A gate adds its
//! operands ([`gates`]), and one bootstrap ([`bootstrap`]) turns the sum into a fresh bit: mod switch to 2N, blind
//! rotation of a constant polynomial by the phase, extraction of coefficient 0, key switch.

pub mod backend;
pub mod bootstrap;
pub mod builtin;
pub mod cells;
pub mod circuit;
pub mod cost;
pub mod cpu;
pub mod fold;
pub mod gate_list;
pub mod gates;
pub mod gpu;
pub mod keys;
pub mod lwe;
pub mod lwe_list;
pub mod mapping;
pub mod masks;
pub mod network;
pub mod noise;
pub mod params;
pub mod seeded;
pub mod torus;

pub use backend::{Gates, KeyedGates, LevelEnd, LevelRows, SlotGate, Stems};
pub use builtin::Builtin;
pub use cells::{Amplitude, CellKind, NO_CELLS, SlotCells};
pub use circuit::{Circuit, CircuitError, Plan};
pub use gate_list::{GateList, GateRow, OperandBlock, Place};
pub use gates::Gate;
pub use keys::EvaluationKey;
pub use lwe::Lwe;
pub use lwe_list::LweList;
pub use params::{MODULUS, ModSwitch, Params, ParamsError, ParamsLiteral, Preset, RING_MODULUS, ring};
pub use seeded::SeededLweList;
