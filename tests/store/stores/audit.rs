//! The audit sees every change: an honest database is clean, and each row that is deleted, doubled or altered is found
//! with both numbers.

use api::billing::BillingCycle;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};

use super::*;

const DAY: i64 = 86_400_000_000;
const MARCH: (i64, i64) = (JANUARY + 2, 59 * DAY);
/// The moment of the audits: the first two months are billed, and the third is under way.
const NOW: i64 = MARCH.1 + 10 * DAY;

/// A table that the audit checks. All its columns are tried but those in [`WORDS`].
struct Table {
    name: &'static str,
    /// The primary key. A copy of a row differs in the first of these columns.
    key: &'static [&'static str],
}

const TABLES: &[Table] = &[
    Table { name: "transfers", key: &["transfer_id", "phase"] },
    Table { name: "open_reservations", key: &["transfer_id"] },
    Table { name: "ledger_balances", key: &["usd_milli_jpy", "account_id", "month"] },
    Table { name: "gate_usage", key: &["usage_id"] },
    Table { name: "arithmetic_usage", key: &["usage_id"] },
    Table { name: "office_usage", key: &["usage_id"] },
    Table { name: "office_totals", key: &["operation", "account_id", "month", "lineage_id"] },
    Table { name: "operation_counts", key: &["operation", "account_id", "month"] },
    Table { name: "invoices", key: &["invoice_id"] },
    Table { name: "invoice_items", key: &["item_id"] },
    Table { name: "closed_months", key: &["month", "account_id"] },
    Table { name: "usage_bills", key: &["month", "account_id"] },
];

/// Columns that the audit does not check, each with the reason.
const WORDS: &[(&str, &str, &str)] = &[
    ("gate_usage", "usage_id", "a random name that no other row has"),
    ("arithmetic_usage", "usage_id", "a random name that no other row has"),
    ("gate_usage", "session_digest", "sums of sessions are compared by account"),
    ("gate_usage", "bootstraps_done", "a measurement of the engine, which is not charged"),
    ("gate_usage", "compute_us", "a measurement of the engine, which is not charged"),
    ("arithmetic_usage", "compute_us", "a measurement of the engine, which is not charged"),
    ("arithmetic_usage", "key_id", "the key that was used, which is not charged"),
    ("invoices", "issued_at", "only that the month was over then counts"),
    ("invoices", "paid_at", "of a paid invoice, only that it was paid counts"),
    ("invoices", "url", "words"),
    ("invoices", "due_at", "a day that was agreed with the customer"),
    ("invoices", "notice", "a notice to the customer, which changes no amount"),
    ("invoices", "notice_at", "when the next notice is due, which changes no amount"),
    ("invoices", "failures", "of a provider's invoice, the provider's number of attempts"),
    ("invoices", "period_start", "of a provider's invoice, the provider's period"),
    ("invoices", "period_end", "of a provider's invoice, the provider's period"),
    ("invoice_items", "description", "words"),
    ("invoice_items", "created_at", "when the line was written, which changes no amount"),
    ("closed_months", "closed_at", "only that the month was over then counts"),
    ("usage_bills", "attempt", "a part of idempotency keys"),
    ("usage_bills", "attempted_at", "when the last attempt began, which changes no amount"),
];

/// Returns another value of a column of texts.
fn other_text(column: &str, value: &str) -> String {
    let choices: &[&str] = match column {
        "account_id" => &["acct_a", "acct_b"],
        "phase" => &["voided", "posted"],
        "status" => &["paid", "open"],
        "environment" => &["trial", "live"],
        "by_gate" => &[r#"{"NAND":99}"#],
        "usage_id" | "transfer_id" | "invoice_id" | "item_id" | "operation" | "lineage_id" | "node_id" => &["other"],
        _ => panic!("no other value of {column}"),
    };
    (*choices.iter().find(|choice| **choice != value).unwrap()).to_owned()
}

/// A connection beside those of the store.
enum Beside {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// A database whose rows are changed behind the store's back.
struct Opened {
    store: Store,
    beside: Beside,
}

impl Opened {
    async fn run(&mut self, sql: String) -> u64 {
        let done = self.try_run(sql.clone()).await;
        done.unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    async fn try_run(&mut self, sql: String) -> sqlx::Result<u64> {
        let query = AssertSqlSafe(sql);
        match &mut self.beside {
            Beside::Sqlite(connection) => sqlx::query(query).execute(connection).await.map(|done| done.rows_affected()),
            Beside::Postgres(connection) => {
                sqlx::query(query).execute(connection).await.map(|done| done.rows_affected())
            }
        }
    }

    /// Returns rows as texts. `NULL` is empty.
    async fn texts(&mut self, sql: String) -> Vec<Vec<String>> {
        match &mut self.beside {
            Beside::Sqlite(connection) => {
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await.unwrap();
                rows.iter().map(|row| (0..row.len()).map(|at| row.get(at)).collect()).collect()
            }
            Beside::Postgres(connection) => {
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await.unwrap();
                rows.iter().map(|row| (0..row.len()).map(|at| row.get(at)).collect()).collect()
            }
        }
    }

    /// Returns the names and types of a table's columns.
    async fn columns(&mut self, table: &str) -> Vec<(String, String)> {
        let sql = match self.beside {
            Beside::Sqlite(_) => format!("SELECT name, LOWER(type) FROM pragma_table_info('{table}') ORDER BY cid"),
            Beside::Postgres(_) => format!(
                "SELECT CAST(column_name AS TEXT), CAST(data_type AS TEXT) FROM information_schema.columns \
                 WHERE table_name = '{table}' AND table_schema = 'public' ORDER BY ordinal_position"
            ),
        };
        self.texts(sql).await.into_iter().map(|column| (column[0].clone(), column[1].clone())).collect()
    }

    async fn audit(&self) -> Vec<AuditFinding> {
        self.store.audit_ledger(NOW).await.unwrap().findings
    }

    /// Runs a statement that changes one row, checks that the audit finds the change and names two facts, and restores
    /// the table.
    async fn is_found(&mut self, table: &str, sql: String, missed: &mut Vec<String>) {
        match self.try_run(sql.clone()).await {
            Ok(changed) => assert_eq!(changed, 1, "{sql}"),
            // the database itself refuses this change
            Err(sqlx::Error::Database(why)) if why.is_unique_violation() || why.is_check_violation() => return,
            Err(why) => panic!("{sql}: {why}"),
        }
        let found = self.audit().await;
        let numbers = |text: &str| text.contains(|letter: char| letter.is_ascii_digit());
        if !found.iter().any(|one| one.expected != one.found && numbers(&one.expected) && numbers(&one.found)) {
            missed.push(format!("{sql}\n  {found:?}"));
        }
        self.run(format!("DELETE FROM {table}")).await;
        self.run(format!("INSERT INTO {table} SELECT * FROM saved_{table}")).await;
    }
}

/// Work to do: who pays, when, and for what.
struct Work {
    id: &'static str,
    account: &'static str,
    environment: Environment,
    at: (i64, i64),
    rate: i64,
    wanted: Option<Wanted>,
}

impl Work {
    fn reservation(&self) -> NewReservation {
        NewReservation {
            month: self.at.0,
            created_at: self.at.1,
            usd_milli_jpy: self.rate,
            ..reservation(&format!("xfr_{}", self.id), self.account, self.wanted.unwrap())
        }
    }

    async fn reserve(&self, store: &Store) {
        assert!(matches!(store.reserve(self.reservation()).await.unwrap(), Reserved::Made(_)), "{}", self.id);
    }

    /// Posts the reservation with its usage row, as a node does.
    async fn post(&self, store: &Store) {
        let (transfer_id, ended) = (format!("xfr_{}", self.id), self.at.1 + 7);
        let posting = self.wanted.map(|_| Posting {
            transfer_id: transfer_id.clone(),
            account_id: self.account.to_owned(),
            allowance: Some(10),
            nano_usd_of_unit: 2_000_000,
            at: ended,
        });
        let counted = |name: &str, count: i64| {
            (self.environment != Environment::Trial).then(|| OperationCounts {
                account_id: self.account.to_owned(),
                month: self.at.0,
                operations: vec![(name.to_owned(), count)],
            })
        };
        let unit = match self.wanted {
            Some(Wanted::Fcu { fcu, .. }) => Unit {
                arithmetic_charge: Some(ArithmeticUsage {
                    usage_id: format!("use_{}", self.id),
                    transfer_id: Some(transfer_id),
                    account_id: self.account.to_owned(),
                    key_id: "key_1".to_owned(),
                    environment: self.environment,
                    operation: "multiply".to_owned(),
                    fcu,
                    cost_nano_usd: 2_000_000 * fcu,
                    usd_milli_jpy: self.rate,
                    compute_us: 9,
                    created_at: ended,
                }),
                counts: counted("multiply", 1),
                ..Unit::default()
            },
            wanted => {
                let count = if let Some(Wanted::TrialOperations { count, .. }) = wanted { count } else { 50 };
                let by_account = if self.account == "acct_a" { 1 } else { 2 };
                let digest = if self.environment == Environment::Trial { 3 } else { by_account };
                let gates = GateUsage {
                    transfer_id: wanted.map(|_| transfer_id),
                    account_id: self.account.to_owned(),
                    environment: self.environment,
                    gates: count,
                    by_gate: format!(r#"{{"NAND":{count}}}"#),
                    bootstrap_ops: count,
                    bootstraps_done: count,
                    cost_milli_yen: 100 * count,
                    created_at: ended,
                    ..usage(&format!("use_{}", self.id), &[digest; 32])
                };
                Unit { counts: counted("gate_nand", count), ..charge(gates) }
            }
        };
        store.submit(Unit { posting, ..unit }).await.unwrap();
    }
}

/// Fills a database with each kind of thing that money is told by, through the store's own functions.
async fn fill(store: &Store) {
    for (n, account) in [(1, "acct_a"), (2, "acct_b")] {
        store.insert_api_key(&key(&[n; 32], account, account)).await.unwrap();
        open(store, &session(&[n; 32], account)).await;
    }
    let trial = NewApiKey {
        role: Role::Trial,
        environment: Environment::Trial,
        plan: Plan::Trial,
        expires_at: Some(NOW + DAY),
        ..key(&[3; 32], "ak_t", "acct_t")
    };
    let window = TrialWindow { network: &[9; 32], keys_max: 5, length: 60 };
    store.insert_trial_key(&trial, &[7; 52], window).await.unwrap();
    open(store, &session(&[3; 32], "acct_t")).await;
    store.take_job("months", "node_1", 1, 2).await.unwrap();

    let gates = Some(Wanted::MilliYen(5_000));
    let units = |fcu| Some(Wanted::Fcu { fcu, allowance: Some(10), beyond: BeyondAllowance::Charged(2_000_000) });
    let live = |id, account, at, rate, wanted| Work { id, account, environment: Environment::Live, at, rate, wanted };
    let day = |(month, start): (i64, i64), day: i64, us: i64| (month, start + day * DAY + us);
    let january = (JANUARY, 0);
    for work in [
        live("a1", "acct_a", day(january, 3, 11), 150_000, gates),
        live("a2", "acct_a", day(january, 4, 12), 149_000, gates),
        live("a3", "acct_a", day(january, 5, 13), 150_000, units(4)),
        live("a4", "acct_a", day(january, 6, 14), 150_000, units(9)),
        live("a5", "acct_a", day(FEBRUARY, 0, 15), 150_000, gates),
        live("a6", "acct_a", day(MARCH, 8, 16), 150_000, gates),
        live("b1", "acct_b", day(FEBRUARY, 5, 17), 150_000, gates),
        live("b2", "acct_b", day(FEBRUARY, 6, 18), 150_000, units(30)),
        // gates of a test key are not charged
        Work { environment: Environment::Test, ..live("b3", "acct_b", day(FEBRUARY, 7, 19), 150_000, None) },
    ] {
        if work.wanted.is_some() {
            work.reserve(store).await;
        }
        work.post(store).await;
    }
    // work in flight failed, so less was charged than reserved
    let fails = live("b4", "acct_b", day(MARCH, 2, 20), 150_000, units(8));
    let works = live("b5", "acct_b", day(MARCH, 2, 21), 150_000, units(7));
    fails.reserve(store).await;
    works.reserve(store).await;
    store.void_reservation("xfr_b4", "acct_b", MARCH.1 + 2 * DAY + 22).await.unwrap();
    works.post(store).await;
    live("b6", "acct_b", (MARCH.0, NOW - 1_000), 150_000, gates).reserve(store).await;
    let operations = Some(Wanted::TrialOperations { count: 7, max: 10 });
    let of_trial =
        Work { environment: Environment::Trial, ..live("t1", "acct_t", day(MARCH, 9, 23), 150_000, operations) };
    of_trial.reserve(store).await;
    of_trial.post(store).await;

    let call = |id: &str, account: &str, (month, created_at): (i64, i64), milli_yen: i64| OfficeCharge {
        usage_id: format!("use_{id}"),
        account_id: account.to_owned(),
        lineage_id: "lin_1".to_owned(),
        node_id: "node_1".to_owned(),
        environment: Environment::Live,
        month,
        usd_milli_jpy: 150_000,
        created_at,
        operation: "receipt",
        units: 3,
        milli_yen,
        calls_max: None,
        keep: None,
    };
    for charge in [call("o1", "acct_a", day(january, 8, 24), 30_000), call("o2", "acct_b", day(MARCH, 1, 25), 0)] {
        assert_eq!(store.charge_office(charge).await.unwrap(), OfficeCharged::Made);
    }
    bill_here(store, "acct_a", (JANUARY, 0), FEBRUARY.1, InvoiceState::Paid).await;
    bill_here(store, "acct_a", FEBRUARY, MARCH.1, InvoiceState::Open).await;
    bill_there(store, "acct_b", FEBRUARY.0, MARCH.1 + 3).await;
    store.note_job("months", FEBRUARY.0).await.unwrap();
}

fn item(item_id: String, account: &str, month: i64, amount_usd_cents: i64) -> InvoiceItem {
    InvoiceItem {
        item_id,
        account_id: account.to_owned(),
        month,
        description: "words".to_owned(),
        amount_usd_cents,
        invoice_id: String::new(),
        created_at: 5,
    }
}

/// Makes the invoice of a month, of its use and a fee.
async fn bill_here(store: &Store, account: &str, (month, start): (i64, i64), end: i64, status: InvoiceState) {
    let spent = store.used_in_month(account, month).await.unwrap().spend.cents();
    assert!(spent > 0);
    let invoice = Invoice {
        invoice_id: format!("inv_{account}_{month}"),
        account_id: account.to_owned(),
        month,
        status,
        amount_usd_cents: spent + 900,
        period_start: start,
        period_end: end,
        issued_at: end + 5,
        paid_at: if status == InvoiceState::Paid { end + 6 } else { 0 },
        url: String::new(),
        failures: 0,
        is_provided: false,
        due_at: end + 31 * DAY,
    };
    let lines = [
        item(InvoiceItem::usage_id(account, month), account, month, spent),
        item(format!("{account}:{month}:0"), account, month, 900),
    ];
    let wrote: Result<()> = store
        .write(async |tx| {
            tx.close_month(account, month, end + 5).await?;
            for line in &lines {
                tx.add_invoice_item(line).await?;
            }
            let on_it: Vec<&str> = lines.iter().map(|line| line.item_id.as_str()).collect();
            tx.put_items_on(&invoice.invoice_id, &on_it).await?;
            tx.put_invoice(&invoice, end + 5).await.map(drop)
        })
        .await;
    wrote.unwrap();
}

/// Bills a month and a fee through the provider.
async fn bill_there(store: &Store, account: &str, month: i64, now: i64) {
    let spent = store.used_in_month(account, month).await.unwrap().spend.cents();
    assert!(spent > 0);
    let mut subscription = Subscription::none(account);
    (subscription.customer_id, subscription.plan) = ("cus_1".to_owned(), Plan::Payg);
    assert_eq!(subscription.billing_cycle, BillingCycle::Monthly);
    let mut bill = UsageBillRecord {
        account_id: account.to_owned(),
        month,
        cents: spent + 700,
        invoice_id: String::new(),
        attempt: 0,
        attempted_at: 0,
    };
    let fee = item(format!("{account}:1:0"), account, month, 700);
    let invoice = Invoice {
        invoice_id: "in_1".to_owned(),
        account_id: account.to_owned(),
        month,
        status: InvoiceState::Open,
        amount_usd_cents: bill.cents,
        period_start: now,
        period_end: now,
        issued_at: now,
        paid_at: 0,
        url: String::new(),
        failures: 0,
        is_provided: true,
        due_at: 0,
    };
    let wrote: Result<()> = store
        .write(async |tx| {
            tx.put_subscription(&subscription).await?;
            tx.add_invoice_item(&fee).await?;
            tx.intend_usage_bill(&bill, &[&fee.item_id]).await
        })
        .await;
    wrote.unwrap();
    assert_eq!(store.audit_ledger(now).await.unwrap().findings, [], "a bill that is under way");
    (bill.attempt, bill.attempted_at, bill.invoice_id) = (1, now, "in_1".to_owned());
    assert!(store.put_usage_bill(&bill, 0).await.unwrap());
    let wrote: Result<()> = store
        .write(async |tx| {
            tx.put_invoice(&invoice, now).await?;
            tx.put_bill_on_invoice(&bill).await?;
            tx.close_month(account, month, now).await.map(drop)
        })
        .await;
    wrote.unwrap();
}

async fn filled(kind: Kind) -> Option<(tempfile::TempDir, Opened)> {
    let folder = tempfile::tempdir().unwrap();
    let url = kind.new_url(folder.path())?;
    let store = Store::open(&url).await.unwrap();
    fill(&store).await;
    let beside = match kind {
        Kind::Sqlite => Beside::Sqlite(SqliteConnection::connect(&url).await.unwrap()),
        Kind::Postgres => Beside::Postgres(PgConnection::connect(&url).await.unwrap()),
    };
    let opened = Opened { store, beside };
    assert_eq!(opened.audit().await, []);
    Some((folder, opened))
}

async fn every_change_is_found(kind: Kind) {
    let Some((_folder, mut opened)) = filled(kind).await else { return };
    let mut missed = Vec::new();
    let mut tried = 0;
    for Table { name, key } in TABLES {
        opened.run(format!("CREATE TABLE saved_{name} AS SELECT * FROM {name}")).await;
        let columns = opened.columns(name).await;
        let texts: Vec<String> = columns
            .iter()
            .filter(|(_, of)| !["blob", "bytea"].contains(&of.as_str()))
            .map(|(name, _)| name.clone())
            .collect();
        let select: Vec<String> = texts.iter().map(|column| format!("COALESCE(CAST({column} AS TEXT), '')")).collect();
        let rows = opened.texts(format!("SELECT {} FROM {name}", select.join(", "))).await;
        assert!(!rows.is_empty(), "{name}");
        for row in rows {
            let value = |column: &str| row[texts.iter().position(|one| one == column).unwrap()].as_str();
            let this: Vec<String> =
                key.iter().map(|column| format!("CAST({column} AS TEXT) = '{}'", value(column))).collect();
            let this = this.join(" AND ");
            opened.is_found(name, format!("DELETE FROM {name} WHERE {this}"), &mut missed).await;
            let copied: Vec<String> = columns
                .iter()
                .map(|(column, of)| match (column == key[0], of == "text") {
                    (true, true) => format!("{column} || 'x'"),
                    (true, false) => format!("{column} + 1"),
                    _ => column.clone(),
                })
                .collect();
            let copy = format!("INSERT INTO {name} SELECT {} FROM {name} WHERE {this}", copied.join(", "));
            opened.is_found(name, copy, &mut missed).await;
            tried += 2;
            for (column, of) in &columns {
                if WORDS.iter().any(|(table, word, _)| table == name && word == column) {
                    continue;
                }
                // nothing else tells when a transfer was voided, nor the name of a call that was free
                let is_voided = *name == "transfers" && value("phase") == "voided" && column == "created_at";
                let is_free = name.ends_with("_usage") && value("transfer_id").is_empty();
                if is_voided || is_free && column == "usage_id" {
                    continue;
                }
                // of the beginning of a transfer and of work that was free, the month counts
                let is_of_month = is_free || *name == "transfers" && value("phase") == "pending";
                let new = match (of.as_str(), column.as_str()) {
                    (_, "created_at") if is_of_month => format!("created_at + {}", 40 * DAY),
                    ("boolean", _) => format!("NOT {column}"),
                    (_, "is_provided") => format!("1 - {column}"),
                    ("text", _) if value(column).is_empty() && column == "transfer_id" => "'xfr_a1'".to_owned(),
                    ("text", _) => format!("'{}'", other_text(column, value(column))),
                    _ => format!("{column} + 1"),
                };
                let change = format!("UPDATE {name} SET {column} = {new} WHERE {this}");
                opened.is_found(name, change, &mut missed).await;
                tried += 1;
            }
        }
    }
    assert!(missed.is_empty(), "{} of {tried} changes are not found:\n{}", missed.len(), missed.join("\n"));
    assert!(tried > 300, "{tried}");
    assert_eq!(opened.audit().await, []);
}

#[tokio::test]
async fn every_change_of_a_row_of_money_is_found_sqlite() {
    every_change_is_found(Kind::Sqlite).await;
}

#[tokio::test]
async fn every_change_of_a_row_of_money_is_found_postgres() {
    every_change_is_found(Kind::Postgres).await;
}

async fn what_is_late_is_found(kind: Kind) {
    let Some((_folder, mut opened)) = filled(kind).await else { return };
    for sql in [
        "UPDATE open_reservations SET created_at = created_at - 90000000000",
        "UPDATE transfers SET created_at = created_at - 90000000000 WHERE transfer_id = 'xfr_b6'",
        "INSERT INTO provider_events (event_id, event_type, body, status, attempts, due_at, error, received_at) VALUES \
         ('evt_1', 'invoice.paid', '{}', 'stuck', 3, 5, 'why', 5), ('evt_2', 'invoice.paid', '{}', 'done', 1, 5, '', 5)",
        "INSERT INTO emails (email_id, recipient, subject, body, status, attempts, due_at, error, created_at) VALUES \
         ('eml_1', 'a@example.org', 's', 'b', 'pending', 1, 5, 'why', 5), ('eml_2', 'a@example.org', 's', 'b', 'sent', 1, 5, '', 5)",
        "INSERT INTO deliveries (webhook_id, event_id, account_id, event_type, status, due_at, created_at) VALUES \
         ('wh_1', 'evt_1', 'acct_a', 'ping', 'pending', 5, 5), ('wh_2', 'evt_1', 'acct_a', 'ping', 'failed', 5, 5)",
    ] {
        opened.run(sql.to_owned()).await;
    }
    let mut found: Vec<String> =
        opened.audit().await.into_iter().map(|one| format!("{} {}", one.of, one.found)).collect();
    found.sort();
    let hours = (NOW - 5) / 3_600_000_000;
    let expected = [
        format!("e-mail eml_1 {hours} hours, since 5 us"),
        format!("event evt_1 to wh_1 {hours} hours, since 5 us"),
        format!("stuck event evt_1 {hours} hours, since 5 us"),
        format!("transfer xfr_b6 25 hours, since {} us", NOW - 1_000 - 90_000_000_000),
    ];
    assert_eq!(found, expected);
    // a month that ended a day and the grace period ago is not billed
    let found = opened.store.audit_ledger(90 * DAY + 600_000_000 + DAY).await.unwrap().findings;
    let unbilled: Vec<&AuditFinding> = found.iter().filter(|one| one.what == "a month is not billed").collect();
    let accounts: Vec<(&str, &str)> = unbilled.iter().map(|one| (one.account_id.as_str(), one.of.as_str())).collect();
    assert_eq!(accounts, [("acct_a", "month 23642")], "{found:?}");
    assert_eq!(unbilled[0].expected, "3 cents billed");
}

#[tokio::test]
async fn what_is_late_is_found_sqlite() {
    what_is_late_is_found(Kind::Sqlite).await;
}

#[tokio::test]
async fn what_is_late_is_found_postgres() {
    what_is_late_is_found(Kind::Postgres).await;
}
