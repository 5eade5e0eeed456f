//! API keys: their form, their digests, and how a key's caller is looked up (readings A1-A3, A17).

use std::collections::HashMap;
use std::time::Duration;

use api::Code;
use parking_lot::Mutex;
use store::{ApiKey, Store};
use zeroize::Zeroizing;

use super::believed::Believed;
use crate::caller::{Caller, Credential, Environment};
use crate::clock::Timestamp;
use crate::ids;
use crate::secrets::{Digest, Pepper};
use crate::web::envelope::Area;
use crate::web::error::ApiError;

/// Number of characters at the start of a key that may be shown again.
pub const DISPLAY_CHARACTERS: usize = 16;
/// Number of hex characters after the prefix. They hold 128 random bits.
const SECRET_CHARACTERS: usize = 32;
/// Number of characters of a trial key, the longest kind of key.
pub const KEY_CHARACTERS_MAX: usize = "svc_trial_".len() + SECRET_CHARACTERS;
/// Largest number of keys whose times of last use one statement writes.
const USED_MAX: usize = 1000;

/// A new key. Only the answer that creates the key shows it.
pub struct FreshKey {
    /// The key itself.
    pub secret: Zeroizing<String>,
    /// The first characters of the key, which may be shown again.
    pub display_prefix: String,
}

impl FreshKey {
    /// Makes a random key: a prefix and 32 lower-case hex characters (readings A2).
    pub fn generate(environment: Environment) -> FreshKey {
        let secret = ids::random_hex::<{ SECRET_CHARACTERS / 2 }>(environment.key_prefix());
        let display_prefix = secret[..DISPLAY_CHARACTERS].to_owned();
        FreshKey { secret, display_prefix }
    }
}

/// Whether a text has the form of a key: `svc_(live|test|dev|trial)_[0-9a-f]{32}`.
fn looks_like_a_key(text: &str) -> bool {
    let secret = Environment::ALL.into_iter().find_map(|environment| text.strip_prefix(environment.key_prefix()));
    secret.is_some_and(|secret| {
        secret.len() == SECRET_CHARACTERS && secret.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
    })
}

/// A valid key, as read from the database.
#[derive(Clone, Debug)]
struct ValidKey {
    caller: Caller,
    platform: bool,
    office: bool,
    expires_at: Option<Timestamp>,
}

impl ValidKey {
    fn read(record: &ApiKey) -> Option<ValidKey> {
        Some(ValidKey {
            caller: Caller {
                account: record.account_id.parse().ok()?,
                environment: record.environment,
                role: record.role,
                plan: record.plan,
                is_suspended: record.is_suspended,
                credential: Credential::Key {
                    key_id: record.key_id.parse().ok()?,
                    lineage_id: record.lineage_id.parse().ok()?,
                },
            },
            platform: record.platform,
            office: record.office,
            expires_at: record.expires_at.map(Timestamp),
        })
    }

    /// Returns the caller, if the key has not expired and may be used in this area.
    fn admit(self, area: Area, now: Timestamp) -> Result<Caller, ApiError> {
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err(invalid_key());
        }
        let admitted = match area {
            Area::Platform => self.platform,
            Area::Office => self.office,
        };
        if !admitted {
            return Err(ApiError::new(
                Code::InsufficientRole,
                "this API key is not valid for this part of the API: use a key that was made for this part",
            ));
        }
        Ok(self.caller)
    }
}

/// Makes the error for a key that is not valid: the same error for malformed, unknown, revoked and expired keys.
pub(crate) fn invalid_key() -> ApiError {
    ApiError::new(Code::InvalidApiKey, "the API key is not valid")
}

/// Looks up the caller to whom an API key belongs.
pub struct ApiKeys {
    store: Store,
    pepper: Pepper,
    /// Cache of valid keys, by digest.
    known: Believed<ValidKey>,
    /// The times of last use that are not written to the database yet, by key id.
    used: Mutex<HashMap<String, i64>>,
}

impl ApiKeys {
    /// Creates a lookup for the keys of this database, which are digested under `pepper`. `believed_for`: how long a
    /// key is cached.
    pub fn new(store: Store, pepper: Pepper, believed_for: Duration) -> Self {
        Self { store, pepper, known: Believed::new(believed_for), used: Mutex::default() }
    }

    /// Computes the digest of a key. The database stores the digest in place of the key.
    pub fn digest(&self, key: &str) -> Digest {
        self.pepper.digest(key)
    }

    /// The secret under which keys are digested.
    pub fn pepper(&self) -> &Pepper {
        &self.pepper
    }

    /// Returns the caller to whom this key belongs. Every key that is not valid gets the same error, whatever the
    /// reason.
    pub async fn caller(&self, key: &str, area: Area, now: Timestamp) -> Result<Caller, ApiError> {
        if !looks_like_a_key(key) {
            return Err(invalid_key());
        }
        let digest = self.pepper.digest(key);
        let known = match self.known.get(&digest, now) {
            Some(known) => known,
            None => self.look_up(digest, now).await?,
        };
        known.admit(area, now)
    }

    /// Invalidates the cached keys of a lineage at once, because the keys were revoked or rotated. Otherwise the cache
    /// would keep them for up to a second.
    pub fn forget(&self, lineage: &str) {
        let of_lineage = |known: &ValidKey| matches!(&known.caller.credential, Credential::Key { lineage_id, .. } if lineage_id.as_str() == lineage);
        self.known.forget(of_lineage);
    }

    /// Invalidates the cached keys of an account at once, because its plan or its standing changed.
    pub fn forget_account(&self, account_id: &str) {
        self.known.forget(|known: &ValidKey| known.caller.account.as_str() == account_id);
    }

    /// Invalidates all cached keys.
    pub fn forget_all(&self) {
        self.known.forget(|_| true);
    }

    /// Writes the keys' times of last use to the database. A job calls this once a minute, and the node calls it when
    /// it stops. Requests do not call it.
    pub async fn record_use(&self) {
        let used = std::mem::take(&mut *self.used.lock());
        let used: Vec<_> = used.into_iter().collect();
        for some in used.chunks(USED_MAX) {
            if let Err(error) = self.store.keys_used(some).await {
                tracing::warn!(
                    %error,
                    "the times when API keys were last used could not be written; the node tries again in a minute"
                );
                self.use_is_untold(some);
            }
        }
    }

    /// Puts times of last use back into the list, because they could not be written. If the list meanwhile has a newer
    /// time for a key, the newer time stays.
    fn use_is_untold(&self, untold: &[(String, i64)]) {
        let mut used = self.used.lock();
        for (key_id, at) in untold {
            let known = used.entry(key_id.clone()).or_insert(*at);
            *known = (*known).max(*at);
        }
    }

    async fn look_up(&self, digest: Digest, now: Timestamp) -> Result<ValidKey, ApiError> {
        let generation = self.known.generation();
        let record = self.store.api_key(&digest).await?.filter(|record| record.revoked_at.is_none());
        let record = record.ok_or_else(invalid_key)?;
        let broken = || ApiError::internal(format!("the stored record of the API key {} is broken", record.key_id));
        let known = ValidKey::read(&record).ok_or_else(broken)?;
        // note the time of use only here, when the key's record is read, not at each use of the cached record: that is
        // often enough, because times of last use are shown to the minute
        if known.expires_at.is_none_or(|end| now < end) {
            self.used.lock().insert(record.key_id, now.0);
        }
        self.known.insert(digest, known.clone(), generation, now);
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use api::{AccountId, KeyId, LineageId, Plan, Role};

    use super::*;

    #[test]
    fn a2_fresh_keys_match_the_published_pattern_in_every_environment() {
        for environment in Environment::ALL {
            let key = FreshKey::generate(environment);
            assert!(looks_like_a_key(&key.secret));
            assert_eq!(key.display_prefix.len(), 16);
            assert!(key.secret.starts_with(&key.display_prefix));
            assert_ne!(*key.secret, *FreshKey::generate(environment).secret);
        }
    }

    #[test]
    fn a2_what_does_not_match_the_pattern_is_no_key() {
        let good = format!("svc_live_{}", "0a".repeat(16));
        assert!(looks_like_a_key(&good));
        for bad in [
            String::new(),
            good.replace("live", "prod"),
            good.to_uppercase(),
            good[..40].to_owned(),
            format!("{good}0"),
            good.replace('a', "g"),
            good.replace("svc_live_", ""),
        ] {
            assert!(!looks_like_a_key(&bad), "{bad}");
        }
    }

    #[test]
    fn a4_a_trial_key_is_403_in_the_back_office_and_an_expired_one_401_everywhere() {
        let known = |office, expires_at: Option<i64>| {
            ValidKey::read(&ApiKey {
                key_id: KeyId::from_bits(1).as_str().to_owned(),
                account_id: AccountId::from_bits(1).as_str().to_owned(),
                lineage_id: LineageId::from_bits(1).as_str().to_owned(),
                key_prefix: "svc_trial_012345".to_owned(),
                role: Role::Trial,
                environment: Environment::Trial,
                platform: true,
                office,
                plan: Plan::Trial,
                is_suspended: false,
                created_at: 1,
                expires_at,
                revoked_at: None,
                rotated_at: None,
                last_used_at: None,
            })
            .unwrap()
        };
        let admit = |known: ValidKey, area| known.admit(area, Timestamp(10)).map(drop).map_err(|error| error.code);
        assert_eq!(admit(known(false, Some(11)), Area::Platform), Ok(()));
        assert_eq!(admit(known(false, Some(11)), Area::Office), Err(Code::InsufficientRole));
        assert_eq!(admit(known(true, None), Area::Office), Ok(()));
        for area in [Area::Platform, Area::Office] {
            assert_eq!(admit(known(false, Some(10)), area), Err(Code::InvalidApiKey));
        }
    }

    #[test]
    fn a3_digests_depend_on_the_pepper_and_on_the_whole_key() {
        let pepper = Pepper(Zeroizing::new([1; 32]));
        let other = Pepper(Zeroizing::new([2; 32]));
        assert_ne!(pepper.digest("k"), other.digest("k"));
        assert_ne!(pepper.digest("k"), pepper.digest("kk"));
        // test case 1 of RFC 4231 with its key of 20 bytes padded to 32: HMAC pads a short key with zeros, so the
        // digest is the same
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let digest = Pepper(Zeroizing::new(key)).digest("Hi There");
        assert_eq!(&digest[..4], [0xb0, 0x34, 0x4c, 0x61]);
    }
}
