//! Completed operations of accounts by month and name (readings P3, P33).

use std::collections::BTreeMap;

use crate::Result;
use crate::database::{Tx, values};

/// Completed operations of an account in a month.
#[derive(Clone, Debug)]
pub struct OperationCounts {
    /// The account.
    pub account_id: String,
    /// The month in which the work was accepted: months since year 0.
    pub month: i64,
    /// How many by name.
    pub operations: Vec<(String, i64)>,
}

/// Adds counts to their rows.
pub(crate) async fn count_all(tx: &mut Tx, counts: impl Iterator<Item = &OperationCounts>) -> Result<()> {
    // those of equal rows together, and rows in one order
    let mut sums: BTreeMap<(&str, i64, &str), i64> = BTreeMap::new();
    for OperationCounts { account_id, month, operations } in counts {
        for (operation, count) in operations {
            *sums.entry((account_id, *month, operation)).or_default() += count;
        }
    }
    if tx.has_arrays() && sums.len() > 1 {
        let accounts: Vec<Option<&str>> = sums.keys().map(|(account, ..)| Some(*account)).collect();
        let months: Vec<i64> = sums.keys().map(|(_, month, _)| *month).collect();
        let operations: Vec<Option<&str>> = sums.keys().map(|(.., operation)| Some(*operation)).collect();
        let sql = "INSERT INTO operation_counts (account_id, month, operation, count) \
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[]) \
             ON CONFLICT (account_id, month, operation) DO UPDATE SET count = operation_counts.count + excluded.count";
        let of = values![accounts, months, operations, sums.values().copied().collect::<Vec<i64>>()];
        return tx.execute(sql, of).await.map(drop);
    }
    for ((account, month, operation), count) in sums {
        let sql = "INSERT INTO operation_counts (account_id, month, operation, count) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (account_id, month, operation) DO UPDATE SET count = operation_counts.count + excluded.count";
        tx.execute(sql, values![account, month, operation, count]).await?;
    }
    Ok(())
}
