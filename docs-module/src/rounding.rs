//! Rounding of fractions of a yen. The issuer chooses the direction (consumption tax act, general notice 1-8-15).

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

/// The largest accepted amount, in yen: 10^15.
pub const YEN_MAX: i64 = 1_000_000_000_000_000;

/// A direction of rounding. Negative amounts are rounded like their absolute values, so that a document and its return
/// cancel each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// 切捨て: towards zero.
    #[default]
    Floor,
    /// 四捨五入: to the nearest; a half away from zero.
    Round,
    /// 切上げ: away from zero.
    Ceil,
}

impl Rounding {
    /// All directions.
    pub const ALL: [Rounding; 3] = [Rounding::Floor, Rounding::Round, Rounding::Ceil];
    /// Values of `rounding` (B22). `half_up` is a synonym of `round`.
    pub const NAMES: [&str; 4] = ["floor", "round", "ceil", "half_up"];

    /// Finds the direction that a value of `rounding` names.
    pub fn of_name(name: &str) -> Option<Rounding> {
        Some(match name {
            "floor" => Rounding::Floor,
            "round" | "half_up" => Rounding::Round,
            "ceil" => Rounding::Ceil,
            _ => return None,
        })
    }

    /// Computes `amount * numerator / denominator` in whole yen, rounded once. The amount is at most [`YEN_MAX`] in
    /// absolute value, and the fraction at most 1.
    pub fn part(self, amount: i64, numerator: i64, denominator: i64) -> i64 {
        debug_assert!(amount.abs() <= YEN_MAX && (0..=denominator).contains(&numerator) && denominator > 0);
        let (product, denominator) = (i128::from(amount.abs()) * i128::from(numerator), i128::from(denominator));
        let whole = match self {
            Rounding::Floor => product / denominator,
            Rounding::Round => (2 * product + denominator) / (2 * denominator),
            Rounding::Ceil => (product + denominator - 1) / denominator,
        };
        i64::try_from(whole).expect("a part of an amount that fits") * amount.signum()
    }

    /// Multiplies a price by a quantity, and rounds to whole yen. `None`: the product is more than [`YEN_MAX`] in
    /// absolute value.
    pub fn product(self, price: Decimal, quantity: Decimal) -> Option<i64> {
        use rust_decimal::RoundingStrategy::{AwayFromZero, MidpointAwayFromZero, ToZero};
        let exact = price.checked_mul(quantity)?;
        let strategy = match self {
            Rounding::Floor => ToZero,
            Rounding::Round => MidpointAwayFromZero,
            Rounding::Ceil => AwayFromZero,
        };
        exact.round_dp_with_strategy(0, strategy).to_i64().filter(|yen| yen.abs() <= YEN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_product_is_rounded_in_each_direction_and_symmetrically() {
        let decimal = |text: &str| text.parse::<Decimal>().unwrap();
        for (price, quantity, rounded) in [
            ("114", "4", [456; 3]),
            ("0.1", "5", [0, 1, 1]),
            ("33.3", "1.5", [49, 50, 50]),
            ("-0.1", "5", [0, -1, -1]),
            ("1000000000000000", "1", [YEN_MAX; 3]),
        ] {
            let products = Rounding::ALL.map(|rounding| rounding.product(decimal(price), decimal(quantity)));
            assert_eq!(products, rounded.map(Some), "{price} x {quantity}");
        }
        assert_eq!(Rounding::Floor.product(decimal("1000000000000001"), Decimal::ONE), None);
        assert_eq!(Rounding::Floor.product(Decimal::MAX, Decimal::MAX), None);
    }

    #[test]
    fn b22_each_name_means_a_direction() {
        let found = Rounding::NAMES.map(Rounding::of_name);
        assert_eq!(found, [Rounding::Floor, Rounding::Round, Rounding::Ceil, Rounding::Round].map(Some));
        assert_eq!(Rounding::of_name("bankers"), None);
    }

    proptest! {
        #[test]
        fn directions_bracket_the_exact_part(amount in -YEN_MAX..=YEN_MAX, numerator in 0i64..=10_000) {
            let [floor, round, ceil] = Rounding::ALL.map(|rounding| rounding.part(amount, numerator, 10_000));
            let exact = i128::from(amount) * i128::from(numerator);
            prop_assert!(floor.abs() <= round.abs() && round.abs() <= ceil.abs() && ceil.abs() - floor.abs() <= 1);
            prop_assert!(i128::from(floor.abs()) * 10_000 <= exact.abs());
            prop_assert!(i128::from(ceil.abs()) * 10_000 >= exact.abs());
            prop_assert!((i128::from(round) * 10_000 - exact).abs() * 2 <= 10_000);
            for rounding in Rounding::ALL {
                prop_assert_eq!(rounding.part(-amount, numerator, 10_000), -rounding.part(amount, numerator, 10_000));
            }
        }
    }
}
