//! How the built program ends: which signals end it, and with which exit codes.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use control::admin;
use control::caller::Plan;
use control::caller::{Environment, Role};
use control::config::Config;
use tempfile::TempDir;

/// A node in another process, killed when dropped.
struct Node {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Node {
    fn start(folder: &TempDir) -> Node {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ango"))
            .args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path())
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut node = Node { process, output, address: String::new() };
        let line = node.line("  API ");
        node.address = line.rsplit("http://").next().unwrap().trim().to_owned();
        node
    }

    /// Reads the node's output up to a line with this beginning, and returns the line.
    fn line(&mut self, start: &str) -> String {
        let mut lines = self.output.by_ref().lines().map(Result::unwrap);
        lines.find(|line| line.starts_with(start)).expect("the node prints the line")
    }

    /// Sends the node the signal that Ctrl-C sends.
    fn interrupt(&self) {
        let sent = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the node has ended. Returns the exit code, and the text on the error stream.
    fn end(mut self) -> (Option<i32>, String) {
        let mut errors = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.process.wait().unwrap().code(), errors)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // fails if the process has ended already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn api_key(folder: &TempDir) -> String {
    let config = Config::in_folder(folder.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let created = runtime.block_on(async {
        admin::prepare(&config).await.unwrap();
        admin::create_key(&config, Role::Developer, Environment::Test, None, Some(Plan::Enterprise)).await.unwrap()
    });
    created.key.to_string()
}

#[test]
fn one_signal_drains_and_leaves_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&folder);
    node.line("  backend ");
    node.interrupt();
    let (code, errors) = node.end();
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn a_second_signal_ends_a_node_that_waits_for_an_upload() {
    let folder = tempfile::tempdir().unwrap();
    let key = api_key(&folder);
    let mut node = Node::start(&folder);
    let mut upload = BufReader::new(TcpStream::connect(&node.address).unwrap());
    let head = format!(
        "POST /api/v1/tfhe/eval-session HTTP/1.1\r\nHost: node\r\nAuthorization: {key}\r\nExpect: 100-continue\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 41943040\r\n\r\n"
    );
    upload.get_mut().write_all(head.as_bytes()).unwrap();
    // the node asks for the body, so the request has begun; the test never sends the body
    let mut answer = String::new();
    upload.read_line(&mut answer).unwrap();
    assert_eq!(answer.trim_end(), "HTTP/1.1 100 Continue");

    node.interrupt();
    let mut errors = BufReader::new(node.process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("a second signal stops the node at once") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "the node ended at the first signal");
    }
    node.interrupt();
    line.clear();
    errors.read_to_string(&mut line).unwrap();
    assert_eq!(node.process.wait().unwrap().code(), Some(1));
    assert_eq!(line.trim_end(), "ango: stopped at once; some requests did not finish");
}
