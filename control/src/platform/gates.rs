//! Gate sessions (specification, Gate sessions; readings G1-G14, P24-P30).

mod evaluation;

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::gates::{
    BATCH_GATES_MAX, BatchGate, BatchHead, BatchRequest, BatchResult, BatchResultHead, CIPHERTEXT_BYTES_MAX,
    CreateEvalSession, CreateSession, CreatedSession, DecryptRequest, DecryptResult, EncryptRequest, EncryptResult,
    GateRequest, GateResult, Pricing, Session, Sessions,
};
use axum::Extension;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;

use crate::app::Node;
use crate::auth::Caller;
use crate::billing::tariff;
use crate::body::{Json, JsonBody, base64_ceiling};
use crate::compute::{self, Preset};
use crate::edge::Deadline;
use crate::error::ApiError;
use crate::held_keys::HeldKey;
use crate::key_upload::{KeyOctets, KeyUpload};
use crate::octets::{self, HeadAndWords, OctetsHead, Upload, Written};
use crate::path::PathParts;
use crate::sessions::OpenSession;
use evaluation::{Ran, Work, off_thread, run};

/// Says that the server holds, or held, a secret key (readings G8).
const SECURITY_WARNING: (HeaderName, &str) = (
    HeaderName::from_static("x-security-warning"),
    "the server holds this session's secret key; use POST /api/v1/tfhe/eval-session for real data",
);

impl JsonBody for CreateSession {
    const BYTES_MAX: usize = 64 << 10;
}

impl JsonBody for GateRequest {
    const BYTES_MAX: usize = base64_ceiling(3 * CIPHERTEXT_BYTES_MAX);
}

impl JsonBody for BatchRequest {
    /// Twice the largest honest batch: 1024 MUX gates of 3 ciphertexts of 3.4 KB. What 1024 times the limit of a single
    /// ciphertext would need is no batch of gates.
    const BYTES_MAX: usize = 32 << 20;
}

impl OctetsHead for BatchHead {
    const HEAD_BYTES_MAX: usize = 64 << 10;
    /// As many as the JSON form may have: less than it holds.
    const BYTES_MAX: usize = BatchRequest::BYTES_MAX;
}

impl JsonBody for EncryptRequest {
    const BYTES_MAX: usize = 64 << 10;
}

impl JsonBody for DecryptRequest {
    const BYTES_MAX: usize = base64_ceiling(CIPHERTEXT_BYTES_MAX);
}

/// The price of every gate.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/pricing",
    operation_id = "getGatePricing",
    tag = "Health, models, pricing",
    responses((status = 200, description = "The price list.", body = Pricing))
)]
pub async fn pricing() -> Answer<Pricing> {
    Answer(tariff::pricing())
}

/// Open a demonstration session whose secret key the server makes and holds.
///
/// For trying things out: the server can decrypt everything in it. Use `POST /api/v1/tfhe/eval-session` for real data.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/session",
    operation_id = "createManagedSession",
    tag = "Gate sessions",
    request_body = CreateSession,
    responses((status = 201, description = "The session is open.", body = CreatedSession,
        headers(("X-Security-Warning" = String, description = "The server holds the secret key."))))
)]
pub async fn create_managed(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Json { value: request, .. }: Json<CreateSession>,
) -> Result<(StatusCode, [(HeaderName, &'static str); 1], Answer<CreatedSession>), ApiError> {
    let disabled = || ApiError::new(Code::FeatureDisabled, "sessions with a server-held key are switched off here");
    if !node.config.sessions.allow_server_held_key {
        return Err(disabled());
    }
    let preset = Preset::from_name(&request.preset).ok_or_else(|| {
        let names = Preset::ALL.map(Preset::name).join(", ");
        ApiError::new(Code::InvalidRequest, format!("preset must be one of {names}"))
            .at("preset", format!("not one of {names}"))
    })?;
    let compute = node.compute.clone();
    let opening = node.offload.run(move || {
        let (held, key) = HeldKey::generate(preset).ok_or_else(disabled)?;
        Ok::<_, ApiError>((held, compute.open(key)?))
    });
    let (held, key) = opening.await??;
    let session = node.sessions.open(&caller, key, Some(held)).await?;
    Ok((StatusCode::CREATED, [SECURITY_WARNING], Answer(session.created())))
}

/// Open a blind session on an uploaded evaluation key.
///
/// The preset is found from the key. A key that can decrypt is refused.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/eval-session",
    operation_id = "createEvalSession",
    tag = "Gate sessions",
    request_body(description = "The evaluation key, at most 40 MB decoded: in JSON as base64, or as it is.",
        content((CreateEvalSession = "application/json"), (inline(KeyOctets) = "application/octet-stream"))),
    responses((status = 201, description = "The session is open.", body = CreatedSession))
)]
pub async fn create_blind(
    State(node): State<Arc<Node>>,
    caller: Caller,
    KeyUpload { bytes, reserved }: KeyUpload,
) -> Result<(StatusCode, Answer<CreatedSession>), ApiError> {
    let compute = node.compute.clone();
    let opening = node.offload.run(move || {
        let opened = compute.open_upload(bytes);
        drop(reserved);
        opened
    });
    let session = node.sessions.open(&caller, opening.await??, None).await?;
    Ok((StatusCode::CREATED, Answer(session.created())))
}

/// Evaluate one gate.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/gate",
    operation_id = "evaluateGate",
    tag = "Gate sessions",
    request_body = GateRequest,
    responses((status = 200, description = "The result.", body = GateResult))
)]
pub async fn evaluate(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Extension(deadline): Extension<Deadline>,
    Json { value: request, reserved }: Json<GateRequest>,
) -> Result<Answer<GateResult>, ApiError> {
    let GateRequest { session_id, op, a, b, sel } = request;
    let work = Work::from_text(vec![BatchGate { op, a, b, sel }], |_| String::new())?;
    let ran = run(node, caller, session_id, work, deadline, reserved).await?;
    let mut results = compute::write_results(&ran.key, &ran.outcome);
    Ok(Answer(GateResult {
        result_b64: results.swap_remove(0),
        op: ran.gates[0].name().to_owned(),
        bootstrap_ops: ran.price.bootstrap_ops,
        cost_jpy: ran.price.cost,
        compute_ms: milliseconds(ran.outcome.compute),
    }))
}

/// Evaluate up to 1024 gates that do not depend on one another.
///
/// All or nothing. From 32 gates on, 30 percent off.
///
/// As an octet-stream the request is a head (`BatchHead`) with the operands' ciphertexts behind it, gate after gate; with
/// `Accept: application/octet-stream` so is the answer (`BatchResultHead`, then one ciphertext a gate).
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/batch",
    operation_id = "evaluateBatch",
    tag = "Gate sessions",
    request_body(description = "The gates.",
        content((BatchRequest = "application/json"), (inline(HeadAndWords) = "application/octet-stream"))),
    responses((status = 200, description = "The results, in the order of the gates.",
        content((BatchResult = "application/json"), (inline(HeadAndWords) = "application/octet-stream"))))
)]
pub async fn evaluate_batch(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Extension(deadline): Extension<Deadline>,
    headers: HeaderMap,
    upload: Upload<BatchRequest, BatchHead>,
) -> Result<Response, ApiError> {
    let (session_id, work, reserved) = match upload {
        Upload::Json(Json { value: BatchRequest { session_id, gates }, reserved }) => {
            bounded(gates.len())?;
            (session_id, Work::from_text(gates, |i| format!("gates[{i}]."))?, reserved)
        }
        Upload::Octets { head: BatchHead { session_id, gates, fingerprint }, words, reserved } => {
            bounded(gates.len())?;
            (session_id, Work::from_words(&gates, words, fingerprint)?, reserved)
        }
    };
    let ran = run(node.clone(), caller, session_id, work, deadline, reserved).await?;
    let octets = octets::wanted(&headers);
    let written = off_thread(&node, ran.gates.len(), move || write_batch(&ran, octets)).await??;
    Ok(written.respond(StatusCode::OK, None))
}

/// Refuses a batch of no gates or of too many.
fn bounded(gates: usize) -> Result<(), ApiError> {
    match gates {
        0 => Err(ApiError::new(Code::InvalidRequest, "a batch needs a gate").at("gates", "empty")),
        1..=BATCH_GATES_MAX => Ok(()),
        _ => {
            let message = format!("{gates} gates; at most {BATCH_GATES_MAX} in a batch");
            Err(ApiError::new(Code::BatchTooLarge, message).at("gates", "too many"))
        }
    }
}

fn write_batch(Ran { key, outcome, price, gates }: &Ran, octets: bool) -> Result<Written, ApiError> {
    let (total_bootstrap_ops, total_cost_jpy) = (price.bootstrap_ops, price.cost);
    let (total_compute_ms, batch_discount_applied) = (milliseconds(outcome.compute), price.discounted);
    if octets {
        let results = gates.len();
        let head =
            BatchResultHead { results, total_bootstrap_ops, total_cost_jpy, total_compute_ms, batch_discount_applied };
        let words_bytes = results * compute::words_bytes(key);
        return octets::write_octets(&head, words_bytes, |out| compute::put_results(out, outcome));
    }
    octets::write_json(&BatchResult {
        results_b64: compute::write_results(key, outcome),
        total_bootstrap_ops,
        total_cost_jpy,
        total_compute_ms,
        batch_discount_applied,
    })
}

/// Encrypt a bit with the key that the server holds.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/session/{session_id}/encrypt",
    operation_id = "encryptBit",
    tag = "Gate sessions",
    params(("session_id" = String, Path, description = "A session that is not blind.")),
    request_body = EncryptRequest,
    responses((status = 200, description = "The ciphertext.", body = EncryptResult,
        headers(("X-Security-Warning" = String, description = "The server holds the secret key."))))
)]
pub async fn encrypt(
    State(node): State<Arc<Node>>,
    caller: Caller,
    path: PathParts,
    Json { value: request, .. }: Json<EncryptRequest>,
) -> Result<([(HeaderName, &'static str); 1], Answer<EncryptResult>), ApiError> {
    let session = node.sessions.find(&caller.account, path.get("session_id")).await?;
    let ciphertext = held(&session)?.encrypt(request.bit);
    let ciphertext_b64 = compute::write_single(&session.key, &ciphertext);
    Ok(([SECURITY_WARNING], Answer(EncryptResult { ciphertext_b64 })))
}

/// Decrypt a bit with the key that the server holds.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/session/{session_id}/decrypt",
    operation_id = "decryptBit",
    tag = "Gate sessions",
    params(("session_id" = String, Path, description = "A session that is not blind.")),
    request_body = DecryptRequest,
    responses((status = 200, description = "The bit.", body = DecryptResult,
        headers(("X-Security-Warning" = String, description = "The server holds the secret key."))))
)]
pub async fn decrypt(
    State(node): State<Arc<Node>>,
    caller: Caller,
    path: PathParts,
    Json { value: request, .. }: Json<DecryptRequest>,
) -> Result<([(HeaderName, &'static str); 1], Answer<DecryptResult>), ApiError> {
    let session = node.sessions.find(&caller.account, path.get("session_id")).await?;
    let key = held(&session)?;
    let ciphertext = compute::read_single(&session.key, &request.ciphertext_b64, "ciphertext_b64")?;
    Ok(([SECURITY_WARNING], Answer(DecryptResult { bit: key.decrypt(&ciphertext) })))
}

/// A session and what it has used.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/session/{session_id}",
    operation_id = "getSession",
    tag = "Gate sessions",
    params(("session_id" = String, Path, description = "A session of the account.")),
    responses((status = 200, description = "The session.", body = Session))
)]
pub async fn show(State(node): State<Arc<Node>>, caller: Caller, path: PathParts) -> Result<Answer<Session>, ApiError> {
    Ok(Answer(node.sessions.describe(&caller.account, path.get("session_id")).await?))
}

/// End a session and overwrite its key.
#[utoipa::path(
    delete,
    path = "/api/v1/tfhe/session/{session_id}",
    operation_id = "deleteSession",
    tag = "Gate sessions",
    params(("session_id" = String, Path, description = "A session of the account.")),
    responses((status = 204, description = "The session is gone."))
)]
pub async fn delete(State(node): State<Arc<Node>>, caller: Caller, path: PathParts) -> Result<StatusCode, ApiError> {
    node.sessions.delete(&caller.account, path.get("session_id")).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All open sessions of the account.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/sessions",
    operation_id = "listSessions",
    tag = "Gate sessions",
    responses((status = 200, description = "The sessions, newest first.", body = Sessions))
)]
pub async fn list(State(node): State<Arc<Node>>, caller: Caller) -> Result<Answer<Sessions>, ApiError> {
    Ok(Answer(Sessions { sessions: node.sessions.list(&caller.account).await? }))
}

/// The secret key of a session that is not blind (readings G7).
fn held(session: &OpenSession) -> Result<&HeldKey, ApiError> {
    session.held.as_ref().ok_or_else(|| {
        ApiError::new(
            Code::InvalidRequest,
            "this is a blind session: the server holds no key to encrypt or decrypt with",
        )
    })
}

/// Milliseconds with three decimals (readings G12).
pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
