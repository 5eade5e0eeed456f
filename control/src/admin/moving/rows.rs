//! The rows of a move.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};
use store::{Cell, ColumnKind, Store, Table};

use super::Check;

/// Tables that are not copied, with the reasons.
pub const LEFT_OUT: [(&str, &str); 5] = [
    ("moves", "the record of the move itself"),
    ("nodes", "leases of the nodes of the source, which do not run"),
    ("bursts", "token buckets, which are full again after some seconds"),
    ("circuit_operations", "of the release before: its rows are in `operations`, and PostgreSQL has a view"),
    ("arithmetic_operations", "of the release before: its rows are in `operations`, and PostgreSQL has a view"),
];
/// Tables in which migrations write rows, so that an unused database has them too.
const MIGRATED: [&str; 3] = ["database_identity", "lockout_version", "waiting_line_time"];
/// Parts of the names of columns with amounts, and a column with a rate.
const AMOUNTS: [&str; 4] = ["yen", "usd", "cents", "fcu"];
const RATE: &str = "usd_milli_jpy";
/// Number of rows after which a line tells how far the copy of a table has come.
const TOLD_ROWS: u64 = 100_000;

/// Returns the tables to copy, each after those to which it refers.
///
/// # Errors
/// When a table or a column exists on one side alone.
pub async fn tables(source: &Store, target: &Store) -> anyhow::Result<Vec<Table>> {
    let is_copied = |name: &str| LEFT_OUT.iter().all(|(left_out, _)| *left_out != name);
    let mut here = source.sqlite_columns().await?;
    here.retain(|name, _| is_copied(name));
    let mut tables = target.tables().await?;
    tables.retain(|table| is_copied(&table.name));
    for table in &tables {
        let columns: BTreeSet<String> = table.columns.iter().map(|column| column.name.clone()).collect();
        ensure!(here.remove(&table.name) == Some(columns), "the table {} differs between the databases", table.name);
    }
    let alone: Vec<String> = here.into_keys().collect();
    ensure!(alone.is_empty(), "PostgreSQL has no table {}", alone.join(", "));
    Ok(tables)
}

/// Refuses a target in which a node has written rows.
///
/// # Errors
/// When a table has rows.
pub async fn refuse_used(target: &Store, tables: &[Table]) -> anyhow::Result<()> {
    for table in tables.iter().filter(|table| !MIGRATED.contains(&table.name.as_str())) {
        ensure!(
            target.is_table_empty(table).await?,
            "ANGO_DATABASE_URL: the database is in use: the table {} has rows. A node moves into an empty database",
            table.name
        );
    }
    Ok(())
}

/// The contents of a table in short. Two tables with the same facts have the same rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    rows: u64,
    /// The sums of the columns with amounts.
    sums: BTreeMap<String, i128>,
    /// The sum of the digests of the rows, so that the order of the rows does not matter.
    digest: [u64; 4],
}

impl Facts {
    async fn of(store: &Store, table: &Table) -> Result<Facts, store::Error> {
        let mut facts = Facts::default();
        store
            .read_table::<store::Error>(table, async |rows| {
                rows.iter().for_each(|row| facts.add(table, row));
                Ok(())
            })
            .await?;
        Ok(facts)
    }

    fn add(&mut self, table: &Table, row: &[Cell]) {
        let mut hash = Sha256::new();
        for (column, cell) in table.columns.iter().zip(row) {
            // the kind and the length keep apart values that would be the same bytes one after the other
            let (kind, bytes) = match cell {
                Cell::Null => (0, &[][..]),
                Cell::Integer(integer) => (1, &integer.to_le_bytes()[..]),
                Cell::Text(text) => (2, text.as_bytes()),
                Cell::Bytes(bytes) => (3, &bytes[..]),
            };
            hash.update([kind]);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
            if let (Cell::Integer(amount), true) = (cell, is_amount(column.kind, &column.name)) {
                *self.sums.entry(column.name.clone()).or_default() += i128::from(*amount);
            }
        }
        let digest: [u8; 32] = hash.finalize().into();
        for (sum, word) in self.digest.iter_mut().zip(digest.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
        self.rows += 1;
    }
}

fn is_amount(kind: ColumnKind, column: &str) -> bool {
    kind == ColumnKind::Integer && column != RATE && AMOUNTS.iter().any(|part| column.contains(part))
}

/// Copies the tables whose rows differ, and the tables that refer to them. Compares all tables afterwards.
///
/// # Errors
/// When a database fails, or PostgreSQL cannot store a row. The error names the table.
pub async fn copy(
    source: &Store,
    target: &Store,
    tables: &[Table],
    tell: &dyn Fn(String),
) -> anyhow::Result<Vec<Check>> {
    let mut differing: Vec<&Table> = Vec::new();
    for table in tables {
        let follows = differing.iter().any(|parent| table.parents.contains(&parent.name));
        if follows || Facts::of(source, table).await? != Facts::of(target, table).await? {
            differing.push(table);
        }
    }
    tell(format!("{} of {} tables are to be copied", differing.len(), tables.len()));
    target.clear_tables(&differing).await?;
    for table in &differing {
        copy_table(source, target, table, tell).await.with_context(|| format!("the table {}", table.name))?;
    }
    let mut checks = Vec::new();
    for table in tables {
        checks.extend(compare(source, target, table).await?);
    }
    Ok(checks)
}

async fn copy_table(source: &Store, target: &Store, table: &Table, tell: &dyn Fn(String)) -> anyhow::Result<()> {
    let (mut copied, mut told) = (0, 0);
    source
        .read_table::<anyhow::Error>(table, async |rows| {
            copied += rows.len() as u64;
            target.append_rows(table, rows).await?;
            if copied - told >= TOLD_ROWS {
                told = copied;
                tell(format!("{}: {copied} rows", table.name));
            }
            Ok(())
        })
        .await?;
    target.analyze_table(table).await?;
    if copied > 0 {
        tell(format!("{}: all {copied} rows", table.name));
    }
    Ok(())
}

async fn compare(source: &Store, target: &Store, table: &Table) -> Result<Vec<Check>, store::Error> {
    let (here, there) = (Facts::of(source, table).await?, Facts::of(target, table).await?);
    let words = |facts: &Facts| format!("{} rows, {:016x}", facts.rows, facts.digest[0]);
    let mut rows = Check::new(&table.name, words(&here), words(&there));
    rows.is_same = here == there;
    let columns: BTreeSet<&String> = here.sums.keys().chain(there.sums.keys()).collect();
    let sum = |facts: &Facts, column| facts.sums.get(column).copied().unwrap_or_default();
    let sums = columns
        .into_iter()
        .map(|column| Check::new(format!("{}: sum of {column}", table.name), sum(&here, column), sum(&there, column)));
    Ok([rows].into_iter().chain(sums).collect())
}

#[cfg(test)]
mod tests {
    use store::TableColumn;

    use super::*;

    fn facts(rows: &[[Cell; 2]]) -> Facts {
        let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
        let columns = vec![column("name", ColumnKind::Text), column("cost_milli_yen", ColumnKind::Integer)];
        let table = Table { name: "t".to_owned(), columns, parents: BTreeSet::new() };
        let mut facts = Facts::default();
        rows.iter().for_each(|row| facts.add(&table, row));
        facts
    }

    #[test]
    fn facts_tell_rows_apart_and_know_no_order() {
        let row = |text: &str, amount| [Cell::Text(text.to_owned()), Cell::Integer(amount)];
        let (one, two) = (row("a", i64::MAX), row("b", i64::MAX));
        let both = facts(&[one.clone(), two.clone()]);
        assert_eq!(both, facts(&[two, one.clone()]));
        assert_eq!((both.rows, both.sums["cost_milli_yen"]), (2, 2 * i128::from(i64::MAX)));
        let others = [
            facts(&[]),
            facts(&[one.clone(), one]),
            facts(&[row("a", i64::MAX), row("b", i64::MAX - 1)]),
            facts(&[row("b", i64::MAX), row("", i64::MAX)]),
            facts(&[row("a", i64::MAX), [Cell::Null, Cell::Integer(i64::MAX)]]),
            facts(&[row("a", i64::MAX), [Cell::Bytes(b"b".to_vec()), Cell::Integer(i64::MAX)]]),
        ];
        assert!(others.iter().all(|other| other.digest != both.digest), "{others:?}");
    }

    #[test]
    fn rates_and_names_are_no_amounts() {
        let amounts = ["milli_yen", "cost_nano_usd", "amount_usd_cents", "fcu_reserved", "usd_milli_jpy", "bytes"];
        let found: Vec<_> = amounts.iter().filter(|name| is_amount(ColumnKind::Integer, name)).collect();
        assert_eq!(
            found,
            ["milli_yen", "cost_nano_usd", "amount_usd_cents", "fcu_reserved"].iter().collect::<Vec<_>>()
        );
        assert!(!is_amount(ColumnKind::Text, "milli_yen"));
    }
}
