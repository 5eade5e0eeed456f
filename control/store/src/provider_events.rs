//! What the payment provider told: kept before it is answered, then worked through (readings W2-W5).

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// An event of the provider, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderEvent {
    /// The provider's id of it.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// The bytes that were signed.
    pub body: String,
    /// How often it was tried before.
    pub attempts: i64,
    /// When it came, in microseconds since 1970.
    pub received_at: i64,
}

from_row!(ProviderEvent { event_id, event_type, body, attempts, received_at });

impl Store {
    /// Keeps an event. False: it is known.
    pub async fn keep_provider_event(&self, event: &ProviderEvent) -> Result<bool> {
        let sql = "INSERT INTO provider_events (event_id, event_type, body, status, attempts, due_at, error, received_at) \
             VALUES ($1, $2, $3, 'pending', 0, $4, '', $4) ON CONFLICT (event_id) DO NOTHING";
        let of = values![&event.event_id, &event.event_type, &event.body, event.received_at];
        Ok(self.db.execute(sql, of).await? == 1)
    }

    /// Events that are due, in the order in which they came; some at a time.
    pub async fn due_provider_events(&self, now: i64, limit: i64) -> Result<Vec<ProviderEvent>> {
        let sql = "SELECT event_id, event_type, body, attempts, received_at FROM provider_events \
             WHERE status = 'pending' AND due_at <= $1 ORDER BY due_at, received_at, event_id LIMIT $2";
        self.db.fetch_all(sql, values![now, limit]).await
    }

    /// Notes that an event could not be worked through, and when it is due again.
    pub async fn put_provider_event_off(&self, event_id: &str, due_at: i64, error: &str) -> Result<()> {
        let sql = "UPDATE provider_events SET attempts = attempts + 1, due_at = $2, error = $3 WHERE event_id = $1 AND status = 'pending'";
        self.db.execute(sql, values![event_id, due_at, error]).await.map(drop)
    }

    /// How many events are not worked through.
    pub async fn pending_provider_events(&self) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM provider_events WHERE status = 'pending'";
        self.db.fetch_one::<(i64,)>(sql, values![]).await.map(|(pending,)| pending)
    }

    /// Forgets events that were worked through and came before this time.
    pub async fn forget_provider_events(&self, before: i64) -> Result<u64> {
        let sql = "DELETE FROM provider_events WHERE received_at < $1 AND status = 'done'";
        self.db.execute(sql, values![before]).await
    }
}

impl Tx {
    /// Notes that an event was worked through, with what it brought. False: it was before.
    pub async fn finish_provider_event(&mut self, event_id: &str) -> Result<bool> {
        let sql = "UPDATE provider_events SET status = 'done', error = '' WHERE event_id = $1 AND status = 'pending'";
        Ok(self.execute(sql, values![event_id]).await? == 1)
    }
}
