//! Encryption keys for arithmetic on encrypted numbers (platform specification, Encryption keys; readings sections 8, 14).
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::params::ChainLevel;
use crate::{EncryptionKeyId, UploadId, numbers, objects};

/// Largest size of a decoded public key in JSON, in bytes (specification, Limits).
pub const PUBLIC_KEY_BYTES_MAX: usize = 2 << 20;
/// Largest size of a decoded evaluation key in JSON, in bytes (specification, Limits). Larger evaluation keys are
/// uploaded in parts.
pub const EVALUATION_KEY_BYTES_MAX: usize = 10 << 20;
/// Default of `scale_bits` (specification, Encryption keys).
pub const SCALE_BITS_DEFAULT: u64 = 15;
/// Default of `max_depth` (specification, Encryption keys).
pub const MAX_DEPTH_DEFAULT: u64 = 5;

/// Parameters of a key in a request. An uploaded key must have been made with these parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EncryptionParams {
    /// Degree of the ring: 64, 256, 4096, 8192, 16384 or 32768. 64 and 256 are for testing and have no security.
    #[serde(deserialize_with = "numbers::whole")]
    #[cfg_attr(feature = "openapi", schema(example = 8192))]
    pub poly_degree: u64,
    /// Bits of a fresh ciphertext's scale, 10 to 50; 15 when absent.
    #[serde(default, deserialize_with = "numbers::some_whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 10, maximum = 50))]
    pub scale_bits: Option<u64>,
    /// `testing`, `128-bit`, `192-bit` or `256-bit`. When absent, requests with live API keys need 128 bits; other
    /// requests accept any security, and the answer states the security.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_level: Option<String>,
    /// Number of multiplications in a row that the parameters allow, 1 to 14; 5 when absent.
    #[serde(default, deserialize_with = "numbers::some_whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 14))]
    pub max_depth: Option<u64>,
    /// Whether the parameters leave room for bootstrapping. When absent, the service determines this from the uploaded
    /// key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<bool>,
}

/// All parameters of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyParams {
    /// Degree of the ring.
    pub poly_degree: u64,
    /// Bits of a fresh ciphertext's scale, as requested.
    pub scale_bits: u64,
    /// The security level that the key was made for.
    #[cfg_attr(feature = "openapi", schema(example = "128-bit"))]
    pub security_level: String,
    /// Number of multiplications in a row that the parameters allow.
    pub max_depth: u64,
    /// Whether the parameters leave room for bootstrapping.
    pub bootstrap: bool,
    /// The scheme, as the request named it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(example = "rns-ckks"))]
    pub scheme: String,
    /// All primes of the modulus: those of ciphertexts, then the special primes of key switching.
    pub modulus_chain: Vec<u64>,
    /// How many primes at the end of `modulus_chain` are special.
    #[serde(default, skip_serializing_if = "numbers::is_zero")]
    pub special_primes: u64,
    /// The levels, from level 0. With `bootstrap` the list goes on above `max_depth`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<ChainLevel>,
    /// Size of the product of all primes, in bits.
    pub total_q_bits: u64,
    /// Bits of security against the cheapest known attack, at most 256.
    pub security_bits: u64,
}

/// `POST /keys/upload`: upload a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadKey {
    /// The public key, base64, at most 2 MB decoded.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub public_key: String,
    /// The evaluation key, base64, at most 10 MB decoded. Larger evaluation keys go through `POST /keys/uploads`.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub eval_key: String,
    /// `rns-ckks` (the default) or `ckks`, which means the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Parameters with which the public key and the evaluation key were made.
    #[serde(deserialize_with = "objects::one")]
    pub params: EncryptionParams,
}

/// A key that was uploaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadedKey {
    /// The key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: EncryptionKeyId,
    /// The scheme, as the request named it.
    #[cfg_attr(feature = "openapi", schema(example = "rns-ckks"))]
    pub scheme: String,
    /// How many numbers a ciphertext holds: half of `poly_degree`.
    pub slot_count: u64,
    /// When the key was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// Always true: the secret key was never on the server.
    pub blind_guarantee: bool,
    /// All parameters of the key.
    pub params: KeyParams,
    /// Remarks about these parameters, such as a low precision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `POST /keys/generate`: let the service generate a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GenerateKey {
    /// `rns-ckks` (the default) or `ckks`, which means the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The key's parameters.
    #[serde(deserialize_with = "objects::one")]
    pub params: EncryptionParams,
}

/// A key that the service generated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GeneratedKey {
    /// The key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: EncryptionKeyId,
    /// The public key, base64.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub public_key: String,
    /// The secret key, base64. Null unless the operator of a service for local tests allows it.
    pub secret_key: Option<String>,
    /// The evaluation key, base64, for relinearization and for rotations by powers of two. Null if the key is larger
    /// than 64 MB.
    pub eval_key: Option<String>,
    /// Where an evaluation key of more than 64 MB can be downloaded for an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_key_url: Option<String>,
    /// All parameters of the key.
    pub params: KeyParams,
    /// How many numbers a ciphertext holds: half of `poly_degree`.
    pub slot_count: u64,
    /// When the key was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// Always false: the secret key was on the server for a moment.
    pub blind_guarantee: bool,
    /// Remarks about these parameters, such as a low precision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A key of the account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EncryptionKeyRecord {
    /// The key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: EncryptionKeyId,
    /// The scheme, as the request named it.
    #[cfg_attr(feature = "openapi", schema(example = "rns-ckks"))]
    pub scheme: String,
    /// The key's parameters.
    pub params: KeyParams,
    /// How many numbers a ciphertext holds: half of `poly_degree`.
    pub slot_count: u64,
    /// When the key was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// Number of ciphertexts that the service keeps under this key.
    pub ciphertext_count: u64,
    /// Number of operations that were completed with the key.
    pub operation_count: u64,
    /// Size of the public key in bytes.
    pub public_key_bytes: u64,
    /// Size of the evaluation key in bytes.
    pub eval_key_bytes: u64,
}

/// `GET /keys`: a page of the account's keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EncryptionKeys {
    /// The keys, newest first.
    pub items: Vec<EncryptionKeyRecord>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// Number of keys on all pages.
    pub total_count: u64,
}

/// A key that was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedEncryptionKey {
    /// The key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: EncryptionKeyId,
    /// `deleted`.
    #[cfg_attr(feature = "openapi", schema(example = "deleted"))]
    pub status: String,
}

/// `POST /keys/uploads`: begin an upload in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateKeyUpload {
    /// `rns-ckks` (the default) or `ckks`, which means the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Parameters with which the public key and the evaluation key were made.
    #[serde(deserialize_with = "objects::one")]
    pub params: EncryptionParams,
}

/// State of an upload: `open` until the upload is `completed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UploadState {
    /// The upload accepts parts.
    Open,
    /// The upload became a key.
    Completed,
}

/// An upload in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyUploadStatus {
    /// The upload's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "up_01k809hp7f0oc1jgldmrvm9s18"))]
    pub upload_id: UploadId,
    /// The upload's state.
    pub state: UploadState,
    /// Size of the public key in bytes; 0 until the service has received the public key.
    pub public_key_bytes: u64,
    /// Number of bytes of the evaluation key that the service has received. The next part begins at this offset.
    pub eval_key_bytes: u64,
    /// Number of rows of the evaluation key that the service has received.
    pub eval_key_rows: u64,
    /// Number of rows of the whole evaluation key, as its head states; null until the service has received the head.
    pub eval_key_rows_total: Option<u64>,
    /// Largest size of an evaluation key on the account's plan, in bytes.
    pub eval_key_bytes_max: u64,
    /// Id of the key that the upload became.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: Option<EncryptionKeyId>,
    /// When the upload began.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When the upload expires. If the upload is not completed by then, the received bytes are removed.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: String,
}
