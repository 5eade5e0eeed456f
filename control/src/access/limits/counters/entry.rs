//! What a node knows of one subject, and what becomes of it: no lock, no call, no clock here.

use std::sync::Arc;

use store::{Settled, Settlement, Wish};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::Reached;
use crate::access::limits::Subject;
use crate::access::limits::period::Period;
use crate::caller::UNLIMITED;
use crate::clock::Timestamp;

/// Where is leased and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Database,
    CacheStore,
}

/// Talks about a subject: alone, while it lives.
pub(super) struct Turn {
    pub(super) subject: Subject,
    /// Units to be had at once, if any are wished at all.
    pub(super) need: Option<i64>,
    /// Returns the lease.
    pub(super) idle: bool,
    pub(super) _held: OwnedMutexGuard<()>,
}

/// What is being told of a subject.
pub(super) struct Told {
    pub(super) settlement: Settlement,
    /// Units that nobody knew.
    pub(super) spent: [i64; 2],
    /// Units that only the cache store knew.
    pub(super) owed: [i64; 2],
}

/// What a node knows of a subject.
pub(super) struct Entry {
    pub(super) period: Period,
    /// Used by all nodes, ours included, told or not.
    pub(super) used: [i64; 2],
    /// Used here and not told yet: day, month.
    pub(super) spent: [i64; 2],
    /// Told to the cache store and not to the database yet.
    pub(super) owed: [i64; 2],
    /// Messages under way.
    pub(super) telling: u32,
    pub(super) home: Home,
    /// May still pass without asking.
    pub(super) lease: i64,
    /// What is set aside for us at home.
    pub(super) leased: i64,
    pub(super) limits: [i64; 2],
    /// Units to have in advance: a second of a key's burst.
    pub(super) spare: i64,
    /// Units of requests that wait for an answer.
    pub(super) waiting: i64,
    /// Held by whoever leases and tells.
    pub(super) turn: Arc<AsyncMutex<()>>,
    /// Questions begun so far.
    pub(super) asked: u64,
    /// Units that nobody held at the last answer, and when that came.
    pub(super) free: Option<(i64, Timestamp)>,
    pub(super) touched: Timestamp,
    /// A caller without a key: counted here and told to no one.
    pub(super) local: bool,
}

impl Entry {
    pub(super) fn new(now: Timestamp) -> Entry {
        Entry {
            period: Period::of(now),
            used: [0; 2],
            spent: [0; 2],
            owed: [0; 2],
            telling: 0,
            home: Home::Database,
            lease: 0,
            leased: 0,
            limits: [0; 2],
            spare: 0,
            waiting: 0,
            turn: Arc::default(),
            asked: 0,
            free: None,
            touched: now,
            local: false,
        }
    }

    /// Begins a new day or month.
    pub(super) fn roll(&mut self, now: Timestamp) {
        let period = Period::of(now);
        if period.day <= self.period.day {
            return;
        }
        // nobody asks about yesterday any more, and its leases are void
        (self.used[0], self.spent[0], self.owed[0], self.lease, self.leased, self.free) = (0, 0, 0, 0, 0, None);
        if period.month > self.period.month {
            (self.used[1], self.spent[1], self.owed[1]) = (0, 0, 0);
        }
        self.period = period;
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.limits.iter().all(|&limit| limit >= UNLIMITED as i64)
    }

    fn spend(&mut self, units: i64) {
        for counts in [&mut self.used, &mut self.spent] {
            counts[0] += units;
            counts[1] += units;
        }
    }

    /// Without asking.
    pub(super) fn take(&mut self, units: i64) -> bool {
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

    /// As if this node were alone: nobody answers.
    pub(super) fn take_alone(&mut self, units: i64) -> Result<(), Reached> {
        if (0..2).any(|at| self.used[at] + units > self.limits[at]) {
            Err(self.reached(units))
        } else {
            self.lease = (self.lease - units).max(0);
            self.spend(units);
            Ok(())
        }
    }

    pub(super) fn reached(&self, units: i64) -> Reached {
        if self.used[1] + units > self.limits[1] { Reached::Month } else { Reached::Day }
    }

    /// What there is to tell and to ask there; from now on it is being told.
    pub(super) fn tell(&mut self, turn: &Turn, home: Home) -> Told {
        if home != self.home {
            // what is leased elsewhere cannot be told from what others lease here
            (self.home, self.lease, self.leased, self.free) = (home, 0, 0, None);
        }
        if turn.idle {
            self.lease = 0;
        }
        self.asked += 1;
        let wish = turn.need.map(|need| self.wish(need));
        let lease_back = self.leased - self.lease;
        let spent = std::mem::take(&mut self.spent);
        let owed = match home {
            Home::Database => std::mem::take(&mut self.owed),
            Home::CacheStore => [0; 2],
        };
        self.told(&turn.subject, spent, owed, lease_back, wish)
    }

    /// What the database has not heard yet; from now on it is being told.
    pub(super) fn follow(&mut self, subject: &Subject) -> Told {
        let owed = std::mem::take(&mut self.owed);
        self.told(subject, [0; 2], owed, 0, None)
    }

    fn told(
        &mut self,
        subject: &Subject,
        spent: [i64; 2],
        owed: [i64; 2],
        lease_back: i64,
        wish: Option<Wish>,
    ) -> Told {
        self.telling += 1;
        let settlement = Settlement {
            subject: subject.to_string(),
            day: self.period.day,
            month: self.period.month,
            day_spent: spent[0] + owed[0],
            month_spent: spent[1] + owed[1],
            lease_back,
            wish,
        };
        Told { settlement, spent, owed }
    }

    fn wish(&self, need: i64) -> Wish {
        let [day_limit, month_limit] = self.limits;
        Wish { need, waiting: self.waiting.max(need), spare: self.spare, day_limit, month_limit }
    }

    /// The answer came.
    pub(super) fn settled(&mut self, told: &Told, settled: Settled, now: Timestamp) {
        self.telling -= 1;
        let Told { settlement, spent, .. } = told;
        let of_today = settlement.day == self.period.day;
        let of_month = settlement.month == self.period.month;
        if of_month {
            self.used[1] = settled.month_used + self.spent[1];
        }
        if of_today {
            self.used[0] = settled.day_used + self.spent[0];
            self.leased += settled.granted - settlement.lease_back;
            self.lease += settled.granted;
            self.free = settlement.wish.map(|_| (settled.free, now));
        }
        if self.home == Home::CacheStore {
            self.owe(settlement, *spent);
        }
    }

    /// There was no answer.
    pub(super) fn failed(&mut self, told: &Told) {
        self.telling -= 1;
        let Told { settlement, spent, owed } = told;
        self.owe(settlement, *owed);
        if settlement.day == self.period.day {
            self.spent[0] += spent[0];
        }
        if settlement.month == self.period.month {
            self.spent[1] += spent[1];
        }
    }

    /// The database is to hear of these units.
    fn owe(&mut self, of: &Settlement, units: [i64; 2]) {
        if of.day == self.period.day {
            self.owed[0] += units[0];
        }
        if of.month == self.period.month {
            self.owed[1] += units[1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { limits: [100, 1000], spare: 5, lease: 8, leased: 8, ..Entry::new(Timestamp(0)) }
    }

    async fn turn(entry: &Entry, need: Option<i64>) -> Turn {
        Turn { subject: "acct_1".into(), need, idle: false, _held: entry.turn.clone().lock_owned().await }
    }

    fn settled(used: i64, granted: i64) -> Settled {
        Settled { day_used: used, month_used: used, granted, free: 90 }
    }

    #[tokio::test]
    async fn l10_every_unit_is_told_to_the_database_once_whichever_way_it_goes() {
        let mut entry = Entry { home: Home::CacheStore, ..entry() };
        let turn = turn(&entry, None).await;
        // three that the cache store takes, which the database then hears of
        assert!(entry.take(3));
        let told = entry.tell(&turn, Home::CacheStore);
        assert_eq!((told.settlement.day_spent, told.settlement.lease_back), (3, 3));
        entry.settled(&told, settled(3, 0), Timestamp(0));
        assert_eq!((entry.spent, entry.owed, entry.lease, entry.leased), ([0; 2], [3; 2], 5, 5));
        // two that it does not: the database hears of all five, and what the cache store leased is void
        assert!(entry.take(2));
        let told = entry.tell(&turn, Home::CacheStore);
        entry.failed(&told);
        assert_eq!((entry.spent, entry.owed), ([2; 2], [3; 2]));
        let told = entry.tell(&turn, Home::Database);
        assert_eq!((told.settlement.day_spent, told.settlement.month_spent, told.settlement.lease_back), (5, 5, 0));
        assert!(!entry.take(1));
        // nor does the database: then it is as before, and the cache store still hears of two only
        entry.failed(&told);
        assert_eq!((entry.spent, entry.owed), ([2; 2], [3; 2]));
        assert_eq!(entry.tell(&turn, Home::CacheStore).settlement.day_spent, 2);
        assert_eq!(entry.follow(&turn.subject).settlement.day_spent, 3);
        assert_eq!(entry.owed, [0; 2]);
    }

    #[tokio::test]
    async fn l3_what_fails_to_be_told_by_the_end_of_the_day_counts_for_the_month_only() {
        let mut entry = entry();
        let turn = turn(&entry, Some(1)).await;
        assert!(entry.take(3));
        let told = entry.tell(&turn, Home::Database);
        entry.roll(Timestamp(86_400_000_000));
        entry.failed(&told);
        assert_eq!((entry.spent, entry.used, entry.lease), ([0, 3], [0, 3], 0));
    }
}
