//! The reference and the fallback: one plain function per stem, rows in parallel (feature `parallel`).

mod arena;
mod blind_rotate;
mod fastest;
// elsewhere there are no vectors of doubles yet
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_variables))]
mod fft;
mod host_memory;
mod linear;
mod lwe_key_switch;
mod memory;
mod mod_switch;
pub mod ntt;
mod sample_extract;
mod simd;

use crate::backend::{Backend, DeviceInfo};
use crate::error::Result;
use crate::tfhe::{EvaluationKey, Gates, KeyedGates, Params, Stems};
pub use arena::Arena;
use blind_rotate::BootstrapKey;
pub(crate) use blind_rotate::Decomposition;
pub use host_memory::host_memory_bytes;
use lwe_key_switch::KeySwitchKey;
use memory::Words;
pub use simd::Isa;

/// Rows that go in lock step over a key. Their accumulators must stay in the second-level cache beside a step of the key.
const GROUP_ROWS_MAX: usize = 16;

/// The CPU as a device.
pub struct Cpu {
    info: DeviceInfo,
    isa: Isa,
    /// Threads of a call: all of the machine's, or one.
    threads: usize,
}

/// An evaluation key in this processor's reading order. Overwritten on drop.
pub struct Key {
    bootstrap: BootstrapKey,
    key_switch: KeySwitchKey,
}

impl Key {
    pub(crate) fn params(&self) -> &Params {
        self.bootstrap.params()
    }
}

impl Cpu {
    /// All cores, with the instruction set of this processor that a short race finds fastest.
    pub fn open() -> Cpu {
        Cpu::with(fastest::fastest(), threads_available())
    }

    /// A given instruction set and number of threads (for benches and tests); more than one needs feature `parallel`.
    ///
    /// # Panics
    /// When this processor has not that instruction set.
    pub fn with(isa: Isa, threads: usize) -> Cpu {
        assert!(Isa::available().contains(&isa), "this processor has no {}", isa.name());
        let threads = if cfg!(feature = "parallel") { threads.max(1) } else { 1 };
        let info = DeviceInfo {
            backend: format!("cpu-{}", isa.name()),
            name: processor_name(),
            // the other half is the host's: seeded keys, operands, the service around it
            memory_bytes: host_memory_bytes() / 2,
            rows_max: GROUP_ROWS_MAX * threads * 4,
            batches_in_flight_max: 1,
            // twice, so that a thread whose batches are shorter has another to take
            keys_together_max: if threads > 1 { 2 * threads } else { 1 },
        };
        Cpu { info, isa, threads }
    }

    /// Rows of one thread's turn: at most a group, and as many turns for each thread.
    fn rows_of_a_turn(&self, rows: usize) -> usize {
        let turns = rows.div_ceil(GROUP_ROWS_MAX * self.threads) * self.threads;
        rows.div_ceil(turns.max(1)).max(1)
    }
}

pub(crate) fn threads_available() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get())
}

/// The processor's own name where the system tells it.
fn processor_name() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    told.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Calls `work` on each of `all`, on all threads.
fn for_each<T: Send, F>(threads: usize, all: &mut [T], work: F) -> Result<()>
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

/// Calls `work` on pairs of equally numbered chunks, on all threads where there is more than one chunk.
fn for_each_pair<F>(threads: usize, a: &[u32], a_chunk: usize, b: &mut [u32], b_chunk: usize, work: F) -> Result<()>
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

impl Cpu {
    /// Modulus switch and blind rotation alone, for noise measurements: `inputs` is `[rows][n + 1]` words on the torus, the
    /// result `[rows][k + 1][N]` words in `[0, q)`, polynomials of amplitude 1/8 under the ring key.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    pub fn blind_rotate(&self, key: &Key, inputs: &[u32]) -> Result<Vec<u32>> {
        let key = &key.bootstrap;
        let p = key.params();
        let (row_in, row_out) = (p.lwe_dimension + 1, blind_rotate::accumulator_words(p));
        let rows = inputs.len() / row_in;
        let mut out = vec![0; rows * row_out];
        let turn = self.rows_of_a_turn(rows);
        for_each_pair(self.threads, inputs, turn * row_in, &mut out, turn * row_out, |inputs, accumulators| {
            let mut exponents = inputs.to_vec();
            mod_switch::mod_switch(p.polynomial_size, &mut exponents);
            for (input, accumulator) in exponents.chunks_exact(row_in).zip(accumulators.chunks_exact_mut(row_out)) {
                blind_rotate::start(p, input[p.lwe_dimension] as usize, accumulator);
            }
            key.rotate(&exponents, accumulators)
        })?;
        Ok(out)
    }
}

impl Backend for Cpu {
    type Arena = Arena;
    /// The words: all work is done when `evaluate` returns.
    type Pending = Vec<u32>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arena(&self, row_words: usize, slots: usize) -> Result<Arena> {
        Ok(Arena { words: Words::zeroed(slots * row_words)?, row_words })
    }

    fn grow(&self, arena: &mut Arena, slots: usize) -> Result<()> {
        let mut words = Words::zeroed(slots * arena.row_words)?;
        words[..arena.words.len()].copy_from_slice(&arena.words);
        arena.words = words;
        Ok(())
    }

    fn write(&self, arena: &mut Arena, first: u32, words: &[u32]) -> Result<()> {
        assert!(words.len().is_multiple_of(arena.row_words), "whole rows");
        arena.words[first as usize * arena.row_words..][..words.len()].copy_from_slice(words);
        Ok(())
    }

    fn read(&self, arena: &Arena, slots: &[u32]) -> Result<Vec<u32>> {
        Ok(slots.iter().flat_map(|&slot| arena.row(slot)).copied().collect())
    }

    fn finish(&self, pending: Vec<u32>) -> Result<Vec<u32>> {
        Ok(pending)
    }
}

impl Gates for Cpu {
    type Key = Key;

    fn load_key(&self, key: &EvaluationKey) -> Result<Key> {
        Ok(Key {
            bootstrap: BootstrapKey::load(self.isa, self.threads, key)?,
            key_switch: KeySwitchKey::load(self.isa, key)?,
        })
    }

    fn key_bytes(&self, p: &Params) -> u64 {
        let key_switch = p.key_switch_body_words() * lwe_key_switch::padded_columns(p);
        blind_rotate::key_bytes(self.isa, p) + 4 * key_switch as u64
    }

    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Key, Arena>]) -> Result<Vec<u32>> {
        let evaluate =
            |batch: &mut KeyedGates<'_, Key, Arena>| arena::evaluate(self, batch.key, batch.arena, batch.gates);
        for_each(self.threads, batches, evaluate)?;
        let words = batches.iter().map(|batch| batch.reads.len() * batch.arena.row_words).sum();
        let mut results = Vec::with_capacity(words);
        for batch in &*batches {
            batch.reads.iter().for_each(|&slot| results.extend_from_slice(batch.arena.row(slot)));
        }
        Ok(results)
    }
}

impl Stems for Cpu {
    fn bootstrap(&self, key: &Key, inputs: &[u32]) -> Result<Vec<u32>> {
        let p = key.bootstrap.params();
        let accumulators = self.blind_rotate(key, inputs)?;
        let mut out = vec![0; inputs.len() / (p.lwe_dimension + 1) * (p.extracted_dimension() + 1)];
        let rows = accumulators.chunks_exact(blind_rotate::accumulator_words(p));
        for (accumulator, out) in rows.zip(out.chunks_exact_mut(p.extracted_dimension() + 1)) {
            sample_extract::sample_extract(p, accumulator, out);
        }
        Ok(out)
    }

    fn key_switch(&self, key: &Key, inputs: &[u32]) -> Result<Vec<u32>> {
        let key = &key.key_switch;
        let p = key.params();
        let (row_in, row_out) = (p.extracted_dimension() + 1, p.lwe_dimension + 1);
        let rows = inputs.len() / row_in;
        let mut out = vec![0; rows * row_out];
        let turn = rows.div_ceil(self.threads).max(1);
        for_each_pair(self.threads, inputs, turn * row_in, &mut out, turn * row_out, |inputs, out| {
            lwe_key_switch::key_switch(key, inputs, out)
        })?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_at_most_a_group_and_no_thread_has_more_rows_than_an_even_share_rounded_up() {
        for threads in 1..=5 {
            let cpu = Cpu::with(Isa::Portable, threads);
            for rows in 1..=200usize {
                let turn = cpu.rows_of_a_turn(rows);
                assert!((1..=GROUP_ROWS_MAX).contains(&turn), "{rows} rows, {threads} threads: {turn}");
                let turns = rows.div_ceil(turn);
                let busiest = turns.div_ceil(cpu.threads) * turn;
                let even = rows.div_ceil(cpu.threads);
                // a turn's rounding, for each turn of the thread
                assert!(
                    busiest < even + turns.div_ceil(cpu.threads).max(1),
                    "{rows} rows, {threads} threads: {busiest}"
                );
            }
        }
    }
}
