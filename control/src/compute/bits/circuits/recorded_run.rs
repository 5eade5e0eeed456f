//! A circuit's run as later requests see it: the record of the run, and the run's results while its session
//! keeps them.

use std::sync::Arc;

use api::MilliYen;
use api::circuits::{CancelledOperation, CircuitOperation};
use store::{CircuitRun, RecordedOf};

use crate::billing::charge::milliseconds;
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::bits::sessions::OpenSession;
use crate::compute::bits::workbench::Output;
use crate::compute::operation::record::{self, Found};
use crate::web::error::ApiError;
use crate::work::PlanFacts;

/// A run of the account, read from its record.
pub struct RecordedRun {
    found: Found<CircuitRun>,
    /// The run's session, if it is open here or in the fleet.
    pub session: Option<Arc<OpenSession>>,
}

impl RecordedRun {
    /// Finds the run with this id.
    pub async fn find(compute: &Compute, caller: &Caller, op_id: &str) -> Result<RecordedRun, ApiError> {
        let found = record::find(compute, caller, op_id, RecordedOf::circuit).await?;
        let session = compute.sessions.by_digest(&caller.account, &found.of.session_digest).await?;
        Ok(RecordedRun { found, session })
    }

    /// Makes the description of the run for answers, without its outputs.
    pub fn operation(&self, compute: &Compute) -> Result<CircuitOperation, ApiError> {
        let run = &self.found.of;
        let (status, done) = self.found.status(compute);
        let plan: Option<PlanFacts> =
            run.plan.as_deref().map(serde_json::from_str).transpose().map_err(ApiError::internal)?;
        Ok(CircuitOperation {
            op_id: self.found.op_id.clone(),
            status,
            gates_done: done.unwrap_or(run.gates_done.unsigned_abs()),
            gates_total: run.gates_total.unsigned_abs(),
            gates: serde_json::from_str(&run.by_gate).map_err(ApiError::internal)?,
            levels: run.levels.unsigned_abs(),
            bootstraps: plan.map(|plan| plan.bootstraps),
            bootstrap_levels: plan.map(|plan| plan.bootstrap_levels),
            failure_log2: plan.and_then(|plan| plan.failure_log2),
            outputs: None,
            bootstrap_ops: run.bootstrap_ops.map(i64::unsigned_abs),
            cost_jpy: run.cost_milli_yen.map(MilliYen),
            batch_discount_applied: run.discounted,
            compute_ms: self.found.compute_time().map(milliseconds),
            error: self.found.error(),
        })
    }

    /// Returns the run's results, if its session keeps them.
    pub async fn results(&self) -> Result<Option<Vec<Output>>, ApiError> {
        match &self.session {
            Some(session) => session.bench.outputs_of(&self.found.op_id).await,
            None => Ok(None),
        }
    }
}

/// Cancels a run and waits for its end. If the run has ended already, drops its results (readings C4, P24).
pub async fn cancel(compute: &Compute, caller: &Caller, op_id: &str) -> Result<CancelledOperation, ApiError> {
    let RecordedRun { found, session } = RecordedRun::find(compute, caller, op_id).await?;
    if let Some(session) = session.as_ref().filter(|_| found.record.status.has_ended()) {
        session.bench.forget_run(&found.op_id).await?;
    }
    // release the session before the wait, so that the session can end meanwhile
    drop(session);
    found.cancel(compute, caller).await
}
