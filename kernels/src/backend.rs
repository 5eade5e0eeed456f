//! What a device is, without a scheme: rows of words in its memory, written and read. What a scheme computes on them is a
//! trait of the scheme's own over this one.

pub(crate) mod chunks;

use crate::error::Result;

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
    /// Batches of different keys, of few rows each, that gain by one call ([`crate::tfhe::Gates::evaluate_together`]); 1: none
    /// do.
    pub keys_together_max: usize,
}

/// One device, opened. Results are the same words on every backend (design/arithmetic.md 1).
///
/// Work is ordered: what is written before a call is read by it, and its results are read by the next.
pub trait Backend: Send + Sync + 'static {
    /// Rows of words in this device's memory, `[slots][row_words]`. Overwritten on drop.
    type Arena: Send;

    /// Work under way, with the words that will be read when it is done.
    type Pending: Send;

    /// What this device is.
    fn info(&self) -> &DeviceInfo;

    /// Room for `slots` rows of `row_words` words, all zero.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when there is not that much.
    fn arena(&self, row_words: usize, slots: usize) -> Result<Self::Arena>;

    /// Makes an arena larger, to `slots` slots. The rows that it has keep their words; the rows that are added are zero.
    ///
    /// On CPUs and on cards whose kernels are in CUDA this adds memory for the new slots alone, and moves nothing. Work with an
    /// arena takes a little longer with each growth, so an arena that grows often should grow by a part of its size. A WGSL
    /// kernel reaches only the buffer that is bound, so there the arena is copied to a larger buffer, and both are in the
    /// card's memory until the copy is done.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when there is not that much; the arena is then as it was.
    ///
    /// # Panics
    /// When the arena has more slots than that.
    fn grow(&self, arena: &mut Self::Arena, slots: usize) -> Result<()>;

    /// Copies `words`, whole rows, to the slots from `first` on.
    fn write(&self, arena: &mut Self::Arena, first: u32, words: &[u32]) -> Result<()>;

    /// Starts to read the rows of these slots.
    ///
    /// # Panics
    /// When a slot is not in the arena.
    fn read(&self, arena: &Self::Arena, slots: &[u32]) -> Result<Self::Pending>;

    /// Waits until what a call started is done, or until `wanted` says that there is something else to do for the caller, who
    /// asks again later. True: [`Backend::finish`] will not wait. A device that cannot tell says so at once.
    fn wait(&self, _pending: &Self::Pending, _wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        Ok(true)
    }

    /// Waits for what one call started: the words of the rows that it reads, `[reads][row_words]`.
    fn finish(&self, pending: Self::Pending) -> Result<Vec<u32>>;
}
