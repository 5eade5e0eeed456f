//! Sign-ins with their refresh tokens, and access tokens that were ended early.

use api::{Plan, Role};

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// A sign-in to begin.
#[derive(Clone, Debug)]
pub struct NewSignIn<'a> {
    /// `sgn_...`
    pub sign_in_id: &'a str,
    /// The user.
    pub user_id: &'a str,
    /// The id for a new account, if the user has none: `acct_...`.
    pub account_id: &'a str,
    /// The plan of a new account.
    pub plan: Plan,
    /// Digest of the first refresh token.
    pub refresh: &'a [u8; 32],
    /// Now, in microseconds since 1970.
    pub now: i64,
    /// When the sign-in's refresh tokens expire.
    pub expires_at: i64,
}

/// The result of exchanging a refresh token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// The token was exchanged, and the next token is valid.
    Exchanged {
        /// `sgn_...`
        sign_in_id: String,
        /// The user.
        user_id: String,
        /// When the sign-in ends.
        expires_at: i64,
    },
    /// The token had already been exchanged, but the grace period has not ended. The earlier answer was lost, or two
    /// programs of one user share the token.
    Repeated {
        /// `sgn_...`
        sign_in_id: String,
        /// The user.
        user_id: String,
        /// When the sign-in ends.
        expires_at: i64,
        /// The token that replaced this token, sealed.
        successor: Vec<u8>,
    },
    /// The token had already been exchanged and may not be exchanged again, so someone must have copied it. The sign-in
    /// was ended.
    Reused,
    /// The token does not exist, or its sign-in has ended.
    Unknown,
}

struct Family {
    sign_in_id: String,
    user_id: String,
    expires_at: i64,
    revoked_at: Option<i64>,
    disabled_at: Option<i64>,
    used_at: Option<i64>,
    successor: Option<Vec<u8>>,
}

from_row!(Family { sign_in_id, user_id, expires_at, revoked_at, disabled_at, used_at, successor });

/// A refresh token that replaces another.
#[derive(Clone, Debug)]
pub struct NextRefreshToken<'a> {
    /// The digest of the new token.
    pub digest: &'a [u8; 32],
    /// The new token itself, sealed.
    pub sealed: &'a [u8],
    /// Grace period in microseconds. In this time the old token may be exchanged again for the same new token, unless
    /// the new token has been exchanged too.
    pub grace_us: i64,
}

/// The facts that decide whether an access token is still valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenStanding {
    /// The account's plan.
    pub plan: Plan,
    /// Whether a payment of the account has been due for too long.
    pub is_suspended: bool,
    /// The user's present role.
    pub role: Role,
    /// When the operator disabled the user.
    pub disabled_at: Option<i64>,
    /// When the sign-in was ended.
    pub revoked_at: Option<i64>,
}

from_row!(TokenStanding { plan as word, is_suspended, role as word, disabled_at, revoked_at });

impl Tx {
    /// Ends an access token early. Also ends the token's sign-in with all refresh tokens, if the token has a sign-in
    /// (readings A11). The token would expire at `expires_at`.
    pub async fn end_token(
        &mut self,
        digest: &[u8; 32],
        expires_at: i64,
        sign_in_id: Option<&str>,
        now: i64,
    ) -> Result<()> {
        let sql = "INSERT INTO ended_tokens (digest, expires_at) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
        self.execute(sql, values![digest, expires_at]).await?;
        if let Some(sign_in_id) = sign_in_id {
            let sql = "UPDATE sign_ins SET revoked_at = $2 WHERE sign_in_id = $1 AND revoked_at IS NULL";
            self.execute(sql, values![sign_in_id, now]).await?;
        }
        Ok(())
    }
}

impl Store {
    /// Writes a sign-in, and creates the user's account if the user has no account (readings A24). Returns the
    /// account's id. `None`: the user does not exist or is disabled.
    pub async fn begin_sign_in(&self, sign_in: &NewSignIn<'_>) -> Result<Option<String>> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE users SET last_sign_in_at = $2 WHERE user_id = $1 AND disabled_at IS NULL";
        if tx.execute(sql, values![sign_in.user_id, sign_in.now]).await? == 0 {
            return Ok(None);
        }
        let sql = "SELECT account_id FROM users WHERE user_id = $1";
        let (account_id,): (Option<String>,) = tx.fetch_one(sql, values![sign_in.user_id]).await?;
        let account_id = match account_id {
            Some(account_id) => account_id,
            None => {
                tx.insert_account(sign_in.account_id, sign_in.plan, sign_in.now).await?;
                let sql = "UPDATE users SET account_id = $2 WHERE user_id = $1";
                tx.execute(sql, values![sign_in.user_id, sign_in.account_id]).await?;
                sign_in.account_id.to_owned()
            }
        };
        let sql = "INSERT INTO sign_ins (sign_in_id, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)";
        tx.execute(sql, values![sign_in.sign_in_id, sign_in.user_id, sign_in.now, sign_in.expires_at]).await?;
        let sql = "INSERT INTO refresh_tokens (digest, sign_in_id, created_at) VALUES ($1, $2, $3)";
        tx.execute(sql, values![sign_in.refresh, sign_in.sign_in_id, sign_in.now]).await?;
        tx.commit().await?;
        Ok(Some(account_id))
    }

    /// Exchanges a refresh token for the next token. A second exchange within the grace period returns the same next
    /// token again. A later second exchange ends the sign-in.
    pub async fn exchange_refresh_token(
        &self,
        old: &[u8; 32],
        next: &NextRefreshToken<'_>,
        now: i64,
    ) -> Result<Refreshed> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE refresh_tokens SET used_at = $2, successor = $3 WHERE digest = $1 AND used_at IS NULL";
        let first = tx.execute(sql, values![old, now, next.sealed]).await? == 1;
        let sql = "SELECT s.sign_in_id, s.user_id, s.expires_at, s.revoked_at, u.disabled_at, r.used_at, r.successor \
             FROM refresh_tokens r JOIN sign_ins s ON s.sign_in_id = r.sign_in_id \
             JOIN users u ON u.user_id = s.user_id WHERE r.digest = $1";
        let Some(family) = tx.fetch_optional::<Family>(sql, values![old]).await? else {
            return Ok(Refreshed::Unknown);
        };
        if family.revoked_at.is_some() || family.disabled_at.is_some() || family.expires_at <= now {
            return Ok(Refreshed::Unknown);
        }
        let Family { sign_in_id, user_id, expires_at, used_at, successor, .. } = family;
        if first {
            // keep the successor of this token only: a request with an even older token can only come from a thief
            let sql = "UPDATE refresh_tokens SET successor = NULL WHERE sign_in_id = $1 AND digest <> $2 \
                 AND successor IS NOT NULL";
            tx.execute(sql, values![&sign_in_id, old]).await?;
            let sql = "INSERT INTO refresh_tokens (digest, sign_in_id, created_at) VALUES ($1, $2, $3)";
            tx.execute(sql, values![next.digest, &sign_in_id, now]).await?;
            tx.commit().await?;
            return Ok(Refreshed::Exchanged { sign_in_id, user_id, expires_at });
        }
        // compare the difference in both directions, so that a clock that was set back does not extend the grace period
        let recent = used_at.is_some_and(|at| at.abs_diff(now) < next.grace_us.unsigned_abs());
        if let Some(successor) = successor.filter(|_| recent) {
            return Ok(Refreshed::Repeated { sign_in_id, user_id, expires_at, successor });
        }
        let sql = "UPDATE sign_ins SET revoked_at = $2 WHERE sign_in_id = $1";
        tx.execute(sql, values![&sign_in_id, now]).await?;
        tx.commit().await?;
        Ok(Refreshed::Reused)
    }

    /// Returns whether an access token was ended early.
    pub async fn is_token_ended(&self, digest: &[u8; 32]) -> Result<bool> {
        let sql = "SELECT expires_at FROM ended_tokens WHERE digest = $1";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![digest]).await?;
        Ok(row.is_some())
    }

    /// Returns the facts that decide whether the tokens of this user, sign-in and account are valid. `None`: no such
    /// sign-in exists.
    pub async fn token_standing(
        &self,
        user_id: &str,
        sign_in_id: &str,
        account_id: &str,
    ) -> Result<Option<TokenStanding>> {
        let sql = "SELECT a.plan, a.is_suspended, u.role, u.disabled_at, s.revoked_at FROM users u \
             JOIN sign_ins s ON s.user_id = u.user_id JOIN accounts a ON a.account_id = u.account_id \
             WHERE u.user_id = $1 AND s.sign_in_id = $2 AND a.account_id = $3";
        self.db.fetch_optional(sql, values![user_id, sign_in_id, account_id]).await
    }

    /// Deletes expired sign-ins, ended tokens and setup links. `sign_ins_before` is earlier than `now` by the life of
    /// an access token, because tokens of a deleted sign-in are refused.
    pub async fn forget_sign_ins(&self, sign_ins_before: i64, now: i64) -> Result<()> {
        self.db.execute("DELETE FROM sign_ins WHERE expires_at < $1", values![sign_ins_before]).await?;
        self.db.execute("DELETE FROM ended_tokens WHERE expires_at < $1", values![now]).await?;
        self.db.execute("DELETE FROM setup_links WHERE expires_at < $1", values![now]).await?;
        Ok(())
    }
}
