//! Returns of sales and their documents (office A7).

use serde_json::{Value, json};
use time::macros::date;

use super::{names, row, stripe};
use crate::document::{Draft, Issuer, Kind, Line, Problem, Step};
use crate::payment_import::{
    Announced, Order, Provider, Return, Sale, announced, draft_of_object, draft_of_one, draft_of_return, lines_of_all,
    read_all,
};
use crate::registration::RegistrationNumber;
use crate::rounding::Rounding;
use crate::tax::consumption::Rate;

pub(super) fn order() -> Order {
    let issuer = Issuer {
        name: "株式会社あんご".to_owned(),
        registration_number: RegistrationNumber::read("T7000012050002").unwrap(),
        address: String::new(),
        tel: String::new(),
    };
    Order::new(issuer, "20251231-BBBBBBBB".to_owned(), date!(2025 - 12 - 31))
}

/// A document of 1,080 yen at 8 percent and 2,200 yen at 10 percent.
fn sale() -> Sale {
    let object = json!({"id": "in_1", "object": "invoice", "status": "paid", "currency": "jpy", "total": 3280,
        "created": 1_764_547_200,
        "customer_name": "株式会社川", "customer_email": "keiri@example.org", "charge": "ch_1",
            "metadata": {"consignor": "青果店"},
        "lines": {"data": [{"description": "茶", "amount": 1080, "quantity": 3, "metadata": {"tax_rate": 8}},
            {"description": "器", "amount": 1200}, {"description": "盆", "amount": 1000}]}});
    let payment = stripe(object).unwrap();
    let asked = Order { number: "20251201-AAAAAAAA".to_owned(), rounding: Rounding::Round, ..order() };
    let document = draft_of_one(&payment, asked).unwrap().complete().unwrap();
    let sale = Sale::of(&document, &payment);
    Sale::read(&sale.to_bytes()).unwrap()
}

fn refund(changes: Value) -> Value {
    let mut object = json!({"id": "re_1", "object": "refund", "status": "succeeded", "currency": "jpy", "amount": 500,
        "created": 1_767_193_200, "charge": "ch_1", "payment_intent": "pi_1"});
    object.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    object
}

fn returned(object: Value) -> Return {
    match announced(Provider::Stripe, "refund.created", &object, Rate::Standard).unwrap() {
        Announced::Return(returned) => returned,
        Announced::Sale(payment) => panic!("{payment:?}"),
    }
}

fn of_object(object: Value) -> Result<Draft, Problem> {
    draft_of_object(Provider::Stripe, &object, Rate::Standard, order()).map(|(draft, _)| draft)
}

fn shown(lines: &[Line]) -> Vec<(String, i64, i64)> {
    let amount = |line: &Line| i64::try_from(line.unit_price * line.quantity).unwrap();
    lines.iter().map(|line| (line.name.clone(), amount(line), line.rate.percent())).collect()
}

#[test]
fn a7_a_return_has_the_entries_of_the_document_of_its_sale() {
    let sale = sale();
    let draft = draft_of_return(&returned(refund(json!({"amount": 3280}))), 3_280, Some(&sale), order()).unwrap();
    assert_eq!((draft.kind, draft.issue_date), (Kind::CreditNote, date!(2026 - 01 - 01)));
    assert_eq!((draft.original_date.as_str(), draft.original_number.as_str()), ("2025年12月1日", "20251201-AAAAAAAA"));
    assert_eq!(
        (draft.recipient.as_str(), draft.honorific.as_str(), draft.rounding),
        ("株式会社川", "御中", Rounding::Round)
    );
    assert_eq!(
        (draft.number.as_str(), draft.consignor.as_ref().unwrap().name.as_str()),
        ("20251231-BBBBBBBB", "青果店")
    );
    // a full return repeats the lines
    assert_eq!(shown(&draft.lines), [row("茶", -1_080, 8), row("器", -1_200, 10), row("盆", -1_000, 10)]);
    assert_eq!(draft.complete().unwrap().totals.total.gross, -3_280);
    assert_eq!(sale.email.as_deref(), Some("keiri@example.org"));
}

#[test]
fn a7_a_part_is_split_over_the_rates_of_the_sale() {
    let sale = sale();
    let of = |amount: i64| {
        let refund = returned(refund(json!({"amount": 3000})));
        draft_of_return(&refund, amount, Some(&sale), order()).map(|draft| shown(&draft.lines))
    };
    // exact shares of 500: 164.6 and 335.4
    assert_eq!(of(500), Ok(vec![row("返金（茶）", -165, 8), row("返金（器 ほか）", -335, 10)]));
    assert_eq!(of(1), Ok(vec![row("返金（器 ほか）", -1, 10)]));
    assert!(of(0).is_err() && of(-1).is_err() && of(3_001).is_err());
    let more = returned(refund(json!({"amount": 4000})));
    assert!(draft_of_return(&more, 3_281, Some(&sale), order()).is_err());
}

#[test]
fn a7_the_day_of_a_sale_is_never_guessed() {
    let unknown = of_object(refund(json!({}))).unwrap_err();
    assert_eq!(unknown.at, [Step::Field("metadata"), Step::Field("original_date")]);
    assert!(unknown.message.contains("2025-09-30"));
    for (date, printed) in [
        ("2025-09-30", "2025年9月30日"),
        ("２０２５年９月分", "2025年9月分"),
        ("2025年9月1日〜9月30日", "2025年9月1日〜9月30日"),
    ] {
        let draft = of_object(refund(json!({"metadata": {"original_date": date}}))).unwrap();
        assert_eq!((draft.original_date.as_str(), shown(&draft.lines)), (printed, vec![row("返金", -500, 10)]));
    }
    for date in [json!("unknown"), json!(""), json!(20_250_930)] {
        assert!(of_object(refund(json!({"metadata": {"original_date": date}}))).is_err(), "{date}");
    }
    // the day of the document counts, not the merchant's word
    let wished = returned(refund(json!({"metadata": {"original_date": "2020-01-01"}})));
    assert_eq!(draft_of_return(&wished, 500, Some(&sale()), order()).unwrap().original_date, "2025年12月1日");
}

#[test]
fn a7_an_object_that_holds_the_sale_says_its_day_and_lines() {
    let charge = json!({"id": "ch_1", "object": "charge", "paid": true, "captured": true, "status": "succeeded",
        "currency": "jpy", "amount": 5400,
        "amount_refunded": 500, "created": 1_764_514_800, "description": "野菜", "billing_details": {"name": "川太郎"},
            "metadata": {"tax_rate": 8},
        "invoice": "in_1"});
    let draft = of_object(refund(json!({"charge": charge}))).unwrap();
    assert_eq!((draft.original_date.as_str(), draft.recipient.as_str()), ("2025年12月1日", "川太郎"));
    assert_eq!(shown(&draft.lines), [row("返金（野菜）", -500, 8)]);
    let held = returned(refund(json!({"charge": charge})));
    assert_eq!(names(&held.sale_ids), "ch_1 in_1 pi_1");
    // the invoice knows more than the charge
    let invoice = json!({"id": "in_1", "object": "invoice", "status": "paid", "currency": "jpy", "total": 3300,
        "created": 1,
        "status_transitions": {"paid_at": 1_764_514_800}, "lines": {"data": [{"description": "酒", "amount": 3300,
            "tax_rates": [{"percentage": 10}]}]}});
    let mut with_invoice = charge.clone();
    with_invoice["invoice"] = invoice;
    assert_eq!(
        shown(&of_object(refund(json!({"charge": with_invoice}))).unwrap().lines),
        [row("返金（酒）", -500, 10)]
    );
    // a charge that tells its refunds is the sale itself
    let Ok(Announced::Return(told)) = announced(Provider::Stripe, "charge.refunded", &charge, Rate::Standard) else {
        panic!()
    };
    assert_eq!((told.amount, told.is_cumulative, told.ids.len(), told.date), (500, true, 0, None));
    let draft = draft_of_return(&told, 500, None, order()).unwrap();
    assert_eq!((draft.original_date.as_str(), draft.issue_date), ("2025年12月1日", date!(2025 - 12 - 31)));
}

#[test]
fn a7_a_credit_note_says_what_was_returned() {
    let note = |lines: Value, total: i64| {
        returned(json!({"id": "cn_1", "object": "credit_note", "status": "issued", "currency": "jpy", "total": total,
                "invoice": "in_1",
            "effective_at": 1_767_193_200, "customer_name": "川商店", "refund": "re_1", "refunds": [{"refund": "re_2"},
                {"refund": {"id": "re_3"}}],
            "lines": {"data": lines}}))
    };
    let rated =
        note(json!([{"description": "茶", "amount": 360, "quantity": 1, "tax_rates": [{"percentage": 8}]}]), 360);
    assert_eq!((names(&rated.ids).as_str(), names(&rated.sale_ids).as_str()), ("cn_1 re_1 re_2 re_3", "in_1"));
    let lines = |returned: &Return, amount: i64, sale: Option<&Sale>| {
        let draft = draft_of_return(returned, amount, sale, order()).unwrap();
        shown(&draft.lines)
    };
    let mixed = sale();
    assert_eq!(lines(&rated, 360, Some(&mixed)), [row("茶", -360, 8)]);
    // earlier documents cover the rest
    assert_eq!(lines(&rated, 60, Some(&mixed)), [row("返金（茶）", -60, 8)]);
    let unrated = note(json!([{"description": "おわび", "amount": 500}]), 500);
    assert_eq!(lines(&unrated, 500, Some(&mixed)), [row("おわび", -165, 8), row("おわび", -335, 10)]);
    let mut reduced = sale();
    reduced.lines.truncate(1);
    assert_eq!(lines(&unrated, 500, Some(&reduced)), [row("おわび", -500, 8)]);
    // without lines, and with a total that the lines do not explain
    assert_eq!(lines(&note(json!([]), 3_280), 3_280, Some(&mixed)).len(), 3);
    let more = note(json!([{"description": "茶", "amount": 360, "tax_rates": [{"percentage": 8}]}]), 400);
    assert_eq!((more.lines.len(), more.warnings.len()), (2, 1));
    for (member, value) in [("status", json!("void")), ("total", json!(0)), ("currency", json!("usd"))] {
        let mut object =
            json!({"id": "cn_1", "object": "credit_note", "status": "issued", "currency": "jpy", "total": 5});
        object[member] = value;
        assert_eq!(stripe(object).unwrap_err().at, [Step::Field(member)]);
    }
}

#[test]
fn a7_the_merchant_may_say_at_which_rate_was_returned() {
    let wished = returned(refund(json!({"metadata": {"tax_rate": "8", "item_name": "茶 1袋"}})));
    let draft = draft_of_return(&wished, 500, Some(&sale()), order()).unwrap();
    assert_eq!(shown(&draft.lines), [row("返金（茶 1袋）", -500, 8)]);
}

#[test]
fn a7_a_return_of_another_provider_names_its_sale() {
    let generic = |object: Value| announced(Provider::Generic, "", &object, Rate::Standard);
    for object in [
        json!({"id": "r_1", "type": "refund", "amount": 500, "currency": "jpy", "original_id": "p_1",
            "original_date": "2025-09-30"}),
        json!({"id": "r_1", "amount": -500, "currency": "jpy", "original_id": "p_1",
            "metadata": {"original_date": "2025-09-30"}}),
        json!({"id": "r_1", "type": "refund", "amount": -500, "currency": "jpy", "original_id": "p_1",
            "original_date": "2025年9月30日"}),
    ] {
        let Ok(Announced::Return(returned)) = generic(object) else { panic!() };
        assert_eq!(
            (names(&returned.ids).as_str(), names(&returned.sale_ids).as_str(), returned.amount),
            ("r_1", "p_1", 500)
        );
        assert_eq!(returned.original_date.as_deref(), Some("2025年9月30日"));
        assert_eq!(shown(&draft_of_return(&returned, 500, Some(&sale()), order()).unwrap().lines).len(), 2);
    }
    for amount in [json!(500), json!(-500), Value::Null] {
        for sign in [1, -1] {
            let lines =
                json!([{"name": "茶", "amount": 540 * sign, "tax_rate": 8}, {"name": "値引き", "amount": -40 * sign}]);
            let object = json!({"id": "r_1", "type": "refund", "amount": amount, "currency": "jpy", "lines": lines});
            let Ok(Announced::Return(returned)) = generic(object) else { panic!() };
            let lines: Vec<Line> = returned.lines.iter().map(|line| line.line.clone()).collect();
            assert_eq!(shown(&lines), [row("茶", -540, 8), row("値引き", 40, 10)], "{amount} {sign}");
        }
    }
    assert!(generic(json!({"id": "r_1", "type": "refund", "amount": 0, "currency": "jpy"})).is_err());
}

#[test]
fn a7_a_credit_note_for_a_payment_is_that_of_its_refunds() {
    let charge = |refunded: i64| {
        json!({"id": "ch_1", "object": "charge", "paid": true, "captured": true, "status": "succeeded",
            "currency": "jpy", "amount": 5400,
            "amount_refunded": refunded, "created": 1_764_514_800, "description": "野菜",
                "metadata": {"document_type": "credit_note"}})
    };
    assert_eq!(shown(&of_object(charge(400)).unwrap().lines), [row("返金（野菜）", -400, 10)]);
    assert_eq!(shown(&of_object(charge(5_400)).unwrap().lines), [row("野菜", -5_400, 10)]);
    assert!(of_object(charge(0)).is_err());
    let asked = Order { kind: Some(Kind::Receipt), ..order() };
    let refund = refund(json!({"metadata": {"original_date": "2025-09-30"}}));
    assert!(draft_of_object(Provider::Stripe, &refund, Rate::Standard, asked).is_err());
}

#[test]
fn a7_a_return_among_payments_finds_its_sale() {
    let charge = |refunded: i64| {
        json!({"id": "ch_1", "object": "charge", "paid": true, "captured": true, "status": "succeeded",
            "currency": "jpy", "amount": 5400,
            "amount_refunded": refunded, "created": 1_764_514_800, "description": "野菜", "metadata": {"tax_rate": 8}})
    };
    let all = |objects: &[Value]| read_all(Provider::Stripe, objects, Rate::Standard);
    let payments = all(&[refund(json!({})), charge(0)]).unwrap();
    assert_eq!(
        shown(&lines_of_all(&payments)),
        [row("12/1 野菜", 5_400, 8), row("1/1 返金（野菜）（2025年12月1日の取引）", -500, 8)]
    );
    // the charge counts the refund already
    let twice = all(&[charge(500), refund(json!({}))]).unwrap_err();
    assert_eq!((twice[0].0, twice[0].1.at.len()), (1, 0));
    let unknown = all(&[refund(json!({"charge": "ch_2", "payment_intent": null})), charge(0)]).unwrap_err();
    assert_eq!((unknown[0].0, unknown[0].1.at.last()), (0, Some(&Step::Field("original_date"))));
}
