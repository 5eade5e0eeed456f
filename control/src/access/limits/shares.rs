//! Token buckets that the API nodes of a fleet share through the database.
//!
//! A node takes a share of a bucket's tokens at once, a sixteenth of the bucket, so most requests find a token in memory.
//! Tokens of a share stay until they are used. So in any T seconds all nodes together admit at most the bucket's rate times
//! T + 1, as one node alone does, plus one share for each node. A node that finds the bucket empty asks again when the
//! bucket has got a share.
//!
//! While the database does not answer, the nodes share no buckets: each node limits its callers alone (readings L10).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::Store;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use crate::clock::Timestamp;

pub(super) const SECOND_US: i64 = 1_000_000;
/// Largest number of buckets in memory. A bucket is full again after a second and is then not stored, and a node serves
/// fewer callers than this in a second.
pub(super) const BUCKETS_MAX: usize = 65_536;
/// A bucket consists of this many shares. A share has at least one token.
const SHARES: i64 = 16;
/// Longest time that a request waits for the database.
const PATIENCE: Duration = Duration::from_millis(100);
/// A subject that sent no request for this long is removed from memory, with its tokens.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A bucket that has been full for this long is removed from the database.
const FULL: Duration = Duration::from_secs(60);

/// The shares of a node.
pub struct Shares {
    store: Store,
    known: Mutex<HashMap<Box<str>, Known>>,
    /// Held while the database is asked for a caller without a key, so that a flood from many networks occupies one
    /// connection.
    of_strangers: AsyncMutex<()>,
}

struct Known {
    share: Share,
    /// Held while the database is asked.
    asking: Arc<AsyncMutex<()>>,
    used_at: Timestamp,
}

/// The callers of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Those with a key or a session token.
    Known,
    /// Those of a network, without a key.
    Strangers,
}

/// The tokens of one bucket that a node has taken. Pure: reads no clock, makes no call.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Tokens that the node has taken from the bucket and not used.
    tokens: i64,
    /// The database's last answer.
    last: Answer,
    /// The node asks the database no earlier, if it has no token.
    asks_at: Timestamp,
}

/// The database's answer to a node that asked for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Granted,
    Empty,
    /// No answer came in time.
    Missing,
}

/// The outcome of an attempt to take a token from a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Taken,
    /// The bucket was empty a moment ago. The time until it has a share for the node.
    Empty(Duration),
    /// The database did not answer a moment ago.
    Unknown,
    /// The node has no token and must ask the database.
    Ask,
}

/// Returns the number of tokens in a share of a bucket with this rate.
fn share_of(rate_a_second: u32) -> i64 {
    (i64::from(rate_a_second) / SHARES).max(1)
}

/// Returns the time in which a bucket with this rate gets a share, in microseconds. At most a second.
fn share_us(rate_a_second: u32) -> i64 {
    share_of(rate_a_second) * SECOND_US / i64::from(rate_a_second.max(1))
}

impl Share {
    fn new() -> Share {
        Share { tokens: 0, last: Answer::Granted, asks_at: Timestamp(0) }
    }

    fn take(&mut self, now: Timestamp) -> Attempt {
        if self.tokens > 0 {
            self.tokens -= 1;
            return Attempt::Taken;
        }
        // a time further ahead was written before the clock was set back
        match (self.asks_at.0.saturating_sub(now.0), self.last) {
            (left @ 1..=SECOND_US, Answer::Empty) => Attempt::Empty(Duration::from_micros(left as u64)),
            (1..=SECOND_US, Answer::Missing) => Attempt::Unknown,
            _ => Attempt::Ask,
        }
    }

    /// Applies the database's answer. The node's next question comes when the bucket has got another share, or a second
    /// after a missing answer.
    fn answered(&mut self, answer: Answer, rate_a_second: u32, now: Timestamp) {
        let wait_us = match answer {
            Answer::Granted => 0,
            Answer::Empty => share_us(rate_a_second),
            Answer::Missing => SECOND_US,
        };
        self.tokens += if answer == Answer::Granted { share_of(rate_a_second) } else { 0 };
        (self.last, self.asks_at) = (answer, Timestamp(now.0.saturating_add(wait_us)));
    }
}

impl Attempt {
    /// Whether the request has its token. The error is the time until the bucket may have one. `None`: unknown.
    fn decided(self) -> Option<Result<(), Duration>> {
        match self {
            Attempt::Taken => Some(Ok(())),
            Attempt::Empty(wait) => Some(Err(wait)),
            Attempt::Unknown | Attempt::Ask => None,
        }
    }
}

impl Known {
    fn is_asking(&self) -> bool {
        Arc::strong_count(&self.asking) > 1
    }

    /// Whether a new entry in place of this one would ask the database at the next request, although this one does not.
    fn is_of_use(&self, now: Timestamp) -> bool {
        self.is_asking() || self.share.tokens > 0 || self.share.asks_at > now
    }
}

impl Shares {
    /// Starts without shares.
    pub fn new(store: Store) -> Shares {
        Shares { store, known: Mutex::default(), of_strangers: AsyncMutex::default() }
    }

    /// Takes a token. If the bucket has none, the error is the time until it may have one. `None`: the database does not
    /// answer, or the node is too busy with callers without a key.
    pub async fn take(
        &self,
        callers: Callers,
        subject: &str,
        rate_a_second: u32,
        now: Timestamp,
    ) -> Option<Result<(), Duration>> {
        let (attempt, asking) = self.attempt(subject, now)?;
        if attempt != Attempt::Ask {
            return attempt.decided();
        }
        // one request asks, and the others of this bucket wait
        let _turn = asking.lock().await;
        let (attempt, _) = self.attempt(subject, now)?;
        if attempt != Attempt::Ask {
            return attempt.decided();
        }
        let _permit = match callers {
            Callers::Known => None,
            Callers::Strangers => Some(self.of_strangers.try_lock().ok()?),
        };
        let answer = self.ask(subject, rate_a_second).await;
        let mut known = self.known.lock();
        let share = &mut known.get_mut(subject)?.share;
        share.answered(answer, rate_a_second, now);
        share.take(now).decided()
    }

    async fn ask(&self, subject: &str, rate_a_second: u32) -> Answer {
        match timeout(PATIENCE, self.store.take_tokens(subject, share_us(rate_a_second), SECOND_US)).await {
            Ok(Ok(true)) => Answer::Granted,
            Ok(Ok(false)) => Answer::Empty,
            Ok(Err(error)) => {
                tracing::error!(cause = %error, "this node's token buckets are its own: the database failed");
                Answer::Missing
            }
            Err(_) => {
                tracing::warn!("this node's token buckets are its own: the database does not answer in time");
                Answer::Missing
            }
        }
    }

    /// Tries to take a token from the node's share. `None`: the memory for shares is full.
    fn attempt(&self, subject: &str, now: Timestamp) -> Option<(Attempt, Arc<AsyncMutex<()>>)> {
        let mut known = self.known.lock();
        if !known.contains_key(subject) {
            if known.len() >= BUCKETS_MAX {
                known.retain(|_, known| known.is_of_use(now));
            }
            if known.len() >= BUCKETS_MAX {
                return None;
            }
            let new = Known { share: Share::new(), asking: Arc::default(), used_at: now };
            known.insert(subject.into(), new);
        }
        let known = known.get_mut(subject)?;
        known.used_at = now;
        Some((known.share.take(now), known.asking.clone()))
    }

    /// Removes subjects without recent requests from memory.
    pub fn sweep(&self, now: Timestamp) {
        self.known.lock().retain(|_, known| known.is_asking() || now.is_near(known.used_at, FORGOTTEN));
    }

    /// Removes full buckets from the database.
    pub async fn forget_full(&self) {
        if let Err(error) = self.store.forget_full_buckets(FULL.as_micros() as i64).await {
            tracing::error!(cause = %error, "full token buckets were not removed");
        }
    }
}

#[cfg(test)]
mod tests;
