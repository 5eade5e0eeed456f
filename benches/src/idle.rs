//! A device that computes nothing, in no time: what is left of a measurement is everything around it.

use engine::{Backend, DeviceInfo, EvaluationKey, Params};
use kernels::KeyedGates;

/// Answers every gate with its first operand.
pub struct Idle {
    info: DeviceInfo,
}

impl Idle {
    /// A device with room for all there is, as wide as a large card.
    pub fn new() -> Idle {
        let info = DeviceInfo {
            backend: "idle".into(),
            name: "a device that computes nothing".into(),
            memory_bytes: 8 << 30,
            rows_max: 4096,
            batches_in_flight_max: 2,
            keys_together_max: 1,
        };
        Idle { info }
    }
}

impl Default for Idle {
    fn default() -> Self {
        Idle::new()
    }
}

/// `[slots][n + 1]` words.
pub struct Arena {
    words: Vec<u32>,
    row_words: usize,
}

impl Backend for Idle {
    type Key = ();
    type Arena = Arena;
    type Pending = Vec<u32>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load_key(&self, _: &EvaluationKey) -> kernels::Result<()> {
        Ok(())
    }

    fn key_bytes(&self, _: &Params) -> u64 {
        1
    }

    fn arena(&self, params: &Params, slots: usize) -> kernels::Result<Arena> {
        let row_words = params.lwe_dimension + 1;
        Ok(Arena { words: vec![0; slots * row_words], row_words })
    }

    fn grow(&self, arena: &mut Arena, slots: usize) -> kernels::Result<()> {
        arena.words.resize(slots * arena.row_words, 0);
        Ok(())
    }

    fn write(&self, arena: &mut Arena, first: u32, words: &[u32]) -> kernels::Result<()> {
        arena.words[first as usize * arena.row_words..][..words.len()].copy_from_slice(words);
        Ok(())
    }

    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Idle>]) -> kernels::Result<Vec<u32>> {
        let [KeyedGates { arena, gates, reads, .. }] = batches else { panic!("it takes one batch at a time") };
        let row = |slot: u32| slot as usize * arena.row_words..(slot as usize + 1) * arena.row_words;
        for gate in *gates {
            arena.words.copy_within(row(gate.operands[0]), row(gate.result).start);
        }
        let mut words = Vec::with_capacity(reads.len() * arena.row_words);
        reads.iter().for_each(|&slot| words.extend_from_slice(&arena.words[row(slot)]));
        Ok(words)
    }

    fn finish(&self, pending: Vec<u32>) -> kernels::Result<Vec<u32>> {
        Ok(pending)
    }

    fn bootstrap(&self, _: &(), _: &[u32]) -> kernels::Result<Vec<u32>> {
        unreachable!("the engine evaluates gates")
    }

    fn key_switch(&self, _: &(), _: &[u32]) -> kernels::Result<Vec<u32>> {
        unreachable!("the engine evaluates gates")
    }
}
