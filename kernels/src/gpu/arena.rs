//! Rows of words in a card's memory, and how kernels address them.

use std::ops::Range;
use std::sync::Arc;

use super::Gpu;
use super::space::{PAGE_WORDS, PLACE_WORDS, Pages, Place, Space, place_of};
use crate::error::{Error, Result};

/// Rows in pages of a card's memory. A row begins at a [`Place`], so the words after a row up to the next place are
/// unused.
pub struct Arena<G: Gpu> {
    pages: Pages<G>,
    space: Arc<Space<G>>,
    slots: usize,
    /// Number of words of a row.
    pub(crate) row_words: usize,
}

/// Rows in ranges of words.
pub(crate) struct Rows {
    pub ranges: Vec<Range<usize>>,
    /// Number of words of a row.
    pub row_words: usize,
    /// The number of words from one row of a range to the next.
    pub stride: usize,
}

impl Rows {
    /// Drops the unused words between rows from the words of all ranges.
    pub fn without_unused(&self, words: Vec<u32>) -> Vec<u32> {
        if self.stride == self.row_words {
            return words;
        }
        let mut rest = &words[..];
        let mut rows = Vec::with_capacity(words.len());
        for range in &self.ranges {
            let (of_range, of_others) = rest.split_at(range.len());
            of_range.chunks(self.stride).for_each(|row| rows.extend_from_slice(&row[..self.row_words]));
            rest = of_others;
        }
        rows
    }
}

/// The number of words from one row to the next.
fn stride(row_words: usize) -> usize {
    row_words.next_multiple_of(PLACE_WORDS).max(PLACE_WORDS)
}

/// The number of rows in a page.
fn rows_of_a_page(row_words: usize) -> Result<usize> {
    match PAGE_WORDS / stride(row_words) {
        0 => Err(Error::Unavailable(format!("a row of {row_words} words is longer than a page"))),
        rows => Ok(rows),
    }
}

impl<G: Gpu> Arena<G> {
    pub(crate) fn zeroed(gpu: &G, space: &Arc<Space<G>>, row_words: usize, slots: usize) -> Result<Arena<G>> {
        let pages = space.take(gpu, slots.div_ceil(rows_of_a_page(row_words)?).max(1))?;
        Ok(Arena { pages, space: space.clone(), slots, row_words })
    }

    /// Adds slots until the arena has `slots` slots. If the arena's segment has no room, the rows are copied to another
    /// segment.
    ///
    /// # Panics
    /// When the arena already has more slots.
    pub(crate) fn grow(&mut self, gpu: &G, slots: usize) -> Result<()> {
        assert!(slots >= self.slots, "an arena does not shrink");
        let pages = slots.div_ceil(rows_of_a_page(self.row_words)?).max(1);
        let more = pages.saturating_sub(self.pages.count());
        if more > 0 && !self.pages.extend(gpu, more)? {
            let larger = self.space.take(gpu, pages)?;
            for page in 0..self.pages.count() {
                let (from, to) = (self.pages.first_word(page), larger.first_word(page));
                gpu.copy(self.pages.buf(), from, larger.buf(), to, PAGE_WORDS)?;
            }
            self.pages = larger;
        }
        self.slots = slots;
        Ok(())
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// The pages of all rows.
    pub(crate) fn pages(&self) -> &Pages<G> {
        &self.pages
    }

    /// Copies whole rows to the slots from `first` on.
    ///
    /// # Panics
    /// When the arena has too few slots.
    pub(crate) fn write(&self, gpu: &G, first: u32, words: &[u32]) -> Result<()> {
        assert!(words.len().is_multiple_of(self.row_words), "whole rows");
        let (first, stride) = (first as usize, stride(self.row_words));
        let (slots, rows_of_a_page) = (first..first + words.len() / self.row_words, PAGE_WORDS / stride);
        assert!(slots.end <= self.slots, "slots {slots:?} of {}", self.slots);
        let mut rest = words;
        let mut slot = slots.start;
        while slot < slots.end {
            // the rows of one page are one copy
            let rows = (rows_of_a_page - slot % rows_of_a_page).min(slots.end - slot);
            let (now, later) = rest.split_at(rows * self.row_words);
            let at = self.first_word(slot as u32);
            if stride == self.row_words {
                gpu.write(self.pages.buf(), at, now)?;
            } else {
                let mut padded = vec![0; (rows - 1) * stride + self.row_words];
                for (to, row) in padded.chunks_mut(stride).zip(now.chunks_exact(self.row_words)) {
                    to[..self.row_words].copy_from_slice(row);
                }
                gpu.write(self.pages.buf(), at, &padded)?;
            }
            (rest, slot) = (later, slot + rows);
        }
        Ok(())
    }

    /// The place of a slot's row.
    ///
    /// # Panics
    /// When the slot does not exist.
    pub(crate) fn place(&self, slot: u32) -> Place {
        place_of(self.first_word(slot))
    }

    /// The range of a slot's words in the segment.
    pub(crate) fn row(&self, slot: u32) -> Range<usize> {
        let first = self.first_word(slot);
        first..first + self.row_words
    }

    fn first_word(&self, slot: u32) -> usize {
        let (slot, stride) = (slot as usize, stride(self.row_words));
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        let rows = PAGE_WORDS / stride;
        self.pages.first_word(slot / rows) + slot % rows * stride
    }

    /// The ranges of words to read for these slots, in their order. A range holds neighbouring rows and the unused words
    /// between them.
    pub(crate) fn reads(&self, slots: &[u32]) -> Rows {
        let stride = stride(self.row_words);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for &slot in slots {
            let row = self.row(slot);
            match ranges.last_mut() {
                Some(last) if last.end + stride - self.row_words == row.start => last.end = row.end,
                _ => ranges.push(row),
            }
        }
        Rows { ranges, row_words: self.row_words, stride }
    }
}
