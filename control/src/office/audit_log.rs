//! The audit log of registration numbers: a hash chain, a file in which each line contains the SHA-256 of the line
//! before (readings B39). Several nodes and batches may write the same file. Each takes the file's lock for the time of
//! writing. Readers take no lock of the file ([`reading`]), so they never hold up a writer.
//!
//! A hash chain shows every change except a missing tail. So after each batch the end of the chain is noted in a second
//! file, `<log>.head`.

mod known;
mod reading;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use docs_module::audit::{Chain, Head, Members, entry};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use known::Days;
use known::{Known, Stamp, Writes};
pub use reading::{Place, Reading, Trail, Wanted};

/// Largest length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Number of entries of a page when the caller names none, and the largest number.
pub const ENTRIES: usize = 1_000;
pub const ENTRIES_MAX: usize = 10_000;
/// How long a writer waits for its turn, and how often it asks for the lock of another process.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The value of `account` in entries of a batch that an operator ran.
pub const OPERATOR: &str = "operator";

/// An audit log in a file.
pub struct AuditLog {
    path: PathBuf,
    /// Held by the writer of this process whose turn it is.
    turn: Mutex<()>,
    writes: Mutex<Writes>,
    /// Readers hold this lock while they check new lines; writers never take it.
    known: Mutex<Known>,
}

/// The members that all entries of a batch share.
pub struct Batch<'a> {
    /// The time of the batch, as RFC 3339.
    pub at: String,
    /// The account's id, or [`OPERATOR`].
    pub account: &'a str,
    /// `verify` or `monitor`.
    pub operation: &'static str,
    /// The reference date of the request.
    pub as_of: String,
    /// The source of the published records.
    pub source: Option<&'a str>,
    /// SHA-256 of the records.
    pub records_sha256: Option<&'a str>,
}

impl Batch<'_> {
    /// Makes the entry for a number in normal form and the number's status.
    pub fn entry(&self, number: &str, status: &str) -> Members {
        let mut members = Members::from(
            [
                ("at", json!(self.at)),
                ("account", json!(self.account)),
                ("op", json!(self.operation)),
                ("number", json!(number)),
                ("status", json!(status)),
                ("as_of", json!(self.as_of)),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        let optional = [("source", self.source), ("records_sha256", self.records_sha256)];
        members.extend(optional.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?)))));
        members
    }
}

impl AuditLog {
    /// Makes an audit log in this file. The first entry creates the file.
    pub fn at(path: &Path) -> AuditLog {
        AuditLog { path: path.to_owned(), turn: Mutex::default(), writes: Mutex::default(), known: Mutex::default() }
    }

    /// Adds entries and syncs the file. When this function returns, the entries are on disk. Returns the end of the
    /// log behind them; `None`: there are no entries.
    ///
    /// # Errors
    /// When the file cannot be read or written, when an entry is too long, when other writers do not end within 10 s,
    /// or when the last line of the file is not an entry and the second file notes no end.
    pub fn append(&self, entries: Vec<Members>) -> io::Result<Option<Head>> {
        if entries.is_empty() {
            return Ok(None);
        }
        let patience = Instant::now() + PATIENCE;
        let Some(_turn) = self.turn.try_lock_until(patience) else { return Err(io::ErrorKind::TimedOut.into()) };
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path)?;
        lock(&file, patience)?;
        {
            let mut writes = self.writes.lock();
            writes.by_others |= writes.last != Some(Stamp::of(&file.metadata()?));
            writes.is_writing = true;
        }
        let written = self.append_locked(&mut file, entries);
        let mut writes = self.writes.lock();
        writes.is_writing = false;
        writes.last = file.metadata().ok().map(|metadata| Stamp::of(&metadata));
        written.map(Some)
    }

    fn append_locked(&self, file: &mut File, entries: Vec<Members>) -> io::Result<Head> {
        let mut head = self.end_of(file)?;
        let mut text = String::new();
        for members in entries {
            let (line, next) = entry(&head, members);
            if line.len() as u64 >= LINE_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "an entry of the audit log is too long"));
            }
            text.push_str(&line);
            text.push('\n');
            head = next;
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.note(&head)?;
        Ok(head)
    }

    /// Returns the end of the chain, which the next entry continues. If a crash left half a line, cuts the half line
    /// off the file.
    fn end_of(&self, file: &mut File) -> io::Result<Head> {
        let length = file.seek(SeekFrom::End(0))?;
        let from = length.saturating_sub(2 * LINE_BYTES_MAX);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        file.take(2 * LINE_BYTES_MAX).read_to_end(&mut tail)?;
        let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < tail.len() {
            tracing::warn!(bytes = tail.len() - whole, "the audit log ended with half a line, which was cut off");
            file.set_len(from + whole as u64)?;
        }
        let last = tail[..whole].strip_suffix(b"\n").map(|lines| {
            let begin = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            &lines[begin..]
        });
        let Some(last) = last else { return Ok(self.noted().unwrap_or_default()) };
        match head_of(last) {
            // if lines are missing at the end of the file, continue from the end that the second file notes: the gap in
            // the sequence numbers then shows that lines are missing
            Some(head) => Ok(self.noted().filter(|noted| noted.seq > head.seq).unwrap_or(head)),
            None => self.noted().ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "the last line of the audit log is not an entry")
            }),
        }
    }

    /// Checks all lines of the log. Returns the end that the second file notes, and the chain of the lines. Leaves out half a
    /// line at the end, which a crash can leave behind.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn check(&self) -> io::Result<(Option<Head>, Chain)> {
        let mut chain = Chain::default();
        let mut lines = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((self.noted(), chain)),
            file => BufReader::new(file?),
        };
        let mut line = Vec::new();
        loop {
            line.clear();
            lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            let is_half = !line.ends_with(b"\n") && (line.len() as u64) < LINE_BYTES_MAX;
            let text = std::str::from_utf8(&line).unwrap_or_default();
            if is_half || chain.take(text.trim_end_matches('\n')).is_none() {
                return Ok((self.noted(), chain));
            }
        }
    }

    fn head_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".head");
        name.into()
    }

    /// Reads the end of the chain from the second file. `None`: the second file notes no end.
    fn noted(&self) -> Option<Head> {
        head_of(&std::fs::read(self.head_path()).ok()?)
    }

    /// Writes the end of the chain to the second file, atomically.
    fn note(&self, head: &Head) -> io::Result<()> {
        let path = self.head_path();
        let new = path.with_extension("head.new");
        std::fs::write(&new, json!({"seq": head.seq, "hash": head.hash}).to_string())?;
        std::fs::rename(new, path)
    }
}

/// Takes the lock of the file, which writers of other processes take too.
fn lock(file: &File, patience: Instant) -> io::Result<()> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= patience => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOOK_EVERY),
        }
    }
}

/// Reads the end of a chain from the last line of the chain. `None`: the line is not an entry.
fn head_of(line: &[u8]) -> Option<Head> {
    let entry: Value = serde_json::from_slice(line).ok()?;
    let hash = entry["hash"].as_str().filter(|hash| hash.len() == 64)?;
    Some(Head { seq: entry["seq"].as_u64()?, hash: hash.to_owned() })
}

#[cfg(test)]
mod tests;
