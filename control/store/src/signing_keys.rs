//! The keys that sign access tokens, sealed: the present key, and each retired key until its tokens have expired.

use crate::database::{from_row, locking, values};
use crate::{Result, Store};

/// A retired key. It no longer signs tokens, but its tokens stay valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredSigningKey {
    /// The key, sealed.
    pub sealed: Vec<u8>,
    /// When the last token of the key expires.
    pub ends_at: i64,
}

from_row!(RetiredSigningKey { sealed, ends_at });

impl Store {
    /// Returns the signing key in the database. If the database has no key, first stores `fresh` as the key.
    pub async fn signing_key(&self, fresh: &[u8]) -> Result<Vec<u8>> {
        let sql = "INSERT INTO signing_keys (purpose, sealed) VALUES ('access_token', $1) \
             ON CONFLICT (purpose) DO NOTHING";
        self.db.execute(sql, values![fresh]).await?;
        let (sealed,): (Vec<u8>,) = self.db.fetch_one("SELECT sealed FROM signing_keys", values![]).await?;
        Ok(sealed)
    }

    /// Replaces the signing key. From then on, tokens of the old key are refused. Returns the key that is in the
    /// database afterwards. Another node may have written this key.
    pub async fn replace_signing_key(&self, old: &[u8], fresh: &[u8]) -> Result<Vec<u8>> {
        let sql = "UPDATE signing_keys SET sealed = $2 WHERE sealed = $1";
        self.db.execute(sql, values![old, fresh]).await?;
        self.signing_key(fresh).await
    }

    /// Makes `fresh` the signing key. Tokens of the old key stay valid until `old_ends_at`. False: no node has made a
    /// key yet.
    pub async fn rotate_signing_key(&self, fresh: &[u8], old_ends_at: i64, now: i64) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        // lock the key, so that the second of two concurrent rotations retires the key of the first
        let sql = locking!("SELECT sealed FROM signing_keys");
        let Some((old,)) = tx.fetch_optional::<(Vec<u8>,)>(sql, values![]).await? else { return Ok(false) };
        tx.execute("DELETE FROM retired_signing_keys WHERE ends_at <= $1", values![now]).await?;
        let sql = "INSERT INTO retired_signing_keys (sealed, ends_at) VALUES ($1, $2)";
        tx.execute(sql, values![&old, old_ends_at]).await?;
        tx.execute("UPDATE signing_keys SET sealed = $1", values![fresh]).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Returns the signing key, and the retired keys whose tokens are still valid. The signing key is read first. So if
    /// this key is retired between the two reads, both results contain the key. Otherwise it could be missing from
    /// both.
    pub async fn signing_keys(&self, now: i64) -> Result<(Vec<u8>, Vec<RetiredSigningKey>)> {
        let (current,): (Vec<u8>,) = self.db.fetch_one("SELECT sealed FROM signing_keys", values![]).await?;
        let sql = "SELECT sealed, ends_at FROM retired_signing_keys WHERE ends_at > $1 ORDER BY ends_at DESC";
        Ok((current, self.db.fetch_all(sql, values![now]).await?))
    }
}
