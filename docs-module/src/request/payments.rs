//! Documents from payments of a provider (specification, PaymentImportIn and PaymentsImportIn; B29, B30). Amounts are
//! tax-inclusive.

use serde_json::Value;

use super::fault::{Place, path};
use super::field::{Field, Object, body_within};
use super::{Given, Refused, parts};
use crate::document::{Document, Draft, LINES_MAX, Problem, Step, Warning};
use crate::payment_import::{Order, Payment, draft_of_all, draft_of_object, first_repeated, read_all};

/// Makes the document that a body of `POST /v1/invoices/from_payment` asks for. In addition to the members of the
/// specification, the body may have `issuer_address`, `issuer_tel`, `recipient_number` and `proviso`.
///
/// # Errors
/// All faults of the body, or that the work was stopped.
pub fn document_of_payment(bytes: &[u8], given: &Given<'_>) -> Result<Document, Refused> {
    body_within(bytes, given.limit, |object| {
        let kind = object.nullable("document_type").and_then(|field| parts::kind(&field));
        let order = Order { recipient: object.nullable_text("recipient"), kind, ..order(object, given) };
        let recipient_number = parts::recipient_number(object);
        let field = object.required("payment_object");
        let payment = field.as_ref().and_then(|field| field.free_object());
        let (provider, default_rate) = (parts::provider(object), parts::default_rate(object));
        let draft = draft_of_object(provider, &payment?, default_rate, order);
        let at = object.at("payment_object");
        match draft {
            Ok((draft, warnings)) => complete(object, Draft { recipient_number, ..draft }, warnings, &at),
            Err(problem) => {
                object.faults().add_problems(&at, vec![problem]);
                None
            }
        }
    })
}

/// Makes the document that a body of `POST /v1/invoices/from_payments` asks for. In addition to the members of the
/// specification, the body may have `issuer_address`, `issuer_tel`, `recipient_number` and `proviso`.
///
/// # Errors
/// All faults of the body, or that the work was stopped.
pub fn document_of_payments(bytes: &[u8], given: &Given<'_>) -> Result<Document, Refused> {
    body_within(bytes, given.limit, |object| {
        let recipient = object.required("recipient").and_then(|field| field.text()).unwrap_or_default();
        let number = Some(object.nullable_text("invoice_number")).filter(|number| !number.is_empty());
        let order = Order {
            recipient,
            kind: object.optional("document_type").and_then(|field| parts::kind(&field)),
            number: number.unwrap_or_else(|| given.number.to_owned()),
            due_date: object.nullable("due_date").and_then(|field| field.date()),
            period: object.nullable_text("period"),
            bank: parts::bank(object),
            transfer_fee_note: object.nullable_text("transfer_fee_note"),
            notes: object.nullable_text("notes"),
            ..order(object, given)
        };
        let recipient_number = parts::recipient_number(object);
        let payments = payments(object)?;
        let warnings = payments.iter().flat_map(|payment| payment.warnings.iter().cloned()).collect();
        let draft = Draft { recipient_number, ..draft_of_all(&payments, order) };
        complete(object, draft, warnings, &object.at("payment_objects"))
    })
}

/// Reads the values that requests for a document of one payment and of many payments have in common.
fn order(object: &Object<'_>, given: &Given<'_>) -> Order {
    Order {
        issuer: parts::issuer(object),
        number: given.number.to_owned(),
        today: given.today,
        recipient: String::new(),
        kind: None,
        rounding: parts::rounding(object),
        consignor: parts::consignor(object),
        due_date: None,
        period: String::new(),
        bank: None,
        transfer_fee_note: String::new(),
        notes: String::new(),
        proviso: object.nullable("proviso").and_then(|field| field.text()),
        receipt_proviso: given.receipt_proviso.to_owned(),
        theme: parts::theme(object),
    }
}

fn payments(object: &Object<'_>) -> Option<Vec<Payment>> {
    let provider = parts::provider(object);
    let default_rate = parts::default_rate(object);
    let fields = object.required("payment_objects")?.filled_list(LINES_MAX)?;
    let objects: Vec<(&Field<'_>, Value)> =
        fields.iter().filter_map(|field| Some((field, field.free_object()?))).collect();
    let values = objects.iter().map(|(_, value)| value).take_while(|_| object.faults().goes_on());
    let payments = match read_all(provider, values, default_rate) {
        Ok(payments) => payments,
        Err(problems) => {
            for (at, problem) in problems {
                object.faults().add_problems(&objects[at].0.at, vec![problem]);
            }
            return None;
        }
    };
    if payments.len() < fields.len() {
        return None;
    }
    if let Some(at) = first_repeated(&payments) {
        return fields[at].refuse("value_error", "is the same payment as an earlier one", None);
    }
    Some(payments)
}

/// Completes a draft. Problems of values that came from the payments are reported at `at`, the path to the payments.
fn complete(object: &Object<'_>, draft: Draft, warnings: Vec<String>, at: &[Place]) -> Option<Document> {
    let problems = match draft.complete() {
        Ok(mut document) => {
            document.warnings.extend(warnings.into_iter().map(Warning::Payment));
            return Some(document);
        }
        Err(problems) => problems,
    };
    let is_of_payments = |problem: &Problem| match problem.at.first() {
        Some(Step::Field("items" | "payment_method" | "original_date" | "recipient_honorific")) => true,
        Some(Step::Field(name)) => object.optional(name).is_none(),
        _ => true,
    };
    for problem in problems {
        if is_of_payments(&problem) {
            let loc: Vec<Place> = [Place::from("body")].into_iter().chain(problem.at.iter().map(Place::from)).collect();
            let message = format!("makes an invalid document: {} {}", path(&loc), problem.message);
            object.faults().add_problems(at, vec![Problem { at: Vec::new(), message }]);
        } else {
            object.faults().add_problems(&["body".into()], vec![problem]);
        }
    }
    None
}
