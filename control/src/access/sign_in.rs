//! Signing in with a password, and the metadata with which other programs check this node's tokens (readings A10,
//! section 14).

use std::sync::Arc;

use api::Code;
use api::sign_in::{
    Hidden, IssuerMetadata, KeySet, PasswordChanged, PasswordRequest, RefreshRequest, ResetRequest, SetupRequest,
    SignInRequest, SignedIn,
};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use zeroize::Zeroizing;

use super::Access;
use crate::access::issuer::EmbeddedIssuer;
use crate::access::users;
use crate::caller::Caller;
use crate::web::body::{self, JsonBody};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;
use crate::web::peer::ClientAddress;

/// Errors of signing in.
const SIGN_IN: [Code; 3] = [Code::InvalidRequest, Code::InvalidCredentials, Code::FeatureDisabled];
/// Longest body of one of the following requests, in bytes.
const BODY_BYTES_MAX: usize = 8 << 10;

impl JsonBody for SignInRequest {
    const BYTES_MAX: usize = BODY_BYTES_MAX;
}
impl JsonBody for SetupRequest {
    const BYTES_MAX: usize = BODY_BYTES_MAX;
}
impl JsonBody for RefreshRequest {
    const BYTES_MAX: usize = BODY_BYTES_MAX;
}
impl JsonBody for PasswordRequest {
    const BYTES_MAX: usize = BODY_BYTES_MAX;
}
impl JsonBody for ResetRequest {
    const BYTES_MAX: usize = BODY_BYTES_MAX;
}

/// Sign in with e-mail and password.
///
/// The answer holds a session token, which is valid for an hour, and a refresh token, which gets the next one.
#[utoipa::path(
    post,
    path = "/auth/login",
    operation_id = "logIn",
    tag = "Signing in",
    request_body = SignInRequest,
    responses((status = 200, description = "Signed in.", body = SignedIn)),
    extensions(("x-errors" = json!([SIGN_IN, BODY, Code::BruteForceLockout])))
)]
pub async fn log_in(
    State(access): State<Arc<Access>>,
    address: ClientAddress,
    body: body::Json<SignInRequest>,
) -> Result<Json<SignedIn>, ApiError> {
    let SignInRequest { email, password } = body.value;
    let signing_in = users::log_in(&access, &email, secret(password));
    access.limits.attempt(address, signing_in).await.map(|done| Json(told("password", done)))
}

/// Exchange a refresh token for the next tokens.
///
/// A refresh token works once. For 20 seconds after that it returns the same next refresh token again, because the
/// answer may have been lost or two browser tabs may refresh at once. If a refresh token is used later than that, or
/// after the next refresh token was used, it must have been copied, so the whole sign-in ends.
#[utoipa::path(
    post,
    path = "/auth/refresh",
    operation_id = "refreshTokens",
    tag = "Signing in",
    request_body = RefreshRequest,
    responses((status = 200, description = "The next tokens.", body = SignedIn)),
    extensions(("x-errors" = json!([SIGN_IN, BODY, Code::BruteForceLockout])))
)]
pub async fn refresh(
    State(access): State<Arc<Access>>,
    address: ClientAddress,
    body: body::Json<RefreshRequest>,
) -> Result<Json<SignedIn>, ApiError> {
    let refreshing = users::refresh(&access, secret(body.value.refresh_token));
    access.limits.attempt(address, refreshing).await.map(Json)
}

/// Create the first administrator.
///
/// The token is in the one-time link that `ango serve` prints at its first start. `ango admin setup-link` makes a new link.
#[utoipa::path(
    post,
    path = "/auth/setup",
    operation_id = "setUp",
    tag = "Signing in",
    request_body = SetupRequest,
    responses((status = 201, description = "The administrator is created and signed in.", body = SignedIn)),
    extensions(("x-errors" = json!([SIGN_IN, Code::Conflict, BODY, Code::BruteForceLockout])))
)]
pub async fn set_up(
    State(access): State<Arc<Access>>,
    address: ClientAddress,
    body: body::Json<SetupRequest>,
) -> Result<(StatusCode, Json<SignedIn>), ApiError> {
    let SetupRequest { token, email, password } = body.value;
    let setting_up = users::set_up(&access, secret(token), &email, secret(password));
    let signed_in = told("setup link", access.limits.attempt(address, setting_up).await?);
    Ok((StatusCode::CREATED, Json(signed_in)))
}

/// Create a user with a new account, if the operator permits sign-ups.
#[utoipa::path(
    post,
    path = "/auth/signup",
    operation_id = "signUp",
    tag = "Signing in",
    request_body = SignInRequest,
    responses((status = 201, description = "The user is created and signed in.", body = SignedIn)),
    extensions(("x-errors" = json!([
        Code::InvalidRequest, Code::FeatureDisabled, Code::Conflict, BODY, Code::IpRateLimited
    ])))
)]
pub async fn sign_up(
    State(access): State<Arc<Access>>,
    ClientAddress(address): ClientAddress,
    body: body::Json<SignInRequest>,
) -> Result<(StatusCode, Json<SignedIn>), ApiError> {
    let SignInRequest { email, password } = body.value;
    let signed_in = told("signing up", users::sign_up(&access, address, &email, secret(password)).await?);
    Ok((StatusCode::CREATED, Json(signed_in)))
}

/// Change the user's password. All other sign-ins of the user end.
#[utoipa::path(
    post,
    path = "/auth/password",
    operation_id = "changePassword",
    tag = "Signing in",
    request_body = PasswordRequest,
    responses((status = 200, description = "The password is changed.", body = PasswordChanged)),
    extensions(("x-errors" = json!([Code::InvalidCredentials, Code::FeatureDisabled, BODY])))
)]
pub async fn change_password(
    State(access): State<Arc<Access>>,
    address: ClientAddress,
    caller: Caller,
    claim: Claim,
    body: body::Json<PasswordRequest>,
) -> Result<Response, ApiError> {
    let PasswordRequest { current_password, new_password } = body.value;
    let changed = PasswordChanged { status: "changed".to_owned() };
    let (response, kept) = claim.keep(Json(changed).into_response()).await?;
    let (current, new) = (secret(current_password), secret(new_password));
    access.limits.attempt(address, users::change_password(&access, &caller, current, new, kept.as_ref())).await?;
    tracing::info!(target: "security", account_id = caller.account.as_str(), "password changed");
    Ok(response)
}

/// Set a new password in place of a forgotten one. All sign-ins of the user end.
///
/// The token is in the one-time link that `ango admin reset-password` makes.
#[utoipa::path(
    post,
    path = "/auth/reset",
    operation_id = "resetPassword",
    tag = "Signing in",
    request_body = ResetRequest,
    responses((status = 200, description = "The password is changed.", body = PasswordChanged)),
    extensions(("x-errors" = json!([SIGN_IN, BODY, Code::BruteForceLockout])))
)]
pub async fn reset_password(
    State(access): State<Arc<Access>>,
    address: ClientAddress,
    body: body::Json<ResetRequest>,
) -> Result<Json<PasswordChanged>, ApiError> {
    let ResetRequest { token, new_password } = body.value;
    access.limits.attempt(address, users::reset_password(&access, secret(token), secret(new_password))).await?;
    tracing::info!(target: "security", "password reset by a link");
    Ok(Json(PasswordChanged { status: "changed".to_owned() }))
}

/// The metadata with which a program checks this node's session tokens (RFC 8414).
#[utoipa::path(
    get,
    path = "/.well-known/oauth-authorization-server",
    operation_id = "getIssuerMetadata",
    tag = "Signing in",
    responses((status = 200, description = "The issuer and where its keys are.", body = IssuerMetadata)),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn issuer_metadata(State(access): State<Arc<Access>>) -> Result<Json<IssuerMetadata>, ApiError> {
    let address = &embedded(&access)?.address;
    Ok(Json(IssuerMetadata {
        issuer: address.clone(),
        jwks_uri: format!("{address}/.well-known/jwks.json"),
        response_types_supported: Vec::new(),
        grant_types_supported: Vec::new(),
    }))
}

// Readings A10.
/// The same metadata at the path of OpenID Connect.
///
/// Some programs look for the metadata there. The node is not an OpenID provider.
#[utoipa::path(
    get,
    path = "/.well-known/openid-configuration",
    operation_id = "getOpenIdConfiguration",
    tag = "Signing in",
    responses((status = 200, description = "The issuer and where its keys are.", body = IssuerMetadata)),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn openid_configuration(access: State<Arc<Access>>) -> Result<Json<IssuerMetadata>, ApiError> {
    issuer_metadata(access).await
}

/// The public keys of this node's session tokens.
#[utoipa::path(
    get,
    path = "/.well-known/jwks.json",
    operation_id = "getKeySet",
    tag = "Signing in",
    responses((status = 200, description = "The keys (RFC 7517).", body = KeySet)),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn key_set(State(access): State<Arc<Access>>) -> Result<Json<KeySet>, ApiError> {
    Ok(Json(KeySet { keys: embedded(&access)?.public_keys(access.clock.now()).await }))
}

fn embedded(access: &Access) -> Result<&EmbeddedIssuer, ApiError> {
    let issuer = access.session_tokens.embedded();
    issuer.ok_or_else(|| ApiError::new(Code::NotFound, "this node does not issue session tokens"))
}

/// Logs a sign-in as a security event, and returns it.
fn told(by: &'static str, done: SignedIn) -> SignedIn {
    let (user_id, account_id) = (&done.user.user_id, &done.user.account_id);
    tracing::info!(target: "security", user_id, account_id, by, "signed in");
    done
}

fn secret(text: Hidden) -> Zeroizing<String> {
    Zeroizing::new(text.0)
}
