//! Rotation of API keys (specification, Authentication 7; readings A5, A18, A19).

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::keys::RotatedKey;
use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use store::NewApiKey;

use super::Access;
use super::trial_keys::prefix_tags;
use crate::access::api_key::{FreshKey, invalid_key};
use crate::caller::{Caller, Credential, Environment};
use crate::clock::Timestamp;
use crate::events::{EventType, event};
use crate::ids;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;

/// Grace period: how long the old key works after a rotation (specification, Authentication 7).
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Replace the API key with which the request is sent.
///
/// The new key works at once, with the same role and environment. The old key works for 24 hours more, or until it
/// expires if that is sooner. The new key of a trial expires when the old key would have expired, and has
/// the operations that the old key had not used.
#[utoipa::path(
    post,
    path = "/api/v1/keys/apikey/rotate",
    operation_id = "rotateApiKey",
    tag = "API keys",
    responses((status = 200, description = "The new key.", body = RotatedKey)),
    extensions(("x-errors" = json!([Code::Conflict])))
)]
pub async fn rotate(State(access): State<Arc<Access>>, caller: Caller, claim: Claim) -> Result<Response, ApiError> {
    let Credential::Key { key_id: old_id, lineage_id } = &caller.credential else {
        return Err(ApiError::new(Code::InvalidRequest, "a session token cannot be rotated: send the API key"));
    };
    let now = access.clock.now();
    let old = access.store.api_key_of_id(old_id.as_str()).await?;
    let old = old.filter(|old| old.revoked_at.is_none()).ok_or_else(invalid_key)?;
    let old_ends_at = now.plus(GRACE).0.min(old.expires_at.unwrap_or(i64::MAX));

    let fresh = FreshKey::generate(caller.environment);
    let key_id = ids::key(now);
    let new = NewApiKey {
        key_id: key_id.as_str(),
        account_id: &old.account_id,
        lineage_id: lineage_id.as_str(),
        digest: &access.api_keys.digest(&fresh.secret),
        key_prefix: &fresh.display_prefix,
        role: old.role,
        environment: old.environment,
        office: old.office,
        plan: old.plan,
        created_at: now.0,
        expires_at: old.expires_at,
    };
    let tags = (caller.environment == Environment::Trial).then(|| prefix_tags(access.api_keys.pepper(), &fresh.secret));
    let answer = RotatedKey {
        key: fresh.secret.to_string(),
        key_id: key_id.clone(),
        key_prefix: fresh.display_prefix.clone(),
        environment: old.environment.as_str().to_owned(),
        role: old.role.as_str().to_owned(),
        created_at: now.rfc3339(),
        old_key_prefix: old.key_prefix.clone(),
        old_key_expires_at: Timestamp(old_ends_at).rfc3339(),
    };
    let data = json!({
        "old_key_prefix": &answer.old_key_prefix,
        "new_key_prefix": &answer.key_prefix,
        "grace_period_ends_at": &answer.old_key_expires_at,
    });
    let (answer, kept) = claim.keep_secret(Answer(answer).into_response()).await?;
    access
        .store
        .write(async |tx| match tx.rotate_api_key(old_id.as_str(), old_ends_at, &new, tags.as_deref()).await? {
            true => {
                tx.emit(&[event(&caller.account, EventType::KeyRotated, &data, now)]).await?;
                Ok(tx.keep(kept.as_ref()).await?)
            }
            false => Err(ApiError::new(Code::Conflict, "the key was rotated already: use its successor")),
        })
        .await?;
    tracing::info!(
        target: "security",
        account_id = new.account_id,
        key_id = old_id.as_str(),
        new_key_id = new.key_id,
        "key rotated"
    );
    access.forget_keys(lineage_id.as_str()).await;
    Ok(answer)
}
