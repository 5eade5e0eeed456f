//! Prices, caps and the spending of a key (readings B16-B20, B41).

use std::time::{Duration, Instant};

use control::caller::{Environment, Plan, Role};
use serde_json::{Value, json};
use tests_service::http::Request;

use crate::shop::*;

#[tokio::test]
async fn b17_b19_b20_a_cap_blocks_what_would_pass_it_and_is_told() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let set = shop.post(CAP, &json!({"cap_yen": 25})).await.ok(200);
    assert_eq!(set, json!({"cap_yen": 25, "charge_yen": 0, "remaining_yen": 25}));
    for _ in 0..2 {
        assert_eq!(shop.post(INVOICES, &invoice()).await.status, 200);
    }
    refused(&shop.post(INVOICES, &invoice()).await, 402, "BUDGET_HARD_CAP_HIT");
    // calls that the rest of the cap still covers run, and so do free calls
    shop.post(VERIFY, &json!({"numbers": vec!["T7000012050002"; 5]})).await.ok(200);
    refused(&shop.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await, 402, "BUDGET_HARD_CAP_HIT");
    shop.post("/v1/reconcile", &json!({"left": [], "right": [], "left_key": "a"})).await.ok(200);
    shop.set_profile(json!({})).await;
    assert_eq!(shop.stored("").await, Vec::<Value>::new());
    let me = shop.me().await;
    assert_eq!((&me["charge_yen"], &me["cap_yen"], &me["remaining_yen"]), (&json!(25), &json!(25), &json!(0)));
    assert_eq!(me["usage"]["document"], json!({"count": 2, "units": 2, "yen": 20}));
    let reached: Vec<i64> =
        me["alerts"].as_array().unwrap().iter().map(|one| one["threshold_pct"].as_i64().unwrap()).collect();
    assert_eq!(reached, [80, 100]);
    assert!(me["projected_charge_yen"].as_i64().unwrap() >= 25);
    assert!(me["period_start"].as_str() < me["period_end"].as_str());
    // a cap lower than what is already spent blocks at once; without a cap, calls run again
    let set = shop.post(CAP, &json!({"cap_yen": 10})).await.ok(200);
    assert_eq!(set["remaining_yen"], 0);
    refused(&shop.post(INVOICES, &invoice()).await, 402, "BUDGET_HARD_CAP_HIT");
    let set = shop.post(CAP, &json!({})).await.ok(200);
    assert_eq!(set, json!({"cap_yen": 0, "charge_yen": 25, "remaining_yen": null}));
    assert_eq!(shop.post(INVOICES, &invoice()).await.status, 200);
    assert_eq!(faults(&shop.post(CAP, &json!({"cap_yen": -1})).await)[0].1, "body.cap_yen");
    audited(&server).await;
}

#[tokio::test]
async fn b17_requests_at_once_do_not_pass_a_cap() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    shop.post(CAP, &json!({"cap_yen": 55})).await.ok(200);
    let all = (0..20).map(|_| {
        let (address, request) = (server.address, Request::post(INVOICES, &invoice()).key(&shop.key));
        tokio::spawn(async move { request.send(address).await.status })
    });
    let mut made = 0;
    for one in all.collect::<Vec<_>>() {
        match one.await.unwrap() {
            200 => made += 1,
            status => assert_eq!(status, 402),
        }
    }
    assert_eq!((made, shop.spent().await), (5, 50));
    audited(&server).await;
}

#[tokio::test]
async fn b16_b20_caps_change_while_calls_and_payments_come() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let all = (0..60).map(|at: i64| {
        let request = match at % 3 {
            0 => Request::post(CAP, &json!({"cap_yen": 10 + at})).key(&shop.key),
            1 => Request::post(INVOICES, &invoice()).key(&shop.key),
            _ => Request::post(&*path, &event(&at.to_string(), "charge.succeeded", charge(&at.to_string(), 1_000))),
        };
        let address = server.address;
        tokio::spawn(async move { (at, request.send(address).await) })
    });
    for one in all.collect::<Vec<_>>() {
        let (at, answer) = one.await.unwrap();
        assert!(answer.status == 200 || (at % 3 == 1 && answer.status == 402), "{at} {}", answer.text());
    }
    // once the cap is removed, the documents that the cap held back are made
    let set = shop.post(CAP, &json!({})).await.ok(200);
    assert_eq!(set["remaining_yen"], json!(null));
    let begun = Instant::now();
    while shop.stored("?limit=100").await.len() < 20 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    audited(&server).await;
}

#[tokio::test]
async fn b9_b20_a_cap_is_of_a_key_and_its_successors() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let sibling = Shop::of(&server, Plan::Payg, Environment::Live, Role::Developer, Some(shop.account.clone())).await;
    shop.post(CAP, &json!({"cap_yen": 10})).await.ok(200);
    assert_eq!(shop.post(INVOICES, &invoice()).await.status, 200);
    assert_eq!(sibling.post(INVOICES, &invoice()).await.status, 200);
    assert_eq!((shop.spent().await, sibling.spent().await), (10, 10));
    let rotated = server.send(Request::new("POST", "/api/v1/keys/apikey/rotate").key(&shop.key)).await.ok(200);
    let rotated = rotated["key"].as_str().unwrap().to_owned();
    let successor = Shop { server: &server, account: shop.account.clone(), key: rotated };
    assert_eq!(successor.spent().await, 10);
    refused(&successor.post(INVOICES, &invoice()).await, 402, "BUDGET_HARD_CAP_HIT");
}

#[tokio::test]
async fn b18_the_free_plan_has_thirty_calls_a_month_and_test_keys_cost_nothing() {
    let server = start_at_once().await;
    let shop = Shop::on(&server, Plan::Free).await;
    for _ in 0..30 {
        assert_eq!(shop.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await.status, 200);
    }
    refused(&shop.post(VERIFY, &json!({"numbers": []})).await, 402, "QUOTA_EXCEEDED");
    // all keys of an account share its included calls
    let sibling = Shop::of(&server, Plan::Free, Environment::Live, Role::Developer, Some(shop.account.clone())).await;
    refused(&sibling.post(INVOICES, &invoice()).await, 402, "QUOTA_EXCEEDED");
    let me = shop.me().await;
    assert_eq!((&me["charge_yen"], &me["limits"]["billable_calls_used"]), (&json!(0), &json!(30)));
    assert_eq!(me["limits"]["billable_calls_a_month"], 30);
    // in the next month, the account's included calls are available again
    server.clock.advance(Duration::from_secs(31 * 86_400));
    assert_eq!(shop.post(INVOICES, &invoice()).await.status, 200);
    let test = Shop::of(&server, Plan::Pro, Environment::Test, Role::Developer, None).await;
    test.post(CAP, &json!({"cap_yen": 1})).await.ok(200);
    assert_eq!(test.post(INVOICES, &invoice()).await.status, 200);
    assert_eq!(test.me().await["usage"]["document"], json!({"count": 1, "units": 1, "yen": 0}));
    audited(&server).await;
}

#[tokio::test]
async fn b17_the_account_s_own_cap_holds_too() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    // 0.1 USD are 15 yen at 150 yen a dollar, enough for one document of 10 yen
    let budget = json!({"monthly_cap_usd": 0.1, "hard_cap": true});
    shop.post("/api/v1/billing/budget", &budget).await.ok(200);
    assert_eq!(shop.post(INVOICES, &invoice()).await.status, 200);
    refused(&shop.post(INVOICES, &invoice()).await, 402, "BUDGET_HARD_CAP_HIT");
    let budget = shop.get("/api/v1/billing/budget").await.ok(200);
    assert!((budget["current_spend_usd"].as_f64().unwrap() - 10.0 / 150.0).abs() < 1e-6, "{budget}");
}
