//! The ledger: the amounts that accounts have reserved, have used and owe (readings P1, P5-P9).
//!
//! A transfer is reserved before the work that it pays for. The transfer is posted in one transaction with the results
//! of the work ([`crate::Unit`]), or voided. Transfers' rows are only added, never changed. Balances are the sums of
//! the rows, and are written in the same transactions as the rows.
//!
//! Every transaction that reserves or settles locks the account first. So a cap is compared with the sum of all earlier
//! transfers, and concurrent requests together cannot exceed the cap. A cap in dollars is compared exactly ([`Spend`]).
//! SQL with 64-bit integers cannot do that, so the comparison is in Rust, under the lock.

mod allowances;
mod at_once;
mod audit;
mod balances;
mod reserve;
mod rows;
mod settle;
mod spend;
mod thresholds;

use std::collections::BTreeSet;

use api::words;

use crate::Result;
use crate::database::{Tx, values};

pub use audit::{AuditFinding, AuditReport};
pub use balances::{Balance, MonthlyCap, UsedInMonth};
pub use reserve::{BeyondAllowance, NewReservation, Reserved, Wanted};
pub use rows::Amounts;
pub use settle::{LostReservation, Posting};
pub use spend::Spend;
pub use thresholds::{BUDGET_THRESHOLDS, USAGE_THRESHOLDS, is_reached};

pub(crate) use at_once::{Posted, PostedAtOnce, WholeTransfer};
pub(crate) use settle::{Voiding, post_all};

/// The month of transfers that belong to no month: the operations of trials.
pub const NO_MONTH: i64 = 0;

/// The phase of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferPhase {
    /// The amount is reserved, and the transfer has not ended yet.
    Pending,
    /// The amount is charged, because the work was completed.
    Posted,
    /// The reservation is undone, because the work was not completed.
    Voided,
}

words!(TransferPhase, "phase of a transfer", {
    Pending = "pending",
    Posted = "posted",
    Voided = "voided",
});

/// Locks the ledgers of these accounts, in the order of the accounts' ids, until the transaction ends. SQLite needs no
/// such lock, because only one transaction writes at a time.
pub(crate) async fn lock(tx: &mut Tx, accounts: BTreeSet<&str>) -> Result<()> {
    if accounts.is_empty() {
        return Ok(());
    }
    let ids = || accounts.iter().map(|account| Some(*account)).collect::<Vec<_>>();
    if !tx.has_arrays() {
        return Ok(());
    }
    let locked =
        "SELECT account_id FROM ledger_accounts WHERE account_id = ANY($1) ORDER BY account_id FOR NO KEY UPDATE";
    if (tx.execute(locked, values![ids()]).await? as usize) < accounts.len() {
        let sql = "INSERT INTO ledger_accounts (account_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING";
        tx.execute(sql, values![ids()]).await?;
        tx.execute(locked, values![ids()]).await?;
    }
    Ok(())
}
