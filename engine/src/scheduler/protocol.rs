//! What goes into the scheduler and what comes out.

use std::time::Duration;

use crate::batch::Batch;
use crate::error::Error;
use crate::ids::{AccountId, BatchId, DeviceId, OperationId, PartId, SessionId};
use crate::work::Work;

/// The bounds that a scheduler keeps. They follow from a [`crate::Config`] and from the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerLimits {
    /// Rows of lists waiting or running, all sessions.
    pub queue_rows_max: usize,
    /// Rows of lists waiting or running, one session.
    pub session_rows_max: usize,
    /// How long rows that would not fill a batch wait at most for more; only while no idle device can take them.
    pub wait: Duration,
    /// How long an empty arena is kept for the session's next list.
    pub arena_idle: Duration,
    /// Bytes of seeded keys of all sessions.
    pub key_bytes_max: u64,
    /// Rows of all circuits that have not ended.
    pub circuit_rows_max: usize,
    /// Bytes of inputs and outputs of all circuits that have not ended.
    pub circuit_bytes_max: u64,
    /// Rows of the circuits of one session that have not ended.
    pub session_circuit_rows_max: usize,
    /// Bytes of inputs and outputs of the circuits of one session that have not ended.
    pub session_circuit_bytes_max: u64,
    /// How long a device that was ordered something may be silent before it is given up; longer while it has a batch that
    /// takes longer by far at the measured pace.
    pub silence_max: Duration,
    /// The bounds of each device; at least one.
    pub devices: Vec<DeviceLimits>,
}

/// The bounds of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Size of a batch: a row counts its units, or one if it has none. A single row may exceed it.
    pub batch_units_max: usize,
    /// Calls ordered and not reported: batches of one session each, side by side.
    pub batches_in_flight_max: usize,
    /// Batches of a call, each of another session; their sizes together are bounded by `batch_units_max`.
    pub keys_together_max: usize,
    /// Bytes of prepared keys.
    pub resident_bytes_max: u64,
    /// Bytes of the arenas of sessions with circuits. The arena of a session without circuits has at most twice the slots that
    /// operands and results of its running batches took. Empty arenas that are kept for later lists hold at most a quarter of
    /// this bound together.
    pub arena_bytes_max: u64,
    /// Works when no other does, and for keys that no other can hold.
    pub stand_in: bool,
}

/// What went wrong on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the scheduler does about it.
    pub cause: Cause,
    /// The device's message.
    pub reason: String,
}

/// The kind of a failure, which decides what the scheduler does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The device has no memory left. Evicting other keys may help.
    OutOfMemory,
    /// The key could not be read from its source. The device works.
    Key,
    /// The next call may succeed.
    Device,
    /// No call will succeed any more.
    Lost,
}

/// What happened: an input of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A caller opens a session. The same step refuses it by [`Command::RefuseSession`], or it is accepted.
    Opened {
        /// A new id.
        session: SessionId,
        /// The account of the session. All its sessions share its weight.
        account: AccountId,
        /// The account's share under contention, 1 to 64.
        weight: u32,
        /// Cost of a unit of work under this key, [`crate::fair::COST_OF_UNIT`] under the cheapest.
        unit_cost: u32,
        /// Host memory that the key takes.
        host_bytes: u64,
        /// Size of each part of the prepared key, on each device.
        device_bytes: Vec<Vec<u64>>,
        /// Size of a slot of the session's arenas.
        slot_bytes: u64,
    },
    /// A caller submits an operation. The same step refuses it by [`Command::Refuse`], or it is accepted.
    Submitted {
        /// The session under whose key it runs.
        session: SessionId,
        /// A new id.
        operation: OperationId,
        /// Its rows.
        work: Work,
        /// The time after which the result is of no use.
        deadline: Option<Duration>,
    },
    /// The caller cancels an operation. Without effect when none of it can be stopped.
    Cancelled(OperationId),
    /// The session ends; its key is to be erased.
    Closed(SessionId),
    /// [`Command::Load`] was carried out.
    Loaded {
        /// The device.
        device: DeviceId,
        /// The session of the key.
        session: SessionId,
    },
    /// [`Command::Load`] failed; none of its parts is on the device.
    LoadFailed {
        /// The device.
        device: DeviceId,
        /// The session of the key.
        session: SessionId,
        /// What went wrong.
        failure: Failure,
    },
    /// [`Command::Evict`] was carried out: the part is overwritten.
    Evicted {
        /// The device.
        device: DeviceId,
        /// The session of the key.
        session: SessionId,
        /// Which part of it.
        part: PartId,
    },
    /// A batch of [`Command::Run`] was carried out.
    BatchDone(BatchId),
    /// A batch of [`Command::Run`] failed.
    BatchFailed {
        /// Which.
        batch: BatchId,
        /// What went wrong.
        failure: Failure,
    },
    /// [`Command::Retire`] was carried out: nothing is on the device any more, and it will not report again.
    Retired(DeviceId),
    /// The device found, apart from an order, that no call will succeed any more. It reports what was ordered all the same.
    Lost {
        /// Which.
        device: DeviceId,
        /// The device's message.
        reason: String,
    },
    /// The device's thread has ended by a panic. It reports nothing any more.
    Died {
        /// Which.
        device: DeviceId,
        /// The message of the panic.
        reason: String,
    },
    /// Time has passed; see [`super::Scheduler::next_wake`].
    Tick,
    /// No new work; what is queued still runs, then all keys are erased and [`Command::Stop`] follows.
    Drain,
    /// No new work, and what is queued ends with [`Error::ShuttingDown`]; then as [`Event::Drain`].
    Abandon,
}

/// What the host must do, in the order of the list: the output of the scheduler.
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
    /// To a device: prepare these parts of a session's key. Reported once, when all are there or one failed.
    Load {
        /// The device.
        device: DeviceId,
        /// The session of the key.
        session: SessionId,
        /// Which parts of it; at least one.
        parts: Vec<PartId>,
    },
    /// To a device: overwrite a prepared part of a session's key.
    Evict {
        /// The device.
        device: DeviceId,
        /// The session of the key.
        session: SessionId,
        /// Which part of it.
        part: PartId,
    },
    /// To a device: run these batches side by side, in one call. Each is reported.
    Run {
        /// The device.
        device: DeviceId,
        /// At least one, each of another session.
        batches: Vec<Batch>,
    },
    /// To a device: overwrite this session's arena, nothing in it is needed. Not reported.
    FreeArena {
        /// The device.
        device: DeviceId,
        /// The session of the arena.
        session: SessionId,
    },
    /// To a device: report what was ordered before, then forget all keys and arenas. It gets no more orders.
    Retire(DeviceId),
    /// To the host: the device did not report in time. Nothing is awaited from it any more, what it still reports is
    /// ignored, and its memory is out of reach: keys there are no more counted on, nor erased.
    GiveUp(DeviceId),
    /// To the host: the circuit begins again with its inputs, what was done of it does not count.
    Restart(OperationId),
    /// To the client: the operation has ended.
    Finish {
        /// Which.
        operation: OperationId,
        /// How.
        outcome: Result<Finished, Error>,
    },
    /// To the host: the prepared key is gone from all devices, overwrite the seeded one and forget the session.
    Erase(SessionId),
    /// All is done and erased; nothing follows.
    Stop,
}

/// A finished operation's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// From the first row's start to the last row's end.
    pub compute: Duration,
    /// Units of its rows.
    pub units: u64,
}
