//! API keys and the accounts that own them.

use api::{Environment, KeyStatus, Plan, Role};

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// A key to write. Only its digest is stored, not the key itself.
#[derive(Clone, Debug)]
pub struct NewApiKey<'a> {
    /// `ak_...`
    pub key_id: &'a str,
    /// The owner's account. The account is created if it does not exist.
    pub account_id: &'a str,
    /// The lineage's id: `lin_...`. A key and its rotated successors have the same lineage (readings A19).
    pub lineage_id: &'a str,
    /// HMAC-SHA-256 of the full key (readings A3).
    pub digest: &'a [u8; 32],
    /// First 16 characters of the key.
    pub key_prefix: &'a str,
    /// The key's role.
    pub role: Role,
    /// The key's environment.
    pub environment: Environment,
    /// Whether the key may be used under `/v1`. Every key may be used under `/api/v1` (readings A4).
    pub office: bool,
    /// The plan for the account, if the account is created.
    pub plan: Plan,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// When the key expires.
    pub expires_at: Option<i64>,
}

/// A key's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// `ak_...`
    pub key_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The lineage's id. A key and its rotated successors have the same lineage.
    pub lineage_id: String,
    /// First 16 characters of the key.
    pub key_prefix: String,
    /// The key's role.
    pub role: Role,
    /// The key's environment.
    pub environment: Environment,
    /// Whether the key may be used under `/api/v1` (readings A4).
    pub platform: bool,
    /// Whether the key may be used under `/v1`.
    pub office: bool,
    /// The account's plan.
    pub plan: Plan,
    /// Whether the account is suspended because it has not paid (readings P18).
    pub is_suspended: bool,
    /// When the key was created.
    pub created_at: i64,
    /// When the key expires.
    pub expires_at: Option<i64>,
    /// When the key was revoked.
    pub revoked_at: Option<i64>,
    /// When a successor replaced the key. The old key works until it expires (readings A18).
    pub rotated_at: Option<i64>,
    /// When the key was last used, to the minute.
    pub last_used_at: Option<i64>,
}

from_row!(ApiKey {
    key_id,
    account_id,
    lineage_id,
    key_prefix,
    role as word,
    environment as word,
    platform,
    office,
    plan as word,
    is_suspended,
    created_at,
    expires_at,
    revoked_at,
    rotated_at,
    last_used_at
});

/// A lineage whose keys were just revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokedLineage {
    /// `lin_...`
    pub lineage_id: String,
    /// Ids of the keys that this call revoked. These keys were valid or had expired.
    pub key_ids: Vec<String>,
}

impl ApiKey {
    /// Returns the key's status at the time `now`.
    pub fn status(&self, now: i64) -> KeyStatus {
        match self {
            ApiKey { revoked_at: Some(_), .. } => KeyStatus::Revoked,
            ApiKey { expires_at: Some(end), .. } if *end <= now => KeyStatus::Expired,
            ApiKey { rotated_at: Some(_), .. } => KeyStatus::Rotating,
            _ => KeyStatus::Active,
        }
    }
}

/// Builds a query for all columns of [`ApiKey`]s. `$rest` is the rest of the statement, after the tables.
macro_rules! select_keys {
    ($rest:literal) => {
        concat!(
            "SELECT key_id, k.account_id, lineage_id, key_prefix, role, environment, platform, office, plan, is_suspended, ",
            "k.created_at, expires_at, revoked_at, rotated_at, last_used_at ",
            "FROM api_keys k JOIN accounts a ON a.account_id = k.account_id ",
            $rest
        )
    };
}

impl Tx {
    /// Replaces an old key by a new key. The old key works until `old_ends_at`. False: nothing was changed, because the
    /// old key was rotated before or is no longer valid.
    pub async fn rotate_api_key(
        &mut self,
        old_key_id: &str,
        old_ends_at: i64,
        new: &NewApiKey<'_>,
        prefix_tags: Option<&[u8]>,
    ) -> Result<bool> {
        // a concurrent revocation waits for this lock, and then sees the successor
        self.lock_account(new.account_id).await?;
        let sql = "UPDATE api_keys SET rotated_at = $2, expires_at = $3 WHERE key_id = $1 AND rotated_at IS NULL \
             AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";
        if self.execute(sql, values![old_key_id, new.created_at, old_ends_at]).await? == 0 {
            return Ok(false);
        }
        insert(self, new).await?;
        let sql = "UPDATE api_keys SET prefix_tags = $2 WHERE key_id = $1";
        self.execute(sql, values![new.key_id, prefix_tags]).await?;
        Ok(true)
    }

    /// Writes a key, and its account if the account is new, as part of a transaction.
    pub async fn insert_api_key(&mut self, key: &NewApiKey<'_>) -> Result<()> {
        insert(self, key).await
    }

    /// Stores the label of a lineage, unless the label is empty.
    pub async fn label_key(&mut self, lineage_id: &str, customer: &str) -> Result<()> {
        if customer.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO key_labels (lineage_id, customer) VALUES ($1, $2)";
        self.execute(sql, values![lineage_id, customer]).await.map(drop)
    }
}

impl Store {
    /// Writes a key, and its account if the account is new.
    pub async fn insert_api_key(&self, key: &NewApiKey<'_>) -> Result<()> {
        let mut tx = self.db.begin().await?;
        insert(&mut tx, key).await?;
        tx.commit().await
    }

    /// Returns the key with this digest, even if the key is revoked or expired.
    pub async fn api_key(&self, digest: &[u8; 32]) -> Result<Option<ApiKey>> {
        self.db.fetch_optional(select_keys!("WHERE digest = $1"), values![digest]).await
    }

    /// Returns the key with this id, even if the key is revoked or expired.
    pub async fn api_key_of_id(&self, key_id: &str) -> Result<Option<ApiKey>> {
        self.db.fetch_optional(select_keys!("WHERE key_id = $1"), values![key_id]).await
    }

    /// Revokes all keys of a lineage at once (readings A17). Returns the number of keys that this call revoked.
    pub async fn revoke_lineage(&self, lineage_id: &str, at: i64) -> Result<usize> {
        let mut tx = self.db.begin().await?;
        let revoked = revoke_in_lineage(&mut tx, lineage_id, at).await?;
        tx.commit().await?;
        Ok(revoked.len())
    }

    /// Revokes a key with its predecessors and successors at once (readings A17). `None`: the key does not exist, or
    /// all keys of its lineage were revoked before.
    pub async fn revoke_api_key(&self, key_id: &str, at: i64) -> Result<Option<RevokedLineage>> {
        let mut tx = self.db.begin().await?;
        let sql = "SELECT lineage_id FROM api_keys WHERE key_id = $1";
        let found: Option<(String,)> = tx.fetch_optional(sql, values![key_id]).await?;
        let Some((lineage_id,)) = found else { return Ok(None) };
        let key_ids = revoke_in_lineage(&mut tx, &lineage_id, at).await?;
        tx.commit().await?;
        Ok((!key_ids.is_empty()).then_some(RevokedLineage { lineage_id, key_ids }))
    }

    /// Revokes all keys of an account at once. Returns the keys' lineages.
    pub async fn revoke_keys_of_account(&self, account_id: &str, at: i64) -> Result<Vec<String>> {
        let mut tx = self.db.begin().await?;
        let lineages = "SELECT DISTINCT lineage_id FROM api_keys WHERE account_id = $1 AND revoked_at IS NULL";
        let revoked = revoke_all(&mut tx, lineages, account_id, at).await?;
        tx.commit().await?;
        Ok(revoked)
    }

    /// Revokes all keys that a user made, and the successors of these keys, at once. Returns the keys' lineages.
    pub async fn revoke_keys_of_user(&self, user_id: &str, at: i64) -> Result<Vec<String>> {
        let mut tx = self.db.begin().await?;
        let revoked = revoke_all(&mut tx, LINEAGES_OF_USER, user_id, at).await?;
        tx.commit().await?;
        Ok(revoked)
    }

    /// Records when keys were last used. `used`: pairs of key id and time.
    pub async fn keys_used(&self, used: &[(String, i64)]) -> Result<()> {
        // sort the keys: every node locks them in the same order, because otherwise two transactions can deadlock
        let mut used: Vec<_> = used.iter().collect();
        used.sort_unstable();
        let mut tx = self.db.begin().await?;
        for (key_id, at) in used {
            let sql = "UPDATE api_keys SET last_used_at = $2 \
                 WHERE key_id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
            tx.execute(sql, values![key_id, *at]).await?;
        }
        tx.commit().await
    }

    /// Returns who made the keys that were made on the dashboard, as pairs of lineage and user id.
    pub async fn key_makers(&self) -> Result<Vec<(String, String)>> {
        self.db.fetch_all("SELECT lineage_id, user_id FROM user_keys", values![]).await
    }

    /// Returns the labels of keys, as pairs of lineage and label.
    pub async fn key_labels(&self) -> Result<Vec<(String, String)>> {
        self.db.fetch_all("SELECT lineage_id, customer FROM key_labels", values![]).await
    }

    /// Returns all keys, including revoked and expired keys, the oldest first.
    pub async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        self.db.fetch_all(select_keys!("ORDER BY k.created_at, key_id"), values![]).await
    }

    /// Returns whether the database has ever had an API key.
    pub async fn has_api_keys(&self) -> Result<bool> {
        let row: Option<(i64,)> =
            self.db.fetch_optional("SELECT CAST(1 AS BIGINT) FROM api_keys LIMIT 1", values![]).await?;
        Ok(row.is_some())
    }
}

/// Revokes those keys of a lineage that are not revoked, and returns the ids of these keys. Locks the account, so that
/// a revocation and a concurrent rotation wait for each other: otherwise the revocation could miss a new successor.
/// Locks the keys' rows in the same order as [`Store::keys_used`].
pub(crate) async fn revoke_in_lineage(tx: &mut Tx, lineage_id: &str, at: i64) -> Result<Vec<String>> {
    let sql = "SELECT account_id FROM api_keys WHERE lineage_id = $1 LIMIT 1";
    let owner: Option<(String,)> = tx.fetch_optional(sql, values![lineage_id]).await?;
    let Some((account_id,)) = owner else { return Ok(Vec::new()) };
    tx.lock_account(&account_id).await?;
    let sql = "SELECT key_id FROM api_keys WHERE lineage_id = $1 AND revoked_at IS NULL ORDER BY key_id";
    let living: Vec<(String,)> = tx.fetch_all(sql, values![lineage_id]).await?;
    for (key_id,) in &living {
        let sql = "UPDATE api_keys SET revoked_at = $2 WHERE key_id = $1";
        tx.execute(sql, values![key_id, at]).await?;
    }
    Ok(living.into_iter().map(|(key_id,)| key_id).collect())
}

/// A query for the lineages of keys that a user made and that are not revoked.
pub(crate) const LINEAGES_OF_USER: &str = "SELECT DISTINCT k.lineage_id FROM api_keys k \
     JOIN user_keys u ON u.lineage_id = k.lineage_id WHERE u.user_id = $1 AND revoked_at IS NULL";

/// Revokes the keys of several lineages, and returns the lineages. `lineages` is the query for the lineages; `of` is
/// the id of the account or user for this query.
pub(crate) async fn revoke_all(tx: &mut Tx, lineages: &'static str, of: &str, at: i64) -> Result<Vec<String>> {
    let mut rows: Vec<(String,)> = tx.fetch_all(lineages, values![of]).await?;
    // sort the lineages, so that all transactions that revoke several lineages lock them in the same order; otherwise
    // two such transactions can deadlock
    rows.sort_unstable();
    for (lineage,) in &rows {
        revoke_in_lineage(tx, lineage, at).await?;
    }
    Ok(rows.into_iter().map(|(lineage,)| lineage).collect())
}

/// Writes a key, its account if the account is new, and its trial if the key is a trial key.
pub(crate) async fn insert(tx: &mut Tx, key: &NewApiKey<'_>) -> Result<()> {
    tx.insert_account(key.account_id, key.plan, key.created_at).await?;
    tx.execute(
        "INSERT INTO api_keys (key_id, account_id, lineage_id, digest, key_prefix, role, environment, created_at, \
         expires_at, office) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        values![
            key.key_id,
            key.account_id,
            key.lineage_id,
            key.digest,
            key.key_prefix,
            key.role,
            key.environment,
            key.created_at,
            key.expires_at,
            key.office,
        ],
    )
    .await?;
    if key.environment == Environment::Trial
        && let Some(expires_at) = key.expires_at
    {
        let sql = "INSERT INTO trials (account_id, expires_at) VALUES ($1, $2) ON CONFLICT (account_id) DO NOTHING";
        tx.execute(sql, values![key.account_id, expires_at]).await?;
    }
    Ok(())
}
