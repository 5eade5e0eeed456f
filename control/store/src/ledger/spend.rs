//! An account's spending, compared exactly with a cap (readings P8, P9).

use num_bigint::BigUint;

/// Number of billionths of a dollar in one dollar.
const NANO: i128 = 1_000_000_000;
/// Number of billionths of a dollar in one cent.
const NANO_OF_CENT: i64 = 10_000_000;

/// A sum of money in dollars and yen. Each yen amount has the exchange rate of its time. The sum is not rounded. For
/// example, 15 gates of 0.1 yen at 150 yen for a dollar are exactly 0.01 dollars, although the price of one gate is not
/// a whole number of billionths of a dollar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    nano_usd: i128,
    /// Amounts in thousandths of a yen, each with its rate in thousandths of a yen for a dollar. No rate is 0.
    yen: Vec<(i128, i128)>,
}

impl Spend {
    /// Adds a dollar amount and a yen amount, neither of which is negative. If the yen amount is not 0, the rate is not
    /// 0 either.
    pub fn add(&mut self, nano_usd: i64, milli_yen: i64, usd_milli_jpy: i64) {
        self.nano_usd += i128::from(nano_usd);
        if milli_yen > 0 && usd_milli_jpy > 0 {
            let (milli_yen, rate) = (i128::from(milli_yen), i128::from(usd_milli_jpy));
            match self.yen.iter_mut().find(|(_, of)| *of == rate) {
                Some((sum, _)) => *sum += milli_yen,
                None => self.yen.push((milli_yen, rate)),
            }
        }
    }

    /// Returns whether the sum is at most this many billionths of a dollar.
    pub fn is_at_most(&self, cap_nano_usd: i64) -> bool {
        let whole: i128 = self.yen.iter().map(|(milli_yen, rate)| milli_yen * NANO / rate).sum();
        let left = i128::from(cap_nano_usd) - self.nano_usd - whole;
        // every fraction is below 1, so the sum of the fractions is below their number
        let fractions: Vec<(u128, u128)> = self
            .yen
            .iter()
            .map(|(milli_yen, rate)| ((milli_yen * NANO % rate).unsigned_abs(), rate.unsigned_abs()))
            .filter(|(numerator, _)| *numerator > 0)
            .collect();
        match left {
            ..0 => false,
            left if left >= fractions.len() as i128 => true,
            left => {
                let product = |without: usize| -> BigUint {
                    let others = fractions.iter().enumerate().filter(|(at, _)| *at != without);
                    others.map(|(_, (_, rate))| BigUint::from(*rate)).product()
                };
                let sum: BigUint =
                    fractions.iter().enumerate().map(|(at, (numerator, _))| product(at) * *numerator).sum();
                sum <= product(usize::MAX) * left.unsigned_abs()
            }
        }
    }

    /// Returns the sum in US cents, rounded to the nearest cent; half a cent is rounded up. For billing.
    pub fn cents(&self) -> i64 {
        (self.nano_usd() + NANO_OF_CENT / 2).div_euclid(NANO_OF_CENT)
    }

    /// Returns the sum in billionths of a dollar, rounded to the nearest billionth. For display.
    pub fn nano_usd(&self) -> i64 {
        let whole: i128 = self.yen.iter().map(|(milli_yen, rate)| milli_yen * NANO / rate).sum();
        let fraction = |&(milli_yen, rate): &(i128, i128)| (milli_yen * NANO % rate) as f64 / rate as f64;
        let fractions: f64 = self.yen.iter().map(fraction).sum();
        i64::try_from(self.nano_usd + whole + fractions.round() as i128).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(nano_usd: i64, yen: &[(i64, i64)]) -> Spend {
        let mut spend = Spend::default();
        spend.add(nano_usd, 0, 0);
        yen.iter().for_each(|&(milli_yen, rate)| spend.add(0, milli_yen, rate));
        spend
    }

    #[test]
    fn p8_the_fifteenth_gate_of_a_tenth_of_a_yen_fits_under_a_cent() {
        assert!(spend(0, &[(100, 150_000); 15]).is_at_most(10_000_000));
        assert!(!spend(0, &[(100, 150_000); 16]).is_at_most(10_000_000));
        assert!(!spend(1, &[(100, 150_000); 15]).is_at_most(10_000_000));
        assert_eq!(spend(0, &[(100, 150_000); 15]).nano_usd(), 10_000_000);
    }

    #[test]
    fn p8_fractions_at_several_rates_are_compared_exactly() {
        // at rates of 3, 7 and 21 billion milli-yen for a dollar, these milli-yen are 1/3, 1/7 and 11/21 of a billionth of
        // a dollar, which add up to one billionth
        let (third, seventh, rest) = ((1, 3_000_000_000), (1, 7_000_000_000), (11, 21_000_000_000));
        let whole = spend(5, &[third, seventh, rest]);
        assert!(whole.is_at_most(6) && !whole.is_at_most(5));
        assert_eq!(whole.nano_usd(), 6);
        let more = spend(5, &[third, seventh, rest, (1, 99_999_999_999)]);
        assert!(!more.is_at_most(6) && more.is_at_most(7));
        assert!(spend(0, &[]).is_at_most(0));
        assert!(!spend(i64::MAX, &[(i64::MAX, 1000)]).is_at_most(i64::MAX));
    }

    #[test]
    fn p1_p9_what_was_spent_is_billed_to_the_nearest_cent() {
        let spent = [0, 4_999_999, 5_000_000, 9_999_999, 10_000_000, 14_999_999, 15_000_000];
        assert_eq!(spent.map(|nano_usd| spend(nano_usd, &[]).cents()), [0, 0, 1, 1, 1, 1, 2]);
        // 350 yen at 150 yen a dollar are 2.333 dollars
        assert_eq!(spend(0, &[(350_000, 150_000)]).cents(), 233);
    }

    #[test]
    fn p8_thirty_rates_of_a_month_are_compared_exactly() {
        // a thousandth of a yen at n yen for a dollar is 1/(1000 n) dollars
        let yen: Vec<(i64, i64)> = (1..=30).map(|n| (1, 1000 * n)).collect();
        let sum = spend(0, &yen);
        // so the exact sum in billionths of a dollar is 10^6 times the 30th harmonic number, which is 3.994987130920...
        assert!(sum.is_at_most(3_994_988) && !sum.is_at_most(3_994_987));
    }
}
