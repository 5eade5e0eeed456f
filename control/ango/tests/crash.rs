//! Lets nodes crash before and after each of their writes, and checks the state that the next node finds on the same
//! folder (readings I3, I4), on both databases. `node::Place::moments` says where only one of both moments is tested.
//!
//! Each writing request goes to a node that dies at the first write, then to a node that dies at the second write, and
//! so on until a node answers. That node is killed after its answer. So the suite needs no list of the writes.
#![cfg(all(unix, feature = "held-keys", debug_assertions))]

use control::admin::{self, Operator};
use control::caller::Plan;
use control::caller::{Environment, Role};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::{RecordedState, Store};
use tests_service::http::{Request, Response};
use tests_service::node::{self, serial};
use tests_service::users::PASSWORD;
use tests_store::Kind;

const SESSION: &str = "/api/v1/tfhe/session";
const SESSIONS: &str = "/api/v1/tfhe/sessions";
const GATE: &str = "/api/v1/tfhe/gate";
const CIRCUITS: &str = "/api/v1/tfhe/circuits";
const TRIAL_KEY: &str = "/api/v1/onboarding/temp-key";
const ROTATE: &str = "/api/v1/keys/apikey/rotate";
const USER_KEYS: &str = "/api/v1/user/api-keys";
const NEW_PASSWORD: &str = "another horse battery staple";
/// A netlist with an AND gate, and an XOR gate that reads the result of the AND gate.
const NETLIST: &str = "2 4\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n2 1 2 1 3 XOR\n";
/// More writes than any request makes.
const WRITES_MAX: u32 = 20;

/// A data folder, its database, and an account with an API key.
struct Place {
    here: node::Place,
    store: Store,
    key: String,
    account: String,
}

impl Place {
    /// Makes a place with a new account. Returns `None` if this machine lacks the database.
    async fn new(kind: Kind) -> Option<Place> {
        let here = node::Place::new(kind, &["anonymous", "free"]).await?;
        let (role, plan) = (Role::AccountAdmin, Some(Plan::Enterprise));
        let made = admin::create_key(&here.config, role, Environment::Live, None, plan).await.unwrap();
        let store = here.store.clone();
        Some(Place { key: made.key.to_string(), account: made.account_id.as_str().to_owned(), here, store })
    }

    fn start(&self) -> Node {
        let mut command = self.here.serve(env!("CARGO_BIN_EXE_ango"));
        // a fixed public URL: each start uses another port, but the issuer in the session tokens must stay the same
        command.args(["--public-url", "http://node", "--trusted-proxies", "127.0.0.0/8"]);
        Node(node::Node::start(command))
    }

    /// Sends requests that `prepare` makes, each to a node that dies one write later than the node before, until a node
    /// answers. After each request, calls `check` with the next node on the folder.
    async fn at_every_write<T>(
        &self,
        prepare: impl AsyncFn(&Node) -> (T, Request),
        check: impl AsyncFn(&Node, T, &Request, Option<Response>),
    ) {
        let mut node = self.start();
        for moment in self.here.moments() {
            for write in 1.. {
                let (given, request) = prepare(&node).await;
                self.here.kill_at(moment, write);
                let answer = node.send(&request).await;
                let died = match &answer {
                    Some(answer) => node.dies_on_its_own(&self.key, answer).await,
                    None => true,
                };
                self.here.spare();
                drop(node);
                node = self.start();
                tests_service::ledger::assert_adds_up(&self.store, &self.account).await;
                check(&node, given, &request, answer).await;
                if !died {
                    assert!(write > 1, "the request wrote nothing: {request:?}");
                    break;
                }
                assert!(write < WRITES_MAX, "every node died: {request:?}");
            }
        }
    }

    fn with_key(&self, request: Request) -> Request {
        request.key(&self.key)
    }

    /// Returns the number of gates for which the account was charged.
    async fn charged(&self) -> i64 {
        self.store.gate_usage_totals(&self.account).await.unwrap().0
    }

    async fn session(&self, node: &Node) -> (String, [Value; 2]) {
        session_of(node, &self.key).await
    }

    /// Creates a user, who has not signed in yet. Returns the user's e-mail address.
    async fn user(&self) -> String {
        let email = format!("user-{}@example.org", serial());
        let operator = Operator::open(&self.here.config).await.unwrap();
        operator.create_user(&email, PASSWORD, Role::Developer, None).await.unwrap();
        email
    }

    /// Creates a user and signs in. Returns the user's e-mail address, session token and refresh token.
    async fn signed_in(&self, node: &Node) -> (String, [String; 2]) {
        let email = self.user().await;
        let tokens = node.send(&log_in(&email, PASSWORD)).await.unwrap().ok(200);
        (email, tokens_of(&tokens))
    }
}

/// A node in another process, killed when dropped.
struct Node(node::Node);

impl Node {
    /// Sends a request from a new address, because a single address would be locked out. `None` if the node died.
    async fn send(&self, request: &Request) -> Option<Response> {
        let [_, high, middle, low] = serial().to_be_bytes();
        let from = format!("10.{high}.{middle}.{low}");
        request.clone().header("X-Forwarded-For", &from).try_send(self.0.address).await
    }

    /// Sends a request to a node that must not die. Returns the status of the answer.
    async fn status(&self, request: Request) -> u16 {
        self.send(&request).await.expect("the node lives").status
    }

    async fn takes(&self, key: &str) -> bool {
        self.status(Request::get(CIRCUITS).key(key)).await != 401
    }

    /// If `answer` announces a run in the background, waits for the end of the run. Returns whether the node died.
    async fn dies_on_its_own(&self, key: &str, answer: &Response) -> bool {
        let Some(op_id) = answer.header("preference-applied").map(|_| text(&answer.json()["op_id"])) else {
            return false;
        };
        let asked = Request::get(format!("{CIRCUITS}/operations/{op_id}")).key(key);
        while let Some(operation) = self.send(&asked).await {
            if !matches!(operation.json()["status"].as_str(), Some("pending" | "running")) {
                return false;
            }
        }
        true
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Opens a session and encrypts two bits. Returns the session's id and the ciphertexts.
async fn session_of(node: &Node, key: &str) -> (String, [Value; 2]) {
    let opened = node.send(&Request::post(SESSION, &json!({"preset": "fast_128"})).key(key)).await;
    let session = text(&opened.unwrap().ok(201)["session_id"]);
    let encrypt = Request::post(format!("{SESSION}/{session}/encrypt"), &json!({"bit": true})).key(key);
    let bit = async || node.send(&encrypt).await.unwrap().ok(200)["ciphertext_b64"].clone();
    let bits = [bit().await, bit().await];
    (session, bits)
}

fn log_in(email: &str, password: &str) -> Request {
    Request::post("/auth/login", &json!({"email": email, "password": password}))
}

fn tokens_of(signed_in: &Value) -> [String; 2] {
    ["access_token", "refresh_token"].map(|name| text(&signed_in[name]))
}

fn refresh(token: &str) -> Request {
    Request::post("/auth/refresh", &json!({"refresh_token": token}))
}

fn once(request: Request) -> Request {
    request.header("Idempotency-Key", &format!("key-{}", serial()))
}

/// Repeats a request with an `Idempotency-Key`. The answer must be a success and equal `first`, if `first` is given.
async fn again(node: &Node, request: &Request, first: Option<Response>) -> Response {
    let second = node.send(request).await.expect("the node lives");
    assert!(second.status < 300, "{request:?}: {}", second.text());
    if let Some(first) = first {
        assert_eq!((first.status, first.text()), (second.status, second.text()));
        assert_eq!(second.header("idempotent-replayed"), Some("true"));
    }
    second
}

async fn sessions_are_opened_once_and_deleted_for_good(place: &Place) {
    place
        .at_every_write(
            async |_| ((), once(place.with_key(Request::post(SESSION, &json!({"preset": "fast_128"}))))),
            async |node, (), request, answer| {
                let open = async || node.send(&place.with_key(Request::get(SESSIONS))).await.unwrap().ok(200);
                assert_eq!(open().await["total_count"], 0);
                let opened = again(node, request, answer).await;
                let replayed = opened.header("idempotent-replayed").is_some();
                let session: [u8; 32] = Sha256::digest(text(&opened.json()["session_id"])).into();
                let record = place.store.gate_session(&place.account, &session).await.unwrap().unwrap();
                assert_eq!(record.state, if replayed { RecordedState::Lost } else { RecordedState::Active });
                assert_eq!(open().await["total_count"], u32::from(!replayed));
            },
        )
        .await;
    place
        .at_every_write(
            async |node| {
                let (session, _) = place.session(node).await;
                let request = place.with_key(Request::delete(format!("{SESSION}/{session}")));
                (session, request)
            },
            async |_, session, _, answer| {
                let digest = Sha256::digest(session).into();
                let record = place.store.gate_session(&place.account, &digest).await.unwrap().unwrap();
                let died = answer.is_none() && record.state == RecordedState::Lost;
                assert!(died || record.state == RecordedState::Deleted, "{:?}", record.state);
            },
        )
        .await;
}

/// Checks that work is charged once and whole, or not at all. A repetition of charged work gets the stored answer.
async fn work_is_charged_once(place: &Place, path: &str, gates: i64, body: impl Fn(&str, [Value; 2]) -> Value) {
    place
        .at_every_write(
            async |node| {
                let (session, bits) = place.session(node).await;
                let request = once(place.with_key(Request::post(path, &body(&session, bits))));
                (place.charged().await, request)
            },
            async |node, before, request, answer| {
                let charged = place.charged().await - before;
                match charged {
                    0 => {
                        assert!(answer.is_none());
                        node.send(request).await.unwrap().error(410, "SESSION_EXPIRED");
                    }
                    _ => {
                        assert_eq!(charged, gates);
                        let answer = again(node, request, answer).await;
                        assert_eq!(answer.header("idempotent-replayed"), Some("true"));
                    }
                }
                assert_eq!(place.charged().await - before, charged);
            },
        )
        .await;
}

/// Checks requests that share commits: a commit has the whole effects of all its requests, or no effect.
async fn work_of_many_callers_is_charged_once_each(place: &Place) {
    const CALLERS: usize = 8;
    let mut node = place.start();
    for moment in place.here.moments() {
        for write in 1..=5 {
            let (session, [a, b]) = place.session(&node).await;
            let gate = json!({"session_id": session, "op": "NAND", "a": a, "b": b});
            let requests: Vec<Request> =
                (0..CALLERS).map(|_| once(place.with_key(Request::post(GATE, &gate)))).collect();
            let before = place.charged().await;
            place.here.kill_at(moment, write);
            let address = node.0.address;
            let sent =
                requests.iter().cloned().map(|request| tokio::spawn(async move { request.try_send(address).await }));
            let mut answers = Vec::new();
            for answer in sent.collect::<Vec<_>>() {
                answers.push(answer.await.unwrap());
            }
            place.here.spare();
            drop(node);
            node = place.start();
            let mut charged = 0;
            for (request, answer) in requests.iter().zip(answers) {
                let answered = answer.is_some_and(|answer| answer.status == 200);
                let second = node.send(request).await.unwrap();
                if second.status == 200 {
                    assert_eq!(second.header("idempotent-replayed"), Some("true"));
                    charged += 1;
                } else {
                    assert!(!answered);
                    second.error(410, "SESSION_EXPIRED");
                }
            }
            assert_eq!(place.charged().await - before, charged, "{moment} {write}");
        }
    }
}

async fn runs_that_nobody_waits_for_are_on_record_if_they_were_accepted(place: &Place) {
    place
        .at_every_write(
            async |node| {
                let (session, [a, b]) = place.session(node).await;
                let body = json!({"session_id": session, "circuit": NETLIST, "inputs": [[a], [b]]});
                let request = once(place.with_key(Request::post(CIRCUITS, &body))).header("Prefer", "respond-async");
                (place.charged().await, request)
            },
            async |node, before, request, answer| {
                let charged = place.charged().await - before;
                let second = node.send(request).await.unwrap();
                if second.status != 200 {
                    assert!(answer.is_none() && charged == 0);
                    second.error(410, "SESSION_EXPIRED");
                    return;
                }
                let op_id = text(&second.json()["op_id"]);
                assert!(answer.is_none_or(|answer| answer.json()["op_id"] == op_id.as_str()));
                let asked = place.with_key(Request::get(format!("{CIRCUITS}/operations/{op_id}")));
                let operation = node.send(&asked).await.unwrap().ok(200);
                let completed = operation["status"] == "completed";
                assert!(completed || operation["status"] == "failed", "{operation}");
                assert_eq!(charged, if completed { 2 } else { 0 });
            },
        )
        .await;
}

async fn circuits_are_kept_whole_and_deleted_for_good(place: &Place) {
    let path = async |_: &Node| format!("{CIRCUITS}/kept-{}", serial());
    let kept = async |node: &Node, path: &str| node.status(place.with_key(Request::get(path))).await;
    place
        .at_every_write(
            async |node| {
                let path = path(node).await;
                (path.clone(), place.with_key(Request::put_text(path, NETLIST)))
            },
            async |node, path, request, answer| {
                let there = kept(node, &path).await;
                assert!(there == 200 || (there == 404 && answer.is_none()), "{there}");
                assert!(node.send(request).await.unwrap().status < 300);
                assert_eq!(kept(node, &path).await, 200);
            },
        )
        .await;
    place
        .at_every_write(
            async |node| {
                let path = path(node).await;
                assert_eq!(node.status(place.with_key(Request::put_text(path.clone(), NETLIST))).await, 201);
                (path.clone(), place.with_key(Request::delete(path)))
            },
            async |node, path, _, answer| {
                let there = kept(node, &path).await;
                assert!(there == 404 || (there == 200 && answer.is_none()), "{there}");
            },
        )
        .await;
    // a circuit is replaced as a whole: the node runs either the old or the new netlist, and the facts that it shows are of this netlist
    let newer = NETLIST.replace("XOR", "AND");
    place
        .at_every_write(
            async |node| {
                let path = path(node).await;
                assert_eq!(node.status(place.with_key(Request::put_text(path.clone(), NETLIST))).await, 201);
                (path.clone(), place.with_key(Request::put_text(path, newer.as_str())))
            },
            async |node, path, _, answer| {
                let facts = node.send(&place.with_key(Request::get(&path))).await.unwrap().ok(200);
                let is_newer = facts["gates"]["AND"] == 2;
                assert!(is_newer || answer.is_none(), "{facts}");
                let (session, [a, b]) = place.session(node).await;
                let body = json!({"session_id": session, "circuit": path.rsplit('/').next(), "inputs": [[a], [b]]});
                let run = node.send(&place.with_key(Request::post(CIRCUITS, &body))).await.unwrap().ok(200);
                assert_eq!(run["gates"], facts["gates"]);
            },
        )
        .await;
}

async fn trial_keys_work_if_they_were_shown_and_end_if_that_was_said(place: &Place) {
    let make = Request::new("POST", TRIAL_KEY);
    place
        .at_every_write(
            async |_| ((), make.clone()),
            async |node, (), _, answer| {
                if let Some(answer) = answer {
                    assert!(node.takes(&text(&answer.ok(200)["key"])).await);
                }
                let keys = place.store.api_keys().await.unwrap();
                for key in keys.iter().filter(|key| key.environment == Environment::Trial) {
                    assert!(place.store.trial(&key.account_id).await.unwrap().is_some());
                }
            },
        )
        .await;
    place
        .at_every_write(
            async |node| {
                let key = text(&node.send(&make).await.unwrap().ok(200)["key"]);
                let request = Request::delete(format!("{TRIAL_KEY}/{key}"));
                (key, request)
            },
            async |node, key, request, answer| {
                if answer.is_none() {
                    assert!(matches!(node.status(request.clone()).await, 200 | 404));
                }
                assert!(!node.takes(&key).await);
            },
        )
        .await;
}

async fn what_a_trial_has_used_is_what_was_charged(place: &Place) {
    place
        .at_every_write(
            async |node| {
                let key = text(&node.send(&Request::new("POST", TRIAL_KEY)).await.unwrap().ok(200)["key"]);
                let (session, [a, b]) = session_of(node, &key).await;
                let gate = json!({"session_id": session, "op": "NAND", "a": a, "b": b});
                let prefix = key[..16].to_owned();
                (prefix, Request::post(GATE, &gate).key(&key))
            },
            async |_, prefix, _, answer| {
                let keys = place.store.api_keys().await.unwrap();
                let account = &keys.iter().rfind(|key| key.key_prefix == prefix).unwrap().account_id;
                let (charged, ..) = place.store.gate_usage_totals(account).await.unwrap();
                assert!(charged == 1 || answer.is_none());
                assert_eq!(place.store.trial(account).await.unwrap().unwrap().operations_used, charged);
            },
        )
        .await;
}

async fn keys_are_rotated_once(place: &Place) {
    place
        .at_every_write(
            async |_| {
                let (role, plan) = (Role::Developer, Some(Plan::Enterprise));
                let made = admin::create_key(&place.here.config, role, Environment::Test, None, plan).await.unwrap();
                let rotate = Request::new("POST", ROTATE).key(&made.key);
                ((made.account_id, rotate.clone()), once(rotate))
            },
            async |node, (account, rotate), request, answer| {
                let answer = again(node, request, answer).await;
                assert!(node.takes(&text(&answer.ok(200)["key"])).await);
                node.send(&once(rotate)).await.unwrap().error(409, "CONFLICT");
                let keys = Operator::open(&place.here.config).await.unwrap().keys(Some(&account)).await.unwrap();
                assert_eq!(keys.len(), 2);
            },
        )
        .await;
}

async fn keys_of_users_are_made_once_and_end_if_that_was_said(place: &Place) {
    let make = |token: &str| once(Request::post(USER_KEYS, &json!({"environment": "test"})).key(token));
    place
        .at_every_write(
            async |node| {
                let (_, [token, _]) = place.signed_in(node).await;
                let request = make(&token);
                (token, request)
            },
            async |node, token, request, answer| {
                let answer = again(node, request, answer).await;
                assert!(node.takes(&text(&answer.ok(201)["key"])).await);
                let keys = node.send(&Request::get(USER_KEYS).key(&token)).await.unwrap().ok(200);
                assert_eq!(keys["total_count"], 1, "{keys}");
            },
        )
        .await;
    place
        .at_every_write(
            async |node| {
                let (_, [token, _]) = place.signed_in(node).await;
                let made = node.send(&make(&token)).await.unwrap().ok(201);
                let request = Request::delete(format!("{USER_KEYS}/{}", text(&made["key_id"]))).key(&token);
                (text(&made["key"]), request)
            },
            async |node, key, request, answer| {
                if answer.is_none() {
                    assert!(matches!(node.status(request.clone()).await, 204 | 404));
                }
                assert!(!node.takes(&key).await);
            },
        )
        .await;
}

async fn who_was_signed_in_stays_so_and_who_was_not_can_sign_in(place: &Place) {
    let stands = async |node: &Node, tokens: [String; 2]| {
        assert_eq!(node.status(Request::get(USER_KEYS).key(&tokens[0])).await, 200);
        assert_eq!(node.status(refresh(&tokens[1])).await, 200);
    };
    place
        .at_every_write(
            async |_| {
                let request = log_in(&place.user().await, PASSWORD);
                ((), request)
            },
            async |node, (), request, answer| match answer {
                Some(answer) => stands(node, tokens_of(&answer.ok(200))).await,
                None => assert_eq!(node.status(request.clone()).await, 200),
            },
        )
        .await;
    place
        .at_every_write(
            async |node| {
                let (email, [_, token]) = place.signed_in(node).await;
                (email, refresh(&token))
            },
            async |node, email, request, answer| match answer {
                Some(answer) => stands(node, tokens_of(&answer.ok(200))).await,
                // the answer was lost: within the grace time the old token gets the same new token (200), later it ends the sign-in (401)
                None => {
                    assert!(matches!(node.status(request.clone()).await, 200 | 401));
                    assert_eq!(node.status(log_in(&email, PASSWORD)).await, 200);
                }
            },
        )
        .await;
    place
        .at_every_write(
            async |node| {
                let (_, tokens) = place.signed_in(node).await;
                let request = once(Request::new("POST", "/api/v1/user/logout").key(&tokens[0]));
                (tokens, request)
            },
            async |node, tokens, request, answer| {
                if answer.is_none() {
                    assert!(matches!(node.status(request.clone()).await, 200 | 401));
                }
                assert_eq!(node.status(Request::get(USER_KEYS).key(&tokens[0])).await, 401);
                assert_eq!(node.status(refresh(&tokens[1])).await, 401);
            },
        )
        .await;
}

async fn a_password_is_the_old_or_the_new_one(place: &Place) {
    place
        .at_every_write(
            async |node| {
                let (email, [token, _]) = place.signed_in(node).await;
                let body = json!({"current_password": PASSWORD, "new_password": NEW_PASSWORD});
                (email, once(Request::post("/auth/password", &body).key(&token)))
            },
            async |node, email, request, answer| {
                let works = async |password| node.status(log_in(&email, password)).await == 200;
                let changed = works(NEW_PASSWORD).await;
                assert_eq!(works(PASSWORD).await, !changed);
                assert!(changed || answer.is_none());
                // if the password was changed, the repeated request gets the stored answer: with the old password it could not run again
                let answer = again(node, request, answer).await;
                assert_eq!(answer.header("idempotent-replayed").is_some(), changed);
                assert!(works(NEW_PASSWORD).await);
            },
        )
        .await;
}

async fn a_reset_link_is_used_up_with_its_effect(place: &Place) {
    place
        .at_every_write(
            async |_| {
                let email = place.user().await;
                let operator = Operator::open(&place.here.config).await.unwrap();
                let (_, link) = operator.reset_link(&place.here.config, &email).await.unwrap();
                let token = link.split_once('#').unwrap().1;
                let body = json!({"token": token, "new_password": NEW_PASSWORD});
                (email, Request::post("/auth/reset", &body))
            },
            async |node, email, request, answer| {
                let changed = node.status(log_in(&email, NEW_PASSWORD)).await == 200;
                assert!(changed || answer.is_none());
                assert_eq!(node.status(request.clone()).await, if changed { 401 } else { 200 });
                assert_eq!(node.status(log_in(&email, NEW_PASSWORD)).await, 200);
            },
        )
        .await;
}

/// Each attempt has a new place, because a setup link makes only the first administrator of a database.
async fn a_setup_link_makes_an_administrator_or_can_be_used_again(kind: Kind, moments: &[&str]) {
    for moment in moments {
        for write in 1..WRITES_MAX {
            let place = Place::new(kind).await.unwrap();
            let link = admin::users::setup_link(&place.here.config).await.unwrap();
            let (_, token) = link.split_once('#').unwrap();
            let body = json!({"token": token, "email": "ada@example.org", "password": PASSWORD});
            let request = Request::post("/auth/setup", &body);
            let node = place.start();
            place.here.kill_at(moment, write);
            let answer = node.send(&request).await;
            place.here.spare();
            drop(node);
            let node = place.start();
            match &answer {
                Some(answer) => assert_eq!(node.status(refresh(&tokens_of(&answer.ok(201))[1])).await, 200),
                None => {
                    let second = node.status(request).await;
                    assert!(second == 201 || node.status(log_in("ada@example.org", PASSWORD)).await == 200);
                }
            }
            if answer.is_some() {
                assert!(write > 1, "the request wrote nothing");
                break;
            }
        }
    }
}

async fn nothing_acknowledged_is_lost_and_nothing_is_there_by_half(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    sessions_are_opened_once_and_deleted_for_good(&place).await;
    let nand = |session: &str, [a, b]: [Value; 2]| json!({"session_id": session, "op": "NAND", "a": a, "b": b});
    work_is_charged_once(&place, GATE, 1, nand).await;
    work_is_charged_once(
        &place,
        CIRCUITS,
        2,
        |session, [a, b]| json!({"session_id": session, "circuit": NETLIST, "inputs": [[a], [b]]}),
    )
    .await;
    work_of_many_callers_is_charged_once_each(&place).await;
    runs_that_nobody_waits_for_are_on_record_if_they_were_accepted(&place).await;
    circuits_are_kept_whole_and_deleted_for_good(&place).await;
    trial_keys_work_if_they_were_shown_and_end_if_that_was_said(&place).await;
    what_a_trial_has_used_is_what_was_charged(&place).await;
    keys_are_rotated_once(&place).await;
    keys_of_users_are_made_once_and_end_if_that_was_said(&place).await;
    who_was_signed_in_stays_so_and_who_was_not_can_sign_in(&place).await;
    a_password_is_the_old_or_the_new_one(&place).await;
    a_reset_link_is_used_up_with_its_effect(&place).await;
    a_setup_link_makes_an_administrator_or_can_be_used_again(kind, place.here.moments()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_i4_m_a_crash_at_every_write_sqlite() {
    nothing_acknowledged_is_lost_and_nothing_is_there_by_half(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i3_i4_m_a_crash_at_every_write_postgres() {
    if !tests_extent::leaves_out("PostgreSQL") {
        nothing_acknowledged_is_lost_and_nothing_is_there_by_half(Kind::Postgres).await;
    }
}
