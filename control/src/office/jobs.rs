//! The jobs of the back office: they make the documents of payments that a monthly cap or a crash held up. A lease in
//! the database lets one node at a time do the jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Office;
use crate::web::error::ApiError;

/// Time between two searches for work.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// Lease of the jobs. After this time another node may do the jobs.
const LEASE: Duration = Duration::from_secs(120);
/// The name of the lease.
const JOB: &str = "office";

/// Does the jobs of the back office until the node stops.
pub async fn keep(office: Arc<Office>, mut stopped: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(LOOK_PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = office.told.notified() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let done = tokio::select! {
            done = look(&office) => done,
            // the node stops: the next node does this step again
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if let Err(error) = done {
            tracing::warn!(cause = error.message, "the jobs of the back office failed and will be tried again");
        }
    }
}

async fn look(office: &Office) -> Result<(), ApiError> {
    let now = office.clock.now();
    // a node without work writes nothing
    if !office.store.has_due_payments(now.0).await? {
        return Ok(());
    }
    if office.store.take_job(JOB, &office.node_id, now.0, now.plus(LEASE).0).await? {
        office.issue_due().await?;
    }
    Ok(())
}
