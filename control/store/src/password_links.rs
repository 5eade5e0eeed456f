//! Links with which users set a new password in place of a forgotten one.

use crate::database::values;
use crate::{Result, Store};

impl Store {
    /// Writes a link for a user, in place of an earlier link of this user.
    pub async fn put_password_link(&self, digest: &[u8; 32], user_id: &str, expires_at: i64) -> Result<()> {
        let sql = "INSERT INTO password_links (digest, user_id, expires_at) VALUES ($1, $2, $3) \
             ON CONFLICT (user_id) DO UPDATE SET digest = excluded.digest, expires_at = excluded.expires_at";
        self.db.execute(sql, values![digest, user_id, expires_at]).await.map(drop)
    }

    /// Returns whether a link with this digest exists and has not expired.
    pub async fn is_password_link(&self, digest: &[u8; 32], now: i64) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM password_links WHERE digest = $1 AND expires_at > $2";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![digest, now]).await?;
        Ok(row.is_some())
    }

    /// Uses a link: sets the password of the link's user and ends all sign-ins of this user. False: nothing was
    /// changed, because the link does not exist or has expired, or the user is disabled.
    pub async fn use_password_link(&self, digest: &[u8; 32], hash: &str, at: i64) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        let sql = "DELETE FROM password_links WHERE digest = $1 AND expires_at > $2 RETURNING user_id";
        let used: Option<(String,)> = tx.fetch_optional(sql, values![digest, at]).await?;
        let Some((user_id,)) = used else { return Ok(false) };
        let sql = "UPDATE users SET password_hash = $2 WHERE user_id = $1 AND disabled_at IS NULL";
        if tx.execute(sql, values![&user_id, hash]).await? == 0 {
            return Ok(false);
        }
        let sql = "UPDATE sign_ins SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL";
        tx.execute(sql, values![&user_id, at]).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes expired links.
    pub async fn forget_password_links(&self, now: i64) -> Result<u64> {
        self.db.execute("DELETE FROM password_links WHERE expires_at <= $1", values![now]).await
    }
}
