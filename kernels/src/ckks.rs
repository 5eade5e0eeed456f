//! Arithmetic on encrypted numbers: RNS-CKKS (Cheon, Kim, Kim, Song, eprint 2016/421; RNS form: eprint 2018/931).
//!
//! A plaintext is a vector of `N / 2` numbers, its slots. Primes are below `2^30`; a ciphertext modulus is the product
//! of a set of primes ([`Chain`]).

pub mod backend;
pub mod bootstrap;
pub mod chain;
pub mod ciphertext;
pub mod container;
pub mod cpu;
mod divisions;
pub mod encode;
pub mod gpu;
pub mod keys;
pub mod matmul;
mod matrices;
pub mod noise;
pub mod operation;
pub mod params;
pub mod plaintexts;
pub mod plan;
pub mod polynomial;
pub mod room;
pub mod rotation;
pub mod sources;
mod stages;
pub mod weights;

pub use backend::{Arithmetic, KeyedSteps, PartShape, PlannedSteps, SeededRow, Unsupported};
pub use chain::{Chain, Level};
pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use keys::{KeyRow, PublicKey, RowHeader};
pub use noise::{Noise, NoiseBudget};
pub use params::{Params, ParamsError, ParamsLiteral, PartKind, SecurityLevel};
pub use plan::{Plan, PlanBuilder, PlannedValue};
