//! Reads transfers and payouts to connected accounts as payments to payees (B28b, B33). The payment platform itself
//! withholds no tax and files no records in Japan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde_json::Value;
use time::Date;

use super::{DAYS_MAX, Payment};
use crate::document::{Problem, Step};
use crate::object::Node;
use crate::rounding::{Rounding, YEN_MAX};
use crate::tax::consumption::{Basis, Rate, of_sum};
use crate::tax::withholding::{Category, Circumstances, Remuneration, tax};

/// The caller's declaration about a connected account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Name.
    pub name: String,
    /// Address.
    pub address: String,
    /// Corporate or personal number; may be empty.
    pub number: String,
    /// Whether the payee is an individual, from whom tax is withheld.
    pub is_individual: bool,
    /// What the account is paid for; `None`: the request's default.
    pub remuneration: Option<Remuneration>,
    /// 細目.
    pub description: String,
    /// Whether the payee's document states consumption tax separately, so that a transfer is the fee plus that tax.
    pub is_tax_separate: bool,
    /// The rate of the separately stated consumption tax.
    pub tax_rate: Rate,
    /// Whether a transfer is the net amount after withholding.
    pub is_net: bool,
    /// Whether the payee lives abroad. Another law applies to such a payee, so the transfers are skipped.
    pub is_non_resident: bool,
}

impl Default for Declaration {
    fn default() -> Self {
        Declaration {
            name: String::new(),
            address: String::new(),
            number: String::new(),
            is_individual: true,
            remuneration: None,
            description: String::new(),
            is_tax_separate: false,
            tax_rate: Rate::Standard,
            is_net: false,
            is_non_resident: false,
        }
    }
}

/// A payee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payee {
    /// The connected account.
    pub account: String,
    /// The declaration. `None`: the caller declared nothing, so the account's id serves as the name (B33).
    pub declaration: Option<Declaration>,
}

/// A transfer that is not counted as a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Index in the list of transfers.
    pub at: usize,
    /// The transfer's id.
    pub id: String,
    /// The reason, as a code.
    pub reason: &'static str,
}

/// The result of reading transfers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Each connected account once, in the order of its first transfer.
    pub payees: Vec<Payee>,
    /// Payments to the payees.
    pub payments: Vec<Payment>,
    /// For each payment, the index in the list of transfers.
    pub places: Vec<usize>,
    /// Transfers that are not counted as payments.
    pub skipped: Vec<Skipped>,
}

/// Reads transfers as payments. `year`: the year of the records, for a transfer without a time.
///
/// # Errors
/// All problems: values that are not objects; wrong amounts, times and categories; repeated ids. The path of a problem
/// begins at the list of transfers.
pub fn read(
    transfers: &[Value],
    declarations: &BTreeMap<String, Declaration>,
    default: &Remuneration,
    year: i32,
) -> Result<Transfers, Vec<Problem>> {
    let (mut found, mut problems) = (Transfers::default(), Vec::new());
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for (at, value) in transfers.iter().enumerate() {
        let node = Node::of(value, vec![Step::Index(at)]);
        let id = node.member("id").text().unwrap_or_default();
        if !id.is_empty() && !ids.insert(id) {
            problems.push(node.member("id").problem("comes twice"));
            continue;
        }
        match read_one(&node, declarations, default, year) {
            Err(problem) => problems.push(problem),
            Ok(Err(reason)) => found.skipped.push(Skipped { at, id: id.to_owned(), reason }),
            Ok(Ok((account, payment))) => {
                let payee = *places.entry(account).or_insert_with(|| {
                    let declaration = declarations.get(account).cloned();
                    found.payees.push(Payee { account: account.to_owned(), declaration });
                    found.payees.len() - 1
                });
                found.payments.push(Payment { payee, ..payment });
                found.places.push(at);
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// A transfer's account and payment, or the reason why the transfer is skipped.
type One<'a> = Result<(&'a str, Payment), &'static str>;

fn read_one<'a>(
    node: &Node<'a>,
    declarations: &BTreeMap<String, Declaration>,
    default: &Remuneration,
    year: i32,
) -> Result<One<'a>, Problem> {
    if !node.value.is_object() {
        return Err(node.problem("should be an object"));
    }
    let is_payout = match node.member("object").text() {
        None | Some("transfer") => false,
        Some("payout") => true,
        Some(_) => return Ok(Err("unsupported_object")),
    };
    if !node.member("currency").text().is_some_and(|currency| currency.eq_ignore_ascii_case("jpy")) {
        return Ok(Err("not_jpy"));
    }
    if matches!(node.member("status").text(), Some("canceled" | "failed")) {
        return Ok(Err("not_paid"));
    }
    let gross = node.first_yen(&["amount"])?;
    let reversed = node.member("amount_reversed").yen()?.unwrap_or(0);
    if gross < 0 || !(0..=gross).contains(&reversed) {
        return Err(node.member("amount").problem("should not be negative, nor less than amount_reversed"));
    }
    let amount = gross - reversed;
    if amount == 0 || !node.member("reversed_by").is_missing() {
        return Ok(Err("reversed"));
    }
    let Some(account) = account(node) else { return Ok(Err("no_payee")) };
    let declaration = declarations.get(account).cloned().unwrap_or_default();
    if declaration.is_non_resident {
        return Ok(Err("non_resident"));
    }
    let created = node.member("created").day()?;
    let paid_on = if is_payout { node.member("arrival_date").day()?.or(created) } else { created };
    let metadata = node.member("metadata");
    let Remuneration { category, word } = match metadata.member("category").text() {
        None => declaration.remuneration.as_ref().unwrap_or(default).clone(),
        Some(name) => Remuneration::of_name(name)
            .ok_or_else(|| metadata.member("category").problem("should be a known category of remuneration"))?,
    };
    let circumstances = Circumstances {
        days: whole(&metadata.member("days"), 1..=DAYS_MAX)?.unwrap_or(0) as u32,
        salary: whole(&metadata.member("salary"), 0..=YEN_MAX)?.unwrap_or(0),
    };
    let fee = Fee { category, circumstances, year: paid_on.map_or(year, Date::year) };
    let Some((amount, consumption_tax)) = fee.split(amount, stated_tax(&metadata, amount)?, &declaration) else {
        return Ok(Err("no_gross_amount"));
    };
    let detail = metadata.member("detail").text().unwrap_or(&declaration.description).to_owned();
    Ok(Ok((
        account,
        Payment { payee: 0, category, word, detail, amount, consumption_tax, paid_on, is_unpaid: false, circumstances },
    )))
}

/// Finds the connected account's id. A payout's destination is a bank account, so the id of the connected account is in
/// `account` or in the metadata.
fn account<'a>(node: &Node<'a>) -> Option<&'a str> {
    let destination = node.member("destination").id().filter(|id| id.starts_with("acct_"));
    let metadata = node.member("metadata");
    let others = [node.member("account"), metadata.member("account"), metadata.member("payee")];
    destination.or_else(|| others.iter().find_map(Node::text))
}

/// Reads the consumption tax that the metadata states, in yen.
fn stated_tax(metadata: &Node<'_>, amount: i64) -> Result<Option<i64>, Problem> {
    whole(&metadata.member("consumption_tax"), 0..=amount)
}

/// Reads a whole number of the metadata: a number, or a text as providers store it.
fn whole(member: &Node<'_>, range: RangeInclusive<i64>) -> Result<Option<i64>, Problem> {
    let number = match member.value {
        Value::Null => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_i64(),
    };
    let expected = || format!("should be a whole number from {} to {}", range.start(), range.end());
    number.filter(|number| range.contains(number)).map(Some).ok_or_else(|| member.problem(&expected()))
}

/// What the tax on a fee depends on besides the amount.
struct Fee {
    category: Category,
    circumstances: Circumstances,
    year: i32,
}

impl Fee {
    /// Splits a transfer into the fee, on which tax is withheld, and the consumption tax beside the fee, in yen.
    /// `None`: no fee results in this transfer.
    fn split(&self, amount: i64, stated_tax: Option<i64>, declaration: &Declaration) -> Option<(i64, i64)> {
        let withholds = declaration.is_individual || self.category.is_withheld_from_corporations();
        let beside = |fee: i64| match stated_tax {
            Some(stated) => stated,
            None if declaration.is_tax_separate => Rounding::Floor.part(fee, declaration.tax_rate.percent(), 100),
            None => 0,
        };
        if !(declaration.is_net && withholds) {
            return Some(match stated_tax {
                Some(stated) => (amount - stated, stated),
                None if declaration.is_tax_separate => {
                    let parts = of_sum(amount, declaration.tax_rate, Basis::Inclusive, Rounding::Floor);
                    (parts.net, parts.tax)
                }
                None => (amount, 0),
            });
        }
        // a larger fee never results in a smaller transfer, so a binary search finds the largest fee whose transfer is
        // at most `amount`
        let left = |fee: i64| Some(fee + beside(fee) - tax(self.category, fee, self.circumstances, self.year)?);
        let (mut low, mut high) = (0, amount.checked_mul(2)?);
        while low < high {
            let middle = low + (high - low + 1) / 2;
            if left(middle)? <= amount { low = middle } else { high = middle - 1 }
        }
        (left(low)? == amount).then(|| (low, beside(low)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_with(declaration: Declaration, transfers: &[Value]) -> Result<Transfers, Vec<Problem>> {
        let declarations = BTreeMap::from([("acct_1".to_owned(), declaration)]);
        read(transfers, &declarations, &Remuneration::default(), 2025)
    }

    fn transfer(amount: i64) -> Value {
        json!({"id": format!("tr_{amount}"), "object": "transfer", "amount": amount, "currency": "jpy", "created": 1_764_514_800,
            "destination": "acct_1"})
    }

    fn fee(declaration: Declaration, amount: i64) -> (i64, i64) {
        let found = read_with(declaration, &[transfer(amount)]).unwrap();
        (found.payments[0].amount, found.payments[0].consumption_tax)
    }

    /// Examples of the fact sheet, section 7.
    #[test]
    fn b28b_the_fee_of_a_transfer() {
        let separate = Declaration { is_tax_separate: true, ..Declaration::default() };
        let net = Declaration { is_net: true, ..Declaration::default() };
        assert_eq!(fee(separate.clone(), 110_000), (100_000, 10_000));
        assert_eq!(fee(Declaration::default(), 110_000), (110_000, 0));
        assert_eq!(fee(net.clone(), 89_790), (100_000, 0));
        assert_eq!(fee(net.clone(), 897_900), (1_000_000, 0));
        // 100,000 fee + 10,000 consumption tax - 10,210 withheld = 99,790
        assert_eq!(fee(Declaration { is_net: true, ..separate }, 99_790), (100_000, 10_000));
        // nothing is withheld from a corporation
        assert_eq!(fee(Declaration { is_individual: false, ..net }, 89_790), (89_790, 0));
    }

    #[test]
    fn b33_transfers_are_payments_or_skipped_with_a_reason() {
        let with = |name: &str, value: Value| {
            let mut one = transfer(1_000);
            (one["id"], one[name]) = (json!(name), value);
            one
        };
        let transfers = [
            transfer(5_000),
            with("currency", json!("usd")),
            with("amount_reversed", json!(1_000)),
            with("status", json!("failed")),
            with("destination", json!("ba_1")),
            with("object", json!("balance_transaction")),
            json!({"id": "po_1", "object": "payout", "amount": 700, "currency": "jpy", "created": 1, "arrival_date": 1_767_193_200,
                "destination": "ba_1", "metadata": {"account": "acct_2", "category": "弁護士", "consumption_tax": "63"}}),
            json!({"id": "tr_9", "amount": 700, "currency": "jpy", "amount_reversed": 200, "destination": {"id": "acct_1"}}),
        ];
        let found = read_with(Declaration { name: "山田".to_owned(), ..Declaration::default() }, &transfers).unwrap();
        let reasons: Vec<_> = found.skipped.iter().map(|one| (one.at, one.reason)).collect();
        assert_eq!(
            reasons,
            [(1, "not_jpy"), (2, "reversed"), (3, "not_paid"), (4, "no_payee"), (5, "unsupported_object")]
        );
        let accounts: Vec<_> =
            found.payees.iter().map(|payee| (payee.account.as_str(), payee.declaration.is_some())).collect();
        assert_eq!(accounts, [("acct_1", true), ("acct_2", false)]);
        let [first, payout, last] = found.payments.as_slice() else { panic!("{:?}", found.payments) };
        assert_eq!((first.payee, first.amount, first.paid_on.unwrap().to_string().as_str()), (0, 5_000, "2025-12-01"));
        assert_eq!(
            (payout.payee, payout.amount, payout.consumption_tax, payout.category),
            (1, 637, 63, Category::Professional)
        );
        assert_eq!(payout.paid_on.unwrap().to_string(), "2026-01-01");
        assert_eq!((last.payee, last.amount, last.paid_on), (0, 500, None));
        let abroad = Declaration { is_non_resident: true, ..Declaration::default() };
        assert_eq!(read_with(abroad, &transfers[..1]).unwrap().skipped[0].reason, "non_resident");
    }

    #[test]
    fn everything_that_is_wrong_with_transfers_is_told() {
        let with = |name: &str, value: Value| {
            let mut one = transfer(1_000);
            (one["id"], one[name]) = (json!(name), value);
            one
        };
        let transfers = [
            json!(7),
            with("amount", json!(-1)),
            with("amount_reversed", json!(1_001)),
            with("created", json!("x")),
            with("metadata", json!({"category": "給与"})),
            transfer(1),
            transfer(1),
        ];
        let problems = read_with(Declaration::default(), &transfers).unwrap_err();
        let places: Vec<_> = problems.iter().map(|problem| problem.at[0].clone()).collect();
        assert_eq!(places, [0, 1, 2, 3, 4, 6].map(Step::Index));
    }
}
