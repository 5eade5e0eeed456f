//! Transfers of work that was done before it is charged: reserved and posted in one transaction, so that nothing is ever open.

use std::collections::BTreeSet;

use super::balances::{Book, Changes, Standing};
use super::rows::{self, TransferRow};
use super::thresholds::{Allowances, note_reached};
use super::{Amounts, TransferPhase};
use crate::Result;
use crate::database::Tx;

/// A transfer with its amounts.
#[derive(Clone, Debug)]
pub(crate) struct WholeTransfer<'a> {
    pub transfer_id: &'a str,
    pub account_id: &'a str,
    pub node_id: &'a str,
    pub month: i64,
    pub usd_milli_jpy: i64,
    pub created_at: i64,
    pub amounts: Amounts,
}

/// Whether a transfer can be posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// It can.
    Made,
    /// What the account spends would pass its cap; nothing was done.
    CapReached {
        /// Billionths of a dollar.
        cap_nano_usd: i64,
    },
}

/// Transfers of one transaction. Their accounts are locked.
pub(crate) struct PostedAtOnce {
    standing: Standing,
    made: Vec<TransferRow>,
}

impl PostedAtOnce {
    /// With what these accounts have spent in these months.
    pub async fn read(tx: &mut Tx, books: &BTreeSet<Book<'_>>) -> Result<PostedAtOnce> {
        Ok(PostedAtOnce { standing: Standing::read(tx, books).await?, made: Vec::new() })
    }

    /// Adds a transfer, if its account's cap admits it. A transfer that costs nothing is not written.
    pub fn post(&mut self, transfer: &WholeTransfer<'_>) -> Posted {
        if transfer.amounts.is_zero() {
            return Posted::Made;
        }
        let WholeTransfer { account_id, month, usd_milli_jpy, amounts, .. } = *transfer;
        if let Some(cap_nano_usd) = self.standing.cap(account_id) {
            let mut spend = self.standing.spend((account_id, month));
            spend.add(amounts.nano_usd, amounts.milli_yen, usd_milli_jpy);
            if !spend.is_at_most(cap_nano_usd) {
                return Posted::CapReached { cap_nano_usd };
            }
        }
        if !self.standing.reserve((account_id, month), usd_milli_jpy, amounts) {
            // numbers that no account reaches
            return Posted::CapReached { cap_nano_usd: i64::MAX };
        }
        self.made.push(TransferRow {
            transfer_id: transfer.transfer_id.to_owned(),
            account_id: account_id.to_owned(),
            month,
            usd_milli_jpy,
            trial_operations: amounts.trial_operations,
            fcu: amounts.fcu,
            nano_usd: amounts.nano_usd,
            milli_yen: amounts.milli_yen,
            node_id: transfer.node_id.to_owned(),
            created_at: transfer.created_at,
        });
        Posted::Made
    }

    /// Writes them, and what they change of balances.
    pub async fn write(self, tx: &mut Tx) -> Result<()> {
        if self.made.is_empty() {
            return Ok(());
        }
        rows::append(tx, TransferPhase::Pending, &self.made).await?;
        rows::append(tx, TransferPhase::Posted, &self.made).await?;
        let (mut reserved, mut settled) = (Changes::default(), Changes::default());
        for row in &self.made {
            reserved.reserve(&row.account_id, row.month, row.usd_milli_jpy, row.amounts());
            settled.settle(&row.account_id, row.month, row.usd_milli_jpy, row.amounts(), true);
        }
        reserved.add(tx).await?;
        settled.apply(tx).await?;
        let now = self.made.iter().map(|row| row.created_at).max().unwrap_or_default();
        note_reached(tx, &settled, &Allowances::new(), now).await
    }
}
