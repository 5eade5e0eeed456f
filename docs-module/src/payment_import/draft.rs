//! Drafts of documents from payments. The issuer comes from the request or the profile, the lines from the payments.

use serde_json::Value;

use super::honorific::{honorific, honorific_of};
use super::order::{Order, base, consignor, wish_problem};
use super::return_draft::draft_of_return;
use super::returns::no_original_date;
use super::{Announced, Payment, Provider, Return, lines_of_all, read_any};
use crate::document::{self, Draft, Kind, Problem};
use crate::tax::consumption::Rate;

/// Makes the draft for one payment object, and the warnings about it.
///
/// # Errors
/// Those of [`super::read`], [`draft_of_one`] and [`draft_of_return`]. A sale that was completely refunded has no
/// document but a credit note.
pub fn draft_of_object(
    provider: Provider,
    object: &Value,
    default_rate: Rate,
    order: Order,
) -> Result<(Draft, Vec<String>), Problem> {
    let problem = |message: &str| Err(Problem { at: Vec::new(), message: message.to_owned() });
    match read_any(provider, object, default_rate)? {
        Announced::Sale(payment) => {
            let draft = draft_of_one(&payment, order)?;
            if payment.is_refunded && draft.kind != Kind::CreditNote {
                return problem("should be a payment that was not completely refunded");
            }
            Ok((draft, payment.warnings))
        }
        Announced::Return(_) if order.kind.is_some_and(|kind| kind != Kind::CreditNote) => {
            problem("is a return, so its document_type should be credit_note")
        }
        Announced::Return(returned) => {
            Ok((draft_of_return(&returned, returned.amount, None, order)?, returned.warnings))
        }
    }
}

/// Makes the draft for one payment: by default a receipt, or a credit note for a return. A credit note for a sale is
/// that of all that was given back of the sale.
///
/// # Errors
/// When the metadata asks for a document that cannot be made, or the document needs the date of a sale that is not
/// known. The path of the problem begins at the payment object.
pub fn draft_of_one(payment: &Payment, order: Order) -> Result<Draft, Problem> {
    let wishes = &payment.wishes;
    let wished_kind = match &wishes.document_type {
        None => None,
        Some(name) => Some(Kind::of_name(name).ok_or_else(|| wish_problem("document_type", "is not a document type"))?),
    };
    let default_kind = if payment.is_return { Kind::CreditNote } else { Kind::Receipt };
    let kind = order.kind.or(wished_kind).unwrap_or(default_kind);
    if kind == Kind::CreditNote && !payment.is_return {
        return draft_of_return(&Return::of_refunds(payment), payment.refunded, None, order);
    }
    let consignor = consignor(&order, wishes)?;
    let day = payment.date.unwrap_or(order.today);
    let is_asked = !order.recipient.is_empty();
    let recipient = if is_asked { order.recipient.clone() } else { payment.recipient.clone() };
    let by_name = if is_asked { honorific(&recipient) } else { honorific_of(payment) };
    let honorific = wishes.honorific.clone().unwrap_or_else(|| by_name.to_owned());
    let day_of_sale = payment.date.filter(|_| !payment.is_return).map(document::date);
    let original_date = match kind.needs_original() {
        true => payment.original_date.clone().or(day_of_sale).ok_or_else(no_original_date)?,
        false => String::new(),
    };
    let number = wishes.invoice_number.clone().unwrap_or_else(|| order.number.clone());
    let payment_method = payment.payment_method.clone().unwrap_or_default();
    let draft = base(Order { recipient, consignor, number, ..order }, payment.lines.clone(), kind, day);
    Ok(Draft { honorific, original_date, payment_method, ..draft })
}

/// Makes one draft for many payments: by default an invoice. If the order states no period, the period runs from the
/// first payment to the last.
pub fn draft_of_all(payments: &[Payment], order: Order) -> Draft {
    let kind = order.kind.unwrap_or(Kind::Invoice);
    let days = || payments.iter().filter_map(|payment| payment.date);
    let period = match (days().min(), days().max()) {
        _ if !order.period.is_empty() => order.period.clone(),
        (Some(first), Some(last)) if first == last => document::date(first),
        (Some(first), Some(last)) => format!("{}〜{}", document::date(first), document::date(last)),
        _ => String::new(),
    };
    let honorific = honorific(&order.recipient).to_owned();
    let original_date = if kind.needs_original() { period.clone() } else { String::new() };
    let today = order.today;
    let draft = base(Order { period, ..order }, lines_of_all(payments), kind, today);
    Draft { honorific, original_date, ..draft }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::date;

    use super::*;
    use crate::document::{Issuer, Step};
    use crate::payment_import::read;
    use crate::registration::RegistrationNumber;

    fn order() -> Order {
        let issuer = Issuer {
            name: "株式会社あんご".to_owned(),
            registration_number: RegistrationNumber::read("T7000012050002").unwrap(),
            address: String::new(),
            tel: String::new(),
        };
        Order::new(issuer, "20251201-AAAAAAAA".to_owned(), date!(2025 - 12 - 31))
    }

    fn payment(name: &str, created: i64, metadata: serde_json::Value) -> Payment {
        let object = json!({"id": format!("ch_{created}"), "object": "charge", "paid": true, "captured": true, "status": "succeeded",
            "currency": "jpy", "amount": 1000, "created": created, "billing_details": {"name": name}, "metadata": metadata,
            "payment_method_details": {"type": "card"}});
        read(Provider::Stripe, &object, Rate::Standard).unwrap()
    }

    #[test]
    fn b23_one_payment_is_a_receipt_in_the_buyer_s_name() {
        let draft = draft_of_one(&payment("山田太郎", 1_764_514_800, json!({})), order()).unwrap();
        assert_eq!((draft.kind, draft.recipient.as_str(), draft.honorific.as_str()), (Kind::Receipt, "山田太郎", "様"));
        assert_eq!((draft.issue_date, draft.payment_method.as_str()), (date!(2025 - 12 - 01), "card"));
        let document = draft.complete().unwrap();
        assert_eq!((document.totals.total.gross, document.totals.total.tax), (1_000, 90));
        assert!(document.html().contains("クレジットカード利用"));
        let wishes = json!({"document_type": "invoice", "recipient": "株式会社みらい", "invoice_number": "A-1", "consignor": "青果店",
            "consignor_registration_number": "T1180301018771"});
        let draft = draft_of_one(&payment("山田太郎", 0, wishes), order()).unwrap();
        assert_eq!((draft.kind, draft.number.as_str(), draft.honorific.as_str()), (Kind::Invoice, "A-1", "御中"));
        assert!(draft.consignor.unwrap().registration_number.is_some());
        // the request takes precedence over the metadata
        let asked = Order { recipient: "佐藤".to_owned(), kind: Some(Kind::SimplifiedInvoice), ..order() };
        let draft = draft_of_one(&payment("山田太郎", 0, json!({"document_type": "invoice"})), asked).unwrap();
        assert_eq!((draft.kind, draft.recipient.as_str()), (Kind::SimplifiedInvoice, "佐藤"));
    }

    #[test]
    fn wishes_that_cannot_be_met_are_told() {
        for (name, value) in [("document_type", "poem"), ("consignor_registration_number", "T1")] {
            let wishes = json!({name: value, "consignor": "青果店"});
            let problem = draft_of_one(&payment("x", 0, wishes), order()).unwrap_err();
            assert_eq!(problem.at, [Step::Field("metadata"), Step::Field(name)]);
        }
    }

    #[test]
    fn a_return_is_a_credit_note_of_the_day_of_its_sale() {
        let refund = |charge: serde_json::Value| {
            let object = json!({"id": "re_1", "object": "refund", "status": "succeeded", "amount": 500, "currency": "jpy",
                "created": 1_764_514_800, "charge": charge});
            draft_of_one(&read(Provider::Stripe, &object, Rate::Standard).unwrap(), order())
        };
        let known = refund(json!({"id": "ch_1", "created": 1_762_000_000})).unwrap();
        assert_eq!((known.kind, known.original_date.as_str()), (Kind::CreditNote, "2025年11月1日"));
        assert_eq!(known.complete().unwrap().totals.total.gross, -500);
        let unknown = refund(json!("ch_1")).unwrap_err();
        assert_eq!(unknown.at, [Step::Field("metadata"), Step::Field("original_date")]);
    }

    #[test]
    fn b30_many_payments_are_one_invoice_of_their_time() {
        let payments = [
            payment("x", 1_764_514_800, json!({})),
            payment("x", 1_764_000_000, json!({})),
            payment("x", 1_764_100_000, json!({})),
        ];
        let draft = draft_of_all(&payments, Order { recipient: "みらい株式会社".to_owned(), ..order() });
        assert_eq!(
            (draft.kind, draft.honorific.as_str(), draft.issue_date),
            (Kind::Invoice, "御中", date!(2025 - 12 - 31))
        );
        assert_eq!(draft.period, "2025年11月25日〜2025年12月1日");
        // the tax is computed once on the sum, not once per payment
        assert_eq!(draft.complete().unwrap().totals.total.tax, 272);
        let given = draft_of_all(&payments, Order { period: "11月分".to_owned(), ..order() });
        assert_eq!(given.period, "11月分");
    }
}
