//! Keys and roles (specification, Authentication; readings A1-A7).

use std::time::Duration;

use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;

use tests_service::gates::{EVAL_SESSION, GATE, SESSION, SESSIONS};

const UNKNOWN_SESSION: &str = "/api/v1/tfhe/session/sess_00000000000000000000000000";

#[tokio::test]
async fn a1_a_key_comes_after_bearer_in_any_case_or_bare() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    for value in [format!("Bearer {key}"), format!("bearer  {key}"), format!("BEARER {key} "), key.clone()] {
        let answer = server.send(Request::get(SESSIONS).header("Authorization", &value)).await;
        assert_eq!(answer.ok(200)["sessions"], json!([]), "{value}");
    }
}

#[tokio::test]
async fn a1_no_key_is_missing_and_two_are_a_bad_request() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    server.send(Request::get(SESSIONS)).await.error(401, "MISSING_AUTH_HEADER");
    server.send(Request::get(SESSIONS).header("Authorization", "")).await.error(401, "MISSING_AUTH_HEADER");
    server.send(Request::get(SESSIONS).key(&key).key(&key)).await.error(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a1_a2_what_is_no_key_is_invalid() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let other = format!("svc_test_{}", "0".repeat(32));
    for value in [
        format!("Basic {key}"),
        "Bearer".to_owned(),
        format!("Bearer {}", key.to_uppercase()),
        format!("Bearer {}", &key[..40]),
        format!("Bearer {key}0"),
        format!("Bearer {other}"),
        format!("Bearer {}", key.replace("svc_test_", "svc_live_")),
        "Bearer \u{e9}".to_owned(),
    ] {
        let answer = server.send(Request::get(SESSIONS).header("Authorization", &value)).await;
        answer.error(401, "INVALID_API_KEY");
    }
}

#[tokio::test]
async fn a17_a_revoked_key_ends_within_a_second_and_an_expired_one_at_once() {
    let server = TestServer::start().await;
    let (key, _) = server.create_key(Role::AccountAdmin, None).await;
    server.send(Request::get(SESSIONS).key(&key)).await.ok(200);
    let trial = server.key(Role::Trial).await;
    server.send(Request::get(UNKNOWN_SESSION).key(&trial)).await.error(404, "SESSION_NOT_FOUND");
    for record in server.running().store().api_keys().await.unwrap() {
        server.running().store().revoke_api_key(&record.key_id, 1).await.unwrap();
    }
    server.clock.advance(Duration::from_secs(1));
    server.send(Request::get(SESSIONS).key(&key)).await.error(401, "INVALID_API_KEY");
}

#[tokio::test]
async fn a15_a_trial_key_ends_after_half_an_hour() {
    let server = TestServer::start().await;
    let trial = server.key(Role::Trial).await;
    server.clock.advance(Duration::from_secs(30 * 60 - 5));
    server.send(Request::get(UNKNOWN_SESSION).key(&trial)).await.error(404, "SESSION_NOT_FOUND");
    server.clock.advance(Duration::from_secs(10));
    server.send(Request::get(UNKNOWN_SESSION).key(&trial)).await.error(401, "INVALID_API_KEY");
}

#[tokio::test]
async fn a5_a_viewer_may_only_get() {
    let server = TestServer::start().await;
    let viewer = server.key(Role::Viewer).await;
    for path in [SESSION, EVAL_SESSION, GATE] {
        server.send(Request::post(path, &json!({})).key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    }
    server.send(Request::delete(UNKNOWN_SESSION).key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(Request::get(UNKNOWN_SESSION).key(&viewer)).await.error(404, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn a5_trial_developer_and_admin_may_post_where_any_key_may() {
    let server = TestServer::start().await;
    for role in [Role::Trial, Role::Developer, Role::AccountAdmin] {
        let key = server.key(role).await;
        server.send(Request::post(GATE, &json!({})).key(&key)).await.error(422, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn the_list_of_all_sessions_is_for_account_admins() {
    let server = TestServer::start().await;
    for role in [Role::Trial, Role::Viewer, Role::Developer] {
        let key = server.key(role).await;
        server.send(Request::get(SESSIONS).key(&key)).await.error(403, "INSUFFICIENT_ROLE");
    }
}

#[tokio::test]
async fn roles_are_checked_before_bodies_are_read() {
    let server = TestServer::start().await;
    let viewer = server.key(Role::Viewer).await;
    // the client never sends the body, so an answer shows that the node did not wait for the body
    let head = Request::new("POST", EVAL_SESSION)
        .key(&viewer)
        .header("Content-Type", "application/octet-stream")
        .header("Content-Length", "1000000");
    server.send(head).await.error(403, "INSUFFICIENT_ROLE");
}
