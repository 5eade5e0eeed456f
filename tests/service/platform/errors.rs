//! Every code of the error table is provoked by a request and explained by a page (specification, Errors; readings
//! section 15). The tests do not compile while a code lacks its arm in the match below.

use std::path::Path;

use api::{AccountId, Code};
use client::Preset;
use control::caller::Role;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use store::{Claimed, KeptAnswer, NewClaim, Unit};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;

use tests_service::gates::{
    Account, BATCH, CIRCUITS, EVAL_SESSION, GATE, OPERATIONS, SESSION, SESSIONS, base64, open_session,
};

/// How a code is provoked.
enum Provoked {
    /// This test has sent a request, which got this answer.
    Answer(Response),
    /// Another test provokes the code, because one request is not enough.
    Elsewhere,
}

use Provoked::Elsewhere;

async fn provoke(code: Code, account: &Account<'_>, owner: &AccountId) -> Provoked {
    let server = account.server;
    let trial = async || server.key(Role::Trial).await;
    let post = async |path: &str, body| account.post(path, &body).await;
    let get = async |path: &str| account.send(Request::get(path)).await;
    let gate = account.gate("NAND", true, Some(true), None);
    let with = |member: &str, value| {
        let mut gate = gate.clone();
        gate[member] = value;
        gate
    };
    Provoked::Answer(match code {
        Code::InvalidRequest => post(SESSION, json!({"preset": "fast_129"})).await,
        Code::MissingAuthHeader => server.send(Request::get(SESSIONS)).await,
        Code::InvalidApiKey => server.send(Request::get(SESSIONS).key("svc_live_")).await,
        Code::InsufficientRole => server.send(Request::get(SESSIONS).key(&trial().await)).await,
        Code::InvalidParams => post(EVAL_SESSION, json!({"eval_key_b64": "AAAA"})).await,
        Code::PayloadTooLarge => post(GATE, with("a", json!(base64(&vec![0; (2 << 20) + 1])))).await,
        Code::CiphertextNotFound => get(&account.path("/handles/hdl_0")).await,
        Code::SessionNotFound => get(&format!("{SESSION}/sess_0")).await,
        Code::InvalidCiphertext => post(GATE, with("a", json!("AAAA"))).await,
        Code::InvalidGateOp => post(GATE, with("op", json!("nand"))).await,
        Code::MissingOperand => post(GATE, with("b", json!(null))).await,
        Code::BatchTooLarge => post(BATCH, account.batch("NOT", 1025)).await,
        Code::ValidationError => post(GATE, json!({})).await,
        Code::NotFound => get("/api/v1/nothing").await,
        Code::MethodNotAllowed => get(GATE).await,
        Code::SecretKeyRejected => post(GATE, with("secret_key", json!("x"))).await,
        Code::OperationNotFound => get(&format!("{OPERATIONS}/op_0")).await,
        Code::IdempotencyKeyReused => {
            let keyed = |gate| Request::post(GATE, gate).header("Idempotency-Key", "reused");
            account.send(keyed(&gate)).await.ok(200);
            account.send(keyed(&with("sel", json!("AAAA")))).await
        }
        Code::IdempotencyInProgress => {
            claim(account, owner, "running").await;
            account.send(Request::post(GATE, &gate).header("Idempotency-Key", "running")).await
        }
        // the stored answer is 100 zero bytes, which the node cannot decrypt; the error does not reveal this cause
        Code::InternalError => {
            let (digest, claim) = (claim(account, owner, "broken").await, [0; 16]);
            let held_until = server.clock.now().0 + 60_000_000;
            let kept = KeptAnswer { digest, claim, answer: vec![0; 100], blob: None, held_until, provisional: false };
            server.running().store().submit(Unit { keep: Some(kept), ..Unit::default() }).await.unwrap();
            account.send(Request::post(GATE, &gate).header("Idempotency-Key", "broken")).await
        }
        Code::InvalidWebhookUrl => post("/api/v1/webhooks", json!({"url": "http://example.com/"})).await,
        Code::WebhookUrlNotAllowed => post("/api/v1/webhooks", json!({"url": "https://127.0.0.1/"})).await,
        Code::QuotaExceeded
        | Code::BudgetHardCapHit
        | Code::WebhookNotFound
        | Code::DeliveryNotFound
        | Code::WebhookLimitReached
        | Code::InvalidPlan
        | Code::NoPaymentMethod
        | Code::ProviderUnavailable
        | Code::ReturnUrlNotAllowed
        | Code::BillingPortalDisabled
        | Code::AccountSuspended
        | Code::KeyNoLongerShown
        | Code::InvalidSignature
        | Code::SessionExpired
        | Code::RateLimited
        | Code::BruteForceLockout
        | Code::Conflict
        | Code::IpRateLimited
        | Code::TrialOpsExhausted
        | Code::KeyNotFound
        | Code::InsufficientSecurity
        | Code::MismatchedKey
        | Code::MismatchedLevel
        | Code::NoiseBudgetExhausted
        | Code::InvalidOperation
        | Code::MissingPlainOperand
        | Code::PolynomialTooLarge
        | Code::FeatureDisabled
        | Code::InvalidSessionToken
        | Code::InvalidCredentials
        | Code::UpstreamUnavailable
        | Code::ServiceUnavailable => return Elsewhere,
    })
}

/// Claims this idempotency key for a gate request, as if another request with the key were running. Returns the claim's
/// digest (readings I1).
async fn claim(account: &Account<'_>, owner: &AccountId, key: &str) -> [u8; 32] {
    let node = account.server;
    let digest = Sha256::digest([owner.as_str(), "POST", GATE, key].join("\0")).into();
    let (now, account_id) = (node.clock.now().0, owner.as_str().to_owned());
    let held_until = now + 60_000_000;
    let (node_id, generation, store) = ("other".to_owned(), 1, node.running().store());
    store.begin_generation(&node_id, generation, 3_600_000_000).await.unwrap();
    let new = NewClaim { digest, account_id, claim: [0; 16], node_id, generation, held_until, now };
    assert_eq!(store.claim(new).await.unwrap(), Claimed::Mine);
    digest
}

#[tokio::test]
async fn every_code_comes_about_with_its_status_and_is_explained() {
    let server = TestServer::start().await;
    let (key, owner) = server.create_key(Role::AccountAdmin, None).await;
    let session = open_session(&server, &key, Preset::Fast128).await;
    let account = Account { server: &server, key, session, secret: keys::of(Preset::Fast128) };
    let suite = suite();
    for &code in Code::ALL {
        let (name, status) = (code.as_str(), code.status());
        match provoke(code, &account, &owner).await {
            Provoked::Answer(answer) => drop(answer.error(status, name)),
            Elsewhere => {
                // tests of the back office check an error with `refused(answer, status, name)`
                let is_tested = [format!(".error({status}, \"{name}\")"), format!(".await, {status}, \"{name}\")")];
                assert!(is_tested.iter().any(|call| suite.contains(call)), "{name} has no test");
            }
        }
        let page = server.send(Request::get(format!("/docs/errors/{name}"))).await;
        assert_eq!(page.status, 200, "{name}");
        for part in ["Cause", "What to do", name, &status.to_string()] {
            assert!(page.text().contains(part), "{name}: {part}");
        }
    }
}

#[tokio::test]
async fn e10_s_an_internal_error_tells_its_number_and_nothing_else() {
    let server = TestServer::start().await;
    let (key, owner) = server.create_key(Role::AccountAdmin, None).await;
    let session = open_session(&server, &key, Preset::Fast128).await;
    let account = Account { server: &server, key, session, secret: keys::of(Preset::Fast128) };
    let Provoked::Answer(answer) = provoke(Code::InternalError, &account, &owner).await else { panic!("no answer") };
    let error = answer.error(500, "INTERNAL_ERROR");
    let members: Vec<_> = error.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["code", "documentation_url", "message", "request_id"]);
    assert_eq!(error["message"], "something went wrong inside the service");
}

/// Returns the text of the suites `platform`, `bodies` and `office`, except this file.
fn suite() -> String {
    let folders = ["platform", "bodies", "office"].map(|suite| Path::new(env!("CARGO_MANIFEST_DIR")).join(suite));
    let files =
        folders.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let others = files.filter(|path| path.file_name().is_some_and(|name| name != "errors.rs"));
    others.map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect()
}

#[tokio::test]
async fn e6_unknown_paths_of_the_back_office_are_told_in_its_form() {
    let server = TestServer::start().await;
    for path in ["/v1", "/v1/", "/v1/mee"] {
        let answer = server.send(Request::get(path)).await;
        let body = answer.ok(404);
        assert_eq!((&body["detail"], &body["error"]["code"]), (&body["error"]["message"], &json!("NOT_FOUND")));
        assert_eq!(body["error"]["request_id"].as_str(), answer.header("x-request-id"));
    }
    let platform = server.send(Request::get("/api/v1/me")).await;
    platform.error(404, "NOT_FOUND");
    assert!(platform.json().get("detail").is_none());
}

#[tokio::test]
async fn x14_objects_of_others_are_like_missing_ones_to_the_word() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let circuit = account.circuit(&tests_service::gates::and_netlist(1), json!([account.value(&[true; 2])]));
    let op_id = account.begin(&circuit).await;
    account.ended(&op_id).await;
    let stranger = server.key(Role::AccountAdmin).await;
    let (none, unknown) = ("sess_00000000000000000000000000", "op_00000000000000000000000000");
    for (theirs, missing) in [
        (account.path(""), format!("{SESSION}/{none}")),
        (account.path("/handles/x"), format!("{SESSION}/{none}/handles/x")),
        (format!("{OPERATIONS}/{op_id}"), format!("{OPERATIONS}/{unknown}")),
        (format!("{CIRCUITS}/theirs"), format!("{CIRCUITS}/missing")),
    ] {
        let mut answers = Vec::new();
        for path in [theirs, missing] {
            let answer = server.send(Request::get(path).key(&stranger)).await;
            let mut error = answer.json()["error"].clone();
            error["request_id"] = json!(null);
            answers.push((answer.status, error));
        }
        assert_eq!(answers[0].0, 404);
        assert_eq!(answers[0], answers[1]);
    }
}
