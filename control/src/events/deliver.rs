//! Deliveries of events: taken from the outbox when they are due, sent, and recorded (readings H7, H8, H10-H13).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::AccountId;
use store::{Attempt, Busy, DeliveryStatus, DueDelivery};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use super::Events;
use super::places::{Place, Places};
use super::send::{Letter, Outcome, Sent};

/// How often the outbox is read for due deliveries: retries, and events of other nodes.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// Length of a delivery's lease. After this time another node may take the delivery. The lease is longer than an
/// attempt takes.
const LEASE: Duration = Duration::from_secs(60);
/// Waits before retries, from the end of an attempt (specification, Events; readings H7).
const WAITS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(300)];
/// Jitter: a wait is up to a tenth longer, so that deliveries that failed together are not retried together.
const JITTER_SHARE: u64 = 10;
/// How long deliveries and their events are kept (readings H11).
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a stopping node waits for attempts that it has begun.
const LAST_WAIT: Duration = Duration::from_secs(11);

/// Delivers events until the node stops.
pub async fn keep(events: Arc<Events>, mut stopped: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(LOOK_PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut running = Running::default();
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = events.store.events_were_emitted() => {}
            Some(ended) = running.tasks.join_next_with_id() => running.note(ended),
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
        running.note_all();
        running.record(&events).await;
        running.fill(&events).await;
    }
    // wait for the running attempts and record them, so that no other node sends their events again
    let _ = tokio::time::timeout(LAST_WAIT, async {
        while let Some(ended) = running.tasks.join_next_with_id().await {
            running.note(ended);
        }
    })
    .await;
    running.record(&events).await;
}

/// Removes events and deliveries that are older than `KEPT`.
pub async fn forget_old(events: &Events) {
    let before = events.clock.now().0 - KEPT.as_micros() as i64;
    if let Err(error) = events.store.forget_events(before).await {
        tracing::warn!(%error, "old events could not be removed");
    }
}

/// The deliveries that run now.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Attempt>,
    /// The place of each running task.
    of_task: HashMap<Id, Place>,
    places: Places,
    /// Finished attempts that are not recorded yet.
    ended: Vec<Attempt>,
}

impl Running {
    fn note(&mut self, ended: Result<(Id, Attempt), JoinError>) {
        let task = ended.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let answered = ended.as_ref().ok().map(|(_, attempt)| attempt.status_code > 0);
        if let Some(place) = self.of_task.remove(&task) {
            self.places.leave(place, answered);
        }
        match ended {
            Ok((_, attempt)) => self.ended.push(attempt),
            Err(error) => {
                tracing::error!(%error, "a delivery's task failed; another attempt follows when the delivery's lease ends")
            }
        }
    }

    fn note_all(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.note(ended);
        }
    }

    async fn record(&mut self, events: &Events) {
        if self.ended.is_empty() {
            return;
        }
        match events.store.record_attempts(&self.ended).await {
            Ok(()) => self.ended.clear(),
            Err(error) => {
                tracing::warn!(
                    %error,
                    attempts = self.ended.len(),
                    "attempts to deliver events could not be recorded and will be recorded later"
                )
            }
        }
    }

    /// Begins due deliveries until no delivery is due or enough are running.
    async fn fill(&mut self, events: &Arc<Events>) {
        // Begin no delivery while finished attempts cannot be recorded. If new attempts could not be recorded either,
        // their leases would end and their events would be sent again.
        while self.ended.is_empty() && self.places.free() > 0 {
            // when places are scarce, an account without an attempt comes before the others
            let begun = match self.places.is_crowded() {
                false => self.take(events, false).await,
                true => match self.take(events, true).await {
                    Ok(0) => self.take(events, false).await,
                    begun => begun,
                },
            };
            match begun {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => return tracing::warn!(%error, "the deliveries that are due could not be read"),
            }
        }
    }

    /// Takes due deliveries and begins them. `new`: only deliveries of accounts that have no attempt yet. Returns how
    /// many deliveries it began.
    async fn take(&mut self, events: &Arc<Events>, new: bool) -> Result<usize, store::Error> {
        let now = events.clock.now();
        if !events.store.has_due_deliveries(now.0).await? {
            return Ok(0);
        }
        let busy = Busy { accounts: &self.places.busy_accounts(new), webhooks: &self.places.busy_webhooks() };
        let room = self.places.free() as i64;
        let taken = events.store.take_deliveries(&busy, now.0, now.plus(LEASE).0, room).await?;
        let (mut begun, mut too_many) = (0, Vec::new());
        for due in taken {
            let Some(place) = self.places.take(&due.account_id, &due.webhook_id) else {
                too_many.push(due);
                continue;
            };
            begun += 1;
            let events = events.clone();
            let task = self.tasks.spawn(async move { attempt(&events, &due).await });
            self.of_task.insert(task.id(), place);
        }
        if !too_many.is_empty() {
            events.store.give_deliveries_back(&too_many).await?;
        }
        Ok(begun)
    }
}

/// Makes one attempt at a delivery.
pub async fn attempt(events: &Events, due: &DueDelivery) -> Attempt {
    let account: Option<AccountId> = due.account_id.parse().ok();
    let secret = account.and_then(|account| events.seals.of(&account).open(&due.webhook_id, &due.sealed_secret));
    let sent = match secret.as_ref().and_then(|secret| std::str::from_utf8(secret).ok()) {
        Some(secret) => {
            let letter = Letter {
                url: &due.url,
                secret,
                event_type: &due.event_type,
                delivery_id: &due.event_id,
                body: &due.body,
            };
            events.sender.send(&letter, events.clock.now()).await
        }
        None => Sent {
            outcome: Outcome::Refused,
            status: None,
            took: Duration::ZERO,
            error: "the webhook's secret was sealed under another server secret".to_owned(),
        },
    };
    events.telemetry.webhook_attempted(match sent.outcome {
        Outcome::Taken => "taken",
        Outcome::Refused => "refused",
        Outcome::Broken => "broken",
    });
    let now = events.clock.now();
    let (status, due_at) = match (sent.outcome, WAITS.get(due.attempts as usize)) {
        (Outcome::Taken, _) => (DeliveryStatus::Succeeded, 0),
        (Outcome::Broken, Some(wait)) => (DeliveryStatus::Pending, now.plus(longer(*wait)).0),
        _ => (DeliveryStatus::Failed, 0),
    };
    Attempt {
        webhook_id: due.webhook_id.clone(),
        event_id: due.event_id.clone(),
        attempts_before: due.attempts,
        status,
        due_at,
        status_code: sent.status.map_or(0, i64::from),
        response_ms: if sent.status.is_some() { sent.took.as_millis() as i64 } else { 0 },
        error: sent.error,
        delivered_at: now.0,
    }
}

/// Adds jitter to a wait: up to a tenth of the wait.
fn longer(wait: Duration) -> Duration {
    let part = u64::from(u16::from_be_bytes(crate::ids::random())) * (wait.as_micros() as u64 / JITTER_SHARE)
        / u64::from(u16::MAX);
    wait + Duration::from_micros(part)
}
