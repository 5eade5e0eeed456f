//! Nodes that share a Redis (readings L6, L10, A17, A21, O2): the state that the nodes share through Redis, and the
//! nodes' work without Redis.

use std::time::{Duration, Instant};

use control::admin::lockouts::LockoutChoice;
use control::caller::Role;
use control::caller::{Plan, PlanLimits};
use control::config::Config;
use serde_json::json;
use store::Settlement;
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::redis::Redis;

use crate::limits::{crowd, key_on, left, limits, race};
use tests_service::gates::SESSIONS;

const TEMP_KEY: &str = "/api/v1/onboarding/temp-key";
const USER_KEYS: &str = "/api/v1/user/api-keys";
/// A time longer than any test. A node that caches data of the database for this time learns news only through Redis.
const NOT_BY_THEMSELVES: Duration = Duration::from_secs(24 * 3600);

/// Starts two nodes that share this cache store, and waits until both nodes have opened the store.
async fn pair(redis: &Redis, change: impl Fn(&mut Config)) -> Option<(TestServer, TestServer)> {
    let pair = TestServer::pair(|config| {
        config.cache_store = Some(redis.config());
        change(config);
    });
    let (one, other) = pair.await?;
    for server in [&one, &other] {
        is_open(server, true).await;
    }
    Some((one, other))
}

async fn is_open(server: &TestServer, open: bool) {
    server.metric_becomes("ango_cache_store_open", |value| (value == 1.0) == open).await;
}

async fn list(server: &TestServer, key: &str) -> Response {
    server.send(Request::get(SESSIONS).key(key)).await
}

/// Sends a request until the answer has this status.
async fn becomes(server: &TestServer, request: Request, status: u16) {
    let asked = Instant::now();
    loop {
        let answer = server.send(request.clone()).await;
        if answer.status == status {
            return;
        }
        assert!(asked.elapsed() < PATIENCE, "{request:?} stays {}", answer.status);
    }
}

/// Asks for health until the node has this status. Returns what health says about the cache store.
async fn health_becomes(server: &TestServer, status: &str) -> serde_json::Value {
    let asked = Instant::now();
    loop {
        let health = server.send(Request::get("/api/v1/health")).await.ok(200);
        if health["status"] == status {
            let dependencies = health["dependencies"].as_array().unwrap();
            return dependencies
                .iter()
                .find(|one| one["name"] == "redis")
                .expect("health lists the cache store")
                .clone();
        }
        assert!(asked.elapsed() < PATIENCE, "{health}");
    }
}

/// Returns the number of the account's requests today, as the database counts them.
async fn known_to_the_database(server: &TestServer, account: &str) -> i64 {
    let day = server.clock.now().0 / 86_400_000_000;
    // the test reads only the day's count, so the month stays unset
    let question = Settlement { subject: account.to_owned(), day, ..Settlement::default() };
    server.running().store().settle_requests(std::slice::from_ref(&question)).await.unwrap()[0].day_used
}

/// Waits until the database counts this many requests of the account today.
async fn database_knows(server: &TestServer, account: &str, used: i64) {
    let asked = Instant::now();
    loop {
        let known = known_to_the_database(server, account).await;
        if known == used {
            return;
        }
        assert!(asked.elapsed() < PATIENCE, "the database has {known}");
    }
}

fn free(limits: PlanLimits) -> impl Fn(&mut Config) {
    move |config| *config.plan_limits.of_mut(Plan::Free) = limits
}

#[tokio::test]
async fn l6_nodes_share_a_key_s_bucket() {
    let Some(redis) = Redis::start() else { return };
    let rate = 20;
    let both = pair(&redis, free(PlanLimits { burst_a_second: rate, ..limits(100_000, 100_000) })).await;
    let Some((one, other)) = both else { return };
    let (key, _) = key_on(one.running().config(), Plan::Free).await;
    let (started, mut passed, mut refused) = (Instant::now(), 0, 0);
    for number in 0..400 {
        let answer = list(if number % 2 == 0 { &one } else { &other }, &key).await;
        match answer.status {
            200 => passed += 1,
            _ => {
                answer.error(429, "RATE_LIMITED");
                refused += 1;
            }
        }
    }
    let tokens = f64::from(rate) * (1.0 + started.elapsed().as_secs_f64());
    assert!(f64::from(passed) <= tokens + 1.0, "{passed} of {tokens}");
    assert!(passed >= rate && passed + refused == 400);
    assert!(redis.command(&["KEYS", "ango:burst:*"]).contains("ango:burst:lin_"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_two_nodes_let_exactly_the_limit_pass_and_an_emptied_cache_store_changes_nothing() {
    let Some(redis) = Redis::start() else { return };
    let (limit, requests) = crowd();
    let Some((one, other)) = pair(&redis, free(limits(limit, 10_000))).await else { return };
    let (key, account) = key_on(one.running().config(), Plan::Free).await;
    assert_eq!(race(&[&one, &other], &key, requests).await as u64, limit);
    database_knows(&one, account.as_str(), limit as i64).await;
    redis.command(&["FLUSHALL"]);
    for server in [&one, &other] {
        let refused = list(server, &key).await;
        refused.error(429, "RATE_LIMITED");
        assert_eq!(left(&refused)[0], 0);
    }
    // as long as the limit is far, nodes admit a request without asking the database first
    let (key, account) = key_on(one.running().config(), Plan::Free).await;
    for server in [&one, &other, &one] {
        list(server, &key).await.ok(200);
    }
    database_knows(&one, account.as_str(), 3).await;
    redis.command(&["FLUSHALL"]);
    for server in [&one, &other] {
        list(server, &key).await.ok(200);
    }
    database_knows(&other, account.as_str(), 5).await;
}

#[tokio::test]
async fn l1_a_count_survives_a_restart_of_the_node_with_and_without_the_cache_store() {
    let Some(redis) = Redis::start() else { return };
    let with = |config: &mut Config| {
        config.cache_store = Some(redis.config());
        free(limits(100, 1000))(config);
    };
    let server = TestServer::with(with).await;
    is_open(&server, true).await;
    let (key, _) = key_on(server.running().config(), Plan::Free).await;
    for _ in 0..7 {
        list(&server, &key).await.ok(200);
    }
    let server = TestServer::in_folder(server.stop().await, with).await;
    assert_eq!(left(&list(&server, &key).await), [92, 992]);
    let server = TestServer::in_folder(server.stop().await, free(limits(100, 1000))).await;
    assert_eq!(left(&list(&server, &key).await), [91, 991]);
    let server = TestServer::in_folder(server.stop().await, with).await;
    assert_eq!(left(&list(&server, &key).await), [90, 990]);
}

#[tokio::test]
async fn a21_a_lock_is_one_on_every_node_without_waiting_and_so_is_its_end() {
    let Some(redis) = Redis::start() else { return };
    let both = pair(&redis, |config| config.believed_for = NOT_BY_THEMSELVES).await;
    let Some((one, other)) = both else { return };
    let key = one.key(Role::AccountAdmin).await;
    // ten failures on one node and ten on the other
    for number in 0..20 {
        let server = if number % 2 == 0 { &one } else { &other };
        list(server, &format!("svc_live_{number:032x}")).await.error(401, "INVALID_API_KEY");
    }
    for server in [&one, &other] {
        becomes(server, Request::get(SESSIONS).key(&key), 429).await;
        list(server, &key).await.error(429, "BRUTE_FORCE_LOCKOUT");
    }
    let operator = one.operator().await;
    assert!(operator.clear_lockouts(one.running().config(), &LockoutChoice::All).await.unwrap() >= 1);
    for server in [&one, &other] {
        becomes(server, Request::get(SESSIONS).key(&key), 200).await;
    }
}

#[tokio::test]
async fn a17_revoked_keys_and_ended_tokens_are_refused_by_every_node_without_waiting() {
    let Some(redis) = Redis::start() else { return };
    let both = pair(&redis, |config| {
        config.believed_for = NOT_BY_THEMSELVES;
        config.public_url = Some("https://fhe.example.org".to_owned());
    })
    .await;
    let Some((one, other)) = both else { return };

    // the operator revokes a key
    let key = one.key(Role::AccountAdmin).await;
    list(&other, &key).await.ok(200);
    let operator = one.operator().await;
    let key_id = operator.keys(None).await.unwrap()[0].key_id.parse().unwrap();
    operator.revoke_key(&key_id).await.unwrap();
    becomes(&other, Request::get(SESSIONS).key(&key), 401).await;

    // the owner of a trial revokes the trial key
    let trial = one.send(Request::new("POST", TEMP_KEY)).await.ok(200)["key"].as_str().unwrap().to_owned();
    let session = Request::get("/api/v1/tfhe/session/unknown").key(&trial);
    other.send(session.clone()).await.error(404, "SESSION_NOT_FOUND");
    one.send(Request::delete(format!("{TEMP_KEY}/{trial}"))).await.ok(200);
    becomes(&other, session, 401).await;

    // a user logs out
    let user = one.user("ada@example.org", Role::AccountAdmin).await;
    let body = json!({"environment": "live", "role": "account_admin"});
    let made = one.send(Request::post(USER_KEYS, &body).key(&user.token)).await.ok(201);
    let key = made["key"].as_str().unwrap();
    list(&other, key).await.ok(200);
    let path = format!("{USER_KEYS}/{}", made["key_id"].as_str().unwrap());
    assert_eq!(one.send(Request::delete(path).key(&user.token)).await.status, 204);
    becomes(&other, Request::get(SESSIONS).key(key), 401).await;
    other.send(Request::get(USER_KEYS).key(&user.token)).await.ok(200);
    one.send(Request::new("POST", "/api/v1/user/logout").key(&user.token)).await.ok(200);
    becomes(&other, Request::get(USER_KEYS).key(&user.token), 401).await;
}

#[tokio::test]
async fn a17_news_that_were_missed_while_the_cache_store_was_away_are_caught_up_with() {
    let Some(mut redis) = Redis::start() else { return };
    let both = pair(&redis, |config| config.believed_for = NOT_BY_THEMSELVES).await;
    let Some((one, other)) = both else { return };
    let key = one.key(Role::AccountAdmin).await;
    list(&other, &key).await.ok(200);
    redis.kill();
    is_open(&other, false).await;
    let operator = one.operator().await;
    let key_id = operator.keys(None).await.unwrap()[0].key_id.parse().unwrap();
    operator.revoke_key(&key_id).await.unwrap();
    // the other node still trusts its cached answer
    list(&other, &key).await.ok(200);
    redis.start_again();
    becomes(&other, Request::get(SESSIONS).key(&key), 401).await;
}

#[tokio::test]
async fn a17_without_the_cache_store_a_revoked_key_is_refused_as_ever() {
    let Some(mut redis) = Redis::start() else { return };
    let Some((one, other)) = pair(&redis, |_| ()).await else { return };
    let key = one.key(Role::AccountAdmin).await;
    redis.kill();
    list(&other, &key).await.ok(200);
    let operator = one.operator().await;
    let key_id = operator.keys(None).await.unwrap()[0].key_id.parse().unwrap();
    operator.revoke_key(&key_id).await.unwrap();
    becomes(&other, Request::get(SESSIONS).key(&key), 401).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l10_a_cache_store_that_dies_under_load_costs_no_request_and_passes_no_limit() {
    let Some(mut redis) = Redis::start() else { return };
    let (limit, requests) = crowd();
    let server = TestServer::with(|config| {
        config.cache_store = Some(redis.config());
        free(limits(limit, 10_000))(config);
    })
    .await;
    assert_eq!(health_becomes(&server, "healthy").await["status"], "healthy");
    let (key, account) = key_on(server.running().config(), Plan::Free).await;
    let kill_at_some_point = async {
        let asked = Instant::now();
        while known_to_the_database(&server, account.as_str()).await < 100 {
            assert!(asked.elapsed() < PATIENCE, "no request is counted");
            tokio::task::yield_now().await;
        }
        redis.kill();
    };
    let servers = [&server];
    let (passed, ()) = tokio::join!(race(&servers, &key, requests), kill_at_some_point);
    assert_eq!(passed as u64, limit);

    let down = health_becomes(&server, "degraded").await;
    assert_eq!((&down["status"], down["error"].is_string()), (&json!("unavailable"), true));
    assert_eq!(server.send(Request::get("/health")).await.ok(200)["status"], "degraded");
    assert_eq!(server.operations_get("/readyz").await.status, 200);
    // without Redis, this node still locks a network that sends many wrong keys
    for _ in 0..10 {
        list(&server, "nonsense").await.error(401, "INVALID_API_KEY");
    }
    list(&server, "nonsense").await.error(429, "BRUTE_FORCE_LOCKOUT");
    // without Redis, use is still counted in the database
    let (other_key, other_account) = key_on(server.running().config(), Plan::Free).await;
    for _ in 0..3 {
        list(&server, &other_key).await.ok(200);
    }

    redis.start_again();
    is_open(&server, true).await;
    assert_eq!(health_becomes(&server, "healthy").await["status"], "healthy");
    list(&server, &key).await.error(429, "RATE_LIMITED");
    assert_eq!(left(&list(&server, &other_key).await), [limit - 4, 9996]);
    database_knows(&server, account.as_str(), limit as i64).await;
    database_knows(&server, other_account.as_str(), 4).await;
}

#[tokio::test]
async fn o2_a_node_starts_without_its_cache_store_and_takes_it_when_it_comes() {
    let Some(mut redis) = Redis::start() else { return };
    redis.kill();
    let server = TestServer::with(|config| config.cache_store = Some(redis.config())).await;
    let key = server.key(Role::AccountAdmin).await;
    list(&server, &key).await.ok(200);
    assert_eq!(health_becomes(&server, "degraded").await["status"], "unavailable");
    redis.start_again();
    is_open(&server, true).await;
    list(&server, &key).await.ok(200);
}

#[tokio::test]
async fn l10_a_cache_store_that_hangs_is_waited_for_once() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::with(|config| {
        let patience = Duration::from_secs(2);
        config.cache_store = Some(control::cache_store::CacheStoreConfig { patience, ..redis.config() });
    })
    .await;
    is_open(&server, true).await;
    let key = server.key(Role::AccountAdmin).await;
    list(&server, &key).await.ok(200);
    redis.hang(true);
    is_open(&server, false).await;
    // 60 requests would take two minutes if each waited two seconds for the cache store
    let started = Instant::now();
    for _ in 0..60 {
        list(&server, &key).await.ok(200);
    }
    assert!(started.elapsed() < Duration::from_secs(110), "requests wait for the cache store");
    redis.hang(false);
    is_open(&server, true).await;
}

#[tokio::test]
async fn a17_what_is_no_message_of_a_node_changes_nothing() {
    let Some(redis) = Redis::start() else { return };
    let both = pair(&redis, |config| config.believed_for = NOT_BY_THEMSELVES).await;
    let Some((one, other)) = both else { return };
    let key = one.key(Role::AccountAdmin).await;
    list(&other, &key).await.ok(200);
    for message in [
        "",
        "garbage",
        "{}",
        r#"{"version":2,"from":"","news":"lockouts"}"#,
        r#"{"version":1,"from":"","news":"open_the_door"}"#,
        r#"{"version":1,"from":"","news":{"keys":{"lineage":7}}}"#,
        r#"{"version":1,"from":"","news":{"keys":{"lineage":"unknown"}}}"#,
        r#"{"version":1,"from":"","news":"tokens","more":1}"#,
        &format!(r#"{{"version":1,"from":"{}","news":"tokens"}}"#, "x".repeat(2000)),
        &"[".repeat(100_000),
    ] {
        // the answer "2" means that both nodes received the message
        assert_eq!(redis.command(&["PUBLISH", "ango:news", message]), "2", "{message}");
    }
    list(&other, &key).await.ok(200);
    // both nodes still listen after the bad messages
    let operator = one.operator().await;
    let key_id = operator.keys(None).await.unwrap()[0].key_id.parse().unwrap();
    operator.revoke_key(&key_id).await.unwrap();
    becomes(&other, Request::get(SESSIONS).key(&key), 401).await;
    is_open(&other, true).await;
}
