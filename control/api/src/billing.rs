//! What accounts use and spend (specification, Subscription, plans, budget, invoices, usage).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::NanoUsd;

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
    pub next_alert_threshold_pct: u32,
}
