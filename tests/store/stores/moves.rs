//! Whole tables that are copied from SQLite to PostgreSQL, and the record of a move.

use std::collections::BTreeSet;

use store::{Cell, ColumnKind, Error, Move, Store, Table};
use tempfile::TempDir;
use tests_store::{Kind, execute, new_store};

/// Opens a new database of each kind. `None`: this machine has no PostgreSQL.
async fn pair() -> Option<([TempDir; 2], Store, Store)> {
    let (there, target) = new_store(Kind::Postgres).await?;
    let (here, source) = new_store(Kind::Sqlite).await?;
    Some(([here, there], source, target))
}

fn url(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("test.db").display())
}

async fn table(store: &Store, name: &str) -> Table {
    store.tables().await.unwrap().into_iter().find(|table| table.name == name).unwrap()
}

/// Reads a table. Returns its rows in order, and the number of portions.
async fn read(store: &Store, table: &Table) -> (Vec<String>, usize) {
    let (mut all, mut portions) = (Vec::new(), 0);
    store
        .read_table::<Error>(table, async |rows| {
            assert!(rows.len() <= 1000);
            all.extend(rows.iter().map(|row| format!("{row:?}")));
            portions += 1;
            Ok(())
        })
        .await
        .unwrap();
    all.sort_unstable();
    (all, portions)
}

async fn copy(source: &Store, target: &Store, table: &Table) -> store::Result<()> {
    source.read_table::<Error>(table, async |rows| target.append_rows(table, rows).await).await
}

#[tokio::test]
async fn tables_come_after_those_to_which_they_refer_and_have_the_columns_of_sqlite() {
    let Some((_folders, source, target)) = pair().await else { return };
    let (tables, mut here) = (target.tables().await.unwrap(), source.sqlite_columns().await.unwrap());
    let mut before: BTreeSet<&str> = BTreeSet::new();
    for table in &tables {
        assert!(table.parents.iter().all(|parent| before.contains(parent.as_str())), "{table:?}");
        before.insert(&table.name);
        let columns: BTreeSet<String> = table.columns.iter().map(|column| column.name.clone()).collect();
        assert_eq!(here.remove(&table.name), Some(columns), "{}", table.name);
    }
    assert!(tables.len() > 50 && tables.iter().filter(|table| !table.parents.is_empty()).count() > 10);
    let alone: Vec<String> = here.into_keys().collect();
    assert_eq!(alone, ["arithmetic_operations", "circuit_operations"]);
    let sessions = table(&target, "gate_sessions").await;
    let kind = |name: &str| sessions.columns.iter().find(|column| column.name == name).unwrap().kind;
    let kinds = ["digest", "state", "created_at", "is_blind"].map(kind);
    assert_eq!(kinds, [ColumnKind::Bytes, ColumnKind::Text, ColumnKind::Integer, ColumnKind::Boolean]);
    // neither direction is for the other kind of database
    assert!(source.tables().await.is_err() && target.sqlite_columns().await.is_err());
}

#[tokio::test]
async fn rows_arrive_in_portions_with_the_largest_and_the_emptiest_values() {
    let Some(([here, _there], source, target)) = pair().await else { return };
    let rows = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2500) ";
    execute(&url(&here), &format!("{rows}INSERT INTO announcements SELECT 'fact ' || n, n FROM numbers")).await;
    execute(
        &url(&here),
        "INSERT INTO announcements VALUES ('', 9223372036854775807), ('漢字''\"\\', -9223372036854775808)",
    )
    .await;
    // each of these values fills a portion
    execute(
        &url(&here),
        "INSERT INTO document_files VALUES ('none', X''), ('one', zeroblob(5000000)), ('two', randomblob(5000000))",
    )
    .await;
    for (name, count, portions) in [("announcements", 2502, 3), ("document_files", 3, 2)] {
        let table = table(&target, name).await;
        assert!(target.is_table_empty(&table).await.unwrap());
        copy(&source, &target, &table).await.unwrap();
        let (read_here, portions_here) = read(&source, &table).await;
        assert_eq!((read_here.len(), portions_here), (count, portions), "{name}");
        assert!(read_here == read(&target, &table).await.0, "{name}");
        assert!(!target.is_table_empty(&table).await.unwrap());
        target.clear_tables(&[&table]).await.unwrap();
        assert!(target.is_table_empty(&table).await.unwrap());
    }
}

#[tokio::test]
async fn a_row_that_postgresql_cannot_store_is_named_and_none_of_its_portion_is_stored() {
    let Some((_folders, _source, target)) = pair().await else { return };
    let accounts = table(&target, "accounts").await;
    let row = |id: &str, is_suspended: i64| {
        let value = |kind| match kind {
            ColumnKind::Text => Cell::Text("free".to_owned()),
            ColumnKind::Boolean => Cell::Integer(0),
            ColumnKind::Integer => Cell::Integer(5),
            ColumnKind::Bytes => Cell::Bytes(Vec::new()),
        };
        let value = |column: &store::TableColumn| match column.name.as_str() {
            "account_id" => Cell::Text(id.to_owned()),
            "payment" => Cell::Text("active".to_owned()),
            "is_suspended" => Cell::Integer(is_suspended),
            _ => value(column.kind),
        };
        accounts.columns.iter().map(value).collect::<Vec<Cell>>()
    };
    let refused = async |rows, why: &str| {
        let error = target.append_rows(&accounts, rows).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(target.is_table_empty(&accounts).await.unwrap());
    };
    refused(vec![row("a", 0), row("b\0", 0)], "accounts: the column account_id has the character U+0000").await;
    refused(vec![row("a", 0), row("b", 2)], "is_suspended has Integer(2) in place of 0 or 1").await;
    refused(vec![row("a", 0), row("a", 0)], "duplicate key").await;
    target.append_rows(&accounts, vec![row("a", 0), row("b", 1)]).await.unwrap();
    // the keys of an account refer to it
    assert!(target.clear_tables(&[&accounts]).await.is_err());
    assert!(!target.is_table_empty(&accounts).await.unwrap());
}

#[tokio::test]
async fn one_process_holds_a_move_and_a_move_of_another_database_is_refused() {
    let Some((_folders, _source, target)) = pair().await else { return };
    assert_eq!(target.recorded_move().await.unwrap(), None);
    let held = target.hold_move("here", 5).await.unwrap().unwrap();
    assert!(target.hold_move("here", 6).await.unwrap().is_none());
    drop(held);
    let error = target.hold_move("elsewhere", 7).await.unwrap_err().to_string();
    assert!(error.contains("another database"), "{error}");
    let of = |ended_at| Some(Move { source_id: "here".to_owned(), begun_at: 5, ended_at });
    assert_eq!(target.recorded_move().await.unwrap(), of(None));
    // the rollback of a dropped value may still be on its way
    let held = loop {
        if let Some(held) = target.hold_move("here", 8).await.unwrap() {
            break held;
        }
    };
    held.end(9).await.unwrap();
    assert_eq!(target.recorded_move().await.unwrap(), of(Some(9)));
}
