//! PgBouncer in front of the PostgreSQL server of this process. A pooler belongs to one test and ends with it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest time that the pooler takes to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the pooler, as `postgres` if root runs the test, and ends it when the input closes. Ends at once on a machine
/// without PgBouncer.
const SCRIPT: &str = r#"
    PATH=$PATH:/usr/sbin
    command -v pgbouncer >/dev/null || exit 0
    as=
    if [ "$(id -u)" = 0 ]; then chown -R postgres "$1"; as="runuser -u postgres --"; fi
    $as pgbouncer --quiet "$1/pgbouncer.ini" 2>/dev/null &
    cat >/dev/null
    kill "$(cat "$1/pid")"
    wait
"#;

/// A pooler on a socket in a new folder.
pub struct PgBouncer {
    folder: TempDir,
    script: Child,
}

impl PgBouncer {
    /// Starts a pooler in front of the server of this database. `settings` are further lines of its file, such as
    /// `pool_mode = transaction`. Returns the pooler, and the URL of the database through it. On a machine without
    /// PgBouncer, prints a line and returns `None`, or panics if `TEST_PGBOUNCER` requires PgBouncer.
    pub fn in_front_of(url: &str, settings: &str) -> Option<(PgBouncer, String)> {
        let (database, sockets) = url.split_once("?host=").expect("a database on a local socket");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = folder.path().display();
        let file = format!(
            "[databases]\n* = host={sockets} user=test\n[pgbouncer]\nunix_socket_dir = {at}\nlisten_port = 5432\n\
             auth_type = any\npidfile = {at}/pid\n{settings}\n"
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), file).expect("the folder takes files");
        let mut script = Command::new("sh");
        script.args(["-c", SCRIPT, "pgbouncer"]).arg(folder.path()).stdin(Stdio::piped());
        let mut pooler = PgBouncer { script: script.spawn().expect("a shell"), folder };
        if pooler.has_started() {
            let through = format!("{database}?host={}", pooler.folder.path().display());
            return Some((pooler, through));
        }
        assert!(
            std::env::var("TEST_PGBOUNCER").as_deref() != Ok("required"),
            "PgBouncer is not installed on this machine"
        );
        println!("not tried: PgBouncer is not installed (Debian: apt-get install pgbouncer)");
        None
    }

    /// Waits for the socket. Returns false if the script has ended.
    fn has_started(&mut self) -> bool {
        let (begun, socket) = (Instant::now(), self.folder.path().join(".s.PGSQL.5432"));
        while !Path::exists(&socket) {
            assert!(begun.elapsed() < PATIENCE, "the pooler did not start");
            if self.script.try_wait().expect("the script's state").is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // closes the script's input, which ends the pooler
        let _ = self.script.wait();
    }
}
