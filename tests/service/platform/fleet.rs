//! A fleet of API nodes and workers (readings G3, G13): any API node serves any session, and every worker computes.

use std::time::{Duration, Instant};

use api::Code;
use client::Preset;
use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::fleet::Fleet;
use tests_service::gates::{Account, BATCH, CIRCUITS, GATE, OPERATIONS, SESSION, SESSIONS, and_netlist};
use tests_service::http::Request;

use crate::numbers::Numbers;

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
        let until = Instant::now() + Duration::from_secs(30);
        while refused().await.status == 200 {
            assert!(Instant::now() < until);
        }
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
    let metrics = fleet.api[0].operations_get("/metrics").await;
    assert!(metrics.text().contains("ango_fleet_workers{pool=\"default\",state=\"ready\"} 1"), "{}", metrics.text());
}
