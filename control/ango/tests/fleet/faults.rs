//! A schedule of faults over constant load: gates that clients wait for, and operations in the background. `SEEDS=N` runs so
//! many schedules, `SEED=N` that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::Preset;
use serde_json::json;
use tests_service::gates::{CHAIN_BITS, CIRCUITS, OPERATIONS, base64, bytes, chain_netlist, chain_result};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::node::until;

use crate::load::Load;
use crate::place::{Linked, Links, Place, To, gauge, open_session, signal, signal_process};
use crate::relay::Link;

/// Number of faults in a schedule.
const FAULTS: usize = 20;
/// Number of gates that are answered after each fault, before the next one.
const GATES_BETWEEN: u64 = 6;
/// Gates of an operation.
const OPERATION_GATES: usize = 30;
/// A process is stopped for this long, beyond every lease of a request.
const SLEEP: Duration = Duration::from_secs(3);

/// A link is changed for this long.
const LINK_CHANGED: Duration = Duration::from_secs(2);
/// The same for the link of a worker to the broker: beyond the time after which the worker overwrites its keys.
const UNHEARD: Duration = Duration::from_secs(5);

/// Something that happens to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    WorkerKilled,
    WorkerSleeps,
    WorkerLeaves,
    ApiKilled,
    ApiSleeps,
    ApiLeaves,
    BrokerRestarted,
    BrokerSleeps,
    BrokerForgetsAll,
    StoreSleeps,
    /// The link of one worker.
    WorkerLink(To, Link),
    /// The link of one API node.
    ApiLink(To, Link),
    /// All connections to the database end, and for a while there are no new ones.
    DatabaseLost,
}

const ALL: [Fault; 25] = [
    Fault::WorkerKilled,
    Fault::ApiKilled,
    Fault::BrokerRestarted,
    Fault::WorkerSleeps,
    Fault::StoreSleeps,
    Fault::WorkerLeaves,
    Fault::BrokerForgetsAll,
    Fault::ApiSleeps,
    Fault::BrokerSleeps,
    Fault::ApiLeaves,
    Fault::DatabaseLost,
    Fault::WorkerLink(To::Broker, Link::Cut),
    Fault::WorkerLink(To::Broker, Link::Stalled),
    Fault::WorkerLink(To::Broker, Link::Slow),
    Fault::WorkerLink(To::Store, Link::Cut),
    Fault::WorkerLink(To::Store, Link::Failing),
    Fault::ApiLink(To::Broker, Link::Cut),
    Fault::ApiLink(To::Broker, Link::Stalled),
    Fault::ApiLink(To::Broker, Link::Slow),
    Fault::ApiLink(To::Store, Link::Cut),
    Fault::ApiLink(To::Store, Link::Failing),
    Fault::ApiLink(To::Database, Link::Cut),
    Fault::ApiLink(To::Database, Link::Stalled),
    Fault::ApiLink(To::Internal, Link::Cut),
    Fault::ApiLink(To::Internal, Link::Failing),
];

/// Returns a schedule: faults that the seed chooses, in an order that the seed chooses.
fn schedule(seed: u64) -> Vec<Fault> {
    let mut faults = ALL.to_vec();
    // a linear congruential generator, so that a seed means the same schedule everywhere
    let mut state = seed;
    for at in (1..faults.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        faults.swap(at, (state >> 33) as usize % (at + 1));
    }
    faults.truncate(FAULTS);
    faults
}

/// A client that begins operations in the background, one after another, and polls each until its end.
struct Operations {
    stop: Arc<AtomicBool>,
    completed: Arc<AtomicU64>,
    client: tokio::task::JoinHandle<()>,
}

impl Operations {
    fn start(place: &Place, session: &str) -> Operations {
        let (stop, completed): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let (stops, counts) = (stop.clone(), completed.clone());
        let (addresses, key, session) = (place.addresses.clone(), place.api_key.clone(), session.to_owned());
        let client = tokio::spawn(async move {
            let secret = keys::of(Preset::Fast128);
            let bits: Vec<bool> = (0..CHAIN_BITS).map(|at| at % 3 != 1).collect();
            for number in 0.. {
                if stops.load(Ordering::Relaxed) {
                    return;
                }
                let send = async |request: Request| {
                    for turn in number.. {
                        let address = addresses.lock().unwrap()[turn % 2];
                        match request.try_send(address).await {
                            Some(answer) if answer.status == 200 => return answer.ok(200),
                            // a retry with the same key has the first answer, or waits for it
                            _ => tokio::time::sleep(Duration::from_millis(100)).await,
                        }
                    }
                    unreachable!()
                };
                let input: Vec<String> = bits.iter().map(|&bit| base64(&secret.encrypt(bit))).collect();
                let body = json!({"session_id": session, "circuit": chain_netlist(OPERATION_GATES), "inputs": [input]});
                let begin = Request::post(CIRCUITS, &body).header("Prefer", "respond-async").key(&key);
                let begin = begin.header("Idempotency-Key", &format!("operation-{number}"));
                let op_id = send(begin).await["op_id"].as_str().unwrap().to_owned();
                let ended = loop {
                    let told = send(Request::get(format!("{OPERATIONS}/{op_id}")).key(&key)).await;
                    if !matches!(told["status"].as_str(), Some("pending" | "running")) {
                        break told;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                };
                assert_eq!(ended["status"], "completed", "{ended}");
                let result = secret.decrypt(&bytes(&ended["outputs"][0][0]));
                assert_eq!(result, chain_result(OPERATION_GATES, &bits), "a wrong result");
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        Operations { stop, completed, client }
    }

    /// Ends the load. Returns the number of operations that were completed.
    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.client.await.expect("every operation is completed with the right result");
        self.completed.load(Ordering::Relaxed)
    }
}

/// The members of the fleet. A member that dies is replaced.
struct Members {
    workers: Vec<Linked>,
    api: Vec<Linked>,
}

impl Members {
    async fn suffer(&mut self, place: &mut Place, fault: Fault, at: usize) {
        let one = at % 2;
        let sleep = async |process: u32| {
            signal_process(process, "-STOP");
            tokio::time::sleep(SLEEP).await;
            signal_process(process, "-CONT");
        };
        match fault {
            Fault::WorkerKilled => {
                self.workers[one].node.kill();
                self.workers[one] = place.linked_worker();
            }
            Fault::WorkerSleeps => sleep(self.workers[one].node.process_id()).await,
            Fault::WorkerLeaves => {
                signal(&self.workers[one].node, "-TERM");
                let left = std::mem::replace(&mut self.workers[one], place.linked_worker());
                until("the worker has left", async || left.node.is_dead()).await;
            }
            Fault::ApiKilled => {
                self.api[one].node.kill();
                self.replace_api(place, one).await;
            }
            Fault::ApiSleeps => sleep(self.api[one].node.process_id()).await,
            Fault::ApiLeaves => {
                signal(&self.api[one].node, "-TERM");
                until("the API node has left", async || self.api[one].node.is_dead()).await;
                self.replace_api(place, one).await;
            }
            Fault::BrokerRestarted => place.nats.start_again(),
            Fault::BrokerSleeps => sleep(place.nats.server()).await,
            Fault::BrokerForgetsAll => place.nats.start_anew(),
            Fault::StoreSleeps => sleep(place.bucket.server()).await,
            Fault::WorkerLink(To::Broker, link) => change(&self.workers[one].links, To::Broker, link, UNHEARD).await,
            Fault::WorkerLink(to, link) => change(&self.workers[one].links, to, link, LINK_CHANGED).await,
            Fault::ApiLink(to, link) => change(&self.api[one].links, to, link, LINK_CHANGED).await,
            Fault::DatabaseLost => {
                self.api.iter().for_each(|api| api.links.set(To::Database, Link::Cut));
                place.end_database_connections();
                tokio::time::sleep(LINK_CHANGED).await;
                self.api.iter().for_each(|api| api.links.set(To::Database, Link::Whole));
            }
        }
        let api = &self.api;
        until("all workers are heard", async || {
            for Linked { node, .. } in api {
                if node.fleet_workers().await < 2 {
                    return false;
                }
            }
            true
        })
        .await;
    }

    async fn replace_api(&mut self, place: &mut Place, at: usize) {
        self.api[at] = place.linked_api();
        place.addresses.lock().unwrap()[at] = self.api[at].node.address;
    }
}

/// Changes a link for a while.
async fn change(links: &Links, to: To, link: Link, time: Duration) {
    links.set(to, link);
    tokio::time::sleep(time).await;
    links.set(to, Link::Whole);
}

async fn live_through(seed: u64) {
    let Some(mut place) = Place::new().await else { return };
    place.member.checkpoint_period = Duration::from_secs(1);
    let (workers, api) =
        (vec![place.linked_worker(), place.linked_worker()], vec![place.linked_api(), place.linked_api()]);
    place.addresses.lock().unwrap().extend(api.iter().map(|api| api.node.address));
    let mut members = Members { workers, api };
    until("the workers are heard", async || members.api[0].node.fleet_workers().await == 2).await;
    until("the workers are heard", async || members.api[1].node.fleet_workers().await == 2).await;
    let session = open_session(&members.api[0].node, &place.api_key).await;
    let load = Load::start(&place.addresses, &place.api_key, &session);
    let operations = Operations::start(&place, &session);
    load.goes_on(GATES_BETWEEN, "a fleet at rest").await;
    for (at, fault) in schedule(seed).into_iter().enumerate() {
        members.suffer(&mut place, fault, at).await;
        load.goes_on(GATES_BETWEEN, &format!("seed {seed}, fault {at}, {fault:?}")).await;
    }
    let (answered, failed) = load.end().await;
    let completed = operations.end().await;
    println!("seed {seed}: {answered} gates answered, {failed} requests failed, {completed} operations completed");
    let path = format!("/api/v1/tfhe/session/{session}");
    let show = members.api[1].node.send(&Request::get(&path).key(&place.api_key)).await.unwrap().ok(200);
    // an answer may be lost with its API node after the charge was written
    let told = answered + completed * OPERATION_GATES as u64;
    let charged = told..=told + failed;
    let used = show["gates_used"].as_u64().unwrap();
    assert!(charged.contains(&used), "{used} gates are charged, {told} were answered, {failed} requests failed");
    place.assert_charged(charged).await;
    // no key outlives its session
    let deleted = members.api[0].node.send(&Request::delete(&path).key(&place.api_key)).await.unwrap();
    assert_eq!(deleted.status, 204);
    for Linked { node: worker, .. } in &members.workers {
        until("the key is closed", async || gauge(worker, "ango_sessions").await == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_lives_through_a_schedule_of_faults() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 1..1 + seeds.unwrap_or(1),
    };
    for seed in seeds {
        live_through(seed).await;
    }
}
