//! Webhooks and their deliveries (specification, Webhook, Events; readings H1-H21).

use serde::{Deserialize, Serialize};

use crate::sign_in::Hidden;
use crate::{EventId, WebhookId};

/// A request for a new webhook.
#[derive(Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateWebhook {
    /// The URL to which events are sent: an HTTPS URL of at most 2048 characters, with a public address.
    pub url: String,
    /// Types of events to send; all types when absent or empty.
    pub events: Option<Vec<String>>,
    /// The shared secret: 32 to 256 visible ASCII characters. If absent, the service makes a secret.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, min_length = 32, max_length = 256))]
    pub secret: Option<String>,
}

/// Changes of a webhook. A member that is absent is not changed.
#[derive(Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeWebhook {
    /// The URL to which events are sent.
    pub url: Option<String>,
    /// Types of events to send; all types when empty.
    pub events: Option<Vec<String>>,
}

/// How deliveries are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignatureInfo {
    /// `HMAC-SHA256` over the exact bytes of the body; the key is the text of the secret.
    pub algorithm: String,
    /// The header with the signature.
    pub header: String,
    /// Format of the header's value: `sha256=<hex>`.
    pub format: String,
}

impl Default for SignatureInfo {
    fn default() -> Self {
        SignatureInfo {
            algorithm: "HMAC-SHA256".to_owned(),
            header: "X-SERVICE-Signature".to_owned(),
            format: "sha256=<hex>".to_owned(),
        }
    }
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Webhook {
    /// The webhook's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "wh_01k809hp7f0oc1jgldmrvm9s18"))]
    pub webhook_id: WebhookId,
    /// The URL to which events are sent.
    pub url: String,
    /// Types of events to send; all types when empty.
    pub events: Vec<String>,
    /// When the webhook was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// How deliveries are signed.
    pub signature_info: SignatureInfo,
}

/// A page of webhooks, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookPage {
    /// The webhooks.
    pub items: Vec<Webhook>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// Number of webhooks on all pages.
    pub total_count: u64,
}

/// A webhook that was just made.
#[derive(Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedWebhook {
    /// The webhook.
    #[serde(flatten)]
    pub webhook: Webhook,
    /// The shared secret, if the service made it. No later answer shows the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub secret: Option<Hidden>,
}

/// A new shared secret. The old secret no longer works.
#[derive(Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewWebhookSecret {
    /// The webhook's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "wh_01k809hp7f0oc1jgldmrvm9s18"))]
    pub webhook_id: WebhookId,
    /// The secret. No later answer shows the secret.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub secret: Hidden,
}

/// A webhook that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedWebhook {
    /// The webhook's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "wh_01k809hp7f0oc1jgldmrvm9s18"))]
    pub webhook_id: WebhookId,
    /// `deleted`
    pub status: String,
}

/// A request to send a synthetic event.
#[derive(Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SendTestEvent {
    /// A type of event.
    pub event_type: String,
}

/// A synthetic event that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SentTestEvent {
    /// The event's type.
    pub event_type: String,
    /// The event's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "evt_01k809hp7f0oc1jgldmrvm9s18"))]
    pub delivery_id: EventId,
    /// The outcome of the deliveries.
    pub results: TestResults,
}

/// The outcome of the deliveries of a synthetic event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestResults {
    /// Number of the account's webhooks.
    pub total_webhooks: u64,
    /// Number of webhooks that accepted the event.
    pub successes: u64,
    /// Number of webhooks that did not accept the event.
    pub failures: u64,
}

/// A delivery of an event to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// The event's id, the same for all webhooks.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "evt_01k809hp7f0oc1jgldmrvm9s18"))]
    pub delivery_id: EventId,
    /// The webhook's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "wh_01k809hp7f0oc1jgldmrvm9s18"))]
    pub webhook_id: WebhookId,
    /// The event's type.
    pub event_type: String,
    /// When the last attempt ended; null before the first attempt ends.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub delivered_at: Option<String>,
    /// HTTP status of the receiver's last answer; 0 without an answer.
    pub status_code: i64,
    /// Time until the receiver's last answer, in milliseconds; 0 without an answer.
    pub response_ms: i64,
    /// Number of attempts so far.
    pub attempts: i64,
    /// `pending`, `succeeded` or `failed`.
    pub status: String,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When the next attempt is due; null when no attempt follows.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub next_attempt_at: Option<String>,
    /// SHA-256 of the body's bytes, in hexadecimal.
    pub request_body_sha256: String,
}

/// The newest deliveries to all webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Deliveries {
    /// The deliveries, newest first.
    pub items: Vec<Delivery>,
}

/// Deliveries to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookDeliveries {
    /// The webhook's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "wh_01k809hp7f0oc1jgldmrvm9s18"))]
    pub webhook_id: WebhookId,
    /// Number of deliveries on all pages.
    pub total: u64,
    /// The deliveries, newest first.
    pub records: Vec<Delivery>,
    /// Where the next page begins. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
}

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplayedDelivery {
    /// The delivery's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "evt_01k809hp7f0oc1jgldmrvm9s18"))]
    pub delivery_id: EventId,
    /// Whether the delivery was sent again.
    pub replayed: bool,
    /// Whether the receiver accepted the event.
    pub success: bool,
    /// Why the replay did not succeed.
    pub error: Option<String>,
}
