//! Reads payments of any provider in Ango's own form.

use super::{Payment, Wishes, line, rate};
use crate::document::Problem;
use crate::object::{Node, sum};
use crate::tax::consumption::Rate;

pub(super) fn read(object: &Node<'_>, default_rate: Rate) -> Result<Payment, Problem> {
    object.check_yen()?;
    let main = match own_rate(object)? {
        Some(rate) => rate,
        None => rate::wished(object)?.unwrap_or(default_rate),
    };
    let mut lines = Vec::new();
    for item in object.member("lines").items() {
        let name = item.member("description").text().or(item.member("name").text()).unwrap_or("お支払い");
        let rate = own_rate(&item)?.unwrap_or(main);
        lines.push((line(name, item.member("quantity").value.as_i64(), item.first_yen(&["amount"])?, rate), item));
    }
    let of_lines = sum(object, lines.iter().map(|(_, item)| item.member("amount").value.as_i64().unwrap_or(0)))?;
    let total = match object.member("amount").yen()? {
        Some(total) => total,
        None if !lines.is_empty() => of_lines,
        None => return Err(object.member("amount").problem("is required")),
    };
    let mut lines: Vec<_> = lines.into_iter().map(|(line, _)| line).collect();
    let unexplained = total - of_lines;
    if lines.is_empty() {
        let name = object.member("description").text().unwrap_or("お支払い");
        lines.push(line(name, None, total, main));
    } else if unexplained != 0 {
        lines.push(line("調整額", None, unexplained, main));
    }
    let id = object.member("id").text().unwrap_or_default().to_owned();
    Ok(Payment {
        ids: Some(id.clone()).filter(|id| !id.is_empty()).into_iter().collect(),
        id,
        is_refunded: false,
        is_return: total < 0,
        date: object.member("created").day()?,
        original_date: None,
        recipient: object.member("customer_name").text().unwrap_or_default().to_owned(),
        email: object.member("customer_email").text().map(str::to_owned),
        payment_method: object.member("payment_method").text().map(str::to_owned),
        wishes: Wishes::default(),
        unexplained: if lines.len() > 1 { unexplained } else { 0 },
        lines,
        total,
    })
}

fn own_rate(node: &Node<'_>) -> Result<Option<Rate>, Problem> {
    let given = node.member("tax_rate");
    if given.is_missing() { Ok(None) } else { rate::parse(&given).map(Some) }
}
