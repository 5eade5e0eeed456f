//! Arithmetic on a device: what a device must be able to do for this scheme, beside memory ([`Backend`]).

use std::ops::Range;

use super::params::{Params, PartKind};
use super::plan::Plan;
use crate::backend::Backend;
use crate::error::{Error, Result};

/// A part of an evaluation key by its shape: what it is for, and the highest level of ciphertexts it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct PartShape {
    /// Parameters of the key.
    pub params: Params,
    /// What it switches from.
    pub kind: PartKind,
    /// Its level.
    pub level: usize,
}

impl PartShape {
    /// Its rows: a digit each.
    pub fn digits(&self) -> Vec<Vec<usize>> {
        self.params.digits(self.kind, self.level)
    }

    /// Words of a row's body: `[primes][N]`.
    pub fn body_words(&self) -> usize {
        self.params.key_primes(self.level).len() * self.params.n()
    }
}

/// A row of a part as it travels: `body` is `[primes of the part's level and special ones][N]` words in the order of
/// [`crate::ring::Ring::forward`], each below its prime; the mask is expanded from the seed.
pub struct SeededRow<'a> {
    /// Its number among the part's digits.
    pub digit: usize,
    /// Of the mask ([`crate::xof`], domain [`crate::xof::DOMAIN_SWITCHING_KEY`]).
    pub seed: &'a [u8; 32],
    /// The body.
    pub body: &'a [u32],
}

/// Steps of one level of a plan.
pub struct PlannedSteps<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Which of its steps.
    pub steps: Range<usize>,
    /// The arena's slot of each of the plan's.
    pub slots: &'a [u32],
    /// Whether inputs and plaintexts were written and have not been used: they come in the order of
    /// [`crate::ring::Ring::forward`].
    pub begins: bool,
    /// Whether the outputs are read afterwards, in that order again.
    pub completes: bool,
}

/// A batch: steps of plans of one key over one arena of one device, whose types `P` and `A` are.
pub struct KeyedSteps<'a, P, A> {
    /// The parts of the key that the steps need.
    pub parts: Vec<(PartKind, &'a P)>,
    /// Where the words are.
    pub arena: &'a mut A,
    /// The steps, none of which reads what another of them writes.
    pub plans: &'a [PlannedSteps<'a>],
}

/// Arithmetic on a device. One that has none names [`NoPart`] and nothing else.
pub trait Arithmetic: Backend {
    /// A part of an evaluation key on this device. Overwritten on drop.
    type Part: Send;

    /// Bytes that a part takes on this device; `None`: it does not compute on numbers.
    fn part_bytes(&self, _shape: &PartShape) -> Option<u64> {
        None
    }

    /// Makes ready for keys of these parameters. May take a second; any thread may call it, and the device works on meanwhile.
    fn prepare_numbers(&self, _params: &Params) -> Result<()> {
        Ok(())
    }

    /// Room for a part, with nothing in it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when there is not that much.
    fn room_for_part(&self, _shape: &PartShape) -> Result<Self::Part> {
        unsupported()
    }

    /// Expands a row's mask and lays the row out for this device.
    fn load_row(&self, _into: &mut Self::Part, _row: &SeededRow<'_>) -> Result<()> {
        unsupported()
    }

    /// Starts batches, each with parts of its own key, then reads the outputs of the plans that complete, batch after batch and plan
    /// after plan.
    ///
    /// # Panics
    /// When a slot is not in its batch's arena, or a part is missing.
    fn run(&self, _batches: &mut [KeyedSteps<'_, Self::Part, Self::Arena>]) -> Result<Self::Pending> {
        unsupported()
    }
}

/// The part of a device without arithmetic.
pub enum NoPart {}

fn unsupported<T>() -> Result<T> {
    Err(Error::Unavailable("this device does not compute on numbers".into()))
}
