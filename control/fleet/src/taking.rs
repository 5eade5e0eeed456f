//! The memory of a worker about the work that it took. A message that comes twice is computed once. Pure: time is an argument.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

/// How long an answer is remembered, for a message whose end did not reach the broker.
pub const REMEMBERED: Duration = Duration::from_secs(60);
/// Memory for answers.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// Largest number of ids that are remembered.
const IDS_MAX: usize = 1 << 16;
/// Work that this many workers did not finish is failed by the next one. Such work may be what stops the workers.
pub const DELIVERIES_MAX: u64 = 3;
/// The same for operations, which are worth more attempts.
pub const OPERATION_DELIVERIES_MAX: u64 = 5;

/// Whether a worker gives back a message that it cannot use now. A message of a later delivery is ended, and the member is
/// asked for another one, because the broker counts a delivery that was given back like one whose worker fell silent.
pub fn gives_back(deliveries: u64) -> bool {
    deliveries <= 1
}

/// The treatment of a message by a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Compute the work.
    Compute,
    /// This worker computes the work already.
    Runs,
    /// The work has ended: send this answer again.
    Answer(Bytes),
    /// The work was cancelled: drop the message.
    Drop,
    /// As many workers did not finish the work as may try.
    Poison,
}

/// The work that a worker took.
pub struct Taking {
    deliveries_max: u64,
    /// Whether a message of cancelled work is dropped when it comes later. The database knows which operations are cancelled,
    /// so an operation that comes again is wanted.
    remembers_cancels: bool,
    known: HashMap<String, Known>,
    /// The ids that have ended, oldest first.
    ended: VecDeque<(Instant, String)>,
    bytes: usize,
    /// Number of the known ids that run.
    running: usize,
}

enum Known {
    Runs,
    Ended(Bytes),
    Cancelled,
}

impl Default for Taking {
    fn default() -> Taking {
        Taking::new(DELIVERIES_MAX, true)
    }
}

impl Taking {
    /// Begins with no work. Work that `deliveries_max` workers did not finish fails. `remembers_cancels`: whether messages of
    /// cancelled work are dropped when they come later.
    pub fn new(deliveries_max: u64, remembers_cancels: bool) -> Taking {
        Taking {
            deliveries_max,
            remembers_cancels,
            known: HashMap::new(),
            ended: VecDeque::new(),
            bytes: 0,
            running: 0,
        }
    }

    /// Decides about a delivery of some work.
    pub fn take(&mut self, id: &str, deliveries: u64, now: Instant) -> Take {
        self.forget(now);
        match self.known.get(id) {
            Some(Known::Runs) => Take::Runs,
            Some(Known::Ended(answer)) => Take::Answer(answer.clone()),
            Some(Known::Cancelled) => Take::Drop,
            None if deliveries > self.deliveries_max => Take::Poison,
            None => {
                self.known.insert(id.to_owned(), Known::Runs);
                self.running += 1;
                Take::Compute
            }
        }
    }

    /// Notes the end of work that this worker computed. `None`: there is no answer, and the work may come again.
    pub fn end(&mut self, id: &str, answer: Option<Bytes>, now: Instant) {
        if matches!(self.known.get(id), Some(Known::Runs)) {
            self.running -= 1;
        }
        match answer {
            _ if !self.remembers_cancels && matches!(self.known.get(id), Some(Known::Cancelled)) => {
                self.known.remove(id);
            }
            // cancelled work stays cancelled, however it ends
            _ if matches!(self.known.get(id), Some(Known::Cancelled)) => {}
            Some(answer) => {
                self.bytes += answer.len();
                self.known.insert(id.to_owned(), Known::Ended(answer));
                self.ended.push_back((now, id.to_owned()));
            }
            None => drop(self.known.remove(id)),
        }
        self.forget(now);
    }

    /// Notes that some work is cancelled. Returns whether this worker computes the work.
    pub fn cancel(&mut self, id: &str, now: Instant) -> bool {
        if !self.remembers_cancels {
            let runs = matches!(self.known.get(id), Some(Known::Runs));
            if runs {
                self.known.insert(id.to_owned(), Known::Cancelled);
                self.running -= 1;
            }
            return runs;
        }
        let runs = match self.known.insert(id.to_owned(), Known::Cancelled) {
            Some(Known::Cancelled) => return false,
            Some(Known::Ended(answer)) => {
                self.bytes -= answer.len();
                return false;
            }
            Some(Known::Runs) => {
                self.running -= 1;
                true
            }
            None => false,
        };
        self.ended.push_back((now, id.to_owned()));
        self.forget(now);
        runs
    }

    /// Returns the number of pieces of work that this worker computes.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Returns the number of ids that are remembered, and the bytes of their answers.
    pub fn remembered(&self) -> (usize, usize) {
        (self.known.len().max(self.ended.len()), self.bytes)
    }

    fn forget(&mut self, now: Instant) {
        while let Some((at, _)) = self.ended.front()
            && (now.duration_since(*at) >= REMEMBERED || self.bytes > ANSWERS_BYTES_MAX || self.ended.len() > IDS_MAX)
        {
            let (_, id) = self.ended.pop_front().expect("the queue has a front");
            if let Some(Known::Ended(answer)) = self.known.remove(&id) {
                self.bytes -= answer.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_comes_twice_is_computed_once() {
        let (mut taking, now) = (Taking::default(), Instant::now());
        assert_eq!(taking.take("a", 1, now), Take::Compute);
        assert_eq!(taking.take("a", 2, now), Take::Runs);
        taking.end("a", Some(Bytes::from_static(b"end")), now);
        assert_eq!(taking.take("a", 3, now), Take::Answer(Bytes::from_static(b"end")));
        assert_eq!(taking.take("a", 1, now + REMEMBERED), Take::Compute);
        assert_eq!(taking.take("b", DELIVERIES_MAX + 1, now), Take::Poison);
        // work that was given back may come again
        taking.end("a", None, now);
        assert_eq!((taking.take("a", 2, now), taking.running()), (Take::Compute, 1));
    }

    #[test]
    fn cancelled_work_is_dropped_before_and_while_it_runs() {
        let (mut taking, now) = (Taking::default(), Instant::now());
        assert!(!taking.cancel("a", now));
        assert_eq!(taking.take("a", 1, now), Take::Drop);
        assert_eq!(taking.take("b", 1, now), Take::Compute);
        assert!(taking.cancel("b", now) && !taking.cancel("b", now));
        taking.end("b", Some(Bytes::from_static(b"end")), now);
        assert_eq!((taking.take("b", 1, now), taking.bytes), (Take::Drop, 0));
        taking.take("c", 1, now + REMEMBERED);
        assert_eq!((taking.ended.len(), taking.known.len()), (0, 1));
    }

    #[test]
    fn cancelled_work_that_ends_without_an_answer_stays_cancelled() {
        let (mut taking, now) = (Taking::default(), Instant::now());
        taking.take("a", 1, now);
        assert!(taking.cancel("a", now));
        taking.end("a", None, now);
        assert_eq!(taking.take("a", 2, now), Take::Drop);
        assert_eq!(taking.remembered(), (1, 0));
        // the id is forgotten once, and not while it runs again
        assert_eq!(taking.take("a", 3, now + REMEMBERED), Take::Compute);
        taking.take("b", 1, now + REMEMBERED * 2);
        assert_eq!(taking.running(), 2);
    }

    #[test]
    fn an_operation_that_was_cancelled_is_computed_when_it_comes_again() {
        let (mut taking, now) = (Taking::new(OPERATION_DELIVERIES_MAX, false), Instant::now());
        assert!(!taking.cancel("a", now));
        assert_eq!(taking.take("a", 1, now), Take::Compute);
        assert!(taking.cancel("a", now) && !taking.cancel("a", now));
        // until its end, another message of it is no second computation
        assert_eq!((taking.take("a", 2, now), taking.running()), (Take::Drop, 0));
        taking.end("a", Some(Bytes::from_static(b"cancelled")), now);
        assert_eq!((taking.take("a", OPERATION_DELIVERIES_MAX, now), taking.running()), (Take::Compute, 1));
        taking.end("a", Some(Bytes::from_static(b"end")), now);
        assert!(!taking.cancel("a", now));
        assert_eq!(taking.take("b", OPERATION_DELIVERIES_MAX + 1, now), Take::Poison);
    }

    #[test]
    fn the_memory_of_answers_is_bounded() {
        let (mut taking, now) = (Taking::default(), Instant::now());
        let answer = Bytes::from(vec![0; 1 << 20]);
        for number in 0..100 {
            taking.take(&number.to_string(), 1, now);
            taking.end(&number.to_string(), Some(answer.clone()), now);
        }
        assert!(taking.bytes <= ANSWERS_BYTES_MAX && taking.known.len() == ANSWERS_BYTES_MAX >> 20);
        assert_eq!(taking.take("99", 2, now), Take::Answer(answer));
        assert_eq!(taking.take("0", 2, now), Take::Compute);
    }
}
