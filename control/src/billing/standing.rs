//! What an account owes, since when, and what follows (readings P18): members of the subscription and the budget, and
//! the job that computes standings again when time alone changes them.

use api::billing::PaymentDue;
use store::{AccountStanding, Invoice, Store, Subscription};

use super::Billing;
use super::leases::{Job, holds_lease};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::web::error::ApiError;

/// Largest number of accounts that one query reads.
const AT_ONCE: i64 = 100;
/// Largest number of unpaid invoices that are read for one account.
const OWED_MAX: i64 = 100;
/// Largest number of times that an account is read because it changed meanwhile.
const READS_MAX: usize = 100;

/// An account's subscription and standing, and the invoices that it owes.
pub struct AccountView {
    /// The subscription.
    pub subscription: Subscription,
    /// The standing.
    pub standing: AccountStanding,
    /// The invoices that the account owes and that have a due time, the oldest first, at most `OWED_MAX`.
    pub owed: Vec<Invoice>,
}

impl AccountView {
    /// Reads an account. `None`: the account does not exist. The records are of one time: the standing is read before and
    /// after the others, with the version of the subscription.
    pub async fn read(store: &Store, account_id: &str) -> Result<Option<AccountView>, store::Error> {
        let mut before = store.standing_and_version(account_id).await?;
        let mut reads = 0;
        loop {
            let Some(subscription) = store.subscription(account_id).await? else { return Ok(None) };
            let owed = store.owed_invoices(account_id, OWED_MAX).await?;
            let after = store.standing_and_version(account_id).await?;
            let is_of_one_time = after == before && after.is_some_and(|(_, version)| version == subscription.version);
            reads += 1;
            if is_of_one_time || reads == READS_MAX {
                return Ok(after.map(|(standing, _)| AccountView { subscription, standing, owed }));
            }
            before = after;
        }
    }

    /// Describes the payment that is due, for customers. `None`: the account owes nothing.
    pub fn payment_due(&self) -> Option<PaymentDue> {
        let oldest = self.owed.first().map(|invoice| invoice.due_at);
        let overdue_since = (self.standing.overdue_since > 0).then_some(self.standing.overdue_since);
        let due_at = [oldest, overdue_since].into_iter().flatten().min()?;
        let suspended_at = self
            .standing
            .suspended_from()
            .unwrap_or_else(|| store::suspended_from(due_at, self.standing.excused_until));
        Some(PaymentDue {
            amount_usd_cents: self.owed.iter().map(|invoice| invoice.amount_usd_cents).sum(),
            invoice_ids: self.owed.iter().map(|invoice| invoice.invoice_id.clone()).collect(),
            due_at: Timestamp(due_at).rfc3339(),
            is_overdue: overdue_since.is_some(),
            suspended_at: Timestamp(suspended_at).rfc3339(),
            is_suspended: self.standing.is_suspended,
        })
    }
}

impl Billing {
    /// Reads the caller's account.
    pub(super) async fn view(&self, caller: &Caller) -> Result<AccountView, ApiError> {
        let found = AccountView::read(&self.store, caller.account.as_str()).await?;
        found.ok_or_else(|| ApiError::internal("the caller has no account"))
    }
}

/// Computes the standings again that time changes: an invoice is overdue, a grace period has ended.
pub(super) async fn update_due(billing: &Billing) -> Result<(), store::Error> {
    loop {
        let due = billing.store.due_standings(billing.clock.now().0, AT_ONCE).await?;
        if due.is_empty() || !holds_lease(billing, Job::Standings).await? {
            return Ok(());
        }
        for account_id in due {
            let now = billing.clock.now();
            let change = billing.store.write(async |tx| tx.update_standing(&account_id, now.0).await).await?;
            let Some(change) = change.filter(|change| change.before != change.after) else { continue };
            billing.access.forget_account(&account_id).await;
            let payment = change.after.payment.as_str();
            tracing::info!(target: "security", account_id, payment, "the payment state of an account changed with time");
        }
    }
}
