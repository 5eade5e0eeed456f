//! NATS servers for tests. Each server belongs to one test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fleet::broker::Listener;
use fleet::nats::{NatsBroker, NatsConfig, read_servers};
use tempfile::TempDir;

/// A server with the users of control/deploy/nats.conf.
pub struct Server {
    folder: TempDir,
    process: Child,
    port: u16,
}

/// The example for operators, so that the permissions in it are tried.
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/nats.conf");

impl Server {
    /// Starts a server. On a machine without `nats-server` 2.12 or newer, prints a line and returns `None`, or panics if
    /// `TEST_NATS` requires the server.
    pub fn start() -> Option<Server> {
        if !has_server() {
            let asked_for = std::env::var("TEST_NATS").is_ok_and(|wanted| wanted == "required");
            assert!(!asked_for, "there is no nats-server of version 2.12 or newer");
            println!("not tried: there is no nats-server of version 2.12 or newer (.ci/requirements.txt)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let mut process = Command::new("nats-server")
            .args(["--config", CONFIG, "--addr", "127.0.0.1", "--port", &port.to_string()])
            .env("ANGO_NATS_API_PASSWORD", "secret")
            .env("ANGO_NATS_WORKER_PASSWORD", "secret")
            // the example keeps its messages in a folder below
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nats-server starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Server is ready"));
        assert!(ready, "nats-server ended");
        // the pipe must not fill
        std::thread::spawn(move || lines.for_each(drop));
        Some(Server { folder, process, port })
    }

    /// Connects a member as the user of API nodes.
    pub async fn connect(&self, member: &str, listener: Listener) -> NatsBroker {
        self.connect_as("api", member, listener).await
    }

    /// Connects a member as this user.
    pub async fn connect_as(&self, user: &str, member: &str, listener: Listener) -> NatsBroker {
        let config = NatsConfig {
            servers: read_servers(&format!("nats://{user}:secret@127.0.0.1:{}", self.port)).expect("a server"),
            credentials: None,
            fleet: "ango".to_owned(),
            member: member.to_owned(),
            run_replicas: 1,
            operations_replicas: 1,
            makes_streams: user == "api",
        };
        NatsBroker::connect(config, listener).await.expect("the server answers")
    }

    /// Deletes all streams as this user: the user of API nodes may, as an operator may by mistake.
    pub async fn delete_streams_as(&self, user: &str) {
        let options = async_nats::ConnectOptions::new().user_and_password(user.to_owned(), "secret".to_owned());
        let client = options.connect(format!("127.0.0.1:{}", self.port)).await.expect("the server answers");
        let mut streams = async_nats::jetstream::new(client);
        // a call that is not allowed has no answer
        streams.set_timeout(Duration::from_secs(1));
        for name in ["ango-run", "ango-ops"] {
            let _ = streams.delete_stream(name).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.folder.path();
    }
}

/// Whether there is a server that has prioritized pulls.
fn has_server() -> bool {
    let Ok(output) = Command::new("nats-server").arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.trim().rsplit('v').next().unwrap_or_default().split('.').map(|part| part.parse::<u32>());
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (2, 12))
}
