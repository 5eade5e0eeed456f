//! What a device must be able to do. One implementation a device kind; everything above speaks plain words.

use crate::error::Result;
use crate::tfhe::{EvaluationKey, Gate, Params};

/// A device and what the engine may ask of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Short build string for `fhe_engine` (readings O7): `cpu-avx512`, `cpu-avx2`, `cpu-portable`, `cuda`, `wgpu`.
    pub backend: String,
    /// The processor's or card's own name.
    pub name: String,
    /// Memory for keys and rows, in bytes.
    pub memory_bytes: u64,
    /// Bootstraps of one batch beyond which nothing gets faster.
    pub rows_max: usize,
    /// Batches that may be given to the device before the first of them is [`Backend::finish`]ed: 1 where a batch is
    /// computed by the caller's own threads, 2 where copies of one overlap with the work of the other.
    pub batches_in_flight_max: usize,
    /// Batches of different keys, of few rows each, that gain by one call of [`Backend::evaluate_together`]; 1: none do.
    pub keys_together_max: usize,
}

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

/// A batch: gates of one key over one arena.
pub struct KeyedGates<'a, B: Backend + ?Sized> {
    /// The key of all gates.
    pub key: &'a B::Key,
    /// Where operands and results are.
    pub arena: &'a mut B::Arena,
    /// Gates, none of which reads what another of them writes.
    pub gates: &'a [SlotGate],
    /// Slots that are read afterwards.
    pub reads: &'a [u32],
}

/// One device, opened. Results are the same words on every backend (design/arithmetic.md 1).
///
/// Work is ordered: what is written before an [`Backend::evaluate`] is read by it, and its results are read by the next.
/// All gates of a call use one key. Slots are rows of `[n + 1]` words.
pub trait Backend: Send + Sync + 'static {
    /// An evaluation key on this device, in the order its kernels read. Overwritten on drop.
    type Key: Send;

    /// Ciphertexts in this device's memory: `[slots][n + 1]` words. Overwritten on drop.
    type Arena: Send;

    /// Batches of one call under way, with the words that will be read when they are done.
    type Pending: Send;

    /// What this device is.
    fn info(&self) -> &DeviceInfo;

    /// Makes ready for keys of these parameters: compiles what they need and what is not compiled yet. May take seconds; any
    /// thread may call it, and the device works on meanwhile.
    fn prepare(&self, _params: &Params) -> Result<()> {
        Ok(())
    }

    /// Expands the key's masks and lays it out for this device.
    fn load_key(&self, key: &EvaluationKey) -> Result<Self::Key>;

    /// Bytes that a key of these parameters takes on this device.
    fn key_bytes(&self, params: &Params) -> u64;

    /// Room for `slots` ciphertexts of these parameters, all zero.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when there is not that much.
    fn arena(&self, params: &Params, slots: usize) -> Result<Self::Arena>;

    /// Makes an arena larger: slots keep their words, those added are zero. Both sizes are in memory until it returns.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when there is not that much; the arena is then as it was.
    ///
    /// # Panics
    /// When the arena has more slots than that.
    fn grow(&self, arena: &mut Self::Arena, slots: usize) -> Result<()>;

    /// Copies `words`, whole rows of `n + 1`, to the slots from `first` on.
    fn write(&self, arena: &mut Self::Arena, first: u32, words: &[u32]) -> Result<()>;

    /// Starts batches, each with a key of its own: evaluates the gates of all of them, then reads their slots. Batches of few
    /// rows run side by side, so that together they fill a device that none of them would fill.
    /// NOT is a negation, MUX two bootstraps whose extracted samples are added before one key switch, all others one
    /// bootstrap and one key switch (docs/wire-format.md 8).
    ///
    /// # Panics
    /// When a slot is not in its batch's arena.
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Self>]) -> Result<Self::Pending>;

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

    /// Waits until what a call started is done, or until `wanted` says that there is something else to do for the caller, who
    /// asks again later. True: [`Backend::finish`] will not wait. A device that cannot tell says so at once.
    fn wait(&self, _pending: &Self::Pending, _wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        Ok(true)
    }

    /// Waits for what one call started: the words of its `reads`, `[reads][n + 1]`, batch after batch.
    fn finish(&self, pending: Self::Pending) -> Result<Vec<u32>>;

    /// Blind rotation and extraction alone, for tests and noise measurements: `inputs` is `[rows][n + 1]` words on the
    /// torus; the result is `[rows][kN + 1]` words on the torus, bits of amplitude 1/8 under the ring key.
    fn bootstrap(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;

    /// Key switch alone, likewise: `[rows][kN + 1]` words under the ring key to `[rows][n + 1]` under the small key.
    fn key_switch(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;
}
