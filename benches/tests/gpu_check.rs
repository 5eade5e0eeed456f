//! The program of `scripts/gpu-check` on a machine without a card.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn gpu_check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpu_check")).args(arguments).output().expect("the program starts")
}

#[test]
fn the_processor_is_measured_like_a_card_and_the_table_says_what_the_json_says() {
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-check.json");
    let path = json.to_str().expect("a path in UTF-8");
    let run = gpu_check(&[
        "--backend",
        "cpu",
        "--batches",
        "1,3",
        "--seconds",
        "0",
        "--numbers",
        "small",
        "--date",
        "today",
        "--json",
        path,
    ]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let table = String::from_utf8(run.stdout).expect("text");
    let found: Value = serde_json::from_slice(&std::fs::read(&json).expect("the file")).expect("JSON");
    let device = &found[0];
    assert!(device["device"]["backend"].as_str().expect("a name").starts_with("cpu-"));
    assert_eq!([&device["preset"], &device["date"]], ["fast_128", "today"]);
    let figures = device["figures"].as_array().expect("figures");
    let units: Vec<&str> = figures.iter().map(|figure| figure["unit"].as_str().expect("a unit")).collect();
    // four rates: one for each of the two sizes of batches, one for sessions that run one after another, and one for
    // sessions that run side by side
    let gates = ["gates/s"; 4];
    let numbers = ["us", "a second", "us", "a second"];
    assert_eq!(units, [&["ms"][..], &gates, &["rows/s", "products/s", "key switches/s"], &numbers].concat());
    for figure in figures {
        assert!(figure["value"].as_f64().expect("a number") > 0.0, "{figure}");
        assert!(table.contains(&format!("| {} | ", figure["figure"].as_str().expect("a name"))), "{figure}\n{table}");
    }
    assert!(!table.contains('%'), "a processor has no such ceiling");
}

#[test]
fn a_device_that_is_not_here_is_an_error_that_says_why_and_measures_nothing_else() {
    let run = gpu_check(&["--backend", "cuda", "--batches", "1", "--seconds", "0"]);
    if run.status.success() {
        return; // this machine has a card, so nothing fails
    }
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(error.contains("passed over: cuda: ") && error.contains("no device of backend cuda"), "{error}");
    assert!(run.stdout.is_empty());
}
