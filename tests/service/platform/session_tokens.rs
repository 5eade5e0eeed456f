//! Forged session tokens (readings A10), all against the embedded issuer.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use control::caller::Role;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::issuer;

use tests_service::gates::SESSIONS;

/// Returns the header and the claims of a token.
fn read(token: &str) -> (Value, Value) {
    let part = |index: usize| {
        let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(index).unwrap()).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    (part(0), part(1))
}

fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

async fn refused(server: &TestServer, what: &str, token: &str) {
    // each token comes from another address, because many wrong tokens from one address would lock that address
    static ATTEMPTS: AtomicU16 = AtomicU16::new(0);
    let [high, low] = ATTEMPTS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let from = format!("198.18.{high}.{low}");
    let answer = server.send(Request::get(SESSIONS).key(token).header("X-Forwarded-For", &from)).await;
    assert_eq!(answer.status, 401, "{what}: {}", answer.text());
    answer.error(401, "INVALID_SESSION_TOKEN");
}

#[tokio::test]
async fn a10_made_up_and_altered_tokens_are_refused() {
    let behind_a_proxy = "127.0.0.0/8".parse().unwrap();
    let server = TestServer::with(|config| config.trusted_proxies = vec![behind_a_proxy]).await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let (header, claims) = read(&user.token);
    assert_eq!((&header["alg"], &claims["role"]), (&json!("ES256"), &json!("account_admin")));
    for claim in ["iss", "aud", "sub", "sid", "jti", "account_id", "iat", "nbf", "exp"] {
        assert!(!claims[claim].is_null(), "{claim}");
    }
    let with = |name: &str, value: Value| {
        let mut header = header.clone();
        header[name] = value;
        header
    };

    // tokens without a signature
    for none in ["none", "None", "NONE", "nOnE"] {
        let bare = unsigned(&with("alg", json!(none)), &claims);
        refused(&server, none, &format!("{bare}.")).await;
    }
    refused(&server, "an empty signature", &format!("{}.", unsigned(&header, &claims))).await;

    // tokens that are signed with the public key as a shared secret
    let keys = server.send(Request::get("/.well-known/jwks.json")).await.ok(200);
    let public = &keys["keys"][0];
    let point = |name: &str| URL_SAFE_NO_PAD.decode(public[name].as_str().unwrap()).unwrap();
    let raw = [vec![4], point("x"), point("y")].concat();
    for secret in [public.to_string().into_bytes(), keys.to_string().into_bytes(), raw] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let mut forged = Header::new(algorithm);
            forged.kid = Some(public["kid"].as_str().unwrap().to_owned());
            let token = jsonwebtoken::encode(&forged, &claims, &EncodingKey::from_secret(&secret)).unwrap();
            refused(&server, "the public key as a secret", &token).await;
        }
    }

    // tokens that a foreign key signed, with the `kid` of the node's key and with the foreign public key in the header
    for algorithm in [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256, Algorithm::PS256] {
        let mut forged = Header::new(algorithm);
        forged.kid = Some(public["kid"].as_str().unwrap().to_owned());
        forged.jwk = serde_json::from_value(issuer::public_key(algorithm)).ok();
        let token = jsonwebtoken::encode(&forged, &claims, &issuer::key(algorithm)).unwrap();
        refused(&server, "another key", &token).await;
    }
    refused(&server, "another key's name", &issuer::sign(Algorithm::ES256, &claims)).await;

    // tokens with changed claims and the signature of a valid token
    let signature = user.token.rsplit('.').next().unwrap();
    for (name, value) in [("sub", json!("usr_0")), ("role", json!("developer")), ("exp", json!(4_000_000_000u64))] {
        let mut altered = claims.clone();
        altered[name] = value;
        refused(&server, name, &format!("{}.{signature}", unsigned(&header, &altered))).await;
    }
    let crit = unsigned(&with("crit", json!(["b64"])), &claims);
    refused(&server, "an unknown critical header", &format!("{crit}.{signature}")).await;
    let mut flipped = user.token.clone().into_bytes();
    let at = flipped.len() - 20;
    flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
    refused(&server, "a flipped bit", std::str::from_utf8(&flipped).unwrap()).await;
    refused(&server, "a huge token", &format!("eyJ{}.{}.{}", "a".repeat(20_000), "b".repeat(100), "c")).await;
    for text in ["eyJ..", "eyJhbGciOiJFUzI1NiJ9..", "eyJ.e.e"] {
        refused(&server, text, text).await;
    }

    server.send(Request::get(SESSIONS).key(&user.token)).await.ok(200);
}

#[tokio::test]
async fn a10_a_token_of_another_node_is_refused() {
    let server = TestServer::start().await;
    let elsewhere = TestServer::start().await;
    let user = elsewhere.user("ada@example.org", Role::AccountAdmin).await;
    refused(&server, "another node's token", &user.token).await;
}

/// Returns the `kid` of each key that a node publishes, the signing key first.
async fn kids(server: &TestServer) -> Vec<String> {
    let keys = server.send(Request::get("/.well-known/jwks.json")).await.ok(200);
    keys["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

fn kid(token: &str) -> String {
    read(token).0["kid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a10_a_rotated_key_signs_no_more_and_its_tokens_go_on_to_their_end() {
    let public = |config: &mut control::config::Config| config.public_url = Some("https://fhe.example.org".to_owned());
    let server = TestServer::with(public).await;
    let before = server.user("ada@example.org", Role::AccountAdmin).await;
    let old = kids(&server).await;
    let rotated = server.operator().await.rotate_signing_key(server.running().config()).await.unwrap();
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(kids(&server).await, [rotated.kid.clone(), old[0].clone()]);
    let after = server.log_in("ada@example.org").await;
    assert_eq!((kid(&before.token), kid(&after.token)), (old[0].clone(), rotated.kid.clone()));
    for token in [&before.token, &after.token] {
        server.send(Request::get(SESSIONS).key(token)).await.ok(200);
    }
    // a node that starts now also accepts the tokens of both keys
    let server = TestServer::in_folder(server.stop().await, public).await;
    for token in [&before.token, &after.token] {
        server.send(Request::get(SESSIONS).key(token)).await.ok(200);
    }
    let again = server.operator().await.rotate_signing_key(server.running().config()).await.unwrap();
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(kids(&server).await, [again.kid.clone(), rotated.kid, old[0].clone()]);
    // all tokens that were signed with the two older keys have expired by now, so the node drops these keys
    server.clock.advance(Duration::from_secs(64 * 60));
    assert_eq!(kids(&server).await, [again.kid]);
    refused(&server, "an old key's token", &before.token).await;
}

#[tokio::test]
async fn a10_another_node_takes_the_tokens_of_a_new_key_within_a_second() {
    let public = |config: &mut control::config::Config| config.public_url = Some("https://fhe.example.org".to_owned());
    let Some((first, second)) = TestServer::pair(public).await else { return };
    let before = first.user("ada@example.org", Role::AccountAdmin).await;
    let rotated = first.operator().await.rotate_signing_key(first.running().config()).await.unwrap();
    first.clock.advance(Duration::from_secs(60));
    let after = first.log_in("ada@example.org").await;
    assert_eq!(kid(&after.token), rotated.kid);
    // advance the second node's clock as far as the first one's
    second.clock.advance(Duration::from_secs(60));
    for token in [&after.token, &before.token] {
        second.send(Request::get(SESSIONS).key(token)).await.ok(200);
    }
    assert_eq!(kids(&second).await[0], rotated.kid);
}
