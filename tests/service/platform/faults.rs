//! A database that fails under a running node: requests get 503, nothing is half done, and the node recovers without a
//! restart (readings E8, O2).

use std::time::{Duration, Instant};

use client::Preset;
use control::admin::lockouts::LockoutChoice;
use control::caller::{Environment, PlanLimits, Role};
use serde_json::json;
use store::Store;
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::wire::Wire;
use tests_store::Kind;

use tests_service::gates::{Account, GATE, SESSION, SESSIONS};

#[tokio::test]
async fn e8_a_database_that_goes_away_is_503_and_comes_back_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let (wire, through_wire) = Wire::to(&url, folder.path());
    let server = TestServer::with(|config| config.database_url = through_wire).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = account.gate("NAND", true, Some(true), None);
    account.post(GATE, &gate).await.ok(200);
    let healthy = server.send(Request::get("/api/v1/health")).await.ok(200);
    assert_eq!((&healthy["dependencies"][0]["name"], &healthy["storage"]), (&json!("postgres"), &json!(null)));

    wire.down();
    for _ in 0..3 {
        account.post(GATE, &gate).await.error(503, "SERVICE_UNAVAILABLE");
        account.send(Request::get(account.path(""))).await.error(503, "SERVICE_UNAVAILABLE");
    }
    // the node relies on a successful probe of the database for two seconds, so health may report the fault only after
    // that; the report has as many members as that of a healthy node
    let started = Instant::now();
    let down = loop {
        let answer = server.send(Request::get("/api/v1/health")).await;
        assert!(started.elapsed() < PATIENCE, "health did not change");
        if answer.status == 503 {
            break answer.json();
        }
    };
    let (status, dependency) = (&down["status"], &down["dependencies"][0]);
    assert_eq!((status, &dependency["status"]), (&json!("unavailable"), &json!("unavailable")));
    assert_eq!((dependency["latency_ms"].is_null(), dependency["error"].is_string()), (true, true));
    assert_eq!(down.as_object().unwrap().len(), healthy.as_object().unwrap().len());

    wire.up();
    let answer = account.post(GATE, &gate).await.ok(200);
    assert!(!account.decrypt(&answer["result_b64"]));
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(2), &json!(0.2)));
}

#[tokio::test]
async fn l10_without_the_database_a_node_counts_and_locks_by_itself_and_lets_nothing_pass_that_costs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let (wire, through_wire) = Wire::to(&url, folder.path());
    let server = TestServer::with(|config| {
        config.database_url = through_wire;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        let few = PlanLimits {
            requests_a_day: 6,
            requests_a_month: 100,
            burst_a_second: 1000,
            ..config.plan_limits.anonymous
        };
        config.plan_limits.anonymous = few;
    })
    .await;
    let trial = server.send(Request::new("POST", "/api/v1/onboarding/temp-key")).await.ok(200);
    let trial = trial["key"].as_str().unwrap();
    let opened = server.send(Request::post(SESSION, &json!({"preset": "fast_128"})).key(trial)).await.ok(201);
    let session = opened["session_id"].as_str().unwrap();
    let encrypt = Request::post(format!("{SESSION}/{session}/encrypt"), &json!({"bit": true})).key(trial);
    let bit = &server.send(encrypt).await.ok(200)["ciphertext_b64"];
    let gate = json!({"session_id": session, "op": "NAND", "a": bit, "b": bit});
    let gate = Request::post(GATE, &gate).key(trial);
    server.send(gate.clone()).await.ok(200);
    let keys = server.running().store().api_keys().await.unwrap();
    let account = &keys.iter().find(|key| key.environment == Environment::Trial).unwrap().account_id;
    let public = Request::get("/api/v1/models").header("X-Forwarded-For", "192.0.2.1");
    for _ in 0..2 {
        server.send(public.clone()).await.ok(200);
    }

    wire.down();
    // a trial's gate needs the database, which counts and charges the trial's operations
    server.send(gate.clone()).await.error(503, "SERVICE_UNAVAILABLE");
    // the network has four of its six requests of this day left; the node admits these four, and no more
    for _ in 0..4 {
        server.send(public.clone()).await.ok(200);
    }
    server.send(public.clone()).await.error(429, "RATE_LIMITED");
    let attempt = async |number: usize| {
        let from = format!("198.51.100.{number}");
        server.send(Request::get(SESSIONS).key("nonsense").header("X-Forwarded-For", &from)).await
    };
    for number in 0..10 {
        attempt(number).await.error(401, "INVALID_API_KEY");
    }
    attempt(10).await.error(429, "BRUTE_FORCE_LOCKOUT");

    wire.up();
    // the first requests may fail, because the node notices only when it uses a connection that the connection is
    // broken
    let started = Instant::now();
    while server.send(gate.clone()).await.status != 200 {
        assert!(started.elapsed() < PATIENCE, "the node did not reach its database again");
    }
    let store = server.running().store();
    assert_eq!(store.trial(account).await.unwrap().unwrap().operations_used, 2);
    assert_eq!(store.gate_usage_totals(account).await.unwrap().0, 2);
    server.send(public).await.error(429, "RATE_LIMITED");
    // the node writes its lock to the database; when it reads the database again, it learns that the lock was cleared
    let operator = server.operator().await;
    while operator.lockouts().await.unwrap().is_empty() {
        assert!(started.elapsed() < PATIENCE, "the lock was not written");
    }
    operator.clear_lockouts(server.running().config(), &LockoutChoice::All).await.unwrap();
    while attempt(11).await.status == 429 {
        assert!(started.elapsed() < PATIENCE, "the lock did not end");
    }
}

#[tokio::test]
async fn g3_keys_are_erased_while_the_database_hangs_and_it_hears_of_it_later() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let (wire, through_wire) = Wire::to(&url, folder.path());
    let server = TestServer::with(|config| config.database_url = through_wire).await;
    let key = server.key(Role::Developer).await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let open = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key);
        sessions.push(server.send(open).await.ok(201)["session_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(server.metric("ango_sessions").await, 8.0);

    wire.silent();
    server.clock.advance(server.running().config().sessions.ttl);
    // all keys are removed while the database is still silent, so their removal does not wait for the database
    server.metric_becomes("ango_sessions", |sessions| sessions == 0.0).await;
    server.metric_becomes("ango_key_bytes", |bytes| bytes == 0.0).await;

    wire.up();
    let ended = async |session: &str| {
        server.send(Request::get(format!("{SESSION}/{session}")).key(&key)).await.error(410, "SESSION_EXPIRED");
    };
    for session in &sessions {
        ended(session).await;
    }
}

#[tokio::test]
async fn a_database_that_hangs_is_503_and_the_node_still_answers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let (wire, through_wire) = Wire::to(&url, folder.path());
    let server = TestServer::with(|config| config.database_url = through_wire).await;
    let list = Request::get(SESSIONS).key(&server.key(Role::AccountAdmin).await);
    server.send(list.clone()).await.ok(200);
    wire.silent();
    // a call to the silent database times out
    server.send(list.clone()).await.error(503, "SERVICE_UNAVAILABLE");
    // these requests need no database, because the node itself counts the requests of callers without a key
    for _ in 0..3 {
        server.send(Request::get("/api/v1/tfhe/pricing")).await.ok(200);
    }
    wire.up();
    let started = Instant::now();
    while server.send(list.clone()).await.status != 200 {
        assert!(started.elapsed() < PATIENCE, "the node did not reach its database again");
    }
}

#[tokio::test]
async fn idle_connections_that_a_firewall_has_forgotten_cost_nobody_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let (wire, through_wire) = Wire::to(&url, folder.path());
    let store = Store::connect(&through_wire).await.unwrap();
    let read_at_once = async || {
        let calls = (0..store.connections().max).map(|_| store.has_users());
        futures_util::future::join_all(calls).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    };
    read_at_once().await;
    // longer than the store trusts an idle connection
    tokio::time::sleep(Duration::from_millis(1500)).await;
    wire.forget_connections();
    store.renew_lease("node_1", 1).await.unwrap();
    read_at_once().await;
    store.probe().await.unwrap();
}
