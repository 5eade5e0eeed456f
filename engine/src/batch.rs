//! Rows of one key for one device. A call may have several batches, side by side.
//!
//! Keys never mix in a batch, since the key is the costly operand: it streams through the cache once for all rows. Not the
//! HTTP batch, which is an operation and may be sliced into several of these or share one.

use std::ops::Range;
use std::sync::Arc;

pub use crate::ids::{BatchId, DeviceId};
use crate::ids::{OperationId, PartId, SessionId};

/// Consecutive rows of one operation, within a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPart {
    /// The operation that the rows are of.
    pub operation: OperationId,
    /// Which of them. A circuit's first row brings its inputs along.
    pub rows: Range<usize>,
    /// A batch with these rows failed before, or one of their circuit's: the device runs the batch by itself.
    pub retried: bool,
    /// Where in the session's arena: of a list, the operands of these rows, in order, then their results; of a circuit, all
    /// of its slots.
    pub slots: Arc<[u32]>,
    /// A circuit's outputs are read after these rows, its last.
    pub completes: bool,
}

/// What a device runs under one key in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its name in the device's report.
    pub id: BatchId,
    /// Where it runs.
    pub device: DeviceId,
    /// The session of its operations, whose key it runs under.
    pub session: SessionId,
    /// Which rows, in the order in which they run.
    pub parts: Vec<BatchPart>,
    /// Parts of the session's key that its rows need, which stay on the device while it runs.
    pub key: Vec<PartId>,
    /// Slots the session's arena must have.
    pub arena_slots: usize,
    /// Units of all rows.
    pub units: u64,
    /// What it counts against the session's share, where a unit under the cheapest keys is [`crate::fair::COST_OF_UNIT`].
    pub cost: u64,
}

impl Batch {
    /// Rows of all parts.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows.len()).sum()
    }
}
