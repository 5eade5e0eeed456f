//! The life of a session (readings G1-G3, G7, G8, G13, X14).

use std::time::Duration;

use client::Preset;
use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;

use tests_service::gates::{Account, BATCH, GATE, SESSION, SESSIONS, open_session};

const TTL: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn g2_a_session_is_active_then_idle_and_still_computes() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let session = account.show().await;
    assert_eq!((&session["session_id"], &session["preset"]), (&json!(account.session), &json!("fast_128")));
    assert_eq!((&session["state"], &session["is_blind"]), (&json!("active"), &json!(true)));
    assert!(session["expires_at"].as_str().unwrap().ends_with('Z'));
    server.clock.advance(TTL - 5 * MINUTE);
    let session = account.show().await;
    assert_eq!(session["state"], "idle");
    assert!((3300..3420).contains(&session["age_s"].as_u64().unwrap()), "{session}");
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
}

#[tokio::test]
async fn g2_a_short_session_has_no_idle_phase() {
    let server = TestServer::with(|config| config.sessions.ttl = 5 * MINUTE).await;
    let account = Account::open(&server, Preset::Fast128).await;
    server.clock.advance(4 * MINUTE);
    assert_eq!(account.show().await["state"], "active");
}

#[tokio::test]
async fn g1_an_expired_session_is_410_for_a_day_and_then_404() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    server.clock.advance(TTL);
    account.send(Request::get(account.path(""))).await.error(410, "SESSION_EXPIRED");
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.error(410, "SESSION_EXPIRED");
    account.send(Request::delete(account.path(""))).await.error(410, "SESSION_EXPIRED");
    assert_eq!(
        account.send(Request::get(SESSIONS)).await.ok(200),
        json!({"sessions": [], "next_cursor": null, "has_more": false, "total_count": 0})
    );
    server.clock.advance(24 * 60 * MINUTE - MINUTE);
    account.send(Request::get(account.path(""))).await.error(410, "SESSION_EXPIRED");
    server.clock.advance(2 * MINUTE);
    account.send(Request::get(account.path(""))).await.error(404, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn g3_an_expired_key_is_erased_though_nobody_asks() {
    let server = TestServer::start().await;
    let _account = Account::open(&server, Preset::Fast128).await;
    assert!(server.metric("ango_key_bytes").await > 0.0);
    server.clock.advance(TTL);
    server.metric_becomes("ango_key_bytes", |bytes| bytes == 0.0).await;
    assert_eq!(server.metric("ango_sessions").await, 0.0);
    assert_eq!(server.metric("ango_resident_bytes").await, 0.0);
}

#[tokio::test]
async fn g3_a_deleted_session_is_gone_and_its_key_erased() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
    assert!(server.metric("ango_resident_bytes").await > 0.0);
    let deleted = account.send(Request::delete(account.path(""))).await;
    assert_eq!((deleted.status, deleted.body.len(), deleted.header("content-type")), (204, 0, None));
    for name in ["ango_key_bytes", "ango_resident_bytes", "ango_sessions"] {
        assert_eq!(server.metric(name).await, 0.0, "{name}");
    }
    account.send(Request::delete(account.path(""))).await.error(404, "SESSION_NOT_FOUND");
    account.send(Request::get(account.path(""))).await.error(404, "SESSION_NOT_FOUND");
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.error(404, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn g3_deleting_a_busy_session_waits_for_the_running_batch_and_erases_the_key() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let batch = Request::post(BATCH, &account.batch("NAND", 512)).key(&account.key);
    let address = server.address;
    let running = tokio::spawn(async move { batch.send(address).await });
    server.metric_becomes("ango_running_rows", |rows| rows > 0.0).await;
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    server.metric_becomes("ango_key_bytes", |bytes| bytes == 0.0).await;
    assert_eq!(server.metric("ango_key_erase_seconds_count").await, 1.0);
    let erase_seconds = server.metric("ango_key_erase_seconds_sum").await;
    assert!(erase_seconds < 5.0, "{erase_seconds} s");
    let answer = running.await.unwrap();
    let (_, _, milli_yen) = account_totals(&server).await;
    match answer.status {
        // all gates had started before the session was deleted, so they are charged
        200 => assert_eq!(milli_yen, 512 * 70),
        _ => {
            answer.error(404, "SESSION_NOT_FOUND");
            assert_eq!(milli_yen, 0);
        }
    }
}

/// Returns the gates, the bootstraps and the thousandths of a yen of all accounts on the server together. Only one
/// account has evaluated gates.
async fn account_totals(server: &TestServer) -> (i64, i64, i64) {
    let store = server.running().store();
    let mut totals = (0, 0, 0);
    for key in store.api_keys().await.unwrap() {
        let (gates, bootstraps, milli_yen) = store.gate_usage_totals(&key.account_id).await.unwrap();
        totals = (totals.0 + gates, totals.1 + bootstraps, totals.2 + milli_yen);
    }
    totals
}

#[tokio::test]
async fn x14_somebody_else_s_session_is_an_unknown_one() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let stranger = server.key(Role::AccountAdmin).await;
    let gate = account.gate("NAND", true, Some(true), None);
    let unknown = "sess_00000000000000000000000000";
    let mut answers = Vec::new();
    for session in [account.session.as_str(), unknown, "nonsense", "%ff", "sess_"] {
        let path = format!("{SESSION}/{session}");
        let mut gate = gate.clone();
        gate["session_id"] = json!(session);
        for request in [
            Request::get(&path),
            Request::delete(&path),
            Request::post(format!("{path}/encrypt"), &json!({"bit": true})),
            Request::post(format!("{path}/decrypt"), &json!({"ciphertext_b64": "AA"})),
            Request::post(GATE, &gate),
            Request::post(BATCH, &json!({"session_id": session, "gates": [gate]})),
        ] {
            let error = server.send(request.key(&stranger)).await.error(404, "SESSION_NOT_FOUND");
            answers.push(error["message"].as_str().unwrap().to_owned());
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    account.nothing_charged().await;
}

#[tokio::test]
async fn x15_all_keys_of_an_account_see_its_sessions_and_only_those() {
    let server = TestServer::start().await;
    let (admin, account) = server.create_key(Role::AccountAdmin, None).await;
    let (viewer, _) = server.create_key(Role::Viewer, Some(account)).await;
    let first = open_session(&server, &admin, Preset::Fast128).await;
    let second = open_session(&server, &admin, Preset::Standard128).await;
    open_session(&server, &server.key(Role::Developer).await, Preset::Fast128).await;
    let list = server.send(Request::get(SESSIONS).key(&admin)).await.ok(200);
    let listed: Vec<_> =
        list["sessions"].as_array().unwrap().iter().map(|session| session["session_id"].clone()).collect();
    assert_eq!(listed, [json!(second), json!(first)]);
    server.send(Request::get(format!("{SESSION}/{first}")).key(&viewer)).await.ok(200);
}

#[tokio::test]
async fn g7_a_blind_session_neither_encrypts_nor_decrypts() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let error = account.post(&account.path("/encrypt"), &json!({"bit": true})).await.error(400, "INVALID_REQUEST");
    assert!(error["message"].as_str().unwrap().contains("blind session"));
    let body = json!({"ciphertext_b64": account.encrypt(true)});
    account.post(&account.path("/decrypt"), &body).await.error(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn g8_an_operator_can_switch_managed_sessions_off() {
    let server = TestServer::with(|config| config.sessions.allow_server_held_key = false).await;
    let key = server.key(Role::Developer).await;
    server.send(Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key)).await.error(403, "FEATURE_DISABLED");
}

#[tokio::test]
async fn e1_a_preset_outside_the_set_is_a_bad_request() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    for preset in ["", "fast_64", "FAST_128", "fast_128 "] {
        server.send(Request::post(SESSION, &json!({"preset": preset})).key(&key)).await.error(400, "INVALID_REQUEST");
    }
    server.send(Request::post(SESSION, &json!({"preset": 128})).key(&key)).await.error(422, "VALIDATION_ERROR");
    server.send(Request::post(SESSION, &json!({})).key(&key)).await.error(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn g13_sessions_of_a_node_that_stopped_are_lost() {
    let server = TestServer::start().await;
    let Account { key, session, .. } = Account::open(&server, Preset::Fast128).await;
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, |_| ()).await;
    let error = server.send(Request::get(format!("{SESSION}/{session}")).key(&key)).await.error(410, "SESSION_EXPIRED");
    assert!(error["message"].as_str().unwrap().contains("session lost"));
    server.clock.advance(24 * 60 * MINUTE);
    server.send(Request::get(format!("{SESSION}/{session}")).key(&key)).await.error(404, "SESSION_NOT_FOUND");
}
