//! Encryption keys uploaded in parts (readings section 14): every part ends on a row, and an upload continues where it
//! broke off.

use std::time::{Duration, Instant};

use client::ckks::{SecretKey, container, evaluation_key_parts};
use client::http;
use control::caller::{Plan, Role};
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::numbers::NumbersKey;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::encryption_keys::{KEYS, objects, params, small};
use crate::numbers::{Numbers, assert_near, testing};
use tests_service::gates::OCTETS;

const UPLOADS: &str = "/api/v1/keys/uploads";
/// Number of bytes in an evaluation key before its first row.
const HEAD: usize = 44;

/// An upload that an account has begun.
struct Upload<'s> {
    server: &'s TestServer,
    key: String,
    path: String,
}

impl<'s> Upload<'s> {
    async fn begin(server: &'s TestServer, key: &str, numbers: &NumbersKey) -> Upload<'s> {
        let begun = server.send(Request::post(UPLOADS, &json!({"params": params(numbers)})).key(key)).await.ok(201);
        let path = format!("{UPLOADS}/{}", begun["upload_id"].as_str().unwrap());
        Upload { server, key: key.to_owned(), path }
    }

    async fn public(&self, bytes: Vec<u8>) -> Response {
        let request = Request::new("PUT", format!("{}/public-key", self.path)).body(OCTETS, bytes);
        self.server.send(request.key(&self.key)).await
    }

    async fn whole(&self, bytes: Vec<u8>) -> Response {
        let request = Request::new("PUT", format!("{}/eval-key", self.path)).body(OCTETS, bytes);
        self.server.send(request.key(&self.key)).await
    }

    /// Sends a part of the key `whole`: the bytes from `from` on, up to the byte before `to`.
    async fn part(&self, whole: &[u8], from: usize, to: usize) -> Response {
        self.ranged(whole[from..to].to_vec(), &format!("bytes {from}-{}/{}", to - 1, whole.len())).await
    }

    async fn ranged(&self, bytes: Vec<u8>, range: &str) -> Response {
        let request = Request::new("PUT", format!("{}/eval-key", self.path)).header("Content-Range", range);
        self.server.send(request.body(OCTETS, bytes).key(&self.key)).await
    }

    async fn show(&self) -> Value {
        self.server.send(Request::get(&self.path).key(&self.key)).await.ok(200)
    }

    async fn complete(&self) -> Response {
        self.server.send(Request::new("POST", format!("{}/complete", self.path)).key(&self.key)).await
    }
}

#[tokio::test]
async fn a_key_in_parts_becomes_the_same_key_as_in_one_request() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let numbers = small();
    let (whole, row) = (numbers.evaluation_key(2), numbers.rows(2)[0].len());
    let upload = Upload::begin(&server, &key, &numbers).await;
    let begun = upload.show().await;
    assert_eq!((&begun["state"], &begun["eval_key_bytes"]), (&json!("open"), &json!(0)));
    assert_eq!((&begun["eval_key_rows_total"], &begun["public_key_bytes"]), (&json!(null), &json!(0)));
    upload.complete().await.error(409, "CONFLICT");
    let told = upload.part(&whole, 0, HEAD + row).await.ok(200);
    assert_eq!((&told["eval_key_bytes"], &told["eval_key_rows"]), (&json!(HEAD + row), &json!(1)));
    assert_eq!(told["eval_key_rows_total"], numbers.rows(2).len());
    upload.complete().await.error(409, "CONFLICT");
    upload.public(numbers.public_key()).await.ok(200);
    // a public key that is uploaded again replaces the first one
    let told = upload.public(numbers.public_key()).await.ok(200);
    assert_eq!(told["public_key_bytes"], numbers.public_key().len());
    upload.complete().await.error(409, "CONFLICT");
    let rest = format!("bytes {}-{}/*", HEAD + row, whole.len() - 1);
    upload.ranged(whole[HEAD + row..].to_vec(), &rest).await.ok(200);
    let answer = upload.complete().await;
    assert!(answer.header("x-security-warning").is_some());
    let made = answer.ok(200);
    assert_eq!((&made["blind_guarantee"], &made["slot_count"]), (&json!(true), &json!(32)));
    let record = format!("{KEYS}/{}", made["key_id"].as_str().unwrap());
    assert_eq!(server.send(Request::get(&record).key(&key)).await.ok(200)["eval_key_bytes"], whole.len());
    let told = upload.show().await;
    assert_eq!((&told["state"], &told["key_id"]), (&json!("completed"), &made["key_id"]));
    for answer in
        [upload.complete().await, upload.whole(whole.clone()).await, upload.public(numbers.public_key()).await]
    {
        answer.error(409, "CONFLICT");
    }
    // K19: equal keys share storage, whether they were uploaded in parts or in one request
    let stored = objects(&server, "encryption-keys");
    let again = Upload::begin(&server, &key, &numbers).await;
    again.public(numbers.public_key()).await.ok(200);
    again.whole(whole).await.ok(200);
    assert_ne!(again.complete().await.ok(200)["key_id"], made["key_id"]);
    assert_eq!(objects(&server, "encryption-keys"), stored);
}

#[tokio::test]
async fn parts_at_the_wrong_place_twice_or_out_of_order_are_refused_and_the_upload_goes_on() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let numbers = small();
    let (whole, row) = (numbers.evaluation_key(1), numbers.rows(1)[0].len());
    let upload = Upload::begin(&server, &key, &numbers).await;
    upload.part(&whole, HEAD, HEAD + row).await.error(409, "CONFLICT");
    upload.part(&whole, 0, HEAD + row).await.ok(200);
    for (from, to) in
        [(0, HEAD + row), (HEAD, HEAD + row), (HEAD + 2 * row, whole.len()), (HEAD + row + 1, whole.len())]
    {
        let error = upload.part(&whole, from, to).await.error(409, "CONFLICT");
        assert!(error["message"].as_str().unwrap().contains(&format!("continues at byte {}", HEAD + row)), "{error}");
    }
    // a part with the bytes of the first row, announced as the range of the second row
    let range = format!("bytes {}-{}/{}", HEAD + row, HEAD + 2 * row - 1, whole.len());
    upload.ranged(whole[HEAD..HEAD + row].to_vec(), &range).await.error(400, "INVALID_PARAMS");
    // the part ends in the middle of a row; the node stores the rows that are complete, and refuses the rest
    let error = upload.part(&whole, HEAD + row, HEAD + 2 * row + 7).await.error(400, "INVALID_REQUEST");
    assert!(error["message"].as_str().unwrap().contains(&format!("must begin at byte {}", HEAD + 2 * row)), "{error}");
    assert_eq!(upload.show().await["eval_key_bytes"], HEAD + 2 * row);
    for range in ["bytes 5-4/10", "rows 0-1/2", "bytes 0-1", &format!("bytes {}-99999/*", HEAD + 2 * row)] {
        upload.ranged(vec![0; 7], range).await.error(400, "INVALID_REQUEST");
    }
    // a damaged row is refused, and the upload can go on with the correct row
    let mut damaged = whole.clone();
    damaged[HEAD + 2 * row + 60] ^= 1;
    upload.part(&damaged, HEAD + 2 * row, whole.len()).await.error(400, "INVALID_PARAMS");
    upload.part(&whole, HEAD + 2 * row, whole.len()).await.ok(200);
    // a part beyond the end that the head announces
    let more = format!("bytes {}-{}/*", whole.len(), whole.len() + row - 1);
    upload.ranged(whole[HEAD..HEAD + row].to_vec(), &more).await.error(400, "INVALID_PARAMS");
    upload.public(numbers.public_key()).await.ok(200);
    upload.complete().await.ok(200);
}

#[tokio::test]
async fn of_parts_that_are_sent_at_once_one_is_kept() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let whole = small().evaluation_key(3);
    let upload = Upload::begin(&server, &key, &small()).await;
    let (a, b) = tokio::join!(upload.whole(whole.clone()), upload.whole(whole.clone()));
    let mut statuses = [a.status, b.status];
    statuses.sort();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(upload.show().await["eval_key_bytes"], whole.len());
    assert_eq!(objects(&server, "encryption-keys"), small().rows(3).len());
}

#[tokio::test]
async fn an_upload_that_breaks_off_goes_on_after_its_last_whole_row() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let numbers = small();
    let (whole, row) = (numbers.evaluation_key(2), numbers.rows(2)[0].len());
    let upload = Upload::begin(&server, &key, &numbers).await;
    let head = Request::new("PUT", format!("{}/eval-key", upload.path))
        .header("Content-Type", OCTETS)
        .header("Content-Length", &whole.len().to_string());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head.key(&key).head().as_bytes()).await.unwrap();
    stream.write_all(&whole[..HEAD + 2 * row + 5]).await.unwrap();
    stream.flush().await.unwrap();
    // the head is recorded as soon as it has arrived
    let started = Instant::now();
    while upload.show().await["eval_key_bytes"] == 0 {
        assert!(started.elapsed() < PATIENCE, "the head was not recorded");
        tokio::task::yield_now().await;
    }
    drop(stream);
    let left = |bytes: &Value| bytes.as_u64().unwrap() as usize;
    let from = left(&upload.show().await["eval_key_bytes"]);
    assert!((from - HEAD).is_multiple_of(row) && from <= HEAD + 2 * row, "{from}");
    // the node may still be storing rows of the request that broke off; until they are stored, it answers another part
    // with 409
    let answer = loop {
        let from = left(&upload.show().await["eval_key_bytes"]);
        let answer = upload.part(&whole, from, whole.len()).await;
        assert!(started.elapsed() < PATIENCE, "{}", answer.text());
        if answer.status != 409 {
            break answer;
        }
    };
    assert_eq!(answer.ok(200)["eval_key_bytes"], whole.len());
    upload.public(numbers.public_key()).await.ok(200);
    upload.complete().await.ok(200);
}

#[tokio::test]
async fn a_key_that_claims_more_than_may_be_is_refused_by_its_head() {
    let server = TestServer::with(|config| config.plan_limits.of_mut(Plan::Enterprise).encryption_key_mb = 1).await;
    let key = server.key(Role::Developer).await;
    let upload = Upload::begin(&server, &key, &small()).await;
    upload.whole(small().evaluation_key_claiming(u32::MAX)).await.error(413, "PAYLOAD_TOO_LARGE");
    // two uploads that are too large: the first by its announced range, the second by its announced length
    upload.ranged(vec![0; 8], "bytes 0-7/1099511627776").await.error(413, "PAYLOAD_TOO_LARGE");
    let long = Request::new("PUT", format!("{}/eval-key", upload.path))
        .header("Content-Type", OCTETS)
        .header("Content-Length", &(1u64 << 40).to_string());
    server.send(long.key(&key)).await.error(413, "PAYLOAD_TOO_LARGE");
    assert_eq!((&upload.show().await["eval_key_bytes"], objects(&server, "encryption-keys")), (&json!(0), 0));
    upload.whole(small().evaluation_key(1)).await.ok(200);
}

#[tokio::test]
async fn k5_k7_a_secret_key_and_keys_that_do_not_belong_together_are_refused() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let upload = Upload::begin(&server, &key, &small()).await;
    let secret = small().secret_key();
    upload.public(secret.clone()).await.error(400, "SECRET_KEY_REJECTED");
    upload.whole(secret.clone()).await.error(400, "SECRET_KEY_REJECTED");
    upload.whole(secret[..12].to_vec()).await.error(400, "SECRET_KEY_REJECTED");
    let other = NumbersKey::testing(64, 30, 3, 1);
    upload.public(other.public_key()).await.error(400, "INVALID_PARAMS");
    upload.whole(other.evaluation_key(0)).await.error(400, "INVALID_PARAMS");
    upload.public(small().public_key()).await.ok(200);
    let foreign = NumbersKey { fingerprint: [2; 8], ..small() };
    upload.whole(foreign.evaluation_key(0)).await.error(400, "INVALID_PARAMS");
    upload.whole(small().evaluation_key(0)).await.ok(200);
    upload.public(foreign.public_key()).await.error(400, "INVALID_PARAMS");
    upload.complete().await.ok(200);
    let wrong = Request::new("PUT", format!("{}/eval-key", upload.path)).body("text/plain", "x");
    server.send(wrong.key(&key)).await.error(400, "INVALID_REQUEST");
    let body = json!({"params": params(&small()), "secret_key": "x"});
    server.send(Request::post(UPLOADS, &body).key(&key)).await.error(400, "SECRET_KEY_REJECTED");
    let body = json!({"params": {"poly_degree": 64, "security_level": "128-bit"}});
    server.send(Request::post(UPLOADS, &body).key(&key)).await.error(400, "INSUFFICIENT_SECURITY");
}

#[tokio::test]
async fn an_upload_is_its_account_s_counts_as_a_key_and_ends_by_itself_or_by_its_owner() {
    let server = TestServer::start().await;
    let (key, stranger) = (server.key(Role::Trial).await, server.key(Role::AccountAdmin).await);
    let (viewer, _) = server.create_key(Role::Viewer, None).await;
    let upload = Upload::begin(&server, &key, &small()).await;
    upload.whole(small().evaluation_key(0)).await.ok(200);
    // K19: a trial can have only one key
    let body = json!({"params": params(&small())});
    server.send(Request::post(UPLOADS, &body).key(&key)).await.error(402, "QUOTA_EXCEEDED");
    server.send(Request::post(UPLOADS, &body).key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    for request in [
        Request::get(&upload.path),
        Request::delete(&upload.path),
        Request::new("POST", format!("{}/complete", upload.path)),
    ] {
        server.send(request.key(&stranger)).await.error(404, "NOT_FOUND");
    }
    let gone = server.send(Request::delete(&upload.path).key(&key)).await;
    assert_eq!((gone.status, objects(&server, "encryption-keys")), (204, 0));
    server.send(Request::delete(&upload.path).key(&key)).await.error(404, "NOT_FOUND");

    let key = server.key(Role::Developer).await;
    let upload = Upload::begin(&server, &key, &small()).await;
    upload.whole(small().evaluation_key(0)).await.ok(200);
    server.clock.advance(Duration::from_secs(3600));
    upload.complete().await.error(404, "NOT_FOUND");
    let started = Instant::now();
    while objects(&server, "encryption-keys") > 0 {
        assert!(started.elapsed() < PATIENCE, "the upload was not deleted");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_large_key_that_comes_in_drops_takes_the_memory_of_a_few_rows() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let numbers = NumbersKey::testing(16384, 40, 8, 1);
    let (whole, row) = (numbers.evaluation_key(3), numbers.rows(0)[0].len());
    assert!(whole.len() > 20 << 20, "{}", whole.len());
    let upload = Upload::begin(&server, &key, &numbers).await;
    let request = Request::new("PUT", format!("{}/eval-key", upload.path)).key(&key);
    let request = request.header("Content-Type", OCTETS).header("Content-Length", &whole.len().to_string());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.head().as_bytes()).await.unwrap();
    let mut most = 0.0f64;
    for (at, drop) in whole.chunks(10_007).enumerate() {
        stream.write_all(drop).await.unwrap();
        if at % 200 == 0 {
            most = most.max(server.metric("ango_body_bytes").await);
        }
    }
    let answer = Response::read(&mut stream).await;
    assert_eq!(answer.ok(200)["eval_key_bytes"], whole.len());
    assert!(most > 0.0 && most < 24.0 * row as f64, "{most} bytes for rows of {row}");
}

#[tokio::test]
async fn many_uploads_at_once_become_as_many_keys() {
    const UPLOADS_AT_ONCE: usize = 50;
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let upload = async |fingerprint: usize| {
        let numbers = NumbersKey::testing(64, 30, 2, 1 + fingerprint as u8);
        let upload = Upload::begin(&server, &key, &numbers).await;
        upload.public(numbers.public_key()).await.ok(200);
        let whole = numbers.evaluation_key(2);
        let middle = HEAD + numbers.rows(2)[0].len();
        upload.part(&whole, 0, middle).await.ok(200);
        upload.part(&whole, middle, whole.len()).await.ok(200);
        upload.complete().await.ok(200)["key_id"].as_str().unwrap().to_owned()
    };
    let all = futures_util::future::join_all((0..UPLOADS_AT_ONCE).map(upload)).await;
    let distinct: std::collections::HashSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), UPLOADS_AT_ONCE);
    let told = server.send(Request::get(format!("{KEYS}?limit=1")).key(&key)).await.ok(200);
    assert_eq!(told["total_count"], UPLOADS_AT_ONCE);
}

#[tokio::test]
async fn the_client_of_another_program_continues_an_upload_that_broke_off() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let client = http::Client::new(&format!("http://{}", server.address), &key).unwrap();
    let params = testing(64, 3);
    let parts = evaluation_key_parts(&params);
    let [secret, other] = [0; 2].map(|_| SecretKey::generate(&params));
    let pair = |secret: &SecretKey| -> (Vec<u8>, Vec<Vec<u8>>) {
        let public = container::write_public_key(&secret.public_key(params.level_max()));
        (public, secret.evaluation_key(&parts).collect())
    };
    let (public, pieces) = pair(&secret);
    let id = client.begin_key_upload(&params).await.unwrap();
    let upload = Upload { server: &server, key: key.clone(), path: format!("{UPLOADS}/{}", id.as_str()) };
    // a program ended after it had sent the public key, the head and three rows
    upload.public(public.clone()).await.ok(200);
    let whole = pieces.concat();
    let come = pieces[..4].iter().map(Vec::len).sum();
    upload.part(&whole, 0, come).await.ok(200);
    // the keys of another secret are refused, and the upload stays
    let (foreign, rows) = pair(&other);
    let refused = client.continue_key_upload(&id, foreign, rows.into_iter().map(Ok), |_| ()).await;
    assert!(matches!(refused, Err(http::Error::Refused { status: 400, .. })), "{refused:?}");
    assert_eq!(upload.show().await["eval_key_bytes"], come);
    let mut heard = Vec::new();
    let rows = || pieces.clone().into_iter().map(Ok);
    let made = client.continue_key_upload(&id, public.clone(), rows(), |sent| heard.push(sent)).await.unwrap();
    assert_eq!(heard.last(), Some(&(whole.len() as u64)));
    // asked again, the client gets the same key
    assert_eq!(client.continue_key_upload(&id, public, rows(), |_| ()).await.unwrap().key_id, made.key_id);
    let numbers = Numbers { server: &server, key, key_id: made.key_id.as_str().to_owned(), secret };
    let a = numbers.encrypted_within(&[0.5, -0.25], 1.0).await;
    let told = numbers.compute("multiply", &[&a, &a], json!({})).await.ok(200);
    assert_near(&numbers.decrypted(&told["result_ciphertext_id"]).await, &[0.25, 0.0625]);
}
