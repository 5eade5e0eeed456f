//! The close of a month with many accounts, at the pace that the payment provider allows (readings P9, W8). Prints how
//! long the close takes, and how long other work with the provider takes meanwhile. `scripts/soak` runs the close with
//! 10,000 accounts.

use std::time::{Duration, Instant};

use control::access::limits::Period;
use control::caller::{Environment, Plan, Role};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use store::{InvoiceItem, NewApiKey};
use tests_extent::Extent;
use tests_service::TestServer;
use tests_service::payments::PaymentStandIn;

use crate::payments::{with_card, worked_through};
use crate::subscriptions::{Subscriber, after, move_to};

/// What the provider takes for an answer.
const LATENCY: Duration = Duration::from_millis(100);
/// The node's largest number of calls to the provider in a second.
const CALLS_PER_SECOND: u32 = 80;
/// Pause between two looks at other work.
const PAUSE: Duration = Duration::from_secs(1);
/// What each account owes, in US cents.
const CENTS: i64 = 233;

/// Makes accounts that owe a fee for the present month and are customers of the provider.
async fn make_accounts(server: &TestServer, provider: &PaymentStandIn, count: usize) {
    let (store, now) = (server.running().store(), server.clock.now());
    let month = Period::of(now).month;
    let make = async |number: usize| {
        let account_id = format!("acct_{number:026}");
        let customer_id = provider.account().new_customer_of(&account_id);
        let mut digest = [7; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        let key = NewApiKey {
            key_id: &format!("ak_{number:026}"),
            account_id: &account_id,
            lineage_id: &format!("lin_{number:026}"),
            digest: &digest,
            key_prefix: "ango_live_00000",
            role: Role::AccountAdmin,
            environment: Environment::Live,
            office: false,
            plan: Plan::Payg,
            created_at: now.0,
            expires_at: None,
        };
        store.insert_api_key(&key).await.unwrap();
        let mut subscription = store.subscription(&account_id).await.unwrap().unwrap();
        subscription.customer_id = customer_id;
        let item = InvoiceItem {
            item_id: format!("{account_id}:fee"),
            account_id,
            month,
            description: "A fee".to_owned(),
            amount_usd_cents: CENTS,
            invoice_id: String::new(),
            created_at: now.0,
        };
        let written = store.write(async |tx| {
            assert!(tx.put_subscription(&subscription).await?.is_some());
            tx.add_invoice_item(&item).await
        });
        written.await.unwrap();
    };
    stream::iter(0..count).for_each_concurrent(32, make).await;
}

/// How long other work with the provider takes.
#[derive(Default)]
struct Took {
    events: Vec<Duration>,
    cancellations: Vec<Duration>,
}

impl Took {
    /// Delivers an event and waits until it is processed; cancels a subscription and takes the cancellation back.
    async fn measure(&mut self, provider: &PaymentStandIn, subscriber: &Subscriber<'_>, invoice: &Value) {
        let event = json!({
            "id": format!("evt_of_{}_{}", invoice["id"].as_str().unwrap(), self.events.len()),
            "object": "event", "type": "invoice.paid", "data": {"object": invoice},
        });
        let begun = Instant::now();
        provider.deliver(subscriber.server.address, &event).await.ok(200);
        worked_through(subscriber.server).await;
        self.events.push(begun.elapsed());
        if self.events.last().is_some_and(|took| *took > Duration::from_secs(2)) {
            eprintln!("event {} took {:?}", self.events.len(), self.events.last());
        }
        let begun = Instant::now();
        assert_eq!(subscriber.cancel().await.ok(200)["status"], "cancelled");
        self.cancellations.push(begun.elapsed());
        assert_eq!(subscriber.subscribe("starter", "monthly").await.ok(200)["status"], "active");
    }

    fn print(&mut self, when: &str) {
        for (what, took) in
            [("an event is processed", &mut self.events), ("a cancellation is answered", &mut self.cancellations)]
        {
            took.sort_unstable();
            let at = |percent: usize| took[(took.len() - 1) * percent / 100].as_millis();
            println!("| {what}, {when} | {} | {} ms | {} ms | {} ms |", took.len(), at(50), at(95), at(100));
        }
    }
}

#[tokio::test]
async fn p9_w8_the_month_of_many_accounts_is_billed_once_at_the_provider_s_pace_and_other_work_goes_on() {
    let (accounts, looks) = if Extent::named() == Extent::Soak { (10_000, 20) } else { (60, 1) };
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| {
        provider.configure(config);
        config.payments.payments_calls_per_second = CALLS_PER_SECOND;
    })
    .await;
    provider.follow(&server.clock);
    let (subscriber, customer) = with_card(&provider, &server).await;
    subscriber.subscribe("starter", "monthly").await.ok(200);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    let subscription = provider.account().all("sub_0")[0]["id"].as_str().unwrap().to_owned();
    let end = subscriber.subscription().await["current_period_end"].as_str().unwrap().to_owned();
    make_accounts(&server, &provider, accounts).await;
    let month = Period::of(server.clock.now()).month;
    provider.answer_after(LATENCY);
    let invoice = provider.account().all("in_")[0].clone();
    let (mut before, mut meanwhile) = (Took::default(), Took::default());
    for _ in 0..looks {
        before.measure(&provider, &subscriber, &invoice).await;
    }

    let asked = provider.asked().len();
    move_to(&server, &after(&end, 11)).await;
    let begun = Instant::now();
    provider.account().renew(&subscription);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    let invoice = provider.account().all("in_").into_iter().rfind(|one| one["customer"] == json!(customer)).unwrap();
    let store = server.running().store();
    while store.job_done_through("months").await.unwrap() < month {
        meanwhile.measure(&provider, &subscriber, &invoice).await;
        tokio::time::sleep(PAUSE).await;
    }
    let took = begun.elapsed();
    let calls = provider.asked().len() - asked;

    println!(
        "| {accounts} accounts, {calls} calls | {:.0} s | {:.0} calls a second |",
        took.as_secs_f64(),
        calls as f64 / took.as_secs_f64()
    );
    before.print("before");
    meanwhile.print("while the month is closed");
    let made: Vec<Value> =
        provider.account().all("in_").into_iter().filter(|one| one["metadata"]["month"].is_string()).collect();
    assert_eq!(made.len(), accounts);
    assert!(made.iter().all(|one| one["total"] == json!(CENTS)));
    let mut billed: Vec<&str> = made.iter().map(|one| one["metadata"]["account_id"].as_str().unwrap()).collect();
    billed.sort_unstable();
    billed.dedup();
    assert_eq!(billed.len(), accounts);
}
