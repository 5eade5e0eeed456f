//! Prices of plans, and the compute units that they include (specification, Plans).

use api::billing::BillingCycle;
use store::BeyondAllowance;

use crate::billing::compute_units::NANO_USD_OF_UNIT;
use crate::caller::{Environment, Plan};

/// Returns the number of compute units that a plan includes in a month. `None`: any number.
pub fn allowance(plan: Plan) -> Option<u64> {
    match plan {
        // a trial includes a number of operations instead of compute units
        Plan::Trial | Plan::Payg => Some(0),
        Plan::Free => Some(10_000),
        Plan::Starter => Some(1_000_000),
        Plan::Pro => Some(20_000_000),
        Plan::Scale => Some(100_000_000),
        Plan::Enterprise => None,
    }
}

/// Returns how compute units beyond the allowance are treated: charged, refused or counted (readings P5, P6).
pub fn beyond_allowance(plan: Plan, environment: Environment) -> BeyondAllowance {
    match (plan, environment) {
        (Plan::Trial | Plan::Free, _) => BeyondAllowance::Refused,
        (_, Environment::Live) => BeyondAllowance::Charged(NANO_USD_OF_UNIT),
        _ => BeyondAllowance::Free,
    }
}

/// Whether gates are charged. Answers show their cost in any case (readings P4, P5).
pub fn pays_for_gates(plan: Plan, environment: Environment) -> bool {
    environment == Environment::Live && !matches!(plan, Plan::Trial | Plan::Free)
}

/// Returns the price of one month of a plan in US cents.
pub fn monthly_price_cents(plan: Plan, cycle: BillingCycle) -> i64 {
    match (plan, cycle) {
        // the operator agrees on the price of an enterprise plan with the customer
        (Plan::Trial | Plan::Free | Plan::Payg | Plan::Enterprise, _) => 0,
        (Plan::Starter, BillingCycle::Monthly) => 900,
        (Plan::Starter, BillingCycle::Annual) => 747,
        (Plan::Pro, BillingCycle::Monthly) => 4_900,
        (Plan::Pro, BillingCycle::Annual) => 4_067,
        (Plan::Scale, BillingCycle::Monthly) => 19_900,
        (Plan::Scale, BillingCycle::Annual) => 16_517,
    }
}

/// Returns the number of months in a period of this billing cycle.
pub fn months_of(cycle: BillingCycle) -> i64 {
    match cycle {
        BillingCycle::Monthly => 1,
        BillingCycle::Annual => 12,
    }
}

/// Computes the price in US cents of a whole period of a plan: a month or a year.
pub fn period_price_cents(plan: Plan, cycle: BillingCycle) -> i64 {
    months_of(cycle) * monthly_price_cents(plan, cycle)
}

/// Plans that customers may subscribe to (specification, `POST /billing/subscribe`). An enterprise plan is agreed with
/// the operator.
pub const SUBSCRIBED: [Plan; 3] = [Plan::Starter, Plan::Pro, Plan::Scale];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_those_of_the_specification() {
        let allowances = [Some(0), Some(10_000), Some(0), Some(1_000_000), Some(20_000_000), Some(100_000_000), None];
        assert_eq!(Plan::ALL.map(allowance), allowances);
        let [monthly, annual] = BillingCycle::ALL.map(|cycle| Plan::ALL.map(|plan| monthly_price_cents(plan, cycle)));
        assert_eq!(monthly, [0, 0, 0, 900, 4_900, 19_900, 0]);
        assert_eq!(annual, [0, 0, 0, 747, 4_067, 16_517, 0]);
        // P15: annual prices are 17 percent below monthly ones
        for (monthly, annual) in monthly.into_iter().zip(annual) {
            assert_eq!((monthly * 83 + 50) / 100, annual);
        }
        assert_eq!(period_price_cents(Plan::Pro, BillingCycle::Annual), 48_804);
    }

    #[test]
    fn p4_p5_p6_live_keys_of_paid_plans_pay() {
        use BeyondAllowance::{Charged, Free, Refused};
        let live = Plan::ALL.map(|plan| beyond_allowance(plan, Environment::Live));
        assert_eq!(
            live,
            [Refused, Refused, Charged(2_000), Charged(2_000), Charged(2_000), Charged(2_000), Charged(2_000)]
        );
        for environment in [Environment::Test, Environment::Dev] {
            let others = Plan::ALL.map(|plan| beyond_allowance(plan, environment));
            assert_eq!(others, [Refused, Refused, Free, Free, Free, Free, Free]);
            assert!(Plan::ALL.iter().all(|plan| !pays_for_gates(*plan, environment)));
        }
        let paying = Plan::ALL.map(|plan| pays_for_gates(plan, Environment::Live));
        assert_eq!(paying, [false, false, true, true, true, true, true]);
    }
}
