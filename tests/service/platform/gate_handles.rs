//! Batches whose results stay on the node, and gates that read these results.

use client::{Preset, container};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use tests_service::gates::{
    Account, BATCH, CIRCUITS, GATE, OCTETS, SESSION, and_netlist, octets, open_session, split_octets,
};

/// Sends a batch that computes AND(1, b) for each of these bits and keeps the results on the node. Returns the answer.
async fn kept(account: &Account<'_>, bits: &[bool]) -> Value {
    let gates: Vec<_> =
        bits.iter().map(|&bit| json!({"op": "AND", "a": account.encrypt(true), "b": account.encrypt(bit)})).collect();
    let request = json!({"session_id": account.session, "gates": gates, "outputs": "handles"});
    account.post(BATCH, &request).await.ok(200)
}

async fn post(account: &Account<'_>, head: &Value, ciphertexts: &[Vec<u8>]) -> Response {
    account.send(Request::new("POST", BATCH).body(OCTETS, octets(head, ciphertexts)).header("Accept", OCTETS)).await
}

#[tokio::test]
async fn a_chain_of_batches_sends_no_words() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let answer = kept(&account, &[true, false, true]).await;
    assert_eq!((&answer["results_b64"], &answer["total_cost_jpy"]), (&json!([]), &json!(0.3)));
    let handle = answer["handle"].as_str().unwrap();
    assert_eq!(server.metric("ango_value_bytes").await, 3.0 * 2548.0);

    // in a JSON request, a bit of the handle can stand wherever a ciphertext can
    let bit = |at: usize| format!("{handle}[{at}]");
    let gates =
        json!([{"op": "XOR", "a": bit(0), "b": bit(1)}, {"op": "AND", "a": bit(2), "b": account.encrypt(true)}]);
    let request = json!({"session_id": account.session, "gates": gates});
    let answer = account.post(BATCH, &request).await.ok(200);
    assert!(account.decrypt(&answer["results_b64"][0]) && account.decrypt(&answer["results_b64"][1]));
    assert_eq!(answer.get("handle"), None);
    let gate = json!({"session_id": account.session, "op": "NOT", "a": bit(1)});
    assert!(account.decrypt(&account.post(GATE, &gate).await.ok(200)["result_b64"]));

    // In an octet-stream, `operands` are indices into one list, which follows `inputs`: a handle gives its bits, and a
    // count gives as many of the ciphertexts after the head.
    let head = json!({
        "session_id": account.session, "gates": ["XOR", "MUX", "NOT"], "inputs": [handle, 1, handle],
        "operands": [0, 1, 4, 1, 3, 5], "outputs": "handles",
    });
    let (head, words) = split_octets(&post(&account, &head, &[account.secret.encrypt(true)]).await, Preset::Fast128);
    assert_eq!((&head["results"], words.len()), (&json!(0), 0));
    let second = head["handle"].as_str().unwrap();
    // the results of XOR(1, 0), MUX(1, 0, 1) and NOT(0)
    let read = account.send(Request::get(account.handle(&head["handle"]))).await.ok(200);
    assert_eq!(account.bits(&read["ciphertexts_b64"]), [true, true, true]);

    // if there are no ciphertexts behind the head and no `operands`, the gates take the bits of the handles one after
    // another, in the sequence of `inputs`
    let head = json!({"session_id": account.session, "gates": ["NAND", "NAND", "NAND"], "inputs": [second, handle]});
    let (_, results) = split_octets(&post(&account, &head, &[]).await, Preset::Fast128);
    let bits: Vec<_> = results.iter().map(|bit| account.secret.secret.decrypt(bit)).collect();
    // NAND of (1, 1), (1, 1) and (0, 1)
    assert_eq!(bits, [false, false, true]);

    // a circuit takes the stored value as an input
    let netlist = and_netlist(3).replacen("\n1 6\n", "\n2 3 3\n", 1);
    let done = account.post(CIRCUITS, &account.circuit(&netlist, json!([handle, second]))).await.ok(200);
    assert_eq!(account.bits(&done["outputs"][0]), [true, false, true]);

    account.send(Request::new("DELETE", format!("{SESSION}/{}", account.session))).await;
    assert_eq!(server.metric("ango_value_bytes").await, 0.0);
}

#[tokio::test]
async fn one_bit_under_a_handle_needs_no_number() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let handle = kept(&account, &[true]).await["handle"].take();
    let gate = json!({"session_id": account.session, "op": "NOT", "a": handle});
    assert!(!account.decrypt(&account.post(GATE, &gate).await.ok(200)["result_b64"]));
}

#[tokio::test]
async fn operands_that_are_not_there_are_named() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let handle = kept(&account, &[true, false]).await["handle"].as_str().unwrap().to_owned();
    let unknown = "hdl_00000000000000000000000000";
    for (operand, status, code) in [
        (unknown.to_owned(), 404, "CIPHERTEXT_NOT_FOUND"),
        (format!("{unknown}[0]"), 404, "CIPHERTEXT_NOT_FOUND"),
        ("hdl_".to_owned(), 404, "CIPHERTEXT_NOT_FOUND"),
        (format!("{handle}[0"), 404, "CIPHERTEXT_NOT_FOUND"),
        (handle.clone(), 400, "INVALID_PARAMS"),
        (format!("{handle}[2]"), 400, "INVALID_PARAMS"),
        (format!("{handle}[-1]"), 400, "INVALID_PARAMS"),
        (format!("{handle}[]"), 400, "INVALID_PARAMS"),
        (format!("{handle}[99999999999999999999999]"), 400, "INVALID_PARAMS"),
    ] {
        let gates = json!([{"op": "NAND", "a": account.encrypt(true), "b": operand}]);
        let request = json!({"session_id": account.session, "gates": gates});
        let error = account.post(BATCH, &request).await.error(status, code);
        assert_eq!(error["details"][0]["field"], "gates[0].b", "{operand}");
    }
    let bit = account.secret.encrypt(true);
    for (inputs, operands, words, status, code) in [
        (json!([unknown]), json!([0, 0]), 0, 404, "CIPHERTEXT_NOT_FOUND"),
        (json!([handle]), json!([0]), 0, 400, "INVALID_PARAMS"),
        (json!([handle]), json!([0, 1, 0]), 0, 400, "INVALID_PARAMS"),
        (json!([handle]), json!([0, 2]), 0, 400, "INVALID_PARAMS"),
        (json!([handle]), json!([0, u64::MAX]), 0, 400, "INVALID_PARAMS"),
        (json!([handle, 1]), Value::Null, 1, 400, "INVALID_PARAMS"),
        (json!([handle, 1]), json!([0, 1]), 0, 400, "INVALID_CIPHERTEXT"),
        (json!([handle]), json!([0, 1]), 1, 400, "INVALID_CIPHERTEXT"),
        (json!([u64::MAX, 2]), json!([0, 1]), 0, 400, "INVALID_PARAMS"),
        (json!([3073]), json!([0, 1]), 0, 400, "INVALID_PARAMS"),
        (json!([["AAAA"]]), json!([0, 0]), 0, 400, "INVALID_REQUEST"),
        (Value::Null, json!([0, 1]), 2, 400, "INVALID_REQUEST"),
        (json!([handle]), json!([-1, 0]), 0, 422, "VALIDATION_ERROR"),
    ] {
        let mut head = json!({"session_id": account.session, "gates": ["NAND"]});
        for (member, value) in [("inputs", inputs), ("operands", operands)] {
            if !value.is_null() {
                head[member] = value;
            }
        }
        post(&account, &head, &vec![bit.clone(); words]).await.error(status, code);
    }
    // 4 MB of seeded ciphertexts would need gigabytes of masks, so the node refuses them
    let head = json!({"session_id": account.session, "gates": ["NAND"], "inputs": [1_000_000], "operands": [0, 1],
        "seeds": [{"seed": "00".repeat(32), "ciphertexts": 1_000_000}]});
    post(&account, &head, &[vec![0; container::HEADER_BYTES + 4_000_000]]).await.error(400, "INVALID_PARAMS");

    // a handle is valid in its session only
    let other = open_session(&server, &account.key, Preset::Fast128).await;
    let gate = json!({"session_id": other, "op": "NOT", "a": format!("{handle}[0]")});
    account.post(GATE, &gate).await.error(404, "CIPHERTEXT_NOT_FOUND");
    let mut request = account.batch("NAND", 1);
    request["outputs"] = json!("files");
    account.post(BATCH, &request).await.error(422, "VALIDATION_ERROR");
    assert_eq!(server.metric("ango_value_bytes").await, 2.0 * 2548.0, "a refused request keeps nothing");
}
