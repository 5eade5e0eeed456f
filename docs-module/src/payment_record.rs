//! Payment records (支払調書, form 309) of a year, and section 3 of their summary table (income tax act, article 225;
//! enforcement regulations, article 84): what was paid to whom, what was withheld, and what must be filed.

pub mod etax;
pub mod pages;
pub mod transfers;
pub mod yearly;

use std::collections::BTreeMap;

use time::Date;

use crate::tax::withholding::{Category, Circumstances, Pool, tax};

/// Remuneration of a payee is filed if it exceeds this many yen in a year. The first limit is the usual one; the second
/// is for the filing groups with a deduction ([`filing_group`]).
const FILED_ABOVE: i64 = 50_000;
const FILED_ABOVE_OF_DEDUCTED: i64 = 500_000;
/// If a single prize of a race horse's owner exceeds this many yen, all the owner's prizes of the year are filed.
const HORSE_PRIZE_FILED_ABOVE: i64 = 750_000;
/// Number of clauses of article 204.
const CLAUSES: usize = 8;

/// A payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Index of the payee.
    pub payee: usize,
    /// Category of the remuneration.
    pub category: Category,
    /// Amount in yen on which tax is withheld, at least 0. Consumption tax is not included if it is stated separately.
    pub amount: i64,
    /// Consumption tax that is stated separately, in yen.
    pub consumption_tax: i64,
    /// Date of payment in Tokyo; `None`: some day of the requested year.
    pub paid_on: Option<Date>,
    /// Whether the payment became payable (支払の確定) in the year but is not paid yet.
    pub is_unpaid: bool,
    /// Values that some formulas need besides the amount.
    pub circumstances: Circumstances,
}

/// Totals of a payee's payments of a category in a year, in yen. `payment` includes `unpaid`, and `tax` includes
/// `uncollected_tax`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// 支払金額.
    pub payment: i64,
    /// 未払金額.
    pub unpaid: i64,
    /// 源泉徴収税額.
    pub tax: i64,
    /// 未徴収税額.
    pub uncollected_tax: i64,
    /// Consumption tax that is stated separately.
    pub consumption_tax: i64,
    /// Number of payments.
    pub count: usize,
}

/// The row of a payee and a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the payee.
    pub payee: usize,
    /// The category.
    pub category: Category,
    /// The totals.
    pub totals: Totals,
    /// Whether the row must be filed.
    pub is_filed: bool,
}

/// A row of the summary table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SummaryRow {
    /// Number of payees who are individuals, each counted once.
    pub individuals: usize,
    /// Number of other payees, each counted once.
    pub others: usize,
    /// Payments in yen.
    pub payment: i64,
    /// Tax withheld, in yen.
    pub tax: i64,
}

/// Section 3 of the summary table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// A row for each clause of article 204, clause 1 first.
    pub clauses: [SummaryRow; CLAUSES],
    /// Ⓐ: all rows, including those that need not be filed.
    pub all: SummaryRow,
    /// Ⓑ: the rows of Ⓐ that must be filed.
    pub filed: SummaryRow,
    /// Ⓒ: the rows of Ⓐ with prizes of domestic corporations that own race horses.
    pub corporate_prizes: SummaryRow,
}

/// The records of a year.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The rows, sorted by payee, then by category.
    pub rows: Vec<Row>,
    /// Indices of payments that are left out, because they are of another year, or because no clause of article 204
    /// covers their category.
    pub excluded: Vec<usize>,
    /// The summary table.
    pub summary: Summary,
}

/// Computes the records of a year. `is_individual`: for each payee, whether the payee is an individual. `None`: a
/// payment is negative or refers to no payee, a sum is too large, or the year is before 2013.
pub fn records(is_individual: &[bool], payments: &[Payment], year: i32) -> Option<Records> {
    // a year without rates is refused, even if no tax would be withheld
    tax(Category::Manuscript, 0, Circumstances::default(), year)?;
    let mut records = Records::default();
    let mut of_rows: BTreeMap<(usize, Category), Vec<&Payment>> = BTreeMap::new();
    for (at, payment) in payments.iter().enumerate() {
        if payment.amount < 0 || payment.consumption_tax < 0 || payment.payee >= is_individual.len() {
            return None;
        }
        if payment.category.clause().is_none() || !is_of_year(payment, year) {
            records.excluded.push(at);
            continue;
        }
        of_rows.entry((payment.payee, payment.category)).or_default().push(payment);
    }
    for ((payee, category), payments) in &of_rows {
        let withholds = is_individual[*payee] || category.is_withheld_from_corporations();
        let totals = totals(*category, payments, withholds, year)?;
        records.rows.push(Row { payee: *payee, category: *category, totals, is_filed: false });
    }
    mark_filed(&mut records.rows, &of_rows)?;
    records.summary = summary(is_individual, &records.rows)?;
    Some(records)
}

fn is_of_year(payment: &Payment, year: i32) -> bool {
    match payment.paid_on {
        None => true,
        // an unpaid payment became payable (支払の確定) in this year; the date of payment, if known, is in this year or
        // later
        Some(date) if payment.is_unpaid => date.year() >= year,
        Some(date) => date.year() == year,
    }
}

/// Computes the totals of a payee's payments of a category. The tax of each pool is truncated separately.
fn totals(category: Category, payments: &[&Payment], withholds: bool, year: i32) -> Option<Totals> {
    let mut pools: BTreeMap<usize, Vec<&Payment>> = BTreeMap::new();
    for (at, payment) in payments.iter().enumerate() {
        let pool = match category.pool() {
            Pool::Payment => at,
            // one pool for each month, and one for payments without a date
            Pool::Month => payment.paid_on.map_or(0, |date| usize::from(u8::from(date.month()))),
        };
        pools.entry(pool).or_default().push(payment);
    }
    let mut totals = Totals { count: payments.len(), ..Totals::default() };
    for pool in pools.values() {
        let (mut all, mut paid, mut given) = (0i64, 0i64, Circumstances::default());
        for payment in pool {
            all = all.checked_add(payment.amount)?;
            totals.consumption_tax = totals.consumption_tax.checked_add(payment.consumption_tax)?;
            if !payment.is_unpaid {
                paid += payment.amount;
            }
            given.days = given.days.max(payment.circumstances.days);
            given.salary = given.salary.max(payment.circumstances.salary);
        }
        totals.payment = totals.payment.checked_add(all)?;
        totals.unpaid += all - paid;
        if withholds {
            let (of_all, of_paid) = (tax(category, all, given, year)?, tax(category, paid, given, year)?);
            totals.tax += of_all;
            totals.uncollected_tax += of_all - of_paid;
        }
    }
    Some(totals)
}

/// Returns the filing group of a category. The sum over a group decides whether the group's rows are filed.
fn filing_group(category: Category) -> usize {
    match category {
        Category::Salesperson | Category::Boxer => 1,
        Category::Hostess => 2,
        Category::Prize => 3,
        Category::Medical => 4,
        Category::HorseRacePrize => 5,
        _ => 0,
    }
}

fn mark_filed(rows: &mut [Row], payments: &BTreeMap<(usize, Category), Vec<&Payment>>) -> Option<()> {
    let mut sums: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    for row in rows.iter() {
        let sum = sums.entry((row.payee, filing_group(row.category))).or_default();
        *sum = sum.checked_add(row.totals.payment)?;
    }
    for row in rows {
        let group = filing_group(row.category);
        let sum = sums[&(row.payee, group)];
        row.is_filed = match row.category {
            Category::HorseRacePrize => {
                payments[&(row.payee, row.category)].iter().any(|one| one.amount > HORSE_PRIZE_FILED_ABOVE)
            }
            // strictly above
            _ if group == 0 => sum > FILED_ABOVE,
            _ => sum > FILED_ABOVE_OF_DEDUCTED,
        };
    }
    Some(())
}

fn summary(is_individual: &[bool], rows: &[Row]) -> Option<Summary> {
    let of = |wanted: &dyn Fn(&Row) -> bool| -> Option<SummaryRow> {
        let (mut sum, mut payees) = (SummaryRow::default(), Vec::new());
        for row in rows.iter().filter(|row| wanted(row)) {
            sum.payment = sum.payment.checked_add(row.totals.payment)?;
            sum.tax = sum.tax.checked_add(row.totals.tax)?;
            payees.push(row.payee);
        }
        payees.sort_unstable();
        payees.dedup();
        sum.individuals = payees.iter().filter(|payee| is_individual[**payee]).count();
        sum.others = payees.len() - sum.individuals;
        Some(sum)
    };
    let mut summary = Summary::default();
    for (at, clause) in summary.clauses.iter_mut().enumerate() {
        *clause = of(&|row| row.category.clause() == Some(at + 1))?;
    }
    summary.all = of(&|_| true)?;
    summary.filed = of(&|row| row.is_filed)?;
    summary.corporate_prizes = of(&|row| row.category == Category::HorseRacePrize && !is_individual[row.payee])?;
    Some(summary)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paid(payee: usize, category: Category, amount: i64) -> Payment {
        Payment {
            payee,
            category,
            amount,
            consumption_tax: 0,
            paid_on: None,
            is_unpaid: false,
            circumstances: Circumstances::default(),
        }
    }

    fn on(year: i32, month: u8, payment: Payment) -> Payment {
        let date = Date::from_calendar_date(year, time::Month::try_from(month).unwrap(), 25).unwrap();
        Payment { paid_on: Some(date), ..payment }
    }

    #[test]
    fn the_summary_table_of_the_fact_sheet() {
        let payments = [
            paid(0, Category::Manuscript, 300_000),
            paid(1, Category::Manuscript, 40_000),
            paid(1, Category::Professional, 20_000),
            paid(2, Category::Professional, 800_000),
        ];
        let found = records(&[true, true, false], &payments, 2025).unwrap();
        let row = |individuals, others, payment, tax| SummaryRow { individuals, others, payment, tax };
        assert_eq!(found.summary.clauses[0], row(2, 0, 340_000, 34_714));
        assert_eq!(found.summary.clauses[1], row(1, 1, 820_000, 2_042));
        assert_eq!(found.summary.clauses[2..], [SummaryRow::default(); 6]);
        assert_eq!(found.summary.all, row(2, 1, 1_160_000, 36_756));
        assert_eq!(found.summary.filed, found.summary.all);
        // payments to corporations are filed too, although no tax is withheld from them
        assert!(found.rows.iter().all(|row| row.is_filed) && found.rows[3].totals.tax == 0);
    }

    #[test]
    fn what_is_filed_is_strictly_above_the_line_of_its_group() {
        let filed = |payments: &[Payment]| -> Vec<bool> {
            records(&[true], payments, 2025).unwrap().rows.iter().map(|row| row.is_filed).collect()
        };
        for (category, line) in [
            (Category::Manuscript, 50_000),
            (Category::Scrivener, 50_000),
            (Category::ContractFee, 50_000),
            (Category::Salesperson, 500_000),
            (Category::Boxer, 500_000),
            (Category::Hostess, 500_000),
            (Category::Prize, 500_000),
            (Category::Medical, 500_000),
            (Category::HorseRacePrize, 750_000),
        ] {
            assert_eq!(filed(&[paid(0, category, line)]), [false], "{category:?}");
            assert_eq!(filed(&[paid(0, category, line + 1)]), [true], "{category:?}");
        }
        // amounts of a filing group are added up, but each prize of a race horse's owner is compared separately
        assert_eq!(filed(&[paid(0, Category::Boxer, 300_000), paid(0, Category::Salesperson, 300_000)]), [true, true]);
        assert_eq!(filed(&[paid(0, Category::Boxer, 300_000), paid(0, Category::Hostess, 300_000)]), [false, false]);
        assert_eq!(filed(&[paid(0, Category::HorseRacePrize, 750_000); 3]), [false]);
        // consumption tax that is stated separately does not count towards the limit
        let apart = Payment { consumption_tax: 3_840, ..paid(0, Category::Manuscript, 48_000) };
        assert_eq!(filed(&[apart]), [false]);
    }

    #[test]
    fn each_payment_is_taxed_by_itself_and_a_salesperson_s_month_together() {
        let of = |payments: &[Payment]| records(&[true], payments, 2025).unwrap().rows[0].totals;
        assert_eq!(of(&[paid(0, Category::Manuscript, 800_000); 2]).tax, 163_360);
        let month = |month| on(2025, month, paid(0, Category::Salesperson, 100_000));
        // 200,000 yen in March and 100,000 yen in April: each month has one deduction
        assert_eq!(of(&[month(3), month(3), month(4)]).tax, 8_168);
        let with_salary = Payment { circumstances: Circumstances { salary: 50_000, days: 0 }, ..month(3) };
        assert_eq!(of(&[month(3), with_salary]).tax, 13_273);
    }

    #[test]
    fn unpaid_parts_are_parts_of_the_totals() {
        let unpaid = Payment { is_unpaid: true, ..paid(0, Category::Manuscript, 100_000) };
        let late = on(2026, 1, unpaid);
        let payments = [on(2025, 6, paid(0, Category::Manuscript, 50_000)), late];
        let found = records(&[true], &payments, 2025).unwrap();
        let expected = Totals {
            payment: 150_000,
            unpaid: 100_000,
            tax: 5_105 + 10_210,
            uncollected_tax: 10_210,
            consumption_tax: 0,
            count: 2,
        };
        assert_eq!(found.rows[0].totals, expected);
    }

    #[test]
    fn other_years_and_what_no_clause_names_are_left_out() {
        let payments = [
            on(2024, 12, paid(0, Category::Manuscript, 60_000)),
            on(2025, 1, paid(0, Category::Manuscript, 60_000)),
            paid(0, Category::Outside, 60_000),
        ];
        let found = records(&[true], &payments, 2025).unwrap();
        assert_eq!((found.excluded, found.summary.all.payment), (vec![0, 2], 60_000));
        assert_eq!(records(&[true], &payments, 2012), None);
        assert_eq!(records(&[true], &[paid(1, Category::Manuscript, 1)], 2025), None);
        assert_eq!(records(&[true], &[paid(0, Category::Manuscript, -1)], 2025), None);
        assert_eq!(records(&[true], &[paid(0, Category::Manuscript, i64::MAX); 2], 2025), None);
        // tax is withheld from a corporation's prize, and the summary has a separate row for such prizes
        let prize = records(&[false], &[paid(0, Category::HorseRacePrize, 1_000_000)], 2025).unwrap();
        assert_eq!((prize.summary.corporate_prizes.others, prize.summary.corporate_prizes.tax), (1, 20_420));
    }

    proptest! {
        #[test]
        fn tables_add_up(
            payments in proptest::collection::vec((0usize..4, 0usize..12, 0i64..3_000_000, any::<bool>()), 0..30),
            individual in proptest::collection::vec(any::<bool>(), 4),
        ) {
            use Category::*;
            let all = [
                Manuscript, Professional, Scrivener, Medical, Athlete, Boxer, Salesperson, Performance, Hostess, ContractFee, Prize,
                HorseRacePrize,
            ];
            let payments: Vec<Payment> = payments
                .into_iter()
                .map(|(payee, category, amount, is_unpaid)| Payment { is_unpaid, ..paid(payee, all[category], amount) })
                .collect();
            let found = records(&individual, &payments, 2025).unwrap();
            prop_assert_eq!(found.summary.all.payment, payments.iter().map(|one| one.amount).sum::<i64>());
            prop_assert_eq!(found.summary.clauses.iter().map(|row| row.payment).sum::<i64>(), found.summary.all.payment);
            prop_assert_eq!(found.summary.clauses.iter().map(|row| row.tax).sum::<i64>(), found.summary.all.tax);
            prop_assert!(found.summary.filed.payment <= found.summary.all.payment);
            for row in &found.rows {
                prop_assert!(row.totals.unpaid <= row.totals.payment && row.totals.uncollected_tax <= row.totals.tax);
                prop_assert!(row.totals.tax <= row.totals.payment);
            }
        }
    }
}
