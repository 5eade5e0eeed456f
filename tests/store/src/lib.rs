//! Databases for tests: SQLite files, and databases of a PostgreSQL server that the process starts and that ends with
//! the process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use store::Store;
use tempfile::TempDir;

/// The databases that the service runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An SQLite file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
}

impl Kind {
    /// The kind in `TEST_DATABASE`; SQLite by default.
    pub fn chosen() -> Kind {
        match std::env::var("TEST_DATABASE").as_deref() {
            Err(_) | Ok("sqlite") => Kind::Sqlite,
            Ok("postgres") => Kind::Postgres,
            Ok(other) => panic!("TEST_DATABASE is sqlite or postgres, not {other}"),
        }
    }

    /// The URL of a new, empty database: in this folder, or on the server. On a machine without PostgreSQL: `None` and
    /// a printed line, or a panic if `TEST_DATABASE` requires PostgreSQL.
    pub fn new_url(self, folder: &Path) -> Option<String> {
        match self {
            Kind::Sqlite => Some(format!("sqlite:{}", folder.join("test.db").display())),
            Kind::Postgres => match Server::get() {
                Some(server) => Some(server.new_database()),
                None if Kind::chosen() == Kind::Postgres => panic!("PostgreSQL is not installed on this machine"),
                None => {
                    println!("not tried: PostgreSQL is not installed");
                    None
                }
            },
        }
    }

    /// The folder on disk that holds all databases, after they are written out: `folder`, or the server's.
    pub fn on_disk(self, folder: &Path) -> PathBuf {
        match self {
            Kind::Sqlite => folder.to_owned(),
            Kind::Postgres => {
                let server = Server::get().expect("a server with databases");
                server.psql("CHECKPOINT");
                server.sockets.clone()
            }
        }
    }
}

/// A store on a new database, and the database's folder.
pub async fn new_store(kind: Kind) -> Option<(TempDir, Store)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = kind.new_url(folder.path())?;
    let store = Store::open(&url).await.expect("a new database");
    Some((folder, store))
}

/// A server of this process. The server ends when this process's end of its input closes, so it also ends if the
/// process is killed.
struct Server {
    sockets: PathBuf,
    databases: AtomicU32,
    _script: Child,
    _input: ChildStdin,
}

/// Starts the server, or ends with status 3 on a machine without PostgreSQL.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/throwaway-postgres");

impl Server {
    fn get() -> Option<&'static Server> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(Server::start).as_ref()
    }

    fn start() -> Option<Server> {
        let mut script =
            Command::new(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the script runs");
        let mut folder = String::new();
        let output = script.stdout.take().expect("the output was piped");
        BufReader::new(output).read_line(&mut folder).expect("the script's words");
        if folder.is_empty() {
            assert_eq!(
                script.wait().expect("the script ends").code(),
                Some(3),
                "PostgreSQL is installed and does not start"
            );
            return None;
        }
        let input = script.stdin.take().expect("the input was piped");
        Some(Server { sockets: folder.trim().into(), databases: AtomicU32::new(0), _script: script, _input: input })
    }

    fn new_database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql(&format!("CREATE DATABASE {name}"));
        format!("postgres://test@localhost/{name}?host={}", self.sockets.display())
    }

    fn psql(&self, statement: &str) {
        let sockets = self.sockets.display().to_string();
        let done =
            Command::new("psql").args(["-q", "-h", &sockets, "-U", "test", "-d", "postgres", "-c", statement]).status();
        assert!(done.expect("psql runs").success(), "{statement}");
    }
}
