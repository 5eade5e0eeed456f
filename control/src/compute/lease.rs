//! A node's lease on its sessions (readings G13). Until it ends, other nodes count the sessions as open. When a node dies,
//! its lease runs out: its sessions are then lost, do not count for the plan and may be deleted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Compute;
use crate::clock::Timestamp;

/// Length of a lease: longer than a fail-over of the database takes.
const LEASE: Duration = Duration::from_secs(30);
/// How often sessions are looked for that were deleted by way of another node: their keys must be gone within 5 s
/// (readings G3).
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Looks from one renewal of the lease to the next.
const RENEW_LOOKS: u64 = 5;
/// Looks from one removal of what nodes left behind to the next.
const FORGET_LOOKS: u64 = 3600;
/// What nodes left behind is removed so long after it ended: no node that is there is that late.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// Says until when this node is there.
///
/// # Errors
/// When the database does not answer.
pub async fn renew(store: &store::Store, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
    store.renew_lease(node_id, now.plus(LEASE).0).await
}

/// Renews the lease, and ends the sessions that were deleted by way of other nodes, until the node stops.
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
            tracing::warn!(cause = %error, "other nodes may take this one's sessions to be lost: the database failed");
        }
        if looks % RENEW_LOOKS == 0
            && let Err(error) = give_back_forsaken(&compute).await
        {
            tracing::warn!(cause = %error, "what nodes reserved that are gone stays reserved: the database failed");
        }
        if looks % FORGET_LOOKS == 0
            && let Err(error) = forget(&compute).await
        {
            tracing::warn!(cause = %error, "what lost nodes left behind stays");
        }
        if let Err(error) = compute.sessions.end_what_was_deleted_elsewhere().await {
            tracing::warn!(code = error.code.as_str(), "sessions that were deleted on other nodes are not known");
        }
    }
}

/// Gives back what nodes reserved whose lease ended a lease ago. A node whose clock stood still that long finds its reservations voided,
/// and what it then completes is neither answered nor charged.
async fn give_back_forsaken(compute: &Compute) -> Result<(), store::Error> {
    let silent_since = Timestamp(compute.clock.now().0 - LEASE.as_micros() as i64);
    compute.ledger.give_back_forsaken(silent_since).await
}

/// Removes what nodes left behind that do not come back: their leases, and the records of sessions that none of them ended.
async fn forget(compute: &Compute) -> Result<(), store::Error> {
    let before = compute.clock.now().0 - LEFT_BEHIND.as_micros() as i64;
    compute.store.lose_forsaken_sessions(before).await?;
    compute.store.forget_nodes(before).await.map(drop)
}
