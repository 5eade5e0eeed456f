//! A node's clock is set back or forward: keys, sessions and tokens end late by at most one jump, waiting times keep
//! the length that the rules give, and nothing that has ended comes back.

use std::time::Duration;

use client::Preset;
use control::caller::{Environment, Role};
use control::config::ExternalIssuer;
use jsonwebtoken::Algorithm;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::issuer::{self, AUDIENCE, TestIssuer};
use tests_service::users::PASSWORD;

use tests_service::gates::{Account, GATE, SESSION, SESSIONS};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);
const KEYS: &str = "/api/v1/user/api-keys";
const TRIAL_KEY: &str = "/api/v1/onboarding/temp-key";

async fn behind_a_proxy() -> TestServer {
    TestServer::with(|config| config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await
}

#[tokio::test]
async fn a17_what_was_revoked_elsewhere_ends_within_a_second_after_any_jump() {
    let server = TestServer::start().await;
    for back in [HOUR, DAY, MONTH] {
        let (key, account) = server.create_key(Role::AccountAdmin, None).await;
        let user = server.user(&format!("ada-{}@example.org", back.as_secs()), Role::Developer).await;
        server.send(Request::get(SESSIONS).key(&key)).await.ok(200);
        server.send(Request::get(KEYS).key(&user.token)).await.ok(200);
        server.clock.set_back(back);
        let operator = server.operator().await;
        let key_id = operator.keys(Some(&account)).await.unwrap()[0].key_id.parse().unwrap();
        operator.revoke_key(&key_id).await.unwrap();
        operator.disable_user(&user.user_id).await.unwrap();
        server.clock.advance(SECOND);
        server.send(Request::get(SESSIONS).key(&key)).await.error(401, "INVALID_API_KEY");
        server.send(Request::get(KEYS).key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
        server.clock.advance(back);
        server.send(Request::get(KEYS).key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
    }
}

#[tokio::test]
async fn l6_l7_who_asks_within_the_rules_goes_on_after_any_jump() {
    // the token bucket holds only one token, which the first request takes, so the bucket is empty when the clock jumps
    let server = TestServer::with(|config| {
        config.plan_limits.of_mut(control::caller::Plan::Enterprise).burst_a_second = 1;
    })
    .await;
    let key = server.key(Role::AccountAdmin).await;
    let list = async || server.send(Request::get(SESSIONS).key(&key)).await;
    list().await.ok(200);
    for back in [MINUTE, HOUR, DAY, MONTH] {
        server.clock.set_back(back);
        let wait = list().await;
        if wait.status == 429 {
            assert_eq!(wait.header("retry-after"), Some("1"));
        }
        server.clock.advance(SECOND);
        list().await.ok(200);
    }
    for ahead in [HOUR, DAY, MONTH] {
        server.clock.advance(ahead);
        list().await.ok(200);
    }
}

#[tokio::test]
async fn a21_a_lock_lasts_no_longer_than_its_quarter_of_an_hour_after_any_jump() {
    for back in [MINUTE, HOUR, DAY, MONTH] {
        let server = behind_a_proxy().await;
        let try_it = async |text: &str, from: &str| {
            server.send(Request::get(SESSIONS).key(text).header("X-Forwarded-For", from)).await
        };
        for number in 0..10 {
            try_it("nonsense", &format!("192.0.2.{number}")).await.error(401, "INVALID_API_KEY");
        }
        try_it("nonsense", "192.0.2.100").await.error(429, "BRUTE_FORCE_LOCKOUT");
        server.clock.set_back(back);
        let locked = try_it("nonsense", "192.0.2.101").await;
        locked.error(429, "BRUTE_FORCE_LOCKOUT");
        let wait: u64 = locked.header("retry-after").unwrap().parse().unwrap();
        assert!(wait <= 15 * 60, "{wait}");
        server.clock.advance(Duration::from_secs(wait));
        try_it("nonsense", "192.0.2.102").await.error(401, "INVALID_API_KEY");
        // the lock has ended, so failures are counted from zero
        for number in 0..9 {
            try_it("nonsense", &format!("192.0.2.{}", 110 + number)).await.error(401, "INVALID_API_KEY");
        }
        try_it("nonsense", "192.0.2.130").await.error(429, "BRUTE_FORCE_LOCKOUT");
    }
}

#[tokio::test]
async fn a_user_s_wait_is_no_longer_than_its_five_minutes_after_any_jump() {
    for back in [MINUTE, HOUR, DAY, MONTH] {
        let server = behind_a_proxy().await;
        server.user("ada@example.org", Role::AccountAdmin).await;
        let sign_in = async |password: &str, from: &str| {
            let body = json!({"email": "ada@example.org", "password": password});
            server.send(Request::post("/auth/login", &body).header("X-Forwarded-For", from)).await
        };
        for number in 0..15 {
            server.clock.advance(5 * MINUTE);
            sign_in("not the password", &format!("192.0.2.{number}")).await.error(401, "INVALID_CREDENTIALS");
        }
        server.clock.set_back(back);
        let refused = sign_in(PASSWORD, "192.0.2.100").await;
        refused.error(429, "BRUTE_FORCE_LOCKOUT");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(wait <= 5 * 60, "{wait}");
        server.clock.advance(Duration::from_secs(wait));
        sign_in(PASSWORD, "192.0.2.101").await.ok(200);
    }
}

#[tokio::test]
async fn a12_a_trial_that_has_ended_does_not_come_back() {
    let server = TestServer::start().await;
    let trial = server.send(Request::new("POST", TRIAL_KEY)).await.ok(200)["key"].as_str().unwrap().to_owned();
    let open = Request::post(SESSION, &json!({"preset": "fast_128"})).key(&trial);
    server.clock.set_back(DAY);
    let session = server.send(open.clone()).await.ok(201)["session_id"].as_str().unwrap().to_owned();
    server.clock.advance(DAY + 31 * MINUTE);
    server.send(Request::get(format!("{SESSION}/{session}")).key(&trial)).await.error(401, "INVALID_API_KEY");
    // a trial is erased some time after its session is closed
    server.metric_becomes("ango_sessions", |open| open == 0.0).await;
    server.clock.advance(MINUTE);
    let started = std::time::Instant::now();
    while server.running().store().api_keys().await.unwrap().iter().any(|key| key.environment == Environment::Trial) {
        assert!(started.elapsed() < MINUTE, "the trial is not erased");
    }
    server.clock.set_back(2 * HOUR);
    server.send(open).await.error(401, "INVALID_API_KEY");
}

#[tokio::test]
async fn g2_a_session_that_has_expired_does_not_come_back() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    server.clock.set_back(DAY);
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
    server.clock.advance(DAY);
    account.show().await;
    server.clock.advance(DAY);
    account.send(Request::get(account.path(""))).await.error(410, "SESSION_EXPIRED");
    server.clock.set_back(DAY);
    account.send(Request::get(account.path(""))).await.error(410, "SESSION_EXPIRED");
}

#[tokio::test]
async fn a10_a_user_signs_in_and_stays_signed_in_across_jumps() {
    let server = behind_a_proxy().await;
    let user = server.user("ada@example.org", Role::Developer).await;
    let mut refresh = user.refresh.clone();
    for (number, back) in [MINUTE, HOUR, DAY].into_iter().enumerate() {
        server.clock.set_back(back);
        // by the clock that was set back, the refresh token comes from the future; the node still exchanges it, for
        // tokens that start at the present time
        let body = json!({"refresh_token": refresh});
        let from = format!("192.0.2.{number}");
        let request = Request::post("/auth/refresh", &body).header("X-Forwarded-For", &from);
        let tokens = server.send(request).await.ok(200);
        server.send(Request::get(KEYS).key(tokens["access_token"].as_str().unwrap())).await.ok(200);
        refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
        // a session token ends an hour after it was made, however the clock jumped before
        server.clock.advance(HOUR + 61 * SECOND);
        let ended = Request::get(KEYS).key(tokens["access_token"].as_str().unwrap());
        server.send(ended).await.error(401, "INVALID_SESSION_TOKEN");
    }
    // a sign-in ends after a month
    server.clock.advance(MONTH);
    let body = json!({"refresh_token": refresh});
    server.send(Request::post("/auth/refresh", &body)).await.error(401, "INVALID_CREDENTIALS");
    let body = json!({"email": "ada@example.org", "password": PASSWORD});
    let tokens = server.send(Request::post("/auth/login", &body)).await.ok(200);
    server.send(Request::get(KEYS).key(tokens["access_token"].as_str().unwrap())).await.ok(200);
}

#[tokio::test]
async fn a10_an_issuers_new_key_is_found_after_the_clock_was_set_back() {
    let issuer = TestIssuer::start().await;
    issuer.serve_keys(json!({"keys": [issuer::public_key(Algorithm::EdDSA)]}).to_string());
    let external = ExternalIssuer {
        address: issuer.address.clone(),
        audience: AUDIENCE.to_owned(),
        jwks_url: None,
        trusts_account_ids: false,
        accounts_max: 100,
    };
    let server = TestServer::with(|config| config.auth.external_issuer = Some(external)).await;
    let get = async |algorithm| {
        let now = server.clock.now().0 / 1_000_000;
        let claims = json!({"iss": issuer.address, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600});
        server.send(Request::get(SESSIONS).key(&issuer::sign(algorithm, &claims))).await
    };
    get(Algorithm::EdDSA).await.ok(200);
    issuer.serve_keys(json!({"keys": [issuer::public_key(Algorithm::ES256)]}).to_string());
    server.clock.set_back(DAY);
    get(Algorithm::ES256).await.ok(200);
    get(Algorithm::EdDSA).await.error(401, "INVALID_SESSION_TOKEN");
}

#[tokio::test]
async fn a23_keys_made_before_the_clock_was_set_back_hold_nobody_up() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::Developer).await;
    let make = async |token: &str| server.send(Request::post(KEYS, &json!({"environment": "test"})).key(token)).await;
    for _ in 0..10 {
        make(&user.token).await.ok(201);
    }
    make(&user.token).await.error(429, "RATE_LIMITED");
    server.clock.set_back(HOUR);
    let user = server.log_in("ada@example.org").await;
    make(&user.token).await.ok(201);
}

#[tokio::test]
async fn i4_an_answer_is_kept_for_its_day_across_jumps() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = Request::post(GATE, &account.gate("NAND", true, Some(true), None)).header("Idempotency-Key", "k");
    let first = account.send(gate.clone()).await.ok(200);
    for back in [MINUTE, HOUR, DAY] {
        server.clock.set_back(back);
        let again = account.send(gate.clone()).await;
        assert_eq!((again.header("idempotent-replayed"), again.ok(200)), (Some("true"), first.clone()));
        server.clock.advance(back);
    }
    server.clock.advance(DAY);
    account.send(gate).await.error(410, "SESSION_EXPIRED");
}

#[tokio::test]
async fn no_jump_makes_the_node_fail() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let years = 366 * DAY;
    for jump in [MINUTE, HOUR, DAY, MONTH, 20 * years, 40 * years] {
        for ahead in [true, false] {
            match ahead {
                true => server.clock.advance(2 * jump),
                false => server.clock.set_back(3 * jump),
            }
            for request in [
                Request::get("/api/v1/health"),
                Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key),
                Request::get(SESSIONS).key(&key),
                Request::new("POST", TRIAL_KEY),
            ] {
                let answer = server.send(request.clone()).await;
                assert!(answer.status < 300, "{request:?} {jump:?} {ahead}: {}", answer.text());
            }
        }
        server.clock.advance(jump);
    }
}
