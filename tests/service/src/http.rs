//! A plain HTTP/1.1 client that sends exactly the bytes that a test gives, including wrong headers and incomplete
//! bodies.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request that is not sent yet.
#[derive(Clone, Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Makes a request without a body.
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// A GET request.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    /// Makes a POST request with a JSON body.
    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path).body("application/json", body.to_string())
    }

    /// Makes a PUT request with a text body.
    pub fn put_text(path: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self::new("PUT", path).body("text/plain", text)
    }

    /// Makes a DELETE request.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }

    /// Adds a header line.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds the header `Authorization: Bearer` with this key.
    pub fn key(self, key: &str) -> Self {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    /// Sets the body, and adds headers with the body's type and length.
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len().to_string();
        self.header("Content-Type", content_type).header("Content-Length", &length)
    }

    /// Returns the request's head, as it is sent.
    pub fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    /// Sends the request on a new connection.
    pub async fn send(&self, address: SocketAddr) -> Response {
        self.try_send(address).await.expect("an answer")
    }

    /// Sends the request to a server that may die. `None` if no answer comes.
    pub async fn try_send(&self, address: SocketAddr) -> Option<Response> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        // a write fails if the server has refused the request and stopped reading it; the server's answer can still be
        // read
        let _ = stream.write_all(self.head().as_bytes()).await;
        let _ = stream.write_all(&self.body).await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.ok()?;
        (!bytes.is_empty()).then(|| Response::parse(&bytes))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
}

impl Response {
    /// Reads an answer until the connection ends.
    ///
    /// # Panics
    /// If the bytes are not an HTTP answer.
    pub async fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("an answer");
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer with a head");
        let head = std::str::from_utf8(&bytes[..end]).expect("a head of text");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let headers = lines
            .map(|line| line.split_once(':').expect("a header line"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Self { status: status.parse().expect("a status"), headers, body: bytes[end + 4..].to_vec() }
    }

    /// Returns the value of the first header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the values of all headers of a name.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}: not JSON: {:?}", self.status, self.body))
    }

    /// Checks the status. Returns the body as JSON.
    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Checks that the answer is an error with this status and code, and checks all its headers (readings E2, E4, X11).
    /// Returns the error object.
    #[track_caller]
    pub fn error(&self, status: u16, code: &str) -> Value {
        let json = self.ok(status);
        let error = &json["error"];
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
        assert_eq!(error["request_id"].as_str(), self.header("x-request-id"));
        let documentation = error["documentation_url"].as_str().expect("a documentation address");
        assert!(documentation.ends_with(&format!("/docs/errors/{code}")), "{documentation}");
        assert_eq!(self.header("www-authenticate"), (status == 401).then_some("Bearer"));
        let comes_back = matches!(status, 429 | 503) || code == "IDEMPOTENCY_IN_PROGRESS";
        assert_eq!(self.header("retry-after").is_some(), comes_back);
        error.clone()
    }
}
