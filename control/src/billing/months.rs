//! The bills of months. A month is billed account by account, some of them side by side, because the payment provider
//! takes a moment for each.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};

use super::invoices::month_before;
use super::leases::{Job, holds_lease};
use super::payments::{PaymentError, UsageBill};
use super::provided::sync_invoice;
use super::sync_error::SyncError;
use super::{Billing, invoices};
use crate::access::limits::month_start;
use crate::clock::Timestamp;
use crate::web::error::ApiError;

/// Grace period after a month before it is billed. By then, work that was accepted in the month has ended, or its
/// reservation was given back.
const MONTH_GRACE: Duration = Duration::from_secs(600);
/// Largest number of accounts that one query reads.
const AT_ONCE: i64 = 100;
/// Largest number of accounts that are billed side by side.
const SIDE_BY_SIDE: usize = 16;

/// Whether a month is over that is billed after `billed_through`, and its grace period too.
pub(super) fn is_due(billed_through: i64, now: Timestamp) -> bool {
    billed_through < month_before(now) && now >= month_start(month_before(now) + 1).plus(MONTH_GRACE)
}

/// Bills the months that are over, in order. Returns the last month that is wholly billed.
pub(super) async fn close(billing: &Billing) -> Result<i64, ApiError> {
    let now = billing.clock.now();
    let last = month_before(now);
    let mut billed_through = billing.store.job_done_through(Job::Months.name()).await?;
    if billed_through == 0 {
        // use from before billing first ran is never billed
        billing.store.note_job(Job::Months.name(), last).await?;
        return Ok(last);
    }
    // An account with a month that cannot be billed yet gets no bills of later months, so its bills stay in order. The
    // bills of other accounts go on.
    let mut waiting = HashSet::new();
    for month in billed_through + 1..=last {
        if now < month_start(month + 1).plus(MONTH_GRACE) || !close_month(billing, month, &mut waiting).await? {
            break;
        }
        if waiting.is_empty() {
            billing.store.note_job(Job::Months.name(), month).await?;
            billed_through = month;
        }
    }
    Ok(billed_through)
}

/// Bills a month of every account that is not `waiting`, and adds the accounts that cannot be billed yet to `waiting`.
/// False: the round ends, because the provider does not answer.
async fn close_month(billing: &Billing, month: i64, waiting: &mut HashSet<String>) -> Result<bool, ApiError> {
    let mut after = String::new();
    loop {
        let accounts = billing.store.unbilled_accounts(month, &after, AT_ONCE).await?;
        let Some(last) = accounts.last().cloned() else { return Ok(true) };
        let ready = accounts.into_iter().filter(|account| !waiting.contains(account)).collect::<Vec<_>>();
        let outcomes = stream::iter(ready)
            .map(async |account| {
                let outcome = bill_if_ready(billing, &account, month).await;
                (account, outcome)
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .collect::<Vec<_>>()
            .await;
        let unanswered = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Unanswered).count();
        let all = outcomes.len();
        waiting.extend(
            outcomes.into_iter().filter(|(_, outcome)| *outcome != Outcome::Billed).map(|(account, _)| account),
        );
        if unanswered > 0 && unanswered == all {
            return Ok(false);
        }
        after = last;
    }
}

/// How an attempt to bill an account's month ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Billed,
    /// Some work of the month is still running, or the account could not be billed.
    NotYet,
    /// The payment provider did not answer.
    Unanswered,
}

async fn bill_if_ready(billing: &Billing, account_id: &str, month: i64) -> Outcome {
    let billed = async {
        if !holds_lease(billing, Job::Months).await? {
            return Ok(Outcome::NotYet);
        }
        if billing.store.has_open_reservations(account_id, month).await? {
            return Ok(Outcome::NotYet);
        }
        bill(billing, account_id, month).await.map(|()| Outcome::Billed)
    };
    billed.await.unwrap_or_else(|error: SyncError| {
        let unanswered = matches!(error, SyncError::Provider(PaymentError::Unavailable(_)));
        let (month, cause) = (invoices::month_words(month), ApiError::from(error).message);
        tracing::warn!(
            account_id,
            month,
            cause,
            "the month could not be billed for this account; the node tries again"
        );
        if unanswered { Outcome::Unanswered } else { Outcome::NotYet }
    })
}

/// Bills an account's month: through the provider if the account is its customer, otherwise by an invoice made here.
async fn bill(billing: &Billing, account_id: &str, month: i64) -> Result<(), SyncError> {
    let subscription = billing.store.subscription(account_id).await?;
    let customer = subscription.map(|subscription| subscription.customer_id).unwrap_or_default();
    let Some(provider) = billing.provider.as_deref().filter(|_| !customer.is_empty()) else {
        if billing.provider.is_some() {
            tracing::warn!(account_id, "the account has no customer at the payment provider: its invoice is made here");
        }
        return Ok(billing.bill_here(account_id, month).await?);
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
