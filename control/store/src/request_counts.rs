//! Requests counted by day and month, for several nodes on one database.
//!
//! A node reserves units before it uses them, and from the reservation on the row counts these units as used. So all
//! nodes together never exceed the limit. A node gives unused units back. A node that dies cannot give units back, so
//! until the day ends the count is too high by the units that the node had reserved.

use crate::database::{Tx, from_row, locking, values};
use crate::{Result, Store};

/// A node's use for one subject, and the units that it wants to reserve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// The account.
    pub subject: String,
    /// Days since 1970, UTC.
    pub day: i64,
    /// Months since year 0, UTC.
    pub month: i64,
    /// Units that were used on this day and that the row does not count yet. Negative: units that the node gives back.
    pub day_spent: i64,
    /// Units that were used in this month and that the row does not count yet.
    pub month_spent: i64,
    /// Units that the node wants to reserve.
    pub reservation: Option<Reservation>,
}

/// Units that a node wants to reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Number of units for the present request. If fewer units are left, nothing is reserved.
    pub need: i64,
    /// Largest number of units to reserve for later requests. Near the limit the node gets far fewer units, and at the
    /// limit none.
    pub spare: i64,
    /// The daily limit.
    pub day_limit: i64,
    /// The monthly limit.
    pub month_limit: i64,
}

/// The row's counts after a settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Units that all nodes have used or reserved today, as far as the row records them.
    pub day_used: i64,
    /// Units that all nodes have used or reserved in this month, as far as the row records them.
    pub month_used: i64,
    /// Units that this settlement reserved. `day_used` and `month_used` include them.
    pub reserved: i64,
    /// Units that are left under both limits of the reservation. 0 if no reservation was wanted.
    pub free: i64,
}

/// The reserve for later requests is limited: it is at most the number of units that are left, divided by this number.
const SPARE_SHARE: i64 = 16;

/// The row of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Days since 1970.
    day: i64,
    /// Units used or reserved on this day.
    day_used: i64,
    /// Months since year 0.
    month: i64,
    /// Units used or reserved in this month.
    month_used: i64,
}

from_row!(Counts { day, day_used, month, month_used });

impl Counts {
    /// Adds a node's use to the counts, and reserves units within the limits.
    fn settle(&mut self, told: &Settlement) -> Settled {
        if told.day > self.day {
            (self.day, self.day_used) = (told.day, 0);
        }
        if told.month > self.month {
            (self.month, self.month_used) = (told.month, 0);
        }
        // ignore a day that is over: a node whose clock is slow may send such a day
        if told.day == self.day {
            self.day_used = (self.day_used + told.day_spent).max(0);
        }
        if told.month == self.month {
            self.month_used = (self.month_used + told.month_spent).max(0);
        }
        let (reserved, free) = told.reservation.map_or((0, 0), |asked| self.reserve(asked));
        Settled { day_used: self.day_used, month_used: self.month_used, reserved, free }
    }

    /// Reserves units. Returns the number of reserved units, and the number of units that are left afterwards.
    fn reserve(&mut self, asked: Reservation) -> (i64, i64) {
        let free = (asked.day_limit - self.day_used).min(asked.month_limit - self.month_used).max(0);
        if free < asked.need {
            return (0, free);
        }
        let reserved = asked.need + asked.spare.min((free - asked.need) / SPARE_SHARE);
        self.day_used += reserved;
        self.month_used += reserved;
        (reserved, free - reserved)
    }
}

impl Store {
    /// Adds a node's use to the counts of these subjects and reserves units, all in one transaction.
    pub async fn settle_requests(&self, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        // sort the subjects: all transactions lock them in the same order, because otherwise two can deadlock
        let mut order: Vec<usize> = (0..settlements.len()).collect();
        order.sort_unstable_by(|&a, &b| settlements[a].subject.cmp(&settlements[b].subject));
        let mut settled = vec![Settled::default(); settlements.len()];
        let mut tx = self.db.begin().await?;
        for at in order {
            let told = &settlements[at];
            let mut row = locked_counts(&mut tx, told).await?;
            let before = row;
            settled[at] = row.settle(told);
            if row != before {
                tx.execute(
                    "UPDATE request_counts SET day = $2, day_used = $3, month = $4, month_used = $5 WHERE subject = $1",
                    values![&told.subject, row.day, row.day_used, row.month, row.month_used],
                )
                .await?;
            }
        }
        tx.commit().await?;
        Ok(settled)
    }

    /// Deletes the counts of months before this month.
    pub async fn forget_request_counts(&self, month: i64) -> Result<u64> {
        self.db.execute("DELETE FROM request_counts WHERE month < $1", values![month]).await
    }
}

/// Returns the counts of a subject, and locks the subject's row until the transaction ends. Creates the row if it does
/// not exist.
async fn locked_counts(tx: &mut Tx, told: &Settlement) -> Result<Counts> {
    let sql = locking!("SELECT day, day_used, month, month_used FROM request_counts WHERE subject = $1");
    if let Some(counts) = tx.fetch_optional(sql, values![&told.subject]).await? {
        return Ok(counts);
    }
    // If another node has created the row since the query above, the update locks the row and returns it without a
    // change. Only nodes of the earlier release read the last two columns.
    let sql = "INSERT INTO request_counts (subject, day, day_used, month, month_used, leased, leased_until) \
         VALUES ($1, $2, 0, $3, 0, 0, 0) ON CONFLICT (subject) DO UPDATE SET subject = excluded.subject \
         RETURNING day, day_used, month, month_used";
    tx.fetch_one(sql, values![&told.subject, told.day, told.month]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(used: i64) -> Counts {
        Counts { day: 5, day_used: used, month: 1, month_used: used }
    }

    fn told(spent: i64, need: i64, spare: i64) -> Settlement {
        let reservation = Reservation { need, spare, day_limit: 100, month_limit: 1000 };
        let subject = "acct_1".to_owned();
        Settlement { subject, day: 5, month: 1, day_spent: spent, month_spent: spent, reservation: Some(reservation) }
    }

    #[test]
    fn what_is_used_reserved_and_free_adds_up_to_the_limit() {
        let mut row = row(22);
        // 27 of 100 units are used and 73 free: the request gets 3, and 70 / 16 = 4 are reserved for later requests
        let settled = row.settle(&told(5, 3, 50));
        assert_eq!(settled, Settled { day_used: 34, month_used: 34, reserved: 3 + 4, free: 66 });
        // the node gives 4 unused units back, and the row no longer counts them
        let settled = row.settle(&Settlement { reservation: None, ..told(-4, 0, 0) });
        assert_eq!(settled, Settled { day_used: 30, month_used: 30, ..Settled::default() });
    }

    #[test]
    fn near_the_limit_nothing_is_reserved_in_advance_and_never_more_than_there_is() {
        let mut row = row(90);
        assert_eq!(row.settle(&told(0, 10, 50)), Settled { day_used: 100, month_used: 100, reserved: 10, free: 0 });
        assert_eq!(row.settle(&told(0, 1, 50)).reserved, 0);
        // the node gives 10 unused units back; a request for 11 still gets none, because only 10 are free
        assert_eq!(row.settle(&told(-10, 11, 50)), Settled { day_used: 90, month_used: 90, reserved: 0, free: 10 });
        assert_eq!(row.settle(&told(0, 1, 5)).reserved, 1);
    }

    #[test]
    fn a_day_begins_at_zero_and_a_clock_that_is_behind_changes_nothing_of_it() {
        let mut row = row(10);
        let next = Settlement { day: 6, ..told(0, 1, 0) };
        assert_eq!(row.settle(&next), Settled { day_used: 1, month_used: 11, reserved: 1, free: 99 });
        let late = Settlement { reservation: None, ..told(7, 0, 0) };
        assert_eq!(row.settle(&late), Settled { day_used: 1, month_used: 18, ..Settled::default() });
    }

    #[test]
    fn the_month_binds_too() {
        let mut row = Counts { month_used: 999, ..row(10) };
        assert_eq!(row.settle(&told(0, 2, 50)).reserved, 0);
        assert_eq!(row.settle(&told(0, 1, 50)).reserved, 1);
    }
}
