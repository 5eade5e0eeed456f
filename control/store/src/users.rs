//! Users of the dashboard. A user has a password or belongs to an external issuer.

use api::{Plan, Role};

use crate::api_keys::{LINEAGES_OF_USER, revoke_all};
use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// A user with a password, to create.
#[derive(Clone, Debug)]
pub struct NewUser<'a> {
    /// `usr_...`
    pub user_id: &'a str,
    /// An existing account. `None`: the first sign-in creates one.
    pub account_id: Option<&'a str>,
    /// The e-mail in lower case.
    pub email: &'a str,
    /// The argon2id hash, as a PHC string.
    pub password_hash: &'a str,
    /// The role, which is never `Trial`.
    pub role: Role,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
}

/// A user's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// `usr_...`
    pub user_id: String,
    /// The user's account. `None` before the first sign-in.
    pub account_id: Option<String>,
    /// The e-mail. `None` for users of an external issuer.
    pub email: Option<String>,
    /// The argon2id hash, as a PHC string.
    pub password_hash: Option<String>,
    /// Address of the external issuer.
    pub issuer: Option<String>,
    /// The id that the external issuer gave the user.
    pub subject: Option<String>,
    /// The role, which is never `Trial`.
    pub role: Role,
    /// When the user was created.
    pub created_at: i64,
    /// When the user last signed in with the password.
    pub last_sign_in_at: Option<i64>,
    /// When the operator disabled the user.
    pub disabled_at: Option<i64>,
}

from_row!(User {
    user_id,
    account_id,
    email,
    password_hash,
    issuer,
    subject,
    role as word,
    created_at,
    last_sign_in_at,
    disabled_at
});

/// The result of creating the first user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstUser {
    /// The user was created, and the link is used up.
    Made,
    /// The link does not exist, has expired or was used.
    BadLink,
    /// Users exist already.
    NotTheFirst,
}

/// A user of an external issuer, as the issuer's token describes the user.
#[derive(Clone, Debug)]
pub struct NewExternalUser<'a> {
    /// The id for a new user: `usr_...`.
    pub user_id: &'a str,
    /// The id for a new account: `acct_...`.
    pub account_id: &'a str,
    /// The issuer's address.
    pub issuer: &'a str,
    /// The id that the issuer gave the user.
    pub subject: &'a str,
    /// The id that the issuer gave the account, if the token contains such an id.
    pub account: Option<&'a str>,
    /// The role of a new user.
    pub role: Role,
    /// The plan of a new account.
    pub plan: Plan,
    /// Whether the issuer may name an account of this service by the account's id.
    pub trusts_account_ids: bool,
    /// Limit of the users and accounts together that the issuer may create.
    pub made_max: i64,
    /// Now, in microseconds since 1970.
    pub now: i64,
}

/// The user and the account for which an external issuer made a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalUser {
    /// `usr_...`
    pub user_id: String,
    /// The account to which the token gives access.
    pub account_id: String,
    /// The user's stored role, for tokens that contain no role.
    pub role: Role,
    /// The account's plan.
    pub plan: Plan,
    /// Whether a payment of the account has been due for too long.
    pub is_suspended: bool,
    /// When the operator disabled the user.
    pub disabled_at: Option<i64>,
}

from_row!(ExternalUser { user_id, account_id, role as word, plan as word, is_suspended, disabled_at });

impl Tx {
    /// Changes a user's password, and ends all sign-ins of the user except `keep_sign_in`.
    pub async fn set_password(&mut self, user_id: &str, hash: &str, keep_sign_in: &str, at: i64) -> Result<()> {
        self.execute("UPDATE users SET password_hash = $2 WHERE user_id = $1", values![user_id, hash]).await?;
        let sql = "UPDATE sign_ins SET revoked_at = $3 \
             WHERE user_id = $1 AND sign_in_id <> $2 AND revoked_at IS NULL";
        self.execute(sql, values![user_id, keep_sign_in, at]).await?;
        Ok(())
    }
}

impl Store {
    /// Creates a user. False: another user has the e-mail.
    pub async fn insert_user(&self, user: &NewUser<'_>) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        let made = insert(&mut tx, user).await?;
        tx.commit().await?;
        Ok(made)
    }

    /// Creates the first user, and uses up the setup link with this digest.
    pub async fn insert_first_user(&self, link: &[u8; 32], user: &NewUser<'_>) -> Result<FirstUser> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE setup_links SET used_at = $2 WHERE digest = $1 AND used_at IS NULL AND expires_at > $2";
        if tx.execute(sql, values![link, user.created_at]).await? == 0 {
            return Ok(FirstUser::BadLink);
        }
        let (users,): (i64,) = tx.fetch_one("SELECT COUNT(*) FROM users", values![]).await?;
        if users > 0 || !insert(&mut tx, user).await? {
            return Ok(FirstUser::NotTheFirst);
        }
        tx.commit().await?;
        Ok(FirstUser::Made)
    }

    /// Returns the user with this e-mail, which must be in lower case.
    pub async fn user_of_email(&self, email: &str) -> Result<Option<User>> {
        let sql = "SELECT user_id, account_id, email, password_hash, issuer, subject, role, created_at, \
             last_sign_in_at, disabled_at FROM users WHERE email = $1";
        self.db.fetch_optional(sql, values![email]).await
    }

    /// Returns the user with this id.
    pub async fn user(&self, user_id: &str) -> Result<Option<User>> {
        let sql = "SELECT user_id, account_id, email, password_hash, issuer, subject, role, created_at, \
             last_sign_in_at, disabled_at FROM users WHERE user_id = $1";
        self.db.fetch_optional(sql, values![user_id]).await
    }

    /// Returns all users, the oldest first.
    pub async fn users(&self) -> Result<Vec<User>> {
        let sql = "SELECT user_id, account_id, email, password_hash, issuer, subject, role, created_at, \
             last_sign_in_at, disabled_at FROM users ORDER BY created_at, user_id";
        self.db.fetch_all(sql, values![]).await
    }

    /// Returns whether any user exists.
    pub async fn has_users(&self) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM users LIMIT 1";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![]).await?;
        Ok(row.is_some())
    }

    /// Disables a user, who then cannot sign in, refresh tokens or use tokens. False: the user does not exist or is
    /// disabled already.
    pub async fn disable_user(&self, user_id: &str, at: i64) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE users SET disabled_at = $2 WHERE user_id = $1 AND disabled_at IS NULL";
        let done = tx.execute(sql, values![user_id, at]).await? == 1;
        end_sign_ins(&mut tx, user_id, at).await?;
        tx.commit().await?;
        Ok(done)
    }

    /// Enables a disabled user. False: the user does not exist or is not disabled.
    pub async fn enable_user(&self, user_id: &str) -> Result<bool> {
        let sql = "UPDATE users SET disabled_at = NULL WHERE user_id = $1 AND disabled_at IS NOT NULL";
        Ok(self.db.execute(sql, values![user_id]).await? == 1)
    }

    /// Changes a user's role and ends their sign-ins, because tokens contain the old role. False: the user does not
    /// exist.
    pub async fn set_role(&self, user_id: &str, role: Role, at: i64) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        let done = tx.execute("UPDATE users SET role = $2 WHERE user_id = $1", values![user_id, role]).await? == 1;
        end_sign_ins(&mut tx, user_id, at).await?;
        tx.commit().await?;
        Ok(done)
    }

    /// Ends all sign-ins of a user. Returns the number of sign-ins.
    pub async fn end_sign_ins(&self, user_id: &str, at: i64) -> Result<u64> {
        let mut tx = self.db.begin().await?;
        let ended = end_sign_ins(&mut tx, user_id, at).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Deletes a user with their sign-ins, and revokes the keys that they made. Returns the lineages of these keys. The
    /// account stays with everything else that it owns.
    pub async fn delete_user(&self, user_id: &str, at: i64) -> Result<Vec<String>> {
        let mut tx = self.db.begin().await?;
        // disable the user first, so that no sign-in and no key is made during the deletion
        tx.execute("UPDATE users SET disabled_at = $2 WHERE user_id = $1", values![user_id, at]).await?;
        let revoked = revoke_all(&mut tx, LINEAGES_OF_USER, user_id, at).await?;
        tx.execute("DELETE FROM user_keys WHERE user_id = $1", values![user_id]).await?;
        tx.execute("DELETE FROM password_links WHERE user_id = $1", values![user_id]).await?;
        tx.execute("DELETE FROM sign_ins WHERE user_id = $1", values![user_id]).await?;
        tx.execute("DELETE FROM users WHERE user_id = $1", values![user_id]).await?;
        tx.commit().await?;
        Ok(revoked)
    }

    /// Writes a setup link, in place of an earlier link that was not used.
    pub async fn put_setup_link(&self, digest: &[u8; 32], created_at: i64, expires_at: i64) -> Result<()> {
        let mut tx = self.db.begin().await?;
        tx.execute("DELETE FROM setup_links WHERE used_at IS NULL", values![]).await?;
        let sql = "INSERT INTO setup_links (digest, created_at, expires_at) VALUES ($1, $2, $3)";
        tx.execute(sql, values![digest, created_at, expires_at]).await?;
        tx.commit().await
    }

    /// Returns whether a setup link with this digest exists, is unused and has not expired.
    pub async fn is_setup_link(&self, digest: &[u8; 32], now: i64) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM setup_links WHERE digest = $1 AND used_at IS NULL AND expires_at > $2";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![digest, now]).await?;
        Ok(row.is_some())
    }

    /// Returns whether a setup link was ever made.
    pub async fn has_setup_link(&self) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM setup_links LIMIT 1";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![]).await?;
        Ok(row.is_some())
    }

    /// Returns the user and the account for which an external issuer made a token. Creates the user or the account if
    /// it is new (readings A24). `None`: the user or the account is new, and the issuer may not create any more.
    pub async fn external_user(&self, seen: &NewExternalUser<'_>) -> Result<Option<ExternalUser>> {
        if let Some(user) = self.known_external_user(seen).await? {
            return Ok(Some(user));
        }
        let mut tx = self.db.begin().await?;
        let sql = "SELECT (SELECT COUNT(*) FROM users WHERE issuer = $1) \
             + (SELECT COUNT(*) FROM external_accounts WHERE issuer = $1)";
        let (made,): (i64,) = tx.fetch_one(sql, values![seen.issuer]).await?;
        if made >= seen.made_max {
            return Ok(None);
        }
        let account_id = match seen.account {
            None => None,
            Some(name) => Some(external_account(&mut tx, seen, name).await?),
        };
        let sql = "SELECT user_id, account_id FROM users WHERE issuer = $1 AND subject = $2";
        let known: Option<(String, Option<String>)> =
            tx.fetch_optional(sql, values![seen.issuer, seen.subject]).await?;
        let own = known.as_ref().and_then(|(_, account_id)| account_id.clone()).or(account_id);
        let own = match own {
            Some(account_id) => account_id,
            None => new_account(&mut tx, seen).await?,
        };
        let sql = "INSERT INTO users (user_id, account_id, issuer, subject, role, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (issuer, subject) DO NOTHING";
        tx.execute(sql, values![seen.user_id, &own, seen.issuer, seen.subject, seen.role, seen.now]).await?;
        tx.commit().await?;
        // if two nodes create the user at the same time, one of them writes first: read the result
        let user = self.known_external_user(seen).await?;
        user.map(Some).ok_or(crate::Error::Database(sqlx::Error::RowNotFound))
    }

    async fn known_external_user(&self, seen: &NewExternalUser<'_>) -> Result<Option<ExternalUser>> {
        let Some(name) = seen.account else {
            let sql = "SELECT user_id, u.account_id, role, plan, is_suspended, disabled_at FROM users u \
                 JOIN accounts a ON a.account_id = u.account_id WHERE issuer = $1 AND subject = $2";
            return self.db.fetch_optional(sql, values![seen.issuer, seen.subject]).await;
        };
        let sql = "SELECT user_id, a.account_id, role, plan, is_suspended, disabled_at FROM users u \
             JOIN external_accounts e ON e.issuer = u.issuer JOIN accounts a ON a.account_id = e.account_id \
             WHERE u.issuer = $1 AND subject = $2 AND e.name = $3";
        self.db.fetch_optional(sql, values![seen.issuer, seen.subject, name]).await
    }
}

async fn end_sign_ins(tx: &mut Tx, user_id: &str, at: i64) -> Result<u64> {
    let sql = "UPDATE sign_ins SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL";
    tx.execute(sql, values![user_id, at]).await
}

async fn insert(tx: &mut Tx, user: &NewUser<'_>) -> Result<bool> {
    let sql = "INSERT INTO users (user_id, account_id, email, password_hash, role, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (email) DO NOTHING";
    let values = values![user.user_id, user.account_id, user.email, user.password_hash, user.role, user.created_at];
    Ok(tx.execute(sql, values).await? == 1)
}

/// Returns the account that an issuer calls `name`, and creates the account if necessary. If the issuer is trusted with
/// account ids and this service has an account with the id `name`, this is the account.
async fn external_account(tx: &mut Tx, seen: &NewExternalUser<'_>, name: &str) -> Result<String> {
    let sql = "SELECT account_id FROM external_accounts WHERE issuer = $1 AND name = $2";
    if let Some((account_id,)) = tx.fetch_optional::<(String,)>(sql, values![seen.issuer, name]).await? {
        return Ok(account_id);
    }
    let sql = "SELECT account_id FROM accounts WHERE account_id = $1 AND $2";
    let ours = tx.fetch_optional::<(String,)>(sql, values![name, seen.trusts_account_ids]).await?;
    let account_id = match ours {
        Some((account_id,)) => account_id,
        None => new_account(tx, seen).await?,
    };
    let sql = "INSERT INTO external_accounts (issuer, name, account_id) VALUES ($1, $2, $3) \
         ON CONFLICT (issuer, name) DO NOTHING";
    tx.execute(sql, values![seen.issuer, name, &account_id]).await?;
    Ok(account_id)
}

async fn new_account(tx: &mut Tx, seen: &NewExternalUser<'_>) -> Result<String> {
    tx.insert_account(seen.account_id, seen.plan, seen.now).await?;
    Ok(seen.account_id.to_owned())
}
