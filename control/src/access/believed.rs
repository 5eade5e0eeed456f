//! A cache of what was read of the database, each entry for a moment (readings A17).
//!
//! An answer that was read before an invalidation must not be stored after it: a generation number tells.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Timestamp;

/// Answers remembered at once.
const ANSWERS_MAX: usize = 10_000;

/// Short memory for answers of the database, by the digest of the key or token that was asked about.
pub struct Believed<T> {
    within: Duration,
    known: Mutex<Remembered<T>>,
}

/// Answers and when they were read.
struct Remembered<T> {
    answers: HashMap<[u8; 32], (Timestamp, T)>,
    generation: u64,
}

impl<T: Clone> Believed<T> {
    /// Answers that are believed for so long.
    pub fn new(within: Duration) -> Believed<T> {
        Believed { within, known: Mutex::new(Remembered { answers: HashMap::new(), generation: 0 }) }
    }

    /// The answer, if it was read a moment ago.
    pub fn get(&self, digest: &[u8; 32], now: Timestamp) -> Option<T> {
        let known = self.known.lock();
        known
            .answers
            .get(digest)
            .filter(|(read_at, _)| now.is_near(*read_at, self.within))
            .map(|(_, answer)| answer.clone())
    }

    /// Grows with each invalidation. To be taken before the database is asked.
    pub fn generation(&self) -> u64 {
        self.known.lock().generation
    }

    /// Stores an answer, unless there was an invalidation since this generation.
    pub fn insert(&self, digest: [u8; 32], answer: T, generation: u64, now: Timestamp) {
        let mut known = self.known.lock();
        if known.answers.len() >= ANSWERS_MAX {
            known.answers.clear();
        }
        if known.generation == generation {
            known.answers.insert(digest, (now, answer));
        }
    }

    /// Removes such answers.
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
