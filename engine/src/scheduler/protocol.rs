//! What goes into the scheduler and what comes out.

use std::time::Duration;

use crate::batch::{Batch, BatchId};
use crate::error::Error;
use crate::operation::OperationId;
use crate::session::SessionId;

/// The bounds a scheduler keeps: a [`crate::Config`] after the device was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows waiting or running, all sessions.
    pub queue_rows_max: usize,
    /// Rows waiting or running, one session.
    pub session_rows_max: usize,
    /// Size of a batch: a row counts its bootstraps, or one if it has none. A single row may exceed it.
    pub batch_rows_max: usize,
    /// How long less than a batch gathers.
    pub wait: Duration,
    /// Bytes of seeded keys of all sessions.
    pub key_bytes_max: u64,
    /// Bytes of prepared keys on the device.
    pub resident_bytes_max: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A key wants to be opened for work. Answered in the same step by [`Command::RefuseSession`], or accepted.
    Opened {
        /// A new id.
        session: SessionId,
        /// Share under contention, 1 to 64.
        weight: u32,
        /// Size of the seeded key.
        host_bytes: u64,
        /// Size of the prepared key.
        device_bytes: u64,
    },
    /// Rows want to run. Answered in the same step by [`Command::Refuse`], or accepted.
    Submitted {
        /// Under whose key.
        session: SessionId,
        /// A new id.
        operation: OperationId,
        /// Bootstraps of every row (0, 1 or 2); 1 to 1024 rows.
        bootstraps: Vec<u8>,
        /// When the result is of no use any more.
        deadline: Option<Duration>,
    },
    /// The client does not want this any more. Without effect when nothing of the operation can be stopped.
    Cancelled(OperationId),
    /// The session ends; its key is to be erased.
    Closed(SessionId),
    /// [`Command::Load`] was carried out.
    Loaded(SessionId),
    /// [`Command::Load`] failed; nothing of the key is on the device.
    LoadFailed {
        /// Whose key.
        session: SessionId,
        /// For want of room: it may help to evict others.
        out_of_memory: bool,
        /// The device's words.
        reason: String,
    },
    /// [`Command::Evict`] was carried out: the key is overwritten.
    Evicted(SessionId),
    /// [`Command::Run`] was carried out.
    BatchDone(BatchId),
    /// [`Command::Run`] failed.
    BatchFailed {
        /// Which.
        batch: BatchId,
        /// The device's words.
        reason: String,
    },
    /// Time has passed; see [`super::Scheduler::next_wake`].
    Tick,
    /// No new work; what is queued still runs, then all keys are erased and [`Command::Stop`] follows.
    Drain,
    /// No new work, and what is queued ends with [`Error::ShuttingDown`]; then as [`Event::Drain`].
    Abandon,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To the caller: the session is not opened.
    RefuseSession {
        /// The one of [`Event::Opened`].
        session: SessionId,
        /// Why.
        error: Error,
    },
    /// To the caller: the operation is not accepted, and will not be finished.
    Refuse {
        /// The one of [`Event::Submitted`].
        operation: OperationId,
        /// Why.
        error: Error,
    },
    /// To the device: prepare this session's key.
    Load(SessionId),
    /// To the device: overwrite this session's prepared key.
    Evict(SessionId),
    /// To the device: run these rows.
    Run(Batch),
    /// To the client: the operation has ended.
    Finish {
        /// Which.
        operation: OperationId,
        /// How.
        outcome: Result<Finished, Error>,
    },
    /// To the host: the prepared key is gone from the device, overwrite the seeded one and forget the session.
    Erase(SessionId),
    /// All is done and erased; nothing follows.
    Stop,
}

/// A finished operation's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// From the first row's start to the last row's end.
    pub compute: Duration,
    /// Bootstraps done for it.
    pub bootstraps: u64,
}
