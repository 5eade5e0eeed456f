//! The events and commands of the scheduler.

use std::time::Duration;

use crate::batch::Batch;
use crate::error::Error;
use crate::ids::{AccountId, BatchId, DeviceId, OperationId, ParamsId, Prepared, SessionId};
use crate::work::{SlotKind, Work};

/// The bounds that a scheduler enforces. They follow from a [`crate::Config`] and from the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerLimits {
    /// Largest number of rows that wait or run, for the lists of all sessions together.
    pub queue_rows_max: usize,
    /// Largest number of rows that wait or run, for the lists of one session together.
    pub session_rows_max: usize,
    /// How long rows that do not fill a batch wait for more rows. The rows wait only while no idle device can take
    /// them.
    pub wait: Duration,
    /// Longest expected duration of the levels of a circuit that a device gets in one call. A call has at least one
    /// level, or a part of a level.
    pub window: Duration,
    /// How long an empty arena is kept for the session's next list.
    pub arena_idle: Duration,
    /// Limit of the seeded keys of all sessions together, in bytes.
    pub key_bytes_max: u64,
    /// Limit of the rows of all circuits together. A circuit counts until it has ended and none of its rows run.
    pub circuit_rows_max: usize,
    /// Limit of the inputs and outputs of all circuits together, in bytes. A circuit counts until it has ended and none
    /// of its rows run.
    pub circuit_bytes_max: u64,
    /// Limit of the rows of one session's circuits together. A circuit counts until it has ended and none of its rows
    /// run.
    pub session_circuit_rows_max: usize,
    /// Limit of the inputs and outputs of one session's circuits together, in bytes. A circuit counts until it has
    /// ended and none of its rows run.
    pub session_circuit_bytes_max: u64,
    /// How long a device with commands may be silent before it is given up. A batch gets more time if it is expected,
    /// by the measured pace, to take long.
    pub silence_max: Duration,
    /// The bounds of each device. There must be at least one device.
    pub devices: Vec<DeviceLimits>,
}

/// The bounds of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Largest size of a batch: the units of its rows, where a row without units has size 1. A single row may exceed
    /// the bound.
    pub batch_units_max: usize,
    /// Largest number of calls that the device has received and not yet reported. The batches of a call run side by
    /// side, and each batch belongs to another session.
    pub batches_in_flight_max: usize,
    /// Largest number of batches in a call; each batch belongs to another session. `batch_units_max` bounds the sum of
    /// the batches' sizes.
    pub keys_together_max: usize,
    /// Limit of the prepared keys on the device, in bytes.
    pub resident_bytes_max: u64,
    /// Limit of the arenas of all sessions with circuits, in bytes. The arena of a session without circuits has at most
    /// twice as many slots as the operands and results of the session's running batches need. Empty arenas that are
    /// kept for later lists take at most a quarter of this limit together.
    pub arena_bytes_max: u64,
    /// Whether the device gets only operations that no other healthy device can hold, or has memory for.
    pub stand_in: bool,
}

/// A failure of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure, which decides the reaction.
    pub cause: Cause,
    /// The device's message.
    pub reason: String,
}

/// The kind of a failure, which decides the scheduler's reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The device is out of memory. Evicting other keys may help. If it does not, a stand-in gets the operation.
    OutOfMemory,
    /// The key could not be read from its source. The device itself works.
    Key,
    /// A call failed. The next one may succeed.
    Device,
    /// No call will succeed any more.
    Lost,
}

/// An event: an input of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A caller opens a session. The same step either refuses the session by [`Command::RefuseSession`] or accepts it.
    Opened {
        /// A new id.
        session: SessionId,
        /// The account of the session. All sessions of the account share its weight.
        account: AccountId,
        /// The account's share under contention, 1 to 64.
        weight: u32,
        /// For each device, the cost of a unit of work under this key. The cost under the cheapest keys is
        /// [`crate::fair::COST_OF_UNIT`].
        unit_costs: Vec<u32>,
        /// The parameter set whose tables are the key's part [`crate::PartId::TABLES`]. All sessions with this
        /// parameter set share the tables.
        tables: Option<ParamsId>,
        /// Host memory that the key takes, in bytes.
        host_bytes: u64,
        /// For each device, the size of each part of the prepared key, in bytes.
        device_bytes: Vec<Vec<u64>>,
        /// The slots of the session's arenas.
        slot_kind: SlotKind,
    },
    /// A caller submits an operation. The same step either refuses the operation by [`Command::Refuse`] or accepts it.
    Submitted {
        /// The session under whose key the operation runs.
        session: SessionId,
        /// A new id.
        operation: OperationId,
        /// Its rows.
        work: Work,
        /// The time after which the caller does not want the result any more.
        deadline: Option<Duration>,
    },
    /// The caller cancels an operation. The event has no effect if all rows of the operation have started.
    Cancelled(OperationId),
    /// The caller closes a session, whose key must be erased.
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
        /// The failure of the load.
        failure: Failure,
    },
    /// [`Command::Evict`] was carried out: the part is overwritten.
    Evicted {
        /// The device.
        device: DeviceId,
        /// The part.
        part: Prepared,
    },
    /// A batch of [`Command::Run`] was carried out.
    BatchDone(BatchId),
    /// A batch of [`Command::Run`] failed.
    BatchFailed {
        /// The batch.
        batch: BatchId,
        /// The failure of the batch.
        failure: Failure,
    },
    /// [`Command::Retire`] was carried out: the device holds nothing any more and sends no more reports.
    Retired(DeviceId),
    /// The device found, independently of a command, that no call will succeed any more. The device still reports
    /// earlier commands.
    Lost {
        /// The device.
        device: DeviceId,
        /// The device's message.
        reason: String,
    },
    /// A panic ended the device's thread, which sends no more reports.
    Died {
        /// The device.
        device: DeviceId,
        /// The message of the panic.
        reason: String,
    },
    /// Time has passed; see [`super::Scheduler::next_wake`].
    Tick,
    /// Shut down without new work: queued work still runs, then all keys are erased and [`Command::Stop`] follows.
    Drain,
    /// Shut down without new work: queued work ends with [`Error::ShuttingDown`]; then all keys are erased and
    /// [`Command::Stop`] follows.
    Abandon,
}

/// A command to the host: an output of the scheduler. Commands are carried out in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To the caller: the session is not opened.
    RefuseSession {
        /// The session of [`Event::Opened`].
        session: SessionId,
        /// The reason.
        error: Error,
    },
    /// To the caller: the operation is not accepted; no [`Command::Finish`] follows.
    Refuse {
        /// The operation of [`Event::Submitted`].
        operation: OperationId,
        /// The reason.
        error: Error,
    },
    /// To a device: prepare these parts of a session's key, and the tables that the key needs. The device reports once,
    /// when all parts are ready or one has failed.
    Load {
        /// The device.
        device: DeviceId,
        /// The session of the key.
        session: SessionId,
        /// The parts. The list has at least one part, and tables come first.
        parts: Vec<Prepared>,
    },
    /// To a device: overwrite a part.
    Evict {
        /// The device.
        device: DeviceId,
        /// The part.
        part: Prepared,
    },
    /// To a device: run these batches side by side, in one call. The device reports each batch.
    Run {
        /// The device.
        device: DeviceId,
        /// The batches. There is at least one batch, and each batch belongs to another session.
        batches: Vec<Batch>,
    },
    /// To a device: overwrite this session's arena, which is no longer needed. The device does not report this.
    FreeArena {
        /// The device.
        device: DeviceId,
        /// The session of the arena.
        session: SessionId,
    },
    /// To a device: report all earlier commands, then forget all keys and arenas. The device gets no more commands.
    Retire(DeviceId),
    /// To the host: the device did not report in time. Its later reports are ignored. Its memory cannot be reached, so
    /// the keys on this device are neither counted nor erased.
    GiveUp(DeviceId),
    /// To the host: the circuit restarts with its inputs. Rows done so far do not count.
    Restart(OperationId),
    /// To the client: the operation has ended.
    Finish {
        /// The operation.
        operation: OperationId,
        /// The result, or the error.
        outcome: Result<Finished, Error>,
    },
    /// To the host: no device holds the prepared key any more. Overwrite the seeded key and forget the session.
    Erase(SessionId),
    /// All work is done and all keys are erased. No command follows.
    Stop,
}

/// A finished operation's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Time from the first row's start to the last row's end.
    pub compute: Duration,
    /// Units of all rows of the operation together.
    pub units: u64,
}
