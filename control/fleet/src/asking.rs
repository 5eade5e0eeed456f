//! The life of work at the member that asks: when to publish, to call for help, to publish again, to give up. Pure: time is an
//! argument, and the simulator and [`crate::asker`] drive it.
//!
//! Publishing again is always allowed, because the work is a pure function and only the member that asks charges for it.

use std::time::{Duration, Instant};

use crate::broker::{NotPublished, Receipt};

/// All workers are asked for help when no worker has taken the work for this long, and again after the same time.
pub const HELP_AFTER: Duration = Duration::from_millis(200);
/// After this time without a word of a worker, the member looks whether the lane still has the work.
pub const SILENT_AFTER: Duration = Duration::from_millis(2500);
/// A broker that takes no message is tried again after this time.
const RETRY: Duration = Duration::from_millis(100);
/// Work that no broker takes for this long fails.
pub const REFUSED_MAX: Duration = Duration::from_secs(2);
/// The same while the servers of the broker choose a leader. The death of one of three leads to 4 to 6 s without a leader, and to more
/// where the servers are busy: each waits 4 to 9 s before it offers itself.
pub const NO_LEADER_MAX: Duration = Duration::from_secs(15);
/// Work whose flow is full is tried for this long. Acknowledgements may be lost while servers of the broker die. Then ended messages
/// fill the flow until their leases end. So this is longer than two leases ([`crate::broker::RUN_LEASE`]).
pub const FLOW_FULL_MAX: Duration = Duration::from_secs(5);

/// A worker that has the work says so more often than this. If the message is with another worker afterwards, the first one has died.
const WORD_WITHIN: Duration = Duration::from_millis(1500);

/// The member's next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Publish the work. `before`: the receipt of the last attempt, unless that message is known to be gone.
    Publish {
        /// The receipt.
        before: Option<Receipt>,
        /// Which attempt the message would be.
        attempt: u32,
    },
    /// Ask all workers to take work of the lane of this receipt.
    Help(Receipt),
    /// Wait for a word, at most until then.
    Wait(Instant),
    /// Give up.
    GiveUp(NotAnswered),
}

/// Why work has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    /// As many requests of the flow wait as may wait.
    #[error("too many requests of this session or key wait")]
    FlowFull,
    /// No broker took the work, or no worker is there.
    #[error("the fleet is not there: {0}")]
    Unavailable(String),
    /// The deadline has passed.
    #[error("the deadline has passed")]
    DeadlinePassed,
    /// As many workers as may try fell silent while they had the work.
    #[error("the work was not finished by several workers")]
    NotFinished,
}

/// Work from its first message to its answer.
pub struct Asking {
    begun: Instant,
    deadline: Instant,
    attempts: u32,
    receipt: Option<Receipt>,
    /// When the lane was last known to have the work, or a worker spoke.
    sign: Instant,
    /// Since when no broker takes the work, for how long the member tries, and why the last attempt failed.
    refused: Option<(Instant, Duration, NotAnswered)>,
    /// When the next message may be tried.
    publish_at: Option<Instant>,
    help_at: Instant,
    taken: bool,
    /// When a worker last said that it has the last message.
    said_at: Option<Instant>,
    /// Number of workers that fell silent while they had the work, and whose message was no use to the next worker. The broker counts
    /// those whose message the next worker could use.
    lost: u64,
    lost_max: u64,
    /// Number of messages that were no use.
    useless: u32,
}

impl Asking {
    /// Begins the life of work with this deadline. Work that `lost_max` workers did not finish fails.
    pub fn begin(now: Instant, deadline: Instant, lost_max: u64) -> Asking {
        Asking {
            begun: now,
            deadline,
            attempts: 0,
            receipt: None,
            sign: now,
            refused: None,
            publish_at: Some(now),
            help_at: now + HELP_AFTER,
            taken: false,
            said_at: None,
            lost: 0,
            lost_max,
            useless: 0,
        }
    }

    /// Whether the next message is for another worker than the owner of the flow, because the owner could not use the last one. The
    /// owner may lack something that others have, such as the way to the bucket.
    pub fn is_for_another(&self) -> bool {
        self.useless % 2 == 1
    }

    /// Returns how often the work was published.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the next step.
    pub fn step(&mut self, now: Instant) -> Step {
        if now >= self.deadline {
            return Step::GiveUp(NotAnswered::DeadlinePassed);
        }
        if self.lost >= self.lost_max {
            return Step::GiveUp(NotAnswered::NotFinished);
        }
        if let Some((since, most, why)) = &self.refused
            && self.receipt.is_none()
            && now.duration_since(*since) >= *most
        {
            return Step::GiveUp(why.clone());
        }
        let publish_at = self.publish_at.unwrap_or(self.sign + SILENT_AFTER);
        if now >= publish_at {
            return Step::Publish { before: self.receipt.clone(), attempt: self.attempts + 1 };
        }
        match &self.receipt {
            Some(receipt) if !self.taken && now >= self.help_at => {
                self.help_at = now + HELP_AFTER;
                Step::Help(receipt.clone())
            }
            Some(_) if !self.taken => Step::Wait(publish_at.min(self.help_at).min(self.deadline)),
            _ => Step::Wait(publish_at.min(self.deadline)),
        }
    }

    /// Notes the outcome of [`Step::Publish`].
    pub fn published(&mut self, outcome: Result<Receipt, NotPublished>, now: Instant) {
        match outcome {
            Ok(receipt) => {
                // the worker that had the message was silent, so the message may wait again in a lane without an owner
                (self.taken, self.help_at) = (false, now);
                if self.receipt.as_ref() != Some(&receipt) {
                    self.attempts += 1;
                    self.said_at = None;
                    self.help_at = now + HELP_AFTER;
                }
                (self.receipt, self.refused, self.publish_at, self.sign) = (Some(receipt), None, None, now);
            }
            Err(error) => {
                let before = self.refused.take();
                let since = before.as_ref().map_or(now, |(since, ..)| *since);
                let (most, why) = match error {
                    NotPublished::FlowFull => (FLOW_FULL_MAX, NotAnswered::FlowFull),
                    NotPublished::NoLeader(cause) => (NO_LEADER_MAX, NotAnswered::Unavailable(cause)),
                    NotPublished::Refused(cause) => (REFUSED_MAX, NotAnswered::Unavailable(cause)),
                };
                // a new leader may be silent for a moment
                let most = before.map_or(most, |(_, before, _)| most.max(before));
                self.refused = Some((since, most, why));
                self.publish_at = Some(now + RETRY);
            }
        }
    }

    /// Notes that a worker has the work.
    pub fn runs(&mut self, now: Instant) {
        (self.taken, self.sign, self.said_at) = (true, now, Some(now));
        // a worker that has the work needs no further message
        if self.receipt.is_some() {
            self.publish_at = None;
        }
    }

    /// Notes that a worker could not use the message of this attempt.
    pub fn again(&mut self, attempt: u32, now: Instant) {
        if attempt == self.attempts {
            (self.receipt, self.taken, self.publish_at) = (None, false, Some(now));
            self.lost += u64::from(self.said_at.take().is_some_and(|at| now.duration_since(at) > WORD_WITHIN));
            self.useless += 1;
            // a refusal from before says nothing about the broker of now
            self.refused = None;
        }
    }

    /// Returns how long the work has waited since its begin.
    pub fn waited(&self, now: Instant) -> Duration {
        now.duration_since(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Lane, Queue};

    fn receipt(number: u64) -> Receipt {
        Receipt { lane: Lane { queue: Queue::Run, pool: "p".to_owned(), worker: "w".to_owned() }, number }
    }

    fn begin() -> (Asking, Instant) {
        let now = Instant::now();
        (Asking::begin(now, now + Duration::from_secs(60), LOST_MAX), now)
    }

    const LOST_MAX: u64 = 3;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn work_that_no_worker_takes_calls_for_help_and_work_that_runs_does_not() {
        let (mut asking, now) = begin();
        assert_eq!(asking.step(now), Step::Publish { before: None, attempt: 1 });
        asking.published(Ok(receipt(1)), now);
        assert_eq!(asking.step(now), Step::Wait(now + HELP_AFTER));
        let later = now + HELP_AFTER;
        assert_eq!(asking.step(later), Step::Help(receipt(1)));
        assert_eq!(asking.step(later), Step::Wait(later + HELP_AFTER));
        asking.runs(later);
        assert_eq!(asking.step(later + HELP_AFTER), Step::Wait(later + SILENT_AFTER));
    }

    #[test]
    fn a_silent_worker_leads_to_a_look_and_a_lost_message_to_another_attempt() {
        let (mut asking, now) = begin();
        asking.published(Ok(receipt(1)), now);
        asking.runs(now + ms(100));
        let silent = now + ms(100) + SILENT_AFTER;
        assert_eq!(asking.step(silent), Step::Publish { before: Some(receipt(1)), attempt: 2 });
        // the lane still has it
        asking.published(Ok(receipt(1)), silent);
        assert_eq!((asking.attempts(), asking.step(silent)), (1, Step::Help(receipt(1))));
        // the lane has lost it
        let lost = silent + SILENT_AFTER;
        asking.published(Ok(receipt(2)), lost);
        assert_eq!((asking.attempts(), asking.step(lost)), (2, Step::Wait(lost + HELP_AFTER)));
        // a word about the first message changes nothing
        asking.again(1, lost);
        assert_eq!(asking.step(lost), Step::Wait(lost + HELP_AFTER));
        asking.again(2, lost);
        assert_eq!(asking.step(lost), Step::Publish { before: None, attempt: 3 });
    }

    #[test]
    fn a_message_whose_worker_fell_silent_calls_for_help_until_a_worker_takes_it() {
        let (mut asking, now) = begin();
        asking.published(Ok(receipt(1)), now);
        asking.runs(now);
        let silent = now + SILENT_AFTER;
        assert_eq!(asking.step(silent), Step::Publish { before: Some(receipt(1)), attempt: 2 });
        asking.published(Ok(receipt(1)), silent);
        assert_eq!(asking.step(silent), Step::Help(receipt(1)));
        assert_eq!(asking.step(silent + HELP_AFTER), Step::Help(receipt(1)));
        asking.runs(silent + HELP_AFTER);
        assert_eq!(asking.step(silent + HELP_AFTER * 2), Step::Wait(silent + HELP_AFTER + SILENT_AFTER));
    }

    #[test]
    fn work_whose_workers_fall_silent_fails_although_each_message_was_no_use_to_the_next() {
        let (mut asking, mut now) = begin();
        for _ in 0..LOST_MAX {
            // a worker that lives and cannot use the message says so at once, a worker that dies says nothing
            for later in [ms(500), ms(15_000)] {
                let Step::Publish { attempt, .. } = asking.step(now) else { panic!("the work goes on") };
                asking.published(Ok(receipt(u64::from(attempt))), now);
                asking.runs(now);
                now += later;
                asking.again(attempt, now);
            }
        }
        assert_eq!(asking.step(now), Step::GiveUp(NotAnswered::NotFinished));
    }

    #[test]
    fn a_message_that_was_no_use_is_for_another_worker_and_the_next_one_for_the_owner() {
        let (mut asking, now) = begin();
        for attempt in 1..5 {
            assert_eq!(asking.is_for_another(), attempt % 2 == 0);
            asking.published(Ok(receipt(u64::from(attempt))), now);
            asking.again(attempt, now);
        }
    }

    #[test]
    fn a_refusal_from_before_does_not_end_work_whose_message_was_no_use() {
        let (mut asking, now) = begin();
        asking.published(Ok(receipt(1)), now);
        let late = now + SILENT_AFTER;
        asking.published(Err(NotPublished::Refused("away".to_owned())), late);
        asking.runs(late);
        let again = late + REFUSED_MAX;
        asking.again(1, again);
        assert_eq!(asking.step(again), Step::Publish { before: None, attempt: 2 });
    }

    #[test]
    fn work_that_no_broker_takes_is_given_up_after_a_time_that_depends_on_the_reason() {
        // a broker that chooses a leader gets more time
        let away = "away".to_owned();
        for (error, most, why) in [
            (NotPublished::Refused(away.clone()), REFUSED_MAX, NotAnswered::Unavailable(away.clone())),
            (NotPublished::NoLeader(away.clone()), NO_LEADER_MAX, NotAnswered::Unavailable(away)),
            (NotPublished::FlowFull, FLOW_FULL_MAX, NotAnswered::FlowFull),
        ] {
            let (mut asking, now) = begin();
            let mut at = now;
            loop {
                match asking.step(at) {
                    Step::Publish { .. } => asking.published(Err(error.clone()), at),
                    Step::Wait(until) => at = until,
                    Step::GiveUp(given_up) => break assert_eq!(given_up, why),
                    Step::Help(_) => panic!("nothing was published"),
                }
            }
            assert!((most..most + ms(200)).contains(&at.duration_since(now)));
        }
    }

    #[test]
    fn work_ends_at_its_deadline_even_if_the_broker_takes_nothing_after_the_first_message() {
        let (mut asking, now) = begin();
        asking.published(Ok(receipt(1)), now);
        let late = now + SILENT_AFTER;
        asking.published(Err(NotPublished::Refused("away".to_owned())), late);
        // the first message may still be answered
        assert_eq!(asking.step(late + REFUSED_MAX), Step::Publish { before: Some(receipt(1)), attempt: 2 });
        assert_eq!(asking.step(now + Duration::from_secs(60)), Step::GiveUp(NotAnswered::DeadlinePassed));
    }
}
