//! Gate sessions (platform specification, Gate sessions, and the public price list).
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::circuits::{self, CircuitOutputs, CircuitValue};
use crate::{HandleId, MilliYen, SessionId, numbers, objects};

/// Gates in one batch at most (specification, Limits).
pub const BATCH_GATES_MAX: usize = 1024;
/// Decoded bytes of an evaluation key at most (specification, Limits).
pub const EVALUATION_KEY_BYTES_MAX: usize = 40 << 20;
/// Decoded bytes of one ciphertext at most (specification, Limits).
pub const CIPHERTEXT_BYTES_MAX: usize = 2 << 20;
/// Seeds in one head at most: one for each value that a circuit may take.
pub const SEEDS_MAX: usize = 4096;

/// `POST /tfhe/session`: ask the server to make and hold a key. For demonstrations only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateSession {
    /// `fast_128`, `standard_128` or `conservative_128`.
    #[cfg_attr(feature = "openapi", schema(schema_with = names::presets))]
    pub preset: String,
}

/// `POST /tfhe/eval-session`: open a session on a key that the server cannot decrypt with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateEvalSession {
    /// The evaluation key, base64, at most 40 MB decoded. The preset is found from it.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub eval_key_b64: String,
}

/// A session that was just opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedSession {
    /// Names the session in later requests. Keep it as secret as the API key.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: SessionId,
    /// The preset of its key.
    pub preset: String,
    /// Dimension of its ciphertexts.
    pub n: usize,
    /// Degree of its ring.
    pub big_n: usize,
    /// True: the server holds no secret key of this session.
    pub is_blind: bool,
    /// True: another library made its key, and the preset names dimensions only.
    pub imported: bool,
    /// Whose claim its security and failure probability are.
    pub security_claim: SecurityClaim,
    /// When it ends, whatever happens in between.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: String,
}

/// Whose claim the security and the failure probability of a session's key are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SecurityClaim {
    /// The published figures of the preset hold.
    Preset,
    /// The key's maker knows how it was drawn and with which noise. The node does not, and claims nothing.
    Maker,
}

/// Phase of a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SessionState {
    /// Evaluates gates.
    Active,
    /// Its last five minutes: still evaluates gates.
    Idle,
}

/// `GET /tfhe/session/{session_id}`, and an entry of `GET /tfhe/sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Names the session.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: SessionId,
    /// The preset of its key.
    pub preset: String,
    /// Gates evaluated; every gate counts, NOT too, a batch by its gates.
    pub gates_used: u64,
    /// What they cost together.
    pub total_cost_jpy: MilliYen,
    /// Whole seconds since it was opened.
    pub age_s: u64,
    /// True: the server holds no secret key of this session.
    pub is_blind: bool,
    /// True: another library made its key, and the preset names dimensions only.
    pub imported: bool,
    /// Whose claim its security and failure probability are.
    pub security_claim: SecurityClaim,
    /// Phase of its life.
    pub state: SessionState,
    /// When it ends.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub expires_at: String,
}

// Readings I8: the documented member, and those of a page beside it.
/// `GET /tfhe/sessions`: a page of the open sessions of the account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Sessions {
    /// Newest first.
    pub sessions: Vec<Session>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[serde(default)]
    pub has_more: bool,
    /// Sessions on all pages.
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
    /// A bit's ciphertext, base64, or a bit that the node keeps: `hdl_...[5]`, without brackets that of a single bit. For
    /// MUX the result when `sel` is 1.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub a: String,
    /// As `a`; every gate but NOT needs it. For MUX the result when `sel` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub b: Option<String>,
    /// As `a`; MUX's selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub sel: Option<String>,
}

/// The answer to one gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GateResult {
    /// The result's ciphertext, base64, in the form of the operands.
    pub result_b64: String,
    /// The gate, as asked.
    pub op: String,
    /// Bootstrap operations by the tariff.
    pub bootstrap_ops: u64,
    /// What it cost.
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
    /// A bit's ciphertext, base64. For MUX the result when `sel` is 1.
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub a: String,
    /// A bit's ciphertext, base64; every gate but NOT needs it. For MUX the result when `sel` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub b: Option<String>,
    /// A bit's ciphertext, base64; MUX's selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(content_encoding = "base64"))]
    pub sel: Option<String>,
}

/// `POST /tfhe/batch`: gates that do not depend on one another, all or nothing.
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
    /// `ciphertexts` (when absent) or `handles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<CircuitOutputs>,
}

/// The answer to a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResult {
    /// One ciphertext a gate, in the order of the request; none where the results stay on the node.
    pub results_b64: Vec<String>,
    /// Where the results stay on the node: names them all, bit `i` is that of gate `i`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "hdl_7ffa2v48l0ra65d6dqhfmbklcu"))]
    pub handle: Option<HandleId>,
    /// Bootstrap operations by the tariff.
    pub total_bootstrap_ops: u64,
    /// What they cost together, discount applied.
    pub total_cost_jpy: MilliYen,
    /// Wall time of the evaluation.
    pub total_compute_ms: f64,
    /// True from 32 gates on.
    pub batch_discount_applied: bool,
}

// docs/wire-format.md 10
/// The head of `POST /tfhe/batch` as an octet-stream. Behind it the operands' ciphertexts, gate after gate, each gate's in
/// the order a, b, sel and as many as it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchHead {
    /// The session whose key evaluates the gates.
    #[cfg_attr(feature = "openapi", schema(example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: String,
    /// 1 to 1024 names of gates.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1024))]
    pub gates: Vec<String>,
    /// What the operands are taken from: for each value how many of the ciphertexts behind the head are its bits, or the
    /// handle of a result. Absent: the ciphertexts behind the head are the operands.
    #[serde(default, deserialize_with = "circuits::some_inputs", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 4096))]
    pub inputs: Option<Vec<CircuitValue>>,
    /// With `inputs`: for each operand, gate after gate, its place among all bits of `inputs`, from 0. Absent: each is
    /// taken once, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 3072))]
    pub operands: Option<Vec<u64>>,
    /// `ciphertexts` (when absent) or `handles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<CircuitOutputs>,
    /// 16 hexadecimal digits that name the ciphertexts' key. Refused if they name another than the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{16}$"))]
    pub fingerprint: Option<String>,
    /// Of seeded ciphertexts: the seeds, for all that stand behind the head. Absent: whole ciphertexts stand there.
    #[serde(
        default,
        deserialize_with = "objects::some_list::<SEEDS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 4096))]
    pub seeds: Option<Vec<Seed>>,
}

/// Ciphertexts behind a head whose masks are made from a seed, which serves once. Only their bodies are sent, 4 bytes each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Seed {
    /// 64 hexadecimal digits.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{64}$"))]
    pub seed: String,
    /// How many of the ciphertexts behind the head are its, one after another.
    #[serde(deserialize_with = "numbers::whole")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub ciphertexts: u64,
}

/// The head of a batch's answer as an octet-stream. Behind it one ciphertext a gate, in the order of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResultHead {
    /// Ciphertexts behind the head; none where the results stay on the node.
    pub results: usize,
    /// Where the results stay on the node: names them all, bit `i` is that of gate `i`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "hdl_7ffa2v48l0ra65d6dqhfmbklcu"))]
    pub handle: Option<HandleId>,
    /// Bootstrap operations by the tariff.
    pub total_bootstrap_ops: u64,
    /// What they cost together, discount applied.
    pub total_cost_jpy: MilliYen,
    /// Wall time of the evaluation.
    pub total_compute_ms: f64,
    /// True from 32 gates on.
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
    /// The ciphertext, base64.
    pub ciphertext_b64: String,
}

/// `POST /tfhe/session/{session_id}/decrypt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecryptRequest {
    /// A ciphertext of this session, base64.
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
    /// Price by gate name.
    pub rates: BTreeMap<String, Rate>,
    /// What a large batch saves.
    pub batch_discount: BatchDiscount,
}

/// Price of one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// Bootstrap operations charged for it.
    pub bootstrapping_ops: u64,
    /// Their price without discount.
    pub cost_jpy: MilliYen,
}

/// What a large batch saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchDiscount {
    /// Gates in one request from which it applies.
    pub threshold_ops: u64,
    /// Percent off.
    pub discount_pct: u64,
    /// Price of one bootstrap operation with it.
    pub effective_rate_jpy: MilliYen,
}

/// Members whose text is one of a list.
#[cfg(feature = "openapi")]
mod names {
    use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

    pub fn presets() -> Object {
        one_of("The parameters of the key.", &["fast_128", "standard_128", "conservative_128"])
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
