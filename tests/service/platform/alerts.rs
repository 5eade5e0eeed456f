//! Alerts about limits: events and e-mails to accounts (readings P21-P23, H19).

use std::time::Duration;

use control::caller::{Environment, Plan};
use control::config::{MailConfig, WebhooksConfig};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::mailbox::Mailbox;
use tests_service::receiver::{Received, Receiver};

use crate::billing::{time_of, use_up};
use crate::numbers::{Numbers, testing};
use crate::subscriptions::Subscriber;

/// Starts a node that may send webhooks to addresses of this machine.
async fn server(change: impl FnOnce(&mut control::config::Config)) -> TestServer {
    TestServer::with(|config| {
        config.webhooks = WebhooksConfig { webhook_networks: vec!["127.0.0.0/8".parse().unwrap()], webhook_http: true };
        change(config);
    })
    .await
}

/// Makes a webhook that sends events of this type to the receiver.
async fn listen(subscriber: &Subscriber<'_>, receiver: &Receiver, kind: &str) {
    let hook = json!({"url": receiver.url(), "events": [kind]});
    subscriber.send(Request::post("/api/v1/webhooks", &hook)).await.ok(201);
}

/// Returns the data of the received events, sorted by cap and threshold.
fn data(received: &[Received]) -> Vec<Value> {
    let mut data: Vec<Value> = received.iter().map(|one| one.json()["data"].clone()).collect();
    data.sort_by_key(|one| (one["monthly_cap_usd"].to_string(), one["threshold_pct"].as_i64()));
    data
}

#[tokio::test]
async fn p23_each_threshold_of_the_allowance_is_told_once_a_month() {
    let server = server(|_| ()).await;
    let receiver = Receiver::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    listen(&subscriber, &receiver, "usage_alert").await;
    let account = subscriber.account.as_str();
    use_up(&server, account, "one", 4_999, Some(10_000)).await;
    // the use "two" passes the thresholds of 50 % and 80 %, the use "three" passes none, and the multiplication below
    // reaches 100 %
    use_up(&server, account, "two", 3_500, Some(10_000)).await;
    use_up(&server, account, "three", 1_496, Some(10_000)).await;
    let told = receiver.wait_for(2).await;
    let of = |threshold: i64, used: i64| {
        json!({
            "threshold_pct": threshold, "monthly_fcu_used": used, "monthly_fcu_limit": 10_000, "estimated_overage_usd": 0,
        })
    };
    assert_eq!(data(&told), [of(50, 8_499), of(80, 8_499)]);
    let test_key = {
        let config = server.running().config();
        let role = control::caller::Role::Developer;
        let made = control::admin::create_key(config, role, Environment::Test, Some(subscriber.account.clone()), None);
        made.await.unwrap().key.to_string()
    };
    let numbers = Numbers::of(&server, test_key, &testing(64, 3)).await;
    let a = numbers.encrypted(&[1.0]).await;
    numbers.compute("multiply", &[&a, &a], json!({"scale_stable": true})).await.ok(200);
    assert_eq!(data(&receiver.wait_for(3).await)[2], of(100, 10_000));
    // as if the plan had changed: half of a larger allowance is used, but 50 % was already reported in this month, so
    // no second alert comes
    use_up(&server, account, "four", 500_000, Some(1_000_000)).await;
    server.clock.advance(Duration::from_secs(31 * 86_400));
    let (_, month) = time_of(&server);
    use_up(&server, account, "five", 5_000, Some(10_000)).await;
    let told = receiver.wait_for(4).await;
    assert_eq!(told.len(), 4, "{month}");
    assert_eq!(told[3].json()["data"], of(50, 5_000));
}

#[tokio::test]
async fn p21_p22_each_threshold_of_a_cap_is_told_once_and_by_e_mail() {
    let mailbox = Mailbox::start().await;
    let url = format!("smtp://{}", mailbox.address);
    let server = server(|config| {
        config.mail = MailConfig {
            smtp_url: Some(control::config::SmtpUrl::of(&url)),
            smtp_from: "Ango <billing@ango.example>".parse().unwrap(),
        };
    })
    .await;
    let receiver = Receiver::start().await;
    let subscriber = Subscriber::new(&server, Plan::Payg).await;
    listen(&subscriber, &receiver, "budget_alert").await;
    let set = async |body: Value| subscriber.send(Request::post("/api/v1/billing/budget", &body)).await.ok(200);
    set(json!({"monthly_cap_usd": 0.01, "alert_email": "ada@example.org", "hard_cap": true})).await;
    mailbox.put_off(1);
    subscriber.use_gates(11).await;
    subscriber.use_gates(1).await;
    let told = receiver.wait_for(1).await;
    let of = |threshold: i64, cap: f64, spent: f64, hard: bool| json!({"threshold_pct": threshold, "monthly_cap_usd": cap, "current_spend_usd": spent, "hard_cap": hard});
    assert_eq!(data(&told), [of(80, 0.01, 0.008, true)]);
    // the mail server refuses the first attempt, and the node sends the e-mail again after half a minute
    subscriber.until(async || mailbox.puts_off(), |puts_off| !puts_off).await;
    let sent = async {
        loop {
            server.clock.advance(Duration::from_secs(31));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mails = tokio::select! { mails = mailbox.wait_for(1) => mails, () = sent => unreachable!() };
    for part in
        ["To: ada@example.org", "From: Ango <billing@ango.example>", "Subject: 80 % of your monthly budget is spent"]
    {
        assert!(mails[0].contains(part), "{part}: {}", mails[0]);
    }
    assert!(mails[0].contains("0.008 USD") && mails[0].contains("cap of 0.01 USD"), "{}", mails[0]);
    subscriber.use_gates(3).await;
    let told = receiver.wait_for(2).await;
    assert_eq!(data(&told)[1], of(100, 0.01, 0.01, true));
    assert!(mailbox.wait_for(2).await[1].contains("100 % of your monthly budget"));
    // the same cap again causes no alert; a new cap that is already reached causes its alerts at once
    set(json!({"monthly_cap_usd": 0.01})).await;
    set(json!({"monthly_cap_usd": 0.005})).await;
    let told = receiver.wait_for(4).await;
    assert_eq!(data(&told)[..2], [of(80, 0.005, 0.01, false), of(100, 0.005, 0.01, false)]);
    // this budget names no e-mail address, so the new alert is sent without an e-mail
    set(json!({"monthly_cap_usd": 0.0101})).await;
    assert_eq!(data(&receiver.wait_for(5).await).len(), 5);
    assert_eq!(mailbox.wait_for(2).await.len(), 2);
}

#[tokio::test]
async fn h19_an_account_that_reaches_the_limit_of_a_day_is_told_once() {
    let server = server(|config| config.plan_limits.of_mut(Plan::Free).requests_a_day = 3).await;
    let receiver = Receiver::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    listen(&subscriber, &receiver, "limit_reached").await;
    let ask = async || subscriber.send(Request::get("/api/v1/webhooks")).await;
    for _ in 0..2 {
        ask().await.ok(200);
    }
    for _ in 0..3 {
        assert_eq!(ask().await.status, 429);
    }
    let told = receiver.wait_for(1).await;
    let tomorrow = {
        let (now, _) = time_of(&server);
        control::clock::Timestamp((now / 86_400_000_000 + 1) * 86_400_000_000).rfc3339()
    };
    let expected = json!({"limit_type": "daily_requests", "limit": 3, "used": 3, "resets_at": tomorrow});
    assert_eq!(told[0].json()["data"], expected);
    server.clock.advance(Duration::from_secs(86_400));
    while ask().await.status == 200 {}
    assert_eq!(receiver.wait_for(2).await.len(), 2);
}
