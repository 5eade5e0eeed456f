//! A node in this process, on free ports and in a temporary folder, with a clock that tests move.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::AccountId;
use control::admin;
use control::app::{App, Running, WorkerNode};
use control::caller::{Environment, Role};
use control::caller::{Plan, PlanLimits, UNLIMITED};
use control::clock::Clock;
use control::config::{Config, NodeRole, ServerSecret};
use control::work::{BackendChoice, EngineDevice};
use tempfile::TempDir;

use tests_store::{Kind, patiently};

use crate::PATIENCE;
use crate::canary::{self, Canary};

use crate::fleet;
use crate::http::{Request, Response};
use crate::worker;

/// A node in this process.
pub struct TestServer {
    /// The address of the API.
    pub address: SocketAddr,
    /// The address of metrics and probes.
    pub operations: SocketAddr,
    /// The node's clock.
    pub clock: Clock,
    running: Option<Running>,
    /// The rest of the fleet whose first API node this is, if the suite runs on fleets.
    rest: Option<RestOfFleet>,
    folder: Option<TempDir>,
    canary: &'static Canary,
}

impl TestServer {
    /// Starts a node with default settings.
    pub async fn start() -> Self {
        Self::with(|_| ()).await
    }

    /// Starts a node whose settings `change` changes.
    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::in_folder(tempfile::tempdir().expect("a temporary folder"), change).await
    }

    /// Starts two nodes with one secret on one PostgreSQL database. On a machine without PostgreSQL, prints a line and
    /// returns `None`.
    pub async fn pair(change: impl Fn(&mut Config)) -> Option<(Self, Self)> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = Kind::Postgres.new_url(folder.path())?;
        let of_both = |config: &mut Config| {
            config.database_url = url.clone();
            config.secret = Some(ServerSecret([7; 32].into()));
            change(config);
        };
        Some((Self::with(of_both).await, Self::with(of_both).await))
    }

    /// Starts a node that computes on these devices.
    pub async fn on(devices: Vec<EngineDevice>) -> Self {
        Self::on_database(Kind::chosen(), devices).await
    }

    /// Starts a node that computes on these devices and has a database of this kind.
    pub async fn on_database(kind: Kind, devices: Vec<EngineDevice>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config::in_folder(folder.path());
        choose_database(kind, &mut config, &folder);
        lift_limits(&mut config);
        let (clock, canary) = (Clock::system(), canary::watch());
        let running =
            App::start_with(config, clock.clone(), Some(devices), worker::chosen).await.expect("the node starts");
        Self::of(running, clock, folder, canary)
    }

    /// Starts a node on this folder.
    pub async fn in_folder(folder: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        Self::asking(worker::chosen, folder, change).await
    }

    /// Starts a node on this folder that asks the worker that `through` makes of the node's own.
    pub async fn asking(through: worker::Through, folder: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::in_folder(folder.path());
        // tests of the service use the CPU, whatever cards the machine has
        config.compute.backend = BackendChoice::Cpu;
        choose_database(Kind::chosen(), &mut config, &folder);
        lift_limits(&mut config);
        change(&mut config);
        let (clock, canary) = (Clock::system(), canary::watch());
        let rest = if fleet::is_wanted() { Some(RestOfFleet::start(&mut config, &folder, &clock).await) } else { None };
        let running = patiently(async || App::start_with(config.clone(), clock.clone(), None, through).await).await;
        let mut server = Self::of(running, clock, folder, canary);
        server.rest = rest;
        server.hears_workers().await;
        server
    }

    /// Waits until the API nodes hear the workers, if this is a fleet.
    async fn hears_workers(&self) {
        let Some(rest) = &self.rest else { return };
        let started = Instant::now();
        while ![self.running(), &rest.api].iter().all(|node| node.workers_heard() == rest.workers.len()) {
            assert!(started.elapsed() < PATIENCE, "the workers are not heard");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn of(running: Running, clock: Clock, folder: TempDir, canary: &'static Canary) -> Self {
        let (address, operations) = (running.api_addr, running.metrics_addr);
        Self { address, operations, clock, running: Some(running), rest: None, folder: Some(folder), canary }
    }

    /// Makes an account with a key of this role. Returns the key.
    pub async fn key(&self, role: Role) -> String {
        self.create_key(role, None).await.0
    }

    /// Makes a key of this role, for the given account or for a new account. Returns the key and the account.
    pub async fn create_key(&self, role: Role, account: Option<AccountId>) -> (String, AccountId) {
        let environment = if role == Role::Trial { Environment::Trial } else { Environment::Test };
        // plan `enterprise`, so that no limit stops a test about something else
        let plan = if role == Role::Trial { Plan::Trial } else { Plan::Enterprise };
        let created =
            admin::create_key(self.running().config(), role, environment, account, Some(plan)).await.expect("a key");
        (created.key.to_string(), created.account_id)
    }

    /// Sends a request to the API.
    ///
    /// In a fleet, the API nodes take turns.
    pub async fn send(&self, request: Request) -> Response {
        let address = match &self.rest {
            Some(rest) if rest.turn.fetch_add(1, Ordering::Relaxed) % 2 == 1 => rest.api.api_addr,
            _ => self.address,
        };
        request.send(address).await
    }

    /// Sends a GET request to the second listener.
    pub async fn operations_get(&self, path: &str) -> Response {
        Request::get(path).send(self.operations).await
    }

    /// Returns the value of a metric, or 0 if the page does not have the metric. In a fleet, the sum over all members.
    pub async fn metric(&self, name: &str) -> f64 {
        let mut pages = vec![self.operations];
        if let Some(RestOfFleet { api, workers, .. }) = &self.rest {
            pages.push(api.metrics_addr);
            pages.extend(workers.iter().map(|worker| worker.metrics_addr));
        }
        let mut sum = 0.0;
        for address in pages {
            let page = Request::get("/metrics").send(address).await;
            let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
            let found = page.text().lines().find_map(value);
            sum += found.map_or(0.0, |value| value.parse().expect("a number"));
        }
        sum
    }

    /// Reads a metric until it has the wanted value.
    ///
    /// # Panics
    /// If the metric does not have the value within a minute.
    pub async fn metric_becomes(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        let started = Instant::now();
        while !wanted(self.metric(name).await) {
            assert!(started.elapsed() < PATIENCE, "{name} did not get the wanted value");
        }
    }

    /// Returns the node itself, for tests of parts without a route.
    pub fn running(&self) -> &Running {
        self.running.as_ref().expect("the node runs until it is stopped")
    }

    /// Stops the node and returns its folder.
    pub async fn stop(mut self) -> TempDir {
        self.canary.look(&self.running().metrics());
        self.running.take().expect("the node runs until it is stopped").shutdown().await;
        if let Some(RestOfFleet { api, workers, .. }) = self.rest.take() {
            api.shutdown().await;
            for worker in workers {
                worker.shutdown().await;
            }
        }
        self.folder.take().expect("the folder stays until the node is stopped")
    }
}

impl Drop for TestServer {
    /// Checks at the end of every test that neither the log nor the metrics hold a secret.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(running) = &self.running {
            self.canary.look(&running.metrics());
        }
        self.canary.assert_silent();
    }
}

/// The members of a fleet besides its first API node: another API node on the same database, and two workers.
struct RestOfFleet {
    api: Running,
    workers: Vec<WorkerNode>,
    /// Counts the requests, which the API nodes take in turns.
    turn: AtomicUsize,
    _folders: Vec<TempDir>,
}

impl RestOfFleet {
    /// Starts the members, and changes the settings of the first API node to those of a member.
    async fn start(config: &mut Config, folder: &TempDir, clock: &Clock) -> RestOfFleet {
        let member = fleet::Member::remembered(folder.path());
        config.secret.get_or_insert(ServerSecret([7; 32].into()));
        let (mut workers, mut folders) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (worker, folder) = member.start_worker(config, None).await;
            workers.push(worker);
            folders.push(folder);
        }
        member.join(config, NodeRole::Api);
        // the nodes believe each other's tokens
        config.public_url.get_or_insert_with(|| "https://ango.test".to_owned());
        let other = tempfile::tempdir().expect("a temporary folder");
        let config = Config { data_dir: Config::in_folder(other.path()).data_dir, ..config.clone() };
        folders.push(other);
        let api = patiently(async || App::start_with(config.clone(), clock.clone(), None, worker::chosen).await).await;
        RestOfFleet { api, workers, turn: AtomicUsize::new(0), _folders: folders }
    }
}

/// Removes the limits on requests, for tests of other things: no key has a token bucket, and neither callers without a
/// key nor the plan `enterprise` have a daily or monthly limit.
fn lift_limits(config: &mut Config) {
    let none = PlanLimits {
        requests_a_day: UNLIMITED,
        requests_a_month: UNLIMITED,
        burst_a_second: 1_000_000,
        open_sessions: UNLIMITED,
        ..config.plan_limits.anonymous
    };
    config.plan_limits.anonymous = none;
    for plan in Plan::ALL {
        config.plan_limits.of_mut(plan).burst_a_second = none.burst_a_second;
    }
}

/// Sets a new database of this kind. All nodes on the same folder get the same database.
fn choose_database(kind: Kind, config: &mut Config, folder: &TempDir) {
    if kind == Kind::Sqlite {
        let path = config.database_url.strip_prefix("sqlite:").expect("the node's own file");
        tests_store::copy_template(Path::new(path));
        return;
    }
    let remembered = folder.path().join("database-url");
    config.database_url = std::fs::read_to_string(&remembered).unwrap_or_else(|_| {
        let url = kind.new_url(folder.path()).expect("there is PostgreSQL");
        std::fs::write(&remembered, &url).expect("the folder takes files");
        url
    });
}
