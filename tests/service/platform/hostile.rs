//! Requests that two parsers could read differently, and requests made to be expensive: the node refuses such requests,
//! and reads nothing that follows them on the connection.

use control::caller::Role;
use tests_service::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use tests_service::gates::GATE;

/// A request that an attacker could hide behind another request.
const HIDDEN: &str = "GET /health HTTP/1.1\r\nHost: test\r\n\r\n";

/// Sends bytes on one connection. Returns all bytes that come back until the connection is closed.
async fn exchange(server: &TestServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // the write fails if the server has refused the request and reads no further bytes
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns a POST request for a gate, with these lines in its head.
fn post(key: &str, lines: &str, body: &str) -> String {
    format!("POST {GATE} HTTP/1.1\r\nHost: test\r\nAuthorization: {key}\r\n{lines}\r\n{body}")
}

#[tokio::test]
async fn a_request_whose_length_can_be_read_in_two_ways_is_refused_with_its_connection() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let json = "Content-Type: application/json\r\n";
    let requests = [
        post(&key, &format!("{json}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "0\r\n\r\n"),
        post(&key, &format!("{json}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), "0\r\n\r\n"),
        post(&key, &format!("{json}Content-Length: 2\r\nContent-Length: 40\r\n"), "{}"),
        post(&key, &format!("{json}Content-Length: 2, 40\r\n"), "{}"),
        post(&key, &format!("{json}Content-Length: +2\r\n"), "{}"),
        post(&key, &format!("{json}Transfer-Encoding: chunked, identity\r\n"), "0\r\n\r\n"),
        post(&key, &format!("{json}Transfer-Encoding: xchunked\r\n"), "0\r\n\r\n"),
        post(&key, &format!("{json}Content-Length : 2\r\n"), "{}"),
        post(&key, &format!("{json}X: a\r\n b\r\nContent-Length: 2\r\n"), "{}"),
        post(&key, &format!("{json}X: a\0b\r\nContent-Length: 2\r\n"), "{}"),
        post(&key, &format!("{json}Transfer-Encoding: chunked\r\n"), "-1\r\n\r\n0\r\n\r\n"),
        post(&key, &format!("{json}Transfer-Encoding: chunked\r\n"), "ffffffffffffffff1\r\n"),
    ];
    for request in requests {
        let answer = exchange(&server, format!("{request}{HIDDEN}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?}: {answer}");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
    }
    // the hidden request is valid: sent alone, it gets an answer
    assert!(
        exchange(&server, HIDDEN.replace("test\r\n", "test\r\nConnection: close\r\n").as_bytes())
            .await
            .contains(" 200 ")
    );
}

#[tokio::test]
async fn what_is_not_http_is_answered_as_the_list_of_errors_says() {
    let server = TestServer::start().await;
    let lines: String = (0..101).map(|n| format!("X-{n}: {n}\r\n")).collect();
    for (request, status) in [
        ("GET\r\n\r\n".to_owned(), 400),
        ("GET /health HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), 400),
        (format!("GET /health HTTP/1.1\r\nHost: test\r\n{lines}\r\n"), 431),
    ] {
        let answer = exchange(&server, request.as_bytes()).await.to_ascii_lowercase();
        assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{answer}");
        assert!(answer.ends_with("\r\n\r\n") && !answer.contains("x-request-id") && !answer.contains("ratelimit"));
    }
}

#[tokio::test]
async fn a_head_of_megabytes_is_refused_before_it_is_read() {
    let server = TestServer::start().await;
    let long = "a".repeat(10 << 20);
    let many: String = (0..100_000).map(|n| format!("X-{n}: {n}\r\n")).collect();
    for head in [format!("X: {long}\r\n"), many] {
        let answer = exchange(&server, format!("GET /health HTTP/1.1\r\nHost: test\r\n{head}\r\n").as_bytes()).await;
        // the connection may be closed before the client sees the answer
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    let path = exchange(&server, format!("GET /{long} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).await;
    assert!(path.is_empty() || path.starts_with("HTTP/1.1 4"), "{path}");
}

#[tokio::test]
async fn a_compressed_body_is_not_unpacked() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let lines =
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\nConnection: close\r\n";
    let answer = exchange(&server, post(&key, lines, "\x1f\x0b\x08\0").as_bytes()).await;
    assert!(answer.contains(" 400 ") && answer.contains("INVALID_REQUEST"), "{answer}");
}
