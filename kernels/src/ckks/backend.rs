//! CKKS on a device. A device implements the trait [`Arithmetic`] to compute on encrypted numbers, in addition to the
//! trait [`Backend`] for memory.

use std::ops::Range;

use super::params::{Params, PartKind};
use super::plan::Plan;
use crate::backend::Backend;
use crate::error::{Error, Result};

/// Describes one part of an evaluation key: the switch that the part performs, and the highest level of the ciphertexts
/// that it can switch.
#[derive(Clone, Debug, PartialEq)]
pub struct PartShape {
    /// Parameters of the key.
    pub params: Params,
    /// The kind of the part: the secrets that it switches between.
    pub kind: PartKind,
    /// The part's level.
    pub level: usize,
}

impl PartShape {
    /// Lists the part's digits, each as indices of primes. The part has one row for each digit.
    pub fn digits(&self) -> Vec<Vec<usize>> {
        self.params.digits(self.kind, self.level)
    }

    /// Lists the indices of the part's primes.
    pub fn primes(&self) -> Vec<usize> {
        self.params.key_primes(self.kind, self.level)
    }

    /// Number of words in a row's body, which is `[primes][N]`.
    pub fn body_words(&self) -> usize {
        self.primes().len() * self.params.n()
    }
}

/// A row of a key part in the form in which clients send it. `body` is
/// `[primes of the part's level and special primes][N]` words in the order of [`crate::ring::Ring::forward`], each
/// below its prime. The mask is expanded from the seed.
pub struct SeededRow<'a> {
    /// The row's digit: its index among the part's digits.
    pub digit: usize,
    /// Seed of the mask ([`crate::xof`], domain [`crate::xof::DOMAIN_SWITCHING_KEY`]).
    pub seed: &'a [u8; 32],
    /// Words of the body.
    pub body: &'a [u32],
}

/// Consecutive levels of a plan, or a part of one level, ready to run.
pub struct PlannedSteps<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The range of the plan's steps to run, in order ([`Plan::level_ends`] gives their levels).
    pub steps: Range<usize>,
    /// The arena's slot for each slot of the plan: slot `i` of the plan is slot `slots[i]` of the arena.
    pub slots: &'a [u32],
    /// Whether inputs and plaintexts were just written, in the order of [`crate::ring::Ring::forward`], and no step
    /// has read them yet.
    pub begins: bool,
    /// If the steps begin: the indices of the inputs that were not written, because an earlier plan has left them in
    /// their slots, as an input or as an output. They are in the device's order.
    pub there: &'a [usize],
    /// Whether these steps complete the plan. If so, the outputs are read after the steps, in the order of
    /// [`crate::ring::Ring::forward`].
    pub completes: bool,
}

/// A batch: steps of plans that use one key and one arena.
pub struct KeyedSteps<'a, B: Arithmetic> {
    /// The tables of the key's parameters.
    pub tables: &'a B::Tables,
    /// The parts of the key that the steps need.
    pub parts: Vec<(PartKind, &'a B::Part)>,
    /// The arena that holds the plans' slots.
    pub arena: &'a mut B::Arena,
    /// The steps of each plan. The plans have no slots in common. Steps of one level are independent of each other; the
    /// first levels of all plans may run together, then the second ones, and so on.
    pub plans: &'a [PlannedSteps<'a>],
}

/// CKKS on a device. A device that does not support encrypted numbers sets [`Unsupported`] as both types and keeps the
/// defaults.
pub trait Arithmetic: Backend {
    /// The tables of a parameter set on this device: roots of the transforms, constants of divisions and digits. All
    /// keys of the set share the tables, which contain no secret.
    type Tables: Send;

    /// A part of an evaluation key on this device. Overwritten on drop.
    type Part: Send;

    /// Returns the number of bytes that the tables take on this device; `None` if the device does not support encrypted
    /// numbers.
    fn tables_bytes(&self, _params: &Params) -> Option<u64> {
        None
    }

    /// Prepares the device for keys of these parameters, so that no later call compiles kernels. May be called on any
    /// thread, beside other calls.
    ///
    /// # Errors
    /// The device's error.
    fn prepare_numbers(&self, _params: &Params) -> Result<()> {
        Ok(())
    }

    /// Makes the tables. At the largest degree, the call takes some tens of milliseconds on a CPU.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the device has too little memory.
    fn make_tables(&self, _params: &Params) -> Result<Self::Tables> {
        unsupported()
    }

    /// Returns the number of bytes that a part takes on this device.
    fn part_bytes(&self, _shape: &PartShape) -> u64 {
        u64::MAX
    }

    /// How many units of a plan's steps ([`super::plan::PlannedStep::units`]) take as long as the cheapest gate on this
    /// device, at least 1. The engine uses this ratio to share the device's time between gates and numbers.
    fn units_of_a_gate(&self) -> u32 {
        1
    }

    /// Allocates room for a part; its rows are loaded afterwards. `tables` are those of the part's parameters.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the device has too little memory.
    fn room_for_part(&self, _tables: &Self::Tables, _shape: &PartShape) -> Result<Self::Part> {
        unsupported()
    }

    /// Expands a row's mask and lays the row out for this device.
    fn load_row(&self, _tables: &Self::Tables, _into: &mut Self::Part, _row: &SeededRow<'_>) -> Result<()> {
        unsupported()
    }

    /// Starts batches, each with parts of its own key. When the work is done, [`Backend::finish`] returns the outputs
    /// of all plans that these steps complete, ordered by batch, then by plan.
    ///
    /// # Panics
    /// When a slot is not in its batch's arena, or a part is missing.
    fn run(&self, _batches: &mut [KeyedSteps<'_, Self>]) -> Result<Self::Pending>
    where
        Self: Sized,
    {
        unsupported()
    }
}

/// The tables and parts of a device that does not support encrypted numbers. No value of this type exists.
pub enum Unsupported {}

fn unsupported<T>() -> Result<T> {
    Err(Error::Unavailable("this device does not support encrypted numbers (CKKS)".into()))
}
