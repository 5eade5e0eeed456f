//! An upgrade under load, in the order of docs/fleet.md. `OLD_ANGO` names the program of the version before. Without it, the same
//! program is both versions.

use std::path::PathBuf;

use tests_service::node::until;

use crate::load::Load;
use crate::operation::Operation;
use crate::place::{Place, open_session, signal};

/// Gates that are answered between two steps.
const GATES_BETWEEN: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_upgraded_member_by_member_under_load_and_no_request_fails() {
    const GATES: usize = 400;
    let new = PathBuf::from(env!("CARGO_BIN_EXE_ango"));
    let old = std::env::var_os("OLD_ANGO").map_or(new.clone(), PathBuf::from);
    let Some(mut place) = Place::of_program(old).await else { return };
    let mut workers = [place.worker(), place.worker()];
    let mut api = [place.api(), place.api()];
    for node in &api {
        until("the workers are heard", async || node.fleet_workers().await == 2).await;
    }
    let key = place.api_key.clone();
    let session = open_session(&api[0], &key).await;
    place.addresses.lock().unwrap().extend(api.iter().map(|node| node.address));
    let load = Load::start(&place.addresses, &key, &session);
    let operation = Operation::begin(&api[0], &key, &session, GATES).await;
    load.goes_on(GATES_BETWEEN, "the old version").await;
    place.program = new;
    place.run(&["migrate"]);
    load.goes_on(GATES_BETWEEN, "the schema is new").await;
    for at in 0..2 {
        let next = place.worker();
        for node in &api {
            until("the new worker is heard", async || node.fleet_workers().await == 3).await;
        }
        let left = std::mem::replace(&mut workers[at], next);
        signal(&left, "-TERM");
        until("the old worker has left", async || left.is_dead()).await;
        load.goes_on(GATES_BETWEEN, "a worker is new").await;
    }
    for at in 0..2 {
        let next = place.api();
        until("the node hears the workers", async || next.fleet_workers().await == 2).await;
        place.addresses.lock().unwrap()[at] = next.address;
        // by then every client has sent its request to the old node
        load.goes_on(GATES_BETWEEN, "the balancer knows the new API node").await;
        let left = std::mem::replace(&mut api[at], next);
        signal(&left, "-TERM");
        until("the old API node has left", async || left.is_dead()).await;
        load.goes_on(GATES_BETWEEN, "an API node is new").await;
    }
    operation.assert_right(&operation.ended(&api[0]).await);
    let (answered, failed) = load.end().await;
    println!("{answered} gates answered, {failed} failed");
    assert_eq!(failed, 0);
    let charged = answered + GATES as u64;
    place.assert_charged(charged..=charged).await;
}
