//! Notices about payments: an invoice was made, is due soon, is overdue, the account is suspended or admitted again
//! (readings P18). One transaction writes the e-mail, the event and the record that the notice was sent, so each notice
//! is sent once.

use serde_json::json;
use store::{Email, Invoice};

use super::Billing;
use super::mail::Letter;
use super::notice_mails::{Words, account_letter, invoice_letter};
use super::provided::invoice_data;
use super::standing::AccountView;
use crate::clock::Timestamp;
use crate::events::{EventType, event};

/// Largest number of notices that one query reads.
const AT_ONCE: i64 = 100;
const DAY_US: i64 = 24 * 3600 * 1_000_000;
/// The reminder before an invoice is due is sent this long before.
const REMINDER_BEFORE: i64 = 7 * DAY_US;
/// The last reminder is sent this long before the suspension.
const LAST_BEFORE: i64 = 2 * DAY_US;

/// A notice about an invoice. The order is the order in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// The invoice was made.
    Issued,
    /// The invoice is due in a week.
    Reminder,
    /// The invoice is overdue.
    Overdue,
    /// The account is suspended in two days.
    Last,
}

api::words!(Notice, "notice about an invoice", {
    Issued = "issued",
    Reminder = "reminder",
    Overdue = "overdue",
    Last = "last",
});

impl Notice {
    /// When the notice is sent, if the invoice is not paid by then. `None`: this notice is not sent about the invoice.
    fn at(self, invoice: &Invoice, excused_until: i64) -> Option<i64> {
        let due_at = invoice.due_at;
        match self {
            // the provider itself tells the customer about its invoices, until a payment fails
            Notice::Issued => (!invoice.is_provided).then_some(invoice.issued_at),
            Notice::Reminder => {
                let at = due_at - REMINDER_BEFORE;
                (!invoice.is_provided && at > invoice.issued_at).then_some(at)
            }
            Notice::Overdue => Some(due_at),
            Notice::Last => Some(store::suspended_from(due_at, excused_until) - LAST_BEFORE),
        }
    }

    /// Returns the notice to send now, and when the next one is due (0: none is). A notice whose time has passed since
    /// the next one is due too is left out, for example because no node ran. `sent` was the last notice.
    pub(super) fn now_and_next(
        invoice: &Invoice,
        excused_until: i64,
        sent: Option<Notice>,
        now: i64,
    ) -> (Option<Notice>, i64) {
        let left = Notice::ALL.into_iter().filter(|notice| sent.is_none_or(|sent| *notice > sent));
        let times: Vec<(Notice, i64)> =
            left.filter_map(|notice| Some((notice, notice.at(invoice, excused_until)?))).collect();
        let due = times.iter().filter(|(_, at)| *at <= now).map(|(notice, _)| *notice).max();
        let next = times.iter().filter(|(notice, at)| *at > now && due.is_none_or(|due| *notice > due));
        (due, next.map(|(_, at)| *at).min().unwrap_or(0))
    }
}

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
        due_at: now.0 + 30 * DAY_US,
    }
}

#[cfg(test)]
mod tests {
    use store::InvoiceState;

    use super::*;

    fn invoice(issued_at: i64, due_at: i64, is_provided: bool) -> Invoice {
        Invoice {
            invoice_id: "inv_1".to_owned(),
            account_id: "acct_1".to_owned(),
            month: 24_310,
            status: InvoiceState::Open,
            amount_usd_cents: 1234,
            period_start: 0,
            period_end: 0,
            issued_at,
            paid_at: 0,
            url: String::new(),
            failures: 0,
            is_provided,
            due_at,
        }
    }

    #[test]
    fn p18_notices_follow_each_other_and_none_is_sent_twice() {
        let ours = invoice(100 * DAY_US, 130 * DAY_US, false);
        let (mut sent, mut told) = (None, Vec::new());
        for day in 100..160 {
            let (notice, next_at) = Notice::now_and_next(&ours, 0, sent, day * DAY_US);
            if let Some(notice) = notice {
                told.push((day, notice.as_str(), next_at / DAY_US));
                sent = Some(notice);
            }
        }
        assert_eq!(told, [(100, "issued", 123), (123, "reminder", 130), (130, "overdue", 135), (135, "last", 0)]);
    }

    #[test]
    fn p18_after_a_long_pause_only_the_latest_notice_is_sent() {
        let ours = invoice(100 * DAY_US, 130 * DAY_US, false);
        assert_eq!(Notice::now_and_next(&ours, 0, None, 131 * DAY_US), (Some(Notice::Overdue), 135 * DAY_US));
        assert_eq!(Notice::now_and_next(&ours, 0, None, 200 * DAY_US), (Some(Notice::Last), 0));
        assert_eq!(Notice::now_and_next(&ours, 0, Some(Notice::Last), 200 * DAY_US), (None, 0));
    }

    #[test]
    fn p18_short_terms_and_invoices_of_the_provider_have_fewer_notices() {
        // due in three days: no reminder a week before
        let short = invoice(100 * DAY_US, 103 * DAY_US, false);
        assert_eq!(Notice::now_and_next(&short, 0, None, 100 * DAY_US), (Some(Notice::Issued), 103 * DAY_US));
        let provided = invoice(100 * DAY_US, 110 * DAY_US, true);
        assert_eq!(Notice::now_and_next(&provided, 0, None, 100 * DAY_US), (None, 110 * DAY_US));
        assert_eq!(Notice::now_and_next(&provided, 0, None, 110 * DAY_US), (Some(Notice::Overdue), 115 * DAY_US));
        // an excuse moves the last reminder
        assert_eq!(Notice::now_and_next(&provided, 150 * DAY_US, None, 110 * DAY_US).1, 148 * DAY_US);
    }
}
