//! Repeated requests with the same `Idempotency-Key` (readings I1-I6). control/ango/tests/crash.rs tests a crash
//! between effect and answer.

use std::time::Duration;

use client::Preset;
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;
use tests_service::users::PASSWORD;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use tests_service::gates::{Account, BATCH, CIRCUITS, EVAL_SESSION, GATE, OCTETS, SESSION, and_netlist, octets};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Makes a POST request with this idempotency key.
fn keyed(path: &str, body: &Value, key: &str) -> Request {
    Request::post(path, body).header("Idempotency-Key", key)
}

/// Checks that the second answer repeats the first answer.
#[track_caller]
fn replays(first: &Response, second: &Response) {
    assert_eq!((first.header("idempotent-replayed"), second.header("idempotent-replayed")), (None, Some("true")));
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    for header in ["content-type", "x-security-warning", "preference-applied", "cache-control", "content-length"] {
        assert_eq!(first.header(header), second.header(header), "{header}");
    }
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

#[tokio::test]
async fn i3_m_fifty_senders_of_one_gate_have_it_run_and_charged_once() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let request = keyed(GATE, &account.gate("NAND", true, Some(true), None), "k").key(&account.key);
    let senders: Vec<_> = (0..50)
        .map(|_| {
            let (request, address) = (request.clone(), server.address);
            tokio::spawn(async move { request.send(address).await })
        })
        .collect();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for sender in senders {
        let answer = sender.await.unwrap();
        match (answer.status, answer.header("idempotent-replayed")) {
            (200, None) => first.push(answer),
            (200, Some(_)) => others.push(answer),
            _ => {
                answer.error(409, "IDEMPOTENCY_IN_PROGRESS");
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
        }
    }
    assert_eq!(first.len(), 1);
    others.push(server.send(request).await);
    for answer in &others {
        replays(&first[0], answer);
    }
    assert!(!account.decrypt(&first[0].json()["result_b64"]));
    assert_eq!(account.show().await["gates_used"], 1);
}

#[tokio::test]
async fn i2_another_body_under_a_used_key_is_refused_and_another_key_is_another_request() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = account.gate("NAND", true, Some(true), None);
    let first = account.send(keyed(GATE, &gate, "k")).await;
    first.ok(200);
    let other = account.gate("NAND", true, Some(true), None);
    account.send(keyed(GATE, &other, "k")).await.error(422, "IDEMPOTENCY_KEY_REUSED");
    // the raw bytes are compared, so a body with one more space is another body
    let spaced = Request::new("POST", GATE).body("application/json", format!("{gate} ")).header("Idempotency-Key", "k");
    account.send(spaced).await.error(422, "IDEMPOTENCY_KEY_REUSED");
    account.send(keyed(GATE, &other, "l")).await.ok(200);
    replays(&first, &account.send(keyed(GATE, &gate, "k")).await);
    assert_eq!(account.show().await["gates_used"], 2);
}

#[tokio::test]
async fn i1_keys_of_other_accounts_and_paths_are_other_keys() {
    let server = TestServer::start().await;
    let body = json!({"preset": "fast_128"});
    let mut seen = std::collections::HashSet::new();
    for _ in 0..2 {
        let key = server.key(Role::Developer).await;
        let opened = server.send(keyed(SESSION, &body, "k").key(&key)).await.ok(201);
        let session = opened["session_id"].as_str().unwrap().to_owned();
        let path = format!("{SESSION}/{session}/encrypt");
        let encrypted = server.send(keyed(&path, &json!({"bit": true}), "k").key(&key)).await.ok(200);
        seen.insert(encrypted["ciphertext_b64"].as_str().unwrap().to_owned());
        // answers are also kept for a route that writes nothing to the database
        let again = server.send(keyed(&path, &json!({"bit": true}), "k").key(&key)).await.ok(200);
        assert_eq!(encrypted, again);
    }
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn i1_a_bad_key_is_refused_and_one_on_reads_and_deletions_is_ignored() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = account.gate("NAND", true, Some(true), None);
    for bad in ["", "a b", &"k".repeat(256), "\u{e9}"] {
        let error = account.send(keyed(GATE, &gate, bad)).await.error(400, "INVALID_REQUEST");
        assert_eq!(error["details"][0]["field"], "Idempotency-Key");
    }
    account.send(keyed(GATE, &gate, "k").header("Idempotency-Key", "k")).await.error(400, "INVALID_REQUEST");
    account.nothing_charged().await;
    for request in [Request::get(account.path("")), Request::delete(account.path(""))] {
        let answer = account.send(request.header("Idempotency-Key", "a b")).await;
        assert!(matches!(answer.status, 200 | 204), "{}", answer.status);
    }
}

#[tokio::test]
async fn i5_s_a_new_key_is_told_again_to_its_owner_only() {
    let server = TestServer::start().await;
    let (admin, account) = server.create_key(Role::AccountAdmin, None).await;
    let (viewer, _) = server.create_key(Role::Viewer, Some(account)).await;
    let rotate = |key: &str| Request::new("POST", "/api/v1/keys/apikey/rotate").header("Idempotency-Key", "1").key(key);
    let first = server.send(rotate(&admin)).await;
    let fresh = first.ok(200)["key"].as_str().unwrap().to_owned();
    replays(&first, &server.send(rotate(&admin)).await);
    replays(&first, &server.send(rotate(&fresh)).await);
    // the viewer may rotate its key, but not with an idempotency key that the administrator used
    server.send(rotate(&viewer)).await.error(422, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn i5_s_a_secret_is_told_again_to_the_credential_that_asked_and_to_no_colleague_of_its_role() {
    let server = TestServer::start().await;
    // two keys with the same account and role
    let (ours, account) = server.create_key(Role::Developer, None).await;
    let (colleague, _) = server.create_key(Role::Developer, Some(account)).await;
    let rotate = |key: &str| Request::new("POST", "/api/v1/keys/apikey/rotate").header("Idempotency-Key", "1").key(key);
    let first = server.send(rotate(&ours)).await;
    first.ok(200);
    server.send(rotate(&colleague)).await.error(422, "IDEMPOTENCY_KEY_REUSED");
    replays(&first, &server.send(rotate(&ours)).await);

    // two users with the same account and role
    let ada = server.user("ada@example.org", Role::Developer).await;
    let operator = server.operator().await;
    operator.create_user("bob@example.org", PASSWORD, Role::Developer, Some(&ada.account)).await.unwrap();
    let bob = server.log_in("bob@example.org").await;
    let make = |token: &str| keyed("/api/v1/user/api-keys", &json!({"environment": "test"}), "1").key(token);
    let first = server.send(make(&ada.token)).await;
    first.ok(201);
    server.send(make(&bob.token)).await.error(422, "IDEMPOTENCY_KEY_REUSED");
    // with another token, the user is still the same caller
    replays(&first, &server.send(make(&server.log_in("ada@example.org").await.token)).await);
}

#[tokio::test]
async fn i4_only_successes_are_kept() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let mut gate = account.gate("NAND", true, None, None);
    account.send(keyed(GATE, &gate, "k")).await.error(400, "MISSING_OPERAND");
    account.send(keyed(GATE, &json!({}), "k")).await.error(422, "VALIDATION_ERROR");
    // the caller corrects the fault and sends the same idempotency key
    gate["b"] = json!(account.encrypt(true));
    let first = account.send(keyed(GATE, &gate, "k")).await;
    assert!(!account.decrypt(&first.ok(200)["result_b64"]));
    replays(&first, &account.send(keyed(GATE, &gate, "k")).await);
    assert_eq!(account.show().await["gates_used"], 1);
}

#[tokio::test]
async fn i4_an_answer_is_kept_for_24_hours() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let request = keyed(SESSION, &json!({"preset": "fast_128"}), "k").key(&key);
    let first = server.send(request.clone()).await;
    first.ok(201);
    server.clock.advance(DAY - Duration::from_secs(600));
    replays(&first, &server.send(request.clone()).await);
    server.clock.advance(Duration::from_secs(600));
    let second = server.send(request.clone()).await;
    assert_ne!(second.ok(201)["session_id"], first.json()["session_id"]);
    replays(&second, &server.send(request).await);
}

#[tokio::test]
async fn i3_work_of_a_client_that_went_away_is_answered_when_it_comes_back() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let body = account.batch("NAND", 256).to_string();
    let request = Request::new("POST", BATCH).body("application/json", body.clone()).header("Idempotency-Key", "k");
    let request = request.key(&account.key);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.head().as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    server.metric_becomes("ango_operations", |operations| operations > 0.0).await;
    drop(stream);
    server.metric_becomes("ango_gates_total{gate=\"NAND\"}", |gates| gates == 256.0).await;
    let answer = server.send(request).await;
    assert_eq!(answer.ok(200)["results_b64"].as_array().unwrap().len(), 256);
    assert_eq!(answer.header("idempotent-replayed"), Some("true"));
    assert_eq!(account.show().await["gates_used"], 256);
}

#[tokio::test]
async fn i6_large_answers_of_every_form_are_replayed_from_files() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let batch = account.batch("NOT", 64);
    let circuit = account.circuit(&and_netlist(32), json!([account.value(&[true; 64])]));
    let head = json!({"session_id": account.session, "gates": vec!["NAND"; 32]});
    let words = octets(&head, &vec![account.secret.encrypt(true); 64]);
    let requests = [
        keyed(BATCH, &batch, "a"),
        keyed(CIRCUITS, &circuit, "b"),
        Request::new("POST", BATCH).body(OCTETS, words).header("Accept", OCTETS).header("Idempotency-Key", "c"),
    ];
    let mut firsts = Vec::new();
    for request in &requests {
        let first = account.send(request.clone()).await;
        assert!(first.status == 200 && first.body.len() > 64 << 10, "{}", first.status);
        firsts.push(first);
    }
    let used = account.show().await["gates_used"].clone();
    let answers = server.running().config().data_dir.join("answers");
    assert_eq!(std::fs::read_dir(&answers).unwrap().count(), 3);
    for (request, first) in requests.iter().zip(&firsts) {
        replays(first, &account.send(request.clone()).await);
    }
    assert_eq!((&used, &account.show().await["gates_used"]), (&json!(128), &used));
    // if the file of an answer is lost, the request is refused and does not run again
    for file in std::fs::read_dir(&answers).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    account.send(requests[0].clone()).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(account.show().await["gates_used"], used);
}

#[tokio::test]
async fn a_circuit_that_nobody_waits_for_begins_once() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let circuit = account.circuit(&and_netlist(4), json!([account.value(&[true; 8])]));
    let request = keyed(CIRCUITS, &circuit, "k").header("Prefer", "respond-async");
    let first = account.send(request.clone()).await;
    let op_id = first.ok(200)["op_id"].as_str().unwrap().to_owned();
    replays(&first, &account.send(request).await);
    assert_eq!(account.ended(&op_id).await["status"], "completed");
    assert_eq!(account.show().await["gates_used"], 4);
}

#[tokio::test]
async fn i2_a_key_of_many_megabytes_is_uploaded_once() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let evaluation = &keys::of(Preset::Fast128).evaluation;
    let upload = |bytes: &[u8]| {
        let request = Request::new("POST", EVAL_SESSION).body(OCTETS, bytes).header("Idempotency-Key", "k");
        request.key(&key)
    };
    let first = server.send(upload(evaluation)).await;
    first.ok(201);
    replays(&first, &server.send(upload(evaluation)).await);
    let mut other = evaluation.clone();
    *other.last_mut().unwrap() ^= 1;
    server.send(upload(&other)).await.error(422, "IDEMPOTENCY_KEY_REUSED");
    let sessions = server.send(Request::get("/api/v1/tfhe/sessions").key(&key)).await.ok(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn i5_s_no_secret_of_a_kept_answer_is_readable_in_the_data_folder() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let opened = server.send(keyed(SESSION, &json!({"preset": "fast_128"}), "k").key(&key)).await.ok(201);
    let session = opened["session_id"].as_str().unwrap().to_owned();
    let folder = server.stop().await;
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let needle = session.trim_start_matches("sess_").as_bytes();
            assert!(!bytes.windows(needle.len()).any(|window| window == needle), "{}", path.display());
            seen += usize::from(bytes.windows(12).any(|window| window == b"kept_answers"));
        }
    }
    // PostgreSQL keeps the table in files that this test does not search, so `seen` is 0 on PostgreSQL
    assert!(seen > 0 || std::env::var("TEST_DATABASE").is_ok());
}

#[tokio::test]
async fn i3_requests_of_an_earlier_process_are_released_when_the_node_starts() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let data_dir = server.running().config().data_dir.clone();
    let node_id = std::fs::read_to_string(data_dir.join("node-id")).unwrap();
    let account = server.create_key(Role::Developer, None).await.1;
    let claims = [("other", [1; 32]), (node_id.as_str(), [2; 32])];
    let claim = |digest, claim, node_id: &str, now, held_until| {
        let (account_id, node_id) = (account.as_str().to_owned(), node_id.to_owned());
        store::NewClaim { digest, account_id, claim, node_id, generation: 7, held_until, now }
    };
    for (node_id, digest) in claims {
        let now = server.clock.now().0;
        server.running().store().begin_generation(node_id, 7, 3_600_000_000).await.unwrap();
        let new = claim(digest, [0; 16], node_id, now, now + 360_000_000);
        assert_eq!(server.running().store().claim(new).await.unwrap(), store::Claimed::Mine);
    }
    let server = TestServer::in_folder(server.stop().await, |_| ()).await;
    for ((_, digest), expected) in claims.into_iter().zip([store::Claimed::Running, store::Claimed::Mine]) {
        let now = server.clock.now().0;
        let new = claim(digest, [1; 16], "new", now, now + 1);
        assert_eq!(server.running().store().claim(new).await.unwrap(), expected);
    }
    server.send(Request::get("/api/v1/tfhe/circuits").key(&key)).await.ok(200);
}
