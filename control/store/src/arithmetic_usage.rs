//! Usage rows of operations on encrypted numbers.

use api::Environment;

use crate::database::{Tx, values};
use crate::{Result, Store};

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
    /// Returns the sum of the compute units in all usage rows of an account.
    pub async fn arithmetic_usage_total(&self, account_id: &str) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(SUM(fcu), 0) AS BIGINT) FROM arithmetic_usage WHERE account_id = $1";
        self.db.fetch_one::<(i64,)>(sql, values![account_id]).await.map(|(fcu,)| fcu)
    }
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
