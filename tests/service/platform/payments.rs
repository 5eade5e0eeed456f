//! A node that collects money through a payment provider: the node's requests, and the provider's events in any order
//! (readings P12, P13, P18, W1-W9).

use std::time::Duration;

use control::caller::{Plan, Role};
use control::config::WebhooksConfig;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::payments::{Fault, NEXT_WEBHOOK_SECRET, PaymentStandIn, WEBHOOK_SECRET, signature};
use tests_service::receiver::Receiver;

use crate::subscriptions::{CHECKOUT, PORTAL, PROVIDER_WEBHOOK, SUBSCRIBE, Subscriber, after, move_to};
use tests_service::gates::GATE;

/// Starts a provider, and a node that uses the provider.
pub async fn pair() -> (PaymentStandIn, TestServer) {
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| {
        provider.configure(config);
        config.webhooks = WebhooksConfig { webhook_networks: vec!["127.0.0.0/8".parse().unwrap()], webhook_http: true };
    })
    .await;
    provider.follow(&server.clock);
    (provider, server)
}

/// Waits until the node has processed all received events.
pub async fn worked_through(server: &TestServer) {
    let store = server.running().store();
    for _ in 0..3000 {
        if store.pending_provider_events().await.unwrap() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let left = async |about_invoices| store.due_provider_events(i64::MAX, about_invoices, true, 9).await;
    panic!("the node has not processed these events: {:?}", (left(false).await, left(true).await));
}

/// Makes a subscriber with a card at the provider. Returns the subscriber, and the id of the provider's customer.
pub async fn with_card<'s>(provider: &PaymentStandIn, server: &'s TestServer) -> (Subscriber<'s>, String) {
    let subscriber = Subscriber::new(server, Plan::Free).await;
    subscriber.subscribe("starter", "monthly").await.ok(200);
    let account = json!(subscriber.account.as_str());
    let customers = provider.account().all("cus_");
    let customer = customers.iter().find(|customer| customer["metadata"]["account_id"] == account).unwrap();
    let customer = customer["id"].as_str().unwrap().to_owned();
    provider.account().attach_card(&customer);
    provider.account().take_events();
    (subscriber, customer)
}

/// Returns the id of the provider's only subscription.
fn only_subscription(provider: &PaymentStandIn) -> String {
    let all = provider.account().all("sub_0");
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn p12_without_a_card_a_checkout_is_offered_and_going_through_it_subscribes() {
    let (provider, server) = pair().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    let told = subscriber.subscribe("pro", "monthly").await.ok(200);
    assert_eq!((&told["plan"], &told["status"]), (&json!("free"), &json!("active")));
    let page = told["checkout_url"].as_str().unwrap().to_owned();
    // a second request gets the same checkout page
    assert_eq!(subscriber.subscribe("pro", "monthly").await.ok(200)["checkout_url"], json!(page));
    let session = page.rsplit('/').next().unwrap();
    let customer = provider.account().all("cus_")[0].clone();
    assert_eq!(customer["email"], "ada@example.org");
    provider.account().complete_checkout(session);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    let told = subscriber.subscription().await;
    assert_eq!((&told["plan"], &told["status"], told.get("checkout_url")), (&json!("pro"), &json!("active"), None));
    let invoices = subscriber.invoices().await;
    assert_eq!((invoices.len(), &invoices[0]["status"]), (1, &json!("paid")));
    assert!(invoices[0]["provider_invoice_url"].as_str().unwrap().starts_with("https://invoices.example/in_"));
    // with a card, changes need no checkout
    let told = subscriber.subscribe("scale", "monthly").await.ok(200);
    assert_eq!(told["plan"], "scale");
    let told = subscriber.subscribe("starter", "annual").await.ok(200);
    assert_eq!((&told["plan"], &told["scheduled_plan"]), (&json!("scale"), &json!("starter")));
    let end = told["current_period_end"].as_str().unwrap().to_owned();
    assert_eq!(told["scheduled_at"], json!(end));
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    assert_eq!(subscriber.subscription().await, told);
    move_to(&server, &end).await;
    let subscription = only_subscription(&provider);
    provider.account().renew(&subscription);
    provider.deliver_all(server.address).await;
    let told = subscriber.until_on("starter", "active").await;
    assert_eq!((&told["billing_cycle"], told.get("scheduled_plan")), (&json!("annual"), None));
}

#[tokio::test]
async fn p11_p16_p17_steps_are_taken_at_the_provider() {
    let (provider, server) = pair().await;
    let (subscriber, _) = with_card(&provider, &server).await;
    let told = subscriber.subscribe("pro", "monthly").await.ok(200);
    assert_eq!((&told["plan"], &told["status"]), (&json!("pro"), &json!("active")));
    let subscription = only_subscription(&provider);
    subscriber.subscribe("starter", "monthly").await.ok(200);
    assert!(provider.account().object(&subscription)["schedule"].is_string());
    // the scheduled change to `starter` is withdrawn, then made again. Cancelling the subscription must also remove the
    // schedule at the provider, because the schedule would keep the subscription alive.
    let told = subscriber.subscribe("pro", "monthly").await.ok(200);
    assert_eq!(told.get("scheduled_plan"), None);
    assert!(provider.account().object(&subscription)["schedule"].is_null());
    subscriber.subscribe("starter", "monthly").await.ok(200);
    for _ in 0..2 {
        assert_eq!(subscriber.cancel().await.ok(200)["status"], "cancelled");
    }
    assert_eq!(provider.account().object(&subscription)["cancel_at_period_end"], true);
    let told = subscriber.subscribe("scale", "monthly").await.ok(200);
    assert_eq!((&told["plan"], &told["status"]), (&json!("scale"), &json!("active")));
    assert_eq!(provider.account().object(&subscription)["cancel_at_period_end"], false);
    subscriber.cancel().await.ok(200);
    move_to(&server, told["current_period_end"].as_str().unwrap()).await;
    provider.account().renew(&subscription);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    subscriber.until_on("free", "active").await;
    assert_eq!(subscriber.invoices().await.len(), 2);
}

#[tokio::test]
async fn w8_a_request_that_is_repeated_after_any_failure_has_one_effect() {
    let (provider, server) = pair().await;
    let faults = [Fault::Error, Fault::ErrorAfter, Fault::TooMany, Fault::Garbage, Fault::Cut];
    let mut subscribers = Vec::new();
    for fault in faults {
        // one fault: the node's client repeats the request to the provider
        let (subscriber, customer) = with_card(&provider, &server).await;
        provider.fail("/subscriptions", &[fault]);
        let told = subscriber.subscribe("pro", "monthly").await.ok(200);
        assert_eq!(told["plan"], "pro", "{fault:?}");
        // six faults: the client gives up after every third, so the caller must repeat the request
        provider.fail("/subscriptions", &[fault; 6]);
        subscriber.subscribe("scale", "monthly").await.error(502, "PROVIDER_UNAVAILABLE");
        let mut tries = 0;
        while subscriber.subscribe("scale", "monthly").await.status != 200 {
            tries += 1;
            assert!(tries < 4);
        }
        assert_eq!(subscriber.subscription().await["plan"], "scale", "{fault:?}");
        subscribers.push(customer);
    }
    let all = provider.account().all("sub_0");
    for customer in subscribers {
        let of_customer = |object: &&Value| object["customer"] == json!(customer);
        assert_eq!(all.iter().filter(of_customer).count(), 1);
        // two invoices, one of them for the difference: no amount was paid twice
        let invoices = provider.account().all("in_");
        assert_eq!(invoices.iter().filter(of_customer).count(), 2);
    }
}

#[tokio::test]
async fn w8_a_caller_that_goes_away_while_the_provider_is_slow_has_subscribed() {
    let (provider, server) = pair().await;
    let (subscriber, _) = with_card(&provider, &server).await;
    provider.fail("/subscriptions", &[Fault::Late]);
    let body = json!({"plan": "pro", "email": "ada@example.org"});
    let asked = tokio::time::timeout(Duration::from_millis(300), subscriber.send(Request::post(SUBSCRIBE, &body)));
    assert!(asked.await.is_err());
    subscriber.until_on("pro", "active").await;
    only_subscription(&provider);
}

#[tokio::test]
async fn p12_a_card_that_is_declined_buys_nothing() {
    let (provider, server) = pair().await;
    let (subscriber, _) = with_card(&provider, &server).await;
    provider.account().declines = true;
    subscriber.subscribe("pro", "monthly").await.error(402, "NO_PAYMENT_METHOD");
    assert_eq!(subscriber.subscription().await["plan"], "free");
    provider.account().declines = false;
    // the request for another plan has another idempotency key, so the provider does not answer it with the stored
    // refusal
    subscriber.subscribe("starter", "monthly").await.ok(200);
    provider.account().declines = true;
    subscriber.subscribe("scale", "monthly").await.error(402, "NO_PAYMENT_METHOD");
    let told = subscriber.subscription().await;
    assert_eq!((&told["plan"], &told["status"]), (&json!("starter"), &json!("active")));
}

#[tokio::test]
async fn w1_w2_w3_events_are_taken_by_their_signature_and_once() {
    let (provider, server) = pair().await;
    let now_s = server.clock.now().seconds() as i64;
    let body = json!({"id": "evt_1", "type": "customer.tax_id.created", "data": {"object": {"id": "x"}}}).to_string();
    let send = async |header: String, body: &str| {
        let request = Request::new("POST", PROVIDER_WEBHOOK).header("Stripe-Signature", &header);
        server.send(request.body("application/json", body)).await
    };
    // an event of an unknown type arrives three times, the last time signed under the second secret
    for secret in [WEBHOOK_SECRET, WEBHOOK_SECRET, NEXT_WEBHOOK_SECRET] {
        assert_eq!(send(signature(&body, secret, now_s), &body).await.ok(200), json!({"received": true}));
    }
    let good = signature(&body, WEBHOOK_SECRET, now_s);
    for (header, body) in [
        (String::new(), body.as_str()),
        (signature(&body, "whsec_other", now_s), &body),
        (signature(&body, WEBHOOK_SECRET, now_s - 310), &body),
        (signature(&body, WEBHOOK_SECRET, now_s + 310), &body),
        (good.clone(), "{}"),
        (good.replace("v1", "v0"), &body),
        (good[..good.len() - 2].to_owned(), &body),
    ] {
        send(header, body).await.error(400, "INVALID_SIGNATURE");
    }
    for body in ["", "[]", "{}", r#"{"id": "evt_2"}"#, r#"{"id": 1, "type": "a"}"#, r#"{"id": "", "type": "a"}"#] {
        send(signature(body, WEBHOOK_SECRET, now_s), body).await.error(400, "INVALID_REQUEST");
    }
    let long = "a".repeat((1 << 20) + 1);
    send(signature(&long, WEBHOOK_SECRET, now_s), &long).await.error(413, "PAYLOAD_TOO_LARGE");
    // events that belong to no known account or contain no object are ignored
    for (n, object) in [json!({"id": "sub_9"}), json!({}), json!(1)].into_iter().enumerate() {
        let event = json!({"id": format!("evt_x{n}"), "type": "payment_method.attached", "data": {"object": object}});
        provider.deliver(server.address, &event).await.ok(200);
    }
    worked_through(&server).await;
    let health = server.send(Request::get("/api/v1/health")).await.ok(200);
    let named = |one: &&Value| one["name"] == "provider";
    let provider = health["dependencies"].as_array().unwrap().iter().find(named).unwrap().clone();
    assert_eq!(provider["status"], "healthy");
}

/// Returns all permutations of the numbers from 0 to `count - 1`.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..count {
        let longer = |order: Vec<usize>| {
            (0..count).filter(|n| !order.contains(n)).map(|n| [order.clone(), vec![n]].concat()).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// Lets a subscription begin, remain unpaid, be paid and end at the provider, without a request from the node. Returns
/// five events that report these changes.
fn history(provider: &PaymentStandIn, customer: &str, account_id: &str) -> [Value; 5] {
    let mut account = provider.account();
    let session = account.begin_checkout(customer, account_id, "ango_pro_monthly");
    account.complete_checkout(&session);
    let subscription = account.object(&session)["subscription"].as_str().unwrap().to_owned();
    account.declines = true;
    account.renew(&subscription);
    account.declines = false;
    let failed = account.all("in_").iter().rfind(|one| one["customer"] == json!(customer)).unwrap()["id"].clone();
    account.pay(failed.as_str().unwrap());
    account.set_status(&subscription, "canceled");
    let events = account.take_events();
    let kind = |wanted: &str, object: Option<&Value>| {
        let is_it =
            |event: &&Value| event["type"] == wanted && object.is_none_or(|id| event["data"]["object"]["id"] == *id);
        events.iter().rfind(is_it).unwrap().clone()
    };
    [
        kind("customer.subscription.created", None),
        kind("invoice.paid", Some(&failed)),
        kind("invoice.payment_failed", Some(&failed)),
        kind("customer.subscription.updated", None),
        kind("customer.subscription.deleted", None),
    ]
}

/// Returns a pseudo-random number below `bound` (SplitMix64).
fn chance(seed: &mut u64, bound: u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % bound
}

#[tokio::test]
async fn w4_events_that_are_late_repeated_or_lost_for_a_while_end_where_the_provider_is() {
    let (provider, server) = pair().await;
    for seed in 0..30 {
        let mut random = seed;
        let (subscriber, customer) = with_card(&provider, &server).await;
        subscriber.subscribe("pro", "monthly").await.ok(200);
        let found = server.running().store().subscription(subscriber.account.as_str()).await.unwrap().unwrap();
        let subscription = found.provider_subscription_id;
        let mut kept: Vec<Value> = Vec::new();
        for _ in 0..8 {
            {
                let mut account = provider.account();
                let open =
                    account.all("in_").into_iter().rfind(|one| one["customer"] == customer && one["status"] == "open");
                match (chance(&mut random, 4), open) {
                    (0, _) => account.renew(&subscription),
                    (1, Some(invoice)) => account.pay(invoice["id"].as_str().unwrap()),
                    (2, Some(invoice)) => account.fail_payment(invoice["id"].as_str().unwrap()),
                    _ => {
                        account.declines = true;
                        account.renew(&subscription);
                        account.declines = false;
                    }
                }
                kept.extend(account.take_events());
            }
            // deliver up to three events in random sequence; about a third of these events stay in `kept`, to be
            // delivered again
            for _ in 0..chance(&mut random, 4) {
                let at = chance(&mut random, kept.len() as u64) as usize;
                let event = if chance(&mut random, 3) == 0 { kept[at].clone() } else { kept.swap_remove(at) };
                provider.deliver(server.address, &event).await.ok(200);
                if kept.is_empty() {
                    break;
                }
            }
        }
        while !kept.is_empty() {
            let at = chance(&mut random, kept.len() as u64) as usize;
            provider.deliver(server.address, &kept.swap_remove(at)).await.ok(200);
        }
        worked_through(&server).await;
        let there = provider.account().object(&subscription);
        let here = subscriber.subscription().await;
        let invoices = subscriber.invoices().await;
        let all = provider.account().all("in_");
        let of_customer: Vec<&Value> = all.iter().filter(|one| one["customer"] == customer).collect();
        // readings P18: the worst of the subscription and the oldest unpaid invoice
        let owes = of_customer.iter().any(|one| one["status"] == "open" && one["attempt_count"] != 0);
        let status = if owes { &json!("past_due") } else { &there["status"] };
        assert_eq!((&here["plan"], &here["status"]), (&json!("pro"), status), "seed {seed}");
        assert_eq!(invoices.len(), of_customer.len(), "seed {seed}");
        for invoice in of_customer {
            let known = invoices.iter().find(|one| one["invoice_id"] == invoice["id"]).unwrap();
            assert_eq!(
                (&known["status"], &known["amount_usd_cents"]),
                (&invoice["status"], &invoice["total"]),
                "seed {seed}"
            );
        }
    }
}

#[tokio::test]
async fn w4_w5_w6_created_paid_failed_updated_and_deleted_end_alike_in_every_order() {
    let (provider, server) = pair().await;
    let orders = permutations(5);
    assert_eq!(orders.len(), 120);
    let mut customers = Vec::new();
    for order in &orders {
        let (subscriber, customer) = with_card(&provider, &server).await;
        let told = history(&provider, &customer, subscriber.account.as_str());
        for at in order {
            provider.deliver(server.address, &told[*at]).await.ok(200);
        }
        customers.push(subscriber);
    }
    worked_through(&server).await;
    let mut ends = Vec::new();
    for subscriber in &customers {
        let mut invoices = subscriber.invoices().await;
        assert_eq!(invoices.len(), 1);
        for member in ["invoice_id", "provider_invoice_url"] {
            invoices[0][member].take();
        }
        let paid_at = invoices[0]["paid_at"].take();
        assert!(paid_at.is_string());
        ends.push((subscriber.subscription().await, invoices));
    }
    let (subscription, invoices) = &ends[0];
    assert_eq!((&subscription["plan"], &subscription["status"]), (&json!("free"), &json!("active")));
    assert_eq!((&invoices[0]["status"], &invoices[0]["amount_usd_cents"]), (&json!("paid"), &json!(4_900)));
    assert!(ends.iter().all(|end| end == &ends[0]));
}

#[tokio::test]
async fn p18_a_payment_that_fails_is_past_due_then_unpaid_and_paid_again() {
    let (provider, server) = pair().await;
    let (subscriber, _) = with_card(&provider, &server).await;
    let told = subscriber.subscribe("starter", "monthly").await.ok(200);
    let subscription = only_subscription(&provider);
    provider.deliver_all(server.address).await;
    move_to(&server, told["current_period_end"].as_str().unwrap()).await;
    provider.account().declines = true;
    provider.account().renew(&subscription);
    provider.deliver_all(server.address).await;
    subscriber.until_on("starter", "past_due").await;
    // after the failed payment, the account can still be used for a week
    subscriber.use_gates(1).await;
    subscriber.subscribe("pro", "monthly").await.error(409, "CONFLICT");
    server.clock.advance(Duration::from_secs(7 * 86_400 - 60));
    subscriber.use_gates(1).await;
    server.clock.advance(Duration::from_secs(120));
    subscriber.until_on("starter", "unpaid").await;
    let gate = json!({"session_id": "sess_0", "op": "NAND", "a": "", "b": ""});
    subscriber
        .until(async || subscriber.send(Request::post(GATE, &gate)).await, |answer| answer.status == 402)
        .await
        .error(402, "ACCOUNT_SUSPENDED");
    for path in ["/api/v1/keys/generate", "/api/v1/compute", "/api/v1/tfhe/session", "/api/v1/tfhe/eval-session"] {
        subscriber.send(Request::post(path, &json!({}))).await.error(402, "ACCOUNT_SUSPENDED");
    }
    // reading, billing and webhooks are still allowed
    for path in ["/api/v1/keys", "/api/v1/webhooks", "/api/v1/billing/invoices", "/api/v1/billing/budget"] {
        subscriber.send(Request::get(path)).await.ok(200);
    }
    let invoices = subscriber.invoices().await;
    assert_eq!(invoices[0]["status"], "open");
    let invoice = invoices[0]["invoice_id"].as_str().unwrap().to_owned();
    provider.account().declines = false;
    provider.account().pay(&invoice);
    provider.deliver_all(server.address).await;
    subscriber.until_on("starter", "active").await;
    subscriber
        .until(async || subscriber.send(Request::post(GATE, &gate)).await, |answer| answer.status != 402)
        .await
        .error(404, "SESSION_NOT_FOUND");
    worked_through(&server).await;
    assert_eq!(subscriber.invoices().await[0]["status"], "paid");
}

#[tokio::test]
async fn p9_what_was_used_is_billed_by_the_provider_once_whatever_fails() {
    let (provider, server) = pair().await;
    let (subscriber, customer) = with_card(&provider, &server).await;
    let told = subscriber.subscribe("starter", "monthly").await.ok(200);
    subscriber.until_limited_to("20000").await;
    for _ in 0..5 {
        subscriber.use_gates(1000).await;
    }
    let month = server.clock.now().rfc3339()[..7].to_owned();
    provider.fail("/invoiceitems", &[Fault::ErrorAfter, Fault::Cut, Fault::Garbage]);
    provider.fail("/invoices", &[Fault::Cut]);
    move_to(&server, &after(told["current_period_end"].as_str().unwrap(), 11)).await;
    let usage = |provider: &PaymentStandIn| {
        let of_usage = |one: &Value| one["metadata"]["month"].is_string() && one["customer"] == json!(customer);
        provider.account().all("in_").into_iter().filter(of_usage).collect::<Vec<_>>()
    };
    // after three attempts the node gives up, and after a minute it tries again
    subscriber
        .until(async || provider.asked(), |asked| asked.iter().filter(|one| one.contains("invoiceitems")).count() >= 3)
        .await;
    server.clock.advance(Duration::from_secs(61));
    subscriber.until_billed(&server).await;
    let made = usage(&provider);
    assert_eq!((made.len(), &made[0]["total"]), (1, &json!(233)));
    provider.account().advance_drafts();
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    let invoices = subscriber.invoices().await;
    let of_usage = invoices.iter().find(|one| one["amount_usd_cents"] == 233).unwrap();
    assert_eq!((&of_usage["status"], &of_usage["period"]), (&json!("paid"), &json!(month)));
}

#[tokio::test]
async fn w6_customers_are_told_of_an_invoice_once_in_order_and_of_each_failure() {
    let (provider, server) = pair().await;
    let (subscriber, _) = with_card(&provider, &server).await;
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["invoice_created", "invoice_paid", "invoice_failed"]});
    subscriber.send(Request::post("/api/v1/webhooks", &hook)).await.ok(201);
    subscriber.subscribe("starter", "monthly").await.ok(200);
    // the events arrive in reverse sequence, so the payment comes first; then all arrive again in the original sequence
    let mut events = provider.account().take_events();
    events.reverse();
    for event in events.iter().chain(events.iter().rev()) {
        provider.deliver(server.address, event).await.ok(200);
    }
    worked_through(&server).await;
    let told = receiver.wait_for(2).await;
    let kinds = |told: &[tests_service::receiver::Received]| {
        let mut kinds: Vec<String> =
            told.iter().map(|one| one.json()["event_type"].as_str().unwrap().to_owned()).collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kinds(&told), ["invoice_created", "invoice_paid"]);
    let paid = told.iter().find(|one| one.json()["event_type"] == "invoice_paid").unwrap().json();
    let invoice = &subscriber.invoices().await[0];
    for member in ["invoice_id", "amount_usd_cents", "provider_invoice_url"] {
        assert_eq!(paid["data"][member], invoice[member]);
    }
    assert_eq!(paid["data"]["period_start"].as_str().unwrap().len(), "2026-01-01".len());
    // each of two failed attempts has its own event
    provider.account().declines = true;
    let subscription = only_subscription(&provider);
    provider.account().renew(&subscription);
    let failed = provider.account().all("in_").last().unwrap()["id"].as_str().unwrap().to_owned();
    provider.account().fail_payment(&failed);
    let events = provider.account().take_events();
    for event in events.iter().chain(&events) {
        provider.deliver(server.address, event).await.ok(200);
    }
    worked_through(&server).await;
    let told = receiver.wait_for(5).await;
    assert_eq!(kinds(&told[2..]), ["invoice_created", "invoice_failed", "invoice_failed"]);
    let attempts = |one: &tests_service::receiver::Received| one.json()["data"]["attempt_count"].as_i64();
    let mut counts: Vec<i64> = told[2..].iter().filter_map(attempts).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
    // the list shows the invoice as void
    provider.account().end_invoice(&failed, "void");
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    assert_eq!(subscriber.invoices().await[0]["status"], "void");
    assert_eq!(receiver.received().len(), 5);
}

#[tokio::test]
async fn p13_w9_users_store_a_card_and_open_the_portal() {
    let (provider, server) = pair().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    server.operator().await.set_plan(&user.account, Plan::Free).await.unwrap();
    let user = server.log_in("ada@example.org").await;
    let send = async |path: &str, body: Value| server.send(Request::post(path, &body).key(&user.token)).await;
    let started = send(CHECKOUT, json!({"plan": "payg"})).await.ok(200);
    let session = started["session_id"].as_str().unwrap();
    assert_eq!(started["client_secret"], json!(format!("{session}_secret")));
    provider.account().complete_checkout(session);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    let store = server.running().store();
    let found = store.subscription(user.account.as_str()).await.unwrap().unwrap();
    assert_eq!(found.plan, Plan::Payg);
    let customer = provider.account().object(&found.customer_id);
    assert!(customer["invoice_settings"]["default_payment_method"].is_string());
    // each visit to the portal has its own address
    let open = async || send(PORTAL, json!({"return_url": "http://localhost/"})).await.ok(200)["url"].clone();
    assert_ne!(open().await, open().await);
    provider.fail("/billing_portal", &[Fault::Error; 3]);
    send(PORTAL, json!({"return_url": "http://localhost/"})).await.error(502, "PROVIDER_UNAVAILABLE");
    // a viewer is not allowed to open the portal
    let viewer = server.user("eve@example.org", Role::Viewer).await;
    let request = Request::post(PORTAL, &json!({"return_url": "http://localhost/"})).key(&viewer.token);
    server.send(request).await.error(403, "INSUFFICIENT_ROLE");
}

#[tokio::test]
async fn w4_an_account_that_goes_through_two_checkouts_has_one_subscription() {
    let (provider, server) = pair().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    let mut pages = Vec::new();
    for plan in ["starter", "pro"] {
        pages.push(subscriber.subscribe(plan, "monthly").await.ok(200)["checkout_url"].as_str().unwrap().to_owned());
    }
    for page in &pages {
        provider.account().complete_checkout(page.rsplit('/').next().unwrap());
    }
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    let told = subscriber.subscription().await;
    assert_eq!((&told["plan"], &told["status"]), (&json!("starter"), &json!("active")));
    let live: Vec<Value> =
        provider.account().all("sub_0").into_iter().filter(|one| one["status"] == "active").collect();
    assert_eq!(live.len(), 1);
    // the second subscription was ended; the event that reports this end arrives late, and changes nothing
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    assert_eq!(subscriber.subscription().await["plan"], "starter");
}

#[tokio::test]
async fn i1_a_subscription_under_one_idempotency_key_is_answered_alike() {
    let (provider, server) = pair().await;
    let (subscriber, _) = with_card(&provider, &server).await;
    let body = json!({"plan": "pro", "email": "ada@example.org"});
    let ask = async || {
        let request = Request::post(SUBSCRIBE, &body).header("Idempotency-Key", "one");
        subscriber.send(request).await
    };
    let (first, second) = (ask().await, ask().await);
    assert_eq!(first.ok(200), second.ok(200));
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    only_subscription(&provider);
}

#[tokio::test]
async fn p19_a_subscription_that_began_without_a_provider_goes_on_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::in_folder(folder, |_| ()).await;
    let config = server.running().config().clone();
    let (key, account) = {
        let subscriber = Subscriber::new(&server, Plan::Free).await;
        subscriber.subscribe("pro", "monthly").await.ok(200);
        (subscriber.key.clone(), subscriber.account.clone())
    };
    let folder = server.stop().await;
    let provider = PaymentStandIn::start().await;
    let server = TestServer::in_folder(folder, |changed| {
        changed.database_url = config.database_url.clone();
        provider.configure(changed);
    })
    .await;
    provider.follow(&server.clock);
    let subscriber = Subscriber { server: &server, account, key };
    // the node itself changes, cancels and resumes the subscription that began without a provider
    let told = subscriber.subscribe("scale", "monthly").await.ok(200);
    assert_eq!((&told["plan"], told.get("checkout_url")), (&json!("scale"), None));
    assert_eq!(subscriber.cancel().await.ok(200)["status"], "cancelled");
    subscriber.subscribe("scale", "monthly").await.ok(200);
    let end = told["current_period_end"].as_str().unwrap().to_owned();
    // the provider does not know the account, so the node makes the invoice
    move_to(&server, &after(&end, 11)).await;
    let invoices = subscriber.until(async || subscriber.invoices().await, |found| !found.is_empty()).await;
    assert!(invoices[0]["provider_invoice_url"].as_str().unwrap().contains("/invoices/inv_"));
    let invoice = invoices[0]["invoice_id"].as_str().unwrap();
    server.operator().await.end_invoice(invoice, store::InvoiceState::Paid).await.unwrap();
    let next = subscriber.period_end_after(&end).await;
    subscriber.cancel().await.ok(200);
    move_to(&server, &next).await;
    subscriber.until_on("free", "active").await;
    // the next subscription is made at the provider
    assert!(subscriber.subscribe("starter", "monthly").await.ok(200)["checkout_url"].is_string());
}
