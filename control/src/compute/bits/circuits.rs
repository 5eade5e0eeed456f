//! Circuits (an addition that the specification's Versioning 2 allows): stored by name, run in one request, in the
//! foreground or in the background.
//!
//! A run is charged like gates, by the tariff of the circuit's gates, when all of them are completed. A run that fails,
//! exceeds its deadline or is cancelled costs nothing. If the client leaves, the run goes on and is charged in the same
//! way (readings P24).

mod kept;
mod netlist;
mod prepare;
mod recorded_run;
mod running;
mod stored;

use std::sync::Arc;
use std::time::Instant;

use api::circuits::{
    CIRCUIT_TEXT_BYTES_MAX, CancelledOperation, CircuitFacts, CircuitOperation, CircuitRequest, CircuitValue, Circuits,
    KeptValue, OperationStatus,
};
use api::pages::Page;
use api::{Code, HandleId};
use axum::Extension;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use store::CircuitRecord;

use crate::access::limits::Quota;
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::bits::workbench::{Output, Room, VALUES_BYTES_MAX, no_room, unknown_handle};
use crate::compute::operation::life::Reply;
use crate::web::body::{Json, JsonBody, base64_ceiling};
use crate::web::edge::Deadline;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::octets::{self, HeadAndWords, JsonOrOctets, OctetsHead};
use crate::web::openapi::BODY;
use crate::web::pagination::{PageQuery, Position};
use crate::web::path::PathParts;
use crate::web::prefer::client_does_not_wait;
use crate::work::{self, OpenKey};
use kept::CircuitText;
use prepare::RunRequest;
use recorded_run::RecordedRun;

pub use running::resume;
pub use stored::StoredNetlists;

/// Errors of a request with a handle under which the session stores no ciphertext.
const NO_HANDLE: [Code; 3] = [Code::SessionNotFound, Code::CiphertextNotFound, Code::SessionExpired];

impl JsonBody for CircuitRequest {
    /// Room for the ciphertexts in base64 and for the text of a netlist. The text gets an eighth more bytes, because in
    /// JSON each line break takes two characters.
    const BYTES_MAX: usize = base64_ceiling(VALUES_BYTES_MAX) + CIRCUIT_TEXT_BYTES_MAX / 8 * 9;
}

impl OctetsHead for CircuitRequest {
    const HEAD_BYTES_MAX: usize = CIRCUIT_TEXT_BYTES_MAX / 8 * 9 + (256 << 10);
    const BYTES_MAX: usize = VALUES_BYTES_MAX + Self::HEAD_BYTES_MAX;
}

/// Store a circuit under a name.
///
/// The body is a netlist in Bristol Fashion: `gates wires`; `inputs width...`; `outputs width...`; then one line for each
/// gate, `fan_in fan_out in... out... OP` with XOR, AND, INV, EQ, EQW or MAND. The older Bristol format is read too, whose
/// second line has the widths of two inputs and of the output, without a third line. Our additions are the gates OR, NAND,
/// NOR, XNOR, NOT and MUX (operands `a b sel`, the value `a` if `sel` is true). The node checks the whole netlist; an error
/// names the line at fault. The circuit replaces an older circuit with the same name.
#[utoipa::path(
    put,
    path = "/api/v1/tfhe/circuits/{name}",
    operation_id = "putCircuit",
    tag = "Circuits",
    params(("name" = String, Path, pattern = "^[a-z0-9][a-z0-9_-]{0,63}$",
        description = "1 to 64 of the characters a-z, 0-9, _ and -; the first is a letter or a digit.")),
    request_body(
        content = String,
        content_type = "text/plain",
        description = "The netlist, UTF-8, at most 32 MB.",
        example = "1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n",
    ),
    responses(
        (status = 201, description = "The circuit is stored under a new name.", body = CircuitFacts),
        (status = 200, description = "The circuit has replaced an older circuit with the same name.", body = CircuitFacts),
    ),
    extensions(("x-errors" = json!([Code::InvalidParams, Code::QuotaExceeded, Code::PayloadTooLarge])))
)]
pub async fn put(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
    text: CircuitText,
) -> Result<(StatusCode, Answer<CircuitFacts>), ApiError> {
    let (created, facts) = kept::put(&compute, &caller, path.get("name"), text).await?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Answer(facts)))
}

/// The stored circuits of the account, one page for each request.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/circuits",
    operation_id = "listCircuits",
    tag = "Circuits",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many circuits a page has; 20 when absent."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "The circuits, newest `created_at` first.", body = Circuits)),
    extensions(("x-errors" = json!([Code::InvalidRequest])))
)]
pub async fn list(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    query: PageQuery,
) -> Result<Answer<Circuits>, ApiError> {
    let rows = compute.store.circuits_page(caller.account.as_str(), query.after_text()?, query.rows_wanted()).await?;
    let position = |row: &CircuitRecord| Position { created_at: row.created_at, id: row.name.clone().into_bytes() };
    let Page { items, next_cursor, has_more, total_count } = query.page(rows, position);
    let circuits = items.into_iter().map(kept::facts).collect::<Result<_, _>>()?;
    Ok(Answer(Circuits { circuits, next_cursor, has_more, total_count }))
}

/// Show a stored circuit: its size, gates, levels, inputs and outputs.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/circuits/{name}",
    operation_id = "getCircuit",
    tag = "Circuits",
    params(("name" = String, Path, description = "The name of a circuit of the account.")),
    responses((status = 200, description = "The circuit's facts.", body = CircuitFacts)),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn show(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<CircuitFacts>, ApiError> {
    let record = compute.store.circuit(caller.account.as_str(), path.get("name")).await?;
    Ok(Answer(kept::facts(record.ok_or_else(unknown_circuit)?)?))
}

/// Delete a stored circuit.
#[utoipa::path(
    delete,
    path = "/api/v1/tfhe/circuits/{name}",
    operation_id = "deleteCircuit",
    tag = "Circuits",
    params(("name" = String, Path, description = "The name of a circuit of the account.")),
    responses((status = 204, description = "The circuit is deleted.")),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn delete(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<StatusCode, ApiError> {
    let forgotten = compute.store.delete_circuit(caller.account.as_str(), path.get("name")).await?;
    compute.netlists.forget(forgotten.ok_or_else(unknown_circuit)?.blob).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Run a circuit on encrypted numbers.
///
/// `circuit` is a netlist in Bristol Fashion or the name of a stored circuit; a text with a line break is a netlist.
/// Each input is a list of ciphertexts, bit 0 first, or the handle of an earlier result of the same session.
/// Intermediate results do not leave the node. When `outputs` is `handles`, the results stay on the node too, until
/// they are deleted or the session ends. In the last five minutes of a session the node keeps no new results.
///
/// A run is charged when all its gates are completed, by the tariff of the gates, with a discount of 30 percent from 32
/// gates on. A run that fails, exceeds its deadline or is cancelled costs nothing.
///
/// With `Prefer: respond-async` the answer comes at once, with the status `pending`. `GET
/// /api/v1/tfhe/circuits/operations/{op_id}` then returns the run's progress, and its results when it is completed.
///
/// In a fleet, a long run outlives the node that answers. Until the first request is answered, the same request with the same
/// `Idempotency-Key` gets the run with the status `pending`.
///
/// The request as an octet-stream is a head, then the ciphertexts. The head is the JSON with a number in place of each
/// list: how many of the ciphertexts belong to that list. With `Accept: application/octet-stream` the answer has this
/// form too.
#[utoipa::path(
    post,
    path = "/api/v1/tfhe/circuits",
    operation_id = "runCircuit",
    tag = "Circuits",
    params(("Prefer" = Option<String>, Header, description = "`respond-async`: do not wait for the results.")),
    request_body(description = "The circuit and its inputs.",
        content((CircuitRequest = "application/json"), (inline(HeadAndWords) = "application/octet-stream"))),
    responses((status = 200, description = "The completed run with its results; with `Prefer: respond-async`, the pending run.",
        content((CircuitOperation = "application/json"), (inline(HeadAndWords) = "application/octet-stream")),
        headers(("Preference-Applied" = Option<String>, description = "`respond-async` if the node applied it.")))),
    extensions(("x-errors" = json!([
        Code::InvalidParams, Code::InvalidCiphertext, Code::SecretKeyRejected, Code::QuotaExceeded,
        Code::TrialOpsExhausted, Code::BudgetHardCapHit, Code::NotFound, NO_HANDLE, Code::Conflict, BODY,
        Code::RateLimited
    ])))
)]
pub async fn run(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    Extension(Deadline(deadline)): Extension<Deadline>,
    headers: HeaderMap,
    quota: Quota,
    upload: JsonOrOctets<CircuitRequest, CircuitRequest>,
) -> Result<Response, ApiError> {
    let given = match upload {
        JsonOrOctets::Json(Json { value, reserved }) => RunRequest { request: value, words: None, reserved, quota },
        JsonOrOctets::Octets { head, words, reserved } => {
            RunRequest { request: head, words: Some(words), reserved, quota }
        }
    };
    let waits = !client_does_not_wait(&headers);
    let deadline = if waits { deadline } else { Instant::now() + compute.circuits.deadline };
    running::run(&compute, caller, given, deadline, Reply { claim, octets: octets::wanted(&headers), waits }).await
}

/// The progress of a circuit's run, and its results when it is completed.
///
/// The results of a run with `Prefer: respond-async` can be read until the session ends, the run is deleted or a day has
/// passed. Results under handles can be read as long as the handles exist. The node keeps the record of a run for a day.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/circuits/operations/{op_id}",
    operation_id = "getCircuitOperation",
    tag = "Circuits",
    params(("op_id" = String, Path, description = "The id of a run of the account.")),
    responses((status = 200, description = "The run.",
        content((CircuitOperation = "application/json"), (inline(HeadAndWords) = "application/octet-stream")))),
    extensions(("x-errors" = json!([Code::OperationNotFound, Code::QuotaExceeded])))
)]
pub async fn operation(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    headers: HeaderMap,
    path: PathParts,
) -> Result<Response, ApiError> {
    let found = RecordedRun::find(&compute, &caller, path.get("op_id")).await?;
    let operation = found.operation(&compute)?;
    let completed = operation.status == OperationStatus::Completed;
    let results = if completed { found.results().await? } else { None };
    let (Some(session), Some(outputs)) = (&found.session, results) else {
        return without_results(&operation, octets::wanted(&headers));
    };
    let room = session.bench.memory.reserve(bytes_of(&session.key, &outputs)).map_err(no_room)?;
    answer(&compute, *session.key, operation, outputs, room, octets::wanted(&headers)).await
}

/// Cancel a circuit's run, or delete the results of a run that has ended.
///
/// The answer comes when the run has ended. If the run was completed before it could be cancelled, `cancelled` is false and
/// the whole run is charged.
#[utoipa::path(
    delete,
    path = "/api/v1/tfhe/circuits/operations/{op_id}",
    operation_id = "cancelCircuitOperation",
    tag = "Circuits",
    params(("op_id" = String, Path, description = "The id of a run of the account.")),
    responses((status = 200, description = "Whether the run was cancelled.", body = CancelledOperation)),
    extensions(("x-errors" = json!([Code::OperationNotFound])))
)]
pub async fn cancel(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<CancelledOperation>, ApiError> {
    Ok(Answer(recorded_run::cancel(&compute, &caller, path.get("op_id")).await?))
}

/// Read a result that the node keeps.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/session/{session_id}/handles/{handle}",
    operation_id = "getHandle",
    tag = "Circuits",
    params(
        ("session_id" = String, Path, description = "A session of the account."),
        ("handle" = String, Path, description = "The handle of a result of that session."),
    ),
    responses((status = 200, description = "The result's ciphertexts.",
        content((KeptValue = "application/json"), (inline(HeadAndWords) = "application/octet-stream")))),
    extensions(("x-errors" = json!([Code::QuotaExceeded, NO_HANDLE])))
)]
pub async fn read_handle(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    headers: HeaderMap,
    path: PathParts,
) -> Result<Response, ApiError> {
    let session = compute.sessions.find(&caller.account, path.get("session_id")).await?;
    let handle: HandleId = path.get("handle").parse().map_err(|_| unknown_handle(None))?;
    let value = session.bench.value(&handle).await?.ok_or_else(|| unknown_handle(None))?;
    let key = *session.key;
    let room = session.bench.memory.reserve(value_bytes(&key, value.bits.len())).map_err(no_room)?;
    let (octets, bits) = (octets::wanted(&headers), value.bits.len() as u64);
    let written = compute.offload.run((&caller).into(), move || {
        if octets {
            octets::write_octets(
                &KeptValue { handle, bits, ciphertexts_b64: None },
                vec![value.bits.clone().into_words()],
            )
        } else {
            let ciphertexts_b64 = Some(work::write_value(&key, &value.bits, value.form));
            octets::write_json(&KeptValue { handle, bits, ciphertexts_b64 })
        }
    });
    Ok(written.await??.respond_within(StatusCode::OK, room))
}

/// Delete a result that the node keeps.
#[utoipa::path(
    delete,
    path = "/api/v1/tfhe/session/{session_id}/handles/{handle}",
    operation_id = "deleteHandle",
    tag = "Circuits",
    params(
        ("session_id" = String, Path, description = "A session of the account."),
        ("handle" = String, Path, description = "The handle of a result of that session."),
    ),
    responses((status = 204, description = "The result is deleted.")),
    extensions(("x-errors" = json!(NO_HANDLE)))
)]
pub async fn delete_handle(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<StatusCode, ApiError> {
    let session = compute.sessions.find(&caller.account, path.get("session_id")).await?;
    let handle: HandleId = path.get("handle").parse().map_err(|_| unknown_handle(None))?;
    match session.bench.forget(&handle).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown_handle(None)),
    }
}

/// Writes the answer about a run, without the outputs, in the requested form.
fn without_results(operation: &CircuitOperation, octets: bool) -> Result<Response, ApiError> {
    let written = if octets { octets::write_octets(operation, Vec::new()) } else { octets::write_json(operation) };
    Ok(written?.respond(StatusCode::OK))
}

/// Writes the answer about a run, with the outputs, in the requested form.
async fn answer(
    compute: &Compute,
    key: OpenKey,
    mut operation: CircuitOperation,
    outputs: Vec<Output>,
    room: Room,
    octets: bool,
) -> Result<Response, ApiError> {
    let payer = room.payer().clone();
    let written = compute.offload.finish(payer, move || {
        operation.outputs = Some(outputs.iter().map(|output| described(&key, output, octets)).collect());
        if !octets {
            return octets::write_json(&operation);
        }
        let values = outputs.iter().filter_map(|output| match output {
            Output::Handle(_) => None,
            Output::Value(value) => Some(value.bits.clone().into_words()),
        });
        octets::write_octets(&operation, values.collect())
    });
    Ok(written.await??.respond_within(StatusCode::OK, room))
}

/// Writes an output as a member of the answer: its handle, or its ciphertexts. The head of an octet-stream contains
/// only the number of the output's ciphertexts.
fn described(key: &OpenKey, output: &Output, octets: bool) -> CircuitValue {
    match output {
        Output::Handle(handle) => CircuitValue::Handle(handle.as_str().to_owned()),
        Output::Value(value) if octets => CircuitValue::Bits(value.bits.len() as u64),
        Output::Value(value) => CircuitValue::Ciphertexts(work::write_value(key, &value.bits, value.form)),
    }
}

/// Returns the size in bytes of the ciphertexts that an answer with these outputs contains.
fn bytes_of(key: &OpenKey, outputs: &[Output]) -> u64 {
    let bits = outputs.iter().map(|output| match output {
        Output::Handle(_) => 0,
        Output::Value(value) => value.bits.len(),
    });
    value_bytes(key, bits.sum())
}

/// Returns the size in bytes of `bits` ciphertexts.
fn value_bytes(key: &OpenKey, bits: usize) -> u64 {
    (bits * work::words_bytes(key)) as u64
}

/// Returns the error for a name under which the account stores no circuit (readings X14).
fn unknown_circuit() -> ApiError {
    ApiError::new(Code::NotFound, "there is no circuit with this name")
}
