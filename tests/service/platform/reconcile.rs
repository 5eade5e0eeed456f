//! `ango admin reconcile-provider` and `ango admin preview-month`: each difference between the records and the payment
//! provider is shown, and what the provider knows better is read again (readings P18, W2).

use control::admin::reconcile::DifferenceFacts;
use control::caller::Plan;
use serde_json::{Value, json};
use store::{BeyondAllowance, NewReservation, UsageBillRecord, Wanted};
use tests_service::TestServer;
use tests_service::payments::PaymentStandIn;

use crate::payments::{pair, with_card, worked_through};
use crate::subscriptions::{Subscriber, after, move_to};

const DAYS: u32 = 70;

/// Compares the records with the provider, and reads anew what differs if `apply`.
async fn compare(server: &TestServer, apply: bool) -> Vec<DifferenceFacts> {
    let operator = server.operator().await.with_clock(&server.clock);
    operator.reconcile_provider(DAYS, apply, &|_, _| ()).await.unwrap()
}

/// The kind, the value on record and the provider's value of each difference.
fn said(found: &[DifferenceFacts]) -> Vec<(&str, &str, &str)> {
    found.iter().map(|one| (one.kind, one.here.as_str(), one.there.as_str())).collect()
}

/// Checks that exactly this difference is shown, and whether reading anew mends it.
async fn assert_only(server: &TestServer, expected: (&str, &str, &str), mends: bool) {
    let found = compare(server, false).await;
    assert_eq!(said(&found), [expected]);
    assert!(!found[0].mended);
    let found = compare(server, true).await;
    assert_eq!((said(&found), found[0].mended), (vec![expected], mends));
    assert_eq!(compare(server, false).await.is_empty(), mends);
}

/// Makes a subscriber on `starter` whose records agree with the provider. Returns the customer, the subscription and
/// the invoice.
async fn subscribed<'s>(provider: &PaymentStandIn, server: &'s TestServer) -> (Subscriber<'s>, [String; 3]) {
    let (subscriber, customer) = with_card(provider, server).await;
    subscriber.subscribe("starter", "monthly").await.ok(200);
    provider.deliver_all(server.address).await;
    worked_through(server).await;
    assert_eq!(said(&compare(server, false).await), []);
    let of_customer = |prefix: &str| {
        let all = provider.account().all(prefix);
        let newest = all.iter().rfind(|one| one["customer"] == json!(customer)).expect("an object");
        newest["id"].as_str().unwrap().to_owned()
    };
    let (subscription, invoice) = (of_customer("sub_0"), of_customer("in_"));
    (subscriber, [customer, subscription, invoice])
}

#[tokio::test]
async fn the_status_and_the_amount_of_an_invoice_are_compared() {
    let (provider, server) = pair().await;
    let (subscriber, [customer, _, invoice]) = subscribed(&provider, &server).await;
    let cents = subscriber.invoices().await[0]["amount_usd_cents"].as_i64().unwrap();
    provider.account().amend(&invoice, json!({"status": "void"}));
    assert_only(&server, ("invoice_differs", &format!("paid {cents} cents"), &format!("void {cents} cents")), true)
        .await;
    provider.account().amend(&invoice, json!({"total": 7}));
    assert_only(&server, ("invoice_differs", &format!("void {cents} cents"), "void 7 cents"), true).await;
    // an invoice whose event was lost, and one that was removed at the provider
    let lost = provider.account().paid_invoice(&customer);
    provider.account().take_events();
    assert_only(&server, ("invoice_not_on_record", "-", "paid 500 cents"), true).await;
    assert_eq!(subscriber.invoices().await.len(), 2);
    provider.account().remove(&lost);
    assert_only(&server, ("invoice_not_there", "paid 500 cents", "-"), false).await;
    // invoices of strangers and in other currencies are none of this service
    provider
        .account()
        .put(json!({"id": lost, "object": "invoice", "customer": customer, "status": "paid", "currency": "usd",
        "total": 500, "period_start": 1, "period_end": 2, "created": server.clock.now().seconds(), "metadata": {}}));
    for (id, customer, currency) in [("in_x1", "cus_stranger", "usd"), ("in_x2", customer.as_str(), "jpy")] {
        let mut other = provider.account().object(&invoice);
        (other["id"], other["customer"], other["currency"]) = (json!(id), json!(customer), json!(currency));
        provider.account().put(other);
    }
    assert_eq!(said(&compare(&server, false).await), []);
    provider.account().amend(&invoice, json!({"status": "of a later version"}));
    let found = compare(&server, false).await;
    assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), ["unreadable"]);
}

#[tokio::test]
async fn p18_the_status_the_plan_and_the_end_of_a_subscription_are_compared() {
    let (provider, server) = pair().await;
    let (subscriber, [customer, subscription, _]) = subscribed(&provider, &server).await;
    let period = &words_of_period(&provider, &subscription);
    provider.account().set_status(&subscription, "past_due");
    provider.account().take_events();
    let [active, past_due] = ["active", "past_due"].map(|status| format!("{status} starter monthly {period}"));
    assert_only(&server, ("subscription_differs", &active, &past_due), true).await;
    assert_eq!(subscriber.subscription().await["status"], "past_due");
    provider.account().set_status(&subscription, "canceled");
    provider.account().take_events();
    assert_only(&server, ("subscription_not_there", &past_due, "-"), true).await;
    assert_eq!(subscriber.subscription().await["plan"], "free");
    // a second customer of the account is shown, and an operator removes it
    let second = provider.account().new_customer_of(subscriber.account.as_str());
    assert_only(&server, ("second_customer", &customer, &second), false).await;
    provider.account().remove(&second);
    provider.account().remove(&customer);
    assert_only(&server, ("customer_not_there", &customer, "-"), false).await;
}

fn words_of_period(provider: &PaymentStandIn, subscription: &str) -> String {
    let item = provider.account().object(subscription)["items"]["data"][0].clone();
    let day =
        |member: &str| control::clock::Timestamp(item[member].as_i64().unwrap() * 1_000_000).rfc3339()[..10].to_owned();
    format!("{} to {}", day("current_period_start"), day("current_period_end"))
}

#[tokio::test]
async fn b6_customers_and_invoices_since_a_backup_are_recorded_again() {
    let (provider, server) = pair().await;
    let (_, _) = subscribed(&provider, &server).await;
    // as if the records were of before these customers subscribed
    let mut subscribers = Vec::new();
    for _ in 0..4 {
        let subscriber = Subscriber::new(&server, Plan::Free).await;
        let mut account = provider.account();
        let customer = account.new_customer_of(subscriber.account.as_str());
        let session = account.begin_checkout(&customer, subscriber.account.as_str(), "ango_pro_monthly");
        account.complete_checkout(&session);
        account.take_events();
        drop(account);
        subscribers.push(subscriber);
    }
    let found = compare(&server, false).await;
    for subscriber in &subscribers {
        let of_account = found.iter().filter(|one| one.account_id == subscriber.account.as_str());
        let kinds: Vec<&str> = of_account.map(|one| one.kind).collect();
        assert_eq!(kinds, ["customer_not_on_record", "subscription_not_on_record", "invoice_not_on_record"]);
        assert_eq!(subscriber.subscription().await["plan"], "free", "nothing is changed");
    }
    let found = compare(&server, true).await;
    assert_eq!((found.len(), found.iter().all(|one| one.mended)), (12, true));
    assert_eq!(said(&compare(&server, true).await), []);
    for subscriber in &subscribers {
        let told = subscriber.until_on("pro", "active").await;
        assert_eq!(told["status"], "active");
        assert_eq!(subscriber.invoices().await.len(), 1);
    }
    // an account with two customers gets the one with the subscription, and the other is shown
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    let [other, customer] = {
        let mut account = provider.account();
        let customers = [(); 2].map(|()| account.new_customer_of(subscriber.account.as_str()));
        let session = account.begin_checkout(&customers[1], subscriber.account.as_str(), "ango_pro_monthly");
        account.complete_checkout(&session);
        account.take_events();
        customers
    };
    compare(&server, true).await;
    subscriber.until_on("pro", "active").await;
    assert_only(&server, ("second_customer", &customer, &other), false).await;
    provider.account().remove(&other);
    // an account that was made since the backup is lost
    let lost = "acct_00000000000000000000000001";
    let customer = provider.account().new_customer_of(lost);
    assert_only(&server, ("account_not_on_record", "-", &customer), false).await;
}

#[tokio::test]
async fn p9_bills_of_months_are_compared_with_the_invoices_at_the_provider() {
    let (provider, server) = pair().await;
    let (subscriber, [_, _, _]) = subscribed(&provider, &server).await;
    let told = subscriber.subscription().await;
    for _ in 0..5 {
        subscriber.use_gates(1000).await;
    }
    let month = control::access::limits::Period::of(server.clock.now()).month;
    let words = server.clock.now().rfc3339()[..7].to_owned();
    move_to(&server, &after(told["current_period_end"].as_str().unwrap(), 11)).await;
    subscriber.until_billed(&server).await;
    let is_of_month = |one: &Value| one["metadata"]["month"].is_string();
    let billed = || provider.account().all("in_").into_iter().find(is_of_month).unwrap();
    let invoice = billed()["id"].as_str().unwrap().to_owned();
    // Stripe has issued the invoice and its event has come
    provider.account().advance_drafts();
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    assert_eq!(said(&compare(&server, false).await), []);
    // the operator makes a second invoice of the month by hand
    let mut second = billed();
    second["id"] = json!("in_9");
    provider.account().put(second);
    let found = compare(&server, true).await;
    let both = format!("in_9 {invoice}");
    let expected =
        [("month_billed_twice", invoice.as_str(), both.as_str()), ("invoice_not_on_record", "-", "paid 233 cents")];
    let found_words = said(&found);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(expected.iter().all(|one| found_words.contains(one)), "{found:?}");
    assert!(found.iter().all(|one| one.mended == (one.kind == "invoice_not_on_record")), "{found:?}");
    provider.account().amend("in_9", json!({"status": "void"}));
    compare(&server, true).await;
    assert_eq!(said(&compare(&server, false).await), []);
    // another amount, then no invoice at all
    provider.account().amend(&invoice, json!({"total": 466}));
    let here = format!("{invoice} 233 cents");
    let found = compare(&server, true).await;
    assert!(said(&found).contains(&("bill_differs", here.as_str(), "paid 466 cents")), "{found:?}");
    provider.account().amend(&invoice, json!({"total": 233}));
    compare(&server, true).await;
    assert_eq!(said(&compare(&server, false).await), []);
    provider.account().remove(&invoice);
    let found = compare(&server, true).await;
    let kinds: Vec<(&str, &str)> = found.iter().map(|one| (one.kind, one.object.as_str())).collect();
    assert!(kinds.contains(&("bill_without_invoice", words.as_str())), "{kinds:?}");
    assert!(kinds.contains(&("invoice_not_there", invoice.as_str())), "{kinds:?}");
    // a bill of another account: intended long ago and never made, or made and forgotten here
    let other = Subscriber::new(&server, Plan::Payg).await;
    let bill = UsageBillRecord {
        account_id: other.account.as_str().to_owned(),
        month,
        cents: 5,
        invoice_id: String::new(),
        attempt: 0,
        attempted_at: 0,
    };
    server.running().store().write(async |tx| tx.intend_usage_bill(&bill, &[]).await).await.unwrap();
    let found = compare(&server, false).await;
    assert!(said(&found).contains(&("bill_without_invoice", "5 cents", "-")), "{found:?}");
    let mut forgotten = provider.account().object("in_9");
    (forgotten["id"], forgotten["status"], forgotten["metadata"]["month"]) =
        (json!("in_8"), json!("open"), json!((month - 1).to_string()));
    provider.account().put(forgotten);
    let found = compare(&server, false).await;
    assert!(said(&found).contains(&("bill_not_on_record", "-", "in_8")), "{found:?}");
}

#[tokio::test]
async fn a_comparison_needs_a_provider_that_answers() {
    let server = TestServer::start().await;
    let operator = server.operator().await;
    let error = operator.reconcile_provider(DAYS, false, &|_, _| ()).await.unwrap_err();
    assert!(error.to_string().contains("ANGO_PAYMENTS_PROVIDER"), "{error}");
    let (provider, server) = pair().await;
    provider.fail("GET /v1/subscriptions", &[tests_service::payments::Fault::Error; 3]);
    let operator = server.operator().await;
    let error = operator.reconcile_provider(DAYS, false, &|_, _| ()).await.unwrap_err();
    assert!(error.to_string().contains("the payment provider failed"), "{error}");
}

#[tokio::test]
async fn p9_a_month_is_shown_before_it_is_billed_and_nothing_is_changed() {
    let (provider, server) = pair().await;
    let (subscriber, _) = subscribed(&provider, &server).await;
    let told = subscriber.subscription().await;
    let month = control::access::limits::Period::of(server.clock.now()).month;
    for _ in 0..5 {
        subscriber.use_gates(1000).await;
    }
    // an account that the provider does not know, with work that is running
    let unknown = Subscriber::new(&server, Plan::Payg).await;
    unknown.use_gates(1000).await;
    let store = server.running().store();
    let running = NewReservation {
        transfer_id: "op_of_a_test".to_owned(),
        account_id: unknown.account.as_str().to_owned(),
        node_id: "node_of_a_test".to_owned(),
        month,
        usd_milli_jpy: 150_000,
        created_at: server.clock.now().0,
        wanted: Wanted::Fcu { fcu: 5, allowance: None, beyond: BeyondAllowance::Charged(2_000) },
    };
    store.reserve(running).await.unwrap();
    let asked = provider.asked().len();
    let preview = async |month| {
        let operator = server.operator().await.with_clock(&server.clock);
        operator.preview_month(month, &|_| ()).await.unwrap()
    };
    let bills = preview(None).await;
    let of = |account: &str| bills.iter().find(|one| one.account_id == account).unwrap();
    let there = of(subscriber.account.as_str());
    let money = |bill: &control::admin::preview::PreviewFacts| (bill.use_cents, bill.fees_cents, bill.total_cents);
    assert_eq!((money(there), there.collected_by, there.ready, there.begun), ((233, 0, 233), "provider", true, false));
    let here = of(unknown.account.as_str());
    assert_eq!((here.collected_by, here.ready), ("node", false));
    assert_eq!(bills.len(), 2);
    assert_eq!(provider.asked().len(), asked, "the provider is not asked");
    assert!(preview(Some(month + 1)).await.is_empty());
    // the bill is what was shown
    let now = server.clock.now().0;
    store.void_reservation("op_of_a_test", unknown.account.as_str(), now).await.unwrap();
    move_to(&server, &after(told["current_period_end"].as_str().unwrap(), 11)).await;
    subscriber.until_billed(&server).await;
    let bill = store.usage_bill(subscriber.account.as_str(), month).await.unwrap().unwrap();
    assert_eq!(bill.cents, 233);
    let operator = server.operator().await.with_clock(&server.clock);
    let error = operator.preview_month(Some(month), &|_| ()).await.unwrap_err();
    assert!(error.to_string().contains("is billed"), "{error}");
}

#[tokio::test]
async fn p19_the_fees_of_a_plan_are_lines_of_the_shown_bill() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    subscriber.subscribe("starter", "monthly").await.ok(200);
    subscriber.subscribe("pro", "monthly").await.ok(200);
    let bills = server.operator().await.preview_month(None, &|_| ()).await.unwrap();
    assert_eq!((bills.len(), bills[0].lines.len(), bills[0].collected_by), (1, 3, "node"));
    assert!(bills[0].lines[2].description.starts_with("Plan pro, monthly"), "{bills:?}");
    assert_eq!(bills[0].fees_cents, bills[0].lines.iter().map(|line| line.cents).sum::<i64>());
    assert_eq!(bills[0].total_cents, bills[0].fees_cents);
    assert_eq!(subscriber.invoices().await, Vec::<Value>::new());
}
