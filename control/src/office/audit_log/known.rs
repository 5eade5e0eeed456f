//! The part of the log that a node has checked: its end, and the places of its lines.
//!
//! A line is checked once. After that, a line is checked again when a page shows it or its neighbours, and one block
//! after the other in turn, so that a later change is found too. All lines are checked again when the file was
//! replaced, shortened, or changed without having grown. Growth by another process may hide a change of earlier lines,
//! so after such a growth the blocks are checked again faster.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use docs_module::audit::{Chain, Head};
use docs_module::calendar::tokyo_date;
use serde_json::Value;
use time::Date;

use super::LINE_BYTES_MAX;
use crate::clock::Timestamp;

/// A block ends after this many lines or bytes.
const BLOCK_LINES: u64 = 256;
const BLOCK_BYTES: u64 = 256 << 10;
/// Number of blocks that are remembered, in about 400 bytes each. With more, two neighbours become one.
const BLOCKS_MAX: usize = 32_768;
/// Blocks that a read checks again: usually, and after others wrote to the file.
const AGAIN: usize = 1;
const AGAIN_AFTER_OTHERS: usize = 16;
/// Bits of the filter of a block.
const FILTER_BITS: usize = 2_048;

/// Shows whether a file is the same as before: its identity, its length, and the time of its last change. Programs
/// cannot set this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    pub length: u64,
    changed: (i64, i64),
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Stamp {
        #[cfg(unix)]
        let (file, changed) = {
            use std::os::unix::fs::MetadataExt;
            ((metadata.dev(), metadata.ino()), (metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (file, changed) = {
            let since = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            ((0, 0), since.map_or((0, 0), |since| (since.as_secs() as i64, i64::from(since.subsec_nanos()))))
        };
        Stamp { file, length: metadata.len(), changed }
    }
}

/// The writers of the file, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The file after the last look or write of this process.
    pub last: Option<Stamp>,
    /// Whether this process is writing now.
    pub is_writing: bool,
    /// Whether another process wrote between two looks.
    pub by_others: bool,
}

/// The lines from a place in the file to the next place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub at: u64,
    pub until: u64,
    /// The heads before the first line and after the last one.
    pub begin: Head,
    pub end: Head,
}

struct Block {
    at: u64,
    begin: Head,
    filter: Filter,
    /// The first and the last day of the entries. `None`: no entry says its day.
    days: Option<Days>,
}

/// Days in Japan, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days {
    pub first: Date,
    pub last: Date,
}

impl Days {
    /// The day of an entry, by its member `at`.
    pub fn of(at: &str) -> Option<Days> {
        let day = tokyo_date(Timestamp::read(at)?.0.div_euclid(1_000_000))?;
        Some(Days { first: day, last: day })
    }

    /// The days from the first to the last of both.
    fn with(self, other: Days) -> Days {
        Days { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    pub fn overlap(self, other: Days) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Accounts, and accounts with numbers, that a block may have (a Bloom filter).
#[derive(Clone)]
struct Filter([u64; FILTER_BITS / 64]);

impl Filter {
    fn bits(hash: u64) -> impl Iterator<Item = usize> {
        (0..3).map(move |part| (hash >> (11 * part)) as usize % FILTER_BITS)
    }

    fn add(&mut self, hash: u64) {
        Filter::bits(hash).for_each(|bit| self.0[bit / 64] |= 1 << (bit % 64));
    }

    fn may_have(&self, hash: u64) -> bool {
        Filter::bits(hash).all(|bit| self.0[bit / 64] >> (bit % 64) & 1 == 1)
    }
}

/// The checked lines.
pub(super) struct Known {
    blocks: Vec<Block>,
    block_lines: u64,
    /// The head after the last checked line, and where this line ends.
    pub end: Head,
    pub end_at: u64,
    /// Number of entries of each account, by the hash of the account.
    accounts: HashMap<u64, u64>,
    hasher: RandomState,
    pub broken_at: Option<u64>,
    /// The last end from the second file that was compared with the lines.
    compared: Option<Head>,
    seen: Option<Stamp>,
    /// The block that is checked again next, and how many are left to be checked again faster.
    turn: usize,
    doubtful: usize,
}

impl Default for Known {
    fn default() -> Known {
        Known {
            blocks: Vec::new(),
            block_lines: BLOCK_LINES,
            end: Head::default(),
            end_at: 0,
            accounts: HashMap::new(),
            hasher: RandomState::new(),
            broken_at: None,
            compared: None,
            seen: None,
            turn: 0,
            doubtful: 0,
        }
    }
}

impl Known {
    /// Compares the file with what was seen of it before, and forgets all if it is not the same any more.
    pub fn judge(&mut self, now: Stamp, writes: &mut Writes) {
        let by_others = std::mem::take(&mut writes.by_others);
        if let Some(seen) = self.seen {
            let is_replaced = now.file != seen.file || now.length < self.end_at;
            let is_changed_in_place = now.length == seen.length && now.changed != seen.changed && !writes.is_writing;
            if is_replaced || is_changed_in_place {
                *self = Known::default();
            } else if by_others || (now != seen && writes.last != Some(now) && !writes.is_writing) {
                self.doubtful = self.blocks.len();
                // the broken line may have been mended
                self.broken_at = None;
            }
        }
        // in the middle of a write, neither the length nor the time means anything
        if !writes.is_writing {
            self.seen = Some(now);
            writes.last = Some(now);
        }
    }

    /// Checks at most `lines` further lines, up to `length`. `noted`: the end from the second file, read before the
    /// length. Returns whether no whole line is left.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn advance(&mut self, file: &mut File, length: u64, noted: Option<&Head>, lines: usize) -> io::Result<bool> {
        file.seek(SeekFrom::Start(self.end_at))?;
        let mut rest = BufReader::with_capacity(64 << 10, file.take(length.saturating_sub(self.end_at)));
        let mut line = Vec::new();
        for _ in 0..lines {
            if self.broken_at.is_some() {
                return Ok(true);
            }
            line.clear();
            let read = (&mut rest).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? as u64;
            if !line.ends_with(b"\n") && read < LINE_BYTES_MAX {
                // half a line, which a writer has not finished
                self.compare(noted);
                return Ok(true);
            }
            self.take(&line, noted);
        }
        Ok(false)
    }

    fn take(&mut self, line: &[u8], noted: Option<&Head>) {
        let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        let mut chain = Chain { head: self.end.clone(), broken_at: None };
        let Some(entry) = chain.take(text.unwrap_or_default()) else {
            self.broken_at = chain.broken_at;
            return;
        };
        let is_full = self.blocks.last().is_none_or(|block| {
            self.end.seq - block.begin.seq >= self.block_lines || self.end_at - block.at >= BLOCK_BYTES
        });
        if is_full {
            if self.blocks.len() == BLOCKS_MAX {
                self.join_blocks();
            }
            let filter = Filter([0; FILTER_BITS / 64]);
            self.blocks.push(Block { at: self.end_at, begin: self.end.clone(), filter, days: None });
        }
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let (account, both) = (self.hash(text("account"), None), self.hash(text("account"), Some(text("number"))));
        *self.accounts.entry(account).or_default() += 1;
        if let Some(block) = self.blocks.last_mut() {
            block.filter.add(account);
            block.filter.add(both);
            block.days = joined(block.days, Days::of(text("at")));
        }
        (self.end, self.end_at) = (chain.head, self.end_at + line.len() as u64);
        if noted.is_some_and(|noted| noted.seq == self.end.seq) {
            self.compare(noted);
        }
    }

    /// Compares the end from the second file with the last checked line.
    fn compare(&mut self, noted: Option<&Head>) {
        let Some(noted) = noted else { return };
        let other = self.compared.as_ref().filter(|compared| compared.seq == noted.seq);
        let is_other = noted.seq == self.end.seq && *noted != self.end || other.is_some_and(|other| other != noted);
        if is_other {
            self.broken_at = Some(noted.seq);
        } else if noted.seq == self.end.seq {
            self.compared = Some(noted.clone());
        }
    }

    /// Makes one block of each two, so that a long log takes no more memory.
    pub fn join_blocks(&mut self) {
        self.block_lines *= 2;
        let mut blocks = std::mem::take(&mut self.blocks).into_iter();
        while let Some(mut one) = blocks.next() {
            if let Some(other) = blocks.next() {
                one.filter.0.iter_mut().zip(other.filter.0).for_each(|(bits, more)| *bits |= more);
                one.days = joined(one.days, other.days);
            }
            self.blocks.push(one);
        }
    }

    /// Number of entries of an account.
    pub fn entries_of(&self, account: &str) -> u64 {
        self.accounts.get(&self.hash(account, None)).copied().unwrap_or_default()
    }

    fn hash(&self, account: &str, number: Option<&str>) -> u64 {
        self.hasher.hash_one((account, number))
    }

    /// Returns the blocks whose turn to be checked again has come.
    pub fn due_again(&mut self) -> Vec<Span> {
        let count = if self.doubtful > 0 { AGAIN_AFTER_OTHERS } else { AGAIN }.min(self.blocks.len());
        self.doubtful = self.doubtful.saturating_sub(count);
        let due = (0..count).map(|_| {
            let place = self.turn % self.blocks.len();
            self.turn = place + 1;
            self.span(place)
        });
        due.collect()
    }

    /// Returns the block with the line `seq`, or else the nearest block after it (`is_forward`) or before it that may
    /// have an entry of the account (and number) on one of the days. `None`: there is no such block.
    pub fn block_with(
        &self,
        seq: u64,
        (account, number): (&str, Option<&str>),
        days: Option<Days>,
        is_forward: bool,
    ) -> Option<Span> {
        if seq == 0 || seq > self.end.seq {
            return None;
        }
        let hash = self.hash(account, number);
        let has_days = |block: &Block| days.is_none_or(|days| block.days.is_some_and(|of| of.overlap(days)));
        let from = self.blocks.partition_point(|block| block.begin.seq < seq) - 1;
        let may_have = |place: &usize| self.blocks[*place].filter.may_have(hash) && has_days(&self.blocks[*place]);
        let place = if is_forward { (from..self.blocks.len()).find(may_have) } else { (0..=from).rev().find(may_have) };
        place.map(|place| self.span(place))
    }

    fn span(&self, place: usize) -> Span {
        let block = &self.blocks[place];
        let (until, end) = match self.blocks.get(place + 1) {
            Some(next) => (next.at, next.begin.clone()),
            None => (self.end_at, self.end.clone()),
        };
        Span { at: block.at, until, begin: block.begin.clone(), end }
    }
}

fn joined(days: Option<Days>, more: Option<Days>) -> Option<Days> {
    days.zip(more).map(|(days, more)| days.with(more)).or(days).or(more)
}

#[cfg(test)]
impl Known {
    /// Forgets what the file looked like, but not its lines.
    pub fn forget_the_file(&mut self) {
        self.seen = None;
    }
}
