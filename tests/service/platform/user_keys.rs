//! API keys that users create, list and revoke (readings A16, A17, A23).

use std::sync::Arc;
use std::time::Duration;

use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::users::{PASSWORD, User};

use tests_service::gates::SESSIONS;

const KEYS: &str = "/api/v1/user/api-keys";

async fn make(server: &TestServer, user: &User, body: Value) -> Response {
    server.send(Request::post(KEYS, &body).key(&user.token)).await
}

async fn list(server: &TestServer, user: &User) -> Value {
    server.send(Request::get(KEYS).key(&user.token)).await.ok(200)
}

async fn revoke(server: &TestServer, user: &User, key_id: &Value) -> Response {
    server.send(Request::delete(format!("{KEYS}/{}", key_id.as_str().unwrap())).key(&user.token)).await
}

#[tokio::test]
async fn a16_a_key_is_shown_once_works_and_is_listed_without_itself() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let made = make(&server, &user, json!({"environment": "live", "role": "account_admin"})).await.ok(201);
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("svc_live_") && key.starts_with(made["key_prefix"].as_str().unwrap()));
    assert_eq!((&made["status"], &made["expires_at"]), (&json!("active"), &Value::Null));
    server.send(Request::get(SESSIONS).key(key)).await.ok(200);
    let second = make(&server, &user, json!({"environment": "test"})).await.ok(201);
    assert_eq!(second["role"], "developer", "the default");

    let page = list(&server, &user).await;
    assert_eq!((&page["total_count"], &page["has_more"]), (&json!(2), &json!(false)));
    assert_eq!(page["items"][0]["key_id"], second["key_id"], "newest first");
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("key");
    assert_eq!(page["items"][1], expected);
}

#[tokio::test]
async fn i3_i5_a_key_that_is_asked_for_again_is_the_same_and_not_readable_in_the_database() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::Developer).await;
    let request =
        Request::post(KEYS, &json!({"environment": "test"})).key(&user.token).header("Idempotency-Key", "one");
    let first = server.send(request.clone()).await.ok(201);
    assert_eq!(server.send(request).await.ok(201), first);
    assert_eq!(list(&server, &user).await["total_count"], 1);
    let key = first["key"].as_str().unwrap().to_owned();
    let folder = server.stop().await;
    for entry in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = if entry.is_file() { std::fs::read(&entry).unwrap() } else { Vec::new() };
        assert!(!bytes.windows(30).any(|window| window == &key.as_bytes()[10..40]), "{}", entry.display());
    }
}

#[tokio::test]
async fn a16_no_key_has_more_than_its_maker() {
    let server = TestServer::start().await;
    let viewer = server.user("vi@example.org", Role::Viewer).await;
    let developer = server.user("dev@example.org", Role::Developer).await;
    for (user, body) in [
        (&viewer, json!({"environment": "test"})),
        (&viewer, json!({"environment": "test", "role": "developer"})),
        (&developer, json!({"environment": "test", "role": "account_admin"})),
    ] {
        make(&server, user, body).await.error(403, "INSUFFICIENT_ROLE");
    }
    make(&server, &viewer, json!({"environment": "test", "role": "viewer"})).await.ok(201);
    make(&server, &developer, json!({"environment": "test", "role": null})).await.ok(201);
    for body in [
        json!({"environment": "trial"}),
        json!({"environment": "prod"}),
        json!({"environment": "test", "role": "trial"}),
        json!({"environment": "test", "role": "root"}),
    ] {
        make(&server, &developer, body).await.error(400, "INVALID_REQUEST");
    }
    make(&server, &developer, json!({})).await.error(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a16_the_operator_may_forbid_keys_of_the_environment_dev() {
    let server = TestServer::with(|config| config.auth.allow_dev_keys = false).await;
    let user = server.user("ada@example.org", Role::Developer).await;
    make(&server, &user, json!({"environment": "dev"})).await.error(403, "FEATURE_DISABLED");
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::Developer).await;
    let made = make(&server, &user, json!({"environment": "dev"})).await.ok(201);
    assert!(made["key"].as_str().unwrap().starts_with("svc_dev_"));
}

#[tokio::test]
async fn e5_a23_the_eleventh_key_of_an_hour_is_refused_and_failures_do_not_count() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::Developer).await;
    let other = server.user("bob@example.org", Role::Developer).await;
    for _ in 0..12 {
        make(&server, &user, json!({"environment": "moon"})).await.error(400, "INVALID_REQUEST");
    }
    for _ in 0..10 {
        make(&server, &user, json!({"environment": "test"})).await.ok(201);
    }
    let refused = make(&server, &user, json!({"environment": "test"})).await;
    refused.error(429, "RATE_LIMITED");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&wait), "{wait}");
    make(&server, &other, json!({"environment": "test"})).await.ok(201);
    // after this wait the session token has expired, because it lives an hour, so the user signs in again
    server.clock.advance(Duration::from_secs(wait + 60));
    let user = server.log_in("ada@example.org").await;
    make(&server, &user, json!({"environment": "test"})).await.ok(201);
}

#[tokio::test]
async fn a23_ten_of_many_at_once_are_made() {
    let server = Arc::new(TestServer::start().await);
    let user = server.user("ada@example.org", Role::Developer).await;
    let tasks: Vec<_> = (0..24)
        .map(|_| {
            let (server, user) = (server.clone(), user.clone());
            tokio::spawn(async move { make(&server, &user, json!({"environment": "test"})).await.status })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        made += usize::from(task.await.unwrap() == 201);
    }
    assert_eq!(made, 10);
    assert_eq!(list(&server, &user).await["total_count"], 10);
}

#[tokio::test]
async fn a17_a_revoked_key_ends_at_once_and_stays_listed_for_thirty_days() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let made = make(&server, &user, json!({"environment": "test", "role": "account_admin"})).await.ok(201);
    let key = made["key"].as_str().unwrap();
    server.send(Request::get(SESSIONS).key(key)).await.ok(200);
    let answer = revoke(&server, &user, &made["key_id"]).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    server.send(Request::get(SESSIONS).key(key)).await.error(401, "INVALID_API_KEY");
    revoke(&server, &user, &made["key_id"]).await.error(404, "KEY_NOT_FOUND");
    revoke(&server, &user, &json!("ak_00000000000000000000000000")).await.error(404, "KEY_NOT_FOUND");
    assert_eq!(list(&server, &user).await["items"][0]["status"], "revoked");
    server.clock.advance(Duration::from_secs(30 * 24 * 3600));
    let user = server.log_in("ada@example.org").await;
    assert_eq!(list(&server, &user).await["total_count"], 0);
}

#[tokio::test]
async fn a17_a19_a_rotated_key_stays_its_maker_s_and_is_revoked_with_its_predecessor() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let made = make(&server, &user, json!({"environment": "test", "role": "account_admin"})).await.ok(201);
    let old = made["key"].as_str().unwrap();
    let rotate = |credential: &str| Request::new("POST", "/api/v1/keys/apikey/rotate").key(credential);
    server.send(rotate(&user.token)).await.error(400, "INVALID_REQUEST");
    let rotated = server.send(rotate(old)).await.ok(200);
    let new = rotated["key"].as_str().unwrap();
    let page = list(&server, &user).await;
    let status = |index: usize| page["items"][index]["status"].as_str().unwrap().to_owned();
    assert_eq!((status(0), status(1)), ("active".to_owned(), "rotating".to_owned()));
    assert_eq!(revoke(&server, &user, &rotated["key_id"]).await.status, 204);
    // this node refuses both keys at once
    for key in [old, new] {
        server.send(Request::get(SESSIONS).key(key)).await.error(401, "INVALID_API_KEY");
    }
    revoke(&server, &user, &made["key_id"]).await.error(404, "KEY_NOT_FOUND");
}

#[tokio::test]
async fn x14_users_see_and_revoke_their_own_keys_and_administrators_those_of_the_account() {
    let server = TestServer::start().await;
    let admin = server.user("ada@example.org", Role::AccountAdmin).await;
    let operator = server.operator().await;
    operator.create_user("bob@example.org", PASSWORD, Role::Developer, Some(&admin.account)).await.unwrap();
    let colleague = server.log_in("bob@example.org").await;
    let stranger = server.user("eve@example.org", Role::AccountAdmin).await;
    let of_admin = make(&server, &admin, json!({"environment": "test"})).await.ok(201);
    let of_colleague = make(&server, &colleague, json!({"environment": "test"})).await.ok(201);

    assert_eq!(list(&server, &admin).await["total_count"], 2);
    assert_eq!(list(&server, &colleague).await["total_count"], 1);
    assert_eq!(list(&server, &stranger).await["total_count"], 0);
    revoke(&server, &colleague, &of_admin["key_id"]).await.error(404, "KEY_NOT_FOUND");
    revoke(&server, &stranger, &of_admin["key_id"]).await.error(404, "KEY_NOT_FOUND");
    assert_eq!(revoke(&server, &admin, &of_colleague["key_id"]).await.status, 204);
}

#[tokio::test]
async fn e3_a_page_has_one_to_a_hundred_keys() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::Developer).await;
    for _ in 0..2 {
        make(&server, &user, json!({"environment": "test"})).await.ok(201);
    }
    let page = server.send(Request::get(format!("{KEYS}?limit=1")).key(&user.token)).await.ok(200);
    assert_eq!((&page["total_count"], &page["has_more"]), (&json!(2), &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = server.send(Request::get(format!("{KEYS}?limit=1&cursor={cursor}")).key(&user.token)).await.ok(200);
    assert_eq!((&next["has_more"], &next["next_cursor"]), (&json!(false), &Value::Null));
    assert_ne!(next["items"][0]["key_id"], page["items"][0]["key_id"]);
    assert_eq!([&page, &next].map(|page| page["items"].as_array().unwrap().len()), [1, 1]);
    for query in ["limit=0", "limit=101", "limit=many", "limit=1&limit=2"] {
        server.send(Request::get(format!("{KEYS}?{query}")).key(&user.token)).await.error(400, "INVALID_REQUEST");
    }
}
