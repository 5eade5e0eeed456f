//! Redis servers for tests. Each belongs to one test, which may empty, stop or end it, and goes with it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zeroize::Zeroizing;

use control::cache_store::CacheStoreConfig;

/// Longest time that a server takes to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a socket in a folder of its own; nothing of it is kept.
pub struct Redis {
    folder: TempDir,
    server: Option<Child>,
}

impl Redis {
    /// A running server. `None`, and a printed line: there is none on this machine, and `TEST_REDIS` does not ask for it.
    pub fn start() -> Option<Redis> {
        let mut redis = Redis { folder: tempfile::tempdir().expect("a temporary folder"), server: None };
        match redis.begin() {
            true => Some(redis),
            false if std::env::var("TEST_REDIS").is_ok_and(|wanted| wanted == "required") => {
                panic!("there is no Redis on this machine")
            }
            false => {
                println!("not tried: there is no Redis on this machine (Debian: apt-get install redis-server)");
                None
            }
        }
    }

    /// Starts the server, empty, where it was before.
    pub fn start_again(&mut self) {
        assert!(self.begin(), "it started before");
    }

    /// Ends the server where it stands.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().and_then(|()| server.wait()).expect("it ends");
            let _ = std::fs::remove_file(self.socket());
        }
    }

    /// Has the server accept and never answer, or go on.
    pub fn hang(&self, hangs: bool) {
        let signal = if hangs { "-STOP" } else { "-CONT" };
        let server = self.server.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &server]).status().expect("kill runs").success());
    }

    /// Sends a command and returns what is printed.
    pub fn command(&self, words: &[&str]) -> String {
        let done = Command::new("redis-cli").arg("-s").arg(self.socket()).args(words).output().expect("redis-cli runs");
        assert!(done.status.success(), "{words:?}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// The settings of a node that uses it. A slow machine is not what tests are about: a call may take long.
    pub fn config(&self) -> CacheStoreConfig {
        CacheStoreConfig {
            url: Zeroizing::new(self.url()),
            prefix: "ango:".to_owned(),
            patience: Duration::from_secs(10),
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }

    fn begin(&mut self) -> bool {
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(self.socket())
            .arg("--dir")
            .arg(self.folder.path())
            .stdout(Stdio::null())
            .spawn();
        let Ok(server) = server else { return false };
        self.server = Some(server);
        let started = Instant::now();
        while !answers(&self.socket()) {
            assert!(started.elapsed() < PATIENCE, "Redis is there and does not start");
        }
        true
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn answers(socket: &Path) -> bool {
    let ping = Command::new("redis-cli").arg("-s").arg(socket).arg("PING").output();
    ping.is_ok_and(|pong| pong.stdout.starts_with(b"PONG"))
}
