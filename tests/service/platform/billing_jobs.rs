//! The jobs of billing do not wait for one another, and end in a state that the operator sees (readings P11, P18, W2,
//! W4).

use std::time::Duration;

use api::AccountId;
use control::caller::{Plan, Role};
use control::config::MailConfig;
use serde_json::{Value, json};
use store::{BeyondAllowance, NewReservation, SubscriptionState, Wanted};
use tests_service::TestServer;
use tests_service::gates::GATE;
use tests_service::http::Request;
use tests_service::ledger::assert_adds_up;
use tests_service::payments::{Fault, PaymentStandIn};
use tokio::net::TcpListener;

use crate::billing::time_of;
use crate::payments::{pair, with_card, worked_through};
use crate::subscriptions::{SUBSCRIPTION, Subscriber, after, move_to};

/// Makes an invoice of the operator's other business at the provider, and returns the event that tells of it.
fn invoice_of_another_business(provider: &PaymentStandIn, customer: &str, number: usize, currency: &str) -> Value {
    let id = format!("in_other_{number}");
    let invoice = json!({
        "id": id, "object": "invoice", "customer": customer, "status": "paid", "currency": currency, "total": 500,
        "period_start": 1, "period_end": 2, "created": 3, "attempt_count": 1, "next_payment_attempt": null,
        "status_transitions": {"paid_at": 3}, "metadata": {}, "lines": {"data": []}, "parent": null,
    });
    provider.account().put(invoice.clone());
    json!({"id": format!("evt_other_{number}"), "object": "event", "type": "invoice.paid", "data": {"object": invoice}})
}

#[tokio::test]
async fn a_silent_mail_server_delays_e_mails_and_nothing_else() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", silent.local_addr().unwrap());
    // the server takes connections, and never says anything
    let taken = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            kept.push(connection);
        }
    });
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| {
        provider.configure(config);
        config.mail = MailConfig {
            smtp_url: Some(control::config::SmtpUrl::of(&url)),
            smtp_from: "Ango <billing@ango.example>".parse().unwrap(),
        };
    })
    .await;
    provider.follow(&server.clock);
    let (subscriber, customer) = with_card(&provider, &server).await;
    subscriber.subscribe("starter", "monthly").await.ok(200);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    // the budget is spent, so an e-mail is due
    let budget = json!({"monthly_cap_usd": 0.001, "alert_email": "ada@example.org"});
    subscriber.send(Request::post("/api/v1/billing/budget", &budget)).await.ok(200);
    subscriber.use_gates(2).await;
    let store = server.running().store();
    let is_due = async || store.due_emails(i64::MAX, 9).await.unwrap().len();
    subscriber.until(is_due, |due| *due > 0).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // events of the provider go on
    let events = (0..20).map(|number| invoice_of_another_business(&provider, &customer, number, "usd"));
    for event in events.collect::<Vec<_>>() {
        provider.deliver(server.address, &event).await.ok(200);
    }
    worked_through(&server).await;
    assert_eq!(is_due().await, 2, "both e-mails are still due");
    taken.abort();
}

#[tokio::test]
async fn w2_events_about_other_business_of_the_operator_are_done_at_once() {
    let (provider, server) = pair().await;
    let (subscriber, customer) = with_card(&provider, &server).await;
    subscriber.subscribe("starter", "monthly").await.ok(200);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    let invoices = subscriber.invoices().await;
    // in yen, of a stranger and of a customer who is a customer of this service too; and about objects that are gone
    for number in 0..30 {
        let customer = if number % 2 == 0 { "cus_stranger" } else { customer.as_str() };
        let event = invoice_of_another_business(&provider, customer, number, "jpy");
        provider.deliver(server.address, &event).await.ok(200);
    }
    for (number, kind) in
        ["invoice.paid", "customer.subscription.updated", "checkout.session.completed"].iter().enumerate()
    {
        let event = json!({"id": format!("evt_gone_{number}"), "type": kind, "data": {"object": {"id": "gone_1"}}});
        provider.deliver(server.address, &event).await.ok(200);
    }
    worked_through(&server).await;
    assert!(server.running().store().stuck_provider_events(9).await.unwrap().is_empty());
    assert_eq!(subscriber.invoices().await, invoices, "no invoice of another business is recorded");
}

#[tokio::test]
async fn w2_an_invoice_whose_customer_is_not_on_record_is_found_by_its_metadata() {
    let (provider, server) = pair().await;
    let subscriber = Subscriber::new(&server, Plan::Payg).await;
    let mut event = invoice_of_another_business(&provider, "cus_forgotten", 1, "usd");
    event["data"]["object"]["metadata"] = json!({"account_id": subscriber.account.as_str()});
    provider.account().put(event["data"]["object"].clone());
    provider.deliver(server.address, &event).await.ok(200);
    worked_through(&server).await;
    assert_eq!(subscriber.invoices().await[0]["invoice_id"], "in_other_1");
}

#[tokio::test]
async fn an_event_that_cannot_succeed_is_stuck_until_the_operator_retries_or_drops_it() {
    let (provider, server) = pair().await;
    let (subscriber, customer) = with_card(&provider, &server).await;
    let store = server.running().store();
    let mut events = Vec::new();
    for number in 0..2 {
        let event = invoice_of_another_business(&provider, &customer, number, "usd");
        let mut unreadable = event["data"]["object"].clone();
        unreadable["status"] = json!("of a later version");
        provider.account().put(unreadable);
        provider.deliver(server.address, &event).await.ok(200);
        events.push(event);
    }
    let stuck = async || {
        server.clock.advance(Duration::from_secs(300));
        store.stuck_provider_events(9).await.unwrap()
    };
    let stuck = subscriber.until(stuck, |stuck| stuck.len() == 2).await;
    assert!(stuck[0].error.contains("of a later version"), "{stuck:?}");
    server.metric_becomes("ango_stuck_provider_events", |stuck| stuck == 2.0).await;
    let operator = server.operator().await;
    assert_eq!(operator.stuck_events().await.unwrap()[0].event_id, "evt_other_0");
    // a new version can read the first invoice; the second event is dropped
    provider.account().put(events[0]["data"]["object"].clone());
    operator.retry_event("evt_other_0").await.unwrap();
    operator.drop_event("evt_other_1").await.unwrap();
    assert!(operator.drop_event("evt_other_1").await.is_err() && operator.retry_event("evt_none").await.is_err());
    worked_through(&server).await;
    assert!(store.stuck_provider_events(9).await.unwrap().is_empty());
    let invoices = subscriber.invoices().await;
    assert_eq!((invoices.len(), &invoices[0]["invoice_id"]), (1, &json!("in_other_0")));
}

#[tokio::test]
async fn a_reservation_that_no_work_holds_is_given_back_and_others_stay() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Payg).await;
    let store = server.running().store();
    let node_id = std::fs::read_to_string(server.running().config().data_dir.join("node-id")).unwrap();
    let (now, month) = time_of(&server);
    // as if the database had not answered when the work ended
    let left_behind = NewReservation {
        transfer_id: "op_left_behind".to_owned(),
        account_id: subscriber.account.as_str().to_owned(),
        node_id,
        month,
        usd_milli_jpy: 150_000,
        created_at: now,
        wanted: Wanted::Fcu { fcu: 5, allowance: None, beyond: BeyondAllowance::Charged(2_000) },
    };
    store.reserve(left_behind).await.unwrap();
    let open = async || store.audit_ledger(0).await.unwrap().open;
    let gates = tokio::join!(subscriber.use_gates(1000), subscriber.until(open, |open| *open == 0));
    let ((), _) = gates;
    // the work that ran meanwhile kept its reservation and was charged
    assert_adds_up(store, subscriber.account.as_str()).await;
}

#[tokio::test]
async fn p11_a_change_of_the_plan_holds_from_the_next_request() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    let limit = async || {
        let answer = subscriber.send(Request::get(SUBSCRIPTION)).await;
        answer.header("x-ratelimit-daily-limit").unwrap_or_default().to_owned()
    };
    let free = limit().await;
    subscriber.subscribe("pro", "monthly").await.ok(200);
    let pro = limit().await;
    assert_ne!(pro, free);
    server.operator().await.set_plan(&subscriber.account, Plan::Scale).await.unwrap();
    let answer = subscriber.send(Request::get(SUBSCRIPTION)).await;
    assert_eq!(answer.json()["plan"], "scale", "the operator's word is higher than the subscription");
    subscriber
        .until(
            async || subscriber.send(Request::get(SUBSCRIPTION)).await,
            |answer| answer.header("x-ratelimit-daily-limit").unwrap_or_default() != pro,
        )
        .await;
}

#[tokio::test]
async fn p18_a_session_token_is_suspended_as_a_key_is() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let store = server.running().store();
    let ask = async || {
        let gate = json!({"session_id": "sess_0", "op": "NAND", "a": "", "b": ""});
        server.send(Request::post(GATE, &gate).key(&user.token)).await
    };
    ask().await.error(404, "SESSION_NOT_FOUND");
    let account: &AccountId = &user.account;
    let mut subscription = store.subscription(account.as_str()).await.unwrap().unwrap();
    subscription.status = SubscriptionState::Unpaid;
    assert!(store.write(async |tx| tx.put_subscription(&subscription).await).await.unwrap().is_some());
    let watcher = Subscriber::new(&server, Plan::Free).await;
    watcher.until(ask, |answer| answer.status == 402).await.error(402, "ACCOUNT_SUSPENDED");
    let session = Request::post("/api/v1/tfhe/session", &json!({})).key(&user.token);
    server.send(session).await.error(402, "ACCOUNT_SUSPENDED");
    // reading goes on
    server.send(Request::get("/api/v1/billing/invoices").key(&user.token)).await.ok(200);
}

/// Bills a month whose first attempt fails in this way at the line of the invoice, and goes on a day later.
async fn bill_a_day_later(fault: Fault) {
    let (provider, server) = pair().await;
    let (subscriber, customer) = with_card(&provider, &server).await;
    let told = subscriber.subscribe("starter", "monthly").await.ok(200);
    for _ in 0..5 {
        subscriber.use_gates(1000).await;
    }
    provider.fail("/invoiceitems", &[fault; 3]);
    move_to(&server, &after(told["current_period_end"].as_str().unwrap(), 11)).await;
    let lines = async || provider.asked().iter().filter(|one| one.contains("invoiceitems")).count();
    subscriber.until(lines, |lines| *lines >= 3).await;
    // the provider forgets idempotency keys after a day
    provider.forget_keys();
    server.clock.advance(Duration::from_secs(25 * 3600));
    subscriber.until_billed(&server).await;
    let of_usage = |one: &Value| one["metadata"]["month"].is_string() && one["customer"] == json!(customer);
    let made: Vec<Value> = provider.account().all("in_").into_iter().filter(of_usage).collect();
    assert_eq!((made.len(), &made[0]["total"]), (1, &json!(233)), "{fault:?}: {made:?}");
    let bill = server.running().store();
    let month = control::access::limits::Period::of(server.clock.now()).month - 1;
    let bill = bill.usage_bill(subscriber.account.as_str(), month).await.unwrap().unwrap();
    assert_eq!((bill.cents, bill.invoice_id.as_str()), (233, made[0]["id"].as_str().unwrap()));
}

#[tokio::test]
async fn w8_a_month_whose_line_was_made_is_not_billed_again_a_day_later() {
    bill_a_day_later(Fault::ErrorAfter).await;
}

#[tokio::test]
async fn w8_a_month_whose_invoice_has_no_line_gets_the_line_a_day_later() {
    bill_a_day_later(Fault::Error).await;
}
