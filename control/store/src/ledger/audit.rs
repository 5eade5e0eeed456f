//! Audits of the ledger: balances must be the sums of transfers, and usage rows must agree with their transfers.

use crate::database::values;
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
    /// The faults that were found, at most 100 of each kind.
    pub findings: Vec<AuditFinding>,
}

/// A fault in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFinding {
    /// The account.
    pub account_id: String,
    /// The kind of the fault.
    pub what: &'static str,
    /// The id of the transfer with the fault, or the month and rate of the balance with the fault.
    pub of: String,
}

/// Kinds of faults, each with a query that finds the faults of this kind. The query selects the account and the object
/// ([`AuditFinding::of`]) of each fault.
const CHECKS: [(&str, &str); 10] = [
    (
        "a transfer was posted and voided",
        "SELECT a.account_id, a.transfer_id FROM transfers a JOIN transfers b ON a.transfer_id = b.transfer_id \
         WHERE a.phase = 'posted' AND b.phase = 'voided' LIMIT 100",
    ),
    (
        "the end of a transfer differs from its beginning",
        "SELECT e.account_id, e.transfer_id FROM transfers e LEFT JOIN transfers p \
         ON p.transfer_id = e.transfer_id AND p.phase = 'pending' WHERE e.phase <> 'pending' AND \
         (p.account_id IS NULL OR p.account_id <> e.account_id OR p.month <> e.month OR p.usd_milli_jpy <> e.usd_milli_jpy \
         OR p.trial_operations <> e.trial_operations OR p.fcu <> e.fcu OR p.nano_usd < e.nano_usd \
         OR (e.phase = 'voided' AND p.nano_usd <> e.nano_usd) \
         OR p.milli_yen <> e.milli_yen) LIMIT 100",
    ),
    (
        "a transfer without an end is not open, or a transfer with an end is open",
        "SELECT p.account_id, p.transfer_id FROM transfers p LEFT JOIN open_reservations o ON o.transfer_id = p.transfer_id \
         LEFT JOIN transfers e ON e.transfer_id = p.transfer_id AND e.phase <> 'pending' \
         WHERE p.phase = 'pending' AND (o.transfer_id IS NULL) = (e.transfer_id IS NULL) LIMIT 100",
    ),
    (
        "a balance is not the sum of its transfers",
        "SELECT account_id, CAST(month AS TEXT) || ' at ' || CAST(usd_milli_jpy AS TEXT) FROM ( \
         SELECT account_id, month, usd_milli_jpy, fcu, nano_usd, milli_yen, fcu_reserved, nano_usd_reserved, \
         milli_yen_reserved FROM ledger_balances UNION ALL \
         SELECT account_id, month, usd_milli_jpy, -fcu, -nano_usd, -milli_yen, 0, 0, 0 FROM transfers \
         WHERE phase = 'posted' AND month > 0 UNION ALL \
         SELECT account_id, month, usd_milli_jpy, 0, 0, 0, -fcu, -nano_usd, -milli_yen FROM open_reservations \
         WHERE month > 0) t GROUP BY account_id, month, usd_milli_jpy HAVING SUM(fcu) <> 0 OR SUM(nano_usd) <> 0 \
         OR SUM(milli_yen) <> 0 OR SUM(fcu_reserved) <> 0 OR SUM(nano_usd_reserved) <> 0 \
         OR SUM(milli_yen_reserved) <> 0 LIMIT 100",
    ),
    (
        "the record of a trial counts fewer operations than the trial's transfers",
        "SELECT account_id, 'trial' FROM trials t WHERE operations_used < \
         (SELECT COALESCE(SUM(CASE phase WHEN 'pending' THEN trial_operations WHEN 'voided' THEN -trial_operations ELSE 0 END), 0) \
         FROM transfers x WHERE x.account_id = t.account_id) LIMIT 100",
    ),
    (
        "the charge for gates differs from its transfer",
        "SELECT u.account_id, u.usage_id FROM gate_usage u LEFT JOIN transfers x \
         ON x.transfer_id = u.transfer_id AND x.phase = 'posted' WHERE u.transfer_id IS NOT NULL AND \
         (x.transfer_id IS NULL OR x.account_id <> u.account_id OR (x.trial_operations = 0 AND x.milli_yen <> u.cost_milli_yen)) \
         LIMIT 100",
    ),
    (
        "the compute units of an operation differ from its transfer",
        "SELECT u.account_id, u.usage_id FROM arithmetic_usage u LEFT JOIN transfers x \
         ON x.transfer_id = u.transfer_id AND x.phase = 'posted' WHERE u.transfer_id IS NOT NULL AND \
         (x.transfer_id IS NULL OR x.account_id <> u.account_id OR (x.trial_operations = 0 AND x.fcu <> u.fcu)) LIMIT 100",
    ),
    (
        "the charge for a call of the back office differs from its transfer",
        "SELECT u.account_id, u.usage_id FROM office_usage u LEFT JOIN transfers x \
         ON x.transfer_id = u.transfer_id AND x.phase = 'posted' WHERE (u.transfer_id IS NULL AND u.milli_yen <> 0) OR \
         (u.transfer_id IS NOT NULL AND (x.transfer_id IS NULL OR x.account_id <> u.account_id OR x.milli_yen <> u.milli_yen)) \
         LIMIT 100",
    ),
    (
        "a key's spending in the back office is not the sum of its calls",
        "SELECT account_id, lineage_id FROM (SELECT account_id, lineage_id, operation, calls, units, milli_yen FROM office_totals \
         UNION ALL SELECT account_id, lineage_id, operation, -1, -units, -milli_yen FROM office_usage) t \
         GROUP BY account_id, lineage_id, operation HAVING SUM(calls) <> 0 OR SUM(units) <> 0 OR SUM(milli_yen) <> 0 LIMIT 100",
    ),
    (
        "an invoice is not the sum of its lines",
        "SELECT i.account_id, i.invoice_id FROM invoices i WHERE i.is_provided = FALSE AND i.amount_usd_cents <> \
         (SELECT COALESCE(SUM(l.amount_usd_cents), 0) FROM invoice_items l WHERE l.invoice_id = i.invoice_id) LIMIT 100",
    ),
];

impl Store {
    /// Returns the number of transfers. Slow, because the rows of the whole table are counted.
    pub async fn transfers(&self) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM transfers WHERE phase = 'pending'";
        let rows: Vec<(i64,)> = self.db.fetch_all_slowly(sql, values![]).await?;
        Ok(rows.first().map_or(0, |(transfers,)| *transfers))
    }

    /// Audits the whole ledger. Takes seconds for each million transfers. Nodes may run at the same time.
    pub async fn audit_ledger(&self) -> Result<AuditReport> {
        let sql = "SELECT (SELECT COUNT(*) FROM transfers WHERE phase = 'pending'), (SELECT COUNT(*) FROM ledger_balances), \
             (SELECT COUNT(*) FROM open_reservations)";
        let counts: Vec<(i64, i64, i64)> = self.db.fetch_all_slowly(sql, values![]).await?;
        let (transfers, balances, open) = counts.first().copied().unwrap_or_default();
        let mut report = AuditReport { transfers, balances, open, findings: Vec::new() };
        for (what, sql) in CHECKS {
            let rows: Vec<(String, String)> = self.db.fetch_all_slowly(sql, values![]).await?;
            report.findings.extend(rows.into_iter().map(|(account_id, of)| AuditFinding { account_id, what, of }));
        }
        report.findings.extend(self.misbilled().await?);
        Ok(report)
    }

    /// Finds lines of invoices whose amount differs from the account's use in the line's month.
    async fn misbilled(&self) -> Result<Vec<AuditFinding>> {
        let sql = "SELECT account_id, month, amount_usd_cents FROM invoice_items WHERE item_id LIKE '%:usage:%'";
        let lines: Vec<(String, i64, i64)> = self.db.fetch_all(sql, values![]).await?;
        let mut found = Vec::new();
        for (account_id, month, cents) in lines {
            if self.used_in_month(&account_id, month).await?.spend.cents() != cents {
                let what = "a line of an invoice differs from the usage in the line's month";
                found.push(AuditFinding { account_id, what, of: month.to_string() });
            }
        }
        Ok(found)
    }
}
