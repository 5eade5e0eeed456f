//! Transfers: each has one beginning and at most one end, both with the same facts, and balances are their sums.

use super::Check;
use super::words::{month_start, transfer_facts, transfers_differ};
use crate::database::Sql;

const ENDS: &str = concat!(
    "SELECT CASE WHEN e.phase = 'voided' AND p.transfer_id IS NOT NULL AND EXISTS (SELECT 1 FROM transfers b \
     WHERE b.transfer_id = e.transfer_id AND b.phase = 'posted') THEN 'a transfer was posted and voided' \
     ELSE 'the end of a transfer differs from its beginning' END AS what, e.account_id, 'transfer ' || e.transfer_id AS of, \
     COALESCE(",
    transfer_facts!("p"),
    " || ', from ' || CAST(p.created_at AS TEXT) || ' us', '1 pending row') AS expected, \
     e.phase || ': ' || ",
    transfer_facts!("e"),
    " || ', at ' || CAST(e.created_at AS TEXT) || ' us' AS found \
     FROM transfers e LEFT JOIN transfers p ON p.transfer_id = e.transfer_id AND p.phase = 'pending' \
     WHERE e.phase <> 'pending' AND (p.account_id IS NULL OR ",
    transfers_differ!("p", "e"),
    // The posting may charge less than was reserved. The clocks of two nodes differ by less than a day.
    " OR p.nano_usd < e.nano_usd OR e.created_at < p.created_at - 86400000000 OR (e.phase = 'voided' AND (p.nano_usd <> e.nano_usd OR EXISTS (SELECT 1 FROM transfers b \
     WHERE b.transfer_id = e.transfer_id AND b.phase = 'posted')))) LIMIT 100"
);

const BEGINNINGS: &str = concat!(
    "SELECT CASE WHEN o.transfer_id IS NULL AND e.transfer_id IS NULL THEN 'a transfer has no end and is not open' \
     WHEN o.transfer_id IS NOT NULL AND e.transfer_id IS NOT NULL THEN 'a transfer has an end and is open' \
     WHEN p.fcu = 0 AND p.nano_usd > 0 THEN 'a transfer without compute units has a price of compute units' \
     ELSE 'a transfer belongs to another month than its beginning' END AS what, p.account_id, 'transfer ' || p.transfer_id AS of, \
     CASE WHEN (o.transfer_id IS NULL) = (e.transfer_id IS NULL) THEN '1 open reservation or 1 end' \
     WHEN p.fcu = 0 AND p.nano_usd > 0 THEN '0 nano_usd for 0 fcu' \
     ELSE 'begun from ' || CAST(",
    month_start!("p.month"),
    " AS TEXT) || ' us, in month ' || CAST(p.month AS TEXT) END AS expected, \
     CASE WHEN e.transfer_id IS NULL AND o.transfer_id IS NULL THEN '0' WHEN e.transfer_id IS NOT NULL AND o.transfer_id IS NOT NULL \
     THEN '2' WHEN p.fcu = 0 AND p.nano_usd > 0 THEN CAST(p.nano_usd AS TEXT) || ' nano_usd for 0 fcu' \
     ELSE 'begun at ' || CAST(p.created_at AS TEXT) || ' us, ' || CAST(p.trial_operations AS TEXT) || ' trial operations' END AS found \
     FROM transfers p LEFT JOIN open_reservations o ON o.transfer_id = p.transfer_id \
     LEFT JOIN transfers e ON e.transfer_id = p.transfer_id AND e.phase > 'pending' WHERE p.phase = 'pending' AND \
     ((o.transfer_id IS NULL) = (e.transfer_id IS NULL) OR (p.month = 0) <> (p.trial_operations > 0) OR (p.fcu = 0 AND p.nano_usd > 0) \
     OR (p.month <> 0 AND (p.created_at < ",
    month_start!("p.month"),
    " OR p.created_at >= ",
    month_start!("(p.month + 1)"),
    "))) LIMIT 100"
);

const OPEN: &str = concat!(
    "SELECT 'an open reservation differs from its transfer' AS what, o.account_id, 'transfer ' || o.transfer_id AS of, \
     COALESCE(",
    transfer_facts!("p"),
    " || ', at ' || CAST(p.created_at AS TEXT) || ' us', '1 pending row') AS expected, ",
    transfer_facts!("o"),
    " || ', at ' || CAST(o.created_at AS TEXT) || ' us' AS found FROM open_reservations o \
     LEFT JOIN transfers p ON p.transfer_id = o.transfer_id AND p.phase = 'pending' WHERE p.transfer_id IS NULL OR ",
    transfers_differ!("p", "o"),
    " OR p.nano_usd <> o.nano_usd OR p.created_at <> o.created_at LIMIT 100"
);

/// Sums of a side of the comparison of balances: `b` of balances, `t` of transfers and open reservations.
macro_rules! sums_of {
    ($side:literal) => {
        concat!(
            "CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN fcu ELSE 0 END) AS TEXT) || ' fcu, ' || \
             CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN nano_usd ELSE 0 END) AS TEXT) || ' nano_usd, ' || \
             CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN milli_yen ELSE 0 END) AS TEXT) || ' milli_yen, reserved ' || \
             CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN fcu_reserved ELSE 0 END) AS TEXT) || ' fcu, ' || \
             CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN nano_usd_reserved ELSE 0 END) AS TEXT) || ' nano_usd, ' || \
             CAST(SUM(CASE side WHEN '",
            $side,
            "' THEN milli_yen_reserved ELSE 0 END) AS TEXT) || ' milli_yen'"
        )
    };
}

macro_rules! differs {
    ($column:literal) => {
        concat!(
            "SUM(CASE side WHEN 'b' THEN ",
            $column,
            " ELSE 0 END) <> SUM(CASE side WHEN 't' THEN ",
            $column,
            " ELSE 0 END)"
        )
    };
}

/// Posted transfers are grouped by `$account`. On SQLite this is an expression, so that the table is read in its own
/// order: in the order of an index, each row would be looked up.
macro_rules! balances {
    ($account:literal) => {
        concat!(
    "SELECT 'a balance is not the sum of its transfers' AS what, account_id, \
     'month ' || CAST(month AS TEXT) || ' at ' || CAST(usd_milli_jpy AS TEXT) || ' milli_jpy/usd' AS of, ",
    sums_of!("t"), " AS expected, ", sums_of!("b"), " || CASE WHEN SUM(CASE side WHEN 'b' THEN 1 ELSE 0 END) = 0 THEN ' (no balance)' \
     ELSE '' END AS found FROM (\
     SELECT 'b' AS side, account_id, month, usd_milli_jpy, fcu, nano_usd, milli_yen, fcu_reserved, nano_usd_reserved, milli_yen_reserved \
     FROM ledger_balances UNION ALL \
     SELECT 't', account_id, month, usd_milli_jpy, SUM(fcu), SUM(nano_usd), SUM(milli_yen), 0, 0, 0 FROM transfers \
     WHERE phase = 'posted' AND month > 0 GROUP BY ", $account, ", month, usd_milli_jpy UNION ALL \
     SELECT 't', account_id, month, usd_milli_jpy, 0, 0, 0, fcu, nano_usd, milli_yen FROM open_reservations WHERE month > 0) s \
     GROUP BY account_id, month, usd_milli_jpy HAVING ",
    differs!("fcu"), " OR ", differs!("nano_usd"), " OR ", differs!("milli_yen"), " OR ", differs!("fcu_reserved"), " OR ",
    differs!("nano_usd_reserved"), " OR ", differs!("milli_yen_reserved"),
    // every transfer of a month has made its balance, also one that was given back
    " OR SUM(CASE side WHEN 'b' THEN 1 ELSE 0 END) <> 1 LIMIT 100"
        )
    };
}

/// A trial from before the ledger counts more operations than its transfers. `CROSS JOIN` makes SQLite begin with the
/// trials, which are few.
const TRIALS: &str = "SELECT 'a trial counts fewer operations than its transfers' AS what, t.account_id, 'trial' AS of, \
     CAST(s.operations AS TEXT) || ' operations' AS expected, CAST(t.operations_used AS TEXT) || ' operations' AS found \
     FROM trials t JOIN (SELECT x.account_id, SUM(CASE x.phase WHEN 'pending' THEN x.trial_operations \
     WHEN 'voided' THEN -x.trial_operations ELSE 0 END) AS operations FROM trials y CROSS JOIN transfers x \
     WHERE x.account_id = y.account_id GROUP BY x.account_id) s ON s.account_id = t.account_id WHERE t.operations_used < s.operations LIMIT 100";

const fn both(sql: &'static str) -> Check {
    Check { sql: Sql { sqlite: sql, postgres: sql }, given: &[] }
}

pub(super) const CHECKS: &[Check] = &[
    both(ENDS),
    both(BEGINNINGS),
    both(OPEN),
    Check { sql: Sql { sqlite: balances!("account_id || ''"), postgres: balances!("account_id") }, given: &[] },
    both(TRIALS),
];
