//! Gates and circuits on encrypted bits, under keys of open sessions. The only area that names `engine`.

pub mod engine;

pub(crate) mod circuits;
pub(crate) mod gates;
pub(crate) mod held_keys;
pub(crate) mod key_upload;
pub(crate) mod lease;
pub(crate) mod seeds;
pub(crate) mod sessions;
pub(crate) mod workbench;

use std::sync::Arc;
use std::time::Duration;

use store::Store;

use self::engine::Engine;
use crate::access::limits::Limits;
use crate::access::trials::Trials;
use crate::caller::Plan;
use crate::clock::Clock;
use crate::in_flight::InFlight;
use crate::telemetry::Telemetry;
use crate::web::offload::Offload;
use circuits::StoredNetlists;
use sessions::Sessions;

/// Settings of gate sessions.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// Life of a session (readings G2).
    pub ttl: Duration,
    /// Whether the server may make and hold secret keys (readings G8).
    pub allow_server_held_key: bool,
    /// Open sessions of an account on each plan, in the order of [`Plan::ALL`]; `None`: any number (readings L9).
    pub open_max: [Option<u32>; Plan::ALL.len()],
}

impl SessionsConfig {
    /// Open sessions of an account on this plan.
    pub fn open_max(&self, plan: Plan) -> Option<u32> {
        self.open_max[plan as usize]
    }
}

/// Bounds on circuits.
#[derive(Clone, Debug)]
pub struct CircuitsConfig {
    /// Gates of one circuit.
    pub gates_max: u64,
    /// The same for trial keys.
    pub gates_max_trial: u64,
    /// Bits that a circuit takes, and bits that it gives.
    pub bits_max: usize,
    /// Longest time for a circuit whose request does not wait.
    pub deadline: Duration,
    /// Circuits of one session at once.
    pub running_max: usize,
    /// Uploaded circuits of one account.
    pub kept_max: u64,
    /// Bytes of the uploaded circuits of one account.
    pub kept_bytes_max: u64,
    /// Memory for values of all sessions.
    pub value_bytes_max: u64,
    /// Memory for values of one session.
    pub session_value_bytes_max: u64,
}

/// Sessions of a node and what computes for them.
pub struct Compute {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    pub(crate) sessions: Sessions,
    pub(crate) circuits: CircuitsConfig,
    pub(crate) netlists: StoredNetlists,
    pub(crate) limits: Arc<Limits>,
    pub(crate) trials: Arc<Trials>,
    pub(crate) offload: Offload,
    /// Requests that the node finishes before it stops.
    pub(crate) in_flight: InFlight,
    /// Circuits in progress: the node waits until they are written down before it stops.
    pub(crate) unfinished: InFlight,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl Compute {
    /// Ends trials that have expired or whose key was revoked: closes their sessions on this node at once, and erases all
    /// they own once no node has a session of theirs open.
    pub(crate) async fn end_trials(&self) {
        let now = self.clock.now();
        for account in self.trials.ended(now).await {
            self.sessions.end_all_of(&account).await;
            self.trials.erase(&account, now).await;
        }
    }

    /// Removes records whose time is over.
    pub(crate) async fn forget_old(&self) {
        self.sessions.forget_old().await;
        circuits::forget_old(self).await;
    }
}
