//! Requests counted by day and month (readings L1, L7, L10).
//!
//! Counting happens in memory. What may pass is leased from the database in advance ([`store::request_counts`]) and what
//! passed is told to it a moment later, for all subjects in one transaction, so that a request waits for the database
//! only when its subject is new or near its limit. While the database does not answer, a node counts for itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Settled, Settlement, Store, Wish};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::Subject;
use super::period::Period;
use super::plan::{PlanLimits, UNLIMITED};
use crate::clock::Timestamp;

/// Subjects remembered at once; beyond it new ones are let pass uncounted.
const SUBJECTS_MAX: usize = 100_000;
/// Longest time that a request waits for the database.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an answer of the database that nothing is left is believed.
const BELIEVED: Duration = Duration::from_millis(100);
/// A subject that asked for nothing so long returns what is leased to it.
const IDLE: Duration = Duration::from_secs(1);
/// A subject that asked for nothing so long is forgotten here.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// After so long the database takes a lease back by itself.
const LEASE_TTL: Duration = Duration::from_secs(10);
/// Months that the database remembers.
const MONTHS_KEPT: i64 = 1;

/// Units used, by all nodes as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Today.
    pub day: u64,
    /// This month.
    pub month: u64,
}

/// A limit that a request would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The day's.
    Day,
    /// The month's.
    Month,
}

impl Reached {
    /// `daily` or `monthly`.
    pub fn name(self) -> &'static str {
        match self {
            Reached::Day => "daily",
            Reached::Month => "monthly",
        }
    }

    /// When it begins anew, in seconds since 1970.
    pub fn reset_s(self, now: Timestamp) -> u64 {
        match self {
            Reached::Day => Period::of(now).day_reset_s(),
            Reached::Month => Period::of(now).month_reset_s(),
        }
    }
}

/// The counters of a node.
pub struct Counters {
    store: Store,
    subjects: Mutex<HashMap<Subject, Entry>>,
}

/// What a node knows of a subject.
struct Entry {
    period: Period,
    /// Used by all nodes, ours included, told or not.
    used: [i64; 2],
    /// Used here and not told yet: day, month.
    spent: [i64; 2],
    /// Being told.
    telling: [i64; 2],
    /// May still pass without asking.
    lease: i64,
    /// What the database has set aside for us.
    leased: i64,
    limits: [i64; 2],
    /// Units to have in advance: a second of a key's burst.
    spare: i64,
    /// Units of requests that wait for an answer.
    waiting: i64,
    /// Held by whoever talks to the database about this subject.
    turn: Arc<AsyncMutex<()>>,
    /// Questions begun so far.
    asked: u64,
    /// Units that nobody held at the last answer, and when that came.
    free: Option<(i64, Timestamp)>,
    touched: Timestamp,
}

impl Entry {
    fn new(now: Timestamp) -> Entry {
        Entry {
            period: Period::of(now),
            used: [0; 2],
            spent: [0; 2],
            telling: [0; 2],
            lease: 0,
            leased: 0,
            limits: [0; 2],
            spare: 0,
            waiting: 0,
            turn: Arc::default(),
            asked: 0,
            free: None,
            touched: now,
        }
    }

    /// Begins a new day or month.
    fn roll(&mut self, now: Timestamp) {
        let period = Period::of(now);
        if period.day <= self.period.day {
            return;
        }
        // nobody asks about yesterday any more, and its leases are void
        (self.used[0], self.spent[0], self.lease, self.leased, self.free) = (0, 0, 0, 0, None);
        if period.month > self.period.month {
            (self.used[1], self.spent[1]) = (0, 0);
        }
        self.period = period;
    }

    fn is_unlimited(&self) -> bool {
        self.limits.iter().all(|&limit| limit >= UNLIMITED as i64)
    }

    fn spend(&mut self, units: i64) {
        for counts in [&mut self.used, &mut self.spent] {
            counts[0] += units;
            counts[1] += units;
        }
    }

    /// Without asking.
    fn take(&mut self, units: i64) -> bool {
        let unlimited = self.is_unlimited();
        if !unlimited && self.lease < units {
            return false;
        }
        if !unlimited {
            self.lease -= units;
        }
        self.spend(units);
        true
    }

    /// As if this node were alone: the database does not answer.
    fn take_alone(&mut self, units: i64) -> Result<(), Reached> {
        match (0..2).any(|at| self.used[at] + units > self.limits[at]) {
            true => Err(self.reached(units)),
            false => {
                self.lease = (self.lease - units).max(0);
                self.spend(units);
                Ok(())
            }
        }
    }

    fn reached(&self, units: i64) -> Reached {
        if self.used[1] + units > self.limits[1] { Reached::Month } else { Reached::Day }
    }

    /// What there is to tell and to ask; from now on it is being told.
    fn settlement(&mut self, subject: &Subject, wish: Option<Wish>, idle: bool) -> Settlement {
        if idle {
            self.lease = 0;
        }
        let [day_spent, month_spent] = std::mem::take(&mut self.spent);
        self.telling = [day_spent, month_spent];
        self.asked += 1;
        Settlement {
            subject: subject.to_string(),
            day: self.period.day,
            month: self.period.month,
            day_spent,
            month_spent,
            lease_back: self.leased - self.lease,
            wish,
        }
    }

    fn wish(&self, need: i64) -> Wish {
        let [day_limit, month_limit] = self.limits;
        Wish { need, waiting: self.waiting.max(need), spare: self.spare, day_limit, month_limit }
    }

    /// The database has answered.
    fn settled(&mut self, told: &Settlement, settled: Settled, now: Timestamp) {
        let day_over = told.day != self.period.day;
        if told.month == self.period.month {
            self.used[1] = settled.month_used + self.spent[1];
        }
        self.telling = [0; 2];
        if day_over {
            return;
        }
        self.used[0] = settled.day_used + self.spent[0];
        self.leased += settled.granted - told.lease_back;
        self.lease += settled.granted;
        self.free = told.wish.map(|_| (settled.free, now));
    }

    /// The database has not answered.
    fn failed(&mut self, told: &Settlement) {
        self.telling = [0; 2];
        if told.day == self.period.day {
            self.spent[0] += told.day_spent;
        }
        if told.month == self.period.month {
            self.spent[1] += told.month_spent;
        }
    }
}

/// Takes a request's units from those that wait, however it ends.
struct Waiting<'a> {
    counters: &'a Counters,
    subject: &'a Subject,
    units: i64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.counters.subjects().get_mut(self.subject) {
            entry.waiting -= self.units;
        }
    }
}

impl Counters {
    /// Nothing known yet.
    pub fn new(store: Store) -> Counters {
        Counters { store, subjects: Mutex::default() }
    }

    fn subjects(&self) -> MutexGuard<'_, HashMap<Subject, Entry>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts units if the limits leave room for them; when they were counted.
    pub async fn take(
        self: &Arc<Self>,
        subject: &Subject,
        limits: PlanLimits,
        units: i64,
        now: Timestamp,
    ) -> Result<Period, Reached> {
        let (turn, asked) = {
            let mut subjects = self.subjects();
            if subjects.len() >= SUBJECTS_MAX && !subjects.contains_key(subject) {
                tracing::warn!("more callers than can be counted");
                return Ok(Period::of(now));
            }
            let entry = subjects.entry(subject.clone()).or_insert_with(|| Entry::new(now));
            entry.roll(now);
            entry.limits = [limits.requests_a_day, limits.requests_a_month].map(|limit| limit.min(UNLIMITED) as i64);
            entry.spare = limits.burst_a_second.into();
            entry.touched = now;
            if entry.take(units) {
                return Ok(entry.period);
            }
            if entry.free.is_some_and(|(free, at)| free < units && now.since(at) < BELIEVED && now >= at) {
                return Err(entry.reached(units));
            }
            entry.waiting += units;
            (entry.turn.clone(), entry.asked)
        };
        let waiting = Waiting { counters: self, subject, units };
        let taken = tokio::time::timeout(PATIENCE, self.ask(turn, asked, subject, units, now)).await;
        drop(waiting);
        match taken {
            Ok(Some(taken)) => taken,
            // fail open, at the same rate (readings L10)
            Ok(None) | Err(_) => match self.subjects().get_mut(subject) {
                Some(entry) => entry.take_alone(units).map(|()| entry.period),
                None => Ok(Period::of(now)),
            },
        }
    }

    /// Asks the database until the units are ours or there are none; `None`: it does not answer.
    async fn ask(
        self: &Arc<Self>,
        turn: Arc<AsyncMutex<()>>,
        asked: u64,
        subject: &Subject,
        units: i64,
        now: Timestamp,
    ) -> Option<Result<Period, Reached>> {
        loop {
            let guard = turn.clone().lock_owned().await;
            let settlement = {
                let mut subjects = self.subjects();
                let entry = subjects.get_mut(subject)?;
                entry.roll(now);
                if entry.take(units) {
                    return Some(Ok(entry.period));
                }
                // an answer to a question that was asked after this request came
                if entry.asked > asked && entry.free.is_some_and(|(free, _)| free < units) {
                    return Some(Err(entry.reached(units)));
                }
                let wish = entry.wish(units);
                entry.settlement(subject, Some(wish), false)
            };
            // a task: the answer must be taken note of even if nobody waits for it any more
            let telling = tokio::spawn(self.clone().tell(vec![(subject.clone(), settlement, guard)], now));
            if !telling.await.unwrap_or(false) {
                return None;
            }
        }
    }

    /// Settles with the database; whether it answered.
    async fn tell(self: Arc<Self>, told: Vec<(Subject, Settlement, OwnedMutexGuard<()>)>, now: Timestamp) -> bool {
        let settlements: Vec<Settlement> = told.iter().map(|(_, settlement, _)| settlement.clone()).collect();
        let answer = self.store.settle_requests(&settlements, now.0, now.plus(LEASE_TTL).0).await;
        let mut subjects = self.subjects();
        match &answer {
            Ok(settled) => {
                for ((subject, settlement, _), settled) in told.iter().zip(settled) {
                    if let Some(entry) = subjects.get_mut(subject) {
                        entry.settled(settlement, *settled, now);
                    }
                }
            }
            Err(error) => {
                tracing::error!(cause = %error, "requests are counted on this node only: the database failed");
                for (subject, settlement, _) in &told {
                    if let Some(entry) = subjects.get_mut(subject) {
                        entry.failed(settlement);
                    }
                }
            }
        }
        answer.is_ok()
    }

    /// Units of a request that was refused were not used.
    pub fn give_back(&self, subject: &Subject, units: i64, taken: Period, now: Timestamp) {
        let mut subjects = self.subjects();
        let Some(entry) = subjects.get_mut(subject) else { return };
        entry.roll(now);
        if taken.day == entry.period.day {
            entry.used[0] -= units;
            entry.spent[0] -= units;
            if !entry.is_unlimited() {
                entry.lease += units;
            }
        }
        if taken.month == entry.period.month {
            entry.used[1] -= units;
            entry.spent[1] -= units;
        }
    }

    /// What a subject has used.
    pub fn used(&self, subject: &Subject, now: Timestamp) -> Used {
        let mut subjects = self.subjects();
        let Some(entry) = subjects.get_mut(subject) else { return Used::default() };
        entry.roll(now);
        let [day, month] = entry.used.map(|used| used.max(0) as u64);
        Used { day, month }
    }

    /// Tells the database what was used since the last time, and has leases ready for who goes on.
    pub async fn flush(self: &Arc<Self>, now: Timestamp) {
        self.flush_where(now, |entry| now.since(entry.touched) >= IDLE).await;
    }

    /// Tells the database everything and returns all leases.
    pub async fn close(self: &Arc<Self>, now: Timestamp) {
        self.flush_where(now, |_| true).await;
    }

    async fn flush_where(self: &Arc<Self>, now: Timestamp, idle: impl Fn(&Entry) -> bool) {
        let mut told = Vec::new();
        for (subject, entry) in self.subjects().iter_mut() {
            entry.roll(now);
            let idle = idle(entry);
            let low = !idle && !entry.is_unlimited() && entry.lease < entry.spare / 2;
            let spare_left = entry.free.is_none_or(|(free, _)| free > 0);
            let wanted = low && spare_left && entry.spent[0] != 0;
            if entry.spent == [0; 2] && !(idle && entry.leased > 0) {
                continue;
            }
            // whoever holds it settles now
            let Ok(turn) = entry.turn.clone().try_lock_owned() else { continue };
            let wish = wanted.then(|| entry.wish(0));
            told.push((subject.clone(), entry.settlement(subject, wish, idle), turn));
        }
        if !told.is_empty() {
            self.clone().tell(told, now).await;
        }
    }

    /// Forgets who asks for nothing any more.
    pub async fn sweep(&self, now: Timestamp) {
        self.subjects().retain(|_, entry| {
            let told = entry.spent == [0; 2] && entry.telling == [0; 2] && entry.leased == 0;
            !told || entry.waiting > 0 || now.since(entry.touched) < FORGOTTEN
        });
        if let Err(error) = self.store.forget_request_counts(Period::of(now).month - MONTHS_KEPT).await {
            tracing::error!(cause = %error, "old request counts stay");
        }
    }
}
