//! Bad circuits, inputs, handles and operations: the error names the fault, nothing is charged, and no memory stays in
//! use.

use client::Preset;
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;

use tests_service::gates::{Account, BATCH, CIRCUITS, OCTETS, OPERATIONS, and_netlist, base64, octets};

/// Checks that refused requests left no memory in use and no charge.
async fn nothing_left(account: &Account<'_>) {
    account.nothing_charged().await;
    for name in ["ango_value_bytes", "ango_circuits", "ango_operations", "ango_arena_bytes"] {
        assert_eq!(account.server.metric(name).await, 0.0, "{name}");
    }
}

/// Sends a request to run a circuit, with an octet-stream as the body.
async fn post_octets(account: &Account<'_>, head: &Value, ciphertexts: &[Vec<u8>]) -> Response {
    account.send(Request::new("POST", CIRCUITS).body(OCTETS, octets(head, ciphertexts))).await
}

#[tokio::test]
async fn what_is_no_circuit_is_refused_with_the_line_that_is_at_fault() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let wide = |inputs: usize| format!("0 {inputs}\n1 {inputs}\n1 1\n");
    for (circuit, told) in [
        // a netlist cannot contain a cycle, because some wire of the cycle would be read before it is written
        ("2 4\n1 2\n1 1\n\n2 1 0 3 2 AND\n2 1 1 2 3 AND\n", "line 5: wire 3 is read before it is written"),
        ("1 3\n1 2\n1 1\n\n2 1 0 2 2 AND\n", "line 5: wire 2 is read before it is written"),
        // wires that are not written, written twice, or unknown
        ("1 4\n1 2\n1 1\n\n2 1 0 1 2 AND\n", "wire 3, an output, is never written"),
        ("2 3\n1 2\n1 1\n\n2 1 0 1 2 AND\n2 1 0 1 2 XOR\n", "line 6: wire 2 is written a second time"),
        ("1 3\n1 2\n1 1\n\n2 1 0 9 2 AND\n", "line 5: there is no wire 9"),
        ("1 3\n1 2\n1 1\n\n2 1 0 1 1 AND\n", "line 5: wire 1 is written a second time"),
        // widths and counts that do not match the netlist
        ("1 3\n2 2\n1 1\n\n2 1 0 1 2 AND\n", "line 2: the line announces 2 inputs, but has 1 widths"),
        ("1 3\n1 2\n1 4\n\n2 1 0 1 2 AND\n", "line 3: 4 output bits"),
        ("2 3\n1 2\n1 1\n\n2 1 0 1 2 AND\n", "the text ends before gate 2 of 2"),
        ("1 3\n1 2\n1 1\n\n2 1 0 1 2 IMPLY\n", "line 5: `IMPLY` is not one of"),
        ("\n", "the text ends before gates and wires"),
        (wide(16385).as_str(), "takes 16385 bits, more than 16384"),
        ("not a name", "must be a netlist"),
        ("", "must be a netlist"),
    ] {
        let request = account.circuit(circuit, json!([account.value(&[true, false])]));
        let error = account.post(CIRCUITS, &request).await.error(400, "INVALID_PARAMS");
        assert!(error["message"].as_str().unwrap().contains(told), "{error}");
        assert_eq!(error["details"][0]["field"], "circuit");
    }
    let many = format!("0 4097\n4097 {}\n1 1\n", vec!["1"; 4097].join(" "));
    account.post(CIRCUITS, &account.circuit(&many, json!([]))).await.error(400, "INVALID_PARAMS");
    let unknown = account.circuit("no_such_circuit", json!([account.value(&[true, false])]));
    account.post(CIRCUITS, &unknown).await.error(404, "NOT_FOUND");
    nothing_left(&account).await;
}

#[tokio::test]
async fn a_million_gate_header_with_ten_gates_is_refused() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gates: String = (0..10).map(|i| format!("2 1 0 1 {} AND\n", 2 + i)).collect();
    for (gates_announced, wires) in
        [(1_000_000, 1_000_002), (1_000_000, 12), (10, 1_000_002), (999_999_999, 999_999_999)]
    {
        let text = format!("{gates_announced} {wires}\n1 2\n1 1\n\n{gates}");
        let request = account.circuit(&text, json!([account.value(&[true, false])]));
        account.post(CIRCUITS, &request).await.error(400, "INVALID_PARAMS");
    }
    nothing_left(&account).await;
}

#[tokio::test]
async fn a_request_that_is_not_utf_8_is_unreadable() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let body = [br#"{"session_id":"s","inputs":[],"circuit":""#.as_slice(), &[0xff, 0xfe], br#""}"#].concat();
    account
        .send(Request::new("POST", CIRCUITS).body("application/json", body.clone()))
        .await
        .error(400, "INVALID_REQUEST");
    let framed = [&(body.len() as u32).to_le_bytes()[..], &body].concat();
    account.send(Request::new("POST", CIRCUITS).body(OCTETS, framed)).await.error(400, "INVALID_REQUEST");
    nothing_left(&account).await;
}

#[tokio::test]
async fn inputs_that_do_not_fit_the_circuit_are_named() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let and = "1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n";
    let bit = account.value(&[true]);
    for (inputs, status, code, field) in [
        (json!([]), 400, "INVALID_PARAMS", "inputs"),
        (json!([bit]), 400, "INVALID_PARAMS", "inputs"),
        (json!([bit, bit, bit]), 400, "INVALID_PARAMS", "inputs"),
        (json!([bit, []]), 400, "INVALID_PARAMS", "inputs[1]"),
        (json!([account.value(&[true, true]), bit]), 400, "INVALID_PARAMS", "inputs[0]"),
        (json!([bit, ["AAAA"]]), 400, "INVALID_CIPHERTEXT", "inputs[1][0]"),
        (json!([[base64(&keys::somebody_elses().encrypt(true))], bit]), 400, "INVALID_CIPHERTEXT", "inputs[0][0]"),
        (
            json!([[base64(&keys::of(Preset::Standard128).encrypt(true))], bit]),
            400,
            "INVALID_CIPHERTEXT",
            "inputs[0][0]",
        ),
        (json!([bit, 1]), 400, "INVALID_REQUEST", "inputs[1]"),
        (json!([bit, "hdl_00000000000000000000000000"]), 404, "CIPHERTEXT_NOT_FOUND", "inputs[1]"),
        (json!([bit, "nonsense"]), 404, "CIPHERTEXT_NOT_FOUND", "inputs[1]"),
        (json!([bit, null]), 422, "VALIDATION_ERROR", "inputs[1]"),
        (json!([bit, [1]]), 422, "VALIDATION_ERROR", "inputs[1][0]"),
        (json!("x"), 422, "VALIDATION_ERROR", "inputs"),
    ] {
        let error = account.post(CIRCUITS, &account.circuit(and, inputs)).await.error(status, code);
        assert_eq!(error["details"][0]["field"], field, "{error}");
    }
    let mut request = account.circuit(and, json!([bit, bit]));
    request["outputs"] = json!("files");
    account.post(CIRCUITS, &request).await.error(422, "VALIDATION_ERROR");
    let secret = base64(&account.secret.secret.to_bytes());
    let request = account.circuit(and, json!([bit, [secret]]));
    account.post(CIRCUITS, &request).await.error(400, "SECRET_KEY_REJECTED");
    nothing_left(&account).await;
}

#[tokio::test]
async fn bare_words_must_be_as_many_as_the_head_says() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let head = account.circuit("1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n", json!([1, 1]));
    let bits: Vec<_> = (0..3).map(|_| account.secret.encrypt(true)).collect();
    for count in [0, 1, 3] {
        post_octets(&account, &head, &bits[..count]).await.error(400, "INVALID_CIPHERTEXT");
    }
    let whole = octets(&head, &bits[..2]);
    for body in [&whole[..whole.len() - 1], &[whole.as_slice(), &[0]].concat(), &whole[..100]] {
        let answer = account.send(Request::new("POST", CIRCUITS).body(OCTETS, body)).await;
        let code = answer.json()["error"]["code"].as_str().unwrap().to_owned();
        assert!(answer.status == 400 && matches!(&*code, "INVALID_CIPHERTEXT" | "INVALID_REQUEST"), "{code}");
    }
    for (body, status, code) in [
        (vec![], 400, "INVALID_REQUEST"),
        (vec![1, 0, 0], 400, "INVALID_REQUEST"),
        // a head that announces 4 GB is refused before the node reads it
        (vec![0xff; 64], 413, "PAYLOAD_TOO_LARGE"),
        (vec![0xff; 4], 413, "PAYLOAD_TOO_LARGE"),
        (vec![2, 0, 0, 0, b'{', b'}'], 422, "VALIDATION_ERROR"),
        (vec![2, 0, 0, 0, b'{'], 400, "INVALID_REQUEST"),
        (octets(&account.circuit("a\n", json!([u64::MAX])), &[]), 400, "INVALID_PARAMS"),
    ] {
        for path in [CIRCUITS, BATCH] {
            let answer = account.send(Request::new("POST", path).body(OCTETS, body.clone())).await;
            // the last body describes a circuit, so as a batch it gets another error
            if path == CIRCUITS || body.len() < 80 {
                answer.error(status, code);
            }
        }
    }
    let texts = account.circuit("1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n", json!([account.value(&[true]), 1]));
    post_octets(&account, &texts, &bits[..1]).await.error(400, "INVALID_REQUEST");
    // a secret key in the place of the ciphertexts
    let mut body = octets(&account.circuit("1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n", json!([1, 1])), &[]);
    body.extend_from_slice(&account.secret.secret.to_bytes());
    account.send(Request::new("POST", CIRCUITS).body(OCTETS, body)).await.error(400, "SECRET_KEY_REJECTED");

    let gate = |gates: Value| json!({"session_id": account.session, "gates": gates});
    for (gates, count, code) in [
        (json!([]), 0, "INVALID_REQUEST"),
        (json!(["NAND"]), 1, "INVALID_CIPHERTEXT"),
        (json!(["NAND", "NAN"]), 3, "INVALID_GATE_OP"),
        (json!(vec!["NOT"; 1025]), 0, "BATCH_TOO_LARGE"),
    ] {
        let body = octets(&gate(gates), &bits[..count]);
        account.send(Request::new("POST", BATCH).body(OCTETS, body)).await.error(400, code);
    }
    nothing_left(&account).await;
}

#[tokio::test]
async fn x14_a_stranger_s_session_operation_and_handle_are_unknown() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let stranger = server.key(Role::AccountAdmin).await;
    let request =
        account.circuit("1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n", json!([account.value(&[true]), account.value(&[true])]));
    server.send(Request::post(CIRCUITS, &request).key(&stranger)).await.error(404, "SESSION_NOT_FOUND");
    let handle = format!("/api/v1/tfhe/session/{}/handles/hdl_00000000000000000000000000", account.session);
    for method in ["GET", "DELETE"] {
        server.send(Request::new(method, &handle).key(&stranger)).await.error(404, "SESSION_NOT_FOUND");
        account.send(Request::new(method, &handle)).await.error(404, "CIPHERTEXT_NOT_FOUND");
        for id in ["op_00000000000000000000000000", "nonsense", "%ff"] {
            account.send(Request::new(method, format!("{OPERATIONS}/{id}"))).await.error(404, "OPERATION_NOT_FOUND");
        }
    }
    nothing_left(&account).await;
}

#[tokio::test]
async fn a_request_that_would_fill_the_memory_for_values_is_refused_and_takes_none() {
    let server = TestServer::with(|config| config.circuits.session_value_bytes_max = 100_000).await;
    let account = Account::open(&server, Preset::Fast128).await;
    // 28 inputs and 14 outputs of 2548 bytes each take 107,016 bytes; the limit of 100,000 is enough for 20 inputs and
    // 10 outputs
    let request = account.circuit(&and_netlist(14), json!([account.value(&[true; 28])]));
    account.post(CIRCUITS, &request).await.error(402, "QUOTA_EXCEEDED");
    nothing_left(&account).await;
    drop(account);

    let server = TestServer::with(|config| config.circuits.value_bytes_max = 100_000).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let request = account.circuit(&and_netlist(14), json!([account.value(&[true; 28])]));
    account.post(CIRCUITS, &request).await.error(503, "SERVICE_UNAVAILABLE");
    nothing_left(&account).await;
}

#[tokio::test]
async fn x6_a_body_over_its_ceiling_is_refused_before_it_comes() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    for (content_type, length) in [("application/json", 120 << 20), (OCTETS, 100 << 20)] {
        let head = Request::new("POST", CIRCUITS)
            .header("Content-Type", content_type)
            .header("Content-Length", &length.to_string());
        account.send(head).await.error(413, "PAYLOAD_TOO_LARGE");
    }
    for content_type in ["text/plain", ""] {
        account.send(Request::new("POST", CIRCUITS).body(content_type, "{}")).await.error(400, "INVALID_REQUEST");
    }
}
