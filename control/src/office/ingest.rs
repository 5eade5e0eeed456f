//! Events of a shop's payment provider (specification, `/v1/ingest/{token}`; readings B13-B16, B45). Each payment
//! becomes one document, however many events announce it and in whatever order.

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::office::{IngestResult, PaymentEvent};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use docs_module::document::{Problem, Step};
use docs_module::payment_import::{self, Payment, Provider};
use docs_module::request::{Fault, Place, escaped_nul};
use serde_json::Value;
use store::{ClaimedPayment, IngestedPayment, IssuerProfile, NewPayment, PaymentState};

use super::Office;
use super::body::refusal;
use super::documents::new_number;
use super::payments::{Issued, document_of};
use super::profile::{SetProfile, digest};
use crate::billing::payments::signature::is_signed;
use crate::ids;
use crate::web::body::Pieces;
use crate::web::error::ApiError;
use crate::web::openapi::BODY;
use crate::web::path::PathParts;

/// Largest size of an event, in bytes (readings B45).
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Types of events that announce a payment (readings B14).
const TYPES: [&str; 4] = ["payment_intent.succeeded", "charge.succeeded", "checkout.session.completed", "invoice.paid"];
/// Members whose faults mean that nothing was paid, or that the payment was not in yen. An event with such a fault is
/// ignored, because a repetition of the event would change nothing.
const STATES: [&str; 5] = ["status", "payment_status", "paid", "captured", "currency"];
/// Lease of a document. After this time another node may make the document.
const PATIENCE: Duration = Duration::from_secs(120);

/// Largest number of an account's payments that wait for their documents, and of the bytes of their events.
const UNFINISHED_MAX: i64 = 1000;
const UNFINISHED_BYTES_MAX: i64 = 32 << 20;
/// When the provider may send an event again that found no room.
const UNFINISHED_WAIT: Duration = Duration::from_secs(3600);

/// Receive an event of a payment provider.
///
/// The provider sends its events to this route, at the URL that `POST /v1/account/profile` returned.
#[utoipa::path(
    post,
    path = "/v1/ingest/{token}",
    operation_id = "ingestPaymentEvent",
    tag = "Back office",
    params(("token" = String, Path, description = "Last part of the ingest URL.")),
    request_body = PaymentEvent,
    responses((status = 200, description = "Outcome of the event: the document was made or is held, or the event was ignored.", body = IngestResult)),
    extensions(("x-errors" = json!([Code::NotFound, Code::InvalidSignature, BODY])))
)]
pub async fn receive(
    State(office): State<Arc<Office>>,
    path: PathParts,
    request: Request,
) -> Result<Json<IngestResult>, ApiError> {
    let now = office.clock.now();
    let record = office.store.issuer_profile_of_token(&digest(path.get("token")), now.0).await?;
    let Some(record) = record else {
        office.access.limits.pace_stranger(request.extensions()).await?;
        return Err(ApiError::new(Code::NotFound, "there is no such address"));
    };
    let header = request.headers().get("stripe-signature").and_then(|value| value.to_str().ok());
    let header = header.unwrap_or_default().to_owned();
    let body = request.into_body();
    let body = Pieces::new(Body::new(body), EVENT_BYTES_MAX)?.all().await?;
    let set = office.opened_profile(&record)?;
    if !set.signing_secret.is_empty() && !is_signed(&header, &body, &[secret(&set)], now) {
        return Err(ApiError::new(Code::InvalidSignature, "the signature is missing, wrong or older than 5 minutes"));
    }
    let (payments, bytes) = office.store.unfinished_payments(&record.account_id).await?;
    if payments >= UNFINISHED_MAX || bytes >= UNFINISHED_BYTES_MAX {
        // the provider keeps the event and sends it again
        let message = "too many payments of this account wait for their documents: raise the cap of the key";
        return Err(ApiError::unavailable("ingest", message).retry_after(UNFINISHED_WAIT));
    }
    let Some(told) = read(&body, &set, &office)? else { return Ok(answer("ignored", None)) };
    // a separate task, so the work goes on if the provider closes the connection
    let working = tokio::spawn(async move { office.take(&record, told).await });
    working.await?.map(Json)
}

/// The payment that an event announces.
struct Told {
    event_id: String,
    object: Value,
    payment: Payment,
}

/// Reads an event. `None` means that the event announces no payment that gets a document.
fn read(body: &[u8], set: &SetProfile, office: &Office) -> Result<Option<Told>, ApiError> {
    if escaped_nul(body).is_some() {
        return Err(fault(&[], "string_unicode", "should not hold the character U+0000"));
    }
    let event: Value = serde_json::from_slice(body).map_err(|_| fault(&[], "json_invalid", "should be JSON"))?;
    let Some(kind) = event["type"].as_str() else { return Err(fault(&["type"], "missing", "is required")) };
    if !TYPES.contains(&kind) {
        return Ok(None);
    }
    let object = &event["data"]["object"];
    if !object.is_object() {
        return Err(fault(&["data", "object"], "missing", "is required"));
    }
    let payment = match payment_import::read(Provider::Stripe, object, set.profile.default_rate) {
        Ok(payment) => payment,
        Err(problem) if is_of_state(&problem) => return Ok(None),
        Err(problem) => return Err(problems(vec![problem])),
    };
    if payment.wishes.do_not_invoice || payment.is_refunded || payment.total == 0 {
        return Ok(None);
    }
    // try to make the document now: if it cannot be made, the provider sees the error and keeps the event
    let number = new_number(office.clock.now());
    document_of(&payment, &set.profile, number, office.today()).map_err(problems)?;
    let event_id = event["id"].as_str().unwrap_or_default().to_owned();
    Ok(Some(Told { event_id, object: object.clone(), payment }))
}

impl Office {
    /// Records a payment, unless the payment is recorded already, and makes its document.
    async fn take(&self, record: &IssuerProfile, told: Told) -> Result<IngestResult, ApiError> {
        let Told { event_id, object, payment } = told;
        let account = record.account_id.parse().map_err(ApiError::internal)?;
        let now = self.clock.now();
        let document_id = ids::invoice(now).as_str().to_owned();
        let has = |prefixes: &[&str]| payment.ids.iter().any(|id| prefixes.iter().any(|prefix| id.starts_with(prefix)));
        let mut names: Vec<String> =
            payment.ids.iter().cloned().chain([event_id]).filter(|id| !id.is_empty()).collect();
        names.sort_unstable();
        let customer = &object["customer"];
        let customer = customer.as_str().or_else(|| customer["id"].as_str()).unwrap_or_default();
        let object_text = serde_json::to_vec(&object).map_err(ApiError::internal)?;
        let new = NewPayment {
            account_id: record.account_id.clone(),
            lineage_id: record.lineage_id.clone(),
            names,
            sealed_event: self.seals.of(&account).seal(&document_id, &object_text),
            customer: customer.to_owned(),
            total_yen: payment.total,
            paid_at: object["created"].as_i64().map_or(now.0, |seconds| seconds.saturating_mul(1_000_000)),
            is_invoice: has(&["in_"]),
            is_intent: has(&["pi_", "ch_", "py_"]),
            due_at: now.plus(PATIENCE).0,
            received_at: now.0,
            document_id,
        };
        match self.store.write(async |tx| tx.claim_payment(&new).await).await? {
            ClaimedPayment::Known { document_id, state: PaymentState::Held } => Ok(result("held", Some(document_id))),
            ClaimedPayment::Known { document_id, .. } => Ok(result("duplicate", Some(document_id))),
            ClaimedPayment::New => {
                let NewPayment { document_id, account_id, lineage_id, sealed_event, .. } = new;
                let ingested = IngestedPayment { document_id, account_id, lineage_id, sealed_event };
                Ok(match self.issue(&ingested).await? {
                    Issued::Now => result("created", Some(ingested.document_id)),
                    Issued::Before => result("duplicate", Some(ingested.document_id)),
                    Issued::Held => result("held", Some(ingested.document_id)),
                })
            }
        }
    }
}

fn secret(set: &SetProfile) -> crate::billing::payments::PaymentSecret {
    crate::billing::payments::PaymentSecret(set.signing_secret.clone())
}

fn result(status: &str, invoice_id: Option<String>) -> IngestResult {
    IngestResult { status: status.to_owned(), invoice_id }
}

fn answer(status: &str, invoice_id: Option<String>) -> Json<IngestResult> {
    Json(result(status, invoice_id))
}

fn is_of_state(problem: &Problem) -> bool {
    matches!(problem.at.last(), Some(Step::Field(name)) if STATES.contains(name))
}

fn problems(problems: Vec<Problem>) -> ApiError {
    let at: Vec<Place> = ["body", "data", "object"].map(Place::from).into();
    let fault = |problem: Problem| {
        let loc: Vec<Place> = at.iter().cloned().chain(problem.at.iter().map(Place::from)).collect();
        Fault::new("value_error", loc, &problem.message)
    };
    refusal(problems.into_iter().map(fault).collect())
}

fn fault(at: &[&'static str], kind: &'static str, expected: &str) -> ApiError {
    let loc = std::iter::once("body").chain(at.iter().copied()).map(Place::from).collect();
    refusal(vec![Fault::new(kind, loc, expected)])
}
