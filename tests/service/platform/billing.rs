//! Payment for use: gates in yen, compute units beyond the plan's allowance in dollars, and caps on the spending for
//! gates and compute units (readings P2-P10, P20-P24, P32, P33).

use std::time::Duration;

use api::AccountId;
use client::Preset;
use control::admin;
use control::caller::{Environment, Plan, Role};
use serde_json::{Value, json};
use store::{BeyondAllowance, NewReservation, Reserved, Wanted};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use crate::numbers::{Numbers, testing};
use tests_service::gates::{Account, BATCH, CIRCUITS, GATE, and_netlist, open_session};

const BUDGET: &str = "/api/v1/billing/budget";
const USAGE: &str = "/api/v1/billing/usage";

/// A user's account, with a session token and with a key whose use is charged.
struct Customer<'s> {
    server: &'s TestServer,
    token: String,
    account: AccountId,
    key: String,
}

impl<'s> Customer<'s> {
    async fn new(server: &'s TestServer, plan: Plan) -> Customer<'s> {
        let user = server.user("ada@example.org", Role::AccountAdmin).await;
        server.operator().await.set_plan(&user.account, plan).await.unwrap();
        // the user signs in again, because the first token contains the old plan
        let user = server.log_in("ada@example.org").await;
        let mut customer = Customer { server, token: user.token, account: user.account, key: String::new() };
        customer.key = customer.other_key(Environment::Live).await;
        customer
    }

    async fn other_key(&self, environment: Environment) -> String {
        let (config, account) = (self.server.running().config(), Some(self.account.clone()));
        admin::create_key(config, Role::AccountAdmin, environment, account, None).await.unwrap().key.to_string()
    }

    /// Opens a session of the customer.
    async fn session(&self) -> Account<'s> {
        let (server, key) = (self.server, self.key.clone());
        let session = open_session(server, &key, Preset::Fast128).await;
        Account { server, key, session, secret: tests_service::keys::of(Preset::Fast128) }
    }

    async fn set_budget(&self, body: Value) -> Response {
        self.server.send(Request::post(BUDGET, &body).key(&self.key)).await
    }

    async fn budget(&self) -> Value {
        self.server.send(Request::get(BUDGET).key(&self.key)).await.ok(200)
    }

    async fn usage(&self) -> Value {
        self.server.send(Request::get(USAGE).key(&self.token)).await.ok(200)
    }

    /// Checks that all sums agree and that no reservation is open.
    async fn audited(&self) {
        let audit = self.server.running().store().audit_ledger(self.server.clock.now().0).await.unwrap();
        assert_eq!((audit.open, audit.findings), (0, vec![]));
    }
}

#[tokio::test]
async fn p3_p8_p33_the_fifteenth_gate_fits_under_a_cap_of_one_cent_and_the_sixteenth_does_not() {
    let server = TestServer::start().await;
    let customer = Customer::new(&server, Plan::Payg).await;
    customer.set_budget(json!({"monthly_cap_usd": 0.01, "hard_cap": true})).await.ok(200);
    let account = customer.session().await;
    // a circuit reserves its whole price before its first gate: ten gates fit under the cap, and ten more do not
    let ten = account.circuit(&and_netlist(10), json!([account.value(&[true; 20])]));
    account.post(CIRCUITS, &ten).await.ok(200);
    account.post(CIRCUITS, &ten).await.error(402, "BUDGET_HARD_CAP_HIT");
    let gate = account.gate("NAND", true, Some(true), None);
    for _ in 0..5 {
        account.post(GATE, &gate).await.ok(200);
    }
    let refused = account.post(GATE, &gate).await.error(402, "BUDGET_HARD_CAP_HIT");
    assert!(refused["message"].as_str().unwrap().contains("0.01 USD"), "{refused}");
    account.post(BATCH, &account.batch("NAND", 2)).await.error(402, "BUDGET_HARD_CAP_HIT");
    // NOT is free, so it still runs
    account.post(GATE, &account.gate("NOT", true, None, None)).await.ok(200);
    let budget = customer.budget().await;
    assert_eq!((&budget["current_spend_usd"], &budget["monthly_cap_usd"]), (&json!(0.01), &json!(0.01)));
    assert_eq!(budget["alerts_sent"], json!(["80%", "100%"]));
    // P3, P33
    let usage = customer.usage().await;
    assert_eq!(usage["by_operation"], json!({"gate_and": 10, "gate_nand": 5, "gate_not": 1}));
    assert_eq!((&usage["operations_total"], &usage["monthly_fcu_used"]), (&json!(16), &json!(0)));
    assert_eq!((&usage["estimated_cost_usd"], &usage["overage_cost_usd"]), (&json!(0.01), &json!(0)));
    customer.audited().await;
}

#[tokio::test]
async fn p24_a_circuit_whose_reservation_is_lost_while_it_runs_is_told_as_failed() {
    let server = TestServer::start().await;
    let customer = Customer::new(&server, Plan::Payg).await;
    let account = customer.session().await;
    let mut circuit = account.circuit(&and_netlist(1024), json!([account.value(&[true; 2048])]));
    circuit["mapping"] = json!("none");
    let op_id = account.begin(&circuit).await;
    // as if another node had considered this node lost
    let store = server.running().store();
    let node_id = std::fs::read_to_string(server.running().config().data_dir.join("node-id")).unwrap();
    let lost = store.reservations_of_node(&node_id, "", 9).await.unwrap();
    assert_eq!(lost.len(), 1);
    store.void_reservation(&lost[0].transfer_id, &lost[0].account_id, server.clock.now().0).await.unwrap();
    let end = account.ended(&op_id).await;
    assert_eq!((&end["status"], &end["cost_jpy"], &end["outputs"]), (&json!("failed"), &json!(0), &json!(null)));
    assert_eq!(end["error"]["code"], json!("SERVICE_UNAVAILABLE"));
    account.nothing_charged().await;
    customer.audited().await;
    server.metric_becomes("ango_value_bytes", |bytes| bytes == 0.0).await;
}

#[tokio::test]
async fn p8_of_forty_gates_at_once_fifteen_pass_a_cap_of_one_cent() {
    let server = TestServer::start().await;
    let customer = Customer::new(&server, Plan::Payg).await;
    customer.set_budget(json!({"monthly_cap_usd": 0.01, "allow_soft_overage": false})).await.ok(200);
    let account = customer.session().await;
    let gate = Request::post(GATE, &account.gate("NAND", true, Some(true), None)).key(&account.key);
    let (address, mut asked) = (server.address, tokio::task::JoinSet::new());
    for _ in 0..40 {
        let gate = gate.clone();
        asked.spawn(async move { gate.send(address).await });
    }
    let mut passed = 0;
    while let Some(answer) = asked.join_next().await {
        let answer = answer.unwrap();
        match answer.status {
            200 => passed += 1,
            _ => drop(answer.error(402, "BUDGET_HARD_CAP_HIT")),
        }
    }
    assert_eq!((passed, customer.budget().await["current_spend_usd"].clone()), (15, json!(0.01)));
    customer.audited().await;
}

#[tokio::test]
async fn p4_p5_gates_of_free_plans_and_of_test_keys_are_shown_with_their_cost_and_not_charged() {
    let server = TestServer::start().await;
    let customer = Customer::new(&server, Plan::Free).await;
    let account = customer.session().await;
    let told = account.post(GATE, &account.gate("XOR", true, Some(true), None)).await.ok(200);
    assert_eq!(told["cost_jpy"], json!(0.4));
    let usage = customer.usage().await;
    assert_eq!((&usage["operations_total"], &usage["estimated_cost_usd"]), (&json!(1), &json!(0)));
    assert_eq!(usage["monthly_fcu_limit"], json!(10_000));

    server.running().store().grant_plan(customer.account.as_str(), Plan::Pro, 1).await.unwrap();
    let test = Customer { key: customer.other_key(Environment::Test).await, ..customer };
    let account = test.session().await;
    account.post(GATE, &account.gate("XOR", true, Some(true), None)).await.ok(200);
    let usage = server.log_in("ada@example.org").await;
    let usage = server.send(Request::get(USAGE).key(&usage.token)).await.ok(200);
    // 49 dollars are the plan's monthly price; operations with a test key add no cost
    assert_eq!((&usage["operations_total"], &usage["estimated_cost_usd"]), (&json!(2), &json!(49)));
    assert_eq!(test.budget().await["current_spend_usd"], json!(0));
    test.audited().await;
}

/// Reserves and charges compute units, in a ledger transfer with this name.
pub async fn use_up(server: &TestServer, account_id: &str, name: &str, fcu: i64, allowance: Option<i64>) {
    let store = server.running().store();
    let (now, month) = time_of(server);
    let (transfer_id, account_id) = (format!("xfr_{name}"), account_id.to_owned());
    let reservation = NewReservation {
        transfer_id: transfer_id.clone(),
        account_id: account_id.clone(),
        node_id: "node_before".to_owned(),
        month,
        usd_milli_jpy: 150_000,
        created_at: now,
        wanted: Wanted::Fcu { fcu, allowance: None, beyond: BeyondAllowance::Free },
    };
    assert!(matches!(store.reserve(reservation).await.unwrap(), Reserved::Made(_)));
    let usage = store::ArithmeticUsage {
        usage_id: format!("use_{name}"),
        transfer_id: Some(transfer_id.clone()),
        account_id: account_id.clone(),
        key_id: "key_before".to_owned(),
        environment: Environment::Test,
        operation: "matmul".to_owned(),
        fcu,
        cost_nano_usd: 2_000 * fcu,
        usd_milli_jpy: 150_000,
        compute_us: 1,
        created_at: now,
    };
    let operations = vec![("matmul".to_owned(), 1)];
    let counts = Some(store::OperationCounts { account_id: account_id.clone(), month, operations });
    let posting = Some(store::Posting { transfer_id, account_id, allowance, nano_usd_of_unit: 0, at: now });
    store
        .submit(store::Unit { posting, counts, arithmetic_charge: Some(usage), ..store::Unit::default() })
        .await
        .unwrap();
}

/// Returns the present moment on the server's clock, and the number of the moment's month.
pub fn time_of(server: &TestServer) -> (i64, i64) {
    let now = server.clock.now();
    let text = now.rfc3339();
    let (year, month): (i64, i64) = (text[..4].parse().unwrap(), text[5..7].parse().unwrap());
    (now.0, year * 12 + month - 1)
}

#[tokio::test]
async fn p6_a_free_plan_ends_at_its_allowance_and_a_paid_one_goes_on_for_money() {
    let server = TestServer::start().await;
    let customer = Customer::new(&server, Plan::Free).await;
    // only a test key may have testing parameters
    let numbers = Numbers::of(&server, customer.other_key(Environment::Test).await, &testing(64, 3)).await;
    let a = numbers.encrypted(&[1.0]).await;
    let numbers = Numbers { key: customer.key.clone(), ..numbers };
    use_up(&server, customer.account.as_str(), "before", 9_996, None).await;
    let stable = json!({"scale_stable": true});
    numbers.compute("multiply", &[&a, &a], stable.clone()).await.error(402, "QUOTA_EXCEEDED");
    // P11: a month may have an allowance of its own, which the error and the usage name
    let (store, (_, month)) = (server.running().store(), time_of(&server));
    let account = customer.account.as_str();
    store.write(async |tx| tx.put_month_allowance(account, month, 9_996).await).await.unwrap();
    let refused = numbers.compute("add", &[&a, &a], json!({})).await.error(402, "QUOTA_EXCEEDED");
    assert!(refused["message"].as_str().unwrap().contains("of the 9996 that this month includes"), "{refused}");
    assert_eq!(customer.usage().await["monthly_fcu_limit"], json!(9_996));
    store.write(async |tx| tx.forget_month_allowance(account, month).await).await.unwrap();
    numbers.compute("add", &[&a, &a], json!({})).await.ok(200);
    let usage = customer.usage().await;
    assert_eq!((&usage["monthly_fcu_used"], &usage["overage_fcu"]), (&json!(9_997), &json!(0)));
    assert_eq!(usage["by_operation"], json!({"add": 1, "matmul": 1}));

    // the next use is on the plan `payg`, which has no allowance, so all its units are paid
    server.running().store().grant_plan(customer.account.as_str(), Plan::Payg, 1).await.unwrap();
    let key = customer.other_key(Environment::Live).await;
    let numbers = Numbers { key, ..numbers };
    // C2: the answer has the price. P10: the price is in yen at the present rate
    let told = numbers.compute("multiply", &[&a, &a], stable).await.ok(200);
    assert_eq!((&told["cost_units"], told["cost_jpy"].to_string().as_str()), (&json!(5), "0.0015"));
    let token = server.log_in("ada@example.org").await.token;
    let usage = server.send(Request::get(USAGE).key(&token)).await.ok(200);
    assert_eq!((&usage["monthly_fcu_used"], &usage["overage_fcu"]), (&json!(10_002), &json!(5)));
    assert_eq!(
        (usage["overage_cost_usd"].as_f64(), &usage["estimated_cost_usd"]),
        (Some(0.000_01), &usage["overage_cost_usd"])
    );
    assert_eq!(usage["monthly_fcu_limit"], json!(9_007_199_254_740_991_u64));
    customer.audited().await;
}

#[tokio::test]
async fn p10_a_month_begins_at_midnight_utc_with_nothing_spent() {
    let server = TestServer::start().await;
    let customer = Customer::new(&server, Plan::Payg).await;
    customer.set_budget(json!({"monthly_cap_usd": 0.01, "hard_cap": true})).await.ok(200);
    let account = customer.session().await;
    account.post(BATCH, &account.batch("NAND", 15)).await.ok(200);
    let gate = account.gate("NAND", true, Some(true), None);
    account.post(GATE, &gate).await.error(402, "BUDGET_HARD_CAP_HIT");
    let usage = customer.usage().await;
    let end = usage["period_end"].as_str().unwrap().to_owned();
    assert!(
        end.ends_with("-01T00:00:00.000Z") && usage["period_start"].as_str().unwrap().ends_with("-01T00:00:00.000Z")
    );
    // move the clock past the end of the month
    while server.clock.now().rfc3339() < end {
        server.clock.advance(Duration::from_secs(3600));
    }
    let token = server.log_in("ada@example.org").await.token;
    let usage = server.send(Request::get(USAGE).key(&token)).await.ok(200);
    assert_eq!((&usage["operations_total"], &usage["period_start"]), (&json!(0), &json!(end)));
    let account = customer.session().await;
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
    assert_eq!(customer.budget().await["current_spend_usd"].as_f64(), Some(0.000_666_667));
    customer.audited().await;
}

#[tokio::test]
async fn p20_p21_p22_a_budget_is_shown_replaced_and_refused() {
    let server = TestServer::start().await;
    let customer = Customer::new(&server, Plan::Payg).await;
    let none = json!({
        "monthly_cap_usd": 0, "current_spend_usd": 0, "alert_email": "", "hard_cap": false, "allow_soft_overage": true,
        "alerts_sent": [], "next_alert_threshold_pct": 80,
    });
    assert_eq!(customer.budget().await, none);
    let full = json!({
        "monthly_cap_usd": 50.5, "alert_email": "Ada@Example.org", "hard_cap": true, "allow_soft_overage": false,
    });
    let set = customer.set_budget(full).await.ok(200);
    assert_eq!((&set["monthly_cap_usd"], &set["alert_email"]), (&json!(50.5), &json!("ada@example.org")));
    assert_eq!(customer.budget().await, set);
    // a new budget replaces the old one; absent members get their defaults
    let set = customer.set_budget(json!({"monthly_cap_usd": 1_000_000_000})).await.ok(200);
    assert_eq!(
        (&set["hard_cap"], &set["allow_soft_overage"], &set["alert_email"]),
        (&json!(false), &json!(true), &json!(""))
    );
    for cap in [0.0, -1.0, 1_000_000_000.1, 1e300, 1e-12] {
        customer.set_budget(json!({"monthly_cap_usd": cap})).await.error(400, "INVALID_PARAMS");
    }
    let bad = json!({"monthly_cap_usd": 1, "alert_email": "nobody"});
    customer.set_budget(bad).await.error(400, "INVALID_REQUEST");
    for shape in [json!({}), json!({"monthly_cap_usd": "1"}), json!({"monthly_cap_usd": 1, "hard_cap": 1})] {
        customer.set_budget(shape).await.error(422, "VALIDATION_ERROR");
    }
    assert_eq!(customer.budget().await, set);
    // 12 gates of 0.1 yen cost 0.8 cents, 80 percent of the cap
    customer.set_budget(json!({"monthly_cap_usd": 0.01})).await.ok(200);
    let account = customer.session().await;
    account.post(BATCH, &account.batch("NAND", 12)).await.ok(200);
    let reached = customer.budget().await;
    assert_eq!((&reached["alerts_sent"], &reached["next_alert_threshold_pct"]), (&json!(["80%"]), &json!(100)));
    // P7: a soft cap does not block
    account.post(BATCH, &account.batch("NAND", 12)).await.ok(200);
    assert_eq!(customer.budget().await["alerts_sent"], json!(["80%", "100%"]));
    // a developer's key is not allowed to read the budget, and an API key is not allowed to read the usage
    let developer = server.key(Role::Developer).await;
    server.send(Request::get(BUDGET).key(&developer)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(Request::get(USAGE).key(&customer.key)).await.error(401, "INVALID_SESSION_TOKEN");
}

#[tokio::test]
async fn p24_work_that_fails_is_given_back() {
    let server = TestServer::with(|config| config.requests.deadline = Duration::from_micros(1)).await;
    let customer = Customer::new(&server, Plan::Payg).await;
    let account = customer.session().await;
    account.post(BATCH, &account.batch("NAND", 15)).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(customer.budget().await["current_spend_usd"], json!(0));
    customer.audited().await;
    let audit = server.running().store().audit_ledger(server.clock.now().0).await.unwrap();
    assert_eq!((audit.transfers, audit.balances), (1, 1));
}
