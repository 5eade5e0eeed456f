//! Faults of the broker itself: a full disk, and the death of one server of three.

use control::config::NodeRole;
use tests_service::fleet::Nats;
use tests_service::node::until;

use crate::load::Load;
use crate::operation::Operation;
use crate::place::{Place, open_session};

/// Gates of an operation.
const GATES: usize = 30;
/// Gates of an operation whose inputs pass the broker. They fit no part of a disk that is left over.
const SMALL: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_whose_disk_is_full_delays_operations_and_loses_none() {
    let Some(nats) = Nats::with_small_disk() else { return };
    let Some(mut place) = Place::on(nats).await else { return };
    let (_worker, api) = (place.worker(), place.api());
    place.addresses.lock().unwrap().push(api.address);
    until("the worker is heard", async || api.fleet_workers().await == 1).await;
    let key = place.api_key.clone();
    let session = open_session(&api, &key).await;
    let first = Operation::begin_small(&api, &key, &session, SMALL).await;
    first.assert_right(&first.ended(&api).await);
    place.nats.fill_disk();
    let mut operations = Vec::new();
    for _ in 0..3 {
        operations.push(Operation::begin_small(&api, &key, &session, SMALL).await);
    }
    // requests whose client waits pass the broker's memory
    let load = Load::start(&place.addresses, &key, &session);
    load.goes_on(20, "the broker's disk is full").await;
    for operation in &operations {
        let status = operation.told(&api).await["status"].clone();
        assert!(status == "pending" || status == "running", "{status}");
    }
    // the operator gives the broker room, and starts the broker again
    place.nats.start_again();
    for operation in &operations {
        operation.assert_right(&operation.ended(&api).await);
    }
    load.goes_on(20, "the broker has room again").await;
    let (answered, failed) = load.end().await;
    assert_eq!(failed, 0, "a fault must cost time only");
    let gates = answered + ((1 + operations.len()) * SMALL) as u64;
    place.assert_charged(gates..=gates).await;
}

/// Kills each of three servers, and starts it again before the next one.
async fn servers_of_the_broker_die_one_after_another(replicas: usize) {
    let Some(mut others) = Nats::start_three() else { return };
    let urls: Vec<String> = others.iter().map(Nats::url).collect();
    let Some(mut place) = Place::on(others.remove(0)).await else { return };
    place.member.broker = urls.join(",");
    let mut start = |role| {
        place.start(role, |command| {
            command.env("ANGO_NATS_REPLICAS", replicas.to_string());
        })
    };
    let workers = [start(NodeRole::Worker), start(NodeRole::Worker)];
    let api = [start(NodeRole::Api), start(NodeRole::Api)];
    place.addresses.lock().unwrap().extend(api.each_ref().map(|node| node.address));
    for node in &api {
        until("the workers are heard", async || node.fleet_workers().await == 2).await;
    }
    let key = place.api_key.clone();
    let session = open_session(&api[0], &key).await;
    let load = Load::start(&place.addresses, &key, &session);
    load.goes_on(20, "three servers are at rest").await;
    let mut operations = Vec::new();
    for at in 0..3 {
        operations.push(Operation::begin(&api[at % 2], &key, &session, GATES).await);
        let server = if at == 0 { &mut place.nats } else { &mut others[at - 1] };
        server.kill();
        load.goes_on(20, &format!("{replicas} replicas, server {at} was killed")).await;
        operations.push(Operation::begin(&api[at % 2], &key, &session, GATES).await);
        server.start_again();
        load.goes_on(20, "the server is there again").await;
        for operation in operations.iter().skip(2 * at) {
            operation.assert_right(&operation.ended(&api[0]).await);
        }
    }
    let (answered, failed) = load.end().await;
    println!("{replicas} replicas: {answered} gates answered, {failed} requests failed");
    assert_eq!(failed, 0, "a fault must cost time only");
    assert!(workers.iter().all(|worker| !worker.is_dead()));
    let gates = answered + (operations.len() * GATES) as u64;
    place.assert_charged(gates..=gates).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_three_dies_and_queues_on_all_three_lose_no_answer() {
    servers_of_the_broker_die_one_after_another(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_three_dies_and_queues_on_one_server_are_made_anew() {
    servers_of_the_broker_die_one_after_another(1).await;
}
