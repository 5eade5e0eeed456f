//! The worst input of each route that needs no key or costs nothing, as `docs/operate.md` lists them ("Work of one
//! request"). A request made to be expensive is answered with what is wrong with it, not with a failure of the node, in
//! an answer that is no longer than the request; and other callers are served meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::caller::Role;
use control::config::AdminKey;
use serde_json::{Value, json};
use tests_extent::pick;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::payments::PaymentStandIn;
use tests_service::users::User;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use crate::shop::*;

const ADMIN_SECRET: &str = "an administrator's secret of 32 characters or more";
const PAGES: &str = include_str!("../../../control/src/router.rs");
const OPERATE: &str = include_str!("../../../docs/operate.md");

/// A caller of each kind.
struct Callers<'s> {
    shop: Shop<'s>,
    user: User,
    ingest: String,
}

impl<'s> Callers<'s> {
    async fn new(server: &'s TestServer) -> Callers<'s> {
        let shop = Shop::new(server).await;
        let ingest = shop.set_profile(json!({})).await;
        let user = server.user("a@example.org", Role::AccountAdmin).await;
        Callers { shop, user, ingest }
    }

    /// Makes a request to an operation by the caller that it admits. `part` stands for each variable part of the path.
    fn request(&self, method: &'static str, path: &str, level: &str, part: &str) -> Request {
        let parts = path.split('/').map(|at| if at.starts_with('{') { part } else { at });
        let path = match path {
            "/v1/ingest/{token}" => self.ingest.clone(),
            _ => parts.collect::<Vec<_>>().join("/"),
        };
        let request = Request::new(method, path);
        match level {
            "" => request,
            "SESSION" => request.key(&self.user.token),
            "ADMINISTRATOR" => request.key(ADMIN_SECRET),
            _ => request.key(&self.shop.key),
        }
    }
}

async fn server(provider: &PaymentStandIn) -> TestServer {
    let server = TestServer::with(|config| {
        provider.configure(config);
        config.office.admin_key = Some(AdminKey(Zeroizing::new(ADMIN_SECRET.to_owned())));
    })
    .await;
    provider.follow(&server.clock);
    server
}

/// An operation that needs no key or costs nothing.
struct Free {
    method: &'static str,
    path: String,
    /// The level of its callers; empty for anyone.
    level: String,
    takes_json: bool,
}

/// Reads the operations from the API's description. An operation costs something if the cap of a key can refuse it.
fn free(page: &Value) -> Vec<Free> {
    let mut all = Vec::new();
    for (path, item) in page["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let charged = operation["responses"]["402"]["$ref"].as_str().unwrap_or_default();
            if charged.contains("BUDGET_HARD_CAP_HIT") {
                continue;
            }
            let method =
                ["GET", "POST", "PUT", "PATCH", "DELETE"].into_iter().find(|name| name.to_lowercase() == *method);
            let level = operation["x-access"]["level"].as_str().unwrap_or_default();
            // reconcile takes callers without a key
            let level = if level == "OPTIONAL" { "" } else { level };
            let takes_json = operation["requestBody"]["content"].get("application/json").is_some();
            all.push(Free { method: method.unwrap(), path: path.clone(), level: level.to_owned(), takes_json });
        }
    }
    assert!(all.len() > 70, "{}", all.len());
    all
}

/// The routes of the operators' table, each with its limit of a body in bytes, if the table has it in KB or MB.
fn told() -> BTreeMap<String, Option<usize>> {
    let section = OPERATE.split("## Work of one request").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut told = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [routes, body, work] = cells[..] else { panic!("{row}") };
        assert!(!work.is_empty(), "{row}");
        let bytes = match body.split_once(' ') {
            Some((number, "KB")) => number.parse().ok().map(|number: usize| number << 10),
            Some((number, "MB")) => number.parse().ok().map(|number: usize| number << 20),
            _ => None,
        };
        for route in routes.split(", ") {
            assert_eq!(told.insert(route.trim_matches('`').to_owned(), bytes), None, "{route}");
        }
    }
    told
}

#[tokio::test]
async fn each_route_that_is_free_or_public_has_its_bound_in_the_operators_table() {
    let server = TestServer::start().await;
    let page = server.send(Request::get("/openapi.json")).await.ok(200);
    let operations = free(&page).into_iter().map(|free| format!("{} {}", free.method, free.path));
    let pages = PAGES.split(".route(\"").skip(1).map(|rest| format!("GET {}", rest.split('"').next().unwrap()));
    let expected: BTreeSet<String> = operations.chain(pages).collect();
    let told: BTreeSet<String> = told().into_keys().collect();
    assert_eq!(expected.difference(&told).collect::<Vec<_>>(), [""; 0], "missing in docs/operate.md");
    assert_eq!(told.difference(&expected).collect::<Vec<_>>(), [""; 0], "charged or unknown");
}

#[tokio::test]
async fn a_body_above_its_limit_is_refused_before_it_is_sent() {
    let provider = PaymentStandIn::start().await;
    let server = server(&provider).await;
    let callers = Callers::new(&server).await;
    let page = server.send(Request::get("/openapi.json")).await.ok(200);
    let limits = told();
    let mut seen = 0;
    for free in free(&page) {
        let Some(bytes) = limits[&format!("{} {}", free.method, free.path)] else { continue };
        let kind = if free.takes_json { "application/json" } else { "text/plain" };
        let announced = |bytes: usize| {
            let request = callers.request(free.method, &free.path, &free.level, "x");
            request.header("Content-Type", kind).header("Content-Length", &bytes.to_string())
        };
        let mut above = TcpStream::connect(server.address).await.unwrap();
        above.write_all(announced(bytes + 1).head().as_bytes()).await.unwrap();
        let mut begin = [0; 12];
        above.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 413", "{} {}", free.method, free.path);
        // the limit itself is no fault: the node waits for the body, which does not come
        let mut at = TcpStream::connect(server.address).await.unwrap();
        at.write_all(announced(bytes).head().as_bytes()).await.unwrap();
        at.shutdown().await.unwrap();
        let mut answer = String::new();
        let _ = at.read_to_string(&mut answer).await;
        assert!(!answer.contains(" 413 "), "{} {}: {answer}", free.method, free.path);
        seen += 1;
    }
    assert!(seen >= 25, "{seen}");
}

/// Bodies of about this many bytes that cost a careless reader much.
fn worst_bodies(bytes: usize) -> Vec<Vec<u8>> {
    let filled = |before: &str, piece: &str, after: &str| {
        let pieces = (bytes - before.len() - after.len()) / piece.len();
        [before, &piece.repeat(pieces), after].concat().into_bytes()
    };
    let members = |bytes: usize| (0..bytes / 16).map(|at| format!("\"{at}\":{at},")).collect::<String>();
    vec![
        filled("", "[", ""),
        filled("{\"x\":", "[", ""),
        filled("", "{\"\":", ""),
        filled("{\"x\":[", "[],", "[]]}"),
        filled("{\"x\":[", "0,", "0]}"),
        filled("{\"x\":[", "1e999999999,", "0]}"),
        filled("{\"x\":", "9", "}"),
        filled("{\"x\":1e", "9", "}"),
        filled("{\"x\":0.", "0", "1}"),
        filled("{\"x\":\"", "\\u0061", "\"}"),
        filled("{\"x\":\"", "\\ud800", "\"}"),
        filled("{\"", "n", "\":1}"),
        filled("{", "\"a\":0,", "\"b\":0}"),
        filled("{\"x\":{\"y\":\"", "\u{10ffff}", "\"}}"),
        filled("", " ", "{}"),
        filled("", "\u{feff}", "{}"),
        format!("{{{}\"x\":0}}", members(bytes)).into_bytes(),
        vec![0xff; bytes],
        vec![0; bytes],
    ]
}

/// Waits until the network is not locked any more. Failures to sign in lock the network, which would hide other routes.
fn unlock(server: &TestServer, free: &Free) {
    if free.path.starts_with("/auth/") || free.path.contains("/temp-key") || free.path.ends_with("/by-session") {
        server.clock.advance(Duration::from_secs(3600));
    }
}

/// Checks that the node refused a request or took it, and that the answer is bounded.
#[track_caller]
fn bounded(answer: &Response, what: &str) {
    let told = String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
    assert!((200..500).contains(&answer.status), "{what}: {} {told}", answer.status);
    assert!(answer.status < 300 || answer.body.len() <= 64 << 10, "{what}: {} bytes: {told}", answer.body.len());
}

#[tokio::test]
async fn worst_bodies_are_refused_and_others_are_served_meanwhile() {
    let provider = PaymentStandIn::start().await;
    let server = server(&provider).await;
    let callers = Callers::new(&server).await;
    let neighbour = Shop::new(&server).await;
    let page = server.send(Request::get("/openapi.json")).await.ok(200);
    let limits = told();
    let (mut seen, most) = (0, pick(256 << 10, 1 << 20));
    for free in free(&page).into_iter().filter(|free| free.takes_json) {
        let bytes = limits[&format!("{} {}", free.method, free.path)].unwrap_or(most).min(most);
        let sent = worst_bodies(bytes).into_iter().enumerate().map(async |(at, body)| {
            let request = callers.request(free.method, &free.path, &free.level, "x").body("application/json", body);
            bounded(&server.send(request).await, &format!("{} {}, body {at}", free.method, free.path));
        });
        let ((), _) = tokio::join!(async { drop(futures_util::future::join_all(sent).await) }, neighbour.me());
        unlock(&server, &free);
        seen += 1;
    }
    assert!(seen >= 25, "{seen}");
    // nobody signed these events, so none was stored
    assert_eq!(server.running().store().pending_provider_events().await.unwrap(), 0);
    assert_eq!((callers.shop.spent().await, callers.shop.stored("").await.len()), (0, 0));
}

#[tokio::test]
async fn worst_paths_queries_and_headers_are_refused() {
    let provider = PaymentStandIn::start().await;
    let server = server(&provider).await;
    let callers = Callers::new(&server).await;
    let page = server.send(Request::get("/openapi.json")).await.ok(200);
    let parts =
        ["%00", "%ff", "%", "%2", "%2e%2e%2f%2e%2e", "%0d%0aX:%201", "💥", &"a".repeat(60_000), &"%41".repeat(20_000)];
    let numbered: String = (0..9_000).map(|at| format!("{at}&")).collect();
    let queries = [
        "a=1&".repeat(15_000),
        numbered,
        format!("limit={}", "9".repeat(60_000)),
        "limit=1e999999&from=99999-99-99&min=-9223372036854775809&max=1e9".to_owned(),
        format!("cursor={}", "A".repeat(60_000)),
        format!("recipient={}", "%25".repeat(20_000)),
        format!("recipient={}&number={0}&session_id={0}", "%F0%9F%92%A5".repeat(1_600)),
        format!("from=%FF&number={}&session_id=%00", "%EF%BC%B4".repeat(6_000)),
        "format=%00&depth=99999999999999999999&scale_bits=-1&bootstrap=1e9&security_level=%ff".to_owned(),
        "=".repeat(60_000),
        "&".repeat(60_000),
    ];
    let long = "x".repeat(60_000);
    let headers = [
        ("Authorization", long.clone()),
        ("Idempotency-Key", long.clone()),
        ("X-Forwarded-For", "1.1.1.1,".repeat(7_500)),
        ("Accept", "a/b;q=0.1,".repeat(6_000)),
        ("Prefer", "respond-async,".repeat(4_000)),
        ("Stripe-Signature", format!("t=1,{}", "v1=00,".repeat(9_000))),
        ("X-Request-Id", long.clone()),
        ("Content-Type", long.clone()),
        ("Content-Encoding", "identity,".repeat(6_000)),
        ("Range", "bytes=0-,".repeat(6_000)),
    ];
    let mut seen = 0;
    let mut all = free(&page);
    // these two end the credential of the others
    all.sort_by_key(|free| free.path.ends_with("/logout") || free.path.ends_with("/rotate"));
    for free in all {
        let mut requests = Vec::new();
        if free.path.contains('{') {
            requests.extend(parts.iter().map(|part| callers.request(free.method, &free.path, &free.level, part)));
        }
        if free.method == "GET" {
            let path = |query: &String| format!("{}?{query}", free.path);
            requests.extend(queries.iter().map(|query| callers.request(free.method, &path(query), &free.level, "x")));
        }
        for (name, value) in &headers {
            requests.push(callers.request(free.method, &free.path, &free.level, "x").header(name, value));
        }
        for request in requests {
            let head = request.head();
            let what: String = head.chars().take(120).collect();
            bounded(&server.send(request).await, &what);
        }
        unlock(&server, &free);
        seen += 1;
    }
    assert!(seen > 70, "{seen}");
}

#[tokio::test]
async fn who_announces_bodies_and_does_not_send_them_holds_up_nobody() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let ingest = shop.set_profile(json!({})).await;
    let mut open = Vec::new();
    for path in ["/v1/reconcile", "/v1/provider/webhook", "/v1/stripe/webhook", &ingest, "/auth/login"] {
        for _ in 0..20 {
            let bytes = if path == "/v1/reconcile" { 10 << 20 } else { 8 << 10 };
            let head = Request::new("POST", path).body("application/json", vec![b'['; bytes]);
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(format!("{}[[[", head.head()).as_bytes()).await.unwrap();
            open.push(stream);
        }
    }
    // all of them are begun, and none has ended
    shop.me().await;
    assert_eq!(shop.post(INVOICES, &invoice()).await.status, 200);
    assert_eq!(shop.post("/v1/reconcile", &json!({"left": [], "right": [], "left_key": "n"})).await.status, 200);
    // an unknown address is refused before its body is read
    let unknown = Request::new("POST", "/v1/ingest/unknown").header("Content-Length", "1048576");
    refused(&server.send(unknown).await, 404, "NOT_FOUND");
}

#[tokio::test]
async fn e9_work_after_the_deadline_is_answered_503_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let server = TestServer::with(|config| {
        config.requests.deadline = Duration::ZERO;
        config.office.audit_log = Some(path);
    })
    .await;
    let shop = Shop::new(&server).await;
    let lists = json!({"left": [], "right": [], "left_key": "n"});
    let payees = json!({"year": 2025, "payees": []});
    for (path, body) in [
        ("/v1/reconcile", lists),
        (INVOICES, invoice()),
        (VERIFY, json!({"numbers": ["T7000012050002"]})),
        ("/v1/registration/monitor", json!({"watch": ["T7000012050002"]})),
        ("/v1/withholding-records", payees),
    ] {
        let late = shop.post(path, &body).await;
        refused(&late, 503, "SERVICE_UNAVAILABLE");
        assert!(late.text().contains("did not finish in time"), "{path} {}", late.text());
    }
    refused(&shop.get("/v1/registration/audit").await, 503, "SERVICE_UNAVAILABLE");
    assert_eq!(shop.spent().await, 0);
}

#[tokio::test]
async fn lists_at_their_limits_are_answered_and_others_are_served_meanwhile() {
    let server = TestServer::start().await;
    let (shop, neighbour) = (Shop::new(&server).await, Shop::new(&server).await);
    let rows = pick(2_000, 20_000);
    // amounts that do not fit, as if a year's invoices were compared with another year's payments
    let side = |unit: u64, names: u64| -> Vec<Value> {
        (0..rows).map(|at| json!({"n": at % names, "a": unit + (at * 7_919) % 100_003})).collect()
    };
    let lists = [
        json!({"left": side(1_000_000_000, rows), "right": side(1_000_000, rows), "left_key": "n", "left_amount": "a"}),
        json!({"left": side(1_000_000_000, rows / 20), "right": side(1_000_000, rows / 20), "left_key": "n", "left_amount": "a"}),
        json!({"left": side(1_000, 1), "right": side(1_000, 1), "left_key": "n"}),
    ];
    for body in &lists {
        let request = Request::post("/v1/reconcile", body);
        let (answer, _) = tokio::join!(server.send(request), neighbour.me());
        let told = answer.ok(200);
        assert_eq!((&told["summary"]["left"], &told["summary"]["right"]), (&json!(rows), &json!(rows)));
        assert!(answer.body.len() < 8 * body.to_string().len(), "{} bytes", answer.body.len());
    }
    let over = json!({"left": vec![json!({"n": 1}); 20_001], "right": [], "left_key": "n"});
    assert_eq!(faults(&server.send(Request::post("/v1/reconcile", &over)).await)[0].0, "too_long");
    // records of 10 MB, most of them of one number
    let record = json!({"registratedNumber": "T7000012050002", "process": "01", "registrationDate": "2023-10-01", "updateDate": "2023-10-01",
        "latest": "1", "name": "x".repeat(400)});
    let count = pick(1 << 20, 9 << 20) / record.to_string().len();
    let look = json!({"numbers": vec!["T7000012050002"; 1_000], "records": vec![record; count], "as_of": "2025-11-30"});
    let (answer, _) = tokio::join!(shop.post(VERIFY, &look), neighbour.me());
    assert_eq!(answer.ok(200)["results"].as_array().unwrap().len(), 1_000);
}
