//! Token buckets (readings L6): each bucket holds as many tokens as it refills in a second. Nodes with a cache store
//! share their buckets, and so do the API nodes of a fleet, through the database ([`super::shares`]). While the cache
//! store or the database does not answer, each node has its own buckets with the same rate (readings L10).
//!
//! A bucket is stored as one number: the moment when it will be full again. A full bucket need not be stored.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::shares::{BUCKETS_MAX, Callers, SECOND_US, Shares};
use crate::cache_store::CacheStore;
use crate::clock::Timestamp;

/// Where nodes share their buckets.
#[derive(Default)]
pub enum Place {
    /// Each node has its own buckets.
    #[default]
    Node,
    CacheStore(CacheStore),
    Database(Shares),
}

/// The token buckets that are not full.
#[derive(Default)]
pub struct Bursts {
    place: Place,
    /// The node's own buckets.
    full_at: Mutex<HashMap<Box<str>, i64>>,
}

impl Bursts {
    /// Starts with all of the node's own buckets full.
    pub fn new(place: Place) -> Bursts {
        Bursts { place, full_at: Mutex::default() }
    }

    /// Takes a token. If the bucket has none, the error is the time until the next token.
    pub async fn take(
        &self,
        callers: Callers,
        subject: &str,
        rate_a_second: u32,
        now: Timestamp,
    ) -> Result<(), Duration> {
        let token_us = SECOND_US / i64::from(rate_a_second.max(1));
        let shared = match &self.place {
            Place::Node => None,
            Place::CacheStore(cache) => {
                let wait = cache.take_token(subject, token_us).await.ok();
                wait.map(|wait| if wait.is_zero() { Ok(()) } else { Err(wait) })
            }
            Place::Database(shares) => shares.take(callers, subject, rate_a_second, now).await,
        };
        shared.unwrap_or_else(|| self.take_here(subject, token_us, now))
    }

    fn take_here(&self, subject: &str, token_us: i64, now: Timestamp) -> Result<(), Duration> {
        let mut buckets = self.full_at.lock();
        // A bucket is full again within about a second. A stored time further ahead was written before the clock was
        // set back, so ignore it.
        let known = buckets.get_mut(subject);
        let known_full_at = known.as_ref().map(|full_at| **full_at).filter(|full_at| *full_at <= now.0 + 2 * SECOND_US);
        let full_at = known_full_at.map_or(now.0, |full_at| full_at.max(now.0)) + token_us;
        let wait_us = full_at - now.0 - SECOND_US;
        if wait_us > 0 {
            return Err(Duration::from_micros(wait_us as u64));
        }
        match known {
            Some(known) => *known = full_at,
            None => {
                if buckets.len() >= BUCKETS_MAX {
                    buckets.retain(|_, full_at| *full_at > now.0);
                }
                // If the memory for buckets is still full, the bucket of a new caller is not stored. Such a caller is
                // not limited until there is room for the bucket.
                if buckets.len() < BUCKETS_MAX {
                    buckets.insert(subject.into(), full_at);
                }
            }
        }
        Ok(())
    }

    /// Removes full buckets from memory.
    pub fn sweep(&self, now: Timestamp) {
        self.full_at.lock().retain(|_, full_at| *full_at > now.0);
        if let Place::Database(shares) = &self.place {
            shares.sweep(now);
        }
    }

    /// Removes full buckets from the database.
    pub async fn forget_full(&self) {
        if let Place::Database(shares) = &self.place {
            shares.forget_full().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::*;

    #[test]
    fn l6_a_bucket_gives_its_rate_at_once_and_then_one_by_one() {
        let bursts = Bursts::default();
        let take = |subject, now| bursts.take_here(subject, SECOND_US / 5, now);
        let now = Timestamp(5_000_000);
        for _ in 0..5 {
            assert_eq!(take("a", now), Ok(()));
        }
        assert_eq!(take("a", now), Err(Duration::from_millis(200)));
        assert_eq!(take("b", now), Ok(()));
        let later = now.plus(Duration::from_millis(200));
        assert_eq!(take("a", later), Ok(()));
        assert_eq!(take("a", later), Err(Duration::from_millis(200)));
        let much_later = now.plus(Duration::from_secs(60));
        assert_eq!((0..9).filter(|_| take("a", much_later).is_ok()).count(), 5);
    }

    #[tokio::test]
    async fn l10_while_the_database_does_not_answer_a_node_has_buckets_of_the_same_rate() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&format!("sqlite:{}", folder.path().join("test.db").display())).await.unwrap();
        let bursts = Bursts::new(Place::Database(Shares::new(store.clone())));
        store.close().await;
        let mut taken = 0;
        for _ in 0..9 {
            taken += i64::from(bursts.take(Callers::Known, "a", 5, Timestamp(5_000_000)).await.is_ok());
        }
        assert_eq!(taken, 5);
    }

    #[test]
    fn l6_a_clock_that_is_set_back_locks_nobody_out() {
        let now = Timestamp(1_000_000_000 * SECOND_US);
        for back_s in [2, 3600, 86_400, 40_000_000] {
            let bursts = Bursts::default();
            (0..5).for_each(|_| bursts.take_here("a", SECOND_US / 5, now).unwrap());
            let earlier = Timestamp(now.0 - back_s * SECOND_US);
            assert_eq!((0..9).filter(|_| bursts.take_here("a", SECOND_US / 5, earlier).is_ok()).count(), 5);
            assert_eq!(bursts.take_here("a", SECOND_US / 5, earlier.plus(Duration::from_millis(200))), Ok(()));
        }
        // a request whose clock reading is a second before that of the previous requests still finds the bucket empty
        let bursts = Bursts::default();
        (0..5).for_each(|_| bursts.take_here("a", SECOND_US / 5, now).unwrap());
        assert!(bursts.take_here("a", SECOND_US / 5, Timestamp(now.0 - SECOND_US)).is_err());
    }

    #[test]
    fn a_flood_of_callers_is_not_remembered_for_ever() {
        let bursts = Bursts::default();
        let mut now = Timestamp(0);
        for caller in 0..3 * BUCKETS_MAX {
            now = now.plus(Duration::from_micros(100));
            assert_eq!(bursts.take_here(&caller.to_string(), SECOND_US / 5, now), Ok(()));
        }
        assert!(bursts.full_at.lock().len() <= BUCKETS_MAX);
        bursts.sweep(now.plus(Duration::from_secs(1)));
        assert!(bursts.full_at.lock().is_empty());
    }
}
