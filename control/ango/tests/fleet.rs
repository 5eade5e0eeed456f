//! A fleet of processes whose members are killed, stopped and drained under load. Always: every answer is right, nothing is
//! charged twice, and a request that fails is charged nothing (readings P24).
#![cfg(all(unix, feature = "nats"))]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::Preset;
use control::admin;
use control::caller::{Environment, Plan, Role};
use control::config::{Config, NodeRole, ServerSecret};
use serde_json::json;
use tempfile::TempDir;
use tests_service::fleet::{Member, Nats};
use tests_service::gates::{
    CHAIN_BITS, CIRCUITS, EVAL_SESSION, GATE, OCTETS, OPERATIONS, base64, bytes, chain_netlist, chain_result,
};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::node::{Node, serve, until};
use tests_service::s3::S3;
use tests_store::Kind;

const SECRET: [u8; 32] = [7; 32];
/// Number of clients that send gates, one after another each.
const CLIENTS: usize = 3;

/// The servers and the settings of a fleet of processes.
struct Place {
    nats: Nats,
    member: Member,
    database: String,
    fleet_key: String,
    api_key: String,
    folders: Vec<TempDir>,
    _bucket: S3,
}

impl Place {
    /// `None`: the machine lacks a server.
    async fn new() -> Option<Place> {
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
        Some(Place { nats, member, database, fleet_key, api_key, folders: vec![folder], _bucket: bucket })
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

    fn api(&mut self) -> Node {
        Node::start(self.command(NodeRole::Api))
    }

    fn worker(&mut self) -> Node {
        Node::start_worker(self.command(NodeRole::Worker))
    }
}

/// Clients that send gates to all API nodes in turn, and check each answer.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    slowest_ms: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(nodes: &[&Node], key: &str, session: &str) -> Load {
        let (stop, answered, failed, slowest_ms) = Default::default();
        let mut load = Load { stop, answered, failed, slowest_ms, clients: Vec::new() };
        let addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
        for client in 0..CLIENTS {
            let (stop, answered, failed) = (load.stop.clone(), load.answered.clone(), load.failed.clone());
            let (slowest, addresses) = (load.slowest_ms.clone(), addresses.clone());
            let (key, session) = (key.to_owned(), session.to_owned());
            load.clients.push(tokio::spawn(async move {
                let secret = keys::of(Preset::Fast128);
                let encrypt = |bit| base64(&secret.encrypt(bit));
                for turn in client.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let [a, b] = [turn % 2 == 0, turn % 3 == 0];
                    let body = json!({"session_id": session, "op": "NAND", "a": encrypt(a), "b": encrypt(b)});
                    let begun = Instant::now();
                    let answer = Request::post(GATE, &body).key(&key).try_send(addresses[turn % addresses.len()]).await;
                    match answer {
                        Some(answer) if answer.status == 200 => {
                            let result = answer.ok(200)["result_b64"].clone();
                            assert_eq!(secret.decrypt(&bytes(&result)), !(a && b), "a wrong answer");
                            answered.fetch_add(1, Ordering::Relaxed);
                            slowest.fetch_max(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
                        }
                        _ => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                }
            }));
        }
        load
    }

    /// Waits until this many more gates are answered, after something happened to the fleet. Prints the time of the slowest.
    async fn goes_on(&self, more: u64, after: &str) {
        let wanted = self.answered.load(Ordering::Relaxed) + more;
        until("gates are answered", async || self.answered.load(Ordering::Relaxed) >= wanted).await;
        println!("{after}: the slowest gate took {} ms", self.slowest_ms.swap(0, Ordering::Relaxed));
    }

    /// Ends the load. Returns the numbers of answered and of failed gates.
    async fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("every answer is right");
        }
        (self.answered.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

async fn open_session(node: &Node, key: &str) -> String {
    let upload = Request::new("POST", EVAL_SESSION).body(OCTETS, keys::of(Preset::Fast128).evaluation.clone());
    let answer = node.send(&upload.key(key)).await.expect("the node lives");
    answer.ok(201)["session_id"].as_str().unwrap().to_owned()
}

/// Puts the worker that has computed more before the other.
async fn owner_first([one, other]: [Node; 2]) -> (Node, Node) {
    let computed = async |node: &Node| {
        let page = Request::get("/metrics").try_send(node.operations).await.expect("the worker lives");
        let line = page.text().lines().find_map(|line| line.strip_prefix("ango_bootstraps_total ").map(str::to_owned));
        line.and_then(|number| number.parse::<u64>().ok()).unwrap_or_default()
    };
    let [of_one, of_other] = [computed(&one).await, computed(&other).await];
    if of_one >= of_other { (one, other) } else { (other, one) }
}

fn signal(node: &Node, name: &str) {
    let status = Command::new("kill").args([name, &node.process_id().to_string()]).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_goes_on_where_its_dead_worker_stopped_and_is_charged_once() {
    const GATES: usize = 400;
    let Some(mut place) = Place::new().await else { return };
    place.member.checkpoint_period = Duration::ZERO;
    let (worker, accepts, other) = (place.worker(), place.api(), place.api());
    let key = place.api_key.clone();
    until("the worker is heard", async || accepts.fleet_workers().await == 1 && other.fleet_workers().await == 1).await;
    let session = open_session(&accepts, &key).await;
    let secret = keys::of(Preset::Fast128);
    let bits: Vec<bool> = (0..CHAIN_BITS).map(|at| at % 3 != 1).collect();
    let input: Vec<String> = bits.iter().map(|&bit| base64(&secret.encrypt(bit))).collect();
    let body = json!({"session_id": session, "circuit": chain_netlist(GATES), "inputs": [input]});
    let begin = Request::post(CIRCUITS, &body).header("Prefer", "respond-async").key(&key);
    let op_id = accepts.send(&begin).await.unwrap().ok(200)["op_id"].as_str().unwrap().to_owned();
    let poll = Request::get(format!("{OPERATIONS}/{op_id}")).key(&key);
    let told = async || {
        let told = other.send(&poll).await.unwrap().ok(200);
        (told["gates_done"].as_u64().unwrap(), told)
    };
    until("a quarter is done", async || told().await.0 >= GATES as u64 / 4).await;
    worker.kill();
    accepts.kill();
    let mut done = told().await.0;
    println!("{done} of {GATES} gates were told as done when the worker and the API node were killed");
    let _next = place.worker();
    let ended = loop {
        let (now, told) = told().await;
        // a worker that began again would tell less
        assert!(now + 2 >= done, "{now} gates after {done}");
        done = done.max(now);
        if told["status"] == "completed" {
            break told;
        }
        assert!(told["status"] == "running" || told["status"] == "pending", "{told}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(secret.decrypt(&bytes(&ended["outputs"][0][0])), chain_result(GATES, &bits));
    let show = other.send(&Request::get(format!("/api/v1/tfhe/session/{session}")).key(&key)).await.unwrap().ok(200);
    assert_eq!((&show["gates_used"], &ended["gates_total"]), (&json!(GATES), &json!(GATES)));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_fleet_die_and_sleep_and_no_answer_is_lost_or_charged_twice() {
    let Some(mut place) = Place::new().await else { return };
    let workers = [place.worker(), place.worker()];
    let (api, second_api) = (place.api(), place.api());
    let key = place.api_key.clone();
    until("the workers are heard", async || api.fleet_workers().await == 2 && second_api.fleet_workers().await == 2)
        .await;
    let session = open_session(&api, &key).await;
    let load = Load::start(&[&api, &second_api], &key, &session);
    load.goes_on(20, "a fleet at rest").await;
    // the owner of the session computes
    let (owner, other) = owner_first(workers).await;
    owner.kill();
    load.goes_on(40, "a worker was killed").await;
    let third = place.worker();
    until("the new worker is heard", async || api.fleet_workers().await == 2).await;
    load.goes_on(40, "a worker joined").await;
    signal(&other, "-STOP");
    load.goes_on(40, "a worker sleeps").await;
    // beyond every lease
    tokio::time::sleep(Duration::from_secs(5)).await;
    signal(&other, "-CONT");
    load.goes_on(40, "the worker woke").await;
    signal(&third, "-TERM");
    until("the worker has stopped", async || third.is_dead()).await;
    load.goes_on(40, "a worker left in order").await;
    place.nats.start_again();
    load.goes_on(40, "the broker lost its memory").await;
    let (answered, failed) = load.end().await;
    println!("{answered} gates answered, {failed} failed");
    assert_eq!(failed, 0, "a fault must cost time only");
    let show = api.send(&Request::get(format!("/api/v1/tfhe/session/{session}")).key(&key)).await.unwrap().ok(200);
    assert_eq!(show["gates_used"], answered);
}
