//! Refunds and credit notes of Stripe's interface (fact sheet of the back office, 4.1).

use std::collections::BTreeSet;

use time::Date;

use super::facts::{self, succeeded};
use super::itemized::{self, Item, Reading};
use super::returns::returned_name;
use super::{NamedBy, Payment, Return, ReturnedLine, Sale, Wishes, links, rate, stripe, wishes};
use crate::document::{self, Problem};
use crate::object::Node;
use crate::tax::consumption::Rate;

/// Reads a refund of Stripe's interface.
pub(super) fn refund(object: &Node<'_>, default_rate: Rate) -> Result<Return, Problem> {
    object.check_yen()?;
    let status = object.member("status");
    succeeded(status.text() == Some("succeeded"), &status)?;
    let amount = given_back(object, "amount")?;
    // the merchant may say at which rate the returned goods were sold
    let wished = rate::wished(object)?;
    let name = wishes::item_name(object);
    let lines = wished
        .map(|rate| ReturnedLine { line: super::line(&returned_name(name), None, -amount, rate), is_rated: true });
    let held = held_sale(object, default_rate)?;
    Ok(Return {
        ids: object.member("id").id().map(str::to_owned).into_iter().collect(),
        date: object.member("created").day()?,
        lines: lines.into_iter().collect(),
        rate: wished.unwrap_or(default_rate),
        ..common(object, amount, held, &[])?
    })
}

/// Reads a credit note of Stripe's interface.
pub(super) fn credit_note(object: &Node<'_>, default_rate: Rate) -> Result<Return, Problem> {
    object.check_yen()?;
    let status = object.member("status");
    succeeded(status.text() == Some("issued"), &status)?;
    let amount = given_back(object, "total")?;
    let reading = Reading {
        list: object.member("lines"),
        amount: itemized::invoice_amount,
        name: facts::name(object).unwrap_or("返金").to_owned(),
        total: amount,
        is_final: true,
        default_rate,
    };
    let found = itemized::read(object, &reading)?;
    let says_more = found.has_lines || found.items.iter().any(|item| item.is_rated);
    let negative = |Item { mut line, is_rated, .. }: Item| {
        line.unit_price = -line.unit_price;
        ReturnedLine { line, is_rated }
    };
    let mut ids: BTreeSet<String> = object.member("id").id().map(str::to_owned).into_iter().collect();
    ids.extend(object.member("refund").id().map(str::to_owned));
    for part in object.member("refunds").items() {
        ids.extend(part.member("refund").id().map(str::to_owned));
    }
    let held = held_sale(object, default_rate)?;
    let when = [object.member("effective_at"), object.member("created")];
    Ok(Return {
        ids,
        date: day_of(&when)?,
        lines: if says_more { found.items.into_iter().map(negative).collect() } else { Vec::new() },
        rate: rate::wished(object)?.unwrap_or(default_rate),
        warnings: found.warnings,
        ..common(object, amount, held, &[(NamedBy::Payer, object.member("customer_name"))])?
    })
}

fn given_back(object: &Node<'_>, name: &'static str) -> Result<i64, Problem> {
    let amount = object.first_yen(&[name])?;
    if amount > 0 { Ok(amount) } else { Err(object.member(name).problem("should be more than 0")) }
}

/// The values that refunds and credit notes have in the same members.
fn common(
    object: &Node<'_>,
    amount: i64,
    (sale, day): (Option<Sale>, Option<Date>),
    names: &[(NamedBy, Node<'_>)],
) -> Result<Return, Problem> {
    let (recipient, _) = wishes::recipient(object, names);
    let wished = wishes::original_date(&object.member("metadata").member("original_date"))?;
    Ok(Return {
        id: object.member("id").text().unwrap_or_default().to_owned(),
        ids: BTreeSet::new(),
        sale_ids: links::links(object),
        covers: BTreeSet::new(),
        amount,
        is_cumulative: false,
        date: None,
        original_date: wished.or(day.map(document::date)),
        lines: Vec::new(),
        sale,
        rate: Rate::Standard,
        customer: object.member("customer").id().unwrap_or_default().to_owned(),
        recipient,
        wishes: Wishes::of(object),
        warnings: Vec::new(),
    })
}

/// Finds the fullest object of the sale that the object of a return holds, and the day of the sale. An object that is
/// not complete says at most the day.
fn held_sale(object: &Node<'_>, default_rate: Rate) -> Result<(Option<Sale>, Option<Date>), Problem> {
    let (charge, intent, invoice) =
        (object.member("charge"), object.member("payment_intent"), object.member("invoice"));
    let within = [charge.member("invoice"), intent.member("invoice"), intent.member("latest_charge")];
    let held: Vec<Node<'_>> =
        [invoice, charge, intent].into_iter().chain(within).filter(|node| node.value.is_object()).collect();
    let sales = held.iter().filter_map(|node| stripe::sale(node, default_rate).ok());
    let fullest = sales.max_by_key(|sale| sale.fullness).map(Payment::without_refunds);
    let mut day = fullest.as_ref().and_then(|sale| sale.date);
    for node in &held {
        let paid = node.member("status_transitions").member("paid_at");
        day = day.or(day_of(&[paid, node.member("effective_at"), node.member("created")])?);
    }
    Ok((fullest.as_ref().map(Sale::of_payment), day))
}

/// The day of the first of these times that is present.
fn day_of(times: &[Node<'_>]) -> Result<Option<Date>, Problem> {
    times.iter().find(|time| !time.is_missing()).map_or(Ok(None), Node::day)
}
