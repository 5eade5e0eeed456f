//! Bodies with payment objects.

use super::*;

fn charge(id: &str, amount: i64) -> Value {
    json!({"id": id, "object": "charge", "paid": true, "captured": true, "status": "succeeded", "currency": "jpy", "amount": amount,
        "created": 1_764_514_800, "billing_details": {"name": "山田太郎"}})
}

fn of_payment() -> Value {
    json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "payment_object": charge("ch_1", 1100)})
}

#[test]
fn b23_b29_a_payment_is_a_receipt_or_its_fault_is_told() {
    let made = document_of_payment(&bytes(&of_payment()), &GIVEN).unwrap();
    assert_eq!((made.draft.kind, made.totals.total.gross, made.totals.total.tax), (Kind::Receipt, 1_100, 100));
    let asked = json!({"document_type": "invoice", "recipient": "佐藤", "default_tax_rate": 8, "provider": "payjp", "issuer_address": "東京都"});
    let made = document_of_payment(&with(of_payment(), asked), &GIVEN).unwrap();
    assert_eq!((made.draft.kind, made.totals.total.tax, made.draft.recipient.as_str()), (Kind::Invoice, 81, "佐藤"));
    let of = |changes: Value| refused(document_of_payment(&with(of_payment(), changes), &GIVEN));
    let object = |name: &str, value: Value| {
        let mut object = charge("ch_1", 1100);
        object[name] = value;
        of(json!({"payment_object": object}))
    };
    let at = |place: &str| vec![("value_error", format!("body.payment_object{place}"))];
    assert_eq!(object("currency", json!("usd")), at(".currency"));
    assert_eq!(object("metadata", json!({"document_type": "poem"})), at(".metadata.document_type"));
    // the document that would be made from the payment has a problem
    assert_eq!(object("billing_details", json!({"name": "長".repeat(300)})), at(""));
    assert_eq!(of(json!({"payment_object": 5, "default_tax_rate": 5})).len(), 2);
    assert_eq!(of(json!({"recipient": "長".repeat(300)})), [("value_error", "body.recipient".to_owned())]);
    assert_eq!(of(json!({"provider": "bank"})), [("literal_error", "body.provider".to_owned())]);
}

#[test]
fn b3_what_lines_do_not_explain_gives_a_warning_about_the_document() {
    let lines = json!([{"description": "茶", "amount_total": 5000, "taxes": [{"rate": {"percentage": 8}}]}]);
    let session = json!({"id": "cs_1", "object": "checkout.session", "payment_status": "paid", "currency": "jpy",
        "amount_total": 5600, "created": 1_764_514_800, "line_items": {"data": lines}});
    let made = document_of_payment(&with(of_payment(), json!({"payment_object": session})), &GIVEN).unwrap();
    let warnings: Vec<String> = made.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["the lines do not add up to the total: a line of 600 yen at 10 percent was added"]);
    let many = json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "recipient": "みらい株式会社",
        "payment_objects": [charge("ch_1", 1000), session]});
    assert_eq!(document_of_payments(&bytes(&many), &GIVEN).unwrap().warnings.len(), 1);
    let mut cut = session;
    cut["line_items"]["has_more"] = json!(true);
    let refused = refused(document_of_payment(&with(of_payment(), json!({"payment_object": cut})), &GIVEN));
    assert_eq!(refused, [("value_error", "body.payment_object.line_items".to_owned())]);
}

#[test]
fn a7_a_refund_without_the_day_of_its_sale_is_refused() {
    let refund = |changes: Value| {
        let object = json!({"id": "re_1", "object": "refund", "status": "succeeded", "currency": "jpy", "amount": 500,
            "charge": "ch_1", "created": 1_764_514_800});
        let mut object = object;
        object.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        object
    };
    let of = |object: Value| document_of_payment(&with(of_payment(), json!({"payment_object": object})), &GIVEN);
    let place = "body.payment_object.metadata.original_date".to_owned();
    assert_eq!(refused(of(refund(json!({})))), [("value_error", place)]);
    let made = of(refund(json!({"metadata": {"original_date": "2025-09-30"}}))).unwrap();
    assert_eq!((made.draft.kind, made.draft.original_date.as_str()), (Kind::CreditNote, "2025年9月30日"));
    let many = |objects: Value| {
        let body = json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "recipient": "みらい株式会社",
            "payment_objects": objects});
        document_of_payments(&bytes(&body), &GIVEN)
    };
    assert_eq!(many(json!([refund(json!({})), charge("ch_1", 1000)])).unwrap().totals.total.gross, 500);
    let place = "body.payment_objects.1.metadata.original_date".to_owned();
    assert_eq!(refused(many(json!([charge("ch_2", 1000), refund(json!({}))]))), [("value_error", place)]);
}

#[test]
fn b30_payments_of_a_month_are_one_invoice() {
    let body = json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "recipient": "みらい株式会社",
        "payment_objects": [charge("ch_1", 1000), charge("ch_2", 1000), charge("ch_3", 1000)]});
    let made = document_of_payments(&bytes(&body), &GIVEN).unwrap();
    assert_eq!(
        (made.draft.kind, made.totals.total.tax, made.draft.number.as_str()),
        (Kind::Invoice, 272, GIVEN.number)
    );
    let of = |changes: Value| refused(document_of_payments(&with(body.clone(), changes), &GIVEN));
    let fault = |kind: &'static str, place: &str| vec![(kind, format!("body.{place}"))];
    assert_eq!(of(json!({"payment_objects": []})), fault("too_short", "payment_objects"));
    assert_eq!(
        of(json!({"payment_objects": [charge("ch_1", 1), charge("ch_1", 1)]})),
        fault("value_error", "payment_objects.1")
    );
    assert_eq!(of(json!({"payment_objects": [charge("ch_1", 1), {}, 5]})).len(), 2);
    assert_eq!(of(json!({"-recipient": null})), fault("missing", "recipient"));
    assert_eq!(of(json!({"document_type": null})), fault("string_type", "document_type"));
    assert_eq!(of(json!({"notes": "長".repeat(5_001)})), fault("value_error", "notes"));
}

#[test]
fn a_receipt_says_for_what_it_was_paid_as_the_body_or_the_profile_says() {
    let given = Given { receipt_proviso: "お品代", ..GIVEN };
    let of = |changes: Value| document_of_payment(&with(of_payment(), changes), &given).unwrap().draft.proviso;
    assert_eq!(of(json!({})), "お品代");
    assert_eq!(of(json!({"proviso": null})), "お品代");
    assert_eq!(of(json!({"proviso": "書籍代"})), "書籍代");
    assert_eq!(of(json!({"proviso": ""})), "");
    // the profile's words are for receipts
    assert_eq!(of(json!({"document_type": "invoice"})), "");
    assert_eq!(of(json!({"document_type": "invoice", "proviso": "書籍代"})), "書籍代");
    let refund = json!({"id": "re_1", "object": "refund", "status": "succeeded", "amount": 500, "currency": "jpy", "created": 1_764_514_800,
        "metadata": {"original_date": "2025-11-01"}});
    assert_eq!(of(json!({"payment_object": refund})), "");
    let mut many = with(
        of_payment(),
        json!({"payment_objects": [charge("ch_1", 1100)], "recipient": "みらい", "-payment_object": 0}),
    );
    let all = |body: &[u8]| document_of_payments(body, &given).unwrap().draft.proviso;
    assert_eq!(all(&many), "");
    many = with(serde_json::from_slice(&many).unwrap(), json!({"document_type": "receipt"}));
    assert_eq!(all(&many), "お品代");
    many = with(serde_json::from_slice(&many).unwrap(), json!({"proviso": "書籍代"}));
    assert_eq!(all(&many), "書籍代");
    let long = json!({"proviso": "長".repeat(201)});
    assert_eq!(refused(document_of_payment(&with(of_payment(), long), &given))[0].1, "body.proviso");
    let profile_of = |proviso: Value| {
        profile(&bytes(&json!({"issuer": "A", "registration_number": "T7000012050002", "proviso": proviso})), &GIVEN)
    };
    assert_eq!(profile_of(json!("書籍代")).unwrap().proviso, "書籍代");
    for odd in [json!("長".repeat(201)), json!(5), json!(null)] {
        assert_eq!(refused(profile_of(odd))[0].1, "body.proviso");
    }
}
