//! Rows of words in a card's memory, and how kernels address them.

use std::ops::Range;

use super::distance::{Distance, distance, words_between};
use super::{Gpu, Language, View, ViewOf, alloc};
use crate::backend::chunks::{Chunks, RowPlace};
use crate::error::Result;

/// Rows in a card's memory: `[slots][row_words]` words in chunks. If kernels cannot use addresses, all slots are in a
/// single chunk.
pub struct Arena<G: Gpu> {
    chunks: Chunks<G::Buf>,
    /// Number of words of a row.
    pub(crate) row_words: usize,
}

/// A read of one chunk.
pub(crate) struct ChunkRead<'a, G: Gpu> {
    pub buf: &'a G::Buf,
    /// Ranges of words in the buffer, in the requested order.
    pub ranges: Vec<Range<usize>>,
    /// Which requested slots are in these ranges, as ranges of indices into the request.
    pub asked: Vec<Range<usize>>,
}

impl<G: Gpu> Arena<G> {
    pub(crate) fn zeroed(gpu: &G, row_words: usize, slots: usize) -> Result<Arena<G>> {
        Ok(Arena { chunks: Chunks::new(alloc(gpu, slots * row_words)?, slots), row_words })
    }

    /// Adds slots until the arena has `slots` slots.
    ///
    /// # Panics
    /// When the arena already has more slots.
    pub(crate) fn grow(&mut self, gpu: &G, slots: usize) -> Result<()> {
        let before = self.slots();
        let more = slots.checked_sub(before).expect("an arena does not shrink");
        match gpu.properties().language {
            _ if more == 0 => {}
            Language::Cuda => self.chunks.add(alloc(gpu, more * self.row_words)?, more),
            Language::Wgsl => {
                let larger = alloc(gpu, slots * self.row_words)?;
                gpu.copy(self.chunks.memory(0), &larger, before * self.row_words)?;
                self.chunks = Chunks::new(larger, slots);
            }
        }
        Ok(())
    }

    pub(crate) fn slots(&self) -> usize {
        self.chunks.slots()
    }

    /// Copies whole rows to the slots from `first` on.
    ///
    /// # Panics
    /// When the arena has too few slots.
    pub(crate) fn write(&self, gpu: &G, first: u32, words: &[u32]) -> Result<()> {
        assert!(words.len().is_multiple_of(self.row_words), "whole rows");
        let (first, mut rest) = (first as usize, words);
        for (chunk, rows) in self.chunks.runs(first..first + words.len() / self.row_words) {
            let (of_chunk, of_others) = rest.split_at(rows.len() * self.row_words);
            gpu.write(self.chunks.memory(chunk), rows.start * self.row_words, of_chunk)?;
            rest = of_others;
        }
        Ok(())
    }

    /// Views of all chunks, in order.
    pub(crate) fn views(&self) -> impl Iterator<Item = ViewOf<'_, G>> {
        self.chunks.iter().map(View::all)
    }

    /// The buffer that holds a slot, and the slot's words in it.
    pub(crate) fn row(&self, slot: u32) -> (&G::Buf, Range<usize>) {
        let place = self.chunks.place(slot);
        (self.chunks.memory(place.chunk), self.words(place))
    }

    fn words(&self, RowPlace { row, .. }: RowPlace) -> Range<usize> {
        row * self.row_words..(row + 1) * self.row_words
    }

    /// Returns a function that gives the distance from the start of the buffer `from` to a slot.
    pub(crate) fn distances<'a>(&'a self, gpu: &'a G, from: &'a G::Buf) -> impl Fn(u32) -> Distance + 'a {
        let chunks: Vec<i64> = self.chunks.iter().map(|buf| words_between(gpu, from, buf)).collect();
        move |slot| {
            let place = self.chunks.place(slot);
            distance(chunks[place.chunk] + self.words(place).start as i64)
        }
    }

    /// The reads for these slots, one for each chunk that holds some of these slots.
    pub(crate) fn reads(&self, slots: &[u32]) -> Vec<ChunkRead<'_, G>> {
        let none = |buf| ChunkRead { buf, ranges: Vec::new(), asked: Vec::new() };
        let mut reads: Vec<ChunkRead<'_, G>> = self.chunks.iter().map(none).collect();
        for (at, &slot) in slots.iter().enumerate() {
            let place = self.chunks.place(slot);
            let read = &mut reads[place.chunk];
            extend(&mut read.ranges, self.words(place));
            extend(&mut read.asked, at..at + 1);
        }
        reads.retain(|read| !read.ranges.is_empty());
        reads
    }
}

/// Appends a range, or extends the last range if the new range begins where the last one ends.
fn extend(ranges: &mut Vec<Range<usize>>, next: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_go_on_are_one() {
        let mut ranges = Vec::new();
        for slot in [3, 4, 5, 1, 2, 2] {
            extend(&mut ranges, 10 * slot..10 * (slot + 1));
        }
        assert_eq!(ranges, [30..60, 10..30, 20..30]);
    }
}
