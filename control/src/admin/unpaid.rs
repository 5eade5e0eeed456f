//! The operator's view of accounts that owe money, and the operator's word about them (readings P18).

use anyhow::bail;
use api::AccountId;
use serde::Serialize;

use super::Operator;
use crate::billing::notices::planned_letters;
use crate::billing::standing::AccountView;
use crate::cache_store::News;
use crate::clock::Timestamp;

/// Largest number of accounts that a list shows.
const SHOWN_MAX: i64 = 10_000;

/// An account with an overdue payment.
#[derive(Debug, Serialize)]
pub struct UnpaidFacts {
    /// The account.
    pub account_id: String,
    /// `past_due` or `unpaid`.
    pub status: &'static str,
    /// The sum of the unpaid invoices in US cents.
    pub amount_usd_cents: i64,
    /// Number of unpaid invoices.
    pub invoices: usize,
    /// Since when a payment is overdue.
    pub overdue_since: String,
    /// When the account is or was suspended.
    pub suspended_at: String,
    /// The e-mail address for notices. `None`: the account has no address, so nobody was told by e-mail.
    pub email: Option<String>,
}

/// A letter about payments.
#[derive(Debug, Serialize)]
pub struct LetterFacts {
    /// The notice's name.
    pub notice: &'static str,
    /// When the letter is sent. `None`: when the account has paid.
    pub at: Option<String>,
    /// The recipient. `None`: the account has no address, so the letter is not sent.
    pub recipient: Option<String>,
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
}

impl Operator {
    /// Returns the accounts with an overdue payment, the oldest first, at most 10,000.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn unpaid_accounts(&self) -> anyhow::Result<Vec<UnpaidFacts>> {
        let mut facts = Vec::new();
        for account_id in self.store.overdue_accounts(SHOWN_MAX).await? {
            let Some(AccountView { standing, owed, .. }) = AccountView::read(&self.store, &account_id).await? else {
                continue;
            };
            let Some(suspended_at) = standing.suspended_from() else { continue };
            facts.push(UnpaidFacts {
                email: self.contact(&account_id).await?,
                account_id,
                status: standing.payment.as_str(),
                amount_usd_cents: owed.iter().map(|invoice| invoice.amount_usd_cents).sum(),
                invoices: owed.len(),
                overdue_since: Timestamp(standing.overdue_since).rfc3339(),
                suspended_at: Timestamp(suspended_at).rfc3339(),
            });
        }
        Ok(facts)
    }

    /// Writes the letters about payments that an account would get, without sending them.
    ///
    /// # Errors
    /// When the account does not exist.
    pub async fn letters(&self, account: &AccountId, base_url: &str) -> anyhow::Result<Vec<LetterFacts>> {
        let Some(view) = AccountView::read(&self.store, account.as_str()).await? else {
            bail!("there is no account {account}")
        };
        let recipient = self.contact(account.as_str()).await?;
        let letters = planned_letters(&view, base_url, self.clock.now());
        let facts = letters.into_iter().map(|planned| LetterFacts {
            notice: planned.notice,
            at: planned.at.map(Timestamp::rfc3339),
            recipient: recipient.clone(),
            subject: planned.letter.subject,
            body: planned.letter.body,
        });
        Ok(facts.collect())
    }

    /// Ends the suspension of an account and prevents another one for this number of days. Returns the time from which
    /// the account may be suspended again.
    ///
    /// # Errors
    /// When the account does not exist.
    pub async fn lift_suspension(&self, account: &AccountId, days: u32) -> anyhow::Result<String> {
        let now = self.clock.now();
        let until = now.plus(std::time::Duration::from_secs(u64::from(days) * 24 * 3600));
        let change = self.store.write(async |tx| tx.excuse(account.as_str(), until.0, now.0).await).await?;
        if change.is_none() {
            bail!("there is no account {account}")
        }
        tracing::info!(target: "security", account_id = account.as_str(), days, "suspension lifted by the operator");
        self.tell_nodes(News::Account { account_id: account.as_str().to_owned() }).await;
        Ok(until.rfc3339())
    }

    /// Sets the number of days in which an account must pay invoices that this service makes from now on. `None`: the
    /// number in the settings.
    ///
    /// # Errors
    /// When the account does not exist.
    pub async fn set_invoice_term(&self, account: &AccountId, days: Option<u32>) -> anyhow::Result<()> {
        let days = days.map(i64::from);
        if !self.store.write(async |tx| tx.set_invoice_term(account.as_str(), days).await).await? {
            bail!("there is no account {account}")
        }
        Ok(())
    }

    async fn contact(&self, account_id: &str) -> anyhow::Result<Option<String>> {
        let email = self.store.contact_of_account(account_id).await?;
        Ok(Some(email).filter(|email| !email.is_empty()))
    }
}
