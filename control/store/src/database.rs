//! One SQL for two databases. A statement is written once, with `$1` placeholders, and means the same on both.
//!
//! Statements may use text, 64-bit integers, booleans, bytes, `ON CONFLICT` and `RETURNING`. Sequences and JSON are not
//! allowed, and the only clock is [`clock`]. A statement has two forms if the databases differ ([`Sql`]). One such case is a statement with many
//! rows: an array for each column and `unnest` on PostgreSQL, one JSON text and `json_each` on SQLite ([`Column`]).
//!
//! SQLite has one connection that writes and some that read. Writers wait for the writing connection in the order of
//! their arrival. On PostgreSQL each statement sees everything that was committed before it, so a transaction first
//! locks the rows that must not change until the transaction ends.

mod condition;
mod connections;
pub(crate) mod faults;
mod wal;

use std::sync::Arc;
use std::time::Duration;

use api::circuits::OperationStatus;
use api::{Environment, Plan, Role, Word};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqlitePool, SqliteRow};
use sqlx::{Arguments, ColumnIndex, Decode, Executor, FromRow, Type};

use crate::commits::{Moment, reach};
use crate::{Error, Result};
use condition::{Condition, Writes};
pub(crate) use connections::Server;

/// Longest time that a call waits for a connection or, on SQLite, for another writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that a call waits for a PostgreSQL connection. After this time the database counts as not answering.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// Settings of PostgreSQL for a statement that reads whole tables: no timeout, and memory for its sums.
const SLOW_SETTINGS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL work_mem = '64MB'";
/// The cache of SQLite for such a statement, in which sums are sorted too, and the usual cache.
const SLOW_CACHE: &str = "PRAGMA cache_size = -65536";
const USUAL_CACHE: &str = "PRAGMA cache_size = -2000";
/// Writes to the database without changing anything that anyone reads. On SQLite an `UPDATE` with equal values would write
/// nothing.
const TRY_TO_WRITE: Sql =
    Sql { sqlite: "PRAGMA user_version = 0", postgres: "UPDATE database_identity SET database_id = database_id" };
/// Longest time that a call waits for PostgreSQL's answer. Needed because the connection may have been cut silently.
/// Longer than PostgreSQL's own timeout for statements.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);
/// Largest number of connections with which a node reads from SQLite.
const SQLITE_READERS_MAX: u32 = 4;
/// Size to which SQLite's write-ahead log shrinks, in bytes. SQLite writes the log back into the file whenever the log has
/// 4 MB, unless someone reads an older state; then the log grows.
const WAL_BYTES_MAX: u64 = 8 << 20;
const POSTGRES_CONNECTIONS_MAX: u32 = 16;

/// A statement, in two forms if the databases differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

impl From<&'static str> for Sql {
    fn from(both: &'static str) -> Self {
        Sql { sqlite: both, postgres: both }
    }
}

/// Builds a query that locks the rows that it selects, so that other transactions cannot change these rows until this
/// transaction ends. SQLite needs no such lock, because only one transaction writes at a time.
macro_rules! locking {
    ($($query:expr),+) => {
        $crate::database::Sql {
            sqlite: concat!($($query),+),
            postgres: concat!($($query,)+ " FOR NO KEY UPDATE"),
        }
    };
}
pub(crate) use locking;

/// The SQL expression for the database's clock when the statement began, in microseconds since 1970. PostgreSQL's snapshot
/// is as old, so a lease that the statement reads is compared with a time at which the lease had this value.
macro_rules! clock {
    (sqlite) => {
        "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
    };
    (postgres) => {
        "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT)"
    };
}
pub(crate) use clock;

/// Number of old rows that one statement deletes.
pub(crate) const PORTION: i64 = 1000;

/// A value for a placeholder. Null values have types too, which PostgreSQL needs.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Integer(Option<i64>),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
    Boolean(Option<bool>),
    /// Arrays, only for PostgreSQL.
    Integers(Vec<i64>),
    Texts(Vec<Option<&'a str>>),
    ByteStrings(Vec<&'a [u8]>),
}

macro_rules! value_from {
    ($($from:ty, $kind:ident, $value:ident => $some:expr;)*) => {$(
        impl<'a> From<$from> for Value<'a> {
            fn from($value: $from) -> Self {
                Value::$kind($some)
            }
        }
    )*};
}

value_from! {
    i64, Integer, value => Some(value);
    Option<i64>, Integer, value => value;
    &'a str, Text, value => Some(value);
    &'a String, Text, value => Some(value);
    Option<&'a str>, Text, value => value;
    &'a [u8], Bytes, value => Some(value);
    &'a [u8; 32], Bytes, value => Some(value);
    &'a Vec<u8>, Bytes, value => Some(value);
    Option<&'a [u8]>, Bytes, value => value;
    bool, Boolean, value => Some(value);
    Option<bool>, Boolean, value => value;
    Environment, Text, value => Some(value.as_str());
    OperationStatus, Text, value => Some(value.as_str());
    Plan, Text, value => Some(value.as_str());
    Role, Text, value => Some(value.as_str());
    Vec<i64>, Integers, value => value;
    Vec<Option<&'a str>>, Texts, value => value;
    Vec<&'a [u8]>, ByteStrings, value => value;
}

/// The values of one column, one value for each row of a statement with many rows.
#[derive(Clone, Debug)]
pub(crate) enum Column<'a> {
    Texts(Vec<&'a str>),
    Integers(Vec<i64>),
}

impl<'a> Column<'a> {
    pub fn texts<T>(rows: &'a [T], of: impl Fn(&'a T) -> &'a str) -> Column<'a> {
        Column::Texts(rows.iter().map(of).collect())
    }

    pub fn integers<T>(rows: &[T], of: impl Fn(&T) -> i64) -> Column<'a> {
        Column::Integers(rows.iter().map(of).collect())
    }

    fn array(&self) -> Value<'a> {
        match self {
            Column::Texts(texts) => Value::Texts(texts.iter().map(|text| Some(*text)).collect()),
            Column::Integers(integers) => Value::Integers(integers.clone()),
        }
    }
}

/// Returns rows as JSON, an array of arrays. All columns have a value for each row.
fn rows_json(columns: &[Column<'_>]) -> String {
    let rows = columns.first().map_or(0, |column| match column {
        Column::Texts(texts) => texts.len(),
        Column::Integers(integers) => integers.len(),
    });
    let cell = |column: &Column<'_>, row: usize| match column {
        Column::Texts(texts) => serde_json::Value::from(texts[row]).to_string(),
        Column::Integers(integers) => integers[row].to_string(),
    };
    let row = |row| columns.iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(",");
    format!("[{}]", (0..rows).map(|at| format!("[{}]", row(at))).collect::<Vec<_>>().join(","))
}

/// Builds the list of values for a statement's placeholders, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::database::Value::from($value)),*] };
}
pub(crate) use values;

/// A type that can be read from a row of either database.
pub(crate) trait Row: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl<T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin> Row for T {}

/// Makes a struct readable from a row: each field is read from the column with the field's name. `as word` marks a
/// field whose type is an enum, which the column stores as a text. `as part` marks a field that is itself read from the
/// row's columns. The macro replaces the driver's derive, because the
/// derive compiles both drivers a second time for the build machine. That takes minutes.
macro_rules! from_row {
    ($name:ident { $($field:ident $(as $word:ident)?),* }) => {
        $crate::database::from_row!(@of sqlx::sqlite::SqliteRow, $name $($field $(as $word)?),*);
        $crate::database::from_row!(@of sqlx::postgres::PgRow, $name $($field $(as $word)?),*);
    };
    (@of $row:ty, $name:ident $($field:ident $(as $word:ident)?),*) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                Ok(Self { $($field: $crate::database::from_row!(@value row, $field $($word)?)?),* })
            }
        }
    };
    (@value $row:ident, $field:ident) => {
        sqlx::Row::try_get($row, stringify!($field))
    };
    (@value $row:ident, $field:ident word) => {
        $crate::database::word($row, stringify!($field))
    };
    (@value $row:ident, $field:ident part) => {
        sqlx::FromRow::from_row($row)
    };
}
pub(crate) use from_row;

/// Reads an enum from a column that stores it as a text.
pub(crate) fn word<'r, R: sqlx::Row, T: Word>(row: &'r R, column: &'static str) -> sqlx::Result<T>
where
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
{
    let word: String = row.try_get(column)?;
    T::of_word(&word).ok_or_else(|| sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: format!("{word:?} is no {}", T::NAME).into(),
    })
}

/// A database. A clone shares the same connections.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub open: Pools,
    condition: Arc<Condition>,
}

/// The connections to a database.
#[derive(Clone, Debug)]
pub(crate) enum Pools {
    Sqlite {
        /// A pool of one connection.
        writer: SqlitePool,
        readers: SqlitePool,
    },
    Postgres(Server),
}

/// The state of a node's connection pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Connections in use.
    pub in_use: u32,
    /// Open but idle connections.
    pub idle: u32,
    /// Largest number of connections. When all are in use, further calls wait.
    pub max: u32,
}

/// A transaction, which is rolled back if it is dropped before its commit. Its methods are in the files of the tables
/// that they read and write.
#[derive(Debug)]
pub struct Tx {
    open: Open,
    emitted: Emitted,
    /// Whether a statement has changed rows.
    wrote: bool,
    condition: Arc<Condition>,
}

/// Whether a transaction writes events. If so, deliveries begin after its commit.
#[derive(Debug, Default)]
pub(crate) struct Emitted(pub bool);

#[derive(Debug)]
enum Open {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    Postgres {
        tx: sqlx::Transaction<'static, sqlx::Postgres>,
        /// Whether statements get names and are kept.
        named: bool,
    },
}

/// Runs a statement that only reads, with the function `$fetch` of a query. If PostgreSQL's connection turns out to be
/// cut, the statement runs again on another connection.
macro_rules! read {
    ($db:expr, $sql:ident, $values:ident, $fetch:ident) => {{
        crate::statements::note($sql.sqlite, $sql.postgres);
        match &$db.open {
            Pools::Sqlite { readers, .. } => {
                let arguments: SqliteArguments = arguments($values)?;
                sqlx::query_as_with($sql.sqlite, arguments).$fetch(readers).await
            }
            Pools::Postgres(server) => {
                let mut repeated = false;
                loop {
                    let arguments: PgArguments = arguments($values)?;
                    let query = sqlx::query_as_with($sql.postgres, arguments).persistent(!server.is_shared);
                    // in a box, because callers hold the futures of many statements
                    let answer = answered(Box::pin(async {
                        let mut one = server.for_reading().await?;
                        let answer = query.$fetch(one.get()).await?;
                        one.end().await.map(|()| answer)
                    }));
                    match answer.await {
                        Err(error) if !repeated && faults::is_cut(&error) => {
                            $db.condition.cut();
                            repeated = true;
                        }
                        answer => break answer,
                    }
                }
            }
        }
    }};
}

/// Runs a statement of a transaction: makes a query with the function `$query`, runs the query with `$run`, and takes
/// `$part` of the answer.
macro_rules! in_tx {
    ($tx:expr, $sql:ident, $values:ident, $query:ident, $run:ident, $part:expr) => {{
        crate::statements::note($sql.sqlite, $sql.postgres);
        let answer = match &mut $tx.open {
            Open::Sqlite(tx) => {
                let arguments: SqliteArguments = arguments($values)?;
                sqlx::$query($sql.sqlite, arguments).$run(&mut **tx).await.map($part)
            }
            Open::Postgres { tx, named } => {
                let arguments: PgArguments = arguments($values)?;
                let query = sqlx::$query($sql.postgres, arguments).persistent(*named);
                answered(query.$run(&mut **tx)).await.map($part)
            }
        };
        answer.inspect_err(|error| $tx.condition.failed(error))?
    }};
}

/// Waits for PostgreSQL's answer to a call, at most [`ANSWER_TIMEOUT`].
async fn answered<T>(call: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late = |_| sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the database does not answer"));
    tokio::time::timeout(ANSWER_TIMEOUT, call).await.map_err(late)?
}

impl Database {
    /// Opens an existing SQLite file.
    pub(crate) async fn sqlite(options: SqliteConnectOptions) -> Result<Database> {
        let condition = Arc::default();
        let (writer, readers) = connections::sqlite(options, &condition).await?;
        Ok(Database { open: Pools::Sqlite { writer, readers }, condition })
    }

    /// Connects to PostgreSQL.
    pub(crate) async fn postgres(options: PgConnectOptions) -> Result<Database> {
        let condition = Arc::default();
        let server = Server::connect(options, Arc::clone(&condition)).await?;
        Ok(Database { open: Pools::Postgres(server), condition })
    }

    /// Returns the name that answers about the service's health use for the database.
    pub(crate) fn name(&self) -> &'static str {
        match &self.open {
            Pools::Sqlite { .. } => "sqlite",
            Pools::Postgres(_) => "postgres",
        }
    }

    /// Whether a pooler gives the transactions of a connection to different connections of the server.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(&self.open, Pools::Postgres(server) if server.is_shared)
    }

    /// Returns the longest time that a call waits for a connection.
    pub(crate) fn patience(&self) -> Duration {
        match &self.open {
            Pools::Sqlite { .. } => BUSY_TIMEOUT,
            Pools::Postgres(_) => ACQUIRE_TIMEOUT,
        }
    }

    pub(crate) fn connections(&self) -> Connections {
        let (size, idle, max) = match &self.open {
            Pools::Sqlite { writer, readers } => {
                let idle = writer.num_idle().saturating_add(readers.num_idle());
                (writer.size() + readers.size(), idle, SQLITE_READERS_MAX + 1)
            }
            Pools::Postgres(Server { pool, .. }) => (pool.size(), pool.num_idle(), POSTGRES_CONNECTIONS_MAX),
        };
        // a pool counts its idle connections without a lock, so for a moment the count may be below 0 and wrap around
        let idle = u32::try_from(idle).unwrap_or(0).min(size);
        Connections { in_use: size - idle, idle, max }
    }

    pub(crate) async fn close(&self) {
        match &self.open {
            Pools::Sqlite { writer, readers } => {
                readers.close().await;
                // close the writer last, because the last connection to close writes the log back into the file
                writer.close().await;
            }
            Pools::Postgres(server) => server.pool.close().await,
        }
    }

    /// Runs a statement that writes. Returns the number of changed rows.
    pub(crate) async fn execute(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<u64> {
        let sql = sql.into();
        reach(Moment::Before);
        crate::statements::note(sql.sqlite, sql.postgres);
        let done = match &self.open {
            Pools::Sqlite { writer, .. } => {
                let arguments: SqliteArguments = arguments(values)?;
                sqlx::query_with(sql.sqlite, arguments).execute(writer).await.map(|done| done.rows_affected())
            }
            Pools::Postgres(server) => {
                let arguments: PgArguments = arguments(values)?;
                let query = sqlx::query_with(sql.postgres, arguments).persistent(!server.is_shared);
                let execute = Box::pin(async {
                    let mut one = server.for_writing().await?;
                    let done = query.execute(one.get()).await?;
                    one.end().await.map(|()| done.rows_affected())
                });
                answered(execute).await
            }
        };
        let changed = done.inspect_err(|error| self.condition.failed(error))?;
        if changed > 0 {
            self.condition.wrote();
        }
        reach(Moment::After);
        Ok(changed)
    }

    /// Checks that the database answers and is not read-only. If a write has failed, tries a write after some seconds
    /// without another failure.
    pub(crate) async fn probe(&self) -> Result<()> {
        let sql = Sql {
            sqlite: "SELECT TRUE",
            // also on for a standby, and for a database with `default_transaction_read_only`
            postgres: "SELECT current_setting('transaction_read_only') = 'off'",
        };
        let (takes_writes,): (bool,) = self.fetch_one(sql, values![]).await?;
        if !takes_writes {
            self.condition.read_only();
            return Err(Error::ReadOnly);
        }
        match self.condition.writes() {
            Writes::Succeed => {}
            Writes::Fail => return Err(Error::WritesFail),
            Writes::Untried => {
                self.execute(TRY_TO_WRITE, values![]).await?;
                self.condition.tried();
            }
        }
        Ok(())
    }

    /// Runs a statement that deletes old rows, again and again, until fewer than `PORTION` rows are left. Other writers go
    /// on between the portions. `$1` is `before`, and `$2` is the size of a portion. Returns the number of deleted rows.
    pub(crate) async fn delete_in_portions(&self, sql: impl Into<Sql>, before: i64) -> Result<u64> {
        let sql = sql.into();
        let mut all = 0;
        loop {
            let deleted = self.execute(sql, values![before, PORTION]).await?;
            all += deleted;
            if deleted < PORTION as u64 {
                return Ok(all);
            }
        }
    }

    /// Runs a statement that only reads, and returns its single row.
    pub(crate) async fn fetch_one<T: Row>(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<T> {
        self.fetch_optional(sql, values).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    pub(crate) async fn fetch_optional<T: Row>(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<Option<T>> {
        let sql = sql.into();
        Ok(read!(self, sql, values, fetch_optional)?)
    }

    pub(crate) async fn fetch_all<T: Row>(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<Vec<T>> {
        let sql = sql.into();
        Ok(read!(self, sql, values, fetch_all)?)
    }

    /// Runs a statement that reads whole tables, and returns its rows. The statement may take minutes, so neither the
    /// server's nor the client's timeout applies.
    pub(crate) async fn fetch_all_slowly<T: Row>(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<Vec<T>> {
        let sql = sql.into();
        crate::statements::note(sql.sqlite, sql.postgres);
        match &self.open {
            Pools::Sqlite { readers, .. } => {
                let mut reader = readers.acquire().await?;
                reader.execute(SLOW_CACHE).await?;
                let arguments: SqliteArguments = arguments(values)?;
                let rows = sqlx::query_as_with(sql.sqlite, arguments).fetch_all(&mut *reader).await;
                reader.execute(USUAL_CACHE).await?;
                Ok(rows?)
            }
            Pools::Postgres(server) => {
                let mut tx = answered(server.begin()).await?;
                tx.execute(SLOW_SETTINGS).await?;
                let arguments: PgArguments = arguments(values)?;
                let query = sqlx::query_as_with(sql.postgres, arguments).persistent(!server.is_shared);
                // the end of the transaction restores the settings
                Ok(query.fetch_all(&mut *tx).await?)
            }
        }
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        let open = match &self.open {
            // BEGIN IMMEDIATE, because a transaction that begins with a read cannot write after another one has written
            Pools::Sqlite { writer, .. } => writer.begin_with("BEGIN IMMEDIATE").await.map(Open::Sqlite),
            Pools::Postgres(server) => {
                let begun = answered(Box::pin(server.begin())).await;
                begun.map(|tx| Open::Postgres { tx, named: !server.is_shared })
            }
        };
        let open = open.inspect_err(|error| self.condition.failed(error))?;
        Ok(Tx { open, emitted: Emitted::default(), wrote: false, condition: self.condition.clone() })
    }
}

impl Tx {
    /// Returns the mark that tells whether the transaction writes events. The caller reads or sets the mark.
    pub(crate) fn emitted(&mut self) -> &mut Emitted {
        &mut self.emitted
    }

    /// Returns whether statements may take arrays.
    pub(crate) fn has_arrays(&self) -> bool {
        matches!(self.open, Open::Postgres { .. })
    }

    pub(crate) async fn execute(&mut self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<u64> {
        let sql = sql.into();
        let changed = in_tx!(self, sql, values, query_with, execute, |done| done.rows_affected());
        self.wrote |= changed > 0;
        Ok(changed)
    }

    pub(crate) async fn fetch_one<T: Row>(&mut self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<T> {
        self.fetch_optional(sql, values).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    pub(crate) async fn fetch_optional<T: Row>(
        &mut self,
        sql: impl Into<Sql>,
        values: &[Value<'_>],
    ) -> Result<Option<T>> {
        let sql = sql.into();
        Ok(in_tx!(self, sql, values, query_as_with, fetch_optional, |rows| rows))
    }

    pub(crate) async fn fetch_all<T: Row>(&mut self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<Vec<T>> {
        let sql = sql.into();
        Ok(in_tx!(self, sql, values, query_as_with, fetch_all, |rows| rows))
    }

    /// Runs a statement with these rows. `$1` to `$n` are arrays on PostgreSQL; `$1` is a JSON text on SQLite.
    pub(crate) async fn execute_rows(&mut self, sql: Sql, columns: &[Column<'_>]) -> Result<u64> {
        let json = if self.has_arrays() { String::new() } else { rows_json(columns) };
        let values = self.of_rows(columns, &json);
        self.execute(sql, &values).await
    }

    /// Runs a statement with these rows, like [`Tx::execute_rows`], and returns the rows that the statement returns.
    pub(crate) async fn fetch_rows<T: Row>(&mut self, sql: Sql, columns: &[Column<'_>]) -> Result<Vec<T>> {
        let json = if self.has_arrays() { String::new() } else { rows_json(columns) };
        let values = self.of_rows(columns, &json);
        self.fetch_all(sql, &values).await
    }

    fn of_rows<'a>(&self, columns: &[Column<'a>], json: &'a str) -> Vec<Value<'a>> {
        if self.has_arrays() { columns.iter().map(Column::array).collect() } else { vec![Value::from(json)] }
    }

    /// Locks an account until the transaction ends. Other transactions that lock the account wait.
    pub(crate) async fn lock_account(&mut self, account_id: &str) -> Result<()> {
        let sql = locking!("SELECT account_id FROM accounts WHERE account_id = $1");
        self.fetch_optional::<(String,)>(sql, values![account_id]).await.map(drop)
    }

    pub(crate) async fn commit(self) -> Result<()> {
        reach(Moment::Before);
        let committed = match self.open {
            Open::Sqlite(tx) => tx.commit().await,
            Open::Postgres { tx, .. } => answered(tx.commit()).await,
        };
        committed.inspect_err(|error| self.condition.failed(error))?;
        if self.wrote {
            self.condition.wrote();
        }
        reach(Moment::After);
        Ok(())
    }
}

/// Converts the values of a statement's placeholders to the form that a database's driver expects.
fn arguments<A: ArrayArguments>(values: &[Value<'_>]) -> sqlx::Result<A>
where
    for<'q> Option<i64>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    for<'q> Option<&'q str>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    for<'q> Option<&'q [u8]>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    for<'q> Option<bool>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
{
    let mut arguments = A::default();
    for value in values {
        match value {
            Value::Integer(value) => arguments.add(*value),
            Value::Text(value) => arguments.add(*value),
            Value::Bytes(value) => arguments.add(*value),
            Value::Boolean(value) => arguments.add(*value),
            array => arguments.add_array(array),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// Arguments that may include arrays, if the database has arrays.
trait ArrayArguments: Arguments {
    fn add_array(&mut self, array: &Value<'_>) -> std::result::Result<(), sqlx::error::BoxDynError>;
}

impl ArrayArguments for SqliteArguments {
    fn add_array(&mut self, _: &Value<'_>) -> std::result::Result<(), sqlx::error::BoxDynError> {
        Err("SQLite has no arrays".into())
    }
}

impl ArrayArguments for PgArguments {
    fn add_array(&mut self, array: &Value<'_>) -> std::result::Result<(), sqlx::error::BoxDynError> {
        match array {
            Value::Integers(array) => self.add(array.as_slice()),
            Value::Texts(array) => self.add(array.as_slice()),
            Value::ByteStrings(array) => self.add(array.as_slice()),
            _ => Err("not an array".into()),
        }
    }
}
