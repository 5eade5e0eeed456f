use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const KEY: &str = "svc_test_0123456789abcdef0123456789abcdef";
const ENVELOPE: &str = r#"{"error":{"code":"SESSION_EXPIRED","message":"the session has ended","request_id":"req_1",
    "documentation_url":"http://x/docs/errors/SESSION_EXPIRED"}}"#;

/// A node that answers each request with the next of `answers` (status line and headers, body) and records the
/// requests. If the status line is empty, the node closes the connection without an answer.
pub(super) async fn node(answers: Vec<(&'static str, String)>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    tokio::spawn(async move {
        for (head, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            log.lock().unwrap().push(request);
            if head.is_empty() {
                continue;
            }
            let answer =
                format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
            // the write fails if the client refuses a long answer and closes the connection early
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (Client::new(&url, KEY).unwrap(), asked)
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 65536];
        let read = stream.read(&mut piece).await.unwrap();
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
    }
}

fn session() -> SessionId {
    SessionId::from_bits(7)
}

fn gates(count: usize) -> Vec<BatchGate> {
    vec![BatchGate { op: "NOT".into(), a: "YQ==".into(), b: None, sel: None }; count]
}

fn batch_answer(results: usize, cost: &str) -> String {
    let results = vec!["\"Yg==\""; results].join(",");
    format!(
        r#"{{"results_b64":[{results}],"total_bootstrap_ops":2,"total_cost_jpy":{cost},"total_compute_ms":1.5,
        "batch_discount_applied":true}}"#
    )
}

fn code(error: Error) -> (u16, String) {
    match error {
        Error::Refused { status, code, .. } => (status, code),
        other => panic!("not a refusal: {other}"),
    }
}

#[tokio::test]
async fn a_request_carries_the_key_and_its_path_under_any_base() {
    let (client, asked) = node(vec![("204 No Content", String::new())]).await;
    client.close(&session()).await.unwrap();
    let request = asked.lock().unwrap().remove(0);
    assert!(request.starts_with(&format!("DELETE /api/v1/tfhe/session/{} HTTP/1.1", session().as_str())), "{request}");
    assert!(request.contains(&format!("authorization: Bearer {KEY}")));
    for base in ["http://node:1/prefix", "http://node:1/prefix/"] {
        assert_eq!(Client::new(base, KEY).unwrap().base.as_str(), "http://node:1/prefix/api/v1/");
    }
}

#[tokio::test]
async fn a_refusal_carries_the_node_s_code_and_message() {
    let (client, _) = node(vec![("410 Gone", ENVELOPE.into())]).await;
    let error = client.session(&session()).await.unwrap_err();
    assert_eq!(error.to_string(), "the session has ended (SESSION_EXPIRED, HTTP 410)");
}

#[tokio::test]
async fn l8_an_empty_429_and_other_answers_that_are_not_the_node_s_are_errors_too() {
    let (client, _) = node(vec![
        ("429 Too Many Requests\r\nRetry-After: 9", String::new()),
        ("502 Bad Gateway", "<html>".into()),
        ("200 OK", "<html>".into()),
        ("200 OK", batch_answer(2, "0.1")),
    ])
    .await;
    assert_eq!(code(client.session(&session()).await.unwrap_err()), (429, "HTTP_429".into()));
    assert_eq!(code(client.session(&session()).await.unwrap_err()), (502, "HTTP_502".into()));
    assert!(matches!(client.session(&session()).await, Err(Error::Answer(_))));
    assert!(matches!(client.batch(&session(), &gates(3)).await, Err(Error::Answer(_))), "two results for three gates");
}

#[tokio::test]
async fn a_busy_node_is_asked_again_when_it_says_so() {
    let busy = ("503 Service Unavailable\r\nRetry-After: 0", ENVELOPE.to_owned());
    let (client, asked) = node(vec![busy.clone(), busy, ("200 OK", batch_answer(1, "0.1"))]).await;
    client.batch(&session(), &gates(1)).await.unwrap();
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| request.ends_with(r#"[{"op":"NOT","a":"YQ=="}]}"#)), "with its whole body");
}

#[tokio::test]
async fn a_node_that_stays_busy_is_given_up_on() {
    let busy = ("503 Service Unavailable\r\nRetry-After: 0", ENVELOPE.to_owned());
    let (client, asked) = node(vec![busy; RETRIES_MAX as usize + 2]).await;
    assert_eq!(code(client.session(&session()).await.unwrap_err()).0, 503);
    assert_eq!(asked.lock().unwrap().len(), RETRIES_MAX as usize + 1);
}

#[tokio::test]
async fn a_503_without_a_time_and_other_refusals_are_not_repeated() {
    let (client, asked) = node(vec![("503 Service Unavailable", ENVELOPE.into())]).await;
    assert_eq!(code(client.session(&session()).await.unwrap_err()).0, 503);
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_redirect_does_not_take_the_key_elsewhere() {
    let (client, asked) = node(vec![("302 Found\r\nLocation: http://127.0.0.1:1/", String::new())]).await;
    assert_eq!(code(client.session(&session()).await.unwrap_err()), (302, "HTTP_302".into()));
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_long_batch_goes_in_even_pieces_and_its_bill_is_their_sum() {
    let (client, asked) = node(vec![("200 OK", batch_answer(515, "0.1")), ("200 OK", batch_answer(515, "0.2"))]).await;
    let sum = client.batch(&session(), &gates(1030)).await.unwrap();
    assert_eq!((sum.results_b64.len(), sum.total_bootstrap_ops, sum.total_cost_jpy), (1030, 4, MilliYen(300)));
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[test]
fn pieces_are_never_longer_than_the_limit_and_never_uneven() {
    for (count, expected) in [(0, &[][..]), (1, &[1]), (1024, &[1024]), (1025, &[513, 512]), (2100, &[700, 700, 700])] {
        assert!(pieces(&gates(count)).map(<[_]>::len).eq(expected.iter().copied()), "{count}");
    }
}

#[tokio::test]
async fn details_are_told_unless_the_message_has_them() {
    let envelope = |message: &str| {
        ENVELOPE
            .replace("the session has ended", message)
            .replace("}}", r#","details":[{"field":"gates[3].b","issue":"is cut"}]}}"#)
    };
    let (client, _) = node(vec![("400 Bad Request", envelope("no")), ("400 Bad Request", envelope("b is cut"))]).await;
    for expected in ["no: gates[3].b is cut (", "b is cut ("] {
        let shown = client.session(&session()).await.unwrap_err().to_string();
        assert!(shown.starts_with(expected), "{shown}");
    }
}

#[tokio::test]
async fn a_secret_key_is_not_sent() {
    let (client, asked) = node(vec![("201 Created", String::new())]).await;
    let secret = crate::SecretKey::generate(crate::Preset::Fast128).to_bytes();
    assert!(matches!(client.open_session(secret.to_vec()).await, Err(Error::SecretKey)));
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_endless_answer_is_cut() {
    let (client, _) = node(vec![("200 OK", " ".repeat(ANSWER_BYTES_MAX + 1))]).await;
    assert!(matches!(client.session(&session()).await, Err(Error::Answer(_))));
}

#[tokio::test]
async fn neither_errors_nor_debug_output_show_key_or_session() {
    // nothing listens on this port any more, so the connection is refused
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let client = Client::new(&format!("http://127.0.0.1:{port}"), KEY).unwrap();
    let error = client.session(&session()).await.unwrap_err();
    let shown = format!("{client:?} {error:?} {error}");
    assert!(!shown.contains(KEY) && !shown.contains(session().as_str()), "{shown}");
}

#[test]
fn only_plain_http_to_other_machines_is_exposed() {
    for (url, exposed) in [
        ("http://127.0.0.1:8080", false),
        ("http://localhost", false),
        ("http://[::1]:8080", false),
        ("https://node.example", false),
        ("http://node.example", true),
        ("http://192.168.0.7", true),
        ("http://localhost.example", true),
    ] {
        assert_eq!(Client::new(url, KEY).unwrap().is_exposed(), exposed, "{url}");
    }
}

#[test]
fn an_address_or_key_that_cannot_be_used_is_refused() {
    for url in ["127.0.0.1:8080", "ftp://node", "not a url", "http://user:pass@node", "http://node/?a=b"] {
        assert!(matches!(Client::new(url, KEY), Err(Error::Settings(_))), "{url}");
    }
    assert!(matches!(Client::new("http://node", "svc\n"), Err(Error::Settings(_))));
    let shown = Client::new("http://user:hunter2@node", KEY).unwrap_err().to_string();
    assert!(!shown.contains("hunter2"));
}
