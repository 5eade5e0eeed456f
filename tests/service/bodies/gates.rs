//! Gates and their prices (readings G9-G14, P27-P30).

use client::{Gate, Preset};
use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::keys;

use tests_service::gates::{Account, BATCH, EVAL_SESSION, GATE, base64, bytes, open_session};

/// Returns all combinations of bits that a gate can have as operands.
fn combinations(gate: Gate) -> impl Iterator<Item = Vec<bool>> {
    (0..1usize << gate.arity()).map(move |bits| (0..gate.arity()).map(|i| bits >> i & 1 == 1).collect())
}

#[tokio::test]
async fn every_gate_on_every_combination_of_bits_at_every_preset() {
    let server = TestServer::start().await;
    for preset in Preset::ALL {
        let account = Account::open(&server, preset).await;
        let rows: Vec<_> =
            Gate::ALL.into_iter().flat_map(|gate| combinations(gate).map(move |bits| (gate, bits))).collect();
        let gates: Vec<_> = rows
            .iter()
            .map(|(gate, bits)| {
                let member = |i: usize| bits.get(i).map(|bit| account.encrypt(*bit));
                json!({"op": gate.name(), "a": member(0), "b": member(1), "sel": member(2)})
            })
            .collect();
        let answer = account.post(BATCH, &json!({"session_id": account.session, "gates": gates})).await.ok(200);
        for ((gate, bits), result) in rows.iter().zip(answer["results_b64"].as_array().unwrap()) {
            assert_eq!(account.decrypt(result), gate.plain(bits), "{} of {bits:?} at {}", gate.name(), preset.name());
        }
    }
}

#[tokio::test]
async fn p29_a_single_gate_costs_the_tariff_and_the_session_adds_up() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    for (op, bits, ops, yen) in [
        ("NAND", [Some(true), None], 1, json!(0.1)),
        ("XOR", [Some(false), None], 4, json!(0.4)),
        ("MUX", [Some(true), Some(false)], 3, json!(0.3)),
        ("NOT", [None, None], 0, json!(0)),
    ] {
        let answer = account.post(GATE, &account.gate(op, true, bits[0], bits[1])).await.ok(200);
        assert_eq!((&answer["op"], &answer["bootstrap_ops"], &answer["cost_jpy"]), (&json!(op), &json!(ops), &yen));
        assert!(answer["compute_ms"].as_f64().unwrap() >= 0.0);
    }
    // g14: the gate NOT is included in `gates_used`
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(4), &json!(0.8)));
}

#[tokio::test]
async fn p27_p28_the_discount_starts_at_32_gates_and_every_total_is_exact() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let almost = account.post(BATCH, &account.batch("NAND", 31)).await;
    assert!(almost.text().contains("\"total_cost_jpy\":3.1,"), "{}", almost.text());
    assert_eq!(almost.ok(200)["batch_discount_applied"], false);
    let discounted = account.post(BATCH, &account.batch("MUX", 32)).await;
    assert!(discounted.text().contains("\"total_cost_jpy\":6.72,"), "{}", discounted.text());
    let discounted = discounted.ok(200);
    assert_eq!((&discounted["batch_discount_applied"], &discounted["total_bootstrap_ops"]), (&json!(true), &json!(96)));
    assert_eq!(discounted["results_b64"].as_array().unwrap().len(), 32);
    let nots = account.post(BATCH, &account.batch("NOT", 40)).await.ok(200);
    assert_eq!((&nots["total_cost_jpy"], &nots["batch_discount_applied"]), (&json!(0), &json!(true)));
    let session = account.send(Request::get(account.path(""))).await;
    assert!(session.text().contains("\"gates_used\":103,\"total_cost_jpy\":9.82,"), "{}", session.text());
}

#[tokio::test]
async fn a_full_batch_of_1024_gates_is_one_request() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let answer = account.post(BATCH, &account.batch("NOT", 1024)).await.ok(200);
    let results = answer["results_b64"].as_array().unwrap();
    assert_eq!(results.len(), 1024);
    assert!(results.iter().all(|result| !account.decrypt(result)));
}

#[tokio::test]
async fn g9_operands_that_a_gate_does_not_take_are_ignored() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let body = json!({"session_id": account.session, "op": "NOT", "a": account.encrypt(true), "b": "?", "sel": "?"});
    assert!(!account.decrypt(&account.post(GATE, &body).await.ok(200)["result_b64"]));
    let mut body = account.gate("AND", true, Some(true), None);
    body["sel"] = json!("not base64");
    assert!(account.decrypt(&account.post(GATE, &body).await.ok(200)["result_b64"]));
}

#[tokio::test]
async fn results_are_inputs_of_further_gates() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let (mut a, mut plain) = (json!(account.encrypt(true)), true);
    for _ in 0..8 {
        let body = json!({"session_id": account.session, "op": "NAND", "a": a, "b": account.encrypt(true)});
        a = account.post(GATE, &body).await.ok(200)["result_b64"].take();
        plain = !plain;
        assert_eq!(account.decrypt(&a), plain);
    }
}

#[tokio::test]
async fn requests_of_one_session_at_once_all_get_their_own_answers() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let sends = (0..24).map(|i| {
        let (a, b) = (i % 2 == 0, i % 3 == 0);
        let request = Request::post(GATE, &account.gate("XOR", a, Some(b), None)).key(&account.key);
        let address = server.address;
        (a ^ b, tokio::spawn(async move { request.send(address).await }))
    });
    for (expected, answer) in sends.collect::<Vec<_>>() {
        assert_eq!(account.decrypt(&answer.await.unwrap().ok(200)["result_b64"]), expected);
    }
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(24), &json!(9.6)));
}

#[tokio::test]
async fn x5_operands_may_be_url_safe_and_unpadded() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let mut body = account.gate("AND", true, Some(true), None);
    for member in ["a", "b"] {
        let text = body[member].as_str().unwrap().replace('+', "-").replace('/', "_");
        body[member] = json!(text.trim_end_matches('='));
    }
    assert!(account.decrypt(&account.post(GATE, &body).await.ok(200)["result_b64"]));
}

#[tokio::test]
async fn both_forms_of_an_upload_open_the_same_session() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for preset in Preset::ALL {
        let evaluation = &keys::of(preset).evaluation;
        let json = Request::post(EVAL_SESSION, &json!({"eval_key_b64": base64(evaluation)}));
        let octets = Request::new("POST", EVAL_SESSION).body("application/octet-stream", evaluation.clone());
        for request in [json, octets] {
            let opened = server.send(request.key(&key)).await.ok(201);
            let params = preset.params();
            assert_eq!(opened["preset"], preset.name());
            assert_eq!(
                (&opened["n"], &opened["big_n"]),
                (&json!(params.lwe_dimension), &json!(params.polynomial_size))
            );
            assert_eq!(opened["is_blind"], true);
            let id = opened["session_id"].as_str().unwrap();
            assert!(id.starts_with("sess_") && id.len() == 31);
        }
    }
}

#[tokio::test]
async fn g8_a_managed_session_encrypts_computes_and_decrypts_with_a_warning() {
    let server = TestServer::start().await;
    let mut account = Account::open(&server, Preset::Fast128).await;
    let opened = account.post("/api/v1/tfhe/session", &json!({"preset": "standard_128"})).await;
    assert!(opened.header("x-security-warning").is_some());
    let opened = opened.ok(201);
    assert_eq!((&opened["preset"], &opened["is_blind"]), (&json!("standard_128"), &json!(false)));
    account.session = opened["session_id"].as_str().unwrap().to_owned();
    let mut inputs = Vec::new();
    for bit in [true, false] {
        let encrypted = account.post(&account.path("/encrypt"), &json!({"bit": bit})).await;
        assert!(encrypted.header("x-security-warning").is_some());
        inputs.push(encrypted.ok(200)["ciphertext_b64"].take());
    }
    for (op, expected) in [("XOR", true), ("NOR", false)] {
        let body = json!({"session_id": account.session, "op": op, "a": inputs[0], "b": inputs[1]});
        let result = account.post(GATE, &body).await.ok(200);
        let body = json!({"ciphertext_b64": result["result_b64"]});
        let decrypted = account.post(&account.path("/decrypt"), &body).await;
        assert!(decrypted.header("x-security-warning").is_some());
        assert_eq!(decrypted.ok(200), json!({"bit": expected}));
    }
}

#[tokio::test]
async fn x14_two_accounts_with_the_same_key_do_not_share_a_session() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let other = server.key(Role::AccountAdmin).await;
    let other_session = open_session(&server, &other, Preset::Fast128).await;
    assert_ne!(account.session, other_session);
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
    let theirs = server.send(Request::get(format!("/api/v1/tfhe/session/{other_session}")).key(&other)).await.ok(200);
    assert_eq!(theirs["gates_used"], 0);
}

#[tokio::test]
async fn a_result_is_a_container_of_the_session_s_key() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let answer = account.post(GATE, &account.gate("OR", false, Some(false), None)).await.ok(200);
    let result = bytes(&answer["result_b64"]);
    assert_eq!(result.len(), account.secret.encrypt(true).len());
    assert!(!account.secret.decrypt(&result));
}

#[tokio::test]
async fn a_batch_of_1_9_million_empty_gates_is_too_large() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = r#"{"op":"","a":""}"#;
    let mut body = format!(r#"{{"session_id":"{}","gates":["#, account.session);
    body.extend(std::iter::repeat_n(format!("{gate},"), 1_900_000));
    body += gate;
    body += "]}";
    assert!(body.len() < 32 << 20);
    account.send(Request::new("POST", BATCH).body("application/json", body)).await.error(400, "BATCH_TOO_LARGE");
    account.nothing_charged().await;
}
