//! A node's lease on its sessions (readings G13). Until the lease ends, other nodes count the sessions as open. If a
//! node dies, its lease expires. The node's sessions are then lost: they do not count against the plan's limit of open
//! sessions, and clients can still delete them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Compute;
use crate::clock::Timestamp;

/// Length of a lease. Longer than a failover of the database takes.
const LEASE: Duration = Duration::from_secs(30);
/// Time between two looks for sessions of this node that were deleted through another node. The keys of such sessions
/// must be overwritten within 5 s (readings G3).
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Number of looks from one renewal of the lease to the next.
const RENEW_LOOKS: u64 = 5;
/// Number of looks from one removal of dead nodes' records to the next.
const FORGET_LOOKS: u64 = 3600;
/// How long the records of a dead node stay after the node's lease ended. No living node renews its lease so late.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// Extends this node's lease.
///
/// # Errors
/// When the database does not answer.
pub async fn renew(store: &store::Store, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
    store.renew_lease(node_id, now.plus(LEASE).0).await
}

/// Renews the lease, and ends sessions that were deleted through other nodes, until the node stops.
pub async fn keep(compute: Arc<Compute>, mut stopped: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(LOOK_PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for looks in 0u64.. {
        tokio::select! {
            _ = tick.tick() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        if looks % RENEW_LOOKS == 0
            && let Err(error) = renew(&compute.store, &compute.sessions.node_id, compute.clock.now()).await
        {
            tracing::warn!(cause = %error, "the lease could not be renewed, so other nodes may count this node's sessions as lost");
        }
        if looks % RENEW_LOOKS == 0
            && let Err(error) = give_back_forsaken(&compute).await
        {
            tracing::warn!(cause = %error, "reservations of dead nodes could not be given back");
        }
        if looks % RENEW_LOOKS == 0
            && let Err(error) = compute.ledger.give_back_left_behind().await
        {
            tracing::warn!(cause = %error, "reservations that no work holds could not be given back");
        }
        if looks % FORGET_LOOKS == 0
            && let Err(error) = forget(&compute).await
        {
            tracing::warn!(cause = %error, "records of dead nodes could not be removed");
        }
        if let Err(error) = compute.sessions.end_what_was_deleted_elsewhere().await {
            tracing::warn!(
                code = error.code.as_str(),
                "sessions that were deleted through other nodes could not be read"
            );
        }
    }
}

/// Gives back the reservations of nodes whose lease ended at least one lease's length ago. A node that was suspended
/// for that long has lost its reservations, so the work that it then completes is neither answered nor charged.
async fn give_back_forsaken(compute: &Compute) -> Result<(), store::Error> {
    let silent_since = Timestamp(compute.clock.now().0 - LEASE.as_micros() as i64);
    compute.ledger.give_back_forsaken(silent_since).await
}

/// Removes the records of nodes that do not come back: their leases, and their sessions that were never ended.
async fn forget(compute: &Compute) -> Result<(), store::Error> {
    let before = compute.clock.now().0 - LEFT_BEHIND.as_micros() as i64;
    compute.store.lose_forsaken_sessions(before).await?;
    compute.store.forget_nodes(before).await.map(drop)
}
