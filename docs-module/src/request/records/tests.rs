//! Records of a year, from payments and from transfers (B28b, B31-B33).

use serde_json::{Value, json};

use super::super::tests::{GIVEN, bytes, faults, refused, told, with};
use super::*;
use crate::limit::Limit;

/// The columns of each record for the tax office.
fn filed(body: &Value) -> Vec<Vec<String>> {
    columns(&records(&bytes(body), &GIVEN).unwrap())
}

fn columns(order: &RecordsOrder) -> Vec<Vec<String>> {
    let (text, _) = order.etax().unwrap();
    let (text, _, _) = encoding_rs::SHIFT_JIS.decode(&text);
    text.split_terminator("\r\n").map(|line| line.split(',').map(str::to_owned).collect()).collect()
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
            "missing_for_filing": [],
            "categories": [{"category": "原稿料等", "word": "デザイン料", "detail": "広告", "payment_total": 500_000, "unpaid_total": 0, "tax_total": 51_050, "uncollected_tax_total": 0,
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
    assert!(order.yearly.csv().contains(
        "\r\n2025,山田　太郎,東京都新宿区西新宿２－８－１,個人,原稿料等,デザイン料,広告,1,500000,0,51050,0,50000,要\r\n"
    ));
    let (pdf, missing) = order.yearly.pdf(order.theme.colour, GIVEN.today, Limit::NONE).unwrap();
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
    let odd = json!({"payees": [{"name": "x", "payments": [], "number": 123_456_789_018_i64}]});
    let faults = faults(records(&with(payees(), odd), &GIVEN));
    assert!(!serde_json::to_string(&faults).unwrap().contains("123456789018"));
}

#[test]
fn b32_what_the_tax_office_cannot_take_is_told_with_its_place() {
    let filed = filed(&payees());
    let [columns] = filed.as_slice() else { panic!("the other payee is below the line: {filed:?}") };
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    assert_eq!(columns.len(), 53);
    assert_eq!(
        (columns[14], columns[15], columns[16], columns[18], columns[50], columns[52]),
        ("デザイン料", "広告", "500000", "51050", "消費税等の額　５０，０００円", "0123456789018")
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
    let faults = told(&old.unwrap().etax().unwrap_err());
    assert_eq!(faults, ["body.year", "body.payees.0.address"].map(|at| ("value_error", at.to_owned())));
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
    let faults = told(&order.etax().unwrap_err());
    let places: Vec<&str> = faults.iter().map(|(_, place)| place.as_str()).collect();
    assert_eq!(
        places,
        [
            "body.payee_map.acct_1.address",
            "body.payee_map.acct_1.name",
            "body.payee_map.acct_2.address",
            "body.payee_map.acct_2.name",
            "body.payee_map.acct_3.address",
            "body.payee_map.acct_3.name",
        ]
    );
}

/// A body with one payee of this name, whose payments are these.
fn one(payments: Value) -> Value {
    json!({"year": 2025, "payer": payees()["payer"],
        "payees": [{"name": "山田", "address": "東京都", "payments": payments}]})
}

#[test]
fn a4_the_payer_s_words_stay_apart_on_the_form_and_everywhere_else() {
    let body = one(json!([
        {"amount": 300_000, "category": "講演料", "detail": "春の講座"},
        {"amount": 200_000, "category": "原稿料", "description": "特集"},
        {"amount": 60_000, "category": " ﾃﾞｻﾞｲﾝ料"},
        {"amount": 40_000, "category": "デザイン料", "unpaid": true},
        {"amount": 70_000, "category": "税理士", "detail": "相続"},
    ]));
    let filed = filed(&body);
    let cells: Vec<&[String]> = (0..4).map(|kind| &filed[0][14 + 6 * kind..20 + 6 * kind]).collect();
    assert_eq!(
        cells,
        [
            ["講演料", "春の講座", "300000", "", "30630", ""],
            ["原稿料", "特集", "200000", "", "20420", ""],
            ["デザイン料", "２回", "100000", "40000", "10210", "4084"],
            ["税理士報酬", "相続", "70000", "", "7147", ""],
        ]
    );
    let order = records(&bytes(&body), &GIVEN).unwrap();
    let rows = order.yearly.json()["payees"][0]["categories"].clone();
    let words: Vec<(&str, &str, &str)> = rows.as_array().unwrap().iter().map(words_of).collect();
    assert_eq!(
        words,
        [
            ("原稿料等", "講演料", "春の講座"),
            ("原稿料等", "原稿料", "特集"),
            ("原稿料等", "デザイン料", "2回"),
            ("弁護士等", "税理士報酬", "相続"),
        ]
    );
    for (_, word, detail) in words {
        assert!(order.yearly.csv().contains(&format!(",{word},{detail},")), "{word}");
    }
}

fn words_of(row: &Value) -> (&str, &str, &str) {
    (row["category"].as_str().unwrap(), row["word"].as_str().unwrap(), row["detail"].as_str().unwrap())
}

#[test]
fn a4_details_of_a_row_are_joined_and_cut_with_a_warning() {
    let payments: Vec<Value> =
        ["春", "", "夏", "春"].iter().map(|detail| json!({"amount": 60_000, "detail": detail})).collect();
    assert_eq!(filed(&one(json!(payments)))[0][15], "春、夏");
    let long = one(json!([{"amount": 60_000, "description": "長".repeat(61)}]));
    let order = records(&bytes(&long), &GIVEN).unwrap();
    assert!(order.yearly.warnings.contains(&"payee 0: details are cut to 60 characters".to_owned()));
    assert_eq!(order.etax().unwrap().1, ["payee 0: a detail is cut to 20 characters"]);
}

#[test]
fn a4_transfers_keep_the_words_of_metadata_declaration_and_default() {
    let transfer = |id: &str, metadata: Value| json!({"id": id, "amount": 60_000, "currency": "jpy", "destination": "acct_1", "created": 1_750_000_000, "metadata": metadata});
    let map = |more: Value| {
        let mut declared = json!({"name": "山田", "address": "東京都", "description": "連載"});
        declared.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"acct_1": declared})
    };
    let body = json!({"payer": payees()["payer"], "default_category": "翻訳料", "payee_map": map(json!({})),
        "transfers": [transfer("1", json!({})), transfer("2", json!({"category": "弁理士", "detail": "出願"})),
            transfer("3", json!({"category": "ホステス", "days": "31", "salary": "0"}))]});
    let order = records_of_transfers(&bytes(&body), &GIVEN).unwrap();
    let rows = order.yearly.json()["payees"][0]["categories"].clone();
    let words: Vec<(&str, &str, &str)> = rows.as_array().unwrap().iter().map(words_of).collect();
    assert_eq!(
        words,
        [("原稿料等", "翻訳料", "連載"), ("弁護士等", "弁理士報酬", "出願"), ("ホステス等", "ホステス報酬", "連載")]
    );
    // 31 days deduct more than the fee
    assert_eq!((rows[2]["tax_total"].as_i64(), order.yearly.warnings.len()), (Some(0), 0));
    let declared = with(body, json!({"payee_map": map(json!({"category": "講演料"}))}));
    let order = records_of_transfers(&declared, &GIVEN).unwrap();
    assert_eq!(columns(&order)[0][14], "講演料");
}

#[test]
fn a5_a_file_has_no_payee_that_is_nobody() {
    let transfer = json!({"id": "tr_1", "amount": 60_001, "currency": "jpy", "destination": "acct_1AbCdEf", "created": 1_750_000_000});
    let body = |map: Value| {
        let payer = payees()["payer"].clone();
        records_of_transfers(&bytes(&json!({"transfers": [transfer], "payer": payer, "payee_map": map})), &GIVEN)
            .unwrap()
    };
    let nobody = body(json!({}));
    let places =
        |order: &RecordsOrder| told(&order.etax().unwrap_err()).into_iter().map(|(_, at)| at).collect::<Vec<_>>();
    assert_eq!(places(&nobody), ["body.payee_map.acct_1AbCdEf.address", "body.payee_map.acct_1AbCdEf.name"]);
    let payee = nobody.yearly.json()["payees"][0].clone();
    assert_eq!((&payee["missing_for_filing"], &payee["name"]), (&json!(["address", "name"]), &json!("acct_1AbCdEf")));
    let unnamed = body(json!({"acct_1AbCdEf": {"address": "東京都", "name": "\u{3000}"}}));
    assert_eq!(places(&unnamed), ["body.payee_map.acct_1AbCdEf.name"]);
    assert_eq!(columns(&body(json!({"acct_1AbCdEf": {"address": "東京都", "name": "山田"}})))[0][13], "山田");
}

#[test]
fn a5_wrong_check_digits_are_refused_and_payees_below_the_line_block_nothing() {
    let body = |amount: i64, number: &str, payer: &str| {
        let mut body = one(json!([{"amount": amount}]));
        body["payees"][0]["number"] = json!(number);
        body["payer"]["number"] = json!(payer);
        records(&bytes(&body), &GIVEN).unwrap()
    };
    let wrong = body(50_001, "123456789010", "7000012050003");
    let faults = wrong.etax().unwrap_err();
    assert_eq!(
        told(&faults).into_iter().map(|(_, at)| at).collect::<Vec<_>>(),
        ["body.payer.number", "body.payees.0.number"]
    );
    assert!(!serde_json::to_string(&faults).unwrap().contains("12345678901"));
    let answer = wrong.yearly.json();
    assert_eq!(answer["payer"]["missing_for_filing"], json!(["number"]));
    assert_eq!(answer["payees"][0]["missing_for_filing"], json!(["number"]));
    assert_eq!(wrong.yearly.warnings.len(), 3, "payer, payee, and a payment without a date");
    let below = body(50_000, "123456789010", "7000012050003");
    assert_eq!(below.yearly.json()["payees"][0]["missing_for_filing"], json!([]));
    let (text, warnings) = below.etax().unwrap();
    assert_eq!((text.len(), warnings.len()), (0, 1));
}

#[test]
fn b5_payments_of_months_need_their_dates() {
    let order = |payments: Value| records(&bytes(&one(payments)), &GIVEN);
    let of = |date: Value| json!({"amount": 100_000, "category": "外交員", "paid_on": date});
    let places = refused(order(json!(vec![of(json!(null)); 12])));
    assert_eq!((places.len(), &places[11]), (12, &("missing", "body.payees.0.payments.11.paid_on".to_owned())));
    let tax = |payments: Vec<Value>| order(json!(payments)).unwrap().yearly.records.rows[0].totals.tax;
    let dated = (1..=12).map(|month| of(json!(format!("2025-{month:02}-25"))));
    assert_eq!(tax(dated.collect()), 0);
    // the tax of a single payment does not depend on its month, and other years do not count
    assert_eq!(tax(vec![of(json!(null)), of(json!("2024-01-25"))]), 0);
    // other categories and other payees have no common month
    let with_fee =
        json!([of(json!(null)), {"amount": 100_000, "category": "原稿料"}, {"amount": 5, "category": "診療報酬"}]);
    assert_eq!(order(with_fee).unwrap().yearly.records.rows.len(), 3);
    let transfer = |id: &str| json!({"id": id, "amount": 100_000, "currency": "jpy", "destination": "acct_1"});
    let body = json!({"transfers": [transfer("1"), transfer("2")], "default_category": "集金人"});
    let places = refused(records_of_transfers(&bytes(&body), &GIVEN));
    assert_eq!(places[1], ("missing", "body.transfers.1.created".to_owned()));
}

#[test]
fn b5_fees_of_hostesses_without_days_are_told() {
    let order = |payment: Value| records(&bytes(&one(json!([payment]))), &GIVEN).unwrap().yearly;
    let without = order(json!({"amount": 200_000, "category": "ホステス等", "paid_on": "2025-01-31"}));
    assert_eq!(without.records.rows[0].totals.tax, 19_909);
    assert!(without.warnings[0].starts_with("payee 0: hostess fees without days"), "{:?}", without.warnings);
    assert!(without.warnings.iter().all(|warning| warning.is_ascii()));
    let days = order(json!({"amount": 200_000, "category": "コンパニオン", "paid_on": "2025-01-31", "days": 31}));
    assert_eq!(days.warnings, Vec::<String>::new());
    let other_year = order(json!({"amount": 200_000, "category": "ホステス等", "paid_on": "2024-01-31"}));
    assert_eq!(other_year.warnings, Vec::<String>::new());
}

#[test]
fn e11_electronic_filing_begins_with_a_hundred_records_and_from_2027_with_thirty() {
    let of = |year: i32, count: usize| {
        let payee = |at: usize| json!({"name": format!("山田{at}"), "payments": [{"amount": 50_001}]});
        let mut payees: Vec<Value> = (0..count).map(payee).collect();
        payees.push(json!({"name": "少額", "payments": [{"amount": 50_000}]}));
        let answer = records(&bytes(&json!({"year": year, "payees": payees})), &GIVEN).unwrap().yearly.json();
        assert_eq!(answer["records_to_file"], count);
        answer["efiling_required"].as_bool().unwrap()
    };
    // records of 2025 are filed in January 2026, records of 2026 in January 2027
    assert_eq!(
        [(2025, 99), (2025, 100), (2026, 29), (2026, 30), (2027, 30)].map(|(year, count)| of(year, count)),
        [false, true, false, true, true]
    );
}

#[test]
fn amounts_are_whole_yen_from_0_to_twelve_digits() {
    let order = |amount: Value| records(&bytes(&one(json!([{"amount": amount}]))), &GIVEN);
    for amount in [json!(-1), json!("0.5"), json!(1_000_000_000_000_i64), json!("１")] {
        assert!(order(amount.clone()).is_err(), "{amount}");
    }
    let largest = order(json!(999_999_999_999_i64)).unwrap();
    assert_eq!(largest.yearly.records.summary.all.payment, 999_999_999_999);
    assert_eq!(told(&largest.etax().unwrap_err())[0].1, "body.payees.0.payments");
    let nothing = order(json!(0)).unwrap().yearly.records;
    assert_eq!((nothing.rows[0].totals.tax, nothing.rows[0].is_filed), (0, false));
}
