//! A receiver of webhooks, which stores all deliveries and answers with the statuses that a test sets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::PATIENCE;

/// A received delivery.
#[derive(Clone, Debug)]
pub struct Received {
    /// Names in lower case, with their values.
    headers: Vec<(String, String)>,
    /// The exact bytes of the body.
    pub body: Vec<u8>,
}

impl Received {
    /// Returns a header's value, or an empty text if the header is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// A receiver on a free port of 127.0.0.1. The receiver runs until this value is dropped.
pub struct Receiver {
    /// The receiver's address.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    /// Statuses of the next answers. Every further answer has the status 204.
    answers: VecDeque<u16>,
}

impl Receiver {
    /// Starts the receiver.
    pub async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, shared.clone()));
            }
        });
        Receiver { address, state, task }
    }

    /// Returns the URL for deliveries.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Lets the receiver answer the next deliveries with these statuses.
    pub fn answer(&self, statuses: &[u16]) {
        self.state.lock().expect("no panic").answers.extend(statuses);
    }

    /// Returns all deliveries so far.
    pub fn received(&self) -> Vec<Received> {
        self.state.lock().expect("no panic").received.clone()
    }

    /// Waits until this many deliveries have come. Returns all deliveries.
    ///
    /// # Panics
    /// If the deliveries do not come in time.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let begun = Instant::now();
        while self.received().len() < count {
            assert!(begun.elapsed() < PATIENCE, "{} of {count} deliveries came", self.received().len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.received()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut bytes = Vec::new();
    let (head_end, length) = loop {
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend(&part[..read]),
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            let length: usize = length.trim().parse().expect("a length");
            if bytes.len() >= end + 4 + length {
                break (end, length);
            }
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers = head.lines().skip(1).filter_map(header).collect();
    let body = bytes[head_end + 4..head_end + 4 + length].to_vec();
    let status = {
        let mut state = state.lock().expect("no panic");
        state.received.push(Received { headers, body });
        state.answers.pop_front().unwrap_or(204)
    };
    let answer = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes()).await;
}
