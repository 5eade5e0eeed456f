//! API keys: how they look, how they are remembered, how they are found again (readings A1-A3, A17).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::AccountId;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use store::{ApiKey, Store};
use zeroize::Zeroizing;

use super::{Caller, Environment, Role, invalid_key};
use crate::clock::Timestamp;
use crate::error::ApiError;
use crate::ids;

/// Characters of a key that may be shown again.
const DISPLAY_CHARACTERS: usize = 16;
/// Hex characters after the prefix: 128 random bits.
const SECRET_CHARACTERS: usize = 32;
/// How long a key found in the database is believed without asking again (readings A17: at most 1 s).
const CACHE_TTL: Duration = Duration::from_secs(1);
/// Keys remembered at once.
const CACHE_KEYS_MAX: usize = 10_000;

/// A digest of a key under the node's pepper.
type Digest = [u8; 32];

/// The node's secret that digests of keys are made with.
pub struct Pepper(pub Zeroizing<[u8; 32]>);

impl Pepper {
    /// What is stored of a key.
    pub fn digest(&self, key: &str) -> Digest {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0[..]).expect("HMAC takes any key length");
        mac.update(key.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

/// A key that was just made. Shown once.
pub struct FreshKey {
    /// The key itself.
    pub secret: Zeroizing<String>,
    /// Its first characters.
    pub display_prefix: String,
}

impl FreshKey {
    /// A random key: prefix and 32 lower-case hex characters (readings A2).
    pub fn generate(environment: Environment) -> FreshKey {
        let bits = Zeroizing::new(ids::random::<{ SECRET_CHARACTERS / 2 }>());
        let mut secret = Zeroizing::new(String::with_capacity(64));
        secret.push_str(environment.key_prefix());
        for byte in bits.iter() {
            for digit in [byte >> 4, byte & 15] {
                secret.push(char::from_digit(digit.into(), 16).expect("four bits are a hex digit"));
            }
        }
        let display_prefix = secret[..DISPLAY_CHARACTERS].to_owned();
        FreshKey { secret, display_prefix }
    }
}

/// Whether a text looks like a key at all: `svc_(live|test|dev|trial)_[0-9a-f]{32}`.
fn looks_like_a_key(text: &str) -> bool {
    let secret = Environment::ALL.into_iter().find_map(|environment| text.strip_prefix(environment.key_prefix()));
    secret.is_some_and(|secret| {
        secret.len() == SECRET_CHARACTERS && secret.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
    })
}

/// Finds the callers of keys.
pub struct ApiKeys {
    store: Store,
    pepper: Pepper,
    /// Valid keys by digest and when they were read.
    cache: Mutex<HashMap<Digest, (Timestamp, ApiKey)>>,
}

impl ApiKeys {
    /// Keys of this database under this pepper.
    pub fn new(store: Store, pepper: Pepper) -> Self {
        Self { store, pepper, cache: Mutex::default() }
    }

    /// Whose key this is. One answer for every reason why it is nobody's.
    pub async fn caller(&self, key: &str, now: Timestamp) -> Result<Caller, ApiError> {
        if !looks_like_a_key(key) {
            return Err(invalid_key());
        }
        let digest = self.pepper.digest(key);
        let record = match self.cached(&digest, now) {
            Some(record) => record,
            None => self.look_up(digest, now).await?,
        };
        if record.expires_at.is_some_and(|end| end <= now.0) {
            return Err(invalid_key());
        }
        let broken = || ApiError::internal(format!("the record of key {} is broken", record.key_id));
        Ok(Caller {
            account: record.account_id.parse::<AccountId>().map_err(|_| broken())?,
            environment: Environment::from_name(&record.environment).ok_or_else(broken)?,
            role: Role::from_name(&record.role).ok_or_else(broken)?,
        })
    }

    fn cached(&self, digest: &Digest, now: Timestamp) -> Option<ApiKey> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(digest).filter(|(read_at, _)| now.since(*read_at) < CACHE_TTL).map(|(_, record)| record.clone())
    }

    async fn look_up(&self, digest: Digest, now: Timestamp) -> Result<ApiKey, ApiError> {
        let record = self.store.api_key(&digest).await?.filter(|record| record.revoked_at.is_none());
        let record = record.ok_or_else(invalid_key)?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHE_KEYS_MAX {
            cache.clear();
        }
        cache.insert(digest, (now, record.clone()));
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
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
    fn a3_digests_depend_on_the_pepper_and_on_the_whole_key() {
        let pepper = Pepper(Zeroizing::new([1; 32]));
        let other = Pepper(Zeroizing::new([2; 32]));
        assert_ne!(pepper.digest("k"), other.digest("k"));
        assert_ne!(pepper.digest("k"), pepper.digest("kk"));
        // RFC 4231, test case 1, padded: HMAC pads its key with zeros
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let digest = Pepper(Zeroizing::new(key)).digest("Hi There");
        assert_eq!(&digest[..4], [0xb0, 0x34, 0x4c, 0x61]);
    }
}
