//! Circuits that an account stores by name.

use std::path::Path;
use std::time::Instant;

use client::{Preset, netlists};
use control::caller::Role;
use control::config::Config;
use serde_json::json;
use sha2::{Digest, Sha256};
use store::{CircuitsMax, NetlistPlace, NewCircuit};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::Request;

use tests_service::gates::{Account, CIRCUITS, and_netlist};

fn named(name: &str) -> String {
    format!("{CIRCUITS}/{name}")
}

#[tokio::test]
async fn a_circuit_is_kept_with_its_facts_replaced_listed_and_forgotten() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let put = async |name: &str, text: &str| server.send(Request::put_text(named(name), text).key(&key)).await;
    let facts = put("adder64", netlists::ADDER64).await.ok(201);
    assert_eq!((&facts["name"], &facts["bytes"]), (&json!("adder64"), &json!(netlists::ADDER64.len())));
    assert_eq!((&facts["input_widths"], &facts["output_widths"]), (&json!([64, 64]), &json!([64])));
    assert_eq!(
        (&facts["gates_total"], &facts["gates"]["XOR"], &facts["gates"]["AND"]),
        (&json!(376), &json!(313), &json!(63))
    );
    assert_eq!(facts["sha256"], hex::encode(Sha256::digest(netlists::ADDER64)));
    assert!(facts["levels"].as_u64().unwrap() > 1 && facts["created_at"].as_str().unwrap().ends_with('Z'));

    put("and", &and_netlist(1)).await.ok(201);
    let replaced = put("and", &and_netlist(2)).await.ok(200);
    assert_eq!(replaced["gates"], json!({"AND": 2}));
    let list = server.send(Request::get(CIRCUITS).key(&key)).await.ok(200);
    assert_eq!(list, json!({"circuits": [replaced, facts], "next_cursor": null, "has_more": false, "total_count": 2}));
    assert_eq!(server.send(Request::get(named("and")).key(&key)).await.ok(200), replaced);

    let deleted = server.send(Request::delete(named("and")).key(&key)).await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    for request in [Request::get(named("and")), Request::delete(named("and")), Request::get(named("..%2F"))] {
        server.send(request.key(&key)).await.error(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn x14_circuits_are_their_account_s_and_roles_decide_who_writes_and_reads() {
    let server = TestServer::start().await;
    let (admin, account) = server.create_key(Role::AccountAdmin, None).await;
    let (viewer, _) = server.create_key(Role::Viewer, Some(account.clone())).await;
    let trial = server.key(Role::Trial).await;
    let stranger = server.key(Role::AccountAdmin).await;
    let put = |key: &str| Request::put_text(named("mine"), and_netlist(1)).key(key);
    for key in [&viewer, &trial] {
        server.send(put(key)).await.error(403, "INSUFFICIENT_ROLE");
        server.send(Request::delete(named("mine")).key(key)).await.error(403, "INSUFFICIENT_ROLE");
    }
    server.send(put(&admin)).await.ok(201);
    server.send(Request::get(named("mine")).key(&viewer)).await.ok(200);
    server.send(Request::get(CIRCUITS).key(&trial)).await.error(403, "INSUFFICIENT_ROLE");
    assert_eq!(
        server.send(Request::get(CIRCUITS).key(&stranger)).await.ok(200),
        json!({"circuits": [], "next_cursor": null, "has_more": false, "total_count": 0})
    );
    for request in [Request::get(named("mine")), Request::delete(named("mine"))] {
        server.send(request.key(&stranger)).await.error(404, "NOT_FOUND");
    }
    // an account does not see the circuits of others, so a name that another account uses is still free here
    server.send(put(&stranger)).await.ok(201);
}

#[tokio::test]
async fn an_account_keeps_as_many_circuits_and_bytes_as_it_may() {
    let text = and_netlist(20_000);
    let server = TestServer::with(|config| {
        config.circuits.kept_max = 2;
        config.circuits.kept_bytes_max = text.len() as u64 + 1000;
        config.circuits.bits_max = 1 << 16;
    })
    .await;
    let key = server.key(Role::Developer).await;
    let put = async |name: &str, text: &str| server.send(Request::put_text(named(name), text).key(&key)).await;
    put("a", &and_netlist(1)).await.ok(201);
    put("b", &and_netlist(1)).await.ok(201);
    put("c", &and_netlist(1)).await.error(402, "QUOTA_EXCEEDED");
    put("b", &text).await.ok(200);
    put("a", &text).await.error(402, "QUOTA_EXCEEDED");
    assert_eq!(server.send(Request::get(named("a")).key(&key)).await.ok(200)["gates"], json!({"AND": 1}));
}

#[tokio::test]
async fn what_is_no_circuit_is_refused_with_its_line_and_not_kept() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for (text, told) in [
        ("", "line 1"),
        ("1 3\n1 2\n1 1\n2 1 0 2 2 AND\n", "line 4: wire 2 is read before it is written"),
        ("1048576 1048578\n1 2\n1 1\n2 1 0 1 2 AND\n", "ends before gate 2 of 1048576"),
        ("1048577 3\n1 2\n1 1\n2 1 0 1 2 AND\n", "more than 1048576"),
    ] {
        let error = server.send(Request::put_text(named("bad"), text).key(&key)).await.error(400, "INVALID_PARAMS");
        assert!(error["message"].as_str().unwrap().contains(told), "{error}");
    }
    let error =
        server.send(Request::put_text(named("bad"), b"1 3\n1 \xff").key(&key)).await.error(400, "INVALID_REQUEST");
    assert!(error["message"].as_str().unwrap().contains("UTF-8: fault at byte 6"), "{error}");
    for name in ["UPPER", "-a", "a.txt", &"a".repeat(65), "a%0A", "%C3%A9"] {
        let request = Request::put_text(named(name), and_netlist(1)).key(&key);
        server.send(request).await.error(400, "INVALID_PARAMS");
    }
    let json = Request::new("PUT", named("bad")).body("application/json", "{}");
    server.send(json.key(&key)).await.error(400, "INVALID_REQUEST");
    let long =
        Request::new("PUT", named("bad")).header("Content-Type", "text/plain").header("Content-Length", "33554433");
    server.send(long.key(&key)).await.error(413, "PAYLOAD_TOO_LARGE");
    assert_eq!(
        server.send(Request::get(CIRCUITS).key(&key)).await.ok(200),
        json!({"circuits": [], "next_cursor": null, "has_more": false, "total_count": 0})
    );
}

#[tokio::test]
async fn a_trial_key_runs_smaller_circuits() {
    let server = TestServer::with(|config| config.circuits.gates_max_trial = 3).await;
    let mut account = Account::open(&server, Preset::Fast128).await;
    account.key = server.key(Role::Trial).await;
    account.session = tests_service::gates::open_session(&server, &account.key, Preset::Fast128).await;
    let request = account.circuit(&and_netlist(4), json!([account.value(&[true; 8])]));
    let error = account.post(CIRCUITS, &request).await.error(400, "INVALID_PARAMS");
    assert!(error["message"].as_str().unwrap().contains("4 gates, more than 3"), "{error}");
}

#[tokio::test]
async fn a_million_gates_of_a_trial_are_refused_by_their_header() {
    let server = TestServer::start().await;
    let mut account = Account::open(&server, Preset::Fast128).await;
    account.key = server.key(Role::Trial).await;
    account.session = tests_service::gates::open_session(&server, &account.key, Preset::Fast128).await;
    // the first gate is invalid, so if the node read the gates, the error would be about this gate and not about the
    // header
    let netlist = format!("1000000 1000002\n1 2\n1 1\nno gate\n{}", "2 1 0 1 2 AND\n".repeat(1_000_000));
    let request = account.circuit(&netlist, json!([account.value(&[true; 2])]));
    let error = account.post(CIRCUITS, &request).await.error(400, "INVALID_PARAMS");
    assert!(
        error["message"].as_str().unwrap().contains("line 1: the circuit has 1000000 gates, more than 1024"),
        "{error}"
    );
}

/// Sets a database in the node's folder. With such a database too, netlists are objects.
fn embedded_database(config: &mut Config) {
    config.database_url = Config::in_folder(&config.data_dir).database_url;
}

/// Returns the contents of all sealed netlists in a node's folder.
fn objects(folder: &Path) -> Vec<Vec<u8>> {
    let objects = std::fs::read_dir(folder.join("circuits")).unwrap();
    objects.map(|object| std::fs::read(object.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn a_kept_netlist_is_a_sealed_object_and_what_is_replaced_refused_or_deleted_leaves_none() {
    let server = TestServer::with(|config| {
        embedded_database(config);
        config.circuits.kept_max = 1;
    })
    .await;
    let folder = server.running().config().data_dir.clone();
    let account = Account::open(&server, Preset::Fast128).await;
    let put = |name: &str, key: &str, width| Request::put_text(named(name), and_netlist(width)).key(key);
    server.send(put("a", &account.key, 2)).await.ok(201);
    let first = objects(&folder);
    assert!(first.len() == 1 && !first[0].windows(4).any(|part| part == b" AND"));
    server.send(put("a", &account.key, 1)).await.ok(200);
    server.send(put("b", &account.key, 1)).await.error(402, "QUOTA_EXCEEDED");
    let second = objects(&folder);
    assert!(second.len() == 1 && second != first);
    // another account with the same netlist has another object
    let other = server.key(Role::Developer).await;
    server.send(put("a", &other, 1)).await.ok(201);
    let both = objects(&folder);
    assert!(both.len() == 2 && both[0] != both[1]);
    server.send(Request::delete(named("a")).key(&other)).await;
    assert_eq!(objects(&folder), second);
    let request = account.circuit("a", json!([account.value(&[true; 2])]));
    let answer = account.post(CIRCUITS, &request).await.ok(200);
    assert_eq!(account.bits(&answer["outputs"][0]), [true]);
    // a circuit whose object is missing does not run
    std::fs::remove_dir_all(folder.join("circuits")).unwrap();
    account.post(CIRCUITS, &request).await.error(500, "INTERNAL_ERROR");
}

#[tokio::test]
async fn netlists_of_an_older_version_become_objects_and_run_before_and_after() {
    let server = TestServer::with(embedded_database).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let (store, text, sha256) = (server.running().store(), and_netlist(1), [7; 32]);
    let old = NewCircuit {
        account_id: &store.accounts().await.unwrap()[0].account_id,
        name: "old",
        netlist: &NetlistPlace::Text(text.clone()),
        bytes: text.len() as i64,
        sha256: &sha256,
        gates: 1,
        by_gate: r#"{"AND":1}"#,
        levels: 1,
        input_widths: "[2]",
        output_widths: "[1]",
        now: 1,
    };
    store.put_circuit(&old, CircuitsMax { count: 9, bytes: 1 << 20 }).await.unwrap();
    let run = async |account: &Account<'_>| {
        let request = account.circuit("old", json!([account.value(&[true; 2])]));
        let answer = account.post(CIRCUITS, &request).await.ok(200);
        assert_eq!(account.bits(&answer["outputs"][0]), [true]);
    };
    run(&account).await;
    let (key, secret) = (account.key, account.secret);

    let server = TestServer::in_folder(server.stop().await, embedded_database).await;
    let (store, started) = (server.running().store(), Instant::now());
    while store.circuit_in_row(("", "")).await.unwrap().is_some() {
        assert!(started.elapsed() < PATIENCE, "the netlist is still in its row");
        tokio::task::yield_now().await;
    }
    let session = tests_service::gates::open_session(&server, &key, Preset::Fast128).await;
    run(&Account { server: &server, key, session, secret }).await;
    assert_eq!(objects(&server.running().config().data_dir).len(), 1);
}
