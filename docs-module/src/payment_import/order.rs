//! The common parts of drafts of sales and of returns.

use time::Date;

use super::Wishes;
use crate::document::{self, BankAccount, Consignor, Draft, Issuer, Kind, Problem, Step, Theme};
use crate::registration::RegistrationNumber;
use crate::rounding::Rounding;
use crate::tax::consumption::Basis;

/// Values that the request gives. A value that is empty or `None` comes from the payments, or is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The issuer.
    pub issuer: Issuer,
    /// The document's number, unless the metadata of the payment gives another one.
    pub number: String,
    /// Today: the date of a document for many payments, or for one payment without a time.
    pub today: Date,
    /// The recipient's name.
    pub recipient: String,
    /// The kind of document.
    pub kind: Option<Kind>,
    /// How fractions of a yen are rounded.
    pub rounding: Rounding,
    /// The consignor, when the issuer sells as an agent.
    pub consignor: Option<Consignor>,
    /// The date by which to pay.
    pub due_date: Option<Date>,
    /// The period of the sales, as text.
    pub period: String,
    /// The bank account to pay to.
    pub bank: Option<BankAccount>,
    /// A note that says who bears the fee of a bank transfer.
    pub transfer_fee_note: String,
    /// Free text.
    pub notes: String,
    /// For what the money was paid (但し書き); `None`: a receipt has that of `receipt_proviso`.
    pub proviso: Option<String>,
    /// The same for the issuer's receipts; empty: the first line's name. Other documents have none.
    pub receipt_proviso: String,
    /// Colour and pictures.
    pub theme: Theme,
}

impl Order {
    /// An order that leaves everything else to the payments.
    pub fn new(issuer: Issuer, number: String, today: Date) -> Order {
        Order {
            issuer,
            number,
            today,
            recipient: String::new(),
            kind: None,
            rounding: Rounding::Floor,
            consignor: None,
            due_date: None,
            period: String::new(),
            bank: None,
            transfer_fee_note: String::new(),
            notes: String::new(),
            proviso: None,
            receipt_proviso: String::new(),
            theme: Theme::default(),
        }
    }
}

/// A draft with the values of an order.
pub(super) fn base(order: Order, lines: Vec<document::Line>, kind: Kind, issue_date: Date) -> Draft {
    Draft {
        kind,
        number: order.number,
        issue_date,
        due_date: order.due_date,
        issuer: order.issuer,
        recipient: order.recipient,
        recipient_number: None,
        honorific: String::new(),
        lines,
        basis: Basis::Inclusive,
        rounding: order.rounding,
        withholding: None,
        period: order.period,
        payment_method: String::new(),
        original_date: String::new(),
        original_number: String::new(),
        proviso: order.proviso.unwrap_or(if kind == Kind::Receipt { order.receipt_proviso } else { String::new() }),
        bank: order.bank,
        transfer_fee_note: order.transfer_fee_note,
        consignor: order.consignor,
        notes: order.notes,
        theme: order.theme,
    }
}

/// The consignor that the order names, else the one that the metadata names.
pub(super) fn consignor(order: &Order, wishes: &Wishes) -> Result<Option<Consignor>, Problem> {
    if order.consignor.is_some() {
        return Ok(order.consignor.clone());
    }
    let Some(name) = wishes.consignor.clone() else { return Ok(None) };
    let given = wishes.consignor_registration_number.as_deref();
    let registration_number = given.map(RegistrationNumber::read).transpose();
    let registration_number =
        registration_number.map_err(|error| wish_problem("consignor_registration_number", &error.to_string()))?;
    Ok(Some(Consignor { name, registration_number }))
}

/// The problem of a wish in metadata.
pub(super) fn wish_problem(name: &'static str, message: &str) -> Problem {
    Problem { at: vec![Step::Field("metadata"), Step::Field(name)], message: message.to_owned() }
}
