//! The facts of a sale's document, kept so that a later return of the sale can be documented.

use serde_json::{Value, json};

use super::Payment;
use super::honorific::honorific_of;
use crate::document::{self, Consignor, Document, Kind, Line};
use crate::registration::RegistrationNumber;
use crate::rounding::Rounding;
use crate::tax::consumption::Rate;

/// The facts of a sale's document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sale {
    /// Number of the document; empty when the sale has no document.
    pub number: String,
    /// Date or period of the sale, as the document prints it; empty when it is not known.
    pub day: String,
    /// Kind of the document.
    pub kind: Kind,
    /// The recipient's name; may be empty.
    pub recipient: String,
    /// The honorific after the name.
    pub honorific: String,
    /// The buyer's e-mail address.
    pub email: Option<String>,
    /// The lines with their discounts, at prices with tax.
    pub lines: Vec<Line>,
    /// How fractions of a yen of tax were rounded.
    pub rounding: Rounding,
    /// The consignor, if the issuer sold as an agent.
    pub consignor: Option<Consignor>,
}

impl Sale {
    /// The facts of a payment's document. The prices of such documents include the tax.
    pub fn of(document: &Document, payment: &Payment) -> Sale {
        let draft = &document.draft;
        let day = payment.date.unwrap_or(draft.issue_date);
        Sale {
            number: draft.number.clone(),
            day: if draft.period.is_empty() { document::date(day) } else { draft.period.clone() },
            kind: draft.kind,
            recipient: draft.recipient.clone(),
            honorific: draft.honorific.clone(),
            email: payment.email.clone(),
            lines: draft.lines.clone(),
            rounding: draft.rounding,
            consignor: draft.consignor.clone(),
        }
    }

    /// The facts of a payment without a document.
    pub(super) fn of_payment(payment: &Payment) -> Sale {
        Sale {
            number: String::new(),
            day: payment.date.map(document::date).unwrap_or_default(),
            kind: Kind::Receipt,
            recipient: payment.recipient.clone(),
            honorific: payment.wishes.honorific.clone().unwrap_or_else(|| honorific_of(payment).to_owned()),
            email: payment.email.clone(),
            lines: payment.lines.clone(),
            rounding: Rounding::default(),
            consignor: None,
        }
    }

    /// The sum of the lines, in yen.
    pub fn total(&self) -> i64 {
        self.lines.iter().filter_map(super::facts::amount_of).fold(0, i64::saturating_add)
    }

    /// Writes the sale as JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let line = |line: &Line| {
            json!({"name": line.name, "unit_price": line.unit_price.to_string(), "quantity": line.quantity.to_string(),
                "tax_rate": line.rate.percent()})
        };
        let consignor = self.consignor.as_ref().map(|consignor| {
            let number = consignor.registration_number.map(|number| number.to_string());
            json!({"name": consignor.name, "registration_number": number})
        });
        let sale = json!({
            "number": self.number, "day": self.day, "kind": self.kind.name(), "recipient": self.recipient,
            "honorific": self.honorific, "email": self.email, "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
            "rounding": rounding_name(self.rounding), "consignor": consignor,
        });
        sale.to_string().into_bytes()
    }

    /// Reads what [`Sale::to_bytes`] wrote; `None` for other bytes.
    pub fn read(bytes: &[u8]) -> Option<Sale> {
        let sale: Value = serde_json::from_slice(bytes).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let line = |value: &Value| {
            Some(Line {
                name: text(&value["name"])?,
                unit_price: value["unit_price"].as_str()?.parse().ok()?,
                quantity: value["quantity"].as_str()?.parse().ok()?,
                rate: Rate::of_percent(value["tax_rate"].as_i64()?)?,
            })
        };
        let consignor = |value: &Value| {
            let number = value["registration_number"].as_str().map(RegistrationNumber::read).transpose().ok()?;
            Some(Consignor { name: text(&value["name"])?, registration_number: number })
        };
        Some(Sale {
            number: text(&sale["number"])?,
            day: text(&sale["day"])?,
            kind: Kind::of_name(sale["kind"].as_str()?)?,
            recipient: text(&sale["recipient"])?,
            honorific: text(&sale["honorific"])?,
            email: text(&sale["email"]),
            lines: sale["lines"].as_array()?.iter().map(line).collect::<Option<_>>()?,
            rounding: Rounding::of_name(sale["rounding"].as_str()?)?,
            consignor: match &sale["consignor"] {
                Value::Null => None,
                given => Some(consignor(given)?),
            },
        })
    }
}

fn rounding_name(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::Floor => "floor",
        Rounding::Round => "round",
        Rounding::Ceil => "ceil",
    }
}
