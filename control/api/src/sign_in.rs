//! Signing in to the dashboard: passwords, tokens, and what other programs need to check the tokens.
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A password or a token: text that hides itself from logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(format = Password))]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// `POST /auth/login` and `POST /auth/signup`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignInRequest {
    /// The user's e-mail; upper and lower case are the same.
    #[cfg_attr(feature = "openapi", schema(example = "ada@example.org"))]
    pub email: String,
    /// The user's password; a new one has 12 to 256 characters.
    pub password: Hidden,
}

/// `POST /auth/setup`: the first administrator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetupRequest {
    /// What the setup link ends with.
    pub token: Hidden,
    /// The administrator's e-mail.
    #[cfg_attr(feature = "openapi", schema(example = "ada@example.org"))]
    pub email: String,
    /// The administrator's password: 12 to 256 characters.
    pub password: Hidden,
}

/// `POST /auth/refresh`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefreshRequest {
    /// The refresh token of the last answer. It works once: sent a second time it ends the whole sign-in.
    pub refresh_token: Hidden,
}

/// `POST /auth/password`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasswordRequest {
    /// The password so far.
    pub current_password: Hidden,
    /// The password from now on: 12 to 256 characters.
    pub new_password: Hidden,
}

/// `POST /auth/reset`: a new password for a forgotten one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResetRequest {
    /// What the link ends with that the operator gave.
    pub token: Hidden,
    /// The password from now on: 12 to 256 characters.
    pub new_password: Hidden,
}

/// A signed-in user's tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignedIn {
    /// The session token (JWT, ES256): `Authorization: Bearer <access_token>`.
    pub access_token: Hidden,
    /// `Bearer`.
    #[cfg_attr(feature = "openapi", schema(example = "Bearer"))]
    pub token_type: String,
    /// Life of the session token in seconds.
    #[cfg_attr(feature = "openapi", schema(example = 3600))]
    pub expires_in: u64,
    /// What `POST /auth/refresh` takes, once.
    pub refresh_token: Hidden,
    /// When no refresh token of this sign-in works any more.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub refresh_expires_at: String,
    /// Who signed in.
    pub user: SignedInUser,
}

/// Who signed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignedInUser {
    /// `usr_...`
    pub user_id: String,
    /// Their e-mail.
    pub email: String,
    /// Their account.
    pub account_id: String,
    /// `viewer`, `developer` or `account_admin`.
    pub role: String,
}

/// `POST /auth/password` and `POST /auth/reset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasswordChanged {
    /// `changed`.
    #[cfg_attr(feature = "openapi", schema(example = "changed"))]
    pub status: String,
}

/// `POST /user/logout`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoggedOut {
    /// `logged_out`.
    #[cfg_attr(feature = "openapi", schema(example = "logged_out"))]
    pub status: String,
}

/// `GET /.well-known/oauth-authorization-server` and `/.well-known/openid-configuration`: what a program that checks this
/// node's tokens needs (RFC 8414). The node is no OpenID provider: it gives no ID tokens and has no page to sign in by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuerMetadata {
    /// The `iss` of the tokens.
    #[cfg_attr(feature = "openapi", schema(example = "https://fhe.example.org"))]
    pub issuer: String,
    /// Where the public keys are.
    pub jwks_uri: String,
    /// None: tokens are not given by way of a browser's redirects.
    pub response_types_supported: Vec<String>,
    /// None: a password is exchanged for tokens by this API's own `POST /auth/login`, which is no grant of OAuth.
    pub grant_types_supported: Vec<String>,
}

/// `GET /.well-known/jwks.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeySet {
    /// The public keys that tokens are signed with.
    pub keys: Vec<PublicKey>,
}

/// A public key (RFC 7517).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicKey {
    /// `EC`.
    pub kty: String,
    /// `P-256`.
    pub crv: String,
    /// Its point, as base64url.
    pub x: String,
    /// Its point, as base64url.
    pub y: String,
    /// `ES256`.
    pub alg: String,
    /// `sig`.
    #[serde(rename = "use")]
    pub usage: String,
    /// What tokens call it.
    pub kid: String,
}
