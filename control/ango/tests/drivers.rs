//! No driver ends a node: drivers without functions, drivers that crash, exit, hang or panic are passed over with the
//! reason, and the CPU computes.
#![cfg(all(target_os = "linux", feature = "cuda"))]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The version of CUDA 12.8, as a driver tells it.
const VERSION: &str = "int cuDriverGetVersion(int *version) { *version = 12080; return 0; }";

/// Makes a folder with a libcuda.so.1 of this text in C.
fn driver(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("driver.c");
    fs::write(&source, format!("#include <stdlib.h>\n#include <unistd.h>\n{text}\n")).unwrap();
    let library = folder.path().join("libcuda.so.1");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(made.success(), "{text}");
    folder
}

fn ango(driver: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ango"));
    command.args(arguments).arg("--data-dir").arg(driver.join("data"));
    command.env_clear().env("LD_LIBRARY_PATH", driver).env("PATH", "/usr/bin:/bin").env("ANGO_DEVICE_PROBE_S", "5");
    command
}

/// Returns the only reason for which `ango devices` passes CUDA over, after a check that the CPU computes and that the
/// command printed nothing else.
fn reason(text: &str) -> String {
    let folder = driver(text);
    let shown = ango(folder.path(), &["devices", "--json", "--backend", "cuda"]).output().unwrap();
    let complaint = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{text}: {}: {complaint}", shown.status);
    assert_eq!(complaint, "", "{text}");
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(shown["devices"][0]["backend"].as_str().unwrap().starts_with("cpu-"), "{text}: {shown}");
    let [passed] = &shown["passed_over"].as_array().unwrap()[..] else { panic!("{text}: {shown}") };
    assert_eq!(passed["backend"], "cuda");
    passed["reason"].as_str().unwrap().to_owned()
}

#[test]
fn every_faulty_driver_is_passed_over_with_its_reason() {
    let init = "int cuInit(unsigned flags)";
    for (text, expected) in [
        // drivers without functions
        (format!("{init} {{ return 0; }} {VERSION}"), "cuDeviceGetCount"),
        (format!("{init} {{ return 0; }}"), "cuDriverGetVersion"),
        (VERSION.into(), "cuInit"),
        (String::new(), "cuDriverGetVersion"),
        // drivers that end the process
        (format!("{init} {{ *(volatile int *)0 = 1; return 0; }} {VERSION}"), "signal 11"),
        (format!("{init} {{ abort(); }} {VERSION}"), "signal 6"),
        (format!("{init} {{ exit(0); }} {VERSION}"), "exit status: 0"),
        (format!("{init} {{ _exit(3); }} {VERSION}"), "exit status: 3"),
        ("__attribute__((constructor)) static void loaded(void) { abort(); }".into(), "signal 6"),
        // drivers that answer with an error
        (format!("{init} {{ return 100; }} {VERSION}"), "finds no card; to use a card in a container"),
        (format!("{init} {{ return 803; }} {VERSION}"), "different versions; restart"),
        (format!("{init} {{ return 999; }} {VERSION}"), "counting the cards: CUDA_ERROR_UNKNOWN"),
        ("int cuDriverGetVersion(int *version) { return 34; }".into(), "stub"),
        ("int cuDriverGetVersion(int *version) { *version = 11040; return 0; }".into(), "CUDA 11.4; 12.0 or newer"),
        (
            format!("{init} {{ return 0; }} int cuDeviceGetCount(int *count) {{ *count = 0; return 0; }} {VERSION}"),
            "finds no card",
        ),
    ] {
        let found = reason(&text);
        assert!(found.contains(expected) && !found.contains("lost"), "{text}: {found}");
    }
}

#[test]
fn a_driver_that_hangs_is_passed_over() {
    let found = reason(&format!("int cuInit(unsigned flags) {{ for (;;) pause(); }} {VERSION}"));
    assert_eq!(found, "the driver did not answer within 5 s in a trial (ANGO_DEVICE_PROBE_S)");
}

#[test]
fn a_node_starts_beside_a_driver_that_crashes() {
    let folder = driver(&format!("int cuInit(unsigned flags) {{ abort(); }} {VERSION}"));
    let addresses = ["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
    let mut node = ango(folder.path(), &addresses).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(node.stdout.take().unwrap()).lines().map_while(Result::ok);
    let backend = lines.into_iter().find(|line| line.starts_with("  backend"));
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(backend.as_deref().is_some_and(|line| line.contains("cpu-")), "{backend:?}");
}
