//! A node in this process, on free ports and a temporary folder, with a clock that tests move.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use api::AccountId;
use control::admin;
use control::app::{App, Running};
use control::auth::{Environment, Role};
use control::clock::Clock;
use control::compute::BackendChoice;
use control::config::Config;
use tempfile::TempDir;

use crate::http::{Request, Response};

/// Longest time that a test waits for something to become true.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node in this process.
pub struct TestServer {
    /// Where its API listens.
    pub address: SocketAddr,
    /// Where metrics and probes listen.
    pub operations: SocketAddr,
    /// Its clock.
    pub clock: Clock,
    running: Running,
    folder: TempDir,
}

impl TestServer {
    /// A node with default settings.
    pub async fn start() -> Self {
        Self::with(|_| ()).await
    }

    /// A node with other settings.
    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::in_folder(tempfile::tempdir().expect("a temporary folder"), change).await
    }

    /// A node on this folder.
    pub async fn in_folder(folder: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::in_folder(folder.path());
        // the service is what is tested, whatever cards the machine has
        config.compute.backend = BackendChoice::Cpu;
        change(&mut config);
        let clock = Clock::system();
        let running = App::start_at(config, clock.clone()).await.expect("the node starts");
        Self { address: running.api_addr, operations: running.metrics_addr, clock, running, folder }
    }

    /// A new account's key of this role.
    pub async fn key(&self, role: Role) -> String {
        self.create_key(role, None).await.0
    }

    /// A key of this role and its account, which is a new one if none is given.
    pub async fn create_key(&self, role: Role, account: Option<AccountId>) -> (String, AccountId) {
        let environment = if role == Role::Trial { Environment::Trial } else { Environment::Test };
        let created = admin::create_key(self.running.config(), role, environment, account).await.expect("a key");
        (created.key.to_string(), created.account_id)
    }

    /// Sends a request to the API.
    pub async fn send(&self, request: Request) -> Response {
        request.send(self.address).await
    }

    /// GET on the second listener.
    pub async fn operations_get(&self, path: &str) -> Response {
        Request::get(path).send(self.operations).await
    }

    /// The value of a metric without labels; 0 if it is not there.
    pub async fn metric(&self, name: &str) -> f64 {
        let page = self.operations_get("/metrics").await;
        let line = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// Asks for a metric until it is as wanted.
    ///
    /// # Panics
    /// When it is not for a minute.
    pub async fn metric_becomes(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        let started = Instant::now();
        while !wanted(self.metric(name).await) {
            assert!(started.elapsed() < PATIENCE, "{name} did not become what it should");
        }
    }

    /// The node, for what has no address.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Stops the node; its folder stays.
    pub async fn stop(self) -> TempDir {
        self.running.shutdown().await;
        self.folder
    }
}
