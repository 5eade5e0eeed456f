//! Users of the dashboard, as an operator makes them and shuts them out.

use anyhow::{Context, bail};
use api::{AccountId, UserId};
use serde::Serialize;
use store::{NewUser, User};
use zeroize::Zeroizing;

use super::{Operator, checked_secrets};
use crate::access::{passwords, users};
use crate::cache_store::News;
use crate::caller::Role;
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::{database, ids};

/// A user as an operator sees it.
#[derive(Debug, Serialize)]
pub struct UserFacts {
    /// `usr_...`
    pub user_id: String,
    /// None for users of an external issuer.
    pub email: Option<String>,
    /// None before the first sign-in.
    pub account_id: Option<String>,
    /// What they may do.
    pub role: Role,
    /// Where they sign in, if not here.
    pub issuer: Option<String>,
    /// What that issuer calls them.
    pub subject: Option<String>,
    /// When the user was made.
    pub created_at: String,
    /// When they last gave their password.
    pub last_sign_in_at: Option<String>,
    /// When they were shut out.
    pub disabled_at: Option<String>,
}

impl Operator {
    /// Makes a user with a password. The account comes with the first sign-in unless one is named.
    ///
    /// # Errors
    /// When e-mail, password, role or account will not do, or the e-mail is another user's.
    pub async fn create_user(
        &self,
        email: &str,
        password: &str,
        role: Role,
        account: Option<&AccountId>,
    ) -> anyhow::Result<UserId> {
        if role == Role::Trial {
            bail!("the role trial is for keys");
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
            bail!("there is a user with the e-mail {email}")
        }
        Ok(user_id)
    }

    /// All users, oldest first.
    pub async fn users(&self) -> anyhow::Result<Vec<UserFacts>> {
        Ok(self.store.users().await?.into_iter().map(facts).collect())
    }

    /// Shuts a user out: no sign-in, and an end to all their session tokens within a second. Their API keys stay.
    ///
    /// # Errors
    /// When there is no such user, or they were shut out before.
    pub async fn disable_user(&self, email_or_id: &str) -> anyhow::Result<UserFacts> {
        let user = self.user(email_or_id).await?;
        let now = self.clock.now();
        if !self.store.disable_user(&user.user_id, now.0).await? {
            bail!("{email_or_id} was disabled before");
        }
        tracing::info!(target: "security", user_id = user.user_id, "user disabled by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok(facts(User { disabled_at: Some(now.0), ..user }))
    }

    /// Lets a user in again who was shut out; they sign in anew.
    ///
    /// # Errors
    /// When there is no such user, or they are not shut out.
    pub async fn enable_user(&self, email_or_id: &str) -> anyhow::Result<UserFacts> {
        let user = self.user(email_or_id).await?;
        if !self.store.enable_user(&user.user_id).await? {
            bail!("{email_or_id} is not disabled");
        }
        tracing::info!(target: "security", user_id = user.user_id, "user enabled by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok(facts(User { disabled_at: None, ..user }))
    }

    /// Gives a user another role. Their sign-ins end, with their session tokens within a second: those say the old role.
    ///
    /// # Errors
    /// When there is no such user, or the role is for keys.
    pub async fn set_role(&self, email_or_id: &str, role: Role) -> anyhow::Result<UserFacts> {
        if role == Role::Trial {
            bail!("the role trial is for keys");
        }
        let user = self.user(email_or_id).await?;
        self.store.set_role(&user.user_id, role, self.clock.now().0).await?;
        let (user_id, name) = (user.user_id.as_str(), role.as_str());
        tracing::info!(target: "security", user_id, role = name, "role set by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok(facts(User { role, ..user }))
    }

    /// Ends all sign-ins of a user, and their session tokens within a second. How many there were.
    ///
    /// # Errors
    /// When there is no such user, or they sign in elsewhere.
    pub async fn sign_out(&self, email_or_id: &str) -> anyhow::Result<(UserFacts, u64)> {
        let user = self.user(email_or_id).await?;
        if user.issuer.is_some() {
            bail!("{email_or_id} signs in with ANGO_OIDC_ISSUER: end it there, or use `ango admin disable-user`");
        }
        let ended = self.store.end_sign_ins(&user.user_id, self.clock.now().0).await?;
        tracing::info!(target: "security", user_id = user.user_id, sign_ins = ended, "user signed out by the operator");
        self.tell_nodes(News::Tokens).await;
        Ok((facts(user), ended))
    }

    /// Removes a user, and ends their sign-ins and the keys that they made. Their account stays with all that it owns. How
    /// many lineages of keys worked until now.
    ///
    /// # Errors
    /// When there is no such user, or an external issuer would bring them back.
    pub async fn delete_user(&self, email_or_id: &str) -> anyhow::Result<(UserFacts, usize)> {
        let user = self.user(email_or_id).await?;
        if user.issuer.is_some() {
            bail!(
                "{email_or_id} would be back with their next token of ANGO_OIDC_ISSUER: use `ango admin disable-user`"
            );
        }
        let lineages = self.store.delete_user(&user.user_id, self.clock.now().0).await?;
        let (user_id, keys) = (user.user_id.as_str(), lineages.len());
        tracing::info!(target: "security", user_id, keys, "user deleted by the operator");
        self.tell_nodes(News::Tokens).await;
        self.forgotten(lineages).await;
        Ok((facts(user), keys))
    }

    /// A link by which a user sets another password, once, within a day; it ends the one before. Until then the old
    /// password goes on.
    ///
    /// # Errors
    /// When there is no such user, or they are shut out or sign in elsewhere.
    pub async fn reset_link(
        &self,
        config: &Config,
        email_or_id: &str,
    ) -> anyhow::Result<(UserFacts, Zeroizing<String>)> {
        let user = self.user(email_or_id).await?;
        if user.email.is_none() || config.auth.external_issuer.is_some() {
            bail!("{email_or_id} has no password here");
        }
        if user.disabled_at.is_some() {
            bail!("{email_or_id} is disabled: `ango admin enable-user` first");
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

/// A link that creates the first administrator; it ends the one before.
///
/// # Errors
/// When there are users already.
pub async fn setup_link(config: &Config) -> anyhow::Result<Zeroizing<String>> {
    let store = database::open_as_is(config).await?;
    if config.auth.external_issuer.is_some() {
        bail!("users of this node sign in with ANGO_OIDC_ISSUER");
    }
    if store.has_users().await? {
        bail!("there are users already: make another one with `ango admin create-user`");
    }
    let secrets = checked_secrets(config, &store).await?;
    tracing::info!(target: "security", "setup link made by the operator");
    let link =
        users::new_setup_link(&store, &users::token_pepper(&secrets), &base_url(config), Clock::system().now()).await?;
    store.close().await;
    Ok(link)
}

/// Where the node is, as far as its settings tell.
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
