//! Gates on a device: the trait of devices that evaluate gates. It extends [`Backend`], the trait of all devices.

use std::ops::Range;

use crate::backend::Backend;
use crate::error::Result;
use crate::tfhe::cells::NO_CELLS;
use crate::tfhe::{EvaluationKey, Gate, Params, SlotCells};

/// A gate over an arena: it reads the slots of its operands and writes the slot of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotGate {
    /// The gate.
    pub gate: Gate,
    /// Slots of the operands a, b and sel. Only the first [`Gate::arity`] entries are used.
    pub operands: [u32; 3],
    /// Slot of the result.
    pub result: u32,
}

/// A batch: gates and cells that use one key and one arena, in levels. `K` is the device's type of keys, `A` its type of
/// arenas.
pub struct KeyedGates<'a, K, A> {
    /// The key of all gates.
    pub key: &'a K,
    /// The arena that holds operands and results.
    pub arena: &'a mut A,
    /// The gates, level after level. No gate reads a slot that a cell or another gate of its level writes.
    pub gates: &'a [SlotGate],
    /// The cells, level after level. No cell reads a slot that another cell or a gate of its level writes.
    pub cells: &'a SlotCells,
    /// The end of each level but the last. Rows may read the slots that rows of earlier levels write. Empty if all rows
    /// are one level.
    pub ends: &'a [LevelEnd],
    /// Slots to read after the last level.
    pub reads: &'a [u32],
}

/// Where a level ends among the gates and among the cells of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LevelEnd {
    /// The index after the level's last gate.
    pub gates: usize,
    /// The index after the level's last cell.
    pub cells: usize,
}

/// The rows of one level of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelRows {
    /// Indices of the level's gates.
    pub gates: Range<usize>,
    /// Indices of the level's cells.
    pub cells: Range<usize>,
}

impl<K, A> KeyedGates<'_, K, A> {
    /// Lists the levels in order. There is at least one.
    ///
    /// # Panics
    /// When the ends are not in order, or lie outside the batch.
    pub fn levels(&self) -> Vec<LevelRows> {
        let last = LevelEnd { gates: self.gates.len(), cells: self.cells.len() };
        let mut first = LevelEnd { gates: 0, cells: 0 };
        let rows = |end: &LevelEnd| {
            assert!(first.gates <= end.gates && end.gates <= last.gates, "ends of gates are in order");
            assert!(first.cells <= end.cells && end.cells <= last.cells, "ends of cells are in order");
            let rows = LevelRows { gates: first.gates..end.gates, cells: first.cells..end.cells };
            first = *end;
            rows
        };
        self.ends.iter().chain([&last]).map(rows).collect()
    }
}

/// Largest size of a piece of a key in the device's form, in bytes. A piece is larger if a single row of the key is larger.
pub const LOAD_PIECE_BYTES: usize = 64 << 20;

/// A piece of a key. Pieces are loaded one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyPiece {
    /// The RGSW ciphertexts of the bootstrapping key for these key bits.
    Bootstrap(Range<usize>),
    /// The rows of the key-switching key for these input coefficients.
    KeySwitch(Range<usize>),
}

impl KeyPiece {
    /// Returns piece number `piece` of a key, and whether further pieces follow. In the device's form, a key bit takes
    /// `bit_bytes` bytes and an input coefficient takes `input_bytes` bytes.
    pub(crate) fn of(params: &Params, piece: usize, bit_bytes: usize, input_bytes: usize) -> (KeyPiece, bool) {
        let (bits, inputs) = (params.lwe_dimension, params.extracted_dimension());
        let at_once = |bytes: usize| (LOAD_PIECE_BYTES / bytes).max(1);
        let range = |piece: usize, at_once: usize, end: usize| piece * at_once..((piece + 1) * at_once).min(end);
        let of_bits = bits.div_ceil(at_once(bit_bytes));
        match piece.checked_sub(of_bits) {
            None => (KeyPiece::Bootstrap(range(piece, at_once(bit_bytes), bits)), true),
            Some(piece) => {
                let range = range(piece, at_once(input_bytes), inputs);
                let more = range.end < inputs;
                (KeyPiece::KeySwitch(range), more)
            }
        }
    }
}

/// A device that evaluates gates. All gates of a batch use one key; ciphertexts are rows of `[n + 1]` words.
pub trait Gates: Backend {
    /// An evaluation key on this device, in the order that the kernels read. Overwritten on drop.
    type Key: Send;

    /// Prepares the device for keys of these parameters: compiles the kernels that are not compiled yet. The call may
    /// take seconds. Any thread may call it, even while the device works.
    fn prepare(&self, _params: &Params) -> Result<()> {
        Ok(())
    }

    /// Allocates room for a key of these parameters. The caller then loads the key's pieces.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when the device has too little memory.
    fn room_for_key(&self, params: &Params) -> Result<Self::Key>;

    /// Expands the masks of one piece of the key and lays the piece out for this device. A piece has at most
    /// [`LOAD_PIECE_BYTES`] bytes in the device's form, which limits how long other work waits. Pieces are numbered
    /// from 0. Returns whether more pieces follow.
    fn load_piece(&self, into: &mut Self::Key, piece: usize, key: &EvaluationKey) -> Result<bool>;

    /// Loads all pieces of a key, one after another.
    fn load_key(&self, key: &EvaluationKey) -> Result<Self::Key> {
        let mut loaded = self.room_for_key(&key.params)?;
        let mut pieces = 0..;
        while self.load_piece(&mut loaded, pieces.next().expect("a key has an end"), key)? {}
        Ok(loaded)
    }

    /// Size of a key of these parameters on this device, in bytes.
    fn key_bytes(&self, params: &Params) -> u64;

    /// Starts batches, each with its own key: evaluates the gates and cells of all batches, level after level, then
    /// reads the slots that each batch requests, batch by batch. Batches of few rows run side by side, so that together
    /// they fill the device. NOT is a negation. MUX is two bootstraps whose extracted samples are added before one key switch, and one
    /// bootstrap and key switch of the result. Every other gate is one bootstrap and one key switch (docs/wire-format.md
    /// 8). A cell adds wires, key-switches their sum once, adds inputs, and bootstraps the result
    /// ([`crate::tfhe::cells`]).
    ///
    /// # Panics
    /// When a slot is outside its batch's arena.
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Self::Key, Self::Arena>]) -> Result<Self::Pending>;

    /// Starts one batch of one level without cells: evaluates `gates`, then reads the slots in `reads`.
    ///
    /// # Panics
    /// When a slot is outside the arena.
    fn evaluate(
        &self,
        key: &Self::Key,
        arena: &mut Self::Arena,
        gates: &[SlotGate],
        reads: &[u32],
    ) -> Result<Self::Pending> {
        self.evaluate_together(&mut [KeyedGates { key, arena, gates, cells: &NO_CELLS, ends: &[], reads }])
    }
}

/// The two halves of a gate as separate calls, for tests and noise measurements.
pub trait Stems: Gates {
    /// Runs blind rotation and sample extraction on each row. `inputs` is `[rows][n + 1]` torus words. The result is
    /// `[rows][kN + 1]` torus words: bits with amplitude 1/8 under the ring key.
    fn bootstrap(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;

    /// Key-switches each row: `inputs` is `[rows][kN + 1]` words under the ring key. The result is `[rows][n + 1]`
    /// words under the small key.
    fn key_switch(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::Preset;

    #[test]
    fn pieces_follow_each_other_and_are_all_of_the_key() {
        for preset in Preset::ALL {
            let params = preset.params();
            for bytes in [1, LOAD_PIECE_BYTES / 7, LOAD_PIECE_BYTES, 3 * LOAD_PIECE_BYTES] {
                let (mut bits, mut inputs) = (0, 0);
                for piece in 0.. {
                    let (found, more) = KeyPiece::of(&params, piece, bytes, bytes / 2 + 1);
                    let (done, range) = match found {
                        KeyPiece::Bootstrap(range) => (&mut bits, range),
                        KeyPiece::KeySwitch(range) => (&mut inputs, range),
                    };
                    assert!(range.start == *done && !range.is_empty(), "{range:?} after {done}");
                    assert!(range.len() == 1 || range.len() * (bytes / 2 + 1) <= LOAD_PIECE_BYTES, "{range:?}");
                    *done = range.end;
                    if !more {
                        break;
                    }
                }
                assert_eq!((bits, inputs), (params.lwe_dimension, params.extracted_dimension()));
            }
        }
    }
}
