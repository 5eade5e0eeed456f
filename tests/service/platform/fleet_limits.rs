//! Limits of callers on the API nodes of a fleet without a Redis (readings L1, L6, A17, A21): the database has the counts and
//! the token buckets, and the broker carries the news.

use std::time::{Duration, Instant};

use client::Preset;
use control::admin::lockouts::LockoutChoice;
use control::admin::{self, Operator};
use control::caller::{Environment, Plan, PlanLimits, Role};
use control::config::{BrokerUrl, Config};
use serde_json::json;
use tests_service::fleet::Fleet;
use tests_service::gates::{Account, CHAIN_BITS, CIRCUITS, SESSIONS, and_netlist, chain_netlist};
use tests_service::http::Request;
use tests_service::{PATIENCE, TestServer};

use crate::limits::{crowd, key_on, limits, race};

const PRICING: &str = "/api/v1/tfhe/pricing";
const TEMP_KEY: &str = "/api/v1/onboarding/temp-key";
const USER_KEYS: &str = "/api/v1/user/api-keys";
/// A time longer than any test. A node that caches data of the database for this time learns news only by the broker.
const NOT_BY_THEMSELVES: Duration = Duration::from_secs(24 * 3600);
/// The rate of the token buckets in these tests, and the tokens that a node takes at once.
const RATE: u32 = 32;
const SHARE: u32 = 2;

/// Starts two API nodes without workers.
async fn pair(change: impl Fn(&mut Config)) -> Option<Fleet> {
    Fleet::start(2, 0, change).await
}

/// Sends a request until the answer has this status.
async fn becomes(server: &TestServer, request: Request, status: u16) {
    let asked = Instant::now();
    loop {
        let answer = server.send(request.clone()).await;
        if answer.status == status {
            return;
        }
        assert!(asked.elapsed() < PATIENCE, "{request:?} stays {}", answer.status);
    }
}

/// Checks the number of requests that two nodes admitted since a moment: one bucket gives `RATE` at once and `RATE` a second,
/// and each node may have a share more.
#[track_caller]
fn is_of_one_bucket(passed: u32, since: Instant) {
    let tokens = f64::from(RATE) * (1.0 + since.elapsed().as_secs_f64()) + f64::from(2 * SHARE);
    assert!(f64::from(passed) <= tokens, "{passed} of {tokens}");
    assert!(passed >= RATE - 2 * SHARE, "{passed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l6_api_nodes_share_a_key_s_bucket_and_a_network_s() {
    let fast = PlanLimits { burst_a_second: RATE, ..limits(100_000, 100_000) };
    let change = move |config: &mut Config| {
        *config.plan_limits.of_mut(Plan::Free) = fast;
        config.plan_limits.anonymous = fast;
    };
    let Some(fleet) = pair(change).await else { return };
    let [one, other] = [&fleet.api[0], &fleet.api[1]];
    let (key, _) = key_on(one.running().config(), Plan::Free).await;
    for request in [Request::get(SESSIONS).key(&key), Request::get(PRICING)] {
        let (started, mut passed) = (Instant::now(), 0);
        for number in 0..400 {
            let answer = if number % 2 == 0 { one } else { other }.send(request.clone()).await;
            match answer.status {
                200 => passed += 1,
                _ => drop(answer.error(429, "RATE_LIMITED")),
            }
        }
        is_of_one_bucket(passed, started);
    }
    // fifty connections at once
    let (key, _) = key_on(one.running().config(), Plan::Free).await;
    let started = Instant::now();
    let passed = race(&[one, other], &key, 400).await;
    is_of_one_bucket(passed as u32, started);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_api_nodes_let_exactly_the_limit_of_a_day_pass() {
    let (limit, requests) = crowd();
    let Some(fleet) = pair(|config| *config.plan_limits.of_mut(Plan::Free) = limits(limit, 10_000)).await else {
        return;
    };
    let (key, _) = key_on(fleet.api[0].running().config(), Plan::Free).await;
    assert_eq!(race(&[&fleet.api[0], &fleet.api[1]], &key, requests).await as u64, limit);
}

#[tokio::test]
async fn a21_a_lock_is_one_on_every_api_node_without_waiting() {
    let Some(fleet) = pair(|config| config.believed_for = NOT_BY_THEMSELVES).await else { return };
    let [one, other] = [&fleet.api[0], &fleet.api[1]];
    let key = one.key(Role::AccountAdmin).await;
    let list = |key: &str| Request::get(SESSIONS).key(key);
    // ten failures on one node and ten on the other
    for number in 0..20 {
        let server = if number % 2 == 0 { one } else { other };
        server.send(list(&format!("svc_live_{number:032x}"))).await.error(401, "INVALID_API_KEY");
    }
    for server in [one, other] {
        becomes(server, list(&key), 429).await;
        server.send(list(&key)).await.error(429, "BRUTE_FORCE_LOCKOUT");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_a_network_that_tries_all_api_nodes_at_once_gets_the_limit_of_each_at_most() {
    const LANES: usize = 8;
    let Some(fleet) = pair(|_| ()).await else { return };
    let addresses = [fleet.api[0].address, fleet.api[1].address];
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            tokio::spawn(async move {
                let mut tried = 0;
                for turn in 0..25 {
                    let request = Request::get(SESSIONS).key(&format!("svc_live_{:032x}", lane * 100 + turn));
                    match request.send(addresses[(lane + turn) % 2]).await.status {
                        401 => tried += 1,
                        status => assert_eq!(status, 429),
                    }
                }
                tried
            })
        })
        .collect();
    let mut tried = 0;
    for lane in lanes {
        tried += lane.await.unwrap();
    }
    // a network is locked after 20 attempts, and each lane may have one on its way
    assert!((20..=2 * 20 + LANES).contains(&tried), "{tried}");
}

#[tokio::test]
async fn a17_revoked_keys_and_ended_tokens_are_refused_by_every_api_node_without_waiting() {
    let change = |config: &mut Config| {
        config.believed_for = NOT_BY_THEMSELVES;
        config.public_url = Some("https://fhe.example.org".to_owned());
    };
    let Some(fleet) = pair(change).await else { return };
    let [one, other] = [&fleet.api[0], &fleet.api[1]];
    let user = one.user("ada@example.org", Role::AccountAdmin).await;
    let body = json!({"environment": "live", "role": "account_admin"});
    let made = one.send(Request::post(USER_KEYS, &body).key(&user.token)).await.ok(201);
    let of_key = Request::get(SESSIONS).key(made["key"].as_str().unwrap());
    let trial = one.send(Request::new("POST", TEMP_KEY)).await.ok(200)["key"].as_str().unwrap().to_owned();
    let of_trial = Request::get("/api/v1/tfhe/session/unknown").key(&trial);
    let of_user = Request::get(USER_KEYS).key(&user.token);
    // the other node believes all three from now on
    other.send(of_key.clone()).await.ok(200);
    other.send(of_trial.clone()).await.error(404, "SESSION_NOT_FOUND");
    other.send(of_user.clone()).await.ok(200);

    one.send(Request::delete(format!("{TEMP_KEY}/{trial}"))).await.ok(200);
    becomes(other, of_trial, 401).await;
    let path = format!("{USER_KEYS}/{}", made["key_id"].as_str().unwrap());
    assert_eq!(one.send(Request::delete(path).key(&user.token)).await.status, 204);
    becomes(other, of_key, 401).await;
    one.send(Request::new("POST", "/api/v1/user/logout").key(&user.token)).await.ok(200);
    becomes(other, of_user, 401).await;
}

#[tokio::test]
async fn a17_what_an_operator_changes_holds_on_every_api_node_without_waiting() {
    let Some(fleet) = pair(|config| config.believed_for = NOT_BY_THEMSELVES).await else { return };
    let nodes = [&fleet.api[0], &fleet.api[1]];
    let config = fleet.api[0].running().config().clone();
    let of = |key: &str| Request::get(SESSIONS).key(key);
    let make = || admin::create_key(&config, Role::AccountAdmin, Environment::Test, None, Some(Plan::Enterprise));
    let (one, other, last) = (make().await.unwrap(), make().await.unwrap(), make().await.unwrap());
    for node in nodes {
        for made in [&one, &other, &last] {
            node.send(of(&made.key)).await.ok(200);
        }
    }
    let operator = Operator::open(&config).await.unwrap();
    operator.revoke_key(&one.key_id).await.unwrap();
    operator.revoke_keys_of_account(&other.account_id).await.unwrap();
    for node in nodes {
        becomes(node, of(&one.key), 401).await;
        becomes(node, of(&other.key), 401).await;
    }
    // both nodes lock the network, and the operator ends the lock
    for number in 0..20 {
        nodes[number % 2].send(of(&format!("svc_live_{number:032x}"))).await;
    }
    for node in nodes {
        becomes(node, of(&last.key), 429).await;
    }
    let asked = Instant::now();
    while operator.clear_lockouts(&config, &LockoutChoice::All).await.unwrap() == 0 {
        assert!(asked.elapsed() < PATIENCE, "the lock was not shared");
    }
    for node in nodes {
        becomes(node, of(&last.key), 200).await;
    }
    // without the broker the command does its work all the same
    let mut away = config.clone();
    away.fleet.broker = Some(BrokerUrl::read("nats://127.0.0.1:9").unwrap());
    let operator = Operator::open(&away).await.unwrap();
    assert_eq!(operator.revoke_key(&last.key_id).await.unwrap(), [last.key_id.as_str()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_s_circuits_whose_clients_wait_are_bounded_on_all_api_nodes_together() {
    let Some(fleet) = Fleet::start(2, 1, |config| config.circuits.running_max = 2).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let bits = account.value(&[true; CHAIN_BITS]);
    let send = |circuit: serde_json::Value, node: usize| {
        let (request, address) = (Request::post(CIRCUITS, &circuit).key(&account.key), fleet.api[node].address);
        tokio::spawn(async move { request.send(address).await })
    };
    // a circuit on each node, which run until their session ends
    let long = account.circuit(&chain_netlist(4000), json!([bits]));
    let running = [send(long.clone(), 0), send(long.clone(), 1)];
    let asked = Instant::now();
    while fleet.workers[0].usage().operations < 2 {
        assert!(asked.elapsed() < PATIENCE, "the circuits do not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let short = account.circuit(&and_netlist(1), json!([account.value(&[true; 2])]));
    for node in 0..2 {
        send(short.clone(), node).await.unwrap().error(429, "RATE_LIMITED");
        // the circuits of the waiting line are counted with them
        let waits = Request::post(CIRCUITS, &short).key(&account.key).header("Prefer", "respond-async");
        fleet.api[node].send(waits).await.error(429, "RATE_LIMITED");
    }
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    for circuit in running {
        circuit.await.unwrap().error(404, "SESSION_NOT_FOUND");
    }
    // a place is free again before the answer of its circuit comes
    let account = Account::open(&fleet.api[1], Preset::Fast128).await;
    let short = account.circuit(&and_netlist(1), json!([account.value(&[true; 2])]));
    for turn in 0..4 {
        let twice = [turn % 2, 0].map(|node| {
            let (request, address) = (Request::post(CIRCUITS, &short).key(&account.key), fleet.api[node].address);
            tokio::spawn(async move { request.send(address).await })
        });
        for answer in twice {
            answer.await.unwrap().ok(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_api_nodes_share_a_network_s_limit_of_a_day() {
    const LIMIT: u64 = 160;
    let Some(fleet) = pair(|config| config.plan_limits.anonymous = limits(LIMIT, 10_000)).await else { return };
    let addresses = vec![fleet.api[0].address, fleet.api[1].address];
    let passed = crate::limits::passed(addresses, Request::get(PRICING), 8, 400).await as u64;
    // each node may admit a sixteenth more
    assert!((LIMIT..=LIMIT + 2 * (LIMIT / 16)).contains(&passed), "{passed}");
}
