//! The account's use in the present month (specification, Billing; readings P3, P33).

use std::sync::Arc;

use api::NanoUsd;
use api::billing::{BillingCycle, Usage};
use axum::Json;
use axum::extract::State;
use store::UsedInMonth;

use super::Billing;
use crate::access::limits::Period;
use crate::billing::compute_units::NANO_USD_OF_UNIT;
use crate::billing::plans::{allowance, monthly_price_cents};
use crate::caller::{Caller, Plan, UNLIMITED};
use crate::clock::Timestamp;
use crate::web::error::ApiError;

/// Billionths of a dollar in a cent.
pub(crate) const NANO_USD_OF_CENT: i64 = 10_000_000;

/// The account's use in the present month (UTC), and its cost.
#[utoipa::path(
    get,
    path = "/api/v1/billing/usage",
    operation_id = "getUsage",
    tag = "Billing",
    responses((status = 200, description = "The usage.", body = Usage)),
    extensions(("x-errors" = json!([])))
)]
pub async fn show(State(billing): State<Arc<Billing>>, caller: Caller) -> Result<Json<Usage>, ApiError> {
    let period = Period::of(billing.clock.now());
    let used = billing.store.used_in_month(caller.account.as_str(), period.month).await?;
    let subscription = billing.store.subscription(caller.account.as_str()).await?;
    let cycle = subscription.map_or(BillingCycle::Monthly, |subscription| subscription.billing_cycle);
    // readings P11: after a change of plan the month may have an allowance of its own
    let of_month = billing.store.month_allowance(caller.account.as_str(), period.month).await?;
    let of_plan = if caller.plan == Plan::Payg { None } else { allowance(caller.plan) };
    let limit = of_month.and_then(|fcu| u64::try_from(fcu).ok()).or(of_plan);
    Ok(Json(usage(period, caller.plan, limit, cycle, used)))
}

/// `limit`: number of compute units that are included in the month. `None`: unlimited.
fn usage(period: Period, plan: Plan, limit: Option<u64>, cycle: BillingCycle, used: UsedInMonth) -> Usage {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let moment = |seconds: u64| Timestamp(seconds as i64 * 1_000_000).rfc3339();
    let by_operation: std::collections::BTreeMap<String, u64> =
        used.operations.into_iter().map(|(name, operations)| (name, count(operations))).collect();
    Usage {
        period_start: moment(period.month_start_s()),
        period_end: moment(period.month_reset_s()),
        monthly_fcu_limit: limit.unwrap_or(UNLIMITED),
        monthly_fcu_used: count(used.fcu),
        operations_total: by_operation.values().sum(),
        by_operation,
        estimated_cost_usd: NanoUsd(monthly_price_cents(plan, cycle) * NANO_USD_OF_CENT + used.spend.nano_usd()),
        overage_fcu: count(used.overage_nano_usd / NANO_USD_OF_UNIT),
        overage_cost_usd: NanoUsd(used.overage_nano_usd),
    }
}
