//! API keys and the accounts that own them.

use crate::{Result, Store};

/// A key to remember. The key itself is not here: only its digest is.
#[derive(Clone, Debug)]
pub struct NewApiKey<'a> {
    /// `ak_...`
    pub key_id: &'a str,
    /// Owner; made if it does not exist.
    pub account_id: &'a str,
    /// `lin_...`, shared with rotated successors (readings A19).
    pub lineage_id: &'a str,
    /// HMAC-SHA-256 of the full key (readings A3).
    pub digest: &'a [u8; 32],
    /// First 16 characters of the key.
    pub key_prefix: &'a str,
    /// `viewer`, `developer`, `account_admin` or `trial`.
    pub role: &'a str,
    /// `live`, `test`, `dev` or `trial`.
    pub environment: &'a str,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// When it stops working by itself.
    pub expires_at: Option<i64>,
}

/// A key as remembered. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ApiKey {
    /// `ak_...`
    pub key_id: String,
    /// Owner.
    pub account_id: String,
    /// Shared with rotated successors.
    pub lineage_id: String,
    /// First 16 characters of the key.
    pub key_prefix: String,
    /// `viewer`, `developer`, `account_admin` or `trial`.
    pub role: String,
    /// `live`, `test`, `dev` or `trial`.
    pub environment: String,
    /// When it was made.
    pub created_at: i64,
    /// When it stops working by itself.
    pub expires_at: Option<i64>,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
}

impl Store {
    /// Remembers a key, and its account if that is new.
    pub async fn insert_api_key(&self, key: &NewApiKey<'_>) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        sqlx::query(
            "INSERT INTO accounts (account_id, created_at) VALUES ($1, $2) ON CONFLICT (account_id) DO NOTHING",
        )
        .bind(key.account_id)
        .bind(key.created_at)
        .execute(&mut *tx)
        .await?;
        sqlx::query(
            "INSERT INTO api_keys (key_id, account_id, lineage_id, digest, key_prefix, role, environment, created_at, \
             expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(key.key_id)
        .bind(key.account_id)
        .bind(key.lineage_id)
        .bind(&key.digest[..])
        .bind(key.key_prefix)
        .bind(key.role)
        .bind(key.environment)
        .bind(key.created_at)
        .bind(key.expires_at)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    /// The key of this digest, revoked and expired ones too.
    pub async fn api_key(&self, digest: &[u8; 32]) -> Result<Option<ApiKey>> {
        Ok(sqlx::query_as(
            "SELECT key_id, account_id, lineage_id, key_prefix, role, environment, created_at, expires_at, revoked_at \
             FROM api_keys WHERE digest = $1",
        )
        .bind(&digest[..])
        .fetch_optional(&self.pool)
        .await?)
    }

    /// All keys, revoked and expired ones too, oldest first.
    pub async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        Ok(sqlx::query_as(
            "SELECT key_id, account_id, lineage_id, key_prefix, role, environment, created_at, expires_at, revoked_at \
             FROM api_keys ORDER BY created_at, key_id",
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Ends a key at once. False: there is no such key, or it was revoked before.
    pub async fn revoke_api_key(&self, key_id: &str, at: i64) -> Result<bool> {
        let done = sqlx::query("UPDATE api_keys SET revoked_at = $2 WHERE key_id = $1 AND revoked_at IS NULL")
            .bind(key_id)
            .bind(at)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Whether any key was ever made here.
    pub async fn has_api_keys(&self) -> Result<bool> {
        let row: Option<(i64,)> = sqlx::query_as("SELECT 1 FROM api_keys LIMIT 1").fetch_optional(&self.pool).await?;
        Ok(row.is_some())
    }

    /// Whether there is such an account.
    pub async fn has_account(&self, account_id: &str) -> Result<bool> {
        let row: Option<(i64,)> = sqlx::query_as("SELECT 1 FROM accounts WHERE account_id = $1")
            .bind(account_id)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.is_some())
    }
}
