//! Cuts an evaluation key that arrives in pieces of any size into its head and its rows.
//!
//! The cutter returns each complete head or row, and holds the bytes of at most one row. The caller receives the
//! pieces, and checks and stores the rows.

use std::collections::HashSet;

use api::Code;
use store::KeyRowRecord;
use zeroize::Zeroizing;

use crate::web::error::ApiError;
use crate::work::numbers::{EvaluationKeyHead, KEY_HEAD_BYTES, ROW_BYTES_MAX, ROW_HEADER_BYTES, RowFacts};

/// Cuts a key into its head and its rows, or the rest of a key into rows.
pub struct RowCutter {
    stage: Stage,
    /// The bytes of the incomplete row. Overwritten on drop, because they may be a secret key (readings K5).
    held: Zeroizing<Vec<u8>>,
    order: RowOrder,
}

enum Stage {
    Head,
    RowHeader(EvaluationKeyHead),
    Row(EvaluationKeyHead, RowFacts),
}

/// A complete head or row.
pub enum Cut {
    /// The head. The caller reads it and continues with [`RowCutter::go_on`].
    Head(Zeroizing<Vec<u8>>),
    /// A row, which the caller checks and stores.
    Row(EvaluationKeyHead, RowFacts, Zeroizing<Vec<u8>>),
}

/// Checks the order of rows: the rows of one part follow one another by digit, and no part occurs twice.
#[derive(Clone, Debug, Default)]
pub struct RowOrder {
    /// Number of rows so far.
    pub rows: u64,
    /// Kind and Galois element of each part so far.
    parts: HashSet<(String, i64)>,
    /// Of the first row of a part to or from the sparse secret: kind and tag.
    sparse: Option<(String, i64)>,
    /// Level, index in its part and number of rows of its part, for the last row.
    last: Option<(i64, i64, i64)>,
    /// Kind and Galois element of the last row's part.
    part: (String, i64),
}

impl RowOrder {
    /// Returns the state of the check after these rows.
    pub fn after(rows: &[KeyRowRecord]) -> RowOrder {
        let mut order = RowOrder { rows: rows.len() as u64, ..RowOrder::default() };
        order.parts = rows.iter().map(|row| part_of(&row.kind, row.element)).collect();
        let mut sparse = rows.iter().filter(|row| is_sparse(&row.kind));
        order.sparse = sparse.next().map(|row| (row.kind.clone(), row.element));
        if let Some(last) = rows.last() {
            order.last = Some((last.level, last.digit, last.digits));
            order.part = part_of(&last.kind, last.element);
        }
        order
    }

    /// Whether the part of the last row is complete.
    pub fn is_complete(&self) -> bool {
        self.last.is_none_or(|(_, digit, digits)| digit + 1 == digits)
    }

    /// Checks that a row may come next.
    fn take(&mut self, row: &RowFacts, announced: u32) -> Result<(), ApiError> {
        let refuse = |why: &str| {
            let message = format!("row {} of the evaluation key: {why}", self.rows);
            Err(ApiError::new(Code::InvalidParams, message).at("eval_key", why))
        };
        if self.rows >= u64::from(announced) {
            return refuse("more rows than the head announces");
        }
        let tag = i64::from(row.element);
        if is_sparse(row.kind) {
            let (other, of_other) = self.sparse.get_or_insert_with(|| (row.kind.to_owned(), tag));
            if *of_other != tag {
                let why = format!(
                    "the part {} belongs to another sparse secret than the part {other} (tags {tag} and {of_other}): make \
                     both parts again, with one client and from one secret key",
                    row.kind
                );
                return refuse(&why);
            }
        }
        let part = part_of(row.kind, tag);
        let (level, digit, digits) = (row.level.into(), row.digit.into(), row.digits.into());
        let follows = match self.last {
            Some((last_level, last, _)) if !self.is_complete() => {
                part == self.part && level == last_level && digit == last + 1
            }
            _ => digit == 0,
        };
        if !follows {
            return refuse("the rows of a key part must be in the order of their digits");
        }
        if digit == 0 && !self.parts.insert(part.clone()) {
            return refuse("a key part occurs twice");
        }
        self.rows += 1;
        (self.last, self.part) = (Some((level, digit, digits)), part);
        Ok(())
    }
}

/// Whether parts of this kind switch to or from the sparse secret of bootstrapping.
fn is_sparse(kind: &str) -> bool {
    matches!(kind, "to-sparse" | "from-sparse")
}

/// Returns the kind and the Galois element of a part. The number of a part of the sparse secret is a tag instead.
fn part_of(kind: &str, element: i64) -> (String, i64) {
    (kind.to_owned(), if is_sparse(kind) { 0 } else { element })
}

impl RowCutter {
    /// Makes a cutter for a key from its beginning.
    pub fn from_start() -> RowCutter {
        RowCutter { stage: Stage::Head, held: Zeroizing::default(), order: RowOrder::default() }
    }

    /// Makes a cutter for the rest of a key, after the head and the rows in `order` have arrived.
    pub fn go_on(head: EvaluationKeyHead, order: RowOrder) -> RowCutter {
        RowCutter { stage: Stage::RowHeader(head), held: Zeroizing::default(), order }
    }

    /// Returns the number of held bytes: 0 after the head and after each row.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the state of the check after all rows so far.
    pub fn order(&self) -> &RowOrder {
        &self.order
    }

    /// Takes the held bytes out of the cutter, after the last piece has arrived.
    pub fn take_held(&mut self) -> Zeroizing<Vec<u8>> {
        std::mem::take(&mut self.held)
    }

    /// Takes bytes from the front of `piece`. Returns a head or row as soon as it is complete. Call this function until
    /// `piece` is empty.
    pub fn push(&mut self, piece: &mut &[u8]) -> Result<Option<Cut>, ApiError> {
        while !piece.is_empty() {
            let wanted = match &self.stage {
                Stage::Head => KEY_HEAD_BYTES,
                Stage::RowHeader(_) => ROW_HEADER_BYTES,
                Stage::Row(_, facts) => facts.bytes,
            };
            if self.held.is_empty() {
                // reserve the whole length at once, because growing would leave copies
                let room = if matches!(self.stage, Stage::Head) { KEY_HEAD_BYTES } else { ROW_HEADER_BYTES };
                self.held = Zeroizing::new(Vec::with_capacity(room));
            }
            let (taken, rest) = piece.split_at(piece.len().min(wanted - self.held.len()));
            self.held.extend_from_slice(taken);
            *piece = rest;
            if self.held.len() < wanted {
                return Ok(None);
            }
            match &self.stage {
                Stage::Head => return Ok(Some(Cut::Head(self.take_held()))),
                Stage::RowHeader(head) => {
                    let facts = head.row(&self.held)?;
                    if facts.bytes > ROW_BYTES_MAX {
                        return Err(ApiError::internal("a row is larger than the largest possible row"));
                    }
                    self.order.take(&facts, head.rows())?;
                    let mut whole = Zeroizing::new(Vec::with_capacity(facts.bytes));
                    whole.extend_from_slice(&self.held);
                    self.held = whole;
                    self.stage = Stage::Row(head.clone(), facts);
                }
                Stage::Row(head, facts) => {
                    let (head, facts) = (head.clone(), facts.clone());
                    self.stage = Stage::RowHeader(head.clone());
                    return Ok(Some(Cut::Row(head, facts, self.take_held())));
                }
            }
        }
        Ok(None)
    }
}
