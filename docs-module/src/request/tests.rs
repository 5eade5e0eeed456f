use serde_json::{Value, json};
use time::macros::date;

use super::*;
use crate::document::Kind;
use crate::drawing::Colour;

const GIVEN: Given<'static> = Given { today: date!(2025 - 11 - 30), number: "20251130-AAAAAAAA", original_number: "" };

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

/// Makes a body with changed members. A name in `changes` that begins with `-` removes the member.
fn with(mut body: Value, changes: Value) -> Vec<u8> {
    for (name, value) in changes.as_object().unwrap() {
        match name.strip_prefix('-') {
            Some(name) => drop(body.as_object_mut().unwrap().remove(name)),
            None => body[name] = value.clone(),
        }
    }
    bytes(&body)
}

fn invoice() -> Value {
    json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "items": [{"name": "設計", "unit_price": 1000, "tax_rate": 10}]})
}

/// Type and path of each fault.
fn told(faults: &[Fault]) -> Vec<(&'static str, String)> {
    let place = |place: &Place| match place {
        Place::Name(name) => name.to_string(),
        Place::Index(at) => at.to_string(),
    };
    faults.iter().map(|fault| (fault.kind, fault.loc.iter().map(place).collect::<Vec<_>>().join("."))).collect()
}

fn refused<T>(found: Result<T, Vec<Fault>>) -> Vec<(&'static str, String)> {
    told(&found.err().expect("a fault"))
}

#[test]
fn b25_a_short_invoice_is_filled() {
    let made = document(&bytes(&invoice()), &GIVEN).unwrap();
    let draft = &made.draft;
    assert_eq!((draft.kind, draft.number.as_str(), draft.issue_date), (Kind::Invoice, GIVEN.number, GIVEN.today));
    assert_eq!((draft.honorific.as_str(), made.totals.total.gross), ("御中", 1_100));
    let nulls = json!({"issue_date": null, "due_date": null, "invoice_number": null, "notes": null, "issuer_address": null, "issuer_tel": null,
        "bank_transfer": null, "transfer_fee_note": null, "withholding": null, "period": null, "payment_method": null, "original_date": null,
        "consignor": null, "consignor_registration_number": null, "theme": null});
    assert_eq!(document(&with(invoice(), nulls), &GIVEN).unwrap(), made);
}

#[test]
fn an_invoice_with_all_its_members() {
    let all = json!({"recipient": "山田商事株式会社", "issue_date": "2025-11-01", "due_date": "2025-12-31", "rounding": "half_up",
        "document_type": "corrected_invoice", "tax_inclusive": true, "invoice_number": "A-1", "notes": "備考", "issuer_address": "東京都",
        "issuer_tel": "03-1", "recipient_honorific": "様", "transfer_fee_note": "手数料", "period": "11月分", "payment_method": "cash",
        "original_date": "2025-10-01", "original_number": "A-0", "consignor": "青果店", "consignor_registration_number": "T1180301018771",
        "recipient_number": "Ｔ１１８０３０１０１８７７１", "theme": {"brand_color": "#112233", "footer": "下", "locale": "ja"},
        "withholding": {"category": "講演料", "basis": "tax_inclusive", "amount": 100, "lines": [0]},
        "bank_transfer": {"bank_name": "あおば", "branch_name": "本店", "account_number": "1", "account_holder": "x"},
        "items": [{"name": "林檎", "unit_price": "108.5", "tax_rate": 8, "qty": "2"}]});
    let made = document(&with(invoice(), all), &GIVEN).unwrap();
    let draft = &made.draft;
    assert_eq!(
        (draft.kind, draft.original_number.as_str(), draft.honorific.as_str()),
        (Kind::CorrectedInvoice, "A-0", "様")
    );
    assert_eq!(
        (made.totals.total.gross, made.withheld, draft.theme.colour),
        (217, Some(100), Colour(0x11, 0x22, 0x33))
    );
    assert_eq!(draft.recipient_number.unwrap().to_string(), "T1180301018771");
    assert_eq!(draft.bank.as_ref().unwrap().account_number, "0000001");
}

#[test]
fn all_faults_of_a_body_are_told_at_once() {
    let body = json!({"registration_number": "T123", "recipient": null, "issue_date": "2025-02-30", "due_date": 5, "rounding": "bankers",
        "document_type": "poem", "tax_inclusive": "yes", "notes": "長".repeat(5_001), "recipient_number": "x",
        "bank_transfer": {"bank_name": 1}, "withholding": [], "consignor_registration_number": "T1180301018771",
        "theme": {"brand_color": "red", "logo": "https://example.org/logo.png", "seal": "data:image/svg+xml;base64,AA==", "locale": "en"},
        "items": [{"name": "a", "unit_price": "1e3", "tax_rate": 9}, {"unit_price": true, "tax_rate": 8.5, "qty": "NaN"}, 7,
            {"name": "", "unit_price": 1, "tax_rate": 10, "qty": null}]});
    let mut found = refused(document(&bytes(&body), &GIVEN));
    found.sort();
    let mut expected = [
        ("missing", "body.issuer"),
        ("string_pattern_mismatch", "body.registration_number"),
        ("string_type", "body.recipient"),
        ("date_from_datetime_parsing", "body.issue_date"),
        ("date_type", "body.due_date"),
        ("literal_error", "body.rounding"),
        ("literal_error", "body.document_type"),
        ("bool_type", "body.tax_inclusive"),
        ("value_error", "body.notes"),
        ("string_pattern_mismatch", "body.recipient_number"),
        ("string_type", "body.bank_transfer.bank_name"),
        ("value_error", "body.bank_transfer.branch_name"),
        ("value_error", "body.bank_transfer.account_number"),
        ("value_error", "body.bank_transfer.account_holder"),
        ("dict_type", "body.withholding"),
        ("value_error", "body.consignor"),
        ("string_pattern_mismatch", "body.theme.brand_color"),
        ("value_error", "body.theme.logo"),
        ("value_error", "body.theme.seal"),
        ("literal_error", "body.theme.locale"),
        ("decimal_parsing", "body.items.0.unit_price"),
        ("literal_error", "body.items.0.tax_rate"),
        ("missing", "body.items.1.name"),
        ("decimal_type", "body.items.1.unit_price"),
        ("int_from_float", "body.items.1.tax_rate"),
        ("decimal_parsing", "body.items.1.qty"),
        ("dict_type", "body.items.2"),
        ("value_error", "body.items.3.name"),
        ("decimal_type", "body.items.3.qty"),
    ]
    .map(|(kind, place)| (kind, place.to_owned()));
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_fault_names_its_field_and_what_is_allowed() {
    let faults = document(&with(invoice(), json!({"document_type": "poem", "items": []})), &GIVEN).unwrap_err();
    let fault = |at: usize| serde_json::to_value(&faults[at]).unwrap();
    assert_eq!(
        fault(0),
        json!({"loc": ["body", "items"], "type": "too_short", "msg": "items should have at least one value", "input": [],
            "ctx": {"field_type": "List", "min_length": 1, "actual_length": 0}})
    );
    let msg = fault(1)["msg"].as_str().unwrap().to_owned();
    assert!(msg.starts_with("document_type should be one of: 'invoice', ") && msg.contains("'quote'"), "{msg}");
    assert_eq!(fault(1)["input"], "poem");
    let nested = document(&with(invoice(), json!({"items": [{"name": "a", "unit_price": 1, "tax_rate": 7}]})), &GIVEN)
        .unwrap_err();
    assert_eq!(nested[0].msg, "items[0].tax_rate should be one of: 8, 10");
    let query = serde_json::to_value(Fault::of_query("format", "doc", &["pdf", "html"])).unwrap();
    assert_eq!(
        query,
        json!({"loc": ["query", "format"], "type": "string_pattern_mismatch", "msg": "format should be one of: pdf, html", "input": "doc",
            "ctx": {"pattern": "^(pdf|html)$"}})
    );
}

#[test]
fn what_is_no_object_is_refused() {
    for (body, expected) in [
        ("", ("missing", "body")),
        (" \n", ("missing", "body")),
        ("[]", ("dict_type", "body")),
        ("null", ("dict_type", "body")),
        ("\"x\"", ("dict_type", "body")),
        ("{\n \"a\": 1,}", ("json_invalid", "body.10")),
        ("{\"a\": NaN}", ("json_invalid", "body.6")),
        ("{} {}", ("json_invalid", "body.3")),
        ("{\"\\ud800\": 1}", ("string_unicode", "body")),
    ] {
        assert_eq!(refused(cap(body.as_bytes())), [(expected.0, expected.1.to_owned())], "{body}");
    }
    assert_eq!(told(&cap(b"\xff").unwrap_err())[0].0, "json_invalid");
    assert_eq!(refused(key_order(br#"{"customer": "a\u0000"}"#)), [("value_error", "body.customer".to_owned())]);
    assert_eq!(escaped_nul(br#"{"a": "b\\\u0000"}"#), Some(10));
    // an escaped backslash before the letters is no escape of U+0000
    assert_eq!(escaped_nul(br#"{"a": "\\u0000", "b": "u0000\"}"#), None);
    let deep = format!("{{\"payment_object\": {}}}", "[".repeat(100_000));
    assert_eq!(refused(document_of_payment(deep.as_bytes(), &GIVEN))[0].0, "json_invalid");
    let nested = format!("{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000));
    let deep = bytes(&invoice()).strip_suffix(b"}").unwrap().to_vec();
    let deep = [deep, format!(",\"payment_object\":{nested}}}").into_bytes()].concat();
    assert_eq!(refused(document_of_payment(&deep, &GIVEN)), [("json_invalid", "body.payment_object".to_owned())]);
}

#[test]
fn a_body_with_very_many_faults_tells_the_first() {
    let transfers = vec![json!(1); 5_000];
    let faults = records_of_transfers(&bytes(&json!({"transfers": transfers})), &GIVEN).unwrap_err();
    assert_eq!(faults.len(), 1_000);
    // the values of a list that is too long are not read
    let items = vec![json!({}); 1_001];
    assert_eq!(
        refused(document(&with(invoice(), json!({"items": items})), &GIVEN)),
        [("too_long", "body.items".to_owned())]
    );
}

#[test]
fn b24_decimals_are_exact() {
    let price = |text: &str| {
        let body = format!(
            r#"{{"issuer": "x", "registration_number": "T7000012050002", "items": [{{"name": "a", "unit_price": {text}, "tax_rate": 10}}]}}"#
        );
        document(body.as_bytes(), &GIVEN)
            .map(|made| made.draft.lines[0].unit_price.to_string())
            .map_err(|faults| faults[0].kind)
    };
    for (text, read) in [
        ("1250", "1250"),
        ("\"+0001250.50\"", "1250.5"),
        ("\".5\"", "0.5"),
        ("\"5.\"", "5"),
        ("123456789012.123456", "123456789012.123456"),
        ("\"123456789012.1234560000000000000000000000000000000000\"", "123456789012.123456"),
        ("1.5e3", "1500"),
        ("15E-1", "1.5"),
        ("0e999999999", "0"),
        ("0.0000000000000000000000000000000000000000000000", "0"),
        ("0.1", "0.1"),
    ] {
        assert_eq!(price(text).as_deref(), Ok(read), "{text}");
    }
    for text in [
        "1234567890123",
        "0.0000001",
        "1e12",
        "1e999999999",
        "1e99999999999",
        "\"1e3\"",
        "\"\"",
        "\".\"",
        "\"-\"",
        "\"+-1\"",
        "\"NaN\"",
        "\"１００\"",
        "\"1,000\"",
        "\" 1\"",
        "\"0x10\"",
        "1111111111111111111111111111111111111111",
        "\"1111111111111111111111111111111111111111\"",
    ] {
        assert_eq!(price(text), Err("decimal_parsing"), "{text}");
    }
    assert_eq!(
        (price("null"), price("[1]"), price("true")),
        (Err("decimal_type"), Err("decimal_type"), Err("decimal_type"))
    );
    assert_eq!(price("\"-5\""), Err("value_error"), "a negative total");
}

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

fn payees() -> Value {
    json!({
        "year": 2025,
        "payer": {"name": "財務産業株式会社", "address": "東京都千代田区霞が関３－１－１", "number": "7000012050002", "tel": "03-1234-5678"},
        "payees": [
            {"name": "山田　太郎", "address": "東京都新宿区西新宿２－８－１", "number": "123456789018", "payments": [
                {"amount": 500_000, "category": "デザイン料", "paid_on": "2025-06-30", "consumption_tax": 50_000, "description": "広告"},
                {"amount": "30000", "paid_on": "2024-12-31"},
                {"amount": 10_000, "category": "物品", "paid_on": null},
            ]},
            {"name": "みらい法律事務所", "is_individual": false, "number": "7000012050002", "payments": [{"amount": 40_000, "category": "弁護士等"}]},
        ],
    })
}

#[test]
fn b31_b31b_records_of_a_year() {
    let order = records(&bytes(&payees()), &GIVEN).unwrap();
    let answer = order.yearly.json();
    assert_eq!((&answer["year"], &answer["payer"]["tel"]), (&json!(2025), &json!("03-1234-5678")));
    assert_eq!(
        answer["payees"][0],
        json!({"name": "山田　太郎", "address": "東京都新宿区西新宿２－８－１", "number": "************", "is_individual": true,
            "categories": [{"category": "原稿料等", "payment_total": 500_000, "unpaid_total": 0, "tax_total": 51_050, "uncollected_tax_total": 0,
                "consumption_tax_total": 50_000, "count": 1, "must_be_filed": true}]})
    );
    assert_eq!(answer["payees"][1]["categories"][0]["must_be_filed"], false);
    assert_eq!(
        answer["excluded"],
        json!([
            {"payee": "山田　太郎", "amount": 30_000, "category": "原稿料等", "paid_on": "2024-12-31", "reason": "other_year"},
            {"payee": "山田　太郎", "amount": 10_000, "category": "対象外", "paid_on": null, "reason": "not_recorded"},
        ])
    );
    assert_eq!(
        answer["summary_table"]["all"],
        json!({"count": 2, "individuals": 1, "others": 1, "payment_total": 540_000, "tax_total": 51_050})
    );
    assert_eq!(answer["warnings"], json!(["2 payments without a date are counted as payments of 2025"]));
    assert!(!answer.to_string().contains("123456789018") && !order.yearly.csv().contains("123456789018"));
    assert!(
        order
            .yearly
            .csv()
            .contains("\r\n2025,山田　太郎,東京都新宿区西新宿２－８－１,個人,原稿料等,1,500000,0,51050,0,50000,要\r\n")
    );
    let (pdf, missing) = order.yearly.pdf(order.theme.colour, GIVEN.today);
    assert!(pdf.starts_with(b"%PDF-") && missing.is_empty());
}

#[test]
fn b31_the_year_is_that_of_the_latest_payment() {
    let year = |changes: Value| records(&with(payees(), changes), &GIVEN).unwrap().yearly.year;
    assert_eq!(year(json!({"year": null})), 2025);
    assert_eq!(
        year(json!({"year": null, "payees": [{"name": "x", "payments": [{"amount": 1, "paid_on": "2023-01-01"}]}]})),
        2023
    );
    assert_eq!(year(json!({"-year": null, "payees": []})), 2025);
}

#[test]
fn records_with_faults_are_refused() {
    let of = |changes: Value| refused(records(&with(payees(), changes), &GIVEN));
    let fault = |kind: &'static str, place: &str| vec![(kind, format!("body.{place}"))];
    assert_eq!(of(json!({"year": 2012})), fault("greater_than_equal", "year"));
    assert_eq!(
        of(json!({"year": null, "payees": [{"name": "x", "payments": [{"amount": 1, "paid_on": "2012-12-31"}]}]})),
        fault("value_error", "year")
    );
    let payment = |payment: Value| of(json!({"payees": [{"name": "x", "payments": [payment]}]}));
    assert_eq!(payment(json!({"amount": -1})), fault("value_error", "payees.0.payments.0.amount"));
    assert_eq!(payment(json!({"amount": "0.5"})), fault("value_error", "payees.0.payments.0.amount"));
    assert_eq!(
        payment(json!({"amount": 1, "category": "給与"})),
        fault("literal_error", "payees.0.payments.0.category")
    );
    assert_eq!(payment(json!({"amount": 1, "days": 0, "salary": -1})).len(), 2);
    assert_eq!(payment(json!({})), fault("missing", "payees.0.payments.0.amount"));
    // a fault does not contain the person's number
    let faults = records(
        &with(payees(), json!({"payees": [{"name": "x", "payments": [], "number": 123_456_789_018_i64}]})),
        &GIVEN,
    )
    .unwrap_err();
    assert!(!serde_json::to_string(&faults).unwrap().contains("123456789018"));
}

#[test]
fn b32_what_the_tax_office_cannot_take_is_told_with_its_place() {
    let text = records(&bytes(&payees()), &GIVEN).unwrap().etax().unwrap();
    let (text, _, _) = encoding_rs::SHIFT_JIS.decode(&text);
    let columns: Vec<&str> = text.trim_end_matches("\r\n").split(',').collect();
    assert_eq!((columns.len(), text.matches("\r\n").count()), (53, 1), "the other payee is below the line");
    assert_eq!(
        (columns[14], columns[15], columns[16], columns[18], columns[50], columns[52]),
        ("原稿料等", "広告", "500000", "51050", "消費税等の額　５０，０００円", "0123456789018")
    );
    let of = |payee: Value, payer: Value| {
        let mut body = payees();
        for (member, changes) in [(&["payees", "0"][..], payee), (&["payer"][..], payer)] {
            for (name, value) in changes.as_object().unwrap() {
                let pointer = format!("/{}", member.join("/"));
                body.pointer_mut(&pointer).unwrap()[name] = value.clone();
            }
        }
        records(&bytes(&body), &GIVEN).unwrap().etax().unwrap_err()
    };
    let faults = of(json!({"name": "山田🍣"}), json!({}));
    assert_eq!(told(&faults), [("value_error", "body.payees.0.name".to_owned())]);
    assert_eq!(faults[0].ctx, Some(json!({"position": 2, "character": "🍣"})));
    let place = |payee: Value, payer: Value| told(&of(payee, payer)).remove(0).1;
    assert_eq!(place(json!({"address": "あ".repeat(61)}), json!({})), "body.payees.0.address");
    assert_eq!(place(json!({"number": "12"}), json!({})), "body.payees.0.number");
    assert_eq!(place(json!({}), json!({"tel": "電話"})), "body.payer.tel");
    assert_eq!(place(json!({}), json!({"name": " "})), "body.payer.name");
    assert_eq!(place(json!({"payments": [{"amount": 10_000_000_000_i64}]}), json!({})), "body.payees.0.payments");
    let old = records(
        &with(payees(), json!({"year": 2018, "payees": [{"name": "x", "payments": [{"amount": 60_000}]}]})),
        &GIVEN,
    );
    assert_eq!(told(&old.unwrap().etax().unwrap_err()), [("value_error", "body.year".to_owned())]);
}

#[test]
fn b28b_b33_records_of_transfers() {
    let transfer = |id: &str, account: &str, amount: i64| {
        json!({"id": id, "object": "transfer", "amount": amount, "currency": "jpy",
        "destination": account, "created": 1_750_000_000})
    };
    let mut dollars = transfer("tr_4", "acct_1", 100);
    dollars["currency"] = json!("usd");
    let body = json!({
        "transfers": [transfer("tr_1", "acct_1", 110_000), transfer("tr_2", "acct_2", 60_000), transfer("tr_3", "acct_3", 89_790), dollars],
        "payee_map": {
            "acct_1": {"name": "山田", "address": "東京都", "tax": "separate", "category": "講演料", "description": "講演"},
            "acct_3": {"name": "佐藤", "amount_is": "net_of_withholding", "tax_included": true},
        },
        "default_category": "デザイン料",
    });
    let order = records_of_transfers(&bytes(&body), &GIVEN).unwrap();
    let answer = order.yearly.json();
    let totals = |at: usize| {
        let category = &answer["payees"][at]["categories"][0];
        (category["payment_total"].as_i64().unwrap(), category["tax_total"].as_i64().unwrap())
    };
    assert_eq!((totals(0), totals(1), totals(2)), ((100_000, 10_210), (60_000, 6_126), (100_000, 10_210)));
    let unknown = &answer["payees"][1];
    assert_eq!(
        (&unknown["name"], &unknown["account"], &unknown["needs_declaration"]),
        (&json!("acct_2"), &json!("acct_2"), &json!(true))
    );
    assert_eq!(answer["skipped"], json!([{"index": 3, "id": "tr_4", "reason": "not_jpy"}]));
    assert_eq!(answer["warnings"], json!(["1 accounts are not in payee_map: their names and addresses are missing"]));
    let of = |changes: Value| refused(records_of_transfers(&with(body.clone(), changes), &GIVEN));
    assert_eq!(
        of(json!({"payee_map": {"acct_1": {"tax": "half", "number": 5}}})),
        [
            ("literal_error", "body.payee_map.acct_1.tax".to_owned()),
            ("string_type", "body.payee_map.acct_1.number".to_owned()),
        ]
    );
    assert_eq!(
        of(json!({"transfers": [transfer("tr_1", "acct_1", 5), transfer("tr_1", "acct_1", 5)]})),
        [("value_error", "body.transfers.1.id".to_owned())]
    );
    // for transfers, the path to a fault of a payee contains the id of the payee's connected account
    let payer = json!({"name": "x", "address": "y"});
    let order = records_of_transfers(
        &with(body.clone(), json!({"payer": payer, "payee_map": {"acct_1": {"name": "🍣"}}})),
        &GIVEN,
    )
    .unwrap();
    assert_eq!(told(&order.etax().unwrap_err())[0].1, "body.payee_map.acct_1.name");
}

#[test]
fn b35_two_lists_are_compared() {
    let body = json!({
        "left": [{"n": "ヤマダショウジ", "a": 110_000}, {"n": "ヤマダショウジ", "a": "55,000"}, {"n": "タクミ", "a": 33_000}, {"n": "ミライ", "a": "?"}],
        "right": [{"name": "ｶ)ﾔﾏﾀﾞｼﾖｳｼﾞ", "sum": "￥165,000"}, {"name": "ﾕ)ﾀｸﾐ", "sum": 32_560.5}, {"name": "ｿﾗ", "sum": 5}],
        "left_key": "n", "right_key": "name", "left_amount": "a", "right_amount": "sum", "kind": "bank", "amount_tolerance": 440,
    });
    let of =
        |changes: Value| -> Value { serde_json::from_str(&reconciled(&with(body.clone(), changes)).unwrap()).unwrap() };
    let found = of(json!({}));
    assert_eq!(
        found["matched"],
        json!([
            {"left": [{"index": 0, "record": {"n": "ヤマダショウジ", "a": 110_000}}, {"index": 1, "record": {"n": "ヤマダショウジ", "a": "55,000"}}],
                "right": [{"index": 0, "record": {"name": "ｶ)ﾔﾏﾀﾞｼﾖｳｼﾞ", "sum": "￥165,000"}}], "normalized_key": "ヤマダシヨウジ", "difference": 0},
            {"left": [{"index": 2, "record": {"n": "タクミ", "a": 33_000}}], "right": [{"index": 1, "record": {"name": "ﾕ)ﾀｸﾐ", "sum": 32_560.5}}],
                "normalized_key": "タクミ", "difference": "439.5"},
        ])
    );
    assert_eq!(
        found["left_only"],
        json!([{"index": 3, "record": {"n": "ミライ", "a": "?"}, "normalized_key": "ミライ", "reason": "amount_unreadable"}])
    );
    assert_eq!(found["right_only"][0]["reason"], "no_match");
    assert_eq!(
        found["summary"],
        json!({"left": 4, "right": 3, "matched": 2, "amount_mismatch": 0, "left_only": 1, "right_only": 1, "left_total": 198_000,
            "right_total": "197565.5"})
    );
    let strict = of(json!({"amount_tolerance": 439}));
    assert_eq!((strict["amount_mismatch"].as_array().unwrap().len(), &strict["summary"]["matched"]), (1, &json!(1)));
    // `right_key` defaults to `left_key`; without `left_amount` no amounts are compared
    let same = json!({"left": [{"n": 5}], "right": [{"n": "5"}], "right_key": null, "left_amount": null});
    assert_eq!(
        (of(same.clone())["summary"]["matched"].as_i64(), of(same)["summary"]["left_total"].clone()),
        (Some(1), Value::Null)
    );
}

#[test]
fn b35_records_are_repeated_as_they_are_written() {
    let record = r#"{"n": "x",  "a": 1e8000, "b": 0.10, "b": [ ]}"#;
    let body = format!(r#"{{"left": [{record}], "right": [], "left_key": "n", "left_amount": "a"}}"#);
    let told = reconciled(body.as_bytes()).unwrap();
    assert!(told.contains(record) && told.contains("amount_unreadable"), "{told}");
}

#[test]
fn b35_rows_without_the_key_are_told() {
    let body = json!({"left": [{"n": "x"}, {}, {"n": null}, 5], "right": [], "left_key": "n"});
    assert_eq!(
        refused(reconciled(&bytes(&body))),
        [("missing", "body.left.1"), ("missing", "body.left.2"), ("dict_type", "body.left.3")]
            .map(|(kind, at)| (kind, at.to_owned()))
    );
    let of = |changes: Value| refused(reconciled(&with(json!({"left": [], "right": [], "left_key": "n"}), changes)));
    assert_eq!(of(json!({"kind": "sound"})), [("literal_error", "body.kind".to_owned())]);
    assert_eq!(of(json!({"amount_tolerance": -1})), [("greater_than_equal", "body.amount_tolerance".to_owned())]);
    assert_eq!(of(json!({"left": vec![json!({}); 20_001]})), [("too_long", "body.left".to_owned())]);
    assert_eq!(of(json!({"-left_key": null, "-right": null})).len(), 2);
}

#[test]
fn b36_numbers_are_verified() {
    let body = json!({"numbers": ["Ｔ７０００－０１２０－５０００２", "T1234567890123", "x"]});
    let order = verification(&bytes(&body)).unwrap();
    let answer = order.answer(&order.checked(GIVEN.today), GIVEN.today);
    assert_eq!(
        answer["results"][0],
        json!({"number": "Ｔ７０００－０１２０－５０００２", "normalized": "T7000012050002", "format_valid": true, "check_digit_valid": true,
            "status": "format_ok", "status_ja": "形式確認のみ", "name": null, "registered_on": null, "revoked_on": null, "expired_on": null,
            "ends_on": null, "warnings": [], "basis": "format_only"})
    );
    assert_eq!(
        (&answer["results"][1]["status"], &answer["results"][2]["format_valid"]),
        (&json!("check_digit_mismatch"), &json!(false))
    );
    assert_eq!(answer["as_of"], "2025-11-30");
    let records = json!([{"number": "T7000012050002", "registrationDate": "2023-10-01", "disposalDate": "2025-04-01", "name": "国税庁"}]);
    let order =
        verification(&with(body.clone(), json!({"records": records, "as_of": "2025-03-31", "source": "web"}))).unwrap();
    let answer = order.answer(&order.checked(GIVEN.today), GIVEN.today);
    let first = &answer["results"][0];
    assert_eq!(
        (&first["status"], &first["ends_on"], &first["name"], &answer["source"]),
        (&json!("active"), &json!("2025-04-01"), &json!("国税庁"), &json!("web"))
    );
    assert_eq!(order.published.sha256.as_ref().unwrap().len(), 64);
    let of = |changes: Value| refused(verification(&with(body.clone(), changes)));
    assert_eq!(of(json!({"numbers": vec!["x"; 1_001]})), [("too_long", "body.numbers".to_owned())]);
    assert_eq!(
        of(json!({"numbers": [1], "records": [{"number": "T1"}], "as_of": "30.11.2025"})),
        [
            ("string_type", "body.numbers.0".to_owned()),
            ("date_from_datetime_parsing", "body.as_of".to_owned()),
            ("value_error", "body.records".to_owned()),
        ]
    );
    assert_eq!(of(json!({"records": 5})), [("value_error", "body.records".to_owned())]);
}

#[test]
fn b38_numbers_are_watched() {
    let records = json!({"T7000012050002": {"registrationDate": "2023-10-01", "expireDate": "2025-04-01"}});
    let order = watch(&bytes(&json!({"watch": ["T7000012050002", "T1180301018771"], "records": records}))).unwrap();
    let answer = order.answer(&order.found(GIVEN.today), GIVEN.today);
    assert_eq!(
        (&answer["alerts"][0]["status"], &answer["not_found"][0]["number"]),
        (&json!("expired"), &json!("T1180301018771"))
    );
    assert_eq!((&answer["checked"], &answer["ok"]), (&json!(2), &json!([])));
    assert_eq!(refused(watch(b"{}")), [("missing", "body.watch".to_owned())]);
}

#[test]
fn b4_b5_keys_and_caps() {
    assert_eq!(key_order(b"{}").unwrap(), KeyOrder { plan: "payg".to_owned(), customer: String::new(), cap_yen: 0 });
    assert_eq!((cap(b"{}").unwrap(), cap(br#"{"cap_yen": 5000}"#).unwrap()), (0, 5_000));
    let body = json!({"plan": "gold", "customer": "x".repeat(201), "cap_yen": -1});
    assert_eq!(
        refused(key_order(&bytes(&body))),
        [("literal_error", "body.plan"), ("value_error", "body.customer"), ("greater_than_equal", "body.cap_yen")]
            .map(|(kind, at)| (kind, at.to_owned()))
    );
    assert_eq!(refused(cap(br#"{"cap_yen": null}"#)), [("int_type", "body.cap_yen".to_owned())]);
}

#[test]
fn b10_b11_profiles() {
    let body = json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002"});
    let read = profile(&bytes(&body), &GIVEN).unwrap();
    assert_eq!((read.kind, read.delivery_mode.name(), read.rotate_token), (Kind::Receipt, "store", false));
    let all = json!({"delivery_mode": "both", "delivery_email": "keiri@example.jp", "default_tax_rate": 8, "document_type": "simplified_invoice",
        "brand_color": "#2B4C7E", "logo": "", "seal": "", "rotate_token": true, "provider_signing_secret": "whsec_x", "issuer_tel": "03-1"});
    let read = profile(&with(body.clone(), all), &GIVEN).unwrap();
    assert_eq!(
        (read.kind, read.delivery_mode, read.brand_color.as_str()),
        (Kind::SimplifiedInvoice, DeliveryMode::Both, "#2B4C7E")
    );
    let of = |changes: Value| profile(&with(body.clone(), changes), &GIVEN).unwrap_err();
    let wrong = json!({"issuer": "長".repeat(101), "delivery_mode": "fax", "brand_color": "red", "logo": "http://x/y.png", "default_tax_rate": 0});
    assert_eq!(told(&of(wrong)).len(), 5);
    for email in ["x", "@x", "x@", "a@b@c", "a b@c", "a@b\n", "a,c@b", "<a@b>"] {
        assert_eq!(
            told(&of(json!({"delivery_email": email}))),
            [("value_error", "body.delivery_email".to_owned())],
            "{email}"
        );
    }
    let faults = of(json!({"provider_signing_secret": "s".repeat(201)}));
    assert!(!serde_json::to_string(&faults).unwrap().contains("sss"), "a secret is not repeated");
}

proptest::proptest! {
    #[test]
    fn any_body_is_read_or_refused(
        member in "(issuer|items|payment_object|payment_objects|payees|transfers|payee_map|left|right|left_key|numbers|records|watch|theme|cap_yen)",
        value in "[\\[\\]{}:,\"a0-9.eE+\\- ]{0,40}",
    ) {
        let body = format!("{{\"{member}\": {value}}}");
        for bytes in [body.as_bytes(), value.as_bytes()] {
            let told = [
                document(bytes, &GIVEN).err(),
                document_of_payment(bytes, &GIVEN).err(),
                document_of_payments(bytes, &GIVEN).err(),
                profile(bytes, &GIVEN).err(),
            ];
            // each of these four readers requires a member that the body does not have
            for faults in told {
                proptest::prop_assert!(faults.is_some_and(|faults| !faults.is_empty()));
            }
            let others = [
                records(bytes, &GIVEN).err(),
                records_of_transfers(bytes, &GIVEN).err(),
                reconciled(bytes).err(),
                verification(bytes).err(),
                watch(bytes).err(),
                key_order(bytes).err(),
                cap(bytes).err(),
            ];
            for faults in others.into_iter().flatten() {
                proptest::prop_assert!(!faults.is_empty() && faults.iter().all(|fault| fault.loc[0] == Place::from("body")));
            }
        }
    }
}
