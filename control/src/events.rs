//! Events, and the webhooks to which they are sent (specification, Webhooks, Events; readings section 11).

pub mod address;
pub mod deliver;
mod names;
mod places;
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
use places::Calls;
use send::Sender;

/// The types of events (specification, Events).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An operation on encrypted numbers was completed.
    ComputeComplete,
    /// The compute units that the account used this month reached a threshold.
    UsageAlert,
    /// The account reached its limit of operations for the day.
    LimitReached,
    /// The account's spending reached a threshold of its monthly cap.
    BudgetAlert,
    /// An encryption key was uploaded or generated.
    KeyCreated,
    /// An encryption key was deleted.
    KeyDeleted,
    /// An API key was rotated.
    KeyRotated,
    /// The payment provider issued an invoice.
    InvoiceCreated,
    /// An invoice was paid.
    InvoicePaid,
    /// A payment of an invoice failed.
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

/// Makes an event, to be written in one transaction with the change that it reports. The body is made once, because
/// every attempt signs and sends the same bytes (readings H13).
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

/// The state of the webhooks' endpoints and of the deliveries.
pub struct Events {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) seals: AccountSeals,
    pub(crate) config: WebhooksConfig,
    pub(crate) sender: Sender,
    pub(crate) calls: Calls,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl Events {
    /// Creates the state for the events of this database.
    pub fn new(
        clock: Clock,
        store: Store,
        seals: AccountSeals,
        config: WebhooksConfig,
        telemetry: Arc<Telemetry>,
    ) -> Arc<Events> {
        let sender = Sender::new(config.clone());
        Arc::new(Events { clock, store, seals, config, sender, calls: Calls::default(), telemetry })
    }
}
