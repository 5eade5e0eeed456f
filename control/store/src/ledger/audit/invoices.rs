//! Invoices and their lines: each line is on an invoice of its account, and an invoice made here is the sum of its lines.

use super::Check;
use super::words::month_start;
use crate::database::Sql;

/// Invoices that this service made: for a whole month that is closed, one for an account.
const OWN: &str = concat!(
    "SELECT 'an invoice is not the sum of its lines' AS what, i.account_id, 'invoice ' || i.invoice_id AS of, \
     CAST(COALESCE(l.cents, 0) AS TEXT) || ' cents' AS expected, CAST(i.amount_usd_cents AS TEXT) || ' cents' AS found \
     FROM invoices i LEFT JOIN (SELECT invoice_id, SUM(amount_usd_cents) AS cents FROM invoice_items GROUP BY invoice_id) l \
     ON l.invoice_id = i.invoice_id WHERE i.is_provided = FALSE AND i.amount_usd_cents <> COALESCE(l.cents, 0) UNION ALL \
     SELECT 'the period of an invoice is not its month', account_id, 'invoice ' || invoice_id || ' of month ' || CAST(month AS TEXT), \
     CAST(",
    month_start!("month"),
    " AS TEXT) || ' to ' || CAST(",
    month_start!("(month + 1)"),
    " AS TEXT) || ' us', \
     CAST(period_start AS TEXT) || ' to ' || CAST(period_end AS TEXT) || ' us' FROM invoices WHERE is_provided = FALSE AND \
     (period_start <> ",
    month_start!("month"),
    " OR period_end <> ",
    month_start!("(month + 1)"),
    ") UNION ALL \
     SELECT 'an invoice is of a month that is not closed', account_id, 'invoice ' || invoice_id, \
     '1 closed month ' || CAST(month AS TEXT), '0 closed months' FROM invoices i WHERE is_provided = FALSE AND NOT EXISTS \
     (SELECT 1 FROM closed_months c WHERE c.account_id = i.account_id AND c.month = i.month) UNION ALL \
     SELECT 'a month has several invoices', account_id, 'month ' || CAST(month AS TEXT), '1 invoice', \
     CAST(COUNT(*) AS TEXT) || ' invoices of ' || CAST(SUM(amount_usd_cents) AS TEXT) || ' cents' FROM invoices WHERE is_provided = FALSE \
     GROUP BY account_id, month HAVING COUNT(*) > 1 UNION ALL \
     SELECT 'an invoice made here was issued before the end of its month or has failed payments', account_id, 'invoice ' || invoice_id, \
     'issued from ' || CAST(",
    month_start!("(month + 1)"),
    " AS TEXT) || ' us, 0 failures', \
     'issued at ' || CAST(issued_at AS TEXT) || ' us, ' || CAST(failures AS TEXT) || ' failures' FROM invoices \
     WHERE is_provided = FALSE AND (issued_at < ",
    month_start!("(month + 1)"),
    " OR failures <> 0) UNION ALL \
     SELECT 'the state of an invoice does not agree with its payment', account_id, 'invoice ' || invoice_id, \
     CASE WHEN paid_at > 0 THEN 'paid' WHEN is_provided = FALSE THEN 'open, void or uncollectible' ELSE 'not paid' END || \
     ', paid at ' || CAST(paid_at AS TEXT) || ' us', status || ', paid at ' || CAST(paid_at AS TEXT) || ' us' FROM invoices \
     WHERE (status = 'paid') <> (paid_at > 0) OR (status = 'draft' AND is_provided = FALSE) LIMIT 100"
);

/// Lines. Those of a bill stand on an invoice with the bill's name until the provider has made the invoice.
const LINES: &str = "SELECT 'the line of an invoice is not on an invoice of its account' AS what, l.account_id, 'line ' || l.item_id AS of, \
     CASE WHEN l.item_id NOT LIKE l.account_id || ':%' THEN 'a line of ' || l.account_id || ', ' || CAST(l.amount_usd_cents AS TEXT) || ' cents' \
     WHEN l.item_id LIKE '%:usage:%' AND l.item_id <> l.account_id || ':usage:' || CAST(l.month AS TEXT) \
     THEN l.account_id || ':usage:' || CAST(l.month AS TEXT) \
     ELSE 'invoice ' || l.invoice_id || ' of ' || l.account_id || ', month ' || CAST(l.month AS TEXT) || ' or later' END AS expected, \
     CASE WHEN i.invoice_id IS NULL THEN 'no invoice' ELSE 'invoice of ' || i.account_id || ', month ' || CAST(i.month AS TEXT) || \
     CASE WHEN i.is_provided THEN ', of the provider' ELSE ', made here' END END || ', line of ' || l.account_id || ' and ' || \
     CAST(l.amount_usd_cents AS TEXT) || ' cents' AS found FROM invoice_items l LEFT JOIN invoices i ON i.invoice_id = l.invoice_id \
     LEFT JOIN usage_bills b ON b.account_id = l.account_id AND b.invoice_id = CASE WHEN l.invoice_id LIKE 'bill:%' THEN b.invoice_id ELSE l.invoice_id END \
     AND (l.invoice_id NOT LIKE 'bill:%' OR l.invoice_id = 'bill:' || b.account_id || ':' || CAST(b.month AS TEXT)) AND l.invoice_id <> '' \
     WHERE l.item_id NOT LIKE l.account_id || ':%' \
     OR (l.item_id LIKE '%:usage:%' AND l.item_id <> l.account_id || ':usage:' || CAST(l.month AS TEXT)) \
     OR (l.invoice_id <> '' AND ((i.invoice_id IS NULL AND b.month IS NULL) OR i.account_id <> l.account_id OR i.month < l.month \
     OR (i.is_provided AND b.month IS NULL) OR b.month < l.month)) LIMIT 100";

const fn both(sql: &'static str) -> Check {
    Check { sql: Sql { sqlite: sql, postgres: sql }, given: &[] }
}

pub(super) const CHECKS: &[Check] = &[both(OWN), both(LINES)];
