//! Bills of months through the payment provider. The intent is recorded before the provider is asked, and the
//! provider's invoice as soon as it exists, so a bill is made once, whatever fails in between (readings W8).

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// The bill of an account's month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageBillRecord {
    /// The account.
    pub account_id: String,
    /// The month: months since year 0.
    pub month: i64,
    /// The amount in US cents.
    pub cents: i64,
    /// The provider's id of the invoice. Empty: the provider has made none, as far as this service knows.
    pub invoice_id: String,
    /// Number of attempts so far.
    pub attempt: i64,
    /// When the last attempt began, in microseconds since 1970.
    pub attempted_at: i64,
}

from_row!(UsageBillRecord { account_id, month, cents, invoice_id, attempt, attempted_at });

impl UsageBillRecord {
    /// The invoice on which the lines of this bill stand until the provider has made the invoice.
    fn lines_until_then(&self) -> String {
        format!("bill:{}:{}", self.account_id, self.month)
    }
}

impl Store {
    /// Returns the bill of an account's month, if the intent was recorded.
    pub async fn usage_bill(&self, account_id: &str, month: i64) -> Result<Option<UsageBillRecord>> {
        let sql = "SELECT account_id, month, cents, invoice_id, attempt, attempted_at FROM usage_bills \
             WHERE account_id = $1 AND month = $2";
        self.db.fetch_optional(sql, values![account_id, month]).await
    }

    /// Returns the bills of a month of accounts whose id comes after `after`, sorted by the account's id, at most `limit`.
    pub async fn usage_bills_of(&self, month: i64, after: &str, limit: i64) -> Result<Vec<UsageBillRecord>> {
        let sql = "SELECT account_id, month, cents, invoice_id, attempt, attempted_at FROM usage_bills \
             WHERE month = $1 AND account_id > $2 ORDER BY account_id LIMIT $3";
        self.db.fetch_all(sql, values![month, after, limit]).await
    }

    /// Whether lines stand on a bill that has no invoice yet.
    pub async fn has_bill_lines(&self, bill: &UsageBillRecord) -> Result<bool> {
        Ok(!self.items_of_invoice(&bill.lines_until_then()).await?.is_empty())
    }

    /// Records the start of an attempt, or the provider's invoice. False: another node has changed the bill since this
    /// node read attempt number `before`.
    pub async fn put_usage_bill(&self, bill: &UsageBillRecord, before: i64) -> Result<bool> {
        let sql = "UPDATE usage_bills SET invoice_id = $3, attempt = $4, attempted_at = $5 \
             WHERE account_id = $1 AND month = $2 AND attempt = $6";
        let of = values![&bill.account_id, bill.month, &bill.invoice_id, bill.attempt, bill.attempted_at, before];
        Ok(self.db.execute(sql, of).await? == 1)
    }
}

impl Tx {
    /// Records the intent to bill an account's month, and puts these lines on the bill. Does nothing if the intent was
    /// recorded before.
    pub async fn intend_usage_bill(&mut self, bill: &UsageBillRecord, item_ids: &[&str]) -> Result<()> {
        let sql = "INSERT INTO usage_bills (account_id, month, cents, invoice_id, attempt, attempted_at) \
             VALUES ($1, $2, $3, '', 0, 0) ON CONFLICT (account_id, month) DO NOTHING";
        if self.execute(sql, values![&bill.account_id, bill.month, bill.cents]).await? == 1 {
            self.put_items_on(&bill.lines_until_then(), item_ids).await?;
        }
        Ok(())
    }

    /// Puts the lines of a bill on the provider's invoice.
    pub async fn put_bill_on_invoice(&mut self, bill: &UsageBillRecord) -> Result<()> {
        let sql = "UPDATE invoice_items SET invoice_id = $1 WHERE account_id = $2 AND invoice_id = $3";
        self.execute(sql, values![&bill.invoice_id, &bill.account_id, &bill.lines_until_then()]).await.map(drop)
    }
}
