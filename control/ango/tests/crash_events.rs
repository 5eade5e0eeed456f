//! Nodes crash between an effect and the events that report it: no event is lost, no event is made twice, and a
//! repeated delivery of an event has the same id and the same bytes (readings H12, H13, W3, W6).
#![cfg(all(unix, debug_assertions))]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::AccountId;
use control::admin;
use control::caller::{Environment, Plan, Role};
use control::config::{Config, WebhooksConfig};
use serde_json::{Value, json};
use store::Store;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::node::{Node, Place};
use tests_service::payments::{PaymentStandIn, WEBHOOK_SECRET};
use tests_service::receiver::Receiver;
use tests_store::Kind;

/// Number of nodes that the test starts. Each node dies at one of its writes, or is killed soon after its answers.
const DEATHS: [u64; 2] = [40, 200];

/// A generator of pseudo-random numbers (SplitMix64, Steele and others 2014). The same seed gives the same numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn start(place: &Place, provider: &PaymentStandIn) -> Node {
    let mut command = place.serve(env!("CARGO_BIN_EXE_ango"));
    command
        .env("ANGO_WEBHOOKS_ALLOW_NETWORKS", "127.0.0.0/8")
        .env("ANGO_WEBHOOKS_ALLOW_HTTP", "true")
        .envs(provider.variables());
    Node::start(command)
}

/// The payments that the database must hold at the end of the test.
#[derive(Default)]
struct Expected {
    /// Ids of the invoices whose payment event a node answered with 200.
    paid: BTreeSet<String>,
}

async fn events_survive(kind: Kind) {
    let Some(place) = Place::new(kind, &[]).await else { return };
    let (config, store) = (place.config.clone(), place.store.clone());
    let made =
        admin::create_key(&config, Role::AccountAdmin, Environment::Live, None, Some(Plan::Enterprise)).await.unwrap();
    let (key, account) = (made.key.to_string(), made.account_id);
    let (provider, receiver) = (PaymentStandIn::start().await, Receiver::start().await);
    let customer = customer_of(&provider, &store, &account).await;
    {
        let node = start(&place, &provider);
        let hook = json!({"url": receiver.url(), "events": []});
        Request::post("/api/v1/webhooks", &hook).key(&key).send(node.address).await.ok(201);
    }
    let mut expected = Expected::default();
    let [short, full] = DEATHS;
    let runs = tests_extent::pick(short, full);
    for seed in 0..runs {
        let mut numbers = Numbers(seed);
        let node = start(&place, &provider);
        let fresh =
            admin::create_key(&config, Role::Developer, Environment::Live, Some(account.clone()), None).await.unwrap();
        let (invoice, event) = paid_invoice(&provider, &customer);
        let moment = ["before", "after"][numbers.below(2) as usize];
        place.kill_at(moment, 1 + numbers.below(8) as u32);
        // two requests at the same time: one rotates a key, the other delivers the event of a payment
        let rotate = Request::new("POST", "/api/v1/keys/apikey/rotate").key(&fresh.key);
        let told = provider.delivery(&event, WEBHOOK_SECRET);
        let (_, told): (Option<Response>, Option<Response>) =
            futures_util::join!(rotate.try_send(node.address), told.try_send(node.address));
        if told.is_some_and(|answer| answer.status == 200) {
            expected.paid.insert(invoice);
        }
        // waits up to 60 ms before the node is killed, so that some of the nodes die during background work
        tokio::time::sleep(Duration::from_millis(numbers.below(60))).await;
        place.spare();
    }
    // the folder outlives the reads below, because the store may open another connection to the database file
    let _folder = settle(place.folder, &config, &provider, &store).await;

    let rotated: BTreeSet<String> = store
        .api_keys()
        .await
        .unwrap()
        .into_iter()
        .filter(|key| key.rotated_at.is_some())
        .map(|key| key.key_prefix)
        .collect();
    let mut bodies: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for received in receiver.received() {
        let id = received.header("x-service-delivery-id").to_owned();
        let body = bodies.entry(id).or_insert_with(|| received.body.clone());
        assert_eq!(*body, received.body, "one id, other bytes");
    }
    let events: Vec<Value> = bodies.values().map(|body| serde_json::from_slice(body).unwrap()).collect();
    let told = |kind: &str, member: &str| -> Vec<String> {
        let of_kind = events.iter().filter(|event| event["event_type"] == kind);
        let mut told: Vec<String> = of_kind.map(|event| event["data"][member].as_str().unwrap().to_owned()).collect();
        told.sort();
        told
    };
    // there is exactly one `key_rotated` event for each rotated key, and none for any other key
    assert_eq!(told("key_rotated", "old_key_prefix"), rotated.iter().cloned().collect::<Vec<_>>());
    // each recorded invoice has one event of each kind, and each accepted payment is recorded
    let recorded: BTreeSet<String> =
        store.invoices(account.as_str(), 1000).await.unwrap().into_iter().map(|invoice| invoice.invoice_id).collect();
    assert!(expected.paid.is_subset(&recorded));
    for kind in ["invoice_created", "invoice_paid"] {
        assert_eq!(told(kind, "invoice_id"), recorded.iter().cloned().collect::<Vec<_>>(), "{kind}");
    }
    // some nodes died before they rotated the key and some afterwards; otherwise the test would prove nothing
    assert!((1..runs as usize).contains(&rotated.len()), "{}", rotated.len());
    assert!(!expected.paid.is_empty());
}

/// Makes a customer at the provider for this account, and stores the customer's id with the account's subscription.
/// Returns the id.
async fn customer_of(provider: &PaymentStandIn, store: &Store, account: &AccountId) -> String {
    let customer = provider.account().new_customer_of(account.as_str());
    let mut subscription = store.subscription(account.as_str()).await.unwrap().unwrap();
    subscription.customer_id = customer.clone();
    assert!(store.write(async |tx| tx.put_subscription(&subscription).await).await.unwrap().is_some());
    customer
}

/// Makes an invoice that the customer has paid. Returns the invoice's id, and the event that reports the payment.
fn paid_invoice(provider: &PaymentStandIn, customer: &str) -> (String, Value) {
    let mut account = provider.account();
    let invoice = account.paid_invoice(customer);
    let event = account.take_events().pop().unwrap();
    (invoice, event)
}

/// Starts a last node, moves the node's clock past all leases, and waits until no event waits for its processing and no
/// delivery waits to be sent. Returns the folder.
async fn settle(
    folder: tempfile::TempDir,
    config: &Config,
    provider: &PaymentStandIn,
    store: &Store,
) -> tempfile::TempDir {
    let url = config.database_url.clone();
    let server = TestServer::in_folder(folder, |config| {
        config.database_url = url;
        config.webhooks = WebhooksConfig { webhook_networks: vec!["127.0.0.0/8".parse().unwrap()], webhook_http: true };
        provider.configure(config);
    })
    .await;
    let begun = std::time::Instant::now();
    loop {
        server.clock.advance(Duration::from_secs(61));
        let left = (store.pending_provider_events().await.unwrap(), store.pending_deliveries().await.unwrap());
        if left == (0, 0) {
            return server.stop().await;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "events and deliveries remain: {left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h12_w3_events_survive_deaths_on_sqlite() {
    events_survive(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h12_w3_events_survive_deaths_on_postgres() {
    if tests_extent::leaves_out("PostgreSQL") {
        return;
    }
    events_survive(Kind::Postgres).await;
}
