//! How long sign-ins, the deliveries of a neighbour and a cancellation take while everything that a node depends on is
//! silent at once: the mail server, the name server of 20 webhooks, the payment provider for some requests, 640
//! deliveries to receivers that hang, and 1,000 events about invoices of another business. A measurement for
//! `scripts/soak`, on Linux. The test needs root, because a mount namespace gives the node another `resolv.conf`.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use control::admin::{self, Operator};
use control::caller::{Environment, Plan, Role};
use serde_json::{Value, json};
use store::{NewEvent, Store, SubscriptionState};
use tests_service::http::{Request, Response};
use tests_service::node::{self, Node, serial};
use tests_service::payments::{Fault, PaymentStandIn};
use tests_service::receiver::Receiver;
use tests_service::users::PASSWORD;
use tests_store::Kind;
use tokio::net::{TcpListener, UdpSocket};

/// The address of the name server.
const NAME_SERVER: &str = "127.53.53.53";
/// Number of webhooks of an account, and of events for each of them.
const WEBHOOKS: usize = 20;
const EVENTS: usize = 32;
/// Number of invoices of the operator's other business, in yen, and of invoices at which the provider is silent.
const YEN_INVOICES: usize = 1000;
const SILENT_INVOICES: usize = 5;
/// Number of measurements.
const SIGN_INS: usize = 200;
const DELIVERIES: usize = 20;
const CANCELLATIONS: usize = 5;
/// Longest time that the test waits for something to become true.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(2);

/// A server that takes connections and never answers.
struct Hanging {
    address: SocketAddr,
    taken: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Hanging {
    async fn start() -> Hanging {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, taken) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = taken.clone();
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                kept.push(connection);
            }
        });
        Hanging { address, taken, task }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A name server that answers that there is no such name, until it falls silent.
struct NameServer {
    is_silent: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    async fn start() -> NameServer {
        let socket = UdpSocket::bind((NAME_SERVER, 53)).await.expect("root, and a free port 53");
        let (is_silent, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (silent, counted) = (is_silent.clone(), asked.clone());
        tokio::spawn(async move {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                if silent.load(Ordering::Relaxed) {
                    counted.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                // the question as it came, as an answer with the code "no such name"
                (packet[2], packet[3]) = (0x81, 0x83);
                packet[10..12].fill(0);
                let question = 12 + packet[12..length].iter().position(|byte| *byte == 0).unwrap_or(0) + 5;
                let _ = socket.send_to(&packet[..question.min(length)], from).await;
            }
        });
        NameServer { is_silent, asked }
    }
}

async fn until(what: &str, is_true: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

struct Place {
    here: node::Place,
    store: Store,
    provider: PaymentStandIn,
    mail: Hanging,
}

/// An account with a key.
struct Account {
    id: String,
    key: String,
}

impl Place {
    async fn new(kind: Kind) -> Option<Place> {
        let here = node::Place::new(kind, &["anonymous"]).await?;
        std::fs::write(here.path("resolv.conf"), format!("nameserver {NAME_SERVER}\n")).unwrap();
        let store = here.store.clone();
        let (provider, mail) = (PaymentStandIn::start().await, Hanging::start().await);
        Some(Place { here, store, provider, mail })
    }

    /// Starts a node. The test must run as root.
    fn start(&self) -> Node {
        let mut program = Command::new("unshare");
        program
            .args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""])
            .arg(self.here.path("resolv.conf"))
            .arg(env!("CARGO_BIN_EXE_ango"));
        let mut command = node::serve(program, self.here.folder.path(), &self.here.config.database_url);
        command
            .args(["--public-url", "http://node", "--trusted-proxies", "127.0.0.0/8"])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("ANGO_WEBHOOKS_ALLOW_NETWORKS", "127.0.0.0/8")
            .env("ANGO_WEBHOOKS_ALLOW_HTTP", "true")
            .env("ANGO_SMTP_URL", format!("smtp://{}", self.mail.address))
            .envs(self.provider.variables());
        Node::start(command)
    }

    async fn account(&self) -> Account {
        let plan = Some(Plan::Enterprise);
        let made =
            admin::create_key(&self.here.config, Role::AccountAdmin, Environment::Live, None, plan).await.unwrap();
        Account { id: made.account_id.as_str().to_owned(), key: made.key.to_string() }
    }

    /// Writes events of an account, as many as `count`.
    async fn emit(&self, account: &Account, count: usize) {
        let now = control::clock::Clock::system().now().0;
        let event = |_| NewEvent {
            event_id: format!("evt_{}_{}", serial(), account.id),
            account_id: account.id.clone(),
            event_type: "key_created".to_owned(),
            body: "{}".to_owned(),
            created_at: now,
        };
        let events: Vec<NewEvent> = (0..count).map(event).collect();
        self.store.write(async |tx| tx.emit(&events).await).await.unwrap();
    }

    /// Writes e-mails that are due at once.
    async fn write_emails(&self, count: usize) {
        let now = control::clock::Clock::system().now().0;
        for number in 0..count {
            let email = store::Email {
                email_id: format!("mail_{}_{number}", serial()),
                sealed: None,
                recipient: "ada@example.org".to_owned(),
                subject: "A notice".to_owned(),
                body: "A notice".to_owned(),
                document_id: String::new(),
                attempts: 0,
                created_at: now,
            };
            self.store.write(async |tx| tx.write_email(&email).await).await.unwrap();
        }
    }
}

async fn send(node: &Node, request: &Request) -> Response {
    let [_, high, middle, low] = serial().to_be_bytes();
    let from = format!("10.{high}.{middle}.{low}");
    request.clone().header("X-Forwarded-For", &from).send(node.address).await
}

async fn listen(node: &Node, account: &Account, url: &str) {
    send(node, &Request::post("/api/v1/webhooks", &json!({"url": url})).key(&account.key)).await.ok(201);
}

/// An event about an invoice of the operator's other business, or of a customer of this service.
fn invoice_event(provider: &PaymentStandIn, customer: &str, currency: &str) -> Value {
    let id = format!("in_other_{}", serial());
    let invoice = json!({
        "id": id, "object": "invoice", "customer": customer, "status": "paid", "currency": currency, "total": 500,
        "period_start": 1, "period_end": 2, "created": 3, "attempt_count": 1, "next_payment_attempt": null,
        "status_transitions": {"paid_at": 3}, "metadata": {}, "lines": {"data": []}, "parent": null,
    });
    provider.account().put(invoice.clone());
    json!({"id": format!("evt_of_{id}"), "object": "event", "type": "invoice.paid", "data": {"object": invoice}})
}

/// The times of a node: measured while it is idle, and again while all servers are silent.
struct Measured<'a> {
    place: &'a Place,
    node: &'a Node,
    neighbour: &'a Account,
    receiver: &'a Receiver,
    user: &'a str,
}

impl Measured<'_> {
    async fn sign_ins(&self) -> Vec<Duration> {
        let body = json!({"email": self.user, "password": PASSWORD});
        let mut took = Vec::new();
        for _ in 0..SIGN_INS {
            let begun = Instant::now();
            send(self.node, &Request::post("/auth/login", &body)).await.ok(200);
            took.push(begun.elapsed());
        }
        took
    }

    /// From a request of the neighbour that causes an event to the receipt of the event.
    async fn deliveries(&self) -> Vec<Duration> {
        let mut took = Vec::new();
        for _ in 0..DELIVERIES {
            let (role, account) = (Role::Developer, self.neighbour.id.parse().ok());
            let fresh =
                admin::create_key(&self.place.here.config, role, Environment::Live, account, None).await.unwrap();
            let rotate = Request::new("POST", "/api/v1/keys/apikey/rotate").key(&fresh.key);
            let (before, begun) = (self.receiver.received().len(), Instant::now());
            send(self.node, &rotate).await.ok(200);
            until("the neighbour's delivery", async || self.receiver.received().len() > before).await;
            took.push(begun.elapsed());
        }
        took
    }

    /// From the provider's event that a subscription has ended to the record of the end.
    async fn cancellations(&self, subscriptions: &[(String, String)]) -> Vec<Duration> {
        let mut took = Vec::new();
        for (account, subscription) in subscriptions {
            self.place.provider.account().set_status(subscription, "canceled");
            let events = self.place.provider.account().take_events();
            let begun = Instant::now();
            for event in events {
                self.place.provider.deliver(self.node.address, &event).await.ok(200);
            }
            let is_over = async || {
                let found = self.place.store.subscription(account).await.unwrap().unwrap();
                found.status == SubscriptionState::None
            };
            until("the end of the subscription", is_over).await;
            took.push(begun.elapsed());
        }
        took
    }
}

fn print(what: &str, when: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() * percent).div_ceil(100).clamp(1, took.len()) - 1].as_millis();
    println!("| {what} | {when} | {} | {} ms | {} ms | {} ms |", took.len(), at(50), at(99), at(100));
}

/// Makes subscriptions at the provider, one for each of several accounts. Returns the accounts and the subscriptions.
async fn subscriptions(place: &Place, node: &Node) -> Vec<(String, String)> {
    let mut made = Vec::new();
    for _ in 0..CANCELLATIONS {
        let account = place.account().await.id;
        {
            let mut provider = place.provider.account();
            let customer = provider.new_customer_of(&account);
            let session = provider.begin_checkout(&customer, &account, "ango_pro_monthly");
            provider.complete_checkout(&session);
            let subscription = provider.object(&session)["subscription"].as_str().unwrap().to_owned();
            made.push((account, subscription));
        }
        place.provider.deliver_all(node.address).await;
    }
    let all_begun = async || {
        for (account, _) in &made {
            if place.store.subscription(account).await.unwrap().unwrap().status == SubscriptionState::None {
                return false;
            }
        }
        place.store.pending_provider_events().await.unwrap() == 0
    };
    until("the subscriptions begin", all_begun).await;
    made
}

async fn silent_servers(kind: Kind, database: &str) {
    let Some(place) = Place::new(kind).await else { return };
    let names = NameServer::start().await;
    let (hooks, receiver) = (Hanging::start().await, Receiver::start().await);
    let node = place.start();
    let (hanging, named, neighbour) = (place.account().await, place.account().await, place.account().await);
    listen(&node, &neighbour, &receiver.url()).await;
    for number in 0..WEBHOOKS {
        listen(&node, &hanging, &format!("http://{}/{number}", hooks.address)).await;
        listen(&node, &named, &format!("http://receiver-{number}.example/hook")).await;
    }
    let user = "ada@example.org";
    let operator = Operator::open(&place.here.config).await.unwrap();
    operator.create_user(user, PASSWORD, Role::Developer, None).await.unwrap();
    let (before, meanwhile) = (subscriptions(&place, &node).await, subscriptions(&place, &node).await);
    let measured = Measured { place: &place, node: &node, neighbour: &neighbour, receiver: &receiver, user };
    println!("| {database}: from, to | when | count | median | p99 | worst |");
    let measure = async |when: &str, subscriptions: &[(String, String)]| {
        let (mut sign_ins, mut deliveries, mut ends) =
            tokio::join!(measured.sign_ins(), measured.deliveries(), measured.cancellations(subscriptions));
        print("a sign-in, answered", when, &mut sign_ins);
        print("a neighbour's event, received", when, &mut deliveries);
        print("the end of a subscription at the provider, on record", when, &mut ends);
    };
    measure("idle", &before).await;

    names.is_silent.store(true, Ordering::Relaxed);
    let own = place.provider.account().new_customer_of(&neighbour.id);
    for _ in 0..SILENT_INVOICES {
        let event = invoice_event(&place.provider, &own, "usd");
        let id = event["data"]["object"]["id"].as_str().unwrap();
        place.provider.fail(&format!("GET /v1/invoices/{id}"), &[Fault::Silent; 30]);
        place.provider.deliver(node.address, &event).await.ok(200);
    }
    place.write_emails(50).await;
    place.emit(&hanging, EVENTS).await;
    place.emit(&named, EVENTS).await;
    for _ in 0..YEN_INVOICES {
        let event = invoice_event(&place.provider, "cus_stranger", "jpy");
        place.provider.deliver(node.address, &event).await.ok(200);
    }
    until("deliveries hang", async || hooks.taken.load(Ordering::Relaxed) >= 24).await;
    measure("all silent", &meanwhile).await;
    println!(
        "| {database}, at the end: deliveries that wait, events of the provider that wait | all silent | {}, {} | | | |",
        place.store.pending_deliveries().await.unwrap(),
        place.store.pending_provider_events().await.unwrap()
    );
    println!(
        "| {database}: connections to hanging receivers, to the mail server, unanswered questions | | {}, {}, {} | | | |",
        hooks.taken.load(Ordering::Relaxed),
        place.mail.taken.load(Ordering::Relaxed),
        names.asked.load(Ordering::Relaxed)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, which needs root: scripts/soak"]
async fn silent_servers_sqlite() {
    silent_servers(Kind::Sqlite, "SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, which needs root: scripts/soak"]
async fn silent_servers_postgres() {
    silent_servers(Kind::Postgres, "PostgreSQL").await;
}
