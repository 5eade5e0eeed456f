//! Payment records (支払調書, form 309) of a year, and section 3 of their summary table (income tax act, article 225;
//! enforcement regulations, article 84): what was paid to whom and for what, what was withheld, and what must be filed.

pub mod etax;
pub mod pages;
pub mod party_number;
pub mod transfers;
pub mod yearly;

use std::collections::{BTreeMap, BTreeSet};

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

/// Largest number of calendar days in the period that a payment covers.
pub const DAYS_MAX: i64 = 366;
/// Largest number of characters of a row's 細目. The columns of the forms are narrower or equal.
pub const DETAIL_MAX: usize = 60;

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Index of the payee.
    pub payee: usize,
    /// Category of the remuneration.
    pub category: Category,
    /// The caller's word for the remuneration, as the form shows it (区分;
    /// [`Remuneration::word`](crate::tax::withholding::Remuneration::word)).
    pub word: String,
    /// 細目 in the caller's words; may be empty.
    pub detail: String,
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

/// The row of a payee, a category and a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the payee.
    pub payee: usize,
    /// The category.
    pub category: Category,
    /// The word of the row's payments (区分).
    pub word: String,
    /// 細目: what distinguishes the payments, in the order of the payments, at most [`DETAIL_MAX`] characters. The
    /// number of payments if the caller says nothing.
    pub detail: String,
    /// Whether [`Row::detail`] lacks a part of what the caller said.
    pub is_detail_cut: bool,
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
    /// The rows, sorted by payee, then by category, then by the first payment with the word.
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
    let mut of_categories: OfCategories<'_> = BTreeMap::new();
    for (at, payment) in payments.iter().enumerate() {
        if payment.amount < 0 || payment.consumption_tax < 0 || payment.payee >= is_individual.len() {
            return None;
        }
        if payment.category.clause().is_none() || !is_of_year(payment, year) {
            records.excluded.push(at);
            continue;
        }
        of_categories.entry((payment.payee, payment.category)).or_default().push(payment);
    }
    for ((payee, category), payments) in &of_categories {
        let withholds = is_individual[*payee] || category.is_withheld_from_corporations();
        let taxes = if withholds { taxes(*category, payments, year)? } else { vec![0; payments.len()] };
        records.rows.extend(rows(payments, &taxes)?);
    }
    mark_filed(&mut records.rows, &of_categories)?;
    records.summary = summary(is_individual, &records.rows)?;
    Some(records)
}

/// The payments of each payee and category.
type OfCategories<'a> = BTreeMap<(usize, Category), Vec<&'a Payment>>;

/// Finds the payments of the year whose tax cannot be computed without a date: categories with a deduction for each
/// month, if the payee has other payments of the category. Returns their indices.
pub fn undated(payments: &[Payment], year: i32) -> Vec<usize> {
    let of_months = || {
        let is_pooled = |payment: &Payment| payment.category.pool() == Pool::Month && is_of_year(payment, year);
        payments.iter().enumerate().filter(move |(_, payment)| is_pooled(payment))
    };
    let mut counts: BTreeMap<(usize, Category), usize> = BTreeMap::new();
    for (_, payment) in of_months() {
        *counts.entry((payment.payee, payment.category)).or_default() += 1;
    }
    let is_unclear = |payment: &Payment| payment.paid_on.is_none() && counts[&(payment.payee, payment.category)] > 1;
    of_months().filter(|(_, payment)| is_unclear(payment)).map(|(at, _)| at).collect()
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

/// A pool: the place of a payment, or 0 and a month.
type PoolKey = (usize, Option<(i32, u8)>);

/// Computes the tax of each payment of a payee and category. The tax of a pool is truncated once and shared among the
/// pool's payments in proportion to their amounts.
fn taxes(category: Category, payments: &[&Payment], year: i32) -> Option<Vec<i64>> {
    let mut pools: BTreeMap<PoolKey, Vec<usize>> = BTreeMap::new();
    for (at, payment) in payments.iter().enumerate() {
        let pool = match category.pool() {
            Pool::Payment => (at, None),
            Pool::Month => (0, payment.paid_on.map(|date| (date.year(), u8::from(date.month())))),
        };
        pools.entry(pool).or_default().push(at);
    }
    let mut taxes = vec![0; payments.len()];
    for pool in pools.values() {
        let (paid, unpaid): (Vec<usize>, Vec<usize>) = pool.iter().partition(|at| !payments[**at].is_unpaid);
        let sum = |places: &[usize]| places.iter().try_fold(0i64, |sum, at| sum.checked_add(payments[*at].amount));
        let of_pool = || pool.iter().map(|at| payments[*at].circumstances);
        let given = Circumstances {
            days: of_pool().map(|given| given.days).max().unwrap_or(0),
            salary: of_pool().map(|given| given.salary).max().unwrap_or(0),
        };
        let of_paid = tax(category, sum(&paid)?, given, year)?;
        // the tax on what is unpaid is the rest (general notices 205-7)
        let of_unpaid = tax(category, sum(pool)?, given, year)? - of_paid;
        for (places, total) in [(paid, of_paid), (unpaid, of_unpaid)] {
            let amounts: Vec<i64> = places.iter().map(|at| payments[*at].amount).collect();
            places.iter().zip(shares(total, &amounts)).for_each(|(at, share)| taxes[*at] = share);
        }
    }
    Some(taxes)
}

/// Splits a total in proportion to amounts, which are at least 0. The shares add up to the total.
fn shares(total: i64, amounts: &[i64]) -> Vec<i64> {
    let all: i128 = amounts.iter().map(|amount| i128::from(*amount)).sum();
    let (mut sum, mut given) = (0i128, 0i64);
    let share = |amount: &i64| {
        sum += i128::from(*amount);
        let upto = i64::try_from(i128::from(total) * sum / all.max(1)).expect("at most the total");
        upto - std::mem::replace(&mut given, upto)
    };
    amounts.iter().map(share).collect()
}

/// Makes the rows of a payee and category: one for each word.
fn rows(payments: &[&Payment], taxes: &[i64]) -> Option<Vec<Row>> {
    let mut rows: Vec<(Row, Details<'_>)> = Vec::new();
    for (payment, tax) in payments.iter().zip(taxes) {
        let at = rows.iter().position(|(row, _)| row.word == payment.word).unwrap_or_else(|| {
            rows.push((Row::of(payment), Details::default()));
            rows.len() - 1
        });
        let (row, details) = &mut rows[at];
        row.totals.add(payment, *tax)?;
        details.add(payment.detail.trim());
    }
    let finished = rows.into_iter().map(|(mut row, details)| {
        (row.detail, row.is_detail_cut) = details.joined(row.totals.count);
        row
    });
    Some(finished.collect())
}

impl Row {
    /// Makes an empty row for payments like this one.
    fn of(payment: &Payment) -> Row {
        Row {
            payee: payment.payee,
            category: payment.category,
            word: payment.word.clone(),
            detail: String::new(),
            is_detail_cut: false,
            totals: Totals::default(),
            is_filed: false,
        }
    }
}

impl Totals {
    fn add(&mut self, payment: &Payment, tax: i64) -> Option<()> {
        self.payment = self.payment.checked_add(payment.amount)?;
        self.consumption_tax = self.consumption_tax.checked_add(payment.consumption_tax)?;
        self.tax += tax;
        self.count += 1;
        if payment.is_unpaid {
            self.unpaid += payment.amount;
            self.uncollected_tax += tax;
        }
        Some(())
    }
}

/// The distinct details of a row's payments, in the order of the payments.
#[derive(Default)]
struct Details<'a> {
    known: BTreeSet<&'a str>,
    in_order: Vec<&'a str>,
}

impl<'a> Details<'a> {
    fn add(&mut self, detail: &'a str) {
        if !detail.is_empty() && self.known.insert(detail) {
            self.in_order.push(detail);
        }
    }

    /// Joins the details, and says whether a part is left out.
    fn joined(&self, count: usize) -> (String, bool) {
        match self.in_order.as_slice() {
            [] => (format!("{count}回"), false),
            details => {
                let whole = details.join("、");
                let cut = whole.char_indices().nth(DETAIL_MAX).map(|(end, _)| whole[..end].to_owned());
                let is_cut = cut.is_some();
                (cut.unwrap_or(whole), is_cut)
            }
        }
    }
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

fn mark_filed(rows: &mut [Row], payments: &OfCategories<'_>) -> Option<()> {
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
            word: category.name().to_owned(),
            detail: String::new(),
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
        assert_eq!(filed(&vec![paid(0, Category::HorseRacePrize, 750_000); 3]), [false]);
        // consumption tax that is stated separately does not count towards the limit
        let apart = Payment { consumption_tax: 3_840, ..paid(0, Category::Manuscript, 48_000) };
        assert_eq!(filed(&[apart]), [false]);
    }

    #[test]
    fn each_payment_is_taxed_by_itself_and_a_salesperson_s_month_together() {
        let of = |payments: &[Payment]| records(&[true], payments, 2025).unwrap().rows[0].totals;
        assert_eq!(of(&vec![paid(0, Category::Manuscript, 800_000); 2]).tax, 163_360);
        let month = |month| on(2025, month, paid(0, Category::Salesperson, 100_000));
        // 200,000 yen in March and 100,000 yen in April: each month has one deduction
        assert_eq!(of(&[month(3), month(3), month(4)]).tax, 8_168);
        let with_salary = Payment { circumstances: Circumstances { salary: 50_000, days: 0 }, ..month(3) };
        assert_eq!(of(&[month(3), with_salary]).tax, 13_273);
    }

    #[test]
    fn a4_words_have_rows_of_their_own_and_share_the_tax_of_a_month() {
        let said = |word: &str, payment: Payment| Payment { word: word.to_owned(), ..payment };
        let month = |word, month, amount| said(word, on(2025, month, paid(0, Category::Salesperson, amount)));
        let unpaid = Payment { is_unpaid: true, ..month("集金人報酬", 4, 60_000) };
        let payments =
            [month("外交員報酬", 3, 150_000), month("集金人報酬", 3, 50_000), month("外交員報酬", 4, 140_000), unpaid];
        let found = records(&[true], &payments, 2025).unwrap();
        let totals: Vec<_> = found.rows.iter().map(|row| (row.word.as_str(), row.totals)).collect();
        // March: 80,000 yen above the deduction, 8,168 yen; April: 20,000 and then 60,000 yen, 2,042 and 6,126 yen
        let row = |payment, unpaid, tax, uncollected_tax| Totals {
            payment,
            unpaid,
            tax,
            uncollected_tax,
            consumption_tax: 0,
            count: 2,
        };
        assert_eq!(
            totals,
            [
                ("外交員報酬", row(290_000, 0, 6_126 + 2_042, 0)),
                ("集金人報酬", row(110_000, 60_000, 2_042 + 6_126, 6_126)),
            ]
        );
    }

    #[test]
    fn months_of_different_years_have_their_own_deductions() {
        let late = |year| Payment { is_unpaid: true, ..on(year, 1, paid(0, Category::Salesperson, 120_000)) };
        let january = on(2025, 1, paid(0, Category::Salesperson, 120_000));
        assert_eq!(records(&[true], &[january, late(2026)], 2025).unwrap().rows[0].totals.tax, 0);
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
        assert_eq!(records(&[true], &vec![paid(0, Category::Manuscript, i64::MAX); 2], 2025), None);
        // tax is withheld from a corporation's prize, and the summary has a separate row for such prizes
        let prize = records(&[false], &[paid(0, Category::HorseRacePrize, 1_000_000)], 2025).unwrap();
        assert_eq!((prize.summary.corporate_prizes.others, prize.summary.corporate_prizes.tax), (1, 20_420));
    }

    proptest! {
        #[test]
        fn tables_add_up(
            payments in proptest::collection::vec((0usize..4, 0usize..12, 0i64..3_000_000, any::<bool>(), 0usize..3), 0..30),
            individual in proptest::collection::vec(any::<bool>(), 4),
        ) {
            use Category::*;
            let all = [
                Manuscript, Professional, Scrivener, Medical, Athlete, Boxer, Salesperson, Performance, Hostess, ContractFee, Prize,
                HorseRacePrize,
            ];
            let payments: Vec<Payment> = payments
                .into_iter()
                .map(|(payee, category, amount, is_unpaid, word)| Payment {
                    is_unpaid,
                    word: ["甲", "乙", "丙"][word].to_owned(),
                    ..paid(payee, all[category], amount)
                })
                .collect();
            let found = records(&individual, &payments, 2025).unwrap();
            // words change neither the tax nor the table
            let plain: Vec<Payment> =
                payments.iter().map(|one| Payment { word: String::new(), ..one.clone() }).collect();
            prop_assert_eq!(&records(&individual, &plain, 2025).unwrap().summary, &found.summary);
            let count: usize = found.rows.iter().map(|row| row.totals.count).sum();
            prop_assert_eq!(count, payments.len());
            for year in [2026, 2027] {
                prop_assert_eq!(&records(&individual, &plain, year).unwrap().summary, &found.summary);
            }
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
