//! One SQL for two databases. A statement is written once, with `$1` placeholders, and means the same on both.
//!
//! Statements may use text, 64-bit integers, booleans, bytes, `ON CONFLICT` and `RETURNING`. Clocks, sequences and JSON
//! are not allowed. A statement has two forms if the databases differ ([`Sql`]). One such case is a statement with many
//! rows: an array for each column and `unnest` on PostgreSQL, one JSON text and `json_each` on SQLite ([`Column`]).
//!
//! SQLite has one connection that writes and some that read. Writers wait for the writing connection in the order of
//! their arrival. On PostgreSQL each statement sees everything that was committed before it, so a transaction first
//! locks the rows that must not change until the transaction ends.

use std::time::Duration;

use api::circuits::OperationStatus;
use api::{Environment, Plan, Role, Word};
use sqlx::postgres::{PgArguments, PgPool, PgPoolOptions, PgRow};
use sqlx::sqlite::SqliteSynchronous;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
};
use sqlx::{Arguments, ColumnIndex, Connection, Decode, Executor, FromRow, Type};

use crate::commits::{Moment, reach};
use crate::{Error, Result};

/// Longest time that a call waits for a connection or, on SQLite, for another writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that a call waits for a PostgreSQL connection. After this time the database counts as not answering.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// Sets PostgreSQL's timeout for statements. Migrations run without this timeout.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '10s'";
/// Settings of PostgreSQL for a statement that reads whole tables: no timeout, and memory for its sums.
const SLOW_SETTINGS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL work_mem = '64MB'";
/// The cache of SQLite for such a statement, in which sums are sorted too, and the usual cache.
const SLOW_CACHE: &str = "PRAGMA cache_size = -65536";
const USUAL_CACHE: &str = "PRAGMA cache_size = -2000";
/// Longest time that a call waits for PostgreSQL's answer. Needed because the connection may have been cut silently.
/// Longer than PostgreSQL's own timeout for statements.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);
/// A PostgreSQL connection that was idle for this long is tested before use, because the server may have closed it.
const UNTRIED_MAX: Duration = Duration::from_secs(1);
/// Largest number of connections with which a node reads from SQLite.
const SQLITE_READERS_MAX: u32 = 4;
/// Size of the writing connection's cache for pages of the file, in KiB. SQLite expects a negative number if the unit
/// is KiB. The charges of a thousand accounts touch a thousand index pages, but SQLite's default of 2 MB holds only 500
/// pages.
const WRITER_CACHE_KIB: &str = "-65536";
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
/// field whose type is an enum, which the column stores as a text. The macro replaces the driver's derive, because the
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
pub(crate) enum Database {
    Sqlite {
        /// A pool of one connection.
        writer: SqlitePool,
        readers: SqlitePool,
    },
    Postgres(PgPool),
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
pub struct Tx(Open, Emitted);

/// Whether a transaction writes events. If so, deliveries begin after its commit.
#[derive(Debug, Default)]
pub(crate) struct Emitted(pub bool);

#[derive(Debug)]
enum Open {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
}

/// Runs a statement on `$what`, which is SQLite or PostgreSQL. Each of the two patterns binds the connection.
macro_rules! on {
    ($what:expr, $sqlite:pat, $postgres:pat, $sql:ident, $values:ident, $arguments:ident => $body:expr) => {{
        $crate::statements::note($sql.sqlite, $sql.postgres);
        match $what {
            $sqlite => {
                let ($sql, $arguments): (_, SqliteArguments) = ($sql.sqlite, arguments($values)?);
                $body
            }
            $postgres => {
                let ($sql, $arguments): (_, PgArguments) = ($sql.postgres, arguments($values)?);
                answered(async { $body }).await
            }
        }
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
        // synchronous FULL, so that a charge survives a power failure
        let options = options.synchronous(SqliteSynchronous::Full).busy_timeout(BUSY_TIMEOUT).foreign_keys(true);
        let pool = |connections_max| {
            SqlitePoolOptions::new()
                .max_connections(connections_max)
                .acquire_timeout(BUSY_TIMEOUT)
                // do not test a connection before use, because SQLite has no server that could close the connection
                .test_before_acquire(false)
        };
        let writing = options.clone().journal_mode(SqliteJournalMode::Wal).pragma("cache_size", WRITER_CACHE_KIB);
        let writer = pool(1).connect_with(writing).await?;
        let readers = pool(SQLITE_READERS_MAX).connect_with(options.pragma("query_only", "ON")).await?;
        Ok(Database::Sqlite { writer, readers })
    }

    /// Connects to PostgreSQL.
    pub(crate) async fn postgres(url: &str) -> Result<Database> {
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|connection, _| {
                Box::pin(async move { connection.execute(STATEMENT_TIMEOUT).await.map(drop) })
            })
            // do not test a connection before every use, because that would double the round trips of a busy node
            .test_before_acquire(false)
            .before_acquire(|connection, idle| {
                Box::pin(async move {
                    if idle.idle_for > UNTRIED_MAX {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect(url)
            .await?;
        Ok(Database::Postgres(pool))
    }

    /// Returns the name that answers about the service's health use for the database.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "sqlite",
            Database::Postgres(_) => "postgres",
        }
    }

    /// Returns the longest time that a call waits for a connection.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Database::Sqlite { .. } => BUSY_TIMEOUT,
            Database::Postgres(_) => ACQUIRE_TIMEOUT,
        }
    }

    pub(crate) fn connections(&self) -> Connections {
        let (size, idle, max) = match self {
            Database::Sqlite { writer, readers } => {
                (writer.size() + readers.size(), writer.num_idle() + readers.num_idle(), SQLITE_READERS_MAX + 1)
            }
            Database::Postgres(pool) => (pool.size(), pool.num_idle(), POSTGRES_CONNECTIONS_MAX),
        };
        let idle = u32::try_from(idle).unwrap_or(u32::MAX);
        Connections { in_use: size.saturating_sub(idle), idle, max }
    }

    pub(crate) async fn close(&self) {
        match self {
            Database::Sqlite { writer, readers } => {
                readers.close().await;
                // close the writer last, because the last connection to close writes the log back into the file
                writer.close().await;
            }
            Database::Postgres(pool) => pool.close().await,
        }
    }

    /// Runs a statement that writes. Returns the number of changed rows.
    pub(crate) async fn execute(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<u64> {
        let sql = sql.into();
        reach(Moment::Before);
        let changed = on!(self, Database::Sqlite { writer: pool, .. }, Database::Postgres(pool), sql, values, arguments => {
            sqlx::query_with(sql, arguments).execute(pool).await.map(|done| done.rows_affected())
        })?;
        reach(Moment::After);
        Ok(changed)
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
        Ok(on!(self, Database::Sqlite { readers: pool, .. }, Database::Postgres(pool), sql, values, arguments => {
            sqlx::query_as_with(sql, arguments).fetch_optional(pool).await
        })?)
    }

    pub(crate) async fn fetch_all<T: Row>(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<Vec<T>> {
        let sql = sql.into();
        Ok(on!(self, Database::Sqlite { readers: pool, .. }, Database::Postgres(pool), sql, values, arguments => {
            sqlx::query_as_with(sql, arguments).fetch_all(pool).await
        })?)
    }

    /// Runs a statement that reads whole tables, and returns its rows. The statement may take minutes, so neither the
    /// server's nor the client's timeout applies.
    pub(crate) async fn fetch_all_slowly<T: Row>(&self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<Vec<T>> {
        let sql = sql.into();
        crate::statements::note(sql.sqlite, sql.postgres);
        match self {
            Database::Sqlite { readers, .. } => {
                let mut reader = readers.acquire().await?;
                reader.execute(SLOW_CACHE).await?;
                let arguments: SqliteArguments = arguments(values)?;
                let rows = sqlx::query_as_with(sql.sqlite, arguments).fetch_all(&mut *reader).await;
                reader.execute(USUAL_CACHE).await?;
                Ok(rows?)
            }
            Database::Postgres(pool) => {
                let mut tx = answered(pool.begin()).await?;
                tx.execute(SLOW_SETTINGS).await?;
                let arguments: PgArguments = arguments(values)?;
                // the end of the transaction restores the settings
                Ok(sqlx::query_as_with(sql.postgres, arguments).fetch_all(&mut *tx).await?)
            }
        }
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        let open = match self {
            // BEGIN IMMEDIATE, because a transaction that begins with a read cannot write after another one has written
            Database::Sqlite { writer, .. } => Open::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?),
            Database::Postgres(pool) => Open::Postgres(answered(pool.begin()).await?),
        };
        Ok(Tx(open, Emitted::default()))
    }
}

impl Tx {
    /// Returns the mark that tells whether the transaction writes events. The caller reads or sets the mark.
    pub(crate) fn emitted(&mut self) -> &mut Emitted {
        &mut self.1
    }

    /// Returns whether statements may take arrays.
    pub(crate) fn has_arrays(&self) -> bool {
        matches!(self.0, Open::Postgres(_))
    }

    pub(crate) async fn execute(&mut self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<u64> {
        let sql = sql.into();
        Ok(on!(&mut self.0, Open::Sqlite(tx), Open::Postgres(tx), sql, values, arguments => {
            sqlx::query_with(sql, arguments).execute(&mut **tx).await.map(|done| done.rows_affected())
        })?)
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
        Ok(on!(&mut self.0, Open::Sqlite(tx), Open::Postgres(tx), sql, values, arguments => {
            sqlx::query_as_with(sql, arguments).fetch_optional(&mut **tx).await
        })?)
    }

    pub(crate) async fn fetch_all<T: Row>(&mut self, sql: impl Into<Sql>, values: &[Value<'_>]) -> Result<Vec<T>> {
        let sql = sql.into();
        Ok(on!(&mut self.0, Open::Sqlite(tx), Open::Postgres(tx), sql, values, arguments => {
            sqlx::query_as_with(sql, arguments).fetch_all(&mut **tx).await
        })?)
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
        match self.0 {
            Open::Sqlite(tx) => tx.commit().await?,
            Open::Postgres(tx) => answered(tx.commit()).await?,
        }
        reach(Moment::After);
        Ok(())
    }
}

/// Converts the values of a statement's placeholders to the form that a database's driver expects.
fn arguments<A: ArrayArguments>(values: &[Value<'_>]) -> Result<A>
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
        .map_err(|error| Error::Database(sqlx::Error::Encode(error)))?;
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
