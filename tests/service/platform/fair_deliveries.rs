//! Receivers of one account delay its own deliveries only (readings H12).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use control::caller::Plan;
use control::config::WebhooksConfig;
use serde_json::json;
use store::NewEvent;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::receiver::Receiver;
use tokio::net::TcpListener;

use crate::subscriptions::Subscriber;

/// A receiver that takes connections and never answers.
struct Hanging {
    url: String,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Hanging {
    async fn start() -> Hanging {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                kept.push(connection);
            }
        });
        Hanging { url, connections, task }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn server() -> TestServer {
    TestServer::with(|config| {
        config.webhooks = WebhooksConfig { webhook_networks: vec!["127.0.0.0/8".parse().unwrap()], webhook_http: true };
    })
    .await
}

async fn listen(subscriber: &Subscriber<'_>, url: &str) {
    subscriber.send(Request::post("/api/v1/webhooks", &json!({"url": url}))).await.ok(201);
}

fn events_of(subscriber: &Subscriber<'_>, count: usize) -> Vec<NewEvent> {
    let account = subscriber.account.as_str();
    let event = |number| NewEvent {
        event_id: format!("evt_{number}_{account}"),
        account_id: account.to_owned(),
        event_type: "key_created".to_owned(),
        body: "{}".to_owned(),
        created_at: subscriber.server.clock.now().0,
    };
    (0..count).map(event).collect()
}

#[tokio::test]
async fn h12_twenty_receivers_that_hang_take_a_share_of_the_places() {
    let server = server().await;
    let (hanging, receiver) = (Hanging::start().await, Receiver::start().await);
    let slow = Subscriber::new(&server, Plan::Enterprise).await;
    for number in 0..20 {
        listen(&slow, &format!("{}/{number}", hanging.url)).await;
    }
    let neighbour = Subscriber::new(&server, Plan::Free).await;
    listen(&neighbour, &receiver.url()).await;
    let store = server.running().store();
    store.write(async |tx| tx.emit(&events_of(&slow, 40)).await).await.unwrap();
    slow.until(async || hanging.connections.load(Ordering::Relaxed), |connections| *connections >= 32).await;
    store.write(async |tx| tx.emit(&events_of(&neighbour, 1)).await).await.unwrap();
    receiver.wait_for(1).await;
    // the first round takes 32 places; failing receivers then share 24
    let connections = hanging.connections.load(Ordering::Relaxed);
    assert!(connections <= 32 + 24, "{connections} attempts at receivers that hang");
}

#[tokio::test]
async fn h14_test_calls_take_places_too() {
    let server = server().await;
    let hanging = Hanging::start().await;
    let subscriber = Subscriber::new(&server, Plan::Enterprise).await;
    listen(&subscriber, &hanging.url).await;
    let test = async || {
        let event = json!({"event_type": "key_created"});
        subscriber.send(Request::post("/api/v1/webhooks/test", &event)).await
    };
    let answers = tokio::join!(test(), test(), test(), test());
    let mut statuses = [answers.0.status, answers.1.status, answers.2.status, answers.3.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 429, 429]);
    // the places come back
    test().await.ok(200);
}
