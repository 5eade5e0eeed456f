//! The audit log of registration numbers: a hash chain, a file in which each line contains the SHA-256 of the line
//! before (readings B39). Several nodes and batches may write the same file. Each takes the file's lock for the time of
//! writing.
//!
//! A hash chain shows every change except a missing tail. So after each batch the end of the chain is noted in a second
//! file, `<log>.head`.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use docs_module::audit::{Chain, Head, Members, entry};
use serde_json::{Value, json};

/// Largest length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Largest number of entries in an answer. The answer has the latest entries.
pub const ENTRIES_MAX: usize = 10_000;
/// The value of `account` in entries of a batch that an operator ran.
pub const OPERATOR: &str = "operator";

/// An audit log in a file.
pub struct AuditLog {
    path: PathBuf,
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

/// The result of reading and checking the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trail {
    /// The account's latest entries, at most [`ENTRIES_MAX`].
    pub entries: Vec<Members>,
    /// Number of the account's entries.
    pub entries_total: usize,
    /// Number of the first line that is missing or does not follow from the line before.
    pub broken_at: Option<u64>,
    /// The end of the unbroken part.
    pub head: Head,
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
        AuditLog { path: path.to_owned() }
    }

    /// Adds entries and syncs the file. When this function returns, the entries are on disk.
    ///
    /// # Errors
    /// When the file cannot be read or written, or when the last line of the file is not an entry and the second file
    /// notes no end.
    pub fn append(&self, entries: Vec<Members>) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path)?;
        file.lock()?;
        let mut head = self.end_of(&mut file)?;
        let mut text = String::new();
        for members in entries {
            let (line, next) = entry(&head, members);
            text.push_str(&line);
            text.push('\n');
            head = next;
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.note(&head)
    }

    /// Reads the account's entries, or the account's entries for one number. Checks all lines of the log.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn trail(&self, account: &str, number: Option<&str>) -> io::Result<Trail> {
        let noted = self.noted();
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Trail { broken_at: noted.map(|_| 1), ..Trail::default() });
            }
            file => file?,
        };
        file.lock_shared()?;
        // read the noted end again, now under the lock, because the file may have grown since; the earlier value is
        // only a fallback
        let noted = self.noted().or(noted);
        let (mut chain, mut trail, mut line) = (Chain::default(), Trail::default(), Vec::new());
        let mut lines = BufReader::new(file);
        loop {
            line.clear();
            if (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // a line without a line break is half written, or too long
            let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
            let Some(entry) = chain.take(text.unwrap_or_default()) else { break };
            if noted.as_ref().is_some_and(|noted| noted.seq == chain.head.seq && noted.hash != chain.head.hash) {
                trail.broken_at = Some(chain.head.seq);
                break;
            }
            let is_wanted = |name: &str, value: &str| entry.get(name).and_then(Value::as_str) == Some(value);
            if is_wanted("account", account) && number.is_none_or(|number| is_wanted("number", number)) {
                trail.entries_total += 1;
                if trail.entries.len() == 2 * ENTRIES_MAX {
                    trail.entries.drain(..ENTRIES_MAX);
                }
                trail.entries.push(entry);
            }
        }
        let surplus = trail.entries.len().saturating_sub(ENTRIES_MAX);
        trail.entries.drain(..surplus);
        let missing = noted.filter(|noted| noted.seq > chain.head.seq).map(|_| chain.head.seq + 1);
        trail.broken_at = trail.broken_at.or(chain.broken_at).or(missing);
        trail.head = chain.head;
        Ok(trail)
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

/// Reads the end of a chain from the last line of the chain. `None`: the line is not an entry.
fn head_of(line: &[u8]) -> Option<Head> {
    let entry: Value = serde_json::from_slice(line).ok()?;
    let hash = entry["hash"].as_str().filter(|hash| hash.len() == 64)?;
    Some(Head { seq: entry["seq"].as_u64()?, hash: hash.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(account: &str) -> Batch<'_> {
        Batch {
            at: "2025-11-30T00:00:00.000Z".to_owned(),
            account,
            operation: "verify",
            as_of: "2025-11-30".to_owned(),
            source: None,
            records_sha256: None,
        }
    }

    fn log(folder: &Path) -> AuditLog {
        let log = AuditLog::at(&folder.join("audit.jsonl"));
        for number in ["T1", "T2", "T3"] {
            log.append(vec![batch("a").entry(number, "active"), batch("b").entry(number, "active")]).unwrap();
        }
        log
    }

    #[test]
    fn b39_an_account_sees_its_own_entries_of_a_whole_chain() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let trail = log.trail("a", None).unwrap();
        assert_eq!((trail.entries_total, trail.broken_at, trail.head.seq), (3, None, 6));
        assert_eq!(log.trail("b", Some("T2")).unwrap().entries[0]["seq"], json!(4));
        assert_eq!(log.trail("c", None).unwrap().entries, Vec::new());
        let none = AuditLog::at(&folder.path().join("none")).trail("a", None).unwrap();
        assert_eq!(none, Trail::default());
    }

    #[test]
    fn b39_changed_missing_and_reordered_lines_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let text = std::fs::read_to_string(&log.path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let broken = |lines: &[&str]| {
            std::fs::write(&log.path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
            log.trail("a", None).unwrap().broken_at
        };
        assert_eq!(broken(&lines), None);
        assert_eq!(broken(&[lines[1], lines[0]]), Some(1));
        assert_eq!(broken(&[lines[0], &lines[1].replace("active", "revoked"), lines[2]]), Some(2));
        // first the lines at the end are missing, then all lines, then the file itself
        assert_eq!(broken(&lines[..4]), Some(5));
        assert_eq!(broken(&[]), Some(1));
        std::fs::remove_file(&log.path).unwrap();
        assert_eq!(log.trail("a", None).unwrap().broken_at, Some(1));
        // `trail` finds the missing lines even after a further entry was added
        assert_eq!(broken(&lines[..4]), Some(5));
        log.append(vec![batch("a").entry("T9", "active")]).unwrap();
        assert_eq!(log.trail("a", None).unwrap().broken_at, Some(5));
    }

    #[test]
    fn half_a_line_of_a_crash_is_cut_off_when_something_is_logged() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let mut file = OpenOptions::new().append(true).open(&log.path).unwrap();
        file.write_all(b"{\"account\":").unwrap();
        assert_eq!(log.trail("a", None).unwrap().broken_at, Some(7));
        log.append(vec![batch("a").entry("T9", "active")]).unwrap();
        let trail = log.trail("a", None).unwrap();
        assert_eq!((trail.broken_at, trail.entries_total), (None, 4));
    }

    #[test]
    fn many_writers_make_one_chain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        AuditLog::at(&path).append(vec![batch("a").entry("T1", "active")]).unwrap();
                    }
                });
            }
        });
        let trail = AuditLog::at(&path).trail("a", None).unwrap();
        assert_eq!((trail.broken_at, trail.entries_total), (None, 160));
    }
}
