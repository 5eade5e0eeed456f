//! Slots for rows, in chunks of memory. An arena grows by adding a chunk, so existing rows do not move.

use std::ops::Range;

/// Chunks of memory of type `M` that hold rows in slots; the first chunk holds the first slots. At least one chunk
/// exists.
pub(crate) struct Chunks<M> {
    chunks: Vec<Chunk<M>>,
    slots: usize,
}

struct Chunk<M> {
    /// Index of the chunk's first slot.
    first: usize,
    memory: M,
}

/// The place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlace {
    /// Index of the chunk.
    pub chunk: usize,
    /// Index of the row in the chunk.
    pub row: usize,
}

impl<M> Chunks<M> {
    /// Makes a single chunk of `slots` slots.
    pub fn new(memory: M, slots: usize) -> Self {
        Chunks { chunks: vec![Chunk { first: 0, memory }], slots }
    }

    /// Adds a chunk of `slots` slots.
    pub fn add(&mut self, memory: M, slots: usize) {
        self.chunks.push(Chunk { first: self.slots, memory });
        self.slots += slots;
    }

    /// The number of slots in all chunks together.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Lists the memories of all chunks, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &M> {
        self.chunks.iter().map(|chunk| &chunk.memory)
    }

    /// Returns the memory of a chunk.
    pub fn memory(&self, chunk: usize) -> &M {
        &self.chunks[chunk].memory
    }

    /// Returns the memory of a chunk for writing.
    pub fn memory_mut(&mut self, chunk: usize) -> &mut M {
        &mut self.chunks[chunk].memory
    }

    /// Finds the place of a slot's row.
    ///
    /// # Panics
    /// When the slot does not exist.
    pub fn place(&self, slot: u32) -> RowPlace {
        let slot = slot as usize;
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // the last chunk that begins at or before the slot. An empty chunk is never the result, because the next chunk
        // begins at the same slot
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= slot) - 1;
        RowPlace { chunk, row: slot - self.chunks[chunk].first }
    }

    /// Splits a range of slots by chunks. For each chunk that holds some of the slots, the result has the chunk's
    /// number and the range of the rows in the chunk.
    ///
    /// # Panics
    /// When a slot does not exist.
    pub fn runs(&self, slots: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + use<M> {
        assert!(slots.start <= slots.end && slots.end <= self.slots, "slots {slots:?} of {}", self.slots);
        let ends = self.chunks.iter().skip(1).map(|chunk| chunk.first).chain([self.slots]);
        let of_a_chunk = |(chunk, (first, end)): (usize, (usize, usize))| {
            let (from, to) = (slots.start.max(first), slots.end.min(end));
            (from < to).then(|| (chunk, from - first..to - first))
        };
        let firsts = self.chunks.iter().map(|chunk| chunk.first);
        firsts.zip(ends).enumerate().filter_map(of_a_chunk).collect::<Vec<_>>().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes chunks with these numbers of slots.
    fn chunks(slots: &[usize]) -> Chunks<usize> {
        let mut chunks = Chunks::new(0, slots[0]);
        slots.iter().enumerate().skip(1).for_each(|(at, &slots)| chunks.add(at, slots));
        chunks
    }

    #[test]
    fn each_slot_is_a_row_of_one_chunk() {
        for sizes in [&[5][..], &[1, 1, 2, 4], &[0, 3], &[3, 1, 7]] {
            let chunks = chunks(sizes);
            assert_eq!(chunks.slots(), sizes.iter().sum::<usize>());
            let expected =
                sizes.iter().enumerate().flat_map(|(chunk, &rows)| (0..rows).map(move |row| RowPlace { chunk, row }));
            let found: Vec<RowPlace> = (0..chunks.slots() as u32).map(|slot| chunks.place(slot)).collect();
            assert_eq!(found, expected.collect::<Vec<_>>(), "{sizes:?}");
            assert!(found.iter().all(|place| *chunks.memory(place.chunk) == place.chunk));
        }
    }

    #[test]
    fn neighbours_are_a_run_in_each_of_their_chunks() {
        let chunks = chunks(&[2, 1, 4]);
        let runs = |slots| chunks.runs(slots).collect::<Vec<_>>();
        assert_eq!(runs(0..7), [(0, 0..2), (1, 0..1), (2, 0..4)]);
        assert_eq!(runs(1..4), [(0, 1..2), (1, 0..1), (2, 0..1)]);
        assert_eq!(runs(4..6), [(2, 1..3)]);
        assert_eq!((runs(3..3), runs(7..7)), (vec![], vec![]));
    }

    #[test]
    #[should_panic(expected = "slot 7 of 7")]
    fn a_slot_beyond_the_last_chunk_is_a_bug() {
        chunks(&[2, 1, 4]).place(7);
    }
}
