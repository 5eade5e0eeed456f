//! The use, spending and monthly cap of the calling key (specification, `/v1/me` and `/v1/cap`; readings B17, B19,
//! B20).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::office::{CapAlert, CapStanding, Me, OfficeLimits, OperationUse};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docs_module::request;
use store::OfficeTotal;

use super::Office;
use super::body::Body;
use super::charge::OfficeOperation;
use crate::access::limits::{Period, month_start};
use crate::caller::{Caller, Credential};
use crate::clock::Timestamp;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// Show the plan and its limits, and the calling key's use, spending and cap in this month (UTC).
#[utoipa::path(
    get,
    path = "/v1/me",
    operation_id = "getMe",
    tag = "Back office",
    responses((status = 200, description = "Use, spending, cap and limits in this month.", body = Me)),
    extensions(("x-errors" = json!([])))
)]
pub async fn me(State(office): State<Arc<Office>>, caller: Caller) -> Result<Json<Me>, ApiError> {
    let now = office.clock.now();
    let period = Period::of(now);
    let (account_id, lineage_id) = (caller.account.as_str(), caller.credential.lasting_id());
    let store = &office.store;
    let totals = store.office_totals(account_id, lineage_id, period.month).await?;
    let billable_calls_used = store.office_calls(account_id, period.month).await?;
    let cap_yen = store.office_cap(lineage_id).await?.unwrap_or(0);
    let alerts = store.office_cap_alerts(lineage_id, period.month, cap_yen).await?;
    let key_prefix = match &caller.credential {
        Credential::Key { key_id, .. } => store.api_key_of_id(key_id.as_str()).await?.map(|key| key.key_prefix),
        Credential::Token { .. } => None,
    };
    let (begin, end) = (month_start(period.month), month_start(period.month + 1));
    let spent = spent_yen(&totals);
    let limits = office.access.limits.of(caller.plan);
    Ok(Json(Me {
        plan: caller.plan.as_str().to_owned(),
        key_prefix: key_prefix.unwrap_or_default(),
        period_start: begin.rfc3339(),
        period_end: end.rfc3339(),
        usage: usage(&totals),
        charge_yen: spent,
        projected_charge_yen: projected(spent, begin, end, now),
        cap_yen,
        remaining_yen: remaining(cap_yen, spent),
        alerts: alerts
            .into_iter()
            .map(|alert| CapAlert { threshold_pct: alert.threshold, reached_at: Timestamp(alert.reached_at).rfc3339() })
            .collect(),
        limits: OfficeLimits {
            requests_a_day: limits.requests_a_day,
            requests_a_month: limits.requests_a_month,
            billable_calls_a_month: office.calls_max(caller.plan),
            billable_calls_used,
        },
    }))
}

/// Set the monthly cap of the calling key.
///
/// The new cap replaces the old one from the next call on. 0 removes the cap.
#[utoipa::path(
    post,
    path = "/v1/cap",
    operation_id = "setCap",
    tag = "Back office",
    request_body = api::office::CapIn,
    responses((status = 200, description = "The cap.", body = CapStanding)),
    extensions(("x-errors" = json!(BODY)))
)]
pub async fn set_cap(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    body: Body,
) -> Result<Response, ApiError> {
    let cap_yen = body.work(|bytes, _| request::cap(bytes)).await?;
    let now = office.clock.now();
    let month = Period::of(now).month;
    let (account_id, lineage_id) = (caller.account.as_str(), caller.credential.lasting_id());
    let answer = office
        .store
        .write(async |tx| {
            // Payments that the old cap held up are due now. Lock order: payments, then the ledger, as for a payment's
            // document.
            tx.hasten_documents(lineage_id, now.0).await?;
            let totals = tx.lock_office_totals(account_id, lineage_id, month).await?;
            tx.set_office_cap(lineage_id, cap_yen, now.0).await?;
            if cap_yen > 0 {
                tx.note_reached_cap(lineage_id, month, cap_yen, milli_yen(&totals), now.0).await?;
            }
            let spent = spent_yen(&totals);
            let standing = CapStanding { cap_yen, charge_yen: spent, remaining_yen: remaining(cap_yen, spent) };
            let (answer, kept) = claim.keep(Json(standing).into_response()).await?;
            tx.keep(kept.as_ref()).await?;
            Ok::<_, ApiError>(answer)
        })
        .await?;
    office.told.notify_one();
    Ok(answer)
}

/// Returns for every operation the number of calls, the number of units and the price in yen. All three are zero for an
/// operation that was not called.
fn usage(totals: &[OfficeTotal]) -> BTreeMap<String, OperationUse> {
    let mut usage: BTreeMap<String, OperationUse> =
        OfficeOperation::ALL.iter().map(|operation| (operation.name().to_owned(), OperationUse::default())).collect();
    for total in totals {
        let used = OperationUse { count: total.calls, units: total.units, yen: whole_yen(total.milli_yen) };
        usage.insert(total.operation.clone(), used);
    }
    usage
}

fn milli_yen(totals: &[OfficeTotal]) -> i64 {
    totals.iter().fold(0, |sum, total| sum.saturating_add(total.milli_yen))
}

fn spent_yen(totals: &[OfficeTotal]) -> i64 {
    whole_yen(milli_yen(totals))
}

/// Converts thousandths of a yen to yen. Nothing is lost, because prices are whole yen.
fn whole_yen(milli_yen: i64) -> i64 {
    milli_yen / 1000
}

fn remaining(cap_yen: i64, spent_yen: i64) -> Option<i64> {
    (cap_yen > 0).then(|| (cap_yen - spent_yen).max(0))
}

/// Returns what the key will have spent at the end of the month, if the average pace since the month's start continues.
/// Rounded up to a yen (readings B19).
fn projected(spent_yen: i64, begin: Timestamp, end: Timestamp, now: Timestamp) -> i64 {
    let whole = i128::from(end.0 - begin.0);
    // at least one second, so the division is safe
    let passed = i128::from((now.0 - begin.0).clamp(1_000_000, end.0 - begin.0));
    let projected = (i128::from(spent_yen) * whole + passed - 1) / passed;
    i64::try_from(projected).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b19_a_month_is_projected_by_the_time_that_has_passed_and_rounded_up() {
        let (begin, end) = (Timestamp(0), Timestamp(30 * 86_400_000_000));
        let at = |days: i64| Timestamp(days * 86_400_000_000);
        assert_eq!(projected(100, begin, end, at(10)), 300);
        assert_eq!(projected(100, begin, end, at(7)), 429);
        assert_eq!(projected(100, begin, end, at(30)), 100);
        assert_eq!(projected(0, begin, end, at(0)), 0);
        assert!(projected(i64::MAX, begin, end, at(0)) == i64::MAX);
    }

    #[test]
    fn b20_a_cap_leaves_nothing_below_zero() {
        assert_eq!((remaining(0, 50), remaining(100, 30), remaining(100, 300)), (None, Some(70), Some(0)));
    }
}
