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
use tests_service::node::{Node, until};

use crate::load::Load;
use crate::place::{Place, open_session, signal, signal_process};

/// Number of faults in a schedule.
const FAULTS: usize = 20;
/// Number of gates that are answered after each fault, before the next one.
const GATES_BETWEEN: u64 = 6;
/// Gates of an operation.
const OPERATION_GATES: usize = 30;
/// A process is stopped for this long, beyond every lease of a request.
const SLEEP: Duration = Duration::from_secs(3);

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
}

const ALL: [Fault; 10] = [
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
];

/// Returns a schedule: each kind of fault as often as the others, in an order that the seed chooses.
fn schedule(seed: u64) -> Vec<Fault> {
    let mut faults: Vec<Fault> = ALL.into_iter().cycle().take(FAULTS).collect();
    // a linear congruential generator, so that a seed means the same schedule everywhere
    let mut state = seed;
    for at in (1..faults.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        faults.swap(at, (state >> 33) as usize % (at + 1));
    }
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
    workers: Vec<Node>,
    api: Vec<Node>,
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
                self.workers[one].kill();
                self.workers[one] = place.worker();
            }
            Fault::WorkerSleeps => sleep(self.workers[one].process_id()).await,
            Fault::WorkerLeaves => {
                signal(&self.workers[one], "-TERM");
                let left = std::mem::replace(&mut self.workers[one], place.worker());
                until("the worker has left", async || left.is_dead()).await;
            }
            Fault::ApiKilled => {
                self.api[one].kill();
                self.replace_api(place, one).await;
            }
            Fault::ApiSleeps => sleep(self.api[one].process_id()).await,
            Fault::ApiLeaves => {
                signal(&self.api[one], "-TERM");
                until("the API node has left", async || self.api[one].is_dead()).await;
                self.replace_api(place, one).await;
            }
            Fault::BrokerRestarted => place.nats.start_again(),
            Fault::BrokerSleeps => sleep(place.nats.server()).await,
            Fault::BrokerForgetsAll => place.nats.start_anew(),
            Fault::StoreSleeps => sleep(place.bucket.server()).await,
        }
        let api = &self.api;
        until("all workers are heard", async || {
            for node in api {
                if node.fleet_workers().await < 2 {
                    return false;
                }
            }
            true
        })
        .await;
    }

    async fn replace_api(&mut self, place: &mut Place, at: usize) {
        self.api[at] = place.api();
        place.addresses.lock().unwrap()[at] = self.api[at].address;
    }
}

async fn live_through(seed: u64) {
    let Some(mut place) = Place::new().await else { return };
    place.member.checkpoint_period = Duration::from_secs(1);
    let (workers, api) = (vec![place.worker(), place.worker()], vec![place.api(), place.api()]);
    place.addresses.lock().unwrap().extend(api.iter().map(|node| node.address));
    let mut members = Members { workers, api };
    until("the workers are heard", async || members.api[0].fleet_workers().await == 2).await;
    until("the workers are heard", async || members.api[1].fleet_workers().await == 2).await;
    let session = open_session(&members.api[0], &place.api_key).await;
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
    let show = members.api[1].send(&Request::get(&path).key(&place.api_key)).await.unwrap().ok(200);
    let used = show["gates_used"].as_u64().unwrap();
    // an answer may be lost with its API node after the charge was written
    let told = answered + completed * OPERATION_GATES as u64;
    assert!(
        (told..=told + failed).contains(&used),
        "{used} gates are charged, {told} were answered, {failed} requests failed"
    );
    // no key outlives its session
    let deleted = members.api[0].send(&Request::delete(&path).key(&place.api_key)).await.unwrap();
    assert_eq!(deleted.status, 204);
    for worker in &members.workers {
        let sessions = async || {
            let page = Request::get("/metrics").try_send(worker.operations).await.expect("the worker lives");
            page.text().lines().any(|line| line == "ango_sessions 0")
        };
        until("the key is closed", sessions).await;
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
