//! Requests counted by day and month, for several nodes on one database.
//!
//! A node that may let requests pass without asking holds a lease: units that the row already sets aside. So no two
//! nodes ever let more pass together than the limit, and what was used is exact. Leases of a node that died are void
//! after a while, and at the turn of the day.

use crate::database::{Tx, from_row, locking, values};
use crate::{Result, Store};

/// What a node tells about one subject, and what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Who is counted.
    pub subject: String,
    /// Days since 1970, UTC.
    pub day: i64,
    /// Months since year 0, UTC.
    pub month: i64,
    /// Units used on that day since the last settlement; negative: given back.
    pub day_spent: i64,
    /// The same for the month.
    pub month_spent: i64,
    /// Leased units that the node holds no more, used or returned; negative: taken again.
    pub lease_back: i64,
    /// What the node wants to let pass from now on.
    pub wish: Option<Wish>,
}

/// Units that a node wants set aside for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// For the request that asks: nothing is granted if there are not so many.
    pub need: i64,
    /// For all requests that wait, this one included.
    pub waiting: i64,
    /// For requests to come; far less where little is left, none at the end.
    pub spare: i64,
    /// Units a day.
    pub day_limit: i64,
    /// Units a month.
    pub month_limit: i64,
}

/// What the row says after a settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Used today by all nodes, as far as they told.
    pub day_used: i64,
    /// Used this month.
    pub month_used: i64,
    /// Units set aside for this node by this settlement.
    pub granted: i64,
    /// Units left under the wish's limits that no node holds.
    pub free: i64,
}

/// At most one in so many of the units left goes to one node in advance.
const SPARE_SHARE: i64 = 16;

/// What is counted of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Days since 1970.
    pub day: i64,
    /// Units used on that day.
    pub day_used: i64,
    /// Months since year 0.
    pub month: i64,
    /// Units used in that month.
    pub month_used: i64,
    /// Units set aside for nodes.
    pub leased: i64,
    /// When all leases are void.
    pub leased_until: i64,
}

from_row!(Counts { day, day_used, month, month_used, leased, leased_until });

impl Counts {
    /// Takes note of what a node tells and grants what it wishes, as far as there is room.
    pub fn settle(&mut self, told: &Settlement, now: i64, leased_until: i64) -> Settled {
        if self.leased_until < now {
            self.leased = 0;
        }
        if told.day > self.day {
            (self.day, self.day_used, self.leased) = (told.day, 0, 0);
        }
        if told.month > self.month {
            (self.month, self.month_used) = (told.month, 0);
        }
        // a node with a clock that is behind tells of a day that has ended
        if told.day == self.day {
            self.day_used = (self.day_used + told.day_spent).max(0);
            self.leased = (self.leased - told.lease_back).max(0);
        }
        if told.month == self.month {
            self.month_used = (self.month_used + told.month_spent).max(0);
        }
        self.leased_until = self.leased_until.max(leased_until);
        let (granted, free) = told.wish.map_or((0, 0), |wish| self.grant(wish));
        Settled { day_used: self.day_used, month_used: self.month_used, granted, free }
    }

    fn grant(&mut self, wish: Wish) -> (i64, i64) {
        let left = (wish.day_limit - self.day_used).min(wish.month_limit - self.month_used);
        let free = (left - self.leased).max(0);
        let waiting = if free < wish.need { 0 } else { wish.waiting.clamp(wish.need, free) };
        let granted = waiting + wish.spare.min((free - waiting) / SPARE_SHARE);
        self.leased += granted;
        (granted, free - granted)
    }
}

impl Store {
    /// Settles with all these subjects in one transaction. `now` and `leased_until` in microseconds since 1970.
    pub async fn settle_requests(
        &self,
        settlements: &[Settlement],
        now: i64,
        leased_until: i64,
    ) -> Result<Vec<Settled>> {
        // always in one order: transactions that wait for each other's rows would never end
        let mut order: Vec<usize> = (0..settlements.len()).collect();
        order.sort_unstable_by(|&a, &b| settlements[a].subject.cmp(&settlements[b].subject));
        let mut settled = vec![Settled::default(); settlements.len()];
        let mut tx = self.db.begin().await?;
        for at in order {
            let told = &settlements[at];
            let mut row = locked_counts(&mut tx, told).await?;
            let before = row;
            settled[at] = row.settle(told, now, leased_until);
            if row != before {
                tx.execute(
                    "UPDATE request_counts SET day = $2, day_used = $3, month = $4, month_used = $5, leased = $6, \
                     leased_until = $7 WHERE subject = $1",
                    values![
                        &told.subject,
                        row.day,
                        row.day_used,
                        row.month,
                        row.month_used,
                        row.leased,
                        row.leased_until
                    ],
                )
                .await?;
            }
        }
        tx.commit().await?;
        Ok(settled)
    }

    /// Forgets counts of months before this one.
    pub async fn forget_request_counts(&self, month: i64) -> Result<u64> {
        self.db.execute("DELETE FROM request_counts WHERE month < $1", values![month]).await
    }
}

/// The counts of a subject, made if they are not there, locked until the transaction ends.
async fn locked_counts(tx: &mut Tx, told: &Settlement) -> Result<Counts> {
    let sql = locking!(
        "SELECT day, day_used, month, month_used, leased, leased_until FROM request_counts WHERE subject = $1"
    );
    if let Some(counts) = tx.fetch_optional(sql, values![&told.subject]).await? {
        return Ok(counts);
    }
    // another node may make the row meanwhile: then the update, which changes nothing, locks it and gives it
    let sql = "INSERT INTO request_counts (subject, day, day_used, month, month_used, leased, leased_until) \
         VALUES ($1, $2, 0, $3, 0, 0, 0) ON CONFLICT (subject) DO UPDATE SET subject = excluded.subject \
         RETURNING day, day_used, month, month_used, leased, leased_until";
    tx.fetch_one(sql, values![&told.subject, told.day, told.month]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(day_used: i64, leased: i64) -> Counts {
        Counts { day: 5, day_used, month: 1, month_used: day_used, leased, leased_until: 100 }
    }

    fn told(day_spent: i64, lease_back: i64, need: i64, spare: i64) -> Settlement {
        let wish = Wish { need, waiting: need, spare, day_limit: 100, month_limit: 1000 };
        let subject = "acct_1".to_owned();
        Settlement { subject, day: 5, month: 1, day_spent, month_spent: day_spent, lease_back, wish: Some(wish) }
    }

    #[test]
    fn what_is_used_leased_and_free_adds_up_to_the_limit() {
        let mut row = row(10, 20);
        let settled = row.settle(&told(5, 8, 3, 50), 50, 200);
        // 100 - 15 used - 12 leased = 73 free: 3 for the request, a sixteenth of the rest to come
        assert_eq!((settled.day_used, settled.granted, settled.free), (15, 3 + 4, 66));
        assert_eq!(row.day_used + row.leased + settled.free, 100);
        assert_eq!(row.leased_until, 200);
    }

    #[test]
    fn near_the_limit_nothing_is_given_in_advance_and_never_more_than_there_is() {
        let mut row = row(90, 0);
        assert_eq!(row.settle(&told(0, 0, 10, 50), 50, 200).granted, 10);
        assert_eq!(
            row.settle(&told(0, 0, 1, 50), 50, 200),
            Settled { day_used: 90, month_used: 90, granted: 0, free: 0 }
        );
        // the ten were not used after all
        assert_eq!(row.settle(&told(0, 10, 11, 50), 50, 200).granted, 0);
        assert_eq!(row.settle(&told(0, 0, 1, 5), 50, 200).granted, 1);
    }

    #[test]
    fn leases_end_with_their_time_and_with_the_day() {
        let mut late = row(10, 90);
        assert_eq!(late.settle(&told(0, 0, 1, 0), 101, 200).granted, 1);
        let mut row = row(10, 90);
        let next = Settlement { day: 6, ..told(0, 0, 1, 0) };
        let settled = row.settle(&next, 50, 200);
        assert_eq!((settled.day_used, settled.month_used, settled.granted), (0, 10, 1));
        // a node whose clock is behind changes nothing of the new day
        let settled = row.settle(&told(7, 7, 0, 0), 50, 200);
        assert_eq!((settled.day_used, settled.month_used, row.leased), (0, 17, 1));
    }

    #[test]
    fn the_month_binds_too() {
        let mut row = Counts { month_used: 999, ..row(10, 0) };
        assert_eq!(row.settle(&told(0, 0, 2, 0), 50, 200).granted, 0);
        assert_eq!(row.settle(&told(0, 0, 1, 0), 50, 200).granted, 1);
    }
}
