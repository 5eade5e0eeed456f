//! A node's lease on its sessions (readings G13). Until the lease ends, other nodes count the sessions as open. If a
//! node dies, its lease expires. The node's sessions are then lost: they do not count against the plan's limit of open
//! sessions, and clients can still delete them.

use std::time::Duration;

use super::Compute;
use crate::clock::Timestamp;

/// Length of a lease. Longer than a failover of the database takes.
const LEASE: Duration = Duration::from_secs(30);
/// How long the records of a dead node stay after the node's lease ended. No living node renews its lease so late.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// Extends this node's lease.
///
/// # Errors
/// When the database does not answer.
pub async fn renew(store: &store::Store, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
    store.renew_lease(node_id, now.plus(LEASE).0).await
}

/// Gives back the reservations of nodes whose lease ended at least one lease's length ago. A node that was suspended
/// for that long has lost its reservations, so the work that it then completes is neither answered nor charged.
///
/// # Errors
/// When the database does not answer.
pub async fn give_back_forsaken(compute: &Compute) -> Result<(), store::Error> {
    let silent_since = Timestamp(compute.clock.now().0 - LEASE.as_micros() as i64);
    compute.ledger.give_back_forsaken(silent_since).await
}

/// Removes the records of nodes that do not come back: their leases, their sessions that were never ended, and the circuits of
/// their processes.
///
/// # Errors
/// When the database does not answer.
pub async fn forget(compute: &Compute) -> Result<(), store::Error> {
    let before = compute.clock.now().0 - LEFT_BEHIND.as_micros() as i64;
    compute.store.lose_forsaken_sessions(before).await?;
    compute.store.forget_circuits().await?;
    compute.store.forget_nodes(before).await.map(drop)
}
