//! What follows if an account does not pay: notices, grace, suspension, and how it ends (readings B7, P18).

use std::time::Duration;

use base64::Engine as _;
use control::caller::Plan;
use control::config::{Config, MailConfig, WebhooksConfig};
use serde_json::{Value, json};
use store::InvoiceState;
use tests_service::TestServer;
use tests_service::gates::GATE;
use tests_service::http::Request;
use tests_service::mailbox::Mailbox;
use tests_service::payments::PaymentStandIn;
use tests_service::receiver::Receiver;

use crate::payments::{with_card, worked_through};
use crate::subscriptions::{SUBSCRIPTION, Subscriber, after, move_to};

const DAY: Duration = Duration::from_secs(86_400);

fn mail_through(mailbox: &Mailbox, config: &mut Config) {
    config.mail = MailConfig {
        smtp_url: Some(control::config::SmtpUrl::of(&format!("smtp://{}", mailbox.address))),
        smtp_from: "Ango <billing@ango.example>".parse().unwrap(),
    };
    config.webhooks = WebhooksConfig { webhook_networks: vec!["127.0.0.0/8".parse().unwrap()], webhook_http: true };
}

/// Returns the text of an e-mail without its transfer encoding.
fn text(mail: &str) -> String {
    let (head, body) = mail.split_once("\n\n").unwrap();
    if head.to_lowercase().contains("content-transfer-encoding: base64") {
        let body: String = body.split_whitespace().collect();
        return String::from_utf8(base64::engine::general_purpose::STANDARD.decode(body).unwrap()).unwrap();
    }
    // quoted printable
    let joined = body.replace("=\n", "");
    let (mut bytes, mut rest) = (Vec::new(), joined.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'=' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// Uses gates for 2 yen, and moves on to the moment at which the month was billed. Returns the invoice.
async fn bill_use(server: &TestServer, subscriber: &Subscriber<'_>) -> Value {
    subscriber.use_gates(300).await;
    let end = subscriber.subscription().await["current_period_end"].as_str().unwrap().to_owned();
    move_to(server, &after(&end, 11)).await;
    subscriber.until(async || subscriber.invoices().await, |found| !found.is_empty()).await[0].clone()
}

async fn refused(subscriber: &Subscriber<'_>) {
    let gate = json!({"session_id": "sess_0", "op": "NAND", "a": "", "b": ""});
    let ask = async || subscriber.send(Request::post(GATE, &gate)).await;
    subscriber.until(ask, |answer| answer.status == 402).await.error(402, "ACCOUNT_SUSPENDED");
}

async fn admitted(subscriber: &Subscriber<'_>) {
    let gate = json!({"session_id": "sess_0", "op": "NAND", "a": "", "b": ""});
    let ask = async || subscriber.send(Request::post(GATE, &gate)).await;
    subscriber.until(ask, |answer| answer.status != 402).await.error(404, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn p18_an_invoice_that_is_not_paid_is_reminded_of_and_suspends_until_it_is_paid() {
    let (mailbox, receiver) = (Mailbox::start().await, Receiver::start().await);
    let server = TestServer::with(|config| mail_through(&mailbox, config)).await;
    let subscriber = Subscriber::new(&server, Plan::Payg).await;
    let budget = json!({"monthly_cap_usd": 1000, "alert_email": "keiri@example.jp"});
    subscriber.send(Request::post("/api/v1/billing/budget", &budget)).await.ok(200);
    let hook = json!({"url": receiver.url(), "events": ["invoice_created", "invoice_failed", "invoice_paid"]});
    subscriber.send(Request::post("/api/v1/webhooks", &hook)).await.ok(201);
    let operator = server.operator().await;
    // what would be sent can be read before anything is sent
    let planned = operator.letters(&subscriber.account, "https://node.example").await.unwrap();
    let names: Vec<&str> = planned.iter().map(|letter| letter.notice).collect();
    assert_eq!(names, ["issued", "reminder", "overdue", "last", "suspended", "admitted"]);
    assert!(planned.iter().all(|letter| letter.recipient.as_deref() == Some("keiri@example.jp")));
    assert!(planned[2].body.contains("12.34 USD") && planned[2].body.contains("停止いたします"));

    let invoice = bill_use(&server, &subscriber).await;
    let (id, cents) = (invoice["invoice_id"].as_str().unwrap().to_owned(), invoice["amount_usd_cents"].clone());
    let first = mailbox.wait_for(1).await;
    let due = subscriber.subscription().await["payment_due"].clone();
    assert_eq!((&due["amount_usd_cents"], &due["invoice_ids"]), (&cents, &json!([id])));
    assert_eq!((&due["is_overdue"], &due["is_suspended"]), (&json!(false), &json!(false)));
    // the first of a month and 30 days, to the end of that day
    let due_at = due["due_at"].as_str().unwrap().to_owned();
    let last_day = {
        let issued = server.clock.now().rfc3339()[..10].to_owned();
        assert!(issued.ends_with("-01") && due_at.ends_with("T00:00:00.000Z"));
        let store = server.running().store();
        let due_us = store.invoice(&id).await.unwrap().unwrap().due_at;
        control::clock::Timestamp(due_us - 1).rfc3339()[..10].to_owned()
    };
    let said = text(&first[0]);
    assert!(said.contains(&id) && said.contains(&last_day), "{said}");
    assert!(first[0].contains("keiri@example.jp") && said.contains("お支払いください") && said.contains("Please pay"));
    assert_eq!(subscriber.send(Request::get("/api/v1/billing/budget")).await.ok(200)["payment_due"], due);

    // each notice is sent once, on its day; two nodes or a day's pause change nothing
    server.clock.advance(DAY * 24);
    mailbox.wait_for(2).await;
    admitted(&subscriber).await;
    move_to(&server, &due_at).await;
    let mails = mailbox.wait_for(3).await;
    let due = subscriber.until_on("payg", "past_due").await["payment_due"].clone();
    let suspended_at = due["suspended_at"].as_str().unwrap().to_owned();
    assert_eq!(due["is_overdue"], json!(true));
    assert!(text(&mails[2]).contains(&suspended_at[..10]));
    admitted(&subscriber).await;
    let unpaid = operator.unpaid_accounts().await.unwrap();
    assert_eq!((unpaid.len(), unpaid[0].status, unpaid[0].email.as_deref()), (1, "past_due", Some("keiri@example.jp")));
    server.clock.advance(DAY * 5);
    mailbox.wait_for(4).await;
    move_to(&server, &suspended_at).await;
    refused(&subscriber).await;
    assert_eq!(subscriber.until_on("payg", "unpaid").await["payment_due"]["is_suspended"], json!(true));
    let mails = mailbox.wait_for(5).await;
    assert!(text(&mails[4]).contains("停止いたしました") && text(&mails[4]).contains("have stopped"));
    // reading and billing go on
    subscriber.send(Request::get("/api/v1/billing/invoices")).await.ok(200);

    // given up for collection, the amount is owed all the same; forty days later too
    operator.end_invoice(&id, InvoiceState::Uncollectible).await.unwrap();
    server.clock.advance(DAY * 40);
    refused(&subscriber).await;
    operator.end_invoice(&id, InvoiceState::Paid).await.unwrap();
    admitted(&subscriber).await;
    let told = subscriber.until_on("payg", "active").await;
    assert!(told.get("payment_due").is_none(), "{told}");
    let mails = mailbox.wait_for(6).await;
    assert!(text(&mails[5]).contains("停止を解除いたしました"));
    assert!(operator.unpaid_accounts().await.unwrap().is_empty());
    let told = receiver.wait_for(5).await;
    let mut kinds: Vec<String> = told
        .iter()
        .map(|one| {
            let body = one.json();
            let reason = body["data"]["failure_reason"].as_str().unwrap_or_default().to_owned();
            format!("{} {reason}", body["event_type"].as_str().unwrap()).trim().to_owned()
        })
        .collect();
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "invoice_created",
            "invoice_failed account_suspended",
            "invoice_failed overdue",
            "invoice_failed overdue",
            "invoice_paid"
        ]
    );
}

#[tokio::test]
async fn p18_the_operator_sets_terms_and_lifts_a_suspension_and_a_void_invoice_is_not_owed() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Payg).await;
    let operator = server.operator().await;
    operator.set_invoice_term(&subscriber.account, Some(0)).await.unwrap();
    let invoice = bill_use(&server, &subscriber).await;
    // due at the end of the same day, without a word to an account that has no address
    server.clock.advance(DAY);
    subscriber.until_on("payg", "past_due").await;
    let unpaid = operator.unpaid_accounts().await.unwrap();
    assert_eq!((unpaid[0].email.as_deref(), unpaid[0].invoices), (None, 1));
    server.clock.advance(DAY * 7);
    refused(&subscriber).await;
    operator.lift_suspension(&subscriber.account, 10).await.unwrap();
    admitted(&subscriber).await;
    subscriber.until_on("payg", "past_due").await;
    server.clock.advance(DAY * 10);
    refused(&subscriber).await;
    operator.end_invoice(invoice["invoice_id"].as_str().unwrap(), InvoiceState::Void).await.unwrap();
    admitted(&subscriber).await;
    subscriber.until_on("payg", "active").await;
    let nobody = api::AccountId::from_bits(7);
    assert!(operator.lift_suspension(&nobody, 1).await.is_err());
    assert!(operator.set_invoice_term(&nobody, None).await.is_err());
    assert!(operator.letters(&nobody, "").await.is_err());
}

#[tokio::test]
async fn p18_use_that_the_provider_cannot_collect_suspends_and_a_payment_lifts_it() {
    let mailbox = Mailbox::start().await;
    let provider = PaymentStandIn::start().await;
    let server = TestServer::with(|config| {
        provider.configure(config);
        mail_through(&mailbox, config);
    })
    .await;
    provider.follow(&server.clock);
    let (subscriber, _) = with_card(&provider, &server).await;
    let limit = async || {
        let answer = subscriber.send(Request::get(SUBSCRIPTION)).await;
        answer.header("x-ratelimit-daily-limit").unwrap_or_default().to_owned()
    };
    let free = limit().await;
    server.operator().await.set_plan(&subscriber.account, Plan::Payg).await.unwrap();
    subscriber.until(limit, |found| *found != free).await;
    let budget = json!({"monthly_cap_usd": 1000, "alert_email": "keiri@example.jp"});
    subscriber.send(Request::post("/api/v1/billing/budget", &budget)).await.ok(200);
    subscriber.use_gates(300).await;
    let end = subscriber.subscription().await["current_period_end"].as_str().unwrap().to_owned();
    provider.account().declines = true;
    move_to(&server, &after(&end, 11)).await;
    subscriber.until_billed(&server).await;
    let invoice = provider.account().all("in_").last().unwrap()["id"].as_str().unwrap().to_owned();
    provider.account().advance_drafts();
    provider.account().fail_payment(&invoice);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    subscriber.until_on("payg", "past_due").await;
    admitted(&subscriber).await;
    mailbox.wait_for(1).await;
    server.clock.advance(DAY * 7 + DAY / 24);
    refused(&subscriber).await;
    provider.account().end_invoice(&invoice, "uncollectible");
    provider.deliver_all(server.address).await;
    server.clock.advance(DAY * 40);
    worked_through(&server).await;
    refused(&subscriber).await;
    provider.account().declines = false;
    provider.account().pay(&invoice);
    provider.deliver_all(server.address).await;
    worked_through(&server).await;
    admitted(&subscriber).await;
    subscriber.until_on("payg", "active").await;
}
