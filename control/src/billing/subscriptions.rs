//! The endpoints of an account's subscription (specification, Subscription; readings P10-P19, P32).

use std::sync::Arc;

use api::Code;
use api::NanoUsd;
use api::billing::{BillingCycle, CancelledSubscription, Subscribe, SubscriptionStatus};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use store::{AccountStanding, PaymentStanding, PlanRequest, Subscription, SubscriptionState, Tx};

use super::Billing;
use super::allowances::put_subscription;
use super::invoices::items_of;
use super::payments::{NewCheckout, NewSubscription, PaymentError, PaymentProvider, ProvidedStatus};
use super::plan_change::{Step, apply, period_end, scheduled, steps_to};
use super::plans::{SUBSCRIBED, allowance, monthly_price_cents};
use super::provided::sync_subscription;
use super::standing::AccountView;
use super::sync_error::SyncError;
use super::usage::NANO_USD_OF_CENT;
use crate::access::users::normal_email;
use crate::caller::{Caller, Environment, Plan, UNLIMITED};
use crate::clock::Timestamp;
use crate::web::body::{self, JsonBody};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// Discount of the annual billing cycle, in percent of the monthly price (specification, Plans).
const ANNUAL_DISCOUNT_PERCENT: u32 = 17;

impl JsonBody for Subscribe {
    const BYTES_MAX: usize = 8 << 10;
}

/// The account's subscription.
#[utoipa::path(
    get,
    path = "/api/v1/billing/subscription",
    operation_id = "getSubscription",
    tag = "Billing",
    responses((status = 200, description = "The subscription.", body = api::billing::Subscription)),
    extensions(("x-errors" = json!([])))
)]
pub async fn show(
    State(billing): State<Arc<Billing>>,
    caller: Caller,
) -> Result<Json<api::billing::Subscription>, ApiError> {
    let view = billing.view(&caller).await?;
    Ok(Json(told(&view, billing.clock.now(), None)))
}

/// Subscribe to a plan, change the plan, or take a cancellation back.
///
/// A higher plan begins at once; the rest of the period is charged by the second. A lower plan and another billing
/// cycle begin with the next period: `scheduled_plan` and `scheduled_at` show them. Without a payment method nothing
/// changes, and `checkout_url` is the address where the customer can store one.
#[utoipa::path(
    post,
    path = "/api/v1/billing/subscribe",
    operation_id = "subscribe",
    tag = "Billing",
    request_body = Subscribe,
    responses((status = 200, description = "The subscription.", body = api::billing::Subscription)),
    extensions(("x-errors" = json!([
        Code::InvalidRequest, Code::InvalidPlan, Code::NoPaymentMethod, Code::Conflict, Code::ProviderUnavailable,
        BODY
    ])))
)]
pub async fn subscribe(
    State(billing): State<Arc<Billing>>,
    caller: Caller,
    claim: Claim,
    body: body::Json<Subscribe>,
) -> Result<Response, ApiError> {
    let Subscribe { plan, email, billing_cycle } = body.value;
    let wanted = Wanted { plan: wanted_plan(&plan)?, cycle: wanted_cycle(billing_cycle)?, email: contact(&email)? };
    // a separate task: if the client leaves, the change must not stop between the provider and the database
    tokio::spawn(async move {
        if wanted.plan == Plan::Enterprise {
            return billing.request_plan(&caller, &wanted, &claim).await;
        }
        if caller.environment != Environment::Live {
            // readings P5, P12: requests with test and dev keys never reach the provider
            let message = "test and dev keys cannot change a subscription: use a live key";
            return Err(ApiError::new(Code::NoPaymentMethod, message));
        }
        let subscription = billing.subscription(&caller).await?;
        match billing.provider_of(&subscription) {
            None => billing.subscribe_here(&caller, &wanted, &claim).await,
            Some(provider) => billing.subscribe_there(&*provider, &caller, &wanted, &claim).await,
        }
    })
    .await?
}

/// End the subscription at the end of the paid period. Until then the plan stays in force.
#[utoipa::path(
    delete,
    path = "/api/v1/billing/subscription",
    operation_id = "cancelSubscription",
    tag = "Billing",
    responses((status = 200, description = "The subscription ends with its period.", body = CancelledSubscription)),
    extensions(("x-errors" = json!([Code::Conflict, Code::ProviderUnavailable])))
)]
pub async fn cancel(
    State(billing): State<Arc<Billing>>,
    caller: Caller,
) -> Result<Json<CancelledSubscription>, ApiError> {
    tokio::spawn(async move { billing.cancel(&caller).await }).await?.map(Json)
}

/// A request for a plan, read and checked.
struct Wanted {
    plan: Plan,
    cycle: BillingCycle,
    email: String,
}

impl Billing {
    /// Reads the caller's subscription record.
    pub(super) async fn subscription(&self, caller: &Caller) -> Result<Subscription, ApiError> {
        let found = self.store.subscription(caller.account.as_str()).await?;
        found.ok_or_else(|| ApiError::internal("the caller has no account"))
    }

    /// Returns the payment provider of a subscription. `None`: this service bills the subscription. A subscription that
    /// began while the node had no provider is billed by this service until it ends.
    fn provider_of(&self, subscription: &Subscription) -> Option<Arc<dyn PaymentProvider>> {
        let began_here =
            subscription.status != SubscriptionState::None && subscription.provider_subscription_id.is_empty();
        self.provider.clone().filter(|_| !began_here)
    }

    /// Records a request for an enterprise plan for the operator (readings P14).
    async fn request_plan(&self, caller: &Caller, wanted: &Wanted, claim: &Claim) -> Result<Response, ApiError> {
        let now = self.clock.now();
        let view = self.view(caller).await?;
        let contact =
            self.payments.contact_url.as_ref().map_or_else(|| format!("{}/docs", self.base_url), |url| url.to_string());
        let (answer, kept) = claim.keep(Json(told(&view, now, Some(contact))).into_response()).await?;
        let request = PlanRequest {
            account_id: view.subscription.account_id,
            plan: wanted.plan,
            email: wanted.email.clone(),
            requested_at: now.0,
        };
        self.store
            .write(async |tx| {
                tx.request_plan(&request).await?;
                tx.keep(kept.as_ref()).await
            })
            .await?;
        tracing::info!(
            account_id = request.account_id,
            plan = wanted.plan.as_str(),
            "a customer asks for an enterprise plan: see `ango admin plan-requests`"
        );
        Ok(answer)
    }

    /// Changes the plan without a provider: at once, and the fees become lines of the month's invoice (readings P19).
    async fn subscribe_here(&self, caller: &Caller, wanted: &Wanted, claim: &Claim) -> Result<Response, ApiError> {
        let now = self.clock.now();
        let mut view = self.view(caller).await?;
        check_changeable(&view.standing)?;
        let subscription = &mut view.subscription;
        let mut fees = Vec::new();
        for step in steps_to(subscription, wanted.plan, wanted.cycle) {
            fees.extend(apply(subscription, step, now));
        }
        subscription.email = wanted.email.clone();
        subscription.updated_at = now.0;
        let items = items_of(subscription, &fees, now);
        // the answer shows the plan as it will be in force when the record is written
        view.standing.plan = highest(view.standing.plan, view.subscription.plan);
        let (answer, kept) = claim.keep(Json(told(&view, now, None)).into_response()).await?;
        let subscription = &view.subscription;
        self.store
            .write(async |tx| {
                put(tx, subscription).await?;
                for item in &items {
                    tx.add_invoice_item(item).await?;
                }
                Ok::<_, ApiError>(tx.keep(kept.as_ref()).await?)
            })
            .await?;
        self.access.forget_account(&subscription.account_id).await;
        Ok(answer)
    }

    /// Changes the plan at the provider. Each step is one request, with an idempotency key made of the record's
    /// version, so a retry after a lost answer repeats the same steps. Afterwards the record is a copy of the
    /// provider's state.
    async fn subscribe_there(
        &self,
        provider: &dyn PaymentProvider,
        caller: &Caller,
        wanted: &Wanted,
        claim: &Claim,
    ) -> Result<Response, ApiError> {
        let mut subscription = self.subscription(caller).await?;
        if !subscription.provider_subscription_id.is_empty() {
            // an earlier step may have taken effect even if its answer was lost: read the present state first
            sync_subscription(self, &subscription.provider_subscription_id).await?;
            subscription = self.subscription(caller).await?;
        }
        check_changeable(&self.view(caller).await?.standing)?;
        let customer = self.customer(provider, &mut subscription, &wanted.email).await?;
        if subscription.status == SubscriptionState::None {
            let unpaid = self.adopt(provider, &subscription).await?;
            subscription = self.subscription(caller).await?;
            if let Some(page) = unpaid {
                let answer = told(&self.view(caller).await?, self.clock.now(), Some(page));
                return self.keep_alone(claim, Json(answer).into_response()).await;
            }
            check_changeable(&self.view(caller).await?.standing)?;
        }
        for step in steps_to(&subscription, wanted.plan, wanted.cycle) {
            match self.step_there(provider, &subscription, &customer, step).await {
                Ok(None) => {}
                Ok(Some(checkout_url)) => {
                    let answer = told(&self.view(caller).await?, self.clock.now(), Some(checkout_url));
                    return self.keep_alone(claim, Json(answer).into_response()).await;
                }
                Err(error) => return Err(self.end_attempt(&subscription, error).await),
            }
        }
        let answer = Json(told(&self.view(caller).await?, self.clock.now(), None)).into_response();
        self.keep_alone(claim, answer).await
    }

    /// Takes over the account's subscription if the provider has one that is not on record, because the answer to the
    /// request that made it was lost. Returns the address of the page where the subscription's first payment can be
    /// made, if that payment is not made yet.
    ///
    /// # Errors
    /// Also when the subscription is in a state in which this service can neither use nor replace it.
    pub(super) async fn adopt(
        &self,
        provider: &dyn PaymentProvider,
        subscription: &Subscription,
    ) -> Result<Option<String>, SyncError> {
        let mut found = provider.subscriptions_of(&subscription.customer_id).await?;
        found.retain(|one| one.account_id.as_deref() == Some(subscription.account_id.as_str()));
        // the oldest first, because an account with two subscriptions keeps the first
        found.reverse();
        let is_pending = |status| matches!(status, ProvidedStatus::Incomplete | ProvidedStatus::Other);
        let (pending, living): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| is_pending(one.status));
        for one in &living {
            tracing::info!(
                account_id = subscription.account_id,
                subscription_id = one.subscription_id,
                "a subscription that was not on record is taken over"
            );
            sync_subscription(self, &one.subscription_id).await?;
        }
        let Some(one) = pending.first().filter(|_| living.is_empty()) else { return Ok(None) };
        if let (ProvidedStatus::Incomplete, Some(invoice)) = (one.status, &one.latest_invoice) {
            let page = provider.invoice(invoice).await?.url;
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
        let message = "the payment provider is still setting up a subscription of this account: try again later";
        Err(SyncError::Other(ApiError::new(Code::Conflict, message)))
    }

    /// Ends a failed attempt to change a subscription at the provider. The provider repeats its answer for a day to
    /// requests with the same idempotency key, which is made of the record's version. So the record is written, which
    /// raises the version: the next request reads the subscription, and then has another key. After a lost answer the
    /// key stays, because the same key finds out what became of the request. Returns the error for the customer.
    async fn end_attempt(&self, subscription: &Subscription, error: SyncError) -> ApiError {
        let is_answered =
            matches!(&error, SyncError::Provider(error) if !matches!(error, PaymentError::Unavailable(_)));
        if is_answered && let Err(error) = self.store.write(async |tx| tx.put_subscription(subscription).await).await {
            return error.into();
        }
        error.into()
    }

    /// Carries a step out at the provider. Returns the address of a page if the customer must store a payment method
    /// first.
    async fn step_there(
        &self,
        provider: &dyn PaymentProvider,
        before: &Subscription,
        customer: &str,
        step: Step,
    ) -> Result<Option<String>, SyncError> {
        let id = before.provider_subscription_id.as_str();
        let key = format!("{}:{}:{}", before.account_id, before.version, step_name(step));
        match step {
            Step::Start(plan, cycle) => {
                let end = period_end(self.clock.now(), cycle);
                // the request's body contains the period, so the key must contain it too
                let key = format!("{key}:{}", end.seconds());
                let Some(payment_method) = provider.payment_method(customer).await? else {
                    return Ok(Some(self.checkout_page(provider, before, (plan, cycle, end), &key).await?));
                };
                let new = NewSubscription {
                    customer_id: customer,
                    account_id: &before.account_id,
                    plan,
                    cycle,
                    period_end: end,
                    payment_method: &payment_method,
                    key: &format!("{key}:{payment_method}"),
                };
                let made = provider.subscribe(&new).await?;
                sync_subscription(self, &made.subscription_id).await?;
                return Ok(None);
            }
            Step::Resume => provider.set_ending(id, false, &key).await?,
            Step::Unschedule => provider.unschedule(id, &key).await?,
            Step::Upgrade(plan) => provider.upgrade(id, plan, &key).await?,
            Step::Schedule(plan, cycle) => {
                provider.schedule(id, plan, cycle, &key).await?;
                self.note_scheduled(&before.account_id, plan, cycle).await?;
            }
            Step::Cancel => {
                // remove the schedule first, because it would keep the subscription going
                provider.unschedule(id, &format!("{key}:unschedule")).await?;
                provider.set_ending(id, true, &key).await?;
            }
        }
        sync_subscription(self, id).await?;
        Ok(None)
    }

    async fn keep_alone(&self, claim: &Claim, answer: Response) -> Result<Response, ApiError> {
        let (answer, kept) = claim.keep(answer).await?;
        self.store.write(async |tx| tx.keep(kept.as_ref()).await).await?;
        Ok(answer)
    }

    /// Returns the id of the provider's customer for an account, and sets the customer's e-mail address. Creates and
    /// records the customer if the account has none.
    pub(super) async fn customer(
        &self,
        provider: &dyn PaymentProvider,
        subscription: &mut Subscription,
        email: &str,
    ) -> Result<String, ApiError> {
        if subscription.customer_id.is_empty() {
            subscription.customer_id = match self.found_customer(provider, subscription).await? {
                Some(found) => found,
                None => {
                    let key = format!("customer:{}:{}", subscription.account_id, subscription.version);
                    match provider.new_customer(&subscription.account_id, &key).await {
                        Ok(made) => made,
                        Err(error) => return Err(self.end_attempt(subscription, error.into()).await),
                    }
                }
            };
        } else if subscription.email == email || email.is_empty() {
            return Ok(subscription.customer_id.clone());
        }
        if !email.is_empty() {
            provider.set_email(&subscription.customer_id, email).await?;
            subscription.email = email.to_owned();
        }
        subscription.updated_at = self.clock.now().0;
        self.store.write(async |tx| put(tx, subscription).await).await?;
        subscription.version += 1;
        Ok(subscription.customer_id.clone())
    }

    /// Looks at the provider for a customer of this account that is not on record: the answer to an earlier request was
    /// a failure, or the database was restored from a backup. The provider's search misses customers of the last
    /// minute, so a second customer is possible if the provider fails after making the first. The second has no
    /// subscription and no invoice, and costs nothing.
    async fn found_customer(
        &self,
        provider: &dyn PaymentProvider,
        subscription: &Subscription,
    ) -> Result<Option<String>, PaymentError> {
        match provider.find_customer(&subscription.account_id).await {
            // the key may not search, or the provider has no search in the operator's country
            Err(PaymentError::Refused(why)) => {
                tracing::warn!(account_id = subscription.account_id, cause = why, "customers cannot be searched");
                Ok(None)
            }
            found => found,
        }
    }

    async fn checkout_page(
        &self,
        provider: &dyn PaymentProvider,
        subscription: &Subscription,
        plan: (Plan, BillingCycle, Timestamp),
        key: &str,
    ) -> Result<String, PaymentError> {
        let checkout = NewCheckout {
            customer_id: &subscription.customer_id,
            account_id: &subscription.account_id,
            plan: Some(plan),
            embedded: false,
            return_url: &format!("{}/docs", self.base_url),
            // The provider closes a checkout after a day, and returns the same checkout for the same key. The key
            // changes every 12 hours, so a returned checkout is still open.
            key: &format!("{key}:page:{}", self.clock.now().seconds() / 43_200),
        };
        Ok(provider.start_checkout(&checkout).await?.url)
    }

    /// Records the scheduled plan and billing cycle, because the provider's object does not contain their names.
    async fn note_scheduled(&self, account_id: &str, plan: Plan, cycle: BillingCycle) -> Result<(), ApiError> {
        let now = self.clock.now();
        let found = self.store.subscription(account_id).await?;
        let mut subscription = found.ok_or_else(|| ApiError::internal("the account was deleted"))?;
        apply(&mut subscription, Step::Schedule(plan, cycle), now);
        subscription.updated_at = now.0;
        self.store.write(async |tx| put(tx, &subscription).await).await
    }

    /// Ends pay as you go. No period is paid in advance, so the free plan begins at once (readings P13). Earlier use is
    /// still billed.
    async fn leave_payg(&self, mut subscription: Subscription) -> Result<CancelledSubscription, ApiError> {
        let now = self.clock.now();
        subscription.plan = Plan::Free;
        subscription.updated_at = now.0;
        self.store
            .write(async |tx| {
                tx.grant_plan_instead(&subscription.account_id, Plan::Payg, Plan::Free).await?;
                put(tx, &subscription).await
            })
            .await?;
        self.access.forget_account(&subscription.account_id).await;
        Ok(CancelledSubscription { status: SubscriptionStatus::Cancelled, current_period_end: now.rfc3339() })
    }

    /// Cancels the subscription (readings P16).
    async fn cancel(&self, caller: &Caller) -> Result<CancelledSubscription, ApiError> {
        let AccountView { mut subscription, standing, .. } = self.view(caller).await?;
        let has_none = subscription.status == SubscriptionState::None;
        if has_none && standing.plan == Plan::Payg && caller.environment == Environment::Live {
            return self.leave_payg(subscription).await;
        }
        if has_none {
            let message =
                format!("the plan {} is not a subscription, so it cannot be cancelled", standing.plan.as_str());
            return Err(ApiError::new(Code::Conflict, message));
        }
        if caller.environment != Environment::Live {
            let message = "test and dev keys cannot change a subscription: use a live key";
            return Err(ApiError::new(Code::Conflict, message));
        }
        if subscription.status != SubscriptionState::Cancelled {
            match self.provider_of(&subscription) {
                None => {
                    let now = self.clock.now();
                    apply(&mut subscription, Step::Cancel, now);
                    subscription.updated_at = now.0;
                    self.store.write(async |tx| put(tx, &subscription).await).await?;
                }
                Some(provider) => {
                    // an earlier request may have taken effect even if its answer was lost: read the present state first
                    sync_subscription(self, &subscription.provider_subscription_id).await?;
                    subscription = self.subscription(caller).await?;
                    if !matches!(subscription.status, SubscriptionState::Cancelled | SubscriptionState::None) {
                        let done = self.step_there(&*provider, &subscription, "", Step::Cancel).await;
                        if let Err(error) = done {
                            return Err(self.end_attempt(&subscription, error).await);
                        }
                    }
                    subscription = self.subscription(caller).await?;
                }
            }
        }
        Ok(CancelledSubscription {
            status: SubscriptionStatus::Cancelled,
            current_period_end: Timestamp(subscription.period_end).rfc3339(),
        })
    }
}

/// Replaces a subscription record, if its version is still the one that was read.
pub(super) async fn put(tx: &mut Tx, subscription: &Subscription) -> Result<(), ApiError> {
    match put_subscription(tx, subscription, Timestamp(subscription.updated_at)).await? {
        Some(_) => Ok(()),
        None => Err(ApiError::new(Code::Conflict, "another request changed the subscription meanwhile: try again")),
    }
}

/// Refuses a change that the customer may not make now.
fn check_changeable(standing: &AccountStanding) -> Result<(), ApiError> {
    match (standing.plan, standing.payment) {
        (Plan::Enterprise, _) => Err(ApiError::new(Code::Conflict, "only the operator can change this plan")),
        (_, PaymentStanding::PastDue | PaymentStanding::Unpaid) => {
            Err(ApiError::new(Code::Conflict, "a payment is overdue: pay it first; GET /billing/subscription shows it"))
        }
        (_, PaymentStanding::Active) => Ok(()),
    }
}

/// The higher of two plans.
fn highest(one: Plan, other: Plan) -> Plan {
    if one as usize > other as usize { one } else { other }
}

/// Describes a subscription as customers see it (readings P15, P18).
pub(super) fn told(view: &AccountView, now: Timestamp, checkout_url: Option<String>) -> api::billing::Subscription {
    let AccountView { subscription, standing, .. } = view;
    let (plan, billing_cycle) = (standing.plan, subscription.billing_cycle);
    let has_none = subscription.status == SubscriptionState::None;
    let end = if has_none { period_end(now, BillingCycle::Monthly) } else { Timestamp(subscription.period_end) };
    let (scheduled_plan, scheduled_billing_cycle) = scheduled(subscription);
    let limit = if plan == Plan::Payg { None } else { allowance(plan) };
    api::billing::Subscription {
        plan: plan.as_str().to_owned(),
        status: match (standing.payment, subscription.status) {
            (PaymentStanding::PastDue, _) => SubscriptionStatus::PastDue,
            (PaymentStanding::Unpaid, _) => SubscriptionStatus::Unpaid,
            (PaymentStanding::Active, SubscriptionState::Trial) => SubscriptionStatus::Trial,
            (PaymentStanding::Active, SubscriptionState::Cancelled) => SubscriptionStatus::Cancelled,
            (PaymentStanding::Active, _) => SubscriptionStatus::Active,
        },
        current_period_end: end.rfc3339(),
        monthly_price_usd: NanoUsd(monthly_price_cents(plan, billing_cycle) * NANO_USD_OF_CENT),
        monthly_fcu_limit: limit.unwrap_or(UNLIMITED),
        billing_cycle,
        annual_discount_pct: if billing_cycle == BillingCycle::Annual { ANNUAL_DISCOUNT_PERCENT } else { 0 },
        scheduled_at: scheduled_plan.is_some().then(|| end.rfc3339()),
        scheduled_plan: scheduled_plan.map(|plan| plan.as_str().to_owned()),
        scheduled_billing_cycle,
        checkout_url,
        payment_due: view.payment_due(),
    }
}

fn step_name(step: Step) -> String {
    match step {
        Step::Start(plan, cycle) => format!("start:{}:{}", plan.as_str(), cycle.as_str()),
        Step::Resume => "resume".to_owned(),
        Step::Unschedule => "unschedule".to_owned(),
        Step::Upgrade(plan) => format!("upgrade:{}", plan.as_str()),
        Step::Schedule(plan, cycle) => format!("schedule:{}:{}", plan.as_str(), cycle.as_str()),
        Step::Cancel => "cancel".to_owned(),
    }
}

/// Reads a plan's name (readings P13).
fn wanted_plan(word: &str) -> Result<Plan, ApiError> {
    let known = Plan::from_name(word).filter(|plan| SUBSCRIBED.contains(plan) || *plan == Plan::Enterprise);
    known.ok_or_else(|| {
        let message = "plan must be starter, pro, scale or enterprise; for the plan free, cancel the subscription; \
             for the plan payg, use the checkout";
        ApiError::new(Code::InvalidPlan, message).at("plan", "no plan to subscribe to")
    })
}

/// Reads a billing cycle. Absent: monthly (readings P32).
pub(super) fn wanted_cycle(word: Option<String>) -> Result<BillingCycle, ApiError> {
    let Some(word) = word else { return Ok(BillingCycle::Monthly) };
    BillingCycle::from_name(&word).ok_or_else(|| {
        let message = "billing_cycle must be monthly or annual";
        ApiError::new(Code::InvalidRequest, message).at("billing_cycle", "not a cycle")
    })
}

fn contact(email: &str) -> Result<String, ApiError> {
    normal_email(email).ok_or_else(|| {
        ApiError::new(Code::InvalidRequest, "`email` must be an e-mail address").at("email", "not an address")
    })
}
