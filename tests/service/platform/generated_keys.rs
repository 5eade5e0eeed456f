//! Keys that the service generates (readings K8, K9, K16, K18, K19).

use std::time::Duration;

use client::ckks::{Encryptor, SecretKey, container};
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use crate::numbers::{COMPUTE, assert_near};
use tests_service::gates::{OCTETS, bytes};

const GENERATE: &str = "/api/v1/keys/generate";

fn small() -> Value {
    json!({"params": {"poly_degree": 64, "scale_bits": 40, "max_depth": 2}})
}

async fn generated(server: &TestServer, key: &str, body: &Value) -> Response {
    server.send(Request::post(GENERATE, body).key(key)).await
}

#[tokio::test]
async fn k9_a_generated_key_works_and_its_secret_is_nowhere() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let answer = generated(&server, &key, &small()).await;
    assert!(answer.header("deprecation").unwrap().starts_with('@'));
    assert!(answer.header("link").unwrap().contains("rel=\"deprecation\""));
    assert!(answer.header("x-security-warning").unwrap().contains("0 bits of security"));
    let told = answer.ok(200);
    assert_eq!((&told["secret_key"], &told["blind_guarantee"]), (&json!(null), &json!(false)));
    assert_eq!((&told["slot_count"], &told["params"]["scheme"]), (&json!(32), &json!("rns-ckks")));
    assert!(told["params"]["modulus_chain"].as_array().unwrap().len() > 2 && told.get("eval_key_url").is_none());
    let record = server.send(Request::get(format!("/api/v1/keys/{}", told["key_id"].as_str().unwrap())).key(&key));
    let record = record.await.ok(200);
    assert_eq!(record["eval_key_bytes"], bytes(&told["eval_key"]).len());
    assert_eq!(record["public_key_bytes"], bytes(&told["public_key"]).len());

    let public_key = container::read_public_key(&bytes(&told["public_key"])).unwrap();
    let (params, fingerprint) = (public_key.params.clone(), public_key.fingerprint);
    let ciphertext = Encryptor::new(public_key).encrypt(&vec![1.0; params.slots()], 1.0).unwrap();
    let ciphertext = container::write_ciphertext(&ciphertext, &params, fingerprint);
    let id = upload(&server, &key, &told["key_id"], &ciphertext).await;
    for (operation, more) in [("multiply", json!({})), ("rotate", json!({"rotation_steps": 21}))] {
        let ids = if operation == "multiply" { vec![&id; 2] } else { vec![&id] };
        let mut body = json!({"key_id": told["key_id"], "ciphertext_ids": ids});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.send(Request::post(format!("{COMPUTE}/{operation}"), &body).key(&key)).await.ok(200);
    }
}

#[tokio::test]
async fn k18_a_generated_key_bootstraps_where_its_parameters_have_levels_for_it() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let mut body = small();
    body["params"]["bootstrap"] = json!(true);
    let told = generated(&server, &key, &body).await.ok(200);
    assert_eq!(told["params"]["bootstrap"], true);
    let public_key = container::read_public_key(&bytes(&told["public_key"])).unwrap();
    let (params, fingerprint) = (public_key.params.clone(), public_key.fingerprint);
    let ciphertext = Encryptor::new(public_key).encrypt(&vec![0.5; params.slots()], 1.0).unwrap();
    let ciphertext = container::write_ciphertext(&ciphertext, &params, fingerprint);
    let id = upload(&server, &key, &told["key_id"], &ciphertext).await;
    let body = json!({"key_id": told["key_id"], "ciphertext_ids": [id]});
    let done = server.send(Request::post(format!("{COMPUTE}/bootstrap"), &body).key(&key)).await.ok(200);
    assert_eq!(done["bootstrap_applied"], true);
}

async fn upload(server: &TestServer, key: &str, key_id: &Value, bytes: &[u8]) -> Value {
    let path = format!("/api/v1/ciphertexts?key_id={}", key_id.as_str().unwrap());
    let request = Request::new("POST", path).body(OCTETS, bytes).key(key);
    server.send(request).await.ok(201)["ciphertext_id"].clone()
}

#[tokio::test]
async fn k9_the_secret_key_is_in_the_answer_only_where_the_operator_allows_it() {
    let server = TestServer::with(|config| config.allow_sk_in_response = true).await;
    let key = server.key(Role::Developer).await;
    let answer = generated(&server, &key, &small()).await;
    assert!(answer.header("x-security-warning").unwrap().contains("secret key"));
    let told = answer.ok(200);
    let secret = SecretKey::from_bytes(&bytes(&told["secret_key"])).unwrap();
    let params = secret.params().clone();
    let numbers: Vec<f64> = (0..params.slots()).map(|slot| slot as f64).collect();
    let ciphertext = secret.encrypt(&numbers, 100.0).unwrap();
    let bytes_of = container::write_seeded_ciphertext(&ciphertext, &params, secret.fingerprint());
    let id = upload(&server, &key, &told["key_id"], &bytes_of).await;
    let body = json!({"key_id": told["key_id"], "ciphertext_ids": [id], "rotation_steps": 5});
    let rotated = server.send(Request::post(format!("{COMPUTE}/rotate"), &body).key(&key)).await.ok(200);
    let result = container::read_ciphertext(&bytes(&rotated["result_ciphertext"]), &params, secret.fingerprint());
    assert_near(&secret.decrypt(&result.unwrap()).unwrap().values, &numbers[5..]);
}

#[tokio::test]
async fn k8_k16_k19_bad_requests_are_refused_and_leave_nothing() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let with = |member: &str, value: Value| {
        let mut body = small();
        body["params"][member] = value;
        body
    };
    for (body, status, code) in [
        (json!({"params": small()["params"], "scheme": "bfv"}), 400, "INVALID_PARAMS"),
        (with("poly_degree", json!(65)), 400, "INVALID_PARAMS"),
        (with("scale_bits", json!(51)), 400, "INVALID_PARAMS"),
        (with("max_depth", json!(15)), 400, "INVALID_PARAMS"),
        (with("security_level", json!("128-bit")), 400, "INSUFFICIENT_SECURITY"),
        (json!({"params": null}), 422, "VALIDATION_ERROR"),
        (json!({}), 422, "VALIDATION_ERROR"),
    ] {
        let answer = generated(&server, &key, &body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        answer.error(status, code);
    }
    let told = generated(&server, &key, &json!({"params": small()["params"], "scheme": "ckks"})).await.ok(200);
    assert_eq!(told["params"]["scheme"], "ckks");
    let viewer = server.key(Role::Viewer).await;
    generated(&server, &viewer, &small()).await.error(403, "INSUFFICIENT_ROLE");
    // a trial can have only one key
    let trial = server.key(Role::Trial).await;
    generated(&server, &trial, &small()).await.ok(200);
    generated(&server, &trial, &small()).await.error(402, "QUOTA_EXCEEDED");
    let off = TestServer::with(|config| config.sessions.allow_server_held_key = false).await;
    let key = off.key(Role::Developer).await;
    generated(&off, &key, &small()).await.error(403, "FEATURE_DISABLED");
}

#[tokio::test]
async fn k18_the_evaluation_key_can_be_downloaded_for_an_hour() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let told = generated(&server, &key, &small()).await.ok(200);
    let path = format!("/api/v1/keys/{}/eval-key", told["key_id"].as_str().unwrap());
    let answer = server.send(Request::get(&path).key(&key)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(OCTETS)));
    assert!(answer.body == bytes(&told["eval_key"]));
    let stranger = server.key(Role::Developer).await;
    server.send(Request::get(&path).key(&stranger)).await.error(404, "KEY_NOT_FOUND");
    server.clock.advance(Duration::from_secs(3600));
    server.send(Request::get(&path).key(&key)).await.error(404, "NOT_FOUND");
}

#[tokio::test]
async fn k18_above_64_mb_the_evaluation_key_has_an_address_and_works() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let body = json!({"params": {"poly_degree": 16384, "scale_bits": 40, "max_depth": 13}});
    let told = generated(&server, &key, &body).await.ok(200);
    assert!(told["eval_key"].is_null());
    let url = told["eval_key_url"].as_str().unwrap();
    let path = &url[url.find("/api/").unwrap()..];
    let answer = server.send(Request::get(path).key(&key)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() > 64 << 20, "{}", answer.body.len());
    let length = answer.body.len().to_string();
    assert_eq!(answer.header("content-length"), Some(length.as_str()));
}
