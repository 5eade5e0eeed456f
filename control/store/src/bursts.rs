//! Token buckets that the nodes of a database share, by the database's clock.
//!
//! A bucket is stored as one number: the moment when it will be full again. A full bucket needs no row. A node takes
//! several tokens at once and gives none back.
//!
//! The requests of a day have rows of the same form: the end of the day, plus a microsecond for each request. So such a row
//! is full when its day is over.
//!
//! On PostgreSQL the table is not logged, so taking tokens does not wait for the disk. After a crash of PostgreSQL, and on
//! a standby that takes over, all buckets are full.

use crate::database::{Sql, clock, values};
use crate::{Result, Store};

impl Store {
    /// Takes tokens from a subject's bucket, all or none. Returns whether the tokens were taken. `cost_us`: the time in
    /// which the bucket gets as many tokens, in microseconds. `span_us`: the time in which the empty bucket becomes full,
    /// at least `cost_us`.
    pub async fn take_tokens(&self, subject: &str, cost_us: i64, span_us: i64) -> Result<bool> {
        // A moment further ahead was written before the database's clock was set back, so the bucket counts as full.
        macro_rules! full_at {
            ($clock:expr) => {
                concat!(
                    "CASE WHEN bursts.full_at > ",
                    $clock,
                    " AND bursts.full_at <= ",
                    $clock,
                    " + $3 + $3 THEN bursts.full_at ELSE ",
                    $clock,
                    " END"
                )
            };
        }
        macro_rules! take {
            ($clock:expr) => {
                concat!(
                    "INSERT INTO bursts (subject, full_at) VALUES ($1, ",
                    $clock,
                    " + $2) ON CONFLICT (subject) DO UPDATE SET full_at = ",
                    full_at!($clock),
                    " + $2 WHERE ",
                    full_at!($clock),
                    " + $2 <= ",
                    $clock,
                    " + $3"
                )
            };
        }
        let take = Sql { sqlite: take!(clock!(sqlite)), postgres: take!(clock!(postgres)) };
        Ok(self.db.execute(take, values![subject, cost_us, span_us]).await? > 0)
    }

    /// Takes units of what a subject may use until a moment, all or none. Returns the units that are used then, or `None` if
    /// fewer are left. `until`: the moment in microseconds since 1970, the same for all nodes. The subject's name must be another
    /// one for each such moment.
    pub async fn take_units(&self, subject: &str, units: i64, limit: i64, until: i64) -> Result<Option<i64>> {
        if units > limit {
            return Ok(None);
        }
        let sql = "INSERT INTO bursts (subject, full_at) VALUES ($1, CAST($4 AS BIGINT) + $2) \
             ON CONFLICT (subject) DO UPDATE SET full_at = bursts.full_at + $2 WHERE bursts.full_at + $2 <= $4 + $3 \
             RETURNING full_at - $4";
        let mut tx = self.db.begin().await?;
        let used: Option<(i64,)> = tx.fetch_optional(sql, values![subject, units, limit, until]).await?;
        tx.commit().await?;
        Ok(used.map(|(used,)| used))
    }

    /// Deletes buckets that have been full for this long, in microseconds. Returns the number of buckets.
    pub async fn forget_full_buckets(&self, for_us: i64) -> Result<u64> {
        macro_rules! forget {
            ($clock:expr) => {
                concat!("DELETE FROM bursts WHERE full_at < ", $clock, " - $1")
            };
        }
        let forget = Sql { sqlite: forget!(clock!(sqlite)), postgres: forget!(clock!(postgres)) };
        self.db.execute(forget, values![for_us]).await
    }
}
