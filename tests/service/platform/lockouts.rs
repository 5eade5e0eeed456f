//! Lockouts after too many wrong credentials (specification, Authentication 8; readings A20, A21).

use std::time::{Duration, Instant};

use control::admin::Operator;
use control::admin::lockouts::LockoutChoice;
use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::users::PASSWORD;

use tests_service::gates::SESSIONS;

const MINUTE: Duration = Duration::from_secs(60);

/// Starts a node that trusts a proxy on the same machine, so that a test can send from any client address.
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

/// Makes nineteen wrong attempts with different keys. One more attempt would lock the network.
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
    // the wrong key is locked, not the address: a valid key still works
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
    // a success does not erase failures
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
    // a minute later, the first nineteen failures are too old to count
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
    // a lock affects only routes that need a key; this route needs none, so it still answers
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
    // the failures of the other address still count after the restart
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
        assert!(asked.elapsed() < MINUTE, "the lock was not shared");
    };
    assert_eq!((locked.len(), locked[0].kind, &locked[0].key_id), (1, "address", &None));
    let forgiven = LockoutChoice::Address("192.0.2.1".parse().unwrap());
    assert_eq!(operator.clear_lockouts(config, &forgiven).await.unwrap(), 1);
    assert!(operator.clear_lockouts(config, &forgiven).await.is_err());
    assert!(operator.lockouts().await.unwrap().is_empty());
    while list(&server, &key, "192.0.2.1").await.status != 200 {
        assert!(asked.elapsed() < MINUTE, "the node did not read the lock");
    }
}

#[tokio::test]
async fn a21_a_lock_on_one_node_is_one_on_every_node() {
    let Some((one, other)) = TestServer::pair(behind_a_proxy).await else { return };
    let key = one.key(Role::AccountAdmin).await;
    // ten failures on one node and ten on the other
    for number in 0..20 {
        let server = if number % 2 == 0 { &one } else { &other };
        list(server, &made_up(number), "192.0.2.1").await.error(401, "INVALID_API_KEY");
    }
    let asked = Instant::now();
    for server in [&one, &other] {
        while list(server, &key, "192.0.2.1").await.status == 200 {
            assert!(asked.elapsed() < MINUTE, "the nodes did not share the failures");
        }
        wait(&list(server, &key, "192.0.2.1").await);
    }
}

/// Tries to sign in from this address.
async fn sign_in(server: &TestServer, email: &str, password: &str, from: &str) -> Response {
    let body = json!({"email": email, "password": password});
    server.send(Request::post("/auth/login", &body).header("X-Forwarded-For", from)).await
}

/// Sends this many wrong passwords, each from another address and after the longest wait.
async fn wrong_passwords(server: &TestServer, email: &str, count: usize) {
    for number in 0..count {
        server.clock.advance(LONGEST_WAIT);
        let from = format!("198.51.{}.{}", number / 200, number % 200);
        sign_in(server, email, "a wrong one, long enough", &from).await.error(401, "INVALID_CREDENTIALS");
    }
}

const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

#[tokio::test]
async fn a_user_s_wait_grows_with_wrong_passwords_from_whatever_address_and_is_forgotten_by_the_right_one() {
    let server = server().await;
    server.user("ada@example.org", Role::AccountAdmin).await;
    for email in ["ada@example.org", "nobody@example.org"] {
        wrong_passwords(&server, email, 10).await;
        let left = wait(&sign_in(&server, email, PASSWORD, "192.0.2.1").await);
        assert!((1..=16).contains(&left), "{left}");
        wrong_passwords(&server, email, 2).await;
        let left = wait(&sign_in(&server, email, PASSWORD, "192.0.2.2").await);
        assert!((17..=64).contains(&left), "{left}");
        // the wait is bounded, so that a stranger cannot lock a user out for ever
        wrong_passwords(&server, email, 20).await;
        let left = wait(&sign_in(&server, email, PASSWORD, "192.0.2.3").await);
        assert!((250..=300).contains(&left), "{left}");
    }
    // a refused attempt does not lengthen the wait, and other users can sign in
    server.user("bob@example.org", Role::Viewer).await;
    server.clock.advance(LONGEST_WAIT);
    sign_in(&server, "Ada@example.org ", PASSWORD, "192.0.2.4").await.ok(200);
    for _ in 0..5 {
        sign_in(&server, "ada@example.org", "wrong again", "192.0.2.5").await.error(401, "INVALID_CREDENTIALS");
    }
    sign_in(&server, "ada@example.org", PASSWORD, "192.0.2.5").await.ok(200);
}

#[tokio::test]
async fn a_user_s_wait_counts_a_wrong_current_password_too() {
    let server = server().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let change = async |current: &str| {
        let body = json!({"current_password": current, "new_password": "another good password"});
        server.send(Request::post("/auth/password", &body).key(&user.token)).await
    };
    for _ in 0..12 {
        server.clock.advance(LONGEST_WAIT / 2);
        change("not the password").await.error(401, "INVALID_CREDENTIALS");
    }
    wait(&change(PASSWORD).await);
    wait(&sign_in(&server, "ada@example.org", PASSWORD, "192.0.2.10").await);
}

#[tokio::test]
async fn a_user_s_wait_on_one_node_is_one_on_every_node() {
    let Some((one, other)) = TestServer::pair(behind_a_proxy).await else { return };
    one.user("ada@example.org", Role::AccountAdmin).await;
    let key = one.key(Role::AccountAdmin).await;
    wrong_passwords(&one, "ada@example.org", 15).await;
    // news arrives in sequence: when the other node knows these failures and so locks the network, it already knows of
    // the wrong passwords above
    for number in 0..20 {
        list(&one, &made_up(number), "192.0.2.1").await.error(401, "INVALID_API_KEY");
    }
    let asked = Instant::now();
    while list(&other, &key, "192.0.2.1").await.status == 200 {
        assert!(asked.elapsed() < MINUTE, "the node did not read the failures");
    }
    wait(&sign_in(&other, "ada@example.org", PASSWORD, "192.0.2.2").await);
    // a successful sign-in makes every node forget the failures
    other.clock.advance(LONGEST_WAIT);
    sign_in(&other, "ada@example.org", PASSWORD, "192.0.2.2").await.ok(200);
    while sign_in(&one, "ada@example.org", PASSWORD, "192.0.2.3").await.status != 200 {
        assert!(asked.elapsed() < MINUTE, "the node did not forget the failures");
    }
}

#[tokio::test]
async fn an_operator_ends_a_user_s_wait() {
    let server = server().await;
    server.user("ada@example.org", Role::AccountAdmin).await;
    wrong_passwords(&server, "ada@example.org", 15).await;
    wait(&sign_in(&server, "ada@example.org", PASSWORD, "192.0.2.1").await);
    let config = server.running().config();
    let operator = Operator::open(config).await.unwrap();
    let asked = Instant::now();
    while operator.clear_lockouts(config, &LockoutChoice::User("Ada@Example.org".to_owned())).await.is_err() {
        assert!(asked.elapsed() < MINUTE, "the wait was not shared");
    }
    while sign_in(&server, "ada@example.org", PASSWORD, "192.0.2.1").await.status != 200 {
        assert!(asked.elapsed() < MINUTE, "the node did not read the wait");
    }
}

#[tokio::test]
async fn nothing_is_hashed_for_a_token_that_is_not_there() {
    let server = server().await;
    let link = server.running().first_setup_link().await.unwrap().expect("the node has no user yet");
    let token = link.split_once("/setup#").unwrap().1;
    let hashes = async || server.metric("ango_password_hashes_total").await;
    let set_up = async |token: &str, from: &str| {
        let body = json!({"token": token, "email": "ada@example.org", "password": PASSWORD});
        server.send(Request::post("/auth/setup", &body).header("X-Forwarded-For", from)).await
    };
    let reset = async |token: &str| {
        let body = json!({"token": token, "new_password": PASSWORD});
        server.send(Request::post("/auth/reset", &body).header("X-Forwarded-For", "192.0.2.1")).await
    };
    set_up("st_wrong", "192.0.2.1").await.error(401, "INVALID_CREDENTIALS");
    reset("pt_wrong").await.error(401, "INVALID_CREDENTIALS");
    assert_eq!(hashes().await, 0.0);
    set_up(token, "192.0.2.1").await.ok(201);
    let after_one = hashes().await;
    assert_eq!(after_one, 1.0);
    // once the first user exists, the token of the setup link is refused
    set_up(token, "192.0.2.1").await.error(401, "INVALID_CREDENTIALS");
    reset(token).await.error(401, "INVALID_CREDENTIALS");
    assert_eq!(hashes().await, after_one);
}

#[tokio::test]
async fn sign_ups_are_counted_by_network_before_they_cost_a_hash() {
    let server = TestServer::with(|config| {
        behind_a_proxy(config);
        config.auth.allow_signup = true;
    })
    .await;
    let sign_up = async |number: usize, from: &str| {
        let body = json!({"email": format!("user-{number}@example.org"), "password": PASSWORD});
        server.send(Request::post("/auth/signup", &body).header("X-Forwarded-For", from)).await
    };
    for number in 0..9 {
        sign_up(number, "192.0.2.1").await.ok(201);
    }
    // an attempt with a known e-mail counts too, because its answer reveals that the user exists
    sign_up(0, "192.0.2.1").await.error(409, "CONFLICT");
    let hashes = server.metric("ango_password_hashes_total").await;
    let refused = sign_up(10, "192.0.2.1").await;
    refused.error(429, "IP_RATE_LIMITED");
    assert!((890..=900).contains(&refused.header("retry-after").unwrap().parse::<u64>().unwrap()));
    assert_eq!(server.metric("ango_password_hashes_total").await, hashes);
    sign_up(10, "192.0.2.2").await.ok(201);
    // this lock affects no other route
    let key = server.key(Role::AccountAdmin).await;
    list(&server, &key, "192.0.2.1").await.ok(200);
    server.clock.advance(15 * MINUTE);
    sign_up(11, "192.0.2.1").await.ok(201);
}

#[tokio::test]
async fn x12_a_proxy_that_is_not_named_is_counted() {
    let server = TestServer::start().await;
    let untrusted = async || server.metric("ango_untrusted_forwarded_total").await;
    server.send(Request::get("/health")).await.ok(200);
    assert_eq!(untrusted().await, 0.0);
    for _ in 0..2 {
        server.send(Request::get("/health").header("X-Forwarded-For", "192.0.2.1")).await.ok(200);
    }
    assert_eq!(untrusted().await, 2.0);
}
