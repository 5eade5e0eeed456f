//! Transfers for work that is charged after it was done. Each transfer is reserved and posted in one transaction, so no
//! reservation stays open.

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

/// The result of posting a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The transfer is posted.
    Made,
    /// The account's spending would exceed its cap. Nothing was posted.
    CapReached {
        /// The cap in billionths of a dollar.
        cap_nano_usd: i64,
    },
}

/// The transfers of one transaction. The caller has locked their accounts.
pub(crate) struct PostedAtOnce {
    standing: Standing,
    made: Vec<TransferRow>,
}

impl PostedAtOnce {
    /// Reads the spending of these accounts in these months.
    pub async fn read(tx: &mut Tx, books: &BTreeSet<Book<'_>>) -> Result<PostedAtOnce> {
        Ok(PostedAtOnce { standing: Standing::read(tx, books).await?, made: Vec::new() })
    }

    /// Adds a transfer, if the account's cap permits the transfer. A transfer whose amounts are all zero is not
    /// written.
    pub fn post(&mut self, transfer: &WholeTransfer<'_>) -> Posted {
        if transfer.amounts.is_zero() {
            return Posted::Made;
        }
        let WholeTransfer { account_id, month, usd_milli_jpy, amounts, .. } = *transfer;
        if let Some(cap_nano_usd) = self.standing.cap((account_id, month)) {
            let mut spend = self.standing.spend((account_id, month));
            spend.add(amounts.nano_usd, amounts.milli_yen, usd_milli_jpy);
            if !spend.is_at_most(cap_nano_usd) {
                return Posted::CapReached { cap_nano_usd };
            }
        }
        if !self.standing.reserve((account_id, month), usd_milli_jpy, amounts) {
            // a sum of the account would overflow 64 bits; in practice no account's sums become that large
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

    /// Writes the transfers, and changes the balances by their amounts.
    pub async fn write(mut self, tx: &mut Tx) -> Result<()> {
        if self.made.is_empty() {
            return Ok(());
        }
        rows::append(tx, TransferPhase::Pending, &self.made).await?;
        rows::append(tx, TransferPhase::Posted, &self.made).await?;
        let (mut reserved, mut settled) = (Changes::default(), Changes::default());
        for row in &self.made {
            reserved.reserve(&row.account_id, row.month, row.usd_milli_jpy, row.amounts());
            settled.settle(&row.account_id, row.month, row.usd_milli_jpy, row.amounts(), row.amounts());
            let book = (row.account_id.as_str(), row.month);
            self.standing.post(book, row.usd_milli_jpy, row.amounts(), row.amounts());
        }
        reserved.add(tx).await?;
        settled.apply(tx).await?;
        let now = self.made.iter().map(|row| row.created_at).max().unwrap_or_default();
        note_reached(tx, &self.standing, &settled, &Allowances::new(), now).await
    }
}
