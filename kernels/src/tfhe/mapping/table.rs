//! A table of numbers by the hash of what they stand for.
//!
//! A place is looked for in few steps: where too many hashes collide, a number is not kept, and what it stands for is not
//! found again. So a netlist that was made to collide costs no time, and every run finds the same.

/// Places after a hash's own that are looked at.
const STEPS: usize = 16;

/// A place without a number.
const EMPTY: u32 = u32::MAX;

pub(super) struct Table {
    places: Vec<u32>,
}

impl Table {
    /// A table for about this many numbers.
    pub fn new(numbers: usize) -> Table {
        Table { places: vec![EMPTY; (2 * numbers).next_power_of_two().max(2 * STEPS)] }
    }

    /// The number under these words that is the one sought.
    pub fn find(&self, words: &[u32], sought: impl Fn(u32) -> bool) -> Option<u32> {
        let places = self.places_of(words).map(|place| self.places[place]);
        places.take_while(|&number| number != EMPTY).find(|&number| sought(number))
    }

    /// Keeps a number, behind those under the same hash.
    pub fn insert(&mut self, words: &[u32], number: u32) {
        let free = self.places_of(words).find(|&place| self.places[place] == EMPTY);
        if let Some(place) = free {
            self.places[place] = number;
        }
    }

    fn places_of(&self, words: &[u32]) -> impl Iterator<Item = usize> + use<> {
        let (mask, hash) = (self.places.len() - 1, hash(words) as usize);
        (0..STEPS).map(move |step| (hash + step) & mask)
    }
}

fn hash(words: &[u32]) -> u64 {
    let mixed = words.iter().fold(words.len() as u64, |hash, &word| {
        (hash.rotate_left(23) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_among_those_that_collide_and_at_worst_are_not_kept() {
        let mut table = Table::new(1);
        (0..100).for_each(|number| table.insert(&[7], number));
        assert_eq!(table.find(&[7], |number| number == STEPS as u32 - 1), Some(STEPS as u32 - 1));
        assert_eq!(table.find(&[7], |number| number == STEPS as u32), None);
    }
}
