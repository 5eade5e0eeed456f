//! The jobs of billing: events of the provider, alerts, e-mails, and the ends of periods and months. A lease in the
//! database lets one node at a time do the jobs. If a node has lost its lease and goes on, its writes change nothing,
//! because each write has a condition, such as the version of the record that the node read.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::invoices::month_before;
use super::payments::UsageBill;
use super::plan_change::renew;
use super::provided::{GRACE, sync_invoice, sync_subscription};
use super::{Billing, alerts, invoices, mail, provider_events, purchases};
use crate::access::limits::month_start;
use crate::clock::Timestamp;
use crate::web::error::ApiError;

/// Time between two looks for work.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Length of a job's lease. After this time another node may take the job.
const LEASE: Duration = Duration::from_secs(120);
/// Number of looks for work between two removals of old records: about an hour.
const FORGET_LOOKS: u64 = 3600;
/// Grace period after a month before it is billed. By then, work that was accepted in the month has ended, or its
/// reservation was given back.
const MONTH_GRACE: Duration = Duration::from_secs(600);
/// Pause between two attempts to bill a month that could not be billed. Also the pause between two reads of
/// subscriptions from the provider after their periods ended, because the provider may renew a subscription up to an
/// hour later.
const PAUSE: Duration = Duration::from_secs(60);
/// Largest number of accounts or subscriptions that one query reads.
const AT_ONCE: i64 = 100;

/// Names of the two leases: for the looks for work, and for billing months. The lease for billing months also records
/// the last month that is billed.
const LOOKS_JOB: &str = "billing";
const MONTHS_JOB: &str = "months";

/// Does the jobs of billing until the node stops.
pub async fn keep(billing: Arc<Billing>, mut stopped: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(LOOK_PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tried = Tried::default();
    for looks in 0u64.. {
        tokio::select! {
            _ = tick.tick() => {}
            () = billing.told.notified() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let done = tokio::select! {
            done = look(&billing, looks, &mut tried) => done,
            // the node stops: another node repeats this step
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if let Err(error) = done {
            tracing::warn!(cause = error.message, "a billing job failed; the node tries again in a second");
        }
    }
}

/// When the steps that pause between attempts were last tried, and the last month that this node knows to be billed.
struct Tried {
    months: Timestamp,
    provider: Timestamp,
    billed_through: i64,
}

impl Default for Tried {
    fn default() -> Tried {
        Tried { months: Timestamp(0), provider: Timestamp(0), billed_through: 0 }
    }
}

async fn look(billing: &Billing, looks: u64, tried: &mut Tried) -> Result<(), ApiError> {
    let now = billing.clock.now();
    let bills_months = tried.billed_through < month_before(now) && !now.is_near(tried.months, PAUSE);
    // a node that finds no work writes nothing to the database
    let has_work = billing.store.has_billing_work(now.0, now.0 - GRACE.as_micros() as i64).await?;
    let forgets = looks.is_multiple_of(FORGET_LOOKS);
    if !(bills_months || has_work || forgets) {
        return Ok(());
    }
    if !billing.store.take_job(LOOKS_JOB, &billing.node_id, now.0, now.plus(LEASE).0).await? {
        return Ok(());
    }
    alerts::tell(billing).await?;
    mail::send_due(billing).await?;
    provider_events::work_through(billing).await?;
    let asks_provider = !now.is_near(tried.provider, PAUSE);
    if end_periods(billing, asks_provider).await? {
        tried.provider = now;
    }
    if bills_months {
        let billed_through = close_months(billing).await?;
        tried.billed_through = billed_through;
        if billed_through < month_before(now) && now >= month_start(month_before(now) + 1).plus(MONTH_GRACE) {
            // some account's month could not be billed, so the next attempt waits
            tried.months = now;
        }
    }
    if forgets {
        provider_events::forget_old(billing).await?;
        alerts::forget_old(billing).await?;
        purchases::hide_old(billing).await?;
    }
    Ok(())
}

/// Begins the next periods of subscriptions, or ends the subscriptions. Returns whether the payment provider was asked
/// about subscriptions that it holds.
async fn end_periods(billing: &Billing, asks_provider: bool) -> Result<bool, ApiError> {
    let mut asked = false;
    let now = billing.clock.now();
    let past_due_before = now.0 - GRACE.as_micros() as i64;
    for mut subscription in billing.store.due_subscriptions(now.0, past_due_before, AT_ONCE).await? {
        if subscription.provider_subscription_id.is_empty() {
            let fees = renew(&mut subscription, now);
            subscription.updated_at = now.0;
            let items = invoices::items_of(&subscription, &fees, now);
            billing
                .store
                .write(async |tx| {
                    // if another request changed the subscription meanwhile, nothing is written; the next look for work
                    // reads the subscription again
                    if tx.put_subscription(&subscription).await? {
                        for item in &items {
                            tx.add_invoice_item(item).await?;
                        }
                    }
                    Ok::<_, store::Error>(())
                })
                .await?;
        } else if asks_provider {
            asked = true;
            if let Err(error) = sync_subscription(billing, &subscription.provider_subscription_id).await {
                let account_id = subscription.account_id;
                tracing::warn!(
                    account_id,
                    cause = error.message,
                    "a subscription could not be read and will be read again"
                );
            }
        }
    }
    Ok(asked)
}

/// Bills the months that are over, in order. Returns the last month that is wholly billed.
async fn close_months(billing: &Billing) -> Result<i64, ApiError> {
    let now = billing.clock.now();
    let last = month_before(now);
    let mut billed_through = billing.store.job_done_through(MONTHS_JOB).await?;
    if billed_through == 0 {
        // use from before billing first ran is never billed
        billing.store.take_job(MONTHS_JOB, &billing.node_id, now.0, now.0).await?;
        billing.store.note_job(MONTHS_JOB, last).await?;
        return Ok(last);
    }
    while billed_through < last {
        let month = billed_through + 1;
        if now < month_start(month + 1).plus(MONTH_GRACE) || !close_month(billing, month).await? {
            break;
        }
        billing.store.note_job(MONTHS_JOB, month).await?;
        billed_through = month;
    }
    Ok(billed_through)
}

/// Bills a month. False: some work of that month is still running, or an account could not be billed.
async fn close_month(billing: &Billing, month: i64) -> Result<bool, ApiError> {
    let (mut after, mut all) = (String::new(), true);
    loop {
        let accounts = billing.store.unbilled_accounts(month, &after, AT_ONCE).await?;
        let Some(last) = accounts.last().cloned() else { return Ok(all) };
        for account in &accounts {
            if billing.store.has_open_reservations(account, month).await? {
                all = false;
                continue;
            }
            if let Err(error) = bill(billing, account, month).await {
                tracing::warn!(
                    account_id = account,
                    month = invoices::month_words(month),
                    cause = error.message,
                    "the month could not be billed for this account; the node tries again"
                );
                all = false;
            }
        }
        after = last;
    }
}

/// Bills an account's month: through the provider if the account is its customer, otherwise by an invoice made here.
async fn bill(billing: &Billing, account_id: &str, month: i64) -> Result<(), ApiError> {
    let subscription = billing.store.subscription(account_id).await?;
    let customer = subscription.map(|subscription| subscription.customer_id).unwrap_or_default();
    let Some(provider) = billing.provider.as_deref().filter(|_| !customer.is_empty()) else {
        if billing.provider.is_some() {
            tracing::warn!(account_id, "the account has no customer at the payment provider: its invoice is made here");
        }
        return billing.bill_here(account_id, month).await;
    };
    let spent = billing.store.used_in_month(account_id, month).await?.spend.cents();
    // open items: fees of a subscription that began while the node had no payment provider
    let open = billing.store.open_items(account_id, month).await?;
    let cents = spent + open.iter().map(|item| item.amount_usd_cents).sum::<i64>();
    let mut invoice_id = None;
    if cents > 0 {
        let fees = if open.is_empty() { "" } else { ", and fees of the plan" };
        let bill = UsageBill {
            customer_id: &customer,
            account_id,
            month,
            cents,
            // The key is the same for every repetition, so the provider bills the month once. The provider refuses a
            // repetition with other words, for example by a node of the next version, so these words never change.
            description: &format!("Use in {} beyond the plan, and gates{fees}", invoices::month_words(month)),
            key: &format!("usage:{account_id}:{month}"),
        };
        let made = provider.bill_usage(&bill).await?;
        sync_invoice(billing, &made.invoice_id, None).await?;
        invoice_id = Some(made.invoice_id);
    }
    let now: Timestamp = billing.clock.now();
    let on_it: Vec<&str> = open.iter().map(|item| item.item_id.as_str()).collect();
    billing
        .store
        .write(async |tx| {
            if let Some(invoice_id) = &invoice_id {
                tx.put_items_on(invoice_id, &on_it).await?;
            }
            tx.close_month(account_id, month, now.0).await
        })
        .await?;
    Ok(())
}
