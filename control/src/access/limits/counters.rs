//! Requests counted by day and month (readings L1, L7, L10).
//!
//! Counting happens in memory. A node reserves units in the database before it uses them ([`store::Reservation`]): for the
//! request that asks, and up to a second of the plan's burst for later ones. So nodes together pass no limit, and a request
//! waits for the database only when its node has no unit left for it. What plans without a limit use, and what was reserved
//! in vain, the database hears a moment later, for all subjects in one transaction. While it does not answer, a node counts
//! for itself.
//!
//! What a node has reserved counts as used on the other nodes. When an account is idle it is given back; a node that dies
//! leaves it counted until the day ends.

mod count;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::{Settlement, Store};
use tokio::sync::OwnedMutexGuard;

use super::Subject;
use super::period::Period;
use crate::caller::PlanLimits;
use crate::clock::Timestamp;
use count::Count;

/// Subjects remembered at once; beyond it new ones pass uncounted.
const SUBJECTS_MAX: usize = 100_000;
/// Longest time that a request waits for the database; one that is only busy answers within it.
const PATIENCE: Duration = Duration::from_secs(3);
/// A subject without requests for so long keeps no reserve.
const IDLE: Duration = Duration::from_secs(1);
/// A subject without requests for so long is forgotten here.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A network without a key and without requests for so long is forgotten.
const NETWORK_FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// Months that the database remembers.
const MONTHS_KEPT: i64 = 1;

/// What is used of a quota, by all nodes as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedQuota {
    /// Today.
    pub day: u64,
    /// This month.
    pub month: u64,
}

/// A limit that a request would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The day's.
    Day,
    /// The month's.
    Month,
}

impl LimitReached {
    /// `daily` or `monthly`.
    pub fn name(self) -> &'static str {
        match self {
            LimitReached::Day => "daily",
            LimitReached::Month => "monthly",
        }
    }

    /// When it begins anew, in seconds since 1970.
    pub fn reset_s(self, now: Timestamp) -> u64 {
        match self {
            LimitReached::Day => Period::of(now).day_reset_s(),
            LimitReached::Month => Period::of(now).month_reset_s(),
        }
    }
}

/// The counters of a node.
pub struct Counters {
    store: Store,
    counts: Mutex<HashMap<Subject, Count>>,
}

impl Counters {
    /// Nothing known yet.
    pub fn new(store: Store) -> Counters {
        Counters { store, counts: Mutex::default() }
    }

    /// Counts units if the limits leave room for them; the day and month that they count for.
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
            // fail open, at the same rate (readings L10)
            Ok(None) | Err(_) => match self.counts.lock().get_mut(subject) {
                Some(count) => count.take_alone(units).map(|()| count.period),
                None => Ok(Period::of(now)),
            },
        }
    }

    /// Counts units of a caller without a key, on this node only: such a request must not cost a write. So the limit is one for
    /// each node, and a restart forgets the count.
    pub fn take_here(
        &self,
        subject: &Subject,
        limits: PlanLimits,
        units: i64,
        now: Timestamp,
    ) -> Result<Period, LimitReached> {
        let taken = self.at_request(subject, limits, now, |count| {
            count.local = true;
            count.take_alone(units).map(|()| count.period)
        });
        taken.unwrap_or(Ok(Period::of(now)))
    }

    /// Does this with the count of a subject that makes a request; `None`: there are too many subjects to count one more.
    fn at_request<T>(
        &self,
        subject: &Subject,
        limits: PlanLimits,
        now: Timestamp,
        act: impl FnOnce(&mut Count) -> T,
    ) -> Option<T> {
        let mut counts = self.counts.lock();
        if counts.len() >= SUBJECTS_MAX && !counts.contains_key(subject) {
            tracing::warn!("more callers than can be counted");
            return None;
        }
        let count = counts.entry(subject.clone()).or_insert_with(|| Count::new(now));
        count.touch(limits, now);
        Some(act(count))
    }

    /// Reserves units until these can be taken or there are too few; `None`: the database does not answer.
    async fn ask(
        self: &Arc<Self>,
        subject: &Subject,
        units: i64,
        now: Timestamp,
    ) -> Option<Result<Period, LimitReached>> {
        loop {
            let settling = self.counts.lock().get(subject)?.settling.clone();
            // the settlement before may have reserved enough, or said that too little is left
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
            // a task: the node must learn what is reserved for it even if the client leaves
            let settled = tokio::spawn(self.clone().settle(vec![settlement], vec![turn], now));
            if !settled.await.unwrap_or(false) {
                return None;
            }
        }
    }

    /// Settles with the database, one settlement of a subject at a time; whether it answered.
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

    /// Units of a request that was refused were not used.
    pub fn give_back(&self, subject: &Subject, units: i64, taken: Period, now: Timestamp) {
        if let Some(count) = self.counts.lock().get_mut(subject) {
            count.roll(now);
            count.give_back(units, taken);
        }
    }

    /// What a subject has used.
    pub fn used(&self, subject: &Subject, now: Timestamp) -> UsedQuota {
        let mut counts = self.counts.lock();
        let Some(count) = counts.get_mut(subject) else { return UsedQuota::default() };
        count.roll(now);
        let [day, month] = count.used().map(|used| used.max(0) as u64);
        UsedQuota { day, month }
    }

    /// Tells the database what it does not know, and gives back what idle subjects have reserved.
    pub async fn flush(self: &Arc<Self>, now: Timestamp) {
        self.tell(now, |count| now.since(count.touched) >= IDLE).await;
    }

    /// Tells everything and gives back all that is reserved.
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
                // another settlement is under way: later
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

    /// Forgets subjects that have made no request for long.
    pub async fn sweep(&self, now: Timestamp) {
        {
            let mut counts = self.counts.lock();
            // a crowd of networks must not keep accounts from being counted
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
