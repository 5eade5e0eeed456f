//! Copies the payment provider's state of subscriptions, invoices and checkouts. An event only contains the id of an
//! object, and the object's present state is read from the provider. A record is replaced only if its version has not
//! changed since the record was read. So neither the order nor the repetition of events matters (readings W4).

use api::Code;
use serde_json::json;
use store::{Invoice, InvoiceState, NewEvent, Store, Subscription, SubscriptionState};

use super::Billing;
use super::allowances::put_subscription;
use super::payments::{PaymentError, PaymentProvider, ProvidedInvoice, ProvidedStatus, ProvidedSubscription};
use super::plan_change::{end, unschedule};
use super::purchases::sync_purchase;
use super::sync_error::SyncError;
use crate::access::limits::Period;
use crate::caller::Plan;
use crate::clock::{Clock, Timestamp};
use crate::events::{EventType, event};
use crate::web::error::ApiError;

/// Largest number of attempts to replace a record that other requests change too.
const TRIES_MAX: usize = 5;

/// The currency of this service's invoices.
pub(super) const CURRENCY: &str = "usd";

/// The two sides of billing: this service's records, and the payment provider.
pub struct Books<'a> {
    /// The present time.
    pub clock: &'a Clock,
    /// The records.
    pub store: &'a Store,
    /// The provider.
    pub provider: &'a dyn PaymentProvider,
}

/// How the copy of an object's state ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Whether the object belongs to an account of this service.
    pub is_ours: bool,
    /// The account whose subscription record changed. Nodes that cache the account must forget it.
    pub changed_account: Option<String>,
}

/// Copies a subscription's present state from the provider. False: the subscription belongs to no account of this
/// service.
pub async fn sync_subscription(billing: &Billing, subscription_id: &str) -> Result<bool, SyncError> {
    let taken = take_subscription(&books(billing)?, subscription_id).await?;
    Ok(forget_changed(billing, taken).await)
}

/// Copies an invoice's present state from the provider, and writes the events about it. `failed_attempt`: after a
/// failed payment, the number of the attempt and the reason. False: the invoice belongs to no account of this service.
pub async fn sync_invoice(
    billing: &Billing,
    invoice_id: &str,
    failed_attempt: Option<(i64, String)>,
) -> Result<bool, SyncError> {
    let taken = take_invoice(&books(billing)?, invoice_id, failed_attempt).await?;
    Ok(forget_changed(billing, taken).await)
}

async fn forget_changed(billing: &Billing, taken: Taken) -> bool {
    if let Some(account_id) = taken.changed_account {
        billing.access.forget_account(&account_id).await;
    }
    taken.is_ours
}

/// Copies a subscription's present state from the provider.
pub async fn take_subscription(books: &Books<'_>, subscription_id: &str) -> Result<Taken, SyncError> {
    let provider = books.provider;
    for _ in 0..TRIES_MAX {
        let provided = provider.subscription(subscription_id).await?;
        let account_id = provided.account_id.as_deref();
        let Some(mut subscription) = account_of(books.store, &provided.customer_id, account_id).await? else {
            return Ok(Taken::default());
        };
        if is_second(&subscription, &provided) {
            tracing::warn!(
                account_id = subscription.account_id,
                subscription_id,
                "the account already has a subscription: the second one was ended and its payment credited"
            );
            // the subscription was just read and has not ended, so this is another attempt with another key
            let key = format!("second:{subscription_id}:{}", books.clock.now().0);
            provider.end_now(subscription_id, &key).await?;
            return Ok(Taken { is_ours: true, changed_account: None });
        }
        let before = subscription.clone();
        take_over(&mut subscription, &provided, books.clock.now());
        if subscription == before {
            return Ok(Taken { is_ours: true, changed_account: None });
        }
        subscription.updated_at = books.clock.now().0;
        if books
            .store
            .write(async |tx| put_subscription(tx, &subscription, Timestamp(subscription.updated_at)).await)
            .await?
            .is_some()
        {
            if before.plan != subscription.plan || before.status != subscription.status {
                tracing::info!(
                    account_id = subscription.account_id,
                    plan = subscription.plan.as_str(),
                    status = subscription.status.as_str(),
                    "subscription changed"
                );
            }
            return Ok(Taken { is_ours: true, changed_account: Some(subscription.account_id) });
        }
    }
    Err(SyncError::Other(ApiError::new(Code::Conflict, "the subscription keeps changing: try again")))
}

/// Copies an invoice's present state from the provider, and writes the events about it. `failed_attempt`: after a
/// failed payment, the number of the attempt and the reason.
pub async fn take_invoice(
    books: &Books<'_>,
    invoice_id: &str,
    failed_attempt: Option<(i64, String)>,
) -> Result<Taken, SyncError> {
    let provided = books.provider.invoice(invoice_id).await?;
    let account_id = provided.account_id.as_deref();
    let Some(subscription) = account_of(books.store, &provided.customer_id, account_id).await? else {
        return Ok(Taken::default());
    };
    if provided.currency != CURRENCY {
        // The operator sends this customer other invoices too. This service's own invoices are in US dollars.
        let (account_id, currency) = (subscription.account_id, provided.currency);
        tracing::info!(account_id, invoice_id, currency, "an invoice in another currency is not recorded");
        return Ok(Taken::default());
    }
    let mut taken = Taken { is_ours: true, changed_account: None };
    if let Some(of) = &provided.subscription_id {
        // A payment or a failed payment also changes the subscription. The invoice counts even if the provider no longer
        // has the subscription.
        match take_subscription(books, of).await {
            Ok(of_subscription) => taken.changed_account = of_subscription.changed_account,
            Err(SyncError::Provider(PaymentError::Unknown(_))) => {}
            Err(error) => return Err(error),
        }
    }
    let now = books.clock.now();
    let mut invoice = invoice_of(&subscription, &provided, now);
    let attempt = failed_attempt.as_ref().map_or(0, |(attempt, _)| *attempt);
    invoice.failures = invoice.failures.max(attempt);
    let account = subscription.account_id.parse().map_err(|why| SyncError::Other(ApiError::internal(why)))?;
    let data = invoice_data(&invoice);
    let told = |kind, data: &serde_json::Value| event(&account, kind, data, now);
    let mut told_of: Vec<(String, NewEvent)> = Vec::new();
    if invoice.status != InvoiceState::Draft {
        told_of.push((format!("invoice:{invoice_id}:created"), told(EventType::InvoiceCreated, &data)));
    }
    if let Some((attempt, reason)) = &failed_attempt {
        let mut data = data.clone();
        data["attempt_count"] = json!(attempt);
        data["next_attempt_at"] = json!(provided.next_attempt_at.map(Timestamp::rfc3339));
        data["failure_reason"] = json!(reason);
        told_of.push((format!("invoice:{invoice_id}:failed:{attempt}"), told(EventType::InvoiceFailed, &data)));
    }
    if invoice.status == InvoiceState::Paid {
        told_of.push((format!("invoice:{invoice_id}:paid"), told(EventType::InvoicePaid, &data)));
    }
    let change = books
        .store
        .write(async |tx| {
            let change = tx.put_invoice(&invoice, now.0).await?;
            // announce each event once, in this order (readings W6)
            for (fact, event) in &told_of {
                if tx.announce(fact, now.0).await? {
                    tx.emit(std::slice::from_ref(event)).await?;
                }
            }
            Ok::<_, store::Error>(change)
        })
        .await?;
    if change.is_some_and(|change| change.before != change.after) {
        taken.changed_account = Some(invoice.account_id);
    }
    Ok(taken)
}

/// Records the result of a checkout: a subscription or a payment method.
pub async fn sync_checkout(billing: &Billing, session_id: &str) -> Result<bool, SyncError> {
    let books = books(billing)?;
    let provider = books.provider;
    let checkout = provider.checkout(session_id).await?;
    let account_id = checkout.account_id.as_deref();
    let Some(mut subscription) = account_of(books.store, &checkout.customer_id, account_id).await? else {
        return sync_purchase(billing, session_id, &checkout).await;
    };
    if !checkout.is_complete {
        return Ok(true);
    }
    if let Some(of) = &checkout.subscription_id {
        return sync_subscription(billing, of).await;
    }
    if let Some(method) = &checkout.payment_method {
        provider.set_payment_method(&checkout.customer_id, method).await?;
        for _ in 0..TRIES_MAX {
            // readings P13: if a customer on the free plan stores a card, the account changes to pay as you go
            let standing = billing.store.account_standing(&subscription.account_id).await?;
            if standing.is_none_or(|standing| standing.plan != Plan::Free) {
                return Ok(true);
            }
            subscription.plan = Plan::Payg;
            subscription.customer_id = checkout.customer_id.clone();
            subscription.updated_at = billing.clock.now().0;
            if billing
                .store
                .write(async |tx| put_subscription(tx, &subscription, Timestamp(subscription.updated_at)).await)
                .await?
                .is_some()
            {
                billing.access.forget_account(&subscription.account_id).await;
                return Ok(true);
            }
            let found = billing.store.subscription(&subscription.account_id).await?;
            let Some(found) = found else { return Ok(false) };
            subscription = found;
        }
    }
    Ok(true)
}

fn books(billing: &Billing) -> Result<Books<'_>, SyncError> {
    let provider = billing.provider.as_deref().ok_or_else(|| SyncError::Other(super::payments::unavailable()))?;
    Ok(Books { clock: &billing.clock, store: &billing.store, provider })
}

/// Finds the subscription record of a customer. If there is none, finds the record of the account that an object names.
pub(super) async fn account_of(
    store: &Store,
    customer_id: &str,
    account_id: Option<&str>,
) -> Result<Option<Subscription>, SyncError> {
    if !customer_id.is_empty()
        && let Some(found) = store.subscription_of_customer(customer_id).await?
    {
        return Ok(Some(found));
    }
    let Some(account_id) = account_id else { return Ok(None) };
    let found = store.subscription(account_id).await?;
    // if the account has another customer already, this service did not make the object
    Ok(found.filter(|subscription| subscription.customer_id.is_empty()))
}

fn is_over(status: ProvidedStatus) -> bool {
    matches!(status, ProvidedStatus::Ended | ProvidedStatus::Incomplete)
}

/// Whether `provided` would be a second subscription of the account.
fn is_second(subscription: &Subscription, provided: &ProvidedSubscription) -> bool {
    subscription.status != SubscriptionState::None
        && subscription.provider_subscription_id != provided.subscription_id
        && !is_over(provided.status)
}

/// Copies the provider's state into a subscription (readings P18).
pub(super) fn take_over(subscription: &mut Subscription, provided: &ProvidedSubscription, now: Timestamp) {
    let is_ours = subscription.provider_subscription_id == provided.subscription_id;
    if subscription.customer_id.is_empty() {
        subscription.customer_id = provided.customer_id.clone();
    }
    let status = match provided.status {
        ProvidedStatus::Ended => {
            // the end of another subscription, such as an earlier one, changes nothing
            if is_ours {
                end(subscription);
            }
            return;
        }
        ProvidedStatus::Incomplete => return,
        ProvidedStatus::Other if !is_ours => return,
        ProvidedStatus::Other => subscription.status,
        ProvidedStatus::Unpaid => SubscriptionState::Unpaid,
        ProvidedStatus::PastDue => SubscriptionState::PastDue,
        _ if provided.ends => SubscriptionState::Cancelled,
        ProvidedStatus::Trialing => SubscriptionState::Trial,
        ProvidedStatus::Active => SubscriptionState::Active,
    };
    if !matches!(provided.status, ProvidedStatus::PastDue | ProvidedStatus::Unpaid) {
        subscription.past_due_since = 0;
    } else if subscription.past_due_since == 0 {
        subscription.past_due_since = now.0;
    }
    subscription.status = status;
    subscription.provider_subscription_id = provided.subscription_id.clone();
    if let Some((plan, cycle)) = provided.plan {
        (subscription.plan, subscription.billing_cycle) = (plan, cycle);
    }
    (subscription.period_start, subscription.period_end) = (provided.period_start.0, provided.period_end.0);
    if !provided.has_schedule {
        unschedule(subscription);
    }
}

fn invoice_of(subscription: &Subscription, provided: &ProvidedInvoice, now: Timestamp) -> Invoice {
    // the provider collects the amount at once, so an invoice is overdue since its first attempt failed
    let is_overdue = match provided.status {
        InvoiceState::Open => provided.attempts > 0,
        InvoiceState::Uncollectible => true,
        _ => false,
    };
    Invoice {
        due_at: if is_overdue { now.0 } else { 0 },
        invoice_id: provided.invoice_id.clone(),
        account_id: subscription.account_id.clone(),
        month: provided.month.unwrap_or_else(|| Period::of(provided.period_start).month),
        status: provided.status,
        amount_usd_cents: provided.amount,
        period_start: provided.period_start.0,
        period_end: provided.period_end.0,
        issued_at: provided.issued_at.0,
        paid_at: provided.paid_at.map_or(0, |at| at.0),
        url: provided.url.clone(),
        failures: 0,
        is_provided: true,
    }
}

/// Makes the documented data of an event about an invoice (specification, Events; readings H19).
pub(super) fn invoice_data(invoice: &Invoice) -> serde_json::Value {
    let day = |moment: i64| Timestamp(moment).rfc3339()[..10].to_owned();
    json!({
        "invoice_id": invoice.invoice_id,
        "amount_usd_cents": invoice.amount_usd_cents,
        "status": invoice.status.as_str(),
        "period_start": day(invoice.period_start),
        "period_end": day(invoice.period_end),
        "provider_invoice_url": invoice.url,
    })
}
