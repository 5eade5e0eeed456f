//! A hash table of numbers. Each number stands for a list of words that the caller keeps.
//!
//! A place of the table is one word, which holds a number and, in the remaining bits, a part of the hash of the
//! number's words. This part rules out almost all wrong numbers, so the words of wrong numbers are rarely read, and the
//! table of a large circuit stays in the caches. The hash is the standard library's with a random key, so a netlist
//! cannot be written to make it collide. Results do not depend on the key.

use std::hash::{BuildHasher, RandomState};

/// A place that holds no number.
const EMPTY: u32 = u32::MAX;

pub(in crate::tfhe) struct Table {
    /// The places of the table. Their number is a power of two, and at least one and a half times the number of entries.
    places: Vec<u32>,
    /// How many bits of a place hold the number.
    number_bits: u32,
    hasher: RandomState,
    free: usize,
}

impl Table {
    /// A table for at most `numbers` numbers, each below `bound`.
    ///
    /// # Panics
    /// When numbers below the bound need all bits of a place.
    pub fn new(numbers: usize, bound: usize) -> Table {
        // no number below `bound` has all `number_bits` bits set, so all bits set mark an empty place
        let number_bits = usize::BITS - bound.leading_zeros();
        assert!(number_bits < u32::BITS, "numbers below 2^31 - 1");
        let places = vec![EMPTY; (numbers + numbers / 2 + 1).next_power_of_two()];
        Table { places, number_bits, hasher: RandomState::new(), free: numbers }
    }

    /// Finds the number that was inserted with these words. Calls `sought` for each number whose place has the hash of
    /// these words, until `sought` returns true. Returns `None` if no call returned true.
    pub fn find(&self, words: &[u32], sought: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hasher.hash_one(words);
        let number_mask = (1 << self.number_bits) - 1;
        let mut at = hash as usize;
        loop {
            let place = self.places[at & (self.places.len() - 1)];
            if place == EMPTY {
                return None;
            }
            let number = place & number_mask;
            if place == self.place(hash, number) && sought(number) {
                return Some(number);
            }
            at = at.wrapping_add(1);
        }
    }

    /// Inserts a number under the hash of these words, after the earlier numbers with the same hash.
    ///
    /// # Panics
    /// When the table is full.
    pub fn insert(&mut self, words: &[u32], number: u32) {
        self.free = self.free.checked_sub(1).expect("no more numbers than the table is for");
        let (hash, mask) = (self.hasher.hash_one(words), self.places.len() - 1);
        let mut at = hash as usize & mask;
        while self.places[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.places[at] = self.place(hash, number);
    }

    /// The word of a place that holds this number: the number and the upper bits of the hash of the number's words.
    fn place(&self, hash: u64, number: u32) -> u32 {
        debug_assert!(number < 1 << self.number_bits, "a number below the bound");
        (hash >> 32) as u32 >> self.number_bits << self.number_bits | number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_among_those_that_collide() {
        let mut table = Table::new(100, 100);
        (0..100).for_each(|number| table.insert(&[7], number));
        assert!((0..100).all(|number| table.find(&[7], |found| found == number) == Some(number)));
        assert_eq!(table.find(&[7], |found| found == 100), None);
    }

    #[test]
    fn what_is_sought_is_looked_at_only_under_its_own_hash() {
        let mut table = Table::new(1000, 1000);
        (0..1000).for_each(|number| table.insert(&[number, number * number], number));
        let looks = std::cell::Cell::new(0);
        for number in 0..1000 {
            let found = table.find(&[number, number * number], |found| {
                looks.set(looks.get() + 1);
                found == number
            });
            assert_eq!(found, Some(number));
        }
        assert!(looks.get() < 1010, "{}", looks.get());
    }
}
