//! The key that a request describes, and the check of a key against it: parameters and security (readings K1, K2, K5,
//! K7, K8, K16).

use api::encryption_keys::{EncryptionParams, MAX_DEPTH_DEFAULT, SCALE_BITS_DEFAULT};
use api::params::SecurityLevel;
use api::{Code, Environment};
use axum::http::HeaderName;

use crate::web::error::ApiError;
use crate::work::numbers::{self, Params};

/// The header for keys with less than 128 bits of security (readings K2, K16).
pub const SECURITY_WARNING: HeaderName = HeaderName::from_static("x-security-warning");
/// Smallest number of bits of security for production (specification, Encryption keys).
const SECURE_BITS: u64 = 128;
const SCHEME_DEFAULT: &str = "rns-ckks";

/// A key as a request describes it.
#[derive(Clone, Debug)]
pub struct WantedKey {
    /// `rns-ckks` or `ckks`.
    pub scheme: String,
    /// The parameters as sent.
    pub params: EncryptionParams,
    /// The environment of the API key.
    pub environment: Environment,
}

impl WantedKey {
    /// Checks a request before any key is read. Searches for the primes of the parameters, which takes CPU time, so
    /// call this outside the async threads.
    pub fn check(
        scheme: Option<String>,
        params: EncryptionParams,
        environment: Environment,
    ) -> Result<WantedKey, ApiError> {
        let scheme = scheme.unwrap_or_else(|| SCHEME_DEFAULT.to_owned());
        if !["rns-ckks", "ckks"].contains(&scheme.as_str()) {
            return Err(ApiError::new(Code::InvalidParams, "scheme must be rns-ckks or ckks").at("scheme", "unknown"));
        }
        let wanted = WantedKey { scheme, params, environment };
        wanted.made()?;
        Ok(wanted)
    }

    /// Returns the parameters with which the service would generate the key. The parameters meet the security level of
    /// the request, if the request has one.
    pub fn made(&self) -> Result<Params, ApiError> {
        let (level, environment) = (self.level()?, self.environment);
        if environment == Environment::Live && level == Some(SecurityLevel::Testing) {
            let message =
                "with a live API key, security_level must be 128-bit or more; for testing, use a test API key";
            return Err(ApiError::new(Code::InsufficientSecurity, message).at("params.security_level", "testing"));
        }
        let asked = match (level, environment) {
            (Some(level), _) => level,
            (None, Environment::Live) => SecurityLevel::Bits128,
            (None, _) => SecurityLevel::Testing,
        };
        numbers::params_of(self.shape(), asked, self.params.bootstrap.unwrap_or(false))
    }

    /// Refuses a key that differs from the request (readings K7) or is not secure enough.
    pub fn admit(&self, params: &Params) -> Result<(), ApiError> {
        let found = numbers::key_params(params, &self.scheme);
        let differs = |member: &str, found: &str| {
            let message = format!("the key was made with {member} {found}, which differs from params.{member}");
            Err(ApiError::new(Code::InvalidParams, message)
                .at(format!("params.{member}"), format!("the key has {found}")))
        };
        let (poly_degree, scale_bits, max_depth) = self.shape();
        if found.poly_degree != poly_degree {
            return differs("poly_degree", &found.poly_degree.to_string());
        }
        if found.scale_bits != scale_bits {
            return differs("scale_bits", &found.scale_bits.to_string());
        }
        if found.max_depth != max_depth {
            return differs("max_depth", &found.max_depth.to_string());
        }
        if self.params.bootstrap.is_some_and(|bootstrap| bootstrap != found.bootstrap) {
            return differs("bootstrap", &found.bootstrap.to_string());
        }
        match self.level()? {
            Some(level) if level.as_str() != found.security_level => differs("security_level", &found.security_level),
            None if self.environment == Environment::Live && found.security_bits < SECURE_BITS => {
                let message = format!(
                    "the key has {} bits of security, but with a live API key it needs 128",
                    found.security_bits
                );
                Err(ApiError::new(Code::InsufficientSecurity, message).at("params.security_level", "under 128 bits"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the degree, scale and depth of the request, with the specification's defaults where the request has none
    /// (readings K3).
    fn shape(&self) -> (u64, u64, u64) {
        let EncryptionParams { poly_degree, scale_bits, max_depth, .. } = self.params;
        (poly_degree, scale_bits.unwrap_or(SCALE_BITS_DEFAULT), max_depth.unwrap_or(MAX_DEPTH_DEFAULT))
    }

    fn level(&self) -> Result<Option<SecurityLevel>, ApiError> {
        let Some(name) = &self.params.security_level else { return Ok(None) };
        let level = SecurityLevel::from_name(name).ok_or_else(|| {
            let names = SecurityLevel::ALL.map(SecurityLevel::as_str).join(", ");
            ApiError::new(Code::InvalidParams, format!("security_level must be one of {names}"))
                .at("params.security_level", format!("not one of {names}"))
        });
        level.map(Some)
    }
}

/// Returns the text of the header [`SECURITY_WARNING`] for this many bits of security. `None`: no warning.
pub fn security_warning(bits: u64) -> Option<String> {
    (bits < SECURE_BITS).then(|| format!("this key has {bits} bits of security: for testing only"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(poly_degree: u64, level: Option<&str>) -> EncryptionParams {
        EncryptionParams {
            poly_degree,
            scale_bits: Some(40),
            max_depth: Some(3),
            security_level: level.map(str::to_owned),
            bootstrap: None,
        }
    }

    fn code(params: EncryptionParams, environment: Environment) -> Option<Code> {
        WantedKey::check(None, params, environment).err().map(|error| error.code)
    }

    #[test]
    fn k1_k2_levels_are_met_or_refused_and_live_keys_need_one() {
        use Environment::{Live, Test};
        let insufficient = Some(Code::InsufficientSecurity);
        for (poly_degree, level, environment, expected) in [
            (8192, None, Live, None),
            (8192, Some("128-bit"), Live, None),
            (4096, None, Live, insufficient),
            (4096, None, Test, None),
            (4096, Some("128-bit"), Test, insufficient),
            (8192, Some("192-bit"), Test, insufficient),
            (8192, Some("testing"), Live, insufficient),
            (8192, Some("testing"), Test, None),
            (8192, Some("64-bit"), Test, Some(Code::InvalidParams)),
            (8191, None, Test, Some(Code::InvalidParams)),
            (u64::MAX, None, Test, Some(Code::InvalidParams)),
        ] {
            assert_eq!(
                code(params(poly_degree, level), environment),
                expected,
                "{poly_degree} {level:?} {environment:?}"
            );
        }
    }

    #[test]
    fn k16_the_testing_degrees_take_no_level_but_testing_and_no_live_keys() {
        for (level, environment, accepted) in [
            (None, Environment::Test, true),
            (Some("testing"), Environment::Dev, true),
            (Some("128-bit"), Environment::Test, false),
            (None, Environment::Live, false),
        ] {
            let refused = code(params(64, level), environment);
            assert_eq!(refused, (!accepted).then_some(Code::InsufficientSecurity), "{level:?} {environment:?}");
        }
        assert!(security_warning(0).is_some() && security_warning(127).is_some() && security_warning(128).is_none());
    }

    #[test]
    fn k7_k8_another_scheme_or_a_key_of_other_parameters_is_refused() {
        let other = WantedKey::check(Some("bfv".to_owned()), params(8192, None), Environment::Test);
        assert_eq!(other.unwrap_err().code, Code::InvalidParams);
        let wanted = WantedKey::check(Some("ckks".to_owned()), params(64, None), Environment::Test).unwrap();
        let made = |shape| numbers::params_of(shape, SecurityLevel::Testing, false).unwrap();
        assert!(wanted.admit(&made((64, 40, 3))).is_ok());
        for shape in [(256, 40, 3), (64, 30, 3), (64, 40, 4)] {
            assert_eq!(wanted.admit(&made(shape)).unwrap_err().code, Code::InvalidParams);
        }
        // K3: absent parameters have their defaults
        let least = EncryptionParams { scale_bits: None, max_depth: None, ..params(64, None) };
        let wanted = WantedKey::check(None, least, Environment::Test).unwrap();
        assert!(wanted.admit(&made((64, 15, 5))).is_ok() && wanted.admit(&made((64, 40, 3))).is_err());
    }
}
