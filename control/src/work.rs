//! Work for the engine, and the worker that does the work: keys and operations have names that hold beyond this process.
//! Only this file and the files in the folder `work` use the engine's types.
//!
//! Bytes that come from outside become typed values here. Faulty bytes become an error with a code of the
//! specification.

mod at_rest;
mod bits;
pub mod driver_trial;
pub mod fleet;
mod here;
mod key;
mod named;
pub mod numbers;
mod octets;
mod open_keys;
mod question;
mod workers;

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use api::Code;
use api::gates::BATCH_GATES_MAX;

use crate::parsers::{megabytes, megabytes_or_auto, number, parsed, seconds};
use crate::web::error::ApiError;

pub use at_rest::{Finding, KeysAtRest, RestingKey};
pub use bits::*;
pub use engine::Choice as BackendChoice;
pub use engine::Device as EngineDevice;
pub use engine::builtin;
pub use engine::container::Form;
pub use engine::{
    CircuitBound, CircuitError, EvaluationKey, GATES_MAX, Gate, Lwe, LweList, OperandBlock, PORT_BITS_MAX, Place,
    Preset, Rows, SeededLweList, Usage,
};
pub use here::Here;
pub use key::{AccountDigests, KeyName, Operand, Share};
pub use named::NamedResult;
pub use octets::{NotWork, read_end, read_short_work, read_work, write_end, write_short_work, write_work};
pub use question::{Ending, Figures, Question, Work, WorkEnd, WorkError, Worker, ask};
pub use workers::Workers;

/// Limits on computing, as the engine defines them.
#[derive(Clone, Debug, clap::Args)]
pub struct ComputeConfig {
    /// The backend that computes gates. `auto` takes CUDA if the machine has an NVIDIA card, otherwise another GPU,
    /// otherwise the CPU. `ango devices` lists the devices.
    #[arg(env = "ANGO_BACKEND", default_value = "auto")]
    #[arg(value_parser = parsed::<BackendChoice>("auto, cuda, wgpu or cpu"))]
    pub backend: BackendChoice,
    /// Longest time in seconds for the trial of a GPU driver. Before the node loads a driver, a child process loads it,
    /// because a faulty driver can end the process that loads it. 0: no trial.
    #[arg(env = "ANGO_DEVICE_PROBE_S", default_value = "300", value_parser = seconds(0..=3600))]
    pub driver_trial_s: Duration,
    /// Largest number of gates that may wait on the whole node. When the queue is full, requests are answered 503.
    #[arg(env = "ANGO_QUEUE_ROWS_MAX", default_value = "16384", value_parser = number::<usize>(ROWS_MAX))]
    pub queue_rows_max: usize,
    /// Largest number of gates of one session that may wait. At least 1024, the size of the largest batch.
    #[arg(env = "ANGO_SESSION_ROWS_MAX", default_value = "4096", value_parser = number::<usize>(ROWS_MAX))]
    pub session_rows_max: usize,
    /// Longest time in microseconds that a lone gate waits for more gates of its session while the devices are busy.
    #[arg(env = "ANGO_BATCH_WAIT_US", default_value = "200", value_parser = number::<u64>(0..=1_000_000))]
    pub wait_us_max: u64,
    /// Memory in MB for evaluation keys that no device has loaded yet. When this memory is full, a further key is only
    /// in the data folder, and a device reads the key from there. `auto` is an eighth of the memory that the process
    /// may use (its container's limit, if it has one), at most 4096.
    #[arg(env = "ANGO_KEY_MEMORY_MB", default_value = "auto")]
    #[arg(value_parser = megabytes_or_auto(16..=1 << 24, || engine::Config::default().key_bytes_max))]
    pub key_bytes_max: u64,
    /// Space in MB for evaluation keys of open sessions, which are encrypted in the data folder, or in a fleet in the bucket. When
    /// this space is full, new sessions are answered 503.
    #[arg(env = "ANGO_KEY_STORAGE_MB", default_value = "10240", value_parser = megabytes(40..=1 << 24))]
    pub key_storage_bytes_max: u64,
    /// Memory in MB for keys that are prepared for computing. When unset, the limit follows from the device's memory.
    #[arg(env = "ANGO_RESIDENT_MEMORY_MB", value_parser = megabytes(128..=1 << 24))]
    pub resident_bytes_max: Option<u64>,
    /// Half of ANGO_VALUE_MEMORY_MB, in bytes: room for inputs and outputs of operations that wait or run.
    #[arg(skip)]
    pub operand_bytes_max: u64,
    /// Half of ANGO_SESSION_VALUE_MEMORY_MB, in bytes: as above, for one session or one key of numbers.
    #[arg(skip)]
    pub session_operand_bytes_max: u64,
}

/// Time after which a client should try again when no worker can be reached.
const AWAY_RETRY: Duration = Duration::from_secs(2);
const ROWS_MAX: RangeInclusive<u64> = BATCH_GATES_MAX as u64..=1 << 24;

/// The result of a search for devices.
pub struct Detected {
    /// The devices that would compute, at least one, each with the schemes that it computes.
    pub devices: Vec<(engine::DeviceInfo, Vec<&'static str>)>,
    /// The backends that were passed over, and why.
    pub passed_over: Vec<engine::PassedOver>,
}

/// Looks for devices in the same way as [`Here::start`], and releases the devices again.
pub fn detect(config: &ComputeConfig, kernel_cache: Option<&Path>) -> Detected {
    let trial = |kind| driver_trial::run(config, kernel_cache, kind);
    let found = engine::detect::detect(config.backend, kernel_cache, &trial);
    let devices = found.devices.iter().map(|device| (device.info().clone(), device.schemes())).collect();
    Detected { devices, passed_over: found.passed_over }
}

/// A device of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Build string of the device's backend (readings O7).
    pub backend: String,
    /// The device's name.
    pub name: String,
    /// The schemes that the device computes: `tfhe` for gates, `ckks` for encrypted numbers.
    pub schemes: Vec<&'static str>,
    /// Whether the device works.
    pub state: DeviceState,
    /// Why the device was taken out of service.
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
    /// Returns the state's name in metrics.
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
        let engine::DeviceState { info, schemes, failure, .. } = device;
        DeviceFacts { backend: info.backend, name: info.name, schemes, state, failure }
    }
}

/// Returns the number of bytes of memory that this process may use.
pub fn memory_bytes() -> u64 {
    engine::host_memory_bytes()
}

/// Makes the engine's configuration with the bounds that the settings give.
fn bounds(config: &ComputeConfig) -> engine::Config {
    let default = engine::Config::default();
    engine::Config {
        circuit_bytes_max: default.circuit_bytes_max.max(config.operand_bytes_max),
        session_circuit_bytes_max: default.session_circuit_bytes_max.max(config.session_operand_bytes_max),
        queue_rows_max: config.queue_rows_max,
        session_rows_max: config.session_rows_max,
        wait_us_max: config.wait_us_max,
        resident_bytes_max: config.resident_bytes_max,
        ..default
    }
}

/// Why a program has no result.
pub enum RunError {
    /// The session was closed before or during the run. The session's record holds the reason.
    Gone,
    /// Any other error.
    Api(ApiError),
}

impl RunError {
    /// Returns the error for answers. `gone` makes the one for a closed session.
    pub fn or_gone(self, gone: impl FnOnce() -> ApiError) -> ApiError {
        match self {
            RunError::Gone => gone(),
            RunError::Api(error) => error,
        }
    }
}

impl From<engine::Error> for RunError {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Gone => RunError::Gone,
            error => RunError::Api(refused(error)),
        }
    }
}

impl From<WorkError> for RunError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Engine(error) => error.into(),
            error @ (WorkError::Unfit(_) | WorkError::Dropped) => RunError::Api(ApiError::internal(error)),
            WorkError::Away => {
                let message = "no worker can be reached at the moment; nothing was charged";
                RunError::Api(ApiError::unavailable("fleet", message).retry_after(AWAY_RETRY))
            }
        }
    }
}

impl From<ApiError> for RunError {
    fn from(error: ApiError) -> Self {
        RunError::Api(error)
    }
}

/// Makes the API error for an error of the engine.
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
        Error::KeyTooLarge { bytes, bytes_max } => {
            let [bytes, bytes_max] = [bytes.div_ceil(1_000_000), bytes_max / 1_000_000];
            let message = format!(
                "the key is too large for this node: what the work needs of the key takes {bytes} MB of a device's memory, and \
                 the node has {bytes_max} MB for keys"
            );
            ApiError::new(Code::InvalidParams, message)
        }
        Error::CircuitTooLarge { of, .. } => {
            let remedy = match of {
                CircuitBound::Rows => "divide the work into several operations",
                CircuitBound::HostBytes => {
                    "the node's operator can raise ANGO_VALUE_MEMORY_MB and ANGO_SESSION_VALUE_MEMORY_MB"
                }
                CircuitBound::DeviceBytes => "this node's device has too little memory for the operation",
            };
            ApiError::new(Code::PayloadTooLarge, format!("{error}: {remedy}"))
        }
        Error::Config(cause) => ApiError::internal(cause),
    }
}

fn too_large_key() -> ApiError {
    ApiError::new(Code::InvalidParams, "the key is too large for the memory of this node")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    #[test]
    fn an_operation_above_a_bound_is_refused_with_the_remedy() {
        let refusal = |of| {
            let error = refused(engine::Error::CircuitTooLarge { of, needed: 15_990_784, max: 11_468_800 });
            assert_eq!(error.code, Code::PayloadTooLarge);
            assert!(error.message.starts_with("the operation takes 15990784 "), "{}", error.message);
            error.message
        };
        assert!(refusal(CircuitBound::HostBytes).contains("raise ANGO_VALUE_MEMORY_MB"));
        assert!(refusal(CircuitBound::Rows).contains("divide the work"));
        assert!(refusal(CircuitBound::DeviceBytes).contains("too little memory"));
    }

    #[test]
    fn more_value_memory_makes_room_for_larger_operations() {
        let mut config = Flags::default().config().unwrap().compute;
        let before = bounds(&config);
        (config.operand_bytes_max, config.session_operand_bytes_max) = (1 << 40, 1 << 38);
        let after = bounds(&config);
        assert_eq!((after.circuit_bytes_max, after.session_circuit_bytes_max), (1 << 40, 1 << 38));
        // a small setting takes nothing away
        (config.operand_bytes_max, config.session_operand_bytes_max) = (1, 1);
        assert_eq!(bounds(&config), before);
    }
}
