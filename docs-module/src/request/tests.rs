mod payments;

use serde_json::{Value, json};
use time::macros::date;

use super::*;
use crate::document::Kind;
use crate::drawing::Colour;

pub(super) const GIVEN: Given<'static> = Given { number: "20251130-AAAAAAAA", ..Given::on(date!(2025 - 11 - 30)) };

pub(super) fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

/// Makes a body with changed members. A name in `changes` that begins with `-` removes the member.
pub(super) fn with(mut body: Value, changes: Value) -> Vec<u8> {
    for (name, value) in changes.as_object().unwrap() {
        match name.strip_prefix('-') {
            Some(name) => drop(body.as_object_mut().unwrap().remove(name)),
            None => body[name] = value.clone(),
        }
    }
    bytes(&body)
}

pub(super) fn reconciled(bytes: &[u8]) -> Result<String, Refused> {
    super::reconciled(bytes, Limit::NONE)
}

pub(super) fn verification(bytes: &[u8]) -> Result<Verification, Refused> {
    super::verification(bytes, Limit::NONE)
}

pub(super) fn watch(bytes: &[u8]) -> Result<Watch, Refused> {
    super::watch(bytes, Limit::NONE)
}

fn invoice() -> Value {
    json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "items": [{"name": "設計", "unit_price": 1000, "tax_rate": 10}]})
}

/// Type and path of each fault.
pub(super) fn told(faults: &[Fault]) -> Vec<(&'static str, String)> {
    let place = |place: &Place| match place {
        Place::Name(name) => name.to_string(),
        Place::Index(at) => at.to_string(),
    };
    faults.iter().map(|fault| (fault.kind, fault.loc.iter().map(place).collect::<Vec<_>>().join("."))).collect()
}

/// The faults of a body.
pub(super) fn faults<T>(found: Result<T, impl Into<Refused>>) -> Vec<Fault> {
    match found.err().map(Into::into) {
        Some(Refused::Faults(faults)) => faults,
        Some(Refused::Stopped) => panic!("nothing stops this work"),
        None => Vec::new(),
    }
}

pub(super) fn refused<T>(found: Result<T, impl Into<Refused>>) -> Vec<(&'static str, String)> {
    let faults = faults(found);
    assert!(!faults.is_empty());
    told(&faults)
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
        "recipient_number": "Ｔ１１８０３０１０１８７７１", "proviso": "お品代", "theme": {"brand_color": "#112233", "footer": "下", "locale": "ja"},
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
    assert_eq!(draft.proviso, "お品代");
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
    let faults = faults(document(&with(invoice(), json!({"document_type": "poem", "items": []})), &GIVEN));
    let fault = |at: usize| serde_json::to_value(&faults[at]).unwrap();
    assert_eq!(
        fault(0),
        json!({"loc": ["body", "items"], "type": "too_short", "msg": "items should have at least one value", "input": [],
            "ctx": {"field_type": "List", "min_length": 1, "actual_length": 0}})
    );
    let msg = fault(1)["msg"].as_str().unwrap().to_owned();
    assert!(msg.starts_with("document_type should be one of: 'invoice', ") && msg.contains("'quote'"), "{msg}");
    assert_eq!(fault(1)["input"], "poem");
    let nested = json!({"items": [{"name": "a", "unit_price": 1, "tax_rate": 7}]});
    let nested = super::tests::faults(document(&with(invoice(), nested), &GIVEN));
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
    let faults = faults(records_of_transfers(&bytes(&json!({"transfers": transfers})), &GIVEN));
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
            .map_err(|error| refused(Err::<(), _>(error))[0].0)
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
    let record = r#"{"n": "x",  "a": 1e8000, "b": 0.10, "c": [ ]}"#;
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
    let answer = order.answer(&order.checked(GIVEN.today, Limit::NONE).unwrap(), GIVEN.today);
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
    let answer = order.answer(&order.checked(GIVEN.today, Limit::NONE).unwrap(), GIVEN.today);
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
    let answer = order.answer(&order.found(GIVEN.today, Limit::NONE).unwrap(), GIVEN.today);
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
                faults(document(bytes, &GIVEN)),
                faults(document_of_payment(bytes, &GIVEN)),
                faults(document_of_payments(bytes, &GIVEN)),
                faults(profile(bytes, &GIVEN)),
            ];
            // each of these four readers requires a member that the body does not have
            for faults in told {
                proptest::prop_assert!(!faults.is_empty());
            }
            let others = [
                faults(records(bytes, &GIVEN)),
                faults(records_of_transfers(bytes, &GIVEN)),
                faults(reconciled(bytes)),
                faults(verification(bytes)),
                faults(watch(bytes)),
                faults(key_order(bytes)),
                faults(cap(bytes)),
            ];
            for faults in others {
                proptest::prop_assert!(faults.iter().all(|fault| fault.loc[0] == Place::from("body")));
            }
        }
    }
}
