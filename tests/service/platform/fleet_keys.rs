//! Keys in a fleet: workers read the rows of stored keys from the bucket, and a worker that joins opens the keys of its lanes
//! before it is used.

use std::time::Instant;

use client::Preset;
use serde_json::json;
use tests_service::fleet::Fleet;
use tests_service::gates::{Account, GATE};
use tests_service::http::Request;
use tests_service::{PATIENCE, TestServer};

use crate::numbers::Numbers;

/// Number of sessions of the test of a join.
const SESSIONS: usize = 6;

/// Whether the rows of a key are sealed under a data key of their own.
async fn has_data_key(server: &TestServer, numbers: &Numbers<'_>) -> bool {
    let store = server.running().store();
    let account = store.account_of_encryption_key(&numbers.key_id).await.unwrap().unwrap();
    store.encryption_key(&account, &numbers.key_id).await.unwrap().unwrap().key_secret.is_some()
}

/// Uploads two ciphertexts, multiplies them, and checks the product.
async fn multiplies(numbers: &Numbers<'_>) {
    let [a, b] = [numbers.encrypted(&[3.0, 1.5]).await, numbers.encrypted(&[2.0, -4.0]).await];
    let answer = numbers.compute("multiply", &[&a, &b], json!({})).await.ok(200);
    let product = numbers.decrypted(&answer["result_ciphertext_id"]).await;
    assert!((product[0] - 6.0).abs() < 1e-3 && (product[1] + 6.0).abs() < 1e-3, "{:?}", &product[..2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_read_rows_of_a_stored_key_from_the_bucket_until_the_key_is_deleted() {
    let Some(fleet) = Fleet::start(1, 1, |_| ()).await else { return };
    let server = &fleet.api[0];
    let numbers = Numbers::new(server).await;
    // an API node gives no worker a row of such a key, so the product proves that the worker read the bucket
    assert!(has_data_key(server, &numbers).await);
    multiplies(&numbers).await;
    let store = server.running().store();
    let account = store.account_of_encryption_key(&numbers.key_id).await.unwrap().unwrap();
    let record = store.encryption_key(&account, &numbers.key_id).await.unwrap().unwrap();
    let material = store.key_material(&account, &record.material_id).await.unwrap().unwrap();
    assert_eq!((material.key_secret.as_ref(), material.node_id.as_str()), (record.key_secret.as_ref(), ""));
    numbers.send(Request::delete(format!("/api/v1/keys/{}", numbers.key_id))).await.ok(200);
    // the data key is gone with its record
    assert_eq!(store.key_material(&account, &record.material_id).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_used_by_a_fleet_and_by_a_single_process_whichever_of_them_stored_it() {
    let Some(fleet) = Fleet::start(1, 1, |_| ()).await else { return };
    let of_fleet = fleet.api[0].running().config().clone();
    let alone = TestServer::with(|config| {
        config.database_url = of_fleet.database_url.clone();
        config.secret = of_fleet.secret.clone();
        config.bucket = of_fleet.bucket.clone();
    });
    let alone = alone.await;
    let numbers = Numbers::new(&alone).await;
    assert!(!has_data_key(&alone, &numbers).await);
    multiplies(&numbers).await;
    // rows of this key pass the API node
    multiplies(&Numbers { server: &fleet.api[0], ..numbers }).await;
    let numbers = Numbers::new(&fleet.api[0]).await;
    assert!(has_data_key(&alone, &numbers).await);
    multiplies(&Numbers { server: &alone, ..numbers }).await;
    alone.stop().await;
}

/// Lets each session ask for a gate, all at the same time.
async fn gates(accounts: &[Account<'_>]) {
    let gates = accounts.iter().map(async |account| {
        let answer = account.post(GATE, &account.gate("NAND", true, Some(false), None)).await.ok(200);
        assert!(account.decrypt(&answer["result_b64"]));
    });
    futures_util::future::join_all(gates).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_joins_under_load_has_the_keys_of_its_lanes_open_before_it_is_used() {
    let Some(mut fleet) = Fleet::start(2, 1, |_| ()).await else { return };
    fleet.has_ready_workers(1).await;
    let api = std::mem::take(&mut fleet.api);
    let mut accounts = Vec::new();
    for at in 0..SESSIONS {
        accounts.push(Account::open(&api[at % 2], Preset::Fast128).await);
    }
    gates(&accounts).await;
    fleet.add_worker(None).await;
    let until = Instant::now() + PATIENCE;
    while !api.iter().all(|node| node.running().workers_ready() == 2) {
        assert!(Instant::now() < until, "the second worker is not ready");
        gates(&accounts).await;
    }
    let joined = &fleet.workers[1];
    // of two workers, each one is the second of the other's lane, so it takes work of all keys
    let (misses, open, computed) = (joined.key_misses(), joined.usage().sessions, joined.usage().rows_done);
    assert!(open > misses, "no key was opened before its work came");
    while joined.usage().rows_done < computed + 10 {
        assert!(Instant::now() < until, "the second worker computes nothing");
        gates(&accounts).await;
    }
    // on a busy machine the worker may be used before all keys are open, because it warms up for 10 s at most
    let left = SESSIONS as u64 - open;
    assert!(joined.key_misses() <= misses + left, "{} misses, {open} keys were open", joined.key_misses());
    drop(accounts);
    fleet.api = api;
}
