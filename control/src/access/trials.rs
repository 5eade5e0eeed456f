//! Trials: their operations, counted before they begin, and their end (readings A12-A15).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{AccountId, Code};

use crate::app::Node;
use crate::billing::usage::ChargeTo;
use crate::caller::Environment;
use crate::clock::Timestamp;
use crate::web::error::ApiError;

/// Life of a trial (specification, Limits).
pub const TTL: Duration = Duration::from_secs(30 * 60);
/// Operations of a trial (specification, Limits).
pub const OPERATIONS_MAX: u64 = 10;
/// How long after its last session's end a trial is erased: work that was under way is recorded by then.
const QUIET: Duration = Duration::from_secs(10);
/// Trials that are ended at once.
const ENDED_MAX: i64 = 100;

/// Operations that were counted; given back unless they are kept.
pub struct Counted {
    node: Arc<Node>,
    account: AccountId,
    operations: u64,
    settled: AtomicBool,
}

impl Counted {
    /// Counts operations, each gate as one, if the key is a trial's (readings A14). In the database, in one statement:
    /// of requests at once no more pass than may.
    pub async fn take(node: &Arc<Node>, of: &ChargeTo, operations: u64) -> Result<Counted, ApiError> {
        let account = &of.account;
        let counted = of.environment == Environment::Trial && operations > 0;
        if counted {
            let wanted = i64::try_from(operations).unwrap_or(i64::MAX);
            let (store, account) = (&node.store, account.as_str());
            // no sum of the two overflows
            let fits = operations <= OPERATIONS_MAX
                && store.take_trial_operations(account, wanted, OPERATIONS_MAX as i64).await?;
            if !fits {
                return Err(exhausted(operations, operations_left(node, account).await?));
            }
        }
        Ok(Counted { node: node.clone(), account: account.clone(), operations, settled: AtomicBool::new(!counted) })
    }

    /// They are completed.
    pub fn keep(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// They failed: they are not counted.
    pub async fn give_back(&self) {
        if !self.settled.swap(true, Ordering::Relaxed) {
            give_back(&self.node, &self.account, self.operations).await;
        }
    }
}

impl Drop for Counted {
    /// The client went away before they began, or a task panicked.
    fn drop(&mut self) {
        if *self.settled.get_mut() {
            return;
        }
        let (node, account, operations) = (self.node.clone(), self.account.clone(), self.operations);
        let running = node.circuits_running.enter();
        tokio::spawn(async move {
            give_back(&node, &account, operations).await;
            drop(running);
        });
    }
}

async fn give_back(node: &Node, account: &AccountId, operations: u64) {
    if let Err(error) = node.store.give_back_trial_operations(account.as_str(), operations as i64).await {
        tracing::error!(%error, account = account.as_str(), operations, "operations of a trial were not given back");
    }
}

/// Operations that a trial has left; none when it has ended.
pub async fn operations_left(node: &Node, account: &str) -> Result<u64, ApiError> {
    let trial = node.store.trial(account).await?;
    Ok(trial.map_or(0, |trial| OPERATIONS_MAX.saturating_sub(trial.operations_used.unsigned_abs())))
}

fn exhausted(wanted: u64, left: u64) -> ApiError {
    let message = match left {
        0 => format!("the trial key has used its {OPERATIONS_MAX} operations"),
        _ => format!("{wanted} operations; the trial key has {left} of its {OPERATIONS_MAX} left, and none were used"),
    };
    ApiError::new(Code::TrialOpsExhausted, message)
}

/// Ends trials that have expired or whose key was revoked: closes their sessions on this node at once, and erases what they
/// own when no session of theirs is open on any node.
pub async fn end_trials(node: &Node) {
    let now = node.clock.now();
    let ended = match node.store.ended_trials(now.0, ENDED_MAX).await {
        Ok(ended) => ended,
        Err(error) => return tracing::warn!(%error, "ended trials could not be looked for"),
    };
    let quiet_since = Timestamp(now.0 - QUIET.as_micros() as i64);
    for account in ended {
        node.sessions.end_all_of(&account).await;
        if let Err(error) = node.store.erase_trial(&account, quiet_since.0, now.0).await {
            tracing::warn!(%error, account, "an ended trial could not be erased");
        }
    }
}
