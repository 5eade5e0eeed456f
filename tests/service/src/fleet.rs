//! Fleets in this process, for tests: API nodes on one PostgreSQL database, workers, a broker and a bucket.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use control::admin;
use control::app::WorkerNode;
use control::config::{BrokerUrl, Config, Role, ServerSecret};
use control::work::BackendChoice;
use tempfile::TempDir;
use tests_store::Kind;
use zeroize::Zeroizing;

use crate::PATIENCE;
use crate::s3::S3;
use crate::server::TestServer;

/// The secret of the API nodes.
const SECRET: [u8; 32] = [7; 32];

/// A NATS server with JetStream.
pub struct Nats {
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Nats {
    /// Starts a server. On a machine without `nats-server` 2.12 or newer, prints a line and returns `None`, or panics if
    /// `TEST_NATS` requires the server.
    pub fn start() -> Option<Nats> {
        if !has_server() {
            assert!(std::env::var_os("TEST_NATS").is_none(), "there is no nats-server of version 2.12 or newer");
            eprintln!("skipped: there is no nats-server of version 2.12 or newer");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let process = spawn(&folder, port);
        Some(Nats { folder, process, port })
    }

    /// Returns the server's address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends the server at once.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts the server again, with what its disk has.
    pub fn start_again(&mut self) {
        self.kill();
        self.process = spawn(&self.folder, self.port);
    }
}

fn spawn(folder: &TempDir, port: u16) -> Child {
    let mut process = Command::new("nats-server")
        .args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir"])
        .arg(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nats-server starts");
    let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
    let ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Server is ready"));
    assert!(ready, "nats-server ended");
    // the pipe must not fill
    std::thread::spawn(move || lines.for_each(drop));
    process
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}

fn has_server() -> bool {
    let Ok(output) = Command::new("nats-server").arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.trim().rsplit('v').next().unwrap_or_default().split('.').map(|part| part.parse::<u32>());
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (2, 12))
}

/// A fleet. Parts that a test takes out end where the test drops them.
pub struct Fleet {
    /// The API nodes.
    pub api: Vec<TestServer>,
    /// The workers.
    pub workers: Vec<WorkerNode>,
    /// The broker.
    pub nats: Nats,
    /// The object store.
    pub bucket: S3,
    folders: Vec<TempDir>,
}

impl Fleet {
    /// Starts a fleet whose API nodes have settings that `change` changes. On a machine without PostgreSQL, NATS or SeaweedFS,
    /// prints a line and returns `None`.
    pub async fn start(api: usize, workers: usize, change: impl Fn(&mut Config)) -> Option<Fleet> {
        let (nats, bucket) = (Nats::start()?, S3::start()?);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = Kind::Postgres.new_url(folder.path())?;
        let mut fleet = Fleet { api: Vec::new(), workers: Vec::new(), nats, bucket, folders: vec![folder] };
        for _ in 0..workers {
            fleet.add_worker().await;
        }
        for _ in 0..api {
            let (broker, bucket) = (fleet.nats.url(), fleet.bucket.config());
            let server = TestServer::with(|config| {
                config.database_url = url.clone();
                config.secret = Some(ServerSecret(SECRET.into()));
                config.bucket = Some(bucket);
                config.fleet.role = Role::Api;
                config.fleet.broker = Some(BrokerUrl::read(&broker).expect("an address"));
                change(config);
            });
            fleet.api.push(server.await);
        }
        fleet.hears_workers(workers).await;
        Some(fleet)
    }

    /// Starts one more worker.
    pub async fn add_worker(&mut self) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config::in_folder(folder.path());
        config.secret = Some(ServerSecret(SECRET.into()));
        let key: Zeroizing<String> = admin::fleet_key(&config).expect("the fleet's key");
        config.secret = None;
        config.compute.backend = BackendChoice::Cpu;
        config.bucket = Some(self.bucket.config());
        config.fleet.role = Role::Worker;
        config.fleet.key = Some(ServerSecret::read(&key).expect("a key"));
        config.fleet.broker = Some(BrokerUrl::read(&self.nats.url()).expect("an address"));
        self.workers.push(WorkerNode::start(&config, None).await.expect("the worker starts"));
        self.folders.push(folder);
    }

    /// Waits until all API nodes hear this many workers.
    pub async fn hears_workers(&self, wanted: usize) {
        let started = Instant::now();
        while !self.api.iter().all(|node| node.running().workers_heard() == wanted) {
            assert!(started.elapsed() < PATIENCE, "the workers are not heard");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}
