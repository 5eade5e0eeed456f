//! Subscriptions, and the payment provider's customers (readings P10-P18). The plan in force is a part of the
//! account's standing.

use api::Plan;
use api::billing::BillingCycle;

use crate::database::{Tx, from_row, values};
use crate::standing::StandingChange;
use crate::{Result, Store};

/// The state of an account's subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubscriptionState {
    /// No subscription. The account may still be a customer of the provider.
    #[default]
    None,
    /// The subscription is paid and goes on.
    Active,
    /// Nothing is to be paid yet, by agreement.
    Trial,
    /// The subscription ends with its period.
    Cancelled,
    /// A payment failed.
    PastDue,
    /// The payment was given up.
    Unpaid,
}

api::words!(SubscriptionState, "state of a subscription", {
    None = "none",
    Active = "active",
    Trial = "trial",
    Cancelled = "cancelled",
    PastDue = "past_due",
    Unpaid = "unpaid",
});

/// An account's subscription. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The account.
    pub account_id: String,
    /// Number of changes. 0: the subscription is not recorded yet.
    pub version: i64,
    /// The plan of the subscription. Without a subscription: `payg` if the customer stored a payment method to pay as
    /// they go, otherwise `free`.
    pub plan: Plan,
    /// The subscription's state.
    pub status: SubscriptionState,
    /// The billing cycle.
    pub billing_cycle: BillingCycle,
    /// The start of the period that is paid.
    pub period_start: i64,
    /// The end of the period that is paid.
    pub period_end: i64,
    /// The plan for the next period. Empty: the same plan.
    pub scheduled_plan: String,
    /// The billing cycle for the next period. Empty if `scheduled_plan` is empty.
    pub scheduled_cycle: String,
    /// The time since which a failed payment is due. 0: no failed payment is due.
    pub past_due_since: i64,
    /// The billing contact.
    pub email: String,
    /// The provider's customer. May be empty.
    pub customer_id: String,
    /// The provider's subscription. May be empty.
    pub provider_subscription_id: String,
    /// When the subscription was last changed.
    pub updated_at: i64,
}

from_row!(Subscription {
    account_id,
    version,
    plan as word,
    status as word,
    billing_cycle as word,
    period_start,
    period_end,
    scheduled_plan,
    scheduled_cycle,
    past_due_since,
    email,
    customer_id,
    provider_subscription_id,
    updated_at
});

/// A request for a plan with a negotiated price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// The account.
    pub account_id: String,
    /// The requested plan.
    pub plan: Plan,
    /// The e-mail address for the operator's answer.
    pub email: String,
    /// When the request was made, in microseconds since 1970.
    pub requested_at: i64,
}

from_row!(PlanRequest { account_id, plan as word, email, requested_at });

/// What changed with a subscription's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionChange {
    /// The standing of the account.
    pub standing: StandingChange,
    /// The start of the paid period before the change. 0: there was no record.
    pub period_start_before: i64,
}

macro_rules! select_subscriptions {
    ($rest:literal) => {
        concat!(
            "SELECT account_id, version, plan, status, billing_cycle, period_start, period_end, scheduled_plan, \
             scheduled_cycle, past_due_since, email, customer_id, provider_subscription_id, updated_at FROM subscriptions ",
            $rest
        )
    };
}

impl Subscription {
    /// Returns the value that stands for an account without a recorded subscription.
    pub fn none(account_id: &str) -> Subscription {
        Subscription {
            account_id: account_id.to_owned(),
            version: 0,
            plan: Plan::Free,
            status: SubscriptionState::None,
            billing_cycle: BillingCycle::Monthly,
            period_start: 0,
            period_end: 0,
            scheduled_plan: String::new(),
            scheduled_cycle: String::new(),
            past_due_since: 0,
            email: String::new(),
            customer_id: String::new(),
            provider_subscription_id: String::new(),
            updated_at: 0,
        }
    }
}

impl Store {
    /// Returns an account's subscription. `None`: the account does not exist.
    pub async fn subscription(&self, account_id: &str) -> Result<Option<Subscription>> {
        let sql = select_subscriptions!("WHERE account_id = $1");
        if let Some(subscription) = self.db.fetch_optional(sql, values![account_id]).await? {
            return Ok(Some(subscription));
        }
        Ok(self.has_account(account_id).await?.then(|| Subscription::none(account_id)))
    }

    /// Returns the subscription of a customer of the provider.
    pub async fn subscription_of_customer(&self, customer_id: &str) -> Result<Option<Subscription>> {
        let sql = select_subscriptions!("WHERE customer_id = $1 AND customer_id <> ''");
        self.db.fetch_optional(sql, values![customer_id]).await
    }

    /// Returns subscriptions whose period is over, and subscriptions whose payment is due since at least `past_due_after`
    /// and at most `within` microseconds later, at most `limit` of each kind. If `provided` is true, returns subscriptions at the payment
    /// provider, otherwise subscriptions without a provider.
    pub async fn due_subscriptions(
        &self,
        now: i64,
        past_due_after: i64,
        within: i64,
        provided: bool,
        limit: i64,
    ) -> Result<Vec<Subscription>> {
        let sql = select_subscriptions!(
            "WHERE period_end <= $1 AND status <> 'none' AND (provider_subscription_id <> '') = $2 ORDER BY period_end LIMIT $3"
        );
        let mut due: Vec<Subscription> = self.db.fetch_all(sql, values![now, provided, limit]).await?;
        let sql = select_subscriptions!(
            "WHERE status = 'past_due' AND past_due_since >= $1 AND past_due_since <= $2 AND period_end > $3 \
             AND (provider_subscription_id <> '') = $4 ORDER BY past_due_since LIMIT $5"
        );
        due.extend(
            self.db
                .fetch_all::<Subscription>(sql, values![past_due_after, past_due_after + within, now, provided, limit])
                .await?,
        );
        Ok(due)
    }

    /// Returns the recorded subscriptions of accounts whose id comes after `after`, sorted by the account's id, at most
    /// `limit`. For a comparison with the provider.
    pub async fn subscriptions_after(&self, after: &str, limit: i64) -> Result<Vec<Subscription>> {
        let sql = select_subscriptions!("WHERE account_id > $1 ORDER BY account_id LIMIT $2");
        self.db.fetch_all(sql, values![after, limit]).await
    }

    /// Returns all requests for plans, the oldest first.
    pub async fn plan_requests(&self) -> Result<Vec<PlanRequest>> {
        let sql = "SELECT account_id, plan, email, requested_at FROM plan_requests ORDER BY requested_at, account_id";
        self.db.fetch_all(sql, values![]).await
    }
}

impl Tx {
    /// Replaces a subscription and computes the standing of its account, if the recorded version is still the version
    /// that the caller read. `None`: nothing was changed, because the subscription has another version now or the
    /// account was deleted.
    pub async fn put_subscription(&mut self, subscription: &Subscription) -> Result<Option<SubscriptionChange>> {
        let Subscription { account_id, version, plan, status, billing_cycle, period_start, period_end, .. } =
            subscription;
        let sql = "SELECT period_start FROM subscriptions WHERE account_id = $1";
        let before: Option<(i64,)> = self.fetch_optional(sql, values![account_id]).await?;
        let of = values![
            account_id,
            *version,
            status.as_str(),
            billing_cycle.as_str(),
            *period_start,
            *period_end,
            &subscription.scheduled_plan,
            &subscription.scheduled_cycle,
            subscription.past_due_since,
            &subscription.email,
            &subscription.customer_id,
            &subscription.provider_subscription_id,
            subscription.updated_at,
            *plan
        ];
        let sql = "INSERT INTO subscriptions (account_id, version, status, billing_cycle, period_start, period_end, \
             scheduled_plan, scheduled_cycle, past_due_since, email, customer_id, provider_subscription_id, updated_at, plan) \
             SELECT $1, $2 + 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 WHERE $2 = 0 \
             ON CONFLICT (account_id) DO NOTHING";
        let sql = if *version == 0 {
            sql
        } else {
            "UPDATE subscriptions SET version = version + 1, status = $3, billing_cycle = $4, period_start = $5, period_end = $6, \
             scheduled_plan = $7, scheduled_cycle = $8, past_due_since = $9, email = $10, customer_id = $11, \
             provider_subscription_id = $12, updated_at = $13, plan = $14 WHERE account_id = $1 AND version = $2"
        };
        if self.execute(sql, of).await? == 0 {
            return Ok(None);
        }
        let standing = self.update_standing(account_id, subscription.updated_at).await?;
        let period_start_before = before.map_or(0, |(start,)| start);
        Ok(standing.map(|standing| SubscriptionChange { standing, period_start_before }))
    }

    /// Writes a request for a plan, in place of the account's earlier request for the same plan.
    pub async fn request_plan(&mut self, request: &PlanRequest) -> Result<()> {
        let sql = "INSERT INTO plan_requests (account_id, plan, email, requested_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (account_id, plan) DO UPDATE SET email = excluded.email, requested_at = excluded.requested_at";
        let of = values![&request.account_id, request.plan, &request.email, request.requested_at];
        self.execute(sql, of).await.map(drop)
    }
}
