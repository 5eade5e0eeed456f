//! Numbers of completed operations, by account, month and name (readings P3, P33).

use std::collections::BTreeMap;

use crate::Result;
use crate::database::{Column, Sql, Tx};

/// Numbers of completed operations of an account in a month.
#[derive(Clone, Debug)]
pub struct OperationCounts {
    /// The account.
    pub account_id: String,
    /// The month in which the work was accepted: months since year 0.
    pub month: i64,
    /// Number of operations, by name.
    pub operations: Vec<(String, i64)>,
}

macro_rules! on_conflict_add {
    () => {
        "ON CONFLICT (account_id, month, operation) DO UPDATE SET count = operation_counts.count + excluded.count"
    };
}

/// Adds these numbers to the rows of the same account, month and operation.
pub(crate) async fn count_all(tx: &mut Tx, counts: impl Iterator<Item = &OperationCounts>) -> Result<()> {
    // one sum for each row; the map sorts the rows, so that all transactions lock them in the same order
    let mut sums: BTreeMap<(&str, i64, &str), i64> = BTreeMap::new();
    for OperationCounts { account_id, month, operations } in counts {
        for (operation, count) in operations {
            *sums.entry((account_id, *month, operation)).or_default() += count;
        }
    }
    if sums.is_empty() {
        return Ok(());
    }
    let sql = Sql {
        sqlite: concat!(
            "INSERT INTO operation_counts (account_id, month, operation, count) \
             SELECT r.value->>0, r.value->>1, r.value->>2, r.value->>3 FROM json_each($1) r WHERE true ",
            on_conflict_add!()
        ),
        postgres: concat!(
            "INSERT INTO operation_counts (account_id, month, operation, count) \
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[]) ",
            on_conflict_add!()
        ),
    };
    let rows: Vec<((&str, i64, &str), i64)> = sums.into_iter().collect();
    let columns = [
        Column::texts(&rows, |((account, ..), _)| account),
        Column::integers(&rows, |((_, month, _), _)| *month),
        Column::texts(&rows, |((.., operation), _)| operation),
        Column::integers(&rows, |(_, count)| *count),
    ];
    tx.execute_rows(sql, &columns).await.map(drop)
}
