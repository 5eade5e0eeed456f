//! Events of the payment provider: stored on arrival, processed afterwards (readings W1-W6).

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::billing::ReceivedEvent;
use axum::Json;
use axum::extract::{Request, State};
use store::ProviderEvent;

use super::Billing;
use super::leases::{Job, holds_lease};
use super::payments::{About, EventFault, PaymentError, PaymentProvider, unavailable};
use super::provided::{sync_checkout, sync_invoice, sync_subscription};
use super::purchases::end_purchases;
use super::sync_error::SyncError;
use crate::web::Web;
use crate::web::body::Pieces;
use crate::web::error::ApiError;

/// Longest event that is read, in bytes.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of memory reserved for each byte of an event: for the event, the values read from it, and the sealed event.
const COPIES: u64 = 4;
/// Largest number of new events that one query reads, and of events that failed before.
const AT_ONCE: i64 = 20;
const AGAIN_AT_ONCE: i64 = 5;
/// Number of requests without an answer, one after another, after which a round ends.
const UNANSWERED_MAX: u32 = 3;
/// Number of attempts after which an event is stuck, unless the provider does not answer. The waits between
/// these attempts add up to 254 s.
const ATTEMPTS_MAX: i64 = 8;
/// Exponential backoff of retries: the wait doubles each time, up to an hour.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LAST_WAIT: Duration = Duration::from_secs(3600);
/// Number of characters of an error that are stored.
const ERROR_CHARACTERS_MAX: usize = 200;
/// How long events are kept: longer than the provider repeats them, so that a repetition is recognized.
const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// Receives an event of the payment provider and checks its signature. The provider calls this route, not customers.
#[utoipa::path(
    post,
    path = "/api/v1/billing/provider_webhook",
    operation_id = "receiveProviderEvent",
    tag = "Billing",
    request_body(content = api::billing::ProviderEvent, description = "An event, as the provider signed it."),
    params(("Stripe-Signature" = String, Header, description = "`t=SECONDS,v1=HEX`")),
    responses((status = 200, description = "The event is stored. A repeated event has the same answer.", body = ReceivedEvent)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::InvalidSignature, Code::PayloadTooLarge])))
)]
pub async fn receive(
    State(billing): State<Arc<Billing>>,
    State(web): State<Arc<Web>>,
    request: Request,
) -> Result<Json<ReceivedEvent>, ApiError> {
    // the signature covers the raw bytes, so they are read before anything is parsed; anyone can send them, so they are
    // paid for like any other body
    let headers = request.headers().clone();
    let mut pieces = Pieces::kept(&web, request, EVENT_BYTES_MAX, |bytes| COPIES * bytes)?;
    let body = pieces.all().await?;
    let _reserved = pieces.take_reserved();
    let not_signed =
        || ApiError::new(Code::InvalidSignature, "the signature is missing, wrong or older than 5 minutes");
    let malformed = || ApiError::new(Code::InvalidRequest, "an event must be a JSON object with id and type");
    let provider = billing.provider.as_deref().ok_or_else(not_signed)?;
    let now = billing.clock.now();
    let signed = provider.read_event(&headers, &body, now).map_err(|fault| match fault {
        EventFault::NotSigned => not_signed(),
        EventFault::Malformed => malformed(),
    })?;
    std::str::from_utf8(&body).map_err(|_| malformed())?;
    // sealed, because events name customers and are kept for months
    let sealed_body = billing.seals.of_service().seal(&signed.event_id, &body);
    let event = ProviderEvent {
        event_id: signed.event_id,
        event_type: signed.event_type,
        body: String::new(),
        sealed_body: Some(sealed_body),
        attempts: 0,
        received_at: now.0,
    };
    if billing.store.keep_provider_event(&event).await.map_err(ApiError::internal)? {
        let told = if event.is_about_invoice() { &billing.told_of_invoices } else { &billing.told };
        told.notify_one();
    }
    Ok(Json(ReceivedEvent { received: true }))
}

/// Processes the events that are due: new events in the order of their arrival, and after each few of them some that
/// failed before. An event that fails is tried again later and does not hold up the others. The round ends if the
/// provider does not answer several times one after another.
///
/// Events about invoices are a job of their own. They are most of the events, also those of the operator's other
/// business, and the provider's silence about an invoice must not delay the end of a subscription or a purchase.
pub(super) async fn work_through(billing: &Billing, job: Job) -> Result<(), store::Error> {
    let about_invoices = job == Job::InvoiceEvents;
    let mut unanswered = 0;
    loop {
        let now = billing.clock.now().0;
        let mut due = billing.store.due_provider_events(now, about_invoices, false, AT_ONCE).await?;
        due.extend(billing.store.due_provider_events(now, about_invoices, true, AGAIN_AT_ONCE).await?);
        if due.is_empty() || !holds_lease(billing, job).await? {
            return Ok(());
        }
        for event in due {
            unanswered = match process(billing, &event).await? {
                Processed::Done => 0,
                Processed::Failed { provider_answered: true } => 0,
                Processed::Failed { provider_answered: false } => unanswered + 1,
            };
            if unanswered == UNANSWERED_MAX {
                return Ok(());
            }
        }
    }
}

/// How the processing of an event ended.
enum Processed {
    Done,
    Failed { provider_answered: bool },
}

/// Processes an event and records how that ended.
async fn process(billing: &Billing, event: &ProviderEvent) -> Result<Processed, store::Error> {
    let now = billing.clock.now();
    let (why, is_provider_silent) = match carry_out(billing, event).await {
        Ok(()) => return finish(billing, event).await,
        // the object is gone, so nothing is left to do
        Err(SyncError::Provider(PaymentError::Unknown(what))) => {
            tracing::info!(
                event_id = event.event_id,
                what,
                "an event is about an object that the provider no longer has"
            );
            return finish(billing, event).await;
        }
        // the database does not answer: nothing is recorded, and the whole round ends
        Err(SyncError::Store(error)) => return Err(error),
        Err(SyncError::Provider(error)) => (error.to_string(), error.may_pass()),
        Err(SyncError::Other(error)) => (error.message.to_string(), false),
    };
    let why: String = why.chars().take(ERROR_CHARACTERS_MAX).collect();
    // another attempt helps only if the provider was silent; an operator decides about the rest
    if !is_provider_silent && event.attempts + 1 >= ATTEMPTS_MAX {
        billing.telemetry.provider_event("stuck");
        tracing::error!(event_id = event.event_id, cause = why, "an event of the provider cannot be processed");
        billing.store.set_provider_event_stuck(&event.event_id, &why).await?;
    } else {
        billing.telemetry.provider_event("put_off");
        tracing::warn!(
            event_id = event.event_id,
            cause = why,
            "an event of the provider failed and will be tried again"
        );
        let wait = FIRST_WAIT.saturating_mul(1 << event.attempts.clamp(0, 16)).min(LAST_WAIT);
        billing.store.put_provider_event_off(&event.event_id, now.plus(wait).0, &why).await?;
    }
    Ok(Processed::Failed { provider_answered: !is_provider_silent })
}

async fn finish(billing: &Billing, event: &ProviderEvent) -> Result<Processed, store::Error> {
    billing.telemetry.provider_event("done");
    billing.store.write(async |tx| tx.finish_provider_event(&event.event_id).await).await?;
    Ok(Processed::Done)
}

/// Opens the body of an event. `None`: the event was sealed under another secret.
fn opened(billing: &Billing, event: &ProviderEvent) -> Option<ProviderEvent> {
    let mut event = event.clone();
    if let Some(sealed) = event.sealed_body.take() {
        let body = billing.seals.of_service().open(&event.event_id, &sealed)?;
        event.body = String::from_utf8(body.to_vec()).ok()?;
    }
    Some(event)
}

/// Carries an event out. The event only names an object, and the object's present state is read from the provider
/// (readings W4).
async fn carry_out(billing: &Billing, event: &ProviderEvent) -> Result<(), SyncError> {
    // without a provider the event becomes stuck, and an operator decides
    let provider = billing.provider.as_deref().ok_or_else(|| SyncError::Other(unavailable()))?;
    let event = opened(billing, event)
        .ok_or_else(|| SyncError::Other(ApiError::internal("the event was sealed under another secret")))?;
    let is_ours = match provider.about(&event)? {
        About::Checkout(id) => sync_checkout(billing, &id).await?,
        About::Subscription(id) => sync_subscription(billing, &id).await?,
        About::EndedSubscription(id) => match sync_subscription(billing, &id).await {
            Ok(true) => true,
            // the keys that were bought with the subscription end, also if the provider no longer has it
            Ok(false) | Err(SyncError::Provider(PaymentError::Unknown(_))) => end_purchases(billing, &id).await?,
            Err(error) => return Err(error),
        },
        About::Invoice { id, failed } => sync_invoice(billing, &id, failed).await?,
        About::PaymentMethod { id, customer } => set_first_payment_method(billing, provider, &customer, &id).await?,
        About::Nothing => true,
    };
    if !is_ours {
        tracing::debug!(event_id = event.event_id, "an event of the provider concerns no account of this service");
    }
    Ok(())
}

/// Makes a customer's first payment method pay the invoices.
async fn set_first_payment_method(
    billing: &Billing,
    provider: &dyn PaymentProvider,
    customer: &str,
    id: &str,
) -> Result<bool, SyncError> {
    if billing.store.subscription_of_customer(customer).await?.is_none() {
        return Ok(false);
    }
    // `payment_method` returns the method that the customer chose, otherwise the one attached first
    if provider.payment_method(customer).await?.as_deref() == Some(id) {
        provider.set_payment_method(customer, id).await?;
    }
    Ok(true)
}

/// Deletes events that are older than `KEPT`.
pub(super) async fn forget_old(billing: &Billing) -> Result<(), store::Error> {
    let before = billing.clock.now().0 - KEPT.as_micros() as i64;
    billing.store.forget_provider_events(before).await.map(drop)
}
