//! Webhooks: their events, their signatures, and failing deliveries (readings section 11).

use std::time::{Duration, Instant};

use control::caller::Role;
use control::config::WebhooksConfig;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::receiver::{Received, Receiver};

use crate::numbers::Numbers;

const WEBHOOKS: &str = "/api/v1/webhooks";
const EVENTS: &str = "/api/v1/webhooks/events";
const TEST: &str = "/api/v1/webhooks/test";
const ROTATE: &str = "/api/v1/keys/apikey/rotate";
const OWN_SECRET: &str = "a-secret-of-the-customer-s-own-with-more-than-32-characters";

/// Starts a node that may send webhooks to addresses of this machine.
async fn server() -> TestServer {
    TestServer::with(allow_loopback).await
}

fn allow_loopback(config: &mut control::config::Config) {
    config.webhooks = WebhooksConfig { webhook_networks: vec!["127.0.0.0/8".parse().unwrap()], webhook_http: true };
}

struct Client<'s> {
    server: &'s TestServer,
    key: String,
}

impl<'s> Client<'s> {
    async fn new(server: &'s TestServer) -> Client<'s> {
        Client { server, key: server.key(Role::Developer).await }
    }

    async fn send(&self, request: Request) -> Response {
        self.server.send(request.key(&self.key)).await
    }

    async fn create(&self, body: Value) -> Value {
        self.send(Request::post(WEBHOOKS, &body)).await.ok(201)
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Request::get(path)).await.ok(200)
    }

    /// Waits until the newest delivery to this webhook is as wanted. Returns the delivery's record.
    async fn delivery(&self, webhook: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{WEBHOOKS}/{}/deliveries", id(webhook));
        let begun = Instant::now();
        loop {
            let page = self.get(&path).await;
            if let Some(record) = page["records"].as_array().unwrap().first()
                && wanted(record)
            {
                return record.clone();
            }
            assert!(begun.elapsed() < PATIENCE, "{page}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Rotates the key, which causes an event.
    async fn rotate(&mut self) {
        let rotated = self.send(Request::new("POST", ROTATE)).await.ok(200);
        self.key = rotated["key"].as_str().unwrap().to_owned();
    }
}

fn patch(path: &str, body: &Value) -> Request {
    Request::new("PATCH", path).body("application/json", body.to_string())
}

fn id(webhook: &Value) -> &str {
    webhook["webhook_id"].as_str().unwrap()
}

fn is(status: &'static str) -> impl Fn(&Value) -> bool {
    move |record| record["status"] == status
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

#[track_caller]
fn verify(received: &Received, secret: &str) {
    let expected = format!("sha256={}", hex::encode(hmac(secret.as_bytes(), &received.body)));
    assert_eq!(received.header("x-service-signature"), expected);
    let body = received.json();
    assert_eq!(received.header("x-service-event-type"), body["event_type"].as_str().unwrap());
    assert_eq!(received.header("x-service-delivery-id"), body["delivery_id"].as_str().unwrap());
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.header("user-agent"), "SERVICE-Webhooks/1.0");
    let standard = received.header("webhook-signature");
    match secret.strip_prefix("whsec_") {
        None => assert_eq!(standard, ""),
        Some(encoded) => {
            let key = tests_service::gates::bytes(&json!(encoded));
            let (id, seconds) = (received.header("webhook-id"), received.header("webhook-timestamp"));
            let signed = [format!("{id}.{seconds}.").as_bytes(), &received.body].concat();
            assert_eq!(standard, format!("v1,{}", tests_service::gates::base64(&hmac(&key, &signed))));
            assert_eq!(id, body["delivery_id"].as_str().unwrap());
        }
    }
}

#[tokio::test]
async fn h1_h3_h10_h13_h20_h21_what_happens_is_told_once_to_each_webhook_signed() {
    let server = server().await;
    let receivers = [Receiver::start().await, Receiver::start().await, Receiver::start().await];
    let key = server.key(Role::AccountAdmin).await;
    let client = Client { server: &server, key: key.clone() };
    let all = client.create(json!({"url": receivers[0].url()})).await;
    let keys = json!({"url": receivers[1].url(), "events": ["key_created", "key_deleted", "key_created"], "secret": OWN_SECRET});
    let keys = client.create(keys).await;
    let other = client.create(json!({"url": receivers[2].url(), "events": ["invoice_paid"]})).await;
    // H2, H21
    assert!(all["secret"].as_str().unwrap().starts_with("whsec_") && keys.get("secret").is_none());
    assert_eq!(
        all["signature_info"],
        json!({
            "algorithm": "HMAC-SHA256", "header": "X-SERVICE-Signature", "format": "sha256=<hex>",
        })
    );
    assert_eq!((&all["events"], &keys["events"]), (&json!([]), &json!(["key_created", "key_deleted"])));

    let numbers = Numbers::of(&server, key, &crate::numbers::testing(64, 3)).await;
    let a = numbers.encrypted(&[1.5]).await;
    let told = numbers.compute("add", &[&a, &a], json!({})).await.ok(200);
    let path = format!("/api/v1/keys/{}", numbers.key_id);
    numbers.send(Request::delete(path)).await.ok(200);

    let to_all = receivers[0].wait_for(3).await;
    to_all.iter().for_each(|received| verify(received, all["secret"].as_str().unwrap()));
    let of = |kind: &str| to_all.iter().map(Received::json).find(|body| body["event_type"] == kind).unwrap();
    let created = of("key_created");
    assert_eq!(created["data"]["key_id"], json!(numbers.key_id));
    assert_eq!((&created["data"]["slot_count"], &created["data"]["source"]), (&json!(32), &json!("upload")));
    let computed = of("compute_complete");
    let data = &computed["data"];
    assert_eq!((&data["job_id"], &data["result_ciphertext_id"]), (&told["job_id"], &told["result_ciphertext_id"]));
    assert_eq!((&data["operation"], &data["cost_jpy"]), (&json!("add"), &told["cost_jpy"]));
    assert_eq!(data["noise_budget_remaining"], told["noise_budget_remaining"]);
    assert_eq!(of("key_deleted")["data"]["ciphertexts_deleted"], json!(2));
    assert!(created["account_id"].as_str().unwrap().starts_with("acct_"));

    let to_keys = receivers[1].wait_for(2).await;
    to_keys.iter().for_each(|received| verify(received, OWN_SECRET));
    // both webhooks get the same event with the same id and bytes
    let same = |received: &&Received| received.json()["event_type"] == "key_created";
    let [one, two] = [&to_all, &to_keys].map(|all| all.iter().find(same).unwrap().body.clone());
    assert_eq!(one, two);
    // H11
    let record = client.delivery(&keys, is("succeeded")).await;
    assert_eq!((&record["attempts"], &record["status_code"]), (&json!(1), &json!(204)));
    assert_eq!((&record["error"], &record["next_attempt_at"]), (&Value::Null, &Value::Null));
    let sums: Vec<String> = to_keys.iter().map(|received| hex::encode(Sha256::digest(&received.body))).collect();
    assert!(sums.contains(&record["request_body_sha256"].as_str().unwrap().to_owned()));
    let events = client.get(EVENTS).await;
    assert_eq!(events["items"].as_array().unwrap().len(), 5);
    assert_eq!(client.get(&format!("{EVENTS}?limit=2")).await["items"].as_array().unwrap().len(), 2);
    let none = client.get(&format!("{WEBHOOKS}/{}/deliveries", id(&other))).await;
    assert_eq!((&none["total"], &none["records"]), (&json!(0), &json!([])));
    assert_eq!(
        (receivers[0].received().len(), receivers[1].received().len(), receivers[2].received().len()),
        (3, 2, 0)
    );
}

#[tokio::test]
async fn h7_h8_h11_h18_failed_deliveries_are_tried_after_30_seconds_and_5_minutes_and_no_more() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let receiver = Receiver::start().await;
    let webhook = client.create(json!({"url": receiver.url()})).await;
    receiver.answer(&[500, 503]);
    client.rotate().await;
    let record = client.delivery(&webhook, |record| record["attempts"] == 1).await;
    assert_eq!((&record["status"], &record["status_code"]), (&json!("pending"), &json!(500)));
    assert!(record["error"].as_str().unwrap().contains("500"));
    let wait = |record: &Value| {
        let seconds = |member: &str| {
            let text = record[member].as_str().unwrap();
            let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
            (part(8..10) * 24 + part(11..13)) * 3600 + part(14..16) * 60 + part(17..19)
        };
        seconds("next_attempt_at") - seconds("delivered_at")
    };
    assert!((29..=34).contains(&wait(&record)), "{record}");
    server.clock.advance(Duration::from_secs(34));
    let record = client.delivery(&webhook, |record| record["attempts"] == 2).await;
    assert!((299..=331).contains(&wait(&record)), "{record}");
    server.clock.advance(Duration::from_secs(331));
    let record = client.delivery(&webhook, is("succeeded")).await;
    assert_eq!((&record["attempts"], &record["status_code"], &record["error"]), (&json!(3), &json!(204), &Value::Null));
    let received = receiver.wait_for(3).await;
    received.iter().for_each(|received| verify(received, webhook["secret"].as_str().unwrap()));
    // H13: each attempt sends the same bytes
    assert!(received.iter().all(|one| one.body == received[0].body));

    // a delivery ends with its third failed attempt, and at once with an answer 4xx or 3xx
    receiver.answer(&[500, 500, 500]);
    client.rotate().await;
    for attempts in 1..=3 {
        client.delivery(&webhook, |record| record["attempts"] == attempts && record["delivered_at"].is_string()).await;
        server.clock.advance(Duration::from_secs(331));
    }
    let record = client.delivery(&webhook, is("failed")).await;
    assert_eq!((&record["attempts"], &record["next_attempt_at"]), (&json!(3), &Value::Null));
    for status in [404, 429, 301] {
        receiver.answer(&[status]);
        client.rotate().await;
        let record = client.delivery(&webhook, |record| record["status_code"] == status).await;
        assert_eq!((&record["status"], &record["attempts"]), (&json!("failed"), &json!(1)));
    }
    assert_eq!(receiver.received().len(), 9);
    let metrics = server.operations_get("/metrics").await;
    for line in ["{outcome=\"taken\"} 1", "{outcome=\"refused\"} 3", "{outcome=\"broken\"} 5"] {
        assert!(metrics.text().contains(&format!("ango_webhook_attempts_total{line}")), "{}", metrics.text());
    }
}

#[tokio::test]
async fn h15_h16_a_failed_delivery_is_replayed_to_the_new_url_under_the_new_secret() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let (first, second) = (Receiver::start().await, Receiver::start().await);
    let webhook = client.create(json!({"url": first.url()})).await;
    first.answer(&[400]);
    client.rotate().await;
    let failed = client.delivery(&webhook, is("failed")).await;
    let replay = format!("{WEBHOOKS}/{}/deliveries/{}/replay", id(&webhook), failed["delivery_id"].as_str().unwrap());
    // a replay goes to the address that the webhook has now
    let path = format!("{WEBHOOKS}/{}", id(&webhook));
    let changed = client.send(patch(&path, &json!({"url": second.url()}))).await.ok(200);
    assert_eq!((&changed["url"], &changed["events"]), (&json!(second.url()), &json!([])));
    let secret =
        client.send(Request::new("PATCH", format!("{path}/regenerate-secret"))).await.ok(200)["secret"].clone();
    assert_ne!(secret, webhook["secret"]);
    second.answer(&[500]);
    let replayed = client.send(Request::new("POST", &replay)).await.ok(200);
    assert_eq!((&replayed["replayed"], &replayed["success"]), (&json!(true), &json!(false)));
    assert!(replayed["error"].as_str().unwrap().contains("500"));
    let replayed = client.send(Request::new("POST", &replay)).await.ok(200);
    let told = json!({"delivery_id": failed["delivery_id"], "replayed": true, "success": true, "error": null});
    assert_eq!(replayed, told);
    // the event has now been delivered, so a further replay sends nothing
    let replayed = client.send(Request::new("POST", &replay)).await.ok(200);
    assert_eq!(
        replayed,
        json!({"delivery_id": failed["delivery_id"], "replayed": false, "success": true, "error": null})
    );
    let received = second.wait_for(2).await;
    received.iter().for_each(|received| verify(received, secret.as_str().unwrap()));
    assert_eq!((received.len(), &received[0].body), (2, &first.received()[0].body));
    let record = client.delivery(&webhook, is("succeeded")).await;
    assert_eq!(record["attempts"], 3);
    // replay a delivery that waits for its next attempt
    second.answer(&[500]);
    client.rotate().await;
    let pending = client.delivery(&webhook, |record| record["attempts"] == 1 && record["status"] == "pending").await;
    let replay = format!("{path}/deliveries/{}/replay", pending["delivery_id"].as_str().unwrap());
    let replayed = client.send(Request::new("POST", &replay)).await.ok(200);
    assert_eq!((&replayed["replayed"], &replayed["success"]), (&json!(false), &json!(false)));
    client.send(Request::new("POST", format!("{path}/deliveries/evt_0/replay"))).await.error(404, "DELIVERY_NOT_FOUND");
}

#[tokio::test]
async fn h14_a_synthetic_event_goes_to_all_webhooks_once() {
    let server = server().await;
    let client = Client::new(&server).await;
    let none = client.send(Request::post(TEST, &json!({"event_type": "budget_alert"}))).await.ok(200);
    assert_eq!(none["results"], json!({"total_webhooks": 0, "successes": 0, "failures": 0}));
    let (good, bad) = (Receiver::start().await, Receiver::start().await);
    client.create(json!({"url": good.url(), "events": ["key_created"]})).await;
    let failing = client.create(json!({"url": bad.url()})).await;
    for kind in [
        "compute_complete",
        "usage_alert",
        "limit_reached",
        "budget_alert",
        "key_created",
        "key_deleted",
        "key_rotated",
        "invoice_created",
        "invoice_paid",
        "invoice_failed",
    ] {
        bad.answer(&[500]);
        let told = client.send(Request::post(TEST, &json!({"event_type": kind}))).await.ok(200);
        assert_eq!(
            (&told["event_type"], &told["results"]),
            (&json!(kind), &json!({"total_webhooks": 2, "successes": 1, "failures": 1}))
        );
        let body = good.received().last().unwrap().json();
        assert_eq!((&body["data"]["test"], &body["delivery_id"]), (&json!(true), &told["delivery_id"]));
    }
    let record = client.delivery(&failing, is("failed")).await;
    assert_eq!((&record["attempts"], &record["next_attempt_at"]), (&json!(1), &Value::Null));
    server.clock.advance(Duration::from_secs(600));
    client.send(Request::post(TEST, &json!({"event_type": "nothing"}))).await.error(400, "INVALID_REQUEST");
    client.send(Request::post(TEST, &json!({}))).await.error(422, "VALIDATION_ERROR");
    assert_eq!((good.received().len(), bad.received().len()), (10, 10));
}

#[tokio::test]
async fn h2_h4_h16_h17_bad_webhooks_are_refused_and_nobody_else_s_are_seen() {
    let server = TestServer::start().await;
    let client = Client::new(&server).await;
    for (body, status, code) in [
        (json!({"url": "http://example.com/"}), 400, "INVALID_WEBHOOK_URL"),
        (json!({"url": "https://user@example.com/"}), 400, "INVALID_WEBHOOK_URL"),
        (json!({"url": format!("https://example.com/{}", "a".repeat(2048))}), 400, "INVALID_WEBHOOK_URL"),
        (json!({"url": "https://exa\nmple.com/\t"}), 400, "INVALID_WEBHOOK_URL"),
        (json!({"url": "https://example.com/\0x"}), 400, "INVALID_WEBHOOK_URL"),
        (json!({"url": "https://exa%0Ample.com/"}), 400, "INVALID_WEBHOOK_URL"),
        (json!({"url": "https://receiver.invalid/", "events": ["\0"]}), 400, "INVALID_REQUEST"),
        (json!({"url": "https://receiver.invalid/", "secret": "\0".repeat(40)}), 400, "INVALID_REQUEST"),
        (json!({"url": "https://127.0.0.1/"}), 400, "WEBHOOK_URL_NOT_ALLOWED"),
        (json!({"url": "https://169.254.169.254/latest"}), 400, "WEBHOOK_URL_NOT_ALLOWED"),
        (json!({"url": "https://localhost/"}), 400, "WEBHOOK_URL_NOT_ALLOWED"),
        (json!({"url": "https://node.internal/"}), 400, "WEBHOOK_URL_NOT_ALLOWED"),
        (json!({"url": "https://receiver.invalid/", "events": ["nothing"]}), 400, "INVALID_REQUEST"),
        (json!({"url": "https://receiver.invalid/", "secret": "a".repeat(31)}), 400, "INVALID_REQUEST"),
        (json!({"url": "https://receiver.invalid/", "secret": "a".repeat(257)}), 400, "INVALID_REQUEST"),
        (
            json!({"url": "https://receiver.invalid/", "secret": format!("{} space", "a".repeat(40))}),
            400,
            "INVALID_REQUEST",
        ),
        (json!({"events": []}), 422, "VALIDATION_ERROR"),
        (json!({"url": 5}), 422, "VALIDATION_ERROR"),
    ] {
        client.send(Request::post(WEBHOOKS, &body)).await.error(status, code);
    }
    // a URL whose name does not resolve at present is accepted
    let first = client.create(json!({"url": "https://receiver.invalid/"})).await;
    for _ in 1..20 {
        client.create(json!({"url": "https://receiver.invalid/"})).await;
    }
    let more = Request::post(WEBHOOKS, &json!({"url": "https://receiver.invalid/"}));
    client.send(more).await.error(409, "WEBHOOK_LIMIT_REACHED");
    let page = client.get(&format!("{WEBHOOKS}?limit=15")).await;
    assert_eq!((&page["total_count"], page["items"].as_array().unwrap().len()), (&json!(20), 15));
    let next = client.get(&format!("{WEBHOOKS}?limit=15&cursor={}", page["next_cursor"].as_str().unwrap())).await;
    assert_eq!(next["items"].as_array().unwrap().last().unwrap()["webhook_id"], first["webhook_id"]);
    assert!(first["secret"].is_string() && next["items"][0].get("secret").is_none());

    let path = format!("{WEBHOOKS}/{}", id(&first));
    for (body, code) in [
        (json!({"url": "https://10.0.0.1/"}), "WEBHOOK_URL_NOT_ALLOWED"),
        (json!({"url": "https://example.com/\0x"}), "INVALID_WEBHOOK_URL"),
        (json!({"url": " https://example.com/"}), "INVALID_WEBHOOK_URL"),
        (json!({"events": ["key_created", "nothing"]}), "INVALID_REQUEST"),
    ] {
        client.send(patch(&path, &body)).await.error(400, code);
    }
    let events = json!({"events": ["key_rotated"]});
    client.send(patch(&path, &events)).await.ok(200);
    assert_eq!(client.get(&path).await["events"], json!(["key_rotated"]));
    let stranger = Client::new(&server).await;
    for request in [
        Request::get(&path),
        patch(&path, &events),
        Request::new("PATCH", format!("{path}/regenerate-secret")),
        Request::get(format!("{path}/deliveries")),
        Request::delete(&path),
    ] {
        stranger.send(request).await.error(404, "WEBHOOK_NOT_FOUND");
    }
    let viewer = Client { server: &server, key: server.key(Role::Viewer).await };
    viewer.get(WEBHOOKS).await;
    viewer
        .send(Request::post(WEBHOOKS, &json!({"url": "https://receiver.invalid/"})))
        .await
        .error(403, "INSUFFICIENT_ROLE");
    assert_eq!(client.send(Request::delete(&path)).await.ok(200)["status"], "deleted");
    client.send(Request::delete(&path)).await.error(404, "WEBHOOK_NOT_FOUND");
}

#[tokio::test]
async fn h7_h12_deliveries_outlive_the_node_and_a_creation_is_repeated_safely() {
    let server = server().await;
    let mut client = Client::new(&server).await;
    let receiver = Receiver::start().await;
    let body = json!({"url": receiver.url()});
    let create = Request::post(WEBHOOKS, &body).header("Idempotency-Key", "one");
    let webhook = client.send(create.clone()).await.ok(201);
    assert_eq!(client.send(create).await.ok(201), webhook);
    receiver.answer(&[500]);
    client.rotate().await;
    client.delivery(&webhook, |record| record["attempts"] == 1).await;
    let key = client.key.clone();
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, allow_loopback).await;
    server.clock.advance(Duration::from_secs(34));
    let client = Client { server: &server, key };
    let record = client.delivery(&webhook, is("succeeded")).await;
    assert_eq!(record["attempts"], 2);
    let received = receiver.wait_for(2).await;
    received.iter().for_each(|received| verify(received, webhook["secret"].as_str().unwrap()));
    assert_eq!(client.get(WEBHOOKS).await["total_count"], json!(1));
}
