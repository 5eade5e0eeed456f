//! Upgrades with data: from the schema after each migration to the newest one.

use std::collections::BTreeMap;

use api::{Environment, Plan, Role};
use store::{Claimed, NetlistPlace, NewClaim, Trial};

use super::*;

/// Statements that insert rows, each with the number of the migration after which it runs. `#n` stands for 32 bytes of
/// value n, and `%n` for 16 bytes of value n.
const ROWS: &[(i64, &str)] = &[
    (1, "INSERT INTO accounts (account_id, created_at) VALUES ('acct_1', 5), ('acct_2', 6)"),
    (
        1,
        "INSERT INTO api_keys (key_id, account_id, lineage_id, digest, key_prefix, role, environment, created_at, \
         expires_at, revoked_at) VALUES \
         ('ak_1', 'acct_1', 'lin_1', #1, 'svc_live_0123456', 'developer', 'live', 6, NULL, 9), \
         ('ak_2', 'acct_2', 'lin_2', #2, 'svc_trial_012345', 'trial', 'trial', 6, 100, NULL)",
    ),
    (
        1,
        "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at, \
         ended_at, gates_used, total_cost_milli_yen) VALUES \
         (#1, 'acct_1', 'live', 'fast_128', TRUE, 'active', 10, 20, NULL, 2, 400), \
         (#2, 'acct_1', 'dev', 'standard_128', FALSE, 'lost', 10, 20, 15, 0, 0)",
    ),
    (
        1,
        "INSERT INTO gate_usage (usage_id, session_digest, account_id, environment, gates, by_gate, bootstrap_ops, \
         bootstraps_done, cost_milli_yen, compute_us, created_at) VALUES \
         ('use_1', #1, 'acct_1', 'live', 2, '{\"NAND\":2}', 4, 3, 400, 7, 12)",
    ),
    (
        2,
        "INSERT INTO circuits (account_id, name, text, bytes, sha256, gates, by_gate, levels, input_widths, output_widths, \
         created_at, updated_at) VALUES ('acct_1', 'and', '1 3', 3, #7, 1, '{\"AND\":1}', 1, '[1,1]', '[1]', 5, 6)",
    ),
    (
        2,
        "INSERT INTO circuit_operations (op_id, account_id, session_digest, status, gates_total, gates_done, by_gate, levels, \
         bootstrap_ops, cost_milli_yen, discounted, compute_us, error_code, error_message, created_at, ended_at) VALUES \
         ('op_1', 'acct_1', #1, 'pending', 2, 0, '{\"AND\":2}', 1, NULL, NULL, NULL, NULL, NULL, NULL, 10, NULL), \
         ('op_2', 'acct_1', #1, 'failed', 2, 1, '{\"AND\":2}', 1, 0, 0, FALSE, 8, 'CONFLICT', 'why', 10, 11)",
    ),
    (3, "INSERT INTO accounts (account_id, created_at, plan) VALUES ('acct_3', 7, 'pro')"),
    (
        3,
        "INSERT INTO api_keys (key_id, account_id, lineage_id, digest, key_prefix, role, environment, created_at, platform, \
         office) VALUES ('ak_3', 'acct_3', 'lin_3', #3, 'svc_test_0123456', 'viewer', 'test', 6, TRUE, FALSE)",
    ),
    (4, "INSERT INTO accounts (account_id, created_at, plan, erased_at) VALUES ('acct_4', 8, 'trial', 90)"),
    (4, "INSERT INTO trials (account_id, expires_at, operations_used) VALUES ('acct_4', 80, 3)"),
    (
        4,
        "INSERT INTO api_keys (key_id, account_id, lineage_id, digest, key_prefix, role, environment, created_at, rotated_at, \
         last_used_at) VALUES ('ak_4', 'acct_1', 'lin_1', #4, 'svc_dev_01234567', 'account_admin', 'dev', 6, 7, 8)",
    ),
    (
        5,
        "INSERT INTO users (user_id, account_id, email, password_hash, issuer, subject, role, created_at, last_sign_in_at, \
         disabled_at) VALUES ('usr_1', 'acct_1', 'ada@example.org', 'hash', NULL, NULL, 'account_admin', 5, 6, NULL), \
         ('usr_2', NULL, NULL, NULL, 'https://id.example.org', 'bob', 'viewer', 5, NULL, 9)",
    ),
    (5, "INSERT INTO external_accounts (issuer, name, account_id) VALUES ('https://id.example.org', 'b', 'acct_1')"),
    (
        5,
        "INSERT INTO sign_ins (sign_in_id, user_id, created_at, expires_at, revoked_at) VALUES ('sgn_1', 'usr_1', 5, 90, 8)",
    ),
    (5, "INSERT INTO refresh_tokens (digest, sign_in_id, created_at, used_at) VALUES (#1, 'sgn_1', 5, 6)"),
    (5, "INSERT INTO ended_tokens (digest, expires_at) VALUES (#1, 50)"),
    (5, "INSERT INTO setup_links (digest, created_at, expires_at, used_at) VALUES (#1, 5, 50, NULL)"),
    (5, "INSERT INTO signing_keys (purpose, sealed) VALUES ('access_token', #1)"),
    (5, "INSERT INTO user_keys (lineage_id, user_id, created_at) VALUES ('lin_1', 'usr_1', 6)"),
    (
        6,
        "INSERT INTO request_counts (subject, day, day_used, month, month_used, leased, leased_until) VALUES \
         ('acct_1', 5, 2, 1, 3, 1, 60)",
    ),
    (
        6,
        "INSERT INTO lockouts (subject, kind, failures, locked_until, expires_at, version) VALUES \
         (#1, 'key', %1, 50, 60, 1), (#2, 'address', %2, NULL, 60, 2)",
    ),
    (6, "UPDATE lockout_version SET version = 2"),
    (
        7,
        "INSERT INTO kept_answers (digest, account_id, claim, node_id, held_until, answer, blob) VALUES \
         (#1, 'acct_1', %1, 'node_1', 50, NULL, NULL), (#2, 'acct_1', %2, 'node_1', 50, #2, 'name')",
    ),
    (
        8,
        "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at, \
         node_id) VALUES (#3, 'acct_1', 'live', 'fast_128', TRUE, 'active', 10, 20, 'node_1')",
    ),
    (
        8,
        "INSERT INTO circuit_operations (op_id, account_id, session_digest, status, gates_total, by_gate, levels, created_at) \
         VALUES ('op_4', 'acct_1', #3, 'pending', 2, '{\"AND\":2}', 1, 10)",
    ),
    (9, "INSERT INTO server_secret (id, digest) VALUES (1, #1)"),
    (10, "INSERT INTO trial_windows (network, given, expires_at) VALUES (#1, %1, 50)"),
    (11, "INSERT INTO retired_signing_keys (sealed, ends_at) VALUES (#2, 50)"),
    (12, "INSERT INTO password_links (digest, user_id, expires_at) VALUES (#1, 'usr_1', 50)"),
    (
        13,
        "INSERT INTO lockouts (subject, kind, failures, locked_until, expires_at, version) VALUES \
         (#3, 'user', %1, 50, 60, 2), (#4, 'sign_up', %2, NULL, 60, 2)",
    ),
    (14, "INSERT INTO refresh_tokens (digest, sign_in_id, created_at, successor) VALUES (#2, 'sgn_1', 6, #3)"),
    (15, "INSERT INTO nodes (node_id, lease_until) VALUES ('node_1', 30)"),
    (15, "UPDATE gate_sessions SET sealed_id = #9 WHERE digest = #3"),
    (16, "UPDATE gate_sessions SET imported = TRUE WHERE digest = #3"),
    (40, "UPDATE nodes SET generation = -9223372036854775808, alive_until = 31 WHERE node_id = 'node_1'"),
    (41, "INSERT INTO bursts (subject, full_at) VALUES ('lin_1', 5)"),
    (40, "UPDATE kept_answers SET generation = -9223372036854775808 WHERE digest = #1"),
    (20, "UPDATE circuits SET text = '', blob = 'object' WHERE name = 'and'"),
    (
        21,
        "INSERT INTO key_materials (material_id, account_id, node_id, params, fingerprint, public_key_object, public_key_bytes, \
         public_key_sha256, rows_announced, eval_key_bytes, digest, created_at) VALUES \
         ('mat_1', 'acct_1', '', '{}', %1, 'object', 5, #1, 2, 9, #2, 5)",
    ),
    (
        21,
        "INSERT INTO key_rows (material_id, row_index, kind, element, level, digit, digits, object, bytes, sha256) VALUES \
         ('mat_1', 0, 'galois', 5, 3, 0, 2, 'object', 4, #1)",
    ),
    (
        21,
        "INSERT INTO encryption_keys (key_id, account_id, environment, scheme, source, material_id, ciphertext_count, \
         operation_count, created_at) VALUES ('key_1', 'acct_1', 'live', 'ckks', 'upload', 'mat_1', 1, 2, 6)",
    ),
    (
        21,
        "INSERT INTO key_uploads (upload_id, account_id, environment, scheme, params, material_id, key_id, created_at, \
         expires_at) VALUES ('up_1', 'acct_1', 'live', 'ckks', '{}', 'mat_1', NULL, 6, 7)",
    ),
    (
        21,
        "INSERT INTO ciphertexts (ciphertext_id, account_id, key_id, environment, origin, slot_count, level, scale, \
         value_bound, variance, object, node_id, bytes, created_at, last_used_at) VALUES \
         ('ct_1', 'acct_1', 'key_1', 'live', 'upload', 32, 3, 4, 5, -6, 'object', '', 7, 8, 9)",
    ),
    (21, "INSERT INTO ciphertext_caches (account_id, bytes) VALUES ('acct_1', 7)"),
    (21, "INSERT INTO dropped_objects (object, kind, node_id, dropped_at) VALUES ('object', 'keys', '', 5)"),
    (
        21,
        "INSERT INTO arithmetic_operations (op_id, account_id, key_id, environment, node_id, operation, status, \
         result_ciphertext_id, cost_fcu, compute_us, error_code, error_message, created_at, ended_at) VALUES \
         ('op_3', 'acct_1', 'key_1', 'live', 'node_1', 'add', 'completed', 'ct_1', 1, 2, NULL, NULL, 5, 6)",
    ),
    (
        21,
        "INSERT INTO arithmetic_usage (usage_id, account_id, key_id, environment, operation, fcu, cost_nano_usd, \
         usd_milli_jpy, compute_us, created_at) VALUES ('use_1', 'acct_1', 'key_1', 'live', 'add', 1, 2000, 150000, 2, 6)",
    ),
    (27, "UPDATE key_rows SET seed = #1"),
    (27, "UPDATE key_materials SET public_key_seed = #2"),
    (44, "UPDATE key_materials SET key_secret = %4"),
    (27, "UPDATE ciphertexts SET seed = #3, sha256 = #1"),
    (29, "UPDATE ciphertexts SET sources = #4"),
    (22, "INSERT INTO ledger_accounts (account_id) VALUES ('acct_1')"),
    (
        22,
        "INSERT INTO transfers (transfer_id, phase, account_id, month, usd_milli_jpy, trial_operations, fcu, nano_usd, milli_yen, \
         node_id, created_at) VALUES ('xfr_1', 'pending', 'acct_1', 1, 2, 3, 4, 5, 6, 'node_1', 7)",
    ),
    (
        22,
        "INSERT INTO open_reservations (transfer_id, account_id, month, usd_milli_jpy, trial_operations, fcu, nano_usd, milli_yen, \
         node_id, created_at) VALUES ('xfr_1', 'acct_1', 1, 2, 3, 4, 5, 6, 'node_1', 7)",
    ),
    (
        22,
        "INSERT INTO ledger_balances (account_id, month, usd_milli_jpy, fcu, fcu_reserved, nano_usd, nano_usd_reserved, milli_yen, \
         milli_yen_reserved) VALUES ('acct_1', 1, 2, 3, 4, 5, 6, 7, 8)",
    ),
    (22, "INSERT INTO operation_counts (account_id, month, operation, count) VALUES ('acct_1', 1, 'add', 2)"),
    (
        22,
        "INSERT INTO budgets (account_id, cap_nano_usd, hard_cap, allow_soft_overage, alert_email, updated_at) \
         VALUES ('acct_1', 1, TRUE, FALSE, 'a@b', 2)",
    ),
    (
        23,
        "INSERT INTO webhooks (webhook_id, account_id, url, events, sealed_secret, created_at) VALUES \
         ('wh_1', 'acct_1', 'https://a', 'key_created', #1, 2)",
    ),
    (
        23,
        "INSERT INTO events (event_id, account_id, event_type, body, created_at) VALUES \
         ('evt_1', 'acct_1', 'key_created', '{}', 2)",
    ),
    (
        23,
        "INSERT INTO deliveries (webhook_id, event_id, account_id, event_type, status, attempts, due_at, leased_until, status_code, \
         response_ms, error, delivered_at, created_at) VALUES \
         ('wh_1', 'evt_1', 'acct_1', 'key_created', 'pending', 1, 2, 3, 500, 4, 'why', 5, 6)",
    ),
    (
        24,
        "INSERT INTO subscriptions (account_id, version, status, billing_cycle, period_start, period_end, scheduled_plan, \
         scheduled_cycle, past_due_since, email, customer_id, provider_subscription_id, updated_at) VALUES \
         ('acct_1', 1, 'active', 'annual', 2, 3, 'pro', 'monthly', 4, 'a@b', 'cus_1', 'sub_1', 5)",
    ),
    (24, "INSERT INTO plan_requests (account_id, plan, email, requested_at) VALUES ('acct_1', 'enterprise', 'a@b', 1)"),
    (
        24,
        "INSERT INTO invoices (invoice_id, account_id, month, status, amount_usd_cents, period_start, period_end, issued_at, paid_at, \
         url, failures, is_provided) VALUES ('inv_1', 'acct_1', 1, 'open', 2, 3, 4, 5, 6, 'https://a', 7, TRUE)",
    ),
    (
        24,
        "INSERT INTO invoice_items (item_id, account_id, month, description, amount_usd_cents, invoice_id, created_at) VALUES \
         ('item_1', 'acct_1', 1, 'words', -2, 'inv_1', 3)",
    ),
    (24, "INSERT INTO closed_months (account_id, month, closed_at) VALUES ('acct_1', 1, 2)"),
    (
        24,
        "INSERT INTO provider_events (event_id, event_type, body, status, attempts, due_at, error, received_at) VALUES \
         ('evt_1', 'invoice.paid', '{}', 'pending', 1, 2, 'why', 3)",
    ),
    (24, "INSERT INTO announcements (fact, created_at) VALUES ('invoice:in_1:paid', 1)"),
    (
        24,
        "INSERT INTO alerts (account_id, period, kind, threshold, for_cap, of_limit, used, created_at, is_told) VALUES \
         ('acct_1', 1, 'budget', 80, 2, 2, 3, 4, FALSE)",
    ),
    (
        24,
        "INSERT INTO emails (email_id, recipient, subject, body, status, attempts, due_at, error, created_at) VALUES \
         ('mail_1', 'a@b', 'words', 'more', 'pending', 1, 2, 'why', 3)",
    ),
    (24, "INSERT INTO jobs (name, node_id, leased_until, done_through) VALUES ('billing', 'node_1', 1, 2)"),
    (
        25,
        "INSERT INTO office_usage (usage_id, transfer_id, account_id, lineage_id, environment, operation, units, milli_yen, created_at) \
         VALUES ('use_o', 'xfer_o', 'acct_1', 'lin_1', 'live', 'document', 1, 10000, 5)",
    ),
    (
        25,
        "INSERT INTO office_totals (account_id, month, lineage_id, operation, calls, units, milli_yen) VALUES \
         ('acct_1', 1, 'lin_1', 'document', 1, 1, 10000)",
    ),
    (25, "INSERT INTO office_caps (lineage_id, cap_yen, updated_at) VALUES ('lin_1', 25, 5)"),
    (
        25,
        "INSERT INTO office_cap_alerts (lineage_id, month, cap_yen, threshold, reached_at) VALUES ('lin_1', 1, 25, 80, 5)",
    ),
    (
        25,
        "INSERT INTO issuer_profiles (lineage_id, account_id, environment, sealed_profile, token_digest, sealed_token, created_at, \
         updated_at) VALUES ('lin_1', 'acct_1', 'live', #1, #2, #3, 5, 6)",
    ),
    (
        25,
        "INSERT INTO ingested_payments (document_id, account_id, lineage_id, state, sealed_event, customer, total_yen, paid_at, is_invoice, \
         is_intent, attempts, due_at, error, received_at) VALUES \
         ('inv_p', 'acct_1', 'lin_1', 'held', #4, 'cus_1', 1000, 5, FALSE, TRUE, 1, 6, 'why', 5)",
    ),
    (25, "INSERT INTO payment_names (lineage_id, name, document_id) VALUES ('lin_1', 'pi_1', 'inv_p')"),
    (
        25,
        "INSERT INTO stored_documents (document_id, account_id, lineage_id, number, kind, recipient, recipient_key, total_yen, issue_date, \
         transaction_date, payment_id, original_id, pdf_sha256, delivery_status, created_at) VALUES \
         ('inv_d', 'acct_1', 'lin_1', 'A-1', 'receipt', 'B', 'b', 1000, '2025-12-01', '2025-11-30', 'pi_0', '', 'ab', 'sent', 5)",
    ),
    (25, "INSERT INTO document_files (document_id, sealed_pdf) VALUES ('inv_d', #5)"),
    (
        36,
        "INSERT INTO operations (op_id, account_id, kind, node_id, status, session_digest, gates_total, gates_done, by_gate, levels, \
         plan, bootstrap_ops, cost_milli_yen, discounted, key_id, environment, operation, result_ciphertext_id, cost_fcu, compute_us, \
         error_code, error_message, created_at, ended_at) VALUES \
         ('op_5', 'acct_1', 'circuit', 'node_1', 'completed', #1, 2, 2, '{\"AND\":2}', 1, '{}', 4, 400, FALSE, NULL, NULL, NULL, NULL, \
         NULL, 8, NULL, NULL, 10, 11), \
         ('op_6', 'acct_1', 'arithmetic', 'node_1', 'failed', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, 'key_1', 'live', 'add', \
         'ct_1', 0, 2, 'CONFLICT', 'why', 5, 6)",
    ),
    (
        35,
        "INSERT INTO document_issuers (document_id, registration_number, name) VALUES ('inv_d', 'T7000012050002', 'C')",
    ),
    (25, "UPDATE emails SET document_id = 'inv_d' WHERE email_id = 'mail_1'"),
    (25, "INSERT INTO key_labels (lineage_id, customer) VALUES ('lin_1', 'a shop')"),
    (
        25,
        "INSERT INTO purchases (session_id, customer_id, subscription_id, account_id, lineage_id, plan, unknown_plan, sealed_key, created_at) \
         VALUES ('cs_1', 'cus_1', 'sub_1', 'acct_1', 'lin_1', 'payg', 'gold', #6, 5)",
    ),
    (25, "INSERT INTO ended_purchases (subscription_id, ended_at) VALUES ('sub_2', 5)"),
    (
        31,
        "INSERT INTO usage_bills (account_id, month, cents, invoice_id, attempt, attempted_at) VALUES \
         ('acct_1', 1, 2, 'in_1', 3, 4)",
    ),
    (33, "INSERT INTO month_allowances (account_id, month, fcu) VALUES ('acct_1', 1, 2)"),
    (
        34,
        "INSERT INTO payment_returns (document_id, sale_id, account_id, lineage_id, state, provider, event_type, sealed_event, amount_yen, \
         named_yen, is_final, payment_id, revision, attempts, due_at, error, received_at) VALUES \
         ('inv_r', 'inv_p', 'acct_1', 'lin_1', 'waiting', 'stripe', 'refund.created', #1, 5, 5, FALSE, 're_1', 1, 2, 3, '', 4)",
    ),
    (
        38,
        "INSERT INTO session_values (name, session_digest, op_id, place, object, bytes) VALUES ('hdl_1', #1, 'op_5', 0, 'object', 8)",
    ),
    (
        39,
        "INSERT INTO waiting_line (op_id, account_id, counted, tag, released, epoch, released_until, deadline, done, cancelled, transfer_id, \
         work_object, checkpoint, booking) VALUES ('op_7', 'acct_1', 'account', 1, TRUE, 2, 3, 4, 5, FALSE, 't_1', 'work', 'values', '{}')",
    ),
    (45, "UPDATE waiting_line SET entered_at = 7 WHERE op_id = 'op_7'"),
    (
        45,
        "INSERT INTO running_circuits (op_id, counted, node_id, generation) VALUES ('op_8', 'session', 'node_1', -9223372036854775808)",
    ),
    (42, "INSERT INTO moves (id, source_id, begun_at, ended_at) VALUES (1, 'a database', 5, 6)"),
];

/// Tables whose rows a migration moves to the table `operations`: the table, the migration's number, and the rows' kind.
const MOVED: &[(&str, i64, &str)] =
    &[("circuit_operations", 36, "circuit"), ("arithmetic_operations", 36, "arithmetic")];

/// Migration 37 adds a row to the table of nodes: the node of all sessions of a fleet.
fn without_what_migrations_added(table: &str, (columns, mut rows): Table) -> Table {
    rows.retain(|row| table != "nodes" || !row.contains(&"'fleet'".to_owned()));

    (columns, rows)
}

/// Whether the migration `from` or one before it moved the rows of the table that a statement fills.
fn fills_what_was_moved(row: &str, from: i64) -> bool {
    MOVED.iter().any(|(table, by, _)| *by <= from && row.starts_with(&format!("INSERT INTO {table} ")))
}

/// Returns the rows of this kind.
fn of_kind((columns, rows): &Table, kind: &str) -> Table {
    let at = columns.iter().position(|column| column == "kind").expect("a column of kinds");
    (columns.clone(), rows.iter().filter(|row| row[at] == format!("'{kind}'")).cloned().collect())
}

/// Translates a statement of [`ROWS`] into the SQL of this database.
pub fn statement(kind: Kind, row: &str) -> String {
    let mut sql = String::new();
    let mut rest = row.chars();
    while let Some(c) = rest.next() {
        let bytes = match c {
            '#' => 32,
            '%' => 16,
            c => {
                sql.push(c);
                continue;
            }
        };
        let digit = rest.next().expect("a number");
        let open = if kind == Kind::Sqlite { "X'" } else { "'\\x" };
        sql += &format!("{open}{}'", format!("0{digit}").repeat(bytes));
    }
    sql
}

type Table = (Vec<String>, Vec<Vec<String>>);

/// Reads all tables: for each table's name, the names of the columns, and the rows with each value as text.
async fn contents(url: &str) -> BTreeMap<String, Table> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (table, column) in columns(url).await.into_keys() {
        tables.entry(table).or_default().push(column);
    }
    /// Reads all tables through a connection. `$value` is the SQL expression that turns the column `{}` into text.
    macro_rules! read {
        ($connection:expr, $value:literal) => {{
            let mut contents = BTreeMap::new();
            for (table, columns) in tables {
                let values: Vec<String> = columns.iter().map(|column| format!($value, column)).collect();
                let sql = AssertSqlSafe(format!("SELECT {} FROM {table}", values.join(", ")));
                let rows = sqlx::query(sql).fetch_all($connection).await.unwrap();
                let texts = rows.iter().map(|row| (0..columns.len()).map(|at| row.get(at)).collect()).collect();
                contents.insert(table, (columns, texts));
            }
            contents
        }};
    }
    match url.starts_with("sqlite:") {
        true => {
            let pool = SqlitePool::connect(url).await.unwrap();
            read!(&pool, "quote({})")
        }
        false => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            read!(&mut connection, "quote_nullable({}::text)")
        }
    }
}

/// Returns the values of these columns in each row of a table. The rows are sorted.
fn only((known, rows): &Table, columns: &[String]) -> Vec<Vec<String>> {
    let places: Vec<usize> = columns
        .iter()
        .map(|column| known.iter().position(|one| one == column).expect("no column is dropped"))
        .collect();
    let mut rows: Vec<Vec<String>> =
        rows.iter().map(|row| places.iter().map(|&at| row[at].clone()).collect()).collect();
    rows.sort();
    rows
}

async fn every_older_schema_keeps_its_data_through_an_upgrade(kind: Kind) {
    let mut versions = vec![FIRST];
    for at in 0.. {
        let Some(&from) = versions.get(at) else { break };
        let Some((_folder, url, store)) = empty(kind).await else { return };
        store.migrate_up_to(from).await.unwrap();
        if let Schema::Older(missing) = store.schema().await.unwrap()
            && from == FIRST
        {
            versions.extend(missing);
        }
        let rows = ROWS.iter().filter(|(since, row)| *since <= from && !fills_what_was_moved(row, from));
        let rows = rows.map(|(_, row)| statement(kind, row));
        run(&url, rows.collect::<Vec<_>>().join("; ")).await;
        let before = contents(&url).await;
        store.migrate().await.unwrap();
        assert_eq!(store.schema().await.unwrap(), Schema::Current);
        store.take_over_operations().await.unwrap();
        let after = contents(&url).await;
        for (table, old) in &before {
            let moved = MOVED.iter().find(|(name, ..)| name == table);
            if moved.is_some_and(|(_, by, _)| *by <= from) {
                assert!(old.1.is_empty(), "{table}");
                continue;
            }
            assert!(!old.1.is_empty(), "{table} of migration {from} has no row in this test");
            let new = moved.map_or_else(|| after[table].clone(), |(.., kind)| of_kind(&after["operations"], kind));
            let [new, old] = [new, old.clone()].map(|contents| without_what_migrations_added(table, contents));
            assert_eq!(only(&new, &old.0), only(&old, &old.0), "{table} after an upgrade from migration {from}");
        }
        assert!(MOVED.iter().filter_map(|(table, ..)| after.get(*table)).all(|(_, rows)| rows.is_empty()));
        what_migrations_add_is_right(&store, from).await;
    }
    assert!(versions.len() > 15, "{versions:?}");
}

/// Checks the values that later migrations gave to the rows of the first migration.
async fn what_migrations_add_is_right(store: &Store, from: i64) {
    let key = store.api_key(&[1; 32]).await.unwrap().unwrap();
    assert_eq!((key.role, key.environment, key.plan), (Role::Developer, Environment::Live, Plan::Free));
    assert_eq!((key.platform, key.office, key.created_at, key.revoked_at), (true, true, 6, Some(9)));
    let netlist = store.netlist("acct_1", "and").await.unwrap();
    assert_eq!(
        netlist,
        match from {
            1 => None,
            2..20 => Some(NetlistPlace::Text("1 3".to_owned())),
            _ => Some(NetlistPlace::Object("object".to_owned())),
        }
    );
    assert_eq!(store.database_id().await.unwrap().len(), 32);
    // migration 32 computes the plan in force from records: the plans of earlier releases count as granted or subscribed
    let account = if from < 3 { "acct_1" } else { "acct_3" };
    let change = store.write(async |tx| tx.update_standing(account, 1).await).await.unwrap().unwrap();
    assert_eq!(change.before, change.after, "{account}");
    // the session of a run that an earlier version recorded names the node
    if (8..36).contains(&from) {
        let node = async |op_id| store.operation("acct_1", op_id).await.unwrap().unwrap().0.node_id;
        assert_eq!((node("op_1").await, node("op_4").await.as_deref()), (None, Some("node_1")));
        let fail = async |node_id| store.fail_unfinished_operations(node_id, "CODE", ["", ""], 20).await.unwrap();
        assert_eq!((fail("node_2").await, fail("node_1").await), (1, 1), "of no node, then of this node");
    }
    // a claim of the release before holds until its time, because its node has no generation
    if (7..40).contains(&from) {
        let [account_id, node_id] = ["acct_1", "node_2"].map(str::to_owned);
        let new =
            NewClaim { digest: [1; 32], account_id, claim: [9; 16], node_id, generation: 1, held_until: 99, now: 49 };
        assert_eq!(store.claim(new.clone()).await.unwrap(), Claimed::Running);
        assert_eq!(store.claim(NewClaim { now: 50, ..new }).await.unwrap(), Claimed::Mine);
    }
    // migration 3 gave accounts of trial keys the plan `trial`, and migration 4 gave them a row in `trials`
    if from < 3 {
        let of_trial = store.api_key(&[2; 32]).await.unwrap().unwrap();
        assert_eq!((of_trial.plan, of_trial.platform, of_trial.office), (Plan::Trial, true, false));
        assert_eq!(store.trial("acct_2").await.unwrap(), Some(Trial { expires_at: 100, operations_used: 0 }));
    }
}

#[tokio::test]
async fn every_older_schema_keeps_its_data_through_an_upgrade_sqlite() {
    every_older_schema_keeps_its_data_through_an_upgrade(Kind::Sqlite).await;
}

#[tokio::test]
async fn every_older_schema_keeps_its_data_through_an_upgrade_postgres() {
    every_older_schema_keeps_its_data_through_an_upgrade(Kind::Postgres).await;
}
