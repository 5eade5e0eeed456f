//! Servers with the protocol of Amazon S3, for tests. Each server belongs to one test. The server ends when the test
//! ends, even if the test fails.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use control::config::{BucketConfig, BucketUrl};
use tempfile::TempDir;
use zeroize::Zeroizing;

use crate::PATIENCE;

const BUCKET: &str = "ango-test";
const ACCESS_KEY: &str = "test";
const SECRET: &str = "test-secret";

/// Starts SeaweedFS, makes a bucket, prints `ready`, and ends the server when the input closes. Prints nothing on a
/// machine without SeaweedFS. The server also uses the port 10000 above each of its ports. The servers of other protocols are
/// off, because they have fixed ports: the second server of a machine would end.
const SCRIPT: &str = r#"
    command -v weed >/dev/null || exit 0
    cd "$1"
    mkdir data
    cat >users.json <<END
{"identities": [{"name": "test", "credentials": [{"accessKey": "$6", "secretKey": "$7"}],
  "actions": ["Admin", "Read", "Write", "List"]}]}
END
    weed server -dir=data -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port="$2" -volume.port="$3" -filer -filer.port="$4" \
        -volume.max=256 -master.volumeSizeLimitMB=64 -s3 -s3.port="$5" -s3.port.iceberg=0 -s3.port.lance=0 -s3.config=users.json >log 2>&1 &
    server=$!
    until echo "s3.bucket.create -name $8" | weed shell -master=127.0.0.1:"$2" -filer=127.0.0.1:"$4" 2>&1 |
        grep -q -e "create bucket" -e "created" -e "already"; do
        kill -0 "$server" || exit 1
    done
    echo "ready $server"
    cat >/dev/null
    kill -KILL "$server"
    wait
"#;

/// A server with one empty bucket.
pub struct S3 {
    folder: TempDir,
    script: Child,
    /// The process id of the server.
    server: u32,
    endpoint: String,
}

impl S3 {
    /// Starts a server. On a machine without SeaweedFS, prints a line and returns `None`, or panics if `TEST_S3`
    /// requires SeaweedFS.
    pub fn start() -> Option<S3> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports = free_ports();
        let mut script = Command::new("sh")
            .args(["-c", SCRIPT, "s3"])
            .arg(folder.path())
            .args(ports.map(|port| port.to_string()))
            .args([ACCESS_KEY, SECRET, BUCKET])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the machine has a shell");
        let mut word = String::new();
        let output = script.stdout.take().expect("the output was piped");
        BufReader::new(output).read_line(&mut word).expect("the script's words");
        if let Some(server) = word.trim_end().strip_prefix("ready ").and_then(|id| id.parse().ok()) {
            // the server opens its S3 port last, so the server is ready as soon as this port accepts a connection
            let started = Instant::now();
            while TcpStream::connect(("127.0.0.1", ports[3])).is_err() {
                assert!(started.elapsed() < PATIENCE, "SeaweedFS is installed and does not start");
            }
            let endpoint = format!("http://127.0.0.1:{}", ports[3]);
            return Some(S3 { folder, script, server, endpoint });
        }
        script.wait().expect("the script has ended, or ends when its input closes");
        let asked_for = std::env::var("TEST_S3").is_ok_and(|wanted| wanted == "required");
        assert!(!asked_for, "SeaweedFS is not installed, or does not start");
        println!("not tried: SeaweedFS is not installed (tests/s3/requirements.txt)");
        None
    }

    /// Returns the folder with all files of the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process id of the server.
    pub fn server(&self) -> u32 {
        self.server
    }

    /// Returns the settings with which a node stores its objects in the bucket.
    pub fn config(&self) -> BucketConfig {
        BucketConfig {
            url: BucketUrl { bucket: BUCKET.to_owned(), prefix: "a/prefix".to_owned() },
            endpoint: Some(self.endpoint.clone()),
            region: "us-east-1".to_owned(),
            access_key_id: Some(ACCESS_KEY.to_owned()),
            secret_access_key: Some(Zeroizing::new(SECRET.to_owned())),
        }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // closing the input ends the script
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

/// Finds four free ports, each with a free port 10000 above it. All are below 32768, because the system itself assigns
/// ports from 32768 on. Each process has its own range of 40 ports and returns no port twice, because a server opens
/// its ports some time after this check.
fn free_ports() -> [u16; 4] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 12000 + (std::process::id() % 200) as u16 * 40;
    let ports =
        std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed)).take_while(|&port| port < 22000);
    let mut free = ports.filter(|&port| is_free(port) && is_free(port + 10000));
    std::array::from_fn(|_| free.next().expect("ports"))
}
