//! API keys (platform specification, Onboarding and API-key management).
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::KeyId;

/// A trial key that was just made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TrialKey {
    /// The key, which is shown only this once.
    #[cfg_attr(feature = "openapi", schema(pattern = "^svc_trial_[0-9a-f]{32}$"))]
    pub key: String,
    /// The key's first 16 characters.
    pub key_prefix: String,
    /// `trial`.
    pub environment: String,
    /// `trial`.
    pub role: String,
    /// When the key was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When the key expires, together with everything that was made with the key.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: String,
    /// Seconds from `created_at` to `expires_at`.
    pub ttl_seconds: u64,
    /// Number of gates and compute operations that the key allows altogether.
    pub operations_limit: u64,
    /// Number of gates and compute operations that are left.
    pub operations_remaining: u64,
}

/// A trial key that was revoked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RevokedTrialKey {
    /// The key's first 16 characters.
    pub key_prefix: String,
    /// `revoked`.
    pub status: String,
}

/// A new key that replaces an older one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RotatedKey {
    /// The new key, which is shown only this once.
    #[cfg_attr(feature = "openapi", schema(pattern = "^svc_(live|test|dev|trial)_[0-9a-f]{32}$"))]
    pub key: String,
    /// The new key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "ak_01h2xcejqtf2nbrexx3vqjhp41"))]
    pub key_id: KeyId,
    /// First 16 characters of the new key.
    pub key_prefix: String,
    /// `live`, `test`, `dev` or `trial`, as for the old key.
    pub environment: String,
    /// `viewer`, `developer`, `account_admin` or `trial`, as for the old key.
    pub role: String,
    /// When the new key was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// First 16 characters of the old key.
    pub old_key_prefix: String,
    /// When the old key expires: after 24 hours at the latest.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub old_key_expires_at: String,
}
