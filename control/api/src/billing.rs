//! What accounts use and spend (specification, Subscription, plans, budget, invoices, usage).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NanoUsd, words};

/// What an account used in this month, UTC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// The month's first moment.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_start: String,
    /// The first moment after the month.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_end: String,
    /// Compute units that the plan has in a month. Where the plan sets no limit: 9007199254740991.
    pub monthly_fcu_limit: u64,
    /// Compute units of completed operations.
    pub monthly_fcu_used: u64,
    /// Completed operations; each gate is one.
    pub operations_total: u64,
    /// The same by name. Gates are `gate_nand` and so on.
    pub by_operation: BTreeMap<String, u64>,
    /// The plan's price for the month and what was spent beside it.
    pub estimated_cost_usd: NanoUsd,
    /// Compute units that are paid for one by one: those beyond the plan's.
    pub overage_fcu: u64,
    /// What those cost.
    pub overage_cost_usd: NanoUsd,
}

/// A monthly cap on what an account spends. It replaces the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetBudget {
    /// US dollars: more than 0, at most a billion.
    pub monthly_cap_usd: f64,
    /// Where alerts at 80 and 100 percent go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_email: Option<String>,
    /// Whether operations are blocked that would pass the cap. False when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_cap: Option<bool>,
    /// When false, operations are blocked at the cap too. True when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_soft_overage: Option<bool>,
}

/// An account's monthly cap, and where it stands. What is spent are compute units beyond the plan's and gates; not the plan's price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budget {
    /// The cap; 0 when none was set.
    pub monthly_cap_usd: NanoUsd,
    /// Spent in this month.
    pub current_spend_usd: NanoUsd,
    /// Where alerts go; may be empty.
    pub alert_email: String,
    /// Whether operations are blocked that would pass the cap.
    pub hard_cap: bool,
    /// When false, operations are blocked at the cap too.
    pub allow_soft_overage: bool,
    /// Thresholds that what is spent has reached: `80%`, `100%`.
    pub alerts_sent: Vec<String>,
    /// The next threshold: 80, then 100.
    pub next_alert_threshold_pct: i64,
}

/// How often a subscription is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BillingCycle {
    /// Each month, on the first.
    Monthly,
    /// Each year, 17 percent below twelve months.
    Annual,
}

words!(BillingCycle, "billing cycle", { Monthly = "monthly", Annual = "annual" });

/// The state of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SubscriptionStatus {
    /// It goes on.
    Active,
    /// It is not paid yet, by agreement.
    Trial,
    /// It ends with its period.
    Cancelled,
    /// A payment failed. The service goes on for 7 days.
    PastDue,
    /// It was not paid. Operations are refused.
    Unpaid,
}

words!(SubscriptionStatus, "status of a subscription", {
    Active = "active",
    Trial = "trial",
    Cancelled = "cancelled",
    PastDue = "past_due",
    Unpaid = "unpaid",
});

/// A plan that is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Subscribe {
    /// `starter`, `pro`, `scale` or `enterprise`.
    pub plan: String,
    /// The billing contact.
    pub email: String,
    /// `monthly` when absent, or `annual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing_cycle: Option<String>,
}

/// An account's subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Subscription {
    /// The plan in force.
    pub plan: String,
    /// Its state.
    pub status: SubscriptionStatus,
    /// The end of what is paid for: the first of a month, 00:00 UTC.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub current_period_end: String,
    /// The plan's price for a month.
    pub monthly_price_usd: NanoUsd,
    /// Compute units that the plan has in a month. Where the plan sets no limit: 9007199254740991.
    pub monthly_fcu_limit: u64,
    /// How often it is paid.
    pub billing_cycle: BillingCycle,
    /// Percent below the monthly price.
    pub annual_discount_pct: u32,
    /// The plan that follows at `scheduled_at`, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_plan: Option<String>,
    /// How often that one is paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_billing_cycle: Option<BillingCycle>,
    /// When that one begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub scheduled_at: Option<String>,
    /// Where a payment method is stored, or the plan agreed on: nothing has changed until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout_url: Option<String>,
}

/// A subscription that ends with its period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelledSubscription {
    /// `cancelled`.
    pub status: SubscriptionStatus,
    /// Until then the plan stays in force.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub current_period_end: String,
}

/// The state of an invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum InvoiceStatus {
    /// It was paid.
    Paid,
    /// It is to be paid.
    Open,
    /// It was withdrawn.
    Void,
    /// It will not be paid.
    Uncollectible,
}

words!(InvoiceStatus, "status of an invoice", {
    Paid = "paid",
    Open = "open",
    Void = "void",
    Uncollectible = "uncollectible",
});

/// An invoice of the platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invoice {
    /// Its id.
    pub invoice_id: String,
    /// US cents.
    pub amount_usd_cents: i64,
    /// Its state.
    pub status: InvoiceStatus,
    /// The month of use, `2026-01`.
    pub period: String,
    /// When it was paid.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub paid_at: Option<String>,
    /// Its page.
    pub provider_invoice_url: String,
}

/// Invoices of an account, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invoices {
    /// At most 100.
    pub invoices: Vec<Invoice>,
}

/// A visit of the payment provider's portal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenPortal {
    /// Where the portal leads back to: a page of the service itself, or of localhost.
    pub return_url: String,
}

/// The portal's address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Portal {
    /// For one visit, within 5 minutes.
    pub url: String,
}

/// A checkout within a page of the client's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartCheckout {
    /// `payg` (stores a card, no fee), `starter`, `pro` or `scale`.
    pub plan: String,
    /// `monthly` when absent, or `annual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing_cycle: Option<String>,
}

/// A checkout that was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkout {
    /// The provider's id of it.
    pub session_id: String,
    /// For the provider's script in the browser.
    pub client_secret: String,
}

/// That an event of the payment provider was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceivedEvent {
    /// True.
    pub received: bool,
}

/// An event of the payment provider, as far as it is looked at. It has more members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderEvent {
    /// The provider's id of it.
    pub id: String,
    /// What happened.
    pub r#type: String,
}
