//! Parameters that meet a security level (readings section 14, `GET /params/suggest`).

use serde::{Deserialize, Serialize};

use crate::words;

// Specification, Encryption keys.
/// A security level that a request can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SecurityLevel {
    /// No security: for tests.
    #[serde(rename = "testing")]
    Testing,
    /// 128 bits.
    #[serde(rename = "128-bit")]
    Bits128,
    /// 192 bits.
    #[serde(rename = "192-bit")]
    Bits192,
    /// 256 bits.
    #[serde(rename = "256-bit")]
    Bits256,
}

words!(SecurityLevel, "security level", {
    Testing = "testing",
    Bits128 = "128-bit",
    Bits192 = "192-bit",
    Bits256 = "256-bit",
});

impl SecurityLevel {
    /// Bits of security that the level promises; 0 for `testing`.
    pub fn bits(self) -> u32 {
        match self {
            SecurityLevel::Testing => 0,
            SecurityLevel::Bits128 => 128,
            SecurityLevel::Bits192 => 192,
            SecurityLevel::Bits256 => 256,
        }
    }
}

/// The parameter sets of this node that meet a security level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SuggestedParams {
    /// The level of the request.
    pub security_level: SecurityLevel,
    /// Gate-session presets that meet the level, fastest first. Empty if no preset meets the level.
    pub presets: Vec<PresetFacts>,
    /// Parameters for arithmetic that meet the level at the depth and scale of the request, smallest degree first.
    /// Empty if no parameters meet the level.
    #[serde(default)]
    pub arithmetic: Vec<ArithmeticFacts>,
}

/// A level of ciphertexts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChainLevel {
    /// The primes of the level's modulus: their indices in `modulus_chain`, from 0, ascending.
    pub primes: Vec<u64>,
    /// The scale of the level's ciphertexts. The number is exact if it is read as a double.
    pub scale: f64,
}

/// Parameters for arithmetic on encrypted numbers, and the sizes of keys and ciphertexts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArithmeticFacts {
    /// Degree of the ring.
    #[cfg_attr(feature = "openapi", schema(example = 16384))]
    pub poly_degree: u64,
    /// Bits of a fresh ciphertext's scale.
    #[cfg_attr(feature = "openapi", schema(example = 40))]
    pub scale_bits: u64,
    /// Number of multiplications in a row that a fresh ciphertext allows.
    #[cfg_attr(feature = "openapi", schema(example = 8))]
    pub max_depth: u64,
    /// The largest `max_depth` that meets the level at this degree and scale.
    #[cfg_attr(feature = "openapi", schema(example = 8))]
    pub max_depth_possible: u64,
    /// Numbers in a ciphertext.
    pub slot_count: u64,
    /// Bits of security against the cheapest known attack, at most 256.
    pub security_bits: u64,
    /// Bits of the product of all primes.
    pub total_q_bits: u64,
    /// Whether the parameters leave room for bootstrapping.
    #[serde(default)]
    pub bootstrap: bool,
    /// Number of bits after the binary point that are correct in every slot of a fresh ciphertext of numbers up to 1
    /// that was made with the public key.
    pub precision_bits: f64,
    /// The same of a ciphertext that was made with the secret key.
    #[serde(default)]
    pub seeded_precision_bits: f64,
    /// Bytes of a public key.
    pub public_key_bytes: u64,
    /// Bytes of the key that multiplications need, at the full level.
    pub relinearization_key_bytes: u64,
    /// Bytes of the key of one rotation, at the full level.
    pub rotation_key_bytes: u64,
    /// Bytes of a ciphertext that was made with the secret key, at the full level.
    pub seeded_ciphertext_bytes: u64,
    /// Bytes of any other ciphertext, at the full level.
    pub ciphertext_bytes: u64,
    /// All primes of the modulus: those of ciphertexts, then the special primes of key switching.
    #[serde(default)]
    pub modulus_chain: Vec<u64>,
    /// How many primes at the end of `modulus_chain` are special.
    #[serde(default)]
    pub special_primes: u64,
    /// The levels, from level 0. With `bootstrap` the list goes on above `max_depth`.
    #[serde(default)]
    pub levels: Vec<ChainLevel>,
    /// The memory that a bootstrap takes. `null` without bootstrapping. If this node has too little, a warning says so.
    #[serde(default)]
    pub bootstrap_needs: Option<BootstrapNeeds>,
    /// Remarks about these parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The memory that a bootstrap takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BootstrapNeeds {
    /// Bytes of the parts of the evaluation key that a bootstrap takes, as they are uploaded.
    pub key_bytes: u64,
    /// Bytes of these parts in the memory of the device that computes, and of the tables that keys with these parameters
    /// share there.
    pub prepared_key_bytes: u64,
    /// Bytes of all values of one bootstrap in the memory of the device.
    pub value_bytes: u64,
}

/// The parameters of a gate-session preset, and the sizes of its keys and ciphertexts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PresetFacts {
    /// `fast_128`, `standard_128`, `conservative_128`, `fast_128_k2` or `standard_128_k2`.
    #[cfg_attr(feature = "openapi", schema(example = "fast_128"))]
    pub preset: String,
    /// Bits of security against the cheapest known attack.
    #[cfg_attr(feature = "openapi", schema(example = 128))]
    pub security_bits: u32,
    /// Dimension of a bit's ciphertext.
    #[cfg_attr(feature = "openapi", schema(example = 636))]
    pub n: usize,
    /// Degree of the ring.
    #[cfg_attr(feature = "openapi", schema(example = 1024))]
    pub big_n: usize,
    /// Number of mask polynomials of a ring ciphertext.
    pub glwe_dimension: usize,
    /// log2 of the bootstrap decomposition's base.
    pub bootstrap_base_log: usize,
    /// Levels of the bootstrap decomposition.
    pub bootstrap_level_count: usize,
    /// Base of the key switch's decomposition.
    pub key_switch_base: u32,
    /// Levels of the key switch's decomposition.
    pub key_switch_level_count: usize,
    /// Bytes of an evaluation key as it is uploaded (with a seed instead of masks), without the frame's header.
    pub evaluation_key_bytes: usize,
    /// Bytes of a bit's ciphertext, without the frame's header.
    pub ciphertext_bytes: usize,
    /// log2 of the estimated probability that a NAND, AND, OR or NOR of independent gate outputs is wrong. Equal or
    /// opposite operands do not raise the probability, because the node replaces such a gate: by a result that needs no
    /// bootstrap, or by a gate of other operands.
    #[cfg_attr(feature = "openapi", schema(example = -92.8))]
    pub failure_probability_log2: f64,
    /// log2 of the estimated probability for the gate that fails most often: a MUX of results.
    #[cfg_attr(feature = "openapi", schema(example = -91.8))]
    pub worst_failure_probability_log2: f64,
}
