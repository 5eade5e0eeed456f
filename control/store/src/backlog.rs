//! The backlog: the oldest unfinished work of each kind. The gauges for operators show it.

use crate::database::{from_row, values};
use crate::{Result, Store};

/// Unfinished work. Times in microseconds since 1970; `None`: nothing waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// When the oldest open reservation was made.
    pub reservation: Option<i64>,
    /// When the most overdue event of the payment provider was due.
    pub provider_event: Option<i64>,
    /// When the most overdue e-mail was due.
    pub email: Option<i64>,
    /// When the most overdue delivery to a webhook was due.
    pub delivery: Option<i64>,
    /// Number of events of the payment provider that cannot be processed.
    pub stuck_events: i64,
    /// Number of invoices that are not paid.
    pub open_invoices: i64,
    /// Number of accounts with an overdue payment, including suspended accounts.
    pub overdue_accounts: i64,
    /// Number of accounts that are suspended because they have not paid.
    pub suspended_accounts: i64,
    /// The last month that is billed for every account: months since year 0. `None`: billing has not run yet.
    pub billed_through: Option<i64>,
}

from_row!(Backlog {
    reservation,
    provider_event,
    email,
    delivery,
    stuck_events,
    open_invoices,
    overdue_accounts,
    suspended_accounts,
    billed_through
});

impl Store {
    /// Returns what waits now.
    pub async fn backlog(&self) -> Result<Backlog> {
        let sql = "SELECT (SELECT MIN(created_at) FROM open_reservations) AS reservation, \
             (SELECT MIN(due_at) FROM provider_events WHERE status = 'pending') AS provider_event, \
             (SELECT MIN(due_at) FROM emails WHERE status = 'pending') AS email, \
             (SELECT MIN(due_at) FROM deliveries WHERE status = 'pending') AS delivery, \
             (SELECT COUNT(*) FROM provider_events WHERE status = 'stuck') AS stuck_events, \
             (SELECT COUNT(*) FROM invoices WHERE status = 'open') AS open_invoices, \
             (SELECT COUNT(*) FROM accounts WHERE overdue_since > 0) AS overdue_accounts, \
             (SELECT COUNT(*) FROM accounts WHERE overdue_since > 0 AND is_suspended = TRUE) AS suspended_accounts, \
             (SELECT MAX(done_through) FROM jobs WHERE name = 'months' AND done_through > 0) AS billed_through";
        self.db.fetch_one(sql, values![]).await
    }
}
