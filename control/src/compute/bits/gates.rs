//! Gate sessions (specification, Gate sessions; readings G1-G14, P24-P30).

mod evaluation;
mod operands;

use std::sync::Arc;

use api::Code;
use api::circuits::CircuitOutputs;
use api::gates::{
    BATCH_GATES_MAX, BatchGate, BatchHead, BatchRequest, BatchResult, BatchResultHead, CIPHERTEXT_BYTES_MAX,
    CreateEvalSession, CreateSession, CreatedSession, DecryptRequest, DecryptResult, EncryptRequest, EncryptResult,
    GateRequest, GateResult, Session, Sessions,
};
use api::pages::Page;
use axum::Extension;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use store::FleetKey;

use crate::access::limits::Quota;
use crate::billing::charge::milliseconds;
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::bits::key_upload::{KeyOctets, KeyUpload};
use crate::compute::bits::sessions::OpenSession;
use crate::compute::held_keys::HeldKey;
use crate::resource::Payer;
use crate::web::body::{Json, JsonBody, base64_ceiling};
use crate::web::edge::Deadline;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::octets::{self, HeadAndWords, JsonOrOctets, OctetsHead};
use crate::web::openapi::BODY;
use crate::web::pagination::PageQuery;
use crate::web::path::PathParts;
use crate::work::{self, Preset, Seeds, StoredKey};
use evaluation::{AnswerForm, EvaluatedGates, EvaluationRequest, RequestedGates, run};
use operands::OctetOperands;

/// Errors for a session that is not open.
const NO_SESSION: [Code; 2] = [Code::SessionNotFound, Code::SessionExpired];
/// Errors of requests for gates.
const GATES: [Code; 5] = [
    Code::InvalidGateOp,
    Code::MissingOperand,
    Code::InvalidCiphertext,
    Code::TrialOpsExhausted,
    Code::BudgetHardCapHit,
];
/// Largest number of sessions in a list that was requested without a limit.
const SESSIONS_LISTED_MAX: u32 = 1000;
/// The header for sessions whose secret key the server holds (readings G8).
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
    /// About twice the size of the largest useful batch: 1024 MUX gates with 3 ciphertexts of 3.4 KB each. A single
    /// ciphertext may be far larger, but no useful batch has many such ciphertexts.
    const BYTES_MAX: usize = 32 << 20;
}

impl OctetsHead for BatchHead {
    const HEAD_BYTES_MAX: usize = 64 << 10;
    /// The limit of the JSON form, which is longer than the octet-stream form.
    const BYTES_MAX: usize = BatchRequest::BYTES_MAX;
}

impl JsonBody for EncryptRequest {
    const BYTES_MAX: usize = 64 << 10;
}

impl JsonBody for DecryptRequest {
    const BYTES_MAX: usize = base64_ceiling(CIPHERTEXT_BYTES_MAX);
}

/// Open a demonstration session whose secret key the server makes and holds.
///
/// For demonstrations only: the server can decrypt all data of the session. Use `POST /api/v1/tfhe/eval-session` for real data.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/session",
    operation_id = "createManagedSession",
    tag = "Gate sessions",
    request_body = CreateSession,
    responses((status = 201, description = "The session is open.", body = CreatedSession,
        headers(("X-Security-Warning" = String, description = "The server holds the secret key.")))),
    extensions(("x-errors" = json!([Code::SecretKeyRejected, Code::QuotaExceeded, Code::FeatureDisabled, BODY])))
)]
pub async fn create_managed(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    Json { value: request, .. }: Json<CreateSession>,
) -> Result<Response, ApiError> {
    let disabled = || {
        ApiError::new(
            Code::FeatureDisabled,
            "the operator of this node has switched sessions with a server-held key off",
        )
    };
    if !compute.sessions.config.allow_server_held_key {
        return Err(disabled());
    }
    // readings G13
    if compute.sessions.shared().is_some() {
        let message = "keys that the server holds never leave their process, so a fleet has none";
        return Err(ApiError::new(Code::FeatureDisabled, message));
    }
    let preset = Preset::from_name(&request.preset).ok_or_else(|| {
        let names = Preset::ALL.map(Preset::name).join(", ");
        ApiError::new(Code::InvalidRequest, format!("preset must be one of {names}"))
            .at("preset", format!("not one of {names}"))
    })?;
    let (keys, account, payer) = (compute.keys.clone(), caller.account.clone(), Payer::from(&caller));
    let making = compute.offload.run(payer.clone(), move || {
        let (held, key) = HeldKey::generate(preset).ok_or_else(disabled)?;
        Ok::<_, ApiError>((held, keys.take(key, &account, &payer)?))
    });
    let (held, key) = making.await??;
    open(compute, caller, claim, key.write().await?, Some(held)).await
}

/// Opens a session and returns the answer. Runs in a separate task, so that the session and its answer are stored
/// together or not at all, even if the client leaves.
async fn open(
    compute: Arc<Compute>,
    caller: Caller,
    claim: Claim,
    key: StoredKey,
    held: Option<HeldKey>,
) -> Result<Response, ApiError> {
    let session = compute.sessions.make(&caller, &compute.keys, key, held).await?;
    record(compute, caller, claim, session, None).await
}

/// Writes the row of a session with the stored answer, and answers. `key`: the key at rest of a session of the fleet.
async fn record(
    compute: Arc<Compute>,
    caller: Caller,
    claim: Claim,
    session: Arc<OpenSession>,
    key: Option<FleetKey>,
) -> Result<Response, ApiError> {
    let opened = tokio::spawn(async move {
        let mut answer = (StatusCode::CREATED, Answer(session.created())).into_response();
        if !session.record.is_blind {
            let (name, words) = SECURITY_WARNING;
            answer.headers_mut().insert(name, HeaderValue::from_static(words));
        }
        let (answer, kept) = claim.keep(answer).await?;
        let open_max = compute.limits.of(caller.plan).open_sessions;
        match &key {
            None => compute.sessions.open(&caller, session, open_max, kept.as_ref()).await?,
            Some(key) => compute.sessions.record_shared(&caller, session, key, open_max, kept.as_ref()).await?,
        }
        Ok(answer)
    });
    opened.await?
}

/// Open a blind session on an uploaded evaluation key.
///
/// The service finds the preset from the key. A key that can decrypt is refused. Keys of node-tfhe 0.9.1 and earlier are
/// taken, but gates under them give wrong bits, because their levels are in the other order and nothing in the key tells
/// this. Under a key of an unknown version, compute a gate on bits that you know first.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/eval-session",
    operation_id = "createEvalSession",
    tag = "Gate sessions",
    request_body(description = "The evaluation key, at most 40 MB decoded: in JSON as base64, or as it is.",
        content((CreateEvalSession = "application/json"), (inline(KeyOctets) = "application/octet-stream"))),
    responses((status = 201, description = "The session is open.", body = CreatedSession)),
    extensions(("x-errors" = json!([Code::InvalidParams, Code::SecretKeyRejected, Code::QuotaExceeded, BODY])))
)]
pub async fn create_blind(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    KeyUpload { bytes, reserved }: KeyUpload,
) -> Result<Response, ApiError> {
    if let Some(shared) = compute.sessions.shared().cloned() {
        let (session, key) = compute.sessions.open_shared(&caller, &shared, &compute.offload, bytes).await?;
        // frees the upload's memory
        drop(reserved);
        return record(compute, caller, claim, session, Some(key)).await;
    }
    let (keys, account, payer) = (compute.keys.clone(), caller.account.clone(), Payer::from(&caller));
    let reading = compute.offload.run(payer.clone(), move || keys.read(bytes, &account, &payer));
    let key = reading.await??.write().await?;
    // frees the upload's memory
    drop(reserved);
    open(compute, caller, claim, key, None).await
}

/// Evaluate one gate.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/gate",
    operation_id = "evaluateGate",
    tag = "Gate sessions",
    request_body = GateRequest,
    responses((status = 200, description = "The result.", body = GateResult)),
    extensions(("x-errors" = json!([GATES, Code::SecretKeyRejected, NO_SESSION, BODY])))
)]
pub async fn evaluate(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    Extension(deadline): Extension<Deadline>,
    Json { value: request, reserved }: Json<GateRequest>,
) -> Result<Response, ApiError> {
    let GateRequest { session_id, op, a, b, sel } = request;
    let work = RequestedGates::from_text(vec![BatchGate { op, a, b, sel }], |_| String::new())?;
    let (outputs, answer) = (CircuitOutputs::Ciphertexts, AnswerForm { octets: false, write: write_gate });
    let asked = EvaluationRequest { session_id, work, outputs, reserved, answer };
    run(compute, caller, claim, asked, deadline).await
}

fn write_gate(ran: EvaluatedGates, _octets: bool) -> Result<Response, ApiError> {
    let mut results = work::write_results(&ran.key, &ran.outcome);
    let result = GateResult {
        result_b64: results.swap_remove(0),
        op: ran.gates[0].name().to_owned(),
        bootstrap_ops: ran.price.bootstrap_ops,
        cost_jpy: ran.price.cost,
        compute_ms: milliseconds(ran.outcome.compute),
    };
    Ok(Answer(result).into_response())
}

/// Evaluate up to 1024 gates that do not depend on one another.
///
/// All gates are evaluated or none. From 32 gates on the price is 30 percent lower. When `outputs` is `handles`, the
/// results stay on the node as one value under one handle, with one bit for each gate. Later gates can take its bits as
/// operands, and circuits can take the value as an input.
///
/// The request as an octet-stream is a head (`BatchHead`), then the operands' ciphertexts, gate after gate. For seeded
/// ciphertexts only the bodies are sent. With `Accept: application/octet-stream` the answer is an octet-stream too: a
/// head (`BatchResultHead`), then one ciphertext for each gate.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/batch",
    operation_id = "evaluateBatch",
    tag = "Gate sessions",
    request_body(description = "The gates.",
        content((BatchRequest = "application/json"), (inline(HeadAndWords) = "application/octet-stream"))),
    responses((status = 200, description = "The results, in the order of the gates.",
        content((BatchResult = "application/json"), (inline(HeadAndWords) = "application/octet-stream")))),
    extensions(("x-errors" = json!([Code::BatchTooLarge, GATES, Code::SecretKeyRejected, NO_SESSION, BODY])))
)]
pub async fn evaluate_batch(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    Extension(deadline): Extension<Deadline>,
    headers: HeaderMap,
    quota: Quota,
    upload: JsonOrOctets<BatchRequest, BatchHead>,
) -> Result<Response, ApiError> {
    let (session_id, work, outputs, reserved) = match upload {
        JsonOrOctets::Json(Json { value: BatchRequest { session_id, gates, outputs }, reserved }) => {
            bounded(gates.len())?;
            (session_id, RequestedGates::from_text(gates, |i| format!("gates[{i}]."))?, outputs, reserved)
        }
        JsonOrOctets::Octets { head, words, reserved } => {
            let BatchHead { session_id, gates, inputs, operands, outputs, fingerprint, seeds } = head;
            bounded(gates.len())?;
            let seeds = seeds.as_deref().map(Seeds::of).transpose()?;
            let octets = OctetOperands { words, fingerprint, seeds, inputs, operands };
            (session_id, RequestedGates::from_octets(&gates, octets)?, outputs, reserved)
        }
    };
    let outputs = outputs.unwrap_or_default();
    compute.limits.count_gates(&quota, work.gates(), compute.clock.now()).await?;
    let answer = AnswerForm { octets: octets::wanted(&headers), write: write_batch };
    run(compute, caller, claim, EvaluationRequest { session_id, work, outputs, reserved, answer }, deadline).await
}

/// Refuses a batch that has no gates or too many gates.
fn bounded(gates: usize) -> Result<(), ApiError> {
    match gates {
        0 => Err(ApiError::new(Code::InvalidRequest, "a batch needs at least one gate").at("gates", "empty")),
        1..=BATCH_GATES_MAX => Ok(()),
        _ => {
            // the number of gates is not known, because reading stops at the limit
            let message = format!("a batch has at most {BATCH_GATES_MAX} gates");
            Err(ApiError::new(Code::BatchTooLarge, message).at("gates", "too many"))
        }
    }
}

fn write_batch(
    EvaluatedGates { key, outcome, price, gates, handle }: EvaluatedGates,
    octets: bool,
) -> Result<Response, ApiError> {
    let (total_bootstrap_ops, total_cost_jpy) = (price.bootstrap_ops, price.cost);
    let (total_compute_ms, batch_discount_applied) = (milliseconds(outcome.compute), price.discounted);
    if octets {
        let results = if handle.is_some() { 0 } else { gates.len() };
        let head = BatchResultHead {
            results,
            handle,
            total_bootstrap_ops,
            total_cost_jpy,
            total_compute_ms,
            batch_discount_applied,
        };
        return Ok(octets::write_octets(&head, vec![outcome.into_results().into_words()])?.respond(StatusCode::OK));
    }
    let written = octets::write_json(&BatchResult {
        results_b64: work::write_results(&key, &outcome),
        handle,
        total_bootstrap_ops,
        total_cost_jpy,
        total_compute_ms,
        batch_discount_applied,
    });
    Ok(written?.respond(StatusCode::OK))
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
        headers(("X-Security-Warning" = String, description = "The server holds the secret key.")))),
    extensions(("x-errors" = json!([Code::SecretKeyRejected, NO_SESSION, BODY])))
)]
pub async fn encrypt(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
    Json { value: request, .. }: Json<EncryptRequest>,
) -> Result<([(HeaderName, &'static str); 1], Answer<EncryptResult>), ApiError> {
    let session = compute.sessions.find(&caller.account, path.get("session_id")).await?;
    let ciphertext = held(&session)?.encrypt(request.bit);
    let ciphertext_b64 = work::write_single(&session.key, &ciphertext);
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
        headers(("X-Security-Warning" = String, description = "The server holds the secret key.")))),
    extensions(("x-errors" = json!([Code::InvalidCiphertext, Code::SecretKeyRejected, NO_SESSION, BODY])))
)]
pub async fn decrypt(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
    Json { value: request, .. }: Json<DecryptRequest>,
) -> Result<([(HeaderName, &'static str); 1], Answer<DecryptResult>), ApiError> {
    let session = compute.sessions.find(&caller.account, path.get("session_id")).await?;
    let key = held(&session)?;
    let ciphertext = work::read_single(&session.key, &request.ciphertext_b64, "ciphertext_b64")?;
    Ok(([SECURITY_WARNING], Answer(DecryptResult { bit: key.decrypt(&ciphertext) })))
}

/// A session and its totals.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/session/{session_id}",
    operation_id = "getSession",
    tag = "Gate sessions",
    params(("session_id" = String, Path, description = "A session of the account.")),
    responses((status = 200, description = "The session.", body = Session)),
    extensions(("x-errors" = json!(NO_SESSION)))
)]
pub async fn show(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<Session>, ApiError> {
    Ok(Answer(compute.sessions.describe(&caller.account, path.get("session_id")).await?))
}

/// End a session and overwrite its key.
#[utoipa::path(
    delete,
    path = "/api/v1/tfhe/session/{session_id}",
    operation_id = "deleteSession",
    tag = "Gate sessions",
    params(("session_id" = String, Path, description = "A session of the account.")),
    responses((status = 204, description = "The session is deleted.")),
    extensions(("x-errors" = json!(NO_SESSION)))
)]
pub async fn delete(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<StatusCode, ApiError> {
    compute.sessions.delete(&caller.account, path.get("session_id")).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All open sessions of the account, on all nodes. With `limit`, one page for each request.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/sessions",
    operation_id = "listSessions",
    tag = "Gate sessions",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many sessions a page has; when absent, the list has all sessions, up to 1000."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "The sessions, newest first.", body = Sessions)),
    extensions(("x-errors" = json!([Code::InvalidRequest])))
)]
pub async fn list(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    query: PageQuery,
) -> Result<Answer<Sessions>, ApiError> {
    // by the specification the list is complete, so only a request with `limit` gets a page (readings I8)
    let query = query.whole_up_to(SESSIONS_LISTED_MAX);
    let Page { items, next_cursor, has_more, total_count } = compute.sessions.list(&caller.account, &query).await?;
    Ok(Answer(Sessions { sessions: items, next_cursor, has_more, total_count }))
}

/// Returns the secret key of a session, or an error if the session is blind (readings G7).
fn held(session: &OpenSession) -> Result<&HeldKey, ApiError> {
    session.held.as_ref().ok_or_else(|| {
        ApiError::new(
            Code::InvalidRequest,
            "this is a blind session: the server holds no key to encrypt or decrypt with",
        )
    })
}
