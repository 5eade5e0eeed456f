//! Signing in to the dashboard: passwords, tokens, and the data with which other programs check the tokens.
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A password or a token, which is never logged.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(format = Password))]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// `POST /auth/login` and `POST /auth/signup`: the user's e-mail and password.
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
    /// The token at the end of the setup link.
    pub token: Hidden,
    /// The administrator's e-mail.
    #[cfg_attr(feature = "openapi", schema(example = "ada@example.org"))]
    pub email: String,
    /// The administrator's password: 12 to 256 characters.
    pub password: Hidden,
}

/// `POST /auth/refresh`: exchange a refresh token for new tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefreshRequest {
    /// The refresh token of the last answer. The token works once.
    pub refresh_token: Hidden,
}

/// `POST /auth/password`: another password for a user who is signed in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasswordRequest {
    /// The present password.
    pub current_password: Hidden,
    /// The new password: 12 to 256 characters.
    pub new_password: Hidden,
}

/// `POST /auth/reset`: set a new password in place of a forgotten password.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResetRequest {
    /// The token at the end of the link that the user got from the operator.
    pub token: Hidden,
    /// The new password: 12 to 256 characters.
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
    /// Seconds until the session token expires.
    #[cfg_attr(feature = "openapi", schema(example = 3600))]
    pub expires_in: u64,
    /// The refresh token for the next `POST /auth/refresh`. The token works once.
    pub refresh_token: Hidden,
    /// When the sign-in ends. After this time, its refresh tokens do not work.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub refresh_expires_at: String,
    /// The user who signed in.
    pub user: SignedInUser,
}

/// The user who signed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignedInUser {
    /// The user's id: `usr_...`.
    pub user_id: String,
    /// The user's e-mail.
    pub email: String,
    /// The id of the user's account.
    pub account_id: String,
    /// `viewer`, `developer` or `account_admin`.
    pub role: String,
}

/// The answer to `POST /auth/password` and `POST /auth/reset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PasswordChanged {
    /// `changed`.
    #[cfg_attr(feature = "openapi", schema(example = "changed"))]
    pub status: String,
}

/// The answer to `POST /user/logout`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoggedOut {
    /// `logged_out`.
    #[cfg_attr(feature = "openapi", schema(example = "logged_out"))]
    pub status: String,
}

/// `GET /.well-known/oauth-authorization-server` and `/.well-known/openid-configuration`: data for programs that verify
/// this node's tokens (RFC 8414). The node is not an OpenID provider: it issues no ID tokens and has no sign-in page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuerMetadata {
    /// The `iss` of the tokens.
    #[cfg_attr(feature = "openapi", schema(example = "https://fhe.example.org"))]
    pub issuer: String,
    /// Address of the public keys.
    pub jwks_uri: String,
    /// Empty, because the node issues no tokens through redirects of a browser.
    pub response_types_supported: Vec<String>,
    /// Empty, because a password is exchanged for tokens by this API's own `POST /auth/login`, which is not a grant of
    /// OAuth.
    pub grant_types_supported: Vec<String>,
}

/// `GET /.well-known/jwks.json`: the public keys of this node's session tokens (RFC 7517).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeySet {
    /// The public keys that verify the tokens.
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
    /// The point's x coordinate, as base64url.
    pub x: String,
    /// The point's y coordinate, as base64url.
    pub y: String,
    /// `ES256`.
    pub alg: String,
    /// `sig`.
    #[serde(rename = "use")]
    pub usage: String,
    /// The key's id, as in the header of tokens.
    pub kid: String,
}
