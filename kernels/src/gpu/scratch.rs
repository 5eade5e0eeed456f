//! Scratch memory: one allocation from which a sequence of launches takes ranges. The next sequence takes ranges of the
//! same allocation.

use super::{Buffer, Gpu, View, ViewOf};
use crate::error::Result;

/// The banks of a card's scratch memory. All batches share them, because the card runs one batch after another. Each
/// kernel reads one bank and writes another, because a WGSL kernel cannot read one range of a buffer and write another
/// range of it.
pub type Banks<G> = [Scratch<G>; 4];

/// One buffer, which grows to the largest request. The words are not cleared between sequences, because a kernel reads
/// only words that were written after its ranges were taken. The buffer is overwritten with zeros on drop.
pub struct Scratch<G: Gpu>(Option<G::Buf>);

impl<G: Gpu> Default for Scratch<G> {
    fn default() -> Self {
        Scratch(None)
    }
}

impl<G: Gpu> Scratch<G> {
    /// Takes one range for each of these numbers of words. The words may have any values. Ranges that were taken before
    /// are no longer valid.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when the card has no room for all ranges in one buffer.
    pub fn take<const RANGES: usize>(&mut self, gpu: &G, words: [usize; RANGES]) -> Result<[ViewOf<'_, G>; RANGES]> {
        let alignment = gpu.properties().alignment_words as usize;
        let mut end = 0;
        let ranges = words.map(|words| {
            let first = end;
            end += words.next_multiple_of(alignment);
            first..first + words
        });
        if self.0.as_ref().is_none_or(|buf| buf.words() < end) {
            // free the smaller buffer before the larger one is allocated
            self.0 = None;
            self.0 = Some(super::scratch(gpu, end)?);
        }
        let all = View::all(self.0.as_ref().expect("it was just made"));
        Ok(ranges.map(|range| all.part(range)))
    }
}
