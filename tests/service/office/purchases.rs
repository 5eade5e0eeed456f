//! Keys bought at the operator's payment provider (readings B6-B8, B45, B46).

use std::collections::HashSet;
use std::time::Duration;

use client::Preset;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::gates::{Account, BATCH, open_session};
use tests_service::http::{Request, Response};
use tests_service::payments::{PaymentStandIn, WEBHOOK_SECRET, signature};

use crate::shop::*;

const WEBHOOK: &str = "/v1/provider/webhook";

async fn pair() -> (PaymentStandIn, TestServer) {
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| provider.configure(config)).await;
    provider.follow(&server.clock);
    (provider, server)
}

async fn tell(server: &TestServer, event: &Value) -> Response {
    tell_at(server, WEBHOOK, event).await
}

async fn tell_at(server: &TestServer, path: &str, event: &Value) -> Response {
    let (body, now) = (event.to_string(), i64::try_from(server.clock.now().seconds()).unwrap());
    let signed = signature(&body, WEBHOOK_SECRET, now);
    let request = Request::new("POST", path).body("application/json", body).header("Stripe-Signature", &signed);
    let answer = server.send(request).await;
    let store = server.running().store();
    for _ in 0..3000 {
        if store.pending_provider_events().await.unwrap() == 0 {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the node has not processed all events");
}

async fn by_session(server: &TestServer, session: &str) -> Response {
    server.send(Request::get(format!("/v1/keys/by-session?session_id={session}"))).await
}

/// Stores a completed checkout at the provider. Returns the event that reports the checkout.
fn bought(provider: &PaymentStandIn, id: &str, more: Value) -> Value {
    let mut session = json!({"id": id, "object": "checkout.session", "customer": "cus_buyer", "mode": "subscription", "status": "complete",
        "payment_status": "paid", "subscription": format!("sub_{id}"), "client_reference_id": null, "metadata": {}});
    session.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    provider.account().put(session.clone());
    event(id, "checkout.session.completed", session)
}

#[tokio::test]
async fn b6_b7_b46_a_purchase_issues_one_key_whatever_is_repeated() {
    let (provider, server) = pair().await;
    let purchase = bought(&provider, "cs_1", json!({"metadata": {"plan": "pro"}, "client_reference_id": "shop 1"}));
    for _ in 0..3 {
        tell(&server, &purchase).await.ok(200);
    }
    let told = by_session(&server, "cs_1").await;
    assert_eq!(told.header("cache-control"), Some("no-store"));
    let told = told.ok(200);
    assert_eq!((&told["status"], &told["plan"], &told["key"]), (&json!("ready"), &json!("pro"), &told["api_key"]));
    assert_eq!(by_session(&server, "cs_1").await.ok(200), told);
    let me = server.send(Request::get(ME).key(told["key"].as_str().unwrap())).await.ok(200);
    assert_eq!(me["plan"], "pro");
    // a second purchase of the same customer belongs to the same account
    tell(&server, &bought(&provider, "cs_2", json!({}))).await.ok(200);
    let keys = server.operator().await.keys(None).await.unwrap();
    assert_eq!((keys.len(), &keys[0].account_id), (2, &keys[1].account_id));
    // another customer gets another account
    tell(&server, &bought(&provider, "cs_3", json!({"customer": "cus_other"}))).await.ok(200);
    let keys = server.operator().await.keys(None).await.unwrap();
    let accounts: HashSet<&str> = keys.iter().map(|key| &*key.account_id).collect();
    assert_eq!((keys.len(), accounts.len()), (3, 2));
    assert!(keys.iter().any(|key| key.customer.as_deref() == Some("shop 1")));
    // after a day the key is not shown any more
    server.clock.advance(Duration::from_secs(25 * 3600));
    refused(&by_session(&server, "cs_1").await, 410, "KEY_NO_LONGER_SHOWN");
    server.send(Request::get(ME).key(told["key"].as_str().unwrap())).await.ok(200);
}

#[tokio::test]
async fn w2_events_come_at_the_first_version_s_path_too_and_once_at_both() {
    let (provider, server) = pair().await;
    let purchase = bought(&provider, "cs_1", json!({}));
    for path in ["/v1/stripe/webhook", WEBHOOK, "/api/v1/billing/provider_webhook"] {
        assert_eq!(tell_at(&server, path, &purchase).await.ok(200), json!({"received": true}));
    }
    by_session(&server, "cs_1").await.ok(200);
    assert_eq!(server.operator().await.keys(None).await.unwrap().len(), 1);
    // a signed event with a member twice, and two signatures, are no event
    let now = i64::try_from(server.clock.now().seconds()).unwrap();
    let body = r#"{"id": "evt_2", "type": "a", "data": {"object": {"id": "x", "\u0069d": "y"}}}"#;
    let signed = signature(body, WEBHOOK_SECRET, now);
    let post = |path, body: &str| {
        Request::new("POST", path).body("application/json", body).header("Stripe-Signature", &signed)
    };
    for path in ["/v1/stripe/webhook", WEBHOOK] {
        faults(&server.send(post(path, body)).await);
        let twice = post(path, body).header("Stripe-Signature", &signed);
        refused(&server.send(twice).await, 400, "INVALID_SIGNATURE");
    }
    server.send(post("/api/v1/billing/provider_webhook", body)).await.error(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn b6_a_buyer_who_is_faster_than_the_event_gets_the_same_key() {
    let (provider, server) = pair().await;
    let purchase = bought(&provider, "cs_1", json!({}));
    let told = by_session(&server, "cs_1").await.ok(200);
    assert_eq!(told["plan"], "payg");
    tell(&server, &purchase).await.ok(200);
    assert_eq!(by_session(&server, "cs_1").await.ok(200), told);
    // cs_2 waits for its payment, cs_3 is open, cs_4 is a checkout of an existing account and so buys no key, and cs_5
    // is unknown
    bought(&provider, "cs_2", json!({"payment_status": "unpaid"}));
    let pending = by_session(&server, "cs_2").await;
    assert_eq!((pending.ok(202), pending.header("retry-after")), (json!({"status": "pending"}), Some("2")));
    bought(&provider, "cs_3", json!({"status": "open", "payment_status": "unpaid"}));
    bought(&provider, "cs_4", json!({"metadata": {"account_id": "acct_x"}}));
    for session in ["cs_3", "cs_4", "cs_5"] {
        refused(&by_session(&server, session).await, 404, "KEY_NOT_FOUND");
    }
    let missing = server.send(Request::get("/v1/keys/by-session")).await;
    assert_eq!(faults(&missing), [("missing".to_owned(), "query.session_id".to_owned())]);
}

#[tokio::test]
async fn b6_guesses_lock_the_network() {
    let server = TestServer::start().await;
    let mut last = 404;
    for at in 0..200 {
        last = by_session(&server, &format!("cs_{at}")).await.status;
        if last == 429 {
            break;
        }
    }
    assert_eq!(last, 429);
}

#[tokio::test]
async fn b8_the_end_of_a_subscription_revokes_its_key_in_any_order() {
    let (provider, server) = pair().await;
    tell(&server, &bought(&provider, "cs_1", json!({}))).await.ok(200);
    let key = by_session(&server, "cs_1").await.ok(200)["key"].as_str().unwrap().to_owned();
    let ended = |id: &str| {
        let subscription = json!({"id": format!("sub_{id}"), "object": "subscription", "customer": "cus_buyer", "status": "canceled",
            "items": {"object": "list", "data": [{"id": "si_1", "price": {"id": "price_x"}, "current_period_start": 1, "current_period_end": 2}]}});
        provider.account().put(subscription.clone());
        event(&format!("end_{id}"), "customer.subscription.deleted", subscription)
    };
    tell(&server, &ended("cs_1")).await.ok(200);
    refused(&server.send(Request::get(ME).key(&key)).await, 401, "INVALID_API_KEY");
    // the subscription of cs_2 ends before its purchase is reported
    tell(&server, &ended("cs_2")).await.ok(200);
    tell(&server, &bought(&provider, "cs_2", json!({}))).await.ok(200);
    let key = by_session(&server, "cs_2").await.ok(200)["key"].as_str().unwrap().to_owned();
    refused(&server.send(Request::get(ME).key(&key)).await, 401, "INVALID_API_KEY");
    // the provider no longer has the subscription of cs_3
    tell(&server, &bought(&provider, "cs_3", json!({}))).await.ok(200);
    let key = by_session(&server, "cs_3").await.ok(200)["key"].as_str().unwrap().to_owned();
    let gone = json!({"id": "sub_cs_3", "object": "subscription", "customer": "cus_buyer", "status": "canceled"});
    tell(&server, &event("end_cs_3", "customer.subscription.deleted", gone)).await.ok(200);
    refused(&server.send(Request::get(ME).key(&key)).await, 401, "INVALID_API_KEY");
    // an event with a wrong signature is refused
    let request = Request::post(WEBHOOK, &ended("cs_1")).header("Stripe-Signature", "t=1,v1=00");
    refused(&server.send(request).await, 400, "INVALID_SIGNATURE");
}

#[tokio::test]
async fn b7_a_purchase_never_lowers_the_plan_of_its_account() {
    let (provider, server) = pair().await;
    tell(&server, &bought(&provider, "cs_1", json!({"metadata": {"plan": "pro"}}))).await.ok(200);
    let key = by_session(&server, "cs_1").await.ok(200)["key"].as_str().unwrap().to_owned();
    let plan = async || server.send(Request::get(ME).key(&key)).await.ok(200)["plan"].clone();
    // a cheaper key, and a paid checkout of something else
    for (session, more) in [("cs_2", json!({"metadata": {"plan": "free"}})), ("cs_3", json!({}))] {
        tell(&server, &bought(&provider, session, more)).await.ok(200);
        assert_eq!(plan().await, "pro", "{session}");
    }
    tell(&server, &bought(&provider, "cs_4", json!({"metadata": {"plan": "scale"}}))).await.ok(200);
    assert_eq!(plan().await, "scale");
}

#[tokio::test]
async fn b7_the_end_of_a_purchase_takes_back_what_it_brought() {
    let (provider, server) = pair().await;
    let cheap = json!({"metadata": {"plan": "free"}});
    tell(&server, &bought(&provider, "cs_1", cheap)).await.ok(200);
    let key = by_session(&server, "cs_1").await.ok(200)["key"].as_str().unwrap().to_owned();
    let me = async || server.send(Request::get(ME).key(&key)).await.ok(200);
    let ended = |session: &str| {
        let subscription = json!({"id": format!("sub_{session}"), "object": "subscription", "customer": "cus_buyer",
            "status": "canceled", "items": {"data": [{"id": "si_1", "price": {"id": "price_1"}, "current_period_start": 1,
            "current_period_end": 2}]}});
        provider.account().put(subscription.clone());
        event(&format!("end_{session}"), "customer.subscription.deleted", subscription)
    };
    for (session, plan) in [("cs_2", "pro"), ("cs_3", "scale")] {
        tell(&server, &bought(&provider, session, json!({"metadata": {"plan": plan}}))).await.ok(200);
        assert_eq!(me().await["plan"], plan);
    }
    // the dear purchase ends, then the next one, in any order and twice
    for (session, plan) in [("cs_3", "pro"), ("cs_3", "pro"), ("cs_2", "free")] {
        let mut end = ended(session);
        end["id"] = json!(format!("evt_{session}_{plan}_{}", provider.account().take_events().len()));
        tell(&server, &end).await.ok(200);
        assert_eq!(me().await["plan"], plan, "{session}");
    }
    // the operator's word stays, whatever is bought and ends
    let account = server.running().store().purchase("cs_1").await.unwrap().unwrap().account_id.parse().unwrap();
    server.operator().await.set_plan(&account, control::caller::Plan::Starter).await.unwrap();
    tell(&server, &bought(&provider, "cs_4", json!({"metadata": {"plan": "pro"}}))).await.ok(200);
    tell(&server, &ended("cs_4")).await.ok(200);
    assert_eq!(me().await["plan"], "starter");
}

#[tokio::test]
async fn b7_what_the_operator_sells_beside_keys_makes_no_key() {
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| {
        provider.configure(config);
        config.payments.key_prices = vec!["plink_keys".to_owned(), "price_key".to_owned()];
    })
    .await;
    provider.follow(&server.clock);
    let mug = json!({"payment_link": "plink_mugs", "line_items": {"data": [{"price": {"id": "price_mug"}}]}});
    tell(&server, &bought(&provider, "cs_mug", mug)).await.ok(200);
    refused(&by_session(&server, "cs_mug").await, 404, "KEY_NOT_FOUND");
    let by_link = json!({"payment_link": "plink_keys", "metadata": {"plan": "pro"}});
    let by_price = json!({"line_items": {"data": [{"price": {"id": "price_mug"}}, {"price": {"id": "price_key"}}]}});
    for (session, more) in [("cs_link", by_link), ("cs_price", by_price)] {
        tell(&server, &bought(&provider, session, more)).await.ok(200);
        assert!(by_session(&server, session).await.ok(200)["key"].is_string());
    }
}

#[tokio::test]
async fn p9_what_a_bought_key_used_is_billed_to_its_buyer() {
    let (provider, server) = pair().await;
    provider.account().put(json!({"id": "cus_buyer", "object": "customer", "metadata": {}}));
    tell(&server, &bought(&provider, "cs_1", json!({}))).await.ok(200);
    let key = by_session(&server, "cs_1").await.ok(200)["key"].as_str().unwrap().to_owned();
    let session = open_session(&server, &key, Preset::Fast128).await;
    let secret = tests_service::keys::of(Preset::Fast128);
    let account = Account { server: &server, key, session, secret };
    for _ in 0..5 {
        account.post(BATCH, &account.batch("NAND", 1000)).await.ok(200);
    }
    let month = |server: &TestServer| server.clock.now().rfc3339()[..7].to_owned();
    let used_in = month(&server);
    while month(&server) == used_in {
        server.clock.advance(Duration::from_secs(3600));
    }
    server.clock.advance(Duration::from_secs(3600));
    let of_buyer = || {
        let all = provider.account().all("in_");
        all.into_iter().filter(|one| one["customer"] == "cus_buyer" && one["total"] != 0).collect::<Vec<_>>()
    };
    for _ in 0..3000 {
        if !of_buyer().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let invoices = of_buyer();
    assert_eq!((invoices.len(), &invoices[0]["total"]), (1, &json!(233)));
}
