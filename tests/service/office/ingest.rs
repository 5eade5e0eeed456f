//! Events that the payment provider of a shop sends (readings B11, B13-B16, B45).

use std::time::{Duration, Instant};

use control::config::{Config, SmtpUrl};
use serde_json::{Value, json};
use store::{Announcement, NewSale, Verdict};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::mailbox::Mailbox;
use tests_service::payments::signature;

use crate::shop::*;

/// Makes the four events of one payment, each with the object that the event reports. `named`: whether the invoice
/// contains the id of the payment intent, as in older versions of Stripe's API.
fn four_events(id: &str, named: bool) -> [Value; 4] {
    let times = json!({"created": 1_764_514_800, "customer": format!("cus_{id}"), "currency": "jpy", "metadata": {}});
    let with = |object: Value| {
        let mut all = times.as_object().unwrap().clone();
        all.extend(object.as_object().unwrap().clone());
        Value::Object(all)
    };
    let intent =
        with(json!({"id": format!("pi_{id}"), "object": "payment_intent", "status": "succeeded", "amount": 5_500,
        "amount_received": 5_500, "latest_charge": format!("ch_{id}")}));
    let mut charge = charge(id, 5_500);
    charge["customer"] = json!(format!("cus_{id}"));
    let mut invoice = with(
        json!({"id": format!("in_{id}"), "object": "invoice", "status": "paid", "total": 5_500, "amount_paid": 5_500,
        "customer_name": "山田太郎", "lines": {"object": "list", "data": []}, "status_transitions": {"paid_at": 1_764_514_800}}),
    );
    if named {
        invoice["payment_intent"] = json!(format!("pi_{id}"));
    }
    let session = with(
        json!({"id": format!("cs_{id}"), "object": "checkout.session", "payment_status": "paid", "status": "complete",
        "mode": "subscription", "amount_total": 5_500, "invoice": format!("in_{id}"), "payment_intent": null}),
    );
    [
        event(&format!("1{id}"), "payment_intent.succeeded", intent),
        event(&format!("2{id}"), "charge.succeeded", charge),
        event(&format!("3{id}"), "checkout.session.completed", session),
        event(&format!("4{id}"), "invoice.paid", invoice),
    ]
}

fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                orders.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    orders
}

async fn tell(server: &TestServer, path: &str, event: &Value) -> Response {
    server.send(Request::post(path, event)).await
}

#[tokio::test]
async fn b14_b15_a_payment_is_one_document_whatever_events_come_in_whatever_order() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    for named in [true, false] {
        for (at, order) in orders().into_iter().enumerate() {
            let events = four_events(&format!("{named}{at}"), named);
            let mut documents = Vec::new();
            for (place, index) in order.into_iter().enumerate() {
                let told = tell(&server, &path, &events[index]).await.ok(200);
                assert_eq!(
                    told["status"],
                    if place == 0 { "created" } else { "duplicate" },
                    "{named} {order:?} {place} {told}"
                );
                documents.push(told["invoice_id"].clone());
            }
            documents.dedup();
            assert_eq!(documents.len(), 1, "{named} {order:?}");
        }
    }
    assert_eq!((shop.stored("?limit=100").await.len(), shop.spent().await), (48, 480));
    audited(&server).await;
}

#[tokio::test]
async fn b15_two_like_payments_of_a_customer_are_two_documents() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let mut random = 1_u64;
    for at in 0..30 {
        // two payments with the same customer, amount and time; no id of a payment intent in the invoices tells the
        // payments apart
        let other = json!(four_events(&format!("b{at}"), false)).to_string();
        let other = other.replace(&format!("cus_b{at}"), &format!("cus_a{at}"));
        let mut events = four_events(&format!("a{at}"), false).to_vec();
        events.extend(serde_json::from_str::<Vec<Value>>(&other).unwrap());
        for last in (1..events.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            events.swap(last, (random >> 33) as usize % (last + 1));
        }
        for event in &events {
            tell(&server, &path, event).await.ok(200);
        }
        let order: Vec<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
        let total = shop.get(&format!("{STORED}?limit=1")).await.ok(200)["total_count"].clone();
        assert_eq!(total, json!(2 * (at + 1)), "{order:?}");
    }
    audited(&server).await;
}

#[tokio::test]
async fn b15_an_event_that_is_sent_a_hundred_times_at_once_is_one_document() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let events = four_events("x", true);
    let all = (0..100).map(|at| {
        let (address, request) = (server.address, Request::post(&*path, &events[at % 4]));
        tokio::spawn(async move { request.send(address).await.ok(200)["status"].as_str().unwrap().to_owned() })
    });
    let mut created = 0;
    for one in all.collect::<Vec<_>>() {
        created += usize::from(one.await.unwrap() == "created");
    }
    assert_eq!((created, shop.stored("").await.len(), shop.spent().await), (1, 1, 10));
    audited(&server).await;
}

#[tokio::test]
async fn b14_what_is_no_payment_in_yen_is_ignored() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let with = |member: &str, value: Value| {
        let mut object = charge("1", 1_000);
        object[member] = value;
        event("1", "charge.succeeded", object)
    };
    for ignored in [
        event("1", "customer.created", json!({})),
        event("1", "charge.refunded", charge("1", 1_000)),
        with("currency", json!("usd")),
        with("captured", json!(false)),
        with("metadata", json!({"do_not_invoice": "true"})),
    ] {
        assert_eq!(tell(&server, &path, &ignored).await.ok(200), json!({"status": "ignored"}), "{ignored}");
    }
    assert_eq!(shop.stored("").await, Vec::<Value>::new());
}

#[tokio::test]
async fn b13_b45_events_are_signed_where_a_secret_is_set_and_bad_ones_are_refused() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({"provider_signing_secret": "whsec_shop"})).await;
    let event = event("1", "charge.succeeded", charge("1", 1_000)).to_string();
    let send = |body: String, signed: Option<String>| {
        let request = Request::new("POST", &*path).body("application/json", body);
        match signed {
            Some(signed) => request.header("Stripe-Signature", &signed),
            None => request,
        }
    };
    let now = i64::try_from(server.clock.now().seconds()).unwrap();
    let old = signature(&event, "whsec_shop", now - 600);
    for signed in [None, Some("t=1,v1=00".to_owned()), Some(signature(&event, "whsec_other", now)), Some(old)] {
        refused(&server.send(send(event.clone(), signed)).await, 400, "INVALID_SIGNATURE");
    }
    let good = signature(&event, "whsec_shop", now);
    assert_eq!(server.send(send(event, Some(good))).await.ok(200)["status"], "created");
    let path = shop.set_profile(json!({"provider_signing_secret": ""})).await;
    let send = |body: &str| server.send(Request::new("POST", &*path).body("application/json", body));
    for body in ["", "{", "{\"type\": \"charge.succeeded\"} {}"] {
        assert!(faults(&send(body).await)[0].1.starts_with("body"), "{body}");
    }
    let large = format!("{{\"type\": \"{}\"}}", "x".repeat(1 << 20));
    refused(&send(&large).await, 413, "PAYLOAD_TOO_LARGE");
    let unknown = format!("/v1/ingest/{}", "0a".repeat(32));
    refused(&server.send(Request::post(&*unknown, &json!({}))).await, 404, "NOT_FOUND");
    // an operator who revokes a key also ends the key's ingest address
    server.operator().await.revoke_keys_of_account(&shop.account).await.unwrap();
    refused(&send("{\"type\": \"x\"}").await, 404, "NOT_FOUND");
}

#[tokio::test]
async fn b16_a_payment_beyond_the_cap_is_held_until_the_cap_is_raised() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    shop.post(CAP, &json!({"cap_yen": 15})).await.ok(200);
    let event = |id: &str| event(id, "charge.succeeded", charge(id, 1_000));
    assert_eq!(tell(&server, &path, &event("1")).await.ok(200)["status"], "created");
    let held = tell(&server, &path, &event("2")).await.ok(200);
    assert_eq!(held["status"], "held");
    assert_eq!(tell(&server, &path, &event("2")).await.ok(200)["status"], "held");
    assert_eq!(shop.stored("").await.len(), 1);
    shop.post(CAP, &json!({"cap_yen": 30})).await.ok(200);
    let begun = Instant::now();
    while shop.stored("").await.len() < 2 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = tell(&server, &path, &event("2")).await.ok(200);
    assert_eq!((&again["status"], &again["invoice_id"]), (&json!("duplicate"), &held["invoice_id"]));
    assert_eq!((shop.stored("").await.len(), shop.spent().await), (2, 20));
    // the cap is enough for the document of event 3, but holds back that of event 4 until the next month begins
    assert_eq!(tell(&server, &path, &event("3")).await.ok(200)["status"], "created");
    assert_eq!(tell(&server, &path, &event("4")).await.ok(200)["status"], "held");
    server.clock.advance(Duration::from_secs(32 * 86_400));
    let begun = Instant::now();
    while shop.stored("").await.len() < 4 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    audited(&server).await;
}

#[tokio::test]
async fn b11_documents_are_sent_to_the_buyer_with_a_copy() {
    let mailbox = Mailbox::start().await;
    let url = format!("smtp://{}", mailbox.address);
    let server = TestServer::with(|config| {
        config.mail.smtp_url = Some(SmtpUrl::of(&url));
        config.office.ingest_wait_s = 0;
    })
    .await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({"delivery_mode": "email", "delivery_email": "copy@ango.example"})).await;
    mailbox.put_off(1);
    tell(&server, &path, &event("1", "charge.succeeded", charge("1", 11_000))).await.ok(200);
    // the mail server refuses the first attempt with a temporary error
    let begun = Instant::now();
    while mailbox.puts_off() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(shop.stored("").await[0]["delivery_status"], "pending");
    server.clock.advance(Duration::from_secs(60));
    let mails = mailbox.wait_for(1).await;
    let has = |line: &str| mails[0].lines().any(|one| one == line);
    assert!(has("To: taro@example.org") && !has("To: copy@ango.example"), "{}", mails[0]);
    assert!(has("Reply-To: copy@ango.example"), "{}", mails[0]);
    assert!(mails[0].contains("application/pdf") && mails[0].contains("receipt-"));
    let begun = Instant::now();
    while shop.stored("").await[0]["delivery_status"] != "sent" {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // a buyer without an address and a buyer with two get no e-mail, because the e-mail could reach another person
    for (id, details) in [("2", json!({})), ("3", json!({"email": "taro@example.org,other@example.org"}))] {
        let mut odd = charge(id, 1_000);
        odd["billing_details"] = details;
        tell(&server, &path, &event(id, "charge.succeeded", odd)).await.ok(200);
    }
    let kept = shop.stored("").await;
    assert_eq!(kept.iter().filter(|one| one["delivery_status"] == "not_sent").count(), 2, "{kept:?}");
}

#[tokio::test]
async fn b11_a_node_that_stops_ends_the_e_mail_that_it_hands_over() {
    let mailbox = Mailbox::start().await;
    let url = format!("smtp://{}", mailbox.address);
    let with_mail = |config: &mut Config| {
        config.mail.smtp_url = Some(SmtpUrl::of(&url));
        config.office.ingest_wait_s = 0;
    };
    let server = TestServer::with(with_mail).await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({"delivery_mode": "email"})).await;
    mailbox.be_silent(true);
    tell(&server, &path, &event("1", "charge.succeeded", charge("1", 11_000))).await.ok(200);
    mailbox.wait_for(1).await;
    let (address, key) = (server.address, shop.key.clone());
    let stopping = tokio::spawn(server.stop());
    let begun = Instant::now();
    while Request::get("/health").try_send(address).await.is_some_and(|answer| answer.status == 200) {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    mailbox.be_silent(false);
    let server = TestServer::in_folder(stopping.await.unwrap(), with_mail).await;
    let kept = server.send(Request::get(STORED).key(&key)).await.ok(200);
    assert_eq!(kept["items"][0]["delivery_status"], "sent", "{kept}");
    assert_eq!(mailbox.wait_for(1).await.len(), 1);
}

#[tokio::test]
async fn b11_without_mail_documents_are_kept_and_not_sent() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({"delivery_mode": "both"})).await;
    tell(&server, &path, &event("1", "charge.succeeded", charge("1", 1_000))).await.ok(200);
    assert_eq!(shop.stored("").await[0]["delivery_status"], "not_sent");
}

#[tokio::test]
async fn b16_payments_that_wait_are_bounded_and_the_provider_keeps_the_rest() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let store = server.running().store();
    let now = server.clock.now().0;
    let waiting = |number: usize| NewSale {
        told: Announcement {
            document_id: format!("inv_{number}"),
            account_id: shop.account.as_str().to_owned(),
            lineage_id: "lin_1".to_owned(),
            provider: "stripe".to_owned(),
            event_type: "charge.succeeded".to_owned(),
            sealed_event: vec![1],
            payment_id: String::new(),
            verdict: Verdict::Issue,
            is_final: false,
            wait_until: now + 3_600_000_000,
            leased_until: now + 3_600_000_000,
            received_at: now,
        },
        names: vec![format!("ch_{number}")],
        invoice_id: String::new(),
        fullness: 1,
        customer: String::new(),
        total_yen: 1,
        paid_at: now,
        is_intent: false,
    };
    let claim = async |numbers: std::ops::Range<usize>| {
        store
            .write(async |tx| {
                for number in numbers {
                    tx.claim_sale(&waiting(number)).await?;
                }
                Ok::<_, store::Error>(())
            })
            .await
            .unwrap();
    };
    claim(0..9_999).await;
    let event = |id: &str| event(id, "charge.succeeded", charge(id, 1_000));
    assert_eq!(tell(&server, &path, &event("one")).await.ok(200)["status"], "created");
    claim(9_999..10_000).await;
    let full = tell(&server, &path, &event("two")).await;
    assert_eq!((full.status, full.header("retry-after")), (503, Some("3600")));
    // another account is not concerned
    let other = Shop::new(&server).await;
    let path = other.set_profile(json!({})).await;
    assert_eq!(tell(&server, &path, &event("three")).await.ok(200)["status"], "created");
}
