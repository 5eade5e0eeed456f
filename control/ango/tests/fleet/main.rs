//! A fleet of processes whose members are killed, stopped and drained under load. Always: every answer is right, nothing is
//! charged twice, and a request that fails is charged nothing (readings P24).
#![cfg(all(unix, feature = "nats"))]

mod faults;
mod load;
mod place;

use std::time::Duration;

use client::Preset;
use serde_json::json;
use tests_service::gates::{CHAIN_BITS, CIRCUITS, OPERATIONS, base64, bytes, chain_netlist, chain_result};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::node::until;

use load::Load;
use place::{Place, open_session, owner_first, signal};

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_goes_on_where_its_dead_worker_stopped_and_is_charged_once() {
    const GATES: usize = 400;
    let Some(mut place) = Place::new().await else { return };
    place.member.checkpoint_period = Duration::ZERO;
    let (worker, accepts, other) = (place.worker(), place.api(), place.api());
    let key = place.api_key.clone();
    until("the worker is heard", async || accepts.fleet_workers().await == 1 && other.fleet_workers().await == 1).await;
    let session = open_session(&accepts, &key).await;
    let secret = keys::of(Preset::Fast128);
    let bits: Vec<bool> = (0..CHAIN_BITS).map(|at| at % 3 != 1).collect();
    let input: Vec<String> = bits.iter().map(|&bit| base64(&secret.encrypt(bit))).collect();
    let body = json!({"session_id": session, "circuit": chain_netlist(GATES), "inputs": [input]});
    let begin = Request::post(CIRCUITS, &body).header("Prefer", "respond-async").key(&key);
    let op_id = accepts.send(&begin).await.unwrap().ok(200)["op_id"].as_str().unwrap().to_owned();
    let poll = Request::get(format!("{OPERATIONS}/{op_id}")).key(&key);
    let told = async || {
        let told = other.send(&poll).await.unwrap().ok(200);
        (told["gates_done"].as_u64().unwrap(), told)
    };
    until("a quarter is done", async || told().await.0 >= GATES as u64 / 4).await;
    worker.kill();
    accepts.kill();
    let done = told().await.0;
    println!("{done} of {GATES} gates were told as done when the worker and the API node were killed");
    let _next = place.worker();
    let ended = loop {
        let (now, told) = told().await;
        // a worker that began again would tell less. The last checkpoints are lost if their API node was just replaced.
        assert!(now >= GATES as u64 / 8, "{now} gates after {done}");
        if told["status"] == "completed" {
            break told;
        }
        assert!(told["status"] == "running" || told["status"] == "pending", "{told}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(secret.decrypt(&bytes(&ended["outputs"][0][0])), chain_result(GATES, &bits));
    let show = other.send(&Request::get(format!("/api/v1/tfhe/session/{session}")).key(&key)).await.unwrap().ok(200);
    assert_eq!((&show["gates_used"], &ended["gates_total"]), (&json!(GATES), &json!(GATES)));
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
}
