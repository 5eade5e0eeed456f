//! Nodes die at every write of a sale and its return, as a shop's payment provider announces them, and two nodes of one
//! database get the same events at once: the sale has one document, the return has one, each is charged once and sent at
//! most once, and none is lost (readings B11, B14-B16).
//!
//! The events of a sale go to a node that dies at the first write, then those of another sale to a node that dies at the
//! second write, and so on until a node does the whole work: it answers the events, makes the documents in its jobs, and
//! sends the e-mails. So the suite needs no list of the writes. The provider repeats the events that were not answered.
#![cfg(all(unix, debug_assertions))]

use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use control::admin;
use control::caller::{Environment, Plan, Role};
use futures_util::future::join_all;
use serde_json::{Value, json};
use store::{DeliveryState, DocumentFilter, DocumentState, StoredDocument, UnissuedFilter};
use tests_service::http::Request;
use tests_service::mailbox::Mailbox;
use tests_service::node::{self, Node, serial, until};
use tests_store::Kind;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ango");
/// How much later the next node starts, in turns.
const DISTANCES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(600), Duration::from_secs(25 * 3600)];
/// Number of places that share the steps. The first lane has the steps 1, 5, 9 and so on.
const LANES: u32 = 4;
/// More writes than the work has.
const STEPS_MAX: u32 = 90;
/// A document waits no longer for a fuller object, and the leases of a dead node are over.
const WAIT: Duration = Duration::from_secs(130);
/// After this time the jobs are woken again.
const WAKE: Duration = Duration::from_secs(1);
/// Number of sales whose events go to two nodes at once.
const SALES: usize = 6;
/// Amount of the sale.
const PAID_YEN: i64 = 5_400;
/// Amount of the return.
const RETURNED_YEN: i64 = -1_080;
/// Price of the two documents, in thousandths of a yen.
const PRICE_MILLI_YEN: i64 = 20_000;

/// How the documents of a sale and its return come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// An invoice and a credit note make the documents as soon as they come.
    AtOnce,
    /// The jobs make the documents, because no fuller object comes.
    ByJobs,
}

/// A data folder, its database, and what surrounds its nodes.
struct Place {
    here: node::Place,
    mailbox: Mailbox,
}

/// A sale, and the account of the shop that made the sale. Each sale has another shop.
struct Sale {
    account: String,
    lineage: String,
    key: String,
    /// The path of the address for the shop's events.
    path: String,
    events: Vec<Value>,
    buyer: String,
    /// The month in which the sale was made.
    month: i64,
}

/// The events of a sale with a partial refund, in the order in which they come first.
fn events(way: Way, number: u32, buyer: &str) -> Vec<Value> {
    let id = |prefix: &str| format!("{prefix}_{number}");
    let (charge_id, intent_id, invoice_id, refund_id) = (id("ch"), id("pi"), id("in"), id("re"));
    let event = |kind: &str, object: &Value| {
        let event_id = format!("evt_{}_{number}", kind.replace('.', "_"));
        json!({"id": event_id, "object": "event", "type": kind, "created": 1_764_547_204, "data": {"object": object}})
    };
    let charge = json!({
        "id": charge_id, "object": "charge", "paid": true, "captured": true, "status": "succeeded", "currency": "jpy",
        "amount": PAID_YEN, "amount_captured": PAID_YEN, "amount_refunded": 0, "created": 1_764_547_203, "customer": id("cus"),
        "payment_intent": intent_id, "billing_details": {"name": "TARO KAWA", "email": buyer}
    });
    let mut refunded = charge.clone();
    refunded["amount_refunded"] = json!(-RETURNED_YEN);
    let refund = json!({
        "id": refund_id, "object": "refund", "status": "succeeded", "currency": "jpy", "amount": -RETURNED_YEN,
        "created": 1_764_900_000, "charge": charge_id, "payment_intent": intent_id
    });
    let mut intent = json!({
        "id": intent_id, "object": "payment_intent", "status": "succeeded", "currency": "jpy", "amount": PAID_YEN,
        "amount_received": PAID_YEN, "created": 1_764_547_202, "customer": id("cus"), "latest_charge": charge_id,
        "receipt_email": buyer
    });
    if way == Way::ByJobs {
        return vec![
            event("charge.succeeded", &charge),
            event("refund.created", &refund),
            event("payment_intent.succeeded", &intent),
            event("charge.refunded", &refunded),
        ];
    }
    intent["payment_details"] = json!({"order_reference": invoice_id});
    let session = json!({
        "id": id("cs"), "object": "checkout.session", "mode": "subscription", "status": "complete", "payment_status": "paid",
        "currency": "jpy", "amount_total": PAID_YEN, "created": 1_764_547_100, "customer": id("cus"), "invoice": invoice_id,
        "customer_details": {"name": "川 太郎", "email": buyer}
    });
    let invoice = json!({
        "id": invoice_id, "object": "invoice", "status": "paid", "currency": "jpy", "total": PAID_YEN, "amount_paid": PAID_YEN,
        "created": 1_764_547_200, "customer": id("cus"), "customer_name": "株式会社川", "customer_email": buyer,
        "status_transitions": {"paid_at": 1_764_547_204},
        "lines": {"object": "list", "has_more": false, "data": [{
            "object": "line_item", "description": "野菜の定期便", "amount": 5_000, "quantity": 5, "currency": "jpy",
            "taxes": [{"amount": 400, "tax_behavior": "exclusive", "taxable_amount": 5_000}]
        }]}
    });
    let note = json!({
        "id": id("cn"), "object": "credit_note", "status": "issued", "currency": "jpy", "total": -RETURNED_YEN,
        "invoice": invoice_id, "refund": refund_id, "created": 1_764_900_100, "effective_at": 1_764_900_100,
        "customer": id("cus")
    });
    vec![
        event("charge.succeeded", &charge),
        event("checkout.session.completed", &session),
        event("payment_intent.succeeded", &intent),
        event("invoice.paid", &invoice),
        event("charge.refunded", &refunded),
        event("credit_note.created", &note),
        event("refund.created", &refund),
    ]
}

/// Puts these in another order, of as many as there are for `turn`.
fn reordered<T: Clone>(all: &[T], turn: usize) -> Vec<T> {
    let mut all = all.to_vec();
    if !all.is_empty() {
        let by = turn % all.len();
        all.rotate_left(by);
    }
    if turn.is_multiple_of(2) {
        all.reverse();
    }
    all
}

impl Place {
    /// Makes a place. Returns `None` if this machine lacks the database.
    async fn new(kind: Kind) -> Option<Place> {
        let here = node::Place::new(kind, &["anonymous", "payg"]).await?;
        Some(Place { here, mailbox: Mailbox::start().await })
    }

    async fn start(&self) -> Node {
        self.start_with(self.here.serve(PROGRAM)).await
    }

    /// Starts another node of the same database on this folder.
    async fn start_another(&self, folder: &Path) -> Node {
        let secret = std::fs::read(self.here.path("pepper")).unwrap();
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut command = node::serve(Command::new(PROGRAM), folder, &self.here.config.database_url);
        command.env("ANGO_SECRET", secret).env("ANGO_CLOCK_AHEAD", self.here.path("ahead"));
        self.start_with(command).await
    }

    async fn start_with(&self, mut command: Command) -> Node {
        command.args(["--public-url", "http://node"]).env("ANGO_SMTP_URL", format!("smtp://{}", self.mailbox.address));
        // the other lanes go on meanwhile
        Node::start_aside(command).await
    }

    /// Makes a shop that sends its documents by e-mail, and the events of a sale.
    async fn sale(&self, node: &Node, way: Way) -> Sale {
        let (role, plan) = (Role::AccountAdmin, Some(Plan::Payg));
        let made = admin::create_key(&self.here.config, role, Environment::Live, None, plan).await.unwrap();
        let account = made.account_id.as_str().to_owned();
        let keys = self.here.store.api_keys().await.unwrap();
        let lineage = keys.into_iter().find(|key| key.account_id == account).expect("the key").lineage_id;
        let key = made.key.to_string();
        let profile = json!({
            "issuer": "株式会社あんご", "registration_number": "T7000012050002", "document_type": "receipt", "delivery_mode": "both"
        });
        let set = node.send(&Request::post("/v1/account/profile", &profile).key(&key)).await.unwrap().ok(200);
        let url = set["ingest_url"].as_str().unwrap();
        let path = url[url.find("/v1/").unwrap()..].to_owned();
        let number = serial();
        let buyer = format!("buyer-{number}@example.org");
        let events = events(way, number, &buyer);
        Sale { account, lineage, key, path, events, buyer, month: self.here.month() }
    }

    /// Delivers events, and returns the events that the node did not answer.
    async fn deliver(&self, node: &Node, sale: &Sale, events: &[Value]) -> Vec<Value> {
        let mut unanswered = Vec::new();
        for event in events {
            match node.send(&Request::post(&*sale.path, event)).await {
                Some(answer) => {
                    let told = answer.ok(200);
                    let is_known =
                        matches!(told["status"].as_str(), Some("created" | "accepted" | "duplicate" | "not_issued"));
                    assert!(is_known, "{told} {event}");
                }
                None => unanswered.push(event.clone()),
            }
        }
        unanswered
    }

    /// Wakes the jobs of the back office.
    async fn wake(&self, node: &Node, sale: &Sale) {
        let cap = Request::post("/v1/cap", &json!({"cap_yen": 0})).key(&sale.key);
        if let Some(answer) = node.send(&cap).await {
            answer.ok(200);
        }
    }

    async fn documents(&self, sale: &Sale) -> Vec<StoredDocument> {
        let all = DocumentFilter::default();
        self.here.store.stored_documents_page(&sale.lineage, &all, None, 100).await.unwrap().rows
    }

    /// Whether the sale and the return have documents, and no e-mail is to be sent.
    async fn is_done(&self, sale: &Sale) -> bool {
        let documents = self.documents(sale).await;
        documents.len() >= 2 && documents.iter().all(|one| one.delivery_status != DeliveryState::Pending)
    }

    /// Waits until the jobs have done their work for a sale.
    async fn finish(&self, node: &Node, sale: &Sale) {
        self.wake(node, sale).await;
        // a return may have to wait for the document of its sale, and is made by the next look of the jobs
        let woken = Cell::new(Instant::now());
        let is_done = async || {
            if woken.get().elapsed() > WAKE {
                woken.set(Instant::now());
                self.wake(node, sale).await;
            }
            self.is_done(sale).await
        };
        until("a document of the sale and one of the return", is_done).await;
    }

    /// Returns the e-mails with a document that the buyer got.
    async fn mails(&self, sale: &Sale, document: &StoredDocument) -> usize {
        let name = format!("{}-{}.pdf", document.kind, document.number);
        let mails = self.mailbox.wait_for(0).await;
        mails.iter().filter(|mail| mail.contains(&format!("To: {}\n", sale.buyer)) && mail.contains(&name)).count()
    }

    /// Checks that the sale and its return have one document each, and that each is charged once and sent at most once:
    /// exactly once if no node died.
    async fn check(&self, sale: &Sale, a_node_died: bool) {
        let documents = self.documents(sale).await;
        let mut totals: Vec<(&str, i64)> = documents.iter().map(|one| (one.kind.as_str(), one.total_yen)).collect();
        totals.sort_unstable();
        assert_eq!(totals, [("credit_note", RETURNED_YEN), ("receipt", PAID_YEN)], "{documents:?}");
        for state in [DocumentState::Waiting, DocumentState::Held, DocumentState::NotIssued] {
            let rows = self.here.store.unissued_documents_page(&sale.lineage, UnissuedFilter(state), None, 9).await;
            assert_eq!(rows.unwrap().rows, vec![], "{state:?}");
        }
        let (mut calls, mut milli_yen) = (0, 0);
        for month in sale.month..=self.here.month() {
            calls += self.here.store.office_calls(&sale.account, month).await.unwrap();
            milli_yen += self.here.store.office_spending(&sale.account, month).await.unwrap();
        }
        assert_eq!((calls, milli_yen), (2, PRICE_MILLI_YEN));
        let audit = self.here.store.audit_ledger(self.here.clock.now().0).await.unwrap();
        assert_eq!((audit.open, audit.findings), (0, vec![]));
        let mut sent = 0;
        for document in &documents {
            let mails = self.mails(sale, document).await;
            match document.delivery_status {
                DeliveryState::Sent => assert_eq!(mails, 1, "{document:?}"),
                // a node died while it handed the e-mail over
                DeliveryState::Failed => assert!(a_node_died && mails <= 1, "{mails} {document:?}"),
                _ => panic!("{document:?}"),
            }
            sent += usize::from(document.delivery_status == DeliveryState::Sent);
        }
        // a node dies once, so the other e-mail was sent
        assert!(sent >= 1, "{documents:?}");
    }

    /// Delivers all events again, in another order, and checks that nothing changes.
    async fn repeat(&self, node: &Node, sale: &Sale, turn: usize) {
        let before = self.documents(sale).await;
        for event in reordered(&sale.events, turn) {
            let told = node.send(&Request::post(&*sale.path, &event)).await.unwrap().ok(200);
            assert_eq!(told["status"], "duplicate", "{event}");
        }
        assert_eq!(self.documents(sale).await, before);
    }
}

/// Nodes die at the writes of a lane, before or after each of them.
async fn a_sale_and_its_return(place: Place, moments: &[&str], way: Way, lane: u32) {
    let mut distances = DISTANCES.into_iter().cycle();
    let mut node = place.start().await;
    let mut sales = Vec::new();
    for moment in moments {
        for step in (1 + lane..).step_by(LANES as usize) {
            let sale = place.sale(&node, way).await;
            place.here.kill_at(moment, step);
            let unanswered = place.deliver(&node, &sale, &sale.events).await;
            if unanswered.is_empty() {
                place.here.move_by(WAIT);
                place.wake(&node, &sale).await;
            }
            until("death or the end of the work", async || node.is_dead() || place.is_done(&sale).await).await;
            let died = node.is_dead();
            place.here.spare();
            drop(node);
            place.here.move_by(distances.next().unwrap());
            node = place.start().await;
            let turn = step as usize;
            assert_eq!(place.deliver(&node, &sale, &reordered(&unanswered, turn)).await, Vec::<Value>::new());
            place.here.move_by(WAIT);
            place.finish(&node, &sale).await;
            place.check(&sale, died).await;
            place.repeat(&node, &sale, turn + 1).await;
            sales.push((sale, died));
            if !died {
                assert!(step > LANES, "the work has no step: {moment}");
                break;
            }
            assert!(step < STEPS_MAX, "every node died: {moment}");
        }
    }
    // nothing was made or sent later
    for (sale, died) in &sales {
        place.check(sale, *died).await;
    }
}

/// A death before a write leaves the state of a death after the write before, and what the node did between both, such as
/// the hand-over of an e-mail. So most runs leave the deaths after a write out.
async fn deaths(kind: Kind, moments: &[&str]) {
    let mut lanes = Vec::new();
    for way in [Way::AtOnce, Way::ByJobs] {
        for lane in 0..LANES {
            let Some(place) = Place::new(kind).await else { return };
            lanes.push(a_sale_and_its_return(place, moments, way, lane));
        }
    }
    join_all(lanes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_a_sale_and_its_return_survive_deaths_at_every_write_sqlite() {
    deaths(Kind::Sqlite, tests_extent::pick(&["before"][..], &["before", "after"])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_a_sale_and_its_return_survive_deaths_at_every_write_postgres() {
    if !tests_extent::leaves_out("PostgreSQL") {
        deaths(Kind::Postgres, &["before"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_two_nodes_of_one_database_make_one_document_of_each_sale_and_return() {
    if tests_extent::leaves_out("PostgreSQL") {
        return;
    }
    let Some(place) = Place::new(Kind::Postgres).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let nodes = [place.start().await, place.start_another(folder.path()).await];
    let mut sales = Vec::new();
    for number in 0..SALES {
        let way = if number % 2 == 0 { Way::AtOnce } else { Way::ByJobs };
        sales.push(place.sale(&nodes[number % 2], way).await);
    }
    // each node gets all events of all sales twice, in other orders
    let deliveries = sales.iter().enumerate().flat_map(|(number, sale)| {
        let place = &place;
        nodes.iter().enumerate().flat_map(move |(at, node)| {
            [0, 3].map(|more| async move {
                let events = reordered(&sale.events, number + at + more);
                assert_eq!(place.deliver(node, sale, &events).await, Vec::<Value>::new());
            })
        })
    });
    join_all(deliveries).await;
    place.here.move_by(WAIT);
    // the jobs of both nodes look for work at once
    for sale in &sales {
        join_all(nodes.iter().map(|node| place.finish(node, sale))).await;
    }
    for (number, sale) in sales.iter().enumerate() {
        place.check(sale, false).await;
        join_all(nodes.iter().map(|node| place.repeat(node, sale, number))).await;
        place.check(sale, false).await;
    }
}
