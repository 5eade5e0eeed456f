//! Limits on requests: counts by day and month, token buckets, and the headers that show the limits (readings section
//! 3).

use std::net::SocketAddr;
use std::time::Duration;

use api::AccountId;
use client::Preset;
use control::admin;
use control::caller::{Environment, Role};
use control::caller::{Plan, PlanLimits, PlanTable, UNLIMITED};
use control::config::Config;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;

use tests_service::gates::{Account, BATCH, CIRCUITS, GATE, SESSIONS, and_netlist, open_session};

const PRICING: &str = "/api/v1/tfhe/pricing";
const HEADERS: [&str; 6] = [
    "x-ratelimit-daily-limit",
    "x-ratelimit-daily-remaining",
    "x-ratelimit-daily-reset",
    "x-ratelimit-monthly-limit",
    "x-ratelimit-monthly-remaining",
    "x-ratelimit-monthly-reset",
];

/// Returns the values of the six rate-limit headers.
#[track_caller]
fn headers(answer: &Response) -> [u64; 6] {
    HEADERS.map(|name| answer.header(name).unwrap_or_else(|| panic!("no {name}")).parse().expect("an integer"))
}

/// Returns the numbers of requests that the caller may still send on this day and in this month.
#[track_caller]
pub fn left(answer: &Response) -> [u64; 2] {
    let values = headers(answer);
    [values[1], values[4]]
}

pub fn limits(requests_a_day: u64, requests_a_month: u64) -> PlanLimits {
    PlanLimits {
        requests_a_day,
        requests_a_month,
        burst_a_second: 100_000,
        open_sessions: UNLIMITED,
        ..PlanTable::default().of(Plan::Free)
    }
}

/// Starts a node whose free plan has these limits.
async fn server(free: PlanLimits) -> TestServer {
    TestServer::with(|config| *config.plan_limits.of_mut(Plan::Free) = free).await
}

/// Makes an account with a key on this plan. Returns the key and the account.
pub async fn key_on(config: &Config, plan: Plan) -> (String, AccountId) {
    let made = admin::create_key(config, Role::AccountAdmin, Environment::Test, None, Some(plan)).await.expect("a key");
    (made.key.to_string(), made.account_id)
}

async fn free_key(server: &TestServer) -> String {
    key_on(server.running().config(), Plan::Free).await.0
}

#[tokio::test]
async fn l4_every_answer_of_every_kind_has_the_six_headers() {
    let server = server(limits(1000, 10_000)).await;
    let key = free_key(&server).await;
    for (request, status) in [
        (Request::get("/health"), 200),
        (Request::new("HEAD", "/api/v1/health"), 200),
        (Request::get(PRICING), 200),
        (Request::get("/docs/errors/NOT_FOUND"), 200),
        (Request::get("/redoc/redoc.standalone.js"), 200),
        (Request::get("/openapi.json"), 200),
        (Request::get("/nowhere"), 404),
        (Request::get("/v1/nowhere"), 404),
        (Request::new("PATCH", GATE), 405),
        (Request::get(SESSIONS), 401),
        (Request::get(SESSIONS).key("nonsense"), 401),
        (Request::get(SESSIONS).key(&key), 200),
        (Request::new("HEAD", SESSIONS).key(&key), 200),
        (Request::post(GATE, &json!({})).key(&key), 422),
        (Request::get("/api/v1/tfhe/session/unknown").key(&key), 404),
    ] {
        let answer = server.send(request.clone()).await;
        assert_eq!(answer.status, status, "{request:?}");
        let [daily, _, day_end, monthly, _, month_end] = headers(&answer);
        assert!(daily >= 1000 && monthly >= 10_000);
        // l3: both ends are times in seconds since 1970 at which a UTC day begins
        let now = server.clock.now().seconds();
        assert!(day_end % 86_400 == 0 && day_end > now && day_end <= now + 86_400);
        assert!(month_end % 86_400 == 0 && month_end >= day_end && month_end <= now + 31 * 86_400);
    }
}

#[tokio::test]
async fn l4_l6_public_routes_are_counted_by_network_and_health_and_pages_never_refused() {
    let server = TestServer::with(|config| config.plan_limits.anonymous = limits(5, 100)).await;
    let pricing = async || server.send(Request::get(PRICING)).await;
    assert_eq!(left(&pricing().await), [4, 99]);
    // on a public route, a request with a key also counts for its network; a request for an unknown path does not count
    let key = free_key(&server).await;
    assert_eq!(left(&server.send(Request::get(PRICING).key(&key)).await), [3, 98]);
    assert_eq!(left(&server.send(Request::get("/nowhere")).await), [3, 98]);
    assert_eq!(left(&server.send(Request::get("/health")).await), [3, 98]);
    for left_over in [2, 1, 0] {
        assert_eq!(left(&pricing().await)[0], left_over);
    }
    let refused = pricing().await;
    refused.error(429, "RATE_LIMITED");
    assert_eq!(left(&refused), [0, 95]);
    for path in ["/health", "/api/v1/health", "/redoc", "/docs/errors"] {
        assert_eq!(server.send(Request::get(path)).await.status, 200, "{path}");
    }
    assert_eq!(server.send(Request::get(SESSIONS).key(&key)).await.status, 200);
}

#[tokio::test]
async fn l5_an_unlimited_plan_shows_the_largest_exact_integer() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let values = headers(&server.send(Request::get(SESSIONS).key(&key)).await);
    assert_eq!([values[0], values[1], values[3], values[4]], [9_007_199_254_740_991; 4]);
}

#[tokio::test]
async fn l1_a_request_counts_one_and_a_refused_one_nothing() {
    let server = server(limits(10, 20)).await;
    let (key, account) = key_on(server.running().config(), Plan::Free).await;
    let list = async || server.send(Request::get(SESSIONS).key(&key)).await;
    assert_eq!(left(&list().await), [9, 19]);
    let session = "/api/v1/tfhe/session/unknown";
    assert_eq!(left(&server.send(Request::get(session).key(&key)).await), [9, 19], "404");
    assert_eq!(left(&server.send(Request::post(GATE, &json!({})).key(&key)).await), [9, 19], "422");
    let viewer = server.create_key(Role::Viewer, Some(account)).await.0;
    let forbidden = server.send(Request::get(SESSIONS).key(&viewer)).await;
    forbidden.error(403, "INSUFFICIENT_ROLE");
    assert_eq!(left(&list().await), [8, 18], "403");
    // a request that is refused with 400 counts
    let bad = Request::new("POST", GATE).body("text/plain", "{}").key(&key);
    assert_eq!(left(&server.send(bad).await), [7, 17], "400");
    // all keys of an account share the account's count
    let reads = Request::get("/api/v1/tfhe/circuits").key(&viewer);
    assert_eq!(left(&server.send(reads).await), [6, 16]);
}

#[tokio::test]
async fn l1_a_batch_and_a_circuit_count_their_gates_and_are_refused_whole() {
    let server = server(limits(20, 100)).await;
    let key = free_key(&server).await;
    let preset = Preset::Fast128;
    let session = open_session(&server, &key, preset).await;
    let account = Account { server: &server, key, session, secret: keys::of(preset) };
    let done = account.post(BATCH, &account.batch("NOT", 5)).await;
    done.ok(200);
    // the request that opened the session counts too
    assert_eq!(left(&done), [14, 94]);
    let circuit = account.circuit(&and_netlist(10), json!([account.value(&[true; 20])]));
    let done = account.post(CIRCUITS, &circuit).await;
    done.ok(200);
    assert_eq!(left(&done), [4, 84]);
    for (path, request) in [(BATCH, account.batch("NOT", 5)), (CIRCUITS, circuit)] {
        let refused = account.post(path, &request).await;
        refused.error(429, "RATE_LIMITED");
        assert_eq!(left(&refused), [4, 84]);
    }
    // a failed request does not count: the session of this batch is unknown
    let mut broken = account.batch("NOT", 4);
    broken["session_id"] = json!("unknown");
    assert_eq!(left(&account.post(BATCH, &broken).await), [4, 84]);
    assert_eq!(left(&account.post(BATCH, &account.batch("NOT", 4)).await), [0, 80]);
}

#[tokio::test]
async fn l7_the_day_s_limit_is_429_until_midnight_and_the_month_s_until_the_first() {
    let server = server(limits(3, 5)).await;
    let key = free_key(&server).await;
    let list = async || server.send(Request::get(SESSIONS).key(&key)).await;
    for left_over in [2, 1, 0] {
        assert_eq!(left(&list().await)[0], left_over);
    }
    let refused = list().await;
    refused.error(429, "RATE_LIMITED");
    let wait = |answer: &Response| answer.header("retry-after").unwrap().parse::<u64>().unwrap();
    let [_, _, day_end, _, _, month_end] = headers(&refused);
    let now = server.clock.now().seconds();
    assert!((day_end - now).abs_diff(wait(&refused)) <= 2);
    if day_end == month_end {
        return; // on the last day of a month the daily and the monthly count begin again at the same time
    }
    server.clock.advance(Duration::from_secs(wait(&refused)));
    assert_eq!(left(&list().await), [2, 1]);
    assert_eq!(left(&list().await), [1, 0]);
    let refused = list().await;
    refused.error(429, "RATE_LIMITED");
    assert!((month_end - server.clock.now().seconds()).abs_diff(wait(&refused)) <= 2);
    server.clock.advance(Duration::from_secs(wait(&refused)));
    assert_eq!(left(&list().await), [2, 4]);
}

#[tokio::test]
async fn l6_a_burst_above_the_plan_s_rate_is_429_for_a_second_at_least_and_costs_no_request() {
    let server = TestServer::with(|config| {
        *config.plan_limits.of_mut(Plan::Free) = PlanLimits { burst_a_second: 1, ..limits(100, 100) };
    })
    .await;
    let (key, account) = key_on(server.running().config(), Plan::Free).await;
    let other = server.create_key(Role::AccountAdmin, Some(account)).await.0;
    let list = async |key: &str| server.send(Request::get(SESSIONS).key(key)).await;
    let mut refused = list(&key).await;
    assert_eq!(refused.status, 200);
    // the bucket gains one token a second. On a slow machine some requests may take a second, but not all 200, so the
    // bucket is empty in the end.
    for _ in 0..200 {
        refused = list(&key).await;
        if refused.status != 200 {
            break;
        }
    }
    refused.error(429, "RATE_LIMITED");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    let left_over = left(&refused);
    // each key has a token bucket, and each account has a count
    let answer = list(&other).await;
    assert_eq!((answer.status, left(&answer)), (200, left_over.map(|left| left - 1)));
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(list(&key).await.status, 200);
}

#[tokio::test]
async fn signing_in_counts_for_bursts_and_lockouts_and_for_no_day_of_its_network() {
    let server = TestServer::with(|config| config.plan_limits.anonymous = limits(3, 5)).await;
    server.user("ada@example.org", Role::AccountAdmin).await;
    for _ in 0..5 {
        let user = server.log_in("ada@example.org").await;
        server.send(Request::post("/auth/refresh", &json!({"refresh_token": user.refresh}))).await.ok(200);
        let keys = server.send(Request::get("/.well-known/jwks.json")).await;
        assert_eq!((keys.status, left(&keys)), (200, [3, 5]));
    }
    for _ in 0..3 {
        server.send(Request::get(PRICING)).await.ok(200);
    }
    server.send(Request::get(PRICING)).await.error(429, "RATE_LIMITED");
    server.log_in("ada@example.org").await;
}

#[tokio::test]
async fn l6_a19_a_rotated_key_and_its_successor_take_from_one_burst() {
    let server = TestServer::with(|config| {
        *config.plan_limits.of_mut(Plan::Free) = PlanLimits { burst_a_second: 1, ..limits(10_000, 10_000) };
    })
    .await;
    let old = free_key(&server).await;
    let rotated = server.send(Request::new("POST", "/api/v1/keys/apikey/rotate").key(&old)).await.ok(200);
    let new = rotated["key"].as_str().unwrap();
    let list = async |key: &str| server.send(Request::get(SESSIONS).key(key)).await;
    // in each round a bucket gains one token, and each key takes one: a bucket that both keys share is soon empty, but
    // two separate buckets never are. On a slow machine some rounds may take more than a second, but not all 200.
    for _ in 0..200 {
        server.clock.advance(Duration::from_secs(1));
        list(&old).await.ok(200);
        let second = list(new).await;
        if second.status != 200 {
            second.error(429, "RATE_LIMITED");
            return;
        }
    }
    panic!("the successor has another token bucket");
}

/// A limit of requests a day, and a crowd of requests that is twice as large.
pub fn crowd() -> (u64, usize) {
    tests_extent::pick((200, 400), (1000, 2000))
}

/// Sends this many requests at once, spread over these nodes. Returns the number of accepted requests.
pub async fn race(servers: &[&TestServer], key: &str, requests: usize) -> usize {
    let addresses = servers.iter().map(|server| server.address).collect();
    passed(addresses, Request::get(SESSIONS).key(key), 50, requests).await
}

/// Sends a request so often, in lanes that each send one after another to these addresses in turns. Returns how often it was
/// accepted.
pub async fn passed(addresses: Vec<SocketAddr>, request: Request, lanes: usize, requests: usize) -> usize {
    let tasks: Vec<_> = (0..lanes)
        .map(|lane| {
            let (addresses, request) = (addresses.clone(), request.clone());
            tokio::spawn(async move {
                let mut passed = 0;
                for turn in 0..requests / lanes {
                    let answer = request.send(addresses[(lane + turn) % addresses.len()]).await;
                    match answer.status {
                        200 => passed += 1,
                        _ => drop(answer.error(429, "RATE_LIMITED")),
                    }
                }
                passed
            })
        })
        .collect();
    let mut passed = 0;
    for task in tasks {
        passed += task.await.unwrap();
    }
    passed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_of_concurrent_requests_exactly_the_limit_passes_and_a_restart_changes_nothing() {
    let (limit, requests) = crowd();
    let free = limits(limit, 10_000);
    let server = server(free).await;
    let key = free_key(&server).await;
    assert_eq!(race(&[&server], &key, requests).await as u64, limit);
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, |config| *config.plan_limits.of_mut(Plan::Free) = free).await;
    let refused = server.send(Request::get(SESSIONS).key(&key)).await;
    refused.error(429, "RATE_LIMITED");
    assert_eq!(left(&refused), [0, 10_000 - limit]);
}

#[tokio::test]
async fn l1_a_count_far_from_its_limit_survives_a_restart_to_the_last_request() {
    let server = server(limits(1000, 10_000)).await;
    let key = free_key(&server).await;
    for _ in 0..7 {
        server.send(Request::get(SESSIONS).key(&key)).await.ok(200);
    }
    let folder = server.stop().await;
    let server =
        TestServer::in_folder(folder, |config| *config.plan_limits.of_mut(Plan::Free) = limits(1000, 10_000)).await;
    assert_eq!(left(&server.send(Request::get(SESSIONS).key(&key)).await), [992, 9992]);
}

#[tokio::test]
async fn l2_limits_of_a_plan_are_those_of_the_operator_s_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ango.toml");
    std::fs::write(&path, "[plans.free]\nrequests-a-day = 7\nrequests-a-month = \"unlimited\"").unwrap();
    let path = path.to_str().unwrap().to_owned();
    let (config, _) = Config::read(|_| None, |name| (name == "ANGO_CONFIG").then(|| path.clone())).unwrap();
    let server = TestServer::with(|settings| settings.plan_limits = config.plan_limits).await;
    let key = free_key(&server).await;
    let values = headers(&server.send(Request::get(SESSIONS).key(&key)).await);
    assert_eq!([values[0], values[1], values[3], values[4]], [7, 6, UNLIMITED, UNLIMITED]);
}

#[tokio::test]
async fn l1_a_trial_key_shows_its_operations_for_the_day_and_the_month() {
    let server = TestServer::start().await;
    let made = server.send(Request::new("POST", "/api/v1/onboarding/temp-key")).await.ok(200);
    let key = made["key"].as_str().unwrap().to_owned();
    let preset = Preset::Fast128;
    let session = open_session(&server, &key, preset).await;
    let account = Account { server: &server, key, session, secret: keys::of(preset) };
    let shown = async || headers(&account.send(Request::get(account.path(""))).await);
    let [daily, daily_left, _, monthly, monthly_left, _] = shown().await;
    assert_eq!([daily, daily_left, monthly, monthly_left], [10; 4]);
    let done = account.post(BATCH, &account.batch("NOT", 4)).await;
    assert_eq!((done.status, left(&done)), (200, [6, 6]));
    let refused = account.post(BATCH, &account.batch("NOT", 7)).await;
    refused.error(402, "TRIAL_OPS_EXHAUSTED");
    assert_eq!(left(&refused), [6, 6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_two_nodes_on_one_database_let_exactly_the_limit_pass_together() {
    let (limit, requests) = crowd();
    let free = limits(limit, 10_000);
    let nodes = TestServer::pair(|config| *config.plan_limits.of_mut(Plan::Free) = free).await;
    let Some((one, other)) = nodes else { return };
    let key = free_key(&one).await;
    assert_eq!(race(&[&one, &other], &key, requests).await as u64, limit);
    for server in [&one, &other] {
        let refused = server.send(Request::get(SESSIONS).key(&key)).await;
        refused.error(429, "RATE_LIMITED");
        assert_eq!(left(&refused)[0], 0);
    }
}
