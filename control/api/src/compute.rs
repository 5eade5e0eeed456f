//! Operations on encrypted numbers (platform specification, Compute on approximate-number ciphertexts; readings section 9).
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use serde::{Deserialize, Serialize};

use crate::circuits::{OperationError, OperationStatus};
use crate::{CiphertextId, MicroYen, OperationId, lists, numbers};

/// Largest number of ciphertext ids that are read from a request: more than any operation takes.
pub const CIPHERTEXT_IDS_MAX: usize = 16;
/// Largest number of elements of `plain_operand`: one for each slot of the largest ciphertext. The service also reads
/// this many coefficients of a polynomial, and then refuses more than 65 with `POLYNOMIAL_TOO_LARGE`.
pub const PLAIN_NUMBERS_MAX: usize = 16384;

/// `POST /compute` and `POST /compute/{operation}`: compute on ciphertexts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComputeRequest {
    /// `add`, `multiply`, `add-plain`, `multiply-plain`, `negate`, `rescale`, `rotate`, `matmul`, `matmul-plain`,
    /// `poly-eval` or `bootstrap`. Needed unless the path contains the operation. With an operation in the path, this member may be
    /// absent; if present, it must be the same operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "multiply"))]
    pub operation: Option<String>,
    /// Id of the key that the ciphertexts are encrypted under.
    #[cfg_attr(feature = "openapi", schema(example = "key_01k809hp7f0oc1jgldmrvm9s18"))]
    pub key_id: String,
    /// Ids of the ciphertexts: two for `add`, `multiply` and `matmul` (the matrix, then the vector), one for every
    /// other operation.
    #[serde(deserialize_with = "lists::list::<CIPHERTEXT_IDS_MAX, _, _>")]
    pub ciphertext_ids: Vec<String>,
    /// For `add-plain` and `multiply-plain`: one number for each slot. For `matmul-plain`: the n * n numbers of the matrix,
    /// row after row. For `rotate` the first number may be the number
    /// of steps; if `rotation_steps` is present too, both must agree.
    #[serde(
        default,
        deserialize_with = "lists::some_list::<PLAIN_NUMBERS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    pub plain_operand: Option<Vec<f64>>,
    /// For `poly-eval`: 1 to 65 coefficients, the constant first.
    #[serde(
        default,
        deserialize_with = "lists::some_list::<PLAIN_NUMBERS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    pub polynomial_coeffs: Option<Vec<f64>>,
    /// Whether a product is rescaled at once, so that the result has the scale of its level. False when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_stable: Option<bool>,
    /// For `rotate`: by how many slots the numbers move to the left. A negative value moves the numbers to the right.
    #[serde(default, deserialize_with = "numbers::some_integer", skip_serializing_if = "Option::is_none")]
    pub rotation_steps: Option<i64>,
    /// The client's promise that no number of the result is larger in magnitude than this value. Without the promise,
    /// the service computes a bound from the bounds of the ciphertexts. For a sum of many products, the computed bound
    /// is far too high. A smaller value leaves more of the noise budget. If the promise does not hold, results of later
    /// operations may be wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bound: Option<f64>,
    /// The client's promise that no number of the result is further from its exact value than this. Without the promise,
    /// the service computes the error that the bounds of the ciphertexts allow. For iterations, such as the training of a
    /// model, the computed error grows with each iteration although the real error does not. If the promise does not
    /// hold, results are less precise than the service tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_error_bound: Option<f64>,
    /// Whether the answer contains the result itself in addition to the result's id. True when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_ciphertext: Option<bool>,
}

/// An operation: the answer to its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComputeOperation {
    /// The operation's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "op_06a7m2q9v1c3k5d8e0f2g4h6j8"))]
    pub op_id: OperationId,
    /// The operation's id again, under another name.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "op_06a7m2q9v1c3k5d8e0f2g4h6j8"))]
    pub job_id: OperationId,
    /// `COMPLETED`, or `pending` if the request has `Prefer: respond-async`.
    #[cfg_attr(feature = "openapi", schema(example = "COMPLETED"))]
    pub status: String,
    /// The operation's name.
    #[cfg_attr(feature = "openapi", schema(example = "multiply"))]
    pub operation: String,
    /// The result's id. Null before the operation is completed.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "ct_01k809hp7f0oc1jgldmrvm9s18"))]
    pub result_ciphertext_id: Option<CiphertextId>,
    /// The result, base64. Null before the operation is completed, if `return_ciphertext` is false, and in an
    /// octet-stream's head, because the result then follows the head.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub result_ciphertext: Option<String>,
    /// Wall time of the computation. Null before the operation is completed.
    pub compute_time_ms: Option<f64>,
    /// The remaining noise budget of the result, in percent: the lesser of the remaining levels and the remaining
    /// precision, or 0 when the numbers may overflow the modulus. Known before the operation is computed.
    pub noise_budget_remaining: f64,
    /// Multiplications in a row that the result still allows. A product that was not rescaled owes a level, which is
    /// not counted.
    pub levels_remaining: u64,
    /// Number of bits after the binary point that are correct in every slot of the result, by the bound on the result's
    /// error.
    pub precision_bits: f64,
    /// Ids of the least recently used ciphertexts, which were removed to make room for the result.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub evicted_ciphertext_ids: Vec<CiphertextId>,
    /// Price in compute units (FCU).
    pub cost_units: u64,
    /// Price in yen at the service's rate.
    pub cost_jpy: MicroYen,
    /// Whether the operation was a bootstrap.
    pub bootstrap_applied: bool,
    /// For a bootstrap: number of multiplications in a row that the result allows.
    pub bootstrap_effective_degree: Option<u64>,
    /// For a bootstrap: whether the result's precision is below the precision that the service promises.
    pub bootstrap_degraded: bool,
}

/// The answer to `POST /compute/plan`: what an operation would give and cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComputePlan {
    /// The operation's name.
    #[cfg_attr(feature = "openapi", schema(example = "multiply"))]
    pub operation: String,
    /// The result's level.
    pub level: u64,
    /// Multiplications in a row that the result would still allow. A product that was not rescaled owes a level, which is
    /// not counted.
    pub levels_remaining: u64,
    /// The result's scale. The number is exact if it is read as a double.
    pub scale: f64,
    /// log2 of the scale, to three decimals.
    pub scale_bits: f64,
    /// Bound on the magnitude of every number of the result: `result_bound`, or what follows from the bounds of the
    /// ciphertexts.
    pub value_bound: f64,
    /// Bound on the error of every number of the result: `result_error_bound`, or what follows from the ciphertexts.
    pub error_bound: f64,
    /// Number of bits after the binary point that would be correct in every slot of the result.
    pub precision_bits: f64,
    /// The remaining noise budget of the result, in percent.
    pub noise_budget_remaining: f64,
    /// For a bootstrap: whether the result's precision would be below the precision that the service promises.
    pub bootstrap_degraded: bool,
    /// Number of key switches, which take nearly all of the time: one for each product of two ciphertexts, and one for
    /// each rotation of the key that the operation uses.
    pub key_switches: u64,
    /// Size of the result in bytes.
    pub result_bytes: u64,
    /// Ids of the least recently used ciphertexts, which the operation would remove to make room for the result.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub evicted_ciphertext_ids: Vec<CiphertextId>,
    /// Price in compute units (FCU).
    pub cost_units: u64,
    /// Price in yen at the service's rate.
    pub cost_jpy: MicroYen,
}

/// The answer to `GET /compute/{op_id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComputeStatus {
    /// The operation's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "op_06a7m2q9v1c3k5d8e0f2g4h6j8"))]
    pub op_id: OperationId,
    /// The operation's state.
    pub status: OperationStatus,
    /// The operation's name.
    #[cfg_attr(feature = "openapi", schema(example = "multiply"))]
    pub operation: String,
    /// The result's id, when the operation is completed. `GET /ciphertexts/{ciphertext_id}` reads the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "ct_01k809hp7f0oc1jgldmrvm9s18"))]
    pub result_ciphertext_id: Option<CiphertextId>,
    /// Wall time of the computation, when the operation is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_time_ms: Option<f64>,
    /// Price in compute units (FCU), when the operation has ended: 0 if the operation was not completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_units: Option<u64>,
    /// Why the operation failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<OperationError>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(members: &str) -> Result<ComputeRequest, String> {
        serde_json::from_str(&format!(r#"{{"key_id":"k","ciphertext_ids":["a"]{members}}}"#))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn null_equals_absent_and_whole_numbers_may_be_written_with_a_point() {
        let all = r#","operation":null,"plain_operand":null,"polynomial_coeffs":null,"scale_stable":null,"rotation_steps":null"#;
        assert_eq!(read(all).unwrap(), read("").unwrap());
        for (text, steps) in [("-3", -3), ("2147483648", 1 << 31), ("5.0", 5), ("-0.0", 0)] {
            assert_eq!(read(&format!(r#","rotation_steps":{text}"#)).unwrap().rotation_steps, Some(steps), "{text}");
        }
        for bad in ["0.5", "1e30", "18446744073709551615", "\"1\"", "[1]"] {
            assert!(read(&format!(r#","rotation_steps":{bad}"#)).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_are_read_no_further_than_anything_takes() {
        let list = |count: usize| vec!["1"; count].join(",");
        let plain =
            |count: usize| read(&format!(r#","plain_operand":[{}]"#, list(count))).unwrap().plain_operand.unwrap();
        assert_eq!([0, 3, 20_000].map(|count| plain(count).len()), [0, 3, PLAIN_NUMBERS_MAX + 1]);
        let ids = format!(r#"{{"key_id":"k","ciphertext_ids":[{}]}}"#, vec!["\"c\""; 1000].join(","));
        let request: ComputeRequest = serde_json::from_str(&ids).unwrap();
        assert_eq!(request.ciphertext_ids.len(), CIPHERTEXT_IDS_MAX + 1);
        assert!(read(r#","plain_operand":["1"]"#).is_err());
        assert!(read(r#","plain_operand":[1e999]"#).is_err());
    }
}
