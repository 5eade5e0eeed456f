//! The kinds of work that billing does in the background, and their leases in the database.

use std::time::Duration;

use super::Billing;

/// Length of a job's lease. After this time another node may take the job. A job renews its lease before each step.
const LEASE: Duration = Duration::from_secs(120);

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Announces alerts.
    Alerts,
    /// Sends e-mails.
    Mails,
    /// Processes the payment provider's events about anything but invoices.
    ProviderEvents,
    /// Processes the payment provider's events about invoices.
    InvoiceEvents,
    /// Computes the standing of accounts again when time changes it.
    Standings,
    /// Writes notices about payments.
    Notices,
    /// Begins or ends the periods of subscriptions that the node holds itself.
    Periods,
    /// Reads subscriptions from the payment provider after their periods ended.
    ProvidedPeriods,
    /// Bills months. The record of this job's lease also says the last month that is billed.
    Months,
    /// Removes old records.
    Forget,
}

impl Job {
    pub(super) const ALL: [Job; 10] = [
        Job::Alerts,
        Job::Mails,
        Job::ProviderEvents,
        Job::InvoiceEvents,
        Job::Standings,
        Job::Notices,
        Job::Periods,
        Job::ProvidedPeriods,
        Job::Months,
        Job::Forget,
    ];

    /// The name of the lease.
    pub(super) fn name(self) -> &'static str {
        match self {
            Job::Alerts => "alerts",
            Job::Mails => "mails",
            Job::ProviderEvents => "provider_events",
            Job::InvoiceEvents => "invoice_events",
            Job::Standings => "standings",
            Job::Notices => "notices",
            Job::Periods => "periods",
            Job::ProvidedPeriods => "provided_periods",
            Job::Months => "months",
            Job::Forget => "forget",
        }
    }
}

/// Takes a job's lease or renews it. False: another node does the job.
pub(super) async fn holds_lease(billing: &Billing, job: Job) -> Result<bool, store::Error> {
    let now = billing.clock.now();
    billing.store.take_job(job.name(), &billing.node_id, now.0, now.plus(LEASE).0).await
}

/// Returns the last month that is wholly billed: months since year 0. 0: billing has not run yet.
pub(crate) async fn months_billed(store: &store::Store) -> Result<i64, store::Error> {
    store.job_done_through(Job::Months.name()).await
}
