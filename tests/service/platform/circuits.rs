//! Runs circuits with one request each: the results are right in every form, the price follows the tariff, callers wait
//! or poll, and handles carry results into later runs.

use std::time::Duration;

use client::{Preset, netlists};
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use tests_service::gates::{
    Account, BATCH, CIRCUITS, OCTETS, OPERATIONS, and_netlist, octets, open_session, split_octets,
};

/// Returns the bits of a number, bit 0 first.
fn bits(number: u64) -> Vec<bool> {
    (0..64).map(|bit| number >> bit & 1 == 1).collect()
}

fn number(bits: &[bool]) -> u64 {
    bits.iter().rev().fold(0, |number, &bit| number << 1 | u64::from(bit))
}

/// Makes the netlist of a chain: each gate reads the result of the gate before, so that there are as many levels as
/// gates.
fn chain(gates: usize) -> String {
    let lines: String =
        (0..gates).map(|i| format!("2 1 {} 0 {} AND\n", if i == 0 { 1 } else { i + 1 }, i + 2)).collect();
    format!("{gates} {}\n2 1 1\n1 1\n\n{lines}", gates + 2)
}

const A: u64 = 0x0123_4567_89ab_cdef;
const B: u64 = 0xfedc_ba98_7654_3219;

#[tokio::test]
async fn a_64_bit_sum_is_right_and_costs_its_gates_by_the_tariff() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let request = account.circuit(netlists::ADDER64, json!([account.value(&bits(A)), account.value(&bits(B))]));
    let answer = account.post(CIRCUITS, &request).await;
    assert!(answer.text().contains("\"cost_jpy\":92.05,"), "{}", &answer.text()[answer.text().len() - 300..]);
    let done = answer.ok(200);
    assert_eq!(done["outputs"].as_array().unwrap().len(), 1);
    assert_eq!(number(&account.bits(&done["outputs"][0])), A.wrapping_add(B));
    assert_eq!((&done["status"], &done["gates"]), (&json!("completed"), &json!({"XOR": 313, "AND": 63})));
    assert_eq!((&done["gates_done"], &done["gates_total"]), (&json!(376), &json!(376)));
    // 313 XOR gates count four operations each, and 63 AND gates count one each
    assert_eq!((&done["bootstrap_ops"], &done["batch_discount_applied"]), (&json!(1315), &json!(true)));
    assert!(done["levels"].as_u64().unwrap() > 1 && done["compute_ms"].as_f64().unwrap() > 0.0);
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(376), &json!(92.05)));

    // the record lasts a day, and the results are not stored
    let op_id = done["op_id"].as_str().unwrap();
    let remembered = account.send(Request::get(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
    assert_eq!((&remembered["status"], &remembered["outputs"]), (&json!("completed"), &json!(null)));
    assert_eq!((&remembered["cost_jpy"], &remembered["gates"]), (&done["cost_jpy"], &done["gates"]));
    let stranger = server.key(Role::AccountAdmin).await;
    let theirs = Request::get(format!("{OPERATIONS}/{op_id}")).key(&stranger);
    server.send(theirs).await.error(404, "OPERATION_NOT_FOUND");
    for name in ["ango_value_bytes", "ango_circuits"] {
        assert_eq!(server.metric(name).await, 0.0, "{name}");
    }
    // the memory for values of circuits (the arena) stays allocated for the next request of the session; it is freed
    // when the session ends
    account.send(Request::new("DELETE", account.path(""))).await;
    assert_eq!(server.metric("ango_arena_bytes").await, 0.0);
}

#[tokio::test]
async fn a_kept_circuit_runs_by_name_on_bare_words_at_every_preset() {
    let server = TestServer::start().await;
    for preset in Preset::ALL {
        let account = Account::open(&server, preset).await;
        account.send(Request::put_text(format!("{CIRCUITS}/and4"), and_netlist(4))).await.ok(201);
        let plain = [true, false, true, true, true, true, false, true];
        let words: Vec<_> = plain.iter().map(|&bit| account.secret.encrypt(bit)).collect();
        let body = octets(&account.circuit("and4", json!([8])), &words);
        let request = Request::new("POST", CIRCUITS).body(OCTETS, body);
        let (head, outputs) = split_octets(&account.send(request.clone().header("Accept", OCTETS)).await, preset);
        assert_eq!((&head["outputs"], &head["status"]), (&json!([4]), &json!("completed")));
        let expected = [true, false, false, true];
        let decrypted = outputs.iter().map(|bit| account.secret.secret.decrypt(bit)).collect::<Vec<_>>();
        assert_eq!(decrypted, expected, "{}", preset.name());
        // four gates are too few for the discount
        assert_eq!((&head["cost_jpy"], &head["batch_discount_applied"]), (&json!(0.4), &json!(false)));
        // a request in octets can ask for an answer in JSON
        let done = account.send(request).await.ok(200);
        assert_eq!(account.bits(&done["outputs"][0]), expected);
    }
}

#[tokio::test]
async fn a_batch_travels_as_bare_words_too() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let head = json!({"session_id": account.session, "gates": ["NAND", "NOT", "MUX"]});
    let words: Vec<_> = [true, true, true, false, true, true].map(|bit| account.secret.encrypt(bit)).into();
    let request = Request::new("POST", BATCH).body(OCTETS, octets(&head, &words));
    let (head, results) = split_octets(&account.send(request.clone().header("Accept", OCTETS)).await, Preset::Fast128);
    assert_eq!((&head["results"], &head["total_cost_jpy"]), (&json!(3), &json!(0.4)));
    // NAND(1, 1), NOT(1) and MUX(0, 1, 1) are all 0
    assert!(results.iter().all(|bit| !account.secret.secret.decrypt(bit)));
    let in_json = account.send(request).await.ok(200);
    assert!(in_json["results_b64"].as_array().unwrap().iter().all(|bit| !account.decrypt(bit)));
}

#[tokio::test]
async fn results_under_handles_are_inputs_of_the_next_circuit_without_leaving_the_node() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    account.send(Request::put_text(format!("{CIRCUITS}/add"), netlists::ADDER64)).await.ok(201);
    let mut request = account.circuit("add", json!([account.value(&bits(A)), account.value(&bits(B))]));
    request["outputs"] = json!("handles");
    let handle = account.post(CIRCUITS, &request).await.ok(200)["outputs"][0].take();
    assert!(handle.as_str().unwrap().starts_with("hdl_"));
    assert_eq!(server.metric("ango_value_bytes").await, 64.0 * 2548.0);

    let second = account.circuit("add", json!([handle, account.value(&bits(7))]));
    let sum = account.post(CIRCUITS, &second).await.ok(200);
    assert_eq!(number(&account.bits(&sum["outputs"][0])), A.wrapping_add(B).wrapping_add(7));

    let read = account.send(Request::get(account.handle(&handle))).await.ok(200);
    assert_eq!((&read["handle"], &read["bits"]), (&handle, &json!(64)));
    assert_eq!(number(&account.bits(&read["ciphertexts_b64"])), A.wrapping_add(B));
    let words = account.send(Request::get(account.handle(&handle)).header("Accept", OCTETS)).await;
    let (head, words) = split_octets(&words, Preset::Fast128);
    assert_eq!(head, json!({"handle": handle, "bits": 64}));
    let decrypted: Vec<_> = words.iter().map(|bit| account.secret.secret.decrypt(bit)).collect();
    assert_eq!(number(&decrypted), A.wrapping_add(B));

    // a handle is valid in its session only, even for the same key and account
    let other = open_session(&server, &account.key, Preset::Fast128).await;
    let mut elsewhere = second.clone();
    elsewhere["session_id"] = json!(other);
    let error = account.post(CIRCUITS, &elsewhere).await.error(404, "CIPHERTEXT_NOT_FOUND");
    assert_eq!(error["details"][0]["field"], "inputs[0]");

    assert_eq!(account.send(Request::delete(account.handle(&handle))).await.status, 204);
    account.send(Request::delete(account.handle(&handle))).await.error(404, "CIPHERTEXT_NOT_FOUND");
    account.post(CIRCUITS, &second).await.error(404, "CIPHERTEXT_NOT_FOUND");
    assert_eq!(server.metric("ango_value_bytes").await, 0.0);
}

#[tokio::test]
async fn handles_end_with_their_session_and_none_are_made_in_its_last_minutes() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let mut request = account.circuit(&and_netlist(2), json!([account.value(&[true; 4])]));
    request["outputs"] = json!("handles");
    account.post(CIRCUITS, &request).await.ok(200);
    assert!(server.metric("ango_value_bytes").await > 0.0);
    server.clock.advance(Duration::from_secs(3600 - 290));
    account.post(CIRCUITS, &request).await.error(409, "CONFLICT");
    request["outputs"] = json!("ciphertexts");
    account.post(CIRCUITS, &request).await.ok(200);
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    assert_eq!(server.metric("ango_value_bytes").await, 0.0);
}

#[tokio::test]
async fn c3_a_run_that_nobody_waits_for_is_polled_and_its_results_read_until_they_are_dropped() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let request = account.circuit(&chain(20), json!([account.value(&[true]), account.value(&[true])]));
    let op_id = account.begin(&request).await;
    let done = account.ended(&op_id).await;
    assert_eq!((&done["status"], &done["op_id"], &done["error"]), (&json!("completed"), &json!(op_id), &json!(null)));
    assert_eq!((&done["gates_done"], &done["levels"], &done["cost_jpy"]), (&json!(20), &json!(20), &json!(2)));
    assert_eq!(account.bits(&done["outputs"][0]), [true]);
    let again = account.send(Request::get(format!("{OPERATIONS}/{op_id}")).header("Accept", OCTETS)).await;
    let (head, words) = split_octets(&again, Preset::Fast128);
    assert_eq!((&head["outputs"], account.secret.secret.decrypt(&words[0])), (&json!([1]), true));
    // X14: an operation of another kind than asked for is unknown
    account.send(Request::get(format!("/api/v1/compute/{op_id}"))).await.error(404, "OPERATION_NOT_FOUND");
    account.send(Request::delete(format!("/api/v1/compute/{op_id}"))).await.error(404, "OPERATION_NOT_FOUND");
    // c4: the operation has already ended, so the request to cancel it only deletes its results
    let dropped = account.send(Request::delete(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
    assert_eq!(dropped, json!({"op_id": op_id, "cancelled": false}));
    let done = account.ended(&op_id).await;
    assert_eq!((&done["status"], &done["outputs"]), (&json!("completed"), &json!(null)));
    assert_eq!(server.metric("ango_value_bytes").await, 0.0);
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(20), &json!(2)));
    server.clock.advance(Duration::from_secs(24 * 3600));
    account.send(Request::get(format!("{OPERATIONS}/{op_id}"))).await.error(404, "OPERATION_NOT_FOUND");
}

#[tokio::test]
async fn results_of_a_polled_run_may_stay_under_handles() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let mut request = account.circuit(&and_netlist(2), json!([account.value(&[true, false, true, true])]));
    request["outputs"] = json!("handles");
    let op_id = account.begin(&request).await;
    let handle = account.ended(&op_id).await["outputs"][0].take();
    // a request to cancel the operation, which has ended, deletes the operation but not the handle
    account.send(Request::delete(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
    let read = account.send(Request::get(account.handle(&handle))).await.ok(200);
    assert_eq!(account.bits(&read["ciphertexts_b64"]), [true, false]);
}

/// Makes a request to run a chain gate by gate, without the mapper, which would make a single gate of the chain.
fn long_chain(account: &Account<'_>, gates: usize) -> Value {
    let mut request = account.circuit(&chain(gates), json!([account.value(&[true]), account.value(&[true])]));
    request["mapping"] = json!("none");
    request
}

/// Starts a run that takes minutes, and waits until some gates are done. Returns the run's id.
async fn long_run(account: &Account<'_>) -> String {
    let request = long_chain(account, 50_000);
    let op_id = account.begin(&request).await;
    loop {
        let now = account.send(Request::get(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
        assert!(matches!(now["status"].as_str(), Some("pending" | "running")), "{now}");
        if now["gates_done"].as_u64().unwrap() >= 3 {
            assert_eq!((&now["status"], &now["gates_total"]), (&json!("running"), &json!(50_000)));
            assert_eq!((&now["outputs"], &now["cost_jpy"]), (&json!(null), &json!(null)));
            return op_id;
        }
    }
}

#[tokio::test]
async fn c4_p24_a_cancelled_run_costs_nothing_and_leaves_nothing() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let op_id = long_run(&account).await;
    let path = format!("{OPERATIONS}/{op_id}");
    let stranger = server.key(Role::AccountAdmin).await;
    server.send(Request::delete(&path).key(&stranger)).await.error(404, "OPERATION_NOT_FOUND");
    let cancelled = account.send(Request::delete(&path)).await.ok(200);
    assert_eq!(cancelled, json!({"op_id": op_id, "cancelled": true}));
    let end = account.send(Request::get(&path)).await.ok(200);
    let done = end["gates_done"].as_u64().unwrap();
    assert_eq!((&end["status"], &end["outputs"]), (&json!("cancelled"), &json!(null)));
    assert!((3..50_000).contains(&done), "{done}");
    assert_eq!((&end["bootstrap_ops"], &end["cost_jpy"]), (&json!(0), &json!(0)));
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(0), &json!(0)));
    let totals = server.running().store().gate_usage_totals(&account_of(&server).await).await.unwrap();
    assert_eq!(totals, (0, 0, 0));
    for name in ["ango_value_bytes", "ango_arena_bytes", "ango_circuits", "ango_operations"] {
        server.metric_becomes(name, |value| value == 0.0).await;
    }
    let again = account.send(Request::delete(&path)).await.ok(200);
    assert_eq!(again["cancelled"], false);
}

#[tokio::test]
async fn c4_a_run_is_cancelled_by_way_of_the_node_that_computes_it() {
    let Some((one, other)) = TestServer::pair(|_| ()).await else { return };
    let account = Account::open(&one, Preset::Fast128).await;
    let op_id = long_run(&account).await;
    let delete = || Request::delete(format!("{OPERATIONS}/{op_id}")).key(&account.key);
    let refused = other.send(delete()).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    let error = refused.error(503, "SERVICE_UNAVAILABLE");
    assert!(error["message"].as_str().unwrap().contains("another node"), "{error}");
    assert_eq!(one.send(delete()).await.ok(200), json!({"op_id": op_id, "cancelled": true}));
    assert_eq!(other.send(delete()).await.ok(200), json!({"op_id": op_id, "cancelled": false}));
}

/// Returns the account of the server's first key.
async fn account_of(server: &TestServer) -> String {
    server.running().store().api_keys().await.unwrap()[0].account_id.clone()
}

#[tokio::test]
async fn a_run_whose_session_is_deleted_fails_and_costs_nothing() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let op_id = long_run(&account).await;
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    let end = account.ended(&op_id).await;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("failed"), &json!("SESSION_NOT_FOUND")));
    assert_eq!((&end["cost_jpy"], &end["outputs"]), (&json!(0), &json!(null)));
    let totals = server.running().store().gate_usage_totals(&account_of(&server).await).await.unwrap();
    assert_eq!(totals, (0, 0, 0));
    for name in ["ango_value_bytes", "ango_arena_bytes", "ango_key_bytes", "ango_resident_bytes"] {
        server.metric_becomes(name, |value| value == 0.0).await;
    }
}

#[tokio::test]
async fn runs_that_a_stop_interrupts_are_told_as_failed_and_cost_nothing() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let op_id = long_run(&account).await;
    let Account { key, .. } = account;
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, |_| ()).await;
    let end = server.send(Request::get(format!("{OPERATIONS}/{op_id}")).key(&key)).await.ok(200);
    assert_eq!((&end["status"], &end["cost_jpy"]), (&json!("failed"), &json!(0)));
    assert!(end["error"]["message"].as_str().unwrap().contains("stopped"), "{end}");
}

#[tokio::test]
async fn e9_a_run_past_its_deadline_fails_and_costs_nothing() {
    let server = TestServer::with(|config| {
        config.requests.deadline = Duration::from_millis(50);
        config.circuits.deadline = Duration::from_millis(50);
    })
    .await;
    let account = Account::open(&server, Preset::Fast128).await;
    let request = long_chain(&account, 5000);
    account.post(CIRCUITS, &request).await.error(503, "SERVICE_UNAVAILABLE");
    let end = account.ended(&account.begin(&request).await).await;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("failed"), &json!("SERVICE_UNAVAILABLE")));
    account.nothing_charged().await;
    assert_eq!(server.metric("ango_value_bytes").await, 0.0);
}

#[tokio::test]
async fn p24_a_circuit_of_a_client_that_went_away_is_completed_and_charged() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let body = account.circuit(&and_netlist(256), json!([account.value(&[true; 512])])).to_string();
    let request = Request::new("POST", CIRCUITS).body("application/json", body.clone()).key(&account.key);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.head().as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    server.metric_becomes("ango_circuits", |circuits| circuits > 0.0).await;
    drop(stream);
    server.metric_becomes("ango_gates_total{gate=\"AND\"}", |gates| gates == 256.0).await;
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(256), &json!(17.92)));
    server.metric_becomes("ango_value_bytes", |bytes| bytes == 0.0).await;
}

#[tokio::test]
async fn a_session_runs_as_many_circuits_at_once_as_it_may() {
    let server = TestServer::with(|config| config.circuits.running_max = 1).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let op_id = long_run(&account).await;
    let small = account.circuit(&and_netlist(1), json!([account.value(&[true; 2])]));
    account.post(CIRCUITS, &small).await.error(429, "RATE_LIMITED");
    // the bound on running circuits does not apply to gates, and a large circuit does not delay them
    account.post("/api/v1/tfhe/gate", &account.gate("NAND", true, Some(true), None)).await.ok(200);
    account.send(Request::delete(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
    account.post(CIRCUITS, &small).await.ok(200);
}

#[tokio::test]
async fn a_circuit_without_gates_hands_bits_through_for_nothing() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let swap: Value = account
        .circuit("3 5\n1 2\n2 1 2\n\n1 1 1 2 EQW\n1 1 0 3 EQW\n1 1 1 4 EQ\n", json!([account.value(&[true, false])]));
    let done = account.post(CIRCUITS, &swap).await.ok(200);
    assert_eq!((&done["gates_total"], &done["levels"], &done["cost_jpy"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!(account.bits(&done["outputs"][0]), [false]);
    assert_eq!(account.bits(&done["outputs"][1]), [true, true]);
    account.nothing_charged().await;
}
