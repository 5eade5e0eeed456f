//! Who tries too many wrong credentials is locked (specification, Authentication 8; readings A20, A21).

use std::time::{Duration, Instant};

use control::admin::Operator;
use control::admin::lockouts::Forgiven;
use control::auth::Role;
use serde_json::json;
use tests::TestServer;
use tests::http::{Request, Response};

use crate::client::SESSIONS;

const MINUTE: Duration = Duration::from_secs(60);

/// A node behind a proxy on the same machine, so that tests come from any address.
async fn server() -> TestServer {
    TestServer::with(behind_a_proxy).await
}

fn behind_a_proxy(config: &mut control::config::Config) {
    config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
}

async fn list(server: &TestServer, key: &str, from: &str) -> Response {
    server.send(Request::get(SESSIONS).key(key).header("X-Forwarded-For", from)).await
}

fn made_up(number: usize) -> String {
    format!("svc_live_{number:032x}")
}

#[track_caller]
fn wait(answer: &Response) -> u64 {
    answer.error(429, "BRUTE_FORCE_LOCKOUT");
    answer.header("retry-after").unwrap().parse().unwrap()
}

/// Wrong attempts with different keys: until the network would be locked by one more.
async fn nineteen_failures(server: &TestServer, from: &str) {
    for number in 0..19 {
        list(server, &made_up(number), from).await.error(401, "INVALID_API_KEY");
    }
}

#[tokio::test]
async fn a21_ten_attempts_with_one_key_are_401_and_the_next_429_from_anywhere_for_fifteen_minutes() {
    let server = server().await;
    for number in 0..10 {
        list(&server, "nonsense", &format!("192.0.2.{number}")).await.error(401, "INVALID_API_KEY");
    }
    let left = wait(&list(&server, "nonsense", "192.0.2.200").await);
    assert!((898..=900).contains(&left), "{left}");
    // whose own key it is not, is not locked
    let key = server.key(Role::AccountAdmin).await;
    list(&server, &key, "192.0.2.0").await.ok(200);
    server.clock.advance(14 * MINUTE);
    assert!(wait(&list(&server, "nonsense", "192.0.2.1").await) <= 60);
    server.clock.advance(MINUTE);
    list(&server, "nonsense", "192.0.2.1").await.error(401, "INVALID_API_KEY");
}

#[tokio::test]
async fn a20_a_known_prefix_locks_nobody_out() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    for number in 0..40 {
        let guess = format!("{}{number:016x}", &key[..key.len() - 16]);
        list(&server, &guess, &format!("192.0.2.{number}")).await.error(401, "INVALID_API_KEY");
    }
    list(&server, &key, "192.0.2.0").await.ok(200);
}

#[tokio::test]
async fn a21_twenty_attempts_lock_an_address_for_every_authenticated_route_and_no_public_one() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    nineteen_failures(&server, "192.0.2.1").await;
    // success does not make failures undone
    list(&server, &key, "192.0.2.1").await.ok(200);
    list(&server, &made_up(19), "192.0.2.1").await.error(401, "INVALID_API_KEY");
    let left = wait(&list(&server, &key, "192.0.2.1").await);
    assert!((898..=900).contains(&left), "{left}");
    let from = |request: Request| request.header("X-Forwarded-For", "192.0.2.1");
    wait(&server.send(from(Request::delete("/api/v1/tfhe/session/x").key(&key))).await);
    wait(&server.send(from(Request::get(SESSIONS))).await);
    for path in ["/api/v1/tfhe/pricing", "/api/v1/models", "/health", "/redoc"] {
        assert_eq!(server.send(from(Request::get(path))).await.status, 200, "{path}");
    }
    list(&server, &key, "192.0.2.2").await.ok(200);
    server.clock.advance(15 * MINUTE);
    list(&server, &key, "192.0.2.1").await.ok(200);
}

#[tokio::test]
async fn a21_the_window_of_five_minutes_slides() {
    let server = server().await;
    nineteen_failures(&server, "192.0.2.1").await;
    server.clock.advance(4 * MINUTE);
    // now the first nineteen are gone
    server.clock.advance(MINUTE);
    for number in 100..119 {
        list(&server, &made_up(number), "192.0.2.1").await.error(401, "INVALID_API_KEY");
    }
    server.clock.advance(4 * MINUTE);
    list(&server, &made_up(200), "192.0.2.1").await.error(401, "INVALID_API_KEY");
    wait(&list(&server, &made_up(201), "192.0.2.1").await);
}

#[tokio::test]
async fn a21_requests_without_a_key_count_for_nobody() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    for _ in 0..30 {
        let request = Request::get(SESSIONS).header("X-Forwarded-For", "192.0.2.1");
        server.send(request).await.error(401, "MISSING_AUTH_HEADER");
    }
    list(&server, &key, "192.0.2.1").await.ok(200);
}

#[tokio::test]
async fn a8_an_api_key_on_a_route_of_the_dashboard_is_refused_and_counts_for_nobody() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    for _ in 0..30 {
        let misplaced = Request::get("/api/v1/user/api-keys").key(&key).header("X-Forwarded-For", "192.0.2.1");
        server.send(misplaced).await.error(401, "INVALID_SESSION_TOKEN");
    }
    list(&server, &key, "192.0.2.1").await.ok(200);
}

#[tokio::test]
async fn a13_guesses_of_trial_keys_count_for_the_address() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    nineteen_failures(&server, "192.0.2.1").await;
    let guess = Request::delete("/api/v1/onboarding/temp-key/svc_trial_000000").header("X-Forwarded-For", "192.0.2.1");
    server.send(guess.clone()).await.error(404, "KEY_NOT_FOUND");
    wait(&list(&server, &key, "192.0.2.1").await);
    // the route itself is public: it goes on
    server.send(guess).await.error(404, "KEY_NOT_FOUND");
}

#[tokio::test]
async fn a21_wrong_passwords_count_for_the_address_which_then_cannot_sign_in() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    nineteen_failures(&server, "192.0.2.1").await;
    let body = json!({"email": "nobody@example.org", "password": "a wrong one, long enough"});
    let sign_in =
        async || server.send(Request::post("/auth/login", &body).header("X-Forwarded-For", "192.0.2.1")).await;
    sign_in().await.error(401, "INVALID_CREDENTIALS");
    wait(&sign_in().await);
    wait(&list(&server, &key, "192.0.2.1").await);
}

#[tokio::test]
async fn a22_ipv6_callers_are_locked_by_their_slash_64() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    for number in 0..20 {
        list(&server, &made_up(number), &format!("2001:db8:1:2::{number:x}")).await.error(401, "INVALID_API_KEY");
    }
    wait(&list(&server, &key, "2001:db8:1:2:ffff::1").await);
    list(&server, &key, "2001:db8:1:3::1").await.ok(200);
}

#[tokio::test]
async fn a21_a_lock_survives_a_restart() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    nineteen_failures(&server, "192.0.2.1").await;
    nineteen_failures(&server, "192.0.2.2").await;
    list(&server, "nonsense", "192.0.2.1").await.error(401, "INVALID_API_KEY");
    wait(&list(&server, &key, "192.0.2.1").await);
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, behind_a_proxy).await;
    wait(&list(&server, &key, "192.0.2.1").await);
    // nor are failures forgotten that did not lock yet
    list(&server, "nonsense", "192.0.2.2").await.error(401, "INVALID_API_KEY");
    wait(&list(&server, &key, "192.0.2.2").await);
}

#[tokio::test]
async fn a21_an_operator_sees_locks_and_ends_them() {
    let server = server().await;
    let key = server.key(Role::AccountAdmin).await;
    nineteen_failures(&server, "192.0.2.1").await;
    list(&server, &made_up(19), "192.0.2.1").await.error(401, "INVALID_API_KEY");
    wait(&list(&server, &key, "192.0.2.1").await);
    let config = server.running().config();
    let operator = Operator::open(config).await.unwrap();
    let asked = Instant::now();
    let locked = loop {
        let locked = operator.lockouts().await.unwrap();
        if !locked.is_empty() {
            break locked;
        }
        assert!(asked.elapsed() < MINUTE, "the lock is not told");
    };
    assert_eq!((locked.len(), locked[0].kind.as_str(), &locked[0].key_id), (1, "address", &None));
    let forgiven = Forgiven::Address("192.0.2.1".parse().unwrap());
    assert_eq!(operator.clear_lockouts(config, &forgiven).await.unwrap(), 1);
    assert!(operator.clear_lockouts(config, &forgiven).await.is_err());
    assert!(operator.lockouts().await.unwrap().is_empty());
    while list(&server, &key, "192.0.2.1").await.status != 200 {
        assert!(asked.elapsed() < MINUTE, "the node does not learn of it");
    }
}

#[tokio::test]
async fn a21_a_lock_on_one_node_is_one_on_every_node() {
    let Some((one, other)) = TestServer::pair(behind_a_proxy).await else { return };
    let key = one.key(Role::AccountAdmin).await;
    // ten here and ten there
    for number in 0..20 {
        let server = if number % 2 == 0 { &one } else { &other };
        list(server, &made_up(number), "192.0.2.1").await.error(401, "INVALID_API_KEY");
    }
    let asked = Instant::now();
    for server in [&one, &other] {
        while list(server, &key, "192.0.2.1").await.status == 200 {
            assert!(asked.elapsed() < MINUTE, "the nodes do not learn of it");
        }
        wait(&list(server, &key, "192.0.2.1").await);
    }
}
