//! The common parts of all objects that report a payment.

use std::collections::BTreeSet;

use super::itemized::{Item, Itemized};
use super::links::Identity;
use super::{NamedBy, Payment, Wishes, line, wishes};
use crate::document::{Line, Problem};
use crate::object::Node;
use crate::tax::consumption::Rate;

/// The values that are in different members for each kind of object. All other members are read in the same way for all
/// kinds.
pub(super) struct Facts<'a> {
    pub identity: Identity,
    /// Amount paid, with tax, in yen.
    pub gross: i64,
    /// Amount given back, in yen.
    pub refunded: i64,
    pub itemized: Itemized,
    pub is_final: bool,
    pub when: Node<'a>,
    /// Members that may contain the buyer's name, in order of preference.
    pub names: Vec<(NamedBy, Node<'a>)>,
    pub emails: Vec<Node<'a>>,
    pub method: Option<&'a str>,
    pub warnings: Vec<String>,
}

/// Makes the payment that an object reports.
pub(super) fn payment(object: &Node<'_>, facts: Facts<'_>) -> Result<Payment, Problem> {
    let Itemized { items, unexplained, warnings, .. } = facts.itemized;
    let mut lines: Vec<Line> = items.into_iter().map(|Item { line, .. }| line).collect();
    if !(0..=facts.gross.max(0)).contains(&facts.refunded) {
        return Err(object.problem("more was refunded than was paid"));
    }
    let refunds = refund_lines(&lines, facts.refunded);
    let refund_lines = refunds.len();
    lines.extend(refunds);
    let (recipient, named_by) = wishes::recipient(object, &facts.names);
    let Identity { ids, invoice_id, customer, fullness } = facts.identity;
    Ok(Payment {
        id: object.member("id").text().unwrap_or_default().to_owned(),
        ids,
        sale_ids: BTreeSet::new(),
        fullness,
        is_final: facts.is_final,
        invoice_id,
        customer,
        lines,
        refund_lines,
        gross: facts.gross,
        refunded: facts.refunded,
        total: facts.gross - facts.refunded,
        is_refunded: facts.refunded > 0 && facts.refunded == facts.gross,
        is_return: false,
        date: facts.when.day()?,
        paid_at: facts.when.value.as_i64(),
        original_date: None,
        recipient,
        named_by,
        email: facts.emails.iter().find_map(Node::text).map(str::to_owned),
        payment_method: facts.method.map(str::to_owned),
        wishes: Wishes::of(object),
        unexplained,
        warnings: [warnings, facts.warnings].concat(),
    })
}

/// Checks that an object says that its payment, or its return, came about.
pub(super) fn succeeded(is_so: bool, node: &Node<'_>) -> Result<(), Problem> {
    if is_so { Ok(()) } else { Err(node.problem("should say that the payment succeeded")) }
}

/// Name of the one line of an object without lines.
pub(super) fn name<'a>(object: &Node<'a>) -> Option<&'a str> {
    wishes::item_name(object).or(object.member("description").text())
}

/// The only text of a list; `None` when the list has several.
pub(super) fn only<'a>(list: &Node<'a>) -> Option<&'a str> {
    match list.value.as_array().map(Vec::as_slice) {
        Some([only]) => only.as_str(),
        _ => None,
    }
}

/// Makes the negative lines of a refund. If the sale has two rates, the refund is apportioned by the sums of the rates,
/// because the provider does not say what was refunded.
fn refund_lines(lines: &[Line], refunded: i64) -> Vec<Line> {
    let shares = split(refunded, lines);
    shares.into_iter().map(|(rate, share)| line("返金", None, -share, rate)).collect()
}

/// Divides `amount`, at least 0, among the rates of `lines` in proportion to their sums. The shares are in whole yen
/// and add up to the amount; shares of 0 are left out. A rate whose sum is negative takes no part.
pub(super) fn split(amount: i64, lines: &[Line]) -> Vec<(Rate, i64)> {
    let of_rate = |rate: Rate| -> i64 {
        let amounts = lines.iter().filter(|line| line.rate == rate).filter_map(amount_of);
        amounts.fold(0i64, i64::saturating_add).max(0)
    };
    let shares = crate::tax::consumption::apportion(amount, &Rate::ALL.map(of_rate)).unwrap_or_else(|| {
        // all sums are 0: the first line's rate takes the whole amount
        let main = lines.first().map_or(Rate::Standard, |line| line.rate);
        Rate::ALL.map(|rate| if rate == main { amount } else { 0 }).to_vec()
    });
    Rate::ALL.into_iter().zip(shares).filter(|(_, share)| *share != 0).collect()
}

/// The amount of a line in whole yen; `None` when it is too large.
pub(super) fn amount_of(line: &Line) -> Option<i64> {
    crate::rounding::Rounding::Floor.product(line.unit_price, line.quantity)
}

/// Rates of these lines.
pub(super) fn rates(lines: &[Line]) -> BTreeSet<Rate> {
    lines.iter().map(|line| line.rate).collect()
}
