//! Records of payments to payees (readings B28b, B31-B33, B42).

use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Response;

use crate::shop::*;

const RECORDS: &str = "/v1/withholding-records";
const TRANSFERS: &str = "/v1/withholding-records/from_transfers";

fn records() -> Value {
    json!({
        "payer": {"name": "株式会社あんご", "address": "東京都千代田区霞が関3-1-1", "number": "7000012050002", "tel": "03-3581-4161"},
        "payees": [
            {"name": "山田太郎", "address": "東京都港区1-2-3", "number": "123456789018",
             "payments": [{"amount": 1_500_000, "paid_on": "2025-11-30"}, {"amount": "10000", "paid_on": "2024-12-31"}]},
            {"name": "株式会社みらい", "is_individual": false, "payments": [{"amount": 1000, "paid_on": "2025-01-31"}]},
        ],
    })
}

#[tokio::test]
async fn b31_b31b_b32_records_come_in_four_formats_and_cost_by_payee() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let answer = shop.post(RECORDS, &records()).await;
    let told = answer.ok(200);
    assert_eq!((told["year"].as_i64(), told["payees"].as_array().unwrap().len()), (Some(2025), 2));
    assert_eq!(told["excluded"][0]["reason"], "other_year");
    assert!(told["disclaimer"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(answer.text().contains("204200") && !answer.text().contains("123456789018"));
    let csv = shop.post(&format!("{RECORDS}?format=csv"), &records()).await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(csv.body.starts_with("\u{feff}".as_bytes()));
    let pdf = shop.post(&format!("{RECORDS}?format=pdf"), &records()).await;
    assert!(pdf.body.starts_with(b"%PDF-"));
    let etax = shop.post(&format!("{RECORDS}?format=etax_csv"), &records()).await;
    assert_eq!(etax.status, 200);
    assert!(etax.body.starts_with(b"309,") && etax.body.ends_with(b"\r\n") && std::str::from_utf8(&etax.body).is_err());
    assert_eq!(shop.spent().await, 80);
    assert_eq!(shop.me().await["usage"]["withholding"], json!({"count": 4, "units": 8, "yen": 80}));
    let unknown = shop.post(&format!("{RECORDS}?format=xml"), &records()).await;
    assert_eq!(faults(&unknown)[0].1, "query.format");
}

#[tokio::test]
async fn b32_characters_that_the_tax_office_lacks_are_told_with_their_place() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = records();
    body["payees"][0]["name"] = json!("山田😀太郎");
    let refused = shop.post(&format!("{RECORDS}?format=etax_csv"), &body).await;
    assert_eq!(faults(&refused), [("value_error".to_owned(), "body.payees.0.name".to_owned())]);
    assert_eq!(refused.json()["detail"][0]["ctx"]["position"], 2);
    body["payees"][0]["payments"][0]["category"] = json!("poem");
    let refused = shop.post(RECORDS, &body).await;
    assert!(refused.text().contains("原稿料等"), "{}", refused.text());
    // a refused request costs nothing
    assert_eq!(shop.spent().await, 0);
}

#[tokio::test]
async fn b33_transfers_are_records_of_their_accounts() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let transfer = |id: &str, currency: &str, amount: i64, reversed: i64| {
        json!({"id": id, "amount": amount, "currency": currency, "destination": format!("acct_{currency}"), "created": 1_764_514_800,
            "amount_reversed": reversed})
    };
    let body = json!({
        "transfers": [transfer("tr_1", "jpy", 100_000, 20_000), transfer("tr_2", "usd", 5, 0)],
    });
    let told = shop.post(TRANSFERS, &body).await.ok(200);
    let payee = &told["payees"][0];
    assert_eq!((&payee["name"], &payee["needs_declaration"]), (&json!("acct_jpy"), &json!(true)));
    assert_eq!(payee["categories"][0]["payment_total"], 80_000, "{told}");
    assert!(told.to_string().contains("tr_2"));
}

/// The warnings in the headers of an answer.
fn warnings(answer: &Response) -> Vec<&str> {
    answer.headers("x-document-warning").collect()
}

#[tokio::test]
async fn a5_a_file_needs_payees_and_a_payer_with_names_and_addresses() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let transfer = json!({"id": "tr_1", "amount": 60_001, "currency": "jpy", "destination": "acct_1AbCdEf", "created": 1_764_514_800});
    let mut body = json!({"transfers": [transfer]});
    let path = format!("{TRANSFERS}?format=etax_csv");
    let places: Vec<String> = faults(&shop.post(&path, &body).await).into_iter().map(|(_, at)| at).collect();
    assert_eq!(
        places,
        [
            "body.payer.address",
            "body.payer.name",
            "body.payee_map.acct_1AbCdEf.address",
            "body.payee_map.acct_1AbCdEf.name"
        ]
    );
    let told = shop.post(TRANSFERS, &body).await.ok(200);
    assert_eq!(told["payees"][0]["missing_for_filing"], json!(["address", "name"]));
    assert_eq!((&told["efiling_required"], &told["records_to_file"]), (&json!(false), &json!(1)));
    body["payer"] = records()["payer"].clone();
    body["payee_map"] = json!({"acct_1AbCdEf": {"name": "山田", "address": "東京都"}});
    assert_eq!(shop.post(&path, &body).await.status, 200);
}

#[tokio::test]
async fn a5_b5_warnings_are_in_the_headers_of_files() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let hostess = json!({"amount": 200_000, "category": "ホステス等", "paid_on": "2025-12-31"});
    let mut body = records();
    body["payees"][1] = json!({"name": "佐藤", "address": "東京都", "number": "7000012050002", "payments": [hostess]});
    let told = shop.post(RECORDS, &body).await.ok(200)["warnings"].clone();
    assert_eq!(told.as_array().unwrap().len(), 2, "a corporate number, and days: {told}");
    for format in ["csv", "pdf"] {
        let answer = shop.post(&format!("{RECORDS}?format={format}"), &body).await;
        assert_eq!(json!(warnings(&answer)), told, "{format}");
    }
    // the headers do not grow with the body
    body["payees"] = json!(vec![body["payees"][1].clone(); 30]);
    let many = shop.post(&format!("{RECORDS}?format=csv"), &body).await;
    let many = warnings(&many);
    assert_eq!((many.len(), many[20]), (21, "40 more warnings are in the format json"));
    body["payees"] =
        json!([{"name": "佐藤", "payments": [{"amount": 5, "paid_on": "2025-12-31", "detail": "長".repeat(70)}]}]);
    let empty = shop.post(&format!("{RECORDS}?format=etax_csv"), &body).await;
    assert_eq!((empty.status, empty.body.len(), warnings(&empty).len()), (200, 0, 2));
}
