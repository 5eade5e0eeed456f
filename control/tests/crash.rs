//! A node that dies in the middle of a request, and the same request to the next one (readings I3, I4): on both databases.
#![cfg(all(unix, feature = "held-keys", debug_assertions))]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use control::admin;
use control::auth::{Environment, Role};
use control::config::Config;
use control::limits::Plan;
use serde_json::{Value, json};
use store::Store;
use tempfile::TempDir;
use tests::database::Kind;

/// What a node is started with, and one API key of it.
struct Place {
    folder: TempDir,
    database: String,
    key: String,
    account: String,
}

impl Place {
    /// `None`: there is no such database here.
    async fn new(kind: Kind) -> Option<Place> {
        let folder = tempfile::tempdir().unwrap();
        let database = kind.new_url(folder.path())?;
        let mut config = Config::in_folder(folder.path());
        config.database_url = database.clone();
        let made = admin::create_key(&config, Role::Developer, Environment::Test, None, Some(Plan::Enterprise)).await;
        let made = made.unwrap();
        let (key, account) = (made.key.to_string(), made.account_id.as_str().to_owned());
        Some(Place { folder, database, key, account })
    }

    /// Starts a node that dies at this place.
    fn start(&self, fail_point: Option<&str>) -> Node {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ango"))
            .args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir"])
            .arg(self.folder.path())
            .env_clear()
            .env("ANGO_DATABASE_URL", &self.database)
            .envs(fail_point.map(|place| ("ANGO_FAIL_POINT", place)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let line = output.by_ref().lines().map(Result::unwrap).find(|line| line.starts_with("  API "));
        let line = line.expect("the node says where it is");
        Node { process, address: line.rsplit("http://").next().unwrap().trim().to_owned(), _output: output }
    }

    /// Sends a request; `None`: the node died.
    fn post(&self, node: &Node, path: &str, body: &Value, key: Option<&str>) -> Option<String> {
        let mut stream = TcpStream::connect(&node.address).unwrap();
        let body = body.to_string();
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\nAuthorization: {}\r\n{key}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        // a dead node's connection is closed or reset
        let _ = stream.read_to_string(&mut answer);
        (!answer.is_empty()).then_some(answer)
    }

    fn json(&self, node: &Node, path: &str, body: &Value) -> Value {
        let answer = self.post(node, path, body, None).expect("the node lives");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// A NAND of two bits in a new session.
    fn gate(&self, node: &Node) -> Value {
        let opened = self.json(node, "/api/v1/tfhe/session", &json!({"preset": "fast_128"}));
        let session = opened["session_id"].as_str().unwrap();
        let path = format!("/api/v1/tfhe/session/{session}/encrypt");
        let bit = || self.json(node, &path, &json!({"bit": true}))["ciphertext_b64"].clone();
        json!({"session_id": session, "op": "NAND", "a": bit(), "b": bit()})
    }

    /// Gates charged to the account.
    async fn charged(&self) -> i64 {
        let store = Store::open(&self.database).await.unwrap();
        let (gates, ..) = store.gate_usage_totals(&self.account).await.unwrap();
        store.close().await;
        gates
    }
}

/// A node in a process of its own; ended when dropped.
struct Node {
    process: Child,
    address: String,
    /// Open as long as the node writes.
    _output: BufReader<ChildStdout>,
}

impl Drop for Node {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const GATE: &str = "/api/v1/tfhe/gate";

async fn a_crash_after_the_charge_is_answered_later_and_charged_once(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let node = place.start(Some("after-charge"));
    let gate = place.gate(&node);
    assert_eq!(place.post(&node, GATE, &gate, Some("k")), None);
    drop(node);
    assert_eq!(place.charged().await, 1);
    let node = place.start(None);
    for _ in 0..2 {
        let answer = place.post(&node, GATE, &gate, Some("k")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("idempotent-replayed: true"), "{answer}");
        assert!(answer.contains("\"result_b64\":\""), "{answer}");
    }
    assert_eq!(place.charged().await, 1);
    // the session itself is lost: a new request says so
    assert!(place.post(&node, GATE, &gate, Some("l")).unwrap().contains("SESSION_EXPIRED"));
}

async fn a_crash_before_the_charge_leaves_nothing_and_frees_the_key(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let node = place.start(Some("before-charge"));
    let gate = place.gate(&node);
    assert_eq!(place.post(&node, GATE, &gate, Some("k")), None);
    drop(node);
    assert_eq!(place.charged().await, 0);
    let node = place.start(None);
    // not IDEMPOTENCY_IN_PROGRESS
    assert!(place.post(&node, GATE, &gate, Some("k")).unwrap().contains("SESSION_EXPIRED"));
    let gate = place.gate(&node);
    assert!(place.post(&node, GATE, &gate, Some("k")).unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(place.charged().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_i4_m_a_crash_after_the_charge_sqlite() {
    a_crash_after_the_charge_is_answered_later_and_charged_once(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_i4_m_a_crash_after_the_charge_postgres() {
    a_crash_after_the_charge_is_answered_later_and_charged_once(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_i4_m_a_crash_before_the_charge_sqlite() {
    a_crash_before_the_charge_leaves_nothing_and_frees_the_key(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_i4_m_a_crash_before_the_charge_postgres() {
    a_crash_before_the_charge_leaves_nothing_and_frees_the_key(Kind::Postgres).await;
}
