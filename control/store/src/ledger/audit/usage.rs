//! Usage rows: each posted transfer paid for exactly one, with the same account, price and moment.

use super::Check;
use crate::database::Sql;

/// The kind of fault of [`NUMBERS`]. [`ROWS`] names the rows.
pub(super) const NUMBERS_DIFFER: &str = "posted transfers and usage rows differ";

/// The facts of a posted transfer `x`, as far as a usage row has them too.
macro_rules! posted_facts {
    () => {
        "x.account_id || ', ' || CAST(x.trial_operations AS TEXT) || ' trial operations, ' || CAST(x.fcu AS TEXT) || ' fcu, ' || \
         CAST(x.nano_usd AS TEXT) || ' nano_usd, ' || CAST(x.milli_yen AS TEXT) || ' milli_yen, ' || \
         CAST(x.usd_milli_jpy AS TEXT) || ' milli_jpy/usd, at ' || CAST(x.created_at AS TEXT) || ' us'"
    };
}

/// Selects usage rows of one table that differ from their posted transfers `x`.
macro_rules! of_usage {
    ($what:literal, $table:literal, $facts:literal, $joins:literal, $differs:literal) => {
        concat!(
            "SELECT '", $what, "' AS what, u.account_id, 'usage ' || u.usage_id || ', transfer ' || COALESCE(u.transfer_id, 'none') AS of, \
             COALESCE(", posted_facts!(), ", CASE WHEN u.transfer_id IS NULL THEN '0 charged, a price of equal units' ELSE '1 posted transfer' END) AS expected, \
             u.account_id || ', ", $facts, ", at ' || CAST(u.created_at AS TEXT) || ' us, ' || u.environment AS found FROM ", $table,
            " u LEFT JOIN transfers x ON x.transfer_id = u.transfer_id AND x.phase = 'posted' ", $joins,
            " WHERE (u.transfer_id IS NOT NULL AND (x.transfer_id IS NULL OR x.account_id <> u.account_id OR x.created_at <> u.created_at \
             OR (x.trial_operations > 0) <> (u.environment = 'trial') \
             OR ((x.milli_yen > 0 OR x.nano_usd > 0) AND u.environment <> 'live'))) OR ", $differs, " LIMIT 100"
        )
    };
}

/// Gates. The price of a request is that of its bootstraps, all at one price.
const GATES: &str = of_usage!(
    "the charge for gates differs from its transfer",
    "gate_usage",
    "' || CAST(u.gates AS TEXT) || ' gates, ' || CAST(u.bootstrap_ops AS TEXT) || ' bootstraps, ' || CAST(u.cost_milli_yen AS TEXT) || ' milli_yen",
    "",
    "(x.trial_operations = 0 AND (x.milli_yen <> u.cost_milli_yen OR x.fcu <> 0)) \
     OR (x.trial_operations > 0 AND x.trial_operations <> u.gates) \
     OR CASE WHEN u.bootstrap_ops > 0 THEN u.cost_milli_yen % u.bootstrap_ops ELSE u.cost_milli_yen END <> 0"
);

/// Operations on encrypted numbers. What is charged are units of one price, at most all of the operation's.
const NUMBERS_OF_UNITS: &str = of_usage!(
    "the compute units of an operation differ from its transfer",
    "arithmetic_usage",
    "' || CAST(u.fcu AS TEXT) || ' fcu at ' || CAST(u.cost_nano_usd AS TEXT) || ' nano_usd, ' || CAST(u.usd_milli_jpy AS TEXT) || ' milli_jpy/usd, reserved ' || \
     COALESCE(CAST(p.nano_usd AS TEXT), 'none') || ' nano_usd",
    "LEFT JOIN transfers p ON p.transfer_id = u.transfer_id AND p.phase = 'pending'",
    "(x.trial_operations = 0 AND (x.fcu <> u.fcu OR x.milli_yen <> 0 OR x.usd_milli_jpy <> u.usd_milli_jpy)) \
     OR x.trial_operations > 1 OR u.cost_nano_usd % u.fcu <> 0 OR p.nano_usd > u.cost_nano_usd \
     OR CASE WHEN u.cost_nano_usd >= u.fcu THEN x.nano_usd % (u.cost_nano_usd / u.fcu) + p.nano_usd % (u.cost_nano_usd / u.fcu) ELSE 0 END <> 0"
);

/// The back office. A call has the id of its transfer, and both began at the same moment.
const OFFICE: &str = of_usage!(
    "the charge for a call of the back office differs from its transfer",
    "office_usage",
    "' || CAST(u.units AS TEXT) || ' units, ' || CAST(u.milli_yen AS TEXT) || ' milli_yen",
    "",
    "(u.transfer_id IS NULL AND u.milli_yen <> 0) OR u.transfer_id <> u.usage_id OR x.milli_yen <> u.milli_yen OR x.fcu <> 0 \
     OR u.environment = 'trial' OR CASE WHEN u.units > 0 THEN u.milli_yen % u.units ELSE u.milli_yen END <> 0"
);

/// Every usage row has its transfer, so numbers and sums that agree mean that every transfer has its usage row.
const NUMBERS: &str = "SELECT 'posted transfers and usage rows differ' AS what, '' AS account_id, 'all transfers' AS of, \
     CAST(t.number AS TEXT) || ' usage rows, ' || CAST(t.moments AS TEXT) || ' us modulo 2147483647 in all' AS expected, \
     CAST(u.number AS TEXT) || ' usage rows, ' || CAST(u.moments AS TEXT) || ' us modulo 2147483647 in all' AS found FROM \
     (SELECT COUNT(*) AS number, COALESCE(SUM(created_at % 2147483647), 0) AS moments FROM transfers WHERE phase = 'posted') t, \
     (SELECT SUM(number) AS number, SUM(moments) AS moments FROM (\
     SELECT COUNT(*) AS number, COALESCE(SUM(created_at % 2147483647), 0) AS moments FROM gate_usage WHERE transfer_id IS NOT NULL UNION ALL \
     SELECT COUNT(*), COALESCE(SUM(created_at % 2147483647), 0) FROM arithmetic_usage WHERE transfer_id IS NOT NULL UNION ALL \
     SELECT COUNT(*), COALESCE(SUM(created_at % 2147483647), 0) FROM office_usage WHERE transfer_id IS NOT NULL) a) u \
     WHERE t.number <> u.number OR t.moments <> u.moments";

/// The transfers that have no usage row or several.
const ROWS_SQL: &str = "SELECT 'a posted transfer has not one usage row' AS what, x.account_id, 'transfer ' || x.transfer_id AS of, \
     '1 usage row for ' || CAST(x.trial_operations AS TEXT) || ' trial operations, ' || CAST(x.fcu AS TEXT) || ' fcu, ' || \
     CAST(x.nano_usd AS TEXT) || ' nano_usd, ' || CAST(x.milli_yen AS TEXT) || ' milli_yen' AS expected, \
     CAST(COALESCE(u.number, 0) AS TEXT) || ' usage rows' AS found FROM transfers x LEFT JOIN (SELECT transfer_id, COUNT(*) AS number FROM (\
     SELECT transfer_id FROM gate_usage WHERE transfer_id IS NOT NULL UNION ALL \
     SELECT transfer_id FROM arithmetic_usage WHERE transfer_id IS NOT NULL UNION ALL \
     SELECT transfer_id FROM office_usage WHERE transfer_id IS NOT NULL) a GROUP BY transfer_id) u ON u.transfer_id = x.transfer_id \
     WHERE x.phase = 'posted' AND COALESCE(u.number, 0) <> 1 LIMIT 100";

const fn both(sql: &'static str) -> Check {
    Check { sql: Sql { sqlite: sql, postgres: sql }, given: &[] }
}

pub(super) const ROWS: Check = both(ROWS_SQL);

pub(super) const CHECKS: &[Check] = &[both(GATES), both(NUMBERS_OF_UNITS), both(OFFICE), both(NUMBERS)];
