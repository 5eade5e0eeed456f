//! Turns operations into batches for devices: sessions, fair scheduling, residency. The engine uses threads and
//! channels; it has no async runtime, no HTTP and no SQL.
//!
//! The decisions are pure functions in [`scheduler`], with [`fair`], `residency` and `slots` as parts: an event and the
//! time go in, commands come out. Around them, `hub` keeps the one lock, the operands, the results and the callbacks.
//! The engine's threads are the loop (timers, callbacks, overwriting of keys) and one for each device (`device`, the
//! only code that knows the backend's type). Only `task` knows schemes. The path of a gate: [`Engine::submit`] ->
//! `Submitted` -> `Load`, `Run` (batches of one or several sessions) -> a device's thread, where `task` lays out
//! operands and results in the session's arena -> `BatchDone` -> `Finish` -> the loop calls `done`. A circuit takes the
//! same path level by level, and its bits stay in the arena between levels.
//!
//! Bounds have names in [`Config`]. The engine tracks no noise budget: every gate but NOT ends in a bootstrap, and NOT
//! adds no noise, so every operand has the noise that the preset assumes. Plans of arithmetic on encrypted numbers
//! (CKKS) are checked before they reach the engine ([`ckks::operation`]).

pub mod batch;
pub mod fair;
pub mod scheduler;

mod config;
mod device;
mod error;
mod hub;
mod ids;
mod operation;
mod residency;
mod rows;
mod session;
mod slots;
mod task;
mod usage;
mod work;

pub use config::Config;
pub use device::Device;
pub use error::{CircuitBound, Error};
pub use fair::WEIGHTS;
pub use ids::{AccountId, OperationId, ParamsId, PartId, Prepared, SessionId, ValueId};
pub use kernels::container;
pub use kernels::cpu::host_memory_bytes;
pub use kernels::detect::{self, Choice, PassedOver};
pub use kernels::tfhe::Gates;
pub use kernels::tfhe::circuit::{CircuitGroup, GATES_MAX, PORT_BITS_MAX};
pub use kernels::tfhe::{
    Circuit, CircuitError, EvaluationKey, Gate, GateList, Lwe, LweList, ModSwitch, OperandBlock, Params, ParamsLiteral,
    Place, Plan, Preset, SeededLweList, builtin, fold, mapping, noise,
};
pub use kernels::{Backend, DeviceInfo, Schemes, ckks};
pub use operation::{Done, Failed, OnDone};
pub use rows::Rows;
pub use session::OnErased;
pub use task::{
    Completed, KeyParams, KeyPart, KeySource, Names, NumbersKey, NumbersPart, PlannedCircuit, PlannedNumbers, Progress,
    SwitchingKeyRow, Task,
};
pub use usage::Usage;
pub use work::OPERATION_ROWS_MAX;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use kernels::cpu::Cpu;
use kernels::detect::{Detected, KnownAnswers};
use kernels::error::message_of;

use device::{Needs, Prepare, Report};
use hub::Hub;
use ids::DeviceId;
use operation::Operation;
use scheduler::{DeviceLimits, Event, SchedulerLimits};

/// The engine. Clones are cheap and may be shared between threads. When the last clone is dropped, queued work ends
/// with [`Error::ShuttingDown`], keys are overwritten and the threads end; the dropping thread does not wait.
#[derive(Clone)]
pub struct Engine {
    handle: Arc<Handle>,
}

/// A device and its service state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    /// The device's description.
    pub info: DeviceInfo,
    /// The schemes that the device computes: `tfhe` for gates, `ckks` for encrypted numbers.
    pub schemes: Vec<&'static str>,
    /// Whether the device takes work now.
    pub in_service: bool,
    /// Whether the device gets only operations that no other healthy device can hold, or has memory for.
    pub stand_in: bool,
    /// The failure that took the device out of service.
    pub failure: Option<String>,
}

struct Handle {
    hub: Arc<Hub>,
    devices: Vec<Opened>,
    passed_over: Vec<PassedOver>,
    /// The loop's thread first, then each device's.
    threads: Mutex<Vec<(Option<DeviceId>, JoinHandle<()>)>>,
    loop_thread: ThreadId,
}

/// The known answers of self-tests. A process computes the answers once.
fn known_answers() -> Result<Arc<KnownAnswers>, Error> {
    static COMPUTED: OnceLock<Arc<KnownAnswers>> = OnceLock::new();
    if let Some(answers) = COMPUTED.get() {
        return Ok(answers.clone());
    }
    let answers = Arc::new(KnownAnswers::compute().map_err(|error| Error::Device(error.to_string()))?);
    Ok(COMPUTED.get_or_init(|| answers).clone())
}

/// The fields of a device that the engine keeps; the device's thread has its other fields.
struct Opened {
    info: DeviceInfo,
    schemes: Vec<&'static str>,
    stand_in: bool,
    needs: Needs,
    prepare: Prepare,
}

impl Engine {
    /// Opens the devices of this machine and starts the engine on them. If there are GPUs, the CPU is a stand-in: for
    /// the case that all GPUs fail, and for operations that no GPU can hold, or for which a GPU was twice out of memory.
    /// `trial` tries each driver before this process loads it.
    pub fn start(config: Config, choice: Choice, trial: detect::Trial<'_>) -> Result<Engine, Error> {
        let Detected { devices, passed_over } = detect::detect(choice, config.kernel_cache.as_deref(), trial);
        let all_gpus = !devices.iter().any(|device| matches!(device, detect::AnyDevice::Cpu(_)));
        let answers = known_answers()?;
        let make_device = || MakeDevice { answers: answers.clone(), every: Duration::from_secs(config.self_test_s) };
        let mut devices: Vec<Device> = devices.into_iter().map(|device| device.with(make_device())).collect();
        if all_gpus {
            devices.push(Device { stand_in: true, ..detect::WithDevice::with(make_device(), Cpu::open()) });
        }
        Engine::start_on(config, devices, passed_over)
    }

    /// Starts the engine on a given backend.
    pub fn with_backend<B: Schemes>(config: Config, backend: B) -> Result<Engine, Error> {
        Engine::with_devices(config, vec![Device::new(backend)])
    }

    /// Starts the engine on given devices. Panics if the list is empty.
    pub fn with_devices(config: Config, devices: Vec<Device>) -> Result<Engine, Error> {
        Engine::start_on(config, devices, Vec::new())
    }

    fn start_on(config: Config, devices: Vec<Device>, passed_over: Vec<PassedOver>) -> Result<Engine, Error> {
        config.validate()?;
        let (senders, receivers): (Vec<_>, Vec<_>) = devices.iter().map(|_| mpsc::channel()).unzip();
        let hub = Arc::new(Hub::new(limits(&config, &devices), senders));
        let mut threads = Vec::with_capacity(devices.len() + 1);
        let mut opened = Vec::with_capacity(devices.len());
        for (at, (device, orders)) in devices.into_iter().zip(receivers).enumerate() {
            let Device { info, schemes, stand_in, needs, prepare, serve } = device;
            let (id, reporting) = (DeviceId(at), hub.clone());
            let run = move || {
                let serving = || serve(orders, &|report| reporting.report(id, report));
                if let Err(panic) = catch_unwind(AssertUnwindSafe(serving)) {
                    let reason = format!("device lost: the device's thread panicked: {}", message_of(panic));
                    reporting.report(id, Report::Died(reason));
                }
            };
            let thread = spawn(&format!("engine-device-{at}"), run).inspect_err(|_| hub.abandon())?;
            threads.push((Some(id), thread));
            opened.push(Opened { info, schemes, stand_in, needs, prepare });
        }
        let looping = hub.clone();
        let loop_thread = spawn("engine-loop", move || looping.run()).inspect_err(|_| hub.abandon())?;
        let loop_id = loop_thread.thread().id();
        threads.insert(0, (None, loop_thread));
        let threads = Mutex::new(threads);
        let handle = Handle { hub, devices: opened, passed_over, loop_thread: loop_id, threads };
        Ok(Engine { handle: Arc::new(handle) })
    }

    /// The first device.
    pub fn device(&self) -> &DeviceInfo {
        &self.handle.devices[0].info
    }

    /// All devices, including those taken out of service.
    pub fn devices(&self) -> Vec<DeviceState> {
        let service = self.handle.hub.service();
        let states = self.handle.devices.iter().zip(service).map(|(device, (in_service, failure))| DeviceState {
            info: device.info.clone(),
            schemes: device.schemes.clone(),
            in_service,
            stand_in: device.stand_in,
            failure,
        });
        states.collect()
    }

    /// The devices and kinds that [`Engine::start`] tried and does not use, each with the reason, for the operator.
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.handle.passed_over
    }

    /// Opens a session for a key of an account. The key stays at its source, and devices fetch the parts that they
    /// need. `weight` is the account's share under contention (readings P31); the method panics if it is not in
    /// [`WEIGHTS`]. All sessions of an account share the weight of the newest session.
    ///
    /// The caller's thread waits while devices compile the kernels for keys of this shape, so that the devices' threads
    /// never wait for compilation.
    ///
    /// [`Error::Busy`] when the host has no room for another key, [`Error::KeyTooLarge`] when no device can ever hold
    /// the key.
    pub fn open(&self, key: impl KeySource, account: AccountId, weight: u32) -> Result<SessionId, Error> {
        assert!(WEIGHTS.contains(&weight), "weight {weight} is not in {WEIGHTS:?}");
        let service = self.handle.hub.service();
        let whole = self.handle.devices.iter().zip(service).filter(|(_, (_, failure))| failure.is_none());
        // a lost device is not prepared, because a call to it may never return
        let params = key.params();
        whole.for_each(|(device, _)| (device.prepare)(&params));
        let needs = self.handle.devices.iter().map(|device| (device.needs)(&params)).collect();
        self.handle.hub.open(Arc::new(key), account, weight, needs)
    }

    /// Queues a task of one session. `done` is called exactly once, from an engine thread, and must not block. If this
    /// method returns an error, `done` is not called.
    ///
    /// The rows must have the session's dimension; the method panics otherwise, because the caller has parsed them for
    /// the session's preset. [`Error::Busy`] when a queue is full, [`Error::Gone`] when the session is closed,
    /// [`Error::CircuitTooLarge`] when a circuit will never fit. An operation without a result at `deadline` ends with
    /// [`Error::DeadlinePassed`].
    pub fn submit(
        &self,
        session: SessionId,
        task: impl Into<Task>,
        deadline: Option<Instant>,
        done: OnDone,
    ) -> Result<OperationId, Error> {
        let task = task.into();
        let row_words = self.handle.hub.row_words(session).ok_or(Error::Gone)?;
        assert_eq!(task.row_words(), row_words, "operands have the session's dimension");
        self.handle.hub.submit(session, Operation::new(task, done), deadline)
    }

    /// The progress of an operation; `None` when it has ended.
    pub fn progress(&self, operation: OperationId) -> Option<Progress> {
        self.handle.hub.progress(operation)
    }

    /// Cancels the rows of an operation that have not started; `done` then gets [`Error::Cancelled`]. If all rows have
    /// started, the call has no effect.
    pub fn cancel(&self, operation: OperationId) {
        self.handle.hub.cancel(operation);
    }

    /// Ends a session in these steps: refuses new work, drops queued work ([`Error::Gone`]), overwrites the key in host
    /// memory, lets a running batch finish, overwrites the key in device memory, calls `erased` (readings G3: within 5
    /// s). The memory of a device that no longer reports cannot be reached, so `erased` is then called when the device
    /// is given up ([`Config::device_silence_s_max`]). A session may be closed again: each `erased` is called. For an
    /// unknown session, `erased` is called at once.
    pub fn close(&self, session: SessionId, erased: OnErased) {
        self.handle.hub.close(session, erased);
    }

    /// The current figures.
    pub fn usage(&self) -> Usage {
        self.handle.hub.usage()
    }

    /// Refuses new work, finishes queued work, overwrites all keys and stops the threads. The call blocks until that
    /// is done, except from a callback, because the loop cannot wait for itself.
    pub fn shutdown(&self) {
        self.handle.hub.feed(Event::Drain);
        if thread::current().id() == self.handle.loop_thread {
            return;
        }
        let mut threads = self.handle.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // The loop's thread is joined first. When it has ended, it is known which devices were given up. Their threads
        // may never end, so they are not joined.
        for (device, thread) in threads.drain(..) {
            if device.is_none_or(|device| !self.handle.hub.given_up(device)) {
                // The result is ignored, because a thread that panicked has already reported the panic.
                let _ = thread.join();
            }
        }
    }
}

/// Makes a device from a detected backend. The device gets a self-test with known answers.
struct MakeDevice {
    answers: Arc<KnownAnswers>,
    every: Duration,
}

impl detect::WithDevice for MakeDevice {
    type Out = Device;

    fn with<B: Schemes>(self, backend: B) -> Device {
        let MakeDevice { answers, every } = self;
        if every.is_zero() {
            Device::new(backend)
        } else {
            Device::checked(backend, every, move |device| answers.check(device))
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hub.abandon();
    }
}

/// The scheduler's limits for a configuration on these devices.
///
/// Half of a device's memory is for keys, an eighth for circuits. On cards without reserved addresses, a growing arena
/// may be copied ([`Backend::grow`]), so its old and new form exist together, which takes up to another eighth. A quarter
/// remains for the memory that kernels need while they run.
fn limits(config: &Config, devices: &[Device]) -> SchedulerLimits {
    let limits_of = |device: &Device| DeviceLimits {
        batch_units_max: config.batch_units_max.unwrap_or(device.info.rows_max).max(1),
        batches_in_flight_max: device.info.batches_in_flight_max.max(1),
        keys_together_max: device.info.keys_together_max.max(1),
        resident_bytes_max: config.resident_bytes_max.unwrap_or(device.info.memory_bytes / 2),
        arena_bytes_max: config
            .arena_bytes_max
            .unwrap_or(device.info.memory_bytes / 8)
            .min(device.info.arena_bytes_max),
        stand_in: device.stand_in,
    };
    SchedulerLimits {
        queue_rows_max: config.queue_rows_max,
        session_rows_max: config.session_rows_max,
        wait: Duration::from_micros(config.wait_us_max),
        window: Duration::from_micros(config.window_us_max),
        arena_idle: Duration::from_millis(config.arena_idle_ms),
        key_bytes_max: config.key_bytes_max,
        circuit_rows_max: config.circuit_rows_max,
        circuit_bytes_max: config.circuit_bytes_max,
        session_circuit_rows_max: config.session_circuit_rows_max,
        session_circuit_bytes_max: config.session_circuit_bytes_max,
        silence_max: Duration::from_secs(config.device_silence_s_max),
        devices: devices.iter().map(limits_of).collect(),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|error| Error::Device(format!("cannot start thread {name}: {error}")))
}
