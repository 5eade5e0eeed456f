//! Subscriptions, invoices and billing months on a node without a payment provider, and refused requests of billing
//! (readings P10-P19, P25, P26, P32).

use std::time::{Duration, Instant};

use api::AccountId;
use api::billing::BillingCycle;
use client::Preset;
use control::admin;
use control::caller::{Environment, Plan, Role};
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use tests_service::gates::{Account, BATCH, open_session};

pub const SUBSCRIBE: &str = "/api/v1/billing/subscribe";
pub const SUBSCRIPTION: &str = "/api/v1/billing/subscription";
pub const INVOICES: &str = "/api/v1/billing/invoices";
pub const PORTAL: &str = "/api/v1/billing/portal";
pub const CHECKOUT: &str = "/api/v1/billing/checkout";
pub const PROVIDER_WEBHOOK: &str = "/api/v1/billing/provider_webhook";

/// An account, and a live key of its administrator.
pub struct Subscriber<'s> {
    pub server: &'s TestServer,
    pub account: AccountId,
    pub key: String,
}

impl<'s> Subscriber<'s> {
    pub async fn new(server: &'s TestServer, plan: Plan) -> Subscriber<'s> {
        let config = server.running().config();
        let made = admin::create_key(config, Role::AccountAdmin, Environment::Live, None, Some(plan)).await.unwrap();
        Subscriber { server, account: made.account_id, key: made.key.to_string() }
    }

    pub async fn send(&self, request: Request) -> Response {
        self.server.send(request.key(&self.key)).await
    }

    pub async fn subscribe(&self, plan: &str, cycle: &str) -> Response {
        let body = json!({"plan": plan, "email": "ada@example.org", "billing_cycle": cycle});
        self.send(Request::post(SUBSCRIBE, &body)).await
    }

    pub async fn cancel(&self) -> Response {
        self.send(Request::delete(SUBSCRIPTION)).await
    }

    pub async fn subscription(&self) -> Value {
        self.send(Request::get(SUBSCRIPTION)).await.ok(200)
    }

    /// Waits until the period that ended at this moment is renewed, before or after its invoice. Returns the end of the next.
    pub async fn period_end_after(&self, end: &str) -> String {
        let read = async || self.subscription().await["current_period_end"].as_str().unwrap().to_owned();
        self.until(read, |found| found != end).await
    }

    pub async fn invoices(&self) -> Vec<Value> {
        self.send(Request::get(INVOICES)).await.ok(200)["invoices"].as_array().unwrap().clone()
    }

    /// Waits until `read` returns a wanted value, and returns that value.
    pub async fn until<T: std::fmt::Debug>(&self, read: impl AsyncFn() -> T, wanted: impl Fn(&T) -> bool) -> T {
        let begun = Instant::now();
        loop {
            let found = read().await;
            if wanted(&found) {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "{found:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the subscription is on this plan with this status.
    pub async fn until_on(&self, plan: &str, status: &str) -> Value {
        self.until(async || self.subscription().await, |found| found["plan"] == plan && found["status"] == status).await
    }

    /// Waits until the node applies this daily limit to the account.
    pub async fn until_limited_to(&self, requests: &str) {
        let limit = async || {
            let answer = self.send(Request::get(SUBSCRIPTION)).await;
            answer.header("x-ratelimit-daily-limit").unwrap_or_default().to_owned()
        };
        self.until(limit, |found| found == requests).await;
    }

    /// Waits until this node has recorded that all months are billed.
    pub async fn until_billed(&self, node: &TestServer) {
        let store = node.running().store();
        let last = control::access::limits::Period::of(node.clock.now()).month - 1;
        self.until(async || store.job_done_through("months").await.unwrap(), |done| *done >= last).await;
    }

    /// Evaluates this many gates in one request.
    pub async fn use_gates(&self, gates: usize) {
        let session = open_session(self.server, &self.key, Preset::Fast128).await;
        let secret = tests_service::keys::of(Preset::Fast128);
        let account = Account { server: self.server, key: self.key.clone(), session, secret };
        account.post(BATCH, &account.batch("NAND", gates)).await.ok(200);
    }
}

/// Moves the server's clock forward to at most one second past a moment. First waits until the server has recorded
/// since when use is billed, because use before that record is never billed.
pub async fn move_to(server: &TestServer, moment: &str) {
    let (store, begun) = (server.running().store(), Instant::now());
    while matches!(store.job_done_through("months").await, Ok(0)) {
        assert!(begun.elapsed() < PATIENCE, "the server has not looked for months to bill");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let day = Duration::from_secs(86_400);
    for step in [day, Duration::from_secs(3600), Duration::from_secs(60), Duration::from_secs(1)] {
        while server.clock.now().plus(step).rfc3339().as_str() <= moment {
            server.clock.advance(step);
        }
    }
    server.clock.advance(Duration::from_secs(1));
}

/// Returns the moment that is this many minutes after another moment, which must be a midnight.
pub fn after(moment: &str, minutes: u32) -> String {
    assert!(minutes < 60 && moment.ends_with("T00:00:00.000Z"));
    moment.replace("T00:00", &format!("T00:{minutes:02}"))
}

#[tokio::test]
async fn p15_without_a_subscription_there_is_the_free_plan() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    let mut told = subscriber.subscription().await;
    let end = told["current_period_end"].take();
    assert!(end.as_str().unwrap().ends_with("-01T00:00:00.000Z"));
    let expected = json!({
        "plan": "free", "status": "active", "current_period_end": null, "monthly_price_usd": 0, "monthly_fcu_limit": 10_000,
        "billing_cycle": "monthly", "annual_discount_pct": 0,
    });
    assert_eq!(told, expected);
    assert_eq!(subscriber.invoices().await, Vec::<Value>::new());
    // P16
    subscriber.cancel().await.error(409, "CONFLICT");
    for role in [Role::Developer, Role::Viewer] {
        let key = server.key(role).await;
        for path in [SUBSCRIPTION, INVOICES] {
            server.send(Request::get(path).key(&key)).await.error(403, "INSUFFICIENT_ROLE");
        }
    }
}

#[tokio::test]
async fn p12_p13_p14_p32_what_cannot_be_subscribed_to_is_refused() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    for plan in ["free", "payg", "trial", "gold", "", "Pro"] {
        subscriber.subscribe(plan, "monthly").await.error(400, "INVALID_PLAN");
    }
    subscriber.subscribe("pro", "weekly").await.error(400, "INVALID_REQUEST");
    let bad = json!({"plan": "pro", "email": "nobody"});
    subscriber.send(Request::post(SUBSCRIBE, &bad)).await.error(400, "INVALID_REQUEST");
    for shape in [json!({}), json!({"plan": "pro"}), json!({"email": "a@b.c"}), json!({"plan": 1, "email": "a@b.c"})] {
        subscriber.send(Request::post(SUBSCRIBE, &shape)).await.error(422, "VALIDATION_ERROR");
    }
    // P14: this plan is agreed on with the operator, so the answer links to the operator's page
    let asked = subscriber.subscribe("enterprise", "monthly").await.ok(200);
    assert_eq!((&asked["plan"], &asked["status"]), (&json!("free"), &json!("active")));
    assert!(asked["checkout_url"].as_str().unwrap().ends_with("/docs"));
    let requests = server.running().store().plan_requests().await.unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].plan, requests[0].email.as_str()), (Plan::Enterprise, "ada@example.org"));
    // P12: use with a test key is free, so a test key cannot change the subscription
    let (test, _) = server.create_key(Role::AccountAdmin, Some(subscriber.account.clone())).await;
    let body = json!({"plan": "pro", "email": "ada@example.org"});
    server.send(Request::post(SUBSCRIBE, &body).key(&test)).await.error(402, "NO_PAYMENT_METHOD");
    assert_eq!(subscriber.subscription().await["plan"], "free");
    // an account whose plan was agreed on with the operator keeps that plan
    let agreed = Subscriber::new(&server, Plan::Enterprise).await;
    agreed.subscribe("starter", "monthly").await.error(409, "CONFLICT");
    assert_eq!(agreed.subscription().await["monthly_fcu_limit"], json!(9_007_199_254_740_991_u64));
}

#[tokio::test]
async fn p13_who_leaves_pay_as_you_go_is_on_the_free_plan_at_once() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Payg).await;
    let told = subscriber.subscription().await;
    assert_eq!((&told["plan"], &told["monthly_fcu_limit"]), (&json!("payg"), &json!(9_007_199_254_740_991_u64)));
    assert_eq!(subscriber.cancel().await.ok(200)["status"], "cancelled");
    assert_eq!(subscriber.subscription().await["plan"], "free");
    subscriber.cancel().await.error(409, "CONFLICT");
}

#[tokio::test]
async fn p11_p16_p17_p19_a_subscription_begins_rises_falls_ends_and_is_taken_up_again() {
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    let told = subscriber.subscribe("starter", "monthly").await.ok(200);
    assert_eq!(
        (&told["plan"], &told["monthly_price_usd"], &told["status"]),
        (&json!("starter"), &json!(9), &json!("active"))
    );
    assert_eq!(told.get("checkout_url"), None);
    assert_eq!(subscriber.subscription().await, told);
    // a higher plan applies at once
    let told = subscriber.subscribe("scale", "monthly").await.ok(200);
    assert_eq!((&told["plan"], &told["monthly_fcu_limit"]), (&json!("scale"), &json!(100_000_000)));
    // a lower plan and the annual cycle apply at the end of the period
    let told = subscriber.subscribe("pro", "annual").await.ok(200);
    let end = told["current_period_end"].as_str().unwrap().to_owned();
    assert_eq!((&told["plan"], &told["scheduled_plan"]), (&json!("scale"), &json!("pro")));
    assert_eq!((&told["scheduled_at"], &told["scheduled_billing_cycle"]), (&json!(end), &json!("annual")));
    assert_eq!(subscriber.subscribe("pro", "annual").await.ok(200), told);
    // cancel the subscription twice, then resume it; the cancellation also removes the scheduled change
    for _ in 0..2 {
        let cancelled = subscriber.cancel().await.ok(200);
        assert_eq!(cancelled, json!({"status": "cancelled", "current_period_end": end}));
    }
    let told = subscriber.subscription().await;
    assert_eq!(
        (&told["plan"], &told["status"], told.get("scheduled_plan")),
        (&json!("scale"), &json!("cancelled"), None)
    );
    let told = subscriber.subscribe("pro", "annual").await.ok(200);
    assert_eq!((&told["status"], &told["scheduled_plan"]), (&json!("active"), &json!("pro")));
    // P10: the price of a month is the one that is valid when the month begins
    move_to(&server, &end).await;
    let told = subscriber.until_on("pro", "active").await;
    assert_eq!((&told["monthly_price_usd"], &told["annual_discount_pct"]), (&json!(40.67), &json!(17)));
    assert_eq!((&told["billing_cycle"], told.get("scheduled_plan")), (&json!("annual"), None));
    let year: i64 = end[..4].parse().unwrap();
    assert_eq!(told["current_period_end"], json!(format!("{}{}", year + 1, &end[4..])));
    subscriber.cancel().await.ok(200);
    move_to(&server, told["current_period_end"].as_str().unwrap()).await;
    let told = subscriber.until_on("free", "active").await;
    assert_eq!((&told["billing_cycle"], &told["monthly_price_usd"]), (&json!("monthly"), &json!(0)));
    subscriber.cancel().await.error(409, "CONFLICT");
}

#[tokio::test]
async fn p15_a_subscription_is_told_as_it_was_at_one_time() {
    const CHANGES: usize = 150;
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    subscriber.subscribe("starter", "monthly").await.ok(200);
    let store = server.running().store();
    let account = subscriber.account.as_str();
    let change = async {
        for i in 0..CHANGES {
            let found = store.subscription(account).await.unwrap().unwrap();
            let (plan, cycle) = [(Plan::Pro, BillingCycle::Annual), (Plan::Starter, BillingCycle::Monthly)][i % 2];
            let changed = store::Subscription { plan, billing_cycle: cycle, ..found };
            let put = async |tx: &mut store::Tx| tx.put_subscription(&changed).await;
            store.write(put).await.unwrap().expect("nobody else changes the subscription");
            tokio::task::yield_now().await;
        }
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let read = async || {
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let told = subscriber.subscription().await;
            let expected = if told["plan"] == "pro" { ("annual", 40.67) } else { ("monthly", 9.0) };
            assert_eq!(
                (&told["billing_cycle"], told["monthly_price_usd"].as_f64()),
                (&json!(expected.0), Some(expected.1))
            );
        }
    };
    let change = async {
        change.await;
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    tokio::join!(change, read(), read(), read());
}

#[tokio::test]
async fn p11_a_higher_plan_adds_its_units_for_the_rest_of_the_month() {
    use control::access::limits::{Period, month_start};
    let server = TestServer::start().await;
    let subscriber = Subscriber::new(&server, Plan::Free).await;
    let limit = async || {
        let month = Period::of(server.clock.now()).month;
        let plan = subscriber.subscription().await["monthly_fcu_limit"].as_i64().unwrap();
        server.running().store().month_allowance(subscriber.account.as_str(), month).await.unwrap().unwrap_or(plan)
    };
    // the tenth day of a month
    let end = subscriber.subscription().await["current_period_end"].as_str().unwrap().to_owned();
    move_to(&server, &end).await;
    server.clock.advance(Duration::from_secs(9 * 86_400));
    let month = Period::of(server.clock.now()).month;
    let rest = || {
        let (start, end) = (month_start(month).0, month_start(month + 1).0);
        (end - server.clock.now().0) as f64 / (end - start) as f64
    };
    assert_eq!(limit().await, 10_000);
    let before = rest();
    subscriber.subscribe("starter", "monthly").await.ok(200);
    let added = (limit().await - 10_000) as f64 / 990_000.0;
    assert!(rest() <= added && added <= before + 1e-5, "{added}");
    let (with_starter, before) = (limit().await, rest());
    subscriber.subscribe("pro", "monthly").await.ok(200);
    let added = (limit().await - with_starter) as f64 / 19_000_000.0;
    assert!(rest() <= added && added <= before + 1e-5, "{added}");
    // a repetition adds nothing
    let with_pro = limit().await;
    subscriber.subscribe("pro", "monthly").await.ok(200);
    assert_eq!(limit().await, with_pro);
    // the next month has all units of the plan
    let end = subscriber.subscription().await["current_period_end"].as_str().unwrap().to_owned();
    move_to(&server, &end).await;
    assert_eq!(limit().await, 20_000_000);
}

#[tokio::test]
async fn p9_p19_p25_a_month_is_billed_once_with_its_fees_and_what_was_used() {
    let server = TestServer::start().await;
    // set the clock to the beginning of a month, because the fee for the rest of a month depends on the day
    let first = Subscriber::new(&server, Plan::Free).await.subscription().await;
    move_to(&server, first["current_period_end"].as_str().unwrap()).await;
    let subscriber = Subscriber::new(&server, Plan::Payg).await;
    let idle = Subscriber::new(&server, Plan::Free).await;
    let month = server.clock.now().rfc3339()[..7].to_owned();
    let told = subscriber.subscribe("pro", "monthly").await.ok(200);
    // P21: alerts go to the billing contact unless the budget contains another address
    let budget = Request::post("/api/v1/billing/budget", &json!({"monthly_cap_usd": 100}));
    assert_eq!(subscriber.send(budget).await.ok(200)["alert_email"], "ada@example.org");
    for _ in 0..5 {
        subscriber.use_gates(1000).await;
    }
    let end = told["current_period_end"].as_str().unwrap().to_owned();
    move_to(&server, &end).await;
    // no invoice yet: the node waits until operations that were accepted in the month have ended
    assert_eq!(subscriber.invoices().await, Vec::<Value>::new());
    move_to(&server, &after(&end, 11)).await;
    let invoices = subscriber.until(async || subscriber.invoices().await, |found| !found.is_empty()).await;
    assert_eq!(invoices.len(), 1);
    let invoice = &invoices[0];
    // 5000 gates, 1000 in a request, cost 0.07 yen each: 350 yen, 2.33 dollars at 150 yen a dollar
    assert_eq!((&invoice["amount_usd_cents"], &invoice["status"]), (&json!(4_900 + 233), &json!("open")));
    assert_eq!((&invoice["period"], &invoice["paid_at"]), (&json!(month), &Value::Null));
    assert_eq!(idle.invoices().await, Vec::<Value>::new());
    // the page of the invoice is shown only at its exact address
    let url = invoice["provider_invoice_url"].as_str().unwrap();
    let path = &url[url.find("/invoices/").unwrap()..];
    let page = server.send(Request::get(path)).await;
    assert_eq!(page.status, 200);
    for part in ["Plan pro, monthly", "49.00 USD", "2.33 USD", "51.33 USD", "open"] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    let wrong = if path.ends_with('0') { "1" } else { "0" };
    for path in [format!("{}{wrong}", &path[..path.len() - 1]), format!("{path}00"), "/invoices/inv_1/zz".to_owned()] {
        server.send(Request::get(path)).await.error(404, "NOT_FOUND");
    }
    // the next month's invoice has only the fee
    move_to(&server, &after(&subscriber.period_end_after(&end).await, 11)).await;
    let invoices = subscriber.until(async || subscriber.invoices().await, |found| found.len() > 1).await;
    assert_eq!((&invoices[0]["amount_usd_cents"], &invoices[1]), (&json!(4_900), invoice));
    let audit = server.running().store().audit_ledger(server.clock.now().0).await.unwrap();
    assert_eq!((audit.open, audit.findings), (0, vec![]));
}

#[tokio::test]
async fn p19_p26_without_a_provider_there_are_no_portal_and_no_checkout() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let send = async |path: &str, body: Value, token: &str| server.send(Request::post(path, &body).key(token)).await;
    send(PORTAL, json!({"return_url": "https://evil.example/"}), &user.token)
        .await
        .error(400, "RETURN_URL_NOT_ALLOWED");
    send(PORTAL, json!({}), &user.token).await.error(422, "VALIDATION_ERROR");
    let local = json!({"return_url": "http://localhost:3000/"});
    send(PORTAL, local.clone(), &user.token).await.error(403, "BILLING_PORTAL_DISABLED");
    send(CHECKOUT, json!({"plan": "payg"}), &user.token).await.error(502, "PROVIDER_UNAVAILABLE");
    send(CHECKOUT, json!({"plan": "enterprise"}), &user.token).await.error(400, "INVALID_PLAN");
    send(CHECKOUT, json!({"plan": "pro", "billing_cycle": "daily"}), &user.token).await.error(400, "INVALID_REQUEST");
    // routes for signed-in users refuse an API key
    let key = server.key(Role::AccountAdmin).await;
    send(PORTAL, local, &key).await.error(401, "INVALID_SESSION_TOKEN");
    let forged = Request::new("POST", PROVIDER_WEBHOOK).body("application/json", "{}");
    server.send(forged).await.error(400, "INVALID_SIGNATURE");
    let health = server.send(Request::get("/api/v1/health")).await.ok(200);
    assert!(!health["dependencies"].to_string().contains("provider"), "{health}");
}

#[tokio::test]
async fn p10_two_nodes_end_a_month_together_and_bill_it_once() {
    let Some((one, other)) = TestServer::pair(|_| ()).await else { return };
    let subscriber = Subscriber::new(&one, Plan::Free).await;
    let told = subscriber.subscribe("starter", "monthly").await.ok(200);
    let end = told["current_period_end"].as_str().unwrap();
    // while the first node ends the month, the other node's clock is still in that month
    move_to(&one, &after(end, 11)).await;
    subscriber.until(async || subscriber.invoices().await, |found| !found.is_empty()).await;
    move_to(&other, &after(end, 11)).await;
    subscriber.until_billed(&other).await;
    let invoices = subscriber.until(async || subscriber.invoices().await, |found| !found.is_empty()).await;
    assert_eq!(invoices.len(), 1);
    let on_other = Subscriber { server: &other, account: subscriber.account.clone(), key: subscriber.key.clone() };
    assert_eq!(on_other.invoices().await, invoices);
    let renewed = subscriber.until_on("starter", "active").await;
    assert_ne!(renewed["current_period_end"], told["current_period_end"]);
    let store = one.running().store();
    let items = store.open_items(subscriber.account.as_str(), i64::MAX).await.unwrap();
    assert_eq!(items.iter().map(|item| item.amount_usd_cents).collect::<Vec<_>>(), [900]);
}
