//! Fleets in this process, for tests: API nodes on one PostgreSQL database, workers, a broker and a bucket.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use control::admin;
use control::app::WorkerNode;
use control::config::{BrokerUrl, BucketConfig, Config, NodeRole, ServerSecret};
use control::work::{BackendChoice, EngineDevice};
use tempfile::TempDir;
use tests_store::Kind;
use tokio::runtime::Runtime;
use zeroize::Zeroizing;

use crate::node::until;
use crate::ports;
use crate::s3::S3;
use crate::server::TestServer;

/// The secret of the API nodes.
const SECRET: [u8; 32] = [7; 32];

/// Starts a server, prints `ready`, and ends the server when the input closes, so that no server outlives its test. When the script
/// has ended, the server has ended too, so the port is free. A small disk is a file system in memory, which only the server has. The
/// limits let the server make the streams on a small disk, too.
const SCRIPT: &str = r#"
    folder=$1 port=$2 disk=$3
    shift 3
    mkdir -p "$folder/data"
    rm -f "$folder/log"
    echo "jetstream { max_file_store: 64GB, max_memory_store: 64GB }" >"$folder/settings"
    start='[ -z "$0" ] || mount -t tmpfs -o size="$0" tmpfs "$1" || exit; shift; exec nats-server "$@"'
    ${disk:+unshare --user --map-root-user --mount} sh -c "$start" "$disk" "$folder/data" \
        --config "$folder/settings" --addr 127.0.0.1 --port "$port" --store_dir "$folder/data" "$@" 2>"$folder/log" &
    server=$!
    until grep -qs "Server is ready" "$folder/log"; do kill -0 "$server" || exit 1; done
    echo "ready $server"
    cat >/dev/null
    kill -KILL "$server"
    wait "$server"
"#;

/// Bytes of a small disk.
const SMALL_DISK: usize = 8 << 20;

/// A NATS server with JetStream.
pub struct Nats {
    folder: TempDir,
    process: Child,
    /// The process id of the server.
    server: u32,
    port: u16,
    /// The size of its disk, or nothing for the disk of the machine.
    disk: String,
    /// Further arguments.
    arguments: Vec<String>,
}

impl Nats {
    /// Starts a server. On a machine without `nats-server` 2.12 or newer, prints a line and returns `None`, or panics if
    /// `TEST_NATS` requires the server.
    pub fn start() -> Option<Nats> {
        has_server_or_say().then(|| Nats::with(ports::free(), String::new(), Vec::new()))
    }

    /// Starts a server whose disk [`Nats::fill_disk`] fills. Prints a line and returns `None` on a machine without
    /// `nats-server`, or where this user cannot make a file system.
    pub fn with_small_disk() -> Option<Nats> {
        if !has_server_or_say() {
            return None;
        }
        let mounts = "mount -t tmpfs -o size=1m tmpfs /tmp";
        let tried = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-c", mounts]).output();
        if !tried.is_ok_and(|tried| tried.status.success()) {
            println!("not tried: this user cannot make a small disk (unshare, mount)");
            return None;
        }
        Some(Nats::with(ports::free(), SMALL_DISK.to_string(), Vec::new()))
    }

    /// Starts three servers that are one broker. See [`Nats::start`] for machines without `nats-server`.
    pub fn start_three() -> Option<Vec<Nats>> {
        if !has_server_or_say() {
            return None;
        }
        let (ports, routes) = ([(); 3].map(|()| ports::free()), [(); 3].map(|()| ports::free()));
        let server = |at: usize| {
            let route = |port: &u16| format!("nats://127.0.0.1:{port}");
            let others: Vec<String> = routes.iter().filter(|port| **port != routes[at]).map(route).collect();
            let cluster = ["--cluster_name", "ango", "--cluster"].map(str::to_owned);
            let name = ["--server_name".to_owned(), format!("broker-{at}")];
            let routes = [route(&routes[at]), "--routes".to_owned(), others.join(",")];
            Nats::with(ports[at], String::new(), [&name[..], &cluster, &routes].concat())
        };
        Some((0..3).map(server).collect())
    }

    fn with(port: u16, disk: String, arguments: Vec<String>) -> Nats {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (process, server) = spawn(&folder, port, &disk, &arguments);
        Nats { folder, process, server, port, disk, arguments }
    }

    /// Returns the server's address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends the server at once.
    pub fn kill(&mut self) {
        // closing the input ends the script
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }

    /// Starts the server again, with what its disk has. A small disk is empty then.
    pub fn start_again(&mut self) {
        self.kill();
        (self.process, self.server) = spawn(&self.folder, self.port, &self.disk, &self.arguments);
    }

    /// Starts the server again without anything that it had.
    pub fn start_anew(&mut self) {
        self.kill();
        self.folder = tempfile::tempdir().expect("a temporary folder");
        (self.process, self.server) = spawn(&self.folder, self.port, &self.disk, &self.arguments);
    }

    /// Fills the small disk of the server.
    pub fn fill_disk(&self) {
        let path = format!("/proc/{}/root{}/data/fill", self.server, self.folder.path().display());
        let mut file = std::fs::File::create(path).expect("the server's disk takes a file");
        let chunk = vec![0; 64 << 10];
        // a bound, so that a mistake does not fill the disk of the machine
        let filled = (0..2 * SMALL_DISK / chunk.len()).any(|_| file.write_all(&chunk).is_err());
        assert!(filled, "the disk is full");
    }

    /// Returns the process id of the server.
    pub fn server(&self) -> u32 {
        self.server
    }
}

/// Starts a server. Returns the script that ends it, and the server's process id.
fn spawn(folder: &TempDir, port: u16, disk: &str, arguments: &[String]) -> (Child, u32) {
    let mut process = Command::new("sh")
        .args(["-c", SCRIPT, "nats"])
        .arg(folder.path())
        .arg(port.to_string())
        .arg(disk)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the machine has a shell");
    let mut word = String::new();
    let output = process.stdout.take().expect("the output was piped");
    BufReader::new(output).read_line(&mut word).expect("the script's words");
    let server = word.trim_end().strip_prefix("ready ").and_then(|id| id.parse().ok());
    (process, server.expect("nats-server is ready"))
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}

fn has_server_or_say() -> bool {
    if has_server() {
        return true;
    }
    let asked_for = std::env::var("TEST_NATS").is_ok_and(|wanted| wanted == "required");
    assert!(!asked_for, "there is no nats-server of version 2.12 or newer");
    println!("not tried: there is no nats-server of version 2.12 or newer (.ci/requirements.txt)");
    false
}

fn has_server() -> bool {
    let Ok(output) = Command::new("nats-server").arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.trim().rsplit('v').next().unwrap_or_default().split('.').map(|part| part.parse::<u32>());
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (2, 12))
}

/// Whether `TEST_FLEET` wants that every node of a test is a fleet: two API nodes, which take requests in turns, and two
/// workers. `TEST_DATABASE` must be `postgres`.
pub fn is_wanted() -> bool {
    std::env::var_os("TEST_FLEET").is_some()
}

/// The servers that the fleets of this process share. Each fleet has its own names in the broker and in the bucket.
fn servers() -> Option<&'static (Nats, S3)> {
    static SERVERS: OnceLock<Option<(Nats, S3)>> = OnceLock::new();
    SERVERS.get_or_init(|| Some((Nats::start()?, S3::start()?))).as_ref()
}

/// A fleet. Parts that a test takes out end where the test drops them.
pub struct Fleet {
    /// The API nodes.
    pub api: Vec<TestServer>,
    /// The workers.
    pub workers: Vec<WorkerNode>,
    /// The settings of its members.
    pub member: Member,
    folders: Vec<TempDir>,
}

/// The settings that all members of a fleet share.
#[derive(Clone)]
pub struct Member {
    /// The addresses of the broker's servers, separated by commas.
    pub broker: String,
    /// The fleet's name.
    pub name: String,
    bucket: BucketConfig,
    /// The worker setting `ANGO_CHECKPOINT_S`.
    pub checkpoint_period: Duration,
}

impl Member {
    /// The settings of a new fleet with this broker and this bucket.
    pub fn new(nats: &Nats, bucket: &S3) -> Member {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("fleet-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut bucket = bucket.config();
        bucket.url.prefix = name.clone();
        Member { broker: nats.url(), name, bucket, checkpoint_period: Duration::from_secs(30) }
    }

    /// The settings of the fleet of the nodes on this folder, on the servers of this process.
    ///
    /// # Panics
    /// Without NATS or SeaweedFS.
    pub fn remembered(folder: &Path) -> Member {
        let (nats, bucket) = servers().expect("there are NATS and SeaweedFS");
        let file = folder.join("fleet-name");
        let mut member = Member::new(nats, bucket);
        match std::fs::read_to_string(&file) {
            Ok(name) => {
                member.bucket.url.prefix = name.clone();
                member.name = name;
            }
            Err(_) => std::fs::write(&file, &member.name).expect("the folder takes files"),
        }
        member
    }

    /// Starts a worker for the API node with the settings `api`. Without `devices`, the worker's settings choose them. Returns
    /// the worker and its folder.
    pub async fn start_worker(&self, api: &Config, devices: Option<Vec<EngineDevice>>) -> (WorkerNode, TempDir) {
        let key: Zeroizing<String> = admin::fleet_key(api).expect("the fleet's key");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config::in_folder(folder.path());
        config.compute.backend = BackendChoice::Cpu;
        self.join(&mut config, NodeRole::Worker);
        config.fleet.key = Some(ServerSecret::read(&key).expect("a key"));
        (WorkerNode::start(&config, devices).await.expect("the worker starts"), folder)
    }

    /// Returns the variables of a process that is a member with this role.
    pub fn environment(&self, role: NodeRole) -> Vec<(&'static str, String)> {
        let role = match role {
            NodeRole::All => "all",
            NodeRole::Api => "api",
            NodeRole::Worker => "worker",
        };
        let BucketConfig { url, endpoint, region, access_key_id, secret_access_key } = self.bucket.clone();
        vec![
            ("ANGO_ROLE", role.to_owned()),
            ("ANGO_NATS_URL", self.broker.clone()),
            ("ANGO_FLEET_NAME", self.name.clone()),
            ("ANGO_CHECKPOINT_S", self.checkpoint_period.as_secs().to_string()),
            ("ANGO_OBJECTS_URL", format!("s3://{}/{}", url.bucket, url.prefix)),
            ("ANGO_S3_ENDPOINT", endpoint.unwrap_or_default()),
            ("ANGO_S3_REGION", region),
            ("ANGO_S3_ACCESS_KEY_ID", access_key_id.unwrap_or_default()),
            ("ANGO_S3_SECRET_ACCESS_KEY", secret_access_key.map(|secret| secret.to_string()).unwrap_or_default()),
        ]
    }

    /// Makes a node a member with this role.
    pub fn join(&self, config: &mut Config, role: NodeRole) {
        config.bucket = Some(self.bucket.clone());
        config.fleet.role = role;
        config.fleet.name = self.name.clone();
        config.fleet.checkpoint_period = self.checkpoint_period;
        config.fleet.broker = Some(BrokerUrl::read(&self.broker).expect("an address"));
    }
}

impl Fleet {
    /// Starts a fleet whose API nodes have settings that `change` changes. On a machine without PostgreSQL, NATS or SeaweedFS,
    /// prints a line and returns `None`.
    pub async fn start(api: usize, workers: usize, change: impl Fn(&mut Config)) -> Option<Fleet> {
        Fleet::start_on(api, workers, || None, change).await
    }

    /// Like [`Fleet::start`], with workers that compute on these devices.
    pub async fn start_on(
        api: usize,
        workers: usize,
        devices: impl Fn() -> Option<Vec<EngineDevice>>,
        change: impl Fn(&mut Config),
    ) -> Option<Fleet> {
        let (nats, bucket) = servers()?;
        Fleet::start_with(Member::new(nats, bucket), api, workers, devices, change).await
    }

    /// Like [`Fleet::start`], on this broker and this bucket.
    pub async fn start_on_servers(nats: &Nats, bucket: &S3, api: usize, workers: usize) -> Option<Fleet> {
        Fleet::start_with(Member::new(nats, bucket), api, workers, || None, |_| ()).await
    }

    async fn start_with(
        member: Member,
        api: usize,
        workers: usize,
        devices: impl Fn() -> Option<Vec<EngineDevice>>,
        change: impl Fn(&mut Config),
    ) -> Option<Fleet> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = Kind::Postgres.new_url(folder.path())?;
        let mut fleet = Fleet { api: Vec::new(), workers: Vec::new(), member, folders: vec![folder] };
        for _ in 0..workers {
            fleet.add_worker(devices()).await;
        }
        for _ in 0..api {
            let server = TestServer::with(|config| {
                config.database_url = url.clone();
                config.secret = Some(ServerSecret(SECRET.into()));
                fleet.member.join(config, NodeRole::Api);
                change(config);
            });
            fleet.api.push(server.await);
        }
        fleet.hears_workers(workers).await;
        Some(fleet)
    }

    /// Starts one more worker, on these devices, or on those that the settings choose.
    pub async fn add_worker(&mut self, devices: Option<Vec<EngineDevice>>) {
        let (worker, folder) = self.member.start_worker(&self.api_settings(), devices).await;
        self.workers.push(worker);
        self.folders.push(folder);
    }

    /// Starts a worker on threads of its own. When the test ends these threads, the worker is as dead as a killed process.
    pub async fn worker_that_dies(&mut self, devices: Option<Vec<EngineDevice>>) -> (WorkerNode, Runtime) {
        let (threads, member, api) = (Runtime::new().expect("threads"), self.member.clone(), self.api_settings());
        let started = threads.spawn(async move { member.start_worker(&api, devices).await });
        let (worker, folder) = started.await.expect("the worker starts");
        self.folders.push(folder);
        (worker, threads)
    }

    /// Returns the fleet's key.
    pub fn key(&self) -> Zeroizing<String> {
        admin::fleet_key(&self.api_settings()).expect("the fleet's key")
    }

    /// The settings of an API node that the fleet's key depends on.
    fn api_settings(&self) -> Config {
        let mut api = Config::in_folder(self.folders[0].path());
        api.secret = Some(ServerSecret(SECRET.into()));
        api
    }

    /// Waits until all API nodes hear this many workers.
    pub async fn hears_workers(&self, wanted: usize) {
        hear_workers(&self.api, wanted).await;
    }

    /// Waits until all API nodes hear that this many workers are ready.
    pub async fn has_ready_workers(&self, wanted: usize) {
        let are_ready = |node: &TestServer| node.running().workers_ready() == wanted;
        until("the workers are ready", async || self.api.iter().all(are_ready)).await;
    }
}

/// Waits until all these API nodes hear this many workers.
pub async fn hear_workers(api: &[TestServer], wanted: usize) {
    let are_heard = |node: &TestServer| node.running().workers_heard() == wanted;
    until("the workers are heard", async || api.iter().all(are_heard)).await;
}
