//! Income tax that is withheld from remuneration of individuals (income tax act, articles 204 and 205; enforcement
//! order, articles 320 and 322; reconstruction surtax act, article 31). The rate includes the surtax, and the tax is
//! truncated once.

mod names;

pub use names::{Remuneration, WORD_MAX};

/// Category of remuneration. The category determines the formula and how payments are pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// 原稿料等: manuscripts, lectures, designs, translations (clause 1).
    Manuscript,
    /// 弁護士等: lawyers, accountants, architects (clause 2).
    Professional,
    /// 司法書士等: judicial scriveners, surveyors of land and houses (clause 2).
    Scrivener,
    /// 診療報酬 of the social insurance fund (clause 3).
    Medical,
    /// プロスポーツ選手等 (clause 4).
    Athlete,
    /// プロボクサー (clause 4).
    Boxer,
    /// 外交員等: salespeople, collectors, meter readers (clause 4).
    Salesperson,
    /// 芸能等: appearances, direction (clause 5).
    Performance,
    /// ホステス等 (clause 6).
    Hostess,
    /// 契約金 (clause 7).
    ContractFee,
    /// 広告宣伝賞金 (clause 8).
    Prize,
    /// 競馬賞金 (clause 8).
    HorseRacePrize,
    /// 対象外: no tax is withheld, and the payment is not recorded.
    Outside,
}

/// How payments are pooled before the formula is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Each payment is a pool.
    Payment,
    /// The payments of a calendar month are a pool.
    Month,
}

/// Values that some formulas need besides the amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// Calendar days of the period that the payment covers ([`Category::Hostess`]): all days, not only days worked. 0
    /// counts as 1.
    pub days: u32,
    /// Salary of the same month or period in yen ([`Category::Salesperson`], [`Category::Hostess`]).
    pub salary: i64,
}

/// The surtaxes on income tax from a year on. Income tax of 10 % with a surtax of 2.1 % of it is 10.21 % of the amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RateOfYears {
    from_year: i32,
    /// Surtaxes in thousandths of the income tax, one for each law.
    surtaxes: &'static [i64],
}

/// The surtaxes by year of payment. Before 2013 there was no surtax, and payments of those years are refused. From 2027
/// the reconstruction surtax is 1.1 %, and the special income tax for defence 1 % (tax reform of 2026).
const RATES: [RateOfYears; 2] =
    [RateOfYears { from_year: 2013, surtaxes: &[21] }, RateOfYears { from_year: 2027, surtaxes: &[11, 10] }];
/// The part of a payment above this many yen is taxed at twice the rate.
const TIER: i64 = 1_000_000;
/// Denominator of rates.
const WHOLE: i128 = 100_000;

impl Category {
    /// How payments of the category are pooled.
    pub fn pool(self) -> Pool {
        match self {
            Category::Medical | Category::Salesperson => Pool::Month,
            _ => Pool::Payment,
        }
    }

    /// The clause of article 204 that covers the category, 1 to 8, which is also the row of the summary table. `None`:
    /// no clause covers the category.
    pub fn clause(self) -> Option<usize> {
        Some(match self {
            Category::Manuscript => 1,
            Category::Professional | Category::Scrivener => 2,
            Category::Medical => 3,
            Category::Athlete | Category::Boxer | Category::Salesperson => 4,
            Category::Performance => 5,
            Category::Hostess => 6,
            Category::ContractFee => 7,
            Category::Prize | Category::HorseRacePrize => 8,
            Category::Outside => return None,
        })
    }

    /// Whether tax is withheld from corporations too: only from prizes of owners of race horses (article 174, number
    /// 10).
    pub fn is_withheld_from_corporations(self) -> bool {
        self == Category::HorseRacePrize
    }

    /// Deduction in yen before the flat rate applies; `None`: the formula has two tiers instead.
    fn deduction(self, amount: i64, given: Circumstances) -> Option<i64> {
        Some(match self {
            Category::Manuscript
            | Category::Professional
            | Category::Athlete
            | Category::Performance
            | Category::ContractFee => return None,
            Category::Scrivener => 10_000,
            Category::Medical => 200_000,
            Category::Boxer => 50_000,
            Category::Salesperson => (120_000 - given.salary.max(0)).max(0),
            Category::Hostess => (5_000 * i64::from(given.days.max(1)) - given.salary.max(0)).max(0),
            Category::Prize => 500_000,
            // 600,000 yen plus a fifth of the prize
            Category::HorseRacePrize => 600_000 + amount / 5,
            Category::Outside => amount,
        })
    }
}

/// Computes the income tax to withhold, in yen, on an amount that is pooled by [`Category::pool`]. `year`: the year of
/// payment. `None`: the amount is negative, or the year is before 2013.
pub fn tax(category: Category, amount: i64, given: Circumstances, year: i32) -> Option<i64> {
    let rate = rate_of(year).filter(|_| amount >= 0)?;
    let taxed = match category.deduction(amount, given) {
        None => i128::from(amount) + i128::from((amount - TIER).max(0)),
        Some(deduction) => i128::from((amount - deduction).max(0)),
    };
    i64::try_from(taxed * rate / WHOLE).ok()
}

/// Computes the gross amount in yen for an agreed net amount, for categories with two tiers: gross minus [`tax`] is the
/// net. If two gross amounts give the same net, the larger is returned. `None`: no gross amount gives this net, or the
/// year is before 2013.
pub fn gross_up(net: i64, year: i32) -> Option<i64> {
    let rate = rate_of(year).filter(|_| (0..=i64::MAX / 4).contains(&net))?;
    let left = |gross: i64| tax(Category::Manuscript, gross, Circumstances::default(), year).map(|tax| gross - tax);
    let at_tier = left(TIER)?;
    let whole = |net: i128, part: i128| net * WHOLE / (WHOLE - part);
    let guess = if net <= at_tier {
        whole(i128::from(net), rate)
    } else {
        i128::from(TIER) + whole(i128::from(net - at_tier), 2 * rate)
    };
    let guess = i64::try_from(guess).ok()?;
    (guess - 2..=guess + 2).rev().find(|gross| *gross >= 0 && left(*gross) == Some(net))
}

/// The rate of income tax (10 percent) with its surtaxes in a year, in parts of [`WHOLE`].
fn rate_of(year: i32) -> Option<i128> {
    let of_year = RATES.iter().rev().find(|rate| rate.from_year <= year)?;
    let surtaxes: i64 = of_year.surtaxes.iter().sum();
    Some(i128::from(10 * (1000 + surtaxes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(category: Category, amount: i64) -> i64 {
        tax(category, amount, Circumstances::default(), 2025).unwrap()
    }

    #[test]
    fn two_tiers_are_those_of_the_fact_sheet() {
        for (amount, expected) in [
            (0, 0),
            (9_999, 1_020),
            (12_345, 1_260),
            (33_333, 3_403),
            (100_000, 10_210),
            (333_333, 34_033),
            (999_999, 102_099),
            (1_000_000, 102_100),
            (1_000_001, 102_100),
            (1_000_005, 102_101),
            (1_500_000, 204_200),
            (3_000_000, 510_500),
        ] {
            for category in [
                Category::Manuscript,
                Category::Professional,
                Category::Athlete,
                Category::Performance,
                Category::ContractFee,
            ] {
                assert_eq!(of(category, amount), expected, "{amount}");
            }
        }
        // two payments are taxed separately, so each has its own first tier
        assert_eq!(2 * of(Category::Manuscript, 800_000), 163_360);
        assert_eq!(of(Category::Manuscript, 1_600_000), 224_620);
    }

    #[test]
    fn flat_rates_are_those_of_the_fact_sheet() {
        for (category, amount, expected) in [
            (Category::Scrivener, 10_000, 0),
            (Category::Scrivener, 10_001, 0),
            (Category::Scrivener, 10_098, 10),
            (Category::Scrivener, 50_000, 4_084),
            (Category::Scrivener, 1_500_000, 152_129),
            (Category::Salesperson, 120_000, 0),
            (Category::Salesperson, 200_000, 8_168),
            (Category::Salesperson, 300_000, 18_378),
            (Category::Boxer, 200_000, 15_315),
            (Category::Prize, 500_000, 0),
            (Category::Prize, 600_000, 10_210),
            (Category::Prize, 2_000_000, 153_150),
            (Category::HorseRacePrize, 750_000, 0),
            (Category::HorseRacePrize, 1_000_000, 20_420),
            (Category::HorseRacePrize, 10_000_000, 755_540),
            (Category::Outside, 10_000_000, 0),
        ] {
            assert_eq!(of(category, amount), expected, "{category:?} {amount}");
        }
        let salesperson = |salary| tax(Category::Salesperson, 200_000, Circumstances { salary, days: 0 }, 2025);
        assert_eq!((salesperson(50_000), salesperson(300_000)), (Some(13_273), Some(20_420)));
        let hostess = |amount, days| tax(Category::Hostess, amount, Circumstances { days, salary: 0 }, 2025);
        assert_eq!((hostess(300_000, 31), hostess(75_000, 15)), (Some(14_804), Some(0)));
        assert_eq!((Category::Salesperson.pool(), Category::Scrivener.pool()), (Pool::Month, Pool::Payment));
    }

    #[test]
    fn the_rate_stays_when_its_surtaxes_change_and_there_is_none_before_2013() {
        let at = |year| tax(Category::Manuscript, 33_333, Circumstances::default(), year);
        assert_eq!([2012, 2013, 2026, 2027, 2040].map(at), [None, Some(3_403), Some(3_403), Some(3_403), Some(3_403)]);
        assert_eq!(tax(Category::Manuscript, -1, Circumstances::default(), 2025), None);
    }

    #[test]
    fn a_net_amount_is_grossed_up() {
        for (net, gross) in
            [(100_000, 111_370), (300_000, 334_112), (1_000_000, 1_128_298), (897_900, 1_000_000), (89_790, 100_000)]
        {
            assert_eq!(gross_up(net, 2025), Some(gross), "{net}");
        }
        assert_eq!((gross_up(-1, 2025), gross_up(100, 2012), gross_up(i64::MAX, 2025)), (None, None, None));
    }

    proptest! {
        #[test]
        fn what_is_grossed_up_leaves_the_net_amount(gross in 0i64..100_000_000_000) {
            let net = gross - of(Category::Manuscript, gross);
            let found = gross_up(net, 2025).unwrap();
            prop_assert_eq!(found - of(Category::Manuscript, found), net);
            prop_assert!(found >= gross);
        }
    }
}
