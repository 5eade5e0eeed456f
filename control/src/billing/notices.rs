//! Notices about payments: an invoice was made, is due soon, is overdue, the account is suspended or admitted again
//! (readings P18). One transaction writes the e-mail, the event and the record that the notice was sent, so each notice
//! is sent once.

use serde_json::json;
use store::{Email, Invoice};

use super::Billing;
use super::mail::Letter;
use super::notice::Notice;
use super::notice_mails::{Words, account_letter, invoice_letter};
use super::provided::invoice_data;
use super::standing::AccountView;
use crate::clock::Timestamp;
use crate::events::{EventType, event};

/// Largest number of notices that one query reads.
const AT_ONCE: i64 = 100;
/// Whether a notice is due.
pub(super) async fn has_due(billing: &Billing) -> Result<bool, store::Error> {
    let store = &billing.store;
    Ok(!store.due_notices(billing.clock.now().0, 1).await?.is_empty() || !store.untold_suspensions(1).await?.is_empty())
}

/// Sends notices that are due, at most `AT_ONCE` about invoices and about suspensions.
pub(super) async fn send_due(billing: &Billing) -> Result<(), store::Error> {
    for store::DueNotice { invoice_id, notice } in billing.store.due_notices(billing.clock.now().0, AT_ONCE).await? {
        send_about_invoice(billing, &invoice_id, &notice).await?;
    }
    for account_id in billing.store.untold_suspensions(AT_ONCE).await? {
        send_about_suspension(billing, &account_id).await?;
    }
    Ok(())
}

async fn send_about_invoice(billing: &Billing, invoice_id: &str, before: &str) -> Result<(), store::Error> {
    let now = billing.clock.now();
    let Some(invoice) = billing.store.invoice(invoice_id).await? else { return Ok(()) };
    let view = AccountView::read(&billing.store, &invoice.account_id).await?;
    let excused_until = view.as_ref().map_or(0, |view| view.standing.excused_until);
    let (notice, next_at) = Notice::now_and_next(&invoice, excused_until, Notice::from_name(before), now.0);
    let (letter, event) = match (notice, &view) {
        (Some(notice), Some(view)) => {
            let letter = invoice_letter(notice, &invoice, view, &billing.base_url);
            (Some(letter), event_about(notice, &invoice, now))
        }
        _ => (None, None),
    };
    let email = addressed(billing, &invoice.account_id, letter, now).await?;
    let word = notice.map_or_else(|| before.to_owned(), |notice| notice.as_str().to_owned());
    billing
        .store
        .write(async |tx| {
            if !tx.note_notice(invoice_id, before, &word, next_at).await? {
                return Ok(());
            }
            if let Some(event) = &event {
                tx.emit(std::slice::from_ref(event)).await?;
            }
            if let Some(email) = &email {
                tx.write_email(email).await?;
            }
            Ok::<_, store::Error>(())
        })
        .await
}

/// Makes the event about an overdue invoice. A failed payment at the provider has an event of its own, and so has a new
/// invoice.
fn event_about(notice: Notice, invoice: &Invoice, now: Timestamp) -> Option<store::NewEvent> {
    let tells = match notice {
        Notice::Issued | Notice::Reminder => false,
        Notice::Overdue => !invoice.is_provided,
        Notice::Last => true,
    };
    tells.then(|| failed_event(invoice, "overdue", now)).flatten()
}

/// Makes the event `invoice_failed` with this reason. `None`: the account's id cannot be parsed.
fn failed_event(invoice: &Invoice, reason: &str, now: Timestamp) -> Option<store::NewEvent> {
    let mut data = invoice_data(invoice);
    data["attempt_count"] = json!(invoice.failures);
    data["next_attempt_at"] = json!(null);
    data["failure_reason"] = json!(reason);
    let account = invoice.account_id.parse().ok()?;
    Some(event(&account, EventType::InvoiceFailed, &data, now))
}

async fn send_about_suspension(billing: &Billing, account_id: &str) -> Result<(), store::Error> {
    let now = billing.clock.now();
    let Some(view) = AccountView::read(&billing.store, account_id).await? else { return Ok(()) };
    let letter = account_letter(&view, &billing.base_url);
    let email = addressed(billing, account_id, Some(letter), now).await?;
    let is_suspended = view.standing.is_suspended;
    let oldest = view.owed.first().filter(|_| is_suspended);
    let event = oldest.and_then(|invoice| failed_event(invoice, "account_suspended", now));
    billing
        .store
        .write(async |tx| {
            if !tx.tell_suspension(account_id, is_suspended).await? {
                return Ok(());
            }
            if let Some(event) = &event {
                tx.emit(std::slice::from_ref(event)).await?;
            }
            if let Some(email) = &email {
                tx.write_email(email).await?;
            }
            Ok::<_, store::Error>(())
        })
        .await
}

/// Addresses a letter to an account. `None`: the node sends no e-mail, or the account has no address; `ango admin
/// unpaid-accounts` lists such accounts.
async fn addressed(
    billing: &Billing,
    account_id: &str,
    letter: Option<Words>,
    now: Timestamp,
) -> Result<Option<Email>, store::Error> {
    let Some(text) = letter.filter(|_| billing.mailer.is_some()) else { return Ok(None) };
    let recipient = billing.store.contact_of_account(account_id).await?;
    if recipient.is_empty() {
        tracing::warn!(
            account_id,
            subject = text.subject,
            "the account has no e-mail address for a notice about a payment"
        );
        return Ok(None);
    }
    let letter = Letter { recipient, subject: text.subject, body: text.body };
    Ok(Some(letter.into_email(&billing.seals, "", now)))
}

/// A letter that an account would get.
pub struct PlannedLetter {
    /// The notice's name.
    pub notice: &'static str,
    /// When the letter is sent. `None`: when the account has paid.
    pub at: Option<Timestamp>,
    /// The letter.
    pub letter: Words,
}

/// Writes all letters that an account would get if it never paid, and the letter after it has paid. Nothing is sent.
/// Without an unpaid invoice, the letters are about an example.
pub fn planned_letters(view: &AccountView, base_url: &str, now: Timestamp) -> Vec<PlannedLetter> {
    let examples = [example(view, now)];
    let invoices = if view.owed.is_empty() { examples.as_slice() } else { view.owed.as_slice() };
    let mut letters = Vec::new();
    for invoice in invoices {
        for notice in Notice::ALL {
            if let Some(at) = notice.at(invoice, view.standing.excused_until) {
                let letter = invoice_letter(notice, invoice, view, base_url);
                letters.push(PlannedLetter { notice: notice.as_str(), at: Some(Timestamp(at)), letter });
            }
        }
    }
    let oldest = invoices.iter().map(|invoice| invoice.due_at).min().unwrap_or_default();
    let from = Timestamp(store::suspended_from(oldest, view.standing.excused_until));
    for (notice, at, is_suspended) in [("suspended", Some(from), true), ("admitted", None, false)] {
        let standing = store::AccountStanding { is_suspended, ..view.standing };
        let then = AccountView { subscription: view.subscription.clone(), standing, owed: invoices.to_vec() };
        letters.push(PlannedLetter { notice, at, letter: account_letter(&then, base_url) });
    }
    letters
}

/// An invoice of 12.34 dollars that is made now and due in 30 days.
fn example(view: &AccountView, now: Timestamp) -> Invoice {
    Invoice {
        invoice_id: "inv_example".to_owned(),
        account_id: view.subscription.account_id.clone(),
        month: 0,
        status: store::InvoiceState::Open,
        amount_usd_cents: 1234,
        period_start: 0,
        period_end: 0,
        issued_at: now.0,
        paid_at: 0,
        url: String::new(),
        failures: 0,
        is_provided: false,
        due_at: now.plus(std::time::Duration::from_secs(30 * 24 * 3600)).0,
    }
}
