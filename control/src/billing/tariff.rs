//! The gate tariff: pure, in thousandths of a yen (readings P1, P27-P30).
//!
//! The tariff counts the bootstraps that a circuit of NAND gates would need, whatever the engine executes.

use std::collections::BTreeMap;

use api::MilliYen;
use api::gates::{BatchDiscount, Pricing, Rate};

use crate::work::Gate;

/// Price of one bootstrap.
pub const BOOTSTRAP_PRICE: MilliYen = MilliYen(100);
/// Price of one bootstrap in a request that gets the discount.
pub const BOOTSTRAP_PRICE_DISCOUNTED: MilliYen = MilliYen(70);
/// A request with at least this many gates gets the discount. NOT gates count too, although they have no bootstrap
/// (readings P28).
pub const DISCOUNT_GATES_MIN: u64 = 32;

/// Returns the number of bootstraps that are charged for a gate.
pub fn bootstrap_ops(gate: Gate) -> u64 {
    match gate {
        Gate::Not => 0,
        Gate::Nand | Gate::And | Gate::Or | Gate::Nor => 1,
        Gate::Mux => 3,
        Gate::Xor | Gate::Xnor => 4,
    }
}

/// The price of a request's gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Number of bootstraps that are charged.
    pub bootstrap_ops: u64,
    /// The price of these bootstraps.
    pub cost: MilliYen,
    /// Whether the price is discounted.
    pub discounted: bool,
}

/// Computes the price of the gates of one request.
pub fn price(gates: impl ExactSizeIterator<Item = Gate>) -> Price {
    price_of(gates.map(|gate| (gate, 1)))
}

/// Computes the price of the gates of one request from the number of gates of each kind.
pub fn price_of(counts: impl Iterator<Item = (Gate, u64)>) -> Price {
    let (gates, bootstrap_ops) =
        counts.fold((0, 0), |(gates, ops), (gate, count)| (gates + count, ops + count * bootstrap_ops(gate)));
    let discounted = gates >= DISCOUNT_GATES_MIN;
    let each = if discounted { BOOTSTRAP_PRICE_DISCOUNTED } else { BOOTSTRAP_PRICE };
    // fits, because a request has at most a million gates of 4 bootstraps
    let times = i64::try_from(bootstrap_ops).expect("a request is bounded");
    Price { bootstrap_ops, cost: each * times, discounted }
}

/// Makes the public price list of all eight gates (readings P30).
pub fn pricing() -> Pricing {
    let rate = |gate: Gate| Rate { bootstrapping_ops: bootstrap_ops(gate), cost_jpy: price([gate].into_iter()).cost };
    Pricing {
        currency: "JPY".to_owned(),
        rates: Gate::ALL.into_iter().map(|gate| (gate.name().to_owned(), rate(gate))).collect::<BTreeMap<_, _>>(),
        batch_discount: BatchDiscount {
            threshold_ops: DISCOUNT_GATES_MIN,
            discount_pct: (100 - 100 * BOOTSTRAP_PRICE_DISCOUNTED.0 / BOOTSTRAP_PRICE.0) as u64,
            effective_rate_jpy: BOOTSTRAP_PRICE_DISCOUNTED,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_gates_cost_what_the_specification_lists() {
        for (gate, ops, milli_yen) in [
            (Gate::Nand, 1, 100),
            (Gate::And, 1, 100),
            (Gate::Or, 1, 100),
            (Gate::Nor, 1, 100),
            (Gate::Xor, 4, 400),
            (Gate::Xnor, 4, 400),
            (Gate::Not, 0, 0),
            (Gate::Mux, 3, 300),
        ] {
            let price = price([gate].into_iter());
            assert_eq!(price, Price { bootstrap_ops: ops, cost: MilliYen(milli_yen), discounted: false }, "{gate:?}");
        }
    }

    #[test]
    fn the_discount_starts_at_32_gates_and_counts_not_gates() {
        let almost = price([Gate::Xor; 31].into_iter());
        assert_eq!(almost, Price { bootstrap_ops: 124, cost: MilliYen(12_400), discounted: false });
        let nots = [vec![Gate::Nand], vec![Gate::Not; 31]].concat();
        assert_eq!(price(nots.into_iter()), Price { bootstrap_ops: 1, cost: MilliYen(70), discounted: true });
        let most = price([Gate::Xor; 1024].into_iter());
        assert_eq!(most, Price { bootstrap_ops: 4096, cost: MilliYen(286_720), discounted: true });
    }

    #[test]
    fn counted_gates_cost_what_they_cost_one_by_one() {
        let few = [(Gate::Xor, 2), (Gate::And, 1), (Gate::Not, 5)];
        let price = Price { bootstrap_ops: 9, cost: MilliYen(900), discounted: false };
        assert_eq!(price_of(few.into_iter()), price);
        let many = few.into_iter().chain([(Gate::Not, 24)]);
        assert_eq!(price_of(many), Price { cost: MilliYen(630), discounted: true, ..price });
        let largest = price_of([(Gate::Xor, 1 << 20)].into_iter());
        assert_eq!(largest.cost, MilliYen((4 * 70) << 20));
    }

    #[test]
    fn the_price_list_holds_all_eight_gates_and_the_discount() {
        let list = pricing();
        assert_eq!(list.rates.len(), 8);
        assert_eq!(list.batch_discount.discount_pct, 30);
        assert_eq!(list.batch_discount.effective_rate_jpy, MilliYen(70));
        assert_eq!(list.rates["XNOR"], Rate { bootstrapping_ops: 4, cost_jpy: MilliYen(400) });
    }
}
