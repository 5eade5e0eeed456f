//! Requests to the payment provider that fail, and the attempts after them (readings W8). The provider repeats a failure
//! for a day to requests with the same idempotency key.

use std::time::Duration;

use control::caller::{Plan, Role};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::payments::{Fault, PaymentStandIn};

use crate::payments::{pair, with_card, worked_through};
use crate::subscriptions::{CHECKOUT, Subscriber};

/// Returns the provider's objects of a customer whose id begins with this prefix.
fn of_customer(provider: &PaymentStandIn, prefix: &str, customer: &str) -> Vec<Value> {
    let all = provider.account().all(prefix);
    all.into_iter().filter(|one| one["customer"] == json!(customer)).collect()
}

/// Returns the invoices of a customer: their amounts, oldest first.
fn amounts(provider: &PaymentStandIn, customer: &str) -> Vec<i64> {
    of_customer(provider, "in_", customer).iter().map(|one| one["total"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn w8_a_stored_failure_of_the_provider_costs_one_request_and_no_money() {
    let (provider, server) = pair().await;
    let (subscriber, customer) = with_card(&provider, &server).await;
    let fail = |path: &str| provider.fail(path, &[Fault::Stored]);
    let change = async |plan: &str, cycle: &str| {
        subscriber.subscribe(plan, cycle).await.error(502, "PROVIDER_UNAVAILABLE");
        subscriber.subscribe(plan, cycle).await.ok(200)
    };
    // the first request of each change that changes something is the one that fails
    fail("POST /v1/subscriptions");
    assert_eq!(change("starter", "monthly").await["plan"], "starter");
    let subscription = of_customer(&provider, "sub_0", &customer)[0]["id"].as_str().unwrap().to_owned();
    fail("POST /v1/subscriptions");
    assert_eq!(change("pro", "monthly").await["plan"], "pro");
    for path in ["POST /v1/subscription_schedules", "POST /v1/subscription_schedules/"] {
        fail(path);
        assert_eq!(change("starter", "monthly").await["scheduled_plan"], "starter");
        fail("/release");
        assert_eq!(change("pro", "monthly").await.get("scheduled_plan"), None);
    }
    fail("POST /v1/subscriptions");
    subscriber.cancel().await.error(502, "PROVIDER_UNAVAILABLE");
    assert_eq!(provider.account().object(&subscription)["cancel_at_period_end"], false);
    assert_eq!(subscriber.cancel().await.ok(200)["status"], "cancelled");
    assert_eq!(provider.account().object(&subscription)["cancel_at_period_end"], true);
    fail("POST /v1/subscriptions");
    assert_eq!(change("pro", "monthly").await["status"], "active");
    assert_eq!(provider.account().object(&subscription)["cancel_at_period_end"], false);
    assert_eq!(of_customer(&provider, "sub_0", &customer).len(), 1);
    // one invoice for the subscription and one for the higher plan
    assert_eq!(amounts(&provider, &customer).len(), 2);
}

#[tokio::test]
async fn w8_a_stored_failure_at_the_first_steps_is_over_with_the_next_request() {
    let (provider, server) = pair().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    provider.fail("POST /v1/customers", &[Fault::Stored]);
    subscriber.subscribe("pro", "monthly").await.error(502, "PROVIDER_UNAVAILABLE");
    provider.fail("POST /v1/checkout/sessions", &[Fault::Stored]);
    subscriber.subscribe("pro", "monthly").await.error(502, "PROVIDER_UNAVAILABLE");
    assert!(subscriber.subscribe("pro", "monthly").await.ok(200)["checkout_url"].is_string());
    assert_eq!(provider.account().all("cus_").len(), 1);
}

#[tokio::test]
async fn w8_a_lost_answer_leaves_one_customer() {
    let (provider, server) = pair().await;
    for lags in [true, false] {
        let subscriber = Subscriber::new(&server, Plan::Free).await;
        provider.account().search_lags = lags;
        provider.fail("POST /v1/customers", &[Fault::Cut; 3]);
        subscriber.subscribe("pro", "monthly").await.error(502, "PROVIDER_UNAVAILABLE");
        if !lags {
            // a day later the provider has forgotten the key, and its search knows the customer
            server.clock.advance(Duration::from_secs(25 * 3600));
        }
        subscriber.subscribe("pro", "monthly").await.ok(200);
        let account = json!(subscriber.account.as_str());
        let customers = provider.account().all("cus_");
        assert_eq!(customers.iter().filter(|one| one["metadata"]["account_id"] == account).count(), 1, "{lags}");
    }
}

/// Lets the answer to the request for a subscription be lost, then subscribes again. Returns the provider, the node and
/// the customer.
async fn subscribe_after_a_lost_answer(
    faults: &[Fault],
    between: impl AsyncFnOnce(TestServer, &PaymentStandIn) -> TestServer,
) {
    let provider = PaymentStandIn::start().await;
    let server = TestServer::in_folder(tempfile::tempdir().unwrap(), |config| provider.configure(config)).await;
    provider.follow(&server.clock);
    let (account, key, customer) = {
        let (subscriber, customer) = with_card(&provider, &server).await;
        provider.fail("POST /v1/subscriptions", faults);
        subscriber.subscribe("pro", "monthly").await.error(502, "PROVIDER_UNAVAILABLE");
        (subscriber.account.clone(), subscriber.key.clone(), customer)
    };
    let server = between(server, &provider).await;
    let subscriber = Subscriber { server: &server, account, key };
    let told = subscriber.subscribe("pro", "monthly").await.ok(200);
    assert_eq!((&told["plan"], &told["status"]), (&json!("pro"), &json!("active")));
    assert_eq!(of_customer(&provider, "sub_0", &customer).len(), 1, "{faults:?}");
    assert_eq!(amounts(&provider, &customer).len(), 1, "{faults:?}");
    // the customer takes another plan: one subscription still
    assert_eq!(subscriber.subscribe("scale", "monthly").await.ok(200)["plan"], "scale");
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    assert_eq!(of_customer(&provider, "sub_0", &customer).len(), 1, "{faults:?}");
    assert_eq!(amounts(&provider, &customer).len(), 2, "{faults:?}");
}

#[tokio::test]
async fn w8_a_subscription_whose_answer_was_lost_is_taken_over() {
    for faults in [[Fault::Cut; 3], [Fault::ErrorAfter; 3], [Fault::Garbage; 3]] {
        subscribe_after_a_lost_answer(&faults, async |server, _| server).await;
        // a day later the provider has forgotten the keys
        let a_day_later = async |server: TestServer, _: &PaymentStandIn| {
            server.clock.advance(Duration::from_secs(25 * 3600));
            server
        };
        subscribe_after_a_lost_answer(&faults, a_day_later).await;
    }
}

#[tokio::test]
async fn w8_a_node_that_dies_between_the_provider_and_its_record_takes_the_subscription_over() {
    // the answer never reaches the record, and another node goes on with the same database
    let fresh_node = async |server: TestServer, provider: &PaymentStandIn| {
        let config = server.running().config().clone();
        let folder = server.stop().await;
        let server = TestServer::in_folder(folder, |changed| {
            changed.database_url = config.database_url.clone();
            provider.configure(changed);
        })
        .await;
        provider.follow(&server.clock);
        server
    };
    subscribe_after_a_lost_answer(&[Fault::Cut; 3], fresh_node).await;
}

#[tokio::test]
async fn p18_a_subscription_whose_first_payment_is_under_way_gets_no_second_beside_it() {
    let (provider, server) = pair().await;
    let (subscriber, customer) = with_card(&provider, &server).await;
    let session = provider.account().begin_checkout(&customer, subscriber.account.as_str(), "ango_pro_monthly");
    provider.account().complete_checkout(&session);
    let subscription = provider.account().object(&session)["subscription"].as_str().unwrap().to_owned();
    provider.account().set_status(&subscription, "incomplete");
    provider.account().take_events();
    let told = subscriber.subscribe("pro", "monthly").await.ok(200);
    assert_eq!((&told["plan"], &told["status"]), (&json!("free"), &json!("active")));
    // the customer is led to the page of the invoice that is to be paid
    assert!(told["checkout_url"].as_str().unwrap().starts_with("https://invoices.example/in_"), "{told}");
    assert_eq!(of_customer(&provider, "sub_0", &customer).len(), 1);
    // a subscription that never began makes room for another
    provider.account().set_status(&subscription, "canceled");
    assert_eq!(subscriber.subscribe("starter", "monthly").await.ok(200)["plan"], "starter");
}

#[tokio::test]
async fn p13_a_checkout_is_not_begun_beside_a_subscription_that_is_not_on_record() {
    let (provider, server) = pair().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    server.operator().await.set_plan(&user.account, Plan::Free).await.unwrap();
    let user = server.log_in("ada@example.org").await;
    let start = async || server.send(Request::post(CHECKOUT, &json!({"plan": "pro"})).key(&user.token)).await;
    let session = start().await.ok(200)["session_id"].as_str().unwrap().to_owned();
    provider.account().complete_checkout(&session);
    // the provider's events are late
    start().await.error(409, "CONFLICT");
    let found = server.running().store().subscription(user.account.as_str()).await.unwrap().unwrap();
    assert_eq!(found.plan, Plan::Pro);
}
