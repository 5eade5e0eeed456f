//! Requests counted by day and month (readings L1, L7, L10).
//!
//! Counting happens in memory. A node reserves units in the database before it uses them ([`store::Reservation`]): the
//! units of the request, and up to a second of the plan's burst for later requests. So all nodes together exceed no
//! limit, and a request waits for the database only when its node has no reserved unit left. Two things are written a
//! moment later, for all subjects in one transaction: the use of plans without a limit, and reserved units that are
//! given back. While the database does not answer, each node counts alone.
//!
//! Units that a node has reserved count as used on the other nodes. A node gives them back when the account is idle. If
//! a node dies, its reserved units count as used until the day ends.
//!
//! Callers without a key are counted by their network. The API nodes of a fleet share such a network's limit of a day
//! ([`network`]); other nodes count networks alone.

mod count;
mod network;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::{Settlement, Store};
use tokio::sync::OwnedMutexGuard;

use super::period::Period;
use crate::caller::PlanLimits;
use crate::clock::Timestamp;
use count::Count;

pub use network::Networks;

/// The owner of a counter: an account's id, or `addr_` with a keyed digest of a network.
pub(crate) type Subject = Arc<str>;

/// Largest number of subjects in memory. Requests of further subjects pass uncounted.
const SUBJECTS_MAX: usize = 100_000;
/// How long a request waits for the database. A database that is only busy answers within this time.
const PATIENCE: Duration = Duration::from_secs(3);
/// After this time without requests, a subject's reserved units are given back.
const IDLE: Duration = Duration::from_secs(1);
/// After this time without requests, a subject is removed from memory.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// After this time without requests, a network of callers without keys is removed from memory.
const NETWORK_FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// Number of past months whose counts the database keeps.
const MONTHS_KEPT: i64 = 1;

/// Units used by all nodes, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedQuota {
    /// Units of today.
    pub day: u64,
    /// Units used this month.
    pub month: u64,
}

/// A limit that a request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The daily limit.
    Day,
    /// The monthly limit.
    Month,
}

impl LimitReached {
    /// The limit's name: `daily` or `monthly`.
    pub fn name(self) -> &'static str {
        match self {
            LimitReached::Day => "daily",
            LimitReached::Month => "monthly",
        }
    }

    /// When the limit resets, in seconds since 1970.
    pub fn reset_s(self, now: Timestamp) -> u64 {
        match self {
            LimitReached::Day => Period::of(now).day_reset_s(),
            LimitReached::Month => Period::of(now).month_reset_s(),
        }
    }
}

/// The counters of requests on a node.
pub struct Counters {
    store: Store,
    counts: Mutex<HashMap<Subject, Count>>,
    networks: Networks,
}

impl Counters {
    /// Creates empty counters. `networks`: whether nodes share the limits of callers without keys.
    pub fn new(store: Store, networks: Networks) -> Counters {
        Counters { store, counts: Mutex::default(), networks }
    }

    /// Takes units, if the limits permit it. Returns the day and month that the units count for.
    pub async fn take(
        self: &Arc<Self>,
        subject: &Subject,
        limits: PlanLimits,
        units: i64,
        now: Timestamp,
    ) -> Result<Period, LimitReached> {
        let taken = self.at_request(subject, limits, now, |count| match count.take(units) {
            true => Some(Ok(count.period)),
            false => count.is_exhausted(units, now).then(|| Err(count.reached(units))),
        });
        if let Some(taken) = taken.unwrap_or(Some(Ok(Period::of(now)))) {
            return taken;
        }
        match tokio::time::timeout(PATIENCE, self.ask(subject, units, now)).await {
            Ok(Some(taken)) => taken,
            // fail open: this node counts alone, with the same limits (readings L10)
            Ok(None) | Err(_) => match self.counts.lock().get_mut(subject) {
                Some(count) => count.take_alone(units).map(|()| count.period),
                None => Ok(Period::of(now)),
            },
        }
    }

    /// Runs `act` on the count of a subject that makes a request. `None`: the memory for subjects is full.
    fn at_request<T>(
        &self,
        subject: &Subject,
        limits: PlanLimits,
        now: Timestamp,
        act: impl FnOnce(&mut Count) -> T,
    ) -> Option<T> {
        let mut counts = self.counts.lock();
        if counts.len() >= SUBJECTS_MAX && !counts.contains_key(subject) {
            tracing::warn!("the memory for request counts is full, so requests of a new caller are not counted");
            return None;
        }
        let count = counts.entry(subject.clone()).or_insert_with(|| Count::new(now));
        count.touch(limits, now);
        Some(act(count))
    }

    /// Reserves units in the database until `units` can be taken or the limit is reached. `None`: the database does not
    /// answer.
    async fn ask(
        self: &Arc<Self>,
        subject: &Subject,
        units: i64,
        now: Timestamp,
    ) -> Option<Result<Period, LimitReached>> {
        loop {
            let settling = self.counts.lock().get(subject)?.settling.clone();
            // the settlement of another request may have reserved enough units, or shown that too few units are left
            let turn = settling.lock_owned().await;
            let settlement = {
                let mut counts = self.counts.lock();
                let count = counts.get_mut(subject)?;
                count.roll(now);
                if count.take(units) {
                    return Some(Ok(count.period));
                }
                if count.is_exhausted(units, now) {
                    return Some(Err(count.reached(units)));
                }
                count.reservation(subject, units)
            };
            // a separate task: the node must learn the units that it reserved even if the client leaves
            let settled = tokio::spawn(self.clone().settle(vec![settlement], vec![turn], now));
            if !settled.await.unwrap_or(false) {
                return None;
            }
        }
    }

    /// Sends settlements to the database and applies its answers to the counts. A subject has one settlement at a time.
    /// Returns whether the database answered.
    async fn settle(
        self: Arc<Self>,
        settlements: Vec<Settlement>,
        _turns: Vec<OwnedMutexGuard<()>>,
        now: Timestamp,
    ) -> bool {
        let answers = self.store.settle_requests(&settlements).await;
        let answers = answers.inspect_err(
            |error| tracing::error!(cause = %error, "requests are counted on this node only: the database failed"),
        );
        let Ok(answers) = answers else { return false };
        let mut counts = self.counts.lock();
        for (told, settled) in settlements.iter().zip(answers) {
            if let Some(count) = counts.get_mut(told.subject.as_str()) {
                count.settled(told, settled, now);
            }
        }
        true
    }

    /// Gives back the units of a refused request.
    pub fn give_back(&self, subject: &Subject, units: i64, taken: Period, now: Timestamp) {
        if let Some(count) = self.counts.lock().get_mut(subject) {
            count.roll(now);
            count.give_back(units, taken);
        }
    }

    /// Returns the units that a subject has used today and this month.
    pub fn used(&self, subject: &Subject, now: Timestamp) -> UsedQuota {
        let mut counts = self.counts.lock();
        let Some(count) = counts.get_mut(subject) else { return UsedQuota::default() };
        count.roll(now);
        let [day, month] = count.used().map(|used| used.max(0) as u64);
        UsedQuota { day, month }
    }

    /// Writes the used units that the database does not count yet, and gives back the reserved units of idle subjects.
    pub async fn flush(self: &Arc<Self>, now: Timestamp) {
        self.tell(now, |count| now.since(count.touched) >= IDLE).await;
    }

    /// Writes all used units that the database does not count yet, and gives back all reserved units.
    pub async fn close(self: &Arc<Self>, now: Timestamp) {
        self.tell(now, |_| true).await;
    }

    async fn tell(self: &Arc<Self>, now: Timestamp, idle: impl Fn(&Count) -> bool) {
        let mut settlements = Vec::new();
        let mut turns = Vec::new();
        for (subject, count) in self.counts.lock().iter_mut() {
            count.roll(now);
            let idle = idle(count);
            if let Some(news) = count.news(subject, idle)
                // if another settlement of this subject is running, the next flush writes this use
                && let Ok(turn) = count.settling.clone().try_lock_owned()
            {
                settlements.push(news);
                turns.push(turn);
            }
        }
        if !settlements.is_empty() {
            self.clone().settle(settlements, turns, now).await;
        }
    }

    /// Removes subjects without recent requests from memory.
    pub async fn sweep(&self, now: Timestamp) {
        {
            let mut counts = self.counts.lock();
            // if many networks fill the memory, forget networks sooner, so that accounts are still counted
            let network_forgotten = if counts.len() > SUBJECTS_MAX / 2 { FORGOTTEN } else { NETWORK_FORGOTTEN };
            counts.retain(|_, count| match count.local {
                true => now.since(count.touched) < network_forgotten,
                false => !count.is_settled() || now.since(count.touched) < FORGOTTEN,
            });
        }
        if let Err(error) = self.store.forget_request_counts(Period::of(now).month - MONTHS_KEPT).await {
            tracing::error!(cause = %error, "old request counts were not removed");
        }
    }
}
