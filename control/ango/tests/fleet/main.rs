//! A fleet of processes whose members are killed, stopped and drained under load. Always: every answer is right, nothing is
//! charged twice, and a request that fails is charged nothing (readings P24).
#![cfg(all(unix, feature = "nats"))]

mod brokers;
mod clocks;
mod ends;
mod faults;
mod load;
mod operation;
mod place;
mod relay;
mod upgrade;

use std::time::Duration;

use tests_service::http::Request;
use tests_service::node::until;

use load::Load;
use operation::Operation;
use place::{Linked, Place, To, gauge, open_session, owner_first, signal};
use relay::Link;

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_goes_on_where_its_dead_worker_stopped_and_is_charged_once() {
    const GATES: usize = 400;
    let Some(mut place) = Place::new().await else { return };
    place.member.checkpoint_period = Duration::ZERO;
    let (worker, accepts, other) = (place.worker(), place.api(), place.api());
    let key = place.api_key.clone();
    until("the worker is heard", async || accepts.fleet_workers().await == 1 && other.fleet_workers().await == 1).await;
    let session = open_session(&accepts, &key).await;
    let operation = Operation::begin(&accepts, &key, &session, GATES).await;
    until("a quarter is done", async || operation.done(&other).await >= GATES as u64 / 4).await;
    worker.kill();
    accepts.kill();
    let done = operation.done(&other).await;
    println!("{done} of {GATES} gates were told as done when the worker and the API node were killed");
    let _next = place.worker();
    let ended = loop {
        let told = operation.told(&other).await;
        // a worker that began again would tell less. The last checkpoints are lost if their API node was just replaced.
        assert!(told["gates_done"].as_u64().unwrap() >= GATES as u64 / 8, "{told} after {done} gates");
        if told["status"] == "completed" {
            break told;
        }
        assert!(told["status"] == "running" || told["status"] == "pending", "{told}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    operation.assert_right(&ended);
    place.assert_charged(GATES as u64..=GATES as u64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_fleet_die_and_sleep_and_no_answer_is_lost_or_charged_twice() {
    let Some(mut place) = Place::new().await else { return };
    let workers = [place.worker(), place.worker()];
    let (api, second_api) = (place.api(), place.api());
    let key = place.api_key.clone();
    until("the workers are heard", async || api.fleet_workers().await == 2 && second_api.fleet_workers().await == 2)
        .await;
    let session = open_session(&api, &key).await;
    place.addresses.lock().unwrap().extend([api.address, second_api.address]);
    let load = Load::start(&place.addresses, &key, &session);
    load.goes_on(20, "a fleet at rest").await;
    // the owner of the session computes
    let (owner, other) = owner_first(workers).await;
    owner.kill();
    load.goes_on(40, "a worker was killed").await;
    let third = place.worker();
    until("the new worker is heard", async || api.fleet_workers().await == 2).await;
    load.goes_on(40, "a worker joined").await;
    signal(&other, "-STOP");
    load.goes_on(40, "a worker sleeps").await;
    // beyond every lease
    tokio::time::sleep(Duration::from_secs(5)).await;
    signal(&other, "-CONT");
    load.goes_on(40, "the worker woke").await;
    signal(&third, "-TERM");
    until("the worker has stopped", async || third.is_dead()).await;
    load.goes_on(40, "a worker left in order").await;
    place.nats.start_again();
    load.goes_on(40, "the broker lost its memory").await;
    let (answered, failed) = load.end().await;
    println!("{answered} gates answered, {failed} failed");
    assert_eq!(failed, 0, "a fault must cost time only");
    let show = api.send(&Request::get(format!("/api/v1/tfhe/session/{session}")).key(&key)).await.unwrap().ok(200);
    assert_eq!(show["gates_used"], answered);
    place.assert_charged(answered..=answered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_crashes_under_load_loses_no_operation_and_charges_nothing_twice() {
    const GATES: usize = 300;
    let Some(mut place) = Place::with_own_database().await else { return };
    let (_worker, api, other) = (place.worker(), place.api(), place.api());
    for node in [&api, &other] {
        until("the worker is heard", async || node.fleet_workers().await == 1).await;
    }
    let key = place.api_key.clone();
    let session = open_session(&api, &key).await;
    place.addresses.lock().unwrap().extend([api.address, other.address]);
    let load = Load::start(&place.addresses, &key, &session);
    let operation = Operation::begin(&api, &key, &session, GATES).await;
    until("a quarter is done", async || operation.done(&other).await >= GATES as u64 / 4).await;
    place.crash_database();
    load.goes_on(40, "the database crashed").await;
    operation.assert_right(&operation.ended(&other).await);
    place.crash_database();
    load.goes_on(40, "the database crashed again").await;
    let (answered, failed) = load.end().await;
    println!("{answered} gates answered, {failed} failed");
    // the answer of a commit whose connection ended is not known, so a request that failed may be charged
    let told = answered + GATES as u64;
    place.assert_charged(told..=told + failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_request_lost_the_database_is_free_when_the_database_is_back() {
    const GATES: usize = 200;
    let Some(mut place) = Place::new().await else { return };
    let (worker, Linked { node, links }) = (place.worker(), place.linked_api());
    until("the worker is heard", async || node.fleet_workers().await == 1).await;
    let key = place.api_key.clone();
    let session = open_session(&node, &key).await;
    let run = Operation::request(&session, GATES).key(&key).header("Idempotency-Key", "one");
    let (first, ()) = tokio::join!(node.send(&run), async {
        until("the circuit runs", async || gauge(&worker, "ango_fleet_taken").await > 0).await;
        links.set(To::Database, Link::Cut);
    });
    assert_eq!(first.unwrap().status, 503);
    links.set(To::Database, Link::Whole);
    until("the key is free", async || node.send(&run).await.unwrap().status == 200).await;
    place.assert_charged(GATES as u64..=GATES as u64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_circuit_whose_node_lost_the_database_for_a_moment_is_answered_and_charged_once() {
    // estimated to take more than 5 s, so the circuit waits in the line
    const GATES: usize = 600;
    let Some(mut place) = Place::new().await else { return };
    let (worker, Linked { node, links }) = (place.worker(), place.linked_api());
    until("the worker is heard", async || node.fleet_workers().await == 1).await;
    let key = place.api_key.clone();
    let session = open_session(&node, &key).await;
    let run = Operation::request(&session, GATES).key(&key).header("Idempotency-Key", "one");
    let ready = async || Request::get("/readyz").try_send(node.operations).await.expect("the node lives").status == 200;
    let (first, ()) = tokio::join!(node.send(&run), async {
        until("the circuit runs", async || gauge(&worker, "ango_fleet_taken").await > 0).await;
        links.set(To::Database, Link::Cut);
        until("the node misses the database", async || !ready().await).await;
        links.set(To::Database, Link::Whole);
    });
    let first = first.unwrap().ok(200);
    assert_eq!((&first["status"], &first["gates_total"]), (&"completed".into(), &GATES.into()));
    assert_eq!(node.send(&run).await.unwrap().ok(200), first);
    place.assert_charged(GATES as u64..=GATES as u64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_circuit_outlives_the_api_node_at_which_its_client_waits_and_is_charged_once() {
    // estimated to take more than 5 s, so the circuit waits in the line
    const GATES: usize = 600;
    let Some(mut place) = Place::new().await else { return };
    let (worker, accepts, other) = (place.worker(), place.api(), place.api());
    for node in [&accepts, &other] {
        until("the worker is heard", async || node.fleet_workers().await == 1).await;
    }
    let key = place.api_key.clone();
    let session = open_session(&accepts, &key).await;
    let run = Operation::request(&session, GATES).key(&key).header("Idempotency-Key", "one");
    let (first, ()) = tokio::join!(accepts.send(&run), async {
        until("the circuit runs", async || gauge(&worker, "ango_fleet_taken").await > 0).await;
        accepts.kill();
    });
    assert!(first.is_none(), "the client's connection ends with its node");
    let again = other.send(&run).await.unwrap().ok(200);
    let operation = Operation::of_answer(&again, &key, GATES);
    operation.assert_right(&operation.ended(&other).await);
    // the answer is kept, and the same request computes nothing
    let last = other.send(&run).await.unwrap().ok(200);
    assert_eq!(last["op_id"], again["op_id"]);
    place.assert_charged(GATES as u64..=GATES as u64).await;
}
