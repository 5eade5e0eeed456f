//! What the back office does by itself: documents of payments that a cap held up, or a crash. One node at a time does it, under a lease in the
//! database.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Office;
use crate::web::error::ApiError;

/// How often it is looked what is to be done.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// How long a node has for a look before others take it.
const LEASE: Duration = Duration::from_secs(120);
/// The lease's name.
const JOB: &str = "office";

/// Does what is to be done until the node stops.
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
            // what it was at is done again by the next node
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if let Err(error) = done {
            tracing::warn!(cause = error.message, "the back office goes on with the next look");
        }
    }
}

async fn look(office: &Office) -> Result<(), ApiError> {
    let now = office.clock.now();
    // who has nothing to do writes nothing
    if !office.store.has_due_payments(now.0).await? {
        return Ok(());
    }
    if office.store.take_job(JOB, &office.node_id, now.0, now.plus(LEASE).0).await? {
        office.issue_due().await?;
    }
    Ok(())
}
