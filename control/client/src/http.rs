//! The endpoints of a node, from the client's side. Ciphertexts travel as the service's base64 text.

pub mod circuits;
pub mod numbers;

use std::net::IpAddr;
use std::sync::Once;
use std::time::Duration;

use api::gates::{BATCH_GATES_MAX, BatchGate, BatchResult, CreatedSession, GateRequest, GateResult, Session};
use api::health::Health;
use api::{ErrorEnvelope, MilliYen, SessionId};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernels::container::{self, Tag};
use kernels::tfhe_rs;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest number of bytes of an answer. 16,384 ciphertexts of the largest preset are 54 MB as bare words; 1024 in
/// base64 and in tfhe-rs's form are 8 MB.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A little longer than a node's own deadline, so that the node answers before the client gives up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(330);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest number of retries to a busy node.
const RETRIES_MAX: u32 = 8;
/// Longest time that the client waits because of `Retry-After`. For a larger value, the client waits this long.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// An error of a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address, the API key or an input cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The data to send are a secret key, which was not sent.
    #[error("this is a secret key, so it was not sent; give the evaluation key or the ciphertext instead")]
    SecretKey,
    /// No answer came. The node may have carried out the request.
    #[error("no answer from the node")]
    Transport(#[source] reqwest::Error),
    /// The node refused.
    #[error("{message} ({code}, HTTP {status})")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The error code of the specification, or `HTTP_<status>` if the answer did not come from a node.
        code: String,
        /// The node's message.
        message: String,
        /// The request's id for support, if the answer has one.
        request_id: Option<String>,
    },
    /// The caller stopped waiting, or another client cancelled the run. Completed work is charged.
    #[error("interrupted")]
    Interrupted,
    /// The node's answer does not have the form that the API prescribes.
    #[error("the node's answer does not have the expected form: {0}")]
    Answer(String),
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        // the URL of a session holds its id, which is a secret, so the error drops the URL
        Error::Transport(error.without_url())
    }
}

/// A client for one node with one API key. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    /// A client of the node at `base_url`, such as `https://fhe.example.com` or `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// [`Error::Settings`] when the URL or the API key cannot be used.
    pub fn new(base_url: &str, api_key: &str) -> Result<Client, Error> {
        let unusable = |why: &str| Error::Settings(format!("`{base_url}` {why}"));
        let mut base: Url = base_url.parse().map_err(|_| unusable("is not a URL"))?;
        if !base.username().is_empty() || base.password().is_some() || base.query().is_some() {
            return Err(Error::Settings("the node's URL must have no user name, password or query".into()));
        }
        let encrypted = base.scheme() == "https";
        if !encrypted && base.scheme() != "http" {
            return Err(unusable("is neither http nor https"));
        }
        base.set_path(&format!("{}/api/v1/", base.path().trim_end_matches('/')));

        let mut authorization = HeaderValue::from_str(&format!("Bearer {api_key}")).map_err(|_| {
            Error::Settings("the API key has characters that an HTTP header cannot have; copy the API key again".into())
        })?;
        authorization.set_sensitive(true);
        install_tls_provider();
        let http = reqwest::Client::builder()
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, authorization)]))
            .user_agent(concat!("ango-client/", env!("CARGO_PKG_VERSION")))
            // no redirects, because the API key must go to no other server
            .redirect(redirect::Policy::none())
            .https_only(encrypted)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT);
        // a client without TLS loads no certificates, so that it works on a machine that has none
        let http = if encrypted { http } else { http.tls_certs_only([]) };
        Ok(Client { http: http.build()?, base })
    }

    /// Whether requests, and the API key in them, go to another machine without encryption.
    pub fn is_exposed(&self) -> bool {
        let host = self.base.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.base.scheme() == "http" && !loopback
    }

    /// The node's health.
    ///
    /// # Errors
    /// The errors of all requests; an unavailable node refuses with 503.
    pub async fn health(&self) -> Result<Health, Error> {
        self.ask::<()>(Method::GET, "health", None).await.and_then(read)
    }

    /// Opens a blind session with an evaluation key: Ango's container, or a `CompressedServerKey` of tfhe-rs.
    ///
    /// # Errors
    /// [`Error::SecretKey`] for a secret key, which is not sent; [`Error::Refused`] with `INVALID_PARAMS` for a damaged or
    /// foreign key; the errors of all requests.
    pub async fn open_session(&self, evaluation_key: Vec<u8>) -> Result<CreatedSession, Error> {
        if is_secret_key(&evaluation_key) {
            return Err(Error::SecretKey);
        }
        let body = Body { content_type: "application/octet-stream", bytes: evaluation_key.into() };
        let ask = Ask { method: Method::POST, path: "tfhe/eval-session", headers: &[], body: Some(body) };
        self.send(ask).await.and_then(read)
    }

    /// A session's figures.
    ///
    /// # Errors
    /// [`Error::Refused`] for a session that has ended or does not exist; the errors of all requests.
    pub async fn session(&self, session: &SessionId) -> Result<Session, Error> {
        self.ask::<()>(Method::GET, &format!("tfhe/session/{}", session.as_str()), None).await.and_then(read)
    }

    /// Ends a session; the node erases its key.
    ///
    /// # Errors
    /// [`Error::Refused`] for a session that has ended or does not exist; the errors of all requests.
    pub async fn close(&self, session: &SessionId) -> Result<(), Error> {
        self.ask::<()>(Method::DELETE, &format!("tfhe/session/{}", session.as_str()), None).await.map(drop)
    }

    /// Evaluates one gate.
    ///
    /// # Errors
    /// The errors of all requests.
    pub async fn gate(&self, session: &SessionId, gate: BatchGate) -> Result<GateResult, Error> {
        let BatchGate { op, a, b, sel } = gate;
        let request = GateRequest { session_id: session.as_str().to_owned(), op, a, b, sel };
        self.ask(Method::POST, "tfhe/gate", Some(&request)).await.and_then(read)
    }

    /// Evaluates any number of gates that do not depend on one another. The gates are sent in pieces of at most 1024
    /// and of nearly equal sizes, so that no small last piece misses the node's discount for large batches. The result
    /// is the sum of the answers; its `batch_discount_applied` is true if the node applied the discount to any piece.
    ///
    /// # Errors
    /// The errors of all requests. The pieces before the failed one were done and charged.
    pub async fn batch(&self, session: &SessionId, gates: &[BatchGate]) -> Result<BatchResult, Error> {
        #[derive(Serialize)]
        struct Piece<'a> {
            session_id: &'a str,
            gates: &'a [BatchGate],
        }
        let mut sum = BatchResult {
            results_b64: Vec::with_capacity(gates.len()),
            handle: None,
            total_bootstrap_ops: 0,
            total_cost_jpy: MilliYen(0),
            total_compute_ms: 0.0,
            batch_discount_applied: false,
        };
        for gates in pieces(gates) {
            let piece = Piece { session_id: session.as_str(), gates };
            let result: BatchResult = self.ask(Method::POST, "tfhe/batch", Some(&piece)).await.and_then(read)?;
            if result.results_b64.len() != gates.len() {
                let (asked, found) = (gates.len(), result.results_b64.len());
                return Err(Error::Answer(format!(
                    "the request has {asked} gates, but the answer has {found} results"
                )));
            }
            sum.results_b64.extend(result.results_b64);
            sum.total_bootstrap_ops += result.total_bootstrap_ops;
            sum.total_cost_jpy = sum.total_cost_jpy + result.total_cost_jpy;
            sum.total_compute_ms += result.total_compute_ms;
            sum.batch_discount_applied |= result.batch_discount_applied;
        }
        Ok(sum)
    }

    async fn ask<T: Serialize>(&self, method: Method, path: &str, json: Option<&T>) -> Result<Vec<u8>, Error> {
        let body = json.map(|json| Body {
            content_type: "application/json",
            bytes: serde_json::to_vec(json).expect("plain data becomes JSON").into(),
        });
        self.send(Ask { method, path, headers: &[], body }).await
    }

    /// Sends a request. If the node is busy (503), sends the request again after `Retry-After`, because a busy node did
    /// nothing and charged nothing.
    async fn send(&self, ask: Ask<'_>) -> Result<Vec<u8>, Error> {
        let Ask { method, path, headers, body } = ask;
        let url = self.base.join(path).map_err(|_| Error::Settings(format!("`{path}` is not a path")))?;
        let mut retries = 0;
        loop {
            let mut request = self.http.request(method.clone(), url.clone());
            for (name, value) in headers {
                request = request.header(name, *value);
            }
            if let Some(Body { content_type, bytes }) = &body {
                request = request.header(CONTENT_TYPE, *content_type).body(bytes.clone());
            }
            let response = request.send().await?;
            let status = response.status();
            if status.is_success() {
                return body_of(response).await;
            }
            match retry_after(&response) {
                Some(wait) if status == StatusCode::SERVICE_UNAVAILABLE && retries < RETRIES_MAX => {
                    retries += 1;
                    tokio::time::sleep(wait.min(RETRY_AFTER_MAX)).await;
                }
                _ => return Err(refusal(status, &body_of(response).await.unwrap_or_default())),
            }
        }
    }
}

/// A ciphertext's bytes as base64.
pub fn to_base64(ciphertext: &[u8]) -> String {
    STANDARD.encode(ciphertext)
}

/// A ciphertext's bytes from base64.
///
/// # Errors
/// [`Error::Answer`] when the text is not base64.
pub fn from_base64(text: &str) -> Result<Vec<u8>, Error> {
    STANDARD.decode(text).map_err(|error| Error::Answer(format!("a ciphertext is not base64: {error}")))
}

/// A request.
struct Ask<'a> {
    method: Method,
    path: &'a str,
    /// Headers besides the content type of the body and the headers that all requests have.
    headers: &'a [(HeaderName, &'a str)],
    body: Option<Body>,
}

struct Body {
    content_type: &'static str,
    /// The retries share these bytes without a copy.
    bytes: bytes::Bytes,
}

/// Whether the bytes are Ango's secret key or a tfhe-rs client key.
fn is_secret_key(bytes: &[u8]) -> bool {
    matches!(container::unframe(bytes, Tag::EvaluationKey), Err(container::Error::SecretKey))
        || tfhe_rs::is_client_key(bytes)
}

/// Cuts gates into as few slices as possible, of at most [`BATCH_GATES_MAX`] gates and of nearly equal lengths.
fn pieces(gates: &[BatchGate]) -> impl Iterator<Item = &[BatchGate]> {
    let count = gates.len().div_ceil(BATCH_GATES_MAX).max(1);
    gates.chunks(gates.len().div_ceil(count).max(1))
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn body_of(mut response: Response) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(Error::Answer(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn read<T: DeserializeOwned>(body: Vec<u8>) -> Result<T, Error> {
    serde_json::from_slice(&body).map_err(|error| Error::Answer(error.to_string()))
}

/// The error of an answer that is not a success. The answer of a proxy has another body or none (readings L8).
fn refusal(status: StatusCode, body: &[u8]) -> Error {
    match serde_json::from_slice::<ErrorEnvelope>(body) {
        Ok(ErrorEnvelope { error }) => Error::Refused {
            status: status.as_u16(),
            code: error.code,
            message: match error.details.first() {
                Some(detail) if !error.message.contains(&detail.issue) => {
                    format!("{}: {} {}", error.message, detail.field, detail.issue)
                }
                _ => error.message,
            },
            request_id: Some(error.request_id),
        },
        Err(_) => Error::Refused {
            status: status.as_u16(),
            code: format!("HTTP_{}", status.as_u16()),
            message: status.canonical_reason().unwrap_or("the request was refused").to_owned(),
            request_id: None,
        },
    }
}

/// Installs the TLS provider of the process, unless the program has installed its own.
fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests;
