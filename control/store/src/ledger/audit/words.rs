//! Parts of the audit's statements, which are the same on both databases.

/// The first day of a month (months since year 0), in days since 1970. `$month` is an expression of SQL. The calendar
/// begins in March of year 0, so that leap days are the last days of years.
macro_rules! first_day {
    ($month:literal) => {
        concat!(
            "(365 * ((",
            $month,
            " - 2) / 12) + (",
            $month,
            " - 2) / 48 - (",
            $month,
            " - 2) / 1200 + (",
            $month,
            " - 2) / 4800 + (153 * ((",
            $month,
            " - 2) % 12) + 2) / 5 - 719468)"
        )
    };
}

/// The first moment of a month, in microseconds since 1970.
macro_rules! month_start {
    ($month:literal) => {
        concat!("(86400000000 * ", $crate::ledger::audit::words::first_day!($month), ")")
    };
}

/// The facts of a transfer as a text. `$of` is the name of a row.
macro_rules! transfer_facts {
    ($of:literal) => {
        concat!(
            $of,
            ".account_id || ', month ' || CAST(",
            $of,
            ".month AS TEXT) || ', ' || CAST(",
            $of,
            ".usd_milli_jpy AS TEXT) || ' milli_jpy/usd, ' || CAST(",
            $of,
            ".trial_operations AS TEXT) || ' trial operations, ' || CAST(",
            $of,
            ".fcu AS TEXT) || ' fcu, ' || CAST(",
            $of,
            ".nano_usd AS TEXT) || ' nano_usd, ' || CAST(",
            $of,
            ".milli_yen AS TEXT) || ' milli_yen, ' || ",
            $of,
            ".node_id"
        )
    };
}

/// Whether two transfers differ in a fact that never changes: in any but the price of compute units. `$b` is the later one. Its node is
/// the fleet ([`crate::FLEET`]) if the operation waited in the line of a fleet.
macro_rules! transfers_differ {
    ($a:literal, $b:literal) => {
        concat!(
            $a,
            ".account_id <> ",
            $b,
            ".account_id OR ",
            $a,
            ".month <> ",
            $b,
            ".month OR ",
            $a,
            ".usd_milli_jpy <> ",
            $b,
            ".usd_milli_jpy OR ",
            "(",
            $a,
            ".node_id <> ",
            $b,
            ".node_id AND ",
            $b,
            ".node_id <> 'fleet') OR ",
            $a,
            ".trial_operations <> ",
            $b,
            ".trial_operations OR ",
            $a,
            ".fcu <> ",
            $b,
            ".fcu OR ",
            $a,
            ".milli_yen <> ",
            $b,
            ".milli_yen"
        )
    };
}

pub(super) use {first_day, month_start, transfer_facts, transfers_differ};
