//! Events and the webhooks that tell of them (specification, Webhooks, Events; readings section 11).

pub mod address;
pub mod deliver;
pub mod send;
pub(crate) mod webhooks;

use std::sync::Arc;

use api::{AccountId, words};
use serde_json::{Value, json};
use store::{NewEvent, Store};

use crate::clock::{Clock, Timestamp};
use crate::ids;
use crate::sealing::AccountSeals;
use crate::telemetry::Telemetry;
use address::WebhooksConfig;
use send::Sender;

/// What happens and is told (specification, Events).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An operation on encrypted numbers was completed.
    ComputeComplete,
    /// The account reached a part of its compute units of a month.
    UsageAlert,
    /// The account reached its operations of a day.
    LimitReached,
    /// The account spent a part of its monthly cap.
    BudgetAlert,
    /// An encryption key was uploaded or generated.
    KeyCreated,
    /// An encryption key was deleted.
    KeyDeleted,
    /// An API key was rotated.
    KeyRotated,
    /// The payment provider issued an invoice.
    InvoiceCreated,
    /// It was paid.
    InvoicePaid,
    /// A payment failed.
    InvoiceFailed,
}

words!(EventType, "type of an event", {
    ComputeComplete = "compute_complete",
    UsageAlert = "usage_alert",
    LimitReached = "limit_reached",
    BudgetAlert = "budget_alert",
    KeyCreated = "key_created",
    KeyDeleted = "key_deleted",
    KeyRotated = "key_rotated",
    InvoiceCreated = "invoice_created",
    InvoicePaid = "invoice_paid",
    InvoiceFailed = "invoice_failed",
});

/// An event, to be written with what it tells of. The body is made once: these bytes are signed and sent each time (readings H13).
pub fn event(account: &AccountId, kind: EventType, data: &Value, now: Timestamp) -> NewEvent {
    let event_id = ids::event(now);
    let body = json!({
        "delivery_id": event_id.as_str(),
        "event_type": kind.as_str(),
        "account_id": account.as_str(),
        "timestamp": now.rfc3339(),
        "data": data,
    });
    NewEvent {
        event_id: event_id.as_str().to_owned(),
        account_id: account.as_str().to_owned(),
        event_type: kind.as_str().to_owned(),
        body: body.to_string(),
        created_at: now.0,
    }
}

/// What the endpoints of webhooks and the deliveries need.
pub struct Events {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) seals: AccountSeals,
    pub(crate) config: WebhooksConfig,
    pub(crate) sender: Sender,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl Events {
    /// On this database.
    pub fn new(
        clock: Clock,
        store: Store,
        seals: AccountSeals,
        config: WebhooksConfig,
        telemetry: Arc<Telemetry>,
    ) -> Arc<Events> {
        let sender = Sender::new(config.clone());
        Arc::new(Events { clock, store, seals, config, sender, telemetry })
    }
}
