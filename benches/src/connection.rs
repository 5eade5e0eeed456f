//! A minimal client with one connection that sends one request after another.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The connection, and a buffer for answers.
pub struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Connection {
    /// Connects to a node.
    pub fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Connection { stream, bytes: vec![0; 16 << 20] }
    }

    /// Sends a request and reads its answer, which must be a success with a declared length. Returns the time and the
    /// body.
    pub fn exchange(&mut self, request: &[u8]) -> (Duration, &[u8]) {
        let started = Instant::now();
        self.stream.write_all(request).expect("the request is taken");
        let body = self.answer();
        (started.elapsed(), &self.bytes[body])
    }

    fn answer(&mut self) -> Range<usize> {
        let (mut have, mut body) = (0, 0..usize::MAX);
        while have < body.end {
            have += match self.stream.read(&mut self.bytes[have..]).expect("an answer") {
                0 => panic!("the connection was closed"),
                read => read,
            };
            let end = self.bytes[..have.min(4096)].windows(4).position(|four| four == b"\r\n\r\n");
            if let (usize::MAX, Some(end)) = (body.end, end) {
                let head = std::str::from_utf8(&self.bytes[..end]).expect("a head of text").to_ascii_lowercase();
                assert!(head.starts_with("http/1.1 2"), "{head}{}", String::from_utf8_lossy(&self.bytes[end..have]));
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
                body = end + 4..end + 4 + length.parse::<usize>().expect("a number");
            }
        }
        body
    }
}

/// A request in wire form: method and path, further header lines, body.
pub fn message(line: &str, key: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{line} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
