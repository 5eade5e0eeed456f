//! Ciphertexts that the service keeps for arithmetic (readings K11-K14, section 14).
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::{CiphertextId, EncryptionKeyId};

/// Largest size of a decoded ciphertext in JSON, in bytes (specification, Limits). Larger ciphertexts are uploaded as
/// octets.
pub const CIPHERTEXT_BYTES_MAX: usize = 2 << 20;

/// `POST /ciphertexts`: upload a ciphertext.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadCiphertext {
    /// Id of the key that the ciphertext is encrypted under.
    #[cfg_attr(feature = "openapi", schema(example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: String,
    /// The ciphertext, base64, at most 2 MB decoded. Larger ciphertexts are uploaded as octets.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub ciphertext: String,
}

/// A ciphertext that the service keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ciphertext {
    /// The ciphertext's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "ct_01k809hp7f0oc1jgldmrvm9s18"))]
    pub ciphertext_id: CiphertextId,
    /// Id of the key that the ciphertext is encrypted under.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: EncryptionKeyId,
    /// How many numbers the ciphertext holds.
    pub slot_count: u64,
    /// The ciphertext's level: the number of multiplications in a row that the ciphertext still allows, or fewer if it
    /// is a product that was not rescaled.
    pub level: u64,
    /// log2 of the exact scale, to three decimals.
    pub scale_bits: f64,
    /// Number of bits after the binary point that are correct in every slot, by the bound and the variance in the
    /// ciphertext.
    #[serde(default)]
    pub precision_bits: f64,
    /// Size of the ciphertext in bytes.
    pub size_bytes: u64,
    /// `upload`, or the operation whose result the ciphertext is.
    #[cfg_attr(feature = "openapi", schema(example = "upload"))]
    pub origin: String,
    /// When the ciphertext was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When the ciphertext was last read or used in an operation.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub last_used_at: String,
    /// In the answer to an upload: ids of the least recently used ciphertexts, which were removed to make room.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub evicted_ciphertext_ids: Option<Vec<CiphertextId>>,
    /// In the answer to an upload: remarks about the ciphertext, such as a scale that is not that of its level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `GET /ciphertexts`: a page of the ciphertexts under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ciphertexts {
    /// The ciphertexts, newest first.
    pub items: Vec<Ciphertext>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// Number of ciphertexts on all pages.
    pub total_count: u64,
}

/// A ciphertext that was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedCiphertext {
    /// The ciphertext's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "ct_01k809hp7f0oc1jgldmrvm9s18"))]
    pub ciphertext_id: CiphertextId,
    /// `deleted`.
    #[cfg_attr(feature = "openapi", schema(example = "deleted"))]
    pub status: String,
}
