//! One way to say SQL to two databases: statements are written once, with `$1` placeholders, and mean the same on both.
//!
//! What they may use: text, 64-bit integers, booleans, bytes; `ON CONFLICT`, `RETURNING`; no clock, no sequence, no JSON.
//! A transaction begins with a write on SQLite, so that of two writers the second waits; on PostgreSQL, whose readers see
//! what was committed before each statement, what must not change in between is locked by writing it first.

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgPool, PgPoolOptions, PgRow};
use sqlx::sqlite::SqliteSynchronous;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
};
use sqlx::{Arguments, Connection, Executor, FromRow};

use crate::commits::{Moment, reach, reach_alone};
use crate::{Error, Result};

/// How long a call waits for a connection or, on SQLite, for another writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call waits for PostgreSQL before it says that the database does not answer.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long PostgreSQL works on a statement; migrations have no bound.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '10s'";
/// How long a call waits for an answer of PostgreSQL, which may have been cut off without a word: longer than a statement
/// takes at most.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);
/// A connection to PostgreSQL that nobody used for so long is tried before it is used: a server may have gone meanwhile.
const UNTRIED_MAX: Duration = Duration::from_secs(1);
/// Connections a node holds; SQLite has one writer anyway.
const SQLITE_CONNECTIONS_MAX: u32 = 4;
const POSTGRES_CONNECTIONS_MAX: u32 = 16;

/// A value for a placeholder. Each kind knows its type when it is null too, which PostgreSQL wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Integer(Option<i64>),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
    Boolean(Option<bool>),
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
}

/// The values of a statement's placeholders, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::database::Value::from($value)),*] };
}
pub(crate) use values;

/// What a row of both databases can be read as.
pub(crate) trait Row: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl<T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin> Row for T {}

/// Reads a struct from the columns that have its fields' names. (The driver's own derive is a macro that is compiled with both
/// drivers once more, for the machine that compiles: minutes.)
macro_rules! from_row {
    ($name:ident { $($field:ident),* }) => {
        $crate::database::from_row!(@of sqlx::sqlite::SqliteRow, $name $($field)*);
        $crate::database::from_row!(@of sqlx::postgres::PgRow, $name $($field)*);
    };
    (@of $row:ty, $name:ident $($field:ident)*) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                Ok(Self { $($field: sqlx::Row::try_get(row, stringify!($field))?),* })
            }
        }
    };
}
pub(crate) use from_row;

/// A database; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// What a node's connections to its database do at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// At work.
    pub in_use: u32,
    /// Open and waiting for work.
    pub idle: u32,
    /// At most, both together; further calls wait.
    pub max: u32,
}

/// A transaction; rolled back when dropped.
pub(crate) enum Tx {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
}

/// The same statement on whichever database it is.
macro_rules! on {
    ($what:expr, $values:expr, $enum:ident, $on:ident, $arguments:ident => $body:expr) => {
        match $what {
            $enum::Sqlite($on) => {
                let $arguments: SqliteArguments = arguments($values)?;
                $body
            }
            $enum::Postgres($on) => {
                let $arguments: PgArguments = arguments($values)?;
                answered(async { $body }).await
            }
        }
    };
}

/// Waits for PostgreSQL, but not for ever.
async fn answered<T>(call: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let late = |_| sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the database does not answer"));
    tokio::time::timeout(ANSWER_TIMEOUT, call).await.map_err(late)?
}

impl Database {
    /// Opens a SQLite file that is there.
    pub(crate) async fn sqlite(options: SqliteConnectOptions) -> Result<Database> {
        let options = options
            .journal_mode(SqliteJournalMode::Wal)
            // full: what was charged stays charged after a power cut
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(SQLITE_CONNECTIONS_MAX)
            .acquire_timeout(BUSY_TIMEOUT)
            // a file does not hang up
            .test_before_acquire(false)
            .connect_with(options)
            .await?;
        Ok(Database::Sqlite(pool))
    }

    /// Connects to PostgreSQL.
    pub(crate) async fn postgres(url: &str) -> Result<Database> {
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|connection, _| {
                Box::pin(async move { connection.execute(STATEMENT_TIMEOUT).await.map(drop) })
            })
            // not each time: that would double the round trips of a busy node
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

    /// How health calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Database::Sqlite(_) => "sqlite",
            Database::Postgres(_) => "postgres",
        }
    }

    pub(crate) fn connections(&self) -> Connections {
        let (size, idle, max) = match self {
            Database::Sqlite(pool) => (pool.size(), pool.num_idle(), SQLITE_CONNECTIONS_MAX),
            Database::Postgres(pool) => (pool.size(), pool.num_idle(), POSTGRES_CONNECTIONS_MAX),
        };
        let idle = u32::try_from(idle).unwrap_or(u32::MAX);
        Connections { in_use: size.saturating_sub(idle), idle, max }
    }

    pub(crate) async fn close(&self) {
        match self {
            Database::Sqlite(pool) => pool.close().await,
            Database::Postgres(pool) => pool.close().await,
        }
    }

    /// Runs a statement; rows it changed.
    pub(crate) async fn execute(&self, sql: &'static str, values: &[Value<'_>]) -> Result<u64> {
        reach_alone(sql, Moment::Before);
        let changed = on!(self, values, Database, pool, arguments => {
            sqlx::query_with(sql, arguments).execute(pool).await.map(|done| done.rows_affected())
        })?;
        reach_alone(sql, Moment::After);
        Ok(changed)
    }

    /// The row of a statement that only reads, as the next two.
    pub(crate) async fn fetch_one<T: Row>(&self, sql: &'static str, values: &[Value<'_>]) -> Result<T> {
        Ok(on!(self, values, Database, pool, arguments => sqlx::query_as_with(sql, arguments).fetch_one(pool).await)?)
    }

    pub(crate) async fn fetch_optional<T: Row>(&self, sql: &'static str, values: &[Value<'_>]) -> Result<Option<T>> {
        Ok(on!(self, values, Database, pool, arguments => {
            sqlx::query_as_with(sql, arguments).fetch_optional(pool).await
        })?)
    }

    pub(crate) async fn fetch_all<T: Row>(&self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<T>> {
        Ok(on!(self, values, Database, pool, arguments => sqlx::query_as_with(sql, arguments).fetch_all(pool).await)?)
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        Ok(match self {
            Database::Sqlite(pool) => Tx::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
            Database::Postgres(pool) => Tx::Postgres(answered(pool.begin()).await?),
        })
    }
}

impl Tx {
    pub(crate) async fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64> {
        Ok(on!(self, values, Tx, tx, arguments => {
            sqlx::query_with(sql, arguments).execute(&mut **tx).await.map(|done| done.rows_affected())
        })?)
    }

    pub(crate) async fn fetch_one<T: Row>(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<T> {
        Ok(on!(self, values, Tx, tx, arguments => sqlx::query_as_with(sql, arguments).fetch_one(&mut **tx).await)?)
    }

    pub(crate) async fn fetch_optional<T: Row>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<T>> {
        Ok(on!(self, values, Tx, tx, arguments => {
            sqlx::query_as_with(sql, arguments).fetch_optional(&mut **tx).await
        })?)
    }

    pub(crate) async fn fetch_all<T: Row>(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<T>> {
        Ok(on!(self, values, Tx, tx, arguments => sqlx::query_as_with(sql, arguments).fetch_all(&mut **tx).await)?)
    }

    /// Makes whoever else writes to this account wait until this transaction ends.
    pub(crate) async fn lock_account(&mut self, account_id: &str) -> Result<()> {
        let sql = "UPDATE accounts SET created_at = created_at WHERE account_id = $1";
        self.execute(sql, values![account_id]).await.map(drop)
    }

    pub(crate) async fn commit(self) -> Result<()> {
        reach(Moment::Before);
        match self {
            Tx::Sqlite(tx) => tx.commit().await?,
            Tx::Postgres(tx) => answered(tx.commit()).await?,
        }
        reach(Moment::After);
        Ok(())
    }
}

fn arguments<A: Arguments>(values: &[Value<'_>]) -> Result<A>
where
    for<'q> Option<i64>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    for<'q> Option<&'q str>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    for<'q> Option<&'q [u8]>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
    for<'q> Option<bool>: sqlx::Encode<'q, A::Database> + sqlx::Type<A::Database>,
{
    let mut arguments = A::default();
    for value in values {
        match *value {
            Value::Integer(value) => arguments.add(value),
            Value::Text(value) => arguments.add(value),
            Value::Bytes(value) => arguments.add(value),
            Value::Boolean(value) => arguments.add(value),
        }
        .map_err(|error| Error::Database(sqlx::Error::Encode(error)))?;
    }
    Ok(arguments)
}
