//! The jobs of billing. Each kind of work has its own task and its own lease in the database, so no kind waits for
//! another: a silent mail server delays e-mails, and nothing else. The lease lets one node at a time do the work. If a
//! node has lost its lease and goes on, its writes change nothing, because each write has a condition, such as the
//! version of the record that the node read.

use std::sync::Arc;
use std::time::Duration;

use super::leases::{Job, holds_lease};
use super::payments::in_background;
use super::{Billing, alerts, mail, months, notices, periods, provider_events, purchases, standing};
use crate::clock::Timestamp;
use crate::periodic::Periodic;

/// Time between two looks for work.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Time between two removals of old records.
const FORGET_PERIOD: Duration = Duration::from_secs(3600);
/// Pause between two attempts to bill a month that could not be billed. Also the pause between two reads of
/// subscriptions from the provider after their periods ended, because the provider may renew a subscription up to an
/// hour later.
const PAUSE: Duration = Duration::from_secs(60);

/// Returns the jobs of billing, for the list of the node's periodic work.
pub fn periodic(billing: &Arc<Billing>) -> Vec<Periodic> {
    let of = |job: Job| {
        let last = Last { tried: Timestamp(0), billed_through: 0 };
        let run = Periodic::new(job.name(), LOOK_PERIOD, (billing.clone(), last), move |(billing, last)| {
            Box::pin(look(billing, job, last))
        });
        // another node repeats the step
        let run = run.cut_short();
        match job {
            Job::ProviderEvents => run.woken_by(&billing.told),
            Job::InvoiceEvents => run.woken_by(&billing.told_of_invoices),
            _ => run,
        }
    };
    Job::ALL.map(of).into()
}

/// The state of a job between two looks for work.
struct Last {
    /// The last attempt.
    tried: Timestamp,
    /// The last month that this node knows to be billed.
    billed_through: i64,
}

/// Looks for work of this kind, and does it. A node that finds no work writes nothing to the database.
async fn look(billing: &Arc<Billing>, job: Job, last: &mut Last) -> anyhow::Result<()> {
    let (store, now) = (&billing.store, billing.clock.now());
    let has_work = match job {
        Job::Alerts => !store.untold_alerts(1).await?.is_empty(),
        Job::Mails => billing.mailer.is_some() && !store.due_emails(now.0, 1).await?.is_empty(),
        Job::ProviderEvents => store.has_due_provider_events(now.0, false).await?,
        Job::InvoiceEvents => store.has_due_provider_events(now.0, true).await?,
        Job::Standings => !store.due_standings(now.0, 1).await?.is_empty(),
        Job::Notices => notices::has_due(billing).await?,
        Job::Periods => !periods::due(billing, false, 1).await?.is_empty(),
        Job::ProvidedPeriods => {
            billing.provider.is_some()
                && !now.is_near(last.tried, PAUSE)
                && !periods::due(billing, true, 1).await?.is_empty()
        }
        Job::Months => months::is_due(last.billed_through, now) && !now.is_near(last.tried, PAUSE),
        Job::Forget => !now.is_near(last.tried, FORGET_PERIOD),
    };
    if !has_work {
        return Ok(());
    }
    last.tried = now;
    if !holds_lease(billing, job).await? {
        return Ok(());
    }
    match job {
        Job::Alerts => alerts::tell(billing).await?,
        Job::Mails => mail::send_due(billing).await?,
        Job::ProviderEvents | Job::InvoiceEvents => provider_events::work_through(billing, job).await?,
        Job::Standings => standing::update_due(billing).await?,
        Job::Notices => notices::send_due(billing).await?,
        Job::Periods => periods::end(billing).await?,
        Job::ProvidedPeriods => in_background(periods::read_again(billing)).await?,
        Job::Months => last.billed_through = in_background(months::close(billing)).await?,
        Job::Forget => {
            provider_events::forget_old(billing).await?;
            alerts::forget_old(billing).await?;
            purchases::hide_old(billing).await?;
        }
    }
    Ok(())
}
