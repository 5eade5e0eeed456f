//! The engine's bounds. Everything that could grow has a bound here. The name of each bound contains the unit.

use std::path::PathBuf;
use std::time::Duration;

use kernels::backend::SILENCE_MAX;
use kernels::cpu::host_memory_bytes;
use kernels::tfhe::circuit::GATES_MAX;

use crate::error::Error;
use crate::work::OPERATION_ROWS_MAX;

const GIB: u64 = 1 << 30;

/// Smallest default memory for keys: at least one key of the largest preset, or of the largest upload.
const KEY_BYTES_LEAST: u64 = 64 << 20;

/// The engine's bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest number of rows that wait or run in all sessions together. Above this, submissions fail with
    /// [`Error::Busy`]. A row's operands take 5 to 10 KB.
    pub queue_rows_max: usize,
    /// Largest number of rows that wait or run in one session. At least [`OPERATION_ROWS_MAX`], so that an empty queue
    /// accepts any operation.
    pub session_rows_max: usize,
    /// While all devices are busy, how long rows that do not fill a batch wait for more rows of their session, in
    /// microseconds. An idle device starts at once. 0: no wait.
    pub wait_us_max: u64,
    /// How long the levels of a circuit that a device gets in one call may take by the measured pace, in microseconds.
    /// Cancellation and other sessions wait for the end of a call. A call has at least one level, or a part of a level.
    /// 0: one level in each call.
    pub window_us_max: u64,
    /// How long a session's arena for operands and results stays on a device after its last batch, in milliseconds, so
    /// that the next request need not wait for a new arena. The arena is freed earlier if the session closes or the
    /// device needs the memory. 0: freed at once.
    pub arena_idle_ms: u64,
    /// Largest number of units of work in one batch (for gates: bootstraps). A batch cannot be interrupted, so this
    /// bounds how long a session waits for a batch of another session, and how long an eviction takes. `None`: the
    /// device's `rows_max`, because larger batches are not faster. At 2 ms for a bootstrap on a core, 64 rows a core
    /// take 128 ms.
    pub batch_units_max: Option<usize>,
    /// Host memory for seeded keys of open sessions, in bytes. The default is an eighth of the memory that the process
    /// may use (its container's limit, if it has one), at most 4 GiB. By default, the CPU's prepared keys may take a
    /// quarter of the same memory, and arenas a sixteenth.
    pub key_bytes_max: u64,
    /// Device memory for prepared keys, in bytes. `None`: half of the device's memory.
    pub resident_bytes_max: Option<u64>,
    /// Largest number of rows of all circuits that wait or run. Above this, circuits fail with [`Error::Busy`]. A gate
    /// takes about 40 bytes.
    pub circuit_rows_max: usize,
    /// Host memory for the inputs and outputs of circuits that wait or run, in bytes.
    pub circuit_bytes_max: u64,
    /// Largest number of rows of one session's circuits that wait or run. The default is one circuit of the largest
    /// size, which is a quarter of the default for all sessions.
    pub session_circuit_rows_max: usize,
    /// Host memory for the inputs and outputs of one session's circuits that wait or run, in bytes.
    pub session_circuit_bytes_max: u64,
    /// Device memory for the slots of circuits, in bytes, on each device. `None`: an eighth of the device's memory. A
    /// device with a bound on its arenas ([`DeviceInfo::arena_bytes_max`](kernels::DeviceInfo::arena_bytes_max)) has at
    /// most that.
    pub arena_bytes_max: Option<u64>,
    /// How long a device with work may report nothing before the engine gives it up, in seconds. For a large batch, the
    /// bound is 32 times the duration expected from the measured pace, if this product is larger. The default is
    /// [`SILENCE_MAX`].
    pub device_silence_s_max: u64,
    /// Time between two self-tests of each detected device, in seconds. 0: no self-tests.
    pub self_test_s: u64,
    /// Folder that keeps compiled kernels between starts. `None`: compiled kernels are not kept.
    pub kernel_cache: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        let memory_bytes = host_memory_bytes();
        let circuit_bytes_max = (memory_bytes / 16).clamp(1, GIB);
        Self {
            queue_rows_max: 16 * OPERATION_ROWS_MAX,
            session_rows_max: 4 * OPERATION_ROWS_MAX,
            // a tenth of a bootstrap's time on a processor, and long enough for the requests of a burst to arrive
            wait_us_max: 200,
            // twenty times as long as the host needs to give a call, so the device seldom waits for the host
            window_us_max: 2000,
            arena_idle_ms: 5000,
            batch_units_max: None,
            // 4 GiB hold 300 keys of the largest preset
            key_bytes_max: (memory_bytes / 8).clamp(KEY_BYTES_LEAST, 4 * GIB),
            resident_bytes_max: None,
            circuit_rows_max: 4 * GATES_MAX,
            circuit_bytes_max, // 1 GiB holds 400,000 encrypted bits, or six circuits with the largest number of inputs
            session_circuit_rows_max: GATES_MAX,
            session_circuit_bytes_max: circuit_bytes_max.div_ceil(4),
            arena_bytes_max: None,
            device_silence_s_max: SILENCE_MAX.as_secs(),
            self_test_s: 3600,
            kernel_cache: None,
        }
    }
}

impl Config {
    /// Largest `wait_us_max`: a second. Larger values are probably in a wrong unit.
    pub const WAIT_MAX: Duration = Duration::from_secs(1);
    /// Largest `window_us_max`: a cancellation waits for a call at most about this long.
    pub const WINDOW_MAX: Duration = Duration::from_millis(50);
    /// Largest `arena_idle_ms`: ten minutes.
    pub const ARENA_IDLE_MS_MAX: u64 = 600_000;

    /// Checks the bounds. The error is one line that tells the operator which setting is wrong.
    pub fn validate(&self) -> Result<(), Error> {
        let check = |holds: bool, why: String| if holds { Ok(()) } else { Err(Error::Config(why)) };
        check(
            self.session_rows_max >= OPERATION_ROWS_MAX,
            format!("session_rows_max must be at least {OPERATION_ROWS_MAX}, the rows of the largest operation"),
        )?;
        check(
            self.queue_rows_max >= self.session_rows_max,
            format!("queue_rows_max must be at least session_rows_max ({})", self.session_rows_max),
        )?;
        check(
            u128::from(self.wait_us_max) <= Self::WAIT_MAX.as_micros(),
            format!("wait_us_max must be at most {}", Self::WAIT_MAX.as_micros()),
        )?;
        check(
            u128::from(self.window_us_max) <= Self::WINDOW_MAX.as_micros(),
            format!("window_us_max must be at most {}", Self::WINDOW_MAX.as_micros()),
        )?;
        check(
            self.arena_idle_ms <= Self::ARENA_IDLE_MS_MAX,
            format!("arena_idle_ms must be at most {}", Self::ARENA_IDLE_MS_MAX),
        )?;
        check(self.batch_units_max != Some(0), "batch_units_max must be at least 1".into())?;
        check(self.key_bytes_max > 0, "key_bytes_max must be at least 1".into())?;
        check(self.resident_bytes_max != Some(0), "resident_bytes_max must be at least 1".into())?;
        check(self.circuit_rows_max > 0, "circuit_rows_max must be at least 1".into())?;
        check(self.circuit_bytes_max > 0, "circuit_bytes_max must be at least 1".into())?;
        check(self.session_circuit_rows_max > 0, "session_circuit_rows_max must be at least 1".into())?;
        check(self.session_circuit_bytes_max > 0, "session_circuit_bytes_max must be at least 1".into())?;
        check(self.device_silence_s_max > 0, "device_silence_s_max must be at least 1".into())?;
        check(self.arena_bytes_max != Some(0), "arena_bytes_max must be at least 1".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range() {
        assert_eq!(Config::default().validate(), Ok(()));
    }

    #[test]
    fn every_setting_out_of_range_is_refused_by_name() {
        let ok = Config::default;
        let wrong = [
            ("session_rows_max", Config { session_rows_max: 1023, ..ok() }),
            ("queue_rows_max", Config { queue_rows_max: 4095, ..ok() }),
            ("wait_us_max", Config { wait_us_max: 1_000_001, ..ok() }),
            ("window_us_max", Config { window_us_max: 50_001, ..ok() }),
            ("arena_idle_ms", Config { arena_idle_ms: 600_001, ..ok() }),
            ("batch_units_max", Config { batch_units_max: Some(0), ..ok() }),
            ("key_bytes_max", Config { key_bytes_max: 0, ..ok() }),
            ("resident_bytes_max", Config { resident_bytes_max: Some(0), ..ok() }),
            ("circuit_rows_max", Config { circuit_rows_max: 0, ..ok() }),
            ("circuit_bytes_max", Config { circuit_bytes_max: 0, ..ok() }),
            ("session_circuit_rows_max", Config { session_circuit_rows_max: 0, ..ok() }),
            ("session_circuit_bytes_max", Config { session_circuit_bytes_max: 0, ..ok() }),
            ("device_silence_s_max", Config { device_silence_s_max: 0, ..ok() }),
            ("arena_bytes_max", Config { arena_bytes_max: Some(0), ..ok() }),
        ];
        for (name, config) in wrong {
            match config.validate() {
                Err(Error::Config(why)) => assert!(why.starts_with(name), "{why:?} does not begin with {name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
