//! Encryption keys for arithmetic: uploads in one request (readings K1-K7, K15, K16, K19).

use std::time::{Duration, Instant};

use control::admin;
use control::caller::{Environment, Plan, Role};
use kernels::ckks::{Params, ParamsLiteral, PartKind, SecurityLevel};
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::numbers::{NumbersKey, closed_again};

use tests_service::gates::base64;

pub const UPLOAD: &str = "/api/v1/keys/upload";
pub const KEYS: &str = "/api/v1/keys";

/// Makes the smallest possible key.
pub fn small() -> NumbersKey {
    NumbersKey::testing(64, 30, 2, 1)
}

/// Returns the key's parameters as the member `params` of a request.
pub fn params(key: &NumbersKey) -> Value {
    let literal = key.params.literal();
    json!({"poly_degree": literal.poly_degree, "scale_bits": literal.scale_bits, "max_depth": literal.max_depth})
}

/// Returns the body of a request that uploads a key.
pub fn upload(key: &NumbersKey) -> Value {
    json!({
        "public_key": base64(&key.public_key()),
        "eval_key": base64(&key.evaluation_key(1)),
        "params": params(key),
    })
}

/// Returns the request's body with one member changed.
fn with(mut request: Value, member: &str, value: Value) -> Value {
    request[member] = value;
    request
}

/// Uploads a key and returns its id.
pub async fn uploaded(server: &TestServer, key: &str, numbers: &NumbersKey) -> String {
    let answer = server.send(Request::post(UPLOAD, &upload(numbers)).key(key)).await.ok(200);
    answer["key_id"].as_str().expect("an id").to_owned()
}

/// Counts the objects of a kind in a node's folder.
pub fn objects(server: &TestServer, kind: &str) -> usize {
    let folder = server.running().config().data_dir.join(kind);
    std::fs::read_dir(folder).unwrap().count()
}

/// Makes an account with a key in this environment and on this plan. Returns the key.
async fn api_key(server: &TestServer, environment: Environment, plan: Plan) -> String {
    let role = if plan == Plan::Trial { Role::Trial } else { Role::AccountAdmin };
    let created = admin::create_key(server.running().config(), role, environment, None, Some(plan)).await.unwrap();
    created.key.to_string()
}

#[tokio::test]
async fn k6_a_key_is_uploaded_told_listed_and_deleted_with_its_bytes() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let answer = server.send(Request::post(UPLOAD, &upload(&small())).key(&key)).await;
    // K16: answers about testing degrees always have this header
    assert!(answer.header("x-security-warning").unwrap().contains("0 bits of security"));
    let (text, uploaded) = (answer.text(), answer.ok(200));
    assert_eq!((&uploaded["scheme"], &uploaded["slot_count"]), (&json!("rns-ckks"), &json!(32)));
    assert_eq!(uploaded["blind_guarantee"], true);
    assert!(uploaded["created_at"].as_str().unwrap().ends_with('Z'));
    let id = uploaded["key_id"].as_str().unwrap();
    assert!(id.starts_with("key_") && id.len() == 30);
    let told = &uploaded["params"];
    assert_eq!((&told["poly_degree"], &told["security_level"]), (&json!(64), &json!("testing")));
    assert_eq!(told["modulus_chain"].as_array().unwrap().len(), small().params.primes().len());
    // F1
    assert_eq!(told["special_primes"], small().params.special_count());
    let params = small().params.clone();
    let levels = params.chain().levels.iter();
    let levels: Vec<Value> = levels.map(|level| json!({"primes": level.primes, "scale": level.scale})).collect();
    // as text, because the tests' reader of JSON rounds the last place
    assert!(text.contains(&format!("\"levels\":{}", json!(levels))), "{text}");

    let record = server.send(Request::get(format!("{KEYS}/{id}")).key(&key)).await.ok(200);
    for member in ["key_id", "scheme", "params", "slot_count", "created_at"] {
        assert_eq!(record[member], uploaded[member], "{member}");
    }
    assert_eq!((&record["ciphertext_count"], &record["operation_count"]), (&json!(0), &json!(0)));
    assert_eq!(record["eval_key_bytes"], small().evaluation_key(1).len());
    let list = server.send(Request::get(KEYS).key(&key)).await.ok(200);
    assert_eq!(list, json!({"items": [record], "next_cursor": null, "has_more": false, "total_count": 1}));

    assert_eq!(objects(&server, "encryption-keys"), 1 + small().rows(1).len());
    let deleted = server.send(Request::delete(format!("{KEYS}/{id}")).key(&key)).await.ok(200);
    assert_eq!(deleted, json!({"key_id": id, "status": "deleted"}));
    // K15: the object is deleted before the deletion is answered
    assert_eq!(objects(&server, "encryption-keys"), 0);
    server.send(Request::delete(format!("{KEYS}/{id}")).key(&key)).await.error(404, "KEY_NOT_FOUND");
    server.send(Request::get(format!("{KEYS}/{id}")).key(&key)).await.error(404, "KEY_NOT_FOUND");
}

#[tokio::test]
async fn a5_a7_x14_roles_decide_who_uploads_reads_and_deletes_and_a_key_is_its_account_s() {
    let server = TestServer::start().await;
    let (admin, account) = server.create_key(Role::AccountAdmin, None).await;
    let (viewer, _) = server.create_key(Role::Viewer, Some(account)).await;
    let (trial, stranger) = (server.key(Role::Trial).await, server.key(Role::AccountAdmin).await);
    let id = uploaded(&server, &admin, &small()).await;
    let of_trial = uploaded(&server, &trial, &small()).await;
    let one = |id: &str| format!("{KEYS}/{id}");
    server.send(Request::post(UPLOAD, &upload(&small())).key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(Request::delete(one(&id)).key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(Request::get(one(&id)).key(&viewer)).await.ok(200);
    server.send(Request::get(KEYS).key(&viewer)).await.ok(200);
    for request in [Request::get(KEYS), Request::get(one(&of_trial)), Request::delete(one(&of_trial))] {
        server.send(request.key(&trial)).await.error(403, "INSUFFICIENT_ROLE");
    }
    for request in [Request::get(one(&id)), Request::delete(one(&id)), Request::get(one("key_none"))] {
        server.send(request.key(&stranger)).await.error(404, "KEY_NOT_FOUND");
    }
    server.send(Request::post(UPLOAD, &upload(&small()))).await.error(401, "MISSING_AUTH_HEADER");
}

#[tokio::test]
async fn k1_k2_security_is_decided_by_level_and_environment() {
    let server = TestServer::start().await;
    let live = api_key(&server, Environment::Live, Plan::Enterprise).await;
    let test = api_key(&server, Environment::Test, Plan::Enterprise).await;
    let secure = NumbersKey::of(4096, 25, 1, SecurityLevel::Bits128, 1);
    let level = |key: &NumbersKey, level: Value| {
        let mut request = upload(key);
        request["params"]["security_level"] = level;
        request
    };
    let send = async |key: &str, request: &Value| server.send(Request::post(UPLOAD, request).key(key)).await;
    for request in [level(&secure, json!(null)), level(&secure, json!("128-bit"))] {
        let answer = send(&live, &request).await;
        assert!(answer.header("x-security-warning").is_none());
        assert!(answer.ok(200)["params"]["security_bits"].as_u64().unwrap() >= 128);
    }
    for request in [upload(&small()), level(&small(), json!("testing")), level(&small(), json!("128-bit"))] {
        send(&live, &request).await.error(400, "INSUFFICIENT_SECURITY");
    }
    send(&test, &level(&small(), json!("128-bit"))).await.error(400, "INSUFFICIENT_SECURITY");
    assert!(send(&test, &level(&small(), json!("testing"))).await.header("x-security-warning").is_some());
    // K1: the message lists parameters that would be accepted
    let mut deep = upload(&secure);
    deep["params"] = json!({"poly_degree": 8192, "scale_bits": 40, "max_depth": 8, "security_level": "128-bit"});
    let error = send(&test, &deep).await.error(400, "INSUFFICIENT_SECURITY");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("largest max_depth at this poly_degree and scale_bits is")
            && message.contains("poly_degree for this max_depth is 16384"),
        "{message}"
    );
}

#[tokio::test]
async fn k3_k7_k8_parameters_are_those_of_the_key_and_what_is_wrong_with_them_is_invalid_params() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let send = async |request: &Value| server.send(Request::post(UPLOAD, request).key(&key)).await;
    let mut request = upload(&small());
    for (member, value) in [
        ("poly_degree", json!(256)),
        ("poly_degree", json!(63)),
        ("poly_degree", json!("64")),
        ("poly_degree", json!(null)),
        ("scale_bits", json!(31)),
        ("scale_bits", json!(51)),
        ("scale_bits", json!(9)),
        ("scale_bits", json!(30.5)),
        ("max_depth", json!(3)),
        ("max_depth", json!(0)),
        ("max_depth", json!(15)),
        ("max_depth", json!(-1)),
        ("security_level", json!("high")),
        ("security_level", json!(128)),
        ("bootstrap", json!(true)),
    ] {
        let mut changed = request.clone();
        changed["params"][member] = value.clone();
        let answer = send(&changed).await;
        answer.error(400, "INVALID_PARAMS");
        assert!(answer.text().contains(member), "{member} {value}: {}", answer.text());
    }
    // for the parameters left out here the node assumes the documented defaults, which are not the parameters of this
    // key
    request["params"] = json!({"poly_degree": 64});
    send(&request).await.error(400, "INVALID_PARAMS");
    let defaults = NumbersKey::testing(64, 15, 5, 1);
    let least = with(upload(&defaults), "params", json!({"poly_degree": 64.0}));
    let answer = send(&with(least, "scheme", json!("ckks"))).await.ok(200);
    // K3: a warning reports the low precision. K8: the answer repeats the requested scheme
    assert!(answer["warnings"].as_array().unwrap().len() > 1, "{answer}");
    assert_eq!((&answer["scheme"], &answer["params"]["scheme"]), (&json!("ckks"), &json!("ckks")));
    send(&with(upload(&small()), "scheme", json!("bfv"))).await.error(400, "INVALID_PARAMS");
    for (member, value) in
        [("params", json!(null)), ("params", json!([64])), ("public_key", json!(5)), ("eval_key", json!(null))]
    {
        send(&with(upload(&small()), member, value)).await.error(422, "VALIDATION_ERROR");
    }
    assert_eq!(server.send(Request::get(KEYS).key(&key)).await.ok(200)["total_count"], 1);
}

#[tokio::test]
async fn k4_limits_count_decoded_bytes_exactly() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let send = async |request: &Value| server.send(Request::post(UPLOAD, request).key(&key)).await;
    for (member, most) in [("public_key", 2 << 20), ("eval_key", 10 << 20)] {
        let of = |bytes: usize| with(upload(&small()), member, json!(base64(&vec![0; bytes])));
        send(&of(most)).await.error(400, "INVALID_PARAMS");
        let error = send(&of(most + 1)).await.error(413, "PAYLOAD_TOO_LARGE");
        assert_eq!(error["details"][0]["field"], member);
    }
    let long =
        Request::new("POST", UPLOAD).header("Content-Type", "application/json").header("Content-Length", "17000000");
    server.send(long.key(&key)).await.error(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn k5_a_secret_key_is_refused_by_its_name_at_any_depth_and_by_its_container() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let send = async |request: &Value| server.send(Request::post(UPLOAD, request).key(&key)).await;
    let secret = base64(&small().secret_key());
    let mut requests = vec![
        with(upload(&small()), "secret_key", json!(secret)),
        with(upload(&small()), "note", json!({"a": [{"privateKey": "x"}]})),
        with(upload(&small()), "public_key", json!(secret)),
        with(upload(&small()), "eval_key", json!(secret)),
        // whatever else is wrong in a request, the error is about the secret key
        with(with(upload(&small()), "eval_key", json!(secret)), "params", json!({"poly_degree": 5})),
        with(upload(&small()), "eval_key", json!(base64(&small().secret_key()[..10]))),
    ];
    let mut within = upload(&small());
    within["params"]["sk"] = json!([1, 2]);
    requests.push(within);
    for request in requests {
        send(&request).await.error(400, "SECRET_KEY_REJECTED");
    }
    send(&with(upload(&small()), "secret_key", json!(null))).await.ok(200);
}

#[tokio::test]
async fn damaged_cut_and_foreign_containers_are_refused_and_leave_nothing() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let (good, other) = (small(), NumbersKey { fingerprint: [2; 8], ..small() });
    let rows = good.rows(1);
    let flipped = |mut bytes: Vec<u8>, at: usize| {
        bytes[at] ^= 1;
        bytes
    };
    let row_flipped = |at: usize| flipped(good.evaluation_key(1), 44 + at);
    let mut too_large = rows.clone();
    // a residue with all bits set is not below its prime; the checksum is recomputed later, so only the residue is
    // wrong
    let row = &mut too_large[0];
    row[48..52].fill(0xff);
    let reordered: Vec<_> = rows.iter().rev().cloned().collect();
    let twice = [&rows[..], &rows[..]].concat();
    let evaluation = [
        vec![],
        b"ANGO".to_vec(),
        good.ciphertext(0),
        good.public_key(),
        good.evaluation_key(1)[..43].to_vec(),
        good.evaluation_key(1)[..good.evaluation_key(1).len() - 1].to_vec(),
        [good.evaluation_key(1), vec![0]].concat(),
        good.evaluation_key_of(rows.len() as u32 + 1, &rows),
        good.evaluation_key_of(u32::MAX, &rows),
        good.evaluation_key_of(rows.len() as u32, &reordered),
        good.evaluation_key_of(twice.len() as u32, &twice),
        good.evaluation_key_of(rows.len() as u32, &too_large),
        other.evaluation_key(1),
        NumbersKey::testing(64, 30, 3, 1).evaluation_key(1),
        flipped(good.evaluation_key(1), 40),
        row_flipped(0),
        row_flipped(1),
        row_flipped(2),
        row_flipped(9),
        row_flipped(45),
        row_flipped(100),
    ];
    for (at, bytes) in evaluation.iter().enumerate() {
        let request = with(upload(&good), "eval_key", json!(base64(bytes)));
        let answer = server.send(Request::post(UPLOAD, &request).key(&key)).await;
        assert_eq!(answer.status, 400, "{at}: {}", answer.text());
        answer.error(400, "INVALID_PARAMS");
    }
    let mut residue = good.public_key();
    residue[32 + 8 + 36..][..4].fill(0xff);
    for bytes in [good.evaluation_key(1), flipped(good.public_key(), 100), closed_again(residue), other.public_key()] {
        let request = with(upload(&good), "public_key", json!(base64(&bytes)));
        server.send(Request::post(UPLOAD, &request).key(&key)).await.error(400, "INVALID_PARAMS");
    }
    let request = with(upload(&good), "public_key", json!("?"));
    server.send(Request::post(UPLOAD, &request).key(&key)).await.error(400, "INVALID_PARAMS");
    assert_eq!((objects(&server, "encryption-keys"), server.metric("ango_encryption_key_bytes").await), (0, 0.0));
}

#[tokio::test]
async fn k19_a_plan_has_so_many_keys_and_equal_uploads_share_storage() {
    let server = TestServer::with(|config| config.plan_limits.of_mut(Plan::Free).encryption_keys = 2).await;
    let key = api_key(&server, Environment::Test, Plan::Free).await;
    let first = uploaded(&server, &key, &small()).await;
    let stored = objects(&server, "encryption-keys");
    let second = uploaded(&server, &key, &small()).await;
    assert_ne!(first, second);
    assert_eq!(objects(&server, "encryption-keys"), stored);
    let bytes = (small().public_key().len() + small().evaluation_key(1).len()) as f64;
    assert_eq!(server.metric("ango_encryption_key_bytes").await, bytes);
    let refused = server.send(Request::post(UPLOAD, &upload(&small())).key(&key)).await;
    assert!(refused.error(402, "QUOTA_EXCEEDED")["message"].as_str().unwrap().contains("free has 2"));
    assert_eq!(objects(&server, "encryption-keys"), stored);
    server.send(Request::delete(format!("{KEYS}/{first}")).key(&key)).await.ok(200);
    assert_eq!(objects(&server, "encryption-keys"), stored);
    server.send(Request::delete(format!("{KEYS}/{second}")).key(&key)).await.ok(200);
    assert_eq!(objects(&server, "encryption-keys"), 0);
    uploaded(&server, &key, &small()).await;
    // a trial can have only one key
    let trial = api_key(&server, Environment::Trial, Plan::Trial).await;
    uploaded(&server, &trial, &small()).await;
    server.send(Request::post(UPLOAD, &upload(&small())).key(&trial)).await.error(402, "QUOTA_EXCEEDED");
}

#[tokio::test]
async fn i3_an_upload_that_is_sent_again_makes_one_key() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let send =
        async || server.send(Request::post(UPLOAD, &upload(&small())).header("Idempotency-Key", "k").key(&key)).await;
    let (first, again): (Response, Response) = (send().await, send().await);
    assert_eq!(first.ok(200), again.ok(200));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert!(again.header("x-security-warning").is_some());
    assert_eq!(server.send(Request::get(KEYS).key(&key)).await.ok(200)["total_count"], 1);
}

#[tokio::test]
async fn a12_a_trial_s_keys_end_with_it() {
    let server = TestServer::start().await;
    let trial = server.key(Role::Trial).await;
    uploaded(&server, &trial, &small()).await;
    assert!(objects(&server, "encryption-keys") > 0);
    server.clock.advance(Duration::from_secs(31 * 60));
    let started = Instant::now();
    while objects(&server, "encryption-keys") > 0 {
        assert!(started.elapsed() < PATIENCE, "the trial's key was not deleted");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn beyond_the_service_s_room_a_key_is_503_and_leaves_nothing() {
    let server = TestServer::with(|config| config.vault.stored_key_bytes_max = 1000).await;
    let key = server.key(Role::Developer).await;
    server.send(Request::post(UPLOAD, &upload(&small())).key(&key)).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(objects(&server, "encryption-keys"), 0);
}

#[tokio::test]
async fn keys_are_there_after_a_restart_and_sealed_on_the_disk() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let id = uploaded(&server, &key, &small()).await;
    let folder = server.running().config().data_dir.join("encryption-keys");
    for file in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(4).any(|part| part == b"ANGO") && !bytes.windows(16).any(|part| part == [7; 16]));
    }
    let server = TestServer::in_folder(server.stop().await, |_| ()).await;
    server.send(Request::get(format!("{KEYS}/{id}")).key(&key)).await.ok(200);
    assert!(server.metric("ango_encryption_key_bytes").await > 0.0);
}

#[tokio::test]
async fn a10_parts_of_two_sparse_secrets_are_refused_and_keys_without_tags_are_taken() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let literal = ParamsLiteral { bootstrap: true, ..NumbersKey::testing(64, 40, 2, 3).params.literal() };
    let numbers = NumbersKey { params: Params::new(literal).unwrap(), fingerprint: [3; 8] };
    let parts = [(PartKind::FromSparse, 2), (PartKind::Galois(5), 2), (PartKind::ToSparse, 0)];
    let key_of = |from: u32, to: u32, last: u32| {
        let mut rows: Vec<Vec<u8>> = parts.iter().flat_map(|&(kind, level)| numbers.part(kind, level)).collect();
        for row in &mut rows {
            let tag = if row[0] == 4 { from } else { to };
            if row[0] > 2 {
                *row = numbers.with_sparse_tag(row, tag);
            }
        }
        let end = rows.len() - 1;
        rows[end] = numbers.with_sparse_tag(&rows[end], last);
        numbers.evaluation_key_of(rows.len() as u32, &rows)
    };
    let send = async |eval_key: &[u8]| {
        let mut body = json!({"public_key": base64(&numbers.public_key()), "eval_key": base64(eval_key)});
        body["params"] = params(&numbers);
        body["params"]["bootstrap"] = json!(true);
        server.send(Request::post(UPLOAD, &body).key(&key)).await
    };
    // two tags; one part without a tag; one row of a part with another tag
    for (from, to, last) in [(7, 9, 9), (7, 0, 0), (0, 7, 7), (7, 7, 9), (u32::MAX, 7, 7)] {
        let error = send(&key_of(from, to, last)).await.error(400, "INVALID_PARAMS");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("to-sparse") && message.contains("from-sparse"), "{message}");
    }
    send(&key_of(7, 7, 7)).await.ok(200);
    // made before there were tags
    let older = NumbersKey { fingerprint: [4; 8], ..numbers.clone() };
    let rows: Vec<Vec<u8>> = parts.iter().flat_map(|&(kind, level)| older.part(kind, level)).collect();
    let mut body = json!({"public_key": base64(&older.public_key()), "params": params(&older)});
    body["eval_key"] = json!(base64(&older.evaluation_key_of(rows.len() as u32, &rows)));
    server.send(Request::post(UPLOAD, &body).key(&key)).await.ok(200);
}
