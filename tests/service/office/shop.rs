//! A business that uses the back office with a key.

use api::AccountId;
use control::admin;
use control::caller::{Environment, Plan, Role};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

pub const INVOICES: &str = "/v1/invoices";
pub const VERIFY: &str = "/v1/registration/verify";
pub const PROFILE: &str = "/v1/account/profile";
pub const CAP: &str = "/v1/cap";
pub const ME: &str = "/v1/me";
pub const STORED: &str = "/v1/invoices/stored";

/// An account, and its key for the back office of `server`.
pub struct Shop<'s> {
    pub server: &'s TestServer,
    pub account: AccountId,
    pub key: String,
}

impl<'s> Shop<'s> {
    /// Makes an account on the plan `payg`, with a key.
    pub async fn new(server: &'s TestServer) -> Shop<'s> {
        Shop::on(server, Plan::Payg).await
    }

    /// Makes an account on this plan, with a key.
    pub async fn on(server: &'s TestServer, plan: Plan) -> Shop<'s> {
        Shop::of(server, plan, Environment::Live, Role::AccountAdmin, None).await
    }

    /// Makes a key with this plan, environment and role, for the given account or for a new account.
    pub async fn of(
        server: &'s TestServer,
        plan: Plan,
        environment: Environment,
        role: Role,
        account: Option<AccountId>,
    ) -> Shop<'s> {
        let made = admin::create_key(server.running().config(), role, environment, account, Some(plan)).await.unwrap();
        Shop { server, account: made.account_id, key: made.key.to_string() }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.server.send(Request::post(path, body).key(&self.key)).await
    }

    pub async fn get(&self, path: &str) -> Response {
        self.server.send(Request::get(path).key(&self.key)).await
    }

    pub async fn me(&self) -> Value {
        self.get(ME).await.ok(200)
    }

    /// Returns how much the key has spent in this month, in yen.
    pub async fn spent(&self) -> i64 {
        self.me().await["charge_yen"].as_i64().unwrap()
    }

    /// Sets the issuer's profile: the required members and the members of `more`. Returns the path of the profile's
    /// ingest address.
    pub async fn set_profile(&self, more: Value) -> String {
        let mut profile = issuer();
        profile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let set = self.post(PROFILE, &profile).await.ok(200);
        let url = set["ingest_url"].as_str().unwrap();
        url[url.find("/v1/").unwrap()..].to_owned()
    }

    /// Returns the stored documents that a list with this query string shows, newest first.
    pub async fn stored(&self, query: &str) -> Vec<Value> {
        self.get(&format!("{STORED}{query}")).await.ok(200)["items"].as_array().unwrap().clone()
    }
}

/// Starts a node on which the documents of payments do not wait for fuller objects.
pub async fn start_at_once() -> TestServer {
    TestServer::with(|config| config.office.ingest_wait_s = 0).await
}

/// Checks that the sums of the ledger agree, and that no reservation is open.
pub async fn audited(server: &TestServer) {
    let audit = server.running().store().audit_ledger(server.clock.now().0).await.unwrap();
    assert_eq!((audit.open, audit.findings), (0, vec![]));
}

pub fn issuer() -> Value {
    json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002"})
}

/// Returns the body of a request for an invoice of 11,000 yen.
pub fn invoice() -> Value {
    let mut body = issuer();
    body["recipient"] = json!("株式会社みらい");
    body["items"] = json!([{"name": "開発支援", "unit_price": 10_000, "tax_rate": 10}]);
    body
}

/// Returns a paid charge, as Stripe describes it.
pub fn charge(id: &str, yen: i64) -> Value {
    json!({"id": format!("ch_{id}"), "object": "charge", "payment_intent": format!("pi_{id}"), "amount": yen, "amount_captured": yen,
        "amount_refunded": 0, "paid": true, "captured": true, "status": "succeeded", "currency": "jpy", "created": 1_764_514_800,
        "billing_details": {"name": "山田太郎", "email": "taro@example.org"}, "metadata": {}})
}

/// Returns an event of this kind about an object, as Stripe sends it.
pub fn event(id: &str, kind: &str, object: Value) -> Value {
    json!({"id": format!("evt_{id}"), "object": "event", "type": kind, "data": {"object": object}})
}

/// Checks that the answer is a 422 of the back office, with nothing but faults in the body. Returns the type and the
/// place of each fault.
#[track_caller]
pub fn faults(response: &Response) -> Vec<(String, String)> {
    let body = response.ok(422);
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["detail"], "{body}");
    let place = |step: &Value| step.as_str().map_or_else(|| step.to_string(), str::to_owned);
    let fault = |fault: &Value| {
        let allowed = ["loc", "msg", "type", "input", "ctx"];
        assert!(fault.as_object().unwrap().keys().all(|name| allowed.contains(&name.as_str())), "{fault}");
        assert!(fault["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{fault}");
        let loc: Vec<String> = fault["loc"].as_array().unwrap().iter().map(place).collect();
        (fault["type"].as_str().unwrap().to_owned(), loc.join("."))
    };
    body["detail"].as_array().unwrap().iter().map(fault).collect()
}

/// Checks that the answer is an error of the back office with this status and code.
#[track_caller]
pub fn refused(response: &Response, status: u16, code: &str) {
    let error = response.error(status, code);
    assert_eq!(response.json()["detail"], error["message"]);
    assert_eq!(response.header("x-service-stage"), Some("beta"));
}
