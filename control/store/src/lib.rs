//! What the service remembers, in SQL: one file per table, SQLite for now.
//!
//! No clock and no randomness here: times (microseconds since 1970) and identifiers come in. Effects that belong together
//! are one function and one transaction.

pub mod api_keys;
pub mod circuit_operations;
pub mod circuits;
pub mod gate_sessions;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

pub use api_keys::{ApiKey, NewApiKey};
pub use circuit_operations::{CircuitOperationEnd, CircuitOperationRecord, NewCircuitOperation};
pub use circuits::{CircuitKept, CircuitRecord, CircuitsMax, NewCircuit};
pub use gate_sessions::{GateSession, GateUsage, NewGateSession, SessionEnd};

/// How long a writer waits for another one before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections a node holds; SQLite has one writer anyway.
const CONNECTIONS_MAX: u32 = 4;

/// Why the database did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database URL is not one this build serves.
    #[error("{0}")]
    Url(String),
    /// The database's file could not be made or opened.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The schema could not be brought up to date.
    #[error(transparent)]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A statement failed. The text holds the whole cause already, so there is no source to say it again.
    #[error("{0}")]
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Error::Database(error)
    }
}

/// Result of a store call.
pub type Result<T> = std::result::Result<T, Error>;

/// The database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: SqlitePool,
}

impl Store {
    /// Opens the database of a `sqlite:` URL, makes it (mode 0600) if it is not there, and brings its schema up to date.
    pub async fn open(url: &str) -> Result<Store> {
        let path = sqlite_path(url)?;
        make_private(&path)?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal)
            // full: what was charged stays charged after a power cut
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(BUSY_TIMEOUT)
            .connect_with(options)
            .await?;
        sqlx::migrate!("./migrations/sqlite").run(&pool).await?;
        Ok(Store { pool })
    }

    /// Asks the database for the smallest possible answer.
    pub async fn probe(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Closes all connections; later calls fail.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// The file of a `sqlite:` URL.
pub fn sqlite_path(url: &str) -> Result<PathBuf> {
    if !url.starts_with("sqlite:") {
        return Err(Error::Url("only sqlite: URLs are supported in this build".to_owned()));
    }
    let options = SqliteConnectOptions::from_str(url).map_err(|error| Error::Url(error.to_string()))?;
    let path = options.get_filename();
    if url.contains(":memory:") || url.contains("mode=memory") || path.as_os_str().is_empty() {
        return Err(Error::Url("the database must be a file".to_owned()));
    }
    Ok(path.to_owned())
}

/// Makes an empty file that only its owner may read, unless it is there; SQLite gives its side files the same mode.
fn make_private(path: &Path) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
