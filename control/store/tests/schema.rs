//! Migrations: equal schemas on both databases, an upgrade that keeps its data, and a roll-back.

use std::collections::BTreeMap;

use sqlx::sqlite::SqlitePool;
use sqlx::{Connection, PgConnection, Row};
use store::{Schema, Store};
use tempfile::TempDir;
use tests::database::Kind;

/// The first release's schema: accounts, keys, sessions, usage.
const FIRST: i64 = 1;

/// An empty database of this kind. `None`: there is none here.
async fn empty(kind: Kind) -> Option<(TempDir, String, Store)> {
    let folder = tempfile::tempdir().unwrap();
    let url = kind.new_url(folder.path())?;
    Store::make_file(&url).unwrap();
    let store = Store::connect(&url).await.unwrap();
    Some((folder, url, store))
}

/// Runs a statement that the store has no function for.
async fn run(url: &str, sql: &'static str) {
    match url.starts_with("sqlite:") {
        true => drop(sqlx::query(sql).execute(&SqlitePool::connect(url).await.unwrap()).await.unwrap()),
        false => drop(sqlx::query(sql).execute(&mut PgConnection::connect(url).await.unwrap()).await.unwrap()),
    }
}

/// Every column as table, name, kind and whether it must have a value.
async fn columns(url: &str) -> BTreeMap<(String, String), (String, bool)> {
    let rows: Vec<(String, String, String, bool)> = if url.starts_with("sqlite:") {
        let sql = "SELECT t.name, c.name, c.type, c.\"notnull\" = 1 FROM sqlite_master t, pragma_table_info(t.name) c \
             WHERE t.type = 'table'";
        sqlx::query_as(sql).fetch_all(&SqlitePool::connect(url).await.unwrap()).await.unwrap()
    } else {
        let sql = "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'NO' \
             FROM information_schema.columns WHERE table_schema = 'public'";
        sqlx::query_as(sql).fetch_all(&mut PgConnection::connect(url).await.unwrap()).await.unwrap()
    };
    let ours = rows.into_iter().filter(|(table, ..)| !table.starts_with("_sqlx") && !table.starts_with("sqlite_"));
    ours.map(|(table, column, kind, required)| ((table, column), (plain_kind(&kind).to_owned(), required))).collect()
}

/// One name for what is one kind in Rust.
fn plain_kind(kind: &str) -> &str {
    match kind {
        "INTEGER" | "bigint" | "integer" | "boolean" | "smallint" => "integer",
        "TEXT" | "text" => "text",
        "BLOB" | "bytea" => "bytes",
        other => other,
    }
}

/// Every index of ours by name, with its table.
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
    let known = columns(&sqlite).await;
    assert!(known.len() > 80, "{known:?}");
    assert_eq!(known, columns(&postgres).await);
    assert_eq!(indices(&sqlite).await, indices(&postgres).await);
}

async fn an_old_database_keeps_its_data_through_an_upgrade(kind: Kind) {
    let Some((_folder, url, store)) = empty(kind).await else { return };
    assert_eq!(store.schema().await.unwrap(), Schema::Empty);
    store.migrate_up_to(FIRST).await.unwrap();
    assert!(matches!(store.schema().await.unwrap(), Schema::Older(missing) if missing[0] == FIRST + 1));
    let digest = match kind {
        Kind::Sqlite => {
            "INSERT INTO api_keys (key_id, account_id, lineage_id, digest, key_prefix, role, environment, \
             created_at) VALUES ('ak_1', 'acct_1', 'lin_1', zeroblob(32), 'svc_live_0123456', 'developer', 'live', 6)"
        }
        Kind::Postgres => {
            "INSERT INTO api_keys (key_id, account_id, lineage_id, digest, key_prefix, role, environment, \
             created_at) VALUES ('ak_1', 'acct_1', 'lin_1', decode(repeat('00', 32), 'hex'), 'svc_live_0123456', \
             'developer', 'live', 6)"
        }
    };
    run(&url, "INSERT INTO accounts (account_id, created_at) VALUES ('acct_1', 5)").await;
    run(&url, digest).await;

    store.migrate().await.unwrap();
    assert_eq!(store.schema().await.unwrap(), Schema::Current);
    let key = store.api_key(&[0; 32]).await.unwrap().expect("the key is there");
    assert_eq!((key.key_id.as_str(), key.created_at, key.plan.as_str(), key.platform), ("ak_1", 6, "free", true));
    assert_eq!(store.accounts().await.unwrap()[0].keys, 1);
}

#[tokio::test]
async fn an_old_database_keeps_its_data_through_an_upgrade_sqlite() {
    an_old_database_keeps_its_data_through_an_upgrade(Kind::Sqlite).await;
}

#[tokio::test]
async fn an_old_database_keeps_its_data_through_an_upgrade_postgres() {
    an_old_database_keeps_its_data_through_an_upgrade(Kind::Postgres).await;
}

/// D15: the older build is what a roll-back starts.
async fn an_older_build_starts_on_a_newer_database(kind: Kind) {
    let Some((_folder, url, store)) = empty(kind).await else { return };
    store.migrate().await.unwrap();
    // as a build does whose migrations end here
    store.migrate_up_to(FIRST).await.unwrap();
    assert_eq!(store.schema().await.unwrap(), Schema::Current);
    // as this build does after a newer one
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
    // but no migration that ran may have another text
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
