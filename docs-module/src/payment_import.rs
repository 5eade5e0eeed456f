//! Reads payment objects of payment providers into lines of documents (B29, B30). Amounts include tax.

mod draft;
mod generic;
mod rate;
mod stripe;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use draft::{Order, draft_of_all, draft_of_one};
use rust_decimal::Decimal;
use serde_json::Value;
use time::Date;

use crate::document::{LINES_MAX, Line, Problem};
use crate::object::Node;
use crate::tax::consumption::Rate;

/// The provider whose payment objects are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// Stripe: payment intents, charges, checkout sessions, invoices, refunds and credit notes, of old and new versions of its interface.
    #[default]
    Stripe,
    /// PAY.JP: charges, which have the same members as Stripe's.
    Payjp,
    /// Any other provider: `amount`, `currency`, `description`, `created`, `customer_name`, `tax_rate`, `lines`.
    Generic,
}

impl Provider {
    /// Values of `provider`, in the order of the variants.
    pub const NAMES: [&str; 3] = ["stripe", "payjp", "generic"];

    /// Finds the provider that a value of `provider` names.
    pub fn of_name(name: &str) -> Option<Provider> {
        match name {
            "stripe" => Some(Provider::Stripe),
            "payjp" => Some(Provider::Payjp),
            "generic" => Some(Provider::Generic),
            _ => None,
        }
    }
}

/// A payment, or a return of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Id of the object; empty when the object has none.
    pub id: String,
    /// Ids of the object and of other objects that report the same payment. Two payments that share an id are the same
    /// payment.
    pub ids: BTreeSet<String>,
    /// The lines, at least one: first what was sold, at prices with tax, then refunds as negative lines.
    pub lines: Vec<Line>,
    /// The sum of the lines, in yen.
    pub total: i64,
    /// Whether the whole payment was refunded.
    pub is_refunded: bool,
    /// Whether the object is itself a return, with negative lines.
    pub is_return: bool,
    /// The date of the payment in Tokyo; `None`: the object has no time.
    pub date: Option<Date>,
    /// The date of the sale that a return cancels; `None`: the object does not contain the sale.
    pub original_date: Option<Date>,
    /// The recipient's name; empty when the object contains none.
    pub recipient: String,
    /// The buyer's e-mail address.
    pub email: Option<String>,
    /// The way of payment, as the provider calls it.
    pub payment_method: Option<String>,
    /// The merchant's wishes in the object's metadata.
    pub wishes: Wishes,
    /// Total minus the sum of the object's lines, in yen. An added adjustment line has this amount.
    pub unexplained: i64,
}

/// The merchant's wishes for a document, from an object's metadata. A missing member means no wish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Value of `recipient_honorific`.
    pub honorific: Option<String>,
    /// Value of `invoice_number`.
    pub invoice_number: Option<String>,
    /// Value of `document_type`.
    pub document_type: Option<String>,
    /// Value of `consignor`.
    pub consignor: Option<String>,
    /// Value of `consignor_registration_number`.
    pub consignor_registration_number: Option<String>,
    /// Whether `do_not_invoice` is true.
    pub do_not_invoice: bool,
}

/// Reads a payment object. A line without its own rate has `default_rate`.
///
/// # Errors
/// When the object is of no known kind, the payment did not succeed or is not in yen, or a member is missing or wrong.
/// The path of the problem begins at the object.
pub fn read(provider: Provider, object: &Value, default_rate: Rate) -> Result<Payment, Problem> {
    let node = Node::of(object, Vec::new());
    if !object.is_object() {
        return Err(node.problem("should be an object"));
    }
    let payment = match provider {
        Provider::Stripe => stripe::read(&node, default_rate),
        Provider::Payjp => stripe::read_charge(&node, default_rate),
        Provider::Generic => generic::read(&node, default_rate),
    }?;
    if payment.lines.len() > LINES_MAX {
        return Err(node.problem(&format!("should have at most {LINES_MAX} lines")));
    }
    Ok(payment)
}

/// Finds the index of the first payment that repeats an earlier payment: the two payments share an id (B30).
pub fn first_repeated(payments: &[Payment]) -> Option<usize> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    payments.iter().position(|payment| {
        let is_repeated = payment.ids.iter().any(|id| seen.contains(id.as_str()));
        seen.extend(payment.ids.iter().map(String::as_str));
        is_repeated
    })
}

/// Collects the lines of many payments for one document, sorted by date. The name of each line begins with the month
/// and the day of the line's payment.
pub fn lines_of_all(payments: &[Payment]) -> Vec<Line> {
    let mut ordered: Vec<&Payment> = payments.iter().collect();
    ordered.sort_by_key(|payment| payment.date);
    let dated = |payment: &Payment, line: &Line| {
        let day = payment.date.map(|date| format!("{}/{} ", u8::from(date.month()), date.day())).unwrap_or_default();
        Line { name: format!("{day}{}", line.name), ..line.clone() }
    };
    ordered.into_iter().flat_map(|payment| payment.lines.iter().map(|line| dated(payment, line))).collect()
}

/// Makes a line of `amount` yen. If each of the `quantity` units costs whole yen, the line has this quantity. Otherwise
/// the line has one unit, and its name states the quantity.
fn line(name: &str, quantity: Option<i64>, amount: i64, rate: Rate) -> Line {
    let pieces = quantity.filter(|pieces| *pieces > 1 && amount % pieces == 0).unwrap_or(1);
    let name = match quantity {
        Some(count) if count > 1 && pieces == 1 => format!("{name} × {count}"),
        _ => name.to_owned(),
    };
    Line { name, unit_price: Decimal::from(amount / pieces), quantity: Decimal::from(pieces), rate }
}
