//! Pages of other origins (readings X13): a page may call the API from a browser only if the operator lists its origin.

use control::config::CorsOrigins;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use tests_service::gates::{GATE, SESSIONS};

const CONSOLE: &str = "https://console.example.org";

async fn server(origins: CorsOrigins) -> TestServer {
    TestServer::with(|config| config.cors_origins = origins).await
}

/// Sends the preflight request of a browser that wants to send a gate with a key.
async fn preflight(server: &TestServer, origin: &str) -> Response {
    let asks = Request::new("OPTIONS", GATE)
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization,content-type,idempotency-key");
    server.send(asks).await
}

fn allowed(answer: &Response) -> Option<&str> {
    // the API does not use the browser's cookies, so no answer allows cookies
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    answer.header("access-control-allow-origin")
}

#[tokio::test]
async fn x13_by_default_a_browser_is_told_of_no_other_origin() {
    let server = TestServer::start().await;
    preflight(&server, CONSOLE).await.error(405, "METHOD_NOT_ALLOWED");
    let answer = server.send(Request::get("/api/v1/models").header("Origin", CONSOLE)).await;
    assert_eq!((answer.status, allowed(&answer)), (200, None));
}

#[tokio::test]
async fn x13_pages_of_a_listed_origin_may_call_and_read_answers_and_refusals() {
    let server = server(CorsOrigins::Listed(vec![CONSOLE.to_owned()])).await;
    let may = preflight(&server, CONSOLE).await;
    assert_eq!((may.status, allowed(&may)), (200, Some(CONSOLE)));
    let headers = may.header("access-control-allow-headers").unwrap();
    for header in ["authorization", "content-type", "idempotency-key", "prefer"] {
        assert!(headers.contains(header), "{headers}");
    }
    for method in ["GET", "POST", "PUT", "DELETE"] {
        assert!(may.header("access-control-allow-methods").unwrap().contains(method));
    }
    for request in [
        Request::get("/api/v1/models"),
        Request::get(SESSIONS),
        Request::get(SESSIONS).key("nonsense"),
        Request::post(GATE, &json!({})),
        Request::get("/nowhere"),
    ] {
        let answer = server.send(request.clone().header("Origin", CONSOLE)).await;
        assert_eq!(allowed(&answer), Some(CONSOLE), "{request:?}");
        let readable = answer.header("access-control-expose-headers").unwrap();
        assert!(
            ["retry-after", "x-request-id", "x-ratelimit-daily-remaining"].iter().all(|name| readable.contains(name))
        );
        // `vary` tells caches that the answer must not be used for another origin
        assert!(answer.header("vary").unwrap().to_lowercase().contains("origin"));
    }
}

#[tokio::test]
async fn x13_pages_of_other_origins_stay_outside_a_list() {
    let server = server(CorsOrigins::Listed(vec![CONSOLE.to_owned()])).await;
    for origin in [
        "http://console.example.org",
        "https://console.example.org:8443",
        "https://console.example.org.evil.example",
        "https://evil.example/console.example.org",
        "https://CONSOLE.example.org",
        "null",
        "",
    ] {
        assert_eq!(allowed(&preflight(&server, origin).await), None, "{origin}");
        let answer = server.send(Request::get("/api/v1/models").header("Origin", origin)).await;
        assert_eq!((answer.status, allowed(&answer)), (200, None), "{origin}");
    }
}

#[tokio::test]
async fn x13_a_node_for_every_origin_takes_no_credentials_of_the_browser() {
    let server = server(CorsOrigins::Any).await;
    assert_eq!(allowed(&preflight(&server, "https://anywhere.example").await), Some("*"));
}
