//! A seed comes once under a secret key (docs/wire-format.md 17): two contents under one mask reveal the secret key.
//! The same bytes again are the same object, so retries and resumed uploads go on.

use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::gates::{OCTETS, base64};
use tests_service::http::{Request, Response};
use tests_service::numbers::{KEY_HEAD_BYTES, NumbersKey, closed_again};

use crate::encryption_keys::{UPLOAD, params, small};

/// Number of bytes before the seed in a row of an evaluation key, in a public key and in a seeded ciphertext.
const SEED_OF_ROW: usize = 8;
const SEED_OF_PUBLIC_KEY: usize = 44;
const SEED_OF_CIPHERTEXT: usize = 68;

fn seed(bytes: &[u8], at: usize) -> [u8; 32] {
    bytes[at..at + 32].try_into().unwrap()
}

/// Returns a container with another seed.
fn reseeded(mut container: Vec<u8>, at: usize, seed: [u8; 32]) -> Vec<u8> {
    container[at..at + 32].copy_from_slice(&seed);
    closed_again(container)
}

/// Returns the message of the refusal of a used seed.
fn refused(answer: Response, code: &str) -> String {
    let error = answer.error(400, code);
    let message = error["message"].as_str().unwrap().to_owned();
    assert!(message.contains("same seed") && message.contains("draw a new seed"), "{message}");
    message
}

async fn upload(server: &TestServer, key: &str, public_key: &[u8], eval_key: &[u8], numbers: &NumbersKey) -> Response {
    let body = json!({"public_key": base64(public_key), "eval_key": base64(eval_key), "params": params(numbers)});
    server.send(Request::post(UPLOAD, &body).key(key)).await
}

#[tokio::test]
async fn a10_rows_of_one_key_with_one_seed_are_refused_wherever_they_stand() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let numbers = small();
    let rows = numbers.rows(3);
    let whole = |rows: &[Vec<u8>]| numbers.evaluation_key_of(rows.len() as u32, rows);
    // neighbours in a part, the ends of the key, and the public key's seed in a row
    for (from, to) in [(0, 1), (0, rows.len() - 1), (rows.len() - 2, rows.len() - 1)] {
        let mut bad = rows.clone();
        bad[to] = numbers.with_seed(&rows[to], seed(&rows[from], SEED_OF_ROW));
        let answer = upload(&server, &key, &numbers.public_key(), &whole(&bad), &numbers).await;
        let message = refused(answer, "INVALID_PARAMS");
        assert!(message.contains(&format!("row {to} ")) && message.contains(&format!("row {from} ")), "{message}");
    }
    let mut bad = rows.clone();
    bad[2] = numbers.with_seed(&rows[2], seed(&numbers.public_key(), SEED_OF_PUBLIC_KEY));
    let answer = upload(&server, &key, &numbers.public_key(), &whole(&bad), &numbers).await;
    let message = refused(answer, "INVALID_PARAMS");
    assert!(message.contains("row 2 ") && message.contains("a public key"), "{message}");
    let list = server.send(Request::get("/api/v1/keys").key(&key)).await.ok(200);
    assert_eq!(list["total_count"], 0, "nothing is half written");
    // the same seeds under another secret key, and in another account, are not of one mask
    upload(&server, &key, &numbers.public_key(), &whole(&rows), &numbers).await.ok(200);
    let other = NumbersKey { fingerprint: [2; 8], ..small() };
    let of_other: Vec<_> = rows.iter().map(|row| other.with_seed(row, seed(row, SEED_OF_ROW))).collect();
    let eval_key = other.evaluation_key_of(of_other.len() as u32, &of_other);
    upload(&server, &key, &other.public_key(), &eval_key, &other).await.ok(200);
    let stranger = server.key(Role::Developer).await;
    let mut changed = rows.clone();
    changed.swap(0, 1);
    let swapped: Vec<_> = [0, 1].map(|at| numbers.with_seed(&rows[at], seed(&changed[at], SEED_OF_ROW))).into();
    let eval_key = whole(&[&swapped[..], &rows[2..]].concat());
    upload(&server, &stranger, &numbers.public_key(), &eval_key, &numbers).await.ok(200);
    // another key of the same secret, in the same account: the seeds of its rows were used before
    refused(upload(&server, &key, &numbers.public_key(), &eval_key, &numbers).await, "INVALID_PARAMS");
    // the same bytes again are the same object
    upload(&server, &key, &numbers.public_key(), &whole(&rows), &numbers).await.ok(200);
}

#[tokio::test]
async fn f4_seeds_are_remembered_over_the_parts_of_an_upload_and_a_restart() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let numbers = small();
    let (rows, whole) = (numbers.rows(2), numbers.evaluation_key(2));
    let ends: Vec<usize> = rows
        .iter()
        .scan(KEY_HEAD_BYTES, |end, row| {
            *end += row.len();
            Some(*end)
        })
        .collect();
    let last = rows.len() - 1;
    let begun =
        server.send(Request::post("/api/v1/keys/uploads", &json!({"params": params(&numbers)})).key(&key)).await;
    let path = format!("/api/v1/keys/uploads/{}", begun.ok(201)["upload_id"].as_str().unwrap());
    let put = async |server: &TestServer, bytes: &[u8], from: usize| {
        let range = format!("bytes {from}-{}/*", from + bytes.len() - 1);
        let request = Request::new("PUT", format!("{path}/eval-key")).header("Content-Range", &range);
        server.send(request.body(OCTETS, bytes.to_vec()).key(&key)).await
    };
    put(&server, &whole[..ends[0]], 0).await.ok(200);
    let server = TestServer::in_folder(server.stop().await, |_| {}).await;
    // the good row before the bad one is stored
    let mut bad = rows.clone();
    bad[last] = numbers.with_seed(&rows[last], seed(&rows[0], SEED_OF_ROW));
    let rest = bad[1..].concat();
    let message = refused(put(&server, &rest, ends[0]).await, "INVALID_PARAMS");
    assert!(message.contains(&format!("row {last} ")) && message.contains("row 0 "), "{message}");
    let shown = server.send(Request::get(&path).key(&key)).await.ok(200);
    assert_eq!((&shown["eval_key_bytes"], &shown["eval_key_rows"]), (&json!(ends[last - 1]), &json!(last)));
    let public_key = async |server: &TestServer, bytes: Vec<u8>| {
        server.send(Request::new("PUT", format!("{path}/public-key")).body(OCTETS, bytes).key(&key)).await
    };
    let bad = reseeded(numbers.public_key(), SEED_OF_PUBLIC_KEY, seed(&rows[0], SEED_OF_ROW));
    refused(public_key(&server, bad).await, "INVALID_PARAMS");
    public_key(&server, numbers.public_key()).await.ok(200);
    public_key(&server, numbers.public_key()).await.ok(200);
    let mut changed = numbers.public_key();
    changed[80] ^= 1;
    refused(public_key(&server, closed_again(changed)).await, "INVALID_PARAMS");
    put(&server, &rows[last], ends[last - 1]).await.ok(200);
    server.send(Request::new("POST", format!("{path}/complete")).key(&key)).await.ok(200);
}

#[tokio::test]
async fn f4_two_ciphertexts_with_one_seed_are_refused_and_the_same_bytes_are_taken() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let numbers = small();
    let upload_key = async |key: &str| {
        let answer = upload(&server, key, &numbers.public_key(), &numbers.evaluation_key(1), &numbers).await;
        answer.ok(200)["key_id"].as_str().unwrap().to_owned()
    };
    let [first, second] = [upload_key(&key).await, upload_key(&key).await];
    let put = async |key_id: &str, bytes: &[u8]| {
        let path = format!("/api/v1/ciphertexts?key_id={key_id}");
        server.send(Request::new("POST", path).body(OCTETS, bytes.to_vec()).key(&key)).await
    };
    let good = numbers.seeded_ciphertext(2);
    let of_good = seed(&good, SEED_OF_CIPHERTEXT);
    let id: Value = put(&first, &good).await.ok(201)["ciphertext_id"].clone();
    put(&first, &good).await.ok(201);
    let mut changed = good.clone();
    changed[110] ^= 1;
    for bad in [closed_again(changed), reseeded(numbers.seeded_ciphertext(1), SEED_OF_CIPHERTEXT, of_good)] {
        // the second key has the same secret
        for key_id in [&first, &second] {
            let message = refused(put(key_id, &bad).await, "INVALID_CIPHERTEXT");
            assert!(message.contains("the ciphertext ct_"), "{message}");
            let body = json!({"key_id": key_id, "ciphertext": base64(&bad)});
            let answer = server.send(Request::post("/api/v1/ciphertexts", &body).key(&key)).await;
            refused(answer, "INVALID_CIPHERTEXT");
        }
    }
    // the seeds of the key itself count too
    for used in [seed(&numbers.rows(1)[0], SEED_OF_ROW), seed(&numbers.public_key(), SEED_OF_PUBLIC_KEY)] {
        let bad = reseeded(numbers.seeded_ciphertext(1), SEED_OF_CIPHERTEXT, used);
        refused(put(&first, &bad).await, "INVALID_CIPHERTEXT");
    }
    let list = server.send(Request::get(format!("/api/v1/ciphertexts?key_id={first}")).key(&key)).await.ok(200);
    assert_eq!((&list["total_count"], id.is_string()), (&json!(2), true));
}
