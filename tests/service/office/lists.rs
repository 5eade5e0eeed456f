//! Registration numbers, and reconciliation (readings B34-B39, B42).

use serde_json::{Value, json};
use tests_service::TestServer;

use crate::shop::*;

const MONITOR: &str = "/v1/registration/monitor";
const AUDIT: &str = "/v1/registration/audit";

fn published() -> Value {
    json!([
        {"registratedNumber": "T7000012050002", "registrationDate": "2023-10-01", "name": "国税庁"},
        {"registratedNumber": "T1180301018771", "registrationDate": "2023-10-01", "disposalDate": "2025-04-01"},
    ])
}

async fn logging() -> (tempfile::TempDir, TestServer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let server = TestServer::with(|config| config.office.audit_log = Some(path)).await;
    (folder, server)
}

#[tokio::test]
async fn b34_b35_lists_are_reconciled_by_name_and_amount() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let body = json!({
        "left": [{"n": "ヤマダショウジ", "a": 110_000}, {"n": "ミライ", "a": 20_000}, {"n": "タクミ", "a": 33_000}],
        "right": [{"p": "ｶ)ﾔﾏﾀﾞｼﾖｳｼﾞ", "b": "110,000"}, {"p": "ｿﾗ", "b": 5_000}, {"p": "ﾕ)ﾀｸﾐ", "b": 30_000}],
        "left_key": "n", "right_key": "p", "kind": "bank", "left_amount": "a", "right_amount": "b",
    });
    let told = shop.post("/v1/reconcile", &body).await.ok(200);
    let counts =
        ["matched", "left_only", "right_only", "amount_mismatch"].map(|group| told[group].as_array().unwrap().len());
    assert_eq!(counts, [1, 1, 1, 1], "{told}");
    let bad = json!({"left": [{"n": "a"}, {"m": "b"}], "right": [], "left_key": "n", "kind": "sound"});
    let found = faults(&shop.post("/v1/reconcile", &bad).await);
    let places: Vec<&str> = found.iter().map(|(_, at)| at.as_str()).collect();
    assert!(places.contains(&"body.kind") && places.contains(&"body.left.1"), "{places:?}");
}

#[tokio::test]
async fn b36_b37_numbers_are_verified_with_records_and_without() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let body = json!({"numbers": ["T7000012050002", "T1180301018771", "T9011001029597"], "records": published(), "as_of": "2025-11-30"});
    let told = shop.post(VERIFY, &body).await.ok(200);
    let states: Vec<&str> =
        told["results"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["active", "revoked", "not_found"]);
    assert!(told["disclaimer"].is_string());
    let told = shop.post(VERIFY, &json!({"numbers": ["T7000012050002", "T1000012050002", "5"]})).await.ok(200);
    let states: Vec<&str> =
        told["results"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["format_ok", "check_digit_mismatch", "format_error"]);
    assert_eq!(shop.me().await["usage"]["verify"], json!({"count": 2, "units": 6, "yen": 6}));
    let many = vec!["T7000012050002"; 1001];
    assert_eq!(faults(&shop.post(VERIFY, &json!({"numbers": many})).await)[0].1, "body.numbers");
}

#[tokio::test]
async fn b38_a_watch_tells_revoked_numbers() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let body = json!({"watch": ["T7000012050002", "T1180301018771", "T9011001029597"], "records": published(), "as_of": "2025-11-30"});
    let told = shop.post(MONITOR, &body).await.ok(200);
    assert_eq!(told["alerts"][0]["number"], "T1180301018771");
    assert_eq!((&told["not_found"][0]["number"], &told["checked"]), (&json!("T9011001029597"), &json!(3)));
    assert_eq!(shop.spent().await, 3);
}

#[tokio::test]
async fn b39_an_account_sees_what_it_had_checked_and_whether_the_log_is_whole() {
    let (folder, server) = logging().await;
    let (shop, other) = (Shop::new(&server).await, Shop::new(&server).await);
    let body = json!({"numbers": ["T7000012050002", "Ｔ１１８０３０１０１８７７１"], "records": published(), "as_of": "2025-11-30"});
    shop.post(VERIFY, &body).await.ok(200);
    other.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await.ok(200);
    shop.post(MONITOR, &json!({"watch": ["T7000012050002"], "records": published(), "source": "=a file"}))
        .await
        .ok(200);
    let trail = shop.get(AUDIT).await.ok(200);
    assert_eq!(
        (&trail["chain_valid"], &trail["broken_at"], &trail["entries_total"]),
        (&json!(true), &json!(null), &json!(3))
    );
    assert_eq!(trail["head"]["seq"], 4);
    let of_one = shop.get(&format!("{AUDIT}?number=T1180301018771")).await.ok(200);
    assert_eq!(of_one["entries"].as_array().unwrap().len(), 1);
    assert_eq!(of_one["entries"][0]["status"], "revoked");
    let csv = shop.get(&format!("{AUDIT}?format=csv")).await;
    assert_eq!(
        (csv.header("content-type"), csv.header("x-chain-valid")),
        (Some("text/csv; charset=utf-8"), Some("true"))
    );
    // a text that begins like a formula gets an apostrophe in front, so that spreadsheets do not evaluate it
    assert!(csv.text().contains("'=a file"), "{}", csv.text());
    // the node notices that its log file was changed
    let path = folder.path().join("audit.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("revoked", "active")).unwrap();
    let trail = shop.get(AUDIT).await.ok(200);
    assert_eq!((&trail["chain_valid"], &trail["broken_at"]), (&json!(false), &json!(2)));
    assert_eq!(shop.get(&format!("{AUDIT}?format=csv")).await.header("x-broken-at"), Some("2"));
    assert_eq!(faults(&shop.get(&format!("{AUDIT}?format=xml")).await)[0].1, "query.format");
}

#[tokio::test]
async fn b39_without_a_log_there_is_404_after_the_key_was_seen() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    refused(&shop.get(AUDIT).await, 404, "NOT_FOUND");
    refused(&server.send(tests_service::http::Request::get(AUDIT)).await, 401, "MISSING_AUTH_HEADER");
    shop.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await.ok(200);
}
