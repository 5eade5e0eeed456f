//! Requests that two parsers could read differently, and requests made to be expensive: the node refuses such requests,
//! and reads nothing that follows them on the connection.

use control::caller::Role;
use control::config::CorsOrigins;
use control::office::AdminKey;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;
use tests_store::Kind;
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
async fn g2_a_request_that_does_not_name_its_server_once_is_refused_with_its_connection() {
    let server = TestServer::with(|config| config.cors_origins = CorsOrigins::Any).await;
    for lines in
        ["", "Host: a\r\nHost: a\r\n", "Host: a\r\nX: 1\r\nhost: b\r\n", "Host:\r\n", "Host: a b\r\n", "Host: u@a\r\n"]
    {
        for line in [
            "GET /health",
            "GET /api/v1/nothing",
            "DELETE /v1/me",
            "POST /v1/reconcile",
            "OPTIONS /api/v1/models",
            "GET http://test/health",
            "GET /docs/",
        ] {
            let answer = exchange(&server, format!("{line} HTTP/1.1\r\n{lines}\r\n{HIDDEN}").as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("\r\n\r\n"), "{line} {lines:?}: {answer}");
            assert_eq!(answer.matches("HTTP/1.").count(), 1, "{line} {lines:?}: {answer}");
        }
    }
    // also the second listener, and a body that was announced
    let post = format!("POST /v1/reconcile HTTP/1.1\r\nContent-Length: 9\r\n\r\n{{\"a\": 1}}\n{HIDDEN}");
    assert_eq!(exchange(&server, post.as_bytes()).await.matches("HTTP/1.1 400 ").count(), 1);
    let mut stream = TcpStream::connect(server.operations).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // HTTP/1.0 knows no `Host`
    for lines in ["", "Host: a\r\n"] {
        let answer = exchange(&server, format!("GET /health HTTP/1.0\r\n{lines}\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    }
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

/// Parts of an address that no id, number or word of the service is, and that some database refuses: U+0000, bytes that
/// are not UTF-8, half of a surrogate pair, a number beyond 64 bits, a long text.
fn foreign_parts() -> [String; 8] {
    let of = str::to_owned;
    let long = "x".repeat(8000);
    [of("%00"), of("inv_%00"), of("a%00b"), of("%ff"), of("%ED%A0%80"), of("%F0%9F%90%A7"), "9".repeat(30), long]
}

#[tokio::test]
async fn c4_no_part_of_an_address_is_a_failure_of_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let secret = "an-administrator-s-secret-for-the-tests";
    let server = TestServer::with(|config| {
        config.database_url = url;
        config.office.admin_key = Some(AdminKey(secret.to_owned().into()));
    });
    let server = server.await;
    let key = server.key(Role::AccountAdmin).await;
    let description: Value = serde_json::from_str(&control::router::openapi_json()).unwrap();
    let mut sent = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method: &'static str = method.to_uppercase().leak();
            let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
            for part in foreign_parts() {
                let mut paths = Vec::new();
                if path.contains('{') {
                    let of_part = |piece: &str| if piece.starts_with('{') { part.clone() } else { piece.to_owned() };
                    paths.push(path.split('/').map(of_part).collect::<Vec<_>>().join("/"));
                }
                for parameter in parameters.iter().filter(|parameter| parameter["in"] == "query") {
                    paths.push(format!("{path}?{}={part}", parameter["name"].as_str().unwrap()));
                }
                for path in paths {
                    let body = json!({}).to_string();
                    let request = Request::new(method, &path).key(&key).body("application/json", body);
                    let answer = server.send(request).await;
                    assert!(answer.status < 500, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
                    sent += 1;
                }
            }
        }
    }
    assert!(sent > 200, "{sent} requests");
    // the cases of users
    for (method, path, key, status) in [
        ("DELETE", "/api/v1/onboarding/temp-key/svc_trial_00000%00", None, 404),
        ("DELETE", "/api/v1/onboarding/temp-key/svc_trial_%F0%9F%90%A7%F0%9F%90%A7", None, 404),
        ("GET", "/v1/invoices/stored/inv_%00", Some(&key), 404),
    ] {
        let request = Request::new(method, path);
        let request = if let Some(key) = key { request.key(key) } else { request };
        assert_eq!(server.send(request).await.status, status, "{path}");
    }
    for body in [
        r#"{"customer": "A\u0000"}"#,
        r#"{"customer": "A\ud800"}"#,
        r#"{"customer": "A", "cap_yen": 99999999999999999999}"#,
        r#"{"customer": "A", "cap_yen": 9223372036854775808}"#,
        r#"{"customer": "A", "plan": "\u0000"}"#,
    ] {
        let request = Request::new("POST", "/v1/admin/keys").key(secret).body("application/json", body);
        let answer = server.send(request).await;
        assert_eq!(answer.status, 422, "{body}: {}", String::from_utf8_lossy(&answer.body));
    }
    assert!(!server.running().metrics().contains("reason=\"database\""));
}
