//! The notices about an invoice and their times (readings P18).

use store::Invoice;

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
    pub(super) fn at(self, invoice: &Invoice, excused_until: i64) -> Option<i64> {
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
