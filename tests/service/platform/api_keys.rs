//! API keys: rotation, revocation and records (readings A3, A5, A17-A19).

use std::time::Duration;

use client::Preset;
use control::admin;
use control::app::App;
use control::caller::Plan;
use control::caller::{Environment, Role};
use control::clock::Timestamp;
use control::config::{Config, ServerSecret};
use serde_json::{Value, json};
use store::{NewReservation, Reserved, Wanted};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_store::Kind;

use tests_service::gates::{SESSION, open_session};

const ROTATE: &str = "/api/v1/keys/apikey/rotate";
const UNKNOWN_SESSION: &str = "/api/v1/tfhe/session/sess_00000000000000000000000000";
const HOUR: Duration = Duration::from_secs(3600);

fn rotate(key: &str) -> Request {
    Request::new("POST", ROTATE).key(key)
}

fn text(member: &Value) -> String {
    member.as_str().expect("a text").to_owned()
}

async fn works(server: &TestServer, key: &str) {
    server.send(Request::get(UNKNOWN_SESSION).key(key)).await.error(404, "SESSION_NOT_FOUND");
}

async fn does_not_work(server: &TestServer, key: &str) {
    server.send(Request::get(UNKNOWN_SESSION).key(key)).await.error(401, "INVALID_API_KEY");
}

/// Returns the statuses of all keys, the oldest key first.
async fn statuses(server: &TestServer) -> Vec<&'static str> {
    let now = server.clock.now().0;
    server.running().store().api_keys().await.unwrap().iter().map(|key| key.status(now).as_str()).collect()
}

#[tokio::test]
async fn a18_a_rotated_key_works_for_24_hours_beside_its_successor() {
    let server = TestServer::start().await;
    for role in [Role::Developer, Role::AccountAdmin] {
        let old = server.key(role).await;
        works(&server, &old).await;
        let rotated = server.send(rotate(&old)).await.ok(200);
        let new = text(&rotated["key"]);
        assert!(new.starts_with("svc_test_") && new.len() == 41 && new != old);
        assert_eq!((&rotated["key_prefix"], &rotated["old_key_prefix"]), (&json!(new[..16]), &json!(old[..16])));
        assert_eq!((&rotated["environment"], &rotated["role"]), (&json!("test"), &json!(role.as_str())));
        assert!(text(&rotated["key_id"]).starts_with("ak_"));
        let (made, ends) = (text(&rotated["created_at"]), text(&rotated["old_key_expires_at"]));
        // the old key expires on a later day, at the time of day at which the new key was made
        assert!(made[..10] < ends[..10] && made[10..] == ends[10..], "{made} {ends}");
        works(&server, &old).await;
        works(&server, &new).await;
        server.clock.advance(24 * HOUR);
        does_not_work(&server, &old).await;
        works(&server, &new).await;
    }
}

#[tokio::test]
async fn a18_a_key_in_its_grace_period_does_not_rotate_again_but_its_successor_does() {
    let server = TestServer::start().await;
    let old = server.key(Role::Developer).await;
    let new = text(&server.send(rotate(&old)).await.ok(200)["key"]);
    assert_eq!(statuses(&server).await, ["rotating", "active"]);
    server.send(rotate(&old)).await.error(409, "CONFLICT");
    let newest = text(&server.send(rotate(&new)).await.ok(200)["key"]);
    works(&server, &newest).await;
    assert_eq!(statuses(&server).await, ["rotating", "rotating", "active"]);
    server.clock.advance(25 * HOUR);
    assert_eq!(statuses(&server).await, ["expired", "expired", "active"]);
}

#[tokio::test]
async fn a19_what_a_key_made_and_used_goes_on_with_its_successor() {
    let server = TestServer::start().await;
    let config = server.running().config();
    let made = admin::create_key(config, Role::AccountAdmin, Environment::Test, None, Some(Plan::Free)).await;
    let old = made.unwrap().key.to_string();
    let session = open_session(&server, &old, Preset::Fast128).await;
    let path = format!("{SESSION}/{session}");
    let left = |answer: &Response| answer.header("x-ratelimit-monthly-remaining").unwrap().parse::<u64>().unwrap();
    let before = left(&server.send(Request::get(&path).key(&old)).await);
    let new = text(&server.send(rotate(&old)).await.ok(200)["key"]);
    let seen = server.send(Request::get(&path).key(&new)).await;
    assert_eq!(seen.ok(200)["session_id"], session);
    // both keys share one count; since `before`, the rotation and this request were added
    assert_eq!(left(&seen), before - 2);
    server.clock.advance(24 * HOUR);
    assert_eq!(statuses(&server).await, ["expired", "active"]);
}

#[tokio::test]
async fn a18_of_rotations_at_once_one_wins() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let address = server.address;
    let rotating: Vec<_> = (0..20)
        .map(|_| {
            let request = rotate(&key);
            tokio::spawn(async move { request.send(address).await })
        })
        .collect();
    let mut won = 0;
    for answer in rotating {
        let answer = answer.await.unwrap();
        match answer.status {
            200 => won += 1,
            _ => drop(answer.error(409, "CONFLICT")),
        }
    }
    assert_eq!((won, statuses(&server).await), (1, vec!["rotating", "active"]));
}

#[tokio::test]
async fn a5_a_viewer_rotates_itself_and_stays_a_viewer() {
    let server = TestServer::start().await;
    let viewer = server.key(Role::Viewer).await;
    let rotated = server.send(rotate(&viewer)).await.ok(200);
    assert_eq!(rotated["role"], "viewer");
    let new = text(&rotated["key"]);
    let post = Request::post("/api/v1/tfhe/session", &json!({"preset": "fast_128"})).key(&new);
    server.send(post).await.error(403, "INSUFFICIENT_ROLE");
}

#[tokio::test]
async fn a18_a_rotated_trial_key_keeps_its_end_and_its_count() {
    let server = TestServer::start().await;
    let old = server.key(Role::Trial).await;
    let store = server.running().store();
    let account = store.api_keys().await.unwrap()[0].account_id.clone();
    let reservation = NewReservation {
        transfer_id: "t_1".to_owned(),
        account_id: account.clone(),
        node_id: "node_1".to_owned(),
        month: 1,
        usd_milli_jpy: 1000,
        created_at: 5,
        wanted: Wanted::TrialOperations { count: 7, max: 10 },
    };
    assert!(matches!(store.reserve(reservation).await.unwrap(), Reserved::Made(_)));
    let before = store.trial(&account).await.unwrap().unwrap();
    server.clock.advance(HOUR / 6);
    let rotated = server.send(rotate(&old)).await.ok(200);
    assert_eq!(rotated["environment"], "trial");
    assert_eq!(text(&rotated["old_key_expires_at"]), Timestamp(before.expires_at).rfc3339());
    assert_eq!(store.trial(&account).await.unwrap().unwrap(), before);
    let new = text(&rotated["key"]);
    works(&server, &new).await;
    server.clock.advance(HOUR / 3);
    does_not_work(&server, &old).await;
    does_not_work(&server, &new).await;
}

#[tokio::test]
async fn a17_revoking_a_lineage_ends_a_key_and_its_predecessor() {
    let server = TestServer::start().await;
    let old = server.key(Role::Developer).await;
    let new = text(&server.send(rotate(&old)).await.ok(200)["key"]);
    let other = server.key(Role::Developer).await;
    let store = server.running().store();
    let lineage = store.api_keys().await.unwrap()[0].lineage_id.clone();
    assert_eq!(store.revoke_lineage(&lineage, server.clock.now().0).await.unwrap(), 2);
    assert_eq!(store.revoke_lineage(&lineage, server.clock.now().0).await.unwrap(), 0);
    server.clock.advance(Duration::from_secs(1));
    does_not_work(&server, &old).await;
    does_not_work(&server, &new).await;
    works(&server, &other).await;
    server.send(rotate(&new)).await.error(401, "INVALID_API_KEY");
    assert_eq!(statuses(&server).await, ["revoked", "revoked", "active"]);
}

/// Starts a node on this database, with the secret that all nodes on the database share.
async fn node_on(url: &str) -> TestServer {
    TestServer::with(|config| {
        config.database_url = url.to_owned();
        config.secret = Some(ServerSecret(zeroize::Zeroizing::new([9; 32])));
    })
    .await
}

#[tokio::test]
async fn a17_every_node_refuses_a_revoked_key_within_a_second() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let Some(url) = kind.new_url(folder.path()) else { continue };
        let (first, second) = (node_on(&url).await, node_on(&url).await);
        let key = first.key(Role::Developer).await;
        let trial = text(&second.send(Request::new("POST", "/api/v1/onboarding/temp-key")).await.ok(200)["key"]);
        for node in [&first, &second] {
            works(node, &key).await;
            works(node, &trial).await;
        }
        let path = format!("/api/v1/onboarding/temp-key/{}", &trial[..16]);
        first.send(Request::delete(path)).await.ok(200);
        does_not_work(&first, &trial).await;
        let keys = first.running().store().api_keys().await.unwrap();
        let lineage = &keys.iter().find(|known| known.role == Role::Developer).unwrap().lineage_id;
        first.running().store().revoke_lineage(lineage, first.clock.now().0).await.unwrap();
        for node in [&first, &second] {
            node.clock.advance(Duration::from_secs(1));
            does_not_work(node, &key).await;
            does_not_work(node, &trial).await;
        }
    }
}

#[tokio::test]
async fn g13_a_node_that_starts_ends_no_other_node_s_sessions() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let Some(url) = kind.new_url(folder.path()) else { continue };
        let first = node_on(&url).await;
        let key = first.key(Role::Developer).await;
        let session = tests_service::gates::open_session(&first, &key, client::Preset::Fast128).await;
        let second = node_on(&url).await;
        let path = format!("/api/v1/tfhe/session/{session}");
        first.send(Request::get(&path).key(&key)).await.ok(200);
        drop(second.stop().await);
        first.send(Request::get(&path).key(&key)).await.ok(200);
    }
}

#[tokio::test]
async fn a3_a_node_with_another_secret_than_the_database_s_keys_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let url = Kind::Sqlite.new_url(folder.path()).unwrap();
    let first = node_on(&url).await;
    let other = tempfile::tempdir().unwrap();
    let mut config = Config::in_folder(other.path());
    config.database_url = url;
    config.secret = Some(ServerSecret(zeroize::Zeroizing::new([8; 32])));
    // as long as the database has no key, a node starts with any secret
    drop(first.stop().await);
    let node = App::start(config.clone()).await.expect("no key was made under the first secret");
    node.shutdown().await;
    control::admin::create_key(&config, Role::Developer, control::caller::Environment::Live, None, None).await.unwrap();
    config.secret = Some(ServerSecret(zeroize::Zeroizing::new([9; 32])));
    let elsewhere = tempfile::tempdir().unwrap();
    config.data_dir = elsewhere.path().to_owned();
    let error = App::start(config).await.err().expect("the node does not start").to_string();
    assert!(error.starts_with("ANGO_SECRET: "), "{error}");
}

#[tokio::test]
async fn i5_a_rotation_sent_again_under_its_idempotency_key_gives_the_same_key() {
    let server = TestServer::start().await;
    let old = server.key(Role::Developer).await;
    let request = || rotate(&old).header("Idempotency-Key", "once");
    let first = server.send(request()).await.ok(200);
    let again = server.send(request()).await;
    assert_eq!((again.ok(200), again.header("idempotent-replayed")), (first.clone(), Some("true")));
    works(&server, &text(&first["key"])).await;
    assert_eq!(statuses(&server).await, ["rotating", "active"]);
}

#[tokio::test]
async fn a16_when_a_key_was_last_used_is_on_record_at_the_latest_when_the_node_stops() {
    let server = TestServer::start().await;
    let used = server.key(Role::Developer).await;
    let _unused = server.key(Role::Developer).await;
    let before = server.clock.now().0;
    works(&server, &used).await;
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, |_| ()).await;
    let keys = server.running().store().api_keys().await.unwrap();
    assert!(keys[0].last_used_at.is_some_and(|at| at >= before && at <= server.clock.now().0));
    assert_eq!(keys[1].last_used_at, None);
}
