//! What the tests of gate sessions share: a key, a server, and short words for requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Preset;
use control::auth::Role;
use serde_json::{Value, json};
use tests::TestServer;
use tests::http::{Request, Response};
use tests::keys::{self, ClientKey};

pub const EVAL_SESSION: &str = "/api/v1/tfhe/eval-session";
pub const SESSION: &str = "/api/v1/tfhe/session";
pub const SESSIONS: &str = "/api/v1/tfhe/sessions";
pub const GATE: &str = "/api/v1/tfhe/gate";
pub const BATCH: &str = "/api/v1/tfhe/batch";

/// Bytes as a member of JSON.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a member of JSON.
#[track_caller]
pub fn bytes(member: &Value) -> Vec<u8> {
    STANDARD.decode(member.as_str().expect("a string")).expect("base64")
}

/// An account with an open blind session.
pub struct Account<'s> {
    pub server: &'s TestServer,
    pub key: String,
    pub session: String,
    pub secret: &'static ClientKey,
}

impl<'s> Account<'s> {
    /// A new account_admin with a session of this preset.
    pub async fn open(server: &'s TestServer, preset: Preset) -> Self {
        let key = server.key(Role::AccountAdmin).await;
        let session = open_session(server, &key, preset).await;
        Self { server, key, session, secret: keys::of(preset) }
    }

    pub async fn send(&self, request: Request) -> Response {
        self.server.send(request.key(&self.key)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.send(Request::post(path, body)).await
    }

    /// The session's own address, with what comes after it.
    pub fn path(&self, rest: &str) -> String {
        format!("{SESSION}/{}{rest}", self.session)
    }

    pub async fn show(&self) -> Value {
        self.send(Request::get(self.path(""))).await.ok(200)
    }

    pub fn encrypt(&self, bit: bool) -> String {
        base64(&self.secret.encrypt(bit))
    }

    #[track_caller]
    pub fn decrypt(&self, member: &Value) -> bool {
        self.secret.decrypt(&bytes(member))
    }

    /// A gate request on plain bits.
    pub fn gate(&self, op: &str, a: bool, b: Option<bool>, sel: Option<bool>) -> Value {
        json!({
            "session_id": self.session,
            "op": op,
            "a": self.encrypt(a),
            "b": b.map(|bit| self.encrypt(bit)),
            "sel": sel.map(|bit| self.encrypt(bit)),
        })
    }

    /// A batch of equal gates.
    pub fn batch(&self, op: &str, gates: usize) -> Value {
        let gate = json!({"op": op, "a": self.encrypt(true), "b": self.encrypt(false), "sel": self.encrypt(true)});
        json!({"session_id": self.session, "gates": vec![gate; gates]})
    }

    /// Checks that nothing was charged.
    pub async fn nothing_charged(&self) {
        let session = self.show().await;
        assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(0), &json!(0)));
    }
}

/// Opens a blind session; its id.
pub async fn open_session(server: &TestServer, key: &str, preset: Preset) -> String {
    let upload =
        Request::new("POST", EVAL_SESSION).body("application/octet-stream", keys::of(preset).evaluation.clone());
    let opened = server.send(upload.key(key)).await.ok(201);
    opened["session_id"].as_str().expect("a session id").to_owned()
}
