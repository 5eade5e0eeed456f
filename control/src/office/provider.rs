//! Keys that customers buy: events of the operator's payment provider, and the key for the buyer (specification,
//! `/v1/provider/webhook` and `/v1/keys/by-session`; readings B6-B8, W2).

use std::sync::Arc;

use api::Code;
use api::billing::ReceivedEvent;
use api::office::PurchasedKey;
use api::sign_in::Hidden;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use docs_module::request::Fault;

use super::Office;
use super::body::refusal;
use super::query::Query;
use crate::billing::purchases::{Bought, bought};
use crate::billing::{Billing, provider_events};
use crate::web::Web;
use crate::web::error::ApiError;
use crate::web::peer::ClientAddress;

/// Largest length of a checkout's id, in bytes.
const SESSION_ID_BYTES_MAX: usize = 255;

/// Receive an event of the operator's payment provider and check its signature.
///
/// This route does the same as `POST /api/v1/billing/provider_webhook`.
///
/// A paid checkout issues a key. The end of the subscription revokes the key. The provider may repeat an event.
#[utoipa::path(
    post,
    path = "/v1/provider/webhook",
    operation_id = "receiveOfficeProviderEvent",
    tag = "Back office",
    request_body(content = api::billing::ProviderEvent, description = "An event, as the provider signed it."),
    params(("Stripe-Signature" = String, Header, description = "`t=SECONDS,v1=HEX`")),
    responses((status = 200, description = "The event is stored. A repeated event has the same answer.", body = ReceivedEvent)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::InvalidSignature, Code::PayloadTooLarge])))
)]
pub async fn webhook(
    billing: State<Arc<Billing>>,
    web: State<Arc<Web>>,
    request: Request,
) -> Result<Json<ReceivedEvent>, ApiError> {
    provider_events::receive(billing, web, request).await
}

/// Receive an event of the operator's payment provider, at the path of the first version.
///
/// This route does the same as `POST /v1/provider/webhook`.
#[utoipa::path(
    post,
    path = "/v1/stripe/webhook",
    operation_id = "receiveStripeEvent",
    tag = "Back office",
    request_body(content = api::billing::ProviderEvent, description = "An event, as the provider signed it."),
    params(("Stripe-Signature" = String, Header, description = "`t=SECONDS,v1=HEX`")),
    responses((status = 200, description = "The event is stored. A repeated event has the same answer.", body = ReceivedEvent)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::InvalidSignature, Code::PayloadTooLarge])))
)]
pub async fn stripe_webhook(
    billing: State<Arc<Billing>>,
    web: State<Arc<Web>>,
    request: Request,
) -> Result<Json<ReceivedEvent>, ApiError> {
    provider_events::receive(billing, web, request).await
}

/// Get the key of a purchase, for the success page of the provider's checkout. The key is shown for 24 hours.
#[utoipa::path(
    get,
    path = "/v1/keys/by-session",
    operation_id = "getKeyBySession",
    tag = "Back office",
    params(("session_id" = String, Query, description = "Id of the checkout.")),
    responses(
        (status = 200, description = "The key.", body = PurchasedKey),
        (status = 202, description = "The payment is being processed: ask again after `Retry-After` seconds.", body = PurchasedKey,
            headers(("Retry-After" = u32, description = "Seconds to wait before asking again."))),
    ),
    extensions(("x-errors" = json!([
        Code::ValidationError, Code::KeyNotFound, Code::KeyNoLongerShown, Code::ProviderUnavailable,
        Code::BruteForceLockout
    ])))
)]
pub async fn by_session(
    State(office): State<Arc<Office>>,
    State(billing): State<Arc<Billing>>,
    address: ClientAddress,
    query: Query,
) -> Result<Response, ApiError> {
    let session_id = query.get("session_id").filter(|id| !id.is_empty());
    let session_id = session_id.ok_or_else(|| refusal(vec![Fault::missing_in_query("session_id")]))?;
    if session_id.len() > SESSION_ID_BYTES_MAX || !session_id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refusal(vec![Fault::of_query("session_id", session_id, &["the id of a checkout"])]));
    }
    // a checkout's id gives access like a password, so wrong ids count for the lockout
    let told = match office.access.limits.attempt(address, bought(&billing, session_id)).await? {
        Bought::Key(key, plan) => {
            let key = Some(Hidden(key.to_string()));
            (StatusCode::OK, PurchasedKey { status: "ready".to_owned(), api_key: key.clone(), key, plan: Some(plan) })
        }
        Bought::Pending => {
            let pending = PurchasedKey { status: "pending".to_owned(), api_key: None, key: None, plan: None };
            (StatusCode::ACCEPTED, pending)
        }
    };
    let (status, key) = told;
    let mut response = (status, Json(key)).into_response();
    if status == StatusCode::ACCEPTED {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    }
    Ok(response)
}
