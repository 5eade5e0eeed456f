//! Deliveries of a node to a receiver on loopback: the rate, and whether any delivery is lost or sent too often when
//! the receiver refuses the first two attempts.
//!
//! `cargo bench --workspace --bench webhooks`

use std::collections::HashMap;
use std::time::{Duration, Instant};

use benches::only_once;
use control::caller::Role;
use control::clock::Clock;
use control::config::WebhooksConfig;
use serde_json::json;
use store::NewEvent;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::receiver::Receiver;

/// How long the bench waits: slightly longer than the node's delay after the first failed attempt (30 s), and after the
/// second one (5 min).
const WAITS: [Duration; 2] = [Duration::from_secs(34), Duration::from_secs(331)];

fn main() {
    let count = if only_once() { 50 } else { 10_000 };
    tests_service::canary::log_as_a_node();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let server = TestServer::with(|config| {
            let networks = vec!["127.0.0.0/8".parse().expect("a network")];
            config.webhooks = WebhooksConfig { webhook_networks: networks, webhook_http: true };
        })
        .await;
        let (key, account) = server.create_key(Role::Developer, None).await;
        let receiver = Receiver::start().await;
        let create = Request::post("/api/v1/webhooks", &json!({"url": receiver.url()})).key(&key);
        server.send(create).await.ok(201);

        println!("| what | deliveries | a second |");
        println!("|---|---|---|");
        let took = deliver(&server, &receiver, account.as_str(), "all_taken", count, count).await;
        println!("| taken at once | {count} | {:.0} |", count as f64 / took.as_secs_f64());

        // the receiver answers 503 to the first attempt, and to the second attempt 30 seconds later
        receiver.answer(&vec![503; 2 * count]);
        let before = receiver.received().len();
        deliver(&server, &receiver, account.as_str(), "outage", count, before + count).await;
        let mut took = Duration::ZERO;
        for (attempt, wait) in WAITS.into_iter().enumerate() {
            // wait until the attempts are recorded, because the delay before the next attempt begins then
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.clock.advance(wait);
            let begun = Instant::now();
            receiver.wait_for(before + (attempt + 2) * count).await;
            took = begun.elapsed();
        }
        settled(&server).await;
        let mut attempts: HashMap<String, usize> = HashMap::new();
        for received in &receiver.received()[before..] {
            *attempts.entry(received.header("x-service-delivery-id").to_owned()).or_default() += 1;
        }
        assert_eq!(attempts.len(), count, "each event came");
        assert!(attempts.values().all(|&count| count == 3), "none came more often than it was tried");
        println!("| queued, after an outage | {count} | {:.0} |", count as f64 / took.as_secs_f64());
        server.stop().await;
    });
}

/// Writes events and waits until the receiver has received `received` deliveries in total.
async fn deliver(
    server: &TestServer,
    receiver: &Receiver,
    account: &str,
    name: &str,
    count: usize,
    received: usize,
) -> Duration {
    let now = Clock::system().now().0;
    let event = |number: usize| NewEvent {
        event_id: format!("evt_{name}_{number}"),
        account_id: account.to_owned(),
        event_type: "key_created".to_owned(),
        body: json!({"number": number, "text": "x".repeat(300)}).to_string(),
        created_at: now,
    };
    let events: Vec<NewEvent> = (0..count).map(event).collect();
    let store = server.running().store();
    store.write(async |tx| tx.emit(&events).await).await.expect("a database");
    let begun = Instant::now();
    receiver.wait_for(received).await;
    begun.elapsed()
}

/// Waits until all attempts are recorded.
async fn settled(server: &TestServer) {
    while server.running().store().pending_deliveries().await.expect("a database") > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
