//! What became of circuits that were run.

use crate::gate_sessions::{GateUsage, charge};
use crate::{Result, Store};

/// A run of a circuit that was accepted.
#[derive(Clone, Debug)]
pub struct NewCircuitOperation<'a> {
    /// `op_...`
    pub op_id: &'a str,
    /// Owner.
    pub account_id: &'a str,
    /// Its session.
    pub session_digest: &'a [u8; 32],
    /// Gates of the circuit.
    pub gates_total: i64,
    /// JSON object: gate name to count.
    pub by_gate: &'a str,
    /// Levels of the circuit.
    pub levels: i64,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct CircuitOperationEnd<'a> {
    /// `completed`, `failed` or `cancelled`.
    pub status: &'a str,
    /// Gates that were completed.
    pub gates_done: i64,
    /// Bootstrap operations charged, by the tariff.
    pub bootstrap_ops: i64,
    /// What was charged.
    pub cost_milli_yen: i64,
    /// Whether the discount applied.
    pub discounted: bool,
    /// Wall time of the evaluation.
    pub compute_us: i64,
    /// Code and words of a failure.
    pub error: Option<(&'a str, &'a str)>,
    /// Now, in microseconds since 1970.
    pub ended_at: i64,
}

/// A run as remembered. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct CircuitOperationRecord {
    /// `op_...`
    pub op_id: String,
    /// SHA-256 of its session's id.
    pub session_digest: Vec<u8>,
    /// `pending`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Gates of the circuit.
    pub gates_total: i64,
    /// Gates that were completed, once it has ended.
    pub gates_done: i64,
    /// JSON object: gate name to count.
    pub by_gate: String,
    /// Levels of the circuit.
    pub levels: i64,
    /// Bootstrap operations charged, by the tariff.
    pub bootstrap_ops: Option<i64>,
    /// What was charged.
    pub cost_milli_yen: Option<i64>,
    /// Whether the discount applied.
    pub discounted: Option<bool>,
    /// Wall time of the evaluation.
    pub compute_us: Option<i64>,
    /// Code of a failure.
    pub error_code: Option<String>,
    /// Words of a failure.
    pub error_message: Option<String>,
    /// When it was accepted.
    pub created_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
}

impl Store {
    /// Remembers a run that nobody waits for.
    pub async fn insert_circuit_operation(&self, operation: &NewCircuitOperation<'_>) -> Result<()> {
        let mut connection = self.pool.acquire().await?;
        insert(&mut connection, operation).await
    }

    /// Ends a run, and charges it when there is something to charge: all of it or nothing. `false`: it had ended before,
    /// and nothing was done.
    pub async fn end_circuit_operation(
        &self,
        operation: &NewCircuitOperation<'_>,
        end: &CircuitOperationEnd<'_>,
        usage: Option<&GateUsage<'_>>,
    ) -> Result<bool> {
        let mut tx = self.pool.begin().await?;
        // a run that somebody waited for has no row yet
        insert(&mut tx, operation).await?;
        let (code, message) = end.error.unzip();
        let done = sqlx::query(
            "UPDATE circuit_operations SET status = $2, gates_done = $3, bootstrap_ops = $4, cost_milli_yen = $5, \
             discounted = $6, compute_us = $7, error_code = $8, error_message = $9, ended_at = $10 \
             WHERE op_id = $1 AND status = 'pending'",
        )
        .bind(operation.op_id)
        .bind(end.status)
        .bind(end.gates_done)
        .bind(end.bootstrap_ops)
        .bind(end.cost_milli_yen)
        .bind(end.discounted)
        .bind(end.compute_us)
        .bind(code)
        .bind(message)
        .bind(end.ended_at)
        .execute(&mut *tx)
        .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        if let Some(usage) = usage {
            charge(&mut tx, usage).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// A run of this account.
    pub async fn circuit_operation(&self, account_id: &str, op_id: &str) -> Result<Option<CircuitOperationRecord>> {
        Ok(sqlx::query_as(
            "SELECT op_id, session_digest, status, gates_total, gates_done, by_gate, levels, bootstrap_ops, \
             cost_milli_yen, discounted, compute_us, error_code, error_message, created_at, ended_at \
             FROM circuit_operations WHERE op_id = $1 AND account_id = $2",
        )
        .bind(op_id)
        .bind(account_id)
        .fetch_optional(&self.pool)
        .await?)
    }

    /// Ends every run of an earlier process as failed. Returns how many.
    pub async fn fail_circuit_operations(&self, code: &str, message: &str, at: i64) -> Result<u64> {
        let done = sqlx::query(
            "UPDATE circuit_operations SET status = 'failed', error_code = $1, error_message = $2, ended_at = $3, \
             bootstrap_ops = 0, cost_milli_yen = 0, discounted = 0 WHERE status = 'pending'",
        )
        .bind(code)
        .bind(message)
        .bind(at)
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }

    /// Forgets runs that ended before this time.
    pub async fn forget_circuit_operations(&self, ended_before: i64) -> Result<u64> {
        let done = sqlx::query("DELETE FROM circuit_operations WHERE ended_at < $1")
            .bind(ended_before)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected())
    }
}

/// Writes a run's row unless it is there.
async fn insert(connection: &mut sqlx::SqliteConnection, operation: &NewCircuitOperation<'_>) -> Result<()> {
    sqlx::query(
        "INSERT INTO circuit_operations (op_id, account_id, session_digest, status, gates_total, by_gate, levels, \
         created_at) VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7) ON CONFLICT (op_id) DO NOTHING",
    )
    .bind(operation.op_id)
    .bind(operation.account_id)
    .bind(&operation.session_digest[..])
    .bind(operation.gates_total)
    .bind(operation.by_gate)
    .bind(operation.levels)
    .bind(operation.created_at)
    .execute(connection)
    .await?;
    Ok(())
}
