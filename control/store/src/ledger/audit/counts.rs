//! Numbers of operations and sums of the back office: they are those of the usage rows.

use super::words::first_day;
use super::{Check, Given};
use crate::database::Sql;

/// Counts of operations by name. Work belongs to the month in which it was accepted, but a usage row has the moment at
/// which the work ended. So a row of the first day of a month may be counted in the month before. `$json` lists the gates
/// of a request. On SQLite, `$in_order` reads a table in its own order: in the order of an index, each row would be
/// looked up.
macro_rules! counts {
    ($json:literal, $in_order:literal) => {
        concat!(
            "WITH gates AS MATERIALIZED (SELECT account_id, created_at / 86400000000 AS day, CASE environment WHEN 'trial' THEN 0 ELSE 1 END \
             AS is_counted, by_gate, COUNT(*) AS rows_of, SUM(gates) AS gates, SUM(cost_milli_yen) AS milli_yen FROM gate_usage", $in_order, " \
             GROUP BY account_id, created_at / 86400000000, CASE environment WHEN 'trial' THEN 0 ELSE 1 END, by_gate), \
             names AS MATERIALIZED (SELECT by_gate, key AS gate, CAST(value AS BIGINT) AS gates \
             FROM (SELECT DISTINCT by_gate FROM gates) d, ", $json, "), \
             days AS (SELECT account_id, day, 'gate_' || LOWER(n.gate) AS operation, rows_of * n.gates AS number \
             FROM gates g JOIN names n ON n.by_gate = g.by_gate WHERE is_counted = 1 UNION ALL \
             SELECT account_id, created_at / 86400000000, operation, COUNT(*) FROM arithmetic_usage", $in_order, " WHERE environment <> 'trial' \
             GROUP BY account_id, created_at / 86400000000, operation UNION ALL \
             SELECT account_id, created_at / 86400000000, 'office_' || operation, COUNT(*) FROM office_usage \
             GROUP BY account_id, created_at / 86400000000, operation), \
             eras AS (SELECT account_id, operation, number, day, (day + 719468) / 146097 AS era, (day + 719468) % 146097 AS of_era FROM days), \
             years AS (SELECT account_id, operation, number, day, era * 400 AS era, of_era, \
             (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365 AS year FROM eras), \
             dated AS (SELECT account_id, operation, number, day, (year + era) * 12 + \
             (5 * (of_era - (365 * year + year / 4 - year / 100)) + 2) / 153 + 2 AS month FROM years), \
             months AS MATERIALIZED (SELECT account_id, operation, month, \
             SUM(CASE WHEN day = ", first_day!("month"), " THEN 0 ELSE number END) AS sure, \
             SUM(CASE WHEN day = ", first_day!("month"), " THEN number ELSE 0 END) AS early FROM dated WHERE month >= $1 \
             GROUP BY account_id, operation, month), \
             sides AS MATERIALIZED (SELECT account_id, operation, month, sure, early, 0 AS count FROM months UNION ALL \
             SELECT account_id, operation, month - 1, 0, early, 0 FROM months WHERE month > $1 UNION ALL \
             SELECT account_id, operation, month, 0, 0, count FROM operation_counts WHERE month >= $1) \
             SELECT * FROM (SELECT 'a count of operations is not that of the usage rows' AS what, account_id, \
             operation || ' in month ' || CAST(month AS TEXT) AS of, CAST(SUM(sure) AS TEXT) || CASE WHEN SUM(early) > 0 \
             THEN ' to ' || CAST(SUM(sure) + SUM(early) AS TEXT) ELSE '' END || ' operations' AS expected, \
             CAST(SUM(count) AS TEXT) || ' operations' AS found FROM sides GROUP BY account_id, operation, month \
             HAVING SUM(count) < SUM(sure) OR SUM(count) > SUM(sure) + SUM(early) LIMIT 100) m UNION ALL \
             SELECT * FROM (SELECT 'a count of operations is not that of the usage rows', account_id, operation || ' in all months', \
             CAST(SUM(number) AS TEXT) || ' operations', CAST(SUM(count) AS TEXT) || ' operations' FROM (\
             SELECT account_id, operation, sure + early AS number, 0 AS count FROM months UNION ALL \
             SELECT account_id, operation, 0, count FROM operation_counts WHERE month >= $1) a GROUP BY account_id, operation \
             HAVING SUM(number) <> SUM(count) AND ($1 = 0 OR SUM(number) < SUM(count)) LIMIT 100) t UNION ALL \
             SELECT * FROM (SELECT 'the gates of usage rows are not those of their kinds', account_id, 'usage on day ' || CAST(day AS TEXT) || ' with ' || g.by_gate, \
             CAST(rows_of * COALESCE(n.gates, 0) AS TEXT) || ' gates', CAST(g.gates AS TEXT) || ' gates' FROM gates g \
             LEFT JOIN (SELECT by_gate, SUM(gates) AS gates FROM names GROUP BY by_gate) n ON n.by_gate = g.by_gate \
             WHERE rows_of * COALESCE(n.gates, 0) <> g.gates LIMIT 100) k UNION ALL \
             SELECT * FROM (SELECT 'the sums of gate sessions are not those of the usage rows', account_id, 'all sessions', \
             CAST(SUM(gates) AS TEXT) || ' gates, ' || CAST(SUM(milli_yen) AS TEXT) || ' milli_yen', \
             CAST(SUM(gates_used) AS TEXT) || ' gates, ' || CAST(SUM(cost) AS TEXT) || ' milli_yen' FROM (\
             SELECT account_id, gates, milli_yen, 0 AS gates_used, 0 AS cost FROM gates UNION ALL \
             SELECT account_id, 0, 0, gates_used, total_cost_milli_yen FROM gate_sessions) a GROUP BY account_id \
             HAVING SUM(gates) <> SUM(gates_used) OR SUM(milli_yen) <> SUM(cost) LIMIT 100) s"
        )
    };
}

/// The sums of a side: `u` of usage rows, `t` of totals.
macro_rules! sums {
    ($side:literal) => {
        concat!(
            "CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN calls ELSE 0 END) AS TEXT) || ' calls, ' || \
             CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN units ELSE 0 END) AS TEXT) || ' units, ' || \
             CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN milli_yen ELSE 0 END) AS TEXT) || ' milli_yen'"
        )
    };
}

macro_rules! differs {
    ($column:literal) => {
        concat!("SUM(CASE side WHEN 'u' THEN ", $column, " ELSE -", $column, " END) <> 0")
    };
}

/// Sums of the back office, by key, month and operation. A call is accepted and charged at one moment.
const OFFICE: &str = concat!(
    "WITH days AS MATERIALIZED (SELECT account_id, lineage_id, operation, created_at / 86400000000 AS day, COUNT(*) AS calls, \
     SUM(units) AS units, SUM(milli_yen) AS milli_yen FROM office_usage GROUP BY account_id, lineage_id, operation, \
     created_at / 86400000000), eras AS (SELECT account_id, lineage_id, operation, calls, units, milli_yen, \
     (day + 719468) / 146097 AS era, (day + 719468) % 146097 AS of_era FROM days), \
     years AS (SELECT account_id, lineage_id, operation, calls, units, milli_yen, era * 400 AS era, of_era, \
     (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365 AS year FROM eras), \
     sides AS (SELECT 'u' AS side, account_id, lineage_id, operation, (year + era) * 12 + \
     (5 * (of_era - (365 * year + year / 4 - year / 100)) + 2) / 153 + 2 AS month, calls, units, milli_yen FROM years UNION ALL \
     SELECT 't', account_id, lineage_id, operation, month, calls, units, milli_yen FROM office_totals) \
     SELECT 'a sum of the back office is not that of its calls' AS what, account_id, \
     operation || ' of ' || lineage_id || ' in month ' || CAST(month AS TEXT) AS of, ",
    sums!("u"),
    " AS expected, ",
    sums!("t"),
    " AS found FROM sides GROUP BY account_id, lineage_id, operation, month HAVING ",
    differs!("calls"),
    " OR ",
    differs!("units"),
    " OR ",
    differs!("milli_yen"),
    " LIMIT 100"
);

pub(super) const CHECKS: &[Check] = &[
    Check {
        sql: Sql {
            sqlite: counts!("json_each(d.by_gate)", " NOT INDEXED"),
            postgres: counts!("json_each_text(d.by_gate::json)", ""),
        },
        given: &[Given::CountedFrom],
    },
    Check { sql: Sql { sqlite: OFFICE, postgres: OFFICE }, given: &[] },
];
