//! Drafts of documents from payments. The issuer comes from the request or the profile, the lines from the payments.

use time::Date;

use super::{Payment, lines_of_all};
use crate::document::{self, BankAccount, Consignor, Draft, Issuer, Kind, Problem, Step, Theme};
use crate::reconcile::{NameKind, key};
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
    /// Colour and pictures.
    pub theme: Theme,
}

/// Makes the draft for one payment: by default a receipt, or a credit note for a return.
///
/// # Errors
/// When the metadata asks for a document that cannot be made. The path of the problem begins at the payment object.
pub fn draft_of_one(payment: &Payment, order: Order) -> Result<Draft, Problem> {
    let wishes = &payment.wishes;
    let wished_kind = match &wishes.document_type {
        None => None,
        Some(name) => Some(Kind::of_name(name).ok_or_else(|| wish_problem("document_type", "is not a document type"))?),
    };
    let consignor = match (&order.consignor, &wishes.consignor) {
        (Some(asked), _) => Some(asked.clone()),
        (None, Some(name)) => Some(Consignor { name: name.clone(), registration_number: consignor_number(payment)? }),
        (None, None) => None,
    };
    let default_kind = if payment.is_return { Kind::CreditNote } else { Kind::Receipt };
    let day = payment.date.unwrap_or(order.today);
    let recipient = if order.recipient.is_empty() { payment.recipient.clone() } else { order.recipient.clone() };
    let honorific = wishes.honorific.clone().unwrap_or_else(|| honorific(&recipient).to_owned());
    let kind = order.kind.or(wished_kind).unwrap_or(default_kind);
    // if the date of the original sale is unknown, the document states the date of this payment or return instead
    let original_date =
        if kind.needs_original() { document::date(payment.original_date.unwrap_or(day)) } else { String::new() };
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

fn base(order: Order, lines: Vec<document::Line>, kind: Kind, issue_date: Date) -> Draft {
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
        bank: order.bank,
        transfer_fee_note: order.transfer_fee_note,
        consignor: order.consignor,
        notes: order.notes,
        theme: order.theme,
    }
}

/// Chooses the honorific: 御中 for a name that contains a legal form such as 株式会社, 様 for any other name.
fn honorific(name: &str) -> &'static str {
    let is_company = key(NameKind::Company, name) != key(NameKind::Text, name);
    if is_company { "御中" } else { "様" }
}

fn consignor_number(payment: &Payment) -> Result<Option<RegistrationNumber>, Problem> {
    let given = payment.wishes.consignor_registration_number.as_deref();
    let number = given.map(RegistrationNumber::read).transpose();
    number.map_err(|error| wish_problem("consignor_registration_number", &error.to_string()))
}

fn wish_problem(name: &'static str, message: &str) -> Problem {
    Problem { at: vec![Step::Field("metadata"), Step::Field(name)], message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::date;

    use super::*;
    use crate::payment_import::{Provider, read};
    use crate::tax::consumption::Rate;

    fn order() -> Order {
        Order {
            issuer: Issuer {
                name: "株式会社あんご".to_owned(),
                registration_number: RegistrationNumber::read("T7000012050002").unwrap(),
                address: String::new(),
                tel: String::new(),
            },
            number: "20251201-AAAAAAAA".to_owned(),
            today: date!(2025 - 12 - 31),
            recipient: String::new(),
            kind: None,
            rounding: Rounding::Floor,
            consignor: None,
            due_date: None,
            period: String::new(),
            bank: None,
            transfer_fee_note: String::new(),
            notes: String::new(),
            theme: Theme::default(),
        }
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
            draft_of_one(&read(Provider::Stripe, &object, Rate::Standard).unwrap(), order()).unwrap()
        };
        let known = refund(json!({"id": "ch_1", "created": 1_762_000_000}));
        assert_eq!((known.kind, known.original_date.as_str()), (Kind::CreditNote, "2025年11月1日"));
        assert_eq!(refund(json!("ch_1")).original_date, "2025年12月1日");
        assert_eq!(known.complete().unwrap().totals.total.gross, -500);
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
