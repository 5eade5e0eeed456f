//! Callers and their rights (readings B1-B5, B46).

use control::caller::{Environment, Plan, Role};
use control::config::AdminKey;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;
use zeroize::Zeroizing;

use crate::shop::*;

const KEYS: &str = "/v1/admin/keys";
const SECRET: &str = "an administrator's secret of 40 letters!";

/// Method and path of every operation that needs a key.
const WITH_KEY: [(&str, &str); 13] = [
    ("POST", INVOICES),
    ("POST", "/v1/invoices/from_payment"),
    ("POST", "/v1/invoices/from_payments"),
    ("POST", "/v1/withholding-records"),
    ("POST", "/v1/withholding-records/from_transfers"),
    ("POST", VERIFY),
    ("POST", "/v1/registration/monitor"),
    ("GET", "/v1/registration/audit"),
    ("GET", PROFILE),
    ("GET", STORED),
    ("GET", "/v1/invoices/stored/inv_x"),
    ("POST", CAP),
    ("GET", ME),
];

#[tokio::test]
async fn b1_b2_every_operation_but_reconcile_needs_a_valid_key() {
    let server = TestServer::start().await;
    for (method, path) in WITH_KEY {
        let request = || Request::new(method, path).body("application/json", "{}");
        refused(&server.send(request()).await, 401, "MISSING_AUTH_HEADER");
        refused(&server.send(request().header("Authorization", "")).await, 401, "MISSING_AUTH_HEADER");
        let unknown = format!("svc_live_{}", "0a".repeat(16));
        refused(&server.send(request().key(&unknown)).await, 401, "INVALID_API_KEY");
        server.clock.advance(std::time::Duration::from_secs(3600));
    }
    let lists = json!({"left": [{"n": "a"}], "right": [{"n": "A"}], "left_key": "n"});
    let free = server.send(Request::post("/v1/reconcile", &lists)).await;
    assert_eq!(free.ok(200)["summary"]["matched"], 1, "{}", free.text());
    refused(&server.send(Request::post("/v1/reconcile", &lists).key("svc_live_x")).await, 401, "INVALID_API_KEY");
    let shop = Shop::new(&server).await;
    shop.post("/v1/reconcile", &lists).await.ok(200);
    assert_eq!(shop.spent().await, 0);
}

#[tokio::test]
async fn a4_a5_trials_are_refused_and_viewers_only_read() {
    let server = TestServer::start().await;
    let trial = server.key(Role::Trial).await;
    refused(&server.send(Request::get(ME).key(&trial)).await, 403, "INSUFFICIENT_ROLE");
    let viewer = Shop::of(&server, Plan::Payg, Environment::Live, Role::Viewer, None).await;
    viewer.me().await;
    refused(&viewer.post(INVOICES, &invoice()).await, 403, "INSUFFICIENT_ROLE");
    refused(&viewer.post(CAP, &json!({})).await, 403, "INSUFFICIENT_ROLE");
}

#[tokio::test]
async fn b3_b4_b5_b46_the_administrator_issues_keys() {
    let server = TestServer::with(|config| {
        config.office.admin_key = Some(AdminKey(Zeroizing::new(SECRET.to_owned())));
    })
    .await;
    let order = json!({"plan": "pro", "customer": "株式会社みらい", "cap_yen": 20});
    let issued = server.send(Request::post(KEYS, &order).key(SECRET)).await.ok(200);
    assert_eq!((&issued["api_key"], &issued["plan"], &issued["cap_yen"]), (&issued["key"], &json!("pro"), &json!(20)));
    assert_eq!(issued["customer"], "株式会社みらい");
    let key = issued["key"].as_str().unwrap();
    assert!(key.starts_with(issued["key_prefix"].as_str().unwrap()));
    let me = server.send(Request::get(ME).key(key)).await.ok(200);
    assert_eq!((&me["plan"], &me["cap_yen"], &me["key_prefix"]), (&json!("pro"), &json!(20), &issued["key_prefix"]));
    // two keys may have the same label, and each key has its own account
    let other = server.send(Request::post(KEYS, &order).key(SECRET)).await.ok(200);
    let keys = server.operator().await.keys(None).await.unwrap();
    let of = |issued: &Value| keys.iter().find(|key| key.key_id == issued["key_id"]).unwrap();
    assert_ne!(of(&issued).account_id, of(&other).account_id);
    assert_eq!(of(&other).customer.as_deref(), Some("株式会社みらい"));
    // if a request for a key has no members, the key gets the defaults
    let plain = server.send(Request::post(KEYS, &json!({})).key(SECRET)).await.ok(200);
    assert_eq!((&plain["plan"], &plain["customer"], &plain["cap_yen"]), (&json!("payg"), &json!(""), &json!(0)));
    let bad = server.send(Request::post(KEYS, &json!({"plan": "gold", "cap_yen": -1})).key(SECRET)).await;
    assert_eq!(faults(&bad).iter().map(|(_, at)| at.as_str()).collect::<Vec<_>>(), ["body.plan", "body.cap_yen"]);
    // callers without the administrator's secret are refused
    let shop = Shop::new(&server).await;
    refused(&shop.post(KEYS, &order).await, 403, "INSUFFICIENT_ROLE");
    refused(&server.send(Request::post(KEYS, &order)).await, 401, "MISSING_AUTH_HEADER");
    let nearly = format!("{SECRET}!");
    refused(&server.send(Request::post(KEYS, &order).key(&nearly)).await, 401, "INVALID_API_KEY");
    // no other route accepts the administrator's secret
    refused(&server.send(Request::get(ME).key(SECRET)).await, 401, "INVALID_API_KEY");
}

#[tokio::test]
async fn b3_without_a_secret_nobody_issues_keys() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    refused(&shop.post(KEYS, &json!({})).await, 403, "INSUFFICIENT_ROLE");
    refused(&server.send(Request::post(KEYS, &json!({}))).await, 403, "INSUFFICIENT_ROLE");
}
