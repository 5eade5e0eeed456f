//! Conventions of all routes (readings sections 1 and 4).

use client::Preset;
use control::admin;
use control::caller::{Environment, Role};
use control::caller::{Plan, PlanLimits};
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use tests_service::gates::{BATCH, EVAL_SESSION, GATE, SESSION, SESSIONS, open_session};

#[tokio::test]
async fn x9_an_unknown_path_is_404_and_a_trailing_slash_another_path() {
    let server = TestServer::start().await;
    for path in ["/", "/api", "/api/v1", "/api/v2/models", "/api/v1/models/", "/api/v1/tfhe/gate/", "/v1/health"] {
        server.send(Request::get(path)).await.error(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn x9_a_wrong_method_is_405_with_allow_key_or_not() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for (method, path, allow) in [
        ("POST", "/health", "GET,HEAD"),
        ("DELETE", "/api/v1/models", "GET,HEAD"),
        ("GET", GATE, "POST"),
        ("PATCH", "/api/v1/tfhe/session/x", "GET,HEAD,DELETE"),
        ("PUT", "/openapi.json", "GET,HEAD"),
    ] {
        for request in [Request::new(method, path), Request::new(method, path).key(&key)] {
            let answer = server.send(request).await;
            answer.error(405, "METHOD_NOT_ALLOWED");
            let mut allowed: Vec<_> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
            let mut wanted: Vec<_> = allow.split(',').collect();
            allowed.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(allowed, wanted, "{method} {path}");
        }
    }
}

/// Returns the paths of the API description, with `unknown` for each parameter, and the methods of each path.
fn described() -> Vec<(String, Vec<String>)> {
    let page: serde_json::Value = serde_json::from_str(&control::router::openapi_json()).unwrap();
    let mut described = Vec::new();
    for (path, item) in page["paths"].as_object().unwrap() {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "unknown" } else { part });
        let methods = item.as_object().unwrap().keys().map(|name| name.to_uppercase());
        described.push((parts.collect::<Vec<_>>().join("/"), methods.collect()));
    }
    described
}

#[tokio::test]
async fn x9_a_path_takes_exactly_the_methods_of_its_description() {
    let server = TestServer::start().await;
    for (path, mut described) in described() {
        if described.contains(&"GET".to_owned()) {
            described.push("HEAD".to_owned());
        }
        let answer = server.send(Request::new("TRACE", &path)).await;
        answer.error(405, "METHOD_NOT_ALLOWED");
        let mut taken: Vec<_> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
        taken.sort_unstable();
        described.sort_unstable();
        assert_eq!(taken, described, "{path}");
    }
}

#[tokio::test]
async fn x10_every_get_answers_head_without_a_body() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let gets = described().into_iter().filter(|(_, methods)| methods.contains(&"GET".to_owned())).map(|(path, _)| path);
    let others =
        ["/api/v1/ciphertexts?key_id=unknown", "/openapi.json", "/docs/errors/NOT_FOUND", "/redoc", "/nowhere"];
    for path in gets.chain(others.map(str::to_owned)) {
        let get = server.send(Request::get(&path).key(&key)).await;
        let head = server.send(Request::new("HEAD", &path).key(&key)).await;
        assert_eq!(head.status, get.status, "{path}");
        assert!(head.body.is_empty(), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
}

#[tokio::test]
async fn x11_every_answer_has_a_request_id_of_ours() {
    let server = TestServer::start().await;
    let mut seen = std::collections::HashSet::new();
    for path in ["/health", "/api/v1/models", "/nowhere", GATE, "/redoc"] {
        let answer = server.send(Request::get(path).header("X-Request-Id", "theirs")).await;
        let id = answer.header("x-request-id").expect("an id").to_owned();
        assert!(id.starts_with("req_") && id.len() == 30, "{id}");
        assert!(seen.insert(id));
    }
}

#[tokio::test]
async fn x8_json_routes_take_json_only_with_any_parameters() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        for path in [SESSION, EVAL_SESSION, GATE, BATCH] {
            let request = Request::new("POST", path).body(content_type, "{}").key(&key);
            server.send(request).await.error(400, "INVALID_REQUEST");
        }
    }
    for content_type in ["application/json; charset=utf-8", "Application/JSON"] {
        let request = Request::new("POST", GATE).body(content_type, "{}").key(&key);
        server.send(request).await.error(422, "VALIDATION_ERROR");
    }
    server.send(Request::new("POST", GATE).key(&key)).await.error(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn e1_e2_e11_unreadable_json_is_400_and_a_wrong_shape_422_with_details() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for body in ["", "{", "nonsense", "{\"op\": \"NAND\"", "{\"op\": \"NAND\", \"op\": \"NAND\"}", "\u{feff}"] {
        let request = Request::new("POST", GATE).body("application/json", body).key(&key);
        server.send(request).await.error(400, "INVALID_REQUEST");
    }
    for (body, field) in [
        (json!({}), "session_id"),
        (json!({"session_id": "s", "op": "NAND"}), "a"),
        (json!({"session_id": "s", "op": 5, "a": "x"}), "op"),
        (json!({"session_id": "s", "op": "NAND", "a": null}), "a"),
        (json!({"session_id": "s", "op": "NAND", "a": "x", "b": 7}), "b"),
    ] {
        let error = server.send(Request::post(GATE, &body).key(&key)).await.error(422, "VALIDATION_ERROR");
        assert_eq!(error["details"][0]["field"], field, "{error}");
    }
    let body = json!({"session_id": "s", "gates": [{"op": "NOT", "a": "x"}, {"a": "x"}]});
    let error = server.send(Request::post(BATCH, &body).key(&key)).await.error(422, "VALIDATION_ERROR");
    assert_eq!(error["details"][0]["field"], "gates[1].op");
    server.send(Request::post(SESSION, &json!([])).key(&key)).await.error(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn x6_a_body_over_its_ceiling_is_refused_on_its_declared_length_before_it_comes() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for (path, content_type, length) in [
        (EVAL_SESSION, "application/octet-stream", (40 << 20) + 1),
        (EVAL_SESSION, "application/json", (40usize << 20) / 3 * 4 + (66 << 10)),
        (SESSION, "application/json", 65 << 10),
        (GATE, "application/json", 9 << 20),
        (BATCH, "application/json", 33 << 20),
    ] {
        let head = Request::new("POST", path)
            .key(&key)
            .header("Content-Type", content_type)
            .header("Content-Length", &length.to_string());
        server.send(head).await.error(413, "PAYLOAD_TOO_LARGE");
    }
}

#[tokio::test]
async fn x6_a_body_without_length_is_cut_at_its_ceiling() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let mut chunked = Vec::new();
    for _ in 0..80 {
        chunked.extend_from_slice(b"400\r\n");
        chunked.extend_from_slice(&[b' '; 0x400]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let head = Request::new("POST", SESSION)
        .key(&key)
        .header("Content-Type", "application/json")
        .header("Transfer-Encoding", "chunked");
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, head.head().as_bytes()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &chunked).await.unwrap();
    Response::read(&mut stream).await.error(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn l8_every_429_has_the_error_object_and_a_204_nothing() {
    let server = TestServer::with(|config| {
        *config.plan_limits.of_mut(Plan::Free) =
            PlanLimits { requests_a_day: 1, requests_a_month: 1, burst_a_second: 100, ..config.plan_limits.anonymous };
    })
    .await;
    let refused = |answer: Response, code: &str| {
        answer.error(429, code);
        assert_eq!(answer.header("content-type"), Some("application/json"));
    };
    let made =
        admin::create_key(server.running().config(), Role::AccountAdmin, Environment::Test, None, Some(Plan::Free))
            .await;
    let free = made.unwrap().key.to_string();
    server.send(Request::get(SESSIONS).key(&free)).await.ok(200);
    refused(server.send(Request::get(SESSIONS).key(&free)).await, "RATE_LIMITED");
    let trial_key = || Request::new("POST", "/api/v1/onboarding/temp-key");
    for _ in 0..5 {
        server.send(trial_key()).await.ok(200);
    }
    refused(server.send(trial_key()).await, "IP_RATE_LIMITED");

    let key = server.key(Role::Developer).await;
    let session = open_session(&server, &key, Preset::Fast128).await;
    let deleted = server.send(Request::delete(format!("{SESSION}/{session}")).key(&key)).await;
    assert_eq!((deleted.status, deleted.body.len(), deleted.header("content-type")), (204, 0, None));

    for _ in 0..10 {
        server.send(Request::get(SESSIONS).key("nonsense")).await.error(401, "INVALID_API_KEY");
    }
    refused(server.send(Request::get(SESSIONS).key("nonsense")).await, "BRUTE_FORCE_LOCKOUT");
}

#[tokio::test]
async fn a_client_that_is_refused_while_it_sends_still_gets_the_answer() {
    let server = TestServer::start().await;
    let request = Request::new("POST", EVAL_SESSION).body("application/octet-stream", vec![0; 41 << 20]);
    server.send(request.clone()).await.error(401, "MISSING_AUTH_HEADER");
    let key = server.key(Role::Developer).await;
    server.send(request.key(&key)).await.error(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn k5_a_member_that_names_a_secret_key_is_refused_on_every_route() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for path in [SESSION, EVAL_SESSION, GATE, BATCH, "/api/v1/tfhe/session/x/encrypt", "/api/v1/tfhe/session/x/decrypt"]
    {
        for body in
            [json!({"sk": "x"}), json!({"deep": [{"clientKey": {"a": 1}}]}), json!({"preset": 1, "secret_key": ""})]
        {
            server.send(Request::post(path, &body).key(&key)).await.error(400, "SECRET_KEY_REJECTED");
        }
    }
}

#[tokio::test]
async fn a_body_with_a_content_coding_is_refused_and_one_with_a_byte_order_mark_is_read() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let gate = |coding: &str| {
        Request::new("POST", GATE).body("application/json", "\u{feff}{}").key(&key).header("Content-Encoding", coding)
    };
    for coding in ["gzip", "br", "identity, deflate", "x"] {
        let error = server.send(gate(coding)).await.error(400, "INVALID_REQUEST");
        assert_eq!(error["details"][0]["field"], "Content-Encoding", "{error}");
    }
    for coding in ["identity", "Identity", ""] {
        let error = server.send(gate(coding)).await.error(422, "VALIDATION_ERROR");
        assert_eq!(error["details"][0]["field"], "session_id", "{error}");
    }
}
