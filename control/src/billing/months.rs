//! The bills of months. A month is billed account by account, some of them side by side, because the payment provider
//! takes a moment for each.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use api::Code;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use store::{InvoiceState, Store, UsageBillRecord};

use super::invoices::month_before;
use super::leases::{Job, holds_lease};
use super::payments::{PaymentProvider, UsageBill};
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
/// How long repetitions of an attempt to bill a month have the same idempotency keys. The provider keeps a key and its
/// answer for a day, also the answer to a request that failed.
const SAME_ATTEMPT: Duration = Duration::from_secs(3600);
/// Largest number of accounts that are billed side by side.
const SIDE_BY_SIDE: usize = 16;

/// Whether a month after `billed_through` is over, with its grace period. 0: the node has not looked yet. The first
/// look is always due, because the first of all looks records since when use is billed.
pub(super) fn is_due(billed_through: i64, now: Timestamp) -> bool {
    let last = month_before(now);
    billed_through == 0 || (billed_through < last && now >= month_start(last + 1).plus(MONTH_GRACE))
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
    let (mut ready, mut after, mut has_more) = (VecDeque::new(), String::new(), true);
    let mut running = FuturesUnordered::new();
    let (mut all, mut unanswered) = (0, 0);
    loop {
        // the next account begins as soon as one ends, so the provider is always asked at the node's pace
        while running.len() < SIDE_BY_SIDE && unanswered < SIDE_BY_SIDE {
            if let Some(account) = ready.pop_front() {
                running.push(billed(billing, account, month));
            } else if has_more {
                let accounts = billing.store.unbilled_accounts(month, &after, AT_ONCE).await?;
                has_more = !accounts.is_empty();
                after = accounts.last().cloned().unwrap_or(after);
                ready.extend(accounts.into_iter().filter(|account| !waiting.contains(account)));
            } else {
                break;
            }
        }
        let Some((account, outcome)) = running.next().await else { break };
        all += 1;
        unanswered = if outcome == Outcome::Unanswered { unanswered + 1 } else { 0 };
        if outcome != Outcome::Billed {
            waiting.insert(account);
        }
    }
    let none_answered = all > 0 && unanswered == all;
    Ok(!none_answered && unanswered < SIDE_BY_SIDE)
}

async fn billed(billing: &Billing, account_id: String, month: i64) -> (String, Outcome) {
    let outcome = bill_if_ready(billing, &account_id, month).await;
    (account_id, outcome)
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
        let unanswered = matches!(&error, SyncError::Provider(error) if error.may_pass());
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
    let customer = customer_of(&billing.store, account_id).await?;
    let Some(provider) = billing.provider.as_deref().filter(|_| !customer.is_empty()) else {
        if billing.provider.is_some() {
            tracing::warn!(account_id, "the account has no customer at the payment provider: its invoice is made here");
        }
        return Ok(billing.bill_here(account_id, month).await?);
    };
    let bill = intended(billing, account_id, month).await?;
    let now = billing.clock.now();
    let Some(bill) = bill else {
        billing.store.write(async |tx| tx.close_month(account_id, month, now.0).await).await?;
        return Ok(());
    };
    let bill = bill_there(billing, provider, &customer, bill).await?;
    sync_invoice(billing, &bill.invoice_id, None).await?;
    billing
        .store
        .write(async |tx| {
            tx.put_bill_on_invoice(&bill).await?;
            tx.close_month(account_id, month, now.0).await
        })
        .await?;
    Ok(())
}

/// Returns the provider's customer who pays an account's bills: that of the subscription, otherwise the buyer of the
/// account's newest key. Empty: none.
pub(super) async fn customer_of(store: &Store, account_id: &str) -> Result<String, store::Error> {
    let subscription = store.subscription(account_id).await?;
    match subscription.map(|subscription| subscription.customer_id).filter(|customer| !customer.is_empty()) {
        Some(customer) => Ok(customer),
        None => store.buyer_of_account(account_id).await,
    }
}

/// Reads the bill of an account's month, and records the intent if there is none yet. `None`: nothing is to be paid.
async fn intended(billing: &Billing, account_id: &str, month: i64) -> Result<Option<UsageBillRecord>, SyncError> {
    if let Some(bill) = billing.store.usage_bill(account_id, month).await? {
        return Ok(Some(bill));
    }
    let spent = billing.store.used_in_month(account_id, month).await?.spend.cents();
    // open items: fees of a subscription that began while the node had no payment provider
    let open = billing.store.open_items(account_id, month).await?;
    let cents = spent + open.iter().map(|item| item.amount_usd_cents).sum::<i64>();
    if cents <= 0 {
        return Ok(None);
    }
    let bill = UsageBillRecord {
        account_id: account_id.to_owned(),
        month,
        cents,
        invoice_id: String::new(),
        attempt: 0,
        attempted_at: 0,
    };
    let lines: Vec<&str> = open.iter().map(|item| item.item_id.as_str()).collect();
    billing.store.write(async |tx| tx.intend_usage_bill(&bill, &lines).await).await?;
    Ok(billing.store.usage_bill(account_id, month).await?)
}

/// Brings a bill to the provider: looks for its invoice, makes one if there is none, and adds the line if the invoice
/// has none. Returns the bill with the invoice.
async fn bill_there(
    billing: &Billing,
    provider: &dyn PaymentProvider,
    customer: &str,
    record: UsageBillRecord,
) -> Result<UsageBillRecord, SyncError> {
    let mut record = begun(billing, record).await?;
    let fees = if billing.store.has_bill_lines(&record).await? { ", and fees of the plan" } else { "" };
    let used = billing.store.used_in_month(&record.account_id, record.month).await?;
    let office_milli_yen = billing.store.office_spending(&record.account_id, record.month).await?;
    let described = invoices::use_words(record.month, &used, office_milli_yen) + fees;
    let (account_id, month) = (record.account_id.clone(), record.month);
    let bill = UsageBill {
        customer_id: customer,
        account_id: &account_id,
        month,
        cents: record.cents,
        description: &described,
        attempt: record.attempt,
    };
    // The provider forgets idempotency keys after a day, so only its invoices show what an earlier attempt has done.
    let found = provider.usage_invoices(&bill).await?;
    let billed = found.iter().find(|invoice| invoice.amount > 0);
    let without_line = found.iter().find(|invoice| invoice.status == InvoiceState::Draft && invoice.amount == 0);
    let invoice = match billed.or(without_line) {
        Some(invoice) => invoice.clone(),
        None => provider.make_usage_invoice(&bill).await?,
    };
    if record.invoice_id != invoice.invoice_id {
        record.invoice_id = invoice.invoice_id.clone();
        if !billing.store.put_usage_bill(&record, record.attempt).await? {
            return Err(other_node());
        }
    }
    if invoice.amount == 0 {
        provider.add_usage_line(&invoice.invoice_id, &bill).await?;
    } else if invoice.amount != record.cents {
        let (invoice_id, amount, cents) = (&invoice.invoice_id, invoice.amount, record.cents);
        tracing::error!(account_id, invoice_id, amount, cents, "the provider's invoice of a month has another amount");
    }
    Ok(record)
}

/// Begins an attempt. A repetition within `SAME_ATTEMPT` has the number of the attempt before, because the provider may
/// still work on that one.
async fn begun(billing: &Billing, mut record: UsageBillRecord) -> Result<UsageBillRecord, SyncError> {
    let now = billing.clock.now();
    if record.attempt > 0 && now.is_near(Timestamp(record.attempted_at), SAME_ATTEMPT) {
        return Ok(record);
    }
    let before = record.attempt;
    (record.attempt, record.attempted_at) = (before + 1, now.0);
    if billing.store.put_usage_bill(&record, before).await? { Ok(record) } else { Err(other_node()) }
}

fn other_node() -> SyncError {
    SyncError::Other(ApiError::new(Code::Conflict, "another node bills this month"))
}
