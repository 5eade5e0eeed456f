//! The standing of accounts: the plan in force, and whether an account is past due or suspended (readings B7, P18). One
//! function computes the standing from all records that it depends on: the subscription, the purchases, the unpaid
//! invoices and the operator's word. Every transaction that changes such a record calls this function. The row of the
//! account holds the result, because each request reads it.

use api::{Plan, words};

use crate::database::{Tx, from_row, locking, values};
use crate::{Result, Store};

/// Grace period in microseconds: how long the service goes on after a payment became overdue (readings P18).
pub const GRACE: i64 = 7 * 24 * 3600 * 1_000_000;

/// Whether an account has paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PaymentStanding {
    /// No payment is overdue.
    #[default]
    Active,
    /// A payment is overdue. The service goes on.
    PastDue,
    /// A payment is overdue for longer than the grace period. The account is suspended.
    Unpaid,
}

words!(PaymentStanding, "state of payment", {
    Active = "active",
    PastDue = "past_due",
    Unpaid = "unpaid",
});

/// The standing of an account. Times in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountStanding {
    /// The plan in force: the highest of the granted plan, the subscription's plan and the plans of purchases.
    pub plan: Plan,
    /// Whether the account has paid.
    pub payment: PaymentStanding,
    /// Since when a payment is overdue. 0: no payment is overdue.
    pub overdue_since: i64,
    /// The operator's word: the account is not suspended before this time.
    pub excused_until: i64,
    /// Whether the account is suspended because it has not paid (readings P18).
    pub is_suspended: bool,
}

from_row!(AccountStanding { plan as word, payment as word, overdue_since, excused_until, is_suspended });

/// A standing, and the version of the subscription from which it was computed.
struct StandingOfVersion {
    plan: Plan,
    payment: PaymentStanding,
    overdue_since: i64,
    excused_until: i64,
    is_suspended: bool,
    version: i64,
}

from_row!(StandingOfVersion { plan as word, payment as word, overdue_since, excused_until, is_suspended, version });

impl AccountStanding {
    /// When the account is suspended if nothing is paid, or since when it is suspended. `None`: no payment is overdue.
    pub fn suspended_from(&self) -> Option<i64> {
        (self.overdue_since > 0).then(|| suspended_from(self.overdue_since, self.excused_until))
    }
}

/// When an account is suspended whose oldest unpaid payment is overdue since `overdue_since`.
pub fn suspended_from(overdue_since: i64, excused_until: i64) -> i64 {
    overdue_since.saturating_add(GRACE).max(excused_until)
}

/// The standing of an account before and after a change of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingChange {
    /// The standing before.
    pub before: AccountStanding,
    /// The standing now.
    pub after: AccountStanding,
}

/// The records on which an account's payment state depends.
#[derive(Clone, Debug, Default)]
struct Records {
    /// Empty: the account has no subscription record.
    subscription_plan: String,
    subscription_status: String,
    past_due_since: i64,
    /// When the oldest unpaid invoice is or was due. 0: no unpaid invoice has a due day.
    oldest_due: i64,
    /// When the next unpaid invoice is due. 0: none.
    next_due: i64,
}

from_row!(Records { subscription_plan, subscription_status, past_due_since, oldest_due, next_due });

impl Records {
    /// Computes the payment state, since when a payment is overdue, and when the state changes next (0: never).
    fn payment(&self, excused_until: i64, now: i64) -> (PaymentStanding, i64, i64) {
        let is_unpaid = self.subscription_status == "unpaid";
        let of_subscription = match self.subscription_status.as_str() {
            "past_due" | "unpaid" if self.past_due_since > 0 => self.past_due_since,
            // the provider reported the end of its attempts first
            "past_due" | "unpaid" => now,
            _ => 0,
        };
        let of_invoices = if self.oldest_due <= now { self.oldest_due } else { 0 };
        let overdue_since = [of_subscription, of_invoices].into_iter().filter(|since| *since > 0).min().unwrap_or(0);
        let (state, then) = if overdue_since == 0 {
            (PaymentStanding::Active, 0)
        } else {
            let from = if is_unpaid { excused_until } else { suspended_from(overdue_since, excused_until) };
            if from <= now { (PaymentStanding::Unpaid, 0) } else { (PaymentStanding::PastDue, from) }
        };
        let next = [then, self.next_due].into_iter().filter(|at| *at > now).min().unwrap_or(0);
        (state, overdue_since, next)
    }
}

impl Store {
    /// Returns an account's standing. `None`: the account does not exist.
    pub async fn account_standing(&self, account_id: &str) -> Result<Option<AccountStanding>> {
        let sql =
            "SELECT plan, payment, overdue_since, excused_until, is_suspended FROM accounts WHERE account_id = $1";
        self.db.fetch_optional(sql, values![account_id]).await
    }

    /// Returns an account's standing, and the version of the account's subscription at the same time (0: no record).
    /// `None`: the account does not exist.
    pub async fn standing_and_version(&self, account_id: &str) -> Result<Option<(AccountStanding, i64)>> {
        let sql = "SELECT a.plan AS plan, payment, overdue_since, excused_until, is_suspended, COALESCE(version, 0) AS version \
             FROM accounts a LEFT JOIN subscriptions s ON s.account_id = a.account_id WHERE a.account_id = $1";
        let found: Option<StandingOfVersion> = self.db.fetch_optional(sql, values![account_id]).await?;
        Ok(found.map(|found| {
            let StandingOfVersion { plan, payment, overdue_since, excused_until, is_suspended, version } = found;
            (AccountStanding { plan, payment, overdue_since, excused_until, is_suspended }, version)
        }))
    }

    /// Returns the accounts whose standing changes by this time although no record changed, at most `limit`.
    pub async fn due_standings(&self, now: i64, limit: i64) -> Result<Vec<String>> {
        let sql = "SELECT account_id FROM accounts WHERE standing_due_at > 0 AND standing_due_at <= $1 \
             ORDER BY standing_due_at LIMIT $2";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![now, limit]).await?;
        Ok(rows.into_iter().map(|(account_id,)| account_id).collect())
    }

    /// Returns the accounts that were suspended or admitted again and whose customers were not told yet, at most
    /// `limit`.
    pub async fn untold_suspensions(&self, limit: i64) -> Result<Vec<String>> {
        let sql =
            "SELECT account_id FROM accounts WHERE is_suspended <> is_suspension_told ORDER BY account_id LIMIT $1";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![limit]).await?;
        Ok(rows.into_iter().map(|(account_id,)| account_id).collect())
    }

    /// Returns the accounts with an overdue payment, the oldest first, at most `limit`.
    pub async fn overdue_accounts(&self, limit: i64) -> Result<Vec<String>> {
        let sql = "SELECT account_id FROM accounts WHERE overdue_since > 0 ORDER BY overdue_since, account_id LIMIT $1";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![limit]).await?;
        Ok(rows.into_iter().map(|(account_id,)| account_id).collect())
    }
}

impl Tx {
    /// Computes an account's standing from its records, and records it. Call this in every transaction that changes
    /// such a record. Locks the account, so that two transactions see each other's changes. `None`: the account does
    /// not exist.
    pub async fn update_standing(&mut self, account_id: &str, now: i64) -> Result<Option<StandingChange>> {
        let sql = locking!(
            "SELECT plan, payment, overdue_since, excused_until, is_suspended FROM accounts WHERE account_id = $1"
        );
        let before: Option<AccountStanding> = self.fetch_optional(sql, values![account_id]).await?;
        let Some(before) = before else { return Ok(None) };
        let sql = "SELECT COALESCE((SELECT plan FROM subscriptions WHERE account_id = $1), '') AS subscription_plan, \
             COALESCE((SELECT status FROM subscriptions WHERE account_id = $1), '') AS subscription_status, \
             COALESCE((SELECT past_due_since FROM subscriptions WHERE account_id = $1), 0) AS past_due_since, \
             COALESCE((SELECT MIN(due_at) FROM invoices WHERE account_id = $1 AND due_at > 0 AND status IN ('open', 'uncollectible')), 0) \
             AS oldest_due, \
             COALESCE((SELECT MIN(due_at) FROM invoices WHERE account_id = $1 AND due_at > 0 AND status IN ('open', 'uncollectible') \
             AND due_at > $2), 0) AS next_due";
        let records: Records = self.fetch_one(sql, values![account_id, now]).await?;
        let (payment, overdue_since, next) = records.payment(before.excused_until, now);
        let after = AccountStanding {
            plan: self.plan_in_force(account_id, &records.subscription_plan).await?.unwrap_or(before.plan),
            payment,
            overdue_since,
            is_suspended: payment == PaymentStanding::Unpaid,
            ..before
        };
        let sql = "UPDATE accounts SET plan = $2, payment = $3, overdue_since = $4, is_suspended = $5, standing_due_at = $6 \
             WHERE account_id = $1";
        let of = values![account_id, after.plan, payment.as_str(), overdue_since, after.is_suspended, next];
        self.execute(sql, of).await?;
        Ok(Some(StandingChange { before, after }))
    }

    /// Returns the highest of an account's plans (readings B7). `None`: no record names a plan.
    async fn plan_in_force(&mut self, account_id: &str, subscribed: &str) -> Result<Option<Plan>> {
        let sql = "SELECT granted_plan FROM accounts WHERE account_id = $1 UNION SELECT plan FROM purchases p WHERE account_id = $1 \
             AND NOT EXISTS (SELECT 1 FROM ended_purchases e WHERE e.subscription_id = p.subscription_id AND p.subscription_id <> '')";
        let plans: Vec<(String,)> = self.fetch_all(sql, values![account_id]).await?;
        let named = plans.iter().map(|(plan,)| plan.as_str()).chain([subscribed]);
        Ok(named.filter_map(Plan::from_name).max_by_key(|plan| *plan as usize))
    }

    /// Grants a plan: the operator's word. The plan in force is at least this plan.
    pub async fn grant_plan(&mut self, account_id: &str, plan: Plan, now: i64) -> Result<Option<StandingChange>> {
        self.execute("UPDATE accounts SET granted_plan = $2 WHERE account_id = $1", values![account_id, plan]).await?;
        self.update_standing(account_id, now).await
    }

    /// Grants `instead` to an account to which `plan` is granted. The caller computes the standing afterwards.
    pub async fn grant_plan_instead(&mut self, account_id: &str, plan: Plan, instead: Plan) -> Result<()> {
        let sql = "UPDATE accounts SET granted_plan = $3 WHERE account_id = $1 AND granted_plan = $2";
        self.execute(sql, values![account_id, plan, instead]).await.map(drop)
    }

    /// Sets the time before which an account is not suspended: the operator's word.
    pub async fn excuse(&mut self, account_id: &str, until: i64, now: i64) -> Result<Option<StandingChange>> {
        let sql = "UPDATE accounts SET excused_until = $2 WHERE account_id = $1";
        self.execute(sql, values![account_id, until]).await?;
        self.update_standing(account_id, now).await
    }
}

impl Tx {
    /// Records that the customer was told that the account is suspended, or that it no longer is. False: the customer
    /// was told before, or the account has another state now.
    pub async fn tell_suspension(&mut self, account_id: &str, is_suspended: bool) -> Result<bool> {
        let sql = "UPDATE accounts SET is_suspension_told = $2 \
             WHERE account_id = $1 AND is_suspended = $2 AND is_suspension_told <> $2";
        Ok(self.execute(sql, values![account_id, is_suspended]).await? == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600 * 1_000_000;
    const NOW: i64 = 1000 * DAY;

    fn records(status: &str, past_due_since: i64, oldest_due: i64) -> Records {
        let next_due = if oldest_due > NOW { oldest_due } else { 0 };
        Records { subscription_status: status.to_owned(), past_due_since, oldest_due, next_due, ..Records::default() }
    }

    #[test]
    fn p18_the_worst_of_subscription_and_oldest_invoice_counts() {
        use PaymentStanding::{Active, PastDue, Unpaid};
        for (records, excused_until, expected) in [
            (records("active", 0, 0), 0, (Active, 0, 0)),
            // an invoice that is due tomorrow
            (records("active", 0, NOW + DAY), 0, (Active, 0, NOW + DAY)),
            (records("", 0, NOW), 0, (PastDue, NOW, NOW + GRACE)),
            (records("", 0, NOW - 6 * DAY), 0, (PastDue, NOW - 6 * DAY, NOW + DAY)),
            (records("", 0, NOW - GRACE), 0, (Unpaid, NOW - GRACE, 0)),
            (records("past_due", NOW - DAY, NOW - 8 * DAY), 0, (Unpaid, NOW - 8 * DAY, 0)),
            (records("past_due", NOW - 3 * DAY, NOW + DAY), 0, (PastDue, NOW - 3 * DAY, NOW + DAY)),
            // the provider gave up: no grace
            (records("unpaid", NOW - DAY, 0), 0, (Unpaid, NOW - DAY, 0)),
            (records("unpaid", 0, 0), 0, (Unpaid, NOW, 0)),
            // the operator's word
            (records("unpaid", NOW - DAY, 0), NOW + DAY, (PastDue, NOW - DAY, NOW + DAY)),
            (records("", 0, NOW - 60 * DAY), NOW + 30 * DAY, (PastDue, NOW - 60 * DAY, NOW + 30 * DAY)),
            (records("", 0, NOW - 60 * DAY), NOW - DAY, (Unpaid, NOW - 60 * DAY, 0)),
        ] {
            assert_eq!(records.payment(excused_until, NOW), expected, "{records:?} {excused_until}");
        }
    }
}
