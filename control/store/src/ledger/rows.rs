//! Amounts, and the rows of transfers and of open reservations.

use super::TransferPhase;
use crate::Result;
use crate::database::{Tx, from_row, values};

/// Amounts of a transfer, each in its own unit. Units are never added to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Operations of a trial.
    pub trial_operations: i64,
    /// Compute units, those within the allowance too.
    pub fcu: i64,
    /// What compute units beyond the allowance cost: billionths of a dollar.
    pub nano_usd: i64,
    /// What gates cost: thousandths of a yen.
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

    /// The sum, unless a number is too large.
    pub fn plus(self, other: Amounts) -> Option<Amounts> {
        self.each(other, i64::checked_add)
    }

    /// The difference, unless a number is too small.
    pub fn minus(self, other: Amounts) -> Option<Amounts> {
        self.each(other, i64::checked_sub)
    }

    /// Whether all are zero.
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

/// The columns of a [`TransferRow`].
macro_rules! transfer_columns {
    () => {
        "transfer_id, account_id, month, usd_milli_jpy, trial_operations, fcu, nano_usd, milli_yen, node_id, created_at"
    };
}
pub(super) use transfer_columns;

/// Adds rows of this phase.
pub(super) async fn append(tx: &mut Tx, phase: TransferPhase, rows: &[TransferRow]) -> Result<()> {
    if tx.has_arrays() {
        let sql = concat!(
            "INSERT INTO transfers (phase, ",
            transfer_columns!(),
            ") SELECT $11, * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
             $7::bigint[], $8::bigint[], $9::text[], $10::bigint[])"
        );
        return insert_arrays(tx, sql, rows, Some(phase)).await;
    }
    for row in rows {
        let sql = concat!(
            "INSERT INTO transfers (phase, ",
            transfer_columns!(),
            ") VALUES ($11, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
        );
        insert_one(tx, sql, row, Some(phase)).await?;
    }
    Ok(())
}

/// Adds open reservations.
pub(super) async fn open(tx: &mut Tx, rows: &[TransferRow]) -> Result<()> {
    if tx.has_arrays() {
        let sql = concat!(
            "INSERT INTO open_reservations (",
            transfer_columns!(),
            ") SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
             $7::bigint[], $8::bigint[], $9::text[], $10::bigint[])"
        );
        return insert_arrays(tx, sql, rows, None).await;
    }
    for row in rows {
        let sql = concat!(
            "INSERT INTO open_reservations (",
            transfer_columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
        );
        insert_one(tx, sql, row, None).await?;
    }
    Ok(())
}

async fn insert_arrays(
    tx: &mut Tx,
    sql: &'static str,
    rows: &[TransferRow],
    phase: Option<TransferPhase>,
) -> Result<()> {
    let texts = |of: fn(&TransferRow) -> &str| rows.iter().map(|row| Some(of(row))).collect::<Vec<_>>();
    let integers = |of: fn(&TransferRow) -> i64| rows.iter().map(of).collect::<Vec<_>>();
    let mut values = values![
        texts(|row| &row.transfer_id),
        texts(|row| &row.account_id),
        integers(|row| row.month),
        integers(|row| row.usd_milli_jpy),
        integers(|row| row.trial_operations),
        integers(|row| row.fcu),
        integers(|row| row.nano_usd),
        integers(|row| row.milli_yen),
        texts(|row| &row.node_id),
        integers(|row| row.created_at)
    ]
    .to_vec();
    values.extend(phase.map(|phase| phase.as_str().into()));
    tx.execute(sql, &values).await.map(drop)
}

async fn insert_one(tx: &mut Tx, sql: &'static str, row: &TransferRow, phase: Option<TransferPhase>) -> Result<()> {
    let mut values = values![
        &row.transfer_id,
        &row.account_id,
        row.month,
        row.usd_milli_jpy,
        row.trial_operations,
        row.fcu,
        row.nano_usd,
        row.milli_yen,
        &row.node_id,
        row.created_at
    ]
    .to_vec();
    values.extend(phase.map(|phase| phase.as_str().into()));
    tx.execute(sql, &values).await.map(drop)
}
