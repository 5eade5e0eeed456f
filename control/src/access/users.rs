//! Signing in with a password, and staying signed in (readings A10, A24).

use std::net::IpAddr;
use std::time::Duration;

use api::sign_in::{Hidden, SignedIn, SignedInUser};
use api::{Code, SignInId};
use docs_module::request::is_hidden;
use store::{FirstUser, KeptAnswer, NewSignIn, NewUser, NextRefreshToken, Refreshed, Store, User};
use zeroize::Zeroizing;

use super::Access;
use super::issuer::{ACCESS_TTL, AUDIENCE, EmbeddedIssuer, OwnClaims};
use super::passwords;
use crate::caller::{Caller, Credential, Plan, Role};
use crate::clock::Timestamp;
use crate::ids;
use crate::secrets::{Pepper, Purpose, Secrets};
use crate::web::error::ApiError;

/// Life of a sign-in. Refreshing does not extend it.
const SIGN_IN_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Grace period in which a used refresh token returns the same successor again. The first answer may have been lost, or
/// two browser tabs may refresh at once.
const REFRESH_GRACE: Duration = Duration::from_secs(20);
/// Life of a setup link and of a link that resets a password.
const LINK_TTL: Duration = Duration::from_secs(24 * 3600);
/// Longest e-mail address, in bytes (RFC 5321).
const EMAIL_BYTES_MAX: usize = 254;
/// Characters that separate addresses in the header of a mail, or enclose one.
const SEPARATORS: [char; 4] = [',', ';', '<', '>'];
/// Prefix of refresh tokens.
const REFRESH_PREFIX: &str = "rt_";
/// Prefix of the tokens in setup links.
const SETUP_PREFIX: &str = "st_";
/// Prefix of the tokens in links that reset a password.
const RESET_PREFIX: &str = "pt_";

/// Signs a user in with e-mail and password. Returns the tokens.
pub async fn log_in(access: &Access, email: &str, password: Zeroizing<String>) -> Result<SignedIn, ApiError> {
    let issuer = embedded(access)?;
    access.limits.check_user(email, access.clock.now())?;
    // a malformed address gets its answer after the same time as an unknown address, so that the time reveals nothing
    let user = match normal_email(email) {
        Some(email) => access.store.user_of_email(&email).await?,
        None => None,
    };
    let user = user.filter(|user| user.disabled_at.is_none());
    let hash = user.as_ref().and_then(|user| user.password_hash.clone());
    let right = access.passwords.is_right(password, hash).await?;
    let now = access.clock.now();
    // Check again: other attempts may have failed meanwhile, and parallel attempts must not get more tries than
    // attempts one after another.
    access.limits.check_user(email, now)?;
    match user {
        Some(user) if right => {
            access.limits.right_password(email, now).await;
            begin(access, issuer, &user).await
        }
        _ => {
            access.limits.wrong_password(email, now);
            Err(ApiError::new(Code::InvalidCredentials, "the e-mail or the password is wrong"))
        }
    }
}

/// Creates the first administrator. Returns their tokens.
pub async fn set_up(
    access: &Access,
    token: Zeroizing<String>,
    email: &str,
    password: Zeroizing<String>,
) -> Result<SignedIn, ApiError> {
    let issuer = embedded(access)?;
    let bad_link =
        || ApiError::new(Code::InvalidCredentials, "the setup link is unknown, was used already or has expired");
    let not_the_first = || ApiError::new(Code::Conflict, "there is already an administrator: sign in");
    let link = access.token_pepper.digest(&token);
    // check the link before the password is hashed, because hashing is expensive
    if !access.store.is_setup_link(&link, access.clock.now().0).await? {
        return Err(bad_link());
    }
    if access.store.has_users().await? {
        return Err(not_the_first());
    }
    let email = new_email(email)?;
    let hash = access.passwords.hash(password).await?;
    let now = access.clock.now();
    let user_id = ids::user(now);
    let user = new_user(user_id.as_str(), &email, &hash, Role::AccountAdmin, now);
    match access.store.insert_first_user(&link, &user).await? {
        FirstUser::Made => begin(access, issuer, &made(&user)).await,
        FirstUser::BadLink => Err(bad_link()),
        FirstUser::NotTheFirst => Err(not_the_first()),
    }
}

/// Creates a user with a new account, if the operator permits sign-ups.
pub async fn sign_up(
    access: &Access,
    address: IpAddr,
    email: &str,
    password: Zeroizing<String>,
) -> Result<SignedIn, ApiError> {
    let issuer = embedded(access)?;
    if !access.config.allow_signup {
        return Err(ApiError::new(Code::FeatureDisabled, "only the operator of this node creates users"));
    }
    let email = new_email(email)?;
    passwords::accept(&password)?;
    // count the sign-up first: each sign-up costs a hash, and the answer reveals whether a user has this e-mail
    access.limits.sign_up(address, access.clock.now())?;
    let hash = access.passwords.hash(password).await?;
    let now = access.clock.now();
    let user_id = ids::user(now);
    let user = new_user(user_id.as_str(), &email, &hash, Role::AccountAdmin, now);
    if access.store.insert_user(&user).await? {
        begin(access, issuer, &made(&user)).await
    } else {
        Err(ApiError::new(Code::Conflict, "there is already a user with this e-mail: sign in"))
    }
}

/// Exchanges a refresh token for the next tokens.
pub async fn refresh(access: &Access, token: Zeroizing<String>) -> Result<SignedIn, ApiError> {
    let issuer = embedded(access)?;
    let refused =
        || ApiError::new(Code::InvalidCredentials, "the refresh token is unknown, was used already or has expired");
    if !token.starts_with(REFRESH_PREFIX) {
        return Err(refused());
    }
    let now = access.clock.now();
    let (seal, fresh) = (&access.refresh_seal, random_token(REFRESH_PREFIX));
    let old = access.token_pepper.digest(&token);
    // the next refresh token is sealed with the old token's digest as its name, so it can be opened only for a caller
    // that shows the old token
    let name = hex::encode(old);
    let next = NextRefreshToken {
        digest: &access.token_pepper.digest(&fresh),
        sealed: &seal.seal(&name, fresh.as_bytes()),
        grace_us: REFRESH_GRACE.as_micros() as i64,
    };
    let (sign_in_id, user_id, ends, next) = match access.store.exchange_refresh_token(&old, &next, now.0).await? {
        Refreshed::Exchanged { sign_in_id, user_id, expires_at } => (sign_in_id, user_id, Timestamp(expires_at), fresh),
        Refreshed::Repeated { sign_in_id, user_id, expires_at, successor } => {
            let opened = seal.open(&name, &successor).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
            let same = opened.ok_or_else(|| ApiError::internal("the record of a refresh token is broken"))?;
            (sign_in_id, user_id, Timestamp(expires_at), Zeroizing::new(same))
        }
        Refreshed::Reused => {
            access.forget_tokens().await;
            tracing::warn!(target: "security", "a refresh token was used a second time, so its sign-in was ended");
            return Err(refused());
        }
        Refreshed::Unknown => return Err(refused()),
    };
    let user = access.store.user(&user_id).await?.ok_or_else(refused)?;
    let account_id = user.account_id.clone().ok_or_else(refused)?;
    let sign_in_id = sign_in_id.parse().map_err(|_| ApiError::internal("the record of a sign-in is broken"))?;
    tokens(issuer, &user, account_id, &sign_in_id, next, now, ends).await
}

/// Changes the caller's password and stores the answer for idempotency. The user's other sign-ins end.
pub async fn change_password(
    access: &Access,
    caller: &Caller,
    current: Zeroizing<String>,
    new: Zeroizing<String>,
    kept: Option<&KeptAnswer>,
) -> Result<(), ApiError> {
    embedded(access)?;
    let Credential::Token { user_id, sign_in_id: Some(sign_in_id), .. } = &caller.credential else {
        return Err(ApiError::internal("a session token that this node issued belongs to no sign-in"));
    };
    let user = access.store.user(user_id.as_str()).await?;
    let (email, hash) = user.map_or((None, None), |user| (user.email, user.password_hash));
    let email = email.unwrap_or_default();
    access.limits.check_user(&email, access.clock.now())?;
    let right = access.passwords.is_right(current, hash).await?;
    access.limits.check_user(&email, access.clock.now())?;
    if !right {
        access.limits.wrong_password(&email, access.clock.now());
        return Err(ApiError::new(Code::InvalidCredentials, "the current password is wrong"));
    }
    let hash = access.passwords.hash(new).await?;
    let now = access.clock.now();
    access
        .store
        .write(async |tx| {
            tx.set_password(user_id.as_str(), &hash, sign_in_id.as_str(), now.0).await?;
            tx.keep(kept).await
        })
        .await?;
    access.forget_tokens().await;
    Ok(())
}

/// Sets the password of the user for whom the link was made. The user's sign-ins end.
pub async fn reset_password(access: &Access, token: Zeroizing<String>, new: Zeroizing<String>) -> Result<(), ApiError> {
    embedded(access)?;
    let bad_link = || ApiError::new(Code::InvalidCredentials, "the link is unknown, was used already or has expired");
    let link = access.token_pepper.digest(&token);
    // check the link before the password is hashed, because hashing is expensive
    if !access.store.is_password_link(&link, access.clock.now().0).await? {
        return Err(bad_link());
    }
    let hash = access.passwords.hash(new).await?;
    if !access.store.use_password_link(&link, &hash, access.clock.now().0).await? {
        return Err(bad_link());
    }
    access.forget_tokens().await;
    Ok(())
}

/// Removes records of sign-ins, links and tokens that have expired.
pub async fn forget_old(access: &Access) {
    let now = access.clock.now();
    // an access token may outlive the refresh tokens of its sign-in, so the sign-in's record stays longer
    let before = Timestamp(now.0 - 2 * ACCESS_TTL.as_micros() as i64);
    if let Err(error) = access.store.forget_sign_ins(before.0, now.0).await {
        tracing::error!(cause = %error, "expired sign-ins could not be removed");
    }
    if let Err(error) = access.store.forget_password_links(now.0).await {
        tracing::error!(cause = %error, "expired links could not be removed");
    }
}

/// Makes a link that creates the first administrator. An earlier link that was not used stops working.
pub async fn new_setup_link(
    store: &Store,
    tokens: &Pepper,
    base_url: &str,
    now: Timestamp,
) -> Result<Zeroizing<String>, store::Error> {
    let token = random_token(SETUP_PREFIX);
    store.put_setup_link(&tokens.digest(&token), now.0, now.plus(LINK_TTL).0).await?;
    // the token is in the fragment, which browsers do not send: no proxy logs it
    Ok(Zeroizing::new(format!("{base_url}/setup#{}", *token)))
}

/// Makes a link that resets a user's password. An earlier link stops working.
pub async fn new_reset_link(
    store: &Store,
    tokens: &Pepper,
    base_url: &str,
    user_id: &str,
    now: Timestamp,
) -> Result<Zeroizing<String>, store::Error> {
    let token = random_token(RESET_PREFIX);
    store.put_password_link(&tokens.digest(&token), user_id, now.plus(LINK_TTL).0).await?;
    Ok(Zeroizing::new(format!("{base_url}/reset#{}", *token)))
}

/// Returns the secret under which refresh tokens and the tokens in one-time links are digested.
pub fn token_pepper(secrets: &Secrets) -> Pepper {
    Pepper(secrets.key(Purpose::Tokens))
}

/// Returns an e-mail address as it is stored and compared: in lower case. `None`: the text is not one address.
pub fn normal_email(text: &str) -> Option<String> {
    let text = text.trim();
    let (name, host) = text.rsplit_once('@')?;
    let plain = |c: char| !c.is_whitespace() && !is_hidden(c) && !SEPARATORS.contains(&c);
    // the parser of the library that sends e-mails decides too, because an address that it refuses gets no e-mail
    let is_sendable = text.parse::<lettre::Address>().is_ok();
    let whole =
        !name.is_empty() && !host.is_empty() && text.len() <= EMAIL_BYTES_MAX && text.chars().all(plain) && is_sendable;
    whole.then(|| text.to_lowercase())
}

/// Returns the embedded issuer. Fails if the operator chose an external issuer.
fn embedded(access: &Access) -> Result<&EmbeddedIssuer, ApiError> {
    let issuer = access.session_tokens.embedded();
    issuer.ok_or_else(|| ApiError::new(Code::FeatureDisabled, "the users of this node sign in with an external issuer"))
}

fn new_email(text: &str) -> Result<String, ApiError> {
    let refused =
        || ApiError::new(Code::InvalidRequest, "`email` must be an e-mail address").at("email", "not an address");
    normal_email(text).ok_or_else(refused)
}

fn new_user<'a>(user_id: &'a str, email: &'a str, hash: &'a str, role: Role, now: Timestamp) -> NewUser<'a> {
    NewUser { user_id, account_id: None, email, password_hash: hash, role, created_at: now.0 }
}

/// Makes the record of a new user.
fn made(user: &NewUser<'_>) -> User {
    User {
        user_id: user.user_id.to_owned(),
        account_id: None,
        email: Some(user.email.to_owned()),
        password_hash: None,
        issuer: None,
        subject: None,
        role: user.role,
        created_at: user.created_at,
        last_sign_in_at: None,
        disabled_at: None,
    }
}

/// Begins a sign-in of a user whose credentials were right. Returns the tokens.
async fn begin(access: &Access, issuer: &EmbeddedIssuer, user: &User) -> Result<SignedIn, ApiError> {
    let now = access.clock.now();
    let (sign_in_id, account_id, ends) = (ids::sign_in(now), ids::account(now), now.plus(SIGN_IN_TTL));
    let refresh = random_token(REFRESH_PREFIX);
    let sign_in = NewSignIn {
        sign_in_id: sign_in_id.as_str(),
        user_id: &user.user_id,
        account_id: account_id.as_str(),
        plan: Plan::Free,
        refresh: &access.token_pepper.digest(&refresh),
        now: now.0,
        expires_at: ends.0,
    };
    let account_id = access.store.begin_sign_in(&sign_in).await?;
    // the user may have been disabled after the password was checked
    let account_id = account_id.ok_or_else(|| ApiError::new(Code::InvalidCredentials, "the user is disabled"))?;
    tokens(issuer, user, account_id, &sign_in_id, refresh, now, ends).await
}

async fn tokens(
    issuer: &EmbeddedIssuer,
    user: &User,
    account_id: String,
    sign_in_id: &SignInId,
    mut refresh: Zeroizing<String>,
    now: Timestamp,
    ends: Timestamp,
) -> Result<SignedIn, ApiError> {
    let now_s = now.0 / 1_000_000;
    let claims = OwnClaims {
        iss: &issuer.address,
        aud: AUDIENCE,
        sub: &user.user_id,
        sid: sign_in_id.as_str(),
        jti: &random_token(""),
        account_id: &account_id,
        role: user.role.as_str(),
        iat: now_s,
        nbf: now_s,
        exp: now_s + ACCESS_TTL.as_secs() as i64,
    };
    let access = issuer.sign(&claims, now).await.map_err(ApiError::internal)?;
    Ok(SignedIn {
        access_token: Hidden(access),
        token_type: "Bearer".to_owned(),
        expires_in: ACCESS_TTL.as_secs(),
        refresh_token: Hidden(std::mem::take(&mut *refresh)),
        refresh_expires_at: ends.rfc3339(),
        user: SignedInUser {
            user_id: user.user_id.clone(),
            email: user.email.clone().unwrap_or_default(),
            account_id,
            role: user.role.as_str().to_owned(),
        },
    })
}

/// Makes a random token: the prefix, then 256 random bits in hexadecimal.
fn random_token(prefix: &str) -> Zeroizing<String> {
    ids::random_hex::<32>(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emails_are_compared_in_lower_case_and_must_look_like_some() {
        assert_eq!(normal_email(" Ada@Example.ORG ").as_deref(), Some("ada@example.org"));
        for bad in [
            "",
            "ada",
            "@example.org",
            "ada@",
            "ada @example.org",
            "ada\n@example.org",
            "ada\0@example.org",
            "ada\u{200b}@example.org",
            "ada@exam\u{202e}ple.org",
            "a@b.example,c@d.example",
            "a@b.example;c@d.example",
            "Ada<ada@example.org>",
            "a@b@c",
            "a@b.example@c.example",
            &"x@".repeat(200),
        ] {
            assert_eq!(normal_email(bad), None, "{bad:?}");
        }
    }
}
