//! Copies whole tables from an SQLite file to PostgreSQL, whatever columns they have. The tables and their columns come
//! from the schema, so a table of a later migration is copied too.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{Stream, TryStreamExt};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments, AssertSqlSafe, ColumnIndex, Decode, Executor, Row, Type};

use crate::commits::{Moment, reach};
use crate::database::{Pools, Server, values};
use crate::{Error, Result, Store};

/// Largest number of rows of a portion, and the bytes of texts and byte strings after which a portion ends.
const PORTION_ROWS: usize = 1000;
const PORTION_BYTES: usize = 4 << 20;
/// The statements of a copy may take longer than those of a node.
const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";

/// A table of PostgreSQL's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The table's name.
    pub name: String,
    /// The columns, in the order of the schema.
    pub columns: Vec<TableColumn>,
    /// The other tables to whose rows the rows of this table refer.
    pub parents: BTreeSet<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// The column's name.
    pub name: String,
    /// The type of the column's values.
    pub kind: ColumnKind,
}

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// 64-bit integers.
    Integer,
    /// Truth values: in SQLite the integers 0 and 1.
    Boolean,
    /// Byte strings.
    Bytes,
}

/// A value in a row. Truth values are the integers 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// No value.
    Null,
    /// A text.
    Text(String),
    /// An integer, or a truth value.
    Integer(i64),
    /// A byte string.
    Bytes(Vec<u8>),
}

impl Cell {
    fn bytes(&self) -> usize {
        match self {
            Cell::Null | Cell::Integer(_) => 8,
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
        }
    }
}

impl Store {
    /// Returns the tables of PostgreSQL's schema and their columns, each table after its parents. Leaves out the
    /// record of the migrations.
    ///
    /// # Errors
    /// When the database is SQLite, or a column has a type that this program does not know.
    pub async fn tables(&self) -> Result<Vec<Table>> {
        self.server()?;
        let sql = "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns \
             JOIN information_schema.tables USING (table_schema, table_name) \
             WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY table_name, ordinal_position";
        let columns: Vec<(String, String, String)> = self.db.fetch_all(sql, values![]).await?;
        let sql = "SELECT child.relname::text, parent.relname::text FROM pg_constraint k \
             JOIN pg_class child ON child.oid = k.conrelid JOIN pg_class parent ON parent.oid = k.confrelid \
             JOIN pg_namespace n ON n.oid = child.relnamespace \
             WHERE k.contype = 'f' AND child.oid <> parent.oid AND n.nspname = current_schema()";
        let references: Vec<(String, String)> = self.db.fetch_all(sql, values![]).await?;
        let mut tables: BTreeMap<String, Table> = BTreeMap::new();
        for (table, name, kind) in columns.into_iter().filter(|(table, ..)| !is_of_migrations(table)) {
            let kind = match kind.as_str() {
                "text" => ColumnKind::Text,
                "bigint" => ColumnKind::Integer,
                "boolean" => ColumnKind::Boolean,
                "bytea" => ColumnKind::Bytes,
                _ => return Err(Error::Move(format!("{table}.{name} has the type {kind}, which cannot be copied"))),
            };
            let new = || Table { name: table.clone(), columns: Vec::new(), parents: BTreeSet::new() };
            tables.entry(table.clone()).or_insert_with(new).columns.push(TableColumn { name, kind });
        }
        for (child, parent) in references {
            tables.entry(child).and_modify(|table| table.parents.extend([parent]));
        }
        parents_first(tables)
    }

    /// Returns the names of the tables of an SQLite schema, with the names of their columns. Leaves out the record of the
    /// migrations.
    ///
    /// # Errors
    /// When the database is PostgreSQL.
    pub async fn sqlite_columns(&self) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let Pools::Sqlite { readers, .. } = &self.db.open else {
            return Err(Error::Move("rows are copied from SQLite only".to_owned()));
        };
        let sql = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table' \
             AND t.name NOT LIKE 'sqlite_%'";
        let columns: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(readers).await?;
        let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (table, column) in columns.into_iter().filter(|(table, _)| !is_of_migrations(table)) {
            tables.entry(table).or_default().insert(column);
        }
        Ok(tables)
    }

    /// Reads all rows of a table, in no order, and gives them to `each` in portions of at most 1,000 rows. A portion ends
    /// early when its values have 4 MB.
    ///
    /// # Errors
    /// When the database does not answer, a value has another type than its column, or `each` fails.
    pub async fn read_table<E: From<Error>>(
        &self,
        table: &Table,
        each: impl AsyncFnMut(Vec<Vec<Cell>>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let failed = |error: sqlx::Error| E::from(error.into());
        match &self.db.open {
            Pools::Sqlite { readers, .. } => {
                let sql = format!("SELECT {} FROM \"{}\"", names(table, |name, _| format!("\"{name}\"")), table.name);
                let mut reader = readers.acquire().await.map_err(failed)?;
                let rows = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch(&mut *reader);
                in_portions(rows.map_ok(|row| cells(&row, table)), each).await
            }
            Pools::Postgres(server) => {
                let column = |name: &str, kind| match kind {
                    ColumnKind::Boolean => format!("CAST(CAST(\"{name}\" AS INTEGER) AS BIGINT)"),
                    _ => format!("\"{name}\""),
                };
                let sql = format!("SELECT {} FROM \"{}\"", names(table, column), table.name);
                let mut tx = server.begin().await.map_err(failed)?;
                tx.execute(NO_TIMEOUT).await.map_err(failed)?;
                let rows = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch(&mut *tx);
                in_portions(rows.map_ok(|row| cells(&row, table)), each).await?;
                tx.rollback().await.map_err(failed)
            }
        }
    }

    /// Adds rows to a table of PostgreSQL, in one transaction. Each row has a value for each column of `table`, in order.
    ///
    /// # Errors
    /// When a row cannot be stored: a text with the character U+0000, a truth value other than 0 and 1, or a row that
    /// breaks a constraint. No row of the call is then added.
    pub async fn append_rows(&self, table: &Table, rows: Vec<Vec<Cell>>) -> Result<()> {
        let server = self.server()?;
        let column = |at: usize, kind| match kind {
            ColumnKind::Text => format!("${at}::text[]"),
            ColumnKind::Integer => format!("${at}::bigint[]"),
            ColumnKind::Boolean => format!("${at}::boolean[]"),
            ColumnKind::Bytes => format!("${at}::bytea[]"),
        };
        let arrays: Vec<String> = (1..).zip(&table.columns).map(|(at, one)| column(at, one.kind)).collect();
        let sql = format!(
            "INSERT INTO \"{}\" ({}) SELECT * FROM unnest({})",
            table.name,
            names(table, |name, _| format!("\"{name}\"")),
            arrays.join(", ")
        );
        let arguments = by_columns(table, rows)?;
        reach(Moment::Before);
        let mut tx = server.begin().await?;
        tx.execute(NO_TIMEOUT).await?;
        sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(false).execute(&mut *tx).await?;
        tx.commit().await?;
        reach(Moment::After);
        Ok(())
    }

    /// Removes all rows of these tables of PostgreSQL. Every table that refers to one of them must be among them.
    ///
    /// # Errors
    /// When another connection uses one of the tables for longer than 10 s.
    pub async fn clear_tables(&self, tables: &[&Table]) -> Result<()> {
        let server = self.server()?;
        if tables.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = tables.iter().map(|table| format!("\"{}\"", table.name)).collect();
        reach(Moment::Before);
        let mut one = server.for_writing().await?;
        let sql = format!("TRUNCATE {}", names.join(", "));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(one.get()).await?;
        one.end().await?;
        reach(Moment::After);
        Ok(())
    }

    /// Lets PostgreSQL count what is in a table, for its plans of queries.
    pub async fn analyze_table(&self, table: &Table) -> Result<()> {
        let mut tx = self.server()?.begin().await?;
        tx.execute(NO_TIMEOUT).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE \"{}\"", table.name))).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    /// Whether a table has no row.
    pub async fn is_table_empty(&self, table: &Table) -> Result<bool> {
        let mut one = self.server()?.for_reading().await?;
        let sql = format!("SELECT NOT EXISTS (SELECT 1 FROM \"{}\")", table.name);
        let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(one.get()).await?;
        one.end().await?;
        Ok(row.try_get(0)?)
    }

    fn server(&self) -> Result<&Server> {
        match &self.db.open {
            Pools::Postgres(server) => Ok(server),
            Pools::Sqlite { .. } => Err(Error::Move("rows are copied to PostgreSQL only".to_owned())),
        }
    }
}

fn is_of_migrations(table: &str) -> bool {
    table == "_sqlx_migrations"
}

fn names(table: &Table, column: impl Fn(&str, ColumnKind) -> String) -> String {
    table.columns.iter().map(|one| column(&one.name, one.kind)).collect::<Vec<_>>().join(", ")
}

/// Sorts tables so that each comes after its parents.
fn parents_first(mut tables: BTreeMap<String, Table>) -> Result<Vec<Table>> {
    let mut sorted: Vec<Table> = Vec::new();
    while !tables.is_empty() {
        let is_next = |table: &Table| !table.parents.iter().any(|parent| tables.contains_key(parent));
        let Some(next) = tables.values().find(|table| is_next(table)).map(|table| table.name.clone()) else {
            let names: Vec<&str> = tables.keys().map(String::as_str).collect();
            return Err(Error::Move(format!("tables refer to each other in a circle: {}", names.join(", "))));
        };
        sorted.extend(tables.remove(&next));
    }
    Ok(sorted)
}

/// Reads the values of a row.
fn cells<'r, R: Row>(row: &'r R, table: &Table) -> sqlx::Result<Vec<Cell>>
where
    usize: ColumnIndex<R>,
    Option<i64>: Decode<'r, R::Database> + Type<R::Database>,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
    Option<Vec<u8>>: Decode<'r, R::Database> + Type<R::Database>,
{
    let cell = |(at, column): (usize, &TableColumn)| {
        Ok(match column.kind {
            ColumnKind::Text => row.try_get::<Option<String>, _>(at)?.map(Cell::Text),
            ColumnKind::Bytes => row.try_get::<Option<Vec<u8>>, _>(at)?.map(Cell::Bytes),
            ColumnKind::Integer | ColumnKind::Boolean => row.try_get::<Option<i64>, _>(at)?.map(Cell::Integer),
        }
        .unwrap_or(Cell::Null))
    };
    table.columns.iter().enumerate().map(cell).collect()
}

async fn in_portions<E: From<Error>>(
    mut rows: impl Stream<Item = sqlx::Result<sqlx::Result<Vec<Cell>>>> + Unpin,
    mut each: impl AsyncFnMut(Vec<Vec<Cell>>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let failed = |error: sqlx::Error| E::from(error.into());
    let (mut portion, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let row = row.map_err(failed)?;
        bytes += row.iter().map(Cell::bytes).sum::<usize>();
        portion.push(row);
        if portion.len() == PORTION_ROWS || bytes >= PORTION_BYTES {
            each(std::mem::take(&mut portion)).await?;
            bytes = 0;
        }
    }
    if portion.is_empty() { Ok(()) } else { each(portion).await }
}

/// Makes an array for each column.
fn by_columns(table: &Table, rows: Vec<Vec<Cell>>) -> Result<PgArguments> {
    let mut columns: Vec<Vec<Cell>> = table.columns.iter().map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
    }
    let mut arguments = PgArguments::default();
    for (TableColumn { name, kind }, cells) in table.columns.iter().zip(columns) {
        let refused = |why: String| Error::Move(format!("a row of {}: the column {name} {why}", table.name));
        let added = match kind {
            ColumnKind::Text => {
                let texts = cells.into_iter().map(|cell| match cell {
                    Cell::Null => Ok(None),
                    Cell::Text(text) if !text.contains('\0') => Ok(Some(text)),
                    Cell::Text(_) => Err(refused("has the character U+0000, which PostgreSQL cannot store".to_owned())),
                    other => Err(refused(format!("has {other:?} in place of a text"))),
                });
                arguments.add(texts.collect::<Result<Vec<Option<String>>>>()?)
            }
            ColumnKind::Integer => {
                let integers = cells.into_iter().map(|cell| match cell {
                    Cell::Null => Ok(None),
                    Cell::Integer(integer) => Ok(Some(integer)),
                    other => Err(refused(format!("has {other:?} in place of an integer"))),
                });
                arguments.add(integers.collect::<Result<Vec<Option<i64>>>>()?)
            }
            ColumnKind::Boolean => {
                let truths = cells.into_iter().map(|cell| match cell {
                    Cell::Null => Ok(None),
                    Cell::Integer(truth @ (0 | 1)) => Ok(Some(truth == 1)),
                    other => Err(refused(format!("has {other:?} in place of 0 or 1"))),
                });
                arguments.add(truths.collect::<Result<Vec<Option<bool>>>>()?)
            }
            ColumnKind::Bytes => {
                let byte_strings = cells.into_iter().map(|cell| match cell {
                    Cell::Null => Ok(None),
                    Cell::Bytes(bytes) => Ok(Some(bytes)),
                    other => Err(refused(format!("has {other:?} in place of bytes"))),
                });
                arguments.add(byte_strings.collect::<Result<Vec<Option<Vec<u8>>>>>()?)
            }
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}
