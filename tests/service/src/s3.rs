//! A server that speaks the protocol of Amazon S3, for tests. Each belongs to one test and goes with it, however it ends.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use control::config::{BucketConfig, BucketUrl};
use tempfile::TempDir;
use zeroize::Zeroizing;

/// Longest time that a server takes to start.
const PATIENCE: Duration = Duration::from_secs(60);
const BUCKET: &str = "ango-test";
const ACCESS_KEY: &str = "test";
const SECRET: &str = "test-secret";

/// Starts SeaweedFS, makes a bucket, says `ready`, and ends the server when the input closes; says nothing where there is no
/// such program. Of each port the one 10000 above it is taken too.
const SCRIPT: &str = r#"
    command -v weed >/dev/null || exit 0
    cd "$1"
    mkdir data
    cat >users.json <<END
{"identities": [{"name": "test", "credentials": [{"accessKey": "$6", "secretKey": "$7"}],
  "actions": ["Admin", "Read", "Write", "List"]}]}
END
    weed server -dir=data -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port="$2" -volume.port="$3" -filer -filer.port="$4" \
        -volume.max=4 -master.volumeSizeLimitMB=16 -s3 -s3.port="$5" -s3.config=users.json >log 2>&1 &
    server=$!
    until echo "s3.bucket.create -name $8" | weed shell -master=127.0.0.1:"$2" -filer=127.0.0.1:"$4" 2>&1 |
        grep -q -e "create bucket" -e "created" -e "already"; do
        kill -0 "$server" || exit 1
    done
    echo ready
    cat >/dev/null
    kill -KILL "$server"
    wait
"#;

/// A server with one empty bucket.
pub struct S3 {
    _folder: TempDir,
    script: Child,
    endpoint: String,
}

impl S3 {
    /// A running server. `None`, and a printed line: there is none on this machine, and `TEST_S3` does not ask for it.
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
            .expect("there is a shell");
        let mut word = String::new();
        let output = script.stdout.take().expect("it was piped");
        BufReader::new(output).read_line(&mut word).expect("the script's words");
        if word.trim_end() == "ready" {
            // the door of the buckets is the last to open
            let started = Instant::now();
            while TcpStream::connect(("127.0.0.1", ports[3])).is_err() {
                assert!(started.elapsed() < PATIENCE, "SeaweedFS is there and does not start");
            }
            return Some(S3 { _folder: folder, script, endpoint: format!("http://127.0.0.1:{}", ports[3]) });
        }
        script.wait().expect("it has ended, or ends when its input closes");
        let asked_for = std::env::var("TEST_S3").is_ok_and(|wanted| wanted == "required");
        assert!(!asked_for, "there is no SeaweedFS on this machine, or it does not start");
        println!("not tried: there is no SeaweedFS on this machine (tests/s3/requirements.txt)");
        None
    }

    /// The settings of a node whose objects are in the bucket.
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
        // closes its input
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

/// Ports that are free with those 10000 above them. (The system gives its own from 32768 on: these are below.)
fn free_ports() -> [u16; 4] {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 12000 + (std::process::id() % 1000) as u16 * 8;
    let mut free = (first..22000).filter(|&port| is_free(port) && is_free(port + 10000));
    std::array::from_fn(|_| free.next().expect("ports"))
}
