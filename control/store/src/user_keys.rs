//! API keys that users of the dashboard make, list and revoke.

use crate::api_keys::{ApiKey, NewApiKey, insert, revoke_in_lineage};
use crate::database::{Tx, locking, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// The result of making a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserKeyMade {
    /// The key was made.
    Made,
    /// The user has made as many keys as the sliding window allows.
    TooMany {
        /// When the oldest of these keys was made.
        oldest_at: i64,
    },
}

/// Selects the keys of an account that a user may see.
#[derive(Clone, Copy, Debug)]
pub struct UserKeysSeen<'a> {
    /// The account.
    pub account_id: &'a str,
    /// Only the keys that this user made, and their successors. `None`: all keys.
    pub user_id: Option<&'a str>,
    /// Keys that were revoked or expired before this time are left out (readings A16).
    pub ended_after: i64,
}

/// Largest difference between nodes' clocks, in microseconds. If a key's time is in the future by more than this, the
/// key was made before the clock was set back, and does not count.
const AHEAD_US_MAX: i64 = 60 * 1_000_000;

impl Tx {
    /// Writes a key that a user made, unless the user has made `max` keys since `since` (readings A23).
    pub async fn insert_user_key(
        &mut self,
        key: &NewApiKey<'_>,
        user_id: &str,
        since: i64,
        max: i64,
    ) -> Result<UserKeyMade> {
        // lock the user, so that the second of two concurrent requests counts the first one's key
        let sql = locking!("SELECT user_id FROM users WHERE user_id = $1");
        self.fetch_optional::<(String,)>(sql, values![user_id]).await?;
        let sql = "SELECT COUNT(*), MIN(created_at) FROM user_keys \
             WHERE user_id = $1 AND created_at > $2 AND created_at < $3";
        let (made, oldest_at): (i64, Option<i64>) =
            self.fetch_one(sql, values![user_id, since, key.created_at + AHEAD_US_MAX]).await?;
        if made >= max {
            return Ok(UserKeyMade::TooMany { oldest_at: oldest_at.unwrap_or(since) });
        }
        insert(self, key).await?;
        let sql = "INSERT INTO user_keys (lineage_id, user_id, created_at) VALUES ($1, $2, $3)";
        self.execute(sql, values![key.lineage_id, user_id, key.created_at]).await?;
        Ok(UserKeyMade::Made)
    }
}

impl Store {
    /// Returns a page of the keys that a user may see, after this row.
    pub async fn user_keys_page(
        &self,
        seen: UserKeysSeen<'_>,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<ApiKey>> {
        let (created_at, key_id) = after.unwrap_or((i64::MAX, ""));
        let rows = "SELECT key_id, k.account_id, lineage_id, key_prefix, role, environment, platform, office, plan, is_suspended, \
             k.created_at, expires_at, revoked_at, rotated_at, last_used_at, \
             (SELECT COUNT(*) FROM api_keys WHERE account_id = $1 AND (revoked_at IS NULL OR revoked_at > $3) \
             AND (expires_at IS NULL OR expires_at > $3) \
             AND ($2 IS NULL OR lineage_id IN (SELECT lineage_id FROM user_keys WHERE user_id = $2))) AS total_count \
             FROM api_keys k JOIN accounts a ON a.account_id = k.account_id \
             WHERE k.account_id = $1 AND (revoked_at IS NULL OR revoked_at > $3) \
             AND (expires_at IS NULL OR expires_at > $3) \
             AND ($2 IS NULL OR lineage_id IN (SELECT lineage_id FROM user_keys WHERE user_id = $2)) \
             AND (k.created_at, key_id) < ($4, $5) ORDER BY k.created_at DESC, key_id DESC LIMIT $6";
        let count = "SELECT COUNT(*) FROM api_keys WHERE account_id = $1 AND (revoked_at IS NULL OR revoked_at > $3) \
             AND (expires_at IS NULL OR expires_at > $3) \
             AND ($2 IS NULL OR lineage_id IN (SELECT lineage_id FROM user_keys WHERE user_id = $2))";
        let of_rows = values![seen.account_id, seen.user_id, seen.ended_after, created_at, key_id, rows_max];
        let of_count = values![seen.account_id, seen.user_id, seen.ended_after];
        page(&self.db, after.is_none(), (rows, of_rows), (count, of_count)).await
    }

    /// Revokes a key that a user may see, with the key's predecessors and successors (readings A17). Returns the
    /// lineage. `None`: the key does not exist or was revoked before.
    pub async fn revoke_user_key(&self, seen: UserKeysSeen<'_>, key_id: &str, at: i64) -> Result<Option<String>> {
        let mut tx = self.db.begin().await?;
        let sql = "SELECT lineage_id FROM api_keys WHERE key_id = $1 AND account_id = $2 AND revoked_at IS NULL \
             AND ($3 IS NULL OR lineage_id IN (SELECT lineage_id FROM user_keys WHERE user_id = $3))";
        let found: Option<(String,)> = tx.fetch_optional(sql, values![key_id, seen.account_id, seen.user_id]).await?;
        let Some((lineage_id,)) = found else { return Ok(None) };
        if revoke_in_lineage(&mut tx, &lineage_id, at).await?.is_empty() {
            return Ok(None);
        }
        tx.commit().await?;
        Ok(Some(lineage_id))
    }
}
