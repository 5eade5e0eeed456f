//! Scratch memory: one allocation, from which a sequence of launches takes ranges. The next sequence takes others.

use super::{Buffer, Gpu, View, ViewOf};
use crate::error::Result;

/// One buffer, which grows with what is asked of it. Its words are not cleared between sequences: a kernel reads only what was
/// written since its ranges were taken. They are overwritten with zeros when the buffer is dropped.
pub struct Scratch<G: Gpu>(Option<G::Buf>);

impl<G: Gpu> Default for Scratch<G> {
    fn default() -> Self {
        Scratch(None)
    }
}

impl<G: Gpu> Scratch<G> {
    /// Ranges of so many words, of any contents. What was taken before is given back.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when the card has no room for all of them in one buffer.
    pub fn take<const RANGES: usize>(&mut self, gpu: &G, words: [usize; RANGES]) -> Result<[ViewOf<'_, G>; RANGES]> {
        let alignment = gpu.card().alignment_words as usize;
        let mut end = 0;
        let ranges = words.map(|words| {
            let first = end;
            end += words.next_multiple_of(alignment);
            first..first + words
        });
        if self.0.as_ref().is_none_or(|buf| buf.words() < end) {
            // the smaller one goes first
            self.0 = None;
            self.0 = Some(super::scratch(gpu, end)?);
        }
        let all = View::all(self.0.as_ref().expect("it was just made"));
        Ok(ranges.map(|range| all.part(range)))
    }
}
