//! The compute units that a month includes after a change of plan. A higher plan adds its units by the second, as its
//! price (readings P11).

use store::{Subscription, SubscriptionChange, Tx};

use crate::access::limits::{Period, month_start};
use crate::billing::plans::allowance;
use crate::caller::Plan;
use crate::clock::Timestamp;

/// Replaces a subscription record, and sets the allowance of the month if the plan in force changes. `None`: nothing was
/// changed, because the record has another version now or the account was deleted.
pub(super) async fn put_subscription(
    tx: &mut Tx,
    subscription: &Subscription,
    now: Timestamp,
) -> Result<Option<SubscriptionChange>, store::Error> {
    let Some(change) = tx.put_subscription(subscription).await? else { return Ok(None) };
    let (before, after) = (change.standing.before.plan, change.standing.after.plan);
    if before == after {
        return Ok(Some(change));
    }
    let (account_id, month) = (subscription.account_id.as_str(), Period::of(now).month);
    let is_higher = after as usize > before as usize;
    // a plan that the operator granted or that was bought begins with all of its units
    let added = if is_higher && after == subscription.plan { Some(after) } else { None };
    let had = match tx.month_allowance(account_id, month).await? {
        Some(fcu) => Some(fcu),
        None => allowance(before).map(|units| units as i64),
    };
    let began = if change.period_start_before == subscription.period_start { now.0 } else { subscription.period_start };
    match added.zip(had).and_then(|(plan, had)| prorated(before, plan, had, Timestamp(began), month)) {
        Some(fcu) => tx.put_month_allowance(account_id, month, fcu).await?,
        None => tx.forget_month_allowance(account_id, month).await?,
    }
    Ok(Some(change))
}

/// Computes the allowance of a month in which a higher plan began: `had`, plus the difference between the plans times
/// the part of the month that is left, rounded up. `None`: the plan's allowance is right.
fn prorated(before: Plan, plan: Plan, had: i64, began: Timestamp, month: i64) -> Option<i64> {
    let (start, end) = (month_start(month), month_start(month + 1));
    if began <= start {
        return None;
    }
    let added = allowance(plan)? as i64 - allowance(before)? as i64;
    let (whole, left) = (i128::from(end.0 - start.0), i128::from((end.0 - began.0).max(0)));
    let part = (i128::from(added) * left + whole - 1).div_euclid(whole);
    Some(had + i64::try_from(part).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p11_the_added_units_are_those_of_the_rest_of_the_month() {
        // February 2026 has 28 days
        let month = 2026 * 12 + 1;
        let day = |day: i64| Timestamp(month_start(month).0 + (day - 1) * 86_400_000_000);
        // half of the month is left
        assert_eq!(prorated(Plan::Free, Plan::Starter, 10_000, day(15), month), Some(10_000 + 495_000));
        assert_eq!(prorated(Plan::Starter, Plan::Pro, 505_000, day(22), month), Some(505_000 + 4_750_000));
        assert_eq!(prorated(Plan::Payg, Plan::Starter, 0, day(15), month), Some(500_000));
        // the first moment of the month, and a period that began before the month
        assert_eq!(prorated(Plan::Free, Plan::Starter, 10_000, day(1), month), None);
        assert_eq!(prorated(Plan::Free, Plan::Starter, 10_000, day(-5), month), None);
        // one second before the end: rounded up
        let last = Timestamp(month_start(month + 1).0 - 1_000_000);
        assert_eq!(prorated(Plan::Free, Plan::Starter, 10_000, last, month), Some(10_001));
        assert_eq!(prorated(Plan::Free, Plan::Enterprise, 10_000, day(15), month), None);
    }
}
