//! A cache of values read from the database. Each value is kept for a short time (readings A17).
//!
//! A value that was read before an invalidation must not be stored after the invalidation, so each invalidation begins
//! a new generation.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Timestamp;

/// Largest number of values in the cache.
const ANSWERS_MAX: usize = 10_000;

/// A cache of values from the database. A value is found by the digest of its key or token.
pub struct Believed<T> {
    within: Duration,
    known: Mutex<Remembered<T>>,
}

/// The values, and when each was read.
struct Remembered<T> {
    answers: HashMap<[u8; 32], (Timestamp, T)>,
    generation: u64,
}

impl<T: Clone> Believed<T> {
    /// Creates an empty cache that keeps each value for the time `within`.
    pub fn new(within: Duration) -> Believed<T> {
        Believed { within, known: Mutex::new(Remembered { answers: HashMap::new(), generation: 0 }) }
    }

    /// Returns the cached value, if it is not too old.
    pub fn get(&self, digest: &[u8; 32], now: Timestamp) -> Option<T> {
        let known = self.known.lock();
        known
            .answers
            .get(digest)
            .filter(|(read_at, _)| now.is_near(*read_at, self.within))
            .map(|(_, answer)| answer.clone())
    }

    /// Returns the present generation. Call this before the value is read from the database, and give the generation to
    /// [`Believed::insert`].
    pub fn generation(&self) -> u64 {
        self.known.lock().generation
    }

    /// Stores a value, unless the cache was invalidated since `generation` began.
    pub fn insert(&self, digest: [u8; 32], answer: T, generation: u64, now: Timestamp) {
        let mut known = self.known.lock();
        if known.answers.len() >= ANSWERS_MAX {
            known.answers.clear();
        }
        if known.generation == generation {
            known.answers.insert(digest, (now, answer));
        }
    }

    /// Removes the values for which `such` is true, and begins a new generation.
    pub fn forget(&self, such: impl Fn(&T) -> bool) {
        let mut known = self.known.lock();
        known.answers.retain(|_, (_, answer)| !such(answer));
        known.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a17_an_answer_is_believed_for_a_second_and_not_under_a_clock_that_was_set_back() {
        let (believed, now) = (Believed::new(SECOND), Timestamp(1_000_000_000));
        believed.insert([1; 32], "mine", believed.generation(), now);
        assert_eq!(believed.get(&[1; 32], Timestamp(now.0 + 999_999)), Some("mine"));
        assert_eq!(believed.get(&[2; 32], now), None);
        assert_eq!(believed.get(&[1; 32], now.plus(SECOND)), None);
        assert_eq!(believed.get(&[1; 32], Timestamp(now.0 - 1_000_000)), None);
    }

    #[test]
    fn a17_what_was_asked_before_something_was_forgotten_is_not_remembered_after() {
        let (believed, now) = (Believed::new(SECOND), Timestamp(0));
        for (digest, answer) in [([1; 32], "revoked"), ([2; 32], "valid")] {
            believed.insert(digest, answer, believed.generation(), now);
        }
        let asked = believed.generation();
        believed.forget(|answer| *answer == "revoked");
        assert_eq!([1, 2].map(|digest| believed.get(&[digest; 32], now)), [None, Some("valid")]);
        believed.insert([1; 32], "revoked", asked, now);
        assert_eq!(believed.get(&[1; 32], now), None);
    }

    #[test]
    fn a_flood_of_answers_fills_no_memory() {
        let (believed, now) = (Believed::new(SECOND), Timestamp(0));
        for number in 0..3 * ANSWERS_MAX {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            believed.insert(digest, (), 0, now);
            assert!(believed.known.lock().answers.len() <= ANSWERS_MAX);
        }
    }
}
