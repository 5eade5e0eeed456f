//! Migrations: equal schemas on both databases, upgrades that keep data, and a roll-back.

mod older_build;
mod upgrades;

use std::collections::BTreeMap;

use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use store::{Schema, Store};
use tempfile::TempDir;
use tests_store::Kind;

/// The migration that makes the first release's schema: accounts, keys, sessions, usage.
const FIRST: i64 = 1;

/// Makes an empty database of this kind. Returns `None` if this machine lacks the database server.
async fn empty(kind: Kind) -> Option<(TempDir, String, Store)> {
    let folder = tempfile::tempdir().unwrap();
    let url = kind.empty_url(folder.path())?;
    Store::make_file(&url).unwrap();
    let store = Store::connect(&url).await.unwrap();
    Some((folder, url, store))
}

/// Runs statements for which the store has no function.
async fn run(url: &str, sql: impl Into<String>) {
    let sql = AssertSqlSafe(sql.into());
    match url.starts_with("sqlite:") {
        true => drop(sqlx::raw_sql(sql).execute(&SqlitePool::connect(url).await.unwrap()).await.unwrap()),
        false => drop(sqlx::raw_sql(sql).execute(&mut PgConnection::connect(url).await.unwrap()).await.unwrap()),
    }
}

/// Reads all columns of tables: for each table and name of a column, the kind of the column and whether it must have a value.
async fn columns(url: &str) -> BTreeMap<(String, String), (String, bool)> {
    let rows: Vec<(String, String, String, bool)> = if url.starts_with("sqlite:") {
        let sql = "SELECT t.name, c.name, c.type, c.\"notnull\" = 1 FROM sqlite_master t, pragma_table_info(t.name) c \
             WHERE t.type = 'table'";
        sqlx::query_as(sql).fetch_all(&SqlitePool::connect(url).await.unwrap()).await.unwrap()
    } else {
        let sql = "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'NO' \
             FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) \
             WHERE table_schema = 'public' AND table_type = 'BASE TABLE'";
        sqlx::query_as(sql).fetch_all(&mut PgConnection::connect(url).await.unwrap()).await.unwrap()
    };
    let ours = rows.into_iter().filter(|(table, ..)| !table.starts_with("_sqlx") && !table.starts_with("sqlite_"));
    ours.map(|(table, column, kind, required)| ((table, column), (plain_kind(&kind).to_owned(), required))).collect()
}

/// Returns the same name for all column types whose values have the same type in Rust.
fn plain_kind(kind: &str) -> &str {
    match kind {
        "INTEGER" | "bigint" | "integer" | "boolean" | "smallint" => "integer",
        "TEXT" | "text" => "text",
        "BLOB" | "bytea" => "bytes",
        other => other,
    }
}

/// Reads all indices: for each name of an index, the table of the index.
async fn indices(url: &str) -> BTreeMap<String, String> {
    let rows = if url.starts_with("sqlite:") {
        let sql = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND name NOT LIKE 'sqlite_%'";
        let rows = sqlx::query(sql).fetch_all(&SqlitePool::connect(url).await.unwrap()).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<_>>()
    } else {
        let sql = "SELECT i.relname::text, t.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid \
             JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace \
             LEFT JOIN pg_constraint c ON c.conindid = i.oid WHERE n.nspname = 'public' AND c.oid IS NULL \
             AND t.relname NOT LIKE '\\_sqlx%'";
        let rows = sqlx::query(sql).fetch_all(&mut PgConnection::connect(url).await.unwrap()).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    rows.into_iter().collect()
}

#[tokio::test]
async fn migrations_end_in_equal_schemas_on_both_databases() {
    let (_folder, sqlite, store) = empty(Kind::Sqlite).await.unwrap();
    store.migrate().await.unwrap();
    let Some((_other, postgres, store)) = empty(Kind::Postgres).await else { return };
    store.migrate().await.unwrap();
    let mut known = columns(&sqlite).await;
    // tables for an older build, which are views in PostgreSQL
    known.retain(|(table, _), _| !["circuit_operations", "arithmetic_operations"].contains(&table.as_str()));
    assert!(known.len() > 80, "{known:?}");
    assert_eq!(known, columns(&postgres).await);
    assert_eq!(indices(&sqlite).await, indices(&postgres).await);
}

/// An unknown word in a column without a check is an error. Such a word comes from a newer build or from an operator.
async fn an_unknown_word_is_an_error_that_names_it(kind: Kind) {
    let Some((_folder, url, store)) = empty(kind).await else { return };
    store.migrate().await.unwrap();
    for row in [
        "INSERT INTO accounts (account_id, created_at) VALUES ('acct_1', 5)",
        "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at) \
         VALUES (#1, 'acct_1', 'live', 'fast_128', TRUE, 'active', 10, 20)",
        "INSERT INTO gate_usage (usage_id, session_digest, account_id, environment, gates, by_gate, bootstrap_ops, \
         bootstraps_done, cost_milli_yen, compute_us, created_at) VALUES ('use_1', #1, 'acct_1', 'moon', 1, '{}', 1, 1, 1, 1, 6)",
    ] {
        run(&url, upgrades::statement(kind, row)).await;
    }
    let error = store.usage_between("acct_1", 0, 9).await.unwrap_err().to_string();
    assert!(error.contains("\"moon\" is no environment"), "{error}");
}

#[tokio::test]
async fn an_unknown_word_is_an_error_that_names_it_sqlite() {
    an_unknown_word_is_an_error_that_names_it(Kind::Sqlite).await;
}

#[tokio::test]
async fn an_unknown_word_is_an_error_that_names_it_postgres() {
    an_unknown_word_is_an_error_that_names_it(Kind::Postgres).await;
}

/// D15: a roll-back starts an older build on the database of the newer build.
async fn an_older_build_starts_on_a_newer_database(kind: Kind) {
    let Some((_folder, url, store)) = empty(kind).await else { return };
    store.migrate().await.unwrap();
    // an older build that knows only the first migration accepts the newer database
    store.migrate_up_to(FIRST).await.unwrap();
    assert_eq!(store.schema().await.unwrap(), Schema::Current);
    // a newer build has run a migration that this build does not know
    let newer = match kind {
        Kind::Sqlite => {
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9000, 'of a newer build', TRUE, zeroblob(48), 1)"
        }
        Kind::Postgres => {
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9000, 'of a newer build', TRUE, decode(repeat('00', 48), 'hex'), 1)"
        }
    };
    run(&url, newer).await;
    assert_eq!(store.schema().await.unwrap(), Schema::Newer(vec![9000]));
    store.migrate().await.unwrap();
    assert!(!store.has_api_keys().await.unwrap());
    // the text of a migration that has run must not change
    run(&url, "UPDATE _sqlx_migrations SET checksum = (SELECT checksum FROM _sqlx_migrations WHERE version = 2) WHERE version = 1")
        .await;
    assert!(store.schema().await.is_err());
    assert!(store.migrate().await.is_err());
}

#[tokio::test]
async fn d15_an_older_build_starts_on_a_newer_database_sqlite() {
    an_older_build_starts_on_a_newer_database(Kind::Sqlite).await;
}

#[tokio::test]
async fn d15_an_older_build_starts_on_a_newer_database_postgres() {
    an_older_build_starts_on_a_newer_database(Kind::Postgres).await;
}

#[tokio::test]
async fn what_is_not_there_is_not_made_by_connecting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    let error = Store::connect(&format!("sqlite:{}", path.display())).await.unwrap_err();
    assert!(matches!(error, store::Error::File { .. }) && !path.exists(), "{error}");
}
