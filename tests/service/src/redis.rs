//! Redis servers for tests. Each server belongs to one test, which may empty, stop or kill it. The server ends when the
//! test ends, even if the test fails.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zeroize::Zeroizing;

use control::cache_store::CacheStoreConfig;

use crate::PATIENCE;

/// Starts a server, prints its process id, and ends the server when the input closes. Prints nothing on a machine
/// without Redis.
const SCRIPT: &str = r#"
    command -v redis-server >/dev/null && command -v redis-cli >/dev/null || exit 0
    redis-server --port 0 --save '' --appendonly no --dir "$1" --unixsocket "$1/socket" >/dev/null &
    echo $!
    cat >/dev/null
    kill -KILL $!
    wait
"#;

/// A server on a socket in a new folder, without persistence.
pub struct Redis {
    folder: TempDir,
    script: Option<Child>,
    /// The id of the server's process.
    process: String,
}

impl Redis {
    /// Starts a server. On a machine without Redis, prints a line and returns `None`, or panics if `TEST_REDIS`
    /// requires Redis.
    pub fn start() -> Option<Redis> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut redis = Redis { folder, script: None, process: String::new() };
        match redis.begin() {
            true => Some(redis),
            false if std::env::var("TEST_REDIS").is_ok_and(|wanted| wanted == "required") => {
                panic!("Redis is not installed on this machine")
            }
            false => {
                println!("not tried: Redis is not installed (Debian: apt-get install redis-server)");
                None
            }
        }
    }

    /// Starts the server again at the same address, empty.
    pub fn start_again(&mut self) {
        assert!(self.begin(), "it started before");
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        if let Some(mut script) = self.script.take() {
            // `wait` closes the script's input, which ends the script
            script.wait().expect("the script ends");
            let _ = std::fs::remove_file(self.socket());
        }
    }

    /// Stops the server's process, or lets it go on. A stopped server accepts connections and does not answer.
    pub fn hang(&self, hangs: bool) {
        let signal = if hangs { "-STOP" } else { "-CONT" };
        assert!(Command::new("kill").args([signal, &self.process]).status().expect("kill runs").success());
    }

    /// Sends a command and returns the printed answer.
    pub fn command(&self, words: &[&str]) -> String {
        let done = Command::new("redis-cli").arg("-s").arg(self.socket()).args(words).output().expect("redis-cli runs");
        assert!(done.status.success(), "{words:?}");
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// Returns the settings with which a node uses this server. The node waits up to ten seconds for an answer, so that
    /// no test fails on a slow machine.
    pub fn config(&self) -> CacheStoreConfig {
        CacheStoreConfig {
            url: Zeroizing::new(self.url()),
            prefix: "ango:".to_owned(),
            patience: Duration::from_secs(10),
        }
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }

    fn begin(&mut self) -> bool {
        let mut script = Command::new("sh")
            .args(["-c", SCRIPT, "redis"])
            .arg(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the machine has a shell");
        self.process.clear();
        let output = script.stdout.take().expect("the output was piped");
        BufReader::new(output).read_line(&mut self.process).expect("the script's words");
        self.process.truncate(self.process.trim_end().len());
        self.script = Some(script);
        if self.process.is_empty() {
            return false;
        }
        let started = Instant::now();
        while !answers(&self.socket()) {
            assert!(started.elapsed() < PATIENCE, "Redis is installed and does not start");
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
