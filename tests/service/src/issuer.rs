//! A stand-in for an external issuer of session tokens. It serves the documents that a test sets, and counts the
//! requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinHandle;

/// The `aud` of the issuer's tokens.
pub const AUDIENCE: &str = "https://fhe.example.org";

/// An issuer in this process, on loopback.
pub struct TestIssuer {
    /// The issuer's address, which is also the `iss` of the issuer's tokens.
    pub address: String,
    served: Arc<Served>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Served {
    discovery: Mutex<Value>,
    keys: Mutex<Vec<u8>>,
    asked: AtomicUsize,
    /// While a test holds this lock, requests for the key set wait for their answers.
    answering: Arc<RwLock<()>>,
}

/// Returns the key with which the issuer signs tokens of an algorithm.
pub fn key(algorithm: Algorithm) -> EncodingKey {
    match algorithm {
        Algorithm::ES256 => EncodingKey::from_ec_der(include_bytes!("issuer/ec.der")),
        Algorithm::EdDSA => EncodingKey::from_ed_der(include_bytes!("issuer/ed25519.der")),
        Algorithm::RS256 | Algorithm::PS256 => EncodingKey::from_rsa_der(include_bytes!("issuer/rsa.der")),
        other => panic!("no key for {other:?}"),
    }
}

/// Returns the public key for an algorithm. The key's `kid` is the algorithm's name.
pub fn public_key(algorithm: Algorithm) -> Value {
    let mut jwk = Jwk::from_encoding_key(&key(algorithm), algorithm).expect("a public part");
    jwk.common.key_id = Some(format!("{algorithm:?}"));
    json!(jwk)
}

/// Signs a token that has these claims with the algorithm's key. The token's header names the key.
pub fn sign(algorithm: Algorithm, claims: &Value) -> String {
    let mut header = Header::new(algorithm);
    header.kid = Some(format!("{algorithm:?}"));
    jsonwebtoken::encode(&header, claims, &key(algorithm)).expect("a token")
}

impl TestIssuer {
    /// Starts an issuer whose key set has one key for each algorithm.
    pub async fn start() -> TestIssuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let address = format!("http://{address}");
        let served = Arc::new(Served::default());
        *served.discovery.lock().unwrap() = json!({"issuer": address, "jwks_uri": format!("{address}/keys")});
        let task = tokio::spawn(serve(listener, served.clone()));
        let issuer = TestIssuer { address, served, task };
        let kinds = [Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS256];
        let mut keys: Vec<Value> = kinds.map(public_key).into();
        keys.push(public_key(Algorithm::PS256));
        issuer.serve_keys(json!({ "keys": keys }).to_string());
        issuer
    }

    /// Serves this text as the key set from now on.
    pub fn serve_keys(&self, text: impl Into<Vec<u8>>) {
        *self.served.keys.lock().unwrap() = text.into();
    }

    /// Serves this document as the discovery document from now on.
    pub fn serve_discovery(&self, document: Value) {
        *self.served.discovery.lock().unwrap() = document;
    }

    /// Makes the issuer accept requests for the key set without an answer, until the returned guard is dropped.
    pub async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        self.served.answering.clone().write_owned().await
    }

    /// Returns the number of requests for the key set so far.
    pub fn asked(&self) -> usize {
        self.served.asked.load(Ordering::Relaxed)
    }
}

impl Drop for TestIssuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, served: Arc<Served>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        let body = if head.starts_with(b"GET /keys ") {
            served.asked.fetch_add(1, Ordering::Relaxed);
            let _answers = served.answering.read().await;
            served.keys.lock().unwrap().clone()
        } else {
            served.discovery.lock().unwrap().to_string().into_bytes()
        };
        // without `Content-Length`, the client learns the size of the answer only when the connection ends
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(&body).await;
    }
}
