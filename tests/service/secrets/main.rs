//! Searches for secrets in the places where the node writes (readings A3, K5, X16).
//!
//! The suite has its own process, because it searches the log of the whole process.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Preset;
use control::caller::Role;
use serde_json::json;
use tests_service::http::Request;
use tests_service::users::{PASSWORD, User};
use tests_service::{TestServer, canary, keys};
use tests_store::Kind;
use tracing_subscriber::fmt::MakeWriter;

const WRONG_PASSWORD: &str = "wrong horse battery staple";

/// The log of this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

fn contains(place: &[u8], canary: &[u8]) -> bool {
    memchr::memmem::find(place, canary).is_some()
}

/// Returns paths and contents of all files below a folder. Leaves out a file that a running server deletes before the
/// file is read.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let found = entries.map(|path| match path.is_dir() {
        true => files(&path),
        false => std::fs::read(&path).ok().into_iter().map(|bytes| (path.display().to_string(), bytes)).collect(),
    });
    found.flatten().collect()
}

#[tokio::test]
async fn x16_secrets_reach_neither_log_nor_metrics_nor_disk() {
    let log = Log::default();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).with_ansi(false).init();
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let secret = keys::of(Preset::Fast128);
    let secret_bytes = secret.secret.to_bytes();
    let wrong_key = format!("svc_live_{}", "ab".repeat(16));

    // the whole life of a session, and refused requests that carry its secrets
    let upload = json!({"eval_key_b64": STANDARD.encode(&secret.evaluation)});
    let opened = server.send(Request::post("/api/v1/tfhe/eval-session", &upload).key(&key)).await.ok(201);
    let session = opened["session_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/tfhe/session/{session}");
    let a = STANDARD.encode(secret.encrypt(true));
    let gate = json!({"session_id": session, "op": "NOT", "a": a});
    server.send(Request::post("/api/v1/tfhe/gate", &gate).key(&key)).await.ok(200);
    let managed = json!({"preset": "fast_128"});
    let managed = server.send(Request::post("/api/v1/tfhe/session", &managed).key(&key)).await.ok(201);
    let managed = managed["session_id"].as_str().unwrap().to_owned();
    server.send(Request::get(&path).key(&key)).await.ok(200);
    server.send(Request::get(&path).key(&wrong_key)).await.error(401, "INVALID_API_KEY");
    server.send(Request::get(format!("{path}/nowhere")).key(&key)).await.error(404, "NOT_FOUND");
    server.send(Request::new("PUT", &path).key(&key)).await.error(405, "METHOD_NOT_ALLOWED");
    for body in [
        json!({"secret_key": STANDARD.encode(&*secret_bytes)}),
        json!({"eval_key_b64": STANDARD.encode(&*secret_bytes)}),
    ] {
        let request = Request::post("/api/v1/tfhe/eval-session", &body).key(&key);
        let refusal = server.send(request).await;
        refusal.error(400, "SECRET_KEY_REJECTED");
        assert!(!contains(&refusal.body, &STANDARD.encode(&*secret_bytes).as_bytes()[200..232]));
    }
    server.send(Request::delete(&path).key(&key)).await;
    let trial = server.send(Request::new("POST", "/api/v1/onboarding/temp-key")).await.ok(200)["key"].to_string();
    let rotate = Request::new("POST", "/api/v1/keys/apikey/rotate").header("Idempotency-Key", "once");
    let rotated = server.send(rotate.key(&key)).await.ok(200)["key"].to_string();
    // a request that carries a whole trial key in its path
    let end = format!("/api/v1/onboarding/temp-key/{}", trial.trim_matches('"'));
    server.send(Request::delete(end)).await.ok(200);

    // requests of a signed-in user, and refused requests that carry the user's secrets
    let link = server.running().first_setup_link().await.unwrap().unwrap();
    let setup = link.split_once('#').unwrap().1;
    let first = json!({"token": setup, "email": "ada@example.org", "password": PASSWORD});
    let user = User::of(&server.send(Request::post("/auth/setup", &first)).await.ok(201));
    server.send(Request::post("/auth/setup", &first)).await.error(401, "INVALID_CREDENTIALS");
    let wrong = json!({"email": "ada@example.org", "password": WRONG_PASSWORD});
    server.send(Request::post("/auth/login", &wrong)).await.error(401, "INVALID_CREDENTIALS");
    let refresh = json!({"refresh_token": user.refresh});
    server.send(Request::post("/auth/refresh", &refresh)).await.ok(200);
    // after a minute, the grace time of the exchanged refresh token (20 seconds) is over
    server.clock.advance(Duration::from_secs(60));
    server.send(Request::post("/auth/refresh", &refresh)).await.error(401, "INVALID_CREDENTIALS");
    server.send(Request::get("/api/v1/user/api-keys").key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
    let metrics = server.operations_get("/metrics").await.body;
    let folder = server.stop().await;

    let secret_text = STANDARD.encode(&*secret_bytes);
    let pepper = std::fs::read(folder.path().join("pepper")).unwrap();
    let canaries: [(&str, &[u8]); 15] = [
        ("a password", PASSWORD.as_bytes()),
        ("a wrong password", WRONG_PASSWORD.as_bytes()),
        ("a session token", &user.token.as_bytes()[user.token.len() - 40..]),
        ("a refresh token", &user.refresh.as_bytes()[3..]),
        ("a setup link", &setup.as_bytes()[3..]),
        ("a trial key", &trial.trim_matches('"').as_bytes()[16..]),
        ("a rotated key", &rotated.trim_matches('"').as_bytes()[16..]),
        ("the API key", &key.as_bytes()[16..]),
        ("a wrong API key", &wrong_key.as_bytes()[16..]),
        ("the session id", &session.as_bytes()[5..]),
        ("a managed session's id", &managed.as_bytes()[5..]),
        ("a ciphertext", &a.as_bytes()[100..132]),
        ("the secret key", &secret_bytes[100..132]),
        ("the secret key as base64", &secret_text.as_bytes()[200..232]),
        ("the pepper", &pepper),
    ];
    let mut places = files(&Kind::chosen().on_disk(folder.path()));
    let database_caught = places.iter().any(|(_, bytes)| contains(bytes, &key.as_bytes()[..16]));
    assert!(database_caught, "the database's files do not have the public start of a key");
    if Kind::chosen() != Kind::Sqlite {
        places.extend(files(folder.path()));
    }
    places.retain(|(name, _)| !name.ends_with("/pepper"));
    let log = log.0.lock().unwrap().clone();
    assert!(contains(&log, b"route=\"/api/v1/tfhe/session/{session_id}\""), "the test did not capture the log");
    // the search that all other suites use (`canary::secret_in`) finds no secret in this log either
    let text = String::from_utf8_lossy(&log);
    assert_eq!(text.lines().find_map(canary::secret_in), None);
    places.extend([("the log".to_owned(), log.clone()), ("the metrics".to_owned(), metrics)]);
    for (place, bytes) in &places {
        for (what, canary) in canaries {
            assert!(!contains(bytes, canary), "{what} is in {place}");
        }
    }
}
