//! Encrypted bits: sessions with their keys and values, gates one by one, circuits.

pub(crate) mod circuits;
pub(crate) mod gates;
mod key_upload;
pub(crate) mod sessions;
pub(crate) mod workbench;

use std::time::Duration;

use crate::parsers::{megabytes, megabytes_or_auto, number, seconds};
use crate::work::{GATES_MAX, PORT_BITS_MAX, memory_bytes};

/// Settings of gate sessions.
#[derive(Clone, Debug, clap::Args)]
pub struct SessionsConfig {
    // readings G2
    /// Life of a gate session in seconds, counted from its creation.
    #[arg(env = "ANGO_SESSION_TTL_S", default_value = "3600", value_parser = seconds(1..=WEEK_S))]
    pub ttl: Duration,
    // readings G8
    /// Whether the node may make secret keys. POST /tfhe/session makes a key and holds it, for demonstrations; POST
    /// /keys/generate makes a key and overwrites it at once. Set false in production.
    #[arg(env = "ANGO_ALLOW_SERVER_HELD_KEY", default_value = "true")]
    pub allow_server_held_key: bool,
}

/// Bounds on circuits.
#[derive(Clone, Debug, clap::Args)]
pub struct CircuitsConfig {
    /// Largest number of gates in one circuit.
    #[arg(env = "ANGO_CIRCUIT_GATES_MAX", default_value = "1048576")]
    #[arg(value_parser = number::<u64>(1..=GATES_MAX as u64))]
    pub gates_max: u64,
    /// Largest number of gates in one circuit that is run with a trial key.
    #[arg(env = "ANGO_CIRCUIT_GATES_MAX_TRIAL", default_value = "1024")]
    #[arg(value_parser = number::<u64>(1..=GATES_MAX as u64))]
    pub gates_max_trial: u64,
    /// Largest number of input bits of a circuit, and of output bits. Each bit is a ciphertext of 2.5 to 3.3 KB.
    #[arg(env = "ANGO_CIRCUIT_BITS_MAX", default_value = "16384")]
    #[arg(value_parser = number::<usize>(1..=PORT_BITS_MAX as u64))]
    pub bits_max: usize,
    /// Longest time in seconds for a circuit that runs in the background (Prefer: respond-async). All other requests,
    /// and operations on numbers in the background, have the deadline ANGO_REQUEST_DEADLINE_S.
    #[arg(id = "circuit_deadline", env = "ANGO_CIRCUIT_DEADLINE_S", default_value = "3600")]
    #[arg(value_parser = seconds(1..=WEEK_S))]
    pub deadline: Duration,
    /// Largest number of circuits that one session may run at the same time. Further circuits are answered 429.
    #[arg(env = "ANGO_CIRCUITS_RUNNING_MAX", default_value = "8", value_parser = number::<usize>(1..=1 << 10))]
    pub running_max: usize,
    /// Largest number of uploaded circuits of one account.
    #[arg(env = "ANGO_CIRCUITS_KEPT_MAX", default_value = "64", value_parser = number::<u64>(1..=1 << 20))]
    pub kept_max: u64,
    /// Largest total size of the uploaded circuits of one account, in MB.
    #[arg(env = "ANGO_CIRCUITS_KEPT_MB", default_value = "128", value_parser = megabytes(1..=1 << 20))]
    pub kept_bytes_max: u64,
    /// Memory in MB for inputs and results of circuits and for results under handles, of all sessions together. When
    /// this memory is full, requests are answered 503. Half of this memory is for inputs and results of operations that
    /// wait or run, on numbers too. `auto` is an eighth of the memory that the process may use, at
    /// most 1024.
    #[arg(env = "ANGO_VALUE_MEMORY_MB", default_value = "auto")]
    #[arg(value_parser = megabytes_or_auto(1..=1 << 24, || (memory_bytes() / 8).min(1 << 30)))]
    pub value_bytes_max: u64,
    /// The part of ANGO_VALUE_MEMORY_MB that one session may use, in MB. When this part is full, requests are answered
    /// 402 until handles are deleted. `auto` is a quarter.
    #[arg(env = "ANGO_SESSION_VALUE_MEMORY_MB", default_value = "auto")]
    #[arg(value_parser = megabytes_or_auto(1..=1 << 24, || 0))]
    pub session_value_bytes_max: u64,
}

const WEEK_S: u64 = 7 * 24 * 3600;
