//! An operation as later requests see it: the operation's record and, while the operation runs, its state in the
//! engine.

use std::time::Duration;

use api::circuits::{CancelledOperation, OperationError, OperationStatus};
use api::compute::ComputeStatus;
use api::{Code, OperationId};
use store::ArithmeticOperationRecord;

use crate::billing::charge::milliseconds;
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::web::error::ApiError;

/// How long the record of an ended operation is kept (readings C3).
pub const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// An operation of the account, read from its record.
pub struct RecordedOperation {
    op_id: OperationId,
    record: ArithmeticOperationRecord,
}

/// Finds the operation with this id. Another account's operation gets the same error as an unknown id (readings X14).
pub async fn find(compute: &Compute, caller: &Caller, op_id: &str) -> Result<RecordedOperation, ApiError> {
    let unknown = || ApiError::new(Code::OperationNotFound, "there is no such operation");
    let op_id: OperationId = op_id.parse().map_err(|_| unknown())?;
    let record = compute.store.arithmetic_operation(caller.account.as_str(), op_id.as_str()).await?;
    let now = compute.clock.now();
    let remembered = |ended_at: Option<i64>| ended_at.is_none_or(|at| now.since(Timestamp(at)) < REMEMBERED);
    let record = record.filter(|record| remembered(record.ended_at)).ok_or_else(unknown)?;
    Ok(RecordedOperation { op_id, record })
}

impl RecordedOperation {
    /// Makes the description of the operation's status for answers.
    pub fn status(&self, compute: &Compute) -> Result<ComputeStatus, ApiError> {
        let record = &self.record;
        let has_begun = || compute.worker.done(&self.op_id).is_some_and(|done| done > 0);
        let status = match record.status {
            OperationStatus::Pending if has_begun() => OperationStatus::Running,
            status => status,
        };
        let result = record.result_ciphertext_id.as_ref().map(|id| id.parse()).transpose();
        let completed = record.status == OperationStatus::Completed;
        let took = record.compute_us.filter(|_| completed).map(|us| Duration::from_micros(us.unsigned_abs()));
        let error = record.error_code.clone().zip(record.error_message.clone());
        Ok(ComputeStatus {
            op_id: self.op_id.clone(),
            status,
            operation: record.operation.clone(),
            result_ciphertext_id: result.map_err(ApiError::internal)?,
            compute_time_ms: took.map(milliseconds),
            cost_units: record.cost_fcu.map(i64::unsigned_abs),
            error: error.map(|(code, message)| OperationError { code, message }),
        })
    }
}

/// Cancels an operation and waits for its end (readings C4, P24).
pub async fn cancel(compute: &Compute, caller: &Caller, op_id: &str) -> Result<CancelledOperation, ApiError> {
    let RecordedOperation { op_id, record } = find(compute, caller, op_id).await?;
    if record.status.has_ended() {
        return Ok(CancelledOperation { op_id, cancelled: false });
    }
    match compute.operations.find(&op_id) {
        Some(running) => {
            compute.worker.cancel(&op_id);
            running.ended().await;
        }
        None if record.node_id != compute.sessions.node_id => {
            let message = "the operation runs on another node: send the request again, through a balancer that keeps a client \
                 on its node";
            return Err(ApiError::unavailable("other_node", message).retry_after(Duration::from_secs(1)));
        }
        // the operation is ending right now
        None => {}
    }
    let record = find(compute, caller, op_id.as_str()).await?.record;
    Ok(CancelledOperation { op_id, cancelled: record.status == OperationStatus::Cancelled })
}
