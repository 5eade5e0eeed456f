//! An operation as later requests see it: its record and, while this process computes it, its progress.

use std::time::Duration;

use api::circuits::{CancelledOperation, OperationStatus};
use api::{Code, OperationId};
use store::{ArithmeticOperationRecord, CircuitOperationRecord, Store};

use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::web::error::ApiError;

/// How long the record of an ended operation is kept (readings C3).
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// The record of an operation of some kind.
pub trait Record: Sized {
    /// Reads the record of an account's operation.
    async fn read(store: &Store, account: &str, op_id: &str) -> Result<Option<Self>, store::Error>;

    /// The status that the record has.
    fn recorded_status(&self) -> OperationStatus;

    /// When the operation ended.
    fn ended_at(&self) -> Option<i64>;

    /// Whether another node computes the operation, as long as the record shows no end.
    fn is_elsewhere(&self, compute: &Compute, caller: &Caller) -> bool;
}

impl Record for CircuitOperationRecord {
    async fn read(store: &Store, account: &str, op_id: &str) -> Result<Option<Self>, store::Error> {
        store.circuit_operation(account, op_id).await
    }

    fn recorded_status(&self) -> OperationStatus {
        self.status
    }

    fn ended_at(&self) -> Option<i64> {
        self.ended_at
    }

    fn is_elsewhere(&self, compute: &Compute, caller: &Caller) -> bool {
        compute.sessions.by_digest(&caller.account, &self.session_digest).is_none()
    }
}

impl Record for ArithmeticOperationRecord {
    async fn read(store: &Store, account: &str, op_id: &str) -> Result<Option<Self>, store::Error> {
        store.arithmetic_operation(account, op_id).await
    }

    fn recorded_status(&self) -> OperationStatus {
        self.status
    }

    fn ended_at(&self) -> Option<i64> {
        self.ended_at
    }

    fn is_elsewhere(&self, compute: &Compute, _: &Caller) -> bool {
        self.node_id != compute.sessions.node_id
    }
}

/// Finds the operation with this id. Another account's operation gets the same error as an unknown id (readings X14).
pub async fn find<R: Record>(compute: &Compute, caller: &Caller, op_id: &str) -> Result<(OperationId, R), ApiError> {
    let unknown = || ApiError::new(Code::OperationNotFound, "there is no such operation");
    let op_id: OperationId = op_id.parse().map_err(|_| unknown())?;
    let record = R::read(&compute.store, caller.account.as_str(), op_id.as_str()).await?;
    let now = compute.clock.now();
    let is_remembered = |record: &R| record.ended_at().is_none_or(|at| now.since(Timestamp(at)) < REMEMBERED);
    let record = record.filter(is_remembered).ok_or_else(unknown)?;
    Ok((op_id, record))
}

/// Returns the status of an operation and, while the operation runs, how many of its gates or steps are done.
pub fn status(compute: &Compute, op_id: &OperationId, record: &impl Record) -> (OperationStatus, Option<u64>) {
    match (record.recorded_status(), compute.worker.done(op_id)) {
        (OperationStatus::Pending, Some(done @ 1..)) => (OperationStatus::Running, Some(done)),
        (status, _) => (status, None),
    }
}

/// Cancels an operation that [`find`] found, and waits for its end (readings C4, P24).
pub async fn cancel<R: Record>(
    compute: &Compute,
    caller: &Caller,
    (op_id, record): (OperationId, R),
) -> Result<CancelledOperation, ApiError> {
    if record.recorded_status().has_ended() {
        return Ok(CancelledOperation { op_id, cancelled: false });
    }
    let ran_here = compute.operations.ended(&op_id, || compute.worker.cancel(&op_id)).await;
    let (_, record) = find::<R>(compute, caller, op_id.as_str()).await?;
    if !ran_here && !record.recorded_status().has_ended() && record.is_elsewhere(compute, caller) {
        let message = "the operation runs on another node: send the request again, through a balancer that keeps a client \
             on its node";
        return Err(ApiError::unavailable("other_node", message).retry_after(Duration::from_secs(1)));
    }
    Ok(CancelledOperation { op_id, cancelled: record.recorded_status() == OperationStatus::Cancelled })
}

/// Records the unfinished operations of an earlier process of this node as failed, because they do not run any more.
pub async fn fail_unfinished(store: &Store, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
    let code = Code::ServiceUnavailable.as_str();
    let circuits = "the node stopped while the circuit ran; nothing was charged";
    let circuits = store.fail_circuit_operations(node_id, code, circuits, now.0).await?;
    let numbers = "the node stopped while the operation ran; nothing was charged";
    let numbers = store.fail_arithmetic_operations(node_id, code, numbers, now.0).await?;
    if circuits + numbers > 0 {
        tracing::info!(circuits, numbers, "operations of an earlier process of this node were recorded as failed");
    }
    Ok(())
}

/// Removes the records of operations that ended longer than `REMEMBERED` ago.
pub async fn forget_old(compute: &Compute) {
    let before = compute.clock.now().0 - i64::try_from(REMEMBERED.as_micros()).expect("a day fits");
    let store = &compute.store;
    for forgotten in [store.forget_circuit_operations(before).await, store.forget_arithmetic_operations(before).await] {
        if let Err(error) = forgotten {
            tracing::error!(%error, "old records of operations could not be removed");
        }
    }
}
