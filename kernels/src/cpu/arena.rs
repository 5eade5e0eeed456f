//! Rows in slots, in the CPU's memory.

use std::ops::Range;

use crate::cpu::chunks::{Chunks, RowPlace};
use crate::cpu::memory::Words;
use crate::error::Result;

/// `[slots][row_words]` words, in chunks. Overwritten on drop.
pub struct Arena {
    chunks: Chunks<Words>,
    /// Words of a row.
    pub(crate) row_words: usize,
}

impl Arena {
    pub(crate) fn zeroed(row_words: usize, slots: usize) -> Result<Arena> {
        Ok(Arena { chunks: Chunks::new(Words::zeroed(slots * row_words)?, slots), row_words })
    }

    /// Adds slots until the arena has `slots` slots.
    ///
    /// # Panics
    /// When the arena already has more slots.
    pub(crate) fn grow(&mut self, slots: usize) -> Result<()> {
        let more = slots.checked_sub(self.chunks.slots()).expect("an arena does not shrink");
        if more > 0 {
            self.chunks.add(Words::zeroed(more * self.row_words)?, more);
        }
        Ok(())
    }

    /// Copies whole rows to the slots from `first` on.
    ///
    /// # Panics
    /// When the arena has too few slots.
    pub(crate) fn write(&mut self, first: u32, words: &[u32]) {
        assert!(words.len().is_multiple_of(self.row_words), "whole rows");
        let (first, mut rest) = (first as usize, words);
        for (chunk, rows) in self.chunks.runs(first..first + words.len() / self.row_words) {
            let (of_chunk, of_others) = rest.split_at(rows.len() * self.row_words);
            self.chunks.memory_mut(chunk)[rows.start * self.row_words..][..of_chunk.len()].copy_from_slice(of_chunk);
            rest = of_others;
        }
    }

    /// Returns the words of a slot.
    ///
    /// # Panics
    /// When the slot does not exist.
    pub(crate) fn row(&self, slot: u32) -> &[u32] {
        let place = self.chunks.place(slot);
        &self.chunks.memory(place.chunk)[self.words(place)]
    }

    pub(crate) fn row_mut(&mut self, slot: u32) -> &mut [u32] {
        let place = self.chunks.place(slot);
        let words = self.words(place);
        &mut self.chunks.memory_mut(place.chunk)[words]
    }

    /// Borrows many rows at once. Returns the rows of each list of slots in `reads`, and the rows of the slots in
    /// `writes`, which the caller may change.
    ///
    /// # Panics
    /// When a slot does not exist, or a written slot is also read or is written twice.
    pub(crate) fn rows(&mut self, reads: &[Vec<u32>], writes: &[u32]) -> (Vec<Vec<&[u32]>>, Vec<&mut [u32]>) {
        let mut written = writes.to_vec();
        written.sort_unstable();
        assert!(written.windows(2).all(|pair| pair[0] < pair[1]), "a slot is written once");
        let is_written = |slot: &u32| written.binary_search(slot).is_ok();
        assert!(!reads.iter().flatten().any(is_written), "a slot that is written is not read");
        // the addresses of chunks are taken before any row, because a later borrow of a chunk would invalidate the rows
        // in it
        let chunks = self.chunks.iter().len();
        let starts: Vec<_> = (0..chunks).map(|chunk| self.chunks.memory_mut(chunk).as_mut_ptr()).collect();
        let start_of = |slot: u32| {
            let place = self.chunks.place(slot);
            starts[place.chunk].wrapping_add(self.words(place).start)
        };
        // SAFETY: the row of a slot lies within the slot's chunk. No slot is both read and written. The rows live no
        // longer than the borrow of the arena.
        let read = |&slot: &u32| unsafe { std::slice::from_raw_parts(start_of(slot), self.row_words) };
        // SAFETY: as for `read`. Each slot is written only once, so the written rows do not overlap.
        let write = |&slot: &u32| unsafe { std::slice::from_raw_parts_mut(start_of(slot), self.row_words) };
        let of_list = |slots: &Vec<u32>| slots.iter().map(read).collect();
        (reads.iter().map(of_list).collect(), writes.iter().map(write).collect())
    }

    /// Returns the range of a row's words in its chunk.
    fn words(&self, place: RowPlace) -> Range<usize> {
        place.row * self.row_words..(place.row + 1) * self.row_words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn rows_stay_where_they_are_when_an_arena_grows() {
        let mut arena = Arena::zeroed(3, 2).expect("room");
        arena.write(0, &[1, 2, 3, 4, 5, 6]);
        let places = |arena: &Arena| [0, 1].map(|slot| arena.row(slot).as_ptr());
        let before = places(&arena);
        for slots in [2, 3, 6, 100_000] {
            arena.grow(slots).expect("room");
            assert_eq!(places(&arena), before);
        }
        assert_eq!((arena.row(1), arena.row(2), arena.row(99_999)), (&[4, 5, 6][..], &[0; 3][..], &[0; 3][..]));
        // this write goes across the ends of chunks
        let words: Vec<u32> = (10..25).collect();
        arena.write(1, &words);
        let found: Vec<u32> = (0..7).flat_map(|slot| arena.row(slot).to_vec()).collect();
        assert_eq!(found, [&[1, 2, 3][..], &words, &[0; 3]].concat());
    }

    #[test]
    fn an_arena_that_finds_no_room_to_grow_is_as_it_was() {
        let mut arena = Arena::zeroed(3, 2).expect("room");
        arena.write(0, &[1, 2, 3, 4, 5, 6]);
        assert!(matches!(arena.grow(1 << 50), Err(Error::OutOfMemory(_))));
        assert_eq!((arena.chunks.slots(), arena.row(1)), (2, &[4, 5, 6][..]));
        arena.grow(3).expect("room");
    }
}
