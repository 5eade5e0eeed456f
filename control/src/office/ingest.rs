//! Events of a shop's payment provider (specification, `/v1/ingest/{token}`; readings B13-B16, B45). Each sale becomes
//! one document and each return becomes one, however many events announce them and in whatever order.

use std::sync::Arc;
use std::time::Duration;

use api::office::{IngestResult, PaymentEvent};
use api::{AccountId, Code};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use docs_module::payment_import::Provider;
use docs_module::request::any_value;
use serde_json::Value;
use store::{Announcement, DocumentClaim, DocumentState, IssuerProfile, NewReturn, NewSale, Verdict};
use subtle::ConstantTimeEq;

use super::Office;
use super::announced::{self, About, AboutKind, Event, REFUNDED};
use super::body::refusal;
use super::payments::{Issued, event_name};
use super::profile::{SetProfile, digest};
use crate::billing::payments::PaymentSecret;
use crate::billing::payments::signature::{is_signed, signature_header};
use crate::ids;
use crate::web::body::Pieces;
use crate::web::error::ApiError;
use crate::web::json::without_mark;
use crate::web::openapi::BODY;
use crate::web::path::PathParts;

/// Largest size of an event, in bytes (readings B45).
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of memory reserved for each byte of an event: for the event, the values read from it, and the document.
const COPIES: u64 = 4;
/// Lease of a document. After this time another node may make the document.
const PATIENCE: Duration = Duration::from_secs(120);

/// Largest number of an account's documents that wait, and of the bytes of their events.
const WAITING_MAX: i64 = 10_000;
const WAITING_BYTES_MAX: i64 = 64 << 20;
/// When the provider may send an event again that found no room.
const WAITING_WAIT: Duration = Duration::from_secs(3600);
/// Largest number of a key's events without a document whose objects are kept. Of later ones the reason is kept.
const NOT_ISSUED_MAX: i64 = 1000;

/// Receive an event of a payment provider.
///
/// The provider sends its events to this route, at the URL that `POST /v1/account/profile` returned.
///
/// The fullest object of a sale makes its document: an invoice before a checkout session before a payment intent before
/// a charge. So an event whose sale may have a fuller object is `accepted`, and the document is made when this object
/// comes, or after a wait (2 minutes, unless the operator set another time).
#[utoipa::path(
    post,
    path = "/v1/ingest/{token}",
    operation_id = "ingestPaymentEvent",
    tag = "Back office",
    params(("token" = String, Path, description = "Last part of the ingest URL.")),
    request_body = PaymentEvent,
    responses((status = 200, description = "Outcome of the event.", body = IngestResult)),
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
    let (stripe, payjp) = (signature_header(request.headers()).to_owned(), payjp_token(request.headers()).to_owned());
    let mut pieces = Pieces::kept(&office.web, request, EVENT_BYTES_MAX, |bytes| COPIES * bytes)?;
    let body = pieces.all().await?;
    let _reserved = pieces.take_reserved();
    let set = office.opened_profile(&record)?;
    let secret = PaymentSecret(set.signing_secret.clone());
    let is_authentic = secret.0.is_empty()
        || match set.profile.provider {
            // PAY.JP sends the secret itself
            Provider::Payjp => payjp.as_bytes().ct_eq(secret.0.as_bytes()).into(),
            Provider::Stripe | Provider::Generic => is_signed(&stripe, &body, &[secret], now),
        };
    if !is_authentic {
        return Err(ApiError::new(Code::InvalidSignature, "the signature is missing, wrong or older than 5 minutes"));
    }
    let (waiting, bytes) = office.store.waiting_documents(&record.account_id).await?;
    if waiting >= WAITING_MAX || bytes >= WAITING_BYTES_MAX {
        // the provider keeps the event and sends it again
        let message = "too many payments of this account wait for their documents: raise the cap of the key";
        return Err(ApiError::unavailable("ingest", message).retry_after(WAITING_WAIT));
    }
    let event = any_value(without_mark(&body)).map_err(refusal)?;
    let Some(event) = announced::read(&event, &set, record.environment, now) else {
        return Ok(Json(result("ignored", None)));
    };
    // a separate task, so the work goes on if the provider closes the connection
    let working = tokio::spawn(async move { office.take(&record, &set, event).await });
    let told = working.await??;
    Ok(Json(told))
}

impl Office {
    /// Records an event, and makes the document if the event completes its sale or its return.
    async fn take(&self, record: &IssuerProfile, set: &SetProfile, event: Event) -> Result<IngestResult, ApiError> {
        let Event { kind, object, about } = event;
        let account: AccountId = record.account_id.parse().map_err(ApiError::internal)?;
        let document_id = ids::invoice(self.clock.now()).as_str().to_owned();
        let refused = matches!(about.verdict, Verdict::Refuse(_));
        let is_dropped = refused && self.store.count_not_issued(&record.lineage_id).await? >= NOT_ISSUED_MAX;
        let text = serde_json::to_vec(if is_dropped { &Value::Null } else { &object }).map_err(ApiError::internal)?;
        let now = self.clock.now();
        let told = Announcement {
            account_id: record.account_id.clone(),
            lineage_id: record.lineage_id.clone(),
            provider: set.profile.provider.name().to_owned(),
            event_type: kind,
            sealed_event: self.seals.of(&account).seal(event_name(&record.lineage_id), &text),
            payment_id: about.id.clone(),
            verdict: about.verdict.clone(),
            is_final: about.is_final,
            wait_until: now.plus(Duration::from_secs(self.config.ingest_wait_s)).0,
            leased_until: now.plus(PATIENCE).0,
            received_at: now.0,
            document_id,
        };
        let claim = self.claim(told, about).await?;
        Ok(match claim {
            DocumentClaim::Issue { document_id } => match self.issue(&document_id).await? {
                Issued::Now => {
                    self.told.notify_one();
                    result("created", Some(document_id))
                }
                Issued::Before => result("duplicate", Some(document_id)),
                Issued::Held => result("held", Some(document_id)),
                Issued::Waits => result("accepted", None),
                Issued::Declined => result("ignored", None),
                Issued::Never(why) => not_issued(why),
            },
            DocumentClaim::Known { document_id, state, error } => match state {
                DocumentState::Issued => result("duplicate", Some(document_id)),
                DocumentState::Held => result("held", Some(document_id)),
                DocumentState::Waiting | DocumentState::Announced => result("accepted", None),
                DocumentState::Declined => result("ignored", None),
                DocumentState::NotIssued => not_issued(error),
            },
        })
    }

    async fn claim(&self, told: Announcement, about: About) -> Result<DocumentClaim, ApiError> {
        let About { names, invoice_id, yen, kind, .. } = about;
        let (fullness, customer, paid_at, is_intent, given_back) = match kind {
            AboutKind::Sale { fullness, customer, paid_at, is_payment, given_back } => {
                (fullness, customer, paid_at, is_payment, given_back)
            }
            AboutKind::Return { sale_names, covers, is_cumulative } => {
                let new = NewReturn { told, names, covers, sale_names, invoice_id, amount_yen: yen, is_cumulative };
                return Ok(self.store.write(async |tx| tx.claim_return(&new).await).await?);
            }
        };
        let given_back = given_back.and_then(|about| self.given_back(&told, *about));
        let paid_at = paid_at.map_or(told.received_at, |seconds| seconds.saturating_mul(1_000_000));
        let new = NewSale { told, names, invoice_id, fullness, customer, total_yen: yen, paid_at, is_intent };
        let claimed = self.store.write(async |tx| {
            let claimed = tx.claim_sale(&new).await?;
            if let Some(given_back) = &given_back {
                tx.claim_return(given_back).await?;
            }
            Ok::<_, store::Error>(claimed)
        });
        Ok(claimed.await?)
    }

    /// Makes the return that the object of a sale tells of.
    fn given_back(&self, sale: &Announcement, about: About) -> Option<NewReturn> {
        let About { names, invoice_id, yen, verdict, is_final, kind, .. } = about;
        let AboutKind::Return { sale_names, covers, is_cumulative } = kind else { return None };
        let told = Announcement {
            document_id: ids::invoice(self.clock.now()).as_str().to_owned(),
            event_type: REFUNDED.to_owned(),
            verdict,
            is_final,
            ..sale.clone()
        };
        Some(NewReturn { told, names, covers, sale_names, invoice_id, amount_yen: yen, is_cumulative })
    }
}

/// Returns the secret that PAY.JP sends with an event.
fn payjp_token(headers: &HeaderMap) -> &str {
    headers.get("x-payjp-webhook-token").and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn result(status: &str, invoice_id: Option<String>) -> IngestResult {
    IngestResult { status: status.to_owned(), invoice_id, reason: None }
}

fn not_issued(reason: String) -> IngestResult {
    IngestResult { status: "not_issued".to_owned(), invoice_id: None, reason: Some(reason) }
}
