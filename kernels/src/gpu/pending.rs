//! Work in flight on a card, and the words to read when this work is done.

use super::Gpu;
use super::arena::{Arena, Rows};
use crate::error::Result;

/// Work in flight on a card.
pub struct Pending<G: Gpu> {
    /// A read for each sequence of launches.
    reads: Vec<PendingRead<G>>,
}

/// A read in flight.
pub(crate) struct PendingRead<G: Gpu> {
    pub readback: G::Readback,
    /// The rows of the read, if unused words lie between them.
    pub rows: Option<Rows>,
    /// The parts of the read, in order. For each part: the batch's index in the call, and the number of words.
    pub parts: Vec<(usize, usize)>,
}

impl<G: Gpu> PendingRead<G> {
    /// Starts to read slots of a batch's arena.
    pub fn of_slots(gpu: &G, arena: &Arena<G>, slots: &[u32], batch: usize) -> Result<PendingRead<G>> {
        let rows = arena.reads(slots);
        let readback = gpu.read(arena.pages().buf(), &rows.ranges)?;
        Ok(PendingRead { readback, rows: Some(rows), parts: vec![(batch, slots.len() * arena.row_words)] })
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
        for PendingRead { readback, rows, parts } in self.reads {
            let words = gpu.finish(readback)?;
            let mut words = match rows {
                Some(rows) => rows.without_unused(words),
                None => words,
            };
            // words that belong to no part are dropped: such a word was read only to detect the end of the batch
            words.truncate(parts.iter().map(|(_, count)| count).sum());
            // the parts are taken from the end, so that the words are not copied if one part is the whole read
            for &(batch, count) in parts.iter().rev() {
                let rest = words.len() - count;
                found.push((batch, if rest == 0 { std::mem::take(&mut words) } else { words.split_off(rest) }));
            }
        }
        found.sort_by_key(|(batch, _)| *batch);
        let mut all = found.into_iter().map(|(_, words)| words).filter(|words| !words.is_empty());
        let mut first = all.next().unwrap_or_default();
        all.for_each(|words| first.extend(words));
        Ok(first)
    }
}
