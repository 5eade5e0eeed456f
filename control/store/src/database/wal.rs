//! The write-ahead log of an SQLite file. SQLite writes the log back into the file from time to time. While someone reads
//! an older state, the log grows.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::{ConnectOptions, Connection};

use super::{Database, Pools, WAL_BYTES_MAX};
use crate::Result;

impl Database {
    /// Returns the size of the write-ahead log, in bytes. `None` for PostgreSQL.
    pub(crate) fn wal_bytes(&self) -> Option<u64> {
        let Pools::Sqlite { writer, .. } = &self.open else { return None };
        let mut path = writer.connect_options().get_filename().as_os_str().to_owned();
        path.push("-wal");
        Some(std::fs::metadata(PathBuf::from(path)).map_or(0, |file| file.len()))
    }

    /// Writes a log beyond [`WAL_BYTES_MAX`] back into the file and empties the log. Does nothing if somebody reads an
    /// older state. Writers wait meanwhile, tens of milliseconds.
    pub(crate) async fn bound_wal(&self) -> Result<()> {
        let Pools::Sqlite { writer, .. } = &self.open else { return Ok(()) };
        if self.wal_bytes().unwrap_or(0) <= WAL_BYTES_MAX {
            return Ok(());
        }
        // a separate connection, which waits for nobody: the writing connection would wait for all readers
        let options = writer.connect_options().as_ref().clone().busy_timeout(Duration::ZERO);
        let mut connection = options.connect().await?;
        sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }
}
