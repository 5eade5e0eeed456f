//! Nodes die at every step of a month's close, of a purchase and of a change of the plan: at each write, and at each
//! request to the payment provider. The next node starts a second, a day and an hour, or 40 days later. No money is
//! charged twice, and none is lost (readings P10, P11, P18, P19, W2-W4, W6, W8).
//!
//! Each piece of work goes to a node that dies at the first step, then to a node that dies at the second step, and so
//! on until a node does the whole work. So the suite needs no list of the steps. Several places share the steps, because
//! a node looks for work once a second, and the test mostly waits.
#![cfg(all(unix, debug_assertions))]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use control::access::limits::month_start;
use control::admin::{self, Operator};
use control::caller::{Environment, Plan, Role};
use control::clock::Timestamp;
use futures_util::future::join_all;
use serde_json::{Value, json};
use store::{Invoice, InvoiceItem, InvoiceState, Store};
use tests_extent::Extent;
use tests_service::http::Request;
use tests_service::mailbox::Mailbox;
use tests_service::node::{self, Node, serial, until};
use tests_service::payments::{Moment, PaymentStandIn, WEBHOOK_SECRET};
use tests_service::receiver::Receiver;
use tests_store::Kind;

/// How much later the next node starts, in turns.
const DISTANCES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(25 * 3600), Duration::from_secs(40 * 24 * 3600)];
/// Number of places that share the steps of a scenario. The first lane has the steps 1, 5, 9 and so on.
const LANES: u32 = 4;
/// More steps than any work has.
const STEPS_MAX: u32 = 60;
/// Longest time that the test waits for something to become true.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time of the close of a month after the month's end.
const AFTER_MONTH: Duration = Duration::from_secs(11 * 60);
/// The leases of jobs and deliveries are over after this time.
const LEASES: Duration = Duration::from_secs(121);
/// The numbers that a verification names, and their price in US cents: 1 yen each, at 150 yen for a dollar.
const NUMBERS: usize = 30;
const USE_CENTS: i64 = 20;
/// A fee that is still to be billed, in US cents.
const FEE_CENTS: i64 = 233;

/// Where a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// Before the n-th write.
    BeforeWrite,
    /// After the n-th write is durable, and before its caller gets the answer.
    AfterWrite,
    /// When the n-th request has arrived at the provider, which has done nothing.
    BeforeRequest,
    /// When the provider has carried the n-th request out, and has not answered.
    AfterRequest,
}

const AT_WRITES: [Death; 2] = [Death::AfterWrite, Death::BeforeWrite];
const AT_ALL: [Death; 4] = [Death::AfterRequest, Death::AfterWrite, Death::BeforeWrite, Death::BeforeRequest];

/// A data folder, its database, and what surrounds its nodes.
struct Place {
    here: node::Place,
    store: Store,
    /// `None`: the nodes make the invoices themselves, and send e-mails.
    provider: Option<PaymentStandIn>,
    mailbox: Mailbox,
    receiver: Receiver,
    /// From 0.
    lane: u32,
}

/// An account with a key.
struct Customer {
    account: String,
    key: String,
    /// The id of the provider's customer. Empty without a provider.
    customer: String,
}

impl Place {
    /// Makes a place. Returns `None` if this machine lacks the database.
    async fn new(kind: Kind, lane: u32, has_provider: bool) -> Option<Place> {
        let here = node::Place::new(kind, &["anonymous", "free", "payg", "starter", "pro"]).await?;
        let store = here.store.clone();
        let provider = if has_provider { Some(PaymentStandIn::start().await) } else { None };
        if let Some(provider) = &provider {
            provider.follow(&here.clock);
        }
        let (mailbox, receiver) = (Mailbox::start().await, Receiver::start().await);
        Some(Place { here, store, provider, mailbox, receiver, lane })
    }

    fn provider(&self) -> &PaymentStandIn {
        self.provider.as_ref().expect("the place has a provider")
    }

    async fn start(&self) -> Node {
        let mut command = self.here.serve(env!("CARGO_BIN_EXE_ango"));
        // a fixed public URL: each start uses another port, but the addresses of invoices must stay the same
        command
            .args(["--public-url", "http://node"])
            .env("ANGO_WEBHOOKS_ALLOW_NETWORKS", "127.0.0.0/8")
            .env("ANGO_WEBHOOKS_ALLOW_HTTP", "true");
        match &self.provider {
            Some(provider) => command.envs(provider.variables()).env("ANGO_PAYMENTS_CALLS_PER_SECOND", "1000"),
            None => command.env("ANGO_SMTP_URL", format!("smtp://{}", self.mailbox.address)),
        };
        // the other lanes go on meanwhile
        Node::start_aside(command).await
    }

    /// Moves the clock to the close of a month, if that is in the future.
    fn move_past(&self, month: i64) {
        let close = month_start(month + 1).plus(AFTER_MONTH);
        // whole seconds, rounded up
        self.here.move_by(Duration::from_secs(close.since(self.here.clock.now()).as_secs() + 1));
    }

    /// Lets the node die at this step, from now on.
    fn arm(&self, node: &Node, death: Death, step: u32) {
        let at_request = |moment| self.provider().ambush(moment, step, node.killer());
        match death {
            Death::BeforeWrite => self.here.kill_at("before", step),
            Death::AfterWrite => self.here.kill_at("after", step),
            Death::BeforeRequest => at_request(Moment::Arrived),
            Death::AfterRequest => at_request(Moment::Done),
        }
    }

    fn disarm(&self) {
        self.here.spare();
        if let Some(provider) = &self.provider {
            provider.lift_ambush();
        }
    }

    /// The deaths of this run. A short run leaves the deaths before a step out, because a death after the step before leaves
    /// the same state to the next node.
    fn chosen(&self, deaths: &[Death]) -> Vec<Death> {
        let all = Extent::named().is_full() && self.here.has_deaths_before_steps();
        let is_chosen = |death: &Death| all || matches!(death, Death::AfterWrite | Death::AfterRequest);
        deaths.iter().copied().filter(is_chosen).collect()
    }

    /// Does work on nodes that each die one step later than the node before, until a node does not die. `begin` makes
    /// ready what the work is about. `work` begins the work, and answers false if the node died meanwhile. `is_done`
    /// tells whether a node that lives has done the work. `finish` checks what the next node makes of the work.
    async fn at_every_step<T>(
        &self,
        deaths: &[Death],
        begin: impl AsyncFn(&Node) -> T,
        work: impl AsyncFn(&Node, &T) -> bool,
        is_done: impl AsyncFn(&T) -> bool,
        finish: impl AsyncFn(&Node, &T),
    ) {
        let mut node = self.start().await;
        let mut distances = DISTANCES.into_iter().cycle();
        for death in self.chosen(deaths) {
            for step in (1 + self.lane..).step_by(LANES as usize) {
                let about = begin(&node).await;
                self.arm(&node, death, step);
                let lives = work(&node, &about).await;
                until("death or the end of the work", async || node.is_dead() || (lives && is_done(&about).await))
                    .await;
                let died = node.is_dead();
                self.disarm();
                drop(node);
                let distance = distances.next().unwrap();
                self.here.move_by(distance);
                node = self.start().await;
                finish(&node, &about).await;
                let audit = self.store.audit_ledger(self.here.clock.now().0).await.unwrap();
                assert_eq!((audit.open, audit.findings), (0, vec![]), "{death:?} {step}, {distance:?}");
                if !died {
                    assert!(step > 1, "the work has no step: {death:?}");
                    break;
                }
                assert!(step < STEPS_MAX, "every node died: {death:?}");
            }
        }
    }

    /// Makes an account on this plan, with a card at the provider, if there is one.
    async fn customer(&self, plan: Plan) -> Customer {
        let made = admin::create_key(&self.here.config, Role::AccountAdmin, Environment::Live, None, Some(plan)).await;
        let made = made.unwrap();
        let account = made.account_id.as_str().to_owned();
        let mut subscription = self.store.subscription(&account).await.unwrap().unwrap();
        subscription.email = "ada@example.org".to_owned();
        if let Some(provider) = &self.provider {
            let mut provider = provider.account();
            subscription.customer_id = provider.new_customer_of(&account);
            provider.attach_card(&subscription.customer_id);
        }
        let customer = subscription.customer_id.clone();
        assert!(self.store.write(async |tx| tx.put_subscription(&subscription).await).await.unwrap().is_some());
        Customer { account, key: made.key.to_string(), customer }
    }

    /// Adds a fee of the present month, as a subscription makes it that began without a provider.
    async fn add_fee(&self, account: &str) {
        let item = InvoiceItem {
            item_id: format!("{account}:fee:{}", serial()),
            account_id: account.to_owned(),
            month: self.here.month(),
            description: "A fee".to_owned(),
            amount_usd_cents: FEE_CENTS,
            invoice_id: String::new(),
            created_at: self.here.clock.now().0,
        };
        self.store.write(async |tx| tx.add_invoice_item(&item).await).await.unwrap();
    }

    /// Uses the back office, which costs `USE_CENTS`.
    async fn use_office(&self, node: &Node, key: &str) {
        let body = json!({"numbers": vec!["T7000012050002"; NUMBERS]});
        let request = Request::post("/v1/registration/verify", &body).key(key);
        // an account that has just paid may be refused for a moment
        until("a verification", async || node.send(&request).await.unwrap().status == 200).await;
    }

    /// Waits until all months that are over are billed.
    async fn until_billed(&self) {
        let last = self.here.month() - 1;
        until("the months are billed", async || self.store.job_done_through("months").await.unwrap() >= last).await;
    }

    /// Delivers the provider's events twice, the second time in the reverse order, and waits until they are processed.
    async fn deliver_events(&self, node: &Node) {
        let events = self.provider().account().take_events();
        for event in events.iter().chain(events.iter().rev()) {
            self.provider().deliver(node.address, event).await.ok(200);
        }
        until("the events are processed", async || self.store.pending_provider_events().await.unwrap() == 0).await;
    }

    /// Waits until no delivery of a webhook is due. Deliveries that a node took before it died wait for its lease.
    async fn deliver_webhooks(&self) {
        let begun = Instant::now();
        while self.store.pending_deliveries().await.unwrap() > 0 {
            assert!(begun.elapsed() < PATIENCE, "deliveries remain");
            tokio::time::sleep(Duration::from_millis(50)).await;
            if begun.elapsed() > Duration::from_secs(2) {
                self.here.move_by(LEASES);
            }
        }
    }

    async fn listen(&self, node: &Node, key: &str) {
        let hook = json!({"url": self.receiver.url(), "events": []});
        Request::post("/api/v1/webhooks", &hook).key(key).send(node.address).await.ok(201);
    }

    /// Returns how often webhooks were told of each invoice, by type of event. Repetitions of a delivery count once.
    fn told(&self) -> BTreeMap<(String, String), usize> {
        let mut seen = BTreeSet::new();
        let mut told = BTreeMap::new();
        for received in self.receiver.received() {
            let event = received.json();
            if seen.insert(received.header("x-service-delivery-id").to_owned()) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let of = (text(&event["event_type"]), text(&event["data"]["invoice_id"]));
                *told.entry(of).or_default() += 1;
            }
        }
        told
    }

    /// Checks that webhooks were told once that each of these invoices was made and paid.
    async fn assert_told_once(&self, invoices: &[String]) {
        self.deliver_webhooks().await;
        let told = self.told();
        for invoice in invoices {
            for kind in ["invoice_created", "invoice_paid"] {
                assert_eq!(told.get(&(kind.to_owned(), invoice.clone())), Some(&1), "{kind} {invoice}");
            }
        }
    }

    /// Returns the invoices of an account's month.
    async fn invoices(&self, account: &str, month: i64) -> Vec<Invoice> {
        let all = self.store.invoices(account, 1000).await.unwrap();
        all.into_iter().filter(|invoice| invoice.month == month).collect()
    }

    /// Checks that the provider has one invoice of this amount for an account's month, and that the records agree.
    async fn assert_billed_there(&self, of: &Customer, month: i64, cents: i64) {
        let word = Timestamp(month_start(month).0).rfc3339()[..7].to_owned();
        let is_of_month = |one: &Value| {
            one["metadata"]["month"] == json!(month.to_string()) && one["metadata"]["account_id"] == json!(of.account)
        };
        let made: Vec<Value> = self.provider().account().all("in_").into_iter().filter(is_of_month).collect();
        let [made] = made.as_slice() else { panic!("{word} of {}: {made:?}", of.account) };
        let lines = made["lines"]["data"].as_array().unwrap().len();
        assert_eq!((&made["total"], lines, &made["status"]), (&json!(cents), 1, &json!("paid")), "{word}");
        assert_eq!(made["customer"], json!(of.customer));
        let id = made["id"].as_str().unwrap();
        let records = self.invoices(&of.account, month).await;
        let [record] = records.as_slice() else { panic!("{word}: {records:?}") };
        assert_eq!((record.invoice_id.as_str(), record.amount_usd_cents), (id, cents), "{word}");
        assert_eq!((record.status, record.is_provided), (InvoiceState::Paid, true), "{word}");
        let bill = self.store.usage_bill(&of.account, month).await.unwrap().unwrap();
        assert_eq!((bill.cents, bill.invoice_id.as_str()), (cents, id), "{word}");
        assert_eq!(self.store.open_items(&of.account, month).await.unwrap(), vec![], "{word}");
    }
}

/// A month is closed through the provider, for a customer who used the node and for one who owes a fee.
async fn a_month_is_billed_once_through_the_provider(kind: Kind, lane: u32) {
    let Some(place) = Place::new(kind, lane, true).await else { return };
    let (user, owing) = (place.customer(Plan::Payg).await, place.customer(Plan::Payg).await);
    {
        let node = place.start().await;
        place.until_billed().await;
        place.listen(&node, &user.key).await;
        place.listen(&node, &owing.key).await;
    }
    let begin = async |node: &Node| {
        place.use_office(node, &user.key).await;
        place.add_fee(&owing.account).await;
        place.here.month()
    };
    let work = async |_: &Node, month: &i64| {
        place.move_past(*month);
        true
    };
    let is_done = async |month: &i64| place.store.job_done_through("months").await.unwrap() >= *month;
    let finish = async |node: &Node, month: &i64| {
        place.until_billed().await;
        place.provider().account().advance_drafts();
        place.deliver_events(node).await;
        place.assert_billed_there(&user, *month, USE_CENTS).await;
        place.assert_billed_there(&owing, *month, FEE_CENTS).await;
        place.deliver_webhooks().await;
    };
    place.at_every_step(&AT_ALL, begin, work, is_done, finish).await;
    let _node = place.start().await;
    let mut invoices = place.store.invoices(&user.account, 1000).await.unwrap();
    invoices.extend(place.store.invoices(&owing.account, 1000).await.unwrap());
    let invoices: Vec<String> = invoices.into_iter().map(|invoice| invoice.invoice_id).collect();
    place.assert_told_once(&invoices).await;
}

/// A month is closed on a node without a provider, which makes the invoice and sends the notices.
async fn a_month_is_billed_once_by_the_node(kind: Kind, lane: u32) {
    let Some(place) = Place::new(kind, lane, false).await else { return };
    let user = place.customer(Plan::Payg).await;
    {
        let node = place.start().await;
        place.until_billed().await;
        place.listen(&node, &user.key).await;
    }
    let begin = async |node: &Node| {
        place.use_office(node, &user.key).await;
        place.add_fee(&user.account).await;
        (place.here.month(), letters(&place.mailbox).await)
    };
    let work = async |_: &Node, (month, _): &(i64, BTreeMap<String, String>)| {
        place.move_past(*month);
        true
    };
    let is_idle = async || {
        let notices = place.store.due_notices(place.here.clock.now().0, 1).await.unwrap();
        notices.is_empty() && place.store.due_emails(i64::MAX, 1).await.unwrap().is_empty()
    };
    let is_done = async |(month, _): &(i64, BTreeMap<String, String>)| {
        place.store.job_done_through("months").await.unwrap() >= *month && is_idle().await
    };
    let finish = async |_: &Node, (month, before): &(i64, BTreeMap<String, String>)| {
        place.until_billed().await;
        until("the notices are sent", is_idle).await;
        let made = place.invoices(&user.account, *month).await;
        let [made] = made.as_slice() else { panic!("{made:?}") };
        assert_eq!((made.amount_usd_cents, made.is_provided), (USE_CENTS + FEE_CENTS, false));
        let lines = place.store.items_of_invoice(&made.invoice_id).await.unwrap();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(place.store.open_items(&user.account, *month).await.unwrap(), vec![]);
        // each notice is one e-mail; a repetition after a crash has the same message id
        let all = letters(&place.mailbox).await;
        let new: Vec<&String> = all.iter().filter(|(id, _)| !before.contains_key(*id)).map(|(_, text)| text).collect();
        let different: BTreeSet<&String> = new.iter().copied().collect();
        assert!(!new.is_empty() && new.len() == different.len(), "{new:?}");
        let operator = Operator::open(&place.here.config).await.unwrap().with_clock(&place.here.clock);
        operator.end_invoice(&made.invoice_id, InvoiceState::Paid).await.unwrap();
        place.deliver_webhooks().await;
    };
    place.at_every_step(&AT_WRITES, begin, work, is_done, finish).await;
    let _node = place.start().await;
    let invoices = place.store.invoices(&user.account, 1000).await.unwrap();
    let invoices: Vec<String> = invoices.into_iter().map(|invoice| invoice.invoice_id).collect();
    place.assert_told_once(&invoices).await;
}

/// Returns the texts of the received e-mails by message id: the subject and the body.
async fn letters(mailbox: &Mailbox) -> BTreeMap<String, String> {
    let mails = mailbox.wait_for(0).await;
    let parts = mails.iter().map(|mail| {
        let (head, body) = mail.split_once("\n\n").expect("a head and a body");
        let id = head.lines().find(|line| line.starts_with("Message-ID:")).expect("a message id");
        let from_subject = &head[head.find("Subject:").expect("a subject")..];
        let subject = from_subject.lines().enumerate().take_while(|(at, line)| *at == 0 || line.starts_with(' '));
        let subject: String = subject.map(|(_, line)| line).collect();
        (id.to_owned(), format!("{subject}\n{body}"))
    });
    parts.collect()
}

/// A completed checkout that sells a key.
struct Sale {
    session: String,
    events: [Value; 2],
}

/// A purchase makes one key, however often and with how many events the provider reports it.
async fn a_purchase_makes_one_key(kind: Kind, lane: u32) {
    let Some(place) = Place::new(kind, lane, true).await else { return };
    {
        let _node = place.start().await;
        place.until_billed().await;
    }
    let begin = async |_: &Node| {
        let number = serial();
        let session = format!("cs_{number}");
        let object = json!({
            "id": session, "object": "checkout.session", "customer": format!("cus_of_{number}"), "mode": "subscription",
            "status": "complete", "payment_status": "paid", "subscription": format!("sub_of_{number}"),
            "client_reference_id": null, "metadata": {"plan": "pro"},
        });
        place.provider().account().put(object.clone());
        let event = |kind: &str| {
            json!({"id": format!("evt_{kind}_{number}"), "object": "event", "type": format!("checkout.session.{kind}"),
                "data": {"object": object}})
        };
        Sale { session, events: [event("completed"), event("async_payment_succeeded")] }
    };
    let work = async |node: &Node, sale: &Sale| {
        let told = place.provider().delivery(&sale.events[0], WEBHOOK_SECRET);
        node.send(&told).await.is_some()
    };
    let is_done = async |_: &Sale| place.store.pending_provider_events().await.unwrap() == 0;
    let finish = async |node: &Node, sale: &Sale| {
        // the provider delivers an event again that was not answered, and may deliver any event again
        for event in sale.events.iter().chain(&sale.events) {
            place.provider().deliver(node.address, event).await.ok(200);
        }
        // an event with another signing secret is refused
        let forged = place.provider().delivery(&json!({"id": "evt_forged", "type": "x"}), "another secret");
        node.send(&forged).await.unwrap().error(400, "INVALID_SIGNATURE");
        until("the events are processed", async || place.store.pending_provider_events().await.unwrap() == 0).await;
        let purchase = place.store.purchase(&sale.session).await.unwrap().expect("a purchase");
        let keys = place.store.api_keys().await.unwrap();
        let keys = keys.iter().filter(|key| key.account_id == purchase.account_id).count();
        assert_eq!(keys, 1);
        // the key is shown for a day
        let show = Request::get(format!("/v1/keys/by-session?session_id={}", sale.session));
        let shown = node.send(&show).await.unwrap();
        let is_shown = Timestamp(purchase.created_at).plus(Duration::from_secs(24 * 3600)) > place.here.clock.now();
        if is_shown {
            let key = shown.ok(200)["key"].as_str().unwrap().to_owned();
            assert_eq!(node.send(&Request::get("/v1/me").key(&key)).await.unwrap().ok(200)["plan"], "pro");
        } else {
            assert_eq!(shown.status, 410, "{}", shown.text());
        }
    };
    place.at_every_step(&AT_ALL, begin, work, is_done, finish).await;
}

/// A request for a plan.
struct Order {
    by: Customer,
    plan: &'static str,
    request: Request,
}

impl Place {
    fn order(&self, by: Customer, plan: &'static str) -> Order {
        let body = json!({"plan": plan, "email": "ada@example.org", "billing_cycle": "monthly"});
        let request = Request::post("/api/v1/billing/subscribe", &body).key(&by.key);
        Order { by, plan, request: request.header("Idempotency-Key", &format!("key-{}", serial())) }
    }

    /// Returns the provider's objects of a customer whose id begins with this prefix.
    fn of_customer(&self, prefix: &str, customer: &str) -> Vec<Value> {
        let all = self.provider().account().all(prefix);
        all.into_iter().filter(|one| one["customer"] == json!(customer)).collect()
    }

    /// Renews the customer's subscription if its period is over, as the provider does. Returns the number of renewals.
    fn renew(&self, customer: &str) -> usize {
        let mut renewals = 0;
        for subscription in self.of_customer("sub_0", customer) {
            let id = subscription["id"].as_str().unwrap();
            let end = |found: &Value| found["items"]["data"][0]["current_period_end"].as_i64().unwrap();
            let now_s = self.here.clock.now().seconds() as i64;
            while end(&self.provider().account().object(id)) <= now_s {
                self.provider().account().renew(id);
                renewals += 1;
            }
        }
        renewals
    }

    /// Checks what became of an order on the next node: before and after the client repeats it.
    async fn settle(&self, node: &Node, order: &Order, invoices: usize) {
        let customer = &order.by.customer;
        let renewals = self.renew(customer);
        self.deliver_events(node).await;
        // also if the client never comes back, the record is what the provider has
        if let Some(found) = self.of_customer("sub_0", customer).first() {
            let price = found["items"]["data"][0]["price"]["lookup_key"].as_str().unwrap();
            let record = self.store.subscription(&order.by.account).await.unwrap().unwrap();
            assert_eq!(format!("ango_{}_monthly", record.plan.as_str()), price);
            assert_eq!(json!(record.provider_subscription_id), found["id"]);
        }
        let told = node.send(&order.request).await.unwrap().ok(200);
        assert_eq!((&told["plan"], &told["status"]), (&json!(order.plan), &json!("active")));
        self.deliver_events(node).await;
        let subscriptions = self.of_customer("sub_0", customer);
        let [subscription] = subscriptions.as_slice() else { panic!("{subscriptions:?}") };
        let made = self.of_customer("in_", customer);
        assert_eq!(made.len(), invoices + renewals, "{made:?}");
        let records = self.store.invoices(&order.by.account, 1000).await.unwrap();
        let ids: BTreeSet<&str> = records.iter().map(|invoice| invoice.invoice_id.as_str()).collect();
        assert_eq!(ids, made.iter().map(|one| one["id"].as_str().unwrap()).collect());
        assert!(records.iter().all(|invoice| invoice.status == InvoiceState::Paid), "{records:?}");
        // the subscription ends, so that later nodes have nothing to do with it
        let id = subscription["id"].as_str().unwrap();
        self.provider().account().set_status(id, "canceled");
        self.deliver_events(node).await;
    }
}

/// A first subscription, and a higher plan, begin once, whether or not the client repeats the request.
async fn a_plan_is_paid_once(kind: Kind, lane: u32) {
    let Some(place) = Place::new(kind, lane, true).await else { return };
    {
        let _node = place.start().await;
        place.until_billed().await;
    }
    let work = async |node: &Node, order: &Order| match node.send(&order.request).await {
        Some(answer) => {
            answer.ok(200);
            true
        }
        None => false,
    };
    let is_done = async |_: &Order| true;
    let first = async |_: &Node| place.order(place.customer(Plan::Free).await, "starter");
    let finish = async |node: &Node, order: &Order| place.settle(node, order, 1).await;
    place.at_every_step(&AT_ALL, first, work, is_done, finish).await;
    let higher = async |node: &Node| {
        let before = place.order(place.customer(Plan::Free).await, "starter");
        node.send(&before.request).await.unwrap().ok(200);
        place.deliver_events(node).await;
        place.order(before.by, "pro")
    };
    let finish = async |node: &Node, order: &Order| place.settle(node, order, 2).await;
    place.at_every_step(&AT_ALL, higher, work, is_done, finish).await;
}

macro_rules! on_both_databases {
    ($($sqlite:ident, $postgres:ident: $scenario:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $sqlite() {
            join_all((0..LANES).map(|lane| $scenario(Kind::Sqlite, lane))).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $postgres() {
            if !tests_extent::leaves_out("PostgreSQL") {
                join_all((0..LANES).map(|lane| $scenario(Kind::Postgres, lane))).await;
            }
        }
    )*};
}

on_both_databases! {
    w8_a_month_is_billed_once_through_the_provider_sqlite, w8_a_month_is_billed_once_through_the_provider_postgres:
        a_month_is_billed_once_through_the_provider;
    p19_a_month_is_billed_once_by_the_node_sqlite, p19_a_month_is_billed_once_by_the_node_postgres:
        a_month_is_billed_once_by_the_node;
    w4_a_purchase_makes_one_key_sqlite, w4_a_purchase_makes_one_key_postgres: a_purchase_makes_one_key;
    p11_a_plan_is_paid_once_sqlite, p11_a_plan_is_paid_once_postgres: a_plan_is_paid_once;
}
