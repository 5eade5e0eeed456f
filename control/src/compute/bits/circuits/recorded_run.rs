//! A circuit's run as later requests see it: the record of the run, and the run itself while this node has it in
//! memory.

use std::sync::Arc;
use std::time::Duration;

use api::circuits::{CancelledOperation, CircuitOperation, OperationError};
use api::{MilliYen, OperationId};
use store::CircuitOperationRecord;

use crate::billing::charge::milliseconds;
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::bits::sessions::OpenSession;
use crate::compute::bits::workbench::{Output, Run};
use crate::compute::operation::record;
use crate::web::error::ApiError;
use crate::work::PlanFacts;

/// A run of the account, read from its record.
pub struct RecordedRun {
    op_id: OperationId,
    record: CircuitOperationRecord,
    /// The run's session, if it is open here.
    pub session: Option<Arc<OpenSession>>,
    run: Option<Arc<Run>>,
}

impl RecordedRun {
    /// Finds the run with this id.
    pub async fn find(compute: &Compute, caller: &Caller, op_id: &str) -> Result<RecordedRun, ApiError> {
        let (op_id, record): (_, CircuitOperationRecord) = record::find(compute, caller, op_id).await?;
        let session = compute.sessions.by_digest(&caller.account, &record.session_digest);
        let run = session.as_ref().and_then(|session| session.bench.run(&op_id));
        Ok(RecordedRun { op_id, record, session, run })
    }

    /// Makes the description of the run for answers, without its outputs.
    pub fn operation(&self, compute: &Compute) -> Result<CircuitOperation, ApiError> {
        let record = &self.record;
        let (status, done) = record::status(compute, &self.op_id, record);
        let gates_done = done.unwrap_or(record.gates_done.unsigned_abs());
        let error = record.error_code.clone().zip(record.error_message.clone());
        let plan: Option<PlanFacts> =
            record.plan.as_deref().map(serde_json::from_str).transpose().map_err(ApiError::internal)?;
        Ok(CircuitOperation {
            op_id: self.op_id.clone(),
            status,
            gates_done,
            gates_total: record.gates_total.unsigned_abs(),
            gates: serde_json::from_str(&record.by_gate).map_err(ApiError::internal)?,
            levels: record.levels.unsigned_abs(),
            bootstraps: plan.map(|plan| plan.bootstraps),
            bootstrap_levels: plan.map(|plan| plan.bootstrap_levels),
            failure_log2: plan.and_then(|plan| plan.failure_log2),
            outputs: None,
            bootstrap_ops: record.bootstrap_ops.map(i64::unsigned_abs),
            cost_jpy: record.cost_milli_yen.map(MilliYen),
            batch_discount_applied: record.discounted,
            compute_ms: record.compute_us.map(|us| milliseconds(Duration::from_micros(us.unsigned_abs()))),
            error: error.map(|(code, message)| OperationError { code, message }),
        })
    }

    /// Returns the run's results, if this node has them.
    pub fn results(&self) -> Option<Vec<Output>> {
        self.run.as_ref().and_then(|run| run.results())
    }
}

/// Cancels a run and waits for its end. If the run has ended already, drops its results (readings C4, P24).
pub async fn cancel(compute: &Compute, caller: &Caller, op_id: &str) -> Result<CancelledOperation, ApiError> {
    let RecordedRun { op_id, record, session, run } = RecordedRun::find(compute, caller, op_id).await?;
    if let Some(session) = session.as_ref().filter(|_| record.status.has_ended()) {
        session.bench.forget_run(&op_id);
    }
    // release the session before the wait, so that the session can end meanwhile
    drop((session, run));
    record::cancel(compute, caller, (op_id, record)).await
}
