//! The parts that tests of operations on encrypted numbers share: an account with a real key, and short names for
//! requests.

use client::ckks::{
    Ciphertext, Params, ParamsLiteral, PartKind, SecretKey, SecurityLevel, container, power_of_two_steps, rotations,
};
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use tests_service::gates::{OCTETS, base64};

pub const COMPUTE: &str = "/api/v1/compute";

/// An account with an encryption key whose secret the test has.
pub struct Numbers<'s> {
    pub server: &'s TestServer,
    /// The account's API key.
    pub key: String,
    pub key_id: String,
    pub secret: SecretKey,
}

/// Returns parameters of the security level `Testing`.
pub fn testing(poly_degree: usize, max_depth: u32) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits: 40, max_depth, security, bootstrap: false }).unwrap()
}

impl<'s> Numbers<'s> {
    /// Makes an account with a key of degree 64, for three multiplications in a row and for all rotations.
    pub async fn new(server: &'s TestServer) -> Numbers<'s> {
        Numbers::of(server, server.key(Role::AccountAdmin).await, &testing(64, 3)).await
    }

    /// Makes an encryption key with these parameters, for the account of the API key `key`.
    pub async fn of(server: &'s TestServer, key: String, params: &Params) -> Numbers<'s> {
        let mut parts = vec![(PartKind::Relinearization, params.level_max())];
        parts.extend(rotations(params, &power_of_two_steps(params, false), params.level_max()));
        Numbers::with_parts(server, key, params, &parts).await
    }

    /// Makes an encryption key with these parameters, whose evaluation key has these parts, for the account of the API
    /// key `key`.
    pub async fn with_parts(
        server: &'s TestServer,
        key: String,
        params: &Params,
        parts: &[(PartKind, usize)],
    ) -> Numbers<'s> {
        let secret = SecretKey::generate(params);
        let public_key = container::write_public_key(&secret.public_key(params.level_max()));
        let eval_key: Vec<u8> = secret.evaluation_key(parts).flatten().collect();
        let literal = params.literal();
        let body = json!({
            "public_key": base64(&public_key),
            "eval_key": base64(&eval_key),
            "params": {
                "poly_degree": literal.poly_degree,
                "scale_bits": literal.scale_bits,
                "max_depth": literal.max_depth,
            },
        });
        let answer = server.send(Request::post("/api/v1/keys/upload", &body).key(&key)).await.ok(200);
        let key_id = answer["key_id"].as_str().unwrap().to_owned();
        Numbers { server, key, key_id, secret }
    }

    pub async fn send(&self, request: Request) -> Response {
        self.server.send(request.key(&self.key)).await
    }

    /// Encrypts numbers, with zeros in the other slots, and uploads the ciphertext. Returns the ciphertext's id.
    pub async fn encrypted(&self, numbers: &[f64]) -> Value {
        self.encrypted_within(numbers, 10.0).await
    }

    /// Like [`Numbers::encrypted`], but for numbers of at most this absolute value.
    pub async fn encrypted_within(&self, numbers: &[f64], bound: f64) -> Value {
        let params = self.secret.params();
        let mut slots = numbers.to_vec();
        slots.resize(params.slots(), 0.0);
        let ciphertext = self.secret.encrypt(&slots, bound).unwrap();
        let bytes = container::write_seeded_ciphertext(&ciphertext, params, self.secret.fingerprint());
        let path = format!("/api/v1/ciphertexts?key_id={}", self.key_id);
        let answer = self.send(Request::new("POST", path).body(OCTETS, bytes)).await.ok(201);
        answer["ciphertext_id"].clone()
    }

    /// Returns the body of a request about these ciphertexts, with these additional members.
    pub fn body(&self, ids: &[&Value], more: Value) -> Value {
        let mut body = json!({"key_id": self.key_id, "ciphertext_ids": ids});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    pub fn request(&self, operation: &str, ids: &[&Value], more: Value) -> Request {
        Request::post(format!("{COMPUTE}/{operation}"), &self.body(ids, more))
    }

    pub async fn compute(&self, operation: &str, ids: &[&Value], more: Value) -> Response {
        self.send(self.request(operation, ids, more)).await
    }

    /// Fetches a stored ciphertext and decrypts it. Returns the numbers.
    pub async fn decrypted(&self, id: &Value) -> Vec<f64> {
        let path = format!("/api/v1/ciphertexts/{}", id.as_str().unwrap());
        let answer = self.send(Request::get(path).header("Accept", OCTETS)).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        self.opened(&answer.body)
    }

    /// Decrypts the ciphertext in a container. Returns the numbers.
    pub fn opened(&self, bytes: &[u8]) -> Vec<f64> {
        self.secret.decrypt(&self.ciphertext(bytes)).unwrap().values
    }

    pub fn ciphertext(&self, bytes: &[u8]) -> Ciphertext {
        container::read_ciphertext(bytes, self.secret.params(), self.secret.fingerprint()).expect("a ciphertext")
    }

    /// Fetches the key's record.
    pub async fn record(&self) -> Value {
        self.send(Request::get(format!("/api/v1/keys/{}", self.key_id))).await.ok(200)
    }
}

/// Checks that the first found numbers equal the expected numbers within a millionth.
#[track_caller]
pub fn assert_near(found: &[f64], expected: &[f64]) {
    for (slot, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-6, "slot {slot}: {found} is not {expected}");
    }
}
