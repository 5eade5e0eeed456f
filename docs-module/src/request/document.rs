//! A document from explicit line items (specification, InvoiceIn).

use rust_decimal::Decimal;

use super::fault::Faults;
use super::field::{Field, Object, body_within};
use super::{Fault, Given, Refused, parts};
use crate::document::{Document, Draft, LINES_MAX, Line, NoXml};
use crate::tax::consumption::{Basis, Rate};

/// Makes the document that a body of `POST /v1/invoices` asks for. In addition to the members of the specification, the
/// body may have `recipient_number`, the recipient's registration or corporate number, `original_number`, the number of
/// the original document for a credit note or a corrected invoice, and `proviso`, for what the money of a receipt was
/// paid.
///
/// # Errors
/// All faults of the body, or that the work was stopped.
pub fn document(bytes: &[u8], given: &Given<'_>) -> Result<Document, Refused> {
    body_within(bytes, given.limit, |object| {
        // a path in a draft is also a path in the body, because both use the same names of members
        let told = |problems| object.faults().add_problems(&["body".into()], problems);
        draft(object, given).complete().map_err(told).ok()
    })
}

/// Writes a document as JP PINT, for a request with `format=xml`.
///
/// # Errors
/// A fault for each member that JP PINT requires and that is missing or cannot be read, or one fault of `format`.
pub fn xml(document: &Document) -> Result<String, Vec<Fault>> {
    document.xml().map_err(|error| match error {
        NoXml::Kind => vec![Fault::of_query("format", "xml", &["pdf", "html"])],
        NoXml::Members(problems) => {
            let faults = Faults::default();
            faults.add_problems(&["body".into()], problems);
            faults.into_vec()
        }
    })
}

/// Reads the draft of a request. A filler replaces each value that has a fault, so that the other members are checked
/// too.
fn draft(object: &Object<'_>, given: &Given<'_>) -> Draft {
    let lines = object.required("items").and_then(|field| field.filled_list(LINES_MAX));
    let lines = lines.map_or_else(|| vec![filler()], |lines| lines.iter().map(line).collect());
    let honorific = object.optional("recipient_honorific").and_then(|field| field.text());
    let is_inclusive = object.optional("tax_inclusive").and_then(|field| field.boolean()).unwrap_or(false);
    let kind = object.optional("document_type").and_then(|field| parts::kind(&field)).unwrap_or_default();
    let number = Some(object.nullable_text("invoice_number")).filter(|number| !number.is_empty());
    let original = Some(object.nullable_text("original_number")).filter(|number| !number.is_empty());
    Draft {
        kind,
        number: number.unwrap_or_else(|| given.number.to_owned()),
        issue_date: object.nullable("issue_date").and_then(|field| field.date()).unwrap_or(given.today),
        due_date: object.nullable("due_date").and_then(|field| field.date()),
        recipient: object.text("recipient"),
        recipient_number: parts::recipient_number(object),
        honorific: honorific.unwrap_or_else(|| "御中".to_owned()),
        basis: if is_inclusive { Basis::Inclusive } else { Basis::Exclusive },
        rounding: parts::rounding(object),
        withholding: parts::withholding(object),
        period: object.nullable_text("period"),
        payment_method: object.nullable_text("payment_method"),
        original_date: object.nullable_text("original_date"),
        original_number: original.unwrap_or_else(|| given.original_number.to_owned()),
        proviso: object.nullable_text("proviso"),
        bank: parts::bank(object),
        transfer_fee_note: object.nullable_text("transfer_fee_note"),
        consignor: parts::consignor(object),
        notes: object.nullable_text("notes"),
        theme: parts::theme(object),
        issuer: parts::issuer(object),
        lines,
    }
}

/// Makes a line item that stands in for a line item with faults.
fn filler() -> Line {
    Line { name: "-".to_owned(), unit_price: Decimal::ZERO, quantity: Decimal::ONE, rate: Rate::Standard }
}

fn line(field: &Field<'_>) -> Line {
    let Some(object) = field.object() else { return filler() };
    let name = object.required("name").and_then(|field| field.text());
    let unit_price = object.required("unit_price").and_then(|field| field.decimal());
    let rate = object.required("tax_rate").and_then(|field| parts::rate(&field));
    let quantity = match object.optional("qty") {
        None => Some(Decimal::ONE),
        Some(field) => field.decimal(),
    };
    let filler = filler();
    Line {
        name: name.unwrap_or(filler.name),
        unit_price: unit_price.unwrap_or(filler.unit_price),
        quantity: quantity.unwrap_or(filler.quantity),
        rate: rate.unwrap_or(filler.rate),
    }
}
