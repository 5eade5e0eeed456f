//! A fleet of API nodes and workers (readings G3, G13): any API node serves any session, and every worker computes.

use std::time::Duration;

use api::Code;
use client::Preset;
use client::ckks::PartKind;
use control::admin::Operator;
use control::caller::Role;
use control::config::NodeRole;
use serde_json::json;
use tests_service::fleet::{Fleet, hear_workers};
use tests_service::gates::{
    Account, BATCH, CHAIN_BITS, CIRCUITS, GATE, OPERATIONS, SESSION, SESSIONS, and_netlist, chain_netlist, chain_result,
};
use tests_service::http::Request;
use tests_service::node::until;
use tests_service::{PATIENCE, TestServer};
use tests_store::psql;

use crate::numbers::{COMPUTE, Numbers, testing};

/// The same account, asking another node.
fn at<'s>(account: &Account<'_>, server: &'s TestServer) -> Account<'s> {
    let (key, session) = (account.key.clone(), account.session.clone());
    Account { server, key, session, secret: account.secret }
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_any_api_node_serves_any_session_and_all_of_them_list_it() {
    let Some(fleet) = Fleet::start(2, 2, |_| ()).await else { return };
    let [one, other] = [&fleet.api[0], &fleet.api[1]];
    let account = Account::open(one, Preset::Fast128).await;
    let elsewhere = at(&account, other);
    for (a, b) in [(true, true), (true, false), (false, false)] {
        let gate = account.gate("NAND", a, Some(b), None);
        for node in [&account, &elsewhere] {
            assert_eq!(account.decrypt(&node.post(GATE, &gate).await.ok(200)["result_b64"]), !(a && b));
        }
    }
    assert_eq!(elsewhere.show().await["gates_used"], 6);
    let listed = elsewhere.send(Request::get(SESSIONS)).await.ok(200);
    assert_eq!((&listed["total_count"], &listed["sessions"][0]["gates_used"]), (&json!(1), &json!(6)));
    // the key is closed on all workers when the answer comes, whichever node is asked
    assert_eq!(elsewhere.send(Request::delete(elsewhere.path(""))).await.status, 204);
    assert!(fleet.workers.iter().all(|worker| worker.usage().sessions == 0));
    for node in [&account, &elsewhere] {
        let gate = account.gate("NAND", true, Some(true), None);
        let refused = async || node.post(GATE, &gate).await;
        // a node believes a session's row for a second
        until("the node knows the end", async || refused().await.status != 200).await;
        refused().await.error(404, Code::SessionNotFound.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_batch_and_a_circuit_pass_the_internal_listener() {
    let Some(fleet) = Fleet::start(2, 1, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let elsewhere = at(&account, &fleet.api[1]);
    let batch = account.batch("NAND", 40);
    let answer = elsewhere.post(BATCH, &batch).await.ok(200);
    assert_eq!(answer["results_b64"].as_array().unwrap().len(), 40);
    let netlist = and_netlist(20);
    let circuit = account.circuit(&netlist, json!([account.value(&[true; 40])]));
    let ran = elsewhere.post(CIRCUITS, &circuit).await.ok(200);
    assert_eq!(account.bits(&ran["outputs"][0]), [true; 20]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_keys_that_the_server_holds_are_no_part_of_a_fleet() {
    let Some(fleet) = Fleet::start(1, 1, |_| ()).await else { return };
    let server = &fleet.api[0];
    let key = server.key(Role::AccountAdmin).await;
    let managed = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key);
    server.send(managed).await.error(403, Code::FeatureDisabled.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_and_results_of_runs_are_found_through_every_api_node() {
    let Some(fleet) = Fleet::start(2, 1, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let elsewhere = at(&account, &fleet.api[1]);
    // NAND of true and false, four times
    let mut batch = account.batch("NAND", 4);
    batch["outputs"] = json!("handles");
    let handle = account.post(BATCH, &batch).await.ok(200)["handle"].clone();
    // the handle is an input of a run that another node begins in the background, with its results under handles too
    let mut circuit = account.circuit(&and_netlist(2), json!([handle]));
    circuit["outputs"] = json!("handles");
    let ended = account.ended(&elsewhere.begin(&circuit).await).await;
    let kept = account.handle(&ended["outputs"][0]);
    let read = account.send(Request::get(&kept)).await.ok(200);
    assert_eq!(account.bits(&read["ciphertexts_b64"]), [true; 2]);
    // a run whose results have no handles keeps them until they are deleted, through any node
    circuit["outputs"] = json!("ciphertexts");
    let op_id = account.begin(&circuit).await;
    let ended = elsewhere.ended(&op_id).await;
    assert_eq!(account.bits(&ended["outputs"][0]), [true; 2]);
    let run = format!("{OPERATIONS}/{op_id}");
    elsewhere.send(Request::delete(&run)).await.ok(200);
    assert_eq!(account.send(Request::get(&run)).await.ok(200)["outputs"], json!(null));
    // a value is deleted once
    assert_eq!(elsewhere.send(Request::delete(&kept)).await.status, 204);
    let unknown = Code::CiphertextNotFound.as_str();
    for request in [
        Request::delete(&kept),
        Request::get(&kept),
        Request::post(CIRCUITS, &account.circuit(&and_netlist(2), json!(["hdl_0"]))),
    ] {
        account.send(request).await.error(404, unknown);
    }
    // the values end with their session
    let handle = account.post(BATCH, &batch).await.ok(200)["handle"].clone();
    assert_eq!(elsewhere.send(Request::delete(elsewhere.path(""))).await.status, 204);
    elsewhere.send(Request::get(account.handle(&handle))).await.error(404, Code::SessionNotFound.as_str());
}

/// The number that the first worker's metrics tell under this name.
pub async fn of_worker(fleet: &Fleet, name: &str) -> u64 {
    let page = Request::get("/metrics").send(fleet.workers[0].metrics_addr).await;
    let line = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("{name} in {}", page.text())).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_computed_from_values_that_its_worker_remembers_or_fetches() {
    let Some(mut fleet) = Fleet::start(2, 1, |_| ()).await else { return };
    let api = std::mem::take(&mut fleet.api);
    let account = Account::open(&api[0], Preset::Fast128).await;
    // so many bits are more than a message has room for
    let width = 32;
    let mut batch = account.batch("NAND", width);
    batch["outputs"] = json!("handles");
    let first = account.post(BATCH, &batch).await.ok(200)["handle"].clone();
    let [remembered, missed] = ["ango_fleet_operands_remembered_total", "ango_fleet_operand_misses_total"];
    let chain = async |account: &Account<'_>, value: &serde_json::Value| {
        let mut circuit = account.circuit(&and_netlist(width / 2), json!([value]));
        circuit["outputs"] = json!("handles");
        account.post(CIRCUITS, &circuit).await.ok(200)["outputs"][0].clone()
    };
    let second = chain(&account, &first).await;
    assert_eq!((of_worker(&fleet, remembered).await, of_worker(&fleet, missed).await), (1, 0));
    let read = async |handle: &serde_json::Value| {
        let value = account.send(Request::get(account.handle(handle))).await.ok(200);
        account.bits(&value["ciphertexts_b64"])
    };
    assert_eq!(read(&second).await, vec![true; width / 2]);
    // a new worker remembers nothing, so it fetches the value, and then remembers it
    fleet.workers.remove(0).shutdown().await;
    hear_workers(&api, 0).await;
    fleet.add_worker(None).await;
    hear_workers(&api, 1).await;
    for turn in 0..2 {
        let node = &api[turn % 2];
        let again = chain(&at(&account, node), &first).await;
        assert_eq!(read(&again).await, vec![true; width / 2]);
        let counts = (of_worker(&fleet, remembered).await, of_worker(&fleet, missed).await);
        assert_eq!(counts, (turn as u64, 1));
    }
    assert!(of_worker(&fleet, "ango_fleet_remembered_bytes").await > 0);
    // the values end with their session
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    assert_eq!(of_worker(&fleet, "ango_fleet_remembered_bytes").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_operations_on_numbers_is_computed_from_ciphertexts_that_its_worker_remembers() {
    let Some(fleet) = Fleet::start(2, 1, |_| ()).await else { return };
    // ciphertexts that are larger than a message
    let (key, params) = (fleet.api[0].key(Role::AccountAdmin).await, testing(4096, 3));
    let numbers = Numbers::with_parts(&fleet.api[0], key, &params, &[(PartKind::Relinearization, 3)]).await;
    let mut at = numbers.encrypted(&[1.5, -2.0]).await;
    for _ in 0..3 {
        at = numbers.compute("negate", &[&at], json!({})).await.ok(200)["result_ciphertext_id"].clone();
    }
    let names = ["ango_fleet_operands_remembered_total", "ango_fleet_operand_misses_total"];
    let counts = [of_worker(&fleet, names[0]).await, of_worker(&fleet, names[1]).await];
    // the upload is fetched, and the results are remembered
    assert_eq!(counts, [2, 1]);
    let found = numbers.decrypted(&at).await;
    assert!((found[0] + 1.5).abs() < 1e-3 && (found[1] - 2.0).abs() < 1e-3, "{:?}", &found[..2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_circuit_waits_in_the_line_while_its_client_waits_and_is_answered_once() {
    let Some(mut fleet) = Fleet::start(2, 0, |_| ()).await else { return };
    let api = std::mem::take(&mut fleet.api);
    // estimated by the time of a bootstrap that every node assumes before its first circuit
    let width = 512;
    let account = Account::open(&api[0], Preset::Fast128).await;
    let bits: Vec<bool> = (0..2 * width).map(|at| at % 3 != 1).collect();
    let circuit = account.circuit(&and_netlist(width), json!([account.value(&bits)]));
    let request = Request::post(CIRCUITS, &circuit).key(&account.key).header("Idempotency-Key", "long");
    let (sent, address) = (request.clone(), api[0].address);
    let waits = tokio::spawn(async move { sent.send(address).await });
    let store = api[0].running().store();
    until("the circuit waits in the line", async || store.line_length().await.unwrap().waiting == 1).await;
    // the same request again, while no worker is there
    let pending = request.send(api[1].address).await.ok(200);
    assert_eq!((&pending["status"], &pending["gates_total"]), (&json!("pending"), &json!(width)));
    fleet.add_worker(None).await;
    let answer = waits.await.unwrap().ok(200);
    assert_eq!((&answer["status"], &answer["op_id"]), (&json!("completed"), &pending["op_id"]));
    let expected: Vec<bool> = (0..width).map(|at| bits[at] && bits[width + at]).collect();
    assert_eq!(account.bits(&answer["outputs"][0]), expected);
    let again = request.send(api[1].address).await.ok(200);
    assert_eq!(again, answer);
    // the client has the results, so the session keeps none
    let run = format!("{OPERATIONS}/{}", answer["op_id"].as_str().unwrap());
    let told = account.send(Request::get(&run)).await.ok(200);
    assert_eq!((&told["status"], &told["outputs"]), (&json!("completed"), &json!(null)));
    let session = account.send(Request::get(account.path(""))).await.ok(200);
    assert_eq!(session["gates_used"], width);
}

/// Waits until a node tells this status of an operation.
async fn until_status(account: &Account<'_>, op_id: &str, status: &str) {
    let told = async || account.send(Request::get(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
    until(status, async || told().await["status"] == status).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_outlives_the_api_node_that_accepted_it() {
    let Some(mut fleet) = Fleet::start(2, 0, |_| ()).await else { return };
    let accepts = fleet.api.remove(0);
    let account = Account::open(&accepts, Preset::Fast128).await;
    let circuit = account.circuit(&and_netlist(3), json!([account.value(&[true, true, false, true, true, true])]));
    // no worker is there yet, so the run waits
    let op_id = account.begin(&circuit).await;
    let (key, session, secret) = (account.key.clone(), account.session.clone(), account.secret);
    drop(account);
    accepts.stop().await;
    fleet.add_worker(None).await;
    let account = Account { server: &fleet.api[0], key, session, secret };
    let ended = account.ended(&op_id).await;
    assert_eq!((&ended["status"], account.bits(&ended["outputs"][0])), (&json!("completed"), vec![true, true, false]));
    assert_eq!(account.show().await["gates_used"], 3);
    assert_eq!((&ended["gates_done"], ended["cost_jpy"].as_f64().unwrap() > 0.0), (&json!(3), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_operation_that_waits_or_runs_is_cancelled_through_any_node() {
    let Some(mut fleet) = Fleet::start(2, 0, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let circuit = |gates| account.circuit(&chain_netlist(gates), json!([account.value(&[true; CHAIN_BITS])]));
    let waits = account.begin(&circuit(2)).await;
    let elsewhere = at(&account, &fleet.api[1]);
    let cancel = async |op_id: &str| elsewhere.send(Request::delete(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
    assert_eq!(cancel(&waits).await, json!({"op_id": waits, "cancelled": true}));
    assert_eq!(account.ended(&waits).await["status"], "cancelled");
    // an operation that has ended is not cancelled again
    assert_eq!(cancel(&waits).await["cancelled"], false);
    let runs = account.begin(&circuit(4000)).await;
    let (key, session, secret) = (account.key.clone(), account.session.clone(), account.secret);
    fleet.add_worker(None).await;
    let [one, other] =
        [0, 1].map(|at| Account { server: &fleet.api[at], key: key.clone(), session: session.clone(), secret });
    until_status(&one, &runs, "running").await;
    until_status(&other, &runs, "running").await;
    let cancelled = other.send(Request::delete(format!("{OPERATIONS}/{runs}"))).await.ok(200);
    assert_eq!(cancelled["cancelled"], true);
    assert_eq!(one.ended(&runs).await["status"], "cancelled");
    one.nothing_charged().await;
    // the session can run others now
    let circuit = one.circuit(&chain_netlist(2), json!([one.value(&[true; CHAIN_BITS])]));
    let last = one.begin(&circuit).await;
    assert_eq!(other.ended(&last).await["status"], "completed");
    assert_eq!(other.show().await["gates_used"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_whose_session_ended_or_whose_time_is_over_fails_and_costs_nothing() {
    let Some(mut fleet) = Fleet::start(1, 0, |_| ()).await else { return };
    let accounts =
        [Account::open(&fleet.api[0], Preset::Fast128).await, Account::open(&fleet.api[0], Preset::Fast128).await];
    let [ended, late] = &accounts;
    let mut begun = Vec::new();
    for account in &accounts {
        let circuit = account.circuit(&and_netlist(1), json!([account.value(&[true; 2])]));
        begun.push(account.begin(&circuit).await);
    }
    assert_eq!(ended.send(Request::delete(ended.path(""))).await.status, 204);
    let (key, session, secret) = (late.key.clone(), late.session.clone(), late.secret);
    let ended_key = ended.key.clone();
    drop(accounts);
    // as if the deadline had passed, by the database's clock, while no worker was there
    let sql = format!("UPDATE waiting_line SET deadline = 0 WHERE op_id = '{}'", begun[1]);
    psql(&fleet.api[0].running().config().database_url, &sql);
    fleet.add_worker(None).await;
    let late = Account { server: &fleet.api[0], key, session, secret };
    let told = late.ended(&begun[1]).await;
    assert_eq!((&told["status"], &told["error"]["code"]), (&json!("failed"), &json!("SERVICE_UNAVAILABLE")));
    late.nothing_charged().await;
    let of_ended = Account { key: ended_key, session: late.session.clone(), ..late };
    let told = of_ended.ended(&begun[0]).await;
    assert_eq!((&told["status"], &told["error"]["code"]), (&json!("failed"), &json!("SESSION_NOT_FOUND")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_the_fleet_lets_a_worker_leave_and_fails_an_operation() {
    let Some(mut fleet) = Fleet::start(1, 0, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let op_id = account.begin(&account.circuit(&and_netlist(1), json!([account.value(&[true; 2])]))).await;
    let config = fleet.api[0].running().config().clone();
    let operator = Operator::open(&config).await.unwrap();
    let (workers, operations) = operator.fleet(&config).await.unwrap();
    assert_eq!((workers.len(), operations.len()), (0, 1));
    assert_eq!(
        (operations[0].op_id.as_str(), operations[0].state, operations[0].releases),
        (op_id.as_str(), "waiting", 0)
    );
    assert!(operator.drain_worker(&config, "absent").await.is_err());
    assert!(operator.retry_operation(&config, &op_id).await.is_err(), "the operation is not with the workers");
    operator.fail_operation(&config, &op_id).await.unwrap();
    assert!(operator.fail_operation(&config, &op_id).await.is_err());
    assert_eq!(account.ended(&op_id).await["error"]["code"], "SERVICE_UNAVAILABLE");
    account.nothing_charged().await;
    let session = account.session.clone();
    drop(account);
    fleet.add_worker(None).await;
    fleet.hears_workers(1).await;
    let (workers, _) = operator.fleet(&config).await.unwrap();
    assert_eq!((workers[0].state, workers[0].pool.as_str(), session.is_empty()), ("ready", "default", false));
    operator.drain_worker(&config, &workers[0].worker).await.unwrap();
    tokio::time::timeout(PATIENCE, fleet.workers[0].asked_to_leave()).await.expect("the worker hears it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_runs_at_most_so_many_circuits_whichever_nodes_accept_them() {
    let Some(fleet) = Fleet::start(2, 0, |config| config.circuits.running_max = 2).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let elsewhere = at(&account, &fleet.api[1]);
    let circuit = account.circuit(&and_netlist(1), json!([account.value(&[true; 2])]));
    let first = account.begin(&circuit).await;
    elsewhere.begin(&circuit).await;
    for node in [&account, &elsewhere] {
        let third = Request::post(CIRCUITS, &circuit).header("Prefer", "respond-async");
        node.send(third).await.error(429, Code::RateLimited.as_str());
    }
    elsewhere.send(Request::delete(format!("{OPERATIONS}/{first}"))).await.ok(200);
    account.begin(&circuit).await;
    // the session ends: its runs fail, and nothing is charged
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_numbers_in_the_background_are_polled_through_any_node() {
    let Some(fleet) = Fleet::start(2, 1, |_| ()).await else { return };
    let numbers = Numbers::new(&fleet.api[0]).await;
    let [a, b] = [numbers.encrypted(&[3.0, 1.5]).await, numbers.encrypted(&[2.0, -4.0]).await];
    let body = json!({"key_id": numbers.key_id, "ciphertext_ids": [a, b]});
    let request = Request::post(format!("{COMPUTE}/multiply"), &body).header("Prefer", "respond-async");
    let pending = numbers.send(request).await.ok(200);
    let elsewhere = Numbers { server: &fleet.api[1], ..numbers };
    let path = format!("{COMPUTE}/{}", pending["op_id"].as_str().unwrap());
    let ended = loop {
        let told = elsewhere.send(Request::get(&path)).await.ok(200);
        if !matches!(told["status"].as_str(), Some("pending" | "running")) {
            break told;
        }
    };
    assert_eq!((&ended["status"], &ended["cost_units"]), (&json!("completed"), &pending["cost_units"]));
    let product = elsewhere.decrypted(&ended["result_ciphertext_id"]).await;
    assert!((product[0] - 6.0).abs() < 1e-3 && (product[1] + 6.0).abs() < 1e-3, "{:?}", &product[..2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_in_parts_gives_the_same_bytes_as_a_whole_one() {
    let Some(mut fleet) = Fleet::start(1, 0, |_| ()).await else { return };
    fleet.member.checkpoint_period = Duration::ZERO;
    fleet.add_worker(None).await;
    fleet.hears_workers(1).await;
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let bits: Vec<bool> = (0..CHAIN_BITS).map(|at| at % 3 != 1).collect();
    for mapping in ["cells", "none"] {
        let mut circuit = account.circuit(&chain_netlist(40), json!([account.value(&bits)]));
        circuit["mapping"] = json!(mapping);
        let whole = account.post(CIRCUITS, &circuit).await.ok(200);
        let parts = account.ended(&account.begin(&circuit).await).await;
        assert_eq!((&parts["outputs"], &parts["gates_done"]), (&whole["outputs"], &json!(40)), "{mapping}");
        assert_eq!(account.bits(&parts["outputs"][0]), [chain_result(40, &bits)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_numbers_are_computed_by_workers() {
    let Some(fleet) = Fleet::start(2, 2, |_| ()).await else { return };
    let numbers = Numbers::new(&fleet.api[0]).await;
    let [a, b] = [numbers.encrypted(&[3.0, 1.5]).await, numbers.encrypted(&[2.0, -4.0]).await];
    let elsewhere = Numbers { server: &fleet.api[1], ..numbers };
    let answer = elsewhere.compute("multiply", &[&a, &b], json!({})).await.ok(200);
    let product = elsewhere.decrypted(&answer["result_ciphertext_id"]).await;
    assert!((product[0] - 6.0).abs() < 1e-3 && (product[1] + 6.0).abs() < 1e-3, "{:?}", &product[..2]);
    // the key is deleted through one node: no node takes work under it any more
    elsewhere.send(Request::delete(format!("/api/v1/keys/{}", elsewhere.key_id))).await.ok(200);
    elsewhere.compute("multiply", &[&a, &b], json!({})).await.error(404, Code::KeyNotFound.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn o2_health_tells_the_broker_and_the_object_store_of_a_fleet() {
    let Some(fleet) = Fleet::start(1, 1, |_| ()).await else { return };
    let health = fleet.api[0].send(Request::get("/api/v1/health")).await.ok(200);
    let names: Vec<&str> =
        health["dependencies"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!((health["status"].as_str(), names), (Some("healthy"), vec!["postgres", "nats", "object_store"]));
    assert_eq!(fleet.api[0].operations_get("/readyz").await.status, 200);
    fleet.has_ready_workers(1).await;
    let metrics = fleet.api[0].operations_get("/metrics").await;
    assert!(metrics.text().contains("ango_fleet_workers{pool=\"default\",state=\"ready\"} 1"), "{}", metrics.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waiting_line_is_seen_in_the_metrics_of_every_api_node() {
    let Some(mut fleet) = Fleet::start(2, 0, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let circuit = account.circuit(&and_netlist(1), json!([account.value(&[true; 2])]));
    let op_id = account.begin(&circuit).await;
    let (waiting, oldest) = ("ango_fleet_operations{state=\"waiting\"}", "ango_fleet_oldest_operation_seconds");
    for node in &fleet.api {
        node.metric_becomes(waiting, |count| count == 1.0).await;
        node.metric_becomes(oldest, |seconds| seconds > 0.0 && seconds < 600.0).await;
    }
    // as if a node had released the operation and had died
    let sql = format!("UPDATE waiting_line SET epoch = 1 WHERE op_id = '{op_id}'");
    psql(&fleet.api[0].running().config().database_url, &sql);
    let (key, session, secret) = (account.key.clone(), account.session.clone(), account.secret);
    drop(account);
    fleet.add_worker(None).await;
    let account = Account { server: &fleet.api[0], key, session, secret };
    account.ended(&op_id).await;
    for node in &fleet.api {
        node.metric_becomes(waiting, |count| count == 0.0).await;
        node.metric_becomes(oldest, |seconds| seconds == 0.0).await;
    }
    for name in ["ango_fleet_operations_released_total", "ango_fleet_operations_released_again_total"] {
        let counts = [fleet.api[0].metric(name).await, fleet.api[1].metric(name).await];
        assert_eq!(counts[0] + counts[1], 1.0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_an_api_node_and_a_worker_has_the_metrics_of_both() {
    let Some(fleet) = Fleet::start(1, 1, |_| ()).await else { return };
    let api = fleet.api[0].running().config();
    let both = TestServer::with(|config| {
        config.database_url = api.database_url.clone();
        config.secret = api.secret.clone();
        fleet.member.join(config, NodeRole::All);
    });
    let page = both.await.operations_get("/metrics").await;
    let worker = Request::get("/metrics").send(fleet.workers[0].metrics_addr).await;
    let has = |page: &str, name: &str| page.lines().any(|line| line.starts_with(name));
    for name in [
        "ango_fleet_key_misses_total ",
        "ango_fleet_redeliveries_total ",
        "ango_fleet_device_busy_seconds_total ",
        "ango_fleet_given_up_total{",
        "ango_fleet_taken ",
        "ango_fleet_broker_up ",
    ] {
        assert!(has(page.text(), name) && has(worker.text(), name), "{name}: {}", page.text());
    }
    assert!(has(page.text(), "ango_fleet_operations_released_total "), "{}", page.text());
}
