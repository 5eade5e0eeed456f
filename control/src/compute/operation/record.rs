//! An operation as later requests see it: its record and, while this process computes it, its progress.

use std::time::Duration;

use api::circuits::{CancelledOperation, OperationError, OperationStatus};
use api::{Code, OperationId};
use store::{FLEET, OperationRecord, RecordedOf, Store};

use super::life::line;
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::web::error::ApiError;

/// How long the record of an ended operation is kept (readings C3).
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// An operation that was found by its id. `of`: what its record has besides the members of all kinds.
pub struct Found<T> {
    /// The operation's id.
    pub op_id: OperationId,
    /// The members that records of all kinds have.
    pub record: OperationRecord,
    /// The members that only records of its kind have.
    pub of: T,
}

/// Finds the operation with this id, if it is `of` the kind that is asked for. Another account's operation, and one of
/// another kind, get the same error as an unknown id (readings X14).
pub async fn find<T>(
    compute: &Compute,
    caller: &Caller,
    op_id: &str,
    of: fn(RecordedOf) -> Option<T>,
) -> Result<Found<T>, ApiError> {
    let unknown = || ApiError::new(Code::OperationNotFound, "there is no such operation");
    let op_id: OperationId = op_id.parse().map_err(|_| unknown())?;
    let found = compute.store.operation(caller.account.as_str(), op_id.as_str()).await?;
    let now = compute.clock.now();
    let is_remembered = |at| now.since(Timestamp(at)) < REMEMBERED;
    let found = found.filter(|(record, _)| record.ended_at.is_none_or(is_remembered));
    let (record, recorded) = found.ok_or_else(unknown)?;
    Ok(Found { op_id, record, of: of(recorded).ok_or_else(unknown)? })
}

impl<T> Found<T> {
    /// Returns the status of the operation and, while it runs, how many of its gates or steps are done.
    pub fn status(&self, compute: &Compute) -> (OperationStatus, Option<u64>) {
        let of_line = self.record.line_done.map(i64::unsigned_abs);
        match (self.record.status, compute.worker.done(&self.op_id).max(of_line)) {
            (OperationStatus::Pending, Some(done @ 1..)) => (OperationStatus::Running, Some(done)),
            (status, _) => (status, None),
        }
    }

    /// Returns the wall time of the computation, once it has ended.
    pub fn compute_time(&self) -> Option<Duration> {
        self.record.compute_us.map(|us| Duration::from_micros(us.unsigned_abs()))
    }

    /// Returns why the operation failed.
    pub fn error(&self) -> Option<OperationError> {
        let (code, message) = self.record.error_code.clone().zip(self.record.error_message.clone())?;
        Some(OperationError { code, message })
    }

    /// Cancels the operation and waits for its end (readings C4, P24).
    pub async fn cancel(self, compute: &Compute, caller: &Caller) -> Result<CancelledOperation, ApiError> {
        let Found { op_id, record, .. } = self;
        if record.status.has_ended() {
            return Ok(CancelledOperation { op_id, cancelled: false });
        }
        if record.node_id.as_deref() == Some(FLEET) && compute.line.is_some() {
            line::cancel(compute, &caller.account, &op_id).await?;
            let Found { record, .. } = find(compute, caller, op_id.as_str(), Some).await?;
            return Ok(CancelledOperation { op_id, cancelled: record.status == OperationStatus::Cancelled });
        }
        let ran_here = compute.operations.ended(&op_id, || compute.worker.cancel(&op_id)).await;
        let Found { record, .. } = find(compute, caller, op_id.as_str(), Some).await?;
        let is_elsewhere = record.node_id.is_some_and(|node_id| node_id != compute.sessions.node_id);
        if !ran_here && !record.status.has_ended() && is_elsewhere {
            let message = "the operation runs on another node: send the request again, through a balancer that keeps a client \
                 on its node";
            return Err(ApiError::unavailable("other_node", message).retry_after(Duration::from_secs(1)));
        }
        Ok(CancelledOperation { op_id, cancelled: record.status == OperationStatus::Cancelled })
    }
}

/// Records the unfinished operations of an earlier process of this node as failed, because they do not run any more.
pub async fn fail_unfinished(store: &Store, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
    store.take_over_operations().await?;
    let messages =
        ["circuit", "operation"].map(|what| format!("the node stopped while the {what} ran; nothing was charged"));
    let [circuit, arithmetic] = messages.each_ref().map(String::as_str);
    let code = Code::ServiceUnavailable.as_str();
    let failed = store.fail_unfinished_operations(node_id, code, [circuit, arithmetic], now.0).await?;
    if failed > 0 {
        tracing::info!(failed, "operations of an earlier process of this node were recorded as failed");
    }
    Ok(())
}

/// Removes the records of operations that ended longer than `REMEMBERED` ago.
pub async fn forget_old(compute: &Compute) {
    let before = compute.clock.now().0 - i64::try_from(REMEMBERED.as_micros()).expect("a day fits");
    if let Err(error) = compute.store.forget_operations(before).await {
        tracing::error!(%error, "old records of operations could not be removed");
    }
}
