//! Gates on the CPU, the reference and the fallback. Each stem is a plain function; rows run in parallel (feature
//! `parallel`).

mod blind_rotate;
mod cells;
mod evaluate;
mod fastest;
// there is no implementation of vectors of doubles for other architectures
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_variables))]
mod fft;
mod lwe_key_switch;
mod mod_switch;
mod sample_extract;

use crate::cpu::{Arena, Cpu, GROUP_ROWS_MAX, for_each, for_each_pair, threads_available};
use crate::error::Result;
use crate::tfhe::backend::KeyPiece;
use crate::tfhe::{Amplitude, EvaluationKey, Gates, KeyedGates, Params, Stems};
use blind_rotate::BootstrapKey;
pub(crate) use blind_rotate::Decomposition;
use lwe_key_switch::KeySwitchKey;

/// An evaluation key in the order in which this CPU reads its words. Overwritten on drop.
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
    /// Opens the CPU as a device, with all cores and with the instruction set that wins a short race on this CPU.
    pub fn open() -> Cpu {
        Cpu::with(fastest::fastest(), threads_available())
    }

    /// The number of rows that a thread takes at a time. The number is at most `GROUP_ROWS_MAX`, and it gives all
    /// threads equally many turns.
    fn rows_of_a_turn(&self, rows: usize) -> usize {
        let turns = rows.div_ceil(GROUP_ROWS_MAX * self.threads) * self.threads;
        rows.div_ceil(turns.max(1)).max(1)
    }

    /// Runs the mod switch and the blind rotation without the rest of a gate, for noise measurements. `inputs` is
    /// `[rows][n + 1]` torus words. The result is `[rows][k + 1][N]` words in `[0, q)`: polynomials of amplitude 1/8
    /// under the ring key.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when memory runs out.
    pub fn blind_rotate(&self, key: &Key, inputs: &[u32]) -> Result<Vec<u32>> {
        let rows = inputs.len() / (key.params().lwe_dimension + 1);
        self.rotate(key, inputs, &vec![Amplitude::Eighth; rows])
    }

    /// Like [`Cpu::blind_rotate`], with an amplitude for each row.
    fn rotate(&self, key: &Key, inputs: &[u32], amplitudes: &[Amplitude]) -> Result<Vec<u32>> {
        let key = &key.bootstrap;
        let p = key.params();
        let (row_in, row_out) = (p.lwe_dimension + 1, p.accumulator_words());
        let rows = inputs.len() / row_in;
        let mut exponents = inputs.to_vec();
        mod_switch::mod_switch(p, &mut exponents);
        for (input, &amplitude) in exponents.chunks_exact_mut(row_in).zip(amplitudes) {
            input[p.lwe_dimension] = cells::marked(input[p.lwe_dimension], amplitude);
        }
        let mut out = vec![0; rows * row_out];
        let turn = self.rows_of_a_turn(rows);
        for_each_pair(self.threads, &exponents, turn * row_in, &mut out, turn * row_out, |exponents, accumulators| {
            for (input, accumulator) in exponents.chunks_exact(row_in).zip(accumulators.chunks_exact_mut(row_out)) {
                blind_rotate::start(p, input[p.lwe_dimension], accumulator);
            }
            key.rotate(exponents, accumulators)
        })?;
        Ok(out)
    }
}

impl Gates for Cpu {
    type Key = Key;

    fn room_for_key(&self, params: &Params) -> Result<Key> {
        Ok(Key {
            bootstrap: BootstrapKey::of_zeros(self.isa, params)?,
            key_switch: KeySwitchKey::of_zeros(self.isa, params)?,
        })
    }

    fn load_piece(&self, into: &mut Key, piece: usize, key: &EvaluationKey) -> Result<bool> {
        let p = &key.params;
        let bit_bytes = blind_rotate::key_bytes(self.isa, p) as usize / p.lwe_dimension;
        let input_bytes = 4 * p.key_switch_level_count * lwe_key_switch::padded_columns(p);
        let (piece, more) = KeyPiece::of(p, piece, bit_bytes, input_bytes);
        match piece {
            KeyPiece::Bootstrap(bits) => into.bootstrap.fill(self.threads, key, bits)?,
            KeyPiece::KeySwitch(inputs) => into.key_switch.fill(key, inputs),
        }
        Ok(more)
    }

    fn key_bytes(&self, p: &Params) -> u64 {
        let key_switch = p.key_switch_body_words() * lwe_key_switch::padded_columns(p);
        blind_rotate::key_bytes(self.isa, p) + 4 * key_switch as u64
    }

    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Key, Arena>]) -> Result<Vec<u32>> {
        let evaluate = |batch: &mut KeyedGates<'_, Key, Arena>| {
            batch.levels().into_iter().try_for_each(|level| {
                evaluate::evaluate(self, batch.key, batch.arena, &batch.gates[level.gates])?;
                cells::evaluate(self, batch.key, batch.arena, batch.cells, level.cells)
            })
        };
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
        let rows = accumulators.chunks_exact(p.accumulator_words());
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
    use crate::cpu::Isa;

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
                // rounding up makes each turn longer by less than one row, so the busiest thread exceeds an even share
                // by less than one row for each of its turns
                assert!(
                    busiest < even + turns.div_ceil(cpu.threads).max(1),
                    "{rows} rows, {threads} threads: {busiest}"
                );
            }
        }
    }
}
