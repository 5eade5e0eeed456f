//! The objects of a sale and of its returns, in every order, and which of them makes the document (readings B14, B15).

use std::time::{Duration, Instant};

use control::caller::{Environment, Plan, Role};
use serde_json::{Value, json};
use store::DocumentState;
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::Request;

use crate::shop::*;

/// Longer than a document waits for a fuller object.
const WAIT: Duration = Duration::from_secs(130);

fn case(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

async fn tell(server: &TestServer, path: &str, event: &Value) -> Value {
    server.send(Request::post(path, event)).await.ok(200)
}

/// Waits until the shop has this many documents.
async fn documents(shop: &Shop<'_>, count: u64) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let total = shop.get(&format!("{STORED}?limit=1")).await.ok(200)["total_count"].as_u64().unwrap();
        let waiting = shop.get(&format!("{STORED}?limit=1&status=waiting")).await.ok(200)["total_count"].as_u64();
        if total >= count && waiting == Some(0) {
            assert_eq!(total, count);
            let mut all: Vec<Value> = Vec::new();
            let mut cursor = String::new();
            loop {
                let page = shop.get(&format!("{STORED}?limit=100{cursor}")).await.ok(200);
                all.extend(page["items"].as_array().unwrap().iter().cloned());
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => return all,
                }
            }
        }
        assert!(begun.elapsed() < PATIENCE, "{total} documents, {waiting:?} wait, in place of {count}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All orders of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let put = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    orders(count - 1).iter().flat_map(|order| (0..count).map(move |at| put(order, at)).collect::<Vec<_>>()).collect()
}

/// Gives each object of these events ids of its own.
fn with_ids(events: &[Value], suffix: &str) -> Vec<Value> {
    let named = |id: &str| format!("\"{id}_{suffix}\"");
    let renamed = |event: &Value| {
        let mut text = event.to_string();
        for id in ["evt_a1", "evt_a2", "evt_a3", "evt_a4", "evt_a5", "ch_a", "pi_a", "in_a", "cus_a", "re_a"] {
            text = text.replace(&format!("\"{id}\""), &named(id));
        }
        serde_json::from_str(&text).unwrap()
    };
    events.iter().map(renamed).collect()
}

/// The charge, the intent and the invoice of a sale of 5,400 yen, and a refund of 1,080 yen, told by the charge and by
/// the refund.
fn five_events() -> Vec<Value> {
    let mut events = case(include_str!("cases/first-subscription.json")).as_array().unwrap().clone();
    let mut refunded = events[0].clone();
    refunded["id"] = json!("evt_a4");
    refunded["type"] = json!("charge.refunded");
    refunded["data"]["object"]["amount_refunded"] = json!(1_080);
    let refund = json!({"id": "evt_a5", "object": "event", "type": "refund.created", "created": 1_764_900_000, "data": {"object": {
        "id": "re_a", "object": "refund", "status": "succeeded", "currency": "jpy", "amount": 1_080, "created": 1_764_900_000,
        "charge": "ch_a", "payment_intent": "pi_a"}}});
    events.extend([refunded, refund]);
    events
}

#[tokio::test]
async fn a1_a7_a_sale_and_its_refund_are_two_documents_in_each_of_120_orders() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let orders = orders(5);
    for (at, order) in orders.iter().enumerate() {
        let events = with_ids(&five_events(), &at.to_string());
        for index in order {
            let told = tell(&server, &path, &events[*index]).await;
            let expected: &[&str] = if *index == 2 { &["created"] } else { &["accepted", "duplicate"] };
            assert!(expected.contains(&told["status"].as_str().unwrap()), "{order:?} {index} {told}");
        }
    }
    server.clock.advance(WAIT);
    let all = documents(&shop, 240).await;
    for at in 0..orders.len() {
        let of = |id: &str| all.iter().find(|one| one["payment_id"] == format!("{id}_{at}"));
        let sale = of("in_a").unwrap_or_else(|| panic!("no receipt of the invoice {at}"));
        assert_eq!((&sale["recipient"], &sale["total_yen"]), (&json!("株式会社川"), &json!(5_400)), "{:?}", orders[at]);
        let returned = all.iter().filter(|one| one["original_invoice_id"] == sale["invoice_id"]).collect::<Vec<_>>();
        assert_eq!(returned.len(), 1, "{:?}", orders[at]);
        let returned = returned[0];
        assert_eq!(
            (&returned["document_type"], &returned["total_yen"], &returned["recipient"]),
            (&json!("credit_note"), &json!(-1_080), &json!("株式会社川"))
        );
    }
    // the same events again change nothing
    for (at, order) in orders.iter().enumerate().step_by(7) {
        let events = with_ids(&five_events(), &at.to_string());
        for index in order.iter().rev() {
            assert_eq!(tell(&server, &path, &events[*index]).await["status"], "duplicate");
        }
    }
    server.clock.advance(WAIT);
    documents(&shop, 240).await;
    audited(&server).await;
}

#[tokio::test]
async fn a1_any_of_the_events_of_a_sale_suffice() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let (mut sales, mut returns, mut refused) = (0, 0, 0);
    for chosen in 1..32_usize {
        let events = with_ids(&five_events(), &chosen.to_string());
        for (at, event) in events.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0) {
            let told = tell(&server, &path, event).await;
            assert_ne!(told["status"], "ignored", "{chosen} {at}");
        }
        let (has_sale, has_sum, has_refund) = (chosen & 7 != 0, chosen & 8 != 0, chosen & 16 != 0);
        // only the invoice, without a link to its payment, does not know the charge that was refunded
        sales += u64::from(has_sale);
        let is_dated = has_sum || has_sale && (chosen & 3 != 0);
        returns += u64::from((has_sum || has_refund) && is_dated);
        refused += u64::from(has_refund && !is_dated);
    }
    server.clock.advance(WAIT);
    let all = documents(&shop, sales + returns).await;
    let credit_notes = all.iter().filter(|one| one["document_type"] == "credit_note").count() as u64;
    assert_eq!(credit_notes, returns);
    let kept = shop.stored("?status=not_issued").await;
    assert_eq!(kept.len() as u64, refused, "{kept:?}");
    assert!(kept.iter().all(|one| one["reason"].as_str().unwrap().contains("original_date")), "{kept:?}");
    audited(&server).await;
}

#[tokio::test]
async fn a2_the_invoice_of_a_renewal_and_its_intent_are_one_document() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let events = case(include_str!("cases/renewal.json"));
    assert_eq!(tell(&server, &path, &events[0]).await["status"], "accepted");
    assert_eq!(tell(&server, &path, &events[1]).await["status"], "created");
    server.clock.advance(WAIT);
    let all = documents(&shop, 1).await;
    assert_eq!((&all[0]["payment_id"], &all[0]["recipient"]), (&json!("in_b"), &json!("川商店")));
}

#[tokio::test]
async fn a4_a_session_that_is_paid_at_a_shop_later_is_one_receipt_of_the_day_of_the_payment() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let events = case(include_str!("cases/paid-at-a-shop-later.json"));
    assert_eq!(tell(&server, &path, &events[0]).await, json!({"status": "ignored"}));
    assert_eq!(tell(&server, &path, &events[1]).await["status"], "created");
    let all = documents(&shop, 1).await;
    assert_eq!((&all[0]["total_yen"], &all[0]["transaction_date"]), (&json!(5_500), &json!("2025-12-02")));
}

/// Two payments of 3,000 and 2,400 yen that name an invoice, and the invoice.
fn in_parts(id: &str) -> Vec<Value> {
    let intent = |part: &str, yen: i64| {
        event(
            &format!("{part}{id}"),
            "payment_intent.succeeded",
            json!({"id": format!("pi_{part}{id}"), "object": "payment_intent",
            "status": "succeeded", "currency": "jpy", "amount": yen, "amount_received": yen, "created": 1_764_547_202,
            "customer": "cus_p", "latest_charge": format!("ch_{part}{id}"),
            "payment_details": {"order_reference": format!("in_{id}")}}),
        )
    };
    let mut invoice = case(include_str!("cases/first-subscription.json"))[2].clone();
    invoice["id"] = json!(format!("evt_i{id}"));
    invoice["data"]["object"]["id"] = json!(format!("in_{id}"));
    vec![intent("x", 3_000), intent("y", 2_400), invoice]
}

#[tokio::test]
async fn b15_an_invoice_that_is_paid_in_parts_is_one_document() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    for (at, order) in orders(3).into_iter().enumerate() {
        let events = in_parts(&at.to_string());
        for index in order {
            tell(&server, &path, &events[index]).await;
        }
    }
    server.clock.advance(WAIT);
    let all = documents(&shop, 6).await;
    assert!(all.iter().all(|one| one["total_yen"] == 5_400), "{all:?}");
    // without the invoice, each payment has its own document, which says what is missing
    let events = in_parts("late");
    tell(&server, &path, &events[0]).await;
    tell(&server, &path, &events[1]).await;
    server.clock.advance(WAIT);
    let all = documents(&shop, 8).await;
    assert!(all[0]["warnings"][0].as_str().unwrap().contains("in_late"), "{}", all[0]);
    assert_eq!(tell(&server, &path, &events[2]).await["status"], "duplicate");
    // a document of a part cannot be taken back, so the shop is told
    let events = in_parts("later");
    tell(&server, &path, &events[0]).await;
    server.clock.advance(WAIT);
    documents(&shop, 9).await;
    let told = tell(&server, &path, &events[2]).await;
    assert!(told["status"] == "not_issued" && told["reason"].as_str().unwrap().contains("3000 yen"), "{told}");
    tell(&server, &path, &events[1]).await;
    server.clock.advance(WAIT);
    documents(&shop, 10).await;
    audited(&server).await;
}

#[tokio::test]
async fn b3_b15_an_invoice_that_cannot_be_read_is_kept_and_no_other_object_guesses() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let mut object = case(include_str!("cases/first-page-of-lines.json"));
    object["payment_intent"] = json!("pi_e");
    object["total_taxes"] = Value::Null;
    let invoice = event("e1", "invoice.paid", object.clone());
    let intent = event(
        "e2",
        "payment_intent.succeeded",
        json!({"id": "pi_e", "object": "payment_intent", "status": "succeeded",
        "currency": "jpy", "amount": 13_160, "amount_received": 13_160, "created": 1_764_547_200}),
    );
    for event in [&intent, &invoice, &intent, &invoice] {
        let told = tell(&server, &path, event).await;
        assert!(told["status"] == "accepted" || told["reason"].as_str().unwrap().contains("lines"), "{told}");
    }
    server.clock.advance(WAIT);
    documents(&shop, 0).await;
    let kept = shop.stored("?status=not_issued").await;
    assert_eq!((kept.len(), &kept[0]["payment_id"]), (1, &json!("in_e")));
    refused(&shop.get(&format!("{STORED}/{}", kept[0]["invoice_id"].as_str().unwrap())).await, 404, "NOT_FOUND");
    // the whole invoice makes the document
    object["lines"]["has_more"] = json!(false);
    object["lines"]["total_count"] = json!(10);
    object["total"] = json!(11_000);
    let told = tell(&server, &path, &event("e3", "invoice.paid", object)).await;
    assert_eq!(told["status"], "created", "{told}");
    assert_eq!(shop.stored("?status=not_issued").await, Vec::<Value>::new());
    audited(&server).await;
}

#[tokio::test]
async fn b45_what_cannot_become_a_document_is_answered_200() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let mut odd_rate = charge("r", 1_000);
    odd_rate["metadata"]["tax_rate"] = json!("7.8");
    for body in [
        json!([]),
        json!(null),
        json!({}),
        json!({"type": "charge.succeeded"}),
        json!({"type": "charge.succeeded", "data": {"object": {}}}),
        json!({"type": 5, "data": {"object": {"id": "ch_\u{0}"}}}),
        event("r", "charge.succeeded", odd_rate),
    ] {
        let told = tell(&server, &path, &body).await;
        assert!(told["status"] == "not_issued" && !told["reason"].as_str().unwrap().is_empty(), "{body} {told}");
    }
    for body in ["", "{", "\u{feff}{}x"] {
        let request = Request::new("POST", &*path).body("application/json", body.to_owned());
        faults(&server.send(request).await);
    }
    assert!(!shop.stored("?status=not_issued").await.is_empty());
}

#[tokio::test]
async fn b14_modes_wishes_and_small_returns_make_no_documents() {
    let server = TestServer::start().await;
    let shop = Shop::of(&server, Plan::Payg, Environment::Test, Role::AccountAdmin, None).await;
    let path = shop.set_profile(json!({"skip_small_returns": true})).await;
    let with_mode = |id: &str, live: bool| {
        let mut event = event(id, "charge.succeeded", charge(id, 1_000));
        event["livemode"] = json!(live);
        event
    };
    assert_eq!(tell(&server, &path, &with_mode("1", true)).await, json!({"status": "ignored"}));
    assert_eq!(tell(&server, &path, &with_mode("1", false)).await["status"], "accepted");
    // the merchant's wish in one object holds for the sale
    let intent = json!({"id": "pi_1", "object": "payment_intent", "status": "succeeded", "currency": "jpy", "amount": 1_000,
        "amount_received": 1_000, "created": 1_764_547_200, "metadata": {"do_not_invoice": "true"}});
    assert_eq!(tell(&server, &path, &event("2", "payment_intent.succeeded", intent)).await["status"], "ignored");
    let returned = |id: &str, of: &str, yen: i64| {
        event(
            &format!("r{id}"),
            "refund.created",
            json!({"id": format!("re_{id}"), "object": "refund", "status": "succeeded",
            "currency": "jpy", "amount": yen, "created": 1_764_900_000, "charge": format!("ch_{of}")}),
        )
    };
    assert_eq!(tell(&server, &path, &returned("1", "1", 20_000)).await["status"], "accepted");
    tell(&server, &path, &event("3", "charge.succeeded", charge("3", 50_000))).await;
    assert_eq!(tell(&server, &path, &returned("2", "3", 9_999)).await["status"], "ignored");
    assert_eq!(tell(&server, &path, &returned("3", "3", 10_000)).await["status"], "accepted");
    server.clock.advance(WAIT);
    let all = documents(&shop, 2).await;
    assert_eq!(all.iter().map(|one| one["total_yen"].as_i64().unwrap()).min(), Some(-10_000));
    audited(&server).await;
}

#[tokio::test]
async fn b14_events_of_other_providers_become_documents() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({"provider": "payjp", "provider_signing_secret": "whook_1"})).await;
    let charge = json!({"id": "ch_j", "object": "charge", "amount": 3_300, "amount_refunded": 0, "captured": true, "paid": true,
        "currency": "jpy", "created": 1_764_547_200, "card": {"name": "TARO KAWA"}, "refunded": false});
    let event = json!({"id": "evnt_1", "object": "event", "type": "charge.succeeded", "livemode": true, "created": 1_764_547_200,
        "data": charge});
    let send = |event: &Value, secret: &str| Request::post(&*path, event).header("X-Payjp-Webhook-Token", secret);
    refused(&server.send(send(&event, "whook_2")).await, 400, "INVALID_SIGNATURE");
    assert_eq!(server.send(send(&event, "whook_1")).await.ok(200)["status"], "created");
    assert_eq!(server.send(send(&event, "whook_1")).await.ok(200)["status"], "duplicate");
    let path = shop.set_profile(json!({"provider": "generic", "provider_signing_secret": ""})).await;
    let sale = json!({"id": "order-1", "amount": 2_160, "currency": "jpy", "tax_rate": 8, "description": "みかん",
        "customer_name": "川商店", "created": 1_764_547_200});
    assert_eq!(tell(&server, &path, &sale).await["status"], "created");
    assert_eq!(tell(&server, &path, &sale).await["status"], "duplicate");
    let returned = json!({"id": "return-1", "amount": -1_080, "currency": "jpy", "original_id": "order-1", "created": 1_764_900_000});
    assert_eq!(tell(&server, &path, &returned).await["status"], "created");
    let nameless = json!({"amount": 2_160, "currency": "jpy"});
    assert_eq!(tell(&server, &path, &nameless).await["status"], "not_issued");
    let all = documents(&shop, 3).await;
    assert_eq!((&all[0]["total_yen"], &all[0]["original_invoice_id"]), (&json!(-1_080), &all[1]["invoice_id"]));
}

#[tokio::test]
async fn b15_events_that_wait_are_issued_although_the_clock_goes_back() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    tell(&server, &path, &event("1", "charge.succeeded", charge("1", 1_000))).await;
    server.clock.set_back(Duration::from_secs(7 * 86_400));
    documents(&shop, 1).await;
}

#[tokio::test]
async fn b15_each_sale_has_one_document_however_far_the_clock_jumps() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let jump = |days: i64| {
        let by = Duration::from_secs(days.unsigned_abs() * 86_400);
        if days < 0 { server.clock.set_back(by) } else { server.clock.advance(by) }
    };
    let mut count = 0;
    // by how many days the clock jumps after each of the two events of a sale
    for (first, second) in [(5, 0), (-9, 0), (3, -3), (-2, 30), (30, -60)] {
        let events = with_ids(&five_events()[..2], &count.to_string());
        tell(&server, &path, &events[0]).await;
        jump(first);
        tell(&server, &path, &events[1]).await;
        jump(second);
        server.clock.advance(WAIT);
        count += 1;
        let all = documents(&shop, count).await;
        assert!(all.iter().all(|one| one["total_yen"] == 5_400), "{first} {second} {all:?}");
        for event in &events {
            assert_eq!(tell(&server, &path, event).await["status"], "duplicate", "{first} {second}");
        }
    }
    // a return of the first sale, while the clock is far behind the sale
    jump(-40);
    tell(&server, &path, &with_ids(&five_events()[4..], "0")[0]).await;
    server.clock.advance(WAIT);
    documents(&shop, count + 1).await;
    audited(&server).await;
}

#[tokio::test]
async fn b15_a_document_that_a_node_with_a_wrong_clock_put_off_is_made() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    tell(&server, &path, &event("1", "charge.succeeded", charge("1", 1_000))).await;
    let waiting = shop.stored("?status=waiting").await;
    let store = server.running().store();
    let due = store.due_document(waiting[0]["invoice_id"].as_str().unwrap()).await.unwrap().unwrap();
    // the other node's clock is a year ahead
    let due_at = server.clock.now().plus(Duration::from_secs(365 * 86_400)).0;
    store.put_document_off(&due, DocumentState::Waiting, due_at, "").await.unwrap();
    documents(&shop, 1).await;
}

#[tokio::test]
async fn b15_a_credit_note_above_its_refund_returns_the_rest_once() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let events = five_events();
    tell(&server, &path, &events[2]).await;
    let mut refund = events[4].clone();
    refund["data"]["object"]["charge"] = Value::Null;
    refund["data"]["object"]["payment_intent"] = Value::Null;
    refund["data"]["object"]["invoice"] = json!("in_a");
    tell(&server, &path, &refund).await;
    server.clock.advance(WAIT);
    documents(&shop, 2).await;
    // the rest of the credit note is a credit for the next invoice
    let note = json!({"id": "cn_a", "object": "credit_note", "status": "issued", "currency": "jpy", "total": 2_160, "invoice": "in_a",
        "refund": "re_a", "created": 1_764_900_100, "effective_at": 1_764_900_100, "customer": "cus_a"});
    assert_eq!(tell(&server, &path, &event("c1", "credit_note.created", note.clone())).await["status"], "created");
    for id in ["c1", "c2"] {
        assert_eq!(tell(&server, &path, &event(id, "credit_note.created", note.clone())).await["status"], "duplicate");
    }
    server.clock.advance(WAIT);
    let all = documents(&shop, 3).await;
    let returned: i64 = all.iter().map(|one| one["total_yen"].as_i64().unwrap()).filter(|yen| *yen < 0).sum();
    assert_eq!(returned, -2_160);
    audited(&server).await;
}

#[tokio::test]
async fn b14_a_return_that_the_shop_does_not_document_counts_in_the_sum_of_its_charge() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({"skip_small_returns": true})).await;
    let paid = charge("s", 50_000);
    tell(&server, &path, &event("s1", "charge.succeeded", paid.clone())).await;
    let refund = |id: &str, yen: i64| {
        event(
            &format!("s{id}"),
            "refund.created",
            json!({"id": format!("re_{id}"), "object": "refund", "status": "succeeded",
            "currency": "jpy", "amount": yen, "created": 1_764_900_000, "charge": "ch_s"}),
        )
    };
    assert_eq!(tell(&server, &path, &refund("1", 9_000)).await["status"], "ignored");
    assert_eq!(tell(&server, &path, &refund("2", 20_000)).await["status"], "accepted");
    let mut sum = paid;
    sum["amount_refunded"] = json!(29_000);
    tell(&server, &path, &event("s4", "charge.refunded", sum)).await;
    server.clock.advance(WAIT);
    let all = documents(&shop, 2).await;
    assert_eq!(all.iter().map(|one| one["total_yen"].as_i64().unwrap()).min(), Some(-20_000));
    audited(&server).await;
}

#[tokio::test]
async fn b45_an_event_without_an_id_is_listed_once() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    for _ in 0..3 {
        assert_eq!(tell(&server, &path, &json!({"data": 1})).await["status"], "not_issued");
    }
    tell(&server, &path, &json!({"data": 2})).await;
    assert_eq!(shop.stored("?status=not_issued").await.len(), 2);
}

#[tokio::test]
async fn b15_a_return_is_made_when_its_sale_turns_out_to_be_one_that_has_its_document() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let events = five_events();
    // the refund names the payment, the invoice does not, and the intent names both
    assert_eq!(tell(&server, &path, &events[4]).await["status"], "accepted");
    server.clock.advance(WAIT);
    let begun = Instant::now();
    while shop.stored("?status=not_issued").await.is_empty() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(tell(&server, &path, &events[2]).await["status"], "created");
    assert_eq!(tell(&server, &path, &events[1]).await["status"], "duplicate");
    let all = documents(&shop, 2).await;
    let returned = all.iter().find(|one| one["document_type"] == "credit_note").expect("a return");
    let sale = all.iter().find(|one| one["payment_id"] == "in_a").expect("a sale");
    assert_eq!(returned["original_invoice_id"], sale["invoice_id"]);
}
