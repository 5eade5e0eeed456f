//! Operations that cannot be completed: they end once, and nothing is charged for them.

use std::time::{Duration, Instant};

use client::Preset;
use serde_json::json;
use tests_service::gates::{GATE, base64};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::node::{Node, until};

use crate::load::Load;
use crate::operation::Operation;
use crate::place::{Place, gauge, open_session};

/// Number of workers that an operation may end.
const WORKERS_ENDED: usize = 5;
/// Gates of an operation that does not end by itself while its test watches it.
const LONG: usize = 10_000;

/// Whether a worker has had work for some time.
async fn computes(worker: &Node) -> bool {
    for _ in 0..20 {
        if gauge(worker, "ango_fleet_taken").await == 0 {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_ends_five_workers_fails_uncharged_and_the_rest_goes_on() {
    let Some(mut place) = Place::new().await else { return };
    let (mut workers, api) = ([place.worker(), place.worker()], place.api());
    place.addresses.lock().unwrap().push(api.address);
    until("the workers are heard", async || api.fleet_workers().await == 2).await;
    let key = place.api_key.clone();
    let (session, poison) = (open_session(&api, &key).await, open_session(&api, &key).await);
    let operation = Operation::begin(&api, &key, &poison, LONG).await;
    let mut gates = 0;
    let begun = Instant::now();
    for ended in 1..=WORKERS_ENDED {
        // no gates are sent now, so the worker that has work for long computes the operation
        until("a worker computes the operation", async || computes(&workers[0]).await || computes(&workers[1]).await)
            .await;
        let at = usize::from(!computes(&workers[0]).await);
        workers[at].kill();
        println!("worker {at} is killed");
        workers[at] = place.worker();
        let load = Load::start(&place.addresses, &key, &session);
        load.goes_on(10, &format!("{:?}: the operation has ended {ended} workers", begun.elapsed())).await;
        let (answered, failed) = load.end().await;
        assert_eq!(failed, 0, "a request failed");
        gates += answered;
    }
    let told = operation.ended(&api).await;
    assert_eq!((&told["status"], &told["gates_done"]), (&json!("failed"), &json!(0)), "{told}");
    assert!(workers.iter().all(|worker| !worker.is_dead()));
    place.assert_charged(gates..=gates).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_deleted_amid_gates_and_an_operation_ends_both_and_leaves_no_key() {
    let Some(mut place) = Place::new().await else { return };
    let (workers, api) = ([place.worker(), place.worker()], [place.api(), place.api()]);
    place.addresses.lock().unwrap().extend(api.each_ref().map(|node| node.address));
    for node in &api {
        until("the workers are heard", async || node.fleet_workers().await == 2).await;
    }
    let key = place.api_key.clone();
    let session = open_session(&api[0], &key).await;
    let operation = Operation::begin(&api[0], &key, &session, LONG).await;
    let load = Load::start(&place.addresses, &key, &session);
    load.goes_on(10, "the session lives").await;
    until("the operation runs", async || operation.done(&api[1]).await > 0).await;
    let path = format!("/api/v1/tfhe/session/{session}");
    let deleted = api[1].send(&Request::delete(&path).key(&key)).await.unwrap();
    assert_eq!(deleted.status, 204);
    let told = operation.ended(&api[0]).await;
    assert_eq!((&told["status"], &told["error"]["code"]), (&json!("failed"), &json!("SESSION_NOT_FOUND")), "{told}");
    for worker in &workers {
        until("the worker has no key", async || gauge(worker, "ango_sessions").await == 0).await;
    }
    // no key comes back
    let bit = base64(&keys::of(Preset::Fast128).encrypt(true));
    let gate = Request::post(GATE, &json!({"session_id": session, "op": "NAND", "a": bit, "b": bit})).key(&key);
    for node in &api {
        until("the node knows the end", async || node.send(&gate).await.unwrap().status == 404).await;
    }
    let (answered, failed) = load.end().await;
    for worker in &workers {
        assert_eq!(gauge(worker, "ango_sessions").await, 0);
    }
    println!("{answered} gates were answered before the session was deleted");
    place.assert_charged(answered..=answered + failed).await;
}
