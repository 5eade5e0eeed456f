//! API keys that users of the dashboard make, list and revoke.
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::sign_in::Hidden;

/// `POST /user/api-keys`: an API key for the user.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateUserKey {
    /// `live`, `test` or `dev`.
    #[cfg_attr(feature = "openapi", schema(example = "live"))]
    pub environment: String,
    /// `viewer`, `developer` (the default) or `account_admin`; not above the user's own role.
    #[cfg_attr(feature = "openapi", schema(example = "developer"))]
    pub role: Option<String>,
}

/// An API key without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserKey {
    /// The key's id: `ak_...`.
    #[cfg_attr(feature = "openapi", schema(example = "ak_01h2xcejqtf2nbrexx3vqjhp41"))]
    pub key_id: String,
    /// The key's first 16 characters.
    #[cfg_attr(feature = "openapi", schema(example = "svc_live_0123456"))]
    pub key_prefix: String,
    /// `live`, `test`, `dev` or `trial`.
    pub environment: String,
    /// `viewer`, `developer`, `account_admin` or `trial`.
    pub role: String,
    /// When the key was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When the key expires. Null if the key does not expire.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: Option<String>,
    /// When the key was last used, to the minute. Null if the key was never used.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub last_used_at: Option<String>,
    /// `active`, `rotating` (replaced, and valid for its last hours), `revoked` or `expired`.
    #[cfg_attr(feature = "openapi", schema(example = "active"))]
    pub status: String,
}

/// `POST /user/api-keys`: the only answer that holds the key itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedUserKey {
    /// The key, which is shown only this once.
    pub key: Hidden,
    /// The other members of the key.
    #[serde(flatten)]
    pub record: UserKey,
}

/// `GET /user/api-keys`: a page of API keys, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserKeyPage {
    /// The keys. Revoked and expired keys are listed for 30 days.
    pub items: Vec<UserKey>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// Number of keys on all pages.
    pub total_count: u64,
}
