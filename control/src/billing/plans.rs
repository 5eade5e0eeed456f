//! What plans cost and allow of compute units (specification, Plans).

use store::BeyondAllowance;

use crate::billing::units::NANO_USD_OF_UNIT;
use crate::caller::{Environment, Plan};

/// Compute units that a plan has in a month without paying for each; `None`: any number.
pub fn allowance(plan: Plan) -> Option<u64> {
    match plan {
        // a trial's operations are counted instead
        Plan::Trial | Plan::Payg => Some(0),
        Plan::Free => Some(10_000),
        Plan::Starter => Some(1_000_000),
        Plan::Pro => Some(20_000_000),
        Plan::Scale => Some(100_000_000),
        Plan::Enterprise => None,
    }
}

/// What compute units beyond the allowance are (readings P5, P6).
pub fn beyond_allowance(plan: Plan, environment: Environment) -> BeyondAllowance {
    match (plan, environment) {
        (Plan::Trial | Plan::Free, _) => BeyondAllowance::Refused,
        (_, Environment::Live) => BeyondAllowance::Charged(NANO_USD_OF_UNIT),
        _ => BeyondAllowance::Free,
    }
}

/// Whether gates are paid for: shown with their cost they are always (readings P4, P5).
pub fn pays_for_gates(plan: Plan, environment: Environment) -> bool {
    environment == Environment::Live && !matches!(plan, Plan::Trial | Plan::Free)
}

/// Cents of a US dollar for a month of a plan that is paid by the month.
pub fn monthly_price_cents(plan: Plan) -> i64 {
    match plan {
        // a price for enterprises is agreed with the operator
        Plan::Trial | Plan::Free | Plan::Payg | Plan::Enterprise => 0,
        Plan::Starter => 900,
        Plan::Pro => 4_900,
        Plan::Scale => 19_900,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_those_of_the_specification() {
        let allowances = [Some(0), Some(10_000), Some(0), Some(1_000_000), Some(20_000_000), Some(100_000_000), None];
        assert_eq!(Plan::ALL.map(allowance), allowances);
        assert_eq!(Plan::ALL.map(monthly_price_cents), [0, 0, 0, 900, 4_900, 19_900, 0]);
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
