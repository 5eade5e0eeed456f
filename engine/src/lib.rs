//! Turns operations into batches for devices: sessions, fair scheduling, residency. Threads and channels; no async runtime,
//! no HTTP, no SQL.
//!
//! The decisions are pure and live in [`scheduler`], with [`fair`] and `residency` as its parts: what happened goes in with
//! the time, commands come out. Around it `hub` keeps one lock, the operands, the results and the callbacks. Two threads
//! serve it: the loop (timers, callbacks, overwriting of keys) and the device's (`device`, the only code that knows which
//! backend it is). A gate: [`Engine::submit`] -> `Submitted` -> `Load`, `Run` -> the device's thread -> `BatchDone` ->
//! `Finish` -> the loop calls `done`.
//!
//! Bounds have names in [`Config`]. There is no noise budget here: every gate but NOT ends in a bootstrap, NOT adds no noise,
//! and so every operand has the noise the preset was made for. Arithmetic operations will need one.

pub mod batch;
pub mod fair;
pub mod scheduler;

mod config;
mod device;
mod error;
mod hub;
mod operation;
mod residency;
mod session;
mod usage;

pub use config::Config;
pub use error::Error;
pub use kernels::container;
pub use kernels::detect;
pub use kernels::tfhe::circuit::{GATES_MAX, PORT_BITS_MAX};
pub use kernels::tfhe::{Circuit, CircuitError, EvaluationKey, Gate, GateRow, Lwe, Params, Plan, Preset, noise};
pub use kernels::{Backend, DeviceInfo};
pub use operation::{Done, Failed, OPERATION_ROWS_MAX, OnDone, OperationId, Progress};
pub use session::{OnErased, SessionId, WEIGHTS};
pub use usage::Usage;

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use hub::Hub;
use scheduler::{Event, Limits};

/// The engine: cheap to clone, safe to share. When the last clone is dropped, queued work ends with
/// [`Error::ShuttingDown`], keys are overwritten and the threads end, without anybody waiting for them.
#[derive(Clone)]
pub struct Engine {
    handle: Arc<Handle>,
}

/// A device and whether it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    /// What it is.
    pub info: DeviceInfo,
    /// Whether it takes work now.
    pub in_service: bool,
    /// Whether it works only when no other does.
    pub stand_in: bool,
    /// Why it was taken out of service.
    pub failure: Option<String>,
}

struct Handle {
    hub: Arc<Hub>,
    info: DeviceInfo,
    /// The backend's own answer, its type spent.
    key_bytes: Box<dyn Fn(&Params) -> u64 + Send + Sync>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    loop_thread: ThreadId,
}

impl Engine {
    /// Opens the best backend of this machine (this build: the CPU) and starts its device thread.
    pub fn start(config: Config) -> Result<Engine, Error> {
        Engine::with_backend(config, kernels::cpu::Cpu::open())
    }

    /// Starts on a given backend.
    pub fn with_backend<B: Backend + Sync>(config: Config, backend: B) -> Result<Engine, Error> {
        config.validate()?;
        let backend = Arc::new(backend);
        let info = backend.info().clone();
        let (order, orders) = mpsc::channel();
        let hub = Arc::new(Hub::new(limits(&config, &info), order));

        let device_thread = spawn("engine-device", {
            let (hub, backend) = (hub.clone(), backend.clone());
            move || device::run(&*backend, orders, |report| hub.report(report))
        })?;
        let loop_thread = spawn("engine-loop", {
            let hub = hub.clone();
            move || hub.run()
        })
        .inspect_err(|_| hub.abandon())?;
        let handle = Handle {
            hub,
            info,
            key_bytes: Box::new(move |params| backend.key_bytes(params)),
            loop_thread: loop_thread.thread().id(),
            threads: Mutex::new(vec![device_thread, loop_thread]),
        };
        Ok(Engine { handle: Arc::new(handle) })
    }

    /// The device work runs on.
    pub fn device(&self) -> &DeviceInfo {
        &self.handle.info
    }

    /// All devices, those taken out of service too.
    pub fn devices(&self) -> Vec<DeviceState> {
        vec![DeviceState { info: self.handle.info.clone(), in_service: true, stand_in: false, failure: None }]
    }

    /// Takes a key for work. `weight`: share under contention (readings P31), one of [`WEIGHTS`]: assertion otherwise.
    ///
    /// [`Error::Busy`] when the host has no room for another key, [`Error::KeyTooLarge`] when the device never will.
    pub fn open(&self, key: EvaluationKey, weight: u32) -> Result<SessionId, Error> {
        assert!(WEIGHTS.contains(&weight), "weight {weight} is not in {WEIGHTS:?}");
        let device_bytes = (self.handle.key_bytes)(&key.params);
        self.handle.hub.open(key, weight, device_bytes)
    }

    /// Queues rows of one session; `done` is called exactly once, from an engine thread, and must not block. After an error
    /// from here it is not called.
    ///
    /// 1 to [`OPERATION_ROWS_MAX`] rows, each with the operands of its gate, all of the session's dimension (the caller
    /// parsed them against its preset): assertion otherwise. [`Error::Busy`] when a queue is full, [`Error::Gone`] when the
    /// session is closed. A result that is not there at `deadline` is [`Error::DeadlinePassed`].
    pub fn submit(
        &self,
        session: SessionId,
        rows: Vec<GateRow>,
        deadline: Option<Instant>,
        done: OnDone,
    ) -> Result<OperationId, Error> {
        assert!((1..=OPERATION_ROWS_MAX).contains(&rows.len()), "an operation has 1 to {OPERATION_ROWS_MAX} rows");
        let dimension = self.handle.hub.lwe_dimension(session).ok_or(Error::Gone)?;
        for row in &rows {
            assert_eq!(row.operands.len(), row.gate.arity(), "operands of {}", row.gate.name());
            assert!(
                row.operands.iter().all(|lwe| lwe.dimension() == dimension),
                "operands have the session's dimension"
            );
        }
        self.handle.hub.submit(session, rows, deadline, done)
    }

    /// Queues a circuit: its results are its outputs, in order. `inputs`: a ciphertext an input bit, in the order of
    /// [`Plan::inputs`], of the session's dimension; assertion otherwise.
    ///
    /// As [`Engine::submit`], and [`Error::CircuitTooLarge`] when it never will fit.
    pub fn submit_circuit(
        &self,
        session: SessionId,
        plan: Arc<Plan>,
        inputs: Vec<Lwe>,
        deadline: Option<Instant>,
        done: OnDone,
    ) -> Result<OperationId, Error> {
        assert_eq!(inputs.len(), plan.inputs().len(), "a ciphertext an input bit");
        let dimension = self.handle.hub.lwe_dimension(session).ok_or(Error::Gone)?;
        assert!(inputs.iter().all(|lwe| lwe.dimension() == dimension), "inputs have the session's dimension");
        let _ = (deadline, done);
        Err(Error::Device("circuits are not evaluated yet".into()))
    }

    /// How far an operation is; `None` when it has ended.
    pub fn progress(&self, operation: OperationId) -> Option<Progress> {
        self.handle.hub.progress(operation)
    }

    /// Drops what of the operation has not started; its `done` gets [`Error::Cancelled`] if it can still be stopped: if all
    /// its rows have started, it ends as if nothing had been said.
    pub fn cancel(&self, operation: OperationId) {
        self.handle.hub.cancel(operation);
    }

    /// Ends a session: refuses new work, drops queued work ([`Error::Gone`]), lets a running batch finish, overwrites the
    /// key in host and device memory and then calls `erased` (readings G3: within 5 s). A session that was closed before is
    /// closed again in the same way; one that never was is erased already.
    pub fn close(&self, session: SessionId, erased: OnErased) {
        self.handle.hub.close(session, erased);
    }

    /// Figures of the moment.
    pub fn usage(&self) -> Usage {
        self.handle.hub.usage()
    }

    /// Takes no new work, finishes what is queued, overwrites all keys, stops the threads. Blocks until done, except when
    /// called from a callback: the loop cannot wait for itself.
    pub fn shutdown(&self) {
        self.handle.hub.feed(Event::Drain);
        if thread::current().id() == self.handle.loop_thread {
            return;
        }
        let mut threads = self.handle.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hub.abandon();
    }
}

/// What a configuration comes to on this device.
fn limits(config: &Config, info: &DeviceInfo) -> Limits {
    Limits {
        queue_rows_max: config.queue_rows_max,
        session_rows_max: config.session_rows_max,
        batch_rows_max: config.batch_rows_max.unwrap_or(info.rows_max).max(1),
        wait: Duration::from_micros(config.wait_us_max),
        key_bytes_max: config.key_bytes_max,
        resident_bytes_max: config.resident_bytes_max.unwrap_or(info.memory_bytes / 2),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|error| Error::Device(format!("cannot start thread {name}: {error}")))
}
