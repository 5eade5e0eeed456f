//! Usage and spending of accounts (specification, Subscription, plans, budget, invoices, usage).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NanoUsd, words};

/// Usage of an account in the current month (UTC).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// The month's first moment.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_start: String,
    /// The first moment after the month.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_end: String,
    /// Compute units that this month includes: the plan's number, or after a change of plan within the month the number
    /// of both plans in proportion. 9007199254740991 means that the plan has no limit.
    pub monthly_fcu_limit: u64,
    /// Compute units of completed operations.
    pub monthly_fcu_used: u64,
    /// Completed operations. Each gate counts as one operation.
    pub operations_total: u64,
    /// Completed operations by name. Gates are `gate_nand` and so on.
    pub by_operation: BTreeMap<String, u64>,
    /// The plan's price for the month plus other spending.
    pub estimated_cost_usd: NanoUsd,
    /// Compute units beyond the units that the plan includes. The account pays for each of these units.
    pub overage_fcu: u64,
    /// Cost of the compute units in `overage_fcu`.
    pub overage_cost_usd: NanoUsd,
}

/// A monthly cap on an account's spending. The new cap replaces the old one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetBudget {
    /// US dollars: more than 0, at most a billion.
    pub monthly_cap_usd: f64,
    /// E-mail address for alerts when spending reaches 80 and 100 percent of the cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_email: Option<String>,
    /// Whether operations that would exceed the cap are blocked. False when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_cap: Option<bool>,
    /// If false, operations that would exceed the cap are blocked, as if `hard_cap` were true. Absent means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_soft_overage: Option<bool>,
}

/// An account's monthly cap, and the account's spending. Spending is the cost of gates, of compute units beyond the
/// units that the plan includes, and of the back office. Spending does not include the plan's price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budget {
    /// The cap; 0 when none was set.
    pub monthly_cap_usd: NanoUsd,
    /// Spending in the current month.
    pub current_spend_usd: NanoUsd,
    /// E-mail address for alerts; may be empty.
    pub alert_email: String,
    /// Whether operations that would exceed the cap are blocked.
    pub hard_cap: bool,
    /// If false, operations that would exceed the cap are blocked, as if `hard_cap` were true.
    pub allow_soft_overage: bool,
    /// Thresholds that the spending has reached: `80%`, `100%`.
    pub alerts_sent: Vec<String>,
    /// The next threshold: 80, then 100.
    pub next_alert_threshold_pct: i64,
    /// The payment that is due. Absent: the account owes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_due: Option<PaymentDue>,
}

/// The payment that an account owes, and the consequences if the account does not pay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentDue {
    /// The sum of the unpaid invoices in US cents. 0: a payment of the subscription failed, and its invoice is not known
    /// yet.
    pub amount_usd_cents: i64,
    /// The unpaid invoices, the oldest first, at most 100.
    pub invoice_ids: Vec<String>,
    /// When the oldest payment is or was due.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub due_at: String,
    /// Whether the payment is overdue.
    pub is_overdue: bool,
    /// When the account is or was suspended unless the payment arrives: 7 days after `due_at`, or later if the operator
    /// agreed. From then on, compute operations, gates and key generation are refused.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub suspended_at: String,
    /// Whether the account is suspended.
    pub is_suspended: bool,
}

/// How often a subscription is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BillingCycle {
    /// Each month, on the first.
    Monthly,
    /// Each year, for 17 percent less than twelve monthly payments.
    Annual,
}

words!(BillingCycle, "billing cycle", { Monthly = "monthly", Annual = "annual" });

/// The state of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SubscriptionStatus {
    /// The subscription continues.
    Active,
    /// By agreement, the account pays nothing yet.
    Trial,
    /// The subscription ends with its period.
    Cancelled,
    /// A payment failed. The account can use the service for 7 more days.
    PastDue,
    /// The subscription was not paid. Operations are refused.
    Unpaid,
}

words!(SubscriptionStatus, "status of a subscription", {
    Active = "active",
    Trial = "trial",
    Cancelled = "cancelled",
    PastDue = "past_due",
    Unpaid = "unpaid",
});

/// A request for a subscription to a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Subscribe {
    /// `starter`, `pro`, `scale` or `enterprise`.
    pub plan: String,
    /// The billing contact.
    pub email: String,
    /// `monthly` (the default) or `annual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billing_cycle: Option<String>,
}

/// An account's subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Subscription {
    /// The plan in force.
    pub plan: String,
    /// The subscription's state.
    pub status: SubscriptionStatus,
    /// The end of the paid period: the first of a month, 00:00 UTC.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub current_period_end: String,
    /// The plan's price for a month.
    pub monthly_price_usd: NanoUsd,
    /// Compute units that the plan includes in a month. 9007199254740991 means that the plan has no limit.
    pub monthly_fcu_limit: u64,
    /// How often the subscription is paid.
    pub billing_cycle: BillingCycle,
    /// Discount on the monthly price for annual payment, in percent.
    pub annual_discount_pct: u32,
    /// The plan from `scheduled_at` on, if it differs from `plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_plan: Option<String>,
    /// How often the scheduled plan is paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_billing_cycle: Option<BillingCycle>,
    /// When the scheduled plan begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub scheduled_at: Option<String>,
    /// The page where the customer stores a payment method or agrees on the plan. The subscription changes only after
    /// this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout_url: Option<String>,
    /// The payment that is due. Absent: the account owes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_due: Option<PaymentDue>,
}

/// A subscription that ends with its period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelledSubscription {
    /// `cancelled`.
    pub status: SubscriptionStatus,
    /// The plan stays in force until this time.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub current_period_end: String,
}

/// The state of an invoice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum InvoiceStatus {
    /// The invoice was paid.
    Paid,
    /// The invoice is not paid yet.
    Open,
    /// The invoice was withdrawn.
    Void,
    /// The invoice will not be paid.
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
    /// The invoice's id.
    pub invoice_id: String,
    /// Amount in US cents.
    pub amount_usd_cents: i64,
    /// The invoice's state.
    pub status: InvoiceStatus,
    /// The month of the usage, such as `2026-01`.
    pub period: String,
    /// When the invoice was paid.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub paid_at: Option<String>,
    /// The provider's page of the invoice.
    pub provider_invoice_url: String,
}

/// Invoices of an account, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invoices {
    /// The invoices, at most 100.
    pub invoices: Vec<Invoice>,
}

/// A request to open the payment provider's portal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenPortal {
    /// The page to which the portal returns: a page of the service itself, or of localhost.
    pub return_url: String,
}

/// The portal's address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Portal {
    /// The address, which can be opened once, within 5 minutes.
    pub url: String,
}

/// A request for a checkout that is embedded in the client's own page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartCheckout {
    /// `payg` (stores a card, no fee), `starter`, `pro` or `scale`.
    pub plan: String,
    /// `monthly` (the default) or `annual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billing_cycle: Option<String>,
}

/// A checkout that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkout {
    /// The provider's id of the checkout.
    pub session_id: String,
    /// The secret for the provider's script in the browser.
    pub client_secret: String,
}

/// Confirmation that an event of the payment provider was received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceivedEvent {
    /// True.
    pub received: bool,
}

/// An event of the payment provider, with the members that the service reads. Events have more members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderEvent {
    /// The provider's id of the event.
    pub id: String,
    /// The event's type.
    pub r#type: String,
}
