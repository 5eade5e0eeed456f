//! Trial keys: how callers get them, their rights, and the end of a trial (readings A7, A12-A15, A22, L9).

use api::AccountId;
use client::Preset;
use control::admin;
use control::caller::Plan;
use control::caller::{Environment, Role};
use serde_json::{Value, json};
use std::time::Duration;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;

use tests_service::gates::{Account, BATCH, CIRCUITS, GATE, SESSION, SESSIONS, and_netlist, open_session};

const TEMP_KEY: &str = "/api/v1/onboarding/temp-key";
const UNKNOWN_SESSION: &str = "/api/v1/tfhe/session/sess_00000000000000000000000000";
const MINUTE: Duration = Duration::from_secs(60);

fn temp_key() -> Request {
    Request::new("POST", TEMP_KEY)
}

fn end_temp_key(key_prefix: &str) -> Request {
    Request::delete(format!("{TEMP_KEY}/{key_prefix}"))
}

/// Gets a new trial key.
async fn trial_key(server: &TestServer) -> String {
    server.send(temp_key()).await.ok(200)["key"].as_str().expect("a key").to_owned()
}

/// Gets a new trial key and opens a session with it.
async fn trial(server: &TestServer) -> Account<'_> {
    let key = trial_key(server).await;
    let session = open_session(server, &key, Preset::Fast128).await;
    Account { server, key, session, secret: keys::of(Preset::Fast128) }
}

/// Returns the account of the server's only trial.
async fn trial_account(server: &TestServer) -> String {
    let keys = server.running().store().api_keys().await.unwrap();
    keys.into_iter().find(|key| key.role == Role::Trial).expect("a trial key").account_id
}

async fn operations_used(server: &TestServer) -> i64 {
    let account = trial_account(server).await;
    server.running().store().trial(&account).await.unwrap().expect("a trial").operations_used
}

/// Waits until the sweep has erased the trial of this account.
async fn is_erased(server: &TestServer, account: &str) {
    let started = std::time::Instant::now();
    while server.running().store().trial(account).await.unwrap().is_some() {
        assert!(started.elapsed() < MINUTE, "the trial is not erased");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a12_everybody_gets_a_trial_key() {
    let server = TestServer::start().await;
    let trial = server.send(temp_key()).await.ok(200);
    let key = trial["key"].as_str().unwrap();
    assert!(key.len() == 42 && key.starts_with("svc_trial_"), "{key}");
    assert_eq!(trial["key_prefix"], key[..16]);
    assert_eq!((&trial["environment"], &trial["role"]), (&json!("trial"), &json!("trial")));
    assert_eq!((&trial["operations_limit"], &trial["operations_remaining"]), (&json!(10), &json!(10)));
    assert_eq!(trial["ttl_seconds"], 1800);
    assert!(trial["created_at"].as_str() < trial["expires_at"].as_str());
    server.send(Request::get(UNKNOWN_SESSION).key(key)).await.error(404, "SESSION_NOT_FOUND");
    // each trial key has an account of its own
    trial_key(&server).await;
    let keys = server.running().store().api_keys().await.unwrap();
    assert_ne!(keys[0].account_id, keys[1].account_id);
}

#[tokio::test]
async fn trials_that_are_switched_off_are_403_and_one_that_lives_goes_on() {
    let server = TestServer::start().await;
    let key = trial_key(&server).await;
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, |config| config.trials = false).await;
    server.send(temp_key()).await.error(403, "FEATURE_DISABLED");
    let open = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key);
    server.send(open).await.ok(201);
    // the owner can still end the trial
    server.send(end_temp_key(&key)).await.ok(200);
}

#[tokio::test]
async fn l9_a_plan_with_no_sessions_at_all_opens_none() {
    let server = TestServer::with(|config| config.plan_limits.of_mut(Plan::Trial).open_sessions = 0).await;
    let key = trial_key(&server).await;
    let open = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key);
    let refused = server.send(open).await.error(402, "QUOTA_EXCEEDED");
    assert!(refused["message"].as_str().unwrap().contains("no gate sessions"), "{refused}");
    assert_eq!(server.metric("ango_sessions").await, 0.0);
}

#[tokio::test]
async fn a7_a_trial_key_reaches_neither_reader_s_nor_writer_s_nor_billing_s_routes() {
    let server = TestServer::start().await;
    let key = trial_key(&server).await;
    for request in [
        Request::get(CIRCUITS),
        Request::put_text(format!("{CIRCUITS}/c"), and_netlist(1)),
        Request::delete(format!("{CIRCUITS}/c")),
        Request::get(SESSIONS),
    ] {
        server.send(request.key(&key)).await.error(403, "INSUFFICIENT_ROLE");
    }
}

#[tokio::test]
async fn a22_a_network_gets_five_trial_keys_a_minute() {
    let server = TestServer::with(|config| config.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()]).await;
    let from = |address: &str| temp_key().header("X-Forwarded-For", address);
    for last in 1..=5 {
        // the first half of an IPv6 address is its network
        server.send(from(&format!("2001:db8::{last}"))).await.ok(200);
        server.send(from("198.51.100.7")).await.ok(200);
    }
    for address in ["2001:db8::6", "198.51.100.7", "203.0.113.1, 198.51.100.7"] {
        let refused = server.send(from(address)).await;
        refused.error(429, "IP_RATE_LIMITED");
        let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    server.send(from("2001:db8:0:1::1")).await.ok(200);
    server.send(from("198.51.100.8")).await.ok(200);
    server.clock.advance(MINUTE);
    server.send(from("198.51.100.7")).await.ok(200);
}

#[tokio::test]
async fn a22_the_five_keys_are_those_of_all_nodes_and_a_revoked_one_counts() {
    let Some((one, other)) = TestServer::pair(|_| ()).await else { return };
    for server in [&one, &other, &one, &other, &one] {
        let key = trial_key(server).await;
        server.send(end_temp_key(&key)).await.ok(200);
    }
    for server in [&one, &other] {
        server.send(temp_key()).await.error(429, "IP_RATE_LIMITED");
    }
}

#[tokio::test]
async fn x12_without_a_trusted_proxy_the_header_says_nothing() {
    let server = TestServer::start().await;
    for last in 1..=5 {
        server.send(temp_key().header("X-Forwarded-For", &format!("198.51.100.{last}"))).await.ok(200);
    }
    server.send(temp_key().header("X-Forwarded-For", "198.51.100.6")).await.error(429, "IP_RATE_LIMITED");
}

#[tokio::test]
async fn a13_a_trial_key_is_revoked_by_its_first_characters() {
    let server = TestServer::start().await;
    for length in [16, 20, 42] {
        let key = trial_key(&server).await;
        server.send(Request::get(UNKNOWN_SESSION).key(&key)).await.error(404, "SESSION_NOT_FOUND");
        let revoked = server.send(end_temp_key(&key[..length])).await.ok(200);
        assert_eq!(revoked, json!({"key_prefix": key[..16], "status": "revoked"}));
        // the node refuses the key at once, although the node accepted it only a moment before
        server.send(Request::get(UNKNOWN_SESSION).key(&key)).await.error(401, "INVALID_API_KEY");
        server.send(end_temp_key(&key[..length])).await.error(404, "KEY_NOT_FOUND");
    }
}

#[tokio::test]
async fn a13_what_is_no_beginning_of_a_living_trial_key_revokes_nothing() {
    let server = TestServer::start().await;
    let key = trial_key(&server).await;
    let live = server.key(Role::Developer).await;
    for bad in [&key[..15], "svc_trial_", &live, "x"] {
        server.send(end_temp_key(bad)).await.error(400, "INVALID_REQUEST");
    }
    let flipped = |at: usize| {
        let other = if key.as_bytes()[at] == b'0' { "1" } else { "0" };
        format!("{}{other}", &key[..at])
    };
    // no key has a character beyond ASCII, so this is an unknown key
    let foreign = "svc_trial_%C3%A9%C3%A9%C3%A9".to_owned();
    let longer = format!("{key}0");
    for unknown in [flipped(15), flipped(16), flipped(24), flipped(41), longer, foreign, key[..16].to_uppercase()] {
        let code = if unknown.starts_with("svc") { (404, "KEY_NOT_FOUND") } else { (400, "INVALID_REQUEST") };
        server.send(end_temp_key(&unknown)).await.error(code.0, code.1);
    }
    server.send(Request::get(UNKNOWN_SESSION).key(&key)).await.error(404, "SESSION_NOT_FOUND");
    server.clock.advance(30 * MINUTE);
    server.send(end_temp_key(&key)).await.error(404, "KEY_NOT_FOUND");
}

#[tokio::test]
async fn a13_a_beginning_of_several_keys_is_a_conflict_until_it_tells_them_apart() {
    let server = TestServer::start().await;
    let key = trial_key(&server).await;
    // the test inserts a second key with the same display prefix, because chance would make one too rarely
    let database = server.running().store();
    let twin = store::NewApiKey {
        key_id: "ak_twin",
        account_id: "acct_twin",
        lineage_id: "lin_twin",
        digest: &[1; 32],
        key_prefix: &key[..16],
        role: Role::Trial,
        environment: Environment::Trial,
        office: false,
        plan: api::Plan::Trial,
        created_at: 1,
        expires_at: Some(i64::MAX),
    };
    let window = store::TrialWindow { network: &[0; 32], keys_max: 1, length: 1 };
    database.insert_trial_key(&twin, &[0; 52], window).await.unwrap();
    server.send(end_temp_key(&key[..16])).await.error(409, "CONFLICT");
    server.send(end_temp_key(&key[..24])).await.ok(200);
    server.send(end_temp_key(&key[..16])).await.ok(200);
    server.send(end_temp_key(&key[..16])).await.error(404, "KEY_NOT_FOUND");
}

#[tokio::test]
async fn a14_every_gate_is_an_operation_and_what_fails_is_none() {
    let server = TestServer::start().await;
    let trial = trial(&server).await;
    let mut bad = trial.gate("NAND", true, Some(true), None);
    bad["a"] = json!("AAAA");
    trial.post(GATE, &bad).await.error(400, "INVALID_CIPHERTEXT");
    assert_eq!(operations_used(&server).await, 0);
    trial.post(GATE, &trial.gate("NOT", true, None, None)).await.ok(200);
    trial.post(BATCH, &trial.batch("NAND", 4)).await.ok(200);
    let refused = trial.post(BATCH, &trial.batch("NAND", 6)).await.error(402, "TRIAL_OPS_EXHAUSTED");
    assert!(refused["message"].as_str().unwrap().contains("has 5 of its 10 left"), "{refused}");
    assert_eq!(operations_used(&server).await, 5);
    trial.post(CIRCUITS, &trial.circuit(&and_netlist(3), json!([trial.value(&[true; 6])]))).await.ok(200);
    let four = trial.circuit(&and_netlist(4), json!([trial.value(&[true; 8])]));
    trial.post(CIRCUITS, &four).await.error(402, "TRIAL_OPS_EXHAUSTED");
    trial.post(BATCH, &trial.batch("NAND", 2)).await.ok(200);
    let refused = trial.post(GATE, &trial.gate("NOT", true, None, None)).await.error(402, "TRIAL_OPS_EXHAUSTED");
    assert!(refused["message"].as_str().unwrap().contains("used its 10"), "{refused}");
    // requests that are not operations still work
    trial.show().await;
    trial.send(Request::delete(trial.path(""))).await;
    open_session(&server, &trial.key, Preset::Fast128).await;
}

#[tokio::test]
async fn a14_of_fifty_gates_at_once_ten_are_done() {
    let server = TestServer::start().await;
    let trial = trial(&server).await;
    let gate = Request::post(GATE, &trial.gate("NAND", true, Some(true), None)).key(&trial.key);
    let address = server.address;
    let sending: Vec<_> = (0..50)
        .map(|_| {
            let gate = gate.clone();
            tokio::spawn(async move { gate.send(address).await })
        })
        .collect();
    let mut done = 0;
    for answer in sending {
        let answer: Response = answer.await.unwrap();
        match answer.status {
            200 => done += 1,
            _ => drop(answer.error(402, "TRIAL_OPS_EXHAUSTED")),
        }
    }
    assert_eq!((done, operations_used(&server).await), (10, 10));
    assert_eq!(trial.show().await["gates_used"], 10);
}

#[tokio::test]
async fn a14_operations_that_fail_later_are_given_back() {
    let server = TestServer::with(|config| config.requests.deadline = Duration::from_micros(1)).await;
    let trial = trial(&server).await;
    trial.post(BATCH, &trial.batch("NAND", 10)).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(operations_used(&server).await, 0);
    let circuit = trial.circuit(&and_netlist(10), json!([trial.value(&[true; 20])]));
    trial.post(CIRCUITS, &circuit).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(operations_used(&server).await, 0);
}

#[tokio::test]
async fn a14_the_count_outlives_the_node() {
    let server = TestServer::start().await;
    let trial = trial(&server).await;
    trial.post(BATCH, &trial.batch("NAND", 8)).await.ok(200);
    let key = trial.key.clone();
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, |_| ()).await;
    let session = open_session(&server, &key, Preset::Fast128).await;
    let trial = Account { server: &server, key, session, secret: keys::of(Preset::Fast128) };
    trial.post(BATCH, &trial.batch("NAND", 3)).await.error(402, "TRIAL_OPS_EXHAUSTED");
    trial.post(BATCH, &trial.batch("NAND", 2)).await.ok(200);
}

/// Counts what the database has of an account: gates, keys and sessions.
async fn owned(server: &TestServer, account: &str) -> Value {
    let store = server.running().store();
    let (gates, ..) = store.gate_usage_totals(account).await.unwrap();
    let keys = store.api_keys().await.unwrap().into_iter().filter(|key| key.account_id == account).count();
    json!({"gates": gates, "keys": keys, "sessions": store.gate_sessions_page(account, "", 0, None, 9).await.unwrap().rows.len()})
}

#[tokio::test]
async fn a12_at_its_end_a_trial_s_key_is_erased_and_everything_it_owns() {
    let server = TestServer::start().await;
    let trial = trial(&server).await;
    // a trial's session ends when the trial ends, and not after the usual life of a session
    let key_expires_at =
        server.running().store().trial(&trial_account(&server).await).await.unwrap().unwrap().expires_at;
    let expires_at = trial.show().await["expires_at"].as_str().unwrap().to_owned();
    assert_eq!(expires_at, control::clock::Timestamp(key_expires_at).rfc3339());
    let circuit = trial.circuit(&and_netlist(2), json!([trial.value(&[true; 4])]));
    let done = trial.post(CIRCUITS, &circuit).await.ok(200);
    let (account, op_id) = (trial_account(&server).await, done["op_id"].as_str().unwrap());
    assert_eq!(owned(&server, &account).await, json!({"gates": 2, "keys": 1, "sessions": 1}));

    server.clock.advance(30 * MINUTE);
    server.metric_becomes("ango_key_bytes", |bytes| bytes == 0.0).await;
    // the trial's records are erased some time later, so that running work can still be recorded
    server.clock.advance(MINUTE);
    is_erased(&server, &account).await;
    assert_eq!(owned(&server, &account).await, json!({"gates": 0, "keys": 0, "sessions": 0}));
    let store = server.running().store();
    assert!(store.operation(&account, op_id).await.unwrap().is_none());
    // the account's row stays for a day, so that late work finds that the trial has ended
    assert!(store.has_account(&account).await.unwrap());
    server.send(Request::get(UNKNOWN_SESSION).key(&trial.key)).await.error(401, "INVALID_API_KEY");
}

#[tokio::test]
async fn a13_a_revoked_trial_is_erased_without_waiting_for_its_end() {
    let server = TestServer::start().await;
    let trial = trial(&server).await;
    let account = trial_account(&server).await;
    server.send(end_temp_key(&trial.key[..16])).await.ok(200);
    server.metric_becomes("ango_key_bytes", |bytes| bytes == 0.0).await;
    server.clock.advance(MINUTE);
    is_erased(&server, &account).await;
    assert_eq!(owned(&server, &account).await, json!({"gates": 0, "keys": 0, "sessions": 0}));
}

/// Makes an account with a key on this plan. Returns the key and the account.
async fn key_on(server: &TestServer, plan: Plan) -> (String, AccountId) {
    let config = server.running().config();
    let created = admin::create_key(config, Role::Developer, Environment::Test, None, Some(plan)).await.unwrap();
    (created.key.to_string(), created.account_id)
}

#[tokio::test]
async fn l9_open_sessions_are_bounded_by_the_plan_and_the_refusal_tells_when_the_first_ends() {
    let server = TestServer::start().await;
    let (key, _) = key_on(&server, Plan::Free).await;
    let open = || Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key);
    let first = server.send(open()).await.ok(201);
    let second = server.send(open()).await.ok(201);
    let refused = server.send(open()).await.error(402, "QUOTA_EXCEEDED");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains(first["expires_at"].as_str().unwrap()) && message.contains("free"), "{message}");
    // the node did not keep the key of the refused session
    assert_eq!(server.metric("ango_sessions").await, 2.0);
    let path = format!("{SESSION}/{}", second["session_id"].as_str().unwrap());
    assert_eq!(server.send(Request::delete(path).key(&key)).await.status, 204);
    server.send(open()).await.ok(201);
    // expired sessions do not count
    server.clock.advance(60 * MINUTE);
    server.send(open()).await.ok(201);
    // a trial can have only one session
    let trial = trial_key(&server).await;
    let open = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&trial);
    server.send(open.clone()).await.ok(201);
    server.send(open).await.error(402, "QUOTA_EXCEEDED");
}

#[tokio::test]
async fn trials_that_fill_their_share_of_the_room_for_keys_leave_the_rest_to_others() {
    // the node has room for six keys of 10 MB each, and trials may take 40 MB of the room, enough for four keys
    let server = TestServer::with(|config| config.compute.key_storage_bytes_max = 64 << 20).await;
    let mut opened = 0;
    loop {
        let open = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&server.key(Role::Trial).await);
        let answer = server.send(open).await;
        if answer.status == 503 {
            answer.error(503, "SERVICE_UNAVAILABLE");
            break;
        }
        answer.ok(201);
        opened += 1;
    }
    assert_eq!(opened, 4);
    // a developer's key can still open both kinds of session
    let key = server.key(Role::Developer).await;
    server.send(Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key)).await.ok(201);
    open_session(&server, &key, Preset::Fast128).await;
}

#[tokio::test]
async fn l9_of_sessions_opened_at_once_no_more_are_open_than_the_plan_allows() {
    let server = TestServer::start().await;
    let (key, account) = key_on(&server, Plan::Free).await;
    let open = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key);
    let address = server.address;
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let open = open.clone();
            tokio::spawn(async move { open.send(address).await.status })
        })
        .collect();
    let mut statuses = Vec::new();
    for status in opening {
        statuses.push(status.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 402, 402, 402, 402, 402, 402]);
    assert_eq!(
        server.running().store().gate_sessions_page(account.as_str(), "", 0, None, 9).await.unwrap().rows.len(),
        2
    );
}
