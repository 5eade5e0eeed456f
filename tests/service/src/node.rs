//! Nodes in processes of their own, for suites that kill nodes.
//!
//! The suites are in `control/ango/tests`, because only the suites of a program know where its file is.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control::access::limits::Period;
use control::admin;
use control::clock::Clock;
use control::config::Config;
use store::Store;
use tempfile::TempDir;
use tests_extent::Extent;
use tests_store::{Kind, patiently};

use crate::PATIENCE;
use crate::http::{Request, Response};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Returns another number on each call.
pub fn serial() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Waits until `is_true` answers true.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn until(what: &str, is_true: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Gives a command that runs the program the arguments and the environment of a node on free ports. The node's variables
/// are those that the caller adds.
pub fn serve(mut program: Command, folder: &Path, database_url: &str) -> Command {
    program
        .args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--backend", "cpu", "--data-dir"])
        .arg(folder)
        .env_clear()
        .env("ANGO_DATABASE_URL", database_url)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    program
}

/// Reads the address in the first line that begins like this.
fn printed_address(output: &mut BufReader<ChildStdout>, start: &str) -> SocketAddr {
    let mut lines = output.by_ref().lines().map(|line| line.expect("a line of text"));
    let line = lines.find(|line| line.starts_with(start)).expect("the node prints its addresses");
    let address = line.rsplit("http://").next().expect("an address").trim_end_matches("/metrics");
    address.trim().parse().expect("an address")
}

/// A node in another process, killed when dropped.
pub struct Node {
    process: Arc<Mutex<Child>>,
    /// The address of the API.
    pub address: SocketAddr,
    /// The address of metrics and probes.
    pub operations: SocketAddr,
    /// The node's output, which must stay open while the node writes to it.
    _output: BufReader<ChildStdout>,
}

impl Node {
    /// Runs a command that [`serve`] made, and waits until the node serves.
    ///
    /// # Panics
    /// If the process does not run, or ends first.
    pub fn start(mut command: Command) -> Node {
        let mut process = command.spawn().expect("the program runs");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let address = printed_address(&mut output, "  API ");
        let operations = printed_address(&mut output, "  metrics ");
        Node { process: Arc::new(Mutex::new(process)), address, operations, _output: output }
    }

    /// Like [`Node::start`], for a worker of a fleet, which has no API: its address is that of metrics and probes.
    ///
    /// # Panics
    /// As [`Node::start`].
    pub fn start_worker(mut command: Command) -> Node {
        let mut process = command.spawn().expect("the program runs");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let operations = printed_address(&mut output, "  metrics ");
        Node { process: Arc::new(Mutex::new(process)), address: operations, operations, _output: output }
    }

    /// Returns how many workers of the fleet an API node hears.
    pub async fn fleet_workers(&self) -> usize {
        let Some(page) = Request::get("/metrics").try_send(self.operations).await else { return 0 };
        let lines = page.text().lines().filter(|line| line.starts_with("ango_fleet_workers{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
    }

    /// Like [`Node::start`], but other tasks go on meanwhile.
    ///
    /// # Panics
    /// As [`Node::start`].
    pub async fn start_aside(command: Command) -> Node {
        tokio::task::spawn_blocking(move || Node::start(command)).await.expect("the node starts")
    }

    /// Sends a request to the API. `None` if the node died.
    pub async fn send(&self, request: &Request) -> Option<Response> {
        request.try_send(self.address).await
    }

    /// The id of the process.
    pub fn process_id(&self) -> u32 {
        self.process.lock().expect("no panic").id()
    }

    /// Whether the process has ended.
    pub fn is_dead(&self) -> bool {
        self.process.lock().expect("no panic").try_wait().expect("a process of this test").is_some()
    }

    /// Kills the process like `kill -9`.
    pub fn kill(&self) {
        kill(&self.process);
    }

    /// Returns a function that kills the process, at any time.
    pub fn killer(&self) -> impl FnOnce() + Send + 'static {
        let process = self.process.clone();
        move || kill(&process)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn kill(process: &Mutex<Child>) {
    let mut process = process.lock().expect("no panic");
    // fails if the process has ended already
    let _ = process.kill();
    let _ = process.wait();
}

/// A data folder and its database, on which nodes die and start again.
pub struct Place {
    /// The data folder.
    pub folder: TempDir,
    /// The settings of the folder and the database.
    pub config: Config,
    /// The database.
    pub store: Store,
    /// The clock of the place's nodes.
    pub clock: Clock,
    kind: Kind,
    ahead_s: AtomicU64,
}

impl Place {
    /// Makes a place. Returns `None` if this machine lacks the database. Callers on these plans have no limits, because
    /// with limits the node would record each request in the database before the request runs.
    ///
    /// # Panics
    /// If the database does not answer.
    pub async fn new(kind: Kind, unlimited: &[&str]) -> Option<Place> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config::in_folder(folder.path());
        config.database_url = kind.new_url(folder.path())?;
        patiently(async || admin::prepare(&config).await).await;
        lift_limits(folder.path(), unlimited);
        let store = patiently(async || Store::open(&config.database_url).await).await;
        Some(Place { folder, config, store, clock: Clock::system(), kind, ahead_s: AtomicU64::new(0) })
    }

    /// Tells whether nodes of this place die before steps too, and not only after them. A death before a step leaves the
    /// state of a death after the step before. So on PostgreSQL, where each death takes longer, only the soak has both.
    pub fn has_deaths_before_steps(&self) -> bool {
        self.kind == Kind::Sqlite || Extent::named() == Extent::Soak
    }

    /// Returns the moments of a write at which nodes of this place die, for [`Place::kill_at`].
    pub fn moments(&self) -> &'static [&'static str] {
        if self.has_deaths_before_steps() { &["before", "after"] } else { &["after"] }
    }

    /// Returns the command for a node of this place, which [`Place::kill_at`] and [`Place::move_by`] govern.
    pub fn serve(&self, program: &str) -> Command {
        let mut command = serve(Command::new(program), self.folder.path(), &self.config.database_url);
        command.env("ANGO_FAIL_POINT", self.path("orders")).env("ANGO_CLOCK_AHEAD", self.path("ahead"));
        command
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Moves the clock, and a moment later that of the running nodes.
    ///
    /// # Panics
    /// If the folder takes no file.
    pub fn move_by(&self, by: Duration) {
        self.clock.advance(by);
        let ahead_s = self.ahead_s.fetch_add(by.as_secs(), Ordering::Relaxed) + by.as_secs();
        std::fs::write(self.path("ahead"), ahead_s.to_string()).expect("the folder takes files");
    }

    /// Returns the present month, as the ledger counts months.
    pub fn month(&self) -> i64 {
        Period::of(self.clock.now()).month
    }

    /// Lets the place's nodes die at the n-th write from now on: `before` the write or `after` the write.
    ///
    /// # Panics
    /// If the folder takes no file.
    pub fn kill_at(&self, moment: &str, write: u32) {
        std::fs::write(self.path("orders"), format!("{moment} {write} {}", serial())).expect("the folder takes files");
    }

    /// Lets the place's nodes live, whatever they write.
    pub fn spare(&self) {
        // fails if there is no order
        let _ = std::fs::remove_file(self.path("orders"));
    }
}

/// Writes a settings file by which callers on these plans have no limits.
fn lift_limits(folder: &Path, plans: &[&str]) {
    let unlimited = "requests-a-day = \"unlimited\"\nrequests-a-month = \"unlimited\"\nburst-a-second = 1000\n";
    let limits: String = plans.iter().map(|plan| format!("[plans.{plan}]\n{unlimited}")).collect();
    std::fs::write(folder.join("ango.toml"), limits).expect("the folder takes files");
}
