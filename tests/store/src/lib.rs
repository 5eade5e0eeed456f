//! Databases for tests: SQLite files, and databases of a PostgreSQL server that the process starts and that ends with
//! the process.

mod every_table;
mod fill;
mod pgbouncer;

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use store::Store;
use tempfile::TempDir;

pub use every_table::{all_rows, boolean_columns, execute, fill_every_table};
pub use fill::{FILLED, fill_ledger};
pub use pgbouncer::PgBouncer;

/// The kinds of databases that the service runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An SQLite file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
}

impl Kind {
    /// Returns the kind that the environment variable `TEST_DATABASE` names, or SQLite by default.
    pub fn chosen() -> Kind {
        match std::env::var("TEST_DATABASE").as_deref() {
            Err(_) | Ok("sqlite") => Kind::Sqlite,
            Ok("postgres") => Kind::Postgres,
            Ok(other) => panic!("TEST_DATABASE is sqlite or postgres, not {other}"),
        }
    }

    /// Makes a database with all tables: a file in this folder, or a database of the server. Returns the database's
    /// URL. The tables are copied from a template, so a process runs the migrations once. Without PostgreSQL, prints a
    /// line and returns `None`, or panics if `TEST_DATABASE` requires PostgreSQL.
    pub fn new_url(self, folder: &Path) -> Option<String> {
        match self {
            Kind::Sqlite => {
                let path = folder.join("test.db");
                copy_template(&path);
                Some(sqlite_url(&path))
            }
            Kind::Postgres => Server::get_or_say().map(|server| server.new_database("migrated")),
        }
    }

    /// Like [`Kind::new_url`], but the database has no tables.
    pub fn empty_url(self, folder: &Path) -> Option<String> {
        match self {
            Kind::Sqlite => Some(sqlite_url(&folder.join("test.db"))),
            Kind::Postgres => Server::get_or_say().map(|server| server.new_database("template1")),
        }
    }

    /// Makes PostgreSQL write everything to the disk. Returns the folder that holds the databases: `folder` for SQLite,
    /// or the server's folder.
    pub fn on_disk(self, folder: &Path) -> PathBuf {
        match self {
            Kind::Sqlite => folder.to_owned(),
            Kind::Postgres => {
                let server = Server::get().expect("a server with databases");
                server.psql("postgres", "CHECKPOINT");
                server.sockets.clone()
            }
        }
    }
}

/// Opens a store on a new database. Returns the database's folder and the store.
pub async fn new_store(kind: Kind) -> Option<(TempDir, Store)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = kind.new_url(folder.path())?;
    let store = patiently(async || Store::open(&url).await).await;
    Some((folder, store))
}

/// Longest time that [`patiently`] tries.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repeats an attempt that found no connection in time. The server is busy while many tests make databases at once.
///
/// # Panics
/// After a minute, and on any other error.
pub async fn patiently<T, E: Debug>(attempt: impl AsyncFn() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match attempt().await {
            Ok(made) => return made,
            Err(error) => {
                let error = format!("{error:?}");
                let is_busy = error.contains("PoolTimedOut") || error.contains("pool timed out");
                assert!(is_busy && begun.elapsed() < PATIENCE, "{error}");
            }
        }
    }
}

/// Runs a statement as the superuser, on a database of the server with this URL.
pub fn psql(url: &str, statement: &str) {
    let (database, sockets) = url.split_once("?host=").expect("a database on a local socket");
    let database = database.rsplit('/').next().expect("a name");
    psql_on(sockets, database, statement);
}

fn psql_on(sockets: &str, database: &str, statement: &str) {
    let mut psql = Command::new("psql");
    psql.args(["-q", "-h", sockets, "-U", "test", "-d", database, "-c", statement]).stdout(Stdio::null());
    // also on a database that a test has made read-only
    psql.env("PGOPTIONS", "-c default_transaction_read_only=off");
    assert!(psql.status().expect("psql runs").success(), "{statement}");
}

fn sqlite_url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// Makes a SQLite file with all tables and a new database id, unless `path` has a file already.
pub fn copy_template(path: &Path) {
    static TEMPLATE: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    if path.exists() {
        return;
    }
    let (_, template) = TEMPLATE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (migrated, template) = (folder.path().join("migrated.db"), folder.path().join("template.db"));
        let into = format!("VACUUM INTO '{}'", template.display());
        wait_for(async || {
            drop(Store::open(&sqlite_url(&migrated)).await.expect("a migrated file"));
            run_on_sqlite(&migrated, into).await;
        });
        (folder, template)
    });
    std::fs::copy(template, path).expect("the folder takes files");
    // the same mode as the files that the store makes
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("the file's mode");
    wait_for(async || {
        run_on_sqlite(path, "UPDATE database_identity SET database_id = lower(hex(randomblob(16)))".to_owned()).await;
    });
}

async fn run_on_sqlite(path: &Path, sql: String) {
    let mut file = SqliteConnection::connect(&sqlite_url(path)).await.expect("the file opens");
    // do not wait for the disk: a power failure would end the test too, so the file need not survive it
    for sql in ["PRAGMA synchronous = OFF".to_owned(), sql] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut file).await.expect("the statement runs");
    }
    file.close().await.expect("the file closes");
}

/// Runs the work on another thread, because some callers are tasks of a runtime, and waits until the work has ended.
fn wait_for(work: impl AsyncFnOnce() + Send) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(work())).join().expect("the work ends"));
}

/// A PostgreSQL server. The server ends when its input closes, which also happens if the process crashes.
pub struct Server {
    sockets: PathBuf,
    databases: AtomicU32,
    _script: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Script that starts the server. Ends with status 3 on a machine without PostgreSQL.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/throwaway-postgres");

impl Server {
    /// Starts a server for one test, which may crash it: commits survive a crash, unlike those of [`Kind::Postgres`]. On a
    /// machine without PostgreSQL, prints a line and returns `None`, or panics if `TEST_DATABASE` requires PostgreSQL.
    pub fn for_one_test() -> Option<Server> {
        let mut script = Command::new(SCRIPT);
        script.env("THROWAWAY_POSTGRES_DURABLE", "1");
        Server::said(Server::start(script))
    }

    /// Makes a database with all tables. Returns the database's URL.
    pub fn new_url(&self) -> String {
        self.new_database("migrated")
    }

    /// Makes the server crash, and starts the server again. All connections end.
    pub fn crash(&mut self) {
        self.input.write_all(b"\n").expect("the script lives");
        let mut folder = String::new();
        self.output.read_line(&mut folder).expect("the script's words");
        assert!(!folder.is_empty(), "the server does not start again");
    }

    /// Returns the server of this process.
    fn get() -> Option<&'static Server> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(|| Server::start(Command::new(SCRIPT))).as_ref()
    }

    /// Returns the server of this process. On a machine without PostgreSQL, prints a line and returns `None`, or panics if
    /// `TEST_DATABASE` requires PostgreSQL.
    fn get_or_say() -> Option<&'static Server> {
        Server::said(Server::get())
    }

    fn said<S>(server: Option<S>) -> Option<S> {
        if server.is_none() {
            assert_ne!(Kind::chosen(), Kind::Postgres, "this machine has no PostgreSQL");
            println!("not tried: this machine has no PostgreSQL");
        }
        server
    }

    fn start(mut script: Command) -> Option<Server> {
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the script runs");
        let mut folder = String::new();
        let mut output = BufReader::new(script.stdout.take().expect("the output was piped"));
        output.read_line(&mut folder).expect("the script's words");
        if folder.is_empty() {
            assert_eq!(
                script.wait().expect("the script ends").code(),
                Some(3),
                "PostgreSQL is installed and does not start"
            );
            return None;
        }
        let input = script.stdin.take().expect("it was piped");
        let sockets = folder.trim().into();
        let server = Server { sockets, databases: AtomicU32::new(0), _script: script, input, output };
        server.make_template();
        Some(server)
    }

    fn make_template(&self) {
        self.psql("postgres", "CREATE DATABASE migrated");
        let url = self.url("migrated");
        wait_for(async || drop(Store::open(&url).await.expect("a migrated database")));
        // PostgreSQL copies a template only while nobody is connected to it
        self.psql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'migrated'");
    }

    /// Makes a database with the contents of the template. A copy of `migrated` gets a new database id. Returns the
    /// URL.
    fn new_database(&self, template: &str) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        if template == "migrated" {
            let identity = "UPDATE database_identity SET database_id = replace(gen_random_uuid()::text, '-', '')";
            self.psql(&name, identity);
        }
        self.url(&name)
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://test@localhost/{database}?host={}", self.sockets.display())
    }

    fn psql(&self, database: &str, statement: &str) {
        psql_on(&self.sockets.display().to_string(), database, statement);
    }
}
