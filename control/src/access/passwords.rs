//! Hashes passwords with argon2id, outside the async threads, two at a time.

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::ids;
use crate::telemetry::Telemetry;
use crate::web::error::ApiError;

/// Cost of one hash: 19 MiB and two passes, OWASP's first recommendation for argon2id.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Largest number of hashes computed at the same time. Further requests wait, so that hashes do not take all memory and
/// all cores.
const AT_ONCE: usize = 2;
/// Longest wait of a request until it may compute its hash.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The hash that is checked if the user does not exist, so that the answer takes as long as for an existing user. Its
/// bytes are zeros, and no password has this hash.
const NO_USER: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Permitted number of characters in a new password.
const CHARACTERS: std::ops::RangeInclusive<usize> = 12..=256;

/// Computes hashes of passwords.
#[derive(Clone)]
pub struct Passwords {
    turns: Arc<Semaphore>,
    telemetry: Arc<Telemetry>,
}

impl Passwords {
    /// Creates a hasher of passwords. `telemetry` counts the hashes.
    pub fn new(telemetry: Arc<Telemetry>) -> Passwords {
        Passwords { turns: Arc::new(Semaphore::new(AT_ONCE)), telemetry }
    }

    /// Whether the password has this hash. Without a hash the result is false, and computing it takes as long as with a
    /// hash.
    pub async fn is_right(&self, password: Zeroizing<String>, hash: Option<String>) -> Result<bool, ApiError> {
        self.in_turn(move || {
            let hash_or_none = hash.as_deref().unwrap_or(NO_USER);
            let parsed = PasswordHash::new(hash_or_none).map_err(|_| "a stored password hash is broken")?;
            let right = argon2id().verify_password(password.as_bytes(), &parsed).is_ok();
            Ok(right && hash.is_some())
        })
        .await
    }

    /// Computes the hash of a new password. The error names the rule that the password breaks.
    pub async fn hash(&self, password: Zeroizing<String>) -> Result<String, ApiError> {
        accept(&password)?;
        self.in_turn(move || hash(&password)).await
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, &'static str> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = tokio::time::timeout(WAIT_MAX, self.turns.clone().acquire_owned()).await.map_err(|_| {
            ApiError::unavailable("sign_ins", "too many users are signing in right now; try again later")
                .retry_after(Duration::from_secs(2))
        })?;
        let turn = turn.map_err(ApiError::internal)?;
        self.telemetry.password_hashed();
        let result = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        result.await?.map_err(ApiError::internal)
    }
}

/// Refuses a new password that breaks the rules.
pub fn accept(password: &str) -> Result<(), ApiError> {
    check(password)
        .map_err(|issue| ApiError::new(Code::InvalidRequest, format!("the new password {issue}")).at("password", issue))
}

/// Checks the rules for a new password.
pub fn check(password: &str) -> Result<(), &'static str> {
    if CHARACTERS.contains(&password.chars().count()) { Ok(()) } else { Err("must have 12 to 256 characters") }
}

/// Computes a password's hash as a PHC string, with fresh salt.
pub fn hash(password: &str) -> Result<String, &'static str> {
    let salt = ids::random::<16>();
    let hash = argon2id().hash_password_with_salt(password.as_bytes(), &salt);
    Ok(hash.map_err(|_| "argon2id failed")?.to_string())
}

fn argon2id() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).expect("the parameters are within argon2's bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Zeroizing<String> {
        Zeroizing::new(text.to_owned())
    }

    fn passwords() -> Passwords {
        Passwords::new(Arc::new(Telemetry::new().unwrap()))
    }

    #[tokio::test]
    async fn a_hash_knows_its_password_and_no_other() {
        let passwords = passwords();
        let hash = passwords.hash(secret("correct horse battery")).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(passwords.is_right(secret("correct horse battery"), Some(hash.clone())).await.unwrap());
        assert!(!passwords.is_right(secret("correct horse batterz"), Some(hash)).await.unwrap());
    }

    #[tokio::test]
    async fn nobody_s_hash_costs_as_much_as_anybody_s_and_has_no_password() {
        let parsed = PasswordHash::new(NO_USER).unwrap();
        assert_eq!(parsed.params.to_string(), format!("m={MEMORY_KIB},t={PASSES},p={LANES}"));
        assert!(!passwords().is_right(secret(""), None).await.unwrap());
    }

    #[tokio::test]
    async fn short_and_endless_passwords_are_refused() {
        for bad in ["eleven char".to_owned(), "x".repeat(257)] {
            assert_eq!(passwords().hash(secret(&bad)).await.unwrap_err().code, Code::InvalidRequest);
        }
    }
}
