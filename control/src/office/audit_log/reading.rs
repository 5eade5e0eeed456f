//! A page of the log, read in short steps. A reader holds no lock of the file: lines are only added, so whole lines up
//! to the length that the file had at the beginning of a step do not change any more.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use docs_module::audit::{Head, again};
use serde_json::Value;

use super::AuditLog;
use super::known::{Days, Known, Span, Stamp};

/// Lines that a step checks for the first time, and bytes that a step reads again. Each takes some 10 ms.
const STEP_LINES: usize = 2_000;
const STEP_BYTES: u64 = 2 << 20;
/// Bytes that a request looks through at most. A page that has not enough entries by then tells where to go on.
const PAGE_BYTES_MAX: u64 = 64 << 20;
/// How often a request begins anew because the file was changed while it was read.
const RESTARTS_MAX: usize = 3;

/// Which entries a page begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first entries behind this line.
    After(u64),
    /// The last entries before this line.
    Before(u64),
}

/// Which entries are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The account whose entries are shown.
    pub account: String,
    /// The number in normal form. `None`: all numbers.
    pub number: Option<String>,
    /// The days of the entries. `None`: all entries.
    pub days: Option<Days>,
    /// Where the page lies.
    pub place: Place,
    /// Largest number of entries.
    pub limit: usize,
}

/// A page of the log, and the state of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trail {
    /// Lines of the log, the oldest first.
    pub entries: VecDeque<String>,
    /// Number of the account's entries in the whole log.
    pub entries_total: u64,
    /// Number of the first line that is missing or does not follow from the line before.
    pub broken_at: Option<u64>,
    /// The end of the unbroken part.
    pub head: Head,
    /// The page has all wanted entries among the lines behind the first of these and up to the second.
    pub lines: (u64, u64),
}

/// A page that is being read.
pub struct Reading {
    log: Arc<AuditLog>,
    wanted: Wanted,
    entries: VecDeque<String>,
    /// The lines up to this one, or from this one on, are done. `None`: before the first step.
    done: Option<u64>,
    /// For a page before a line: the line after its last one.
    begun: Option<u64>,
    read: u64,
    bytes_max: u64,
    is_checked_again: bool,
    restarts: usize,
}

impl Reading {
    /// Begins a page.
    pub fn new(log: Arc<AuditLog>, wanted: Wanted) -> Reading {
        Reading {
            log,
            wanted,
            entries: VecDeque::new(),
            done: None,
            begun: None,
            read: 0,
            bytes_max: PAGE_BYTES_MAX,
            is_checked_again: false,
            restarts: 0,
        }
    }

    /// Reads on for some 10 ms. `None`: the page is not complete.
    ///
    /// # Errors
    /// When the file cannot be read, or changes all the time.
    pub fn step(&mut self) -> io::Result<Option<Trail>> {
        // what the second file notes was in the log before it was noted, so it is read before the log's length
        let noted = self.log.noted();
        let mut file = match File::open(&self.log.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *self.log.known.lock() = Known::default();
                return Ok(Some(Trail { broken_at: noted.map(|_| 1), ..Trail::default() }));
            }
            file => file?,
        };
        let mut known = self.log.known.lock();
        let length = {
            let mut writes = self.log.writes.lock();
            let now = Stamp::of(&file.metadata()?);
            known.judge(now, &mut writes);
            now.length
        };
        if !known.advance(&mut file, length, noted.as_ref(), STEP_LINES)? {
            return Ok(None);
        }
        let due = if self.is_checked_again { Vec::new() } else { known.due_again() };
        let end = known.end.seq;
        let missing = noted.filter(|noted| noted.seq > known.end.seq).map(|_| known.end.seq + 1);
        let trail = Trail {
            entries_total: known.entries_of(&self.wanted.account),
            broken_at: known.broken_at.or(missing),
            head: known.end.clone(),
            ..Trail::default()
        };
        drop(known);
        self.is_checked_again = true;
        for span in due {
            if self.lines(&mut file, &span)?.is_none() {
                return Ok(None);
            }
        }
        let lines = match self.wanted.place {
            Place::After(seq) => self.forward(&mut file, seq, end)?.map(|done| (seq.min(done), done)),
            Place::Before(seq) => {
                // entries that are added meanwhile are on no page before an earlier end
                let begun = *self.begun.get_or_insert(seq.clamp(1, end + 1));
                self.backward(&mut file, begun)?.map(|done| (done - 1, begun - 1))
            }
        };
        Ok(lines.map(|lines| Trail { entries: std::mem::take(&mut self.entries), lines, ..trail }))
    }

    /// Adds entries behind the lines that are done, at most of one step. Returns the last line of a complete page.
    fn forward(&mut self, file: &mut File, after: u64, until: u64) -> io::Result<Option<u64>> {
        let begun = self.read;
        let mut done = self.done.unwrap_or(after.min(until));
        while done < until && self.entries.len() < self.wanted.limit && self.read < self.bytes_max {
            self.done = Some(done);
            if self.read - begun > STEP_BYTES {
                return Ok(None);
            }
            let Some(span) = self.block(done + 1, true) else {
                done = until;
                break;
            };
            let Some(lines) = self.lines(file, &span)? else { return Ok(None) };
            for (seq, line) in lines {
                if seq > done && seq <= until && self.entries.len() < self.wanted.limit {
                    done = seq;
                    self.entries.push_back(line);
                }
            }
            if self.entries.len() < self.wanted.limit {
                done = span.end.seq.min(until);
            }
        }
        Ok(Some(done))
    }

    /// Adds entries before the lines that are done, at most of one step. Returns the first line of a complete page.
    fn backward(&mut self, file: &mut File, until: u64) -> io::Result<Option<u64>> {
        let begun = self.read;
        let mut done = self.done.unwrap_or(until);
        while done > 1 && self.entries.len() < self.wanted.limit && self.read < self.bytes_max {
            self.done = Some(done);
            if self.read - begun > STEP_BYTES {
                return Ok(None);
            }
            let Some(span) = self.block(done - 1, false) else {
                done = 1;
                break;
            };
            let Some(lines) = self.lines(file, &span)? else { return Ok(None) };
            for (seq, line) in lines.into_iter().rev() {
                if seq < done && self.entries.len() < self.wanted.limit {
                    done = seq;
                    self.entries.push_front(line);
                }
            }
            if self.entries.len() < self.wanted.limit {
                done = span.begin.seq + 1;
            }
        }
        Ok(Some(done))
    }

    fn block(&self, seq: u64, is_forward: bool) -> Option<Span> {
        let Wanted { account, number, days, .. } = &self.wanted;
        self.log.known.lock().block_with(seq, (account, number.as_deref()), *days, is_forward)
    }

    /// Reads the lines of a span, checks them, and returns the wanted ones with their numbers. `None`: a line was
    /// changed, so all lines are checked from the beginning.
    fn lines(&mut self, file: &mut File, span: &Span) -> io::Result<Option<Vec<(u64, String)>>> {
        self.read += span.until - span.at;
        match self.wanted_lines(file, span) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            Ok(Some(lines)) => Ok(Some(lines)),
            Ok(None) | Err(_) => {
                *self.log.known.lock() = Known::default();
                self.restarts += 1;
                (self.entries, self.done, self.begun) = (VecDeque::new(), None, None);
                if self.restarts > RESTARTS_MAX {
                    return Err(io::Error::other("the audit log changes while it is read"));
                }
                Ok(None)
            }
        }
    }

    fn wanted_lines(&self, file: &mut File, span: &Span) -> io::Result<Option<Vec<(u64, String)>>> {
        let mut bytes = vec![0; (span.until - span.at) as usize];
        file.seek(SeekFrom::Start(span.at))?;
        file.read_exact(&mut bytes)?;
        let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
        // quotation marks within a text have a backslash before them, so these are members
        let member = |name: &str, value: &str| format!("\"{name}\":{}", Value::from(value));
        let account = member("account", &self.wanted.account);
        let number = self.wanted.number.as_deref().map(|number| member("number", number));
        let (mut head, mut wanted) = (span.begin.clone(), Vec::new());
        for line in text.split_terminator('\n') {
            let Some(next) = again(&head, line) else { return Ok(None) };
            head = next;
            let is_of_days = || self.wanted.days.is_none_or(|days| day_of(line).is_some_and(|day| day.overlap(days)));
            if line.contains(&account) && number.as_ref().is_none_or(|number| line.contains(number)) && is_of_days() {
                wanted.push((head.seq, line.to_owned()));
            }
        }
        Ok((head == span.end).then_some(wanted))
    }
}

/// The day of the entry of a line. `None`: the entry says no day.
fn day_of(line: &str) -> Option<Days> {
    // quotation marks within a text have a backslash before them, so this is a member
    let (_, rest) = line.split_once("\"at\":\"")?;
    Days::of(rest.split_once('"')?.0)
}

#[cfg(test)]
impl Reading {
    /// Looks through one block in place of many, and checks none again.
    pub fn of_one_block(self) -> Reading {
        Reading { bytes_max: 1, is_checked_again: true, ..self }
    }

    /// Bytes that were looked through for the page.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }
}
