//! The operator's dry run of a month's bills.

use anyhow::ensure;
use serde::Serialize;

use super::Operator;
use crate::access::limits::Period;
use crate::billing::invoices::month_words;
use crate::billing::leases::months_billed;
use crate::billing::payments::ProviderChoice;
use crate::billing::preview::previewed_bills;

/// A line of a bill.
#[derive(Debug, Serialize)]
pub struct LineFacts {
    /// The line's text.
    pub description: String,
    /// The amount in US cents. A credit is negative.
    pub cents: i64,
}

/// The bill of an account's month, if the month were billed now.
#[derive(Debug, Serialize)]
pub struct PreviewFacts {
    /// The account.
    pub account_id: String,
    /// The month, such as `2026-01`.
    pub month: String,
    /// Use beyond the plan, and gates, in US cents.
    pub use_cents: i64,
    /// Fees and credits, in US cents.
    pub fees_cents: i64,
    /// The amount of the bill in US cents. Zero or less: no bill is made.
    pub total_cents: i64,
    /// The collector of the amount: `provider`; `node`, which makes an invoice; or `nobody`, because nothing is to be paid.
    pub collected_by: &'static str,
    /// Whether all work of the month has ended. Otherwise the amount may still rise.
    pub ready: bool,
    /// Whether the month's billing has begun for this account, so that the amount is decided.
    pub begun: bool,
    /// The fees and credits.
    pub lines: Vec<LineFacts>,
}

impl Operator {
    /// Computes what each account's bill of a month would be now, sorted by account. Writes nothing, and asks no
    /// provider. `month`: months since year 0; `None`: the present month. `tell` is called with the number of accounts so
    /// far.
    ///
    /// # Errors
    /// When the month is billed, or the database does not answer.
    pub async fn preview_month(&self, month: Option<i64>, tell: &dyn Fn(usize)) -> anyhow::Result<Vec<PreviewFacts>> {
        let month = month.unwrap_or_else(|| Period::of(self.clock.now()).month);
        let billed = months_billed(&self.store).await?;
        ensure!(billed == 0 || month > billed, "the month {} is billed: see its invoices", month_words(month));
        let has_provider = self.payments.payments_provider != ProviderChoice::None;
        let mut facts: Vec<PreviewFacts> = Vec::new();
        loop {
            let after = facts.last().map_or("", |last| &last.account_id);
            let bills = previewed_bills(&self.store, has_provider, month, after).await?;
            if bills.is_empty() {
                return Ok(facts);
            }
            facts.extend(bills.into_iter().map(|bill| PreviewFacts {
                month: month_words(month),
                use_cents: bill.use_cents,
                fees_cents: bill.items.iter().map(|item| item.amount_usd_cents).sum(),
                total_cents: bill.total_cents,
                collected_by: match (bill.total_cents > 0, bill.customer_id.is_empty()) {
                    (false, _) => "nobody",
                    (true, true) => "node",
                    (true, false) => "provider",
                },
                ready: bill.is_ready,
                begun: bill.is_begun,
                lines: bill.items.into_iter().map(line).collect(),
                account_id: bill.account_id,
            }));
            tell(facts.len());
        }
    }
}

fn line(item: store::InvoiceItem) -> LineFacts {
    LineFacts { description: item.description, cents: item.amount_usd_cents }
}
