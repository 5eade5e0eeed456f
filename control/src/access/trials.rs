//! Trials: their operations, which are counted before they begin, and their end (readings A12-A15).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{AccountId, Code};
use store::Store;

use crate::caller::Environment;
use crate::clock::Timestamp;
use crate::in_flight::InFlight;
use crate::web::error::ApiError;

/// Life of a trial (specification, Limits).
pub const TTL: Duration = Duration::from_secs(30 * 60);
/// Operations of a trial (specification, Limits).
pub const OPERATIONS_MAX: u64 = 10;
/// How long after its last session's end a trial is erased: work that was under way is recorded by then.
const QUIET: Duration = Duration::from_secs(10);
/// Trials that are ended at once.
const ENDED_MAX: i64 = 100;

/// The trials of the database, as this node sees them.
pub struct Trials {
    store: Store,
    /// What must end before the node stops: operations that are given back.
    unfinished: InFlight,
}

/// Operations that were counted. They are given back on drop unless [`CountedOperations::keep`] was called.
pub struct CountedOperations {
    trials: Arc<Trials>,
    account: AccountId,
    operations: u64,
    settled: AtomicBool,
}

impl Trials {
    /// Trials of this database; the node waits for `unfinished` before it stops.
    pub fn new(store: Store, unfinished: InFlight) -> Trials {
        Trials { store, unfinished }
    }

    /// Counts operations, each gate as one, if the key is a trial's (readings A14). They are counted
    /// in one statement, so that concurrent requests cannot pass the limit.
    pub async fn take(
        self: &Arc<Self>,
        account: &AccountId,
        environment: Environment,
        operations: u64,
    ) -> Result<CountedOperations, ApiError> {
        let counted = environment == Environment::Trial && operations > 0;
        if counted {
            let wanted = i64::try_from(operations).unwrap_or(i64::MAX);
            // no sum of the two overflows
            let fits = operations <= OPERATIONS_MAX
                && self.store.take_trial_operations(account.as_str(), wanted, OPERATIONS_MAX as i64).await?;
            if !fits {
                return Err(exhausted(operations, self.operations_left(account).await?));
            }
        }
        let settled = AtomicBool::new(!counted);
        Ok(CountedOperations { trials: self.clone(), account: account.clone(), operations, settled })
    }

    /// Operations that a trial has left; none when it has ended.
    pub async fn operations_left(&self, account: &AccountId) -> Result<u64, ApiError> {
        let trial = self.store.trial(account.as_str()).await?;
        Ok(trial.map_or(0, |trial| OPERATIONS_MAX.saturating_sub(trial.operations_used.unsigned_abs())))
    }

    /// Some of the accounts whose trial has expired or whose key was revoked, and that are not erased yet.
    pub async fn ended(&self, now: Timestamp) -> Vec<String> {
        let ended = self.store.ended_trials(now.0, ENDED_MAX).await;
        ended.inspect_err(|error| tracing::warn!(%error, "ended trials could not be read")).unwrap_or_default()
    }

    /// Erases what an ended trial owns, if no session of it has been open on any node for a moment.
    pub async fn erase(&self, account: &str, now: Timestamp) {
        let quiet_since = Timestamp(now.0 - QUIET.as_micros() as i64);
        if let Err(error) = self.store.erase_trial(account, quiet_since.0, now.0).await {
            tracing::warn!(%error, account, "an ended trial could not be erased");
        }
    }

    async fn give_back(&self, account: &AccountId, operations: u64) {
        if let Err(error) = self.store.give_back_trial_operations(account.as_str(), operations as i64).await {
            tracing::error!(%error, account = account.as_str(), operations, "operations of a trial were not given back");
        }
    }
}

impl CountedOperations {
    /// The operations were completed: they stay counted.
    pub fn keep(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// The operations failed: they are not counted.
    pub async fn give_back(&self) {
        if !self.settled.swap(true, Ordering::Relaxed) {
            self.trials.give_back(&self.account, self.operations).await;
        }
    }
}

impl Drop for CountedOperations {
    /// The client went away before they began, or a task panicked.
    fn drop(&mut self) {
        if *self.settled.get_mut() {
            return;
        }
        let (trials, account, operations) = (self.trials.clone(), self.account.clone(), self.operations);
        let unfinished = trials.unfinished.enter();
        tokio::spawn(async move {
            trials.give_back(&account, operations).await;
            drop(unfinished);
        });
    }
}

fn exhausted(wanted: u64, left: u64) -> ApiError {
    let message = match left {
        0 => format!("the trial key has used its {OPERATIONS_MAX} operations"),
        _ => format!(
            "the request has {wanted} operations, the trial key has {left} of its {OPERATIONS_MAX} left; nothing was done"
        ),
    };
    ApiError::new(Code::TrialOpsExhausted, message)
}
