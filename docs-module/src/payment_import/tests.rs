mod objects;
mod properties;
mod recorded;
mod returned;

use serde_json::json;

use super::*;
use crate::document::Step;

fn names(ids: &BTreeSet<String>) -> String {
    ids.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn stripe(object: Value) -> Result<Payment, Problem> {
    read(Provider::Stripe, &object, Rate::Standard)
}

fn shown(payment: &Payment) -> Vec<(String, i64, i64)> {
    let amount = |line: &Line| i64::try_from(line.unit_price * line.quantity).unwrap();
    payment.lines.iter().map(|line| (line.name.clone(), amount(line), line.rate.percent())).collect()
}

fn row(name: &str, amount: i64, percent: i64) -> (String, i64, i64) {
    (name.to_owned(), amount, percent)
}

fn intent() -> Value {
    json!({
        "id": "pi_1", "object": "payment_intent", "status": "succeeded", "amount": 1100, "amount_received": 1100,
        "currency": "jpy", "created": 1_764_514_800, "description": "デザイン一式", "receipt_email": "taro@example.com",
        "latest_charge": {"id": "ch_1", "billing_details": {"name": "山田太郎"}}, "metadata": {"order": "7"}
    })
}

#[test]
fn b29_a_payment_intent_is_a_line() {
    let payment = stripe(intent()).unwrap();
    assert_eq!(shown(&payment), [row("デザイン一式", 1_100, 10)]);
    assert_eq!(payment.ids, ["pi_1", "ch_1"].map(str::to_owned).into());
    assert_eq!(payment.date.unwrap().to_string(), "2025-12-01");
    assert_eq!((payment.recipient.as_str(), payment.email.as_deref()), ("山田太郎", Some("taro@example.com")));
    assert_eq!((payment.total, payment.is_refunded, payment.is_return), (1_100, false, false));
}

/// Examples of the fact sheet, 4.6.
#[test]
fn b29_a_refunded_part_is_a_negative_line() {
    let charge = |refunded: i64| {
        stripe(json!({
            "id": "ch_1", "object": "charge", "paid": true, "captured": true, "status": "succeeded", "currency": "JPY",
            "amount": 11000, "amount_captured": 11000, "amount_refunded": refunded, "payment_intent": "pi_1",
            "created": 1_764_514_800, "payment_method_details": {"type": "card"}
        }))
    };
    let payment = charge(3_300).unwrap();
    assert_eq!(shown(&payment), [row("お支払い", 11_000, 10), row("返金", -3_300, 10)]);
    assert_eq!((payment.total, payment.payment_method.as_deref()), (7_700, Some("card")));
    assert!(payment.ids.contains("pi_1") && !payment.is_refunded);
    assert!(charge(11_000).unwrap().is_refunded);
    assert_eq!(charge(11_001).unwrap_err().message, "more was refunded than was paid");
    assert!(charge(-1).is_err());
}

#[test]
fn lines_of_a_checkout_keep_their_rates() {
    let session = |lines: Value, total: i64| {
        stripe(json!({
            "id": "cs_1", "object": "checkout.session", "payment_status": "paid", "amount_total": total, "currency": "jpy",
            "created": 1_764_514_800, "payment_intent": {"id": "pi_1"}, "line_items": {"data": lines},
            "customer_details": {"name": "太郎", "business_name": "山田商事", "email": "a@example.com"}
        }))
    };
    let payment = session(
        json!([
            {"description": "茶", "quantity": 3, "amount_total": 3240, "price": {"metadata": {"tax_rate": "8%"}}},
            {"description": "湯のみ", "quantity": 2, "amount_total": 2201, "taxes": [{"amount": 200, "rate": {"percentage": 10.0}}]},
            {"description": "米", "quantity": 1, "amount_total": 1080, "taxes": [{"amount": 80, "taxable_amount": 1000}]}
        ]),
        6_521,
    );
    let payment = payment.unwrap();
    assert_eq!(shown(&payment), [row("茶", 3_240, 8), row("湯のみ × 2", 2_201, 10), row("米", 1_080, 8)]);
    assert_eq!((payment.lines[0].unit_price, payment.lines[0].quantity), (Decimal::from(1_080), Decimal::from(3)));
    assert_eq!((payment.unexplained, payment.recipient.as_str()), (0, "山田商事"));
    // an adjustment line has the difference between the total and the lines
    let payment = session(json!([{"description": "茶", "amount_total": 1000}]), 1_500).unwrap();
    assert_eq!((shown(&payment)[1].clone(), payment.unexplained), (row("調整額（送料・値引きほか）", 500, 10), 500));
    let wrong = session(json!([{"description": "x", "amount_total": 1, "taxes": [{"rate": {"percentage": 7.8}}]}]), 1);
    let wrong = wrong.unwrap_err();
    assert_eq!(wrong.at.last(), Some(&Step::Field("percentage")));
    assert_eq!(wrong.message, "should be a rate of 8 or 10 percent");
}

/// Exclusive taxes, discounts, and the ids of old and new versions of Stripe's interface.
#[test]
fn lines_of_an_invoice_hold_their_tax() {
    let payment = stripe(json!({
        "id": "in_1", "object": "invoice", "status": "paid", "total": 3_260, "amount_paid": 3260, "currency": "jpy",
        "status_transitions": {"paid_at": 1_767_193_200}, "created": 1_764_514_800, "customer_name": "山田商事",
        "customer_email": "a@example.com", "post_payment_credit_notes_amount": 326,
        "payments": {"data": [{"payment": {"type": "payment_intent", "payment_intent": "pi_9"}}]},
        "lines": {"data": [
            {"description": "会費", "amount": 1000, "taxes": [{"amount": 100, "tax_behavior": "exclusive", "taxable_amount": 1000}]},
            {"description": "弁当", "amount": 2160, "tax_amounts": [{"amount": 160, "inclusive": true, "taxable_amount": 2000}],
             "discount_amounts": [{"amount": 0}]}
        ]}
    }))
    .unwrap();
    // the refund is shared in proportion to the lines: 110 of 1,100 and 216 of 2,160
    assert_eq!(
        shown(&payment),
        [row("会費", 1_100, 10), row("弁当", 2_160, 8), row("返金", -216, 8), row("返金", -110, 10)]
    );
    assert_eq!((payment.total, payment.date.unwrap().to_string().as_str()), (2_934, "2026-01-01"));
    assert!(payment.ids.contains("pi_9") && payment.ids.contains("in_1"));
}

#[test]
fn a_return_has_negative_lines_and_ids_of_its_own() {
    let refund = json!({"id": "re_1", "object": "refund", "status": "succeeded", "amount": 500, "currency": "jpy",
        "payment_intent": "pi_1", "created": 1_764_514_800});
    let payment = stripe(refund).unwrap();
    assert_eq!((shown(&payment), payment.is_return), (vec![row("返金", -500, 10)], true));
    assert_eq!(payment.ids, ["re_1".to_owned()].into());
    let note = json!({"id": "cn_1", "object": "credit_note", "status": "issued", "total": 1100, "currency": "jpy",
        "lines": {"data": [{"description": "会費", "amount": 1000, "taxes": [{"amount": 100, "tax_behavior": "exclusive", "taxable_amount": 1000}]}]}});
    assert_eq!(shown(&stripe(note).unwrap()), [row("会費", -1_100, 10)]);
}

#[test]
fn the_merchant_s_wishes_come_from_metadata() {
    let mut object = intent();
    object["metadata"] = json!({
        "tax_rate": "0.08", "宛名": "株式会社みらい", "item_name": "弁当", "invoice_number": "A-1", "document_type": "invoice",
        "recipient_honorific": "様", "consignor": "青果店", "consignor_registration_number": "T1180301018771", "do_not_invoice": "TRUE"
    });
    let payment = stripe(object).unwrap();
    assert_eq!((shown(&payment), payment.recipient.as_str()), (vec![row("弁当", 1_100, 8)], "株式会社みらい"));
    let wishes = payment.wishes;
    assert_eq!(wishes.invoice_number.as_deref(), Some("A-1"));
    assert_eq!(wishes.consignor.as_deref(), Some("青果店"));
    assert!(wishes.do_not_invoice);
}

#[test]
fn b30_payments_are_put_together_by_day_and_none_twice() {
    let of = |id: &str, charge: &str, created: i64| {
        let mut object = intent();
        (object["id"], object["created"], object["latest_charge"]) = (json!(id), json!(created), json!(charge));
        stripe(object).unwrap()
    };
    let (later, earlier) = (of("pi_1", "ch_1", 1_764_514_800), of("pi_2", "ch_2", 1_764_000_000));
    let names: Vec<String> =
        lines_of_all(&[later.clone(), earlier.clone()]).into_iter().map(|line| line.name).collect();
    assert_eq!(names, ["11/25 デザイン一式", "12/1 デザイン一式"]);
    assert_eq!(first_repeated(&[later.clone(), earlier.clone()]), None);
    // pi_3 has the same charge as pi_1, so both are the same payment
    assert_eq!(first_repeated(&[later, earlier, of("pi_3", "ch_1", 0)]), Some(2));
}

#[test]
fn b29_what_is_no_payment_in_yen_is_refused() {
    let with = |name: &str, value: Value| {
        let mut object = intent();
        object[name] = value;
        stripe(object).unwrap_err()
    };
    for (name, value) in [
        ("object", json!("customer")),
        ("object", json!(7)),
        ("status", json!("processing")),
        ("currency", json!("usd")),
        ("currency", Value::Null),
        ("amount_received", json!("1100")),
        ("amount_received", json!(1100.5)),
        ("amount_received", json!(i64::MAX)),
        ("created", json!("today")),
        ("created", json!(i64::MAX)),
    ] {
        assert_eq!(
            with(name, value.clone()).at,
            [Step::Field(
                ["object", "status", "currency", "amount_received", "created"]
                    .into_iter()
                    .find(|known| *known == name)
                    .unwrap()
            )],
            "{name} {value}"
        );
    }
    for rate in ["9", "0", "", "ten", "1000", "-8", "8.5%"] {
        assert_eq!(with("metadata", json!({"tax_rate": rate})).at.len(), 2, "{rate}");
    }
    for value in [json!(null), json!([]), json!("pi_1"), json!({})] {
        assert!(stripe(value).is_err());
    }
    let unpaid = json!({"object": "charge", "paid": true, "captured": false, "status": "succeeded", "currency": "jpy", "amount": 1});
    assert_eq!(stripe(unpaid).unwrap_err().message, "should say that the payment succeeded");
    let many = json!({"object": "invoice", "status": "paid", "currency": "jpy", "total": 1001,
        "lines": vec![json!({"amount": 1}); 1001]});
    assert!(stripe(many).unwrap_err().message.contains("1000 lines"));
}

#[test]
fn b29_payments_of_other_providers_are_read() {
    let payment = read(
        Provider::Generic,
        &json!({"id": "p1", "amount": 2_180, "currency": "JPY", "created": 1_764_514_800, "customer_name": "山田", "tax_rate": 10,
            "lines": [{"description": "茶", "amount": 1080, "tax_rate": "8"}, {"name": "器", "amount": 1000, "quantity": 2}]}),
        Rate::Standard,
    )
    .unwrap();
    assert_eq!(shown(&payment), [row("茶", 1_080, 8), row("器", 1_000, 10), row("調整額", 100, 10)]);
    assert_eq!((payment.unexplained, payment.recipient.as_str()), (100, "山田"));
    let plain = read(Provider::Generic, &json!({"amount": 5, "currency": "jpy"}), Rate::Reduced).unwrap();
    assert_eq!((shown(&plain), plain.id.as_str(), plain.ids.len()), (vec![row("お支払い", 5, 8)], "", 0));
    let charge =
        json!({"id": "ch_9", "object": "charge", "paid": true, "captured": true, "amount": 300, "currency": "jpy"});
    assert_eq!(read(Provider::Payjp, &charge, Rate::Standard).unwrap().total, 300);
    assert_eq!(Provider::of_name("paypal"), None);
}
