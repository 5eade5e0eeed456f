//! Numbers on a card, written once for every [`crate::gpu::Gpu`].
//!
//! `steps` turns the steps of a level into jobs, a list for each kernel (`sections`). One launch runs all jobs of a list, of
//! all plans and keys, so a level is as many launches as its kinds of steps need: eight for a key switch. `run` starts
//! all levels of a call as one sequence. A row of residues is in the order of [`crate::ring::Ring::forward`].

mod compiled;
mod constants;
mod kernels;
mod part;
mod run;
mod sections;
mod steps;
mod tables;
#[cfg(test)]
mod tests;
mod weights;

pub use compiled::CompiledStems;
pub use kernels::Kernels;
pub use part::Part;
pub use run::Batch;
pub use tables::Tables;

/// Units of a plan's steps that take as long as a gate. By the model of both kernels on an H200, a unit takes about a
/// fifteenth of a gate; no card has measured the ratio yet.
pub const UNITS_OF_A_GATE: u32 = 16;
