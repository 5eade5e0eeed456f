//! Claims on idempotency keys, of two nodes on one database (readings I3): the claim of a node that died is free when the
//! node's lease is over by the database's clock. The tests move the end of the lease with a statement of their own.

use std::time::{Duration, Instant};

use control::caller::Role;
use control::config::{Config, ServerSecret};
use serde_json::Value;
use tests_service::gates::{SESSION, SESSIONS};
use tests_service::http::{Request, Response};
use tests_service::{PATIENCE, TestServer};
use tests_store::{Kind, psql};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime;

const BODY: &str = r#"{"preset":"fast_128"}"#;

/// Makes a request that opens a session.
fn opens_session(key: &str, idempotency_key: &str) -> Request {
    let request = Request::new("POST", SESSION).body("application/json", BODY).key(key);
    request.header("Idempotency-Key", idempotency_key)
}

/// A request whose node waits for the body, and holds the claim meanwhile.
struct Suspended(TcpStream);

impl Suspended {
    /// Sends a request to a node, without the body. Returns when the node holds the claim.
    async fn at(server: &TestServer, request: &Request) -> Suspended {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.clone().header("Expect", "100-continue").head().as_bytes()).await.unwrap();
        // the node asks for the body when a handler reads it, so after the claim
        let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
        let mut asked = vec![0; expected.len()];
        stream.read_exact(&mut asked).await.unwrap();
        assert_eq!(asked, expected, "{}", String::from_utf8_lossy(&asked));
        Suspended(stream)
    }

    /// Sends the body and returns the answer.
    async fn goes_on(mut self) -> Response {
        self.0.write_all(BODY.as_bytes()).await.unwrap();
        Response::read(&mut self.0).await
    }
}

/// Moves the end of the lease on a node's claims by this many seconds.
fn move_lease(server: &TestServer, seconds: i64) {
    let Config { data_dir, database_url, .. } = server.running().config();
    let node = std::fs::read_to_string(data_dir.join("node-id")).unwrap();
    let by_us = seconds * 1_000_000;
    psql(database_url, &format!("UPDATE nodes SET alive_until = alive_until + {by_us} WHERE node_id = '{node}'"));
}

#[track_caller]
fn is_claimed(answer: &Response) {
    answer.error(409, "IDEMPOTENCY_IN_PROGRESS");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

async fn sessions(server: &TestServer, key: &str) -> Value {
    server.send(Request::get(SESSIONS).key(key)).await.ok(200)["total_count"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_the_claim_of_a_node_that_died_is_free_when_its_lease_is_over_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let both = move |config: &mut Config| {
        config.database_url = url.clone();
        config.secret = Some(ServerSecret([7; 32].into()));
    };
    let other = TestServer::with(both.clone()).await;
    // the end of its runtime ends all tasks of the node at once, so that the node gives nothing back
    let life = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (life, one) = tokio::task::spawn_blocking(move || {
        let one = life.block_on(TestServer::with(both));
        (life, one)
    })
    .await
    .unwrap();
    let key = other.key(Role::AccountAdmin).await;
    let request = opens_session(&key, "k");
    let unanswered = Suspended::at(&one, &request).await;
    tokio::task::spawn_blocking(move || life.shutdown_timeout(PATIENCE)).await.unwrap();

    move_lease(&one, 3600);
    for _ in 0..3 {
        is_claimed(&other.send(request.clone()).await);
    }
    // the node renewed its lease at most ten seconds ago
    move_lease(&one, -3600 - 10);
    let first = other.send(request.clone()).await;
    first.ok(201);
    let again = other.send(request).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    assert_eq!(sessions(&other, &key).await, 1);
    drop(unanswered);
}

#[tokio::test]
async fn i3_a_node_that_lost_its_lease_does_nothing_for_the_claims_before_and_holds_new_ones() {
    let Some((one, other)) = TestServer::pair(|_| ()).await else { return };
    let key = other.key(Role::AccountAdmin).await;
    let request = opens_session(&key, "k");
    let suspended = Suspended::at(&one, &request).await;
    is_claimed(&other.send(request.clone()).await);
    // as if the node, or the database, had stood still for an hour
    move_lease(&one, -3600);
    let first = other.send(request.clone()).await;
    first.ok(201);
    is_claimed(&suspended.goes_on().await);
    let again = one.send(request).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    assert_eq!((sessions(&one, &key).await, sessions(&other, &key).await), (1.into(), 1.into()));
    // the node notices that its generation has ended, and its next generation's claims hold
    let asked = Instant::now();
    for number in 0.. {
        let request = opens_session(&key, &format!("l{number}"));
        let suspended = Suspended::at(&one, &request).await;
        if other.send(request).await.status == 409 {
            suspended.goes_on().await.ok(201);
            break;
        }
        assert!(asked.elapsed() < PATIENCE, "the node holds no claim any more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
