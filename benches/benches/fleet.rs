//! The time that a fleet adds to a gate, and the rate of two and four workers against one. A node computes in its process. A fleet
//! has an API node, workers, a broker and a bucket, all on this machine. The devices of the first two tables compute nothing, so these
//! tables show the cost of the way.
//!
//! The first table: one client sends lone gates to both, in turns. The second: each device takes the same time for a batch, and
//! clients of many sessions send batches to one, two and four workers. The third: the first gate of a session, whose key the worker must
//! read from the bucket and open, and the second gate, on the processor.
//!
//! Needs PostgreSQL, `nats-server` and SeaweedFS. `cargo bench --workspace --bench fleet`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use benches::connection::{Connection, message};
use benches::idle::Idle;
use benches::only_once;
use client::Preset;
use control::caller::Role;
use engine::Device;
use serde_json::json;
use tests_service::TestServer;
use tests_service::fleet::Fleet;
use tests_service::gates::{base64, open_session};
use tests_service::keys;

const GATES: usize = 2000;
/// Time of a batch on a device with a fixed pace, and its largest number of gates.
const PACE: Duration = Duration::from_millis(20);
const BATCH: usize = 64;
/// Number of sessions whose first gates are measured.
const FIRST_GATES: usize = 20;
/// Number of sessions, and of batches of each session.
const SESSIONS: usize = 32;
const BATCHES: usize = 25;

fn main() {
    tests_service::canary::log_as_a_node();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        lone_gates().await;
        scaling().await;
        first_gates().await;
    });
}

/// A session on a node, and the request of a gate in it.
struct Gate {
    address: SocketAddr,
    request: Vec<u8>,
}

impl Gate {
    /// Opens a session. `gates`: a batch of so many; a lone gate if there is one.
    async fn new(server: &TestServer, gates: usize) -> Gate {
        let key = server.key(Role::AccountAdmin).await;
        let session = open_session(server, &key, Preset::Fast128).await;
        let secret = keys::of(Preset::Fast128);
        let [a, b] = [true, false].map(|bit| base64(&secret.encrypt(bit)));
        let gate = json!({"op": "NAND", "a": a, "b": b});
        let (line, body) = match gates {
            1 => ("POST /api/v1/tfhe/gate", json!({"session_id": session, "op": "NAND", "a": a, "b": b})),
            _ => ("POST /api/v1/tfhe/batch", json!({"session_id": session, "gates": vec![gate; gates]})),
        };
        let headers = [("Accept", "application/json"), ("Content-Type", "application/json")];
        Gate { address: server.address, request: message(line, &key, &headers, body.to_string().as_bytes()) }
    }
}

async fn lone_gates() {
    let node = TestServer::on_database(tests_store::Kind::Postgres, vec![Device::new(Idle::new())]).await;
    let Some(fleet) = Fleet::start_on(1, 1, || Some(vec![Device::new(Idle::new())]), |_| ()).await else { return };
    fleet.has_ready_workers(1).await;
    let gates = [Gate::new(&node, 1).await, Gate::new(&fleet.api[0], 1).await];
    let measured = tokio::task::spawn_blocking(move || {
        let mut connections = gates.each_ref().map(|gate| Connection::open(gate.address));
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..if only_once() { 1 } else { GATES } {
            for at in 0..2 {
                let (took, _) = connections[at].exchange(&gates[at].request);
                // the first gates open the keys
                if round >= GATES / 10 {
                    times[at].push(took);
                }
            }
        }
        times
    });
    let [alone, fleet_s] = measured.await.expect("the gates are answered");
    if only_once() {
        return;
    }
    println!("| a lone gate | p50 ms | p99 ms |");
    println!("|---|---|---|");
    let [of_node, of_fleet] = [("one process", alone), ("a fleet", fleet_s)].map(|(name, mut times)| {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!("| {name} | {:.2} | {:.2} |", at(0.5), at(0.99));
        [at(0.5), at(0.99)]
    });
    println!("| added | {:.2} | {:.2} |", of_fleet[0] - of_node[0], of_fleet[1] - of_node[1]);
    node.stop().await;
}

async fn scaling() {
    let paced = || Some(vec![Device::new(Idle::paced(PACE, BATCH))]);
    let mut first = None;
    println!();
    println!("| workers | batches a second | against one |");
    println!("|---|---|---|");
    for workers in [1, 2, 4] {
        let Some(fleet) = Fleet::start_on(1, workers, paced, |_| ()).await else { return };
        fleet.has_ready_workers(workers).await;
        let mut gates = Vec::new();
        for _ in 0..SESSIONS {
            gates.push(Gate::new(&fleet.api[0], BATCH).await);
        }
        let batches = if only_once() { 1 } else { BATCHES };
        let run = |batches: usize, gates: &[Gate]| {
            let started = Instant::now();
            std::thread::scope(|scope| {
                for gate in gates {
                    scope.spawn(move || {
                        let mut connection = Connection::open(gate.address);
                        for _ in 0..batches {
                            connection.exchange(&gate.request);
                        }
                    });
                }
            });
            (batches * gates.len()) as f64 / started.elapsed().as_secs_f64()
        };
        // the first round opens the keys
        let rate = tokio::task::block_in_place(|| {
            run(1, &gates);
            run(batches, &gates)
        });
        let one = *first.get_or_insert(rate);
        println!("| {workers} | {rate:.0} | {:.2} |", rate / one);
    }
}

/// Measures the first gate on a worker that does not have the key, and the gate after it.
async fn first_gates() {
    let Some(fleet) = Fleet::start(1, 1, |_| ()).await else { return };
    fleet.has_ready_workers(1).await;
    let mut times = [Vec::new(), Vec::new()];
    // the first session finds parts of the worker that have not begun, so it does not count
    for session in 0..if only_once() { 1 } else { FIRST_GATES + 1 } {
        let gate = Gate::new(&fleet.api[0], 1).await;
        tokio::task::block_in_place(|| {
            let mut connection = Connection::open(gate.address);
            for times in &mut times {
                let (took, _) = connection.exchange(&gate.request);
                if session > 0 {
                    times.push(took);
                }
            }
        });
    }
    if only_once() {
        return;
    }
    println!();
    println!("| a gate of a session, fast_128 | median ms | worst ms |");
    println!("|---|---|---|");
    for (name, mut times) in ["the first: the worker opens the key", "the second"].into_iter().zip(times) {
        times.sort();
        let ms = |at: usize| times[at].as_secs_f64() * 1e3;
        println!("| {name} | {:.0} | {:.0} |", ms(times.len() / 2), ms(times.len() - 1));
    }
}
