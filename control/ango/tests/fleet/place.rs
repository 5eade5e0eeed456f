//! The servers and the members of a fleet of processes.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use client::Preset;
use control::admin;
use control::caller::{Environment, Plan, Role};
use control::config::{Config, NodeRole, ServerSecret};
use tempfile::TempDir;
use tests_service::fleet::{Member, Nats};
use tests_service::gates::{EVAL_SESSION, OCTETS};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::node::{Node, serve};
use tests_service::s3::S3;
use tests_store::Kind;

const SECRET: [u8; 32] = [7; 32];

/// The servers and the settings of a fleet of processes.
pub struct Place {
    pub nats: Nats,
    pub member: Member,
    database: String,
    fleet_key: String,
    pub api_key: String,
    /// The addresses of the API nodes, as clients know them.
    pub addresses: Arc<Mutex<Vec<SocketAddr>>>,
    folders: Vec<TempDir>,
    pub bucket: S3,
}

impl Place {
    /// `None`: the machine lacks a server.
    pub async fn new() -> Option<Place> {
        let (nats, bucket) = (Nats::start()?, S3::start()?);
        let folder = tempfile::tempdir().unwrap();
        let database = Kind::Postgres.new_url(folder.path())?;
        let mut config = Config::in_folder(folder.path());
        config.database_url = database.clone();
        config.secret = Some(ServerSecret(SECRET.into()));
        let (role, plan) = (Role::AccountAdmin, Some(Plan::Enterprise));
        let made = admin::create_key(&config, role, Environment::Live, None, plan).await.unwrap();
        let fleet_key = admin::fleet_key(&config).unwrap().to_string();
        let (member, api_key) = (Member::new(&nats, &bucket), made.key.to_string());
        Some(Place {
            nats,
            member,
            database,
            fleet_key,
            api_key,
            addresses: Arc::default(),
            folders: vec![folder],
            bucket,
        })
    }

    fn command(&mut self, role: NodeRole) -> Command {
        let folder = tempfile::tempdir().unwrap();
        let database = if role == NodeRole::Worker { "" } else { &self.database };
        let mut command = serve(Command::new(env!("CARGO_BIN_EXE_ango")), folder.path(), database);
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
}

/// Opens a session through this node. Returns its id.
pub async fn open_session(node: &Node, key: &str) -> String {
    let upload = Request::new("POST", EVAL_SESSION).body(OCTETS, keys::of(Preset::Fast128).evaluation.clone());
    let answer = node.send(&upload.key(key)).await.expect("the node lives");
    answer.ok(201)["session_id"].as_str().unwrap().to_owned()
}

/// Puts the worker that has computed more before the other.
pub async fn owner_first([one, other]: [Node; 2]) -> (Node, Node) {
    let computed = async |node: &Node| {
        let page = Request::get("/metrics").try_send(node.operations).await.expect("the worker lives");
        let line = page.text().lines().find_map(|line| line.strip_prefix("ango_bootstraps_total ").map(str::to_owned));
        line.and_then(|number| number.parse::<u64>().ok()).unwrap_or_default()
    };
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
