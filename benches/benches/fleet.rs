//! The time that a fleet adds to a gate, and the rate of two and four workers against one. A node computes in its process. A fleet
//! has an API node, workers, a broker and a bucket, all on this machine. The devices of the first two tables compute nothing, so these
//! tables show the cost of the way.
//!
//! The first table: one client sends lone gates to both, in turns. The second: each device takes the same time for a batch, and
//! clients of many sessions send batches to one, two and four workers. The third and the fourth compute: gates a second of one process
//! with two threads against two workers with a thread each, and the first gate of a session on a worker without its key.
//!
//! Needs PostgreSQL, `nats-server` and SeaweedFS. `cargo bench --workspace --bench fleet`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use benches::connection::{Connection, message};
use benches::idle::Idle;
use benches::only_once;
use client::Preset;
use control::caller::Role;
use engine::Device;
use kernels::cpu::{Cpu, Isa};
use serde_json::json;
use tests_service::TestServer;
use tests_service::fleet::Fleet;
use tests_service::gates::{base64, open_session};
use tests_service::keys;

const GATES: usize = 2000;
/// Time of a batch on a device with a fixed pace, and its largest number of gates. The batches are small, because the table
/// shows how the fleet shares the devices, not how fast one machine reads and writes JSON.
const PACE: Duration = Duration::from_millis(20);
const PACED_BATCH: usize = 8;
/// Number of sessions. Each has one batch at a time under way.
const SESSIONS: usize = 32;
/// Batches are counted for this long while all clients send, so that the end of the work, when few clients are left, does not count.
const COUNTED: Duration = Duration::from_secs(6);
/// Clients send for this long before the count begins.
const BEFORE: Duration = Duration::from_secs(1);

fn main() {
    tests_service::canary::log_as_a_node();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        lone_gates().await;
        scaling().await;
        processors().await;
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
    let paced = || Some(vec![Device::new(Idle::paced(PACE, PACED_BATCH))]);
    let mut first = None;
    println!();
    println!("| workers | batches a second | against one |");
    println!("|---|---|---|");
    for workers in [1, 2, 4] {
        let Some(fleet) = Fleet::start_on(1, workers, paced, |_| ()).await else { return };
        fleet.has_ready_workers(workers).await;
        let mut gates = Vec::new();
        for _ in 0..SESSIONS {
            gates.push(Gate::new(&fleet.api[0], PACED_BATCH).await);
        }
        let measured = tokio::task::block_in_place(|| rate(&gates));
        let one = *first.get_or_insert(measured);
        println!("| {workers} | {measured:.0} | {:.2} |", measured / one);
    }
}

/// Gates of a batch and sessions of the measurement that computes, and how often both sides are measured in turns.
const BATCH: usize = 64;
const CPU_SESSIONS: usize = 4;
const CPU_ROUNDS: usize = 5;
/// Sessions whose first gate is measured.
const FIRST_GATES: usize = 11;

fn processor(threads: usize) -> Vec<Device> {
    let isa = Isa::available()[0];
    vec![Device::new(Cpu::with(isa, threads))]
}

async fn processors() {
    let node = TestServer::on_database(tests_store::Kind::Postgres, processor(2)).await;
    let Some(fleet) = Fleet::start_on(1, 2, || Some(processor(1)), |_| ()).await else { return };
    fleet.has_ready_workers(2).await;
    let mut sides = [Vec::new(), Vec::new()];
    for _ in 0..CPU_SESSIONS {
        sides[0].push(Gate::new(&node, BATCH).await);
        sides[1].push(Gate::new(&fleet.api[0], BATCH).await);
    }
    let rounds = if only_once() { 1 } else { CPU_ROUNDS };
    let rates = tokio::task::block_in_place(|| {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (side, rates) in sides.iter().zip(&mut rates) {
                rates.push(rate(side) * BATCH as f64);
            }
        }
        rates
    });
    let [one, two] = rates.map(median);
    println!();
    println!("| processor, two threads in all | gates a second | against one process |");
    println!("|---|---|---|");
    println!("| one process | {one:.0} | 1.00 |");
    println!("| an API node and two workers | {two:.0} | {:.2} |", two / one);
    node.stop().await;
}

async fn first_gates() {
    let Some(fleet) = Fleet::start_on(1, 1, || Some(processor(2)), |_| ()).await else { return };
    fleet.has_ready_workers(1).await;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..if only_once() { 1 } else { FIRST_GATES } {
        let gate = Gate::new(&fleet.api[0], 1).await;
        let [one, next] = tokio::task::block_in_place(|| {
            let mut connection = Connection::open(gate.address);
            [(); 2].map(|()| connection.exchange(&gate.request).0.as_secs_f64() * 1e3)
        });
        first.push(one);
        second.push(next);
    }
    let worst = first.iter().copied().fold(0.0, f64::max);
    println!();
    println!("| `fast_128` on two threads | median ms | worst ms |");
    println!("|---|---|---|");
    println!("| first gate on a worker without the key | {:.0} | {worst:.0} |", median(first));
    println!("| next gate | {:.0} | |", median(second));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sends batches of all sessions at the same time. Returns the number of batches a second.
fn rate(gates: &[Gate]) -> f64 {
    let (answered, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for gate in gates {
            let (answered, stop) = (&answered, &stop);
            scope.spawn(move || {
                let mut connection = Connection::open(gate.address);
                while !stop.load(Ordering::Relaxed) {
                    connection.exchange(&gate.request);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // the first batches open the keys
        while answered.load(Ordering::Relaxed) < gates.len() as u64 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (before, counted) = if only_once() { Default::default() } else { (BEFORE, COUNTED) };
        std::thread::sleep(before);
        let (started, first) = (Instant::now(), answered.load(Ordering::Relaxed));
        std::thread::sleep(counted);
        let (took, last) = (started.elapsed(), answered.load(Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        (last - first) as f64 / took.as_secs_f64()
    })
}
