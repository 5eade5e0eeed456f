//! Audits of the ledger and of bills: facts that are stored twice must agree, every charge has its work, and every month
//! has its bill. Each check is one statement, so it sees one moment of the database even while nodes run.

mod ages;
mod bills;
mod counts;
mod invoices;
mod transfers;
mod usage;
mod words;

use crate::database::{Sql, Value, from_row, values};
use crate::{Result, Store};

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Number of transfers. Each transfer has one pending row.
    pub transfers: i64,
    /// Number of balances.
    pub balances: i64,
    /// Number of reservations that are neither posted nor voided.
    pub open: i64,
    /// The faults that were found, at most 100 for each statement of the audit.
    pub findings: Vec<AuditFinding>,
}

/// A fault: two facts that differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditFinding {
    /// The account. Empty: the fault belongs to no account.
    pub account_id: String,
    /// The kind of the fault.
    pub what: String,
    /// The object with the fault: a transfer, a usage row, a month and a rate, an invoice, and so on.
    pub of: String,
    /// The facts as they should be, numbers with their units.
    pub expected: String,
    /// The facts as they are, numbers with their units.
    pub found: String,
}

from_row!(AuditFinding { account_id, what, of, expected, found });

/// A statement that selects faults.
struct Check {
    sql: Sql,
    /// The values of the placeholders, in order.
    given: &'static [Given],
}

/// A value that a check takes.
#[derive(Clone, Copy)]
enum Given {
    /// Now, in microseconds since 1970.
    Now,
    /// The first month (months since year 0) in which every operation was counted.
    CountedFrom,
    /// Since then each bill of a month is recorded, in microseconds since 1970.
    BilledSince,
}

/// The moments from which a database has records that earlier releases did not write.
#[derive(Clone, Copy)]
struct Records {
    now: i64,
    counted_from: i64,
    billed_since: i64,
}

impl Records {
    fn value(&self, given: Given) -> Value<'static> {
        match given {
            Given::Now => self.now.into(),
            Given::CountedFrom => self.counted_from.into(),
            Given::BilledSince => self.billed_since.into(),
        }
    }
}

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;
/// The migration that made the ledger, and the one that made the records of bills.
const LEDGER: i64 = 22;
const BILLS: i64 = 31;
/// Largest number of seconds between the first migration and another one, of a database that never was older.
const TOGETHER_S: i64 = 3600;

impl Store {
    /// Returns the number of transfers. Slow, because the rows of the whole table are counted.
    pub async fn transfers(&self) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM transfers WHERE phase = 'pending'";
        let rows: Vec<(i64,)> = self.db.fetch_all_slowly(sql, values![]).await?;
        Ok(rows.first().map_or(0, |(transfers,)| *transfers))
    }

    /// Audits the ledger and the bills. `now`: microseconds since 1970. Takes seconds for each million transfers. Nodes
    /// may run at the same time.
    pub async fn audit_ledger(&self, now: i64) -> Result<AuditReport> {
        let records = self.records(now).await?;
        // two lanes, because most checks wait for the processor and not for the disk
        let ((counted, mut findings), more) = tokio::try_join!(
            async {
                let counted = self.size_of_ledger().await?;
                Ok::<_, crate::Error>((counted, self.faults(&records, LANES[0]).await?))
            },
            self.faults(&records, LANES[1])
        )?;
        findings.extend(more);
        findings.sort_unstable();
        let (transfers, balances, open) = counted;
        Ok(AuditReport { transfers, balances, open, findings })
    }

    async fn size_of_ledger(&self) -> Result<(i64, i64, i64)> {
        let sql = "SELECT (SELECT COUNT(*) FROM transfers WHERE phase = 'pending'), (SELECT COUNT(*) FROM ledger_balances), \
             (SELECT COUNT(*) FROM open_reservations)";
        let rows: Vec<(i64, i64, i64)> = self.db.fetch_all_slowly(sql, values![]).await?;
        Ok(rows.first().copied().unwrap_or_default())
    }

    async fn faults(&self, records: &Records, lane: &[&[Check]]) -> Result<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        for check in lane.iter().copied().flatten() {
            let found = self.faults_of(records, check).await?;
            // a number of rows differs: name the rows
            if found.iter().any(|one| one.what == usage::NUMBERS_DIFFER) {
                let rows = self.faults_of(records, &usage::ROWS).await?;
                findings.extend(if rows.is_empty() { found } else { rows });
            } else {
                findings.extend(found);
            }
        }
        Ok(findings)
    }

    async fn faults_of(&self, records: &Records, check: &Check) -> Result<Vec<AuditFinding>> {
        let given: Vec<Value<'_>> = check.given.iter().map(|given| records.value(*given)).collect();
        self.db.fetch_all_slowly(check.sql, &given).await
    }

    /// Finds the moments from which the database has all records. A database that began with an older release has usage
    /// that was not counted, and months that were billed without a record.
    async fn records(&self, now: i64) -> Result<Records> {
        let sql = Sql {
            sqlite: "SELECT version, CAST(strftime('%s', installed_on) AS INTEGER) FROM _sqlx_migrations WHERE success = TRUE",
            postgres: "SELECT version, CAST(EXTRACT(EPOCH FROM installed_on) AS BIGINT) FROM _sqlx_migrations WHERE success = TRUE",
        };
        let installed: Vec<(i64, i64)> = self.db.fetch_all(sql, values![]).await?;
        let at = |version: i64| installed.iter().find(|(of, _)| *of == version).map(|(_, at)| *at);
        let since = |version: i64| match (at(1), at(version)) {
            (Some(first), Some(then)) if then - first > TOGETHER_S => Some(then * 1_000_000 + DAY),
            _ => None,
        };
        let month_after = |moment: i64| month_of_day(moment.div_euclid(DAY)) + 1;
        Ok(Records { now, counted_from: since(LEDGER).map_or(0, month_after), billed_since: since(BILLS).unwrap_or(0) })
    }
}

/// The two lanes of statements. Both take about the same time.
const LANES: [&[&[Check]]; 2] =
    [&[transfers::CHECKS, ages::CHECKS], &[usage::CHECKS, counts::CHECKS, bills::CHECKS, invoices::CHECKS]];

/// Returns the month (months since year 0) of a day (days since 1970), by the calendar that begins in March of year 0.
fn month_of_day(day: i64) -> i64 {
    let (era, of_era) = ((day + 719_468).div_euclid(146_097), (day + 719_468).rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    (year + era * 400) * 12 + (5 * of_year + 2) / 153 + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_the_month_of_a_day_is_that_of_the_calendar() {
        let days = [0, 30, 31, 58, 59, 11_016, 11_017, 20_758, 20_787, 20_788];
        let months = [
            (1970, 1),
            (1970, 1),
            (1970, 2),
            (1970, 2),
            (1970, 3),
            (2000, 2),
            (2000, 3),
            (2026, 11),
            (2026, 11),
            (2026, 12),
        ];
        assert_eq!(days.map(month_of_day), months.map(|(year, month)| year * 12 + month - 1));
    }
}
