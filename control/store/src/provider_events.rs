//! Events of the payment provider. An event is stored before it is acknowledged, and is processed later (readings
//! W2-W5).

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// An event of the provider, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderEvent {
    /// The provider's id for the event.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// The body, which the provider signed, if it is not encrypted.
    pub body: String,
    /// The body, encrypted. `None`: an event that the release before stored.
    pub sealed_body: Option<Vec<u8>>,
    /// Number of earlier attempts to process the event.
    pub attempts: i64,
    /// When the event arrived, in microseconds since 1970.
    pub received_at: i64,
}

/// An event that cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckEvent {
    /// The provider's id for the event.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// Number of attempts to process the event.
    pub attempts: i64,
    /// Why the last attempt failed.
    pub error: String,
    /// When the event arrived, in microseconds since 1970.
    pub received_at: i64,
}

from_row!(StuckEvent { event_id, event_type, attempts, error, received_at });

impl ProviderEvent {
    /// Whether the event is about an invoice.
    pub fn is_about_invoice(&self) -> bool {
        self.event_type.starts_with("invoice.")
    }
}

from_row!(ProviderEvent { event_id, event_type, body, sealed_body, attempts, received_at });

impl Store {
    /// Stores an event. False: the event was stored before.
    pub async fn keep_provider_event(&self, event: &ProviderEvent) -> Result<bool> {
        let sql = "INSERT INTO provider_events (event_id, event_type, body, sealed_body, status, attempts, due_at, error, received_at) \
             VALUES ($1, $2, $3, $4, 'pending', 0, $5, '', $5) ON CONFLICT (event_id) DO NOTHING";
        let of =
            values![&event.event_id, &event.event_type, &event.body, event.sealed_body.as_deref(), event.received_at];
        Ok(self.db.execute(sql, of).await? == 1)
    }

    /// Returns the events that are due, at most `limit`. The event that has been due longest is first. `again`: events
    /// that failed before, or else new events.
    pub async fn due_provider_events(
        &self,
        now: i64,
        about_invoices: bool,
        again: bool,
        limit: i64,
    ) -> Result<Vec<ProviderEvent>> {
        let sql = "SELECT event_id, event_type, body, sealed_body, attempts, received_at FROM provider_events \
             WHERE status = 'pending' AND (attempts > 0) = $2 AND due_at <= $1 AND (event_type LIKE 'invoice.%') = $4 \
             ORDER BY due_at, received_at, event_id LIMIT $3";
        self.db.fetch_all(sql, values![now, again, limit, about_invoices]).await
    }

    /// Whether an event about an invoice, or about anything else, is due.
    pub async fn has_due_provider_events(&self, now: i64, about_invoices: bool) -> Result<bool> {
        let sql = "SELECT 1 FROM provider_events WHERE status = 'pending' AND due_at <= $1 \
             AND (event_type LIKE 'invoice.%') = $2 LIMIT 1";
        Ok(self.db.fetch_optional::<(i32,)>(sql, values![now, about_invoices]).await?.is_some())
    }

    /// Records that an event cannot be processed. Only an operator can retry or drop it.
    pub async fn set_provider_event_stuck(&self, event_id: &str, error: &str) -> Result<()> {
        let sql = "UPDATE provider_events SET status = 'stuck', attempts = attempts + 1, error = $2 \
             WHERE event_id = $1 AND status = 'pending'";
        self.db.execute(sql, values![event_id, error]).await.map(drop)
    }

    /// Returns the events that are stuck, the oldest first, at most `limit`, each with its last error.
    pub async fn stuck_provider_events(&self, limit: i64) -> Result<Vec<StuckEvent>> {
        let sql = "SELECT event_id, event_type, attempts, error, received_at FROM provider_events \
             WHERE status = 'stuck' ORDER BY received_at, event_id LIMIT $1";
        self.db.fetch_all(sql, values![limit]).await
    }

    /// Makes a stuck event due again. False: no stuck event has this id.
    pub async fn retry_provider_event(&self, event_id: &str, now: i64) -> Result<bool> {
        let sql = "UPDATE provider_events SET status = 'pending', attempts = 0, due_at = $2 \
             WHERE event_id = $1 AND status = 'stuck'";
        Ok(self.db.execute(sql, values![event_id, now]).await? == 1)
    }

    /// Ends a stuck event without processing it. False: no stuck event has this id.
    pub async fn drop_provider_event(&self, event_id: &str) -> Result<bool> {
        let sql = "UPDATE provider_events SET status = 'dropped' WHERE event_id = $1 AND status = 'stuck'";
        Ok(self.db.execute(sql, values![event_id]).await? == 1)
    }

    /// Records that an event could not be processed, and when it is due again.
    pub async fn put_provider_event_off(&self, event_id: &str, due_at: i64, error: &str) -> Result<()> {
        let sql = "UPDATE provider_events SET attempts = attempts + 1, due_at = $2, error = $3 WHERE event_id = $1 AND status = 'pending'";
        self.db.execute(sql, values![event_id, due_at, error]).await.map(drop)
    }

    /// Returns the number of events that are not processed yet.
    pub async fn pending_provider_events(&self) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM provider_events WHERE status = 'pending'";
        self.db.fetch_one::<(i64,)>(sql, values![]).await.map(|(pending,)| pending)
    }

    /// Deletes processed events that arrived before this time.
    pub async fn forget_provider_events(&self, before: i64) -> Result<u64> {
        let sql = "DELETE FROM provider_events WHERE event_id IN (SELECT event_id FROM provider_events \
             WHERE received_at < $1 AND status IN ('done', 'dropped') LIMIT $2)";
        self.db.delete_in_portions(sql, before).await
    }
}

impl Tx {
    /// Records that an event was processed, in the same transaction as the event's effects. False: the event was
    /// processed before.
    pub async fn finish_provider_event(&mut self, event_id: &str) -> Result<bool> {
        let sql = "UPDATE provider_events SET status = 'done', error = '' WHERE event_id = $1 AND status = 'pending'";
        Ok(self.execute(sql, values![event_id]).await? == 1)
    }
}
