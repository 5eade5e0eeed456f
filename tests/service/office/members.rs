//! Members, parameters and headers given twice (RFC 8259, 4; readings E3, X7): two readers could take different ones, so
//! the node takes none.

use control::config::AdminKey;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use zeroize::Zeroizing;

use crate::shop::*;

const ADMIN_SECRET: &str = "an administrator's secret of 32 characters or more";

fn raw(path: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", path).body("application/json", body)
}

#[track_caller]
fn twice(answer: &Response, at: &str) {
    assert!(faults(answer).contains(&("value_error".to_owned(), at.to_owned())), "{at}: {}", answer.text());
}

#[tokio::test]
async fn c3_a_member_twice_is_a_fault_of_every_body_of_the_back_office() {
    let server = TestServer::with(|config| {
        config.office.ingest_wait_s = 0;
        config.office.admin_key = Some(AdminKey(Zeroizing::new(ADMIN_SECRET.to_owned())));
    })
    .await;
    let shop = Shop::new(&server).await;
    let ingest = shop.set_profile(json!({})).await;
    server.send(Request::post(&*ingest, &event("1", "charge.succeeded", charge("1", 1_000)))).await.ok(200);
    let kept = shop.stored("").await[0]["invoice_id"].as_str().unwrap().to_owned();
    let spent = shop.spent().await;
    let page = server.send(Request::get("/openapi.json")).await.ok(200);
    let mut seen = 0;
    for (path, item) in page["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/v1/")) {
        // the two addresses of the operator's provider take signed bodies only; their tests are in `purchases`
        if item.get("post").is_none_or(|post| post.get("requestBody").is_none()) || path.ends_with("/webhook") {
            continue;
        }
        let key = if path == "/v1/admin/keys" { ADMIN_SECRET } else { &shop.key };
        let path = path.replace("{invoice_id}", &kept).replace("/v1/ingest/{token}", &ingest);
        for body in [
            r#"{"x": 1, "x": 1}"#,
            r#"{"y": [{"z": 0}, {"x": {"x": {}, "\u0078": []}}]}"#,
            "\u{feff} {\"theme\": {\"footer\": \"a\", \"footer\": \"a\"}}",
        ] {
            let answer = server.send(raw(&path, body).key(key)).await;
            let at = ["body.x", "body.y.1.x.x", "body.theme.footer"];
            let found = faults(&answer);
            assert!(
                found.iter().any(|(kind, place)| kind == "value_error" && at.contains(&&**place)),
                "{path}: {found:?}"
            );
        }
        seen += 1;
    }
    assert_eq!(seen, 13);
    // members that the caller chooses, in bodies that are valid otherwise
    let payment = charge("2", 1_000).to_string().replacen('{', r#"{"metadata": {}, "#, 1);
    let import = format!(r#"{{"issuer": "A", "registration_number": "T7000012050002", "payment_object": {payment}}}"#);
    twice(&server.send(raw("/v1/invoices/from_payment", import).key(&shop.key)).await, "body.payment_object.metadata");
    let rows = r#"{"left": [{"n": "a", "n": "b"}], "right": [], "left_key": "n"}"#;
    twice(&server.send(raw("/v1/reconcile", rows)).await, "body.left.0.n");
    let records = r#"{"numbers": ["T7000012050002"], "records": {"announcement": [{"a": 1, "a": 2}]}}"#;
    twice(&server.send(raw(VERIFY, records).key(&shop.key)).await, "body.records.announcement.0.a");
    assert_eq!((shop.spent().await, shop.stored("").await.len()), (spent, 1));
}

#[tokio::test]
async fn c3_a_member_twice_is_a_fault_of_every_body_of_the_platform() {
    let server = start_at_once().await;
    let key = server.key(control::caller::Role::AccountAdmin).await;
    let user = server.user("a@example.org", control::caller::Role::AccountAdmin).await;
    let page = server.send(Request::get("/openapi.json")).await.ok(200);
    let mut seen = 0;
    for (path, item) in page["paths"].as_object().unwrap().iter().filter(|(path, _)| !path.starts_with("/v1/")) {
        for (method, operation) in item.as_object().unwrap() {
            let takes_json = operation["requestBody"]["content"].get("application/json").is_some();
            if !takes_json || path.ends_with("provider_webhook") {
                continue;
            }
            let method = if method == "post" { "POST" } else { "PATCH" };
            let key = if operation["x-access"]["level"] == "SESSION" { &user.token } else { &key };
            for body in [r#"{"x": 1, "x": 1}"#, r#"{"y": [{"x": {"x": {}, "\u0078": []}}]}"#] {
                let path = path.replace("{op}", "add");
                let answer = server.send(Request::new(method, path).body("application/json", body).key(key)).await;
                let error = answer.error(400, "INVALID_REQUEST");
                assert_eq!(error["details"][0], json!({"field": "x", "issue": "appears twice"}), "{error}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 26, "{seen}");
}

#[tokio::test]
async fn c3_a_parameter_or_a_header_twice_is_a_fault() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    for (path, at) in [
        ("/v1/invoices/stored?from=2025-12-01&from=2025-12-02", "query.from"),
        ("/v1/invoices/stored?min=1&m%69n=1", "query.min"),
        ("/v1/invoices/stored?limit=1&limit=1", "query.limit"),
        ("/v1/registration/audit?number=a&number=", "query.number"),
        ("/v1/registration/audit?unknown=1&unknown=2", "query.unknown"),
        ("/v1/keys/by-session?session_id=cs_1&session_id=cs_2", "query.session_id"),
    ] {
        twice(&shop.get(path).await, at);
    }
    twice(&shop.post("/v1/invoices?format=pdf&format=html", &invoice()).await, "query.format");
    twice(&shop.post("/v1/withholding-records?format=pdf&format=pdf", &json!({})).await, "query.format");
    for path in [
        "/api/v1/webhooks?limit=1&limit=2",
        "/api/v1/webhooks?cursor=a&cursor=a",
        "/api/v1/params/suggest?depth=1&depth=1",
    ] {
        shop.get(path).await.error(400, "INVALID_REQUEST");
    }
    // headers: the node takes none of two credentials, types of a body or keys
    let me = || Request::get(ME).key(&shop.key);
    faults(&server.send(me().key(&shop.key)).await);
    faults(&server.send(me().header("authorization", "Bearer x")).await);
    server.send(Request::get("/api/v1/webhooks").key(&shop.key).key(&shop.key)).await.error(400, "INVALID_REQUEST");
    let twice_typed = Request::post(INVOICES, &invoice()).key(&shop.key).header("Content-Type", "text/plain");
    faults(&server.send(twice_typed).await);
    let twice_keyed = Request::post(INVOICES, &invoice()).key(&shop.key).header("Idempotency-Key", "a");
    faults(&server.send(twice_keyed.header("Idempotency-Key", "a")).await);
    assert_eq!(shop.spent().await, 0);
}

#[tokio::test]
async fn c5_texts_that_are_stored_have_no_hidden_characters() {
    let server = TestServer::with(|config| {
        config.office.admin_key = Some(AdminKey(Zeroizing::new(ADMIN_SECRET.to_owned())));
    })
    .await;
    let shop = Shop::new(&server).await;
    let account = server.user("a@example.org", control::caller::Role::AccountAdmin).await;
    for hidden in ["\0", "\t", "\n", "\r\n", "\u{1b}", "\u{7f}", "\u{85}", "\u{200b}", "\u{202e}"] {
        let text = format!("a{hidden}b");
        let order = Request::post("/v1/admin/keys", &json!({"customer": text})).key(ADMIN_SECRET);
        assert_eq!(faults(&server.send(order).await), [("value_error".to_owned(), "body.customer".to_owned())]);
        let mut profile = issuer();
        profile["delivery_email"] = json!(format!("{text}@example.org"));
        assert_eq!(faults(&shop.post(PROFILE, &profile).await)[0].1, "body.delivery_email");
        let look = json!({"numbers": ["T7000012050002"], "source": text});
        assert_eq!(faults(&shop.post(VERIFY, &look).await)[0].1, "body.source");
        let query: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let found = shop.get(&format!("{STORED}?recipient={query}")).await;
        if hidden.chars().all(char::is_control) {
            assert_eq!(faults(&found)[0].1, "query.recipient");
        }
        let budget = json!({"monthly_cap_usd": 1, "hard_cap": true, "alert_email": format!("{text}@example.org")});
        let refused = server.send(Request::post("/api/v1/billing/budget", &budget).key(&shop.key)).await;
        refused.error(400, "INVALID_REQUEST");
        if hidden.chars().all(char::is_control) {
            let portal = json!({"return_url": format!("http://localhost/{text}")});
            let refused = server.send(Request::post("/api/v1/billing/portal", &portal).key(&account.token)).await;
            assert_eq!(refused.status, 400, "{hidden:?}: {}", refused.text());
        }
        let circuit = format!("/api/v1/tfhe/circuits/{query}");
        let put = Request::put_text(circuit, "1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n").key(&shop.key);
        assert_eq!(server.send(put).await.status, 400, "{hidden:?}");
    }
    let page: Value = server.send(Request::get("/api/v1/tfhe/circuits").key(&shop.key)).await.ok(200);
    assert_eq!((page["total_count"].as_i64(), shop.spent().await), (Some(0), 0));
}
