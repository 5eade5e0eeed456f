//! The cost of recording a gate request: one session sends requests of one gate to a device that computes in no time,
//! on both databases, which wait for the disk at each commit. Each request is charged. If a request has an
//! `Idempotency-Key`, the node also claims that key before the gate runs, and stores the answer together with the
//! charge. For comparison, the bench measures an authenticated request that writes nothing. The requests run over one
//! connection, where each write is a commit, and over 32 connections, whose writes share commits.
//!
//! `THROWAWAY_POSTGRES_DURABLE=1 cargo bench --workspace --bench written`

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use benches::connection::{Connection, message};
use benches::idle::Idle;
use benches::{cpu_time, only_once};
use control::caller::Role;
use engine::Device;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_store::Kind;

const SECONDS: u64 = 5;
const CONNECTIONS: usize = 32;
const JSON: &str = "application/json";

fn main() {
    tests_service::canary::log_as_a_node();
    let durable = std::env::var_os("THROWAWAY_POSTGRES_DURABLE").is_some();
    assert!(durable || only_once(), "set THROWAWAY_POSTGRES_DURABLE=1: PostgreSQL shall wait for the disk too");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("| database | connections | request | requests/s | p50 ms | p99 ms | CPU us a request, client and node |");
    println!("|---|---|---|---|---|---|---|");
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let server = runtime.block_on(TestServer::on_database(kind, vec![Device::new(Idle::new())]));
        let (key, gate) = runtime.block_on(gate(&server));
        let list = message("GET /api/v1/tfhe/sessions", &key, &[], &[]);
        let path = "POST /api/v1/tfhe/gate";
        let charged = message(path, &key, &[("Content-Type", JSON)], gate.as_bytes());
        for connections in [1, CONNECTIONS] {
            row(kind, "reads: list of sessions", server.address, connections, |_| list.clone());
            row(kind, "gate, charged", server.address, connections, |_| charged.clone());
            row(kind, "gate, charged and kept under a key", server.address, connections, |at| {
                let name = format!("bench-{connections}-{at}");
                message(path, &key, &[("Content-Type", JSON), ("Idempotency-Key", &name)], gate.as_bytes())
            });
        }
        runtime.block_on(server.stop());
    }
}

/// A key, and a gate request in one of its sessions.
async fn gate(server: &TestServer) -> (String, String) {
    let key = server.key(Role::AccountAdmin).await; // only this role may list sessions
    let open = Request::post("/api/v1/tfhe/session", &json!({"preset": "fast_128"})).key(&key);
    let session = server.send(open).await.ok(201)["session_id"].as_str().expect("a string").to_owned();
    let mut bits = Vec::new();
    for bit in [true, false] {
        let path = format!("/api/v1/tfhe/session/{session}/encrypt");
        bits.push(
            server.send(Request::post(path, &json!({"bit": bit})).key(&key)).await.ok(200)["ciphertext_b64"].take(),
        );
    }
    (key, json!({"session_id": session, "op": "NAND", "a": bits[0], "b": bits[1]}).to_string())
}

/// Sends requests over each connection for a fixed time and prints the results. `request` gets the number of each
/// request.
fn row(
    kind: Kind,
    name: &str,
    address: SocketAddr,
    connections: usize,
    request: impl Fn(usize) -> Vec<u8> + Send + Sync,
) {
    let next = AtomicUsize::new(0);
    let (cpu, started) = (cpu_time(), Instant::now());
    let client = || {
        let mut connection = Connection::open(address);
        let mut times: Vec<Duration> = Vec::new();
        while times.is_empty() || (!only_once() && started.elapsed() < Duration::from_secs(SECONDS)) {
            times.push(connection.exchange(&request(next.fetch_add(1, Ordering::Relaxed))).0);
        }
        times
    };
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..connections).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    let (wall, cpu, requests) = (started.elapsed(), cpu_time() - cpu, times.len());
    times.sort_unstable();
    let ms = |percent: usize| times[(requests - 1) * percent / 100].as_secs_f64() * 1e3;
    println!(
        "| {kind:?} | {connections} | {name} | {:.0} | {:.2} | {:.2} | {:.0} |",
        requests as f64 / wall.as_secs_f64(),
        ms(50),
        ms(99),
        cpu.as_secs_f64() * 1e6 / requests as f64
    );
}
