//! Reads payment objects of payment providers into lines of documents (B29, B30). Amounts include tax.
//!
//! Several objects report one sale: a charge, an intent, a session, an invoice. `links` reads which objects belong
//! together, and [`Fullness`] says which of them knows most.

mod draft;
mod facts;
mod generic;
mod honorific;
mod itemized;
mod links;
mod order;
mod payjp;
mod rate;
mod return_draft;
mod returns;
mod sale;
mod stripe;
mod stripe_returns;
#[cfg(test)]
mod tests;
mod together;
mod wishes;

use std::collections::BTreeSet;

pub use draft::{draft_of_all, draft_of_object, draft_of_one};
pub use links::Identity;
pub use order::Order;
pub use return_draft::draft_of_return;
pub use returns::{Return, ReturnedLine};
use rust_decimal::Decimal;
pub use sale::Sale;
use serde_json::Value;
use time::Date;
pub use together::{first_repeated, lines_of_all, read_all};
pub use wishes::{NamedBy, Wishes};

use crate::document::{LINES_MAX, Line, Problem};
use crate::object::Node;
use crate::tax::consumption::Rate;

/// Type of the event that tells, with a charge, how much of the charge was given back.
const REFUNDED_EVENT: &str = "charge.refunded";

/// The provider whose payment objects are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// Stripe: payment intents, charges, checkout sessions, invoices, refunds and credit notes, of old and new versions
    /// of its interface.
    #[default]
    Stripe,
    /// PAY.JP: charges.
    Payjp,
    /// Any other provider, in Ango's own form: `id`, `amount`, `currency`, `created`, `lines` and others.
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

    /// The value of `provider` for this provider.
    pub fn name(self) -> &'static str {
        Provider::NAMES[self as usize]
    }
}

/// How much an object of a sale knows about the sale, least first. The fullest object of a sale makes its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fullness {
    /// The amount and the name on the card.
    Charge,
    /// The amount, and perhaps the charge.
    Intent,
    /// The buyer's name, the e-mail address and the fields that the buyer filled in.
    Session,
    /// A session with its lines.
    ItemizedSession,
    /// The lines, the rates and the buyer. Objects of [`Provider::Generic`] count as invoices.
    Invoice,
}

/// A payment, or a return of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Id of the object; empty when the object has none.
    pub id: String,
    /// Ids of the object and of other objects that report the same payment. Two payments that share an id are the same
    /// payment.
    pub ids: BTreeSet<String>,
    /// Of a return, the ids of its sale; otherwise empty.
    pub sale_ids: BTreeSet<String>,
    /// How much the object knows about the sale.
    pub fullness: Fullness,
    /// Whether no fuller object of this sale can exist.
    pub is_final: bool,
    /// Id of the invoice that the object names; of an invoice, its own id.
    pub invoice_id: Option<String>,
    /// The provider's id of the customer; may be empty.
    pub customer: String,
    /// The lines, at least one: first what was sold, at prices with tax, then refunds as negative lines.
    pub lines: Vec<Line>,
    /// Number of the last lines that are refunds.
    refund_lines: usize,
    /// The amount that was charged, before refunds, in yen.
    pub gross: i64,
    /// The amount that was given back, as far as the object says, in yen; at least 0.
    pub refunded: i64,
    /// The sum of the lines, in yen: [`Payment::gross`] less [`Payment::refunded`].
    pub total: i64,
    /// Whether the whole payment was refunded.
    pub is_refunded: bool,
    /// Whether the object is itself a return, with negative lines.
    pub is_return: bool,
    /// The date of the payment in Tokyo; `None`: the object has no time.
    pub date: Option<Date>,
    /// The time of the payment, in seconds since 1970: of an invoice, when it was paid.
    pub paid_at: Option<i64>,
    /// Of a return, the date or period of the sale, as documents print it; `None`: the object does not say it.
    pub original_date: Option<String>,
    /// The recipient's name; empty when the object contains none.
    pub recipient: String,
    /// The giver of the recipient's name.
    pub named_by: NamedBy,
    /// The buyer's e-mail address.
    pub email: Option<String>,
    /// The way of payment, as the provider calls it.
    pub payment_method: Option<String>,
    /// The merchant's wishes in the object's metadata.
    pub wishes: Wishes,
    /// Total minus the sum of the object's lines, in yen. Added adjustment lines have this amount.
    pub unexplained: i64,
    /// Warnings about the document of this payment, each one line of ASCII.
    pub warnings: Vec<String>,
}

impl Payment {
    /// Removes the refund lines, for a document whose refunds get return invoices of their own.
    #[must_use]
    pub fn without_refunds(mut self) -> Payment {
        self.lines.truncate(self.lines.len() - self.refund_lines);
        Payment { refund_lines: 0, refunded: 0, total: self.gross, is_refunded: false, ..self }
    }
}

/// The sale or return that a provider's object announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announced {
    /// A sale that was paid.
    Sale(Payment),
    /// A return of a sale, or of a part of one.
    Return(Return),
}

/// Reads the object of an event. `event_type` is the event's type as the provider calls it: a charge of
/// `charge.refunded` is a return. A line without its own rate has `default_rate`.
///
/// # Errors
/// When the object is of no known kind, the payment did not succeed or is not in yen, or a member is missing or wrong.
/// An object of [`Provider::Generic`] needs an id. The path of the problem begins at the object.
pub fn announced(
    provider: Provider,
    event_type: &str,
    object: &Value,
    default_rate: Rate,
) -> Result<Announced, Problem> {
    let found = read_any(provider, object, default_rate)?;
    let node = Node::of(object, Vec::new());
    let id = node.member("id");
    if provider == Provider::Generic && id.text().is_none() {
        return Err(id.problem("is required, because it tells payments apart"));
    }
    match found {
        Announced::Sale(payment) if event_type == REFUNDED_EVENT => {
            Ok(Announced::Return(Return::of_refunds(&payment).with_refunds_of(&node)?))
        }
        found => Ok(found),
    }
}

/// Reads by which names a sale is known, of an object of which perhaps no payment can be read.
pub fn identity(object: &Value) -> Identity {
    Identity::of(&Node::of(object, Vec::new()))
}

/// Reads a payment object. A line without its own rate has `default_rate`. A return has negative lines.
///
/// # Errors
/// Those of [`announced`], but no object needs an id.
pub fn read(provider: Provider, object: &Value, default_rate: Rate) -> Result<Payment, Problem> {
    match read_any(provider, object, default_rate)? {
        Announced::Sale(payment) => Ok(payment),
        Announced::Return(returned) => returned.payment(),
    }
}

fn read_any(provider: Provider, object: &Value, default_rate: Rate) -> Result<Announced, Problem> {
    let node = Node::of(object, Vec::new());
    if !object.is_object() {
        return Err(node.problem("should be an object"));
    }
    let found = match provider {
        Provider::Stripe => match node.member("object").text() {
            Some("refund") => stripe_returns::refund(&node, default_rate).map(Announced::Return),
            Some("credit_note") => stripe_returns::credit_note(&node, default_rate).map(Announced::Return),
            _ => stripe::sale(&node, default_rate).map(Announced::Sale),
        },
        Provider::Payjp => payjp::read(&node, default_rate).map(Announced::Sale),
        Provider::Generic => generic::read(&node, default_rate),
    }?;
    let lines = match &found {
        Announced::Sale(payment) => payment.lines.len(),
        Announced::Return(returned) => returned.lines.len(),
    };
    if lines > LINES_MAX {
        return Err(node.problem(&format!("should have at most {LINES_MAX} lines")));
    }
    Ok(found)
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
