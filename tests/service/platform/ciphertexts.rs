//! Ciphertexts stored on the service (readings K11-K14, C17, section 14).

use std::time::{Duration, Instant};

use control::admin;
use control::caller::{Environment, Plan, Role};
use kernels::ckks::SecurityLevel;
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::numbers::{NumbersKey, closed_again};

use crate::encryption_keys::{KEYS, objects, small, upload, uploaded};
use tests_service::gates::{OCTETS, base64};

const CIPHERTEXTS: &str = "/api/v1/ciphertexts";

/// An account with an encryption key.
struct Account<'s> {
    server: &'s TestServer,
    key: String,
    key_id: String,
}

impl<'s> Account<'s> {
    async fn with_key(server: &'s TestServer) -> Account<'s> {
        let key = server.key(Role::AccountAdmin).await;
        let key_id = uploaded(server, &key, &small()).await;
        Account { server, key, key_id }
    }

    async fn send(&self, request: Request) -> Response {
        self.server.send(request.key(&self.key)).await
    }

    async fn put(&self, bytes: &[u8]) -> Response {
        self.send(Request::post(CIPHERTEXTS, &json!({"key_id": self.key_id, "ciphertext": base64(bytes)}))).await
    }

    async fn put_octets(&self, bytes: Vec<u8>) -> Response {
        let path = format!("{CIPHERTEXTS}?key_id={}", self.key_id);
        self.send(Request::new("POST", path).body(OCTETS, bytes)).await
    }

    async fn one(&self, id: &Value) -> Response {
        self.send(Request::get(path(id))).await
    }

    async fn bytes(&self, id: &Value) -> Response {
        self.send(Request::get(path(id)).header("Accept", OCTETS)).await
    }

    async fn listed(&self) -> Value {
        self.send(Request::get(format!("{CIPHERTEXTS}?key_id={}", self.key_id))).await.ok(200)
    }
}

fn path(id: &Value) -> String {
    format!("{CIPHERTEXTS}/{}", id.as_str().expect("an id"))
}

#[tokio::test]
async fn k11_k13_a_ciphertext_is_kept_in_either_form_told_given_back_and_deleted() {
    let server = TestServer::start().await;
    let account = Account::with_key(&server).await;
    let (seeded, whole) = (small().seeded_ciphertext(2), small().ciphertext(1));
    let first = account.put(&seeded).await.ok(201);
    assert_eq!((&first["key_id"], &first["slot_count"]), (&json!(account.key_id), &json!(32)));
    assert_eq!((&first["level"], &first["origin"]), (&json!(2), &json!("upload")));
    assert_eq!((&first["size_bytes"], &first["evicted_ciphertext_ids"]), (&json!(seeded.len()), &json!([])));
    assert!((first["scale_bits"].as_f64().unwrap() - 30.0).abs() < 2.0, "{first}");
    let second = account.put_octets(whole.clone()).await.ok(201);
    for (told, bytes) in [(&first, &seeded), (&second, &whole)] {
        let answer = account.bytes(&told["ciphertext_id"]).await;
        assert_eq!((answer.status, answer.header("content-type"), &answer.body), (200, Some(OCTETS), bytes));
    }
    let mut record = first.clone();
    record.as_object_mut().unwrap().remove("evicted_ciphertext_ids");
    let mut shown = account.one(&first["ciphertext_id"]).await.ok(200);
    assert!(shown["last_used_at"].as_str() >= record["last_used_at"].as_str());
    shown["last_used_at"] = record["last_used_at"].clone();
    assert_eq!(shown, record);
    let list = account.listed().await;
    assert_eq!((&list["total_count"], &list["has_more"]), (&json!(2), &json!(false)));
    assert_eq!(list["items"][0]["ciphertext_id"], second["ciphertext_id"]);
    let key = account.send(Request::get(format!("{KEYS}/{}", account.key_id))).await.ok(200);
    assert_eq!(key["ciphertext_count"], 2);

    let deleted = account.send(Request::delete(path(&first["ciphertext_id"]))).await.ok(200);
    assert_eq!(deleted, json!({"ciphertext_id": first["ciphertext_id"], "status": "deleted"}));
    assert_eq!(objects(&server, "ciphertexts"), 1);
    for answer in [
        account.one(&first["ciphertext_id"]).await,
        account.bytes(&first["ciphertext_id"]).await,
        account.send(Request::delete(path(&first["ciphertext_id"]))).await,
    ] {
        answer.error(404, "CIPHERTEXT_NOT_FOUND");
    }
}

#[tokio::test]
async fn a5_a7_x14_roles_decide_and_a_ciphertext_is_its_account_s() {
    let server = TestServer::start().await;
    let (admin, of_account) = server.create_key(Role::AccountAdmin, None).await;
    let (viewer, _) = server.create_key(Role::Viewer, Some(of_account)).await;
    let account = Account { key_id: uploaded(&server, &admin, &small()).await, server: &server, key: admin };
    let told = account.put(&small().seeded_ciphertext(2)).await.ok(201);
    let stranger = Account::with_key(&server).await;
    let (one, list) = (path(&told["ciphertext_id"]), format!("{CIPHERTEXTS}?key_id={}", account.key_id));
    for request in [Request::get(&one), Request::get(&list)] {
        server.send(request.key(&viewer)).await.ok(200);
    }
    let body = json!({"key_id": account.key_id, "ciphertext": "AAAA"});
    for request in [Request::delete(&one), Request::post(CIPHERTEXTS, &body)] {
        server.send(request.key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    }
    for request in [Request::get(&one), Request::delete(&one), Request::get(&one).header("Accept", OCTETS)] {
        stranger.send(request).await.error(404, "CIPHERTEXT_NOT_FOUND");
    }
    for request in
        [Request::get(&list), Request::post(CIPHERTEXTS, &body), Request::new("POST", &list).body(OCTETS, "x")]
    {
        stranger.send(request).await.error(404, "KEY_NOT_FOUND");
    }
    // a trial key can read and delete ciphertexts, but cannot list them
    let key = server.key(Role::Trial).await;
    let trial = Account { key_id: uploaded(&server, &key, &small()).await, server: &server, key };
    let told = trial.put(&small().seeded_ciphertext(2)).await.ok(201);
    trial.one(&told["ciphertext_id"]).await.ok(200);
    trial.send(Request::get(format!("{CIPHERTEXTS}?key_id={}", trial.key_id))).await.error(403, "INSUFFICIENT_ROLE");
    trial.send(Request::delete(path(&told["ciphertext_id"]))).await.ok(200);
}

#[tokio::test]
async fn c17_what_is_no_ciphertext_of_the_key_is_refused_and_not_kept() {
    let server = TestServer::start().await;
    let account = Account::with_key(&server).await;
    let good = small().seeded_ciphertext(2);
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        closed_again(bytes)
    };
    let mut flipped = good.clone();
    flipped[100] ^= 1;
    let bad = [
        vec![],
        b"ANGO".to_vec(),
        flipped,
        good[..good.len() - 1].to_vec(),
        [&good[..], &[0]].concat(),
        small().public_key(),
        small().evaluation_key(0)[..1000].to_vec(),
        NumbersKey::testing(64, 30, 3, 1).seeded_ciphertext(2),
        // one wrong field each: level, form, scale (twice), value bound, variance, residues
        changed(40, &[3]),
        changed(41, &[2]),
        changed(44, &f64::NAN.to_le_bytes()),
        changed(44, &f64::INFINITY.to_le_bytes()),
        changed(52, &(-1.0f64).to_le_bytes()),
        changed(60, &f64::INFINITY.to_le_bytes()),
        changed(100, &[0xff; 8]),
    ];
    for (at, bytes) in bad.iter().enumerate() {
        for answer in [account.put(bytes).await, account.put_octets(bytes.clone()).await] {
            assert_eq!(answer.status, 400, "{at}: {}", answer.text());
            answer.error(400, "INVALID_CIPHERTEXT");
        }
    }
    account.put_octets(NumbersKey { fingerprint: [2; 8], ..small() }.ciphertext(2)).await.error(400, "MISMATCHED_KEY");
    for answer in [account.put(&small().secret_key()).await, account.put_octets(small().secret_key()).await] {
        answer.error(400, "SECRET_KEY_REJECTED");
    }
    for (body, status, code) in [
        (json!({"key_id": account.key_id, "ciphertext": "?"}), 400, "INVALID_CIPHERTEXT"),
        (json!({"key_id": account.key_id, "ciphertext": 5}), 422, "VALIDATION_ERROR"),
        (json!({"ciphertext": base64(&good)}), 422, "VALIDATION_ERROR"),
        (json!({"key_id": "key_none", "ciphertext": base64(&good)}), 404, "KEY_NOT_FOUND"),
        (json!({"key_id": account.key_id, "ciphertext": base64(&good), "sk": 1}), 400, "SECRET_KEY_REJECTED"),
    ] {
        account.send(Request::post(CIPHERTEXTS, &body)).await.error(status, code);
    }
    account.send(Request::new("POST", CIPHERTEXTS).body(OCTETS, good)).await.error(400, "INVALID_REQUEST");
    account.send(Request::get(CIPHERTEXTS)).await.error(400, "INVALID_REQUEST");
    assert_eq!((&account.listed().await["total_count"], objects(&server, "ciphertexts")), (&json!(0), 0));
}

#[tokio::test]
async fn k12_2_mb_in_json_and_a_full_level_ciphertext_of_the_key_as_octets() {
    let server = TestServer::start().await;
    let mut account = Account::with_key(&server).await;
    let of = |bytes: usize| json!({"key_id": account.key_id, "ciphertext": base64(&vec![0; bytes])});
    account.send(Request::post(CIPHERTEXTS, &of(2 << 20))).await.error(400, "INVALID_CIPHERTEXT");
    account.send(Request::post(CIPHERTEXTS, &of((2 << 20) + 1))).await.error(413, "PAYLOAD_TOO_LARGE");
    account.put_octets(vec![0; 100_000]).await.error(413, "PAYLOAD_TOO_LARGE");
    // this key's ciphertexts are larger than the 2 MB that a JSON body may hold
    let large = NumbersKey::of(32768, 40, 12, SecurityLevel::Bits128, 3);
    let mut request = upload(&small());
    request["public_key"] = json!(base64(&NumbersKey { fingerprint: [3; 8], ..large.clone() }.public_key()));
    let ciphertext = large.ciphertext(large.params.level_max());
    assert!(ciphertext.len() > 2 << 20);
    account.key_id = upload_in_parts(&server, &account.key, &large).await;
    account.put(&ciphertext).await.error(413, "PAYLOAD_TOO_LARGE");
    let told = account.put_octets(ciphertext.clone()).await.ok(201);
    assert_eq!(account.bytes(&told["ciphertext_id"]).await.body, ciphertext);
}

/// Uploads a key with large parameters in parts. The evaluation key is the smallest possible: one rotation at level 0.
/// Returns the key's id.
async fn upload_in_parts(server: &TestServer, key: &str, numbers: &NumbersKey) -> String {
    let params = crate::encryption_keys::params(numbers);
    let begun = server.send(Request::post("/api/v1/keys/uploads", &json!({"params": params})).key(key)).await.ok(201);
    let path = format!("/api/v1/keys/uploads/{}", begun["upload_id"].as_str().unwrap());
    let rows = numbers.part(kernels::ckks::PartKind::Galois(5), 0);
    let parts =
        [("public-key", numbers.public_key()), ("eval-key", numbers.evaluation_key_of(rows.len() as u32, &rows))];
    for (name, bytes) in parts {
        let put = Request::new("PUT", format!("{path}/{name}")).body(OCTETS, bytes);
        server.send(put.key(key)).await.ok(200);
    }
    let made = server.send(Request::new("POST", format!("{path}/complete")).key(key)).await.ok(200);
    made["key_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn k14_beyond_the_plan_s_cache_what_was_unused_for_longest_goes_and_is_named() {
    let server = TestServer::with(|config| config.plan_limits.of_mut(Plan::Free).ciphertext_cache_mb = 1).await;
    let created =
        admin::create_key(server.running().config(), Role::Developer, Environment::Test, None, Some(Plan::Free));
    let key = created.await.unwrap().key.to_string();
    // three ciphertexts of this key fit into a megabyte
    let numbers = NumbersKey::testing(8192, 30, 4, 1);
    let key_id = upload_in_parts(&server, &key, &numbers).await;
    let account = Account { server: &server, key, key_id };
    let bytes = numbers.ciphertext(4);
    assert!((1 << 20) / bytes.len() == 3, "{}", bytes.len());
    let mut ids = Vec::new();
    for _ in 0..3 {
        let told = account.put_octets(bytes.clone()).await.ok(201);
        assert_eq!(told["evicted_ciphertext_ids"], json!([]));
        ids.push(told["ciphertext_id"].clone());
        server.clock.advance(Duration::from_secs(1));
    }
    // the first ciphertext is read, so the second is the least recently used and is evicted
    account.bytes(&ids[0]).await;
    server.clock.advance(Duration::from_secs(1));
    let told = account.put_octets(bytes.clone()).await.ok(201);
    assert_eq!(told["evicted_ciphertext_ids"], json!([ids[1]]));
    account.one(&ids[1]).await.error(404, "CIPHERTEXT_NOT_FOUND");
    account.bytes(&ids[0]).await;
    assert_eq!((&account.listed().await["total_count"], objects(&server, "ciphertexts")), (&json!(3), 3));
    // each account has its own cache
    let other = Account::with_key(&server).await;
    other.put(&small().ciphertext(2)).await.ok(201);
    assert_eq!(account.listed().await["total_count"], 3);
}

#[tokio::test]
async fn k14_a_ciphertext_that_is_larger_than_the_plan_s_cache_is_402() {
    let server = TestServer::with(|config| config.plan_limits.of_mut(Plan::Enterprise).ciphertext_cache_mb = 0).await;
    let account = Account::with_key(&server).await;
    account.put(&small().ciphertext(2)).await.error(402, "QUOTA_EXCEEDED");
    assert_eq!(objects(&server, "ciphertexts"), 0);
}

#[tokio::test]
async fn k14_a_day_after_its_last_use_a_ciphertext_is_gone() {
    let server = TestServer::start().await;
    let account = Account::with_key(&server).await;
    let [used, unused] = [account.put(&small().ciphertext(2)).await, account.put(&small().ciphertext(2)).await];
    let [used, unused] = [used.ok(201)["ciphertext_id"].clone(), unused.ok(201)["ciphertext_id"].clone()];
    server.clock.advance(Duration::from_secs(12 * 3600));
    assert_eq!(account.bytes(&used).await.status, 200);
    server.clock.advance(Duration::from_secs(12 * 3600 + 1));
    let started = Instant::now();
    while account.one(&unused).await.status == 200 || objects(&server, "ciphertexts") > 1 {
        assert!(started.elapsed() < PATIENCE, "the ciphertext was not deleted");
    }
    account.one(&used).await.ok(200);
}

#[tokio::test]
async fn k15_a_key_takes_its_ciphertexts_with_it() {
    let server = TestServer::start().await;
    let account = Account::with_key(&server).await;
    let told = account.put(&small().ciphertext(2)).await.ok(201);
    account.send(Request::delete(format!("{KEYS}/{}", account.key_id))).await.ok(200);
    assert_eq!((objects(&server, "ciphertexts"), objects(&server, "encryption-keys")), (0, 0));
    account.one(&told["ciphertext_id"]).await.error(404, "CIPHERTEXT_NOT_FOUND");
    account.put(&small().ciphertext(2)).await.error(404, "KEY_NOT_FOUND");
    account.put_octets(small().ciphertext(2)).await.error(404, "KEY_NOT_FOUND");
}

#[tokio::test]
async fn o7_health_tells_how_full_the_room_for_ciphertexts_is_and_warns() {
    let server = TestServer::with(|config| config.vault.ciphertext_bytes_max = 1800).await;
    let account = Account::with_key(&server).await;
    let bytes = small().ciphertext(2);
    assert!((1620..1800).contains(&bytes.len()), "{}", bytes.len());
    let health = async || server.send(Request::get("/api/v1/health")).await.ok(200);
    assert_eq!(
        (&health().await["ciphertext_cache_usage_pct"], &health().await["ciphertext_cache_warning"]),
        (&json!(0.0), &json!(false))
    );
    account.put(&bytes).await.ok(201);
    let full = health().await;
    assert!(full["ciphertext_cache_usage_pct"].as_f64().unwrap() >= 90.0, "{full}");
    assert_eq!(full["ciphertext_cache_warning"], true);
    account.put(&bytes).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(objects(&server, "ciphertexts"), 1);
}

#[tokio::test]
async fn i3_a_ciphertext_that_is_sent_again_is_kept_once() {
    let server = TestServer::start().await;
    let account = Account::with_key(&server).await;
    let body = json!({"key_id": account.key_id, "ciphertext": base64(&small().ciphertext(1))});
    let send = async || account.send(Request::post(CIPHERTEXTS, &body).header("Idempotency-Key", "k")).await.ok(201);
    assert_eq!(send().await, send().await);
    assert_eq!(account.listed().await["total_count"], 1);
}
