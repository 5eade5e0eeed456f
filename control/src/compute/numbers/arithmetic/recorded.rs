//! An operation on numbers as later requests see it.

use api::circuits::OperationStatus;
use api::compute::ComputeStatus;
use store::Arithmetic;

use crate::billing::charge::milliseconds;
use crate::compute::Compute;
use crate::compute::operation::record::Found;
use crate::web::error::ApiError;

/// Makes the description of an operation's status for answers.
pub fn status(compute: &Compute, found: Found<Arithmetic>) -> Result<ComputeStatus, ApiError> {
    let (status, _) = found.status(compute);
    let completed = found.record.status == OperationStatus::Completed;
    let (took, error) = (found.compute_time().filter(|_| completed), found.error());
    let Found { op_id, of: operation, .. } = found;
    let result = operation.result_ciphertext_id.map(|id| id.parse()).transpose();
    Ok(ComputeStatus {
        op_id,
        status,
        operation: operation.operation,
        result_ciphertext_id: result.map_err(ApiError::internal)?,
        compute_time_ms: took.map(milliseconds),
        cost_units: operation.cost_fcu.map(i64::unsigned_abs),
        error,
    })
}
