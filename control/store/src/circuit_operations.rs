//! Records of runs of circuits.

use api::circuits::OperationStatus;

use crate::database::{Tx, from_row, values};
use crate::{Error, Result, Store};

/// A run to record.
#[derive(Clone, Debug)]
pub struct NewCircuitOperation {
    /// `op_...`
    pub op_id: String,
    /// The owner's account.
    pub account_id: String,
    /// SHA-256 of the session's id.
    pub session_digest: [u8; 32],
    /// Number of gates of the circuit.
    pub gates_total: i64,
    /// JSON object: the number of gates under each gate's name.
    pub by_gate: String,
    /// Number of levels of the circuit.
    pub levels: i64,
    /// JSON object: the figures of the circuit's plan.
    pub plan: String,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct CircuitOperationEnd {
    /// `op_...`
    pub op_id: String,
    /// The final status.
    pub status: OperationStatus,
    /// Number of gates that were completed.
    pub gates_done: i64,
    /// Number of bootstraps that the tariff charges.
    pub bootstrap_ops: i64,
    /// The charge, in thousandths of a yen.
    pub cost_milli_yen: i64,
    /// Whether the discount applied.
    pub discounted: bool,
    /// Wall time of the evaluation.
    pub compute_us: i64,
    /// Code and message of the failure, if the run failed.
    pub error: Option<(String, String)>,
    /// Now, in microseconds since 1970.
    pub ended_at: i64,
}

/// A run's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitOperationRecord {
    /// `op_...`
    pub op_id: String,
    /// SHA-256 of the session's id.
    pub session_digest: Vec<u8>,
    /// The status. A run that has not ended is pending.
    pub status: OperationStatus,
    /// Number of gates of the circuit.
    pub gates_total: i64,
    /// Number of completed gates, once the run has ended.
    pub gates_done: i64,
    /// JSON object: the number of gates under each gate's name.
    pub by_gate: String,
    /// Number of levels of the circuit.
    pub levels: i64,
    /// JSON object: the figures of the circuit's plan. `None`: an earlier version recorded the run.
    pub plan: Option<String>,
    /// Number of bootstraps that the tariff charged.
    pub bootstrap_ops: Option<i64>,
    /// The charge, in thousandths of a yen.
    pub cost_milli_yen: Option<i64>,
    /// Whether the discount applied.
    pub discounted: Option<bool>,
    /// Wall time of the evaluation.
    pub compute_us: Option<i64>,
    /// Code of the failure, if the run failed.
    pub error_code: Option<String>,
    /// Message of the failure, if the run failed.
    pub error_message: Option<String>,
    /// When the run was accepted.
    pub created_at: i64,
    /// When the run ended.
    pub ended_at: Option<i64>,
}

from_row!(CircuitOperationRecord {
    op_id,
    session_digest,
    status as word,
    gates_total,
    gates_done,
    by_gate,
    levels,
    plan,
    bootstrap_ops,
    cost_milli_yen,
    discounted,
    compute_us,
    error_code,
    error_message,
    created_at,
    ended_at
});

impl Store {
    /// Returns the record of a run of this account.
    pub async fn circuit_operation(&self, account_id: &str, op_id: &str) -> Result<Option<CircuitOperationRecord>> {
        self.db
            .fetch_optional(
                "SELECT op_id, session_digest, status, gates_total, gates_done, by_gate, levels, plan, bootstrap_ops, \
             cost_milli_yen, discounted, compute_us, error_code, error_message, created_at, ended_at \
             FROM circuit_operations WHERE op_id = $1 AND account_id = $2",
                values![op_id, account_id],
            )
            .await
    }

    /// Finds the runs that an earlier process of this node did not finish, and records that they failed. Also does this
    /// for unfinished runs of earlier versions, in which nodes had no ids. Returns the number of runs.
    pub async fn fail_circuit_operations(&self, node_id: &str, code: &str, message: &str, at: i64) -> Result<u64> {
        let sql = "UPDATE circuit_operations SET status = 'failed', error_code = $2, error_message = $3, ended_at = $4, \
             bootstrap_ops = 0, cost_milli_yen = 0, discounted = FALSE WHERE status = 'pending' AND EXISTS (SELECT 1 FROM gate_sessions s \
             WHERE s.digest = circuit_operations.session_digest AND (s.node_id = $1 OR s.node_id IS NULL))";
        self.db.execute(sql, values![node_id, code, message, at]).await
    }

    /// Deletes runs that ended before this time.
    pub async fn forget_circuit_operations(&self, ended_before: i64) -> Result<u64> {
        let sql = "DELETE FROM circuit_operations WHERE op_id IN (SELECT op_id FROM circuit_operations WHERE ended_at < $1 LIMIT $2)";
        self.db.delete_in_portions(sql, ended_before).await
    }
}

/// Writes the rows of runs, unless they exist.
pub(crate) async fn begin_all(tx: &mut Tx, operations: impl Iterator<Item = &NewCircuitOperation>) -> Result<()> {
    for operation in operations {
        let sql = "INSERT INTO circuit_operations (op_id, account_id, session_digest, status, gates_total, by_gate, levels, \
             plan, created_at) VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, $8) ON CONFLICT (op_id) DO NOTHING";
        let values = values![
            &operation.op_id,
            &operation.account_id,
            &operation.session_digest,
            operation.gates_total,
            &operation.by_gate,
            operation.levels,
            &operation.plan,
            operation.created_at
        ];
        tx.execute(sql, values).await?;
    }
    Ok(())
}

/// Records the ends of runs.
pub(crate) async fn end_all(tx: &mut Tx, ends: impl Iterator<Item = &CircuitOperationEnd>) -> Result<()> {
    for end in ends {
        let sql = "UPDATE circuit_operations SET status = $2, gates_done = $3, bootstrap_ops = $4, cost_milli_yen = $5, \
             discounted = $6, compute_us = $7, error_code = $8, error_message = $9, ended_at = $10 \
             WHERE op_id = $1 AND status = 'pending'";
        let (code, message) = end.error.as_ref().map(|(code, message)| (code.as_str(), message.as_str())).unzip();
        let values = values![
            &end.op_id,
            end.status,
            end.gates_done,
            end.bootstrap_ops,
            end.cost_milli_yen,
            end.discounted,
            end.compute_us,
            code,
            message,
            end.ended_at
        ];
        if tx.execute(sql, values).await? == 0 {
            return Err(Error::OperationEnded);
        }
    }
    Ok(())
}
