//! Turns operations into batches: sessions, fair scheduling, residency. (Contract; being written.)

mod error;


pub use error::Error;
pub use kernels::container;
pub use kernels::tfhe::{EvaluationKey, Gate, GateRow, Lwe, Params, Preset};
pub use kernels::DeviceInfo;

use std::time::{Duration, Instant};

/// A session inside the engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// A submitted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// Bounds; every one of them is a place where something could grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rows waiting in all queues together; beyond it submissions get [`Error::Busy`].
    pub queue_rows_max: usize,
    /// Rows waiting for one session.
    pub session_rows_max: usize,
    /// How long a lone row waits for company of its session before it runs, in microseconds.
    pub wait_us_max: u64,
    /// Host memory for seeded keys of open sessions, in bytes.
    pub key_bytes_max: u64,
    /// Device memory for prepared keys, in bytes; `None`: the device's own figure.
    pub resident_bytes_max: Option<u64>,
}

/// What an operation came to.
#[derive(Debug)]
pub struct Done {
    /// One ciphertext a row, in order.
    pub results: Vec<Lwe>,
    /// Wall time from the first row's start to the last row's end.
    pub compute: Duration,
    /// Bootstraps really done (an internal figure; the tariff is the service's).
    pub bootstraps: u64,
}

/// Figures for health and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sessions open.
    pub sessions: u64,
    /// Operations submitted and not ended.
    pub operations: u64,
    /// Rows waiting.
    pub queued_rows: u64,
    /// Rows in the batch on a device.
    pub running_rows: u64,
    /// Bytes of prepared keys on devices.
    pub resident_bytes: u64,
    /// The bound of the above.
    pub resident_bytes_max: u64,
    /// Bytes of seeded keys in host memory.
    pub key_bytes: u64,
    /// Gates done since start.
    pub gates_done: u64,
    /// Bootstraps done since start.
    pub bootstraps_done: u64,
    /// Batches run since start.
    pub batches_done: u64,
}

/// The engine: cheap to clone, safe to share.
#[derive(Clone)]
pub struct Engine {}

impl Engine {
    /// Opens the best backend of this machine (this build: the CPU) and starts its device thread.
    pub fn start(_config: Config) -> Result<Engine, Error> {
        todo!()
    }
    /// The device work runs on.
    pub fn device(&self) -> &DeviceInfo {
        todo!()
    }
    /// Takes a key for work. `weight`: share under contention (readings P31), 1 to 64.
    pub fn open(&self, _key: EvaluationKey, _weight: u32) -> Result<SessionId, Error> {
        todo!()
    }
    /// Queues rows of one session; `done` is called exactly once, from an engine thread, and must not block.
    /// All operands must have the session's dimension (the caller parsed them against its preset): assertion otherwise.
    pub fn submit(
        &self,
        _session: SessionId,
        _rows: Vec<GateRow>,
        _deadline: Option<Instant>,
        _done: Box<dyn FnOnce(Result<Done, Error>) + Send>,
    ) -> Result<OperationId, Error> {
        todo!()
    }
    /// Drops what of the operation has not started; its `done` gets [`Error::Cancelled`] if it can still be stopped.
    pub fn cancel(&self, _operation: OperationId) {
        todo!()
    }
    /// Ends a session: refuses new work, drops queued work ([`Error::Gone`]), lets a running batch finish, overwrites the
    /// key in host and device memory and then calls `erased` (readings G3: within 5 s).
    pub fn close(&self, _session: SessionId, _erased: Box<dyn FnOnce() + Send>) {
        todo!()
    }
    /// Figures of the moment.
    pub fn usage(&self) -> Usage {
        todo!()
    }
    /// Takes no new work, finishes what is queued, overwrites all keys, stops the threads. Blocks until done.
    pub fn shutdown(&self) {
        todo!()
    }
}
