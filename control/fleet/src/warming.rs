//! The warm join: a worker that starts opens the keys that its lanes will need before it is used. Pure: time is an argument.
//!
//! The worker tells in its presence that it warms up. Each API node answers with its most popular flows that the worker will
//! take. Words that are lost cost locality only: the worker then begins with fewer keys.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::broker::Rank;
use crate::presence::{Presence, Ranks, WORKERS_MAX};

/// A worker warms up for at most this time.
pub const WARMING_MAX: Duration = Duration::from_secs(10);
/// A worker waits so long for the words of API nodes: for the answers to its first two presences.
pub const WORDS_WITHIN: Duration = Duration::from_millis(1500);
/// Largest number of flows that an API node tells a worker.
pub const TOLD_MAX: usize = 256;
/// An API node tells a worker that still warms up again after this time, because the worker may have started again.
const TELLS_AGAIN: Duration = Duration::from_secs(3);
/// Largest number of flows that an API node remembers.
const POPULAR_MAX: usize = 4096;
/// The count of a flow is halved in this time.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// How often each flow was asked for lately. `T`: what is known of a flow.
pub struct Popular<T> {
    flows: HashMap<String, Asked<T>>,
}

struct Asked<T> {
    known: T,
    /// The decayed number of requests at the time `at`.
    count: f64,
    at: Instant,
}

impl<T> Asked<T> {
    fn count(&self, now: Instant) -> f64 {
        let halves = now.duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.count * (-halves).exp2()
    }
}

impl<T> Default for Popular<T> {
    fn default() -> Popular<T> {
        Popular { flows: HashMap::new() }
    }
}

impl<T: Clone> Popular<T> {
    /// Notes that a flow was asked for.
    pub fn asked(&mut self, flow: &str, known: T, now: Instant) {
        match self.flows.get_mut(flow) {
            Some(asked) => *asked = Asked { known, count: asked.count(now) + 1.0, at: now },
            None => {
                if self.flows.len() >= POPULAR_MAX {
                    self.forget_half(now);
                }
                self.flows.insert(flow.to_owned(), Asked { known, count: 1.0, at: now });
            }
        }
    }

    /// Forgets a flow that has ended.
    pub fn forget(&mut self, flow: &str) {
        self.flows.remove(flow);
    }

    /// Returns the flows, the most popular first.
    pub fn hottest(&self, now: Instant) -> Vec<(String, T)> {
        let mut flows: Vec<_> =
            self.flows.iter().map(|(flow, asked)| (asked.count(now), flow.as_str(), asked)).collect();
        // equal counts are ordered by name, so that two nodes with the same counts tell the same flows
        flows.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
        flows.into_iter().map(|(_, flow, asked)| (flow.to_owned(), asked.known.clone())).collect()
    }

    /// Forgets the less popular half of the flows.
    fn forget_half(&mut self, now: Instant) {
        let mut counts: Vec<f64> = self.flows.values().map(|asked| asked.count(now)).collect();
        let middle = counts.len() / 2;
        let (_, median, above) = counts.select_nth_unstable_by(middle, f64::total_cmp);
        let median = *median;
        // of the flows with the median's count, so many stay that half of all do
        let mut equal = above.iter().filter(|count| **count <= median).count();
        self.flows.retain(|_, asked| {
            let count = asked.count(now);
            let is_equal = count.total_cmp(&median).is_eq() && equal > 0;
            equal -= usize::from(is_equal);
            count > median || is_equal
        });
    }
}

/// Returns the popular flows that a worker will take once it is used. The flows of its own lane come first. The flows of lanes
/// of which the worker is the second follow. `hottest`: all popular flows, in the order of their counts. Takes some
/// milliseconds, because each flow is hashed with each worker.
pub fn wanted<T>(ranks: &Ranks, hottest: Vec<(String, T)>) -> Vec<(String, T)> {
    let (mut owned, mut seconded) = (Vec::new(), Vec::new());
    for flow in hottest {
        match ranks.of(flow.0.as_bytes()) {
            Some(Rank::Owner) => owned.push(flow),
            Some(_) => seconded.push(flow),
            None => {}
        }
    }
    owned.append(&mut seconded);
    owned.truncate(TOLD_MAX);
    owned
}

/// The workers that an API node has told which flows they will take.
#[derive(Default)]
pub struct Telling {
    told: HashMap<String, Instant>,
}

impl Telling {
    /// Hears the presence of a worker. Returns whether the worker is to be told now.
    pub fn hear(&mut self, presence: &Presence, now: Instant) -> bool {
        if !presence.warming {
            self.told.remove(&presence.worker);
            return false;
        }
        if self.told.len() >= WORKERS_MAX {
            self.told.clear();
        }
        let is_due = self.told.get(&presence.worker).is_none_or(|told| now.duration_since(*told) >= TELLS_AGAIN);
        if is_due {
            self.told.insert(presence.worker.clone(), now);
        }
        is_due
    }
}

/// A worker from its start until it is used.
pub struct Warming {
    begun: Instant,
    /// Keys that the worker still has to open.
    left: usize,
    is_over: bool,
}

impl Warming {
    /// A worker starts.
    pub fn begin(now: Instant) -> Warming {
        Warming { begun: now, left: 0, is_over: false }
    }

    /// API nodes named this many keys that are not open yet.
    pub fn told(&mut self, keys: usize) {
        self.left += keys;
    }

    /// One of these keys is open, or could not be opened.
    pub fn opened(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Whether the worker is used from now on. A worker that is used does not warm up again.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let since = now.duration_since(self.begun);
        self.is_over |= since >= WARMING_MAX || (since >= WORDS_WITHIN && self.left == 0);
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::{Load, SPEAKS, Workers};

    const fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn presence(worker: &str, warming: bool) -> Presence {
        Presence {
            worker: worker.to_owned(),
            pool: "default".to_owned(),
            weight: 1,
            speaks: SPEAKS,
            draining: false,
            warming,
            version: "1".to_owned(),
            load: Load::default(),
        }
    }

    #[test]
    fn counts_decay_and_the_least_popular_flows_are_forgotten() {
        let (mut popular, now) = (Popular::default(), Instant::now());
        (0..8).for_each(|_| popular.asked("once", 1, now));
        let later = now + HALF_LIFE * 3;
        (0..3).for_each(|_| popular.asked("now", 2, later));
        assert_eq!(popular.hottest(later), [("now".to_owned(), 2), ("once".to_owned(), 1)]);
        for flow in 0..10 * POPULAR_MAX {
            popular.asked(&flow.to_string(), 0, later);
            assert!(popular.flows.len() <= POPULAR_MAX);
        }
        assert_eq!(popular.hottest(later)[0].0, "now");
        popular.forget("now");
        assert_ne!(popular.hottest(later)[0].0, "now");
    }

    #[test]
    fn a_worker_is_told_the_flows_that_it_takes_once_it_is_used() {
        let (mut workers, mut popular, now) = (Workers::default(), Popular::default(), Instant::now());
        for worker in ["a", "b", "c"] {
            workers.hear(presence(worker, false), now);
        }
        let flows: Vec<String> = (0..300).map(|flow| flow.to_string()).collect();
        for (at, flow) in flows.iter().enumerate() {
            (0..=at % 3).for_each(|_| popular.asked(flow, (), now));
        }
        let joins = presence("d", true);
        workers.hear(joins.clone(), now);
        // until then, the worker owns nothing
        assert!(flows.iter().all(|flow| workers.owner("default", flow.as_bytes(), 1, now) != Some("d")));
        let wanted = wanted(&workers.ranks_of(&joins, now), popular.hottest(now));
        let wanted: Vec<&str> = wanted.iter().map(|(flow, ())| flow.as_str()).collect();
        workers.hear(presence("d", false), now);
        let owned = |flow: &str| workers.owner("default", flow.as_bytes(), 1, now) == Some("d");
        let lanes = workers.seconded_by("d", "default", now);
        let seconded = |flow: &str| {
            let owner = workers.owner("default", flow.as_bytes(), 1, now).unwrap();
            lanes.iter().any(|lane| lane == owner)
        };
        let first: usize = flows.iter().filter(|flow| owned(flow)).count();
        assert!(first > 30 && wanted[..first].iter().all(|flow| owned(flow)));
        assert!(wanted[first..].iter().all(|flow| seconded(flow)));
        assert_eq!(wanted.len(), first + flows.iter().filter(|flow| seconded(flow)).count());
        // flows of the worker's own lane come first, in the order of their counts
        let popularity = |flow: &str| flow.parse::<usize>().unwrap() % 3;
        assert!(wanted[..first].is_sorted_by_key(|flow| std::cmp::Reverse(popularity(flow))));
    }

    #[test]
    fn a_worker_is_told_once_and_again_if_it_still_warms_up() {
        let (mut telling, now) = (Telling::default(), Instant::now());
        assert!(!telling.hear(&presence("a", false), now));
        assert!(telling.hear(&presence("a", true), now));
        assert!(telling.hear(&presence("b", true), now));
        assert!(!telling.hear(&presence("a", true), now + s(1)));
        assert!(telling.hear(&presence("a", true), now + TELLS_AGAIN));
        // a worker that was used and starts again
        assert!(!telling.hear(&presence("b", false), now + s(1)));
        assert!(telling.hear(&presence("b", true), now + s(2)));
    }

    #[test]
    fn a_worker_is_used_when_its_keys_are_open_and_after_ten_seconds_at_the_latest() {
        let now = Instant::now();
        let mut nothing_to_open = Warming::begin(now);
        assert!(!nothing_to_open.is_over(now + WORDS_WITHIN / 2) && nothing_to_open.is_over(now + WORDS_WITHIN));
        let mut opens = Warming::begin(now);
        opens.told(2);
        opens.opened();
        assert!(!opens.is_over(now + s(5)));
        opens.opened();
        assert!(opens.is_over(now + s(5)));
        // from now on, further words change nothing
        opens.told(1);
        assert!(opens.is_over(now + s(5)));
        let mut never_opens = Warming::begin(now);
        never_opens.told(1);
        assert!(!never_opens.is_over(now + s(9)) && never_opens.is_over(now + WARMING_MAX));
    }
}
