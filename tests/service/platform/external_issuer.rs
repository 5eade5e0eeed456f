//! Session tokens of an issuer that the operator trusts (readings A10, A24).

use std::time::Duration;

use control::caller::Role;
use control::clock::Timestamp;
use control::config::ExternalIssuer;
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::issuer::{self, AUDIENCE, TestIssuer};

use tests_service::gates::SESSIONS;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const KEYS: &str = "/api/v1/user/api-keys";
const LOGOUT: &str = "/api/v1/user/logout";

/// Starts a test issuer, and a node that trusts the issuer.
async fn start() -> (TestIssuer, TestServer) {
    let issuer = TestIssuer::start().await;
    let external = external(&issuer);
    let server = TestServer::with(|config| config.auth.external_issuer = Some(external)).await;
    (issuer, server)
}

fn external(issuer: &TestIssuer) -> ExternalIssuer {
    ExternalIssuer {
        address: issuer.address.clone(),
        audience: AUDIENCE.to_owned(),
        jwks_url: None,
        trusts_account_ids: false,
        accounts_max: 100,
    }
}

fn seconds(now: Timestamp) -> i64 {
    now.0 / 1_000_000
}

/// Valid claims.
fn claims(issuer: &TestIssuer, server: &TestServer) -> Value {
    let now = seconds(server.clock.now());
    json!({"iss": issuer.address, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600})
}

async fn get(server: &TestServer, token: &str) -> Response {
    server.send(Request::get(SESSIONS).key(token)).await
}

#[tokio::test]
async fn a10_tokens_of_the_four_algorithms_are_taken_and_keys_fetched_once() {
    let (issuer, server) = start().await;
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256, Algorithm::PS256] {
        get(&server, &issuer::sign(algorithm, &claims(&issuer, &server))).await.ok(200);
    }
    let mut several = claims(&issuer, &server);
    several["aud"] = json!(["https://elsewhere.example.org", AUDIENCE]);
    get(&server, &issuer::sign(Algorithm::ES256, &several)).await.ok(200);
    assert_eq!(issuer.asked(), 1);
    server.clock.advance(Duration::from_secs(10 * 60 + 1));
    get(&server, &issuer::sign(Algorithm::ES256, &claims(&issuer, &server))).await.ok(200);
    assert_eq!(issuer.asked(), 2, "after ten minutes the node asks for the keys again");
}

#[tokio::test]
async fn a10_what_a_token_says_of_itself_is_checked() {
    let (issuer, server) = start().await;
    let now = seconds(server.clock.now());
    let cases = [
        ("iss", json!("https://elsewhere.example.org")),
        ("iss", json!([issuer.address, "https://elsewhere.example.org"])),
        ("iss", Value::Null),
        ("aud", json!("https://elsewhere.example.org")),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("exp", json!(now - 70)),
        ("exp", json!("never")),
        ("exp", Value::Null),
        ("nbf", json!(now + 70)),
        ("iat", json!(now + 70)),
        ("role", json!("root")),
        ("role", json!("trial")),
    ];
    for (name, value) in cases {
        let mut claims = claims(&issuer, &server);
        claims[name] = value;
        let answer = get(&server, &issuer::sign(Algorithm::ES256, &claims)).await;
        assert_eq!(answer.status, 401, "{claims}");
        answer.error(401, "INVALID_SESSION_TOKEN");
    }
    // the issuer's clock and the node's clock may differ by up to a minute
    for (name, value) in [("exp", now - 40), ("nbf", now + 50), ("iat", now + 50)] {
        let mut claims = claims(&issuer, &server);
        claims[name] = json!(value);
        get(&server, &issuer::sign(Algorithm::ES256, &claims)).await.ok(200);
    }
}

#[tokio::test]
async fn a10_a_flood_of_unknown_keys_asks_the_issuer_once_a_minute() {
    let (issuer, server) = start().await;
    get(&server, &issuer::sign(Algorithm::ES256, &claims(&issuer, &server))).await.ok(200);
    let flood = async || {
        // two floods of nine tokens each: at twenty refused tokens the node would lock the network
        for kid in 0..9 {
            let mut header = jsonwebtoken::Header::new(Algorithm::ES256);
            header.kid = Some(format!("unknown {kid}"));
            let claims = claims(&issuer, &server);
            let token = jsonwebtoken::encode(&header, &claims, &issuer::key(Algorithm::ES256)).unwrap();
            let answer = get(&server, &token).await;
            assert!(matches!(answer.status, 401 | 429), "{}", answer.text());
        }
    };
    flood().await;
    assert_eq!(issuer.asked(), 1);
    server.clock.advance(Duration::from_secs(61));
    flood().await;
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test]
async fn a10_a_key_that_the_issuer_dropped_or_changed_signs_nothing_any_more() {
    let (issuer, server) = start().await;
    get(&server, &issuer::sign(Algorithm::ES256, &claims(&issuer, &server))).await.ok(200);
    let mut renamed = issuer::public_key(Algorithm::EdDSA);
    renamed["kid"] = json!("ES256");
    issuer.serve_keys(json!({"keys": [renamed]}).to_string());
    server.clock.advance(Duration::from_secs(10 * 60 + 1));
    let token = issuer::sign(Algorithm::ES256, &claims(&issuer, &server));
    get(&server, &token).await.error(401, "INVALID_SESSION_TOKEN");
}

#[tokio::test]
async fn a10_while_the_issuer_is_away_its_last_keys_are_believed_for_four_hours() {
    let (issuer, server) = start().await;
    let sign = || issuer::sign(Algorithm::ES256, &claims(&issuer, &server));
    get(&server, &sign()).await.ok(200);
    // from now on the issuer's address does not serve keys
    let keys = json!({"keys": [issuer::public_key(Algorithm::ES256)]}).to_string();
    issuer.serve_keys("gone");
    for _ in 0..3 {
        server.clock.advance(HOUR);
        get(&server, &sign()).await.ok(200);
    }
    // the node does not know the key of this token, so it asks the issuer, whose answer is not a key set
    let mut header = jsonwebtoken::Header::new(Algorithm::ES256);
    header.kid = Some("new".to_owned());
    let unseen = jsonwebtoken::encode(&header, &claims(&issuer, &server), &issuer::key(Algorithm::ES256)).unwrap();
    get(&server, &unseen).await.error(502, "UPSTREAM_UNAVAILABLE");
    server.clock.advance(HOUR);
    get(&server, &sign()).await.error(502, "UPSTREAM_UNAVAILABLE");
    server.clock.advance(MINUTE);
    issuer.serve_keys(keys);
    get(&server, &sign()).await.ok(200);
}

#[tokio::test]
async fn a10_while_new_keys_are_fetched_requests_with_a_known_one_do_not_wait() {
    let (issuer, server) = start().await;
    let sign = |subject: &str| {
        let mut claims = claims(&issuer, &server);
        claims["sub"] = json!(subject);
        issuer::sign(Algorithm::ES256, &claims)
    };
    get(&server, &sign("ada")).await.ok(200);
    server.clock.advance(11 * MINUTE);
    // the issuer accepts the node's request for the keys, but does not answer it before `hold` is dropped
    let asked = issuer.asked();
    let hold = issuer.hold().await;
    let (question, address) = (Request::get(SESSIONS).key(&sign("bob")), server.address);
    let waits = tokio::spawn(async move { question.send(address).await });
    while issuer.asked() == asked {
        tokio::task::yield_now().await;
    }
    get(&server, &sign("cid")).await.ok(200);
    assert!(!waits.is_finished(), "the asking request waits for the answer");
    drop(hold);
    waits.await.unwrap().ok(200);
}

#[tokio::test]
async fn a24_an_account_id_of_this_node_in_a_token_opens_its_account_only_where_the_operator_says_so() {
    for trusted in [false, true] {
        let issuer = TestIssuer::start().await;
        let external = ExternalIssuer { trusts_account_ids: trusted, ..external(&issuer) };
        let server = TestServer::with(|config| config.auth.external_issuer = Some(external)).await;
        let (_, account) = server.create_key(Role::AccountAdmin, None).await;
        let mut claims = claims(&issuer, &server);
        claims["account_id"] = json!(account);
        claims["role"] = json!("account_admin");
        let token = issuer::sign(Algorithm::ES256, &claims);
        let keys = server.send(Request::get(KEYS).key(&token)).await.ok(200);
        assert_eq!(keys["total_count"], u64::from(trusted));
    }
}

#[tokio::test]
async fn a24_an_issuer_brings_no_more_accounts_into_being_than_it_may() {
    let issuer = TestIssuer::start().await;
    let external = ExternalIssuer { accounts_max: 2, ..external(&issuer) };
    let server = TestServer::with(|config| config.auth.external_issuer = Some(external)).await;
    let token = |subject: &str| {
        let mut claims = claims(&issuer, &server);
        claims["sub"] = json!(subject);
        issuer::sign(Algorithm::ES256, &claims)
    };
    for subject in ["ada", "bob"] {
        get(&server, &token(subject)).await.ok(200);
    }
    get(&server, &token("cid")).await.error(403, "FEATURE_DISABLED");
    get(&server, &token("ada")).await.ok(200);
}

#[tokio::test]
async fn a10_a_secret_among_the_public_keys_is_no_key() {
    let (issuer, server) = start().await;
    // `k` is the text `secret` in base64url
    let shared = json!({"kty": "oct", "kid": "shared", "k": "c2VjcmV0", "alg": "HS256"});
    issuer.serve_keys(json!({"keys": [shared]}).to_string());
    let mut header = jsonwebtoken::Header::new(Algorithm::HS256);
    header.kid = Some("shared".to_owned());
    let key = jsonwebtoken::EncodingKey::from_secret(b"secret");
    let token = jsonwebtoken::encode(&header, &claims(&issuer, &server), &key).unwrap();
    get(&server, &token).await.error(401, "INVALID_SESSION_TOKEN");
}

#[tokio::test]
async fn a10_an_issuer_that_serves_nonsense_lets_nobody_in() {
    let (issuer, server) = start().await;
    let padding = "x".repeat(2 << 20);
    let huge = json!({"padding": padding, "keys": [issuer::public_key(Algorithm::ES256)]}).to_string();
    for keys in [huge, String::new(), "{}".to_owned(), "[".to_owned()] {
        issuer.serve_keys(keys);
        let token = issuer::sign(Algorithm::ES256, &claims(&issuer, &server));
        get(&server, &token).await.error(502, "UPSTREAM_UNAVAILABLE");
        server.clock.advance(Duration::from_secs(6));
    }
    issuer.serve_keys(json!({"keys": [issuer::public_key(Algorithm::ES256)]}).to_string());
    let address = issuer.address.clone();
    for document in [
        json!({"issuer": "https://elsewhere.example.org", "jwks_uri": format!("{address}/keys")}),
        json!({"issuer": address, "jwks_uri": "http://keys.example.org/"}),
        json!({"issuer": address}),
    ] {
        issuer.serve_discovery(document);
        let token = issuer::sign(Algorithm::ES256, &claims(&issuer, &server));
        get(&server, &token).await.error(502, "UPSTREAM_UNAVAILABLE");
        server.clock.advance(Duration::from_secs(6));
    }
    issuer.serve_discovery(json!({"issuer": address, "jwks_uri": format!("{address}/keys")}));
    get(&server, &issuer::sign(Algorithm::ES256, &claims(&issuer, &server))).await.ok(200);
}

#[tokio::test]
async fn a24_an_account_per_claim_else_per_subject() {
    let (issuer, server) = start().await;
    let token = |sub: &str, account: Option<&str>, role: Option<&str>| {
        let mut claims = claims(&issuer, &server);
        claims["sub"] = json!(sub);
        claims["account_id"] = json!(account);
        claims["role"] = json!(role);
        issuer::sign(Algorithm::ES256, &claims)
    };
    let make = async |token: &str| {
        let body = json!({"environment": "test", "role": "viewer"});
        server.send(Request::post(KEYS, &body).key(token)).await.ok(201);
    };
    let keys = async |token: &str| {
        let page = server.send(Request::get(KEYS).key(token)).await.ok(200);
        page["total_count"].as_u64().unwrap()
    };
    // if the token of a subject names no account, the subject gets its own account
    let ada = token("ada", None, None);
    make(&ada).await;
    get(&server, &ada).await.ok(200);
    assert_eq!(keys(&token("eve", None, None)).await, 0);
    // two subjects whose tokens name the account `acme`
    let (bob, cid) = (token("bob", Some("acme"), Some("developer")), token("cid", Some("acme"), Some("account_admin")));
    make(&bob).await;
    assert_eq!(keys(&cid).await, 1);
    get(&server, &bob).await.error(403, "INSUFFICIENT_ROLE");
    // without a role in its token, a subject is not an administrator of the account that the token names
    get(&server, &token("dan", Some("acme"), None)).await.error(403, "INSUFFICIENT_ROLE");
    // the subject of the first token, now with a token for `acme`, sees the key of that account
    assert_eq!(keys(&token("ada", Some("acme"), Some("account_admin"))).await, 1);
    assert_eq!(server.operator().await.users().await.unwrap().len(), 5);
}

#[tokio::test]
async fn a11_logging_out_ends_a_token_with_and_without_a_name() {
    let (issuer, server) = start().await;
    for jti in [json!("7"), Value::Null] {
        let mut claims = claims(&issuer, &server);
        claims["jti"] = jti;
        let token = issuer::sign(Algorithm::ES256, &claims);
        get(&server, &token).await.ok(200);
        server.send(Request::post(LOGOUT, &json!({})).key(&token)).await.ok(200);
        get(&server, &token).await.error(401, "INVALID_SESSION_TOKEN");
        server.clock.advance(Duration::from_secs(5));
        get(&server, &token).await.error(401, "INVALID_SESSION_TOKEN");
    }
}

#[tokio::test]
async fn a_node_with_an_external_issuer_has_no_users_of_its_own() {
    let (_issuer, server) = start().await;
    let body = json!({"email": "ada@example.org", "password": "correct horse battery"});
    server.send(Request::post("/auth/login", &body)).await.error(403, "FEATURE_DISABLED");
    server.send(Request::get("/.well-known/jwks.json")).await.error(404, "NOT_FOUND");
    assert!(server.running().first_setup_link().await.unwrap().is_none());
}
