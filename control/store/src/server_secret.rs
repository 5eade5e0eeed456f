//! Checks that all nodes of a database have the same secret.

use crate::database::values;
use crate::{Result, Store};

impl Store {
    /// Returns whether this digest is the digest of the database's secret. If the database has no digest yet, stores
    /// this digest.
    pub async fn is_server_secret(&self, digest: &[u8; 32]) -> Result<bool> {
        let sql = "INSERT INTO server_secret (id, digest) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
        self.db.execute(sql, values![digest]).await?;
        let sql = "SELECT CAST(COUNT(*) AS BIGINT) FROM server_secret WHERE digest = $1";
        let (known,): (i64,) = self.db.fetch_one(sql, values![digest]).await?;
        Ok(known == 1)
    }

    /// Deletes the digest of the database's secret. Only allowed if nothing was made with the secret.
    pub async fn forget_server_secret(&self) -> Result<()> {
        self.db.execute("DELETE FROM server_secret", values![]).await.map(drop)
    }
}
