//! Seeds of ciphertexts of which only the bodies are sent.
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::numbers;

/// Seeds in one head at most: one for each value that a circuit may take.
pub const SEEDS_MAX: usize = 4096;

/// A seed, and the number of ciphertexts whose masks come from it. Only the bodies of these are sent, 4 bytes each. Use a
/// seed once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Seed {
    /// 64 hexadecimal digits.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{64}$"))]
    pub seed: String,
    /// How many of the ciphertexts behind the head have their masks from this seed. They follow those of the seed before.
    #[serde(deserialize_with = "numbers::whole")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub ciphertexts: u64,
}
