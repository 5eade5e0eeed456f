//! Bills of months: what an account spent in a month is billed once, by this service or through the provider, and then
//! the month is closed.

use super::words::month_start;
use super::{Check, Given};
use crate::database::Sql;

/// Each account's months with use, a bill, a line for use, or a record that the month is closed. `least` and `most` are
/// the cents of the use: rounding each yen amount down makes `least`, and one billionth of a dollar for each rate
/// more makes `most` ([`crate::Spend::cents`]). Between `$begin` and `$end`, a number is
/// divided by 10,000,000 without its fraction.
macro_rules! months {
    ($begin:literal, $end:literal) => {
        concat!(
            "WITH spent AS MATERIALIZED (SELECT account_id, month, ", $begin, "nano + 5000000", $end, " AS least, ", $begin,
            "nano + rates + 5000000", $end, " AS most, is_spent FROM (SELECT account_id, month, SUM(CAST(nano_usd AS NUMERIC) + \
             CASE WHEN usd_milli_jpy > 0 THEN CAST(milli_yen / usd_milli_jpy AS NUMERIC) * 1000000000 + \
             (milli_yen % usd_milli_jpy) * 1000000000 / usd_milli_jpy ELSE 0 END) AS nano, \
             SUM(CASE WHEN milli_yen > 0 THEN 1 ELSE 0 END) AS rates, MAX(CASE WHEN nano_usd > 0 OR milli_yen > 0 THEN 1 ELSE 0 END) AS is_spent \
             FROM ledger_balances GROUP BY account_id, month) s), \
             lines AS MATERIALIZED (SELECT account_id, month, amount_usd_cents, invoice_id FROM invoice_items \
             WHERE item_id = account_id || ':usage:' || CAST(month AS TEXT)), \
             bills AS MATERIALIZED (SELECT b.account_id, b.month, b.cents, b.invoice_id, b.attempted_at, COALESCE(SUM(i.amount_usd_cents), 0) AS fees \
             FROM usage_bills b LEFT JOIN invoice_items i ON i.invoice_id = CASE WHEN b.invoice_id <> '' AND NOT EXISTS (SELECT 1 FROM invoice_items n \
             WHERE n.invoice_id = 'bill:' || b.account_id || ':' || CAST(b.month AS TEXT)) THEN b.invoice_id \
             ELSE 'bill:' || b.account_id || ':' || CAST(b.month AS TEXT) END GROUP BY b.account_id, b.month, b.cents, b.invoice_id, b.attempted_at), \
             months AS MATERIALIZED (SELECT k.account_id, k.month, COALESCE(s.least, 0) AS least, COALESCE(s.most, 0) AS most, \
             COALESCE(s.is_spent, 0) AS is_spent, c.closed_at, b.cents, b.fees, b.invoice_id AS bill_invoice, l.amount_usd_cents AS line_cents \
             FROM (SELECT account_id, month FROM spent UNION SELECT account_id, month FROM closed_months \
             UNION SELECT account_id, month FROM usage_bills UNION SELECT account_id, month FROM lines) k \
             LEFT JOIN spent s ON s.account_id = k.account_id AND s.month = k.month \
             LEFT JOIN closed_months c ON c.account_id = k.account_id AND c.month = k.month \
             LEFT JOIN bills b ON b.account_id = k.account_id AND b.month = k.month \
             LEFT JOIN lines l ON l.account_id = k.account_id AND l.month = k.month), "
        )
    };
}

/// Faults of a month. `$1`: now; `$2`: since then each bill is recorded.
macro_rules! faults {
    () => {
        concat!(
    "began AS (SELECT COALESCE(MAX(done_through), 0) AS through FROM jobs WHERE name = 'months'), first AS (SELECT MIN(month) AS month FROM closed_months) \
     SELECT 'the line of an invoice differs from the use of its month' AS what, account_id, 'month ' || CAST(month AS TEXT) AS of, \
     CAST(least AS TEXT) || ' cents' AS expected, CAST(line_cents AS TEXT) || ' cents' AS found FROM months \
     WHERE line_cents NOT BETWEEN least AND most UNION ALL \
     SELECT 'a bill differs from the use and the fees of its month', account_id, 'month ' || CAST(month AS TEXT), \
     CAST(least + fees AS TEXT) || ' cents', CAST(cents AS TEXT) || ' cents' FROM months WHERE cents NOT BETWEEN least + fees AND most + fees UNION ALL \
     SELECT 'a month was billed twice', account_id, 'month ' || CAST(month AS TEXT), \
     '1 bill', '2 bills: ' || CAST(line_cents AS TEXT) || ' cents here, ' || CAST(cents AS TEXT) || ' cents on ' || bill_invoice \
     FROM months WHERE line_cents IS NOT NULL AND bill_invoice <> '' UNION ALL \
     SELECT 'a month was billed and is not closed', account_id, 'month ' || CAST(month AS TEXT), '1 closed month', \
     '0 closed months, 1 line of ' || CAST(line_cents AS TEXT) || ' cents' FROM months WHERE line_cents IS NOT NULL AND closed_at IS NULL UNION ALL \
     SELECT 'a month was closed without a bill', account_id, 'month ' || CAST(month AS TEXT), CAST(least AS TEXT) || ' cents', \
     '0 cents billed' FROM months WHERE closed_at >= $2 AND least > 0 AND line_cents IS NULL AND COALESCE(bill_invoice, '') = '' UNION ALL \
     SELECT 'a month was closed before its end', account_id, 'month ' || CAST(month AS TEXT), 'closed from ' || CAST(", month_start!("(month + 1)"),
    " AS TEXT) || ' us', 'closed at ' || CAST(closed_at AS TEXT) || ' us' FROM months WHERE closed_at < ", month_start!("(month + 1)"), " UNION ALL \
     SELECT 'a month without anything to bill was closed', account_id, 'month ' || CAST(month AS TEXT), '0 closed months', '1 closed month' FROM months m \
     WHERE closed_at IS NOT NULL AND is_spent = 0 AND bill_invoice IS NULL AND line_cents IS NULL AND NOT EXISTS (SELECT 1 FROM invoice_items i \
     WHERE i.account_id = m.account_id AND i.month <= m.month) UNION ALL \
     SELECT 'a month is not billed', m.account_id, 'month ' || CAST(m.month AS TEXT), CAST(least + COALESCE(fees, 0) AS TEXT) || ' cents billed', \
     '0 closed months, ' || CAST(COALESCE(cents, 0) AS TEXT) || ' cents intended' FROM months m, began, first f \
     WHERE closed_at IS NULL AND line_cents IS NULL AND (is_spent = 1 OR cents IS NOT NULL) AND $1 >= ", month_start!("(m.month + 1)"),
    " + 87000000000 AND ((through > 0 AND m.month > through) OR m.month >= f.month OR cents IS NOT NULL) UNION ALL \
     SELECT 'a fee is not billed', i.account_id, 'line ' || i.item_id, CAST(i.amount_usd_cents AS TEXT) || ' cents billed', '0 closed months' \
     FROM invoice_items i, began, first f WHERE i.invoice_id = '' AND i.amount_usd_cents > 0 AND $1 >= ", month_start!("(i.month + 1)"),
    " + 87000000000 AND ((through > 0 AND i.month > through) OR i.month >= f.month) AND NOT EXISTS (SELECT 1 FROM closed_months c \
     WHERE c.account_id = i.account_id AND c.month >= i.month) LIMIT 100"
        )
    };
}

/// An invoice of the provider belongs to the month of its period, and one for use to a month before. `$1`: since then
/// each bill is recorded.
const UNKNOWN: &str = concat!(
    "SELECT 'the provider has an invoice for use without a bill' AS what, account_id, \
     'invoice ' || invoice_id || ' of month ' || CAST(month AS TEXT) AS of, '1 bill of ' || CAST(amount_usd_cents AS TEXT) || ' cents' AS expected, \
     '0 bills, ' || status || ' invoice' AS found FROM invoices i WHERE is_provided AND status IN ('open', 'paid') \
     AND period_start >= ",
    month_start!("(month + 1)"),
    " AND issued_at >= $1 \
     AND NOT EXISTS (SELECT 1 FROM usage_bills b WHERE b.invoice_id = i.invoice_id) LIMIT 100"
);

const PROVIDED: &str = "SELECT 'the provider''s invoice differs from the bill of its month' AS what, b.account_id, \
     'invoice ' || b.invoice_id || ' of month ' || CAST(b.month AS TEXT) AS of, \
     b.account_id || ', month ' || CAST(b.month AS TEXT) || ', ' || CAST(b.cents AS TEXT) || ' cents, 1 bill' AS expected, \
     CASE WHEN i.invoice_id IS NULL THEN 'no invoice' ELSE i.account_id || ', month ' || CAST(i.month AS TEXT) || ', ' || \
     CAST(i.amount_usd_cents AS TEXT) || ' cents, ' END || (SELECT CAST(COUNT(*) AS TEXT) FROM usage_bills o WHERE o.invoice_id = b.invoice_id) || ' bills' AS found \
     FROM usage_bills b LEFT JOIN invoices i ON i.invoice_id = b.invoice_id WHERE b.invoice_id <> '' AND (\
     i.account_id <> b.account_id OR i.month <> b.month OR i.amount_usd_cents <> b.cents OR i.is_provided = FALSE \
     OR EXISTS (SELECT 1 FROM usage_bills o WHERE o.invoice_id = b.invoice_id AND (o.account_id <> b.account_id OR o.month <> b.month)) \
     OR (i.invoice_id IS NULL AND EXISTS (SELECT 1 FROM closed_months c WHERE c.account_id = b.account_id AND c.month = b.month) \
     AND EXISTS (SELECT 1 FROM subscriptions s WHERE s.account_id = b.account_id AND s.customer_id <> ''))) LIMIT 100";

pub(super) const CHECKS: &[Check] = &[
    Check {
        sql: Sql {
            sqlite: concat!(months!("((", ") / 10000000)"), faults!()),
            postgres: concat!(months!("DIV(", ", 10000000)"), faults!()),
        },
        given: &[Given::Now, Given::BilledSince],
    },
    Check { sql: Sql { sqlite: PROVIDED, postgres: PROVIDED }, given: &[] },
    Check { sql: Sql { sqlite: UNKNOWN, postgres: UNKNOWN }, given: &[Given::BilledSince] },
];
