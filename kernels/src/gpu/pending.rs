//! Work in flight on a card, and the words to read when this work is done.

use std::ops::Range;

use super::Gpu;
use super::arena::{Arena, ChunkRead};
use crate::error::Result;

/// Work in flight on a card.
pub struct Pending<G: Gpu> {
    /// One read for each sequence of launches, or one for each chunk that a sequence reads.
    reads: Vec<PendingRead<G>>,
}

/// A read in flight.
pub(crate) struct PendingRead<G: Gpu> {
    pub readback: G::Readback,
    /// The parts of the read, in order. For each part: the batch's index in the call, the index of its first requested
    /// slot, and the number of words.
    pub parts: Vec<([usize; 2], usize)>,
}

impl<G: Gpu> PendingRead<G> {
    /// Starts to read slots of a batch's arena, with one read for each chunk that holds some of these slots.
    pub fn of_slots(gpu: &G, arena: &Arena<G>, slots: &[u32], batch: usize) -> Result<Vec<PendingRead<G>>> {
        let start = |read: ChunkRead<'_, G>| {
            let readback = gpu.read(read.buf, &read.ranges)?;
            let part = |asked: &Range<usize>| ([batch, asked.start], asked.len() * arena.row_words);
            Ok(PendingRead { readback, parts: read.asked.iter().map(part).collect() })
        };
        arena.reads(slots).into_iter().map(start).collect()
    }
}

impl<G: Gpu> Pending<G> {
    /// The work that is done when all these reads are done.
    pub(crate) fn new(reads: Vec<PendingRead<G>>) -> Pending<G> {
        Pending { reads }
    }

    /// Implements [`crate::Backend::wait`].
    pub(super) fn wait(&self, gpu: &G, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        for read in &self.reads {
            if !gpu.wait(&read.readback, wanted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Implements [`crate::Backend::finish`].
    pub(super) fn finish(self, gpu: &G) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for PendingRead { readback, parts } in self.reads {
            let mut words = gpu.finish(readback)?;
            // words that belong to no part are dropped: such a word was read only to detect the end of the batch
            words.truncate(parts.iter().map(|(_, count)| count).sum());
            // the parts are taken from the end, so that the words are not copied if one part is the whole read
            for &(place, count) in parts.iter().rev() {
                let rest = words.len() - count;
                found.push((place, if rest == 0 { std::mem::take(&mut words) } else { words.split_off(rest) }));
            }
        }
        found.sort_by_key(|(place, _)| *place);
        let mut all = found.into_iter().map(|(_, words)| words).filter(|words| !words.is_empty());
        let mut first = all.next().unwrap_or_default();
        all.for_each(|words| first.extend(words));
        Ok(first)
    }
}
