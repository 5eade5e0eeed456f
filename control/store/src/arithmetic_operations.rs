//! Operations on encrypted numbers: their records (readings C3) and their usage rows.

use api::Environment;
use api::circuits::OperationStatus;

use crate::database::{Tx, from_row, values};
use crate::{Error, Result, Store};

/// An operation to record.
#[derive(Clone, Debug)]
pub struct NewArithmeticOperation {
    /// `op_...`
    pub op_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The key's id.
    pub key_id: String,
    /// The environment of the API key.
    pub environment: Environment,
    /// The node that runs the operation.
    pub node_id: String,
    /// The operation's name, with hyphens (readings C6).
    pub operation: String,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
}

/// The end of an operation.
#[derive(Clone, Debug)]
pub struct ArithmeticOperationEnd {
    /// `op_...`
    pub op_id: String,
    /// The final status.
    pub status: OperationStatus,
    /// The result's id, if the operation was completed.
    pub result_ciphertext_id: Option<String>,
    /// Number of compute units that are charged.
    pub cost_fcu: i64,
    /// Wall time of the computation.
    pub compute_us: i64,
    /// Code and message of the failure, if the operation failed.
    pub error: Option<(String, String)>,
    /// Now, in microseconds since 1970.
    pub ended_at: i64,
}

/// An operation's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArithmeticOperationRecord {
    /// `op_...`
    pub op_id: String,
    /// The key's id.
    pub key_id: String,
    /// The node that runs the operation.
    pub node_id: String,
    /// The operation's name.
    pub operation: String,
    /// The status. An operation that has not ended is pending.
    pub status: OperationStatus,
    /// The result's id, if the operation was completed.
    pub result_ciphertext_id: Option<String>,
    /// Number of compute units that were charged.
    pub cost_fcu: Option<i64>,
    /// Wall time of the computation.
    pub compute_us: Option<i64>,
    /// Code of the failure, if the operation failed.
    pub error_code: Option<String>,
    /// Message of the failure, if the operation failed.
    pub error_message: Option<String>,
    /// When the operation was accepted.
    pub created_at: i64,
    /// When the operation ended.
    pub ended_at: Option<i64>,
}

from_row!(ArithmeticOperationRecord {
    op_id,
    key_id,
    node_id,
    operation,
    status as word,
    result_ciphertext_id,
    cost_fcu,
    compute_us,
    error_code,
    error_message,
    created_at,
    ended_at
});

/// The usage row of a completed operation.
#[derive(Clone, Debug)]
pub struct ArithmeticUsage {
    /// `use_...`
    pub usage_id: String,
    /// The transfer that paid for the operation. `None`: the operation was free.
    pub transfer_id: Option<String>,
    /// The owner's account.
    pub account_id: String,
    /// The key's id.
    pub key_id: String,
    /// The environment of the API key.
    pub environment: Environment,
    /// The operation's name.
    pub operation: String,
    /// Compute units.
    pub fcu: i64,
    /// List price of the compute units (readings P1).
    pub cost_nano_usd: i64,
    /// The rate at which the price was shown in yen: thousandths of a yen for a dollar (readings P2).
    pub usd_milli_jpy: i64,
    /// Wall time of the computation.
    pub compute_us: i64,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
}

impl Store {
    /// Returns the record of an operation of this account.
    pub async fn arithmetic_operation(
        &self,
        account_id: &str,
        op_id: &str,
    ) -> Result<Option<ArithmeticOperationRecord>> {
        let sql = "SELECT op_id, key_id, node_id, operation, status, result_ciphertext_id, cost_fcu, compute_us, error_code, \
             error_message, created_at, ended_at FROM arithmetic_operations WHERE op_id = $1 AND account_id = $2";
        self.db.fetch_optional(sql, values![op_id, account_id]).await
    }

    /// Returns the sum of the compute units in all usage rows of an account.
    pub async fn arithmetic_usage_total(&self, account_id: &str) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(SUM(fcu), 0) AS BIGINT) FROM arithmetic_usage WHERE account_id = $1";
        self.db.fetch_one::<(i64,)>(sql, values![account_id]).await.map(|(fcu,)| fcu)
    }

    /// Finds the operations that an earlier process of this node did not finish, and records that they failed. Returns
    /// the number of operations.
    pub async fn fail_arithmetic_operations(&self, node_id: &str, code: &str, message: &str, at: i64) -> Result<u64> {
        let sql = "UPDATE arithmetic_operations SET status = 'failed', error_code = $2, error_message = $3, ended_at = $4, \
             cost_fcu = 0 WHERE status = 'pending' AND node_id = $1";
        self.db.execute(sql, values![node_id, code, message, at]).await
    }

    /// Deletes operations that ended before this time.
    pub async fn forget_arithmetic_operations(&self, ended_before: i64) -> Result<u64> {
        let sql = "DELETE FROM arithmetic_operations WHERE op_id IN \
             (SELECT op_id FROM arithmetic_operations WHERE ended_at < $1 LIMIT $2)";
        self.db.delete_in_portions(sql, ended_before).await
    }
}

/// Writes the rows of operations, unless they exist.
pub(crate) async fn begin_all(tx: &mut Tx, operations: impl Iterator<Item = &NewArithmeticOperation>) -> Result<()> {
    for new in operations {
        let sql = "INSERT INTO arithmetic_operations (op_id, account_id, key_id, environment, node_id, operation, status, \
             created_at) VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7) ON CONFLICT (op_id) DO NOTHING";
        let of = values![
            &new.op_id,
            &new.account_id,
            &new.key_id,
            new.environment,
            &new.node_id,
            &new.operation,
            new.created_at
        ];
        tx.execute(sql, of).await?;
    }
    Ok(())
}

/// Records the ends of operations.
pub(crate) async fn end_all(tx: &mut Tx, ends: impl Iterator<Item = &ArithmeticOperationEnd>) -> Result<()> {
    for end in ends {
        let sql = "UPDATE arithmetic_operations SET status = $2, result_ciphertext_id = $3, cost_fcu = $4, compute_us = $5, \
             error_code = $6, error_message = $7, ended_at = $8 WHERE op_id = $1 AND status = 'pending'";
        let (code, message) = end.error.as_ref().map(|(code, message)| (code.as_str(), message.as_str())).unzip();
        let of = values![
            &end.op_id,
            end.status,
            end.result_ciphertext_id.as_deref(),
            end.cost_fcu,
            end.compute_us,
            code,
            message,
            end.ended_at
        ];
        if tx.execute(sql, of).await? == 0 {
            return Err(Error::OperationEnded);
        }
    }
    Ok(())
}

/// Writes the usage rows, and adds each operation to the count of its key. Operations of a deleted key are not counted.
pub(crate) async fn charge_all(tx: &mut Tx, mut charges: Vec<&ArithmeticUsage>) -> Result<()> {
    // sort by account, then by key: the order in which ciphertexts are locked
    charges.sort_by_key(|charge| (&charge.account_id, &charge.key_id));
    for charge in charges {
        let sql = "UPDATE encryption_keys SET operation_count = operation_count + 1 WHERE key_id = $1";
        tx.execute(sql, values![&charge.key_id]).await?;
        let sql = "INSERT INTO arithmetic_usage (usage_id, account_id, key_id, environment, operation, fcu, cost_nano_usd, \
             usd_milli_jpy, compute_us, created_at, transfer_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let of = values![
            &charge.usage_id,
            &charge.account_id,
            &charge.key_id,
            charge.environment,
            &charge.operation,
            charge.fcu,
            charge.cost_nano_usd,
            charge.usd_milli_jpy,
            charge.compute_us,
            charge.created_at,
            charge.transfer_id.as_deref()
        ];
        tx.execute(sql, of).await?;
    }
    Ok(())
}
