//! The servers and the members of a fleet of processes.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use client::Preset;
use control::admin;
use control::caller::{Environment, Plan, Role};
use control::clock::Clock;
use control::config::{Config, NodeRole, ServerSecret};
use serde_json::Value;
use store::Store;
use tempfile::TempDir;
use tests_service::fleet::{Member, Nats};
use tests_service::gates::{EVAL_SESSION, OCTETS};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::ledger::assert_adds_up;
use tests_service::node::{Node, serve, until};
use tests_service::ports;
use tests_service::s3::S3;
use tests_store::{Kind, patiently, psql};

use crate::relay::{Link, Relay, Server};

const SECRET: [u8; 32] = [7; 32];

/// The servers and the settings of a fleet of processes.
pub struct Place {
    pub nats: Nats,
    pub member: Member,
    /// The program that members run from now on.
    pub program: PathBuf,
    database: String,
    /// The server of the database, if the server is this place's alone.
    server: Option<tests_store::Server>,
    fleet_key: String,
    pub api_key: String,
    account: String,
    /// The addresses of the API nodes, as clients know them.
    pub addresses: Arc<Mutex<Vec<SocketAddr>>>,
    folders: Vec<TempDir>,
    pub bucket: S3,
}

impl Place {
    /// `None`: the machine lacks a server.
    pub async fn new() -> Option<Place> {
        Place::on(Nats::start()?).await
    }

    /// Like [`Place::new`], with this broker.
    pub async fn on(nats: Nats) -> Option<Place> {
        let folder = tempfile::tempdir().unwrap();
        let database = Kind::Postgres.new_url(folder.path())?;
        Place::with(nats, folder, database).await
    }

    /// Like [`Place::new`], of this program, which makes the schema.
    pub async fn of_program(program: PathBuf) -> Option<Place> {
        let folder = tempfile::tempdir().unwrap();
        let database = Kind::Postgres.empty_url(folder.path())?;
        run(&program, folder.path(), &database, &["migrate"]);
        let create = ["admin", "create-key", "--role", "account_admin", "--plan", "enterprise", "--json"];
        let made: Value = serde_json::from_str(&run(&program, folder.path(), &database, &create)).unwrap();
        let [api_key, account] = ["key", "account_id"].map(|name| made[name].as_str().unwrap().to_owned());
        let place = Place::of(Nats::start()?, folder, database, api_key, account)?;
        Some(Place { program, ..place })
    }

    /// Runs a command of the program. Returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        run(&self.program, self.folders[0].path(), &self.database, arguments)
    }

    /// Like [`Place::new`], with a database server that [`Place::crash_database`] crashes.
    pub async fn with_own_database() -> Option<Place> {
        let server = tests_store::Server::for_one_test()?;
        let place = Place::with(Nats::start()?, tempfile::tempdir().unwrap(), server.new_url()).await?;
        Some(Place { server: Some(server), ..place })
    }

    async fn with(nats: Nats, folder: TempDir, database: String) -> Option<Place> {
        let mut config = settings(folder.path());
        config.database_url = database.clone();
        let (role, plan) = (Role::AccountAdmin, Some(Plan::Enterprise));
        let made = admin::create_key(&config, role, Environment::Live, None, plan).await.unwrap();
        Place::of(nats, folder, database, made.key.to_string(), made.account_id.as_str().to_owned())
    }

    fn of(nats: Nats, folder: TempDir, database: String, api_key: String, account: String) -> Option<Place> {
        let bucket = S3::start()?;
        Some(Place {
            member: Member::new(&nats, &bucket),
            nats,
            program: env!("CARGO_BIN_EXE_ango").into(),
            database,
            server: None,
            fleet_key: admin::fleet_key(&settings(folder.path())).unwrap().to_string(),
            api_key,
            account,
            addresses: Arc::default(),
            folders: vec![folder],
            bucket,
        })
    }

    fn command(&mut self, role: NodeRole) -> Command {
        let folder = tempfile::tempdir().unwrap();
        let database = if role == NodeRole::Worker { "" } else { &self.database };
        let mut command = serve(Command::new(&self.program), folder.path(), database);
        self.folders.push(folder);
        for (name, value) in self.member.environment(role) {
            command.env(name, value);
        }
        match role {
            NodeRole::Worker => command.env("ANGO_FLEET_KEY", &self.fleet_key),
            _ => command.env("ANGO_SECRET", hex::encode(SECRET)).env("ANGO_INTERNAL_LISTEN", "127.0.0.1:0"),
        };
        command
    }

    pub fn api(&mut self) -> Node {
        Node::start(self.command(NodeRole::Api))
    }

    pub fn worker(&mut self) -> Node {
        Node::start_worker(self.command(NodeRole::Worker))
    }

    /// Starts a node with this role, changed by `change`.
    pub fn start(&mut self, role: NodeRole, change: impl FnOnce(&mut Command)) -> Node {
        let mut command = self.command(role);
        change(&mut command);
        if role == NodeRole::Worker { Node::start_worker(command) } else { Node::start(command) }
    }

    /// Starts an API node whose links are relays.
    pub fn linked_api(&mut self) -> Linked {
        let (database, url) = self.database_link();
        // the relay must know the address of the internal listener before the node has one
        let listens = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let internal = Relay::start(Server::Tcp(listens));
        let mut links = self.links(vec![(To::Database, database)]);
        let node = self.start(NodeRole::Api, |command| {
            links.lead(command);
            command.env("ANGO_DATABASE_URL", url);
            command.env("ANGO_INTERNAL_LISTEN", listens.to_string());
            command.env("ANGO_INTERNAL_URL", format!("http://{}", internal.address));
        });
        links.0.push((To::Internal, internal));
        Linked { node, links }
    }

    /// Starts a worker whose links are relays.
    pub fn linked_worker(&mut self) -> Linked {
        let links = self.links(Vec::new());
        let node = self.start(NodeRole::Worker, |command| links.lead(command));
        Linked { node, links }
    }

    fn links(&self, mut links: Vec<(To, Relay)>) -> Links {
        let server = |url: &str| {
            let (_, address) = url.split_once("://").expect("a URL");
            Relay::start(Server::Tcp(address.parse().expect("an address")))
        };
        links.push((To::Broker, server(&self.nats.url())));
        links.push((To::Store, server(&self.bucket.config().endpoint.expect("an endpoint"))));
        Links(links)
    }

    /// Starts a relay to the database. Returns the database's URL through the relay, too.
    fn database_link(&self) -> (Relay, String) {
        let (url, sockets) = self.database.split_once("?host=").expect("a database on a local socket");
        let relay = Relay::start(Server::Unix(Path::new(sockets).join(".s.PGSQL.5432")));
        let url = url.replace("@localhost/", &format!("@{}/", relay.address));
        (relay, url)
    }

    /// Waits until nothing is reserved any more. Checks that so many gates are charged, at their price.
    pub async fn assert_charged(&self, gates: RangeInclusive<u64>) {
        let store = patiently(async || Store::open(&self.database).await).await;
        let open = async || store.audit_ledger(Clock::system().now().0).await.expect("an audit").open;
        until("nothing is reserved", async || open().await == 0).await;
        assert_adds_up(&store, &self.account).await;
        let (charged, _, _) = store.gate_usage_totals(&self.account).await.expect("totals");
        assert!(gates.contains(&charged.unsigned_abs()), "{charged} gates are charged, not {gates:?}");
    }

    /// Makes the server of the database crash, and starts it again.
    pub fn crash_database(&mut self) {
        self.server.as_mut().expect("a server for this place").crash();
    }

    /// Ends all connections to the database.
    pub fn end_database_connections(&self) {
        let others = "datname = current_database() AND pid <> pg_backend_pid()";
        psql(&self.database, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"));
    }
}

/// The server at the other end of a link. The internal listener belongs to the API node, and workers are at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Broker,
    Store,
    Database,
    Internal,
}

/// The links of a node.
pub struct Links(Vec<(To, Relay)>);

impl Links {
    /// Leads a node to its relays.
    fn lead(&self, command: &mut Command) {
        for (to, relay) in &self.0 {
            match to {
                To::Broker => command.env("ANGO_NATS_URL", format!("nats://{}", relay.address)),
                To::Store => command.env("ANGO_S3_ENDPOINT", format!("http://{}", relay.address)),
                To::Database | To::Internal => command,
            };
        }
    }

    /// Sets what happens to the bytes of a link from now on.
    pub fn set(&self, to: To, link: Link) {
        let (_, relay) = self.0.iter().find(|(is_to, _)| *is_to == to).expect("the node has this link");
        relay.set(link);
    }
}

/// A node whose links are relays.
pub struct Linked {
    pub node: Node,
    pub links: Links,
}

fn settings(folder: &Path) -> Config {
    let mut settings = Config::in_folder(folder);
    settings.secret = Some(ServerSecret(SECRET.into()));
    settings
}

/// Runs a command of a program on a folder and a database. Returns its output.
fn run(program: &Path, folder: &Path, database: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).arg("--data-dir").arg(folder).env_clear().env("ANGO_DATABASE_URL", database);
    let output = command.env("ANGO_SECRET", hex::encode(SECRET)).output().expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Reads a number of the page of metrics.
pub async fn gauge(node: &Node, name: &str) -> u64 {
    let page = Request::get("/metrics").try_send(node.operations).await.expect("the node lives");
    let line = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Opens a session through this node. Returns its id.
pub async fn open_session(node: &Node, key: &str) -> String {
    let upload = Request::new("POST", EVAL_SESSION).body(OCTETS, keys::of(Preset::Fast128).evaluation.clone());
    let answer = node.send(&upload.key(key)).await.expect("the node lives");
    answer.ok(201)["session_id"].as_str().unwrap().to_owned()
}

/// Puts the worker that has computed more before the other.
pub async fn owner_first([one, other]: [Node; 2]) -> (Node, Node) {
    let computed = async |node| gauge(node, "ango_bootstraps_total").await;
    let [of_one, of_other] = [computed(&one).await, computed(&other).await];
    if of_one >= of_other { (one, other) } else { (other, one) }
}

/// Sends a signal to a node.
pub fn signal(node: &Node, name: &str) {
    signal_process(node.process_id(), name);
}

/// Sends a signal to a process.
pub fn signal_process(process: u32, name: &str) {
    let status = Command::new("kill").args([name, &process.to_string()]).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
}
