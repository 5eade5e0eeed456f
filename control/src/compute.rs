//! Gates and circuits on encrypted bits, under keys of open sessions; operations on encrypted numbers, under stored
//! keys.

pub mod bits;
pub(crate) mod held_keys;
pub(crate) mod keys_at_rest;
pub(crate) mod lease;
pub mod numbers;
pub(crate) mod operation;

use std::sync::Arc;

use store::{RecordedOf, Store};

use self::bits::CircuitsConfig;
use self::bits::circuits::StoredNetlists;
use self::bits::sessions::Sessions;
use self::numbers::vault::Vault;
use self::operation::life::line::{Line, Taken};
use self::operation::running::RunningOperations;
use crate::access::limits::Limits;
use crate::access::trials::Trials;
use crate::billing::ledger::Ledger;
use crate::clock::Clock;
use crate::in_flight::InFlight;
use crate::telemetry::Telemetry;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::{KeyStore, Worker, Workers};

/// Gate sessions and stored keys of a node, with the workers and everything else that computes with them.
pub struct Compute {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    /// The worker that is asked.
    pub(crate) worker: Arc<dyn Worker>,
    /// The workers of the node, which open keys.
    pub(crate) workers: Arc<Workers>,
    pub(crate) keys: KeyStore,
    pub(crate) sessions: Sessions,
    pub(crate) circuits: CircuitsConfig,
    pub(crate) netlists: StoredNetlists,
    pub(crate) vault: Arc<Vault>,
    /// The waiting line of the fleet whose member this node is.
    pub(crate) line: Option<Arc<Line>>,
    /// The circuits and operations on numbers that this process computes.
    pub(crate) operations: RunningOperations,
    pub(crate) ledger: Arc<Ledger>,
    /// Whether the answer of `POST /keys/generate` contains the secret key (readings K9).
    pub(crate) allow_sk_in_response: bool,
    pub(crate) limits: Arc<Limits>,
    pub(crate) trials: Arc<Trials>,
    pub(crate) offload: Offload,
    /// Running requests. A stopping node waits for them.
    pub(crate) in_flight: InFlight,
    /// Running circuits and operations. A stopping node waits until their ends are recorded.
    pub(crate) unfinished: InFlight,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl Compute {
    /// Ends trials that have expired or whose key was revoked. Closes their sessions on this node at once. Erases
    /// everything that a trial owns when no node has an open session of that trial.
    pub(crate) async fn end_trials(&self) {
        let now = self.clock.now();
        for account in self.trials.ended(now).await {
            self.sessions.end_all_of(&account).await;
            self.trials.erase(&account, now).await;
        }
    }

    /// Removes expired records.
    pub(crate) async fn forget_old(&self) {
        self.sessions.forget_old().await;
        if let Some(shared) = self.sessions.shared() {
            self.sessions.sweep_shared(shared).await;
        }
        self.vault.keep_house().await;
        self.netlists.keep_house().await;
        operation::record::forget_old(self).await;
        operation::life::line::keep_house(self).await;
    }
}

/// Computes an operation that this node has released from the waiting line, and books its end.
///
/// # Errors
/// Why the operation has no end: another node or a later attempt may succeed, if the error is 503.
async fn resume(compute: &Arc<Compute>, taken: &Taken) -> Result<(), ApiError> {
    match &taken.record {
        RecordedOf::Circuit(run) => bits::circuits::resume(compute, taken, run).await,
        RecordedOf::Arithmetic(operation) => numbers::arithmetic::resume(compute, taken, operation).await,
    }
}
