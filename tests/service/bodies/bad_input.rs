//! Bad keys, ciphertexts and gates: the answer has the specified code, nothing is charged, and the session still works.

use client::{Preset, container};
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;

use tests_service::gates::{Account, BATCH, EVAL_SESSION, GATE, base64};

/// Uploads bytes as an evaluation key twice: as an octet-stream, and in JSON. Returns both answers.
async fn upload(server: &TestServer, key: &str, bytes: &[u8]) -> [Response; 2] {
    let octets = Request::new("POST", EVAL_SESSION).body("application/octet-stream", bytes);
    let json = Request::post(EVAL_SESSION, &json!({"eval_key_b64": base64(bytes)}));
    [server.send(octets.key(key)).await, server.send(json.key(key)).await]
}

#[tokio::test]
async fn truncated_flipped_and_foreign_keys_are_invalid_parameters() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let good = &keys::of(Preset::Fast128).evaluation;
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let bad = [
        Vec::new(),
        good[..1].to_vec(),
        good[..40].to_vec(),
        good[..good.len() - 1].to_vec(),
        [good.as_slice(), &[0]].concat(),
        flipped(0),
        flipped(4),
        flipped(6),
        flipped(7),
        flipped(16),
        flipped(good.len() / 2),
        flipped(good.len() - 1),
        b"not a key".to_vec(),
        vec![0; 100_000],
        keys::of(Preset::Fast128).encrypt(true),
    ];
    for bytes in bad {
        for answer in upload(&server, &key, &bytes).await {
            answer.error(400, "INVALID_PARAMS");
        }
    }
    assert_eq!(server.metric("ango_key_bytes").await, 0.0);
}

#[tokio::test]
async fn g6_k5_a_secret_key_in_an_upload_is_refused_as_such() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let secret = account.secret.secret.to_bytes();
    for answer in upload(&server, &account.key, &secret).await {
        answer.error(400, "SECRET_KEY_REJECTED");
    }
    let mut gate = account.gate("NAND", true, Some(true), None);
    gate["b"] = json!(base64(&secret));
    account.post(GATE, &gate).await.error(400, "SECRET_KEY_REJECTED");
    account.nothing_charged().await;
}

#[tokio::test]
async fn a_key_of_more_than_40_mb_is_too_large_and_one_of_40_mb_is_read() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for answer in upload(&server, &key, &vec![0; (40 << 20) + 1]).await {
        answer.error(413, "PAYLOAD_TOO_LARGE");
    }
    for answer in upload(&server, &key, &vec![0; 40 << 20]).await {
        answer.error(400, "INVALID_PARAMS");
    }
}

#[tokio::test]
async fn an_upload_that_is_not_base64_is_an_invalid_parameter() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for text in ["?", "AAAA AAAA", "AAAA\n", "A", "===="] {
        let request = Request::post(EVAL_SESSION, &json!({"eval_key_b64": text})).key(&key);
        let error = server.send(request).await.error(400, "INVALID_PARAMS");
        assert_eq!(error["details"][0]["field"], "eval_key_b64");
    }
    server.send(Request::post(EVAL_SESSION, &json!({})).key(&key)).await.error(422, "VALIDATION_ERROR");
}

/// Sends a NAND gate whose operand `b` is this text.
async fn gate_with(account: &Account<'_>, b: &str) -> Response {
    let mut gate = account.gate("NAND", true, None, None);
    gate["b"] = json!(b);
    account.post(GATE, &gate).await
}

#[tokio::test]
async fn truncated_flipped_and_foreign_ciphertexts_are_invalid() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let good = account.secret.encrypt(true);
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let bad = [
        Vec::new(),
        good[..10].to_vec(),
        good[..good.len() - 4].to_vec(),
        [good.as_slice(), &[0; 4]].concat(),
        flipped(1),
        flipped(4),
        flipped(6),
        flipped(good.len() / 2),
        flipped(good.len() - 1),
        vec![0; 2548],
        // g11: ciphertexts of three other keys: the first key has the preset of the session, the others have other
        // presets
        keys::somebody_elses().encrypt(true),
        keys::of(Preset::Standard128).encrypt(true),
        keys::of(Preset::Conservative128).encrypt(true),
    ];
    for bytes in bad {
        let error = gate_with(&account, &base64(&bytes)).await.error(400, "INVALID_CIPHERTEXT");
        assert_eq!(error["details"][0]["field"], "b");
    }
    for text in ["", "?", "AAAA=", "AA AA"] {
        gate_with(&account, text).await.error(400, "INVALID_CIPHERTEXT");
    }
    account.nothing_charged().await;
    // the session still works
    assert!(!account.decrypt(&gate_with(&account, &base64(&good)).await.ok(200)["result_b64"]));
}

#[tokio::test]
async fn a_ciphertext_without_a_fingerprint_is_taken() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let secret = &account.secret.secret;
    let bytes = container::write_ciphertext(&secret.encrypt(true), secret.preset(), None, container::Form::Ango);
    assert!(!account.decrypt(&gate_with(&account, &base64(&bytes)).await.ok(200)["result_b64"]));
}

#[tokio::test]
async fn a_ciphertext_of_more_than_2_mb_is_too_large() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    gate_with(&account, &base64(&vec![0; 2 << 20])).await.error(400, "INVALID_CIPHERTEXT");
    gate_with(&account, &base64(&vec![0; (2 << 20) + 1])).await.error(413, "PAYLOAD_TOO_LARGE");
    account.nothing_charged().await;
}

#[tokio::test]
async fn g9_an_unknown_gate_and_a_missing_operand_have_their_codes() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    for op in ["", "nand", "Nand", "NAND ", "IMPLIES"] {
        account.post(GATE, &account.gate(op, true, Some(true), None)).await.error(400, "INVALID_GATE_OP");
    }
    for (op, b, sel, missing) in [
        ("NAND", None, None, "b"),
        ("XNOR", None, Some(true), "b"),
        ("MUX", Some(true), None, "sel"),
        ("MUX", None, None, "b"),
    ] {
        let error = account.post(GATE, &account.gate(op, true, b, sel)).await.error(400, "MISSING_OPERAND");
        assert_eq!(error["details"][0]["field"], missing);
    }
    account.nothing_charged().await;
}

#[tokio::test]
async fn g10_batches_of_0_and_of_1025_gates_are_refused() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    account.post(BATCH, &account.batch("NOT", 0)).await.error(400, "INVALID_REQUEST");
    account.post(BATCH, &account.batch("NOT", 1025)).await.error(400, "BATCH_TOO_LARGE");
    account.nothing_charged().await;
}

#[tokio::test]
async fn g10_one_bad_gate_refuses_the_batch_and_is_named() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let cases: [(&str, Value, &str, &str); 4] = [
        ("op", json!("NAN"), "INVALID_GATE_OP", "gates[17].op"),
        ("b", json!(null), "MISSING_OPERAND", "gates[17].b"),
        ("a", json!("AAAA"), "INVALID_CIPHERTEXT", "gates[17].a"),
        ("b", json!(base64(&keys::somebody_elses().encrypt(true))), "INVALID_CIPHERTEXT", "gates[17].b"),
    ];
    for (member, value, code, field) in cases {
        let mut batch = account.batch("NAND", 40);
        batch["gates"][17][member] = value;
        let error = account.post(BATCH, &batch).await.error(400, code);
        assert_eq!(error["details"][0]["field"], field);
    }
    account.nothing_charged().await;
}

#[tokio::test]
async fn e1_a_gate_that_is_no_object_is_a_wrong_shape() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let good = account.batch("NAND", 2);
    let members = json!(["NAND", good["gates"][1]["a"], good["gates"][1]["b"]]);
    for gate in [members, json!([]), json!("NAND"), json!(null)] {
        let mut batch = good.clone();
        batch["gates"][1] = gate;
        let error = account.post(BATCH, &batch).await.error(422, "VALIDATION_ERROR");
        assert_eq!(error["details"], json!([{"field": "gates[1]", "issue": "expected an object"}]));
    }
    let mut batch = good;
    batch["gates"][1] = json!({"op": "NAND"});
    let error = account.post(BATCH, &batch).await.error(422, "VALIDATION_ERROR");
    assert_eq!(error["details"], json!([{"field": "gates[1].a", "issue": "required"}]));
    account.nothing_charged().await;
}

#[tokio::test]
async fn a_decryption_of_nonsense_is_an_invalid_ciphertext() {
    let server = TestServer::start().await;
    let mut account = Account::open(&server, Preset::Fast128).await;
    let opened = account.post("/api/v1/tfhe/session", &json!({"preset": "fast_128"})).await.ok(201);
    account.session = opened["session_id"].as_str().unwrap().to_owned();
    for text in ["", "AAAA", "?", &base64(&keys::of(Preset::Fast128).encrypt(true))] {
        let body = json!({"ciphertext_b64": text});
        account.post(&account.path("/decrypt"), &body).await.error(400, "INVALID_CIPHERTEXT");
    }
    account.post(&account.path("/decrypt"), &json!({"ciphertext_b64": 1})).await.error(422, "VALIDATION_ERROR");
    account.post(&account.path("/encrypt"), &json!({"bit": 1})).await.error(422, "VALIDATION_ERROR");
    account.post(&account.path("/encrypt"), &json!({"bit": "true"})).await.error(422, "VALIDATION_ERROR");
}
