//! Trial keys, which need no account (specification, Onboarding; readings A12-A15, A22).

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::keys::{RevokedTrialKey, TrialKey};
use axum::Json as Answer;
use axum::extract::State;
use store::{NewApiKey, TrialKeyMade, TrialWindow};
use subtle::ConstantTimeEq;

use super::Access;
use crate::access::api_key::{DISPLAY_CHARACTERS, FreshKey, KEY_CHARACTERS_MAX};
use crate::access::trials;
use crate::caller::{Environment, Plan, Role};
use crate::clock::Timestamp;
use crate::ids;
use crate::secrets::Pepper;
use crate::web::error::ApiError;
use crate::web::path::PathParts;
use crate::web::peer::ClientAddress;

/// Number of trial keys that a network may get within a minute (specification, Authentication 5).
const KEYS_MAX: usize = 5;
const KEYS_WINDOW: Duration = Duration::from_secs(60);

/// Get a trial key.
///
/// The key works for half an hour and for 10 operations; each gate is one operation. After the half hour, the key and
/// everything made with it are erased.
#[utoipa::path(
    post,
    path = "/api/v1/onboarding/temp-key",
    operation_id = "createTrialKey",
    tag = "API keys",
    responses((status = 200, description = "The key.", body = TrialKey)),
    extensions(("x-errors" = json!([Code::FeatureDisabled, Code::IpRateLimited])))
)]
pub async fn create(
    State(access): State<Arc<Access>>,
    ClientAddress(address): ClientAddress,
) -> Result<Answer<TrialKey>, ApiError> {
    if !access.trial_keys {
        return Err(ApiError::new(Code::FeatureDisabled, "the operator of this node has switched trial keys off"));
    }
    let now = access.clock.now();
    let fresh = FreshKey::generate(Environment::Trial);
    let (key_id, account_id, lineage_id) = (ids::key(now), ids::account(now), ids::lineage(now));
    let expires_at = now.plus(trials::TTL);
    let record = NewApiKey {
        key_id: key_id.as_str(),
        account_id: account_id.as_str(),
        lineage_id: lineage_id.as_str(),
        digest: &access.api_keys.digest(&fresh.secret),
        key_prefix: &fresh.display_prefix,
        role: Role::Trial,
        environment: Environment::Trial,
        office: false,
        plan: Plan::Trial,
        created_at: now.0,
        expires_at: Some(expires_at.0),
    };
    let network = access.limits.network(address);
    let window = TrialWindow { network: &network, keys_max: KEYS_MAX, length: KEYS_WINDOW.as_micros() as i64 };
    let tags = prefix_tags(access.api_keys.pepper(), &fresh.secret);
    if let TrialKeyMade::TooMany { oldest_at } = access.store.insert_trial_key(&record, &tags, window).await? {
        let message = format!("an IP address may get at most {KEYS_MAX} trial keys a minute");
        let wait = Timestamp(oldest_at).plus(KEYS_WINDOW).since(now);
        return Err(ApiError::new(Code::IpRateLimited, message).retry_after(wait));
    }
    tracing::info!(target: "security", account_id = record.account_id, key_id = record.key_id, "trial key made");
    Ok(Answer(TrialKey {
        key: fresh.secret.to_string(),
        key_prefix: fresh.display_prefix,
        environment: Environment::Trial.as_str().to_owned(),
        role: Role::Trial.as_str().to_owned(),
        created_at: now.rfc3339(),
        expires_at: expires_at.rfc3339(),
        ttl_seconds: trials::TTL.as_secs(),
        operations_limit: trials::OPERATIONS_MAX,
        operations_remaining: trials::OPERATIONS_MAX,
    }))
}

/// Revoke a trial key.
///
/// The key and everything made with it end at once.
#[utoipa::path(
    delete,
    path = "/api/v1/onboarding/temp-key/{key_prefix}",
    operation_id = "revokeTrialKey",
    tag = "API keys",
    params(("key_prefix" = String, Path, min_length = 16, pattern = "^svc_trial_",
        description = "At least the first 16 characters of the key.")),
    responses((status = 200, description = "The key is revoked.", body = RevokedTrialKey)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::KeyNotFound, Code::Conflict])))
)]
pub async fn revoke(
    State(access): State<Arc<Access>>,
    ClientAddress(address): ClientAddress,
    path: PathParts,
) -> Result<Answer<RevokedTrialKey>, ApiError> {
    let given = path.get("key_prefix");
    if !given.starts_with(Environment::Trial.key_prefix()) || given.len() < DISPLAY_CHARACTERS {
        let message = format!("send at least the first {DISPLAY_CHARACTERS} characters of a trial key");
        return Err(ApiError::new(Code::InvalidRequest, message).at("key_prefix", "not a prefix of a trial key"));
    }
    // no key has other characters, so such a text is an unknown key
    let is_of_a_key = given.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let (key_prefix, now) = (given.get(..DISPLAY_CHARACTERS).unwrap_or_default(), access.clock.now());
    let mut keys = if is_of_a_key { access.store.trial_keys(key_prefix, now.0).await? } else { Vec::new() };
    keys.retain(|key| continues(access.api_keys.pepper(), given, key.prefix_tags.as_deref()));
    let missing = || ApiError::new(Code::KeyNotFound, "there is no such trial key");
    let key = match keys.as_slice() {
        [key] => key,
        [] => {
            // an unknown prefix may be a guess, so it counts against the network (readings A13)
            access.limits.failed(Code::KeyNotFound, Some(address), given, now);
            return Err(missing());
        }
        _ => {
            let message = "several trial keys have this prefix: send more characters of the key";
            return Err(ApiError::new(Code::Conflict, message));
        }
    };
    if access.store.revoke_lineage(&key.lineage_id, now.0).await? == 0 {
        return Err(missing());
    }
    tracing::info!(target: "security", lineage_id = key.lineage_id, "trial key revoked");
    access.forget_keys(&key.lineage_id).await;
    Ok(Answer(RevokedTrialKey { key_prefix: key_prefix.to_owned(), status: "revoked".to_owned() }))
}

/// How long the account's row stays after its trial was erased. Work that was still running then finds that the trial
/// has ended.
const ERASED_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Removes expired records of networks that got keys. Also removes the accounts of trials that were erased more than a
/// day ago.
pub async fn forget_old(access: &Access) {
    let now = access.clock.now();
    if let Err(error) = access.store.forget_trial_windows(now.0).await {
        tracing::error!(cause = %error, "old records of networks that got trial keys were not removed");
    }
    if let Err(error) = access.store.forget_erased_accounts(now.0 - ERASED_KEPT.as_micros() as i64).await {
        tracing::error!(cause = %error, "accounts of erased trials were not removed");
    }
}

/// Bytes of a tag.
const TAG_BYTES: usize = 2;

/// Makes the tags that distinguish trial keys with the same display prefix. For each longer prefix of the key, up to
/// the whole key, the tags hold two bytes of that prefix's digest under the pepper. The tags are erased with the key,
/// after half an hour at most.
pub fn prefix_tags(pepper: &Pepper, key: &str) -> Vec<u8> {
    let longer = DISPLAY_CHARACTERS + 1..=key.len();
    longer.flat_map(|length| tag(pepper, &key[..length])).collect()
}

fn tag(pepper: &Pepper, beginning: &str) -> [u8; TAG_BYTES] {
    let digest = pepper.digest(&format!("beginning {beginning}"));
    [digest[0], digest[1]]
}

/// Whether the key with these tags begins with `given`. For a key without tags only the display prefix is compared.
fn continues(pepper: &Pepper, given: &str, tags: Option<&[u8]>) -> bool {
    let Some(more) = given.len().checked_sub(DISPLAY_CHARACTERS + 1) else { return true };
    if given.len() > KEY_CHARACTERS_MAX {
        return false;
    }
    let Some(tags) = tags else { return true };
    let kept = tags.get(TAG_BYTES * more..TAG_BYTES * (more + 1));
    kept.is_some_and(|kept| kept.ct_eq(&tag(pepper, given)).into())
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a13_every_longer_beginning_of_a_key_is_told_from_another() {
        let pepper = Pepper(Zeroizing::new([5; 32]));
        let key = format!("svc_trial_{}", "0123456789abcdef".repeat(2));
        let tags = prefix_tags(&pepper, &key);
        assert_eq!(tags.len(), TAG_BYTES * 26);
        for length in DISPLAY_CHARACTERS..=key.len() {
            assert!(continues(&pepper, &key[..length], Some(&tags)));
        }
        for length in DISPLAY_CHARACTERS + 1..=key.len() {
            let mut other = key[..length - 1].to_owned();
            other.push('x');
            assert!(!continues(&pepper, &other, Some(&tags)));
        }
        assert!(!continues(&pepper, &format!("{key}0"), Some(&tags)));
        assert!(!continues(&pepper, &format!("{key}0"), None));
        assert!(continues(&pepper, &key[..20], None));
    }
}
