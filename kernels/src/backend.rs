//! The interface of a device that all schemes share: memory for rows of words, and calls that write and read these
//! rows. Each scheme adds a trait for the scheme's computations on the rows.

use std::time::Duration;

use crate::error::Result;

/// How long a device with work may finish nothing before it counts as lost. The time exceeds the longest wait for a driver
/// that works: the wait while it compiles kernels for a key of a new shape.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A device's description, with the limits that the engine needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Short name of the backend, for the API field `fhe_engine` (readings O7): `cpu-avx512`, `cpu-avx2`,
    /// `cpu-portable`, `cuda`, `wgpu`.
    pub backend: String,
    /// Name of the CPU or card, as the system gives it.
    pub name: String,
    /// Memory for keys and rows, in bytes.
    pub memory_bytes: u64,
    /// Largest size of one arena, in bytes: what a kernel reaches in one call. [`u64::MAX`]: as much as there is memory.
    pub arena_bytes_max: u64,
    /// Largest useful number of bootstraps in a batch: larger batches are not faster.
    pub rows_max: usize,
    /// Largest number of batches that may be started but not yet [`Backend::finish`]ed: 1 if the caller's threads
    /// compute a batch, 2 if the copies of one batch overlap with the work of another batch.
    pub batches_in_flight_max: usize,
    /// Largest number of batches, each with another key and few rows, that one call should take together
    /// ([`crate::tfhe::Gates::evaluate_together`]), because this call is faster than separate calls; 1 if it would not
    /// be faster.
    pub keys_together_max: usize,
}

/// An opened device. Every backend computes the same words (design/arithmetic.md 1).
///
/// Calls are ordered: each call sees the words that earlier calls wrote, and later calls see its results.
pub trait Backend: Send + Sync + 'static {
    /// Rows of words in this device's memory, `[slots][row_words]`. Overwritten on drop.
    type Arena: Send;

    /// Work in progress on the device, together with the words to read when this work is done.
    type Pending: Send;

    /// The device's description.
    fn info(&self) -> &DeviceInfo;

    /// Allocates `slots` rows of `row_words` words, all zero.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when the device has too little memory.
    fn arena(&self, row_words: usize, slots: usize) -> Result<Self::Arena>;

    /// Grows an arena to `slots` slots. Existing rows keep their words; new rows are zero.
    ///
    /// On CPUs and on cards that reserve addresses, memory for the new slots is added, and no words move. On a CPU, each
    /// growth makes later work with the arena a little slower, so an arena that grows often should grow by a fraction of
    /// its size. On other cards, a kernel reaches one buffer, which all sessions share. If that buffer has no room, the
    /// arena is copied to another buffer, and both copies exist until the copy is done.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when the device has too little memory; the arena is then unchanged.
    ///
    /// # Panics
    /// When the arena already has more than `slots` slots.
    fn grow(&self, arena: &mut Self::Arena, slots: usize) -> Result<()>;

    /// Copies `words`, which are whole rows, to the slots from `first` on.
    fn write(&self, arena: &mut Self::Arena, first: u32, words: &[u32]) -> Result<()>;

    /// Starts to read the rows of these slots.
    ///
    /// # Panics
    /// When a slot is outside the arena.
    fn read(&self, arena: &Self::Arena, slots: &[u32]) -> Result<Self::Pending>;

    /// Waits until the work of a call is done. Returns earlier when `wanted` returns true: the caller then does other
    /// work, and calls this function again later. The result is true if the work is done, so that [`Backend::finish`]
    /// will not wait. A device that cannot observe its progress returns true at once.
    fn wait(&self, _pending: &Self::Pending, _wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        Ok(true)
    }

    /// Waits for a call's work and returns the rows that the call reads, `[reads][row_words]`.
    fn finish(&self, pending: Self::Pending) -> Result<Vec<u32>>;
}
