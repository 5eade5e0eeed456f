//! What may be asked of the engine: up to 1024 gates under one key. Here its rows wait, and its results gather.

use std::ops::Range;
use std::time::Duration;

use kernels::tfhe::{Gate, GateRow, Lwe};

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

/// Why an operation gave no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What happened.
    pub error: Error,
    /// Gates that had been completed by then, of each kind: what a client who cancels has had done.
    pub gates_done: Vec<(Gate, u64)>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Gates completed.
    pub gates_done: u64,
    /// Gates altogether.
    pub gates_total: u64,
}

/// Told once how an operation ended.
pub type OnDone = Box<dyn FnOnce(Result<Done, Failed>) + Send>;

/// An accepted operation: operands until they run, results until all are there.
pub(crate) struct Operation {
    slots: Vec<Slot>,
    gates: Vec<Gate>,
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
        let gates = rows.iter().map(|row| row.gate).collect();
        Self { slots: rows.into_iter().map(Slot::Waiting).collect(), gates, on_done }
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

    pub(crate) fn progress(&self) -> Progress {
        let done = self.slots.iter().filter(|slot| matches!(slot, Slot::Finished(_))).count();
        Progress { gates_done: done as u64, gates_total: self.slots.len() as u64 }
    }

    /// Drops rows and results: nothing of a failed operation is delivered. What had been done, and whom to tell.
    pub(crate) fn abort(self) -> (Vec<(Gate, u64)>, OnDone) {
        let finished = self.slots.iter().zip(&self.gates).filter(|(slot, _)| matches!(slot, Slot::Finished(_)));
        let done: Vec<Gate> = finished.map(|(_, &gate)| gate).collect();
        let of = |gate| done.iter().filter(|&&counted| counted == gate).count() as u64;
        let counts = Gate::ALL.into_iter().map(|gate| (gate, of(gate))).filter(|&(_, count)| count > 0);
        (counts.collect(), self.on_done)
    }
}
