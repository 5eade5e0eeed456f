//! What a batch of 1024 NAND gates costs besides its computation: a node on loopback whose device computes in no time, one
//! client that sends one request after another on one connection. Beside it what the sockets alone take for those bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use benches::idle::Idle;
use benches::{cpu_time, median, only_once};
use control::auth::Role;
use engine::Device;
use serde_json::json;
use tests::TestServer;
use tests::http::Request;

const GATES: usize = 1024;
const REQUESTS: usize = 101;
const OCTETS: &str = "application/octet-stream";

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(TestServer::on(vec![Device::new(Idle::new())]));
    let (key, session, bit) = runtime.block_on(encrypted_bit(&server));

    println!("| form | request | answer | median ms | fastest ms | CPU ms |");
    println!("|---|---|---|---|---|---|");
    let texts = vec![json!({"op": "NAND", "a": bit, "b": bit}); GATES];
    let body = json!({"session_id": session, "gates": texts}).to_string().into_bytes();
    row("JSON", server.address, &message(&key, "application/json", body));

    let words = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.decode(&bit).expect("base64")[32..].repeat(2 * GATES)
    };
    let head = json!({"session_id": session, "gates": vec!["NAND"; GATES]}).to_string().into_bytes();
    let mut body = api::octets::begin(&head, words.len());
    body.extend(words);
    let request = message(&key, OCTETS, body);
    let answer = row("octet-stream", server.address, &request);
    row("sockets alone", sink(request.len(), answer), &request);
    runtime.block_on(server.stop());
}

/// A key, a session and a ciphertext of it in base64.
async fn encrypted_bit(server: &TestServer) -> (String, String, String) {
    let key = server.key(Role::Developer).await;
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    let open = Request::post("/api/v1/tfhe/session", &json!({"preset": "fast_128"})).key(&key);
    let session = text(&server.send(open).await.ok(201)["session_id"]);
    let path = format!("/api/v1/tfhe/session/{session}/encrypt");
    let bit = server.send(Request::post(path, &json!({"bit": true})).key(&key)).await.ok(200);
    (key, session, text(&bit["ciphertext_b64"]))
}

fn message(key: &str, content_type: &str, body: Vec<u8>) -> Vec<u8> {
    let head = format!(
        "POST /api/v1/tfhe/batch HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\nAccept: {content_type}\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// Sends the request again and again and prints what it takes; bytes of an answer.
fn row(form: &str, address: SocketAddr, request: &[u8]) -> usize {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let mut bytes = vec![0; 16 << 20];
    let mut exchange = || {
        stream.write_all(request).expect("the request is taken");
        answer(&mut stream, &mut bytes)
    };
    let answer = exchange();
    if only_once() {
        return answer;
    }
    let (mut times, cpu) = (Vec::new(), cpu_time());
    for _ in 0..REQUESTS {
        let start = Instant::now();
        exchange();
        times.push(start.elapsed());
    }
    let cpu = (cpu_time() - cpu) / REQUESTS as u32;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let fastest = times.iter().min().copied().unwrap_or_default();
    println!(
        "| {form} | {:.2} MB | {:.2} MB | {:.2} | {:.2} | {:.2} |",
        request.len() as f64 / 1e6,
        answer as f64 / 1e6,
        ms(median(times)),
        ms(fastest),
        ms(cpu)
    );
    answer
}

/// Reads an answer of declared length; its bytes.
fn answer(stream: &mut TcpStream, bytes: &mut [u8]) -> usize {
    let (mut have, mut whole) = (0, usize::MAX);
    while have < whole {
        have += match stream.read(&mut bytes[have..]).expect("an answer") {
            0 => panic!("the connection was closed"),
            read => read,
        };
        if let Some(end) = bytes[..have.min(4096)].windows(4).position(|four| four == b"\r\n\r\n") {
            let head = std::str::from_utf8(&bytes[..end]).expect("a head of text").to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 200"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            whole = end + 4 + length.parse::<usize>().expect("a number");
        }
    }
    have
}

/// A server that takes so many bytes and gives so many, and does nothing else.
fn sink(takes: usize, gives: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut bytes = vec![0; 256 << 10];
        let head = |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let mut out = head(gives - head(gives).len()).into_bytes();
        out.resize(gives, 0);
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
