//! The steps from a subscription to a wanted plan, and what each step means for periods and prices (readings P10, P11,
//! P16, P17). Pure: the payment provider carries the steps out, or this service if the node has no provider.

use api::billing::BillingCycle;
use store::{Subscription, SubscriptionState};

use crate::access::limits::{Period, month_start};
use crate::billing::plans::{months_of, period_price_cents};
use crate::caller::Plan;
use crate::clock::Timestamp;

/// A step of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A subscription begins.
    Start(Plan, BillingCycle),
    /// A cancellation is taken back.
    Resume,
    /// The change scheduled for the period's end is removed.
    Unschedule,
    /// A higher plan begins at once, paid at the present billing cycle.
    Upgrade(Plan),
    /// A plan and billing cycle are scheduled for the period's end.
    Schedule(Plan, BillingCycle),
    /// The subscription ends with its period.
    Cancel,
}

/// Lists the steps from a subscription to a wanted plan. A higher plan begins at once. A lower plan and another billing
/// cycle begin at the period's end. A higher plan also waits for the period's end if a yearly subscription changes to
/// monthly.
pub fn steps_to(current: &Subscription, plan: Plan, cycle: BillingCycle) -> Vec<Step> {
    if current.status == SubscriptionState::None {
        return vec![Step::Start(plan, cycle)];
    }
    let mut steps = Vec::new();
    if current.status == SubscriptionState::Cancelled {
        steps.push(Step::Resume);
    }
    let is_scheduled = !current.scheduled_plan.is_empty();
    if (current.scheduled_plan.as_str(), current.scheduled_cycle.as_str()) == (plan.as_str(), cycle.as_str()) {
        return steps;
    }
    if is_scheduled {
        steps.push(Step::Unschedule);
    }
    let shortens = current.billing_cycle == BillingCycle::Annual && cycle == BillingCycle::Monthly;
    let is_higher = plan as usize > current.plan as usize && !shortens;
    if is_higher {
        steps.push(Step::Upgrade(plan));
    }
    if cycle != current.billing_cycle || (plan != current.plan && !is_higher) {
        steps.push(Step::Schedule(plan, cycle));
    }
    steps
}

/// An amount that a step charges or credits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fee {
    /// The text of the invoice's line.
    pub description: String,
    /// US cents. A credit is negative.
    pub cents: i64,
    /// The month that the fee is for.
    pub month: i64,
}

/// Computes the end of a period that begins now: always the first of a month (readings P10).
pub fn period_end(now: Timestamp, cycle: BillingCycle) -> Timestamp {
    month_start(Period::of(now).month + months_of(cycle))
}

/// Carries a step out if the node has no provider. Returns the fees.
pub fn apply(subscription: &mut Subscription, step: Step, now: Timestamp) -> Vec<Fee> {
    let month = Period::of(now).month;
    match step {
        Step::Start(plan, cycle) => {
            let end = period_end(now, cycle);
            (subscription.plan, subscription.billing_cycle) = (plan, cycle);
            (subscription.period_start, subscription.period_end) = (now.0, end.0);
            subscription.status = SubscriptionState::Active;
            unschedule(subscription);
            let cents = rest_of_price(plan, cycle, now, end);
            vec![Fee { description: fee_words(plan, cycle, now, end), cents, month }]
        }
        Step::Resume => {
            subscription.status = SubscriptionState::Active;
            vec![]
        }
        Step::Unschedule => {
            unschedule(subscription);
            vec![]
        }
        Step::Upgrade(plan) => {
            let (before, cycle, end) =
                (subscription.plan, subscription.billing_cycle, Timestamp(subscription.period_end));
            subscription.plan = plan;
            let credit = Fee {
                description: format!("Unused time of the {}", fee_words(before, cycle, now, end).to_lowercase()),
                cents: -rest_of_price(before, cycle, now, end),
                month,
            };
            let cents = rest_of_price(plan, cycle, now, end);
            vec![credit, Fee { description: fee_words(plan, cycle, now, end), cents, month }]
        }
        Step::Schedule(plan, cycle) => {
            subscription.scheduled_plan = plan.as_str().to_owned();
            subscription.scheduled_cycle = cycle.as_str().to_owned();
            vec![]
        }
        Step::Cancel => {
            subscription.status = SubscriptionState::Cancelled;
            unschedule(subscription);
            vec![]
        }
    }
}

/// Ends the periods that are over, if the node has no provider. A scheduled plan begins, a cancelled subscription ends,
/// and every other subscription is renewed. Returns the fees of the periods that begin.
pub fn renew(subscription: &mut Subscription, now: Timestamp) -> Vec<Fee> {
    let mut fees = Vec::new();
    while subscription.status != SubscriptionState::None && subscription.period_end <= now.0 {
        if subscription.status == SubscriptionState::Cancelled {
            end(subscription);
            return fees;
        }
        if let (Some(plan), Some(cycle)) = scheduled(subscription) {
            (subscription.plan, subscription.billing_cycle) = (plan, cycle);
            unschedule(subscription);
        }
        let (plan, cycle, start) = (subscription.plan, subscription.billing_cycle, Timestamp(subscription.period_end));
        let end = period_end(start, cycle);
        (subscription.period_start, subscription.period_end) = (start.0, end.0);
        let (description, cents) = (fee_words(plan, cycle, start, end), period_price_cents(plan, cycle));
        fees.push(Fee { description, cents, month: Period::of(start).month });
    }
    fees
}

/// Ends a subscription. The account is then on the free plan (readings P16), unless another record gives it a plan.
pub fn end(subscription: &mut Subscription) {
    subscription.status = SubscriptionState::None;
    subscription.billing_cycle = BillingCycle::Monthly;
    subscription.past_due_since = 0;
    subscription.provider_subscription_id = String::new();
    unschedule(subscription);
    subscription.plan = Plan::Free;
}

/// Returns the plan and billing cycle that are scheduled for the period's end.
pub fn scheduled(subscription: &Subscription) -> (Option<Plan>, Option<BillingCycle>) {
    (Plan::from_name(&subscription.scheduled_plan), BillingCycle::from_name(&subscription.scheduled_cycle))
}

/// Removes the scheduled change.
pub fn unschedule(subscription: &mut Subscription) {
    subscription.scheduled_plan = String::new();
    subscription.scheduled_cycle = String::new();
}

/// Computes the part of the period's price for the seconds from now to the period's end, rounded to a cent.
fn rest_of_price(plan: Plan, cycle: BillingCycle, now: Timestamp, end: Timestamp) -> i64 {
    let start = month_start(Period::of(end).month - months_of(cycle));
    let whole = i128::from(end.seconds().saturating_sub(start.seconds()).max(1));
    let rest = i128::from(end.seconds().saturating_sub(now.seconds())).min(whole);
    let price = i128::from(period_price_cents(plan, cycle));
    i64::try_from((2 * price * rest + whole) / (2 * whole)).expect("at most the price")
}

fn fee_words(plan: Plan, cycle: BillingCycle, start: Timestamp, end: Timestamp) -> String {
    let day = |moment: Timestamp| moment.rfc3339()[..10].to_owned();
    format!("Plan {}, {}, {} to {}", plan.as_str(), cycle.as_str(), day(start), day(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use BillingCycle::{Annual, Monthly};

    /// 2026-02-15T00:00:00Z: the middle of a month of 28 days.
    const NOW: Timestamp = Timestamp(1_771_113_600_000_000);

    fn none() -> Subscription {
        Subscription::none("acct_1")
    }

    fn on(plan: Plan, cycle: BillingCycle) -> Subscription {
        let mut subscription = none();
        apply(&mut subscription, Step::Start(plan, cycle), NOW);
        subscription
    }

    #[test]
    fn p10_the_first_month_is_paid_by_the_second_and_ends_on_the_first() {
        let mut subscription = none();
        let fees = apply(&mut subscription, Step::Start(Plan::Starter, Monthly), NOW);
        assert_eq!(Timestamp(subscription.period_end).rfc3339(), "2026-03-01T00:00:00.000Z");
        assert_eq!(fees.iter().map(|fee| fee.cents).collect::<Vec<_>>(), [450]);
        assert_eq!(fees[0].description, "Plan starter, monthly, 2026-02-15 to 2026-03-01");
        let mut subscription = none();
        let fees = apply(&mut subscription, Step::Start(Plan::Starter, Annual), NOW);
        assert_eq!(Timestamp(subscription.period_end).rfc3339(), "2027-02-01T00:00:00.000Z");
        // 351 of 365 days
        assert_eq!(fees[0].cents, 8_620);
        // a subscription that begins at the first moment of a month costs the whole price
        let first = month_start(Period::of(NOW).month);
        assert_eq!(apply(&mut none(), Step::Start(Plan::Pro, Monthly), first)[0].cents, 4_900);
        // a subscription that begins at the month's last second costs nothing
        let last = Timestamp(month_start(Period::of(NOW).month + 1).0 - 1_000_000);
        assert_eq!(apply(&mut none(), Step::Start(Plan::Scale, Monthly), last)[0].cents, 0);
    }

    #[test]
    fn p11_higher_plans_come_at_once_and_everything_else_at_the_end() {
        let steps = |current: &Subscription, plan, cycle| steps_to(current, plan, cycle);
        assert_eq!(steps(&none(), Plan::Pro, Annual), [Step::Start(Plan::Pro, Annual)]);
        let pro = on(Plan::Pro, Monthly);
        assert_eq!(steps(&pro, Plan::Pro, Monthly), []);
        assert_eq!(steps(&pro, Plan::Scale, Monthly), [Step::Upgrade(Plan::Scale)]);
        assert_eq!(steps(&pro, Plan::Starter, Monthly), [Step::Schedule(Plan::Starter, Monthly)]);
        assert_eq!(steps(&pro, Plan::Pro, Annual), [Step::Schedule(Plan::Pro, Annual)]);
        let both = [Step::Upgrade(Plan::Scale), Step::Schedule(Plan::Scale, Annual)];
        assert_eq!(steps(&pro, Plan::Scale, Annual), both);
        let annual = on(Plan::Pro, Annual);
        assert_eq!(steps(&annual, Plan::Scale, Monthly), [Step::Schedule(Plan::Scale, Monthly)]);
        assert_eq!(steps(&annual, Plan::Scale, Annual), [Step::Upgrade(Plan::Scale)]);
        // a scheduled change stays if the same change is requested again; any other request removes it
        let mut down = pro.clone();
        apply(&mut down, Step::Schedule(Plan::Starter, Monthly), NOW);
        assert_eq!(steps(&down, Plan::Starter, Monthly), []);
        assert_eq!(steps(&down, Plan::Pro, Monthly), [Step::Unschedule]);
        assert_eq!(steps(&down, Plan::Scale, Monthly), [Step::Unschedule, Step::Upgrade(Plan::Scale)]);
    }

    #[test]
    fn p16_p17_a_cancelled_subscription_ends_or_is_taken_up_again() {
        let mut pro = on(Plan::Pro, Monthly);
        apply(&mut pro, Step::Cancel, NOW);
        assert_eq!(steps_to(&pro, Plan::Pro, Monthly), [Step::Resume]);
        assert_eq!(steps_to(&pro, Plan::Scale, Monthly), [Step::Resume, Step::Upgrade(Plan::Scale)]);
        let before = pro.clone();
        assert_eq!((renew(&mut pro, NOW), &pro), (vec![], &before));
        let end = Timestamp(pro.period_end);
        assert_eq!(renew(&mut pro, end), []);
        assert_eq!((pro.plan, pro.status), (Plan::Free, SubscriptionState::None));
    }

    #[test]
    fn p11_an_upgrade_is_paid_by_the_second_and_what_was_paid_is_credited() {
        let mut pro = on(Plan::Pro, Monthly);
        // an upgrade a week later, when 7 of 28 days are left
        let later = Timestamp(NOW.0 + 7 * 86_400 * 1_000_000);
        let fees = apply(&mut pro, Step::Upgrade(Plan::Scale), later);
        assert_eq!(fees.iter().map(|fee| fee.cents).collect::<Vec<_>>(), [-1_225, 4_975]);
        assert_eq!(pro.plan, Plan::Scale);
    }

    #[test]
    fn p10_periods_follow_each_other_and_what_was_scheduled_comes_at_the_end() {
        let mut scale = on(Plan::Scale, Monthly);
        apply(&mut scale, Step::Schedule(Plan::Starter, Annual), NOW);
        let end = Timestamp(scale.period_end);
        assert_eq!(renew(&mut scale, Timestamp(end.0 - 1)), []);
        let fees = renew(&mut scale, end);
        assert_eq!(fees.iter().map(|fee| fee.cents).collect::<Vec<_>>(), [8_964]);
        assert_eq!((scale.plan, scale.billing_cycle), (Plan::Starter, Annual));
        assert_eq!(Timestamp(scale.period_end).rfc3339(), "2027-03-01T00:00:00.000Z");
        // a node that was off for three months renews three periods at once
        let mut pro = on(Plan::Pro, Monthly);
        let fees = renew(&mut pro, Timestamp(end.0 + 70 * 86_400 * 1_000_000));
        assert_eq!(fees.iter().map(|fee| fee.cents).collect::<Vec<_>>(), [4_900; 3]);
        assert_eq!(Timestamp(pro.period_end).rfc3339(), "2026-06-01T00:00:00.000Z");
    }
}
