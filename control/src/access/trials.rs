//! Trials: the operations that they have left, and their end (readings A12-A15).

use std::time::Duration;

use api::AccountId;
use store::Store;

use crate::clock::Timestamp;
use crate::web::error::ApiError;

/// Life of a trial (specification, Limits).
pub const TTL: Duration = Duration::from_secs(30 * 60);
/// Number of operations of a trial (specification, Limits).
pub const OPERATIONS_MAX: u64 = 10;
/// A trial is erased this long after its last session ended. By then, work that was running is recorded.
const QUIET: Duration = Duration::from_secs(10);
/// Largest number of trials that one query reads.
const ENDED_MAX: i64 = 100;

/// The trials of the database, as this node sees them.
pub struct Trials {
    store: Store,
}

impl Trials {
    /// Gives access to the trials of this database.
    pub fn new(store: Store) -> Trials {
        Trials { store }
    }

    /// Returns the number of operations that a trial has left. Zero when the trial has ended.
    pub async fn operations_left(&self, account: &AccountId) -> Result<u64, ApiError> {
        let trial = self.store.trial(account.as_str()).await?;
        Ok(trial.map_or(0, |trial| OPERATIONS_MAX.saturating_sub(trial.operations_used.unsigned_abs())))
    }

    /// Returns some of the accounts that are not erased yet although their trial has expired or their key was revoked.
    pub async fn ended(&self, now: Timestamp) -> Vec<String> {
        let ended = self.store.ended_trials(now.0, ENDED_MAX).await;
        ended.inspect_err(|error| tracing::warn!(%error, "ended trials could not be read")).unwrap_or_default()
    }

    /// Erases everything that an ended trial owns, unless one of its sessions was open on any node within the last
    /// `QUIET`.
    pub async fn erase(&self, account: &str, now: Timestamp) {
        let quiet_since = Timestamp(now.0 - QUIET.as_micros() as i64);
        if let Err(error) = self.store.erase_trial(account, quiet_since.0, now.0).await {
            tracing::warn!(%error, account, "an ended trial could not be erased");
        }
    }
}
