//! Events at the limits of their size and depth (readings B45).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use crate::shop::*;

/// Largest size of an event.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Largest number of lines of a document.
const LINES_MAX: u64 = 1_000;
/// Deepest nesting of JSON.
const DEPTH_MAX: usize = 127;
const CREATED: i64 = 1_764_547_200;

async fn send(server: &TestServer, path: &str, body: String) -> Response {
    server.send(Request::new("POST", path).body("application/json", body)).await
}

/// Writes an event with as much `metadata` that it has this many bytes.
fn of_size(event: &Value, object: &str, bytes: usize) -> String {
    let written = |filler: usize| {
        let mut event = event.clone();
        let metadata: BTreeMap<String, String> = (0..40)
            .map(|at| (format!("key_{at:02}"), "x".repeat(filler / 40 + usize::from(at < filler % 40))))
            .collect();
        event.pointer_mut(object).unwrap()["metadata"] = json!(metadata);
        event.to_string()
    };
    let text = written(bytes - written(0).len());
    assert_eq!(text.len(), bytes);
    text
}

/// An event of each provider with as many lines as its kind of object has, with the path to its object.
fn long_events() -> [(&'static str, &'static str, Value); 3] {
    let line = |at: u64| {
        json!({"object": "line_item", "description": format!("品目{at} {}", "品".repeat(150)), "amount": 100 + at,
        "quantity": 1, "currency": "jpy", "discount_amounts": [], "taxes": [], "metadata": {"place": at}})
    };
    let lines: Vec<Value> = (0..LINES_MAX).map(line).collect();
    let total: u64 = (0..LINES_MAX).map(|at| 100 + at).sum();
    let invoice = json!({"id": "in_l", "object": "invoice", "status": "paid", "currency": "jpy", "total": total, "amount_paid": total,
        "created": CREATED, "customer_name": "株式会社川", "lines": {"object": "list", "has_more": false, "data": lines}});
    let charge = json!({"id": "ch_l", "object": "charge", "amount": total, "amount_refunded": 0, "captured": true, "paid": true,
        "currency": "jpy", "created": CREATED, "card": {"name": "TARO KAWA"}, "refunded": false});
    let payjp = json!({"id": "evnt_l", "object": "event", "type": "charge.succeeded", "livemode": true, "created": CREATED, "data": charge});
    let lines: Vec<Value> =
        (0..LINES_MAX).map(|at| json!({"amount": 100 + at, "description": "品".repeat(200), "tax_rate": 8})).collect();
    let generic = json!({"id": "order-l", "amount": total, "currency": "jpy", "created": CREATED, "customer_name": "川商店", "lines": lines});
    [
        ("stripe", "/data/object", event("l", "invoice.paid", invoice)),
        ("payjp", "/data", payjp),
        ("generic", "", generic),
    ]
}

#[tokio::test]
async fn b45_an_event_of_1_mb_makes_its_document_and_a_larger_one_loses_nothing() {
    let server = start_at_once().await;
    for (provider, object, event) in long_events() {
        let shop = Shop::new(&server).await;
        let path = shop.set_profile(json!({"provider": provider})).await;
        // a larger event is refused whole, and the provider sends it again
        for _ in 0..2 {
            let above = send(&server, &path, of_size(&event, object, EVENT_BYTES_MAX + 1)).await;
            refused(&above, 413, "PAYLOAD_TOO_LARGE");
        }
        for status in ["issued", "waiting", "held", "not_issued"] {
            let kept = shop.stored(&format!("?status={status}")).await;
            assert!(kept.is_empty(), "{provider} {status} {kept:?}");
        }
        let told = send(&server, &path, of_size(&event, object, EVENT_BYTES_MAX)).await.ok(200);
        assert_eq!(told["status"], "created", "{provider} {told}");
        let again = send(&server, &path, of_size(&event, object, EVENT_BYTES_MAX)).await.ok(200);
        assert_eq!((&again["status"], &again["invoice_id"]), (&json!("duplicate"), &told["invoice_id"]), "{provider}");
        let all = shop.stored("").await;
        assert_eq!((all.len(), &all[0]["total_yen"]), (1, &json!(599_500)), "{provider}");
        let pdf = shop.get(&format!("{STORED}/{}", told["invoice_id"].as_str().unwrap())).await;
        assert!(pdf.status == 200 && pdf.body.starts_with(b"%PDF-1.7"), "{provider}");
    }
    audited(&server).await;
}

/// A charge's event whose `metadata` nests so that the whole body has this depth.
fn of_depth(id: &str, depth: usize) -> String {
    // the event, `data`, `object` and `metadata`
    let inner = depth - 4;
    let mut event = event(id, "charge.succeeded", charge(id, 1_000));
    event["data"]["object"]["metadata"]["deep"] = json!("DEEP");
    event.to_string().replace("\"DEEP\"", &("[".repeat(inner) + &"]".repeat(inner)))
}

#[tokio::test]
async fn b45_an_event_that_nests_deeply_has_a_clear_answer() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    for (at, depth) in [DEPTH_MAX - 1, DEPTH_MAX].into_iter().enumerate() {
        let told = send(&server, &path, of_depth(&at.to_string(), depth)).await.ok(200);
        assert_eq!(told["status"], "created", "{depth} {told}");
    }
    for depth in [DEPTH_MAX + 1, DEPTH_MAX + 2, 400_000] {
        let deep = send(&server, &path, of_depth("d", depth)).await;
        assert_eq!(faults(&deep), [("json_invalid".to_owned(), "body.data".to_owned())], "{depth}");
        assert!(deep.text().contains("127 levels"), "{}", deep.text());
    }
    assert_eq!((shop.stored("").await.len(), shop.stored("?status=not_issued").await.len()), (2, 0));
}
