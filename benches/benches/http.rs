//! The cost of HTTP: authenticated `GET /api/v1/tfhe/sessions` over 32 connections on loopback, with node and clients
//! in one process, on both databases. For comparison, the public `GET /api/v1/models`, which needs no key: the
//! difference is the cost of authentication, limits and the database. Also `POST /v1/invoices`: an invoice of one
//! page, made and charged.
//!
//! `cargo bench -p benches --bench http`; `scripts/http-bench` does the same with wrk as the client.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use benches::idle::Idle;
use benches::{cpu_time, only_once};
use control::admin;
use control::caller::{Environment, Plan, Role};
use engine::Device;
use tests_service::TestServer;
use tests_store::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 32;
const SECONDS: u64 = 10;

fn main() {
    tests_service::canary::log_as_a_node();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("| database | request | requests/s | p50 ms | p99 ms | CPU us a request, client and node |");
    println!("|---|---|---|---|---|---|");
    for kind in [Kind::Sqlite, Kind::Postgres] {
        runtime.block_on(async {
            let server = TestServer::on_database(kind, vec![Device::new(Idle::new())]).await;
            let key = server.key(Role::AccountAdmin).await;
            row(kind, "public", server.address, "GET /api/v1/models HTTP/1.1\r\nHost: bench\r\n\r\n".into()).await;
            let request =
                format!("GET /api/v1/tfhe/sessions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n\r\n");
            row(kind, "authenticated", server.address, request).await;
            row(kind, "invoice", server.address, invoice(&server).await).await;
            server.stop().await;
        });
    }
}

/// Returns a request for an invoice of five lines, with the API key of an account that can pay.
async fn invoice(server: &TestServer) -> String {
    let (role, plan) = (Role::AccountAdmin, Some(Plan::Payg));
    let made = admin::create_key(server.running().config(), role, Environment::Live, None, plan).await;
    let key = made.expect("a key").key;
    let line = r#"{"name": "品目の設計および製作", "unit_price": 1000, "tax_rate": 10, "qty": 2}"#;
    let lines = [line; 5].join(",");
    let body = format!(
        r#"{{"issuer": "株式会社あんご", "registration_number": "T7000012050002", "recipient": "山田商事", "items": [{lines}]}}"#
    );
    let length = body.len();
    format!(
        "POST /v1/invoices HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}",
        *key
    )
}

/// Sends the request over all connections for a fixed time and prints the results.
async fn row(kind: Kind, name: &str, address: SocketAddr, request: String) {
    let time = Duration::from_secs(if only_once() { 0 } else { SECONDS });
    let (cpu, started) = (cpu_time(), Instant::now());
    let clients: Vec<_> =
        (0..CONNECTIONS).map(|_| tokio::spawn(client(address, request.clone(), started + time))).collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.expect("a client"));
    }
    let (wall, cpu) = (started.elapsed(), cpu_time() - cpu);
    latencies.sort_unstable();
    let requests = latencies.len();
    let ms = |percent: usize| latencies[(requests - 1) * percent / 100].as_secs_f64() * 1e3;
    println!(
        "| {kind:?} | {name} | {:.0} | {:.2} | {:.2} | {:.0} |",
        requests as f64 / wall.as_secs_f64(),
        ms(50),
        ms(99),
        cpu.as_secs_f64() * 1e6 / requests as f64
    );
}

/// Sends one request after another on one connection until the time `until`, but at least one request. Returns the
/// duration of each request.
async fn client(address: SocketAddr, request: String, until: Instant) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let (mut latencies, mut bytes) = (Vec::new(), vec![0; 256 << 10]);
    loop {
        let started = Instant::now();
        stream.write_all(request.as_bytes()).await.expect("the request is taken");
        answer(&mut stream, &mut bytes).await;
        latencies.push(started.elapsed());
        if Instant::now() >= until {
            return latencies;
        }
    }
}

/// Reads an answer with a declared length.
async fn answer(stream: &mut TcpStream, bytes: &mut [u8]) {
    let (mut have, mut whole) = (0, usize::MAX);
    while have < whole {
        have += match stream.read(&mut bytes[have..]).await.expect("an answer") {
            0 => panic!("the connection was closed"),
            read => read,
        };
        if let Some(end) = bytes[..have].windows(4).position(|four| four == b"\r\n\r\n") {
            let head = std::str::from_utf8(&bytes[..end]).expect("a head of text");
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            whole = end + 4 + length.parse::<usize>().expect("a number");
        }
    }
}
