//! Endpoints of a dashboard user: API keys and logging out (specification, Onboarding and API-key management; readings
//! A11, A16, A17, A23).

use std::sync::Arc;
use std::time::Duration;

use api::pages::Page;
use api::sign_in::{Hidden, LoggedOut};
use api::user_keys::{CreateUserKey, CreatedUserKey, UserKey, UserKeyPage};
use api::{Code, KeyStatus, UserId};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use store::{ApiKey, NewApiKey, UserKeyMade, UserKeysSeen};

use super::Access;
use crate::access::api_key::FreshKey;
use crate::cache_store::News;
use crate::caller::{Caller, Credential, Environment, Role};
use crate::clock::Timestamp;
use crate::ids;
use crate::web::body::{self, JsonBody};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;
use crate::web::pagination::{PageQuery, Position};
use crate::web::path::PathParts;

/// Number of keys that a user may make within [`KEYS_WINDOW`] (specification, Authentication 6).
const KEYS_MAX: i64 = 10;
/// Length of the sliding window in which new keys are counted.
const KEYS_WINDOW: Duration = Duration::from_secs(60 * 60);
/// How long revoked and expired keys stay listed (readings A16).
const ENDED_LISTED: Duration = Duration::from_secs(30 * 24 * 3600);
impl JsonBody for CreateUserKey {
    const BYTES_MAX: usize = 8 << 10;
}

/// Make an API key. No later answer shows the key again.
#[utoipa::path(
    post,
    path = "/api/v1/user/api-keys",
    operation_id = "createUserKey",
    tag = "API keys",
    request_body = CreateUserKey,
    responses((status = 201, description = "The key.", body = CreatedUserKey)),
    extensions(("x-errors" = json!([Code::InsufficientRole, Code::FeatureDisabled, Code::RateLimited, BODY])))
)]
pub async fn create_key(
    State(access): State<Arc<Access>>,
    caller: Caller,
    claim: Claim,
    body: body::Json<CreateUserKey>,
) -> Result<Response, ApiError> {
    let (environment, role) = wanted(&access, &caller, &body.value)?;
    let now = access.clock.now();
    let fresh = FreshKey::generate(environment);
    let (key_id, lineage_id) = (ids::key(now), ids::lineage(now));
    let key = NewApiKey {
        key_id: key_id.as_str(),
        account_id: caller.account.as_str(),
        lineage_id: lineage_id.as_str(),
        digest: &access.api_keys.digest(&fresh.secret),
        key_prefix: &fresh.display_prefix,
        role,
        environment,
        office: true,
        plan: caller.plan,
        created_at: now.0,
        expires_at: None,
    };
    let record = UserKey {
        key_id: key_id.as_str().to_owned(),
        key_prefix: fresh.display_prefix.clone(),
        environment: environment.as_str().to_owned(),
        role: role.as_str().to_owned(),
        created_at: now.rfc3339(),
        expires_at: None,
        last_used_at: None,
        status: KeyStatus::Active.as_str().to_owned(),
    };
    let created = CreatedUserKey { key: Hidden(fresh.secret.to_string()), record };
    let (response, kept) = claim.keep_secret((StatusCode::CREATED, Json(created)).into_response()).await?;
    let window_start = Timestamp(now.0 - KEYS_WINDOW.as_micros() as i64);
    let user_id = user_of(&caller)?;
    access
        .store
        .write(async |tx| match tx.insert_user_key(&key, user_id.as_str(), window_start.0, KEYS_MAX).await? {
            UserKeyMade::Made => Ok(tx.keep(kept.as_ref()).await?),
            UserKeyMade::TooMany { oldest_at } => {
                let wait = Timestamp(oldest_at).plus(KEYS_WINDOW).since(now);
                let message = format!("a user may make at most {KEYS_MAX} keys an hour");
                Err(ApiError::new(Code::RateLimited, message).because("keys_an_hour").retry_after(wait))
            }
        })
        .await?;
    let (account_id, user_id) = (caller.account.as_str(), user_id.as_str());
    tracing::info!(target: "security", account_id, user_id, key_id = key.key_id, role = key.role.as_str(), "key made");
    Ok(response)
}

/// List the user's API keys, newest first. An `account_admin` gets all keys of the account.
#[utoipa::path(
    get,
    path = "/api/v1/user/api-keys",
    operation_id = "listUserKeys",
    tag = "API keys",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many keys a page has; 20 when absent."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "A page of keys.", body = UserKeyPage)),
    extensions(("x-errors" = json!([])))
)]
pub async fn list_keys(
    State(access): State<Arc<Access>>,
    caller: Caller,
    query: PageQuery,
) -> Result<Json<UserKeyPage>, ApiError> {
    let now = access.clock.now();
    let seen = seen(&caller, now)?;
    let rows = access.store.user_keys_page(seen, query.after_text()?, query.rows_wanted()).await?;
    let position = |key: &ApiKey| Position { created_at: key.created_at, id: key.key_id.clone().into_bytes() };
    let Page { items, next_cursor, has_more, total_count } = query.page(rows, position);
    let items = items.into_iter().map(|key| view(key, now)).collect();
    Ok(Json(UserKeyPage { items, next_cursor, has_more, total_count }))
}

/// Revoke an API key at once, together with the keys that it replaced and the keys that replaced it.
#[utoipa::path(
    delete,
    path = "/api/v1/user/api-keys/{key_id}",
    operation_id = "revokeUserKey",
    tag = "API keys",
    params(("key_id" = String, Path, description = "The key's id: `ak_...`.")),
    responses((status = 204, description = "The key is revoked.")),
    extensions(("x-errors" = json!([Code::KeyNotFound])))
)]
pub async fn revoke_key(
    State(access): State<Arc<Access>>,
    caller: Caller,
    path: PathParts,
) -> Result<StatusCode, ApiError> {
    let now = access.clock.now();
    let revoked = access.store.revoke_user_key(seen(&caller, now)?, path.get("key_id"), now.0).await?;
    let unknown = || ApiError::new(Code::KeyNotFound, "there is no such API key, or it is revoked already");
    let lineage = revoked.ok_or_else(unknown)?;
    tracing::info!(
        target: "security",
        account_id = caller.account.as_str(),
        user_id = user_of(&caller)?.as_str(),
        lineage_id = lineage,
        "key revoked"
    );
    access.forget_keys(&lineage).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Log out: the session token and the refresh tokens of its sign-in end. API keys and gate sessions stay valid.
#[utoipa::path(
    post,
    path = "/api/v1/user/logout",
    operation_id = "logOut",
    tag = "Signing in",
    responses((status = 200, description = "Logged out.", body = LoggedOut)),
    extensions(("x-errors" = json!([])))
)]
pub async fn log_out(State(access): State<Arc<Access>>, caller: Caller, claim: Claim) -> Result<Response, ApiError> {
    let logged_out = LoggedOut { status: "logged_out".to_owned() };
    let (response, kept) = claim.keep(Json(logged_out).into_response()).await?;
    tracing::info!(target: "security", user_id = user_of(&caller)?.as_str(), "signed out");
    access.session_tokens.end(&caller, kept.as_ref(), access.clock.now()).await?;
    access.tell_others(News::Tokens).await;
    Ok(response)
}

/// Reads the environment and role that the new key shall have. Refuses an environment or role that the caller may not
/// give.
fn wanted(access: &Access, caller: &Caller, request: &CreateUserKey) -> Result<(Environment, Role), ApiError> {
    let invalid = |field: &str, allowed: &str| {
        ApiError::new(Code::InvalidRequest, format!("{field} must be one of {allowed}")).at(field, "not in the set")
    };
    let environment = Environment::from_name(&request.environment)
        .filter(|environment| *environment != Environment::Trial)
        .ok_or_else(|| invalid("environment", "live, test, dev"))?;
    let role = match request.role.as_deref() {
        None => Role::Developer,
        Some(name) => Role::from_name(name)
            .filter(|role| *role != Role::Trial)
            .ok_or_else(|| invalid("role", "viewer, developer, account_admin"))?,
    };
    if rank(role) > rank(caller.role) {
        let message = format!("a user with the role {} cannot make a key with a higher role", caller.role.as_str());
        return Err(ApiError::new(Code::InsufficientRole, message));
    }
    if environment == Environment::Dev && !access.config.allow_dev_keys {
        return Err(ApiError::new(
            Code::FeatureDisabled,
            "this node's operator does not permit keys of the environment dev",
        ));
    }
    Ok((environment, role))
}

/// Returns the rank of a role. A role of a higher rank may do everything that a role of a lower rank may do.
fn rank(role: Role) -> u8 {
    match role {
        Role::Trial => 0,
        Role::Viewer => 1,
        Role::Developer => 2,
        Role::AccountAdmin => 3,
    }
}

/// Makes the filter for the keys that a user may see: their own keys, or all keys of the account for an
/// `account_admin`.
fn seen(caller: &Caller, now: Timestamp) -> Result<UserKeysSeen<'_>, ApiError> {
    let user_id = user_of(caller)?;
    Ok(UserKeysSeen {
        account_id: caller.account.as_str(),
        user_id: (caller.role != Role::AccountAdmin).then(|| user_id.as_str()),
        ended_after: now.0 - ENDED_LISTED.as_micros() as i64,
    })
}

fn user_of(caller: &Caller) -> Result<&UserId, ApiError> {
    match &caller.credential {
        Credential::Token { user_id, .. } => Ok(user_id),
        Credential::Key { .. } => Err(ApiError::internal("a route that only users may call let an API key in")),
    }
}

fn view(key: ApiKey, now: Timestamp) -> UserKey {
    UserKey {
        status: key.status(now.0).as_str().to_owned(),
        key_id: key.key_id,
        key_prefix: key.key_prefix,
        environment: key.environment.as_str().to_owned(),
        role: key.role.as_str().to_owned(),
        created_at: Timestamp(key.created_at).rfc3339(),
        expires_at: key.expires_at.map(|at| Timestamp(at).rfc3339()),
        last_used_at: key.last_used_at.map(|at| Timestamp(at).rfc3339()),
    }
}
