//! One attempt to deliver an event (specification, Events; readings H1, H3, H5, H8, H9).
//!
//! Each attempt opens a new connection, to an address that was checked just before. So a name that later resolves to
//! another address does no harm. The sender uses no proxy and follows no redirect.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Refused, WebhooksConfig, vetted, webhook_url};
use super::names::Names;
use crate::clock::Timestamp;

/// Timeout from resolving the name to the end of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout from the end of the TLS handshake to the head of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Bounds on reading the answer's body: bytes and time. The body is read so that the connection can close in order.
const BODY_BYTES_MAX: usize = 16 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of characters of an error that are stored.
const ERROR_CHARACTERS_MAX: usize = 200;
/// Prefix of secrets that this service made (readings H1).
pub const SECRET_PREFIX: &str = "whsec_";

/// Finds the addresses of a name.
type Resolve = dyn Fn(&str) -> Vec<SocketAddr> + Send + Sync;

/// Sends events.
pub struct Sender {
    config: WebhooksConfig,
    /// Made at the first delivery over TLS.
    tls: OnceLock<TlsConnector>,
    names: Names,
    /// Replaces `names` in tests.
    resolve: Option<Box<Resolve>>,
}

/// An event on its way to a receiver.
pub struct Letter<'a> {
    /// The webhook's URL.
    pub url: &'a str,
    /// The shared secret.
    pub secret: &'a str,
    /// The event's type.
    pub event_type: &'a str,
    /// The event's id.
    pub delivery_id: &'a str,
    /// The body, which is signed.
    pub body: &'a str,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Whether the receiver accepted the event.
    pub outcome: Outcome,
    /// The status of the receiver's answer, if it answered.
    pub status: Option<u16>,
    /// How long the attempt took.
    pub took: Duration,
    /// The cause of a failure. Empty if the attempt succeeded.
    pub error: String,
}

/// The outcome of an attempt (readings H8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver accepted the event: 2xx.
    Taken,
    /// The receiver refused the event, so a retry is pointless: 3xx, 4xx, or an address that is not public.
    Refused,
    /// A retry may succeed: 5xx, no answer, no connection.
    Broken,
}

impl Sender {
    /// Creates a sender with these settings.
    pub fn new(config: WebhooksConfig) -> Sender {
        Sender { config, tls: OnceLock::new(), names: Names::default(), resolve: None }
    }

    /// Makes one attempt to deliver an event.
    pub async fn send(&self, letter: &Letter<'_>, now: Timestamp) -> Sent {
        let url = match webhook_url(&self.config, letter.url) {
            Ok(url) => url,
            Err(refused) => return failed(Outcome::Refused, words(refused)),
        };
        let stream = match timeout(CONNECT_TIMEOUT, self.connect(&url)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(end)) => return end,
            Err(_) => return failed(Outcome::Broken, "no connection within 5 seconds"),
        };
        let begun = Instant::now();
        match timeout(ANSWER_TIMEOUT, exchange(stream, &url, letter, now)).await {
            Err(_) => failed(Outcome::Broken, "no answer within 5 seconds"),
            Ok(Err(error)) => failed(Outcome::Broken, format!("the connection broke: {error}")),
            Ok(Ok((status, body))) => {
                let took = begun.elapsed();
                let _ = timeout(BODY_TIMEOUT, body).await;
                answered(status, took)
            }
        }
    }

    /// Checks the addresses to which a name resolves now. A name that does not resolve is accepted (readings H4).
    pub async fn vet_name(&self, name: &str, port: u16) -> Result<(), Refused> {
        match self.names.addresses(name, port).await {
            Ok(found) => vetted(&self.config, name, found).map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Connects to an allowed address of the URL's host.
    async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>, Sent> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = url.port_or_known_default().unwrap_or(443);
        let found = match &self.resolve {
            Some(resolve) => resolve(host),
            None => match self.names.addresses(host, port).await {
                Ok(found) => found,
                Err(why) => return Err(failed(Outcome::Broken, format!("the name does not resolve: {why}"))),
            },
        };
        let addresses =
            vetted(&self.config, host, found).map_err(|refused| failed(Outcome::Refused, words(refused)))?;
        let mut cause = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) if url.scheme() == "http" => return Ok(Box::new(stream)),
                Ok(stream) => return self.encrypted(stream, host).await,
                Err(error) => cause = format!("no connection: {error}"),
            }
        }
        Err(failed(Outcome::Broken, cause))
    }

    async fn encrypted(&self, stream: TcpStream, host: &str) -> Result<Box<dyn Stream>, Sent> {
        let no_tls = |error: &dyn std::fmt::Display| failed(Outcome::Broken, format!("no TLS connection: {error}"));
        let name = ServerName::try_from(host.to_owned()).map_err(|error| no_tls(&error))?;
        let stream = self.tls.get_or_init(tls).connect(name, stream).await.map_err(|error| no_tls(&error))?;
        Ok(Box::new(stream))
    }
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Makes a TLS client that trusts the system's certificates.
fn tls() -> TlsConnector {
    crate::tls::choose_cryptography();
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a certificate of the system could not be read");
    }
    roots.add_parsable_certificates(found.certs);
    TlsConnector::from(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// Sends the event. Returns the status of the answer, and a future that reads the rest of the answer and then closes
/// the connection.
async fn exchange(
    stream: Box<dyn Stream>,
    url: &Url,
    letter: &Letter<'_>,
    now: Timestamp,
) -> hyper::Result<(StatusCode, impl Future<Output = ()> + use<>)> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // this task ends when both sides have closed the connection
    let connection = tokio::spawn(connection);
    let guard = AbortOnDrop(connection.abort_handle());
    let answer = sender.send_request(request(url, letter, now)).await?;
    let (head, body) = answer.into_parts();
    let rest = async move {
        let _ = Limited::new(body, BODY_BYTES_MAX).collect().await;
        drop(sender);
        drop(guard);
    };
    Ok((head.status, rest))
}

/// Aborts the connection's task on drop, so that the task ends with the attempt.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request(url: &Url, letter: &Letter<'_>, now: Timestamp) -> Request<Full<Bytes>> {
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut request = Request::post(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "SERVICE-Webhooks/1.0")
        .header(header::CONNECTION, "close")
        .header("X-SERVICE-Signature", signature(letter.secret, letter.body))
        .header("X-SERVICE-Event-Type", letter.event_type)
        .header("X-SERVICE-Delivery-Id", letter.delivery_id);
    if let Some(signature) = standard_signature(letter, now) {
        request = request
            .header("webhook-id", letter.delivery_id)
            .header("webhook-timestamp", now.seconds().to_string())
            .header("webhook-signature", signature);
    }
    request.body(Full::new(Bytes::copy_from_slice(letter.body.as_bytes()))).expect("a URL's path and visible ASCII")
}

fn mac(key: &[u8], parts: &[&str]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes any key length");
    parts.iter().for_each(|part| mac.update(part.as_bytes()));
    mac.finalize().into_bytes().into()
}

/// Makes the signature `sha256=<hex>`: the HMAC of the body under the secret's text (readings H1).
pub fn signature(secret: &str, body: &str) -> String {
    format!("sha256={}", hex::encode(mac(secret.as_bytes(), &[body])))
}

/// Makes the signature of Standard Webhooks, under the bytes that the secret encodes. `None`: the secret is not
/// [`SECRET_PREFIX`] followed by base64 (readings H3).
fn standard_signature(letter: &Letter<'_>, now: Timestamp) -> Option<String> {
    let key = STANDARD.decode(letter.secret.strip_prefix(SECRET_PREFIX)?).ok()?;
    let seconds = now.seconds().to_string();
    let mac = mac(&key, &[letter.delivery_id, ".", &seconds, ".", letter.body]);
    Some(format!("v1,{}", STANDARD.encode(mac)))
}

fn words(refused: Refused) -> &'static str {
    match refused {
        Refused::Url(why) => why,
        Refused::Address => "the address is not public",
    }
}

fn failed(outcome: Outcome, error: impl Into<String>) -> Sent {
    // shorten the error, because an error about a certificate may list thousands of hosts
    let error = error.into().chars().take(ERROR_CHARACTERS_MAX).collect();
    Sent { outcome, status: None, took: Duration::ZERO, error }
}

fn answered(status: StatusCode, took: Duration) -> Sent {
    let (outcome, error) = match status.as_u16() {
        200..=299 => (Outcome::Taken, String::new()),
        500.. => (Outcome::Broken, format!("the receiver answered {}", status.as_u16())),
        _ => (Outcome::Refused, format!("the receiver answered {}", status.as_u16())),
    };
    Sent { outcome, status: Some(status.as_u16()), took, error }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const NOW: Timestamp = Timestamp(1_769_903_999_000_000);

    fn letter<'a>(url: &'a str, secret: &'a str) -> Letter<'a> {
        Letter { url, secret, event_type: "key_created", delivery_id: "evt_1", body: r#"{"a":"b"}"# }
    }

    fn sender(networks: &str) -> Sender {
        let webhook_networks = networks.split(',').map(|network| network.parse().unwrap()).collect();
        Sender::new(WebhooksConfig { webhook_networks, webhook_http: true })
    }

    /// Starts a receiver that answers one connection with these bytes. Returns its URL, and the task that returns the
    /// request.
    async fn receiver(answer: &'static [u8]) -> (String, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?a=b", listener.local_addr().unwrap());
        let seen = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let mut read = 0;
            while !String::from_utf8_lossy(&request[..read]).ends_with('}') {
                read += stream.read(&mut request[read..]).await.unwrap();
            }
            let _ = stream.write_all(answer).await;
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        (url, seen)
    }

    #[tokio::test]
    async fn h1_h3_an_event_is_sent_signed_in_both_ways() {
        let (url, seen) = receiver(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let sent = sender("127.0.0.0/8").send(&letter(&url, secret), NOW).await;
        assert_eq!((sent.outcome, sent.status), (Outcome::Taken, Some(204)));
        let seen = seen.await.unwrap().to_lowercase();
        // the expected signatures come from `openssl dgst -sha256 -hmac` and from the library of Standard Webhooks
        for line in [
            "post /hook?a=b http/1.1",
            "content-type: application/json",
            "user-agent: service-webhooks/1.0",
            "x-service-event-type: key_created",
            "x-service-delivery-id: evt_1",
            "webhook-id: evt_1",
            "webhook-timestamp: 1769903999",
            "webhook-signature: v1,",
        ] {
            assert!(seen.contains(line), "{line}: {seen}");
        }
        assert!(seen.contains(&format!("x-service-signature: {}", signature(secret, r#"{"a":"b"}"#))));
        let own = sender("127.0.0.0/8");
        assert!(standard_signature(&letter(&url, "a secret of the customer's own, 32 long"), NOW).is_none());
        drop(own);
    }

    #[tokio::test]
    async fn h8_answers_are_taken_refused_or_broken() {
        for (answer, outcome, status) in [
            (&b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..], Outcome::Taken, Some(200)),
            (
                b"HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
                Outcome::Refused,
                Some(301),
            ),
            (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", Outcome::Refused, Some(404)),
            (b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n", Outcome::Refused, Some(429)),
            (b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", Outcome::Broken, Some(500)),
            // the answer announces ten gigabytes, but the sender reads a bounded part
            (b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\nxxxx", Outcome::Taken, Some(200)),
            // cut off
            (b"HTTP/1.1 200", Outcome::Broken, None),
            (b"", Outcome::Broken, None),
            (b"SSH-2.0-OpenSSH\r\n", Outcome::Broken, None),
        ] {
            let (url, seen) = receiver(answer).await;
            let sent = sender("127.0.0.0/8").send(&letter(&url, "s"), NOW).await;
            assert_eq!((sent.outcome, sent.status), (outcome, status), "{sent:?}");
            assert_eq!(sent.error.is_empty(), outcome == Outcome::Taken);
            seen.await.unwrap();
        }
    }

    #[tokio::test]
    async fn h5_a_name_that_resolves_elsewhere_the_second_time_is_refused() {
        let (url, seen) = receiver(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let port: u16 = url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let mut rebound = sender("127.0.0.1/32");
        rebound.resolve = Some(Box::new(move |_| {
            // the name resolves to an allowed address first, and to a refused one after that
            let host = if counted.fetch_add(1, Ordering::Relaxed) == 0 { [127, 0, 0, 1] } else { [127, 0, 0, 2] };
            vec![SocketAddr::from((host, port))]
        }));
        let url = format!("http://receiver.example:{port}/");
        let sent = rebound.send(&letter(&url, "s"), NOW).await;
        assert_eq!((sent.outcome, asked.load(Ordering::Relaxed)), (Outcome::Taken, 1));
        seen.await.unwrap();
        let sent = rebound.send(&letter(&url, "s"), NOW).await;
        assert_eq!((sent.outcome, &sent.error[..]), (Outcome::Refused, "the address is not public"));
    }

    #[tokio::test]
    async fn h8_a_receiver_that_is_not_there_is_tried_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let sent = sender("127.0.0.0/8").send(&letter(&url, "s"), NOW).await;
        assert_eq!((sent.outcome, sent.status), (Outcome::Broken, None));
        let unnamed = sender("127.0.0.0/8").send(&letter("http://receiver.invalid/", "s"), NOW).await;
        assert_eq!(unnamed.outcome, Outcome::Broken);
    }

    #[tokio::test(start_paused = true)]
    async fn h9_a_receiver_that_sends_a_byte_a_second_has_five_seconds_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let trickle = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if stream.write_all(&[*byte]).await.is_err() {
                    return;
                }
            }
        });
        let sent = sender("127.0.0.0/8").send(&letter(&url, "s"), NOW).await;
        assert_eq!((sent.outcome, &sent.error[..]), (Outcome::Broken, "no answer within 5 seconds"));
        trickle.abort();
    }

    #[tokio::test]
    async fn h9_a_receiver_whose_answer_never_ends_is_read_for_a_moment() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let flood = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n").await;
            // the receiver sends until the sender closes the connection
            while stream.write_all(&[b'x'; 64 << 10]).await.is_ok() {}
        });
        let sent = sender("127.0.0.0/8").send(&letter(&url, "s"), NOW).await;
        assert_eq!((sent.outcome, sent.status), (Outcome::Taken, Some(200)));
        flood.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn h9_a_receiver_that_hangs_has_five_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let begun = tokio::time::Instant::now();
        let sent = sender("127.0.0.0/8").send(&letter(&url, "s"), NOW).await;
        assert_eq!((sent.outcome, &sent.error[..]), (Outcome::Broken, "no answer within 5 seconds"));
        assert!(begun.elapsed() < Duration::from_secs(11));
        drop(listener);
    }
}
