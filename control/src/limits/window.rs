//! A sliding window: so many hits of a subject within a time, in memory.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Timestamp;

/// Subjects remembered at once; when that many are within their window, new ones must wait.
const SUBJECTS_MAX: usize = 100_000;

/// Counts hits within a sliding window.
pub struct Window<S> {
    hits_max: usize,
    length: Duration,
    /// Hits of each subject, oldest first.
    subjects: Mutex<HashMap<S, VecDeque<Timestamp>>>,
}

impl<S: Eq + Hash> Window<S> {
    /// At most `hits_max` hits of a subject within any such length of time.
    pub fn new(hits_max: usize, length: Duration) -> Self {
        Self { hits_max, length, subjects: Mutex::default() }
    }

    /// Counts a hit, or says how long until the next one would be counted; a refused one is not.
    pub fn hit(&self, subject: S, now: Timestamp) -> Result<(), Duration> {
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        // a hit far in the future was counted under a clock that has been set back since
        let over = |at: &Timestamp| !now.is_near(*at, self.length);
        if subjects.len() >= SUBJECTS_MAX && !subjects.contains_key(&subject) {
            subjects.retain(|_, hits| hits.back().is_some_and(|last| !over(last)));
            if subjects.len() >= SUBJECTS_MAX {
                return Err(self.length);
            }
        }
        let hits = subjects.entry(subject).or_default();
        while hits.front().is_some_and(over) {
            hits.pop_front();
        }
        if let Some(oldest) = hits.front().filter(|_| hits.len() >= self.hits_max) {
            return Err(self.length.saturating_sub(now.since(*oldest)));
        }
        hits.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(1).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a22_the_sixth_hit_within_the_window_waits_until_the_first_is_over() {
        let window = Window::new(5, MINUTE);
        for second in 0..5 {
            window.hit("a", at(10 * second)).unwrap();
        }
        assert_eq!(window.hit("a", at(45)), Err(Duration::from_secs(15)));
        window.hit("b", at(45)).unwrap();
        assert_eq!(window.hit("a", at(59)), Err(Duration::from_secs(1)));
        window.hit("a", at(60)).unwrap();
        // the window slides: the next to leave is the second hit
        assert_eq!(window.hit("a", at(60)), Err(Duration::from_secs(10)));
    }

    #[test]
    fn a22_hits_before_the_clock_was_set_back_do_not_count_for_longer_than_the_window() {
        let window = Window::new(2, MINUTE);
        window.hit("a", at(7200)).unwrap();
        window.hit("a", at(7200)).unwrap();
        window.hit("a", at(3600)).unwrap();
        window.hit("a", at(3600)).unwrap();
        assert_eq!(window.hit("a", at(3601)), Err(Duration::from_secs(59)));
    }

    #[test]
    fn memory_is_bounded_and_what_is_over_makes_room() {
        let window = Window::new(1, MINUTE);
        for subject in 0..SUBJECTS_MAX {
            window.hit(subject, at(0)).unwrap();
        }
        assert_eq!(window.hit(SUBJECTS_MAX, at(59)), Err(MINUTE));
        window.hit(SUBJECTS_MAX, at(60)).unwrap();
        assert_eq!(window.subjects.lock().unwrap().len(), 1);
    }
}
