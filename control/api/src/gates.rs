//! Gate sessions (platform specification, Gate sessions, and the public price list).
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::circuits::{self, CircuitOutputs, CircuitValue};
use crate::seeds::{SEEDS_MAX, Seed};
use crate::{HandleId, MilliYen, SessionId, objects};

/// Largest number of gates in one batch (specification, Limits).
pub const BATCH_GATES_MAX: usize = 1024;
/// Largest size of a decoded evaluation key, in bytes (specification, Limits).
pub const EVALUATION_KEY_BYTES_MAX: usize = 40 << 20;
/// Largest size of a decoded ciphertext, in bytes (specification, Limits).
pub const CIPHERTEXT_BYTES_MAX: usize = 2 << 20;

/// `POST /tfhe/session`: ask the server to make and hold a key. For demonstrations only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateSession {
    /// `fast_128`, `standard_128`, `conservative_128`, `fast_128_k2` or `standard_128_k2`.
    #[cfg_attr(feature = "openapi", schema(schema_with = names::presets))]
    pub preset: String,
}

/// `POST /tfhe/eval-session`: open a session with an evaluation key, with which the server cannot decrypt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateEvalSession {
    /// The evaluation key, base64, at most 40 MB decoded. The service determines the preset from the key.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub eval_key_b64: String,
}

/// A session that was just opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedSession {
    /// The session's id, for later requests. Keep the id as secret as the API key.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: SessionId,
    /// The preset of the session's key.
    pub preset: String,
    /// Dimension of the session's ciphertexts.
    pub n: usize,
    /// Degree of the preset's ring.
    pub big_n: usize,
    /// Whether the session is blind: the server does not have the session's secret key.
    pub is_blind: bool,
    /// Whether another library made the key. If so, the preset states only the key's dimensions.
    pub imported: bool,
    /// Which figures for security and failure probability hold for the session's key: those of the preset, or those of
    /// the key's maker.
    pub security_claim: SecurityClaim,
    /// When the session ends. Requests do not prolong the session.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: String,
}

/// Which figures for security and failure probability hold for a session's key: those of its `preset`, or those of the
/// `maker` of an imported key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SecurityClaim {
    /// The published figures of the preset hold.
    Preset,
    /// Only the key's maker knows how the key was drawn and with how much noise, so the node claims nothing.
    Maker,
}

/// State of a session: `active`, or `idle` in its last five minutes. The session evaluates gates in both states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SessionState {
    /// More than five minutes are left.
    Active,
    /// The session ends within five minutes.
    Idle,
}

/// `GET /tfhe/session/{session_id}`, and an entry of `GET /tfhe/sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// The session's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: SessionId,
    /// The preset of the session's key.
    pub preset: String,
    /// Gates that the session has evaluated. NOT counts as a gate; a batch counts as all its gates.
    pub gates_used: u64,
    /// Total cost of the gates that the session has evaluated.
    pub total_cost_jpy: MilliYen,
    /// Whole seconds since the session was opened.
    pub age_s: u64,
    /// Whether the session is blind: the server does not have the session's secret key.
    pub is_blind: bool,
    /// Whether another library made the key. If so, the preset states only the key's dimensions.
    pub imported: bool,
    /// Which figures for security and failure probability hold for the session's key: those of the preset, or those of
    /// the key's maker.
    pub security_claim: SecurityClaim,
    /// The session's state.
    pub state: SessionState,
    /// When the session ends.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: String,
}

// Readings I8: the specification has only the member `sessions`. The service adds the members of a page.
/// `GET /tfhe/sessions`: a page of the open sessions of the account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Sessions {
    /// The sessions, newest first.
    pub sessions: Vec<Session>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[serde(default)]
    pub has_more: bool,
    /// Number of sessions on all pages.
    #[serde(default)]
    pub total_count: u64,
}

/// `POST /tfhe/gate`: one gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GateRequest {
    /// The session whose key evaluates the gate.
    #[cfg_attr(feature = "openapi", schema(example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: String,
    /// `NAND`, `AND`, `OR`, `XOR`, `NOR`, `XNOR`, `NOT` or `MUX`.
    #[cfg_attr(feature = "openapi", schema(schema_with = names::gates))]
    pub op: String,
    /// The first operand: a bit's ciphertext in base64, or a bit of a value that the node keeps: `hdl_...[5]`, or
    /// `hdl_...` for a value of one bit. In a MUX, the result when `sel` is 1.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub a: String,
    /// The second operand, in the form of `a`. Every gate but NOT needs `b`. In a MUX, the result when `sel` is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub b: Option<String>,
    /// The selector of a MUX, in the form of `a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub sel: Option<String>,
}

/// The answer to one gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GateResult {
    /// The result's ciphertext in base64, in the form of the operands.
    pub result_b64: String,
    /// The gate, as in the request.
    pub op: String,
    /// Bootstrap operations that the tariff charges for the gate.
    pub bootstrap_ops: u64,
    /// Cost of the gate.
    pub cost_jpy: MilliYen,
    /// Wall time of the evaluation.
    pub compute_ms: f64,
}

/// One gate of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchGate {
    /// `NAND`, `AND`, `OR`, `XOR`, `NOR`, `XNOR`, `NOT` or `MUX`.
    #[cfg_attr(feature = "openapi", schema(schema_with = names::gates))]
    pub op: String,
    /// The first operand: a bit's ciphertext in base64. In a MUX, the result when `sel` is 1.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub a: String,
    /// The second operand: a bit's ciphertext in base64. Every gate but NOT needs `b`. In a MUX, the result when `sel`
    /// is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub b: Option<String>,
    /// The selector of a MUX: a bit's ciphertext in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub sel: Option<String>,
}

/// `POST /tfhe/batch`: gates that do not depend on one another. Either all gates are evaluated or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchRequest {
    /// The session whose key evaluates the gates.
    #[cfg_attr(feature = "openapi", schema(example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: String,
    /// 1 to 1024 gates.
    #[serde(deserialize_with = "objects::list::<BATCH_GATES_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1024))]
    pub gates: Vec<BatchGate>,
    /// `ciphertexts` (the default) or `handles`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<CircuitOutputs>,
}

/// The answer to a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResult {
    /// The results' ciphertexts in base64, in the order of the gates. Empty when `outputs` is `handles`.
    pub results_b64: Vec<String>,
    /// When `outputs` is `handles`: the handle of all results as one value, whose bit `i` is the result of gate `i`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "hdl_7ffa2v48l0ra65d6dqhfmbklcu"))]
    pub handle: Option<HandleId>,
    /// Bootstrap operations that the tariff charges for the batch.
    pub total_bootstrap_ops: u64,
    /// Cost of the batch, after the discount.
    pub total_cost_jpy: MilliYen,
    /// Wall time of the evaluation.
    pub total_compute_ms: f64,
    /// Whether the batch discount applies: true for 32 gates or more.
    pub batch_discount_applied: bool,
}

// docs/wire-format.md, section 10
/// The head of `POST /tfhe/batch` as an octet-stream. The operands' ciphertexts follow the head, gate after gate, and
/// for each gate in the order a, b, sel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchHead {
    /// The session whose key evaluates the gates.
    #[cfg_attr(feature = "openapi", schema(example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: String,
    /// Names of 1 to 1024 gates.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1024))]
    pub gates: Vec<String>,
    /// The values whose bits are the operands. A number `n` stands for a value whose bits are the next `n` ciphertexts
    /// after the head; a handle stands for a result that the node keeps. Absent means that the ciphertexts after the
    /// head are the operands.
    #[serde(default, deserialize_with = "circuits::some_inputs", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 4096))]
    pub inputs: Option<Vec<CircuitValue>>,
    /// With `inputs`: for each operand, gate after gate, the index of its bit among the bits of all `inputs`, from 0.
    /// Absent means that each bit is used as an operand once, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 3072))]
    pub operands: Option<Vec<u64>>,
    /// `ciphertexts` (the default) or `handles`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<CircuitOutputs>,
    /// Fingerprint of the ciphertexts' key, 16 hexadecimal digits. The node refuses the request if the session's key
    /// has another fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{16}$"))]
    pub fingerprint: Option<String>,
    /// The seeds of the ciphertexts after the head, if these ciphertexts are seeded. Absent means that the ciphertexts
    /// are whole.
    #[serde(
        default,
        deserialize_with = "objects::some_list::<SEEDS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 4096))]
    pub seeds: Option<Vec<Seed>>,
}

/// The head of a batch's answer as an octet-stream. One ciphertext for each gate follows the head, in the order of the
/// request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResultHead {
    /// Number of ciphertexts after the head; 0 when `outputs` is `handles`.
    pub results: usize,
    /// When `outputs` is `handles`: the handle of all results as one value, whose bit `i` is the result of gate `i`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "hdl_7ffa2v48l0ra65d6dqhfmbklcu"))]
    pub handle: Option<HandleId>,
    /// Bootstrap operations that the tariff charges for the batch.
    pub total_bootstrap_ops: u64,
    /// Cost of the batch, after the discount.
    pub total_cost_jpy: MilliYen,
    /// Wall time of the evaluation.
    pub total_compute_ms: f64,
    /// Whether the batch discount applies: true for 32 gates or more.
    pub batch_discount_applied: bool,
}

/// `POST /tfhe/session/{session_id}/encrypt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EncryptRequest {
    /// The bit to encrypt.
    pub bit: bool,
}

/// An encrypted bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EncryptResult {
    /// The ciphertext in base64.
    pub ciphertext_b64: String,
}

/// `POST /tfhe/session/{session_id}/decrypt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecryptRequest {
    /// A ciphertext of this session in base64.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub ciphertext_b64: String,
}

/// A decrypted bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecryptResult {
    /// The bit.
    pub bit: bool,
}

/// `GET /tfhe/pricing`: the public price list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pricing {
    /// `JPY`.
    #[cfg_attr(feature = "openapi", schema(example = "JPY"))]
    pub currency: String,
    /// Price of each gate, by the gate's name.
    pub rates: BTreeMap<String, Rate>,
    /// The discount on large batches.
    pub batch_discount: BatchDiscount,
}

/// Price of one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// Bootstrap operations that are charged for the gate.
    pub bootstrapping_ops: u64,
    /// Price of these operations, without discount.
    pub cost_jpy: MilliYen,
}

/// The discount on large batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchDiscount {
    /// Smallest number of gates in one request for which the discount applies.
    pub threshold_ops: u64,
    /// The discount in percent.
    pub discount_pct: u64,
    /// Price of one bootstrap operation with the discount.
    pub effective_rate_jpy: MilliYen,
}

/// Schemas of members whose value is one name from a fixed list.
#[cfg(feature = "openapi")]
mod names {
    use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

    pub fn presets() -> Object {
        let names = ["fast_128", "standard_128", "conservative_128", "fast_128_k2", "standard_128_k2"];
        one_of("The parameters of the key.", &names)
    }

    pub fn gates() -> Object {
        let gates = ["NAND", "AND", "OR", "XOR", "NOR", "XNOR", "NOT", "MUX"];
        one_of("The gate. MUX gives `a` when `sel` is 1, `b` when it is 0.", &gates)
    }

    fn one_of(what: &str, names: &[&'static str]) -> Object {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(what))
            .enum_values(Some(names.iter().copied()))
            .build()
    }
}
