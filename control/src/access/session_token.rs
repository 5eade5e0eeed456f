//! Session tokens of the dashboard: how they are checked, and the callers that they name (readings A8-A11, A24).
//!
//! A checked token is cached for a second, like a key. So every node refuses a token within a second after the token
//! was ended.

use std::collections::HashMap;
use std::time::Duration;

use api::{AccountId, Code};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use store::{KeptAnswer, NewExternalUser, Store};

use super::believed::Believed;
use super::issuer::{AUDIENCE, EmbeddedIssuer, LEEWAY};
use super::key_set::IssuerKeys;
use crate::caller::{Caller, Credential, Environment, Plan, Role};
use crate::clock::Timestamp;
use crate::ids;
use crate::secrets::Digest;
use crate::web::error::ApiError;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// The accepted algorithms. None of them uses a shared secret.
const ALGORITHMS: [Algorithm; 4] = [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256, Algorithm::PS256];
/// The role of a user whose token names an account but no role.
const ROLE_IN_NAMED_ACCOUNT: Role = Role::Developer;

/// The issuer whose tokens this node accepts.
pub enum Issuer {
    /// The node itself.
    Embedded(EmbeddedIssuer),
    /// An external OpenID issuer.
    External {
        /// The `iss` claim of the tokens.
        address: String,
        /// The audience that `aud` must contain.
        audience: String,
        /// The issuer's public keys.
        keys: IssuerKeys,
        /// Whether a token whose `account_id` claim is an account id of this node gives access to that account.
        trusts_account_ids: bool,
        /// Largest number of users and accounts, counted together, that the issuer's tokens may create.
        made_max: u32,
    },
}

/// The claims that this service reads from a token.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    jti: Option<String>,
    sid: Option<String>,
    account_id: Option<String>,
    role: Option<String>,
}

/// Checks session tokens and finds their callers.
pub struct SessionTokens {
    store: Store,
    issuer: Issuer,
    /// Cache of checked tokens, by digest: the caller, and when the token expires.
    checked: Believed<(Caller, Timestamp)>,
    /// Tokens that were ended before they expired: the token's id, and the time when the token expires.
    ended: Mutex<HashMap<Digest, Timestamp>>,
}

impl SessionTokens {
    /// Creates a checker of this issuer's session tokens. `believed_for`: how long a checked token is cached.
    pub fn new(store: Store, issuer: Issuer, believed_for: Duration) -> Self {
        Self { store, issuer, checked: Believed::new(believed_for), ended: Mutex::default() }
    }

    /// Returns the embedded issuer, unless the node uses an external one.
    pub fn embedded(&self) -> Option<&EmbeddedIssuer> {
        match &self.issuer {
            Issuer::Embedded(issuer) => Some(issuer),
            Issuer::External { .. } => None,
        }
    }

    /// Returns the caller to whom this token belongs. Every token that is not valid gets the same error, whatever the
    /// reason.
    pub async fn caller(&self, token: &str, now: Timestamp) -> Result<Caller, ApiError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(invalid_token());
        }
        let digest: Digest = Sha256::digest(token).into();
        if let Some((caller, ends)) = self.checked.get(&digest, now) {
            return if now < ends { Ok(caller) } else { Err(invalid_token()) };
        }
        let claims = self.check(token, now).await?;
        let ends = Timestamp((claims.exp * 1e6) as i64).plus(LEEWAY);
        // a `jti` claim is unique within its issuer; a token without `jti` is identified by the digest of its text
        let id: Digest = match &claims.jti {
            Some(jti) => Sha256::digest(format!("{}\n{jti}", claims.iss)).into(),
            None => digest,
        };
        let generation = self.checked.generation();
        if self.store.is_token_ended(&id).await? {
            return Err(invalid_token());
        }
        let caller = match &self.issuer {
            Issuer::Embedded(_) => self.own_user(&claims, id, ends).await?,
            Issuer::External { trusts_account_ids, made_max, .. } => {
                let bounds = (*trusts_account_ids, *made_max);
                self.external_user(&claims, bounds, id, ends, now).await?
            }
        };
        // the token may have been ended during the reads of the database
        if self.ended.lock().contains_key(&id) {
            return Err(invalid_token());
        }
        self.checked.insert(digest, (caller.clone(), ends), generation, now);
        Ok(caller)
    }

    /// Ends a caller's token (readings A11). If this node issued the token, its whole sign-in ends. Stores the answer
    /// for idempotency.
    pub async fn end(&self, caller: &Caller, kept: Option<&KeptAnswer>, now: Timestamp) -> Result<(), ApiError> {
        let Credential::Token { sign_in_id, id, ends, .. } = &caller.credential else {
            return Err(ApiError::internal("a caller with an API key has no session token to end"));
        };
        self.store
            .write(async |tx| {
                tx.end_token(id, ends.0, sign_in_id.as_ref().map(|id| id.as_str()), now.0).await?;
                tx.keep(kept).await
            })
            .await?;
        let mut ended = self.ended.lock();
        ended.retain(|_, ends| *ends > now);
        ended.insert(*id, *ends);
        drop(ended);
        // other tokens of this sign-in may be in the cache: without the cache, their next use reads from the database
        // that the sign-in has ended
        self.forget_checked();
        Ok(())
    }

    /// Clears the cache of checked tokens, so that the next use of each token reads the database.
    pub fn forget_checked(&self) {
        self.checked.forget(|_| true);
    }

    /// Checks signature, issuer, audience and times (readings A10).
    async fn check(&self, token: &str, now: Timestamp) -> Result<Claims, ApiError> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| invalid_token())?;
        // refuse a header with `crit`, because it demands extensions that this service does not have (RFC 7515, 4.1.11)
        if !ALGORITHMS.contains(&header.alg) || header.crit.is_some() {
            return Err(invalid_token());
        }
        let kid = header.kid.ok_or_else(invalid_token)?;
        let claims = match &self.issuer {
            Issuer::Embedded(issuer) => {
                let key = issuer.key(&kid, now).await.ok_or_else(invalid_token)?;
                if header.alg != Algorithm::ES256 {
                    return Err(invalid_token());
                }
                decode(token, header.alg, &key.verifying, &issuer.address, AUDIENCE)?
            }
            Issuer::External { address, audience, keys, .. } => {
                let key = keys.key(&kid, now).await?.ok_or_else(invalid_token)?;
                if key.only.is_some_and(|only| only != header.alg) {
                    return Err(invalid_token());
                }
                decode(token, header.alg, &key.verifying, address, audience)?
            }
        };
        let (now_s, leeway_s) = (now.0 as f64 / 1e6, LEEWAY.as_secs_f64());
        let early = |time: Option<f64>| time.is_some_and(|time| time > now_s + leeway_s);
        if claims.exp + leeway_s <= now_s || early(claims.nbf) || early(claims.iat) || claims.sub.is_empty() {
            return Err(invalid_token());
        }
        Ok(claims)
    }

    /// Returns the caller of a token that this node issued, if the sign-in has not ended and the user is not disabled.
    async fn own_user(&self, claims: &Claims, id: Digest, ends: Timestamp) -> Result<Caller, ApiError> {
        let (Some(sid), Some(account)) = (&claims.sid, &claims.account_id) else {
            return Err(invalid_token());
        };
        let standing = self.store.token_standing(&claims.sub, sid, account).await?;
        let standing = standing.filter(|standing| standing.disabled_at.is_none() && standing.revoked_at.is_none());
        let standing = standing.ok_or_else(invalid_token)?;
        Ok(Caller {
            account: account.parse().map_err(|_| invalid_token())?,
            environment: Environment::Live,
            // the role from the database, because the role in the token may be an hour old
            role: standing.role,
            plan: standing.plan,
            is_suspended: standing.is_suspended,
            credential: Credential::Token {
                user_id: claims.sub.parse().map_err(|_| invalid_token())?,
                sign_in_id: Some(sid.parse().map_err(|_| invalid_token())?),
                id,
                ends,
            },
        })
    }

    /// Returns the caller of an external issuer's token. If the token names no account, the user gets an account and
    /// administers it.
    async fn external_user(
        &self,
        claims: &Claims,
        (trusts_account_ids, made_max): (bool, u32),
        id: Digest,
        ends: Timestamp,
        now: Timestamp,
    ) -> Result<Caller, ApiError> {
        let said = match &claims.role {
            Some(role) => Some(role_of(role).ok_or_else(invalid_token)?),
            None => None,
        };
        let own_role = if claims.account_id.is_some() { ROLE_IN_NAMED_ACCOUNT } else { Role::AccountAdmin };
        let (fresh_user, fresh_account) = (ids::user(now), ids::account(now));
        let seen = NewExternalUser {
            user_id: fresh_user.as_str(),
            account_id: fresh_account.as_str(),
            issuer: &claims.iss,
            subject: &claims.sub,
            account: claims.account_id.as_deref(),
            role: own_role,
            plan: Plan::Free,
            trusts_account_ids,
            made_max: i64::from(made_max),
            now: now.0,
        };
        let user = self.store.external_user(&seen).await?.ok_or_else(|| {
            tracing::warn!(
                made_max,
                "tokens of the issuer have created as many users and accounts as ANGO_OIDC_ACCOUNTS_MAX allows"
            );
            ApiError::new(Code::FeatureDisabled, "this node accepts no more new users: ask its operator")
        })?;
        if user.disabled_at.is_some() {
            return Err(invalid_token());
        }
        // If the token states a role, that role applies. Otherwise the user's stored role applies in the user's own
        // account, and a fixed role in an account that the token states.
        let unsaid = if claims.account_id.is_some() { ROLE_IN_NAMED_ACCOUNT } else { user.role };
        Ok(Caller {
            account: user.account_id.parse::<AccountId>().map_err(|_| broken_account())?,
            environment: Environment::Live,
            role: said.unwrap_or(unsaid),
            plan: user.plan,
            is_suspended: user.is_suspended,
            credential: Credential::Token {
                user_id: user.user_id.parse().map_err(|_| broken_account())?,
                sign_in_id: None,
                id,
                ends,
            },
        })
    }
}

fn decode(
    token: &str,
    algorithm: Algorithm,
    key: &DecodingKey,
    issuer: &str,
    audience: &str,
) -> Result<Claims, ApiError> {
    let mut validation = Validation::new(algorithm);
    validation.set_issuer(&[issuer]);
    validation.set_audience(&[audience]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    // `check` compares the times with the service's clock, so the library does not compare them with the system's
    (validation.validate_exp, validation.validate_nbf) = (false, false);
    jsonwebtoken::decode(token, key, &validation).map(|token| token.claims).map_err(|_| invalid_token())
}

/// Returns the role with this name, if users can have this role.
fn role_of(name: &str) -> Option<Role> {
    Role::from_name(name).filter(|role| *role != Role::Trial)
}

/// Whether a text looks like a session token: three parts, the first a JSON object in base64url.
pub fn looks_like_a_token(text: &str) -> bool {
    text.starts_with("eyJ") && text.matches('.').count() == 2
}

/// Makes the error for a token that is not valid: the same error for malformed, foreign, expired and ended tokens.
pub fn invalid_token() -> ApiError {
    ApiError::new(Code::InvalidSessionToken, "the session token is not valid")
}

fn broken_account() -> ApiError {
    ApiError::internal("the record of a user or account is broken")
}
