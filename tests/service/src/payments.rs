//! A payment provider in this process. The stand-in speaks the part of Stripe's API that the node uses, checks every
//! request, keeps a state of its own, and signs events like Stripe. Tests let the stand-in decline, delay, lose and
//! refuse requests. Events wait until the test delivers them, in any order and as often as the test likes.

mod account;
mod lists;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use control::clock::Clock;
use control::config::{Config, PaymentSecret, ProviderChoice};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::http;
use crate::http::Request;

pub use account::Account;
use account::Form;

/// The API key that the node must send.
const SECRET_KEY: &str = "sk_test_0123456789abcdef";
/// The secret that signs events.
pub const WEBHOOK_SECRET: &str = "whsec_of_the_first_endpoint";
/// The signing secret that replaces the first one.
pub const NEXT_WEBHOOK_SECRET: &str = "whsec_of_the_second_endpoint";
/// The API version that the node uses.
const VERSION: &str = "2025-09-30.clover";
/// The node's path for events.
const WEBHOOK: &str = "/api/v1/billing/provider_webhook";

/// How long the provider keeps an idempotency key and its answer, in seconds.
const KEY_KEPT_S: i64 = 24 * 3600;

/// A fault with which the provider answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers 500 and does nothing.
    Error,
    /// Does nothing, answers 500, and repeats that answer for a day to requests with the same idempotency key.
    Stored,
    /// Does the request and answers 500.
    ErrorAfter,
    /// Answers 429.
    TooMany,
    /// Does the request, and answers with a body that is no JSON.
    Garbage,
    /// Does the request, and ends the connection in the middle of the answer.
    Cut,
    /// Does the request, and answers a second later.
    Late,
    /// Does nothing and never answers.
    Silent,
}

/// A moment in a request to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The request has arrived, and the provider has done nothing.
    Arrived,
    /// The provider has carried the request out, and has not answered.
    Done,
}

/// What a test does in a request to the provider, and in which one.
struct Ambush {
    moment: Moment,
    /// Number of requests until then. 1: the next request.
    left: u32,
    act: Box<dyn FnOnce() + Send>,
}

/// A provider on a free port of 127.0.0.1. The provider runs until this value is dropped.
pub struct PaymentStandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// The answer to the first request with an idempotency key.
#[derive(Clone)]
struct Answer {
    /// Seconds since 1970.
    at_s: i64,
    asked: String,
    status: u16,
    body: Value,
}

struct Shared {
    clock: Mutex<Clock>,
    account: Mutex<Account>,
    faults: Mutex<VecDeque<(String, Fault)>>,
    /// By idempotency key.
    answers: Mutex<HashMap<String, Answer>>,
    asked: Mutex<Vec<String>>,
    /// How long the provider takes for an answer.
    latency: Mutex<Duration>,
    ambush: Mutex<Option<Ambush>>,
}

impl Shared {
    /// Does what the test wants done at this moment of a request. False: nothing.
    fn ambushes(&self, moment: Moment) -> bool {
        let mut ambush = self.ambush.lock().expect("no panic");
        let Some(waiting) = ambush.as_mut().filter(|waiting| waiting.moment == moment) else { return false };
        waiting.left -= 1;
        let due = if waiting.left == 0 { ambush.take() } else { None };
        drop(ambush);
        due.map(|due| (due.act)()).is_some()
    }
}

impl PaymentStandIn {
    /// Starts the provider.
    pub async fn start() -> PaymentStandIn {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            clock: Mutex::new(Clock::system()),
            account: Mutex::default(),
            faults: Mutex::default(),
            answers: Mutex::default(),
            asked: Mutex::default(),
            latency: Mutex::default(),
            ambush: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("the server runs") });
        PaymentStandIn { address, shared, task }
    }

    /// Sets the settings of a node so that the node uses this provider.
    pub fn configure(&self, config: &mut Config) {
        let secret = |text: &str| PaymentSecret(text.to_owned().into());
        config.payments.payments_provider = ProviderChoice::Stripe;
        config.payments.stripe_api_base = format!("http://{}", self.address).parse().expect("a URL");
        // tests do not wait for the pace of calls
        config.payments.payments_calls_per_second = 1000;
        config.payments.stripe_secret_key = Some(secret(SECRET_KEY));
        config.payments.stripe_webhook_secrets = vec![secret(WEBHOOK_SECRET), secret(NEXT_WEBHOOK_SECRET)];
    }

    /// Returns the settings of [`PaymentStandIn::configure`] as environment variables, for a node in another process.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("ANGO_PAYMENTS_PROVIDER", "stripe".to_owned()),
            ("ANGO_PAYMENTS_STRIPE_API_BASE", format!("http://{}", self.address)),
            ("ANGO_PAYMENTS_STRIPE_SECRET_KEY", SECRET_KEY.to_owned()),
            ("ANGO_PAYMENTS_STRIPE_WEBHOOK_SECRET", format!("{WEBHOOK_SECRET},{NEXT_WEBHOOK_SECRET}")),
        ]
    }

    /// From now on, the provider takes the time from this clock.
    pub fn follow(&self, clock: &Clock) {
        *self.shared.clock.lock().expect("no panic") = clock.clone();
    }

    /// Locks the provider's state and returns it, for reading and for changes.
    pub fn account(&self) -> MutexGuard<'_, Account> {
        let mut account = self.shared.account.lock().expect("no panic");
        account.now_s = self.now_s();
        account
    }

    fn now_s(&self) -> i64 {
        self.shared.clock.lock().expect("no panic").now().seconds() as i64
    }

    /// Lets the next requests whose method and path, such as `POST /v1/customers`, contain this text fail. Each fault
    /// affects one request.
    pub fn fail(&self, path: &str, faults: &[Fault]) {
        let faults = faults.iter().map(|fault| (path.to_owned(), *fault));
        self.shared.faults.lock().expect("no panic").extend(faults);
    }

    /// From now on, the provider takes this long for an answer.
    pub fn answer_after(&self, latency: Duration) {
        *self.shared.latency.lock().expect("no panic") = latency;
    }

    /// Calls `act` at this moment of the request with this number, from now on. 1: the next request. At
    /// [`Moment::Arrived`] the provider then forgets the request, at [`Moment::Done`] the provider answers. Replaces what
    /// an earlier call of this method set.
    pub fn ambush(&self, moment: Moment, number: u32, act: impl FnOnce() + Send + 'static) {
        let ambush = Ambush { moment, left: number.max(1), act: Box::new(act) };
        *self.shared.ambush.lock().expect("no panic") = Some(ambush);
    }

    /// Withdraws [`PaymentStandIn::ambush`].
    pub fn lift_ambush(&self) {
        *self.shared.ambush.lock().expect("no panic") = None;
    }

    /// Forgets all idempotency keys, as the provider does after a day.
    pub fn forget_keys(&self) {
        self.shared.answers.lock().expect("no panic").clear();
    }

    /// Returns the method and path of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().expect("no panic").clone()
    }

    /// Makes the request with which the provider delivers an event. The secret signs the request.
    pub fn delivery(&self, event: &Value, secret: &str) -> Request {
        let body = event.to_string();
        let signature = signature(&body, secret, self.now_s());
        Request::new("POST", WEBHOOK).header("Stripe-Signature", &signature).body("application/json", body)
    }

    /// Delivers an event to a node.
    pub async fn deliver(&self, node: SocketAddr, event: &Value) -> http::Response {
        self.delivery(event, WEBHOOK_SECRET).send(node).await
    }

    /// Delivers all undelivered events, the oldest first.
    pub async fn deliver_all(&self, node: SocketAddr) {
        let events = self.account().take_events();
        for event in events {
            let answer = self.deliver(node, &event).await.ok(200);
            assert_eq!(answer, json!({"received": true}));
        }
    }
}

impl Drop for PaymentStandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Signs a body. Returns the signature in the form `t=SECONDS,v1=HEX`.
pub fn signature(body: &str, secret: &str, seconds: i64) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key length");
    mac.update(format!("{seconds}.{body}").as_bytes());
    format!("t={seconds},v1={}", hex::encode(mac.finalize().into_bytes()))
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let text = if method == Method::GET {
        uri.query().unwrap_or_default().to_owned()
    } else {
        String::from_utf8(body.to_vec()).expect("text")
    };
    let latency = *shared.latency.lock().expect("no panic");
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    shared.asked.lock().expect("no panic").push(format!("{method} {}", uri.path()));
    let refused = |status: u16, kind: &str, code: &str| {
        let body = json!({"error": {"type": kind, "code": code, "message": "a message of the provider"}});
        (StatusCode::from_u16(status).expect("a status"), axum::Json(body)).into_response()
    };
    if header("authorization") != format!("Bearer {SECRET_KEY}") {
        return refused(401, "invalid_request_error", "api_key_invalid");
    }
    if header("stripe-version") != VERSION {
        return refused(400, "invalid_request_error", "api_version");
    }
    let (key, asked) = (header("idempotency-key"), format!("{method} {} {text}", uri.path()));
    if (method == Method::GET) != key.is_empty() {
        return refused(400, "invalid_request_error", "idempotency_key_missing");
    }
    if shared.ambushes(Moment::Arrived) {
        return std::future::pending().await;
    }
    let fault = {
        let mut faults = shared.faults.lock().expect("no panic");
        let line = format!("{method} {}", uri.path());
        let at = faults.iter().position(|(path, _)| line.contains(path.as_str()));
        at.and_then(|at| faults.remove(at)).map(|(_, fault)| fault)
    };
    match fault {
        Some(Fault::Error) => return refused(500, "api_error", ""),
        Some(Fault::Silent) => return std::future::pending().await,
        Some(Fault::TooMany) => return refused(429, "rate_limit_error", "rate_limit"),
        _ => {}
    }
    let now_s = shared.clock.lock().expect("no panic").now().seconds() as i64;
    let is_kept = |answer: &Answer| !key.is_empty() && now_s < answer.at_s + KEY_KEPT_S;
    let known = shared.answers.lock().expect("no panic").get(&key).cloned().filter(is_kept);
    let (status, value) = match known {
        Some(before) if before.asked != asked => return refused(400, "idempotency_error", "idempotency_key_in_use"),
        Some(Answer { status, body, .. }) => (status, body),
        None => {
            let (status, value) = if fault == Some(Fault::Stored) {
                (500, json!({"error": {"type": "api_error", "message": "a message of the provider"}}))
            } else {
                let mut account = shared.account.lock().expect("no panic");
                account.now_s = now_s;
                account.answer(&method, uri.path(), &Form::read(&text))
            };
            if !key.is_empty() {
                let answer = Answer { at_s: now_s, asked, status, body: value.clone() };
                shared.answers.lock().expect("no panic").insert(key, answer);
            }
            (status, value)
        }
    };
    shared.ambushes(Moment::Done);
    let status = StatusCode::from_u16(status).expect("a status");
    match fault {
        Some(Fault::ErrorAfter) => refused(500, "api_error", ""),
        Some(Fault::Late) => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            (status, axum::Json(value)).into_response()
        }
        Some(Fault::Garbage) => (status, "<html>").into_response(),
        Some(Fault::Cut) => {
            // the body fails after its first byte, so the connection ends in the middle of the answer
            let body = axum::body::Body::from_stream(futures_util::stream::iter([
                Ok::<_, std::io::Error>(Bytes::from_static(b"{")),
                Err(std::io::Error::other("cut")),
            ]));
            Response::builder().status(status).body(body).expect("an answer")
        }
        _ => (status, axum::Json(value)).into_response(),
    }
}
