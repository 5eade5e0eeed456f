//! An SMTP server on a free port of 127.0.0.1, which refuses e-mails when a test says so.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::PATIENCE;

/// A mailbox for all addresses. The server runs until the mailbox is dropped.
pub struct Mailbox {
    /// The server's address.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// Heads and bodies of the received e-mails.
    mails: Vec<String>,
    /// How many of the next e-mails the server refuses temporarily.
    put_off: usize,
    /// Whether the server answers no e-mail for now.
    is_silent: bool,
}

impl Mailbox {
    /// Starts the server.
    pub async fn start() -> Mailbox {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Mailbox { address, state, task }
    }

    /// Lets the server refuse the next e-mails temporarily, as a busy server does.
    pub fn put_off(&self, count: usize) {
        self.state.lock().expect("no panic").put_off = count;
    }

    /// Whether the server still refuses the next e-mail.
    pub fn puts_off(&self) -> bool {
        self.state.lock().expect("no panic").put_off > 0
    }

    /// Lets the server answer no e-mail that it has taken, until it may answer again.
    pub fn be_silent(&self, is_silent: bool) {
        self.state.lock().expect("no panic").is_silent = is_silent;
    }

    /// Waits until this many e-mails have come. Returns all received e-mails.
    ///
    /// # Panics
    /// If the e-mails do not come in time.
    pub async fn wait_for(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let mails = self.state.lock().expect("no panic").mails.clone();
            if mails.len() >= count {
                return mails;
            }
            assert!(begun.elapsed() < PATIENCE, "{} of {count} e-mails came", mails.len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Option<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"220 mailbox\r\n").await.ok()?;
    let mut mail = None::<String>;
    while let Some(line) = lines.next_line().await.ok()? {
        let answer = match &mut mail {
            Some(_) if line == "." => {
                state.lock().expect("no panic").mails.extend(mail.take());
                while state.lock().expect("no panic").is_silent {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                "250 taken"
            }
            Some(text) => {
                text.push_str(&line);
                text.push('\n');
                continue;
            }
            None if line.starts_with("MAIL") && put_off(&state) => "451 later",
            None if line == "DATA" => {
                mail = Some(String::new());
                "354 go on"
            }
            None if line == "QUIT" => "221 bye",
            None => "250 yes",
        };
        writer.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
    }
    Some(())
}

fn put_off(state: &Mutex<State>) -> bool {
    let mut state = state.lock().expect("no panic");
    let puts_off = state.put_off > 0;
    state.put_off = state.put_off.saturating_sub(1);
    puts_off
}
