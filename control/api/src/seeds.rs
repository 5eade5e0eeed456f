//! Seeds of ciphertexts. A client sends a seed instead of the ciphertexts' masks.
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::numbers;

/// Largest number of seeds in one head: one for each value that a circuit may have.
pub const SEEDS_MAX: usize = 4096;

/// A seed, and the number of ciphertexts whose masks come from the seed. Only the bodies of these ciphertexts are sent,
/// 4 bytes each. Use each seed only once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Seed {
    /// 64 hexadecimal digits.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{64}$"))]
    pub seed: String,
    /// Number of ciphertexts after the head whose masks come from this seed. These ciphertexts follow the ciphertexts
    /// of the previous seed.
    #[serde(deserialize_with = "numbers::whole")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub ciphertexts: u64,
}
