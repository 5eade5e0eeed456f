//! The close of a month while the payment provider fails for a day, and while the database is away for a moment
//! (readings P9, W8).

use std::sync::Arc;
use std::time::Duration;

use control::access::limits::{Period, month_start};
use control::caller::Plan;
use serde_json::{Value, json};
use store::{InvoiceItem, InvoiceState};
use tests_service::TestServer;
use tests_service::payments::{Fault, Moment, PaymentStandIn};
use tests_service::wire::Wire;
use tests_store::Kind;

use crate::payments::worked_through;
use crate::subscriptions::{Subscriber, after, move_to};

/// What the account owes for each month, in US cents.
const CENTS: i64 = 233;
/// Number of requests in an attempt to reach the provider.
const TRIES: usize = 3;

/// An account that is the provider's customer.
async fn customer<'s>(server: &'s TestServer, provider: &PaymentStandIn) -> Subscriber<'s> {
    let subscriber = Subscriber::new(server, Plan::Payg).await;
    let store = server.running().store();
    let mut subscription = store.subscription(subscriber.account.as_str()).await.unwrap().unwrap();
    subscription.customer_id = provider.account().new_customer_of(subscriber.account.as_str());
    provider.account().attach_card(&subscription.customer_id);
    assert!(store.write(async |tx| tx.put_subscription(&subscription).await).await.unwrap().is_some());
    subscriber
}

/// Lets the account owe a fee for the present month. Returns the month.
async fn owe(subscriber: &Subscriber<'_>) -> i64 {
    let now = subscriber.server.clock.now();
    let month = Period::of(now).month;
    let item = InvoiceItem {
        item_id: format!("{}:fee:{month}", subscriber.account.as_str()),
        account_id: subscriber.account.as_str().to_owned(),
        month,
        description: "A fee".to_owned(),
        amount_usd_cents: CENTS,
        invoice_id: String::new(),
        created_at: now.0,
    };
    let store = subscriber.server.running().store();
    store.write(async |tx| tx.add_invoice_item(&item).await).await.unwrap();
    month
}

/// Moves the clock to the close of a month.
async fn move_past(server: &TestServer, month: i64) {
    move_to(server, &after(&month_start(month + 1).rfc3339(), 11)).await;
}

/// Checks that the month was billed once: at the provider, and in the records.
async fn assert_billed_once(provider: &PaymentStandIn, subscriber: &Subscriber<'_>, month: i64, at: &str) {
    let is_of_month = |one: &Value| {
        let metadata = &one["metadata"];
        metadata["month"] == json!(month.to_string()) && metadata["account_id"] == json!(subscriber.account.as_str())
    };
    let made: Vec<Value> = provider.account().all("in_").into_iter().filter(is_of_month).collect();
    let [made] = made.as_slice() else { panic!("{at}: {made:?}") };
    let lines = made["lines"]["data"].as_array().unwrap().len();
    assert_eq!((&made["total"], lines), (&json!(CENTS), 1), "{at}");
    // the provider issues the invoice and collects the amount
    provider.account().advance_drafts();
    provider.deliver_all(subscriber.server.address).await;
    worked_through(subscriber.server).await;
    let store = subscriber.server.running().store();
    let bill = store.usage_bill(subscriber.account.as_str(), month).await.unwrap().unwrap();
    assert_eq!((bill.cents, json!(bill.invoice_id)), (CENTS, made["id"].clone()), "{at}");
    let records = store.invoices(subscriber.account.as_str(), 100).await.unwrap();
    let of_month: Vec<_> = records.iter().filter(|invoice| invoice.month == month).collect();
    let [record] = of_month.as_slice() else { panic!("{at}: {of_month:?}") };
    assert_eq!((record.amount_usd_cents, record.status), (CENTS, InvoiceState::Paid), "{at}");
    assert_eq!(store.audit_ledger(subscriber.server.clock.now().0).await.unwrap().findings, vec![], "{at}");
}

/// Waits until all months are billed. The clock goes on meanwhile, so that the node makes further attempts.
async fn until_billed(subscriber: &Subscriber<'_>, step: Duration) {
    let (server, store) = (subscriber.server, subscriber.server.running().store());
    let last = Period::of(server.clock.now()).month - 1;
    let look = async || {
        server.clock.advance(step);
        store.job_done_through("months").await.unwrap_or_default()
    };
    subscriber.until(look, |done| *done >= last).await;
}

async fn pair() -> (PaymentStandIn, TestServer) {
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| provider.configure(config)).await;
    provider.follow(&server.clock);
    (provider, server)
}

#[tokio::test]
async fn w8_a_failure_that_the_provider_repeats_for_a_day_delays_a_bill_by_hours_and_costs_nothing() {
    let (provider, server) = pair().await;
    let subscriber = customer(&server, &provider).await;
    subscriber.until_billed(&server).await;
    for step in ["POST /v1/invoices", "POST /v1/invoiceitems"] {
        let month = owe(&subscriber).await;
        provider.fail(step, &[Fault::Stored]);
        move_past(&server, month).await;
        let begun = server.clock.now();
        until_billed(&subscriber, Duration::from_secs(30)).await;
        // after an hour the node asks with another key, so it need not wait until the provider forgets the first
        let took = server.clock.now().since(begun);
        assert!((Duration::from_secs(3600)..Duration::from_secs(24 * 3600)).contains(&took), "{step}: {took:?}");
        assert_billed_once(&provider, &subscriber, month, step).await;
        // a day later the provider has forgotten all keys, and nothing is billed again
        server.clock.advance(Duration::from_secs(25 * 3600));
        assert_billed_once(&provider, &subscriber, month, step).await;
    }
}

#[tokio::test]
async fn w8_a_provider_that_fails_for_a_day_at_any_step_bills_a_month_once() {
    let (provider, server) = pair().await;
    let subscriber = customer(&server, &provider).await;
    subscriber.until_billed(&server).await;
    for step in ["GET /v1/invoices", "POST /v1/invoices", "POST /v1/invoiceitems", "GET /v1/invoices/"] {
        for fault in tests_extent::pick(&[Fault::ErrorAfter][..], &[Fault::Error, Fault::ErrorAfter]) {
            let month = owe(&subscriber).await;
            provider.fail(step, &[*fault; TRIES]);
            let asked = provider.asked().len();
            move_past(&server, month).await;
            let answered = async || provider.asked()[asked..].iter().filter(|one| one.starts_with(step)).count();
            subscriber.until(answered, |count| *count >= TRIES).await;
            // more than a day later
            server.clock.advance(Duration::from_secs(25 * 3600));
            until_billed(&subscriber, Duration::from_secs(61)).await;
            assert_billed_once(&provider, &subscriber, month, &format!("{step}, {fault:?}")).await;
        }
    }
}

#[tokio::test]
async fn w8_a_database_that_goes_away_after_any_answer_of_the_provider_bills_a_month_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let (wire, through_wire) = Wire::to(&url, folder.path());
    let wire = Arc::new(wire);
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| {
        provider.configure(config);
        config.database_url = through_wire;
    })
    .await;
    provider.follow(&server.clock);
    let subscriber = customer(&server, &provider).await;
    subscriber.until_billed(&server).await;
    let mut answers = 0;
    loop {
        answers += 1;
        let month = owe(&subscriber).await;
        let gone = wire.clone();
        provider.ambush(Moment::Done, answers, move || gone.down());
        move_past(&server, month).await;
        let is_over = async || {
            let done = server.running().store().job_done_through("months").await;
            (wire.is_down(), done.is_ok_and(|done| done >= month))
        };
        let (is_down, _) = subscriber.until(is_over, |(is_down, is_done)| *is_down || *is_done).await;
        provider.lift_ambush();
        wire.up();
        until_billed(&subscriber, Duration::from_secs(61)).await;
        assert_billed_once(&provider, &subscriber, month, &format!("answer {answers}")).await;
        if !is_down {
            break;
        }
    }
    assert!(answers > 3, "the close of a month asks the provider at least three times");
}
