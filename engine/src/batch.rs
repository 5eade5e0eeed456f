//! A batch: rows that a device runs under one key. One call of a device may run several batches side by side.
//!
//! A batch never mixes keys, because the key is the costly operand: it streams through the cache once for all rows. In
//! the HTTP interface, the word batch means something else: an operation. An operation may be split into several
//! batches of this type, or share one batch with other operations.

use std::ops::Range;
use std::sync::Arc;

pub use crate::ids::{BatchId, DeviceId};
use crate::ids::{OperationId, Prepared, SessionId};

/// Consecutive rows of one operation, within a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPart {
    /// The operation of the rows.
    pub operation: OperationId,
    /// The rows of the operation. With the first row of a circuit, the device also writes the circuit's inputs.
    pub rows: Range<usize>,
    /// Whether a batch with these rows (or with rows of their circuit) failed before. Then the device runs this batch
    /// alone.
    pub retried: bool,
    /// Slots in the session's arena: for a list, the operands of these rows in order, then their results; for a
    /// circuit, all of its slots.
    pub slots: Arc<[u32]>,
    /// The inputs of a circuit that are in their slots already, in ascending order. The device writes the others.
    pub there: Arc<[usize]>,
    /// Whether these are the last rows of a circuit. Then the device reads the circuit's outputs after them.
    pub completes: bool,
}

/// The rows that a device runs under one key in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The id by which the device's report refers to the batch.
    pub id: BatchId,
    /// The device that runs the batch.
    pub device: DeviceId,
    /// The session of the operations. The batch runs under this session's key.
    pub session: SessionId,
    /// The rows, in the order in which they run.
    pub parts: Vec<BatchPart>,
    /// The parts that the rows need. These parts stay on the device while the batch runs.
    pub key: Vec<Prepared>,
    /// The number of slots that the session's arena must have.
    pub arena_slots: usize,
    /// Units of all rows together.
    pub units: u64,
    /// Cost that the fair queue charges to the session and its account; a unit under the cheapest keys costs
    /// [`crate::fair::COST_OF_UNIT`].
    pub cost: u64,
}

impl Batch {
    /// The number of rows of all parts.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows.len()).sum()
    }
}
