//! The CPU as a device: its memory, its vectors, its threads, and the ring's transforms on them.

pub(crate) mod ahead;
mod arena;
pub mod automorphism;
pub mod base_convert;
mod chunks;
pub(crate) mod gadget;
mod host_memory;
pub mod memory;
pub mod ntt;
pub(crate) mod pointwise;
pub(crate) mod simd;

use crate::backend::{Backend, DeviceInfo};
use crate::error::Result;
pub use arena::Arena;
pub use host_memory::host_memory_bytes;
pub use simd::Isa;

/// Largest number of rows that are computed together, so that all of them use one part of the key at the same time. The
/// working data of this many rows still fits in the L2 cache beside a part of the key.
pub(crate) const GROUP_ROWS_MAX: usize = 16;

/// The CPU as a device.
pub struct Cpu {
    info: DeviceInfo,
    pub(crate) isa: Isa,
    /// Number of threads that compute a call.
    pub(crate) threads: usize,
}

impl Cpu {
    /// Makes a CPU device with a given instruction set and number of threads, for benches and tests. More than one
    /// thread needs the feature `parallel`.
    ///
    /// # Panics
    /// When this CPU lacks the instruction set.
    pub fn with(isa: Isa, threads: usize) -> Cpu {
        assert!(Isa::available().contains(&isa), "this processor has no {}", isa.name());
        let threads = if cfg!(feature = "parallel") { threads.max(1) } else { 1 };
        let info = DeviceInfo {
            backend: format!("cpu-{}", isa.name()),
            name: processor_name(),
            // the other half of the memory is for the host: seeded keys, operands, the service
            memory_bytes: host_memory_bytes() / 2,
            arena_bytes_max: u64::MAX,
            rows_max: GROUP_ROWS_MAX * threads * 4,
            batches_in_flight_max: 1,
            // twice the number of threads, so that a thread that finishes a short batch finds another batch
            keys_together_max: if threads > 1 { 2 * threads } else { 1 },
        };
        Cpu { info, isa, threads }
    }
}

pub(crate) fn threads_available() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get())
}

/// Returns the CPU's name, or its architecture if the system gives no name.
fn processor_name() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    told.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Calls `work` on each item of `all`, on all threads.
pub(crate) fn for_each<T: Send, F>(threads: usize, all: &mut [T], work: F) -> Result<()>
where
    F: Fn(&mut T) -> Result<()> + Send + Sync,
{
    #[cfg(feature = "parallel")]
    if threads > 1 && all.len() > 1 {
        use rayon::prelude::*;
        return all.par_iter_mut().try_for_each(work);
    }
    let _ = threads;
    all.iter_mut().try_for_each(work)
}

/// Calls `work` on each chunk of `a` together with the chunk of `b` that has the same index. All threads are used if
/// there is more than one chunk.
pub(crate) fn for_each_pair<F>(
    threads: usize,
    a: &[u32],
    a_chunk: usize,
    b: &mut [u32],
    b_chunk: usize,
    work: F,
) -> Result<()>
where
    F: Fn(&[u32], &mut [u32]) -> Result<()> + Send + Sync,
{
    #[cfg(feature = "parallel")]
    if threads > 1 && a.len() > a_chunk {
        use rayon::prelude::*;
        return a.par_chunks(a_chunk).zip(b.par_chunks_mut(b_chunk)).try_for_each(|(a, b)| work(a, b));
    }
    let _ = threads;
    a.chunks(a_chunk).zip(b.chunks_mut(b_chunk)).try_for_each(|(a, b)| work(a, b))
}

/// Calls `work(i, chunk)` for every chunk of `out`.
pub(crate) fn for_each_chunk<T: Send, F>(threads: usize, out: &mut [T], chunk: usize, work: F)
where
    F: Fn(usize, &mut [T]) + Send + Sync,
{
    #[cfg(feature = "parallel")]
    if threads > 1 {
        use rayon::prelude::*;
        return out.par_chunks_mut(chunk).enumerate().for_each(|(i, out)| work(i, out));
    }
    let _ = threads;
    out.chunks_mut(chunk).enumerate().for_each(|(i, out)| work(i, out));
}

impl Backend for Cpu {
    type Arena = Arena;
    /// The words to read. They are already there, because a call returns only when its work is done.
    type Pending = Vec<u32>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arena(&self, row_words: usize, slots: usize) -> Result<Arena> {
        Arena::zeroed(row_words, slots)
    }

    fn grow(&self, arena: &mut Arena, slots: usize) -> Result<()> {
        arena.grow(slots)
    }

    fn write(&self, arena: &mut Arena, first: u32, words: &[u32]) -> Result<()> {
        arena.write(first, words);
        Ok(())
    }

    fn read(&self, arena: &Arena, slots: &[u32]) -> Result<Vec<u32>> {
        let mut words = Vec::with_capacity(slots.len() * arena.row_words);
        slots.iter().for_each(|&slot| words.extend_from_slice(arena.row(slot)));
        Ok(words)
    }

    fn finish(&self, pending: Vec<u32>) -> Result<Vec<u32>> {
        Ok(pending)
    }
}
