//! What may be asked of the engine: up to 1024 gates under one key. Here its rows wait, and its results gather.

use std::ops::Range;
use std::time::Duration;

use kernels::tfhe::{GateRow, Lwe};

use crate::error::Error;

/// Rows of the largest operation (specification, Limits: gates per batch).
pub const OPERATION_ROWS_MAX: usize = 1024;

/// A submitted operation; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// What an operation came to.
#[derive(Debug)]
pub struct Done {
    /// One ciphertext a row, in order.
    pub results: Vec<Lwe>,
    /// Wall time from the first row's start to the last row's end (readings G12).
    pub compute: Duration,
    /// Bootstraps really done (an internal figure; the tariff is the service's, readings P29).
    pub bootstraps: u64,
}

/// Told once how an operation ended.
pub type OnDone = Box<dyn FnOnce(Result<Done, Error>) + Send>;

/// An accepted operation: operands until they run, results until all are there.
pub(crate) struct Operation {
    slots: Vec<Slot>,
    on_done: OnDone,
}

/// One row's place. Operands and results are moved through it, never copied.
enum Slot {
    Waiting(GateRow),
    Running,
    Finished(Lwe),
}

impl Operation {
    pub(crate) fn new(rows: Vec<GateRow>, on_done: OnDone) -> Self {
        Self { slots: rows.into_iter().map(Slot::Waiting).collect(), on_done }
    }

    /// Moves the operands of these waiting rows to the end of `batch`.
    pub(crate) fn take(&mut self, rows: Range<usize>, batch: &mut Vec<GateRow>) {
        for slot in &mut self.slots[rows] {
            match std::mem::replace(slot, Slot::Running) {
                Slot::Waiting(row) => batch.push(row),
                Slot::Running | Slot::Finished(_) => panic!("a row runs once at a time"),
            }
        }
    }

    /// Moves operands of a failed batch back, to be taken again.
    pub(crate) fn put_back(&mut self, rows: Range<usize>, operands: &mut dyn Iterator<Item = GateRow>) {
        for (slot, row) in self.slots[rows].iter_mut().zip(operands) {
            *slot = Slot::Waiting(row);
        }
    }

    /// Keeps the results of these rows.
    pub(crate) fn store(&mut self, rows: Range<usize>, results: &mut dyn Iterator<Item = Lwe>) {
        for (slot, lwe) in self.slots[rows].iter_mut().zip(results) {
            *slot = Slot::Finished(lwe);
        }
    }

    /// The results, in the order of the rows, and whom to tell.
    ///
    /// # Panics
    /// When a row is not finished.
    pub(crate) fn finish(self) -> (Vec<Lwe>, OnDone) {
        let results = self.slots.into_iter().map(|slot| match slot {
            Slot::Finished(lwe) => lwe,
            Slot::Waiting(_) | Slot::Running => panic!("an operation is done when all its rows are"),
        });
        (results.collect(), self.on_done)
    }

    /// Drops rows and results: nothing of a failed operation counts.
    pub(crate) fn abort(self) -> OnDone {
        self.on_done
    }
}
