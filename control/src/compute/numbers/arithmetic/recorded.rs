//! An operation on numbers as later requests see it.

use std::time::Duration;

use api::OperationId;
use api::circuits::{OperationError, OperationStatus};
use api::compute::ComputeStatus;
use store::ArithmeticOperationRecord;

use crate::billing::charge::milliseconds;
use crate::compute::Compute;
use crate::compute::operation::record;
use crate::web::error::ApiError;

/// Makes the description of an operation's status for answers.
pub fn status(
    compute: &Compute,
    op_id: OperationId,
    record: ArithmeticOperationRecord,
) -> Result<ComputeStatus, ApiError> {
    let (status, _) = record::status(compute, &op_id, &record);
    let result = record.result_ciphertext_id.as_ref().map(|id| id.parse()).transpose();
    let completed = record.status == OperationStatus::Completed;
    let took = record.compute_us.filter(|_| completed).map(|us| Duration::from_micros(us.unsigned_abs()));
    let error = record.error_code.zip(record.error_message);
    Ok(ComputeStatus {
        op_id,
        status,
        operation: record.operation,
        result_ciphertext_id: result.map_err(ApiError::internal)?,
        compute_time_ms: took.map(milliseconds),
        cost_units: record.cost_fcu.map(i64::unsigned_abs),
        error: error.map(|(code, message)| OperationError { code, message }),
    })
}
