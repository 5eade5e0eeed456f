//! The cost of a request with a batch of 1024 NAND gates, without the computation of the gates: a node on loopback has
//! a device that computes in no time, and one client sends one request after another on one connection. For comparison,
//! bare sockets transfer the bytes of the largest request.
//!
//! Operands are random words: any words are valid ciphertexts, and random words all differ. Handles in answers are
//! deleted between the measured requests. The node logs as in production. A separate row shows how long the device
//! takes to copy operands in and results out.
//!
//! `cargo bench --workspace --bench request [-- WORD]`: only the rows run whose entry in the column `operands` begins
//! with WORD.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use api::octets;
use base64::Engine;
use benches::connection::{Connection, message};
use benches::idle::Idle;
use benches::{cpu_time, median, only_once};
use control::caller::Role;
use engine::{Backend, Device, Gate, Gates, Preset};
use kernels::tfhe::SlotGate;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;

const GATES: usize = 1024;
const REQUESTS: usize = 101;
const JSON: &str = "application/json";
const OCTETS: &str = "application/octet-stream";

fn main() {
    tests_service::canary::log_as_a_node();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(TestServer::on(vec![Device::new(Idle::new())]));
    let (key, session) = runtime.block_on(open_session(&server));
    let bench = Bench { address: server.address, key, session };

    println!("| operands | results | request | answer | median ms | fastest ms | CPU ms | page faults |");
    println!("|---|---|---|---|---|---|---|---|");
    let ciphertext = 4 * (Preset::Fast128.params().lwe_dimension + 1);
    let words = random(2 * GATES * ciphertext);
    let whole = bench.octets(json!({}), &words);
    bench.row("words", "words", &whole);
    bench.row("words", "handle", &bench.octets(json!({"outputs": "handles"}), &words));
    let seeds = json!([{"seed": "5a".repeat(32), "ciphertexts": 2 * GATES}]);
    let bodies = random(4 * 2 * GATES);
    bench.row("seeded", "words", &bench.octets(json!({"seeds": seeds}), &bodies));
    bench.row("seeded", "handle", &bench.octets(json!({"seeds": seeds, "outputs": "handles"}), &bodies));
    let handles = [(); 2].map(|()| bench.keep(&bodies, &seeds));
    let operands: Vec<usize> = (0..GATES).flat_map(|at| [at, GATES + at]).collect();
    let chained = json!({"inputs": handles, "operands": operands, "outputs": "handles"});
    bench.row("handles", "handle", &bench.octets(chained, &[]));
    bench.row("JSON", "JSON", &bench.json(&words[..2 * ciphertext]));
    device_alone(&words);
    Bench { address: sink(whole.len(), GATES * ciphertext), ..bench }.row("sockets alone", "", &whole);
    runtime.block_on(server.stop());
}

struct Bench {
    address: SocketAddr,
    key: String,
    session: String,
}

impl Bench {
    /// Returns the request of a batch in binary form. This method adds the session and the gates to `head`; `words` are
    /// the operands.
    fn octets(&self, mut head: Value, words: &[u8]) -> Vec<u8> {
        head["session_id"] = json!(self.session);
        head["gates"] = json!(vec!["NAND"; GATES]);
        let mut body = octets::begin(head.to_string().as_bytes(), words.len());
        body.extend(words);
        self.message("POST /api/v1/tfhe/batch", OCTETS, &body)
    }

    /// Returns the request of a batch in JSON, whose gates all have the two operands in `words`.
    fn json(&self, words: &[u8]) -> Vec<u8> {
        let operands: Vec<String> = words.chunks_exact(words.len() / 2).map(container).collect();
        let gates = vec![json!({"op": "NAND", "a": operands[0], "b": operands[1]}); GATES];
        let body = json!({"session_id": self.session, "gates": gates}).to_string();
        self.message("POST /api/v1/tfhe/batch", JSON, body.as_bytes())
    }

    fn message(&self, line: &str, form: &str, body: &[u8]) -> Vec<u8> {
        message(line, &self.key, &[("Accept", form), ("Content-Type", form)], body)
    }

    /// Runs a batch whose results stay on the node, and returns their handle.
    fn keep(&self, bodies: &[u8], seeds: &Value) -> String {
        let request = self.octets(json!({"seeds": seeds, "outputs": "handles"}), bodies);
        handle(Connection::open(self.address).exchange(&request).1).expect("a handle")
    }

    /// Sends the request repeatedly and prints the times.
    fn row(&self, operands: &str, results: &str, request: &[u8]) {
        let (mut connection, mut row, mut answer) = (Connection::open(self.address), Row::default(), 0);
        for _ in 0..rounds(operands) {
            let body = row.add(|| connection.exchange(request));
            answer = body.len();
            if let Some(handle) = (results == "handle").then(|| handle(body)).flatten() {
                let line = format!("DELETE /api/v1/tfhe/session/{}/handles/{handle}", self.session);
                connection.exchange(&self.message(&line, JSON, &[]));
            }
        }
        row.print(operands, results, [request.len(), answer]);
    }
}

/// How many times a row of the table with these operands is measured; 0 if the program's arguments select only other
/// rows.
fn rounds(operands: &str) -> usize {
    let mut named = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    match named.peek().is_none() || named.any(|name| operands.starts_with(&name)) {
        true if only_once() => 1,
        true => REQUESTS + 1,
        false => 0,
    }
}

/// The measurements of a row of the table: the time of each run, and the CPU time and page faults of all runs.
#[derive(Default)]
struct Row {
    times: Vec<Duration>,
    cpu: Duration,
    faults: u64,
}

impl Row {
    /// Runs `work` once and adds its CPU time, its page faults, and the time that `work` itself returns.
    fn add<T>(&mut self, work: impl FnOnce() -> (Duration, T)) -> T {
        let (cpu_before, faults_before) = (cpu_time(), page_faults());
        let (time, made) = work();
        self.times.push(time);
        self.cpu += cpu_time() - cpu_before;
        self.faults += page_faults() - faults_before;
        made
    }

    fn print(mut self, operands: &str, results: &str, [request, answer]: [usize; 2]) {
        let pieces = self.times.len();
        if pieces < 2 {
            return;
        }
        self.times.remove(0); // the first run warms up the node, so its time does not count
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let fastest = self.times.iter().min().copied().unwrap_or_default();
        println!(
            "| {operands} | {results} | {:.3} MB | {:.3} MB | {:.2} | {:.2} | {:.2} | {} |",
            request as f64 / 1e6,
            answer as f64 / 1e6,
            ms(median(self.times)),
            ms(fastest),
            ms(self.cpu / pieces as u32),
            self.faults / pieces as u64,
        );
    }
}

/// Prints how long the device takes to copy the operands of a batch of 1024 gates in and the results out.
fn device_alone(words: &[u8]) {
    let (device, params) = (Idle::new(), Preset::Fast128.params());
    let words: Vec<u32> =
        words.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let mut arena = device.arena(params.lwe_dimension + 1, 3 * GATES).expect("an arena");
    let results: Vec<u32> = (2 * GATES as u32..3 * GATES as u32).collect();
    let gate = |(at, &result)| SlotGate { gate: Gate::Nand, operands: [2 * at as u32, 2 * at as u32 + 1, 0], result };
    let gates: Vec<SlotGate> = results.iter().enumerate().map(gate).collect();
    let mut row = Row::default();
    for _ in 0..rounds("device alone") {
        row.add(|| {
            let started = Instant::now();
            device.write(&mut arena, 0, &words).expect("it is written");
            let results = device.evaluate(&(), &mut arena, &gates, &results).expect("they are there");
            (started.elapsed(), results)
        });
    }
    row.print("device alone", "", [4 * words.len(), 2 * words.len()]);
}

/// Makes a key and opens a session.
async fn open_session(server: &TestServer) -> (String, String) {
    let key = server.key(Role::Developer).await;
    let open = Request::post("/api/v1/tfhe/session", &json!({"preset": "fast_128"})).key(&key);
    let session = server.send(open).await.ok(201)["session_id"].as_str().expect("a string").to_owned();
    (key, session)
}

/// Reads the handle from the head of an answer in binary form. `None` if there is no handle.
fn handle(body: &[u8]) -> Option<String> {
    let (head, _) = octets::split(body, 1 << 16).ok()?;
    let head: Value = serde_json::from_slice(head).expect("a head of JSON");
    head["handle"].as_str().map(str::to_owned)
}

/// Puts the words into a container and encodes the container in base64.
fn container(words: &[u8]) -> String {
    use kernels::container::{Tag, frame};
    let bytes = frame(Tag::Ciphertext, Preset::Fast128, None, |out| out.extend_from_slice(words));
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Pseudorandom bytes whose words are almost certainly all different (xorshift).
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next()).take(bytes).collect()
}

/// The number of page faults of this process so far; zero if the system does not report it.
fn page_faults() -> u64 {
    let times = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut fields = times.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.nth(7).and_then(|faults| faults.parse().ok()).unwrap_or_default()
}

/// A server that reads `takes` bytes, answers with a body of `gives` bytes, and does nothing else.
fn sink(takes: usize, gives: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut bytes = vec![0; 256 << 10];
        let mut out = format!("HTTP/1.1 200 OK\r\ncontent-length: {gives}\r\n\r\n").into_bytes();
        out.resize(out.len() + gives, 0);
        loop {
            let mut left = takes;
            while left > 0 {
                match stream.read(&mut bytes) {
                    Ok(read @ 1..) => left -= read,
                    _ => return,
                }
            }
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    });
    address
}
