//! Invoices of the platform, their lines, and a record of the months for which each account was billed (readings P19,
//! P25, W6).

use crate::database::{Tx, from_row, values};
use crate::standing::StandingChange;
use crate::{Result, Store};

/// The state of an invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvoiceState {
    /// The provider has not issued the invoice yet. Customers do not see it.
    Draft,
    /// The invoice must be paid.
    Open,
    /// The invoice was paid.
    Paid,
    /// The invoice was withdrawn.
    Void,
    /// The invoice will not be paid.
    Uncollectible,
}

api::words!(InvoiceState, "state of an invoice", {
    Draft = "draft",
    Open = "open",
    Paid = "paid",
    Void = "void",
    Uncollectible = "uncollectible",
});

/// An invoice. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice {
    /// The invoice's id. If the provider made the invoice, this is the provider's id.
    pub invoice_id: String,
    /// The account that must pay.
    pub account_id: String,
    /// The month of use: months since year 0.
    pub month: i64,
    /// The invoice's state.
    pub status: InvoiceState,
    /// The amount in US cents.
    pub amount_usd_cents: i64,
    /// The first moment of the period that the invoice is for.
    pub period_start: i64,
    /// The first moment after the period that the invoice is for.
    pub period_end: i64,
    /// When the invoice was issued.
    pub issued_at: i64,
    /// When the invoice was paid. 0: not paid.
    pub paid_at: i64,
    /// The address of the invoice's page. May be empty.
    pub url: String,
    /// Number of failed payments.
    pub failures: i64,
    /// Whether the provider made the invoice.
    pub is_provided: bool,
    /// From this time on the invoice is overdue unless it is paid. For an invoice of the provider: when a payment first
    /// failed. 0: not known.
    pub due_at: i64,
}

from_row!(Invoice {
    invoice_id,
    account_id,
    month,
    status as word,
    amount_usd_cents,
    period_start,
    period_end,
    issued_at,
    paid_at,
    url,
    failures,
    is_provided,
    due_at
});

/// A line of an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvoiceItem {
    /// The line's id, made from the subject of the line, such as an account and a month. So no line is written twice.
    pub item_id: String,
    /// The account that must pay.
    pub account_id: String,
    /// The month that the line is for.
    pub month: i64,
    /// The text of the line.
    pub description: String,
    /// The amount in US cents. A credit is negative.
    pub amount_usd_cents: i64,
    /// The id of the invoice that has this line. Empty: no invoice yet.
    pub invoice_id: String,
    /// When the line was written.
    pub created_at: i64,
}

from_row!(InvoiceItem { item_id, account_id, month, description, amount_usd_cents, invoice_id, created_at });

impl InvoiceItem {
    /// Returns the id of the line for an account's use in a month.
    pub fn usage_id(account_id: &str, month: i64) -> String {
        format!("{account_id}:usage:{month}")
    }
}

macro_rules! select_invoices {
    ($rest:literal) => {
        concat!(
            "SELECT invoice_id, account_id, month, status, amount_usd_cents, period_start, period_end, issued_at, paid_at, url, \
             failures, is_provided, due_at FROM invoices ",
            $rest
        )
    };
}

macro_rules! select_items {
    ($rest:literal) => {
        concat!(
            "SELECT item_id, account_id, month, description, amount_usd_cents, invoice_id, created_at FROM invoice_items ",
            $rest
        )
    };
}

impl InvoiceState {
    /// Whether the amount is still owed. An invoice that was given up is owed too: only its collection has ended.
    pub fn is_owed(self) -> bool {
        matches!(self, InvoiceState::Open | InvoiceState::Uncollectible)
    }
}

/// An invoice about whose payment a notice is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNotice {
    /// The invoice.
    pub invoice_id: String,
    /// The last notice that was sent. Empty: none.
    pub notice: String,
}

from_row!(DueNotice { invoice_id, notice });

impl Store {
    /// Returns the invoices that an account owes and that have a due time, the oldest first, at most `limit`.
    pub async fn owed_invoices(&self, account_id: &str, limit: i64) -> Result<Vec<Invoice>> {
        let sql = select_invoices!(
            "WHERE account_id = $1 AND due_at > 0 AND status IN ('open', 'uncollectible') ORDER BY due_at, invoice_id LIMIT $2"
        );
        self.db.fetch_all(sql, values![account_id, limit]).await
    }

    /// Returns the notices about payments that are due, at most `limit`.
    pub async fn due_notices(&self, now: i64, limit: i64) -> Result<Vec<DueNotice>> {
        let sql = "SELECT invoice_id, notice FROM invoices WHERE notice_at > 0 AND notice_at <= $1 \
             ORDER BY notice_at, invoice_id LIMIT $2";
        self.db.fetch_all(sql, values![now, limit]).await
    }

    /// Returns an account's newest invoices, without drafts.
    pub async fn invoices(&self, account_id: &str, limit: i64) -> Result<Vec<Invoice>> {
        let sql = select_invoices!(
            "WHERE account_id = $1 AND status <> 'draft' ORDER BY issued_at DESC, invoice_id DESC LIMIT $2"
        );
        self.db.fetch_all(sql, values![account_id, limit]).await
    }

    /// An invoice.
    pub async fn invoice(&self, invoice_id: &str) -> Result<Option<Invoice>> {
        self.db.fetch_optional(select_invoices!("WHERE invoice_id = $1"), values![invoice_id]).await
    }

    /// Returns invoices that the provider made since `issued_since`, whose id comes after `after`, sorted by id, at most
    /// `limit`. Reads the table once for all pages together. For a comparison with the provider.
    pub async fn provided_invoices(&self, issued_since: i64, after: &str, limit: i64) -> Result<Vec<Invoice>> {
        let sql = select_invoices!(
            "WHERE invoice_id > $1 AND is_provided = $2 AND issued_at >= $3 ORDER BY invoice_id LIMIT $4"
        );
        self.db.fetch_all(sql, values![after, true, issued_since, limit]).await
    }

    /// Returns those lines of an invoice that this service wrote.
    pub async fn items_of_invoice(&self, invoice_id: &str) -> Result<Vec<InvoiceItem>> {
        let sql = select_items!("WHERE invoice_id = $1 AND invoice_id <> '' ORDER BY created_at, item_id");
        self.db.fetch_all(sql, values![invoice_id]).await
    }

    /// Returns those lines of an account for this month and earlier months that are not on an invoice yet.
    pub async fn open_items(&self, account_id: &str, month: i64) -> Result<Vec<InvoiceItem>> {
        let sql =
            select_items!("WHERE account_id = $1 AND month <= $2 AND invoice_id = '' ORDER BY created_at, item_id");
        self.db.fetch_all(sql, values![account_id, month]).await
    }

    /// Returns the sum of an account's lines for a month, in US cents.
    pub async fn items_total(&self, account_id: &str, month: i64) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(SUM(amount_usd_cents), 0) AS BIGINT) FROM invoice_items WHERE account_id = $1 AND month = $2";
        self.db.fetch_one::<(i64,)>(sql, values![account_id, month]).await.map(|(cents,)| cents)
    }

    /// Returns the ids of accounts that must pay something and were not billed for this month yet. The ids are sorted.
    /// Only ids after `after` are returned, at most `limit`.
    pub async fn unbilled_accounts(&self, month: i64, after: &str, limit: i64) -> Result<Vec<String>> {
        let sql = "SELECT account_id FROM (\
             SELECT account_id FROM ledger_balances WHERE month = $1 AND (nano_usd > 0 OR milli_yen > 0 OR \
             nano_usd_reserved > 0 OR milli_yen_reserved > 0) AND account_id > $2 \
             UNION SELECT account_id FROM invoice_items WHERE invoice_id = '' AND month <= $1 AND account_id > $2 \
             UNION SELECT account_id FROM usage_bills WHERE month = $1 AND account_id > $2) u \
             WHERE NOT EXISTS (SELECT 1 FROM closed_months c WHERE c.account_id = u.account_id AND c.month = $1) \
             ORDER BY account_id LIMIT $3";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![month, after, limit]).await?;
        Ok(rows.into_iter().map(|(account,)| account).collect())
    }

    /// Whether an account was billed for a month.
    pub async fn is_month_closed(&self, account_id: &str, month: i64) -> Result<bool> {
        let sql = "SELECT closed_at FROM closed_months WHERE account_id = $1 AND month = $2";
        Ok(self.db.fetch_optional::<(i64,)>(sql, values![account_id, month]).await?.is_some())
    }

    /// Returns whether work that the account had accepted in this month is still running.
    pub async fn has_open_reservations(&self, account_id: &str, month: i64) -> Result<bool> {
        let sql = "SELECT 1 FROM ledger_balances WHERE account_id = $1 AND month = $2 AND \
             (fcu_reserved > 0 OR nano_usd_reserved > 0 OR milli_yen_reserved > 0) LIMIT 1";
        Ok(self.db.fetch_optional::<(i32,)>(sql, values![account_id, month]).await?.is_some())
    }
}

impl Tx {
    /// Writes a line. A line with the same id stays as it is.
    pub async fn add_invoice_item(&mut self, item: &InvoiceItem) -> Result<()> {
        let sql = "INSERT INTO invoice_items (item_id, account_id, month, description, amount_usd_cents, invoice_id, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (item_id) DO NOTHING";
        let of = values![
            &item.item_id,
            &item.account_id,
            item.month,
            &item.description,
            item.amount_usd_cents,
            &item.invoice_id,
            item.created_at
        ];
        self.execute(sql, of).await.map(drop)
    }

    /// Puts these lines on an invoice. Returns the number of lines that were not on an invoice before.
    pub async fn put_items_on(&mut self, invoice_id: &str, item_ids: &[&str]) -> Result<u64> {
        let mut changed = 0;
        for item_id in item_ids {
            let sql = "UPDATE invoice_items SET invoice_id = $1 WHERE item_id = $2 AND invoice_id = ''";
            changed += self.execute(sql, values![invoice_id, *item_id]).await?;
        }
        Ok(changed)
    }

    /// Writes an invoice, and computes the standing of its account. If the invoice exists, replaces its state, amount,
    /// time of payment, page address and number of failed payments. Two nodes may read an invoice at the same time and
    /// write it in the other order, so an ended invoice never becomes open again, failed payments are never fewer, and
    /// the first due time stays.
    pub async fn put_invoice(&mut self, invoice: &Invoice, now: i64) -> Result<Option<StandingChange>> {
        let sql = "INSERT INTO invoices (invoice_id, account_id, month, status, amount_usd_cents, period_start, period_end, issued_at, \
             paid_at, url, failures, is_provided, due_at, notice_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
             ON CONFLICT (invoice_id) DO UPDATE SET status = excluded.status, amount_usd_cents = excluded.amount_usd_cents, \
             paid_at = excluded.paid_at, url = excluded.url, \
             failures = CASE WHEN excluded.failures > invoices.failures THEN excluded.failures ELSE invoices.failures END, \
             due_at = CASE WHEN invoices.due_at > 0 THEN invoices.due_at ELSE excluded.due_at END, \
             notice_at = CASE WHEN excluded.notice_at = 0 OR invoices.due_at = 0 THEN excluded.notice_at ELSE invoices.notice_at END \
             WHERE invoices.status IN ('draft', 'open') OR excluded.status IN ('paid', 'void', 'uncollectible')";
        let first_notice = if invoice.is_provided { invoice.due_at } else { invoice.issued_at };
        let of = values![
            &invoice.invoice_id,
            &invoice.account_id,
            invoice.month,
            invoice.status.as_str(),
            invoice.amount_usd_cents,
            invoice.period_start,
            invoice.period_end,
            invoice.issued_at,
            invoice.paid_at,
            &invoice.url,
            invoice.failures,
            invoice.is_provided,
            invoice.due_at,
            if invoice.status.is_owed() && invoice.due_at > 0 { first_notice } else { 0 }
        ];
        self.execute(sql, of).await?;
        self.update_standing(&invoice.account_id, now).await
    }

    /// Changes the state of an invoice that is open or was given up, and computes the standing of its account. `None`:
    /// the invoice has ended, or has this state already.
    pub async fn end_invoice(
        &mut self,
        invoice_id: &str,
        status: InvoiceState,
        paid_at: i64,
        now: i64,
    ) -> Result<Option<StandingChange>> {
        let sql = "UPDATE invoices SET status = $2, paid_at = $3, notice_at = CASE WHEN $2 = 'uncollectible' THEN notice_at ELSE 0 END \
             WHERE invoice_id = $1 AND status IN ('open', 'uncollectible') AND status <> $2 RETURNING account_id";
        let row: Option<(String,)> = self.fetch_optional(sql, values![invoice_id, status.as_str(), paid_at]).await?;
        let Some((account_id,)) = row else { return Ok(None) };
        self.update_standing(&account_id, now).await
    }

    /// Records the notice that was sent about an invoice, and when the next is due (0: none). False: another node has
    /// sent a notice since this node read the notice `before`, or the invoice was paid.
    pub async fn note_notice(&mut self, invoice_id: &str, before: &str, notice: &str, next_at: i64) -> Result<bool> {
        let sql =
            "UPDATE invoices SET notice = $3, notice_at = $4 WHERE invoice_id = $1 AND notice = $2 AND notice_at > 0";
        Ok(self.execute(sql, values![invoice_id, before, notice, next_at]).await? == 1)
    }

    /// Records that an account was billed for a month. False: the account was billed for this month before.
    pub async fn close_month(&mut self, account_id: &str, month: i64, now: i64) -> Result<bool> {
        let sql = "INSERT INTO closed_months (account_id, month, closed_at) VALUES ($1, $2, $3) ON CONFLICT (account_id, month) DO NOTHING";
        Ok(self.execute(sql, values![account_id, month, now]).await? == 1)
    }

    /// Records that `fact` was announced. False: the announcement was recorded before.
    pub async fn announce(&mut self, fact: &str, now: i64) -> Result<bool> {
        let sql = "INSERT INTO announcements (fact, created_at) VALUES ($1, $2) ON CONFLICT (fact) DO NOTHING";
        Ok(self.execute(sql, values![fact, now]).await? == 1)
    }
}
