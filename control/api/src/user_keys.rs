//! API keys as users of the dashboard make, list and revoke them.
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::sign_in::Hidden;

/// `POST /user/api-keys`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateUserKey {
    /// `live`, `test` or `dev`.
    #[cfg_attr(feature = "openapi", schema(example = "live"))]
    pub environment: String,
    /// `viewer`, `developer` (when absent) or `account_admin`; not above the user's own.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(example = "developer"))]
    pub role: Option<String>,
}

/// An API key without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserKey {
    /// `ak_...`
    #[cfg_attr(feature = "openapi", schema(example = "ak_01h2xcejqtf2nbrexx3vqjhp41"))]
    pub key_id: String,
    /// Its first 16 characters.
    #[cfg_attr(feature = "openapi", schema(example = "svc_live_0123456"))]
    pub key_prefix: String,
    /// `live`, `test`, `dev` or `trial`.
    pub environment: String,
    /// `viewer`, `developer`, `account_admin` or `trial`.
    pub role: String,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When it stops working by itself.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: Option<String>,
    /// When it was last used, to the minute.
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
    /// The key. It is shown only this once.
    pub key: Hidden,
    /// Everything else about it.
    #[serde(flatten)]
    pub record: UserKey,
}

/// `GET /user/api-keys`: a page, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserKeyPage {
    /// The keys. Revoked and expired ones stay for 30 days.
    pub items: Vec<UserKey>,
    /// What asks for the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Whether there is another page.
    pub has_more: bool,
    /// Keys on all pages.
    pub total_count: u64,
}
