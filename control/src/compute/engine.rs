//! The service's interface to the engine. No other file names the engine's types.
//!
//! Bytes from outside become typed values here, or an error with a code of the specification.

mod ciphertexts;
pub mod numbers;
mod planning;
mod stored_key;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::Code;
use api::gates::BATCH_GATES_MAX;
use api::params::PresetFacts;
use engine::{Circuit, GateList, Params, Task};
use tokio::sync::oneshot;

use crate::caller;
use crate::parsers::{megabytes, megabytes_or_auto, number, parsed};
use crate::web::error::ApiError;

pub use ciphertexts::{
    check_fingerprint, empty_list, program, program_of_places, read_program, read_seeded_value, read_single,
    read_value, read_words, words_bytes, write_results, write_single, write_value,
};
pub use engine::Choice as BackendChoice;
pub use engine::Device as EngineDevice;
pub use engine::builtin;
pub use engine::container::Form;
pub use engine::{
    CircuitError, EvaluationKey, GATES_MAX, Gate, Lwe, LweList, OperandBlock, OperationId as EngineOperation,
    PORT_BITS_MAX, Place, Preset, SeededLweList, Usage,
};
pub use planning::{InputNoise, Mapping, PlanCache, PlanFacts, PlannedCircuit};
pub use stored_key::{KeyStore, SealedKey, StoredKey};

/// Bounds on computing, with the engine's meanings.
#[derive(Clone, Debug, clap::Args)]
pub struct ComputeConfig {
    /// The backend that computes gates. `auto` takes CUDA if the machine has an NVIDIA card, otherwise another GPU,
    /// otherwise the CPU. `ango devices` lists the devices.
    #[arg(env = "ANGO_BACKEND", default_value = "auto")]
    #[arg(value_parser = parsed::<BackendChoice>("auto, cuda, wgpu or cpu"))]
    pub backend: BackendChoice,
    /// Most gates that wait on the whole node. Beyond this requests are answered 503.
    #[arg(env = "ANGO_QUEUE_ROWS_MAX", default_value = "16384", value_parser = number::<usize>(ROWS_MAX))]
    pub queue_rows_max: usize,
    /// Most gates that wait for one session. A full batch must fit.
    #[arg(env = "ANGO_SESSION_ROWS_MAX", default_value = "4096", value_parser = number::<usize>(ROWS_MAX))]
    pub session_rows_max: usize,
    /// Longest time in microseconds that a lone gate waits for more gates of its session while the devices are busy.
    #[arg(env = "ANGO_BATCH_WAIT_US", default_value = "200", value_parser = number::<u64>(0..=1_000_000))]
    pub wait_us_max: u64,
    /// Memory in MB for evaluation keys that no device has loaded yet. Beyond this a device reads a key from the data
    /// folder. `auto` is an eighth of the memory that the process may use (its container's limit, if it has one), at
    /// most 4096.
    #[arg(env = "ANGO_KEY_MEMORY_MB", default_value = "auto")]
    #[arg(value_parser = megabytes_or_auto(16..=1 << 24, || engine::Config::default().key_bytes_max))]
    pub key_bytes_max: u64,
    /// Disk space in MB for evaluation keys of open sessions, which are encrypted in the data folder. Beyond this,
    /// new sessions are answered 503.
    #[arg(env = "ANGO_KEY_STORAGE_MB", default_value = "10240", value_parser = megabytes(40..=1 << 24))]
    pub key_storage_bytes_max: u64,
    /// Memory in MB for keys that are prepared for computing. When unset, the device's memory decides.
    #[arg(env = "ANGO_RESIDENT_MEMORY_MB", value_parser = megabytes(128..=1 << 24))]
    pub resident_bytes_max: Option<u64>,
}

const ROWS_MAX: RangeInclusive<u64> = BATCH_GATES_MAX as u64..=1 << 24;

/// The share of the node that a key's work gets under contention: that of its account's plan. All keys of an account
/// have this share together (readings P31).
#[derive(Clone, Copy, Debug)]
pub struct Share {
    account: engine::AccountId,
    weight: u32,
}

impl Share {
    /// The share of an account with this plan.
    pub fn of(account: &api::ids::AccountId, plan: caller::Plan) -> Share {
        Share { account: engine::AccountId(account.bits()), weight: plan.weight() }
    }
}

/// A key in the engine, with the properties that its ciphertexts must match.
#[derive(Clone, Copy, Debug)]
pub struct OpenKey {
    session: engine::SessionId,
    /// The key's preset.
    pub preset: Preset,
    /// Whether another library made the key. The preset's figures for security and failure do not hold for it then.
    pub imported: bool,
    /// The key's parameters, for which plans of circuits are made.
    params: Params,
    fingerprint: Option<[u8; 8]>,
}

/// A key in the engine that is closed on drop, so that no key stays open when a request ends early.
pub struct OwnedKey {
    engine: Engine,
    key: OpenKey,
}

impl std::ops::Deref for OwnedKey {
    type Target = OpenKey;

    fn deref(&self) -> &OpenKey {
        &self.key
    }
}

impl Drop for OwnedKey {
    fn drop(&mut self) {
        // closing a key twice is harmless
        drop(self.engine.close(&self.key));
    }
}

/// A gate and its operands as base64, in the order a, b, sel.
#[derive(Clone, Debug)]
pub struct GateText<'a> {
    /// The gate.
    pub gate: Gate,
    /// Member names and operands, as many as the gate takes.
    pub operands: Vec<(&'static str, OperandText<'a>)>,
}

/// An operand in a member of a gate.
#[derive(Clone, Copy, Debug)]
pub enum OperandText<'a> {
    /// A ciphertext in base64.
    Text(&'a str),
    /// The words of a ciphertext stored on the node, and the form for writing results.
    Kept(&'a [u32], Form),
}

/// Gates that are ready to run.
pub struct Program {
    /// The gates after folding, which leaves only those to compute. The charge is for the gates as requested.
    list: GateList,
    /// The form of each gate's first operand. The gate's result is written in this form.
    forms: Vec<Form>,
}

/// The results of a program.
pub struct Outcome {
    results: LweList,
    forms: Vec<Form>,
    /// Wall time of the evaluation.
    pub compute: Duration,
    /// Wall time in the queue before the evaluation.
    pub waited: Duration,
    /// Bootstraps really done.
    pub bootstraps: u64,
}

impl Outcome {
    /// The results' ciphertexts.
    pub fn into_results(self) -> LweList {
        self.results
    }

    /// Takes the results' ciphertexts out, and the form of the first.
    pub fn take_results(&mut self) -> (LweList, Form) {
        let none = LweList::with_capacity(self.results.dimension(), 0);
        (std::mem::replace(&mut self.results, none), self.forms.first().copied().unwrap_or(Form::Ango))
    }
}

/// A netlist that was read and checked.
pub struct Netlist {
    circuit: Circuit,
}

impl Netlist {
    /// Reads a netlist of at most `gates_max` gates. A header that announces more is refused before any gate is read.
    /// CPU work: a second for a million gates.
    pub fn read(text: &str, gates_max: u64) -> Result<Netlist, CircuitError> {
        let gates_max = usize::try_from(gates_max).unwrap_or(usize::MAX);
        Circuit::parse_within(text, gates_max).map(|circuit| Netlist { circuit })
    }

    /// Bits of each input value.
    pub fn input_widths(&self) -> &[usize] {
        self.circuit.input_widths()
    }

    /// Bits of each output value.
    pub fn output_widths(&self) -> &[usize] {
        self.circuit.output_widths()
    }

    /// Number of gates.
    pub fn gates(&self) -> u64 {
        self.circuit.gates().len() as u64
    }

    /// Number of gates of each kind.
    pub fn gate_counts(&self) -> Vec<(Gate, u64)> {
        self.circuit.gate_counts()
    }

    /// Number of levels.
    pub fn levels(&self) -> u64 {
        self.circuit.levels().len() as u64
    }
}

/// How a circuit's run ended.
pub enum CircuitEnd {
    /// All gates are completed.
    Completed {
        /// The output bits' ciphertexts, one output after another.
        results: LweList,
        /// Wall time of the evaluation.
        compute: Duration,
        /// Bootstraps really done.
        bootstraps: u64,
    },
    /// The run was cancelled by [`Engine::cancel`] after these gates.
    Cancelled(Vec<(Gate, u64)>),
    /// The run failed without results.
    Failed(RunError),
}

/// The result of a search for devices.
pub struct Detected {
    /// The devices that would compute, at least one.
    pub devices: Vec<engine::DeviceInfo>,
    /// The backends that were passed over, and why.
    pub passed_over: Vec<engine::PassedOver>,
}

/// Looks for devices like [`Engine::start`], and releases them again.
pub fn detect(choice: BackendChoice, kernel_cache: Option<&Path>) -> Detected {
    let found = engine::detect::detect(choice, kernel_cache);
    let devices = found.devices.iter().map(|device| device.info().clone()).collect();
    Detected { devices, passed_over: found.passed_over }
}

/// A device of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Build string of the device's backend (readings O7).
    pub backend: String,
    /// The device's name.
    pub name: String,
    /// Whether the device works.
    pub state: DeviceState,
    /// Why it was taken out of service.
    pub failure: Option<String>,
}

/// Whether a device works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// The device accepts work.
    InService,
    /// The device accepts work only if no other device can.
    StandIn,
    /// The device failed and was taken out of service.
    Lost,
}

impl DeviceState {
    /// The state's name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            DeviceState::InService => "in_service",
            DeviceState::StandIn => "stand_in",
            DeviceState::Lost => "lost",
        }
    }
}

impl From<engine::DeviceState> for DeviceFacts {
    fn from(device: engine::DeviceState) -> Self {
        let state = match (device.failure.is_some() && !device.in_service, device.stand_in) {
            (true, _) => DeviceState::Lost,
            (false, true) => DeviceState::StandIn,
            (false, false) => DeviceState::InService,
        };
        DeviceFacts { backend: device.info.backend, name: device.info.name, state, failure: device.failure }
    }
}

/// The engine of this node. A clone shares the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: engine::Engine,
}

impl Engine {
    /// Starts the engine on the devices that the settings choose. `kernel_cache`: the folder of kernels compiled at
    /// earlier starts; without it, compiling for a GPU takes seconds. Backends that are passed over are logged.
    pub fn start(config: &ComputeConfig, kernel_cache: PathBuf) -> anyhow::Result<Engine> {
        let bounds = engine::Config { kernel_cache: Some(kernel_cache), ..bounds(config) };
        let inner = engine::Engine::start(bounds, config.backend)?;
        for passed in inner.passed_over() {
            let (backend, reason) = (passed.backend, &passed.reason);
            match config.backend {
                BackendChoice::Auto => tracing::info!(backend, reason, "backend passed over"),
                _ => tracing::warn!(
                    backend,
                    reason,
                    "the backend that the settings name does not work, so another one computes"
                ),
            }
        }
        Ok(Engine { inner })
    }

    /// Starts the engine on these devices, whatever backend the settings name. Panics if there are none.
    pub fn start_on(config: &ComputeConfig, devices: Vec<EngineDevice>) -> anyhow::Result<Engine> {
        Ok(Engine { inner: engine::Engine::with_devices(bounds(config), devices)? })
    }

    /// Build string of the backend (readings O7).
    pub fn backend(&self) -> &str {
        &self.inner.device().backend
    }

    /// The name of the first device.
    pub fn device_name(&self) -> &str {
        &self.inner.device().name
    }

    /// All devices, including those taken out of service.
    pub fn devices(&self) -> Vec<DeviceFacts> {
        self.inner.devices().into_iter().map(DeviceFacts::from).collect()
    }

    /// The engine's present figures.
    pub fn usage(&self) -> Usage {
        self.inner.usage()
    }

    /// Opens a key of an account for work. Blocks: the first key of a shape waits for its kernels, some seconds on a
    /// GPU. Call this outside the async threads.
    pub fn open(&self, key: StoredKey, share: Share) -> Result<OwnedKey, ApiError> {
        let (preset, imported, params, fingerprint) = (key.preset, key.imported, key.gate_params(), key.fingerprint);
        let session = self.inner.open(key, share.account, share.weight).map_err(refused)?;
        Ok(OwnedKey { engine: self.clone(), key: OpenKey { session, preset, imported, params, fingerprint } })
    }

    /// Closes a key. The key accepts no new work, and its memory is overwritten. The receiver is ready when that is
    /// done (readings G3).
    pub fn close(&self, key: &OpenKey) -> oneshot::Receiver<()> {
        let (erased, hears) = oneshot::channel();
        let tell = move || {
            // the receiver may have been dropped
            let _ = erased.send(());
        };
        self.inner.close(key.session, Box::new(tell));
        hears
    }

    /// Runs a program. If the result is not ready at the deadline, the program fails and counts for nothing (readings
    /// E9).
    pub async fn run(&self, key: &OpenKey, program: Program, deadline: Instant) -> Result<Outcome, RunError> {
        let (done, result) = oneshot::channel();
        let Program { list, forms } = program;
        let submitted = Instant::now();
        self.inner.submit(key.session, list, Some(deadline), Box::new(move |outcome| drop(done.send(outcome))))?;
        let done = result.await.map_err(|_| ApiError::internal("the engine dropped an operation"))?;
        let done = done.map_err(|failed| failed.error)?;
        let waited = submitted.elapsed().saturating_sub(done.compute);
        Ok(Outcome { results: done.results.into(), forms, compute: done.compute, waited, bootstraps: done.units })
    }

    /// Begins a circuit. `inputs`: one ciphertext for each input bit, one input after another. The receiver gets the
    /// run's end; a run that is not completed at the deadline fails.
    pub fn start_circuit(
        &self,
        key: &OpenKey,
        circuit: &PlannedCircuit,
        inputs: LweList,
        deadline: Instant,
    ) -> Result<(EngineOperation, oneshot::Receiver<CircuitEnd>), RunError> {
        let (tell, hears) = oneshot::channel();
        let told = move |outcome: Result<engine::Done, engine::Failed>| {
            let end = match outcome {
                Ok(done) => {
                    let results = done.results.into();
                    CircuitEnd::Completed { results, compute: done.compute, bootstraps: done.units }
                }
                Err(engine::Failed { error: engine::Error::Cancelled, completed }) => CircuitEnd::Cancelled(completed),
                Err(failed) => CircuitEnd::Failed(failed.error.into()),
            };
            // the receiver may have been dropped
            drop(tell.send(end));
        };
        let task = Task::circuit(circuit.plan.clone(), inputs);
        let operation = self.inner.submit(key.session, task, Some(deadline), Box::new(told))?;
        Ok((operation, hears))
    }

    /// Completed gates of a running circuit.
    pub fn gates_done(&self, operation: EngineOperation) -> Option<u64> {
        self.inner.progress(operation).map(|progress| progress.done)
    }

    /// Cancels a circuit, unless it has ended.
    pub fn cancel(&self, operation: EngineOperation) {
        self.inner.cancel(operation);
    }

    /// Finishes the queued work, overwrites all keys and stops. Blocks.
    pub fn shutdown(&self) {
        self.inner.shutdown();
    }
}

/// Bytes of memory that this process may use.
pub fn memory_bytes() -> u64 {
    engine::host_memory_bytes()
}

/// The engine's bounds, as the settings give them.
fn bounds(config: &ComputeConfig) -> engine::Config {
    engine::Config {
        queue_rows_max: config.queue_rows_max,
        session_rows_max: config.session_rows_max,
        wait_us_max: config.wait_us_max,
        resident_bytes_max: config.resident_bytes_max,
        ..engine::Config::default()
    }
}

/// Why a program has no result.
pub enum RunError {
    /// The session was closed before or during the run. Its record holds the reason.
    Gone,
    /// Any other error.
    Api(ApiError),
}

impl From<engine::Error> for RunError {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Gone => RunError::Gone,
            error => RunError::Api(refused(error)),
        }
    }
}

impl From<ApiError> for RunError {
    fn from(error: ApiError) -> Self {
        RunError::Api(error)
    }
}

/// The API error for an error of the engine.
fn refused(error: engine::Error) -> ApiError {
    use engine::Error;
    match error {
        Error::Busy { retry_after } => {
            ApiError::unavailable("queue", "the node's queue is full").retry_after(retry_after)
        }
        Error::DeadlinePassed => {
            ApiError::unavailable("deadline", "the work did not finish in time; nothing was charged")
        }
        Error::Cancelled => ApiError::unavailable("cancelled", "the work was cancelled; nothing was charged"),
        Error::ShuttingDown => ApiError::draining(),
        Error::Gone => ApiError::new(Code::SessionNotFound, "there is no such session"),
        Error::Device(cause) => {
            tracing::error!(%cause, "device failed");
            ApiError::unavailable("device", "the device failed; nothing was charged")
        }
        Error::Key(cause) => {
            tracing::error!(%cause, "a key cannot be read");
            ApiError::unavailable("key", "the key cannot be read at the moment; nothing was charged")
        }
        Error::KeyTooLarge { .. } => too_large_key(),
        Error::CircuitTooLarge { .. } => ApiError::new(Code::PayloadTooLarge, error.to_string()),
        Error::Config(cause) => ApiError::internal(cause),
    }
}

fn too_large_key() -> ApiError {
    ApiError::new(Code::InvalidParams, "the key is larger than this node has memory for")
}

/// The properties and costs of a preset (readings section 14, `params/suggest`).
pub fn preset_facts(preset: Preset) -> PresetFacts {
    let params = preset.params();
    PresetFacts {
        preset: preset.name().to_owned(),
        security_bits: preset.security_bits(),
        n: params.lwe_dimension,
        big_n: params.polynomial_size,
        glwe_dimension: params.glwe_dimension,
        bootstrap_base_log: params.bootstrap_base_log,
        bootstrap_level_count: params.bootstrap_level_count,
        key_switch_base: params.key_switch_base,
        key_switch_level_count: params.key_switch_level_count,
        evaluation_key_bytes: params.seeded_bytes(),
        ciphertext_bytes: params.ciphertext_bytes(),
        failure_probability_log2: tenths(engine::noise::failure_log2(&params).gate),
        worst_failure_probability_log2: tenths(engine::noise::failure_log2(&params).worst),
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
