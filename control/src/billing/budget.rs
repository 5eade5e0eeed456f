//! The monthly cap on what an account spends (specification, Billing; readings P7, P9, P20-P22).

use std::sync::Arc;

use api::billing::{Budget, SetBudget};
use api::{Code, NanoUsd};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use store::{BUDGET_THRESHOLDS, is_reached};

use super::Billing;
use super::alerts::budget_alerts;
use crate::access::limits::Period;
use crate::access::users::normal_email;
use crate::caller::Caller;
use crate::web::body::{self, JsonBody};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// The highest cap (readings P21).
const CAP_MAX: NanoUsd = NanoUsd(1_000_000_000 * 1_000_000_000);

impl JsonBody for SetBudget {
    const BYTES_MAX: usize = 8 << 10;
}

/// The account's monthly cap and spending.
#[utoipa::path(
    get,
    path = "/api/v1/billing/budget",
    operation_id = "getBudget",
    tag = "Billing",
    responses((status = 200, description = "The budget.", body = Budget)),
    extensions(("x-errors" = json!([])))
)]
pub async fn show(State(billing): State<Arc<Billing>>, caller: Caller) -> Result<Json<Budget>, ApiError> {
    let budget = billing.store.monthly_cap(caller.account.as_str()).await?;
    Ok(Json(billing.budget(&caller, budget).await?))
}

/// Set the account's monthly cap. The new cap replaces the old one.
///
/// The new cap holds from the next operation on. If it blocks and is below the amount already spent, it blocks at once.
#[utoipa::path(
    post,
    path = "/api/v1/billing/budget",
    operation_id = "setBudget",
    tag = "Billing",
    request_body = SetBudget,
    responses((status = 200, description = "The budget.", body = Budget)),
    extensions(("x-errors" = json!([Code::InvalidParams, BODY])))
)]
pub async fn set(
    State(billing): State<Arc<Billing>>,
    caller: Caller,
    claim: Claim,
    body: body::Json<SetBudget>,
) -> Result<Response, ApiError> {
    let SetBudget { monthly_cap_usd, alert_email, hard_cap, allow_soft_overage } = body.value;
    let alert_email = match alert_email {
        Some(text) => email(&text)?,
        // without an address in the request, alerts go to the billing contact
        None => billing.subscription(&caller).await?.email,
    };
    let budget = store::MonthlyCap {
        account_id: caller.account.as_str().to_owned(),
        cap_nano_usd: cap(monthly_cap_usd)?.0,
        hard_cap: hard_cap.unwrap_or(false),
        allow_soft_overage: allow_soft_overage.unwrap_or(true),
        alert_email,
        updated_at: billing.clock.now().0,
    };
    let shown = billing.budget(&caller, Some(budget.clone())).await?;
    // if the new cap is below the present spending, the thresholds that are reached are announced at once
    let spent = shown.current_spend_usd.0;
    let reached = budget_alerts(&budget.account_id, budget.cap_nano_usd, spent, billing.clock.now());
    let (answer, kept) = claim.keep(Json(shown).into_response()).await?;
    billing
        .store
        .write(async |tx| {
            tx.set_monthly_cap(&budget).await?;
            tx.add_alerts(&reached).await?;
            tx.keep(kept.as_ref()).await
        })
        .await?;
    Ok(answer)
}

impl Billing {
    async fn budget(&self, caller: &Caller, budget: Option<store::MonthlyCap>) -> Result<Budget, ApiError> {
        let payment_due = self.view(caller).await?.payment_due();
        let month = Period::of(self.clock.now()).month;
        let spend = self.store.used_in_month(caller.account.as_str(), month).await?.spend;
        let Some(budget) = budget else {
            // no cap was set (readings P20)
            return Ok(Budget {
                monthly_cap_usd: NanoUsd(0),
                current_spend_usd: NanoUsd(spend.nano_usd()),
                alert_email: String::new(),
                hard_cap: false,
                allow_soft_overage: true,
                alerts_sent: Vec::new(),
                next_alert_threshold_pct: BUDGET_THRESHOLDS[0],
                payment_due,
            });
        };
        let reached = |percent: &&i64| is_reached(spend.nano_usd(), budget.cap_nano_usd, **percent);
        let reached: Vec<i64> = BUDGET_THRESHOLDS.iter().filter(reached).copied().collect();
        Ok(Budget {
            monthly_cap_usd: NanoUsd(budget.cap_nano_usd),
            current_spend_usd: NanoUsd(spend.nano_usd()),
            alert_email: budget.alert_email,
            hard_cap: budget.hard_cap,
            allow_soft_overage: budget.allow_soft_overage,
            alerts_sent: reached.iter().map(|percent| format!("{percent}%")).collect(),
            next_alert_threshold_pct: if reached.is_empty() { BUDGET_THRESHOLDS[0] } else { BUDGET_THRESHOLDS[1] },
            payment_due,
        })
    }
}

/// Reads a cap in dollars: above 0 and at most `CAP_MAX` (readings P21).
fn cap(dollars: f64) -> Result<NanoUsd, ApiError> {
    NanoUsd::of_dollars(dollars).filter(|cap| *cap > NanoUsd(0) && *cap <= CAP_MAX).ok_or_else(|| {
        let message = "monthly_cap_usd must be more than 0 and at most 1000000000";
        ApiError::new(Code::InvalidParams, message).at("monthly_cap_usd", "out of range")
    })
}

/// Reads the address for alerts (readings P32).
fn email(text: &str) -> Result<String, ApiError> {
    normal_email(text).ok_or_else(|| {
        ApiError::new(Code::InvalidRequest, "`alert_email` must be an e-mail address")
            .at("alert_email", "not an address")
    })
}
