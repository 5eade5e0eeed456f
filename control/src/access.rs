//! Authentication and permission of callers (specification, Authentication; readings A1-A9).
//!
//! [`require`] stands in front of every route that is not public and adds a [`Caller`] to the request for the handler.

pub mod api_key;
pub mod believed;
pub mod issuer;
pub mod key_set;
pub mod limits;
pub mod passwords;
pub mod rotation;
pub mod session_token;
pub mod sign_in;
pub mod trial_keys;
pub mod trials;
pub mod user_keys;
pub mod users;

use std::sync::Arc;

use api::Code;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use store::Store;

use crate::cache_store::{CacheStore, Follower, News, Teller};
use crate::caller::{Caller, Level, Plan};
use crate::clock::{Clock, Timestamp};
use crate::sealing::Seal;
use crate::secrets::Pepper;
use crate::web::edge::Identified;
use crate::web::envelope::Area;
use crate::web::error::ApiError;
use crate::web::peer::ClientAddress;

use api_key::{ApiKeys, invalid_key};
use key_set::ExternalIssuer;
use limits::{Limits, Quota};
use passwords::Passwords;
use session_token::SessionTokens;
use trials::Trials;

/// Settings of users and their tokens.
#[derive(Clone, Debug, clap::Args)]
pub struct AuthConfig {
    // readings A24
    /// Whether visitors may sign up, each with a new account. With false only the operator creates users.
    #[arg(env = "ANGO_AUTH_ALLOW_SIGNUP", default_value = "false")]
    pub allow_signup: bool,
    // readings A16
    /// Whether users may make API keys of the environment dev.
    #[arg(env = "ANGO_API_KEYS_ALLOW_DEV", default_value = "true")]
    pub allow_dev_keys: bool,
    // readings A10
    /// The external OpenID issuer whose tokens the node accepts. When set, the node issues no tokens.
    #[command(flatten)]
    pub external_issuer: Option<ExternalIssuer>,
}

/// The state of the endpoints for keys, users and sign-ins, with the node's rate limits.
pub struct Access {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) config: AuthConfig,
    /// Whether trial keys are issued.
    pub(crate) trial_keys: bool,
    pub(crate) api_keys: ApiKeys,
    pub(crate) session_tokens: SessionTokens,
    pub(crate) passwords: Passwords,
    pub(crate) limits: Arc<Limits>,
    pub(crate) trials: Arc<Trials>,
    /// The secret under which refresh tokens and the tokens in one-time links are digested.
    pub(crate) token_pepper: Pepper,
    /// Seals the next refresh token, so that only the old refresh token opens the seal.
    pub(crate) refresh_seal: Seal,
    pub(crate) cache_store: Option<CacheStore>,
    /// Tells news to the other nodes at once: through the cache store, or else through the broker of a fleet.
    pub(crate) others: Option<Arc<dyn Teller>>,
}

impl Access {
    /// Invalidates the cached keys of this lineage on every node, because the keys were revoked or rotated.
    pub(crate) async fn forget_keys(&self, lineage: &str) {
        self.api_keys.forget(lineage);
        self.tell_others(News::Keys { lineage: lineage.to_owned() }).await;
    }

    /// Invalidates the cached keys and session tokens of an account on every node, because its plan or its standing
    /// changed (readings P11, P18).
    pub(crate) async fn forget_account(&self, account_id: &str) {
        self.api_keys.forget_account(account_id);
        self.session_tokens.forget_checked();
        self.tell_others(News::Account { account_id: account_id.to_owned() }).await;
    }

    /// Invalidates the cached session tokens on every node, because some tokens have ended.
    async fn forget_tokens(&self) {
        self.session_tokens.forget_checked();
        self.tell_others(News::Tokens).await;
    }

    /// Sends news to the other nodes at once. Without the news, the other nodes would read the change from the database
    /// within a second.
    async fn tell_others(&self, news: News) {
        if let Some(others) = &self.others {
            others.tell(news).await;
        }
    }

    /// Removes expired records.
    pub(crate) async fn forget_old(&self) {
        users::forget_old(self).await;
        trial_keys::forget_old(self).await;
        self.limits.forget_old().await;
    }
}

impl Follower for Access {
    fn missed(&self) {
        self.api_keys.forget_all();
        self.session_tokens.forget_checked();
        self.limits.look_at_lockouts();
    }

    fn hear(&self, news: News) {
        match news {
            News::Keys { lineage } => self.api_keys.forget(&lineage),
            News::Account { account_id } => {
                self.api_keys.forget_account(&account_id);
                self.session_tokens.forget_checked();
            }
            News::Tokens => self.session_tokens.forget_checked(),
            News::Lockouts => self.limits.look_at_lockouts(),
        }
    }
}

/// A layer that admits a request if its API key or session token is valid in this area and the caller's role may use
/// the route.
pub async fn require(
    level: Level,
    area: Area,
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let now = access.clock.now();
    let address = request.extensions().get::<ClientAddress>().map(|address| address.0);
    // a locked network is refused, whatever credential the request has (readings A21)
    access.limits.check_lockout(address, None, now)?;
    let shown = presented_key(request.headers())?;
    access.limits.check_lockout(None, Some(shown), now)?;
    let caller = match (session_token::looks_like_a_token(shown), level) {
        (true, _) if area == Area::Platform => access.session_tokens.caller(shown, now).await,
        // a route for session tokens looks up no API keys, so an API key sent to it does not count as a failed attempt
        // (readings A8, A21)
        (false, Level::Session) => return Err(session_token::invalid_token()),
        _ => access.api_keys.caller(shown, area, now).await,
    };
    let caller = caller.inspect_err(|refused| {
        tracing::info!(target: "security", code = refused.code.as_str(), "credential refused");
        access.limits.failed(refused.code, address, shown, now);
    })?;
    if let Some(identified) = request.extensions().get::<Identified>() {
        identified.is(&caller);
    }
    let mutating = !matches!(*request.method(), Method::GET | Method::HEAD);
    if !level.roles(mutating).any(|role| role == caller.role) {
        return Err(ApiError::new(
            Code::InsufficientRole,
            format!("the role {} may not use this endpoint", caller.role.as_str()),
        ));
    }
    if level == Level::Compute && caller.is_suspended {
        let message = "a payment has been due for more than 7 days: pay it before you compute again";
        return Err(ApiError::new(Code::AccountSuspended, message));
    }
    let quota = request.extensions().get::<Quota>().cloned().unwrap_or_default();
    if caller.plan == Plan::Trial {
        return of_trial(&access, &quota, caller, request, next, now).await;
    }
    access.limits.admit(&quota, &caller, now).await?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Like [`require`], but admits callers without a key too. Requests without a key are counted by network (readings B2).
pub async fn require_if_shown(
    level: Level,
    area: Area,
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let is_shown = |value: &HeaderValue| !value.as_bytes().trim_ascii().is_empty();
    if request.headers().get_all(header::AUTHORIZATION).iter().any(is_shown) {
        return require(level, area, State(access), request, next).await;
    }
    limits::anonymous(State(access.limits.clone()), request, next).await
}

/// Admits a trial's request. The database counts a trial's operations, and the headers show how many operations are
/// left afterwards (readings L1).
async fn of_trial(
    access: &Access,
    quota: &Quota,
    caller: Caller,
    mut request: Request,
    next: Next,
    now: Timestamp,
) -> Result<Response, ApiError> {
    let account = caller.account.clone();
    let answer = match access.limits.admit(quota, &caller, now).await {
        Ok(()) => {
            request.extensions_mut().insert(caller);
            Ok(next.run(request).await)
        }
        Err(refused) => Err(refused),
    };
    quota.show_trial(access.trials.operations_left(&account).await?);
    answer
}

/// Returns the credential in the header `Authorization`. The word `Bearer` in front of it may be in upper or lower
/// case, or missing (readings A1).
pub(crate) fn presented_key(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let missing = || {
        ApiError::new(Code::MissingAuthHeader, "send the API key or session token as `Authorization: Bearer <text>`")
    };
    let value = values.next().ok_or_else(missing)?;
    if values.next().is_some() {
        return Err(ApiError::new(
            Code::InvalidRequest,
            "the request has more than one Authorization header: send one",
        ));
    }
    let text = value.to_str().map_err(|_| invalid_key())?.trim();
    if text.is_empty() {
        return Err(missing());
    }
    let key = match text.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim(),
        _ => text,
    };
    Ok(key)
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    /// Returns the caller that [`require`] added to the request. Fails closed: on a route without [`require`] the
    /// request has no caller, which is an internal error.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Caller>()
            .cloned()
            .ok_or_else(|| ApiError::internal("a handler reads the caller on a route without authentication"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key_of(values: &[&str]) -> Result<String, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        presented_key(&headers).map(str::to_owned).map_err(|error| error.code)
    }

    #[test]
    fn a1_bearer_in_any_case_or_a_bare_key() {
        for value in ["Bearer k", "bearer k", "BEARER  k", " Bearer k ", "k"] {
            assert_eq!(key_of(&[value]).as_deref(), Ok("k"), "{value}");
        }
    }

    #[test]
    fn a1_missing_or_empty_headers_are_missing_and_two_are_a_bad_request() {
        assert_eq!(key_of(&[]), Err(Code::MissingAuthHeader));
        assert_eq!(key_of(&[" "]), Err(Code::MissingAuthHeader));
        assert_eq!(key_of(&["Bearer k", "Bearer k"]), Err(Code::InvalidRequest));
    }

    proptest! {
        #[test]
        fn a1_any_header_is_a_key_without_space_around_it_or_refused(value in "[ -~]{0,80}") {
            match key_of(&[&value]) {
                Ok(key) => prop_assert!(value.contains(&key) && key.trim() == key),
                Err(code) => prop_assert_eq!((code, value.trim()), (Code::MissingAuthHeader, "")),
            }
            prop_assert_eq!(key_of(&[&value, "k"]), Err(Code::InvalidRequest));
        }
    }
}
