//! A device that computes nothing, so that a measurement shows only the cost of everything around it. The device takes no
//! time, or the same time for each batch.

use std::time::Duration;

use engine::{Backend, DeviceInfo, EvaluationKey, Gates, Params};
use kernels::tfhe::KeyedGates;

/// Answers every gate with its first operand.
pub struct Idle {
    info: DeviceInfo,
    /// Time of a batch.
    batch: Duration,
}

impl Idle {
    /// A device with room for everything. Its batches may have as many rows as the batches of a large card.
    pub fn new() -> Idle {
        let info = DeviceInfo {
            backend: "idle".into(),
            name: "a device that computes nothing".into(),
            memory_bytes: 8 << 30,
            arena_bytes_max: u64::MAX,
            rows_max: 4096,
            batches_in_flight_max: 2,
            keys_together_max: 1,
        };
        Idle { info, batch: Duration::ZERO }
    }

    /// A device that takes this time for each batch, of at most this many rows.
    pub fn paced(batch: Duration, rows_max: usize) -> Idle {
        let Idle { info, .. } = Idle::new();
        let info = DeviceInfo { name: "a device with a fixed pace".into(), rows_max, batches_in_flight_max: 1, ..info };
        Idle { info, batch }
    }
}

impl Default for Idle {
    fn default() -> Self {
        Idle::new()
    }
}

/// The words of all slots, `[slots][row_words]`.
pub struct Arena {
    words: Vec<u32>,
    row_words: usize,
}

impl Arena {
    fn read(&self, slots: &[u32]) -> Vec<u32> {
        let mut words = Vec::with_capacity(slots.len() * self.row_words);
        slots
            .iter()
            .for_each(|&slot| words.extend_from_slice(&self.words[slot as usize * self.row_words..][..self.row_words]));
        words
    }
}

impl Backend for Idle {
    type Arena = Arena;
    type Pending = Vec<u32>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arena(&self, row_words: usize, slots: usize) -> kernels::Result<Arena> {
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

    fn read(&self, arena: &Arena, slots: &[u32]) -> kernels::Result<Vec<u32>> {
        Ok(arena.read(slots))
    }

    fn finish(&self, pending: Vec<u32>) -> kernels::Result<Vec<u32>> {
        Ok(pending)
    }
}

impl kernels::ckks::Arithmetic for Idle {
    type Tables = kernels::ckks::Unsupported;
    type Part = kernels::ckks::Unsupported;
}

impl Gates for Idle {
    type Key = ();

    fn room_for_key(&self, _: &Params) -> kernels::Result<()> {
        Ok(())
    }

    fn load_piece(&self, _: &mut (), _: usize, _: &EvaluationKey) -> kernels::Result<bool> {
        Ok(false)
    }

    fn key_bytes(&self, _: &Params) -> u64 {
        1
    }

    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, (), Arena>]) -> kernels::Result<Vec<u32>> {
        let [KeyedGates { arena, gates, reads, .. }] = batches else { panic!("it takes one batch at a time") };
        if !self.batch.is_zero() {
            std::thread::sleep(self.batch);
        }
        let row = |slot: u32| slot as usize * arena.row_words..(slot as usize + 1) * arena.row_words;
        for gate in *gates {
            arena.words.copy_within(row(gate.operands[0]), row(gate.result).start);
        }
        Ok(arena.read(reads))
    }
}
