//! Consumption tax of a document (enforcement order, article 70-10; general notices 1-8-5 and 1-8-15): amounts are
//! summed for each rate, and the tax is rounded once for each rate.

use std::collections::BTreeMap;

use crate::rounding::{Rounding, YEN_MAX};

/// A rate of consumption tax in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rate {
    /// 8 percent: food and newspapers (軽減税率).
    Reduced,
    /// 10 percent.
    Standard,
}

impl Rate {
    /// Both rates.
    pub const ALL: [Rate; 2] = [Rate::Reduced, Rate::Standard];

    /// The rate in percent: 8 or 10.
    pub fn percent(self) -> i64 {
        match self {
            Rate::Reduced => 8,
            Rate::Standard => 10,
        }
    }

    /// Finds the rate of `percent` percent; `None` unless `percent` is 8 or 10.
    pub fn of_percent(percent: i64) -> Option<Rate> {
        Rate::ALL.into_iter().find(|rate| rate.percent() == percent)
    }
}

/// Whether amounts include tax. The amounts in a sum all have the same basis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// 税抜.
    #[default]
    Exclusive,
    /// 税込.
    Inclusive,
}

/// Totals of a document's lines with one rate, in yen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateTotal {
    /// Without tax.
    pub net: i64,
    /// The tax.
    pub tax: i64,
    /// With tax.
    pub gross: i64,
}

/// Totals of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Totals by rate, for the rates that lines have.
    pub by_rate: BTreeMap<Rate, RateTotal>,
    /// Totals over all rates.
    pub total: RateTotal,
}

/// Computes the totals of lines. Each line is a rate and an amount in whole yen. `None`: a sum is larger than
/// [`YEN_MAX`].
pub fn totals(lines: &[(Rate, i64)], basis: Basis, rounding: Rounding) -> Option<Totals> {
    let mut sums: BTreeMap<Rate, i64> = BTreeMap::new();
    for (rate, amount) in lines {
        let sum = sums.entry(*rate).or_default();
        *sum = sum.checked_add(*amount).filter(|sum| sum.abs() <= YEN_MAX)?;
    }
    let by_rate: BTreeMap<Rate, RateTotal> =
        sums.into_iter().map(|(rate, sum)| (rate, of_sum(sum, rate, basis, rounding))).collect();
    let mut total = RateTotal::default();
    for of_rate in by_rate.values() {
        total.net += of_rate.net;
        total.tax += of_rate.tax;
        total.gross += of_rate.gross;
    }
    Some(Totals { by_rate, total })
}

/// Computes net, tax and gross of a sum of amounts with one rate.
pub fn of_sum(sum: i64, rate: Rate, basis: Basis, rounding: Rounding) -> RateTotal {
    match basis {
        Basis::Exclusive => {
            let tax = rounding.part(sum, rate.percent(), 100);
            RateTotal { net: sum, tax, gross: sum + tax }
        }
        Basis::Inclusive => {
            let tax = rounding.part(sum, rate.percent(), 100 + rate.percent());
            RateTotal { net: sum - tax, tax, gross: sum }
        }
    }
}

/// Divides a discount among sums of several rates, in whole yen and in proportion to the sums (general notice 1-8-5).
/// The shares add up to the discount by the largest remainder method; if remainders are equal, the first share gets the
/// yen. `None`: a value is negative, or all sums are 0 and the discount is not 0.
pub fn apportion(discount: i64, sums: &[i64]) -> Option<Vec<i64>> {
    if discount < 0 || sums.iter().any(|sum| *sum < 0) {
        return None;
    }
    let whole: i128 = sums.iter().map(|sum| i128::from(*sum)).sum();
    if whole == 0 {
        return (discount == 0).then(|| vec![0; sums.len()]);
    }
    let product = |sum: i64| i128::from(discount) * i128::from(sum);
    let mut shares: Vec<i64> =
        sums.iter().map(|sum| i64::try_from(product(*sum) / whole).expect("a part of the discount")).collect();
    let mut order: Vec<usize> = (0..sums.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(product(sums[*at]) % whole));
    let left = discount - shares.iter().sum::<i64>();
    for at in order.into_iter().take(usize::try_from(left).expect("fewer than there are sums")) {
        shares[at] += 1;
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use Basis::{Exclusive, Inclusive};
    use proptest::prelude::*;

    use super::*;

    fn taxes(sum: i64, percent: i64, basis: Basis) -> [i64; 3] {
        let rate = Rate::of_percent(percent).unwrap();
        Rounding::ALL.map(|rounding| of_sum(sum, rate, basis, rounding).tax)
    }

    #[test]
    fn tax_on_an_exclusive_sum_is_that_of_the_fact_sheet() {
        for (sum, percent, expected) in [
            (10_000, 10, [1_000, 1_000, 1_000]),
            (999, 10, [99, 100, 100]),
            (2_010, 10, [201, 201, 201]),
            (33_333, 10, [3_333, 3_333, 3_334]),
            (1_111, 8, [88, 89, 89]),
            (660, 8, [52, 53, 53]),
            (744, 10, [74, 74, 75]),
        ] {
            assert_eq!(taxes(sum, percent, Exclusive), expected, "{sum}");
        }
    }

    #[test]
    fn tax_within_an_inclusive_sum_is_that_of_the_fact_sheet() {
        for (gross, percent, expected, net) in [
            (1_100, 10, [100, 100, 100], 1_000),
            (1_000, 10, [90, 91, 91], 910),
            (3_000, 10, [272, 273, 273], 2_728),
            (5_000, 10, [454, 455, 455], 4_546),
            (6_000, 10, [545, 545, 546], 5_455),
            (980, 8, [72, 73, 73], 908),
            (1_080, 8, [80, 80, 80], 1_000),
            (999, 8, [74, 74, 74], 925),
            (7_398, 8, [548, 548, 548], 6_850),
            (10, 10, [0, 1, 1], 10),
            (11, 10, [1, 1, 1], 10),
        ] {
            assert_eq!(taxes(gross, percent, Inclusive), expected, "{gross}");
            let floored = of_sum(gross, Rate::of_percent(percent).unwrap(), Inclusive, Rounding::Floor);
            assert_eq!((floored.net, floored.gross), (net, gross));
        }
    }

    #[test]
    fn tax_is_rounded_once_for_each_rate_of_a_document() {
        use Rate::{Reduced, Standard};
        let twice = totals(&[(Standard, 1_005), (Standard, 1_005)], Exclusive, Rounding::Floor).unwrap();
        assert_eq!(twice.total.tax, 201);
        let thrice = totals(&[(Standard, 1_000); 3], Inclusive, Rounding::Floor).unwrap();
        assert_eq!(thrice.total, RateTotal { net: 2_728, tax: 272, gross: 3_000 });
        let lines = [(Reduced, 114 * 4), (Reduced, 102 * 2), (Standard, 222 * 2), (Standard, 300)];
        let mixed = totals(&lines, Exclusive, Rounding::Floor).unwrap();
        assert_eq!(mixed.by_rate[&Reduced], RateTotal { net: 660, tax: 52, gross: 712 });
        assert_eq!(mixed.by_rate[&Standard], RateTotal { net: 744, tax: 74, gross: 818 });
        assert_eq!(mixed.total.gross, 1_530);
    }

    #[test]
    fn what_is_returned_cancels_what_was_sold() {
        assert_eq!(taxes(-1_000, 10, Inclusive), [-90, -91, -91]);
        assert_eq!(taxes(-999, 10, Exclusive), [-99, -100, -100]);
        // B29: a refund is a negative line of the same rate
        let refunded = totals(&[(Rate::Standard, 11_000), (Rate::Standard, -3_300)], Inclusive, Rounding::Floor);
        assert_eq!(refunded.unwrap().total, RateTotal { net: 7_000, tax: 700, gross: 7_700 });
    }

    #[test]
    fn a_discount_over_two_rates_is_shared_by_value() {
        let shares = apportion(92, &[1_595, 7_398]).unwrap();
        assert_eq!(shares, [16, 76]);
        let lines = [(Rate::Standard, 1_595 - shares[0]), (Rate::Reduced, 7_398 - shares[1])];
        let after = totals(&lines, Inclusive, Rounding::Floor).unwrap();
        assert_eq!((after.by_rate[&Rate::Standard].tax, after.by_rate[&Rate::Reduced].tax), (143, 542));
        assert_eq!(after.total.gross, 8_901);
        assert_eq!(apportion(1, &[5, 5]), Some(vec![1, 0]));
        assert_eq!((apportion(5, &[0, 0]), apportion(0, &[0, 0])), (None, Some(vec![0, 0])));
        assert_eq!((apportion(-1, &[5]), apportion(1, &[-5, 10])), (None, None));
    }

    #[test]
    fn sums_that_are_too_large_are_refused() {
        assert_eq!(totals(&[(Rate::Standard, YEN_MAX), (Rate::Standard, 1)], Exclusive, Rounding::Floor), None);
        assert_eq!(totals(&[(Rate::Standard, i64::MAX), (Rate::Standard, 1)], Exclusive, Rounding::Floor), None);
        assert!(totals(&[], Exclusive, Rounding::Floor).unwrap().by_rate.is_empty());
        assert_eq!(Rate::of_percent(0), None);
    }

    proptest! {
        #[test]
        fn net_and_tax_are_the_gross_and_shares_the_discount(
            lines in proptest::collection::vec((0usize..2, -1_000_000_000i64..1_000_000_000), 0..20),
            discount in 0i64..1_000_000_000,
        ) {
            let lines: Vec<(Rate, i64)> = lines.into_iter().map(|(rate, amount)| (Rate::ALL[rate], amount)).collect();
            for basis in [Exclusive, Inclusive] {
                for rounding in Rounding::ALL {
                    let found = totals(&lines, basis, rounding).unwrap();
                    for one in found.by_rate.values().chain([&found.total]) {
                        prop_assert_eq!(one.net + one.tax, one.gross);
                    }
                }
            }
            let sums: Vec<i64> = lines.iter().map(|(_, amount)| amount.abs()).collect();
            if let Some(shares) = apportion(discount, &sums) {
                prop_assert_eq!(shares.iter().sum::<i64>(), discount);
                let whole: i128 = sums.iter().map(|sum| i128::from(*sum)).sum();
                for (share, sum) in shares.iter().zip(&sums) {
                    // each share differs from the exact share by less than one yen
                    let off = i128::from(*share) * whole - i128::from(discount) * i128::from(*sum);
                    prop_assert!(off.abs() < whole.max(1));
                }
            }
        }
    }
}
