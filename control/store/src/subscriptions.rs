//! Subscriptions, and the customers of the payment provider (readings P10-P18). The plan in force is the account's.

use api::Plan;
use api::billing::BillingCycle;

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// The state of an account's subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubscriptionState {
    /// There is none; perhaps a customer of the provider.
    #[default]
    None,
    /// It goes on.
    Active,
    /// It is not paid yet, by agreement.
    Trial,
    /// It ends with its period.
    Cancelled,
    /// A payment failed.
    PastDue,
    /// It was not paid.
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
    /// Counts changes; 0: it is not on record yet.
    pub version: i64,
    /// The plan in force.
    pub plan: Plan,
    /// Its state.
    pub status: SubscriptionState,
    /// How often it is paid.
    pub billing_cycle: BillingCycle,
    /// The period that is paid.
    pub period_start: i64,
    /// Its end.
    pub period_end: i64,
    /// What comes then; empty: the same again.
    pub scheduled_plan: String,
    /// How often that is paid; empty with `scheduled_plan`.
    pub scheduled_cycle: String,
    /// Since when a payment is due that failed; 0: none.
    pub past_due_since: i64,
    /// The billing contact.
    pub email: String,
    /// The provider's customer; may be empty.
    pub customer_id: String,
    /// The provider's subscription; may be empty.
    pub provider_subscription_id: String,
    /// When it last changed.
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

/// A wish for a plan whose price is agreed with the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// The account.
    pub account_id: String,
    /// The plan.
    pub plan: Plan,
    /// Whom to write to.
    pub email: String,
    /// When, in microseconds since 1970.
    pub requested_at: i64,
}

from_row!(PlanRequest { account_id, plan as word, email, requested_at });

macro_rules! select_subscriptions {
    ($rest:literal) => {
        concat!(
            "SELECT s.account_id, version, a.plan, status, billing_cycle, period_start, period_end, scheduled_plan, \
             scheduled_cycle, past_due_since, email, customer_id, provider_subscription_id, updated_at \
             FROM subscriptions s JOIN accounts a ON a.account_id = s.account_id ",
            $rest
        )
    };
}

impl Subscription {
    /// That of an account that never had one.
    pub fn none(account_id: &str, plan: Plan) -> Subscription {
        Subscription {
            account_id: account_id.to_owned(),
            version: 0,
            plan,
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
    /// An account's subscription. `None`: there is no such account.
    pub async fn subscription(&self, account_id: &str) -> Result<Option<Subscription>> {
        let sql = select_subscriptions!("WHERE s.account_id = $1");
        if let Some(subscription) = self.db.fetch_optional(sql, values![account_id]).await? {
            return Ok(Some(subscription));
        }
        let sql = "SELECT plan FROM accounts WHERE account_id = $1";
        let plan: Option<(String,)> = self.db.fetch_optional(sql, values![account_id]).await?;
        Ok(plan.and_then(|(plan,)| Plan::from_name(&plan)).map(|plan| Subscription::none(account_id, plan)))
    }

    /// The subscription of a customer of the provider.
    pub async fn subscription_of_customer(&self, customer_id: &str) -> Result<Option<Subscription>> {
        let sql = select_subscriptions!("WHERE customer_id = $1 AND customer_id <> ''");
        self.db.fetch_optional(sql, values![customer_id]).await
    }

    /// Subscriptions whose period is over, or whose payment has been due since before `past_due_before`; some at a time.
    pub async fn due_subscriptions(&self, now: i64, past_due_before: i64, limit: i64) -> Result<Vec<Subscription>> {
        let sql = select_subscriptions!("WHERE period_end <= $1 AND status <> 'none' ORDER BY period_end LIMIT $2");
        let mut due: Vec<Subscription> = self.db.fetch_all(sql, values![now, limit]).await?;
        let sql = select_subscriptions!(
            "WHERE status = 'past_due' AND past_due_since <= $1 AND period_end > $2 ORDER BY past_due_since LIMIT $3"
        );
        due.extend(self.db.fetch_all::<Subscription>(sql, values![past_due_before, now, limit]).await?);
        Ok(due)
    }

    /// Wishes for plans, the oldest first.
    pub async fn plan_requests(&self) -> Result<Vec<PlanRequest>> {
        let sql = "SELECT account_id, plan, email, requested_at FROM plan_requests ORDER BY requested_at, account_id";
        self.db.fetch_all(sql, values![]).await
    }
}

impl Tx {
    /// Writes a subscription in the place of the version that was read, and puts its account on its plan. False: it has changed
    /// meanwhile, or the account is gone; nothing was done.
    pub async fn put_subscription(&mut self, subscription: &Subscription) -> Result<bool> {
        let Subscription { account_id, version, plan, status, billing_cycle, period_start, period_end, .. } =
            subscription;
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
            subscription.updated_at
        ];
        let sql = "INSERT INTO subscriptions (account_id, version, status, billing_cycle, period_start, period_end, \
             scheduled_plan, scheduled_cycle, past_due_since, email, customer_id, provider_subscription_id, updated_at) \
             SELECT $1, $2 + 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 WHERE $2 = 0 \
             ON CONFLICT (account_id) DO NOTHING";
        let sql = if *version == 0 {
            sql
        } else {
            "UPDATE subscriptions SET version = version + 1, status = $3, billing_cycle = $4, period_start = $5, period_end = $6, \
             scheduled_plan = $7, scheduled_cycle = $8, past_due_since = $9, email = $10, customer_id = $11, \
             provider_subscription_id = $12, updated_at = $13 WHERE account_id = $1 AND version = $2"
        };
        if self.execute(sql, of).await? == 0 {
            return Ok(false);
        }
        let sql = "UPDATE accounts SET plan = $2, is_suspended = $3 WHERE account_id = $1";
        let is_suspended = *status == SubscriptionState::Unpaid;
        Ok(self.execute(sql, values![account_id, *plan, is_suspended]).await? == 1)
    }

    /// Notes a wish for a plan, in the place of the one before.
    pub async fn request_plan(&mut self, request: &PlanRequest) -> Result<()> {
        let sql = "INSERT INTO plan_requests (account_id, plan, email, requested_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (account_id, plan) DO UPDATE SET email = excluded.email, requested_at = excluded.requested_at";
        let of = values![&request.account_id, request.plan, &request.email, request.requested_at];
        self.execute(sql, of).await.map(drop)
    }
}
