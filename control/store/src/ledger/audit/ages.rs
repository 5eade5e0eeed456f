//! Ages: nothing that ends within moments is older than a day.

use super::{Check, Given};
use crate::database::Sql;

/// Selects the rows of a table whose moment is more than a day ago.
macro_rules! older_than_a_day {
    ($what:literal, $account:literal, $of:literal, $since:literal, $from:literal) => {
        concat!(
            "SELECT '",
            $what,
            "' AS what, ",
            $account,
            " AS account_id, ",
            $of,
            " AS of, 'at most 24 hours' AS expected, \
             CAST(($1 - ",
            $since,
            ") / 3600000000 AS TEXT) || ' hours, since ' || CAST(",
            $since,
            " AS TEXT) || ' us' AS found FROM ",
            $from,
            " AND ",
            $since,
            " < $1 - 86400000000 LIMIT 100"
        )
    };
}

const fn both(sql: &'static str) -> Check {
    Check { sql: Sql { sqlite: sql, postgres: sql }, given: &[Given::Now] }
}

pub(super) const CHECKS: &[Check] = &[
    both(older_than_a_day!(
        "a reservation is open",
        "account_id",
        "'transfer ' || transfer_id",
        "created_at",
        "open_reservations WHERE TRUE"
    )),
    both(older_than_a_day!(
        "an event of the payment provider is not processed",
        "''",
        "status || ' event ' || event_id",
        "received_at",
        "provider_events WHERE status IN ('pending', 'stuck')"
    )),
    both(older_than_a_day!(
        "an e-mail is overdue",
        "''",
        "'e-mail ' || email_id",
        "due_at",
        "emails WHERE status = 'pending'"
    )),
    both(older_than_a_day!(
        "a delivery to a webhook is overdue",
        "account_id",
        "'event ' || event_id || ' to ' || webhook_id",
        "due_at",
        "deliveries WHERE status = 'pending'"
    )),
];
