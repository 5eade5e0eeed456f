//! The slots of one session's arena on one device: which are in use, and how many exist.
//!
//! Slots are given out singly, lowest first. So fragmentation cannot occur: an arena needs no more slots than were in
//! use at one time. The slots taken in one call are mostly neighbours, so one copy covers many of them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The records of an arena.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    capacity: usize,
    used: usize,
    /// Free runs of slots, from the first slot to the end (exclusive). No two runs are adjacent.
    free: BTreeMap<u32, u32>,
}

impl Slots {
    /// The number of slots that the arena must have.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Grows the arena to at least `capacity` slots.
    pub(crate) fn grow(&mut self, capacity: usize) {
        if capacity > self.capacity {
            self.add_free(self.capacity as u32, capacity as u32);
            self.capacity = capacity;
        }
    }

    /// Takes `count` slots. The arena grows if too few are free.
    pub(crate) fn take(&mut self, count: usize) -> Arc<[u32]> {
        self.grow(self.used + count);
        self.used += count;
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let (first, end) = self.free.pop_first().expect("free runs hold what is not used");
            let taken_end = end.min(first + (count - taken.len()) as u32);
            taken.extend(first..taken_end);
            if taken_end < end {
                self.free.insert(taken_end, end);
            }
        }
        taken.into()
    }

    /// Gives back slots from [`Slots::take`].
    pub(crate) fn give_back(&mut self, slots: &[u32]) {
        self.used -= slots.len();
        for run in slots.chunk_by(|a, b| a + 1 == *b) {
            self.add_free(run[0], run[run.len() - 1] + 1);
        }
    }

    fn add_free(&mut self, mut first: u32, mut end: u32) {
        if let Some((&before, &before_end)) = self.free.range(..=first).next_back() {
            assert!(before_end <= first, "slot {first} is free already");
            if before_end == first {
                self.free.remove(&before);
                first = before;
            }
        }
        if let Some(after_end) = self.free.remove(&end) {
            end = after_end;
        }
        self.free.insert(first, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_before_the_arena_grows() {
        let mut slots = Slots::default();
        let (a, b) = (slots.take(4), slots.take(4));
        assert_eq!((&a[..], &b[..], slots.capacity()), (&[0, 1, 2, 3][..], &[4, 5, 6, 7][..], 8));
        slots.give_back(&a);
        assert_eq!(slots.take(6)[..], [0, 1, 2, 3, 8, 9]);
        assert_eq!((slots.capacity(), slots.used()), (10, 10));
    }

    #[test]
    fn what_is_given_back_in_pieces_becomes_whole() {
        let mut slots = Slots::default();
        let pieces: Vec<_> = (0..5).map(|_| slots.take(3)).collect();
        [1, 3, 0, 4, 2].iter().for_each(|&at| slots.give_back(&pieces[at]));
        assert_eq!((slots.used(), slots.free.len()), (0, 1));
        slots.grow(20);
        assert_eq!(slots.take(20)[..], (0..20).collect::<Vec<_>>());
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn a_slot_that_is_given_back_twice_is_a_bug() {
        let mut slots = Slots::default();
        let (a, _) = (slots.take(2), slots.take(2));
        slots.give_back(&a);
        slots.give_back(&a);
    }
}
