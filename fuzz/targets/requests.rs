//! Any body at the endpoints of gate sessions and of operations on numbers of a running node, over HTTP. The answer is
//! one that the specification allows, never a 500 or a panic, and is the same whether the body comes whole or in
//! pieces.
//!
//! The target also sends any headers and any cursor: `Authorization`, `Idempotency-Key`, `X-Forwarded-For` and the
//! query, separated by zero bytes.
//!
//! The first byte chooses the endpoint, and the second byte the size of the pieces. In the body, `$S` stands for an
//! open session, `$C` for a ciphertext of the session, `$E` for an encryption key, and `$N` for a ciphertext of numbers
//! under that key. In a body of octets, the first zero byte ends the head.
#![no_main]

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use api::octets;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::ckks::{Encryptor, container};
use client::{SecretKey, bundle};
use control::admin;
use control::app::{App, Running};
use control::caller::{Environment, Role};
use control::clock::Clock;
use control::config::Config;
use kernels::container::write_evaluation_key;
use kernels::tfhe::Preset;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

const JSON: &str = "application/json";
const OCTETS: &str = "application/octet-stream";
/// Number of endpoints: endpoints that take bodies, and one that takes heads.
const ENDPOINTS: u8 = 12;
const PATIENCE: Duration = Duration::from_secs(8);

fuzz_target!(|bytes: &[u8]| {
    let [endpoint, piece, body @ ..] = bytes else { return };
    if endpoint % ENDPOINTS == 9 {
        static OF_HEADS: OnceLock<Node> = OnceLock::new();
        return OF_HEADS.get_or_init(Node::start).heads(body);
    }
    static OF_BODIES: OnceLock<Node> = OnceLock::new();
    let node = OF_BODIES.get_or_init(Node::start);
    let session = &node.session;
    let (path, content_type) = match endpoint % ENDPOINTS {
        0 => ("tfhe/gate".to_owned(), JSON),
        1 => ("tfhe/batch".to_owned(), JSON),
        2 => ("tfhe/eval-session".to_owned(), JSON),
        3 => ("tfhe/eval-session".to_owned(), OCTETS),
        4 => (format!("tfhe/session/{session}/encrypt"), JSON),
        5 => (format!("tfhe/session/{session}/decrypt"), JSON),
        6 => ("tfhe/circuits".to_owned(), JSON),
        7 => ("tfhe/circuits".to_owned(), OCTETS),
        10 => ("compute".to_owned(), JSON),
        11 => ("keys/upload".to_owned(), JSON),
        _ => ("tfhe/batch".to_owned(), OCTETS),
    };
    let body = replaced(&replaced(body, b"$S", session.as_bytes()), b"$C", node.ciphertext.as_bytes());
    let body = replaced(&replaced(&body, b"$E", node.key_id.as_bytes()), b"$N", node.numbers.as_bytes());
    let body = if [7, 8].contains(&(endpoint % ENDPOINTS)) { framed(&body) } else { body };
    let whole = node.post(&path, content_type, &body, body.len());
    let pieces = node.post(&path, content_type, &body, usize::from(*piece) + 1);
    assert_eq!(outcome(&whole), outcome(&pieces));
    assert!((200..500).contains(&whole.0), "{} {}", whole.0, whole.1);
});

/// Frames the bytes before the first zero byte as a head. The bytes behind that zero byte follow the head.
fn framed(body: &[u8]) -> Vec<u8> {
    let mut parts = body.splitn(2, |&byte| byte == 0);
    let (head, words) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut framed = octets::begin(head, words.len());
    framed.extend_from_slice(words);
    framed
}

/// Returns the status and the error code of an answer.
fn outcome((status, body): &(u16, Value)) -> (u16, Option<&str>) {
    let code = body["error"]["code"].as_str();
    assert_eq!(code.is_none(), *status < 400, "{status} {body}");
    (*status, code)
}

fn replaced(bytes: &[u8], name: &[u8; 2], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(2).position(|window| window == name) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(value);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}

/// A node in this process with a session.
struct Node {
    runtime: Runtime,
    address: SocketAddr,
    clock: Clock,
    api_key: String,
    session: String,
    ciphertext: String,
    key_id: String,
    /// The id of a ciphertext under the encryption key.
    numbers: String,
    /// Holds the node, which ends with the process.
    _running: Running,
    _folder: TempDir,
}

impl Node {
    fn start() -> Node {
        let runtime = Runtime::new().expect("a runtime");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Clock::system();
        let (running, api_key) = runtime.block_on(async {
            let mut config = Config::in_folder(folder.path());
            config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
            let running = App::start_at(config, clock.clone()).await.expect("the node starts");
            let created = admin::create_key(running.config(), Role::Developer, Environment::Test, None, None).await;
            (running, created.expect("an API key").key.to_string())
        });
        let secret = SecretKey::generate(Preset::Fast128);
        let mut node = Node {
            runtime,
            address: running.api_addr,
            clock,
            api_key,
            session: String::new(),
            ciphertext: STANDARD.encode(&bundle::encrypt(&secret, &[true])[0]),
            key_id: String::new(),
            numbers: String::new(),
            _running: running,
            _folder: folder,
        };
        let key = write_evaluation_key(&secret.evaluation_key());
        let (status, answer) = node.post("tfhe/eval-session", OCTETS, &key, key.len());
        assert_eq!(status, 201, "{answer}");
        node.session = answer["session_id"].as_str().expect("a session").to_owned();
        let params = br#"{"params":{"poly_degree":64,"scale_bits":40,"max_depth":3}}"#;
        let (status, answer) = node.post("keys/generate", JSON, params, params.len());
        assert_eq!(status, 200, "{answer}");
        node.key_id = answer["key_id"].as_str().expect("a key").to_owned();
        let public_key = STANDARD.decode(answer["public_key"].as_str().expect("a public key")).expect("base64");
        let public_key = container::read_public_key(&public_key).expect("a public key");
        let (params, fingerprint) = (public_key.params.clone(), public_key.fingerprint);
        let numbers = Encryptor::new(public_key).encrypt(&[0.5; 32], 1.0).expect("numbers within 1");
        let numbers = container::write_ciphertext(&numbers, &params, fingerprint);
        let path = format!("ciphertexts?key_id={}", node.key_id);
        let (status, answer) = node.post(&path, OCTETS, &numbers, numbers.len());
        assert_eq!(status, 201, "{answer}");
        node.numbers = answer["ciphertext_id"].as_str().expect("an id").to_owned();
        node
    }

    /// Sends a request that writes nothing. These bytes give its headers and its query. `$K` stands for the API key.
    fn heads(&self, bytes: &[u8]) {
        let mut parts = bytes.splitn(4, |&byte| byte == 0);
        let mut next = || -> Vec<u8> {
            let part = replaced(parts.next().unwrap_or_default(), b"$K", self.api_key.as_bytes());
            part.into_iter().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect()
        };
        let (authorization, idempotency, forwarded) = (next(), next(), next());
        // locks of earlier attempts end
        self.clock.advance(Duration::from_secs(16 * 60));
        let query: String = next().iter().map(|byte| format!("%{byte:02x}")).collect();
        // a list reads its cursor, and a write reads its Idempotency-Key
        let line = match query.is_empty() {
            true => "POST /api/v1/tfhe/gate".to_owned(),
            false => format!("GET /api/v1/tfhe/circuits?cursor={query}"),
        };
        let mut request = format!("{line} HTTP/1.1\r\nHost: fuzz\r\n").into_bytes();
        for (name, value) in
            [("Authorization", authorization), ("Idempotency-Key", idempotency), ("X-Forwarded-For", forwarded)]
        {
            request.extend([name.as_bytes(), b": ", &value, b"\r\n"].concat());
        }
        request.extend(b"Connection: close\r\nContent-Length: 0\r\n\r\n");
        let answer = self.runtime.block_on(async { timeout(PATIENCE, exchange(self.address, &request)).await });
        let answer = answer.expect("an answer in time");
        // a request that is not HTTP gets an answer without a body
        let refused = answer.starts_with(b"HTTP/1.1 400 ") && answer.ends_with(b"\r\n\r\n");
        if !refused {
            let answer = parse(&answer);
            assert!((200..500).contains(&answer.0), "{} {}", answer.0, answer.1);
            outcome(&answer);
        }
    }

    /// Returns status and JSON of the answer. With pieces smaller than the body, the body is sent chunked.
    fn post(&self, path: &str, content_type: &str, body: &[u8], piece: usize) -> (u16, Value) {
        let chunked = piece < body.len();
        let length = match chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {}", body.len()),
        };
        let mut request = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: fuzz\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: {content_type}\r\n{length}\r\n\r\n",
            self.api_key
        )
        .into_bytes();
        match chunked {
            true => {
                for piece in body.chunks(piece) {
                    request.extend(format!("{:x}\r\n", piece.len()).bytes());
                    request.extend_from_slice(piece);
                    request.extend(b"\r\n");
                }
                request.extend(b"0\r\n\r\n");
            }
            false => request.extend_from_slice(body),
        }
        let answer = self.runtime.block_on(async { timeout(PATIENCE, exchange(self.address, &request)).await });
        parse(&answer.expect("an answer in time"))
    }
}

async fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("the node accepts connections");
    // a node that has refused may stop reading, but its answer counts
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    answer
}

fn parse(answer: &[u8]) -> (u16, Value) {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer with a head");
    let head = std::str::from_utf8(&answer[..end]).expect("a head of text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_slice(&answer[end + 4..]).expect("a body of JSON"))
}
