//! How long a verification of a registration number waits while other clients read the audit log page by page, without
//! a pause. Node and clients are in one process.
//!
//! `cargo bench --workspace --bench audit_log [-- ENTRIES]`: with a log of this many entries (1,000,000 if no number is
//! given).

use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::AccountId;
use benches::connection::{Connection, message};
use benches::only_once;
use control::admin;
use control::caller::{Environment, Plan, Role};
use docs_module::audit::{Head, Members, entry};
use serde_json::json;
use tests_service::TestServer;

const READERS: usize = 16;
const VERIFICATIONS: usize = 1_000;
/// Accounts whose entries take turns in the log. One of them reads.
const ACCOUNTS: u64 = 4;

fn main() {
    let entries = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(1_000_000);
    let entries = if only_once() { 1_000 } else { entries };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("audit.jsonl");
    let server = runtime.block_on(TestServer::with(|config| config.office.audit_log = Some(log.clone())));
    let created = || {
        let config = server.running().config();
        let created = admin::create_key(config, Role::AccountAdmin, Environment::Live, None, Some(Plan::Enterprise));
        runtime.block_on(created).expect("a key")
    };
    let (reader, verifier) = (created(), created());
    let (reading, verifying) = (reader.key, verifier.key);
    fill(&log, &reader.account_id, entries);

    let page = |after: &str| message(&format!("GET /v1/registration/audit{after}"), &reading, &[], &[]);
    let begun = Instant::now();
    let mut first = Connection::open(server.address);
    first.exchange(&page(""));
    println!(
        "{entries} entries; the first page after the start, which checks all entries: {:.2} s\n",
        begun.elapsed().as_secs_f64()
    );
    println!("| clients that read | verifications | p50 ms | p99 ms | max ms | pages/s | p50 of a page ms |");
    println!("|---|---|---|---|---|---|---|");
    for readers in [0, 1, READERS] {
        let (is_over, pages) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..readers).map(|_| scope.spawn(|| read(server.address, &page, entries, &is_over, &pages))).collect();
            let begun = Instant::now();
            let waits = verify(server.address, &verifying);
            is_over.store(true, Ordering::Relaxed);
            let rate = pages.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
            let of_pages: Vec<Duration> =
                threads.into_iter().flat_map(|thread| thread.join().expect("a reader")).collect();
            println!(
                "| {readers} | {} | {:.1} | {:.1} | {:.1} | {rate:.0} | {:.1} |",
                waits.len(),
                percentile(&waits, 50),
                percentile(&waits, 99),
                percentile(&waits, 100),
                percentile(&of_pages, 50),
            );
        });
    }
    runtime.block_on(server.stop());
}

/// Writes a log as nodes do, with entries of several accounts in turn.
fn fill(path: &Path, reader: &AccountId, entries: u64) {
    let mut file = BufWriter::new(std::fs::File::create(path).expect("a file"));
    let mut head = Head::default();
    let sha256 = "0".repeat(64);
    for at in 0..entries {
        let account = match at % ACCOUNTS {
            0 => reader.as_str().to_owned(),
            other => format!("acct_{other}"),
        };
        let entry_of = json!({
            "at": "2026-11-27T00:00:00.000Z", "account": account, "op": "verify", "number": format!("T{:013}", at % 5_000),
            "status": "active", "as_of": "2026-11-27", "source": "zenkoku.csv", "records_sha256": sha256,
        });
        let members: Members = serde_json::from_value(entry_of).expect("members");
        let (line, next) = entry(&head, members);
        writeln!(file, "{line}").expect("a disk");
        head = next;
    }
    file.flush().expect("a disk");
    let mut end = path.to_owned().into_os_string();
    end.push(".head");
    std::fs::write(end, json!({"seq": head.seq, "hash": head.hash}).to_string()).expect("a disk");
}

/// Reads pages from the first to the last entry, and begins again. Returns the duration of each.
fn read(
    address: SocketAddr,
    page: &(impl Fn(&str) -> Vec<u8> + Sync),
    entries: u64,
    is_over: &AtomicBool,
    pages: &AtomicUsize,
) -> Vec<Duration> {
    let (mut connection, mut after, mut took) = (Connection::open(address), 0, Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let (time, body) = connection.exchange(&page(&format!("?after_seq={after}")));
        let text = std::str::from_utf8(body).expect("an answer of text");
        let (_, next) = text.rsplit_once("\"next_after_seq\":").expect("the next page");
        after = next.split(',').next().and_then(|seq| seq.parse().ok()).expect("a number");
        after = if after >= entries { 0 } else { after };
        pages.fetch_add(1, Ordering::Relaxed);
        took.push(time);
    }
    took
}

fn verify(address: SocketAddr, key: &str) -> Vec<Duration> {
    let body = br#"{"numbers": ["T7000012050002"]}"#;
    let request = message("POST /v1/registration/verify", key, &[("Content-Type", "application/json")], body);
    let mut connection = Connection::open(address);
    let count = if only_once() { 1 } else { VERIFICATIONS };
    (0..count).map(|_| connection.exchange(&request).0).collect()
}

/// A percentile in milliseconds; 0 without durations.
fn percentile(durations: &[Duration], percent: usize) -> f64 {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let place = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
