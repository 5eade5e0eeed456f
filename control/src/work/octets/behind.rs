//! A head in JSON, and the bytes behind it: words, numbers and containers, little-endian. No size is believed before
//! the bytes are there.

use std::time::Duration;

use api::octets;
use engine::{Gate, LweList};
use serde::{Deserialize, Serialize};

use super::RowsHead;
use crate::work::key::Operand;
use crate::work::named::NamedBytes;

/// The version of both forms.
pub const VERSION: u32 = 2;
/// Longest head in bytes. The longest one has the places of the operands of [`OPERATION_ROWS_MAX`] gates.
pub const HEAD_BYTES_MAX: usize = 16 << 20;

/// Why bytes are no work, or no end of work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not in the form of work: {0}")]
pub struct NotWork(String);

impl NotWork {
    pub(super) fn because(why: impl Into<String>) -> NotWork {
        NotWork(why.into())
    }
}

/// The bytes behind a head that were not read yet.
pub struct Behind<'a> {
    bytes: &'a [u8],
}

impl<'a> Behind<'a> {
    /// Takes this many bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], NotWork> {
        let (taken, rest) =
            self.bytes.split_at_checked(count).ok_or_else(|| NotWork::because("bytes are missing behind the head"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes all bytes that were not taken.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// Takes this many words.
    pub fn words(&mut self, count: usize) -> Result<Vec<u32>, NotWork> {
        let bytes = self.take(count.checked_mul(4).ok_or_else(|| NotWork::because("too many words"))?)?;
        let mut words: Vec<u32> = bytemuck::pod_collect_to_vec(bytes);
        if cfg!(target_endian = "big") {
            words.iter_mut().for_each(|word| *word = u32::from_le(*word));
        }
        Ok(words)
    }

    /// Takes this many numbers, all of them finite.
    pub fn numbers(&mut self, count: usize) -> Result<Vec<f64>, NotWork> {
        let bytes = self.take(count.checked_mul(8).ok_or_else(|| NotWork::because("too many numbers"))?)?;
        let numbers: Vec<f64> = bytes.as_chunks().0.iter().copied().map(f64::from_le_bytes).collect();
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(NotWork::because("a number that is not finite"));
        }
        Ok(numbers)
    }

    /// Takes ciphertexts of this dimension, `[rows][dimension + 1]` words.
    pub fn ciphertexts(&mut self, dimension: usize, rows: usize) -> Result<LweList, NotWork> {
        if dimension == 0 {
            return Err(NotWork::because("ciphertexts of dimension 0"));
        }
        let words = dimension.checked_add(1).and_then(|row| row.checked_mul(rows));
        let words = words.ok_or_else(|| NotWork::because("too many words"))?;
        Ok(LweList::from_words(dimension, self.words(words)?))
    }

    /// Refuses bytes that were not taken.
    pub fn end(&self) -> Result<(), NotWork> {
        match self.bytes {
            [] => Ok(()),
            _ => Err(NotWork::because("bytes are left over")),
        }
    }
}

/// Finds the bytes of an operand that has a name and is left out.
pub type Known<'a> = dyn Fn(&Operand) -> Option<NamedBytes> + 'a;

/// The bytes behind a head, and the operands that are left out there.
pub struct Operands<'a> {
    /// The bytes behind the head.
    pub behind: Behind<'a>,
    /// The operands that are left out.
    pub known: &'a Known<'a>,
    /// Whether an operand is left out and not known.
    pub missing: bool,
}

impl Operands<'_> {
    /// Takes the ciphertexts of an operand, which may be left out.
    pub fn ciphertexts(&mut self, dimension: usize, head: &RowsHead) -> Result<LweList, NotWork> {
        if !head.left_out {
            return self.behind.ciphertexts(dimension, head.rows);
        }
        let bytes = self.left_out(&head.operand)?;
        let mut behind = Behind { bytes: &bytes };
        let rows = behind.ciphertexts(dimension, head.rows)?;
        behind.end()?;
        Ok(rows)
    }

    /// Returns the bytes of an operand that is left out.
    pub fn left_out(&mut self, operand: &Operand) -> Result<NamedBytes, NotWork> {
        let found = if operand.is_named() { (self.known)(operand) } else { None };
        self.missing |= found.is_none();
        found.ok_or_else(|| NotWork::because("an operand is left out"))
    }
}

/// Splits bytes into their head and the bytes behind it.
pub fn split<'a, H: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(H, Behind<'a>), NotWork> {
    let cut = octets::split(bytes, HEAD_BYTES_MAX);
    let (head, bytes) = cut.map_err(|error| NotWork::because(format!("{error:?}")))?;
    let head = serde_json::from_slice(head).map_err(|error| NotWork::because(error.to_string()))?;
    Ok((head, Behind { bytes }))
}

/// Puts bytes behind their head.
pub fn with_head(head: &impl Serialize, behind: &[u8]) -> Vec<u8> {
    let head = serde_json::to_vec(head).expect("numbers and texts are JSON");
    let mut bytes = octets::begin(&head, behind.len());
    bytes.extend_from_slice(behind);
    bytes
}

/// Refuses another version.
pub fn check_version(version: u32) -> Result<(), NotWork> {
    match version {
        VERSION => Ok(()),
        other => Err(NotWork::because(format!("version {other}, not {VERSION}"))),
    }
}

/// Reads the name of a gate.
pub fn gate(name: &str) -> Result<Gate, NotWork> {
    Gate::from_name(name).ok_or_else(|| NotWork::because("an unknown gate"))
}

/// Returns a time in nanoseconds, at most 584 years.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
