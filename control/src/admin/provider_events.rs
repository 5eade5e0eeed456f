//! The operator's commands for events of the payment provider that cannot be processed.

use anyhow::ensure;
use serde::Serialize;

use super::Operator;
use crate::clock::Timestamp;

/// Largest number of stuck events that a list shows.
const SHOWN_MAX: i64 = 1000;

/// An event that cannot be processed.
#[derive(Debug, Serialize)]
pub struct StuckEventFacts {
    /// The provider's id for the event.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// Number of attempts to process the event.
    pub attempts: i64,
    /// Why the last attempt failed.
    pub error: String,
    /// When the event arrived.
    pub received_at: String,
}

impl Operator {
    /// Returns the events that cannot be processed, the oldest first, at most 1,000.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn stuck_events(&self) -> anyhow::Result<Vec<StuckEventFacts>> {
        let stuck = self.store.stuck_provider_events(SHOWN_MAX).await?;
        let facts = stuck.into_iter().map(|event| StuckEventFacts {
            event_id: event.event_id,
            event_type: event.event_type,
            attempts: event.attempts,
            error: event.error,
            received_at: Timestamp(event.received_at).rfc3339(),
        });
        Ok(facts.collect())
    }

    /// Makes a stuck event due again.
    ///
    /// # Errors
    /// When no stuck event has this id.
    pub async fn retry_event(&self, event_id: &str) -> anyhow::Result<()> {
        let is_stuck = self.store.retry_provider_event(event_id, self.clock.now().0).await?;
        ensure!(is_stuck, "no stuck event has the id {event_id}");
        Ok(())
    }

    /// Ends a stuck event without processing it.
    ///
    /// # Errors
    /// When no stuck event has this id.
    pub async fn drop_event(&self, event_id: &str) -> anyhow::Result<()> {
        let is_stuck = self.store.drop_provider_event(event_id).await?;
        ensure!(is_stuck, "no stuck event has the id {event_id}");
        tracing::info!(target: "security", event_id, "an event of the payment provider was dropped");
        Ok(())
    }
}
