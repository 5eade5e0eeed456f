//! The requests of one subject, as a node knows them. Pure: takes no lock, makes no call, reads no clock.

use std::sync::Arc;
use std::time::Duration;

use store::{Reservation, Settled, Settlement};
use tokio::sync::Mutex as AsyncMutex;

use super::LimitReached;
use crate::access::limits::period::Period;
use crate::caller::{PlanLimits, UNLIMITED};
use crate::clock::Timestamp;

/// How long the node uses the database's last answer about the units that are left.
const BELIEVED: Duration = Duration::from_millis(100);

/// The requests of one subject.
pub(super) struct Count {
    pub(super) period: Period,
    /// The database's counts of the day and the month as last read: units used or reserved by any node.
    pub(super) shared: [i64; 2],
    /// Units that this node used, minus units given back, that the database does not count yet: for the day and the
    /// month.
    pub(super) untold: [i64; 2],
    /// Units reserved by this node and not used yet. The database counts them as used.
    pub(super) reserve: i64,
    pub(super) limits: [i64; 2],
    /// Units to reserve in advance: a second of a key's burst.
    spare: i64,
    /// The units left according to the database's last answer, and the time of that answer.
    free: Option<(i64, Timestamp)>,
    /// Held during a settlement, because a subject has one settlement at a time.
    pub(super) settling: Arc<AsyncMutex<()>>,
    /// The time of the last request.
    pub(super) touched: Timestamp,
    /// Whether the caller has no key. The database does not count such a caller's months.
    pub(super) local: bool,
    /// When the database last failed to answer about this network.
    pub(super) alone_since: Timestamp,
}

impl Count {
    pub(super) fn new(now: Timestamp) -> Count {
        Count {
            period: Period::of(now),
            shared: [0; 2],
            untold: [0; 2],
            reserve: 0,
            limits: [0; 2],
            spare: 0,
            free: None,
            settling: Arc::default(),
            touched: now,
            local: false,
            alone_since: Timestamp(i64::MIN),
        }
    }

    /// Notes a request. Begins a new day or month if one has begun, and uses the plan's present limits.
    pub(super) fn touch(&mut self, limits: PlanLimits, now: Timestamp) {
        self.roll(now);
        self.limits = [limits.requests_a_day, limits.requests_a_month].map(|limit| limit.min(UNLIMITED) as i64);
        self.spare = limits.burst_a_second.into();
        self.touched = now;
    }

    /// Begins a new day or month, if one has begun.
    pub(super) fn roll(&mut self, now: Timestamp) {
        let period = Period::of(now);
        if period.day <= self.period.day {
            return;
        }
        // Reserved units cannot be used on another day. The next settlement gives them back for the month; for the day,
        // which is over, nothing is settled any more.
        self.release(0);
        (self.shared[0], self.untold[0], self.free) = (0, 0, None);
        if period.month > self.period.month {
            (self.shared[1], self.untold[1]) = (0, 0);
        }
        self.period = period;
    }

    fn is_unlimited(&self) -> bool {
        self.limits.iter().all(|&limit| limit >= UNLIMITED as i64)
    }

    /// Units used this day and this month by all nodes, as far as this node knows.
    pub(super) fn used(&self) -> [i64; 2] {
        [0, 1].map(|at| self.shared[at] + self.untold[at] - self.reserve)
    }

    /// Takes units without asking the database, if they are reserved or the plan has no limit. Returns whether it took
    /// them.
    pub(super) fn take(&mut self, units: i64) -> bool {
        let takes = self.is_unlimited() || self.reserve >= units;
        if takes {
            self.spend(units);
        }
        takes
    }

    /// Takes units without the database, as if this node were the only one.
    pub(super) fn take_alone(&mut self, units: i64) -> Result<(), LimitReached> {
        let used = self.used();
        if (0..2).any(|at| used[at] + units > self.limits[at]) {
            return Err(self.reached(units));
        }
        self.spend(units);
        Ok(())
    }

    fn spend(&mut self, units: i64) {
        let reserved = self.reserve.min(units);
        self.reserve -= reserved;
        self.untold = self.untold.map(|untold| untold + units - reserved);
    }

    /// Takes back the units of a refused request, so that the next request can use them.
    pub(super) fn give_back(&mut self, units: i64, taken: Period) {
        if taken.day == self.period.day {
            self.reserve += units;
        } else if taken.month == self.period.month {
            self.untold[1] -= units;
        }
    }

    /// Whether the database answered a moment ago that fewer than `units` are left.
    pub(super) fn is_exhausted(&self, units: i64, now: Timestamp) -> bool {
        self.free.is_some_and(|(free, at)| free + self.reserve < units && now.is_near(at, BELIEVED))
    }

    /// Returns the limit that this many units would exceed.
    pub(super) fn reached(&self, units: i64) -> LimitReached {
        if self.used()[1] + units > self.limits[1] { LimitReached::Month } else { LimitReached::Day }
    }

    /// Gives back all reserved units except `kept`.
    fn release(&mut self, kept: i64) {
        let released = (self.reserve - kept).max(0);
        self.reserve -= released;
        self.untold = self.untold.map(|untold| untold - released);
    }

    /// Makes a settlement that reports the used units which the database does not count yet, and asks for the reserved
    /// units that a request of this many units needs.
    pub(super) fn reservation(&self, subject: &str, units: i64) -> Settlement {
        let [day_limit, month_limit] = self.limits;
        let need = units - self.reserve;
        Settlement {
            reservation: Some(Reservation { need, spare: self.spare, day_limit, month_limit }),
            ..self.settlement(subject)
        }
    }

    /// Makes a settlement that reports the used units which the database does not count yet. `None`: there is nothing
    /// to report. An idle subject also gives back its reserved units.
    pub(super) fn news(&mut self, subject: &str, idle: bool) -> Option<Settlement> {
        if self.local {
            return None;
        }
        self.release(if idle { 0 } else { self.spare });
        (self.untold != [0; 2]).then(|| self.settlement(subject))
    }

    fn settlement(&self, subject: &str) -> Settlement {
        let Period { day, month } = self.period;
        let [day_spent, month_spent] = self.untold;
        Settlement { subject: subject.to_owned(), day, month, day_spent, month_spent, reservation: None }
    }

    /// Applies the database's answer to a settlement.
    pub(super) fn settled(&mut self, told: &Settlement, settled: Settled, now: Timestamp) {
        let (of_today, of_month) = (told.day == self.period.day, told.month == self.period.month);
        if of_month {
            self.shared[1] = settled.month_used;
            self.untold[1] -= told.month_spent;
        }
        if of_today {
            self.shared[0] = settled.day_used;
            self.untold[0] -= told.day_spent;
            self.reserve += settled.reserved;
            self.free = told.reservation.map(|_| (settled.free, now));
        } else if of_month {
            self.untold[1] -= settled.reserved;
        }
    }

    /// Whether the database counts all used units, and no units are reserved or being settled.
    pub(super) fn is_settled(&self) -> bool {
        self.untold == [0; 2] && self.reserve == 0 && Arc::strong_count(&self.settling) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::PlanTable;

    const DAY: Timestamp = Timestamp(86_400_000_000);

    fn count() -> Count {
        let limits = PlanLimits {
            requests_a_day: 100,
            requests_a_month: 1000,
            burst_a_second: 5,
            ..PlanTable::default().anonymous
        };
        let mut count = Count::new(Timestamp(0));
        count.touch(limits, Timestamp(0));
        count
    }

    /// The database's answer to a reservation. `used`: the units that are used or reserved now. `reserved`: the units
    /// that this reservation got.
    fn settled(used: i64, reserved: i64) -> Settled {
        Settled { day_used: used, month_used: used, reserved, free: 100 - used }
    }

    #[test]
    fn l10_every_unit_is_told_to_the_database_once() {
        let mut count = count();
        assert!(!count.take(1));
        let told = count.reservation("acct_1", 1);
        count.settled(&told, settled(46, 6), Timestamp(0));
        assert_eq!(count.used(), [40; 2]);
        // the database counts reserved units as used already, so nothing is left to write after their use
        assert!(count.take(4));
        assert_eq!((count.used(), count.news("acct_1", false)), ([44; 2], None));
        // while the database does not answer, the use beyond the reserved units is written later
        assert!(!count.take(5) && count.take_alone(5).is_ok());
        let told = count.news("acct_1", false).unwrap();
        assert_eq!((count.used(), told.day_spent, told.month_spent), ([49; 2], 3, 3));
        // one more unit is used before the earlier units are written
        assert!(count.take_alone(1).is_ok());
        let told = count.news("acct_1", false).unwrap();
        assert_eq!(told.day_spent, 4);
        assert!(count.take_alone(1).is_ok());
        count.settled(&told, settled(50, 0), Timestamp(0));
        assert_eq!((count.used(), count.news("acct_1", false).unwrap().day_spent), ([51; 2], 1));
    }

    #[test]
    fn an_idle_subject_keeps_no_reserve_and_a_busy_one_no_more_than_a_second_of_its_burst() {
        let mut count = count();
        let told = count.reservation("acct_1", 10);
        count.settled(&told, settled(15, 15), Timestamp(0));
        assert_eq!(count.news("acct_1", false).unwrap().day_spent, -10);
        assert_eq!(count.news("acct_1", true).unwrap().day_spent, -15);
        assert_eq!(count.used(), [0; 2]);
        assert!(!count.take(1) && !count.is_settled());
    }

    #[test]
    fn l1_a_request_that_was_refused_is_given_back() {
        let mut count = count();
        let told = count.reservation("acct_1", 1);
        count.settled(&told, settled(100, 1), Timestamp(0));
        assert!(count.take(1) && count.is_exhausted(1, Timestamp(0)));
        count.give_back(1, Period::of(Timestamp(0)));
        assert!(count.used() == [99; 2] && !count.is_exhausted(1, Timestamp(0)) && count.take(1));
        assert!(!count.take(1) && count.take_alone(1) == Err(LimitReached::Day));
    }

    #[test]
    fn l3_what_fails_to_be_told_by_the_end_of_the_day_counts_for_the_month_only() {
        let mut count = count();
        let told = count.reservation("acct_1", 2);
        count.settled(&told, settled(7, 7), Timestamp(0));
        assert!(count.take_alone(9).is_ok());
        count.roll(DAY);
        assert_eq!(count.used(), [0, 9]);
        // units reserved for yesterday cannot be used today
        let late = count.reservation("acct_1", 1);
        let yesterday = Settlement { day: 0, ..late };
        count.settled(&yesterday, Settled { day_used: 10, month_used: 12, reserved: 3, free: 0 }, DAY);
        assert_eq!((count.used(), count.take(1)), ([0, 9], false));
    }
}
