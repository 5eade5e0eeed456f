//! Gate sessions on several nodes of one database: what the other nodes answer about a session, and how a session ends
//! whose node is gone (readings G13, L9).

use std::time::{Duration, Instant};

use client::Preset;
use control::admin;
use control::app::App;
use control::caller::Plan;
use control::caller::{Environment, Role};
use control::config::Config;
use control::work::BackendChoice;
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::s3::S3;

use tests_service::gates::{Account, BATCH, CIRCUITS, GATE, SESSION, SESSIONS, and_netlist, open_session};

/// Time after which the lease of a node has ended, unless the node has renewed the lease.
const LEASE_OVER: Duration = Duration::from_secs(60);

async fn pair() -> Option<(TestServer, TestServer)> {
    TestServer::pair(|_| ()).await
}

/// Makes an account on the free plan, which allows at most two sessions. Returns a key that may list the sessions.
async fn free_key(server: &TestServer) -> String {
    let config = server.running().config();
    let made = admin::create_key(config, Role::AccountAdmin, Environment::Test, None, Some(Plan::Free)).await;
    made.expect("a key").key.to_string()
}

fn path(session: &str) -> String {
    format!("{SESSION}/{session}")
}

async fn get(server: &TestServer, session: &str, key: &str) -> Response {
    server.send(Request::get(path(session)).key(key)).await
}

async fn delete(server: &TestServer, session: &str, key: &str) -> Response {
    server.send(Request::delete(path(session)).key(key)).await
}

async fn list(server: &TestServer, key: &str) -> Value {
    server.send(Request::get(SESSIONS).key(key)).await.ok(200)
}

/// Returns the session ids of a page, and checks that the page's count is the number of these ids.
#[track_caller]
fn ids(page: &Value) -> Vec<&str> {
    let ids: Vec<_> =
        page["sessions"].as_array().unwrap().iter().map(|one| one["session_id"].as_str().unwrap()).collect();
    assert_eq!(page["total_count"], ids.len());
    ids
}

#[track_caller]
fn is_elsewhere(answer: &Response) {
    let error = answer.error(503, "SERVICE_UNAVAILABLE");
    assert!(error["message"].as_str().unwrap().contains("another node"), "{error}");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn g13_another_node_lists_a_session_and_says_that_it_is_the_wrong_one_for_all_else() {
    let Some((one, other)) = pair().await else { return };
    let account = Account::open(&one, Preset::Fast128).await;
    let (key, session) = (account.key.clone(), account.session.clone());
    is_elsewhere(&get(&other, &session, &key).await);
    let gate = account.gate("NOT", true, None, None);
    is_elsewhere(&other.send(Request::post(GATE, &gate).key(&key)).await);
    is_elsewhere(&other.send(Request::post(BATCH, &account.batch("NOT", 2)).key(&key)).await);

    // the other node charged nothing, and the session still works on the node that opened it
    one.send(Request::post(GATE, &gate).key(&key)).await.ok(200);
    let (here, there) = (list(&one, &key).await, list(&other, &key).await);
    assert_eq!(ids(&there), [&session]);
    for member in
        ["session_id", "preset", "gates_used", "is_blind", "imported", "state", "expires_at", "total_cost_jpy"]
    {
        assert_eq!(here["sessions"][0][member], there["sessions"][0][member], "{member}");
    }
    assert_eq!(there["sessions"][0]["gates_used"], 1);

    // whichever node an account asks, a session of another account is unknown (readings X14)
    let stranger = free_key(&one).await;
    for server in [&one, &other] {
        get(server, &session, &stranger).await.error(404, "SESSION_NOT_FOUND");
        delete(server, &session, &stranger).await.error(404, "SESSION_NOT_FOUND");
        assert!(ids(&list(server, &stranger).await).is_empty());
    }
    get(&other, "sess_unknown", &key).await.error(404, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn i6_a_large_answer_that_another_node_keeps_is_503_with_a_time_to_come_back_and_nothing_runs_again() {
    let Some((one, other)) = pair().await else { return };
    let account = Account::open(&one, Preset::Fast128).await;
    let request = Request::post(BATCH, &account.batch("NOT", 64)).header("Idempotency-Key", "k").key(&account.key);
    let first = one.send(request.clone()).await;
    first.ok(200);
    is_elsewhere(&other.send(request.clone()).await);
    let again = one.send(request).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    assert_eq!(account.show().await["gates_used"], 64);
}

#[tokio::test]
async fn i6_every_node_gives_a_large_answer_again_that_is_in_a_bucket() {
    let Some(bucket) = S3::start() else { return };
    let Some((one, other)) = TestServer::pair(|config| config.bucket = Some(bucket.config())).await else { return };
    let account = Account::open(&one, Preset::Fast128).await;
    let request = Request::post(BATCH, &account.batch("NOT", 64)).header("Idempotency-Key", "k").key(&account.key);
    let first = one.send(request.clone()).await;
    first.ok(200);
    for server in [&other, &one] {
        let again = server.send(request.clone()).await;
        assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    }
    assert_eq!(account.show().await["gates_used"], 64);

    // a node with another database refuses to start with this bucket and prefix; otherwise its sweep would delete the
    // objects of the two nodes above
    let stranger = tempfile::tempdir().unwrap();
    let mut config = Config::in_folder(stranger.path());
    (config.compute.backend, config.bucket) = (BackendChoice::Cpu, Some(bucket.config()));
    let error = App::start(config).await.err().expect("the node does not start").to_string();
    assert!(error.contains("to another database"), "{error}");

    // while the bucket is out of reach, a repeated request gets 503, and the operation does not run again
    drop(bucket);
    let again = other.send(request).await;
    again.error(503, "SERVICE_UNAVAILABLE");
    assert!(again.header("retry-after").is_some());
    let other_key = Request::post(BATCH, &account.batch("NOT", 64)).header("Idempotency-Key", "l").key(&account.key);
    one.send(other_key).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(account.show().await["gates_used"], 64);
}

/// Stores a circuit through one node, and runs the circuit on the other node.
async fn a_kept_circuit_runs_on_every_node((one, other): (TestServer, TestServer)) {
    let account = Account::open(&other, Preset::Fast128).await;
    let keep = Request::put_text(format!("{CIRCUITS}/and"), and_netlist(1)).key(&account.key);
    one.send(keep).await.ok(201);
    let request = account.circuit("and", json!([account.value(&[true; 2])]));
    let answer = account.post(CIRCUITS, &request).await.ok(200);
    assert_eq!(account.bits(&answer["outputs"][0]), [true]);
}

#[tokio::test]
async fn every_node_runs_a_kept_circuit_whose_netlist_is_in_the_database() {
    let Some(pair) = pair().await else { return };
    a_kept_circuit_runs_on_every_node(pair).await;
}

#[tokio::test]
async fn every_node_runs_a_kept_circuit_whose_netlist_is_in_a_bucket() {
    let Some(bucket) = S3::start() else { return };
    let Some(pair) = TestServer::pair(|config| config.bucket = Some(bucket.config())).await else { return };
    a_kept_circuit_runs_on_every_node(pair).await;
}

#[tokio::test]
async fn g3_a_session_that_is_deleted_by_way_of_another_node_ends_everywhere_and_its_key_is_overwritten() {
    let Some((one, other)) = pair().await else { return };
    let key = free_key(&one).await;
    let session = open_session(&one, &key, Preset::Fast128).await;
    assert_eq!(delete(&other, &session, &key).await.status, 204);
    one.metric_becomes("ango_sessions", |open| open == 0.0).await;
    for server in [&one, &other] {
        get(server, &session, &key).await.error(404, "SESSION_NOT_FOUND");
        delete(server, &session, &key).await.error(404, "SESSION_NOT_FOUND");
        assert!(ids(&list(server, &key).await).is_empty());
    }
}

#[tokio::test]
async fn l9_a_plan_s_sessions_are_counted_on_all_nodes_and_those_of_a_lost_node_are_not() {
    let Some((one, other)) = pair().await else { return };
    let key = free_key(&one).await;
    let open =
        async |server: &TestServer| server.send(Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key)).await;
    let first = open_session(&one, &key, Preset::Fast128).await;
    let second = open_session(&one, &key, Preset::Fast128).await;
    open(&other).await.error(402, "QUOTA_EXCEEDED");

    // by the clock of the other node, the first node's lease has ended
    other.clock.advance(LEASE_OVER);
    let lost = get(&other, &first, &key).await.error(410, "SESSION_EXPIRED");
    assert!(lost["message"].as_str().unwrap().contains("session lost"), "{lost}");
    assert!(ids(&list(&other, &key).await).is_empty());
    assert_eq!(delete(&other, &second, &key).await.status, 204);
    get(&other, &second, &key).await.error(404, "SESSION_NOT_FOUND");
    let third = open(&other).await.ok(201)["session_id"].as_str().unwrap().to_owned();
    open(&other).await.ok(201);
    open(&other).await.error(402, "QUOTA_EXCEEDED");
    assert_eq!(ids(&list(&other, &key).await).len(), 2);

    // the first node is still alive: its sessions go on, except the one that the other node deleted
    one.metric_becomes("ango_sessions", |open| open == 1.0).await;
    get(&one, &first, &key).await.ok(200);
    is_elsewhere(&get(&one, &third, &key).await);
}

#[tokio::test]
async fn g13_the_sessions_of_a_node_that_stopped_in_order_are_lost_at_once() {
    let Some((one, other)) = pair().await else { return };
    let key = free_key(&one).await;
    let session = open_session(&one, &key, Preset::Fast128).await;
    one.stop().await;
    get(&other, &session, &key).await.error(410, "SESSION_EXPIRED");
    assert!(ids(&list(&other, &key).await).is_empty());
}

#[tokio::test]
async fn g13_a_node_that_says_that_it_is_there_goes_on_saying_it() {
    let Some((one, other)) = pair().await else { return };
    // the test sends many requests, so its key has a plan without limits
    let key = one.key(Role::AccountAdmin).await;
    let session = open_session(&one, &key, Preset::Fast128).await;
    // both clocks advance by half an hour
    for server in [&one, &other] {
        server.clock.advance(Duration::from_secs(1800));
    }
    let asked = Instant::now();
    while get(&other, &session, &key).await.status != 503 {
        assert!(asked.elapsed() < PATIENCE, "the lease was not renewed");
    }
}

#[tokio::test]
async fn x16_session_ids_are_not_readable_in_the_database() {
    let server = TestServer::start().await;
    let key = free_key(&server).await;
    let session = open_session(&server, &key, Preset::Fast128).await;
    let folder = server.stop().await;
    for entry in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = if entry.is_file() { std::fs::read(&entry).unwrap() } else { Vec::new() };
        let readable = bytes.windows(session.len()).any(|window| window == session.as_bytes());
        assert!(!readable, "{}", entry.display());
    }
}
