//! Nodes whose database fails and works again: a full disk, a database that has become read-only. The same process goes
//! on, says that it is not healthy meanwhile, and does nothing by halves (readings O2).
//!
//! The disk of SQLite is full for the node's process: a limit on the size of its files, below the size that they have.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::{Duration, Instant};

use control::admin::{self, Operator};
use control::caller::{Environment, Plan, Role};
use control::config::Config;
use store::Store;
use tempfile::TempDir;
use tests_service::http::{Request, Response};
use tests_service::node::{self, serial, until};
use tests_service::users::PASSWORD;
use tests_store::{Kind, PgBouncer, psql};

const TRIAL_KEY: &str = "/api/v1/onboarding/temp-key";
/// A limit on the size of files, in bytes, that lets every write to the database fail.
const FULL: Option<u64> = Some(1);

/// A node in another process, killed when dropped.
struct Node(node::Node);

impl Node {
    /// Starts a node on this folder and database. The signal about too large a file is ignored, as services do.
    fn start(folder: &TempDir, database_url: &str) -> Node {
        let unlimited = "requests-a-day = \"unlimited\"\nrequests-a-month = \"unlimited\"\nburst-a-second = 100000\n";
        let limits = format!("[plans.anonymous]\n{unlimited}[plans.enterprise]\nburst-a-second = 100000\n");
        std::fs::write(folder.path().join("ango.toml"), limits).unwrap();
        let mut program = Command::new("env");
        program.args(["--ignore-signal=XFSZ", env!("CARGO_BIN_EXE_ango")]);
        let mut command = node::serve(program, folder.path(), database_url);
        command.args(["--public-url", "http://node", "--trusted-proxies", "127.0.0.0/8"]).env("PATH", "/usr/bin:/bin");
        Node(node::Node::start(command))
    }

    /// Lets all writes of the node's process fail beyond this size of a file. `None`: lets all writes succeed again.
    fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("--fsize=unlimited:".to_owned(), |bytes| format!("--fsize={bytes}:"));
        let done = Command::new("prlimit").args(["--pid", &self.0.process_id().to_string(), &limit]).status();
        assert!(done.expect("prlimit, from util-linux").success());
    }

    /// Makes a trial key for a new client address. A trial key has rows in several tables.
    async fn write(&self) -> Response {
        let [_, high, middle, low] = serial().to_be_bytes();
        let request = Request::new("POST", TRIAL_KEY).header("X-Forwarded-For", &format!("10.{high}.{middle}.{low}"));
        request.send(self.0.address).await
    }

    async fn get(&self, path: &str) -> Response {
        Request::get(path).send(self.0.address).await
    }

    /// Waits until the node says that it is healthy, or that it is not.
    async fn becomes_healthy(&self, is_healthy: bool) {
        let status = if is_healthy { 200 } else { 503 };
        let ready = Request::get("/readyz");
        until("the status of /readyz", async || ready.send(self.0.operations).await.status == status).await;
        for path in ["/health", "/api/v1/health"] {
            let health = self.get(path).await.ok(status);
            assert_eq!(health["status"] == "unavailable", !is_healthy, "{path}: {health}");
        }
    }
}

/// A folder with a database and an account. `None` if this machine lacks the database.
async fn place(kind: Kind) -> Option<(TempDir, Config, String)> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::in_folder(folder.path());
    config.database_url = kind.new_url(folder.path())?;
    admin::prepare(&config).await.unwrap();
    let plan = Some(Plan::Enterprise);
    let made = admin::create_key(&config, Role::AccountAdmin, Environment::Live, None, plan).await.unwrap();
    // with a user, because a node without one writes a file with a link after it has printed its addresses
    let operator = Operator::open(&config).await.unwrap();
    operator.create_user("ada@example.org", PASSWORD, Role::Developer, None).await.unwrap();
    Some((folder, config, made.key.to_string()))
}

#[tokio::test]
async fn f1_f2_a_node_goes_on_after_its_disk_was_full_and_is_not_healthy_meanwhile() {
    let (folder, config, key) = place(Kind::Sqlite).await.unwrap();
    let node = Node::start(&folder, &config.database_url);
    let list = Request::get("/api/v1/tfhe/sessions").key(&key);
    let mut keys = Vec::new();
    node.becomes_healthy(true).await;
    let file = config.database_url.strip_prefix("sqlite:").unwrap();
    let bytes = || Some(std::fs::metadata(file).unwrap().len());
    // at once; when the write-ahead log has grown to the size of the file, which cannot grow; and once more
    for limit in [FULL, bytes(), FULL] {
        keys.push(node.write().await.ok(200));
        node.limit_files(limit);
        let refusal = loop {
            let answer = node.write().await;
            if answer.status != 200 {
                break answer;
            }
            keys.push(answer.ok(200));
        };
        refusal.error(503, "SERVICE_UNAVAILABLE");
        node.becomes_healthy(false).await;
        // several callers share a commit; each caller gets the error
        for answer in futures_util::future::join_all((0..20).map(|_| node.write())).await {
            answer.error(503, "SERVICE_UNAVAILABLE");
        }
        node.limit_files(None);
        keys.push(node.write().await.ok(200));
        node.becomes_healthy(true).await;
    }
    list.send(node.0.address).await.ok(200);
    let metrics = Request::get("/metrics").send(node.0.operations).await;
    assert!(metrics.text().lines().any(|line| line.starts_with("ango_database_wal_bytes ")));
    drop(node);
    // the next process finds what was answered, and nothing else
    let store = Store::open(&config.database_url).await.unwrap();
    assert_eq!(store.audit_ledger(i64::MAX).await.unwrap().findings, []);
    let node = Node::start(&folder, &config.database_url);
    for made in keys {
        let key = made["key"].as_str().unwrap();
        // a trial key that is not known is answered with 401
        Request::get("/api/v1/tfhe/sessions").key(key).send(node.0.address).await.error(403, "INSUFFICIENT_ROLE");
    }
}

#[tokio::test]
async fn f2_a_node_that_is_idle_notices_a_full_disk_and_its_end() {
    let (folder, config, _) = place(Kind::Sqlite).await.unwrap();
    let node = Node::start(&folder, &config.database_url);
    node.becomes_healthy(true).await;
    node.limit_files(FULL);
    node.becomes_healthy(false).await;
    node.limit_files(None);
    node.becomes_healthy(true).await;
}

#[tokio::test]
async fn f2_a_postgres_that_has_become_read_only_is_not_healthy_and_is_used_again_afterwards() {
    let Some((folder, config, key)) = place(Kind::Postgres).await else { return };
    let url = &config.database_url;
    let name = url.split_once("?host=").unwrap().0.rsplit('/').next().unwrap();
    let node = Node::start(&folder, url);
    node.becomes_healthy(true).await;
    psql(url, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    psql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    node.becomes_healthy(false).await;
    node.write().await.error(503, "SERVICE_UNAVAILABLE");
    Request::get("/api/v1/tfhe/sessions").key(&key).send(node.0.address).await.ok(200);
    let check = config_check(&folder, url);
    assert!(check.0 == Some(3) && check.1.contains("read-only"), "{check:?}");
    psql(url, &format!("ALTER DATABASE {name} RESET default_transaction_read_only"));
    node.becomes_healthy(true).await;
    node.write().await.ok(200);
}

/// Runs `ango config check`. Returns the exit code and the output.
fn config_check(folder: &TempDir, database_url: &str) -> (Option<i32>, String) {
    let mut check = Command::new(env!("CARGO_BIN_EXE_ango"));
    check.args(["config", "check", "--data-dir"]).arg(folder.path()).env_clear();
    let output = check.env("ANGO_DATABASE_URL", database_url).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn f4_a_node_works_behind_pgbouncer_in_transaction_mode() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.empty_url(folder.path()) else { return };
    let settings = "pool_mode = transaction\ndefault_pool_size = 4";
    let Some((_pooler, through)) = PgBouncer::in_front_of(&url, settings) else { return };
    let check = config_check(&folder, &through);
    assert!(check.0 == Some(0) && check.1.contains("behind a pooler"), "{check:?}");
    // the node makes the tables
    let node = Node::start(&folder, &through);
    for _ in 0..5 {
        for answer in futures_util::future::join_all((0..30).map(|_| node.write())).await {
            answer.ok(200);
        }
    }
    node.becomes_healthy(true).await;
    let store = Store::open(&url).await.unwrap();
    assert_eq!(store.audit_ledger(i64::MAX).await.unwrap().findings, []);
}

/// Sends requests for a time, with 32 callers at once. Returns the answers per second.
async fn per_second(time: Duration, request: impl AsyncFn() -> Response) -> f64 {
    let begun = Instant::now();
    let callers = (0..32).map(|_| async {
        let mut answers = 0;
        while begun.elapsed() < time {
            request().await.ok(200);
            answers += 1;
        }
        answers
    });
    let answers: u32 = futures_util::future::join_all(callers).await.into_iter().sum();
    f64::from(answers) / begun.elapsed().as_secs_f64()
}

async fn writes_per_second(node: &Node, time: Duration) -> f64 {
    per_second(time, async || node.write().await).await
}

#[tokio::test]
#[ignore = "a measurement, for benches/results"]
async fn requests_per_second_behind_pgbouncer() {
    let Some((folder, config, key)) = place(Kind::Postgres).await else { return };
    println!("| pooler | reads | writes |");
    for mode in ["none", "session", "transaction", "none", "session", "transaction"] {
        let (_pooler, url) = match mode {
            "none" => (None, config.database_url.clone()),
            _ => {
                let settings = format!("pool_mode = {mode}");
                let (pooler, url) = PgBouncer::in_front_of(&config.database_url, &settings).expect("PgBouncer");
                (Some(pooler), url)
            }
        };
        let node = Node::start(&folder, &url);
        let list = Request::get("/api/v1/tfhe/sessions").key(&key);
        let reads = per_second(Duration::from_secs(8), async || list.send(node.0.address).await).await;
        println!("| {mode} | {reads:.0} | {:.0} |", writes_per_second(&node, Duration::from_secs(8)).await);
    }
}

#[tokio::test]
#[ignore = "a measurement, for benches/results"]
async fn writes_per_second_before_and_after_ten_seconds_of_a_full_disk() {
    let (folder, config, _) = place(Kind::Sqlite).await.unwrap();
    let node = Node::start(&folder, &config.database_url);
    writes_per_second(&node, Duration::from_secs(2)).await;
    println!("| round | before | refused in 10 s | after |");
    for round in 1..=3 {
        let before = writes_per_second(&node, Duration::from_secs(10)).await;
        node.limit_files(FULL);
        let (begun, mut refused) = (Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(10) {
            node.write().await.error(503, "SERVICE_UNAVAILABLE");
            refused += 1;
        }
        node.limit_files(None);
        let after = writes_per_second(&node, Duration::from_secs(10)).await;
        println!("| {round} | {before:.0} | {refused} | {after:.0} |");
    }
}
