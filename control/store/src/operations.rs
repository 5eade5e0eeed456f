//! Operations of all kinds: the runs of circuits, and the operations on numbers (readings C3).
//!
//! A row is written at the operation's start if no client waits for the end, and otherwise with the charge.

use api::Environment;
use api::circuits::OperationStatus;
use sqlx::{ColumnIndex, Decode, FromRow, Type};

use crate::database::{Pools, Tx, from_row, values};
use crate::waiting_line::{self, LineEnd};
use crate::{Error, Result, Store};

/// An operation to record.
#[derive(Clone, Debug)]
pub struct NewOperation {
    /// `op_...`
    pub op_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The node that computes the operation.
    pub node_id: String,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// The computation.
    pub of: NewOperationOf,
}

/// The computation of a new operation.
#[derive(Clone, Debug)]
pub enum NewOperationOf {
    /// A run of a circuit.
    Circuit(NewCircuitRun),
    /// An operation on encrypted numbers.
    Arithmetic(NewArithmetic),
}

/// A run of a circuit to record.
#[derive(Clone, Debug)]
pub struct NewCircuitRun {
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
}

/// An operation on encrypted numbers to record.
#[derive(Clone, Debug)]
pub struct NewArithmetic {
    /// The key's id.
    pub key_id: String,
    /// The environment of the API key.
    pub environment: Environment,
    /// The operation's name, with hyphens (readings C6).
    pub operation: String,
}

/// The end of an operation.
#[derive(Clone, Debug)]
pub struct OperationEnd {
    /// `op_...`
    pub op_id: String,
    /// The final status.
    pub status: OperationStatus,
    /// Wall time of the computation, in microseconds.
    pub compute_us: i64,
    /// Code and message of the failure, if the operation failed.
    pub error: Option<(String, String)>,
    /// Now, in microseconds since 1970.
    pub ended_at: i64,
    /// The work that was done, and its charge.
    pub outcome: Outcome,
    /// Who ends the operation, if it is in the waiting line of a fleet. An operation that another node ends, or has ended,
    /// fails the unit ([`Error::OperationEnded`]).
    pub line: Option<LineEnd>,
}

/// The work that an operation has done, and its charge.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Of a run of a circuit.
    Circuit(CircuitOutcome),
    /// Of an operation on encrypted numbers.
    Arithmetic(ArithmeticOutcome),
}

/// The work that a run of a circuit has done, and its charge.
#[derive(Clone, Debug, Default)]
pub struct CircuitOutcome {
    /// Number of gates that were completed.
    pub gates_done: i64,
    /// Number of bootstraps that the tariff charges.
    pub bootstrap_ops: i64,
    /// The charge, in thousandths of a yen.
    pub cost_milli_yen: i64,
    /// Whether the discount applied.
    pub discounted: bool,
}

/// The result of an operation on encrypted numbers, and its charge.
#[derive(Clone, Debug, Default)]
pub struct ArithmeticOutcome {
    /// The result's id, if the operation was completed.
    pub result_ciphertext_id: Option<String>,
    /// Number of compute units that are charged.
    pub cost_fcu: i64,
    /// Ids of the ciphertexts that were removed to make room for the result, separated by spaces.
    pub evicted_ids: Option<String>,
}

/// The columns that rows of all kinds have. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationRecord {
    /// The node that computes the operation. `None`: an earlier version recorded a run of a session without a node.
    pub node_id: Option<String>,
    /// The status. An operation that has not ended is pending.
    pub status: OperationStatus,
    /// Wall time of the computation, in microseconds.
    pub compute_us: Option<i64>,
    /// Code of the failure, if the operation failed.
    pub error_code: Option<String>,
    /// Message of the failure, if the operation failed.
    pub error_message: Option<String>,
    /// When the operation was accepted.
    pub created_at: i64,
    /// When the operation ended.
    pub ended_at: Option<i64>,
    /// Units of work that are done, if the operation is in the waiting line of a fleet.
    pub line_done: Option<i64>,
}

/// The columns that only rows of one kind have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOf {
    /// A run of a circuit.
    Circuit(CircuitRun),
    /// An operation on encrypted numbers.
    Arithmetic(Arithmetic),
}

/// A recorded run of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitRun {
    /// SHA-256 of the session's id.
    pub session_digest: Vec<u8>,
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
}

/// A recorded operation on encrypted numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// The key's id.
    pub key_id: String,
    /// The operation's name.
    pub operation: String,
    /// The result's id, if the operation was completed.
    pub result_ciphertext_id: Option<String>,
    /// Number of compute units that were charged.
    pub cost_fcu: Option<i64>,
    /// Ids of the ciphertexts that were removed to make room for the result, separated by spaces.
    pub evicted_ids: Option<String>,
}

struct Row {
    record: OperationRecord,
    of: RecordedOf,
}

from_row!(Row { record as part, of as part });
from_row!(OperationRecord {
    node_id,
    status as word,
    compute_us,
    error_code,
    error_message,
    created_at,
    ended_at,
    line_done
});
from_row!(CircuitRun {
    session_digest,
    gates_total,
    gates_done,
    by_gate,
    levels,
    plan,
    bootstrap_ops,
    cost_milli_yen,
    discounted
});
from_row!(Arithmetic { key_id, operation, result_ciphertext_id, cost_fcu, evicted_ids });

impl<'r, R: sqlx::Row> FromRow<'r, R> for RecordedOf
where
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    CircuitRun: FromRow<'r, R>,
    Arithmetic: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        let kind: String = row.try_get("kind")?;
        match kind.as_str() {
            CIRCUIT => CircuitRun::from_row(row).map(RecordedOf::Circuit),
            ARITHMETIC => Arithmetic::from_row(row).map(RecordedOf::Arithmetic),
            _ => Err(sqlx::Error::ColumnDecode {
                index: "kind".to_owned(),
                source: format!("{kind:?} is no kind of operation").into(),
            }),
        }
    }
}

/// The kinds of operations, as the column `kind` names them.
const CIRCUIT: &str = "circuit";
const ARITHMETIC: &str = "arithmetic";

impl RecordedOf {
    /// Returns the run of a circuit, if this is one.
    pub fn circuit(self) -> Option<CircuitRun> {
        if let RecordedOf::Circuit(run) = self { Some(run) } else { None }
    }

    /// Makes the end of an operation of this kind that no worker has begun. `error`: code and message, if the operation failed.
    pub fn ended_unbegun(
        &self,
        op_id: &str,
        (status, error): (OperationStatus, Option<(String, String)>),
        ended_at: i64,
        line: LineEnd,
    ) -> OperationEnd {
        let (op_id, outcome, line) = (op_id.to_owned(), self.without_results(), Some(line));
        OperationEnd { op_id, status, compute_us: 0, error, ended_at, outcome, line }
    }

    /// Returns the outcome of an operation of this kind that ended without results.
    pub fn without_results(&self) -> Outcome {
        match self {
            RecordedOf::Circuit(_) => Outcome::Circuit(CircuitOutcome::default()),
            RecordedOf::Arithmetic(_) => Outcome::Arithmetic(ArithmeticOutcome::default()),
        }
    }

    /// Returns the operation on encrypted numbers, if this is one.
    pub fn arithmetic(self) -> Option<Arithmetic> {
        if let RecordedOf::Arithmetic(operation) = self { Some(operation) } else { None }
    }
}

/// The node that computes an operation. The release before recorded no node for a run of a circuit, so the run's session
/// names the node.
macro_rules! of_node {
    () => {
        "COALESCE(operations.node_id, (SELECT s.node_id FROM gate_sessions s WHERE s.digest = operations.session_digest))"
    };
}

impl Store {
    /// Returns the record of an operation of this account.
    pub async fn operation(&self, account_id: &str, op_id: &str) -> Result<Option<(OperationRecord, RecordedOf)>> {
        let sql = concat!(
            "SELECT kind, ",
            of_node!(),
            " AS node_id, status, compute_us, error_code, error_message, created_at, ended_at, session_digest, \
             gates_total, gates_done, by_gate, levels, plan, bootstrap_ops, cost_milli_yen, discounted, key_id, operation, \
             result_ciphertext_id, cost_fcu, evicted_ids, (SELECT w.done FROM waiting_line w WHERE w.op_id = operations.op_id) \
             AS line_done FROM operations WHERE op_id = $1 AND account_id = $2"
        );
        let row: Option<Row> = self.db.fetch_optional(sql, values![op_id, account_id]).await?;
        Ok(row.map(|Row { record, of }| (record, of)))
    }

    /// Finds the operations that an earlier process of this node did not finish, and records that they failed. Also does
    /// this for unfinished runs of earlier versions, in which nodes had no ids. `messages`: of the runs of circuits, and
    /// of the operations on numbers. Returns the number of operations.
    pub async fn fail_unfinished_operations(
        &self,
        node_id: &str,
        code: &str,
        messages: [&str; 2],
        at: i64,
    ) -> Result<u64> {
        let sql = concat!(
            "UPDATE operations SET status = 'failed', error_code = $2, \
             error_message = CASE kind WHEN 'circuit' THEN $3 ELSE $4 END, ended_at = $5, bootstrap_ops = 0, \
             cost_milli_yen = 0, discounted = FALSE, cost_fcu = 0 WHERE status = 'pending' AND COALESCE(",
            of_node!(),
            ", $1) = $1"
        );
        let [circuit, arithmetic] = messages;
        self.db.execute(sql, values![node_id, code, circuit, arithmetic, at]).await
    }

    /// Deletes operations that ended before this time.
    pub async fn forget_operations(&self, ended_before: i64) -> Result<u64> {
        let sql = "DELETE FROM operations WHERE op_id IN (SELECT op_id FROM operations WHERE ended_at < $1 LIMIT $2)";
        self.db.delete_in_portions(sql, ended_before).await
    }

    /// Moves the rows of the tables of the release before to `operations`: at the first start after the upgrade, and after
    /// a roll-back. Only on SQLite, because on PostgreSQL the names of these tables are views of `operations`. Call this
    /// before the node computes.
    pub async fn take_over_operations(&self) -> Result<()> {
        if !matches!(self.db.open, Pools::Sqlite { .. }) {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        for sql in [
            "INSERT INTO operations (op_id, account_id, kind, session_digest, status, gates_total, gates_done, by_gate, levels, \
             plan, bootstrap_ops, cost_milli_yen, discounted, compute_us, error_code, error_message, created_at, ended_at) \
             SELECT op_id, account_id, 'circuit', session_digest, status, gates_total, gates_done, by_gate, levels, \
             plan, bootstrap_ops, cost_milli_yen, discounted, compute_us, error_code, error_message, created_at, ended_at \
             FROM circuit_operations",
            "DELETE FROM circuit_operations",
            "INSERT INTO operations (op_id, account_id, kind, node_id, key_id, environment, operation, status, \
             result_ciphertext_id, cost_fcu, compute_us, error_code, error_message, created_at, ended_at) \
             SELECT op_id, account_id, 'arithmetic', node_id, key_id, environment, operation, status, \
             result_ciphertext_id, cost_fcu, compute_us, error_code, error_message, created_at, ended_at \
             FROM arithmetic_operations",
            "DELETE FROM arithmetic_operations",
        ] {
            tx.execute(sql, values![]).await?;
        }
        tx.commit().await
    }
}

/// Writes the rows of operations, unless they exist.
pub(crate) async fn begin_all(tx: &mut Tx, operations: impl Iterator<Item = &NewOperation>) -> Result<()> {
    for new in operations {
        let sql = "INSERT INTO operations (op_id, account_id, node_id, status, created_at, kind, session_digest, gates_total, \
             by_gate, levels, plan, key_id, environment, operation) \
             VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (op_id) DO NOTHING";
        let (kind, run, arithmetic) = match &new.of {
            NewOperationOf::Circuit(run) => (CIRCUIT, Some(run), None),
            NewOperationOf::Arithmetic(operation) => (ARITHMETIC, None, Some(operation)),
        };
        let values = values![
            &new.op_id,
            &new.account_id,
            &new.node_id,
            new.created_at,
            kind,
            run.map(|run| &run.session_digest[..]),
            run.map(|run| run.gates_total),
            run.map(|run| run.by_gate.as_str()),
            run.map(|run| run.levels),
            run.map(|run| run.plan.as_str()),
            arithmetic.map(|operation| operation.key_id.as_str()),
            arithmetic.map(|operation| operation.environment.as_str()),
            arithmetic.map(|operation| operation.operation.as_str()),
        ];
        tx.execute(sql, values).await?;
    }
    Ok(())
}

/// Records the ends of operations.
pub(crate) async fn end_all(tx: &mut Tx, ends: impl Iterator<Item = &OperationEnd>) -> Result<()> {
    for end in ends {
        if let Some(line) = end.line {
            waiting_line::leave(tx, &end.op_id, line).await?;
        }
        let sql = "UPDATE operations SET status = $2, compute_us = $3, error_code = $4, error_message = $5, ended_at = $6, \
             gates_done = $7, bootstrap_ops = $8, cost_milli_yen = $9, discounted = $10, result_ciphertext_id = $11, \
             cost_fcu = $12, evicted_ids = $13 WHERE op_id = $1 AND status = 'pending'";
        let (code, message) = end.error.as_ref().map(|(code, message)| (code.as_str(), message.as_str())).unzip();
        let (run, arithmetic) = match &end.outcome {
            Outcome::Circuit(run) => (Some(run), None),
            Outcome::Arithmetic(operation) => (None, Some(operation)),
        };
        let values = values![
            &end.op_id,
            end.status,
            end.compute_us,
            code,
            message,
            end.ended_at,
            run.map_or(0, |run| run.gates_done),
            run.map(|run| run.bootstrap_ops),
            run.map(|run| run.cost_milli_yen),
            run.map(|run| run.discounted),
            arithmetic.and_then(|operation| operation.result_ciphertext_id.as_deref()),
            arithmetic.map(|operation| operation.cost_fcu),
            arithmetic.and_then(|operation| operation.evicted_ids.as_deref()),
        ];
        if tx.execute(sql, values).await? == 0 {
            return Err(Error::OperationEnded);
        }
    }
    Ok(())
}
