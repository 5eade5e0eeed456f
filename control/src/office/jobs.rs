//! The jobs of the back office: they make the documents of sales and returns that waited
//! for a fuller object, or that a monthly cap or a crash held up. A lease in
//! the database lets one node at a time do the jobs.

use std::sync::Arc;
use std::time::Duration;

use super::Office;
use crate::clock::Timestamp;
use crate::periodic::Periodic;

/// Time between two searches for work.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// Lease of the jobs. After this time another node may do the jobs.
const LEASE: Duration = Duration::from_secs(120);
/// No document is put off for longer: `ANGO_INGEST_WAIT_S` is at most a day.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
/// The name of the jobs and of their lease.
const JOB: &str = "office";

/// Returns the jobs of the back office, for the list of the node's periodic work.
pub fn periodic(office: &Arc<Office>) -> Periodic {
    // the clock may have gone back while no node ran
    let latest = Timestamp(i64::MAX);
    Periodic::new(JOB, LOOK_PERIOD, (office.clone(), latest), |(office, latest)| Box::pin(look(office, latest)))
        .woken_by(&office.told)
        // the next node does the step again
        .cut_short()
}

async fn look(office: &Office, latest: &mut Timestamp) -> anyhow::Result<()> {
    let now = office.clock.now();
    let furthest = now.plus(LONGEST_WAIT).0;
    // documents that wait would wait longer by as much as the clock of this node, or of another one, went back
    if now < *latest || office.store.has_documents_due_after(furthest).await? {
        office.store.hasten_future_documents(now.0, furthest).await?;
    }
    *latest = now;
    // a node without work writes nothing
    if !office.store.has_due_documents(now.0).await? {
        return Ok(());
    }
    if office.store.take_job(JOB, &office.node_id, now.0, now.plus(LEASE).0).await? {
        office.issue_due().await?;
    }
    Ok(())
}
