//! Opens the connections to a database, tests them before use, and replaces those that have failed.

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, Postgres};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection, Executor, Transaction};

use super::condition::Condition;
use super::{ACQUIRE_TIMEOUT, BUSY_TIMEOUT, POSTGRES_CONNECTIONS_MAX, SQLITE_READERS_MAX, WAL_BYTES_MAX};

/// Sets PostgreSQL's timeout for statements. Migrations run without this timeout.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '10s'";
/// Begins a transaction behind a pooler, which keeps no settings of a session.
const BEGIN_SHARED: &str = "BEGIN; SET LOCAL statement_timeout = '10s'";
/// A PostgreSQL connection that was idle for this long is tested before use, because the server may have closed it.
const UNTRIED_MAX: Duration = Duration::from_secs(1);
/// Longest time that the test of a connection waits for the answer. A firewall may have dropped the connection
/// without a word. Short enough that the call can open another connection within [`ACQUIRE_TIMEOUT`].
const TRY_TIMEOUT: Duration = Duration::from_secs(1);
/// Size of the writing connection's cache for pages of the file, in KiB. SQLite expects a negative number if the unit
/// is KiB. The charges of a thousand accounts touch a thousand index pages, but SQLite's default of 2 MB holds only 500
/// pages.
const WRITER_CACHE_KIB: &str = "-65536";
/// Number of rounds in which [`is_shared`] looks for a connection that is shared.
const ROUNDS: usize = 3;

/// Opens an existing SQLite file. Returns the pool of the one connection that writes, and the pool of those that read.
pub(super) async fn sqlite(
    options: SqliteConnectOptions,
    condition: &Arc<Condition>,
) -> sqlx::Result<(SqlitePool, SqlitePool)> {
    // synchronous FULL, so that a charge survives a power failure
    let options = options.synchronous(SqliteSynchronous::Full).busy_timeout(BUSY_TIMEOUT).foreign_keys(true);
    let pool = |connections_max| {
        SqlitePoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(BUSY_TIMEOUT)
            // do not test a connection before use, because SQLite has no server that could close the connection
            .test_before_acquire(false)
    };
    let writing = options
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("cache_size", WRITER_CACHE_KIB)
        .pragma("journal_size_limit", WAL_BYTES_MAX.to_string());
    let condition = condition.clone();
    let writer = pool(1).after_release(move |connection, _| {
        let condition = condition.clone();
        Box::pin(async move { ended_well(connection, &condition).await })
    });
    let writer = writer.connect_with(writing).await?;
    let readers = pool(SQLITE_READERS_MAX).connect_with(options.pragma("query_only", "ON")).await?;
    Ok((writer, readers))
}

/// Whether the writing connection may be used again. After a failed write, the connection is closed and opened anew:
/// SQLite ends a transaction by itself if the disk is full, and then the connection's driver and SQLite disagree on
/// whether a transaction is open.
async fn ended_well(connection: &mut SqliteConnection, condition: &Condition) -> sqlx::Result<bool> {
    // the rollback of a dropped transaction runs before the answer to the ping
    connection.ping().await?;
    Ok(!connection.is_in_transaction() && !condition.last_failed())
}

/// Connections to PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub pool: PgPool,
    /// Whether a pooler such as PgBouncer gives every transaction another connection to the server. Then nothing of a
    /// session lasts: no setting, no lock, no prepared statement. So each statement runs in a transaction.
    pub is_shared: bool,
    condition: Arc<Condition>,
}

/// A connection for one statement.
pub(crate) enum ForOne {
    Alone(PoolConnection<Postgres>),
    InTransaction(Transaction<'static, Postgres>),
}

impl ForOne {
    /// The connection.
    pub fn get(&mut self) -> &mut PgConnection {
        match self {
            ForOne::Alone(connection) => connection,
            ForOne::InTransaction(tx) => tx,
        }
    }

    /// Ends the transaction, if the statement ran in one.
    pub async fn end(self) -> sqlx::Result<()> {
        match self {
            ForOne::Alone(_) => Ok(()),
            ForOne::InTransaction(tx) => tx.commit().await,
        }
    }
}

impl Server {
    /// Connects to PostgreSQL, and finds out whether a pooler is in between.
    pub async fn connect(options: PgConnectOptions, condition: Arc<Condition>) -> sqlx::Result<Server> {
        // a pooler refuses this parameter, and the service stores no floating-point numbers
        let options = options.extra_float_digits(None);
        let is_shared = is_shared(&options).await?;
        let tested = condition.clone();
        let released = condition.clone();
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    match is_shared {
                        true => Ok(()),
                        false => connection.execute(STATEMENT_TIMEOUT).await.map(drop),
                    }
                })
            })
            // do not test a connection before every use, because that would double the round trips of a busy node
            .test_before_acquire(false)
            .before_acquire(move |connection, idle| {
                let condition = tested.clone();
                Box::pin(async move {
                    let is_suspect = idle.idle_for > UNTRIED_MAX || condition.was_cut_within(idle.idle_for);
                    if is_suspect || condition.last_failed() {
                        is_usable(connection, &condition).await
                    } else {
                        Ok(true)
                    }
                })
            })
            .after_release(move |connection, _| {
                let condition = released.clone();
                Box::pin(async move {
                    if condition.last_failed() { is_usable(connection, &condition).await } else { Ok(true) }
                })
            })
            .connect_with(options)
            .await?;
        Ok(Server { pool, is_shared, condition })
    }

    /// Returns a connection for one statement that only reads.
    pub async fn for_reading(&self) -> sqlx::Result<ForOne> {
        Ok(match self.is_shared {
            true => ForOne::InTransaction(self.pool.begin_with(BEGIN_SHARED).await?),
            false => ForOne::Alone(self.pool.acquire().await?),
        })
    }

    /// Returns a connection for one statement that writes. Tests the connection first, because the statement cannot be
    /// repeated: if the connection broke, the statement might run twice.
    pub async fn for_writing(&self) -> sqlx::Result<ForOne> {
        if self.is_shared {
            return Ok(ForOne::InTransaction(self.begin().await?));
        }
        let mut connection = self.pool.acquire().await?;
        if !is_usable(&mut connection, &self.condition).await.unwrap_or(false) {
            self.condition.cut();
            connection.close_on_drop();
            drop(connection);
            connection = self.pool.acquire().await?;
        }
        Ok(ForOne::Alone(connection))
    }

    /// Begins a transaction. If the connection was cut, begins on another one.
    pub async fn begin(&self) -> sqlx::Result<Transaction<'static, Postgres>> {
        let begin = async || match self.is_shared {
            true => self.pool.begin_with(BEGIN_SHARED).await,
            false => self.pool.begin().await,
        };
        match begin().await {
            Err(error) if super::faults::is_cut(&error) => {
                self.condition.cut();
                begin().await
            }
            begun => begun,
        }
    }
}

/// Whether a connection answers and, if writes fail, can write. After a failover the server behind a connection may
/// have become read-only, while a new connection reaches the server that takes writes.
async fn is_usable(connection: &mut PgConnection, condition: &Condition) -> sqlx::Result<bool> {
    let tried = async {
        if !condition.last_failed() {
            return connection.ping().await.map(|()| true);
        }
        let sql = "SELECT current_setting('transaction_read_only') = 'off'";
        sqlx::raw_sql(sql).fetch_one(connection).await.and_then(|row| sqlx::Row::try_get(&row, 0))
    };
    let late = |_| sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "an idle connection is silent"));
    tokio::time::timeout(TRY_TIMEOUT, tried).await.map_err(late)?
}

/// Whether a pooler gives the transactions of a connection to different connections of the server. A connection that
/// nobody shares belongs to one process of the server, and no other connection has this process.
async fn is_shared(options: &PgConnectOptions) -> sqlx::Result<bool> {
    let two = PgPoolOptions::new().max_connections(2).acquire_timeout(ACQUIRE_TIMEOUT);
    let two = two.connect_with(options.clone()).await?;
    let (mut first, mut second) = (two.acquire().await?, two.acquire().await?);
    let mut is_shared = false;
    for _ in 0..ROUNDS {
        let before = process_of(&mut first).await?;
        let mut tx = second.begin().await?;
        // the first connection is not asked again if its process is known to be shared: the pooler may have only one
        is_shared = process_of(&mut tx).await? == before || process_of(&mut first).await? != before;
        tx.rollback().await?;
        if is_shared {
            break;
        }
    }
    drop((first, second));
    two.close().await;
    Ok(is_shared)
}

/// Returns the id of the server's process behind a connection. Asks without a prepared statement.
async fn process_of(connection: &mut PgConnection) -> sqlx::Result<i32> {
    let row = sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?;
    sqlx::Row::try_get(&row, 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Database, Pools, values};

    const INSERT: &str = "INSERT INTO texts (text) VALUES ($1)";

    /// Opens a database with one table.
    async fn database(folder: &std::path::Path) -> Database {
        let path = folder.join("test.db");
        std::fs::write(&path, "").unwrap();
        let db = Database::sqlite(sqlx::sqlite::SqliteConnectOptions::new().filename(path)).await.unwrap();
        db.execute("CREATE TABLE texts (text TEXT NOT NULL)", values![]).await.unwrap();
        db
    }

    /// Lets the writing connection fail as on a full disk, until the connection is closed.
    async fn fill(db: &Database) {
        let Pools::Sqlite { writer, .. } = &db.open else { unreachable!() };
        sqlx::raw_sql("PRAGMA max_page_count = 1").execute(writer).await.unwrap();
    }

    async fn insert(db: &Database, text: &str) -> crate::Result<()> {
        let mut tx = db.begin().await?;
        tx.execute(INSERT, values![text]).await?;
        tx.commit().await
    }

    #[tokio::test]
    async fn f1_writes_go_on_after_the_disk_was_full_for_one_write() {
        let folder = tempfile::tempdir().unwrap();
        let db = database(folder.path()).await;
        fill(&db).await;
        let error = insert(&db, &"x".repeat(100_000)).await.unwrap_err();
        assert!(error.to_string().contains("full"), "{error}");
        assert!(db.condition.last_failed());
        insert(&db, "y").await.unwrap();
        assert!(!db.condition.last_failed());
        let kept: Vec<(String,)> = db.fetch_all("SELECT text FROM texts", values![]).await.unwrap();
        assert_eq!(kept, [("y".to_owned(),)]);
        // the new connection has the settings of the first
        let Pools::Sqlite { writer, .. } = &db.open else { unreachable!() };
        for (setting, value) in [("cache_size", -65536), ("journal_size_limit", 8 << 20), ("synchronous", 2)] {
            let sql = sqlx::AssertSqlSafe(format!("PRAGMA {setting}"));
            assert_eq!(sqlx::query_scalar::<_, i64>(sql).fetch_one(writer).await.unwrap(), value, "{setting}");
        }
    }

    #[tokio::test]
    async fn f2_the_probe_writes_only_after_a_failed_write() {
        let folder = tempfile::tempdir().unwrap();
        let db = database(folder.path()).await;
        let before = db.wal_bytes();
        db.probe().await.unwrap();
        assert_eq!(db.wal_bytes(), before);
        fill(&db).await;
        insert(&db, &"x".repeat(100_000)).await.unwrap_err();
        assert!(matches!(db.probe().await, Err(crate::Error::WritesFail)));
        let begun = std::time::Instant::now();
        while let Err(error) = db.probe().await {
            assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(db.wal_bytes() > before && !db.condition.last_failed());
    }

    #[tokio::test]
    async fn f3_the_log_shrinks_after_a_long_reader_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let db = database(folder.path()).await;
        let Pools::Sqlite { readers, .. } = &db.open else { unreachable!() };
        let mut reader = readers.begin().await.unwrap();
        sqlx::query("SELECT COUNT(*) FROM texts").fetch_one(&mut *reader).await.unwrap();
        for _ in 0..30 {
            insert(&db, &"x".repeat(1_000_000)).await.unwrap();
        }
        db.bound_wal().await.unwrap();
        assert!(db.wal_bytes().unwrap() > 30_000_000, "the log holds what the reader has not seen");
        reader.rollback().await.unwrap();
        db.bound_wal().await.unwrap();
        assert_eq!(db.wal_bytes(), Some(0));
        insert(&db, "y").await.unwrap();
    }
}
