//! Reads payments and returns of any provider in Ango's own form.

use super::facts::{self, Facts};
use super::itemized::{Item, Itemized, UNNAMED, adjusted};
use super::links::Identity;
use super::{Announced, Fullness, NamedBy, Return, ReturnedLine, Wishes, line, rate, wishes};
use crate::document::Problem;
use crate::object::{Node, sum};
use crate::tax::consumption::Rate;

/// Value of `type` of a return.
const REFUND: &str = "refund";

pub(super) fn read(object: &Node<'_>, default_rate: Rate) -> Result<Announced, Problem> {
    object.check_yen()?;
    let is_refund = object.member("type").text() == Some(REFUND);
    let (total, itemized) = itemized(object, default_rate)?;
    if is_refund || total < 0 {
        return returned(object, total, itemized, default_rate).map(Announced::Return);
    }
    let id = object.member("id").text().map(str::to_owned);
    let facts = Facts {
        identity: Identity {
            ids: id.into_iter().collect(),
            invoice_id: None,
            customer: String::new(),
            fullness: Fullness::Invoice,
        },
        gross: total,
        refunded: 0,
        itemized,
        is_final: true,
        when: object.member("created"),
        names: vec![(NamedBy::Payer, object.member("customer_name"))],
        emails: vec![object.member("customer_email")],
        method: object.member("payment_method").text(),
        warnings: Vec::new(),
    };
    facts::payment(object, facts).map(Announced::Sale)
}

/// The total and the lines of an object, with the signs that the object gives them.
fn itemized(object: &Node<'_>, default_rate: Rate) -> Result<(i64, Itemized), Problem> {
    let given = match own_rate(object)? {
        Some(rate) => Some(rate),
        None => rate::wished(object)?,
    };
    let main = given.unwrap_or(default_rate);
    let mut items = Vec::new();
    for entry in object.member("lines").items() {
        let name = entry.member("description").text().or(entry.member("name").text()).unwrap_or(UNNAMED);
        let own = own_rate(&entry)?;
        let amount = entry.first_yen(&["amount"])?;
        let line = line(name, entry.member("quantity").value.as_i64(), amount, own.unwrap_or(main));
        items.push(Item { line, amount, is_rated: own.or(given).is_some() });
    }
    let of_lines = sum(object, items.iter().map(|item| item.amount))?;
    let has_lines = !items.is_empty();
    let total = match object.member("amount").yen()? {
        Some(total) => total,
        None if has_lines => of_lines,
        None => return Err(object.member("amount").problem("is required")),
    };
    // a return may have an amount with a sign and lines without one
    let total = if has_lines && total == -of_lines { of_lines } else { total };
    let (mut unexplained, mut warnings) = (0, Vec::new());
    if !has_lines {
        let name = facts::name(object).unwrap_or(UNNAMED);
        items.push(Item { line: line(name, None, total, main), amount: total, is_rated: given.is_some() });
    } else if total != of_lines {
        unexplained = sum(object, [total, -of_lines])?;
        items.push(Item {
            line: line("調整額", None, unexplained, main),
            amount: unexplained,
            is_rated: given.is_some(),
        });
        warnings.push(adjusted(unexplained, main));
    }
    Ok((total, Itemized { items, has_lines, unexplained, warnings }))
}

/// Makes a return. The amount and the lines of the object may be positive or negative.
fn returned(object: &Node<'_>, total: i64, itemized: Itemized, default_rate: Rate) -> Result<Return, Problem> {
    if total == 0 {
        return Err(object.member("amount").problem("should not be 0"));
    }
    let says_more = itemized.has_lines || itemized.items.iter().any(|item| item.is_rated);
    let rate = itemized.items.first().map_or(default_rate, |item| item.line.rate);
    let negative = |Item { mut line, is_rated, .. }: Item| {
        if total > 0 {
            line.unit_price = -line.unit_price;
        }
        ReturnedLine { line, is_rated }
    };
    let (recipient, _) = wishes::recipient(object, &[(NamedBy::Payer, object.member("customer_name"))]);
    let own = wishes::original_date(&object.member("original_date"))?;
    let in_metadata = wishes::original_date(&object.member("metadata").member("original_date"))?;
    let id = object.member("id").text().unwrap_or_default().to_owned();
    Ok(Return {
        ids: Some(id.clone()).filter(|id| !id.is_empty()).into_iter().collect(),
        id,
        sale_ids: object.member("original_id").text().map(str::to_owned).into_iter().collect(),
        covers: Default::default(),
        amount: total.abs(),
        is_cumulative: false,
        date: object.member("created").day()?,
        original_date: own.or(in_metadata),
        lines: if says_more { itemized.items.into_iter().map(negative).collect() } else { Vec::new() },
        sale: None,
        rate,
        customer: String::new(),
        recipient,
        wishes: Wishes::of(object),
        warnings: itemized.warnings,
    })
}

fn own_rate(node: &Node<'_>) -> Result<Option<Rate>, Problem> {
    let given = node.member("tax_rate");
    if given.is_missing() { Ok(None) } else { rate::parse(&given).map(Some) }
}
