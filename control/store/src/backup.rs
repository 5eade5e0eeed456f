//! Copies the embedded database while nodes use it.

use std::path::Path;

use sqlx::{ConnectOptions, Connection};

use crate::database::Pools;
use crate::{Error, Result, Store};

impl Store {
    /// Writes the database's present state to a new file (mode 0600), and syncs the file. Other connections can read
    /// and write meanwhile.
    ///
    /// # Errors
    /// If the database is PostgreSQL (use `pg_dump` for a copy), or if the file cannot be made.
    pub async fn copy_to(&self, path: &Path) -> Result<()> {
        let Pools::Sqlite { writer, .. } = &self.db.open else {
            return Err(Error::Url("a PostgreSQL database cannot be copied to a file here: use pg_dump".to_owned()));
        };
        let failed = |source| Error::File { path: path.to_owned(), source };
        let text = path.to_str().ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
        let mut options = std::fs::OpenOptions::new();
        options.create_new(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(failed)?;
        // use a separate connection: the copy would occupy the writing connection for long, and the reading connections
        // have `query_only` on
        let mut connection = writer.connect_options().connect().await?;
        // SQLite accepts an existing file if it is empty
        sqlx::query("VACUUM INTO $1").bind(text).execute(&mut connection).await?;
        connection.close().await?;
        file.sync_all().map_err(failed)
    }
}
