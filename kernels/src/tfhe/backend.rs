//! Gates on a device: what a device must be able to do for this scheme, beside memory ([`Backend`]).

use crate::backend::Backend;
use crate::error::Result;
use crate::tfhe::{EvaluationKey, Gate, Params};

/// A gate over an arena: reads the slots of its operands, writes its result's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotGate {
    /// The gate.
    pub gate: Gate,
    /// Slots of a, b, sel; those beyond [`Gate::arity`] are not looked at.
    pub operands: [u32; 3],
    /// Slot of the result.
    pub result: u32,
}

/// A batch: gates of one key over one arena of one device, whose types `K` and `A` are.
pub struct KeyedGates<'a, K, A> {
    /// The key of all gates.
    pub key: &'a K,
    /// Where operands and results are.
    pub arena: &'a mut A,
    /// Gates, none of which reads what another of them writes.
    pub gates: &'a [SlotGate],
    /// Slots that are read afterwards.
    pub reads: &'a [u32],
}

/// A device that evaluates gates. All gates of a batch use one key; ciphertexts are rows of `[n + 1]` words.
pub trait Gates: Backend {
    /// An evaluation key on this device, in the order its kernels read. Overwritten on drop.
    type Key: Send;

    /// Makes ready for keys of these parameters: compiles what they need and what is not compiled yet. May take seconds; any
    /// thread may call it, and the device works on meanwhile.
    fn prepare(&self, _params: &Params) -> Result<()> {
        Ok(())
    }

    /// Expands the key's masks and lays it out for this device.
    fn load_key(&self, key: &EvaluationKey) -> Result<Self::Key>;

    /// Bytes that a key of these parameters takes on this device.
    fn key_bytes(&self, params: &Params) -> u64;

    /// Starts batches, each with a key of its own: evaluates the gates of all of them, then reads their slots, batch after batch.
    /// Batches of few rows run side by side, so that together they fill a device that none of them would fill.
    /// NOT is a negation, MUX two bootstraps whose extracted samples are added before one key switch, all others one
    /// bootstrap and one key switch (docs/wire-format.md 8).
    ///
    /// # Panics
    /// When a slot is not in its batch's arena.
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Self::Key, Self::Arena>]) -> Result<Self::Pending>;

    /// Starts one batch.
    ///
    /// # Panics
    /// When a slot is not in the arena.
    fn evaluate(
        &self,
        key: &Self::Key,
        arena: &mut Self::Arena,
        gates: &[SlotGate],
        reads: &[u32],
    ) -> Result<Self::Pending> {
        self.evaluate_together(&mut [KeyedGates { key, arena, gates, reads }])
    }
}

/// The two halves of a gate by themselves, for tests and noise measurements.
pub trait Stems: Gates {
    /// Blind rotation and extraction: `inputs` is `[rows][n + 1]` words on the torus; the result is `[rows][kN + 1]` words on
    /// the torus, bits of amplitude 1/8 under the ring key.
    fn bootstrap(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;

    /// Key switch: `[rows][kN + 1]` words under the ring key to `[rows][n + 1]` under the small key.
    fn key_switch(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;
}
