//! Circuits mapped to cells take fewer bootstraps and give the same bits for the same price.

use client::{Preset, bundle, netlists};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;

use tests_service::gates::{Account, CIRCUITS, OPERATIONS, base64};

const BOOTSTRAPS: &str = "ango_bootstraps_total";

/// Returns the lowest `width` bits of a number, bit 0 first.
fn bits(number: u64, width: u32) -> Vec<bool> {
    (0..width).map(|bit| number >> bit & 1 == 1).collect()
}

/// Adds two numbers with the circuit `adder64` under this mapping. Returns the answer, and the number of bootstraps
/// that the node counted.
async fn sum(server: &TestServer, account: &Account<'_>, mapping: Option<&str>) -> (Value, f64) {
    let [a, b] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3219u64];
    let inputs = json!([account.value(&bits(a, 64)), account.value(&bits(b, 64))]);
    let mut request = account.circuit(netlists::ADDER64, inputs);
    request["mapping"] = json!(mapping);
    let before = server.metric(BOOTSTRAPS).await;
    let done = account.post(CIRCUITS, &request).await.ok(200);
    assert_eq!(account.bits(&done["outputs"][0]), bits(a.wrapping_add(b), 64), "{mapping:?}");
    (done, server.metric(BOOTSTRAPS).await - before)
}

#[tokio::test]
async fn a_mapped_sum_takes_fewer_bootstraps_and_costs_the_same() {
    let server = TestServer::start().await;
    for preset in [Preset::Fast128, Preset::Fast128K2] {
        let account = Account::open(&server, preset).await;
        let (gate_by_gate, counted) = sum(&server, &account, Some("none")).await;
        assert_eq!(gate_by_gate["bootstraps"].as_f64(), Some(counted));
        let failure = |done: &Value| done["failure_log2"].as_f64().unwrap();
        // `failure_log2` is log2 of the probability that at least one of 376 gates fails; the node assumes that an
        // input without a seed is as noisy as a result of the node
        assert!((-95.0..-80.0).contains(&failure(&gate_by_gate)), "{}", failure(&gate_by_gate));
        let (mapped, counted) = sum(&server, &account, None).await;
        assert_eq!(mapped["bootstraps"].as_f64(), Some(counted));
        // 127 bootstraps for cells, and one to refresh each of the 128 inputs, because the node assumes that an input
        // without a seed is as noisy as a result of the node
        assert!(counted <= 255.0 && gate_by_gate["bootstraps"].as_u64().unwrap() > 370, "{counted}");
        assert!(mapped["bootstrap_levels"].as_u64().unwrap() < gate_by_gate["bootstrap_levels"].as_u64().unwrap() / 2);
        assert!(failure(&mapped) < -100.0, "{}", failure(&mapped));
        for member in ["gates", "gates_done", "gates_total", "levels", "bootstrap_ops", "cost_jpy"] {
            assert_eq!(mapped[member], gate_by_gate[member], "{member}");
        }
        // the operation's record has the same figures
        let path = format!("{OPERATIONS}/{}", mapped["op_id"].as_str().unwrap());
        let remembered = account.send(Request::get(path)).await.ok(200);
        for member in ["bootstraps", "bootstrap_levels", "failure_log2"] {
            assert_eq!(remembered[member], mapped[member], "{member}");
        }
        // a second run of the circuit uses the cached plan
        let (again, _) = sum(&server, &account, Some("cells")).await;
        assert_eq!((&again["bootstraps"], &again["failure_log2"]), (&mapped["bootstraps"], &mapped["failure_log2"]));
    }
}

#[tokio::test]
async fn inputs_that_come_by_seeds_are_fresh_and_results_are_not() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let seeded = |number: u64| json!([base64(&bundle::encrypt_seeded(&account.secret.secret, &bits(number, 64)))]);
    let mut request = account.circuit("builtin:add64", json!([seeded(20), seeded(22)]));
    request["outputs"] = json!("handles");
    let first = account.post(CIRCUITS, &request).await.ok(200);
    assert_eq!((&first["bootstraps"], &first["bootstrap_levels"]), (&json!(127), &json!(64)));
    let mut next = account.circuit("builtin:add64", json!([first["outputs"][0], seeded(58)]));
    let second = account.post(CIRCUITS, &next).await.ok(200);
    assert_eq!(account.bits(&second["outputs"][0]), bits(100, 64));
    assert!(second["bootstraps"].as_u64().unwrap() > 127);
    next["inputs"][1] = next["inputs"][0].clone();
    let doubled = account.post(CIRCUITS, &next).await.ok(200);
    assert_eq!(account.bits(&doubled["outputs"][0]), bits(84, 64));
}

#[tokio::test]
async fn circuits_that_every_node_has_run_by_name() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128K2).await;
    let value = |number: u64| account.value(&bits(number, 8));
    for (name, expected) in [("add8", 7), ("sub8", 3), ("max8_signed", 5), ("mul8_fast", 10)] {
        let request = account.circuit(&format!("builtin:{name}"), json!([value(5), value(2)]));
        let done = account.post(CIRCUITS, &request).await.ok(200);
        assert_eq!(account.bits(&done["outputs"][0]), bits(expected, 8), "{name}");
    }
    let divided = account.circuit("builtin:div8", json!([value(200), value(7)]));
    let done = account.post(CIRCUITS, &divided).await.ok(200);
    assert_eq!((account.bits(&done["outputs"][0]), account.bits(&done["outputs"][1])), (bits(28, 8), bits(4, 8)));
    for unknown in ["builtin:add7", "builtin:", "builtin:add8_", "builtin:frobnicate32"] {
        let request = account.circuit(unknown, json!([value(5), value(2)]));
        let error = account.post(CIRCUITS, &request).await.error(400, "INVALID_PARAMS");
        assert_eq!(error["details"][0]["field"], "circuit", "{error}");
    }
    let mut request = account.circuit("builtin:add8", json!([value(5), value(2)]));
    request["mapping"] = json!("luts");
    account.post(CIRCUITS, &request).await.error(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn netlists_made_to_be_hard_to_map_are_answered_soon() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128K2).await;
    let two = || json!([account.value(&[true]), account.value(&[false])]);
    // each wire of this long chain is the XOR of one or both of the two inputs
    let gates = 100_000;
    let lines: String = (0..gates).map(|at| format!("2 1 {} {} {} XOR\n", at, at + 1, at + 2)).collect();
    let parities = format!("{gates} {}\n2 1 1\n1 1\n\n{lines}", gates + 2);
    let done = account.post(CIRCUITS, &account.circuit(&parities, two())).await.ok(200);
    assert!(done["bootstraps"].as_u64().unwrap() <= 1, "{}", done["bootstraps"]);
    // the outputs of the first circuit are all the same wire; those of the second are an inverted input, an input and a
    // constant
    let one = "3 6\n2 1 1\n1 3\n\n2 1 0 1 2 AND\n1 1 2 3 EQW\n1 1 2 4 EQW\n1 1 2 5 EQW\n".replacen("3 6", "4 6", 1);
    let done = account.post(CIRCUITS, &account.circuit(&one, two())).await.ok(200);
    assert_eq!((account.bits(&done["outputs"][0]), &done["bootstraps"]), (vec![false; 3], &json!(1)));
    let none = "3 5\n2 1 1\n1 3\n\n1 1 0 2 INV\n1 1 1 3 EQW\n1 1 1 4 EQ\n";
    let done = account.post(CIRCUITS, &account.circuit(none, two())).await.ok(200);
    assert_eq!((account.bits(&done["outputs"][0]), &done["bootstraps"]), (vec![false, false, true], &json!(0)));
}
