//! The operator's commands for users of the dashboard.

use anyhow::{Context, bail};
use api::{AccountId, UserId};
use serde::Serialize;
use store::{NewUser, User};
use zeroize::Zeroizing;

use super::{Operator, checked_secrets};
use crate::access::{passwords, users};
use crate::cache_store::News;
use crate::caller::Role;
use crate::clock::Timestamp;
use crate::config::Config;
use crate::{database, database_clock, ids};

/// A user, as shown to an operator.
#[derive(Debug, Serialize)]
pub struct UserFacts {
    /// The user's id: `usr_...`.
    pub user_id: String,
    /// The user's e-mail. `None` for users of an external issuer.
    pub email: Option<String>,
    /// The user's account. `None` before the first sign-in.
    pub account_id: Option<String>,
    /// The user's role.
    pub role: Role,
    /// The external issuer, if the user signs in there.
    pub issuer: Option<String>,
    /// The user's id at that issuer.
    pub subject: Option<String>,
    /// When the user was created.
    pub created_at: String,
    /// When the user last signed in with the password.
    pub last_sign_in_at: Option<String>,
    /// When the user was disabled.
    pub disabled_at: Option<String>,
}

impl Operator {
    /// Creates a user with a password. Without `account`, the first sign-in creates an account.
    ///
    /// # Errors
    /// When the e-mail, password, role or account is refused, or another user has the e-mail.
    pub async fn create_user(
        &self,
        email: &str,
        password: &str,
        role: Role,
        account: Option<&AccountId>,
    ) -> anyhow::Result<UserId> {
        if role == Role::Trial {
            bail!("the role trial is for keys, not for users");
        }
        let email = users::normal_email(email).with_context(|| format!("{email:?} is not an e-mail address"))?;
        if let Err(issue) = passwords::check(password) {
            bail!("the password {issue}");
        }
        if let Some(account) = account
            && !self.store.has_account(account.as_str()).await?
        {
            bail!("there is no account {account}");
        }
        let now = self.clock.now();
        let user_id = ids::user(now);
        let user = NewUser {
            user_id: user_id.as_str(),
            account_id: account.map(AccountId::as_str),
            email: &email,
            password_hash: &passwords::hash(password).map_err(anyhow::Error::msg)?,
            role,
            created_at: now.0,
        };
        if self.store.insert_user(&user).await? {
            let (user_id, role) = (user_id.as_str(), role.as_str());
            tracing::info!(target: "security", user_id, role, "user made by the operator");
        } else {
            bail!("there is a user with the e-mail {email} already")
        }
        Ok(user_id)
    }

    /// Returns all users, oldest first.
    pub async fn users(&self) -> anyhow::Result<Vec<UserFacts>> {
        Ok(self.store.users().await?.into_iter().map(facts).collect())
    }

    /// Disables a user: the user can no longer sign in, and all session tokens of the user end within a second. The
    /// user's API keys stay valid.
    ///
    /// # Errors
    /// When the user does not exist or is disabled.
    pub async fn disable_user(&self, email_or_id: &str) -> anyhow::Result<UserFacts> {
        let user = self.user(email_or_id).await?;
        let now = self.clock.now();
        if !self.store.disable_user(&user.user_id, now.0).await? {
            bail!("{email_or_id} is disabled already");
        }
        tracing::info!(target: "security", user_id = user.user_id, "user disabled by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok(facts(User { disabled_at: Some(now.0), ..user }))
    }

    /// Enables a disabled user, who has to sign in again.
    ///
    /// # Errors
    /// When the user does not exist or is not disabled.
    pub async fn enable_user(&self, email_or_id: &str) -> anyhow::Result<UserFacts> {
        let user = self.user(email_or_id).await?;
        if !self.store.enable_user(&user.user_id).await? {
            bail!("{email_or_id} is not disabled");
        }
        tracing::info!(target: "security", user_id = user.user_id, "user enabled by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok(facts(User { disabled_at: None, ..user }))
    }

    /// Changes a user's role. The user's sign-ins end, and within a second also the session tokens, which contain the
    /// old role.
    ///
    /// # Errors
    /// When the user does not exist, or the role is only for keys.
    pub async fn set_role(&self, email_or_id: &str, role: Role) -> anyhow::Result<UserFacts> {
        if role == Role::Trial {
            bail!("the role trial is for keys, not for users");
        }
        let user = self.user(email_or_id).await?;
        self.store.set_role(&user.user_id, role, self.clock.now().0).await?;
        let (user_id, name) = (user.user_id.as_str(), role.as_str());
        tracing::info!(target: "security", user_id, role = name, "role set by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok(facts(User { role, ..user }))
    }

    /// Ends all sign-ins of a user. The user's session tokens end within a second. Returns the user and the number of
    /// ended sign-ins.
    ///
    /// # Errors
    /// When the user does not exist or signs in at an external issuer.
    pub async fn sign_out(&self, email_or_id: &str) -> anyhow::Result<(UserFacts, u64)> {
        let user = self.user(email_or_id).await?;
        if user.issuer.is_some() {
            bail!(
                "{email_or_id} signs in at ANGO_OIDC_ISSUER: sign the user out there, or use `ango admin disable-user`"
            );
        }
        let ended = self.store.end_sign_ins(&user.user_id, self.clock.now().0).await?;
        tracing::info!(target: "security", user_id = user.user_id, sign_ins = ended, "user signed out by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok((facts(user), ended))
    }

    /// Deletes a user. The user's sign-ins end, and the keys that the user made are revoked. The account stays with
    /// everything that it owns. Returns the number of lineages that had a valid key.
    ///
    /// # Errors
    /// When the user does not exist, or signs in at an external issuer, whose next token would create the user again.
    pub async fn delete_user(&self, email_or_id: &str) -> anyhow::Result<(UserFacts, usize)> {
        let user = self.user(email_or_id).await?;
        if user.issuer.is_some() {
            bail!(
                "{email_or_id} signs in at ANGO_OIDC_ISSUER, and the next token from there would create the user again: use \
                 `ango admin disable-user`"
            );
        }
        let lineages = self.store.delete_user(&user.user_id, self.clock.now().0).await?;
        let (user_id, keys) = (user.user_id.as_str(), lineages.len());
        tracing::info!(target: "security", user_id, keys, "user deleted by the operator");
        self.tell_nodes(News::Tokens).await;
        self.tell_revoked(lineages).await;
        Ok((facts(user), keys))
    }

    /// Makes a link with which a user sets a new password. The link works once, within a day, and replaces an earlier
    /// link. Until it is used, the old password stays valid.
    ///
    /// # Errors
    /// When the user does not exist, is disabled, or signs in at an external issuer.
    pub async fn reset_link(
        &self,
        config: &Config,
        email_or_id: &str,
    ) -> anyhow::Result<(UserFacts, Zeroizing<String>)> {
        let user = self.user(email_or_id).await?;
        if user.email.is_none() || config.auth.external_issuer.is_some() {
            bail!("{email_or_id} has no password on this node: an external issuer signs this user in");
        }
        if user.disabled_at.is_some() {
            bail!("{email_or_id} is disabled: run `ango admin enable-user` first");
        }
        tracing::info!(target: "security", user_id = user.user_id, "password link made by the operator");
        let secrets = checked_secrets(config, &self.store).await?;
        let base_url = base_url(config);
        let link = users::new_reset_link(
            &self.store,
            &users::token_pepper(&secrets),
            &base_url,
            &user.user_id,
            self.clock.now(),
        )
        .await?;
        Ok((facts(user), link))
    }

    pub(super) async fn user(&self, email_or_id: &str) -> anyhow::Result<User> {
        let by_email = match users::normal_email(email_or_id) {
            Some(email) => self.store.user_of_email(&email).await?,
            None => None,
        };
        let user = match by_email {
            Some(user) => Some(user),
            None => self.store.user(email_or_id).await?,
        };
        user.with_context(|| format!("there is no user {email_or_id}"))
    }
}

/// Makes a link that creates the first administrator. An earlier link ends.
///
/// # Errors
/// When users exist already.
pub async fn setup_link(config: &Config) -> anyhow::Result<Zeroizing<String>> {
    let store = database::open_as_is(config).await?;
    if config.auth.external_issuer.is_some() {
        bail!("users of this node sign in at ANGO_OIDC_ISSUER: this node cannot create an administrator");
    }
    if store.has_users().await? {
        bail!("there are users already: create another one with `ango admin create-user`");
    }
    let secrets = checked_secrets(config, &store).await?;
    tracing::info!(target: "security", "setup link made by the operator");
    let now = database_clock::of_command(&store).await?.now();
    let link = users::new_setup_link(&store, &users::token_pepper(&secrets), &base_url(config), now).await?;
    store.close().await;
    Ok(link)
}

/// Returns the node's address for links: the public URL of the settings, otherwise the listening address.
fn base_url(config: &Config) -> String {
    config.public_url.clone().unwrap_or_else(|| format!("http://{}", config.listen))
}

fn facts(user: User) -> UserFacts {
    let time = |at: Option<i64>| at.map(|at| Timestamp(at).rfc3339());
    UserFacts {
        user_id: user.user_id,
        email: user.email,
        account_id: user.account_id,
        role: user.role,
        issuer: user.issuer,
        subject: user.subject,
        created_at: Timestamp(user.created_at).rfc3339(),
        last_sign_in_at: time(user.last_sign_in_at),
        disabled_at: time(user.disabled_at),
    }
}
