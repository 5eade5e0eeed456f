//! `ango run-job`: jobs that an operator's timer runs every day.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use docs_module::calendar::tokyo_date;
use docs_module::limit::Limit;
use docs_module::registration::{Checked, Finding, Monitored, RegistrationNumber, Snapshot, normalized};
use docs_module::request::{Published, Watch};
use serde_json::{Value, json};
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
/// the job failed or a line of the list is no registration number; the other lines are checked all the same. Nodes may
/// run at the same time.
#[derive(Debug, Args)]
pub struct Monitor {
    /// File with the numbers, one on each line. Empty lines and lines that begin with # are skipped.
    #[arg(long, value_name = "FILE")]
    watch: PathBuf,
    /// Files with the published records: the tax authority's CSV or JSON, full files and daily differences. Only the
    /// records of the listed numbers are kept in memory. Of several records of a registration the newest counts;
    /// files are read in the order of the dates in their names (diff_20261125.csv), full files before differences.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    records: Vec<PathBuf>,
    /// The day for which the numbers' states are checked. When omitted, today in Tokyo.
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    as_of: Option<Date>,
    /// The source of the records, for the log, at most 200 characters. When omitted, the name of the first file.
    #[arg(long, value_name = "TEXT", value_parser = source)]
    source: Option<String>,
    #[command(flatten)]
    common: Common,
}

fn date(text: &str) -> Result<Date, &'static str> {
    Date::parse(text, format_description!("[year]-[month]-[day]")).map_err(|_| "must be a date such as 2026-01-31")
}

fn source(text: &str) -> Result<String, &'static str> {
    if text.chars().count() <= SOURCE_CHARACTERS_MAX {
        Ok(text.to_owned())
    } else {
        Err("has more than 200 characters")
    }
}

/// Largest number of characters of a source, because each entry of the log repeats it.
const SOURCE_CHARACTERS_MAX: usize = 200;

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

/// A line of the list.
struct Line {
    at: usize,
    text: String,
}

/// Finds the revoked and lapsed numbers of the list, logs the results and prints them.
///
/// # Errors
/// When a file cannot be read or the log cannot be written. Nothing is logged in that case.
fn monitor(order: &Monitor, audit_log: Option<&Path>) -> anyhow::Result<ExitCode> {
    let now = Clock::system().now();
    let today =
        tokyo_date(now.0 / 1_000_000).context("the system clock is wrong: its year does not have four digits")?;
    let lines = lines(&order.watch)?;
    let (snapshot, sha256) = records(&order.records, &lines)?;
    eprintln!("{} registration numbers, {} published records", lines.len(), snapshot.len());
    let source = order.source.clone().unwrap_or_else(|| source_of(&order.records));
    let published =
        Published { snapshot: Some(snapshot), sha256: Some(sha256), as_of: order.as_of, source: Some(source) };
    let watch = Watch { numbers: lines.iter().map(|line| line.text.clone()).collect(), published };
    let found = watch.found(today, Limit::NONE)?;
    let mut answer = watch.answer(&found, today);
    if let Some(path) = audit_log {
        let batch = Batch {
            at: now.rfc3339(),
            account: OPERATOR,
            operation: "monitor",
            as_of: order.as_of.unwrap_or(today).to_string(),
            source: watch.published.source.as_deref(),
            records_sha256: watch.published.sha256.as_deref(),
        };
        let entries = found.all().map(|checked| batch.entry(&checked.normalized, checked.finding.name())).collect();
        let head = AuditLog::at(path).append(entries);
        let head = head.with_context(|| format!("{}: cannot be written", path.display()))?;
        answer["audit"] = head.map_or(Value::Null, |head| json!({"seq": head.seq, "hash": head.hash}));
    }
    tell(order, &found, answer);
    let unread = unread(order, &lines, &found);
    Ok(match found.alerts.is_empty() {
        _ if unread > 0 => ExitCode::from(TROUBLE),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn tell(order: &Monitor, found: &Monitored<'_>, mut answer: Value) {
    if order.common.json {
        println!("{answer}");
        return;
    }
    let mut rows = |group: &str| answer[group].as_array_mut().map(std::mem::take).unwrap_or_default();
    let told: Vec<Value> = rows("alerts").into_iter().chain(rows("not_found")).collect();
    if !told.is_empty() {
        order.common.list(["number", "status", "revoked_on", "expired_on", "name"], told);
    }
    println!(
        "{} revoked or lapsed, {} in force, {} not found",
        found.alerts.len(),
        found.ok.len(),
        found.not_found.len()
    );
}

/// Prints the lines of the list that cannot be registration numbers, because the job cannot watch them. Returns the
/// number of such lines.
fn unread(order: &Monitor, lines: &[Line], found: &Monitored<'_>) -> usize {
    let is_bad = |one: &&Checked<'_>| matches!(one.finding, Finding::FormatError | Finding::CheckDigitMismatch);
    let bad: HashSet<&str> = found.not_found.iter().filter(is_bad).map(|one| one.given.as_str()).collect();
    let unread: Vec<&Line> = lines.iter().filter(|line| bad.contains(line.text.as_str())).collect();
    for line in &unread {
        let is_formed = RegistrationNumber::read(&normalized(&line.text)).is_ok();
        let fault = if is_formed { "has a wrong check digit" } else { "is not T and 13 digits" };
        eprintln!("ango: {}: line {}: {} {fault}", order.watch.display(), line.at, line.text);
    }
    unread.len()
}

fn lines(path: &Path) -> anyhow::Result<Vec<Line>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(|(at, text)| Line { at: at + 1, text: text.to_owned() }).collect())
}

/// Reads the records of the listed numbers. Returns also the SHA-256 of the file, or, of several files, the SHA-256 of
/// their digests in hexadecimal, a line each, in the order in which the files were read.
fn records(paths: &[PathBuf], lines: &[Line]) -> anyhow::Result<(Snapshot, String)> {
    let numbers = lines.iter().filter_map(|line| RegistrationNumber::read(&normalized(&line.text)).ok());
    let mut snapshot = Snapshot::of_numbers(numbers);
    let mut paths: Vec<&PathBuf> = paths.iter().collect();
    paths.sort_by_key(|path| order_of(path));
    let mut digests = Vec::new();
    for path in paths {
        let digest = read(path, &mut snapshot).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        snapshot.updated(date_in(path));
        digests.push(hex::encode(digest));
    }
    let whole = match &digests[..] {
        [one] => one.clone(),
        several => hex::encode(Sha256::digest(several.iter().map(|digest| format!("{digest}\n")).collect::<String>())),
    };
    Ok((snapshot, whole))
}

/// Adds the records of a file. Returns the SHA-256 of the file.
fn read(path: &Path, snapshot: &mut Snapshot) -> anyhow::Result<[u8; 32]> {
    let mut file = BufReader::new(Hashed { file: File::open(path)?, hash: Sha256::new() });
    if file.fill_buf()?.starts_with("\u{feff}".as_bytes()) {
        file.consume("\u{feff}".len());
    }
    let first = loop {
        let begin = file.fill_buf()?;
        let spaces = begin.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match begin.get(spaces) {
            Some(first) => break *first,
            None if begin.is_empty() => bail!("is empty"),
            None => file.consume(spaces),
        }
    };
    let read = match first {
        b'{' | b'[' => snapshot.read_json(&mut file),
        _ => snapshot.read_csv(&mut file),
    };
    read.map_err(anyhow::Error::msg)?;
    io::copy(&mut file, &mut io::sink())?;
    Ok(file.into_inner().hash.finalize().into())
}

/// A file whose bytes are hashed while they are read.
struct Hashed {
    file: File,
    hash: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.hash.update(&bytes[..read]);
        Ok(read)
    }
}

/// The order in which files are read: by the dates in their names, and a full file before the differences of its day.
/// Full files without a date come first, and differences without a date last. Among these, the names decide.
fn order_of(path: &Path) -> (bool, Option<Date>, bool, String) {
    let name = name_of(path);
    let (is_difference, date) = (name.to_lowercase().contains("diff"), date_in(path));
    (is_difference && date.is_none(), date, is_difference, name)
}

/// The last date in the name of a file: eight digits in a row.
fn date_in(path: &Path) -> Option<Date> {
    let name = name_of(path);
    let runs: Vec<&str> = name.split(|c: char| !c.is_ascii_digit()).filter(|run| run.len() == 8).collect();
    runs.into_iter().rev().find_map(|run| Date::parse(run, format_description!("[year][month][day]")).ok())
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn source_of(paths: &[PathBuf]) -> String {
    let first: String = paths.first().map_or_else(String::new, |path| name_of(path)).chars().take(150).collect();
    match paths.len() - 1 {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}

#[cfg(test)]
mod tests;
