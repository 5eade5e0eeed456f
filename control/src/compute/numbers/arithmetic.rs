//! Operations on encrypted numbers (specification, Compute on approximate-number ciphertexts; readings section 9).
//!
//! An operation is checked and planned before it is computed. If the result would not decrypt, the operation is refused
//! and costs nothing. The record of a completed operation, its result, its charge and its stored answer are written as
//! one unit of the store.

mod dry_run;
mod prepare;
mod recorded;
mod running;

use std::sync::Arc;
use std::time::Instant;

use api::Code;
use api::circuits::CancelledOperation;
use api::compute::{ComputeOperation, ComputePlan, ComputeRequest, ComputeStatus};
use axum::Extension;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use store::RecordedOf;

use crate::caller::{Caller, Role};
use crate::compute::Compute;
use crate::compute::operation::life::Reply;
use crate::compute::operation::record;
use crate::web::Web;
use crate::web::body::{Json, JsonBody};
use crate::web::edge::Deadline;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::octets::{self, HeadAndContainer};
use crate::web::path::PathParts;
use crate::web::prefer::client_does_not_wait;
use crate::work::numbers::Operation;

pub use running::resume;

/// Errors of an operation, the same for both paths.
const ERRORS: [Code; 16] = [
    Code::InvalidOperation,
    Code::InvalidParams,
    Code::MissingPlainOperand,
    Code::PolynomialTooLarge,
    Code::MismatchedKey,
    Code::MismatchedLevel,
    Code::NoiseBudgetExhausted,
    Code::KeyNotFound,
    Code::CiphertextNotFound,
    Code::QuotaExceeded,
    Code::TrialOpsExhausted,
    Code::BudgetHardCapHit,
    Code::Conflict,
    Code::PayloadTooLarge,
    Code::ValidationError,
    Code::RateLimited,
];

impl JsonBody for ComputeRequest {
    /// Room for 16,384 numbers of up to 25 characters each, and for the coefficients of a polynomial.
    const BYTES_MAX: usize = 1 << 20;
}

/// Run an operation on encrypted numbers.
///
/// `{op}` is `add`, `multiply`, `add-plain`, `multiply-plain`, `negate`, `rescale`, `rotate`, `matmul`, `matmul-plain`,
/// `poly-eval` or `bootstrap`.
///
/// `add`, `multiply` and `matmul` take two ciphertexts of the same key and level. `matmul` takes the matrix, then the vector. The
/// matrix is square, d x d, row by row; d is the largest power of two with d * d <= `slot_count`. The vector is in the first d
/// slots, and the result comes to the first d slots. With 8 slots d is 2: the matrix `[[1, 2], [3, 4]]` is
/// `1, 2, 3, 4, 0, 0, 0, 0`, the vector `[5, 6]` is `5, 6, 0, 0, 0, 0, 0, 0`, and the result begins with `17, 39`.
///
/// Encrypt a vector with zeros behind its d numbers. A result of `matmul` has numbers of no use there, and `precision_bits`
/// holds for the first d slots. `rotate`, `poly-eval` with a constant and `add-plain` may put numbers there too. The node
/// knows this of its results, and puts zeros there before it multiplies: then `matmul` uses three levels, not two. A model of
/// two layers with the matrices M and W, on a fresh vector v at level 6:
///
/// 1. `matmul` of M and v: the first d slots of the result, at level 4, are M v.
/// 2. `poly-eval` with `polynomial_coeffs` `[0.5, 0.25]`: the activation, at level 3.
/// 3. `rescale` W three times, so that both have level 3; `matmul` of W and the activation, at level 0.
///
/// `matmul-plain` takes a vector, and in `plain_operand` a matrix that the node sees, such as the weights of a model: n * n
/// numbers, row after row, where n is a power of two up to 128 and `slot_count`. The vector is in the first n slots, with
/// zeros behind, and the result comes to the first n slots; what stands behind it is of no use. `matmul-plain` uses one
/// level, or two if other numbers may stand behind the vector. For a matrix that is not square, fill up with zeros.
///
/// A product uses up a level: `rescale` gives the product the scale of the next level. With `scale_stable` the product
/// is rescaled at once. `poly-eval` uses ceil(log2(degree + 1)) levels, `matmul` two or three. Polynomials are most precise if
/// the numbers are between -1 and 1, because powers of larger numbers enlarge the error too. An operation whose result
/// would not decrypt is refused with `NOISE_BUDGET_EXHAUSTED` and costs nothing. A rotation may take 2 log2(`slot_count`)
/// of the key's rotations; a longer one is refused, and the answer names the Galois element to add to the key.
///
/// Decrypted numbers are as secret as the key, because their last digits are an error that depends on it (Li and Micciancio,
/// Eurocrypt 2021). Before others see them, add noise whose strength follows from your own plan of the computation, never
/// from what a node told of the result: `ango client numbers decrypt --share` does so.
///
/// The result is stored under its id. The answer contains it too, unless `return_ciphertext` is false. If the account's
/// ciphertexts then exceed the bytes that the plan allows, the service deletes the ciphertexts that were unused for
/// longest; the answer names the deleted ciphertexts.
///
/// With `Prefer: respond-async` the answer comes at once, with the status `pending`. `GET /api/v1/compute/{op_id}` then
/// returns the result's id. Trial keys cannot call this GET, so the node does not apply their preference: the answer has
/// the result. The deadline of a request holds for operations in the background too. With `Accept: application/octet-stream` the answer is a head (the JSON) followed by the
/// result.
///
/// In a fleet, a bootstrap outlives the node that answers. Until the first request is answered, the same request with the
/// same `Idempotency-Key` gets the operation with the status `pending`.
#[utoipa::path(
    post,
    path = "/api/v1/compute/{op}",
    operation_id = "computeNamed",
    tag = "Compute",
    params(
        ("op" = String, Path, description = "The operation's name, with hyphens or underscores.", example = "multiply"),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: do not wait for the result."),
    ),
    request_body = ComputeRequest,
    responses((status = 200, description = "The completed operation with its result; with `Prefer: respond-async`, the pending one.",
        content((ComputeOperation = "application/json"), (inline(HeadAndContainer) = "application/octet-stream")),
        headers(
            ("X-Noise-Budget-Remaining" = f64, description = "`noise_budget_remaining`."),
            ("X-Noise-Budget-Warning" = String, description = "`true` when less than 50 percent of the noise budget is left, otherwise `false`."),
            ("X-Noise-Budget-Recovery" = Option<String>, description = "With a warning: how to recover the noise budget."),
            ("Preference-Applied" = Option<String>, description = "`respond-async` if the node applied it."),
        ))),
    extensions(("x-errors" = json!(ERRORS)))
)]
pub async fn run_named(
    State(compute): State<Arc<Compute>>,
    State(web): State<Arc<Web>>,
    caller: Caller,
    claim: Claim,
    Extension(Deadline(deadline)): Extension<Deadline>,
    headers: HeaderMap,
    path: PathParts,
    Json { value: request, .. }: Json<ComputeRequest>,
) -> Result<Response, ApiError> {
    let operation = named(path.get("op"))?;
    if let Some(other) = &request.operation
        && Operation::from_name(other) != Some(operation)
    {
        // readings C5
        let message = format!("the operation is {other} in the body, but {} in the path", operation.name());
        return Err(ApiError::new(Code::InvalidRequest, message).at("operation", "differs from the path"));
    }
    begin((compute, web), caller, claim, deadline, &headers, (operation, request)).await
}

/// Run an operation whose name is in the body.
///
/// Like `POST /api/v1/compute/{op}`, but the member `operation` names the operation.
#[utoipa::path(
    post,
    path = "/api/v1/compute",
    operation_id = "compute",
    tag = "Compute",
    params(("Prefer" = Option<String>, Header, description = "`respond-async`: do not wait for the result.")),
    request_body = ComputeRequest,
    responses((status = 200, description = "The completed operation with its result; with `Prefer: respond-async`, the pending one.",
        content((ComputeOperation = "application/json"), (inline(HeadAndContainer) = "application/octet-stream")),
        headers(
            ("X-Noise-Budget-Remaining" = f64, description = "`noise_budget_remaining`."),
            ("X-Noise-Budget-Warning" = String, description = "`true` when less than 50 percent of the noise budget is left, otherwise `false`."),
            ("X-Noise-Budget-Recovery" = Option<String>, description = "With a warning: how to recover the noise budget."),
            ("Preference-Applied" = Option<String>, description = "`respond-async` if the node applied it."),
        ))),
    extensions(("x-errors" = json!(ERRORS)))
)]
pub async fn run(
    State(compute): State<Arc<Compute>>,
    State(web): State<Arc<Web>>,
    caller: Caller,
    claim: Claim,
    Extension(Deadline(deadline)): Extension<Deadline>,
    headers: HeaderMap,
    Json { value: request, .. }: Json<ComputeRequest>,
) -> Result<Response, ApiError> {
    let operation = named_in(&request)?;
    begin((compute, web), caller, claim, deadline, &headers, (operation, request)).await
}

/// Plan an operation without computing it.
///
/// The body is that of `POST /api/v1/compute`. The answer tells what the operation would give and cost. A request that the
/// operation would refuse is refused with the same code. The plan costs nothing and changes nothing: no ciphertext counts
/// as used, and of a trial key no operation is taken. `Prefer` and `return_ciphertext` have no effect.
#[utoipa::path(
    post,
    path = "/api/v1/compute/plan",
    operation_id = "planCompute",
    tag = "Compute",
    request_body = ComputeRequest,
    responses((status = 200, description = "What the operation would give and cost.", body = ComputePlan)),
    extensions(("x-errors" = json!(ERRORS)))
)]
pub async fn plan(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    Json { value: request, .. }: Json<ComputeRequest>,
) -> Result<Answer<ComputePlan>, ApiError> {
    let operation = named_in(&request)?;
    Ok(Answer(dry_run::plan(&compute, &caller, operation, request).await?))
}

async fn begin(
    (compute, web): (Arc<Compute>, Arc<Web>),
    caller: Caller,
    claim: Claim,
    deadline: Instant,
    headers: &HeaderMap,
    (operation, request): (Operation, ComputeRequest),
) -> Result<Response, ApiError> {
    let with_result = request.return_ciphertext.unwrap_or(true);
    let reply = Reply {
        claim,
        octets: octets::wanted(headers),
        // a trial may not read an operation's state, so its answer must have the result
        waits: caller.role == Role::Trial || !client_does_not_wait(headers),
    };
    let prepared = prepare::prepare(&compute, &web, &caller, operation, request).await?;
    running::run(&compute, caller, prepared, deadline, reply, with_result).await
}

/// Returns the operation that the body names.
fn named_in(request: &ComputeRequest) -> Result<Operation, ApiError> {
    let Some(name) = &request.operation else {
        let message = "the body must have the member operation";
        return Err(ApiError::new(Code::InvalidOperation, message).at("operation", "required"));
    };
    named(name)
}

/// Returns the operation with this name (readings C5, C6).
fn named(name: &str) -> Result<Operation, ApiError> {
    Operation::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
        ApiError::new(Code::InvalidOperation, format!("the operations are {}", names.join(", ")))
    })
}

/// The state of an operation.
///
/// The answer never has the result's bytes: `GET /api/v1/ciphertexts/{ciphertext_id}` reads them. The node keeps the record of an
/// operation for a day after its end.
#[utoipa::path(
    get,
    path = "/api/v1/compute/{op}",
    operation_id = "getComputeOperation",
    tag = "Compute",
    params(("op" = String, Path, description = "The id of an operation of the account.")),
    responses((status = 200, description = "The operation.", body = ComputeStatus)),
    extensions(("x-errors" = json!([Code::OperationNotFound])))
)]
pub async fn status(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<ComputeStatus>, ApiError> {
    let found = record::find(&compute, &caller, path.get("op"), RecordedOf::arithmetic).await?;
    Ok(Answer(recorded::status(&compute, found)?))
}

/// Cancel an operation.
///
/// The answer comes when the operation has ended. If the operation was completed before it could be cancelled,
/// `cancelled` is false and the operation is charged.
#[utoipa::path(
    delete,
    path = "/api/v1/compute/{op}",
    operation_id = "cancelComputeOperation",
    tag = "Compute",
    params(("op" = String, Path, description = "The id of an operation of the account.")),
    responses((status = 200, description = "Whether the operation was cancelled.", body = CancelledOperation)),
    extensions(("x-errors" = json!([Code::OperationNotFound])))
)]
pub async fn cancel(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<CancelledOperation>, ApiError> {
    let found = record::find(&compute, &caller, path.get("op"), RecordedOf::arithmetic).await?;
    Ok(Answer(found.cancel(&compute, &caller).await?))
}
