//! The endpoints of webhooks (specification, Webhooks; readings H1-H21).

use std::sync::Arc;
use std::time::Duration;

use api::sign_in::Hidden;
use api::webhooks::{
    ChangeWebhook, CreateWebhook, CreatedWebhook, DeletedWebhook, Deliveries, Delivery, NewWebhookSecret,
    ReplayedDelivery, SendTestEvent, SentTestEvent, SignatureInfo, TestResults, WebhookDeliveries, WebhookPage,
};
use api::{Code, Word};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::{Attempt, DeliveryRecord, DeliveryStatus, DueDelivery, Webhook};
use tokio::task::JoinSet;

use super::address::{Refused, webhook_url};
use super::deliver::attempt;
use super::places::Call;
use super::send::SECRET_PREFIX;
use super::{EventType, Events, event};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::ids;
use crate::web::body::{Json, JsonBody};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;
use crate::web::pagination::{PageQuery, Position};
use crate::web::path::PathParts;

/// Largest number of webhooks of an account (readings H17).
const WEBHOOKS_MAX: i64 = 20;
/// Permitted number of characters in a secret that a client chose (readings H2).
const SECRET_CHARACTERS: std::ops::RangeInclusive<usize> = 32..=256;

impl JsonBody for CreateWebhook {
    const BYTES_MAX: usize = 32 << 10;
    const CHECKS_TEXTS: bool = true;
}

impl JsonBody for ChangeWebhook {
    const BYTES_MAX: usize = 32 << 10;
    const CHECKS_TEXTS: bool = true;
}

impl JsonBody for SendTestEvent {
    const BYTES_MAX: usize = 8 << 10;
}

/// Make a webhook. Events of the account are then sent to its URL.
///
/// Each delivery is signed. If the service makes the secret, only this answer shows it.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks",
    operation_id = "createWebhook",
    tag = "Webhooks",
    request_body = CreateWebhook,
    responses((status = 201, description = "The webhook.", body = CreatedWebhook)),
    extensions(("x-errors" = json!([
        Code::InvalidRequest, Code::InvalidWebhookUrl, Code::WebhookUrlNotAllowed, Code::WebhookLimitReached, BODY
    ])))
)]
pub async fn create(
    State(events): State<Arc<Events>>,
    caller: Caller,
    claim: Claim,
    body: Json<CreateWebhook>,
) -> Result<Response, ApiError> {
    let CreateWebhook { url, events: types, secret } = body.value;
    let types = event_types(types.as_deref().unwrap_or_default())?;
    let url = checked_url(&events, &url).await?;
    let made = secret.is_none();
    let secret = match secret {
        Some(secret) => chosen_secret(secret)?,
        None => new_secret(),
    };
    let now = events.clock.now();
    let webhook_id = ids::webhook(now).as_str().to_owned();
    let sealed_secret = events.seals.of(&caller.account).seal(&webhook_id, secret.0.as_bytes());
    let account_id = caller.account.as_str().to_owned();
    let new = Webhook { webhook_id, account_id, url, events: types, sealed_secret, created_at: now.0 };
    let created = CreatedWebhook { webhook: told(&new)?, secret: made.then_some(secret) };
    let (answer, kept) = claim.keep_secret((StatusCode::CREATED, Answer(created)).into_response()).await?;
    events
        .store
        .write(async |tx| match tx.insert_webhook(&new, WEBHOOKS_MAX).await? {
            true => Ok(tx.keep(kept.as_ref()).await?),
            false => {
                let message = format!("an account has at most {WEBHOOKS_MAX} webhooks: delete one first");
                Err(ApiError::new(Code::WebhookLimitReached, message))
            }
        })
        .await?;
    Ok(answer)
}

/// List the account's webhooks, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks",
    operation_id = "listWebhooks",
    tag = "Webhooks",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many webhooks a page has; 20 when absent."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "A page of webhooks.", body = WebhookPage)),
    extensions(("x-errors" = json!([Code::InvalidRequest])))
)]
pub async fn list(
    State(events): State<Arc<Events>>,
    caller: Caller,
    query: PageQuery,
) -> Result<Answer<WebhookPage>, ApiError> {
    let rows = events.store.webhooks_page(caller.account.as_str(), query.after_text()?, query.rows_wanted()).await?;
    let page = query.page(rows, |row| Position { created_at: row.created_at, id: row.webhook_id.clone().into_bytes() });
    Ok(Answer(WebhookPage {
        items: page.items.iter().map(told).collect::<Result<_, _>>()?,
        next_cursor: page.next_cursor,
        has_more: page.has_more,
        total_count: page.total_count,
    }))
}

/// A webhook.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks/{webhook_id}",
    operation_id = "getWebhook",
    tag = "Webhooks",
    params(("webhook_id" = String, Path, description = "A webhook of the account.")),
    responses((status = 200, description = "The webhook.", body = api::webhooks::Webhook)),
    extensions(("x-errors" = json!([Code::WebhookNotFound])))
)]
pub async fn show(
    State(events): State<Arc<Events>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<api::webhooks::Webhook>, ApiError> {
    Ok(Answer(told(&find(&events, &caller, &path).await?)?))
}

/// Change a webhook's URL, events or state. Absent members stay as they are.
#[utoipa::path(
    patch,
    path = "/api/v1/webhooks/{webhook_id}",
    operation_id = "changeWebhook",
    tag = "Webhooks",
    params(("webhook_id" = String, Path, description = "A webhook of the account.")),
    request_body = ChangeWebhook,
    responses((status = 200, description = "The webhook.", body = api::webhooks::Webhook)),
    extensions(("x-errors" = json!([
        Code::InvalidRequest, Code::InvalidWebhookUrl, Code::WebhookUrlNotAllowed, Code::WebhookNotFound, BODY
    ])))
)]
pub async fn change(
    State(events): State<Arc<Events>>,
    caller: Caller,
    path: PathParts,
    claim: Claim,
    body: Json<ChangeWebhook>,
) -> Result<Response, ApiError> {
    let mut webhook = find(&events, &caller, &path).await?;
    let ChangeWebhook { url, events: types } = body.value;
    if let Some(types) = types {
        webhook.events = event_types(&types)?;
    }
    if let Some(url) = url {
        webhook.url = checked_url(&events, &url).await?;
    }
    let (answer, kept) = claim.keep(Answer(told(&webhook)?).into_response()).await?;
    events
        .store
        .write(async |tx| match tx.change_webhook(&webhook).await? {
            true => Ok(tx.keep(kept.as_ref()).await?),
            false => Err(unknown_webhook()),
        })
        .await?;
    Ok(answer)
}

/// Make a new secret for a webhook. The old secret stops working at once.
#[utoipa::path(
    patch,
    path = "/api/v1/webhooks/{webhook_id}/regenerate-secret",
    operation_id = "regenerateWebhookSecret",
    tag = "Webhooks",
    params(("webhook_id" = String, Path, description = "A webhook of the account.")),
    responses((status = 200, description = "The secret.", body = NewWebhookSecret)),
    extensions(("x-errors" = json!([Code::WebhookNotFound])))
)]
pub async fn regenerate_secret(
    State(events): State<Arc<Events>>,
    caller: Caller,
    path: PathParts,
    claim: Claim,
) -> Result<Response, ApiError> {
    let webhook = find(&events, &caller, &path).await?;
    let secret = new_secret();
    let sealed = events.seals.of(&caller.account).seal(&webhook.webhook_id, secret.0.as_bytes());
    let told = NewWebhookSecret { webhook_id: webhook.webhook_id.parse().map_err(ApiError::internal)?, secret };
    let (answer, kept) = claim.keep_secret(Answer(told).into_response()).await?;
    let account = caller.account.as_str();
    events
        .store
        .write(async |tx| match tx.change_webhook_secret(account, &webhook.webhook_id, &sealed).await? {
            true => Ok(tx.keep(kept.as_ref()).await?),
            false => Err(unknown_webhook()),
        })
        .await?;
    Ok(answer)
}

/// Delete a webhook, with the record of its deliveries.
#[utoipa::path(
    delete,
    path = "/api/v1/webhooks/{webhook_id}",
    operation_id = "deleteWebhook",
    tag = "Webhooks",
    params(("webhook_id" = String, Path, description = "A webhook of the account.")),
    responses((status = 200, description = "The webhook is deleted.", body = DeletedWebhook)),
    extensions(("x-errors" = json!([Code::WebhookNotFound])))
)]
pub async fn delete(
    State(events): State<Arc<Events>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<DeletedWebhook>, ApiError> {
    let webhook_id: api::WebhookId = path.get("webhook_id").parse().map_err(|_| unknown_webhook())?;
    let account = caller.account.as_str();
    let deleted = events.store.write(async |tx| tx.delete_webhook(account, webhook_id.as_str()).await).await?;
    match deleted {
        true => Ok(Answer(DeletedWebhook { webhook_id, status: "deleted".to_owned() })),
        false => Err(unknown_webhook()),
    }
}

/// Send a synthetic event once to every webhook of the account, whichever events it subscribes to.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks/test",
    operation_id = "sendTestEvent",
    tag = "Webhooks",
    request_body = SendTestEvent,
    responses((status = 200, description = "The result for each webhook.", body = SentTestEvent)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::RateLimited, BODY])))
)]
pub async fn test(
    State(events): State<Arc<Events>>,
    caller: Caller,
    claim: Claim,
    body: Json<SendTestEvent>,
) -> Result<Response, ApiError> {
    let kind = event_type(&body.value.event_type)?;
    let _call = begin_call(&events, &caller)?;
    let new = event(&caller.account, kind, &sample(kind), events.clock.now());
    let mut sending = JoinSet::new();
    for webhook in events.store.webhooks(caller.account.as_str()).await? {
        let (events, new) = (events.clone(), new.clone());
        sending.spawn(async move {
            let due = DueDelivery {
                webhook_id: webhook.webhook_id,
                event_id: new.event_id,
                account_id: new.account_id,
                event_type: new.event_type,
                attempts: 0,
                url: webhook.url,
                sealed_secret: webhook.sealed_secret,
                body: new.body,
            };
            attempt(&events, &due).await
        });
    }
    // a synthetic event gets one attempt, so a failure is final (readings H14)
    let ended = |ended: Attempt| match ended.status {
        DeliveryStatus::Pending => Attempt { status: DeliveryStatus::Failed, due_at: 0, ..ended },
        _ => ended,
    };
    let attempts: Vec<Attempt> = sending.join_all().await.into_iter().map(ended).collect();
    let successes = attempts.iter().filter(|attempt| attempt.status == DeliveryStatus::Succeeded).count() as u64;
    let total_webhooks = attempts.len() as u64;
    let told = SentTestEvent {
        event_type: kind.as_str().to_owned(),
        delivery_id: new.event_id.parse().map_err(ApiError::internal)?,
        results: TestResults { total_webhooks, successes, failures: total_webhooks - successes },
    };
    let (answer, kept) = claim.keep(Answer(told).into_response()).await?;
    events
        .store
        .write(async |tx| {
            if !attempts.is_empty() {
                tx.record_sent(&new, &attempts).await?;
            }
            tx.keep(kept.as_ref()).await
        })
        .await?;
    Ok(answer)
}

/// The newest deliveries to all webhooks of the account.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks/events",
    operation_id = "listDeliveries",
    tag = "Webhooks",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many deliveries; 20 when absent."),
    ),
    responses((status = 200, description = "The deliveries.", body = Deliveries)),
    extensions(("x-errors" = json!([Code::InvalidRequest])))
)]
pub async fn list_events(
    State(events): State<Arc<Events>>,
    caller: Caller,
    query: PageQuery,
) -> Result<Answer<Deliveries>, ApiError> {
    let records = events.store.deliveries_of_account(caller.account.as_str(), query.rows_wanted() - 1).await?;
    Ok(Answer(Deliveries { items: records.iter().map(told_delivery).collect::<Result<_, _>>()? }))
}

/// The deliveries to a webhook, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks/{webhook_id}/deliveries",
    operation_id = "listWebhookDeliveries",
    tag = "Webhooks",
    params(
        ("webhook_id" = String, Path, description = "A webhook of the account."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many deliveries a page has; 20 when absent."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "A page of deliveries.", body = WebhookDeliveries)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::WebhookNotFound])))
)]
pub async fn list_deliveries(
    State(events): State<Arc<Events>>,
    caller: Caller,
    path: PathParts,
    query: PageQuery,
) -> Result<Answer<WebhookDeliveries>, ApiError> {
    let webhook = find(&events, &caller, &path).await?;
    let rows = events.store.deliveries_page(&webhook.webhook_id, query.after_text()?, query.rows_wanted()).await?;
    let page = query.page(rows, |row| Position { created_at: row.created_at, id: row.event_id.clone().into_bytes() });
    Ok(Answer(WebhookDeliveries {
        webhook_id: webhook.webhook_id.parse().map_err(ApiError::internal)?,
        total: page.total_count,
        records: page.items.iter().map(told_delivery).collect::<Result<_, _>>()?,
        next_cursor: page.next_cursor,
        has_more: page.has_more,
    }))
}

/// Send a failed delivery again: the same bytes, to the webhook's present URL and signed with its present secret.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
    operation_id = "replayDelivery",
    tag = "Webhooks",
    params(
        ("webhook_id" = String, Path, description = "A webhook of the account."),
        ("delivery_id" = String, Path, description = "A delivery to it."),
    ),
    responses((status = 200, description = "The result of the attempt.", body = ReplayedDelivery)),
    extensions(("x-errors" = json!([Code::WebhookNotFound, Code::DeliveryNotFound, Code::RateLimited])))
)]
pub async fn replay(
    State(events): State<Arc<Events>>,
    caller: Caller,
    path: PathParts,
    claim: Claim,
) -> Result<Response, ApiError> {
    let webhook = find(&events, &caller, &path).await?;
    let unknown = || ApiError::new(Code::DeliveryNotFound, "there is no such delivery to this webhook");
    let delivery_id: api::EventId = path.get("delivery_id").parse().map_err(|_| unknown())?;
    let account = caller.account.as_str();
    let record =
        events.store.delivery(account, &webhook.webhook_id, delivery_id.as_str()).await?.ok_or_else(unknown)?;
    let replayed = match record.status {
        DeliveryStatus::Succeeded => ReplayedDelivery { delivery_id, replayed: false, success: true, error: None },
        DeliveryStatus::Pending => {
            let error = Some("the delivery is not finished: the service will try it again".to_owned());
            ReplayedDelivery { delivery_id, replayed: false, success: false, error }
        }
        DeliveryStatus::Failed => {
            let due = DueDelivery {
                webhook_id: webhook.webhook_id,
                event_id: record.event_id,
                account_id: webhook.account_id,
                event_type: record.event_type,
                // the result is recorded only if the database still has this number of attempts
                attempts: record.attempts,
                url: webhook.url,
                sealed_secret: webhook.sealed_secret,
                body: record.body,
            };
            let _call = begin_call(&events, &caller)?;
            let ended = attempt(&events, &due).await;
            let success = ended.status == DeliveryStatus::Succeeded;
            let status = if success { DeliveryStatus::Succeeded } else { DeliveryStatus::Failed };
            let error = (!success).then(|| ended.error.clone());
            events.store.record_attempts(&[Attempt { status, due_at: 0, ..ended }]).await?;
            ReplayedDelivery { delivery_id, replayed: true, success, error }
        }
    };
    let (answer, kept) = claim.keep(Answer(replayed).into_response()).await?;
    events.store.write(async |tx| tx.keep(kept.as_ref()).await).await?;
    Ok(answer)
}

/// Begins a test or replay call, if not too many are running.
fn begin_call<'e>(events: &'e Events, caller: &Caller) -> Result<Call<'e>, ApiError> {
    events.calls.begin(caller.account.as_str()).ok_or_else(|| {
        let message = "too many test and replay calls are running: try again when one has ended";
        ApiError::new(Code::RateLimited, message).retry_after(Duration::from_secs(10))
    })
}

async fn find(events: &Events, caller: &Caller, path: &PathParts) -> Result<Webhook, ApiError> {
    let found = events.store.webhook(caller.account.as_str(), path.get("webhook_id")).await?;
    found.ok_or_else(unknown_webhook)
}

fn unknown_webhook() -> ApiError {
    ApiError::new(Code::WebhookNotFound, "there is no such webhook in this account")
}

fn told(webhook: &Webhook) -> Result<api::webhooks::Webhook, ApiError> {
    Ok(api::webhooks::Webhook {
        webhook_id: webhook.webhook_id.parse().map_err(ApiError::internal)?,
        url: webhook.url.clone(),
        events: webhook.events.split(',').filter(|kind| !kind.is_empty()).map(str::to_owned).collect(),
        created_at: Timestamp(webhook.created_at).rfc3339(),
        signature_info: SignatureInfo::default(),
    })
}

fn told_delivery(record: &DeliveryRecord) -> Result<Delivery, ApiError> {
    let moment = |at: i64| (at > 0).then(|| Timestamp(at).rfc3339());
    Ok(Delivery {
        delivery_id: record.event_id.parse().map_err(ApiError::internal)?,
        webhook_id: record.webhook_id.parse().map_err(ApiError::internal)?,
        event_type: record.event_type.clone(),
        delivered_at: moment(record.delivered_at),
        status_code: record.status_code,
        response_ms: record.response_ms,
        attempts: record.attempts,
        status: record.status.as_str().to_owned(),
        error: (!record.error.is_empty()).then(|| record.error.clone()),
        next_attempt_at: moment(record.due_at).filter(|_| record.status == DeliveryStatus::Pending),
        request_body_sha256: hex::encode(Sha256::digest(&record.body)),
    })
}

/// Writes types of events as they are stored: distinct, separated by commas. Empty: all types (readings H16).
fn event_types(names: &[String]) -> Result<String, ApiError> {
    let mut types: Vec<&str> = Vec::new();
    for name in names {
        let name = event_type(name)?.as_str();
        if !types.contains(&name) {
            types.push(name);
        }
    }
    Ok(types.join(","))
}

fn event_type(name: &str) -> Result<EventType, ApiError> {
    EventType::of_word(name).ok_or_else(|| {
        let names = EventType::ALL.map(EventType::as_str).join(", ");
        ApiError::new(
            Code::InvalidRequest,
            format!("there is no event type with this name; the event types are {names}"),
        )
        .at("events", "not a type of event")
    })
}

/// Checks a URL to which events are to be sent. A name that does not resolve now is accepted (readings H4).
async fn checked_url(events: &Events, text: &str) -> Result<String, ApiError> {
    let refused = |refused: Refused| match refused {
        Refused::Url(why) => ApiError::new(Code::InvalidWebhookUrl, why).at("url", "refused"),
        Refused::Address => {
            ApiError::new(Code::WebhookUrlNotAllowed, "the URL's address is not public").at("url", "not public")
        }
    };
    let url = webhook_url(&events.config, text).map_err(refused)?;
    if let Some(name) = url.domain() {
        let port = url.port_or_known_default().unwrap_or(443);
        events.sender.vet_name(name, port).await.map_err(refused)?;
    }
    Ok(text.to_owned())
}

/// Checks a secret that a client chose (readings H2).
fn chosen_secret(secret: String) -> Result<Hidden, ApiError> {
    let visible = secret.chars().all(|c| c.is_ascii_graphic());
    if visible && SECRET_CHARACTERS.contains(&secret.len()) {
        return Ok(Hidden(secret));
    }
    let message = "secret must have 32 to 256 visible ASCII characters";
    Err(ApiError::new(Code::InvalidRequest, message).at("secret", "too short, too long, or not visible ASCII"))
}

/// Makes a new random secret (readings H1).
fn new_secret() -> Hidden {
    let bytes = zeroize::Zeroizing::new(ids::random::<32>());
    Hidden(format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes.as_slice())))
}

/// Makes the data of a synthetic event (readings H14).
fn sample(kind: EventType) -> Value {
    let (moment, day) = ("2026-11-01T00:00:00.000Z", "2026-11-01");
    let invoice = json!({
        "invoice_id": "in_test", "amount_usd_cents": 900, "status": "open", "period_start": day, "period_end": day,
        "provider_invoice_url": "https://example.com/invoice",
    });
    let mut data = match kind {
        EventType::ComputeComplete => json!({
            "job_id": "op_test", "operation": "multiply", "result_ciphertext_id": "ct_test", "compute_time_ms": 12.5,
            "cost_jpy": 0.0015, "noise_budget_remaining": 62.5,
        }),
        EventType::UsageAlert => json!({
            "threshold_pct": 80, "monthly_fcu_used": 8000, "monthly_fcu_limit": 10000, "estimated_overage_usd": 0,
        }),
        EventType::LimitReached => json!({
            "limit_type": "daily", "limit": 1000, "used": 1000, "resets_at": moment,
        }),
        EventType::BudgetAlert => json!({
            "threshold_pct": 80, "monthly_cap_usd": 50, "current_spend_usd": 40, "hard_cap": true,
        }),
        EventType::KeyCreated => json!({
            "key_id": "key_test", "scheme": "ckks", "slot_count": 4096, "source": "upload", "created_at": moment,
        }),
        EventType::KeyDeleted => json!({ "key_id": "key_test", "ciphertexts_deleted": 3, "deleted_at": moment }),
        EventType::KeyRotated => json!({
            "old_key_prefix": "svc_test_0123456", "new_key_prefix": "svc_test_abcdef0", "grace_period_ends_at": moment,
        }),
        EventType::InvoiceCreated => invoice,
        EventType::InvoicePaid => json!({
            "invoice_id": "in_test", "amount_usd_cents": 900, "period_start": day, "period_end": day,
            "provider_invoice_url": "https://example.com/invoice",
        }),
        EventType::InvoiceFailed => {
            let mut failed = invoice;
            failed["attempt_count"] = json!(1);
            failed["next_attempt_at"] = json!(moment);
            failed["failure_reason"] = json!("card_declined");
            failed
        }
    };
    data["test"] = json!(true);
    data
}
