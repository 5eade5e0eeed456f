//! Requests counted by day and month (readings L1, L7, L10).
//!
//! Counting happens in memory. What may pass is leased from the database in advance ([`store::request_counts`]) and what
//! passed is told to it a moment later, for all subjects in one transaction, so that a request waits for the database
//! only when its subject is new or near its limit. While the database does not answer, a node counts for itself.
//!
//! Nodes with a cache store lease and tell there instead, by the same arithmetic, and the database hears every second what
//! was told there. So the database knows every unit once, whichever way it came. What the cache store does not know, or
//! only from before somebody went without it, gets the database's numbers as a floor: of two that each know a part of
//! what was used, the larger is nearer. While some nodes see the cache store and others do not, a limit may be passed by
//! what is used in that second.

mod entry;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::{Settled, Settlement, Store};
use tokio::sync::Mutex as AsyncMutex;

use super::Subject;
use super::period::Period;
use crate::cache_store::{Away, CacheStore, Floor, Unknown};
use crate::caller::{PlanLimits, UNLIMITED};
use crate::clock::Timestamp;
use entry::{Entry, Home, Told, Turn};

/// Subjects remembered at once; beyond it new ones are let pass uncounted.
const SUBJECTS_MAX: usize = 100_000;
/// Longest time that a request waits for leave; a database that is only busy answers within it.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an answer that nothing is left is believed.
const BELIEVED: Duration = Duration::from_millis(100);
/// A subject that asked for nothing so long returns what is leased to it.
const IDLE: Duration = Duration::from_secs(1);
/// A subject that asked for nothing so long is forgotten here.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A network without a key that asked for nothing so long is forgotten.
const NETWORK_FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
/// After so long a lease is void.
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
    cache: Option<CacheStore>,
    subjects: Mutex<HashMap<Subject, Entry>>,
}

/// Takes a request's units from those that wait, however it ends.
struct Waiting<'a> {
    counters: &'a Counters,
    subject: &'a Subject,
    units: i64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.counters.subjects.lock().get_mut(self.subject) {
            entry.waiting -= self.units;
        }
    }
}

impl Counters {
    /// Nothing known yet.
    pub fn new(store: Store, cache: Option<CacheStore>) -> Counters {
        Counters { store, cache, subjects: Mutex::default() }
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
            let mut subjects = self.subjects.lock();
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
            Ok(None) | Err(_) => match self.subjects.lock().get_mut(subject) {
                Some(entry) => entry.take_alone(units).map(|()| entry.period),
                None => Ok(Period::of(now)),
            },
        }
    }

    /// Counts units of a caller without a key, on this node only: a stranger's request must not cost a write (so a limit is
    /// one for each node, and a restart forgets).
    pub fn take_here(
        &self,
        subject: &Subject,
        limits: PlanLimits,
        units: i64,
        now: Timestamp,
    ) -> Result<Period, Reached> {
        let mut subjects = self.subjects.lock();
        if subjects.len() >= SUBJECTS_MAX && !subjects.contains_key(subject) {
            return Ok(Period::of(now));
        }
        let entry = subjects.entry(subject.clone()).or_insert_with(|| Entry::new(now));
        entry.local = true;
        entry.roll(now);
        entry.limits = [limits.requests_a_day, limits.requests_a_month].map(|limit| limit.min(UNLIMITED) as i64);
        entry.touched = now;
        entry.take_alone(units).map(|()| entry.period)
    }

    /// Asks until the units are ours or there are none; `None`: nobody answers.
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
            {
                let mut subjects = self.subjects.lock();
                let entry = subjects.get_mut(subject)?;
                entry.roll(now);
                if entry.take(units) {
                    return Some(Ok(entry.period));
                }
                // an answer to a question that was asked after this request came
                if entry.asked > asked && entry.free.is_some_and(|(free, _)| free < units) {
                    return Some(Err(entry.reached(units)));
                }
            }
            let turn = Turn { subject: subject.clone(), need: Some(units), idle: false, _held: guard };
            // a task: the answer must be taken note of even if nobody waits for it any more
            let telling = tokio::spawn(self.clone().tell(vec![turn], now));
            if !telling.await.unwrap_or(false) {
                return None;
            }
        }
    }

    /// Settles with the cache store, else with the database; whether one of them answered.
    async fn tell(self: Arc<Self>, mut turns: Vec<Turn>, now: Timestamp) -> bool {
        if let Some(cache) = self.cache.as_ref().filter(|cache| cache.is_open()) {
            turns = self.tell_cache_store(cache, turns, now).await;
        }
        if turns.is_empty() {
            return true;
        }
        let told = self.begin(&turns, Home::Database, now);
        let settlements: Vec<Settlement> = told.iter().map(|told| told.settlement.clone()).collect();
        let answer = self.store.settle_requests(&settlements, now.0, now.plus(LEASE_TTL).0).await;
        match &answer {
            Ok(settled) => drop(self.end(turns, told, settled.iter().copied().map(Some), now)),
            Err(error) => {
                tracing::error!(cause = %error, "requests are counted on this node only: the database failed");
                self.give_up(&turns, &told);
            }
        }
        answer.is_ok()
    }

    /// Settles with the cache store; what it did not settle.
    async fn tell_cache_store(&self, cache: &CacheStore, turns: Vec<Turn>, now: Timestamp) -> Vec<Turn> {
        let told = self.begin(&turns, Home::CacheStore, now);
        let none = vec![None; turns.len()];
        let answers = settle(cache, &told, none, now).await.unwrap_or_default();
        let missing = turns.iter().zip(&answers).filter(|(_, answer)| **answer == Err(Unknown::Missing));
        let missing: Vec<Subject> = missing.map(|(turn, _)| turn.subject.clone()).collect();
        let (turns, told) = self.end(turns, told, answers.into_iter().map(Result::ok), now);
        self.give_up(&turns, &told);
        if turns.is_empty() || !cache.is_open() {
            return turns;
        }
        // it does not know what these have used: the database does
        self.lose_leases(&missing);
        let follow = self.follow_of(turns.iter().map(|turn| &turn.subject));
        let Some(floors) = self.tell_owed(follow, now).await.filter(|floors| floors.len() == turns.len()) else {
            return turns;
        };
        let floor = |settled: &Settled| Some(Floor { day_used: settled.day_used, month_used: settled.month_used });
        let told = self.begin(&turns, Home::CacheStore, now);
        let answers = settle(cache, &told, floors.iter().map(floor).collect(), now).await.unwrap_or_default();
        let (turns, told) = self.end(turns, told, answers.into_iter().map(Result::ok), now);
        self.give_up(&turns, &told);
        turns
    }

    fn begin(&self, turns: &[Turn], home: Home, now: Timestamp) -> Vec<Told> {
        let mut subjects = self.subjects.lock();
        let tell = |turn: &Turn| {
            let entry = subjects.entry(turn.subject.clone()).or_insert_with(|| Entry::new(now));
            entry.tell(turn, home)
        };
        turns.iter().map(tell).collect()
    }

    /// The cache store has forgotten what it leased.
    fn lose_leases(&self, missing: &[Subject]) {
        let mut subjects = self.subjects.lock();
        for subject in missing {
            if let Some(entry) = subjects.get_mut(subject) {
                (entry.lease, entry.leased) = (0, 0);
            }
        }
    }

    /// Takes note of answers; what has none.
    fn end(
        &self,
        turns: Vec<Turn>,
        told: Vec<Told>,
        answers: impl IntoIterator<Item = Option<Settled>>,
        now: Timestamp,
    ) -> (Vec<Turn>, Vec<Told>) {
        let mut subjects = self.subjects.lock();
        let answers = answers.into_iter().chain(std::iter::repeat(None));
        let unanswered = turns.into_iter().zip(told).zip(answers).filter_map(|((turn, told), answer)| {
            match (subjects.get_mut(&turn.subject), answer) {
                (Some(entry), Some(settled)) => entry.settled(&told, settled, now),
                _ => return Some((turn, told)),
            }
            None
        });
        unanswered.unzip()
    }

    fn give_up(&self, turns: &[Turn], told: &[Told]) {
        let mut subjects = self.subjects.lock();
        for (turn, told) in turns.iter().zip(told) {
            if let Some(entry) = subjects.get_mut(&turn.subject) {
                entry.failed(told);
            }
        }
    }

    /// Tells the database what only the cache store was told.
    pub async fn follow(&self, now: Timestamp) {
        let owing: Vec<Subject> = {
            let subjects = self.subjects.lock();
            let owing = subjects.iter().filter(|(_, entry)| entry.owed != [0; 2]);
            owing.map(|(subject, _)| subject.clone()).collect()
        };
        if !owing.is_empty() {
            let follow = self.follow_of(owing.iter());
            self.tell_owed(follow, now).await;
        }
    }

    fn follow_of<'a>(&self, of: impl Iterator<Item = &'a Subject>) -> Vec<(Subject, Told)> {
        let mut subjects = self.subjects.lock();
        of.filter_map(|subject| Some((subject.clone(), subjects.get_mut(subject)?.follow(subject)))).collect()
    }

    /// What the database says, if it does.
    async fn tell_owed(&self, follow: Vec<(Subject, Told)>, now: Timestamp) -> Option<Vec<Settled>> {
        let settlements: Vec<Settlement> = follow.iter().map(|(_, told)| told.settlement.clone()).collect();
        let answer = self.store.settle_requests(&settlements, now.0, now.0).await;
        let mut subjects = self.subjects.lock();
        for (subject, told) in &follow {
            match (subjects.get_mut(subject), &answer) {
                (Some(entry), Ok(_)) => entry.telling -= 1,
                (Some(entry), Err(_)) => entry.failed(told),
                (None, _) => {}
            }
        }
        answer.inspect_err(|error| tracing::error!(cause = %error, "the database does not know what was used")).ok()
    }

    /// Units of a request that was refused were not used.
    pub fn give_back(&self, subject: &Subject, units: i64, taken: Period, now: Timestamp) {
        let mut subjects = self.subjects.lock();
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
        let mut subjects = self.subjects.lock();
        let Some(entry) = subjects.get_mut(subject) else { return Used::default() };
        entry.roll(now);
        let [day, month] = entry.used.map(|used| used.max(0) as u64);
        Used { day, month }
    }

    /// Tells what was used since the last time, and has leases ready for who goes on.
    pub async fn flush(self: &Arc<Self>, now: Timestamp) {
        self.flush_where(now, |entry| now.since(entry.touched) >= IDLE).await;
    }

    /// Tells everything, the database too, and returns all leases.
    pub async fn close(self: &Arc<Self>, now: Timestamp) {
        self.flush_where(now, |_| true).await;
        self.follow(now).await;
    }

    async fn flush_where(self: &Arc<Self>, now: Timestamp, idle: impl Fn(&Entry) -> bool) {
        let mut turns = Vec::new();
        for (subject, entry) in self.subjects.lock().iter_mut() {
            entry.roll(now);
            if entry.local {
                continue;
            }
            let idle = idle(entry);
            let low = !idle && !entry.is_unlimited() && entry.lease < entry.spare / 2;
            let spare_left = entry.free.is_none_or(|(free, _)| free > 0);
            let wanted = low && spare_left && entry.spent[0] != 0;
            if entry.spent == [0; 2] && !(idle && entry.leased > 0) {
                continue;
            }
            // whoever holds it settles now
            let Ok(turn) = entry.turn.clone().try_lock_owned() else { continue };
            turns.push(Turn { subject: subject.clone(), need: wanted.then_some(0), idle, _held: turn });
        }
        if !turns.is_empty() {
            self.clone().tell(turns, now).await;
        }
    }

    /// Forgets who asks for nothing any more.
    pub async fn sweep(&self, now: Timestamp) {
        {
            let mut subjects = self.subjects.lock();
            // a crowd of networks must not keep accounts from being counted
            let network_forgotten = if subjects.len() > SUBJECTS_MAX / 2 { FORGOTTEN } else { NETWORK_FORGOTTEN };
            subjects.retain(|_, entry| {
                if entry.local {
                    return now.since(entry.touched) < network_forgotten;
                }
                let told = entry.spent == [0; 2] && entry.owed == [0; 2] && entry.telling == 0 && entry.leased == 0;
                !told || entry.waiting > 0 || now.since(entry.touched) < FORGOTTEN
            });
        }
        if let Err(error) = self.store.forget_request_counts(Period::of(now).month - MONTHS_KEPT).await {
            tracing::error!(cause = %error, "old request counts stay");
        }
    }
}

async fn settle(
    cache: &CacheStore,
    told: &[Told],
    floors: Vec<Option<Floor>>,
    now: Timestamp,
) -> Result<Vec<Result<Settled, Unknown>>, Away> {
    let told: Vec<_> = told.iter().map(|told| told.settlement.clone()).zip(floors).collect();
    cache.settle(&told, now.0, now.plus(LEASE_TTL).0).await
}
