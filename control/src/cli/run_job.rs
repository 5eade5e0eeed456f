//! `ango run-job`: jobs that an operator's timer runs every day.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use docs_module::calendar::tokyo_date;
use docs_module::registration::{Monitored, Snapshot};
use docs_module::request::{Published, Watch};
use serde_json::Value;
use sha2::{Digest, Sha256};
use time::Date;
use time::macros::format_description;

use super::common::Common;
use crate::clock::Clock;
use crate::office::audit_log::{AuditLog, Batch, OPERATOR};

/// The jobs.
#[derive(Debug, Subcommand)]
pub enum Job {
    Monitor(Monitor),
}

/// Find the registration numbers of a list that are revoked or lapsed, as POST /v1/registration/monitor does, and add
/// the results to the audit log, if SERVICE_AUDIT_LOG names one. Exits with 1 if there are such numbers, and with 2 if
/// the job failed. Nodes may run at the same time.
#[derive(Debug, Args)]
pub struct Monitor {
    /// File with the numbers, one on each line. Empty lines and lines that begin with # are skipped.
    #[arg(long, value_name = "FILE")]
    watch: PathBuf,
    /// File with the published records: the tax authority's CSV or JSON.
    #[arg(long, value_name = "FILE")]
    records: PathBuf,
    /// The day for which the numbers' states are checked. When omitted, today in Tokyo.
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    as_of: Option<Date>,
    /// The source of the records, for the log. When omitted, the file's name.
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    #[command(flatten)]
    common: Common,
}

fn date(text: &str) -> Result<Date, &'static str> {
    Date::parse(text, format_description!("[year]-[month]-[day]")).map_err(|_| "must be a date such as 2026-01-31")
}

/// The exit code of a job that failed, and of arguments that cannot be read. The code 1 means that revoked or lapsed
/// numbers were found, so a timer's alert can distinguish such numbers from a failed job.
const TROUBLE: u8 = 2;

/// Does a job. An error is printed as one line on stderr.
pub fn run(job: Job) -> ExitCode {
    let Job::Monitor(order) = job;
    let config = order.common.config();
    config.and_then(|config| monitor(&order, config.office.audit_log.as_deref())).unwrap_or_else(|error| {
        eprintln!("ango: {error:#}");
        ExitCode::from(TROUBLE)
    })
}

/// Finds the revoked and lapsed numbers of the list, logs the results and prints them.
///
/// # Errors
/// When a file cannot be read or the log cannot be written. Nothing is logged in that case.
fn monitor(order: &Monitor, audit_log: Option<&Path>) -> anyhow::Result<ExitCode> {
    let now = Clock::system().now();
    let today =
        tokyo_date(now.0 / 1_000_000).context("the system clock is wrong: its year does not have four digits")?;
    let numbers = numbers(&order.watch)?;
    let (snapshot, sha256) = records(&order.records)?;
    let source = order.source.clone().unwrap_or_else(|| {
        order.records.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    });
    eprintln!("{} registration numbers, {} published records", numbers.len(), snapshot.len());
    let published =
        Published { snapshot: Some(snapshot), sha256: Some(sha256), as_of: order.as_of, source: Some(source) };
    let watch = Watch { numbers, published };
    let found = watch.found(today);
    if let Some(path) = audit_log {
        let batch = Batch {
            at: now.rfc3339(),
            account: OPERATOR,
            operation: "monitor",
            as_of: order.as_of.unwrap_or(today).to_string(),
            source: watch.published.source.as_deref(),
            records_sha256: watch.published.sha256.as_deref(),
        };
        let all = found.alerts.iter().chain(&found.ok).chain(&found.not_found);
        let entries = all.map(|checked| batch.entry(&checked.normalized, checked.finding.name())).collect();
        AuditLog::at(path).append(entries).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    tell(order, &found, watch.answer(&found, today));
    Ok(if found.alerts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(order: &Monitor, found: &Monitored<'_>, mut answer: Value) {
    if order.common.json {
        println!("{answer}");
        return;
    }
    let alerts = answer["alerts"].as_array_mut().map(std::mem::take).unwrap_or_default();
    if !alerts.is_empty() {
        order.common.list(["number", "status", "revoked_on", "expired_on", "name"], alerts);
    }
    println!(
        "{} revoked or lapsed, {} in force, {} not found",
        found.alerts.len(),
        found.ok.len(),
        found.not_found.len()
    );
}

fn numbers(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// Reads the records of a file. Returns also its SHA-256.
fn records(path: &Path) -> anyhow::Result<(Snapshot, String)> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    let snapshot = match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => serde_json::from_slice(text).map_err(|error| error.to_string()),
        Some(_) => Snapshot::from_csv(text),
        None => bail!("{}: is empty", path.display()),
    };
    let snapshot = snapshot.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    Ok((snapshot, hex::encode(Sha256::digest(&bytes))))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(subcommand)]
        job: Job,
    }

    fn run_with(arguments: &[&str], log: &str) -> anyhow::Result<ExitCode> {
        let arguments = ["run-job", "monitor"].iter().chain(arguments);
        let Job::Monitor(order) = Program::try_parse_from(arguments)?.job;
        monitor(&order, Some(Path::new(log)))
    }

    #[test]
    fn b38_a_batch_finds_revoked_numbers_and_logs_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (watch, records, log) = (path("watch.txt"), path("records.json"), path("audit.jsonl"));
        std::fs::write(&watch, "\u{feff}# ours\nT7000012050002\n\nT1180301018771\r\nT5\n").unwrap();
        let of = |more: Value| serde_json::json!({"T7000012050002": more}).to_string();
        std::fs::write(&records, of(serde_json::json!({"registrationDate": "2023-10-01"}))).unwrap();
        let arguments = ["--watch", &watch, "--records", &records, "--as-of", "2025-12-01"];
        assert_eq!(run_with(&arguments, &log).unwrap(), ExitCode::SUCCESS);
        let revoked = serde_json::json!({"registrationDate": "2023-10-01", "disposalDate": "2025-11-01"});
        std::fs::write(&records, of(revoked)).unwrap();
        assert_eq!(run_with(&arguments, &log).unwrap(), ExitCode::FAILURE);
        let trail = AuditLog::at(Path::new(&log)).trail(OPERATOR, Some("T7000012050002")).unwrap();
        let states: Vec<&str> = trail.entries.iter().map(|entry| entry["status"].as_str().unwrap()).collect();
        assert_eq!((states, trail.broken_at, trail.head.seq), (vec!["active", "revoked"], None, 6));
        // files that contain no records
        for (name, text) in [("empty", ""), ("broken", "{\"T1\": "), ("words", "a,b\n")] {
            std::fs::write(path(name), text).unwrap();
            let error = run_with(&["--watch", &watch, "--records", &path(name)], &log).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(run_with(&["--watch", &path("none"), "--records", &records], &log).is_err());
        assert_eq!(AuditLog::at(Path::new(&log)).trail(OPERATOR, None).unwrap().head.seq, 6);
    }
}
