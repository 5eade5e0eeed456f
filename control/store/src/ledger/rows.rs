//! Amounts, and the rows of transfers and of open reservations.

use super::TransferPhase;
use crate::Result;
use crate::database::{Column, Sql, Tx, from_row};

/// The amounts of a transfer, each in its own unit. Amounts in different units are never added to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Number of operations of a trial.
    pub trial_operations: i64,
    /// Number of compute units, including compute units within the allowance.
    pub fcu: i64,
    /// Price of the compute units beyond the allowance, in billionths of a dollar.
    pub nano_usd: i64,
    /// Price of gates, in thousandths of a yen.
    pub milli_yen: i64,
}

impl Amounts {
    fn each(self, other: Amounts, work: impl Fn(i64, i64) -> Option<i64>) -> Option<Amounts> {
        Some(Amounts {
            trial_operations: work(self.trial_operations, other.trial_operations)?,
            fcu: work(self.fcu, other.fcu)?,
            nano_usd: work(self.nano_usd, other.nano_usd)?,
            milli_yen: work(self.milli_yen, other.milli_yen)?,
        })
    }

    /// Adds each amount to the other's amount in the same unit. `None`: a sum would overflow.
    pub fn plus(self, other: Amounts) -> Option<Amounts> {
        self.each(other, i64::checked_add)
    }

    /// Subtracts the other's amounts, each in its own unit. `None`: a difference would overflow.
    pub fn minus(self, other: Amounts) -> Option<Amounts> {
        self.each(other, i64::checked_sub)
    }

    /// Returns whether all amounts are zero.
    pub fn is_zero(self) -> bool {
        self == Amounts::default()
    }
}

/// A transfer without its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TransferRow {
    pub transfer_id: String,
    pub account_id: String,
    pub month: i64,
    pub usd_milli_jpy: i64,
    pub trial_operations: i64,
    pub fcu: i64,
    pub nano_usd: i64,
    pub milli_yen: i64,
    pub node_id: String,
    pub created_at: i64,
}

from_row!(TransferRow {
    transfer_id,
    account_id,
    month,
    usd_milli_jpy,
    trial_operations,
    fcu,
    nano_usd,
    milli_yen,
    node_id,
    created_at
});

impl TransferRow {
    pub fn amounts(&self) -> Amounts {
        let TransferRow { trial_operations, fcu, nano_usd, milli_yen, .. } = *self;
        Amounts { trial_operations, fcu, nano_usd, milli_yen }
    }
}

/// The names of the columns of a [`TransferRow`], for a statement.
macro_rules! transfer_columns {
    () => {
        "transfer_id, account_id, month, usd_milli_jpy, trial_operations, fcu, nano_usd, milli_yen, node_id, created_at"
    };
}

/// The same columns as cells of a JSON row, for SQLite.
macro_rules! transfer_cells {
    () => {
        "r.value->>0, r.value->>1, r.value->>2, r.value->>3, r.value->>4, r.value->>5, r.value->>6, r.value->>7, r.value->>8, \
         r.value->>9"
    };
}

/// The same columns as arrays, for PostgreSQL.
macro_rules! transfer_arrays {
    () => {
        "$1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], \
         $10::bigint[]"
    };
}

/// Writes a row with this phase for each transfer.
pub(super) async fn append(tx: &mut Tx, phase: TransferPhase, rows: &[TransferRow]) -> Result<()> {
    let sql = Sql {
        sqlite: concat!(
            "INSERT INTO transfers (",
            transfer_columns!(),
            ", phase) SELECT ",
            transfer_cells!(),
            ", r.value->>10 FROM json_each($1) r"
        ),
        postgres: concat!(
            "INSERT INTO transfers (",
            transfer_columns!(),
            ", phase) SELECT * FROM unnest(",
            transfer_arrays!(),
            ", $11::text[])"
        ),
    };
    let mut columns = columns(rows);
    columns.push(Column::texts(rows, |_| phase.as_str()));
    tx.execute_rows(sql, &columns).await.map(drop)
}

/// Writes open reservations.
pub(super) async fn open(tx: &mut Tx, rows: &[TransferRow]) -> Result<()> {
    let sql = Sql {
        sqlite: concat!(
            "INSERT INTO open_reservations (",
            transfer_columns!(),
            ") SELECT ",
            transfer_cells!(),
            " FROM json_each($1) r"
        ),
        postgres: concat!(
            "INSERT INTO open_reservations (",
            transfer_columns!(),
            ") SELECT * FROM unnest(",
            transfer_arrays!(),
            ")"
        ),
    };
    tx.execute_rows(sql, &columns(rows)).await.map(drop)
}

/// Deletes those reservations with these ids that are open, and returns them.
pub(super) async fn close(tx: &mut Tx, transfer_ids: Vec<&str>) -> Result<Vec<TransferRow>> {
    let sql = Sql {
        sqlite: concat!(
            "DELETE FROM open_reservations WHERE transfer_id IN (SELECT r.value->>0 FROM json_each($1) r) RETURNING ",
            transfer_columns!()
        ),
        postgres: concat!(
            "DELETE FROM open_reservations WHERE transfer_id = ANY($1::text[]) RETURNING ",
            transfer_columns!()
        ),
    };
    tx.fetch_rows(sql, &[Column::Texts(transfer_ids)]).await
}

fn columns(rows: &[TransferRow]) -> Vec<Column<'_>> {
    vec![
        Column::texts(rows, |row| &row.transfer_id),
        Column::texts(rows, |row| &row.account_id),
        Column::integers(rows, |row| row.month),
        Column::integers(rows, |row| row.usd_milli_jpy),
        Column::integers(rows, |row| row.trial_operations),
        Column::integers(rows, |row| row.fcu),
        Column::integers(rows, |row| row.nano_usd),
        Column::integers(rows, |row| row.milli_yen),
        Column::texts(rows, |row| &row.node_id),
        Column::integers(rows, |row| row.created_at),
    ]
}
