//! A ledger of many transfers, each with its usage row, written by statements of many rows.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};
use store::{InvoiceItem, Store};

/// Number of accounts. Each has as many transfers, in runs of ten.
const ACCOUNTS: i64 = 1000;
/// The first moment of August 2026, in microseconds since 1970. The transfers are of August, September and October.
const AUGUST: i64 = 1_785_542_400_000_000;
const DAY: i64 = 86_400_000_000;
/// Number of transfers that one statement writes.
const AT_ONCE: i64 = 500_000;

/// The moment at which all months of the filled ledger are over and billed, in microseconds since 1970.
pub const FILLED: i64 = AUGUST + 93 * DAY;

/// The forms of a statement that differ between the databases.
struct Words {
    /// Begins a query that reads the whole numbers `n` from FROM to TO.
    numbers: &'static str,
    id: fn(&str, &str) -> String,
    digest: fn(&str) -> String,
}

const SQLITE: Words = Words {
    numbers: "WITH RECURSIVE numbers(n) AS (SELECT FROM_ UNION ALL SELECT n + 1 FROM numbers WHERE n < TO_) ",
    id: |prefix, number| format!("printf('{prefix}_%032x', {number})"),
    digest: |number| format!("CAST(printf('%032d', {number}) AS BLOB)"),
};

const POSTGRES: Words = Words {
    numbers: "WITH numbers AS (SELECT n FROM generate_series(FROM_::bigint, TO_::bigint) n) ",
    id: |prefix, number| format!("'{prefix}_' || LPAD(TO_HEX({number}), 32, '0')"),
    digest: |number| format!("CONVERT_TO(LPAD(CAST({number} AS TEXT), 32, '0'), 'UTF8')"),
};

enum Beside {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Beside {
    async fn run(&mut self, sql: String) {
        let done = match self {
            Beside::Sqlite(connection) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop),
            Beside::Postgres(connection) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop),
        };
        done.expect("the statement runs");
    }

    async fn texts(&mut self, sql: &'static str) -> Vec<(String, String)> {
        match self {
            Beside::Sqlite(connection) => {
                let rows = sqlx::query(sql).fetch_all(connection).await.expect("rows");
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
            Beside::Postgres(connection) => {
                let rows = sqlx::query(sql).fetch_all(connection).await.expect("rows");
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }
}

/// Fills a new database with posted transfers of 1,000 accounts over three months, their usage rows, balances, counts,
/// and invoices of all months: of ten transfers six are of gates, three of operations on numbers, one of the back office.
///
/// # Panics
/// If the database does not answer.
pub async fn fill_ledger(url: &str, transfers: i64) {
    let store = Store::open(url).await.expect("a new database");
    let (mut beside, words) = if url.starts_with("sqlite:") {
        let mut file = SqliteConnection::connect(url).await.expect("the file opens");
        sqlx::raw_sql("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000")
            .execute(&mut file)
            .await
            .expect("a setting");
        (Beside::Sqlite(file), SQLITE)
    } else {
        (Beside::Postgres(PgConnection::connect(url).await.expect("a connection")), POSTGRES)
    };
    let indices = match &beside {
        Beside::Sqlite(_) => {
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND \
             tbl_name IN ('transfers', 'gate_usage', 'arithmetic_usage')"
        }
        Beside::Postgres(_) => {
            "SELECT CAST(indexname AS TEXT), indexdef FROM pg_indexes WHERE indexname NOT LIKE '%_pkey' AND \
             tablename IN ('transfers', 'gate_usage', 'arithmetic_usage')"
        }
    };
    // indices are made after the rows, which is faster
    let indices = beside.texts(indices).await;
    for (name, _) in &indices {
        beside.run(format!("DROP INDEX {name}")).await;
    }
    let id = |prefix: &str, number: &str| (words.id)(prefix, number);
    let numbers =
        |from: i64, to: i64| words.numbers.replace("FROM_", &from.to_string()).replace("TO_", &to.to_string());
    let accounts = numbers(0, ACCOUNTS - 1);
    let account = id("acct", "n");
    beside
        .run(format!("{accounts}INSERT INTO accounts (account_id, created_at) SELECT {account}, 5 FROM numbers"))
        .await;
    let digest = (words.digest)("n");
    beside
        .run(format!(
            "{accounts}INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, \
             expires_at) SELECT {digest}, {account}, 'live', 'fast_128', TRUE, 'expired', 5, 6 FROM numbers"
        ))
        .await;
    let interval = 91 * DAY / transfers;
    let work = format!(
        "(SELECT n, n / 10 * 7919 % {ACCOUNTS} AS a, n % 10 AS k, {AUGUST} + n * {interval} AS t, 24319 + \
         CASE WHEN n * {interval} >= {september} THEN 1 ELSE 0 END + CASE WHEN n * {interval} >= {october} THEN 1 ELSE 0 END AS m \
         FROM numbers) w",
        september = 31 * DAY,
        october = 61 * DAY
    );
    let (account, transfer, usage, lineage) = (id("acct", "a"), id("xfr", "n"), id("use", "n"), id("lin", "a"));
    let digest = (words.digest)("a");
    for from in (0..transfers).step_by(AT_ONCE as usize) {
        let numbers = numbers(from, (from + AT_ONCE).min(transfers) - 1);
        for sql in [
            format!(
                "INSERT INTO transfers (transfer_id, phase, account_id, month, usd_milli_jpy, trial_operations, fcu, nano_usd, \
                 milli_yen, node_id, created_at) SELECT {transfer}, p, {account}, m, 150000, 0, \
                 CASE WHEN k BETWEEN 6 AND 8 THEN 5 ELSE 0 END, CASE WHEN k BETWEEN 6 AND 8 THEN 10000 ELSE 0 END, \
                 CASE WHEN k < 6 THEN 100 WHEN k = 9 THEN 10000 ELSE 0 END, 'node_1', \
                 t + CASE WHEN p = 'posted' AND k < 9 THEN 100000 ELSE 0 END \
                 FROM {work}, (SELECT 'pending' AS p UNION ALL SELECT 'posted') phases ORDER BY n, p"
            ),
            format!(
                "INSERT INTO gate_usage (usage_id, session_digest, account_id, environment, gates, by_gate, bootstrap_ops, \
                 bootstraps_done, cost_milli_yen, compute_us, created_at, transfer_id) SELECT {usage}, {digest}, {account}, 'live', \
                 1, '{{\"NAND\":1}}', 1, 1, 100, 9000, t + 100000, {transfer} FROM {work} WHERE k < 6 ORDER BY n"
            ),
            format!(
                "INSERT INTO arithmetic_usage (usage_id, account_id, key_id, environment, operation, fcu, cost_nano_usd, \
                 usd_milli_jpy, compute_us, created_at, transfer_id) SELECT {usage}, {account}, 'key_1', 'live', 'multiply', 5, 10000, \
                 150000, 9000, t + 100000, {transfer} FROM {work} WHERE k BETWEEN 6 AND 8 ORDER BY n"
            ),
            format!(
                "INSERT INTO office_usage (usage_id, transfer_id, account_id, lineage_id, environment, operation, units, milli_yen, \
                 created_at) SELECT {transfer}, {transfer}, {account}, {lineage}, 'live', 'receipt', 1, 10000, t FROM {work} WHERE k = 9 ORDER BY n"
            ),
        ] {
            beside.run(format!("{numbers}{sql}")).await;
        }
        eprintln!("{} of {transfers} transfers", (from + AT_ONCE).min(transfers));
    }
    let named = "CASE WHEN fcu > 0 THEN 'multiply' WHEN milli_yen = 100 THEN 'gate_nand' ELSE 'office_receipt' END";
    for sql in [
        "INSERT INTO ledger_balances (account_id, month, usd_milli_jpy, fcu, fcu_reserved, nano_usd, nano_usd_reserved, milli_yen, \
         milli_yen_reserved) SELECT account_id, month, 150000, SUM(fcu), 0, SUM(nano_usd), 0, SUM(milli_yen), 0 FROM transfers \
         WHERE phase = 'posted' GROUP BY account_id, month"
            .to_owned(),
        format!(
            "INSERT INTO operation_counts (account_id, month, operation, count) SELECT account_id, month, {named}, COUNT(*) \
             FROM transfers WHERE phase = 'pending' GROUP BY account_id, month, {named}"
        ),
        "INSERT INTO office_totals (account_id, month, lineage_id, operation, calls, units, milli_yen) SELECT account_id, month, \
         REPLACE(account_id, 'acct_', 'lin_'), 'receipt', count, count, 10000 * count FROM operation_counts \
         WHERE operation = 'office_receipt'"
            .to_owned(),
        "UPDATE gate_sessions SET gates_used = (SELECT SUM(count) FROM operation_counts c WHERE c.account_id = gate_sessions.account_id \
         AND operation = 'gate_nand')"
            .to_owned(),
        "UPDATE gate_sessions SET total_cost_milli_yen = 100 * gates_used".to_owned(),
    ] {
        beside.run(sql).await;
    }
    for (_, sql) in indices {
        beside.run(sql).await;
    }
    if matches!(beside, Beside::Postgres(_)) {
        beside.run("ANALYZE".to_owned()).await;
    }
    bill(&store, beside).await;
}

/// Makes the invoices of all months.
async fn bill(store: &Store, mut beside: Beside) {
    let billed = beside.texts("SELECT account_id, CAST(month AS TEXT) FROM ledger_balances").await;
    drop(beside);
    for (account, month) in billed {
        let month: i64 = month.parse().expect("a number");
        let spent = store.used_in_month(&account, month).await.expect("a month").spend.cents();
        let first_day = |month: i64| AUGUST + [0, 31, 61, 92][(month - 24_319) as usize] * DAY;
        let now = first_day(month + 1) + 5;
        let line = InvoiceItem {
            item_id: InvoiceItem::usage_id(&account, month),
            account_id: account.clone(),
            month,
            description: "use".to_owned(),
            amount_usd_cents: spent,
            invoice_id: format!("inv_{account}_{month}"),
            created_at: now,
        };
        let invoice = store::Invoice {
            invoice_id: line.invoice_id.clone(),
            account_id: account.clone(),
            month,
            status: store::InvoiceState::Open,
            amount_usd_cents: spent,
            period_start: first_day(month),
            period_end: first_day(month + 1),
            issued_at: now,
            paid_at: 0,
            url: String::new(),
            failures: 0,
            is_provided: false,
            due_at: now + 30 * DAY,
        };
        let wrote: store::Result<()> = store
            .write(async |tx| {
                tx.close_month(&account, month, now).await?;
                tx.add_invoice_item(&line).await?;
                tx.put_invoice(&invoice, now).await.map(drop)
            })
            .await;
        wrote.expect("an invoice");
    }
}
