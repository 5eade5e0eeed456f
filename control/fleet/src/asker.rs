//! Asks the workers of a fleet, and waits for their answers: drives [`Asking`] with a broker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time;

use crate::asking::{Asking, NotAnswered, Step};
use crate::broker::{Broker, Heard, Lane, Message, NotPublished, Queue, Topic};
use crate::member::Ears;
use crate::message::{Answer, Word, WorkHead, help_for};
use crate::taking::{DELIVERIES_MAX, OPERATION_DELIVERIES_MAX};

/// Makes the content of a message, for this attempt. A message that carries a token gets another one for each attempt.
pub type MakeContent = Box<dyn Fn(u32) -> Bytes + Send + Sync>;

/// Work for the workers.
pub struct Asked {
    /// The work's id.
    pub id: String,
    /// The queue.
    pub queue: Queue,
    /// The flow: the session or the key. Its worker is chosen by this name.
    pub flow: String,
    /// The size of the work.
    pub units: u64,
    /// Until when an answer is of use.
    pub deadline: Instant,
    /// The version of the content: one that all workers read when the work is asked for ([`Asker::version`]).
    pub version: u32,
    /// The content.
    pub content: MakeContent,
}

/// The part of an API node that asks workers.
pub struct Asker {
    broker: Arc<dyn Broker>,
    ears: Arc<Ears>,
    member: String,
    pool: String,
    waiting: Mutex<HashMap<String, Waiting>>,
    /// Counts for metrics.
    pub counts: Counts,
}

/// Counts of an [`Asker`].
#[derive(Default)]
pub struct Counts {
    /// Messages that were published, repetitions included.
    pub published: AtomicU64,
    /// Messages that were published again.
    pub repeated: AtomicU64,
    /// Calls for help.
    pub helps: AtomicU64,
}

struct Waiting {
    tell: mpsc::UnboundedSender<Word>,
    done: Option<u64>,
    begun: Instant,
}

/// Takes work out of the list when its caller stops waiting.
struct Listed<'a> {
    asker: &'a Asker,
    id: String,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.asker.waiting.lock().remove(&self.id);
    }
}

impl Asker {
    /// Makes the part of a member that asks the workers of a pool.
    pub fn new(broker: Arc<dyn Broker>, ears: Arc<Ears>, member: String, pool: String) -> Arc<Asker> {
        let (waiting, counts) = Default::default();
        let asker = Arc::new(Asker { broker, ears: ears.clone(), member, pool, waiting, counts });
        let hearing = Arc::downgrade(&asker);
        ears.add(Box::new(move |heard| {
            let (Heard::Answer(bytes), Some(asker)) = (heard, hearing.upgrade()) else { return };
            match Answer::read(bytes.clone()) {
                Ok(answer) => asker.hear(answer),
                Err(error) => tracing::warn!(%error, "an answer is not readable"),
            }
        }));
        asker
    }

    /// Returns the highest version of messages that all workers of the pool read now.
    pub fn version(&self) -> u32 {
        self.ears.workers.lock().version(&self.pool, Instant::now())
    }

    /// Asks, and waits for the end of the work.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(&self, asked: Asked) -> Result<Bytes, NotAnswered> {
        let (tell, mut hears) = mpsc::unbounded_channel();
        let (id, begun) = (asked.id.clone(), Instant::now());
        self.waiting.lock().insert(id.clone(), Waiting { tell, done: None, begun });
        let listed = Listed { asker: self, id };
        let lost_max = match asked.queue {
            Queue::Run => DELIVERIES_MAX,
            Queue::Operations => OPERATION_DELIVERIES_MAX,
        };
        let mut asking = Asking::begin(begun, asked.deadline, lost_max);
        let answer = self.drive(&asked, &mut asking, &mut hears).await;
        drop(listed);
        // other messages of the same work may still wait
        if asking.attempts() > 1 || (answer.is_err() && asking.attempts() > 0) {
            self.cancel(&asked.id).await;
        }
        answer
    }

    async fn drive(
        &self,
        asked: &Asked,
        asking: &mut Asking,
        hears: &mut mpsc::UnboundedReceiver<Word>,
    ) -> Result<Bytes, NotAnswered> {
        loop {
            let word = match asking.step(Instant::now()) {
                Step::GiveUp(why) => return Err(why),
                Step::Publish { before, attempt } => {
                    let publishing = self.publish(asked, before.as_ref(), attempt, asking.is_for_another());
                    tokio::pin!(publishing);
                    // the answer may come before the broker's word about the message
                    tokio::select! {
                        outcome = &mut publishing => {
                            if let Ok(receipt) = &outcome && before.as_ref() != Some(receipt) {
                                self.counts.published.fetch_add(1, Ordering::Relaxed);
                                self.counts.repeated.fetch_add(u64::from(attempt > 1), Ordering::Relaxed);
                            }
                            asking.published(outcome, Instant::now());
                            None
                        }
                        word = hears.recv() => word,
                    }
                }
                Step::Help(receipt) => {
                    self.counts.helps.fetch_add(1, Ordering::Relaxed);
                    let lane = help_for(&receipt.lane);
                    // help that is not heard is asked for again
                    let _ = self.broker.tell(Topic::Help, lane).await;
                    None
                }
                Step::Wait(until) => time::timeout_at(until.into(), hears.recv()).await.ok().flatten(),
            };
            match word {
                None => {}
                Some(Word::Ended(end)) => return Ok(end),
                Some(Word::Again(attempt)) => asking.again(attempt, Instant::now()),
                Some(Word::Runs(_)) => asking.runs(Instant::now()),
            }
        }
    }

    async fn publish(
        &self,
        asked: &Asked,
        before: Option<&crate::broker::Receipt>,
        attempt: u32,
        for_another: bool,
    ) -> Result<crate::broker::Receipt, NotPublished> {
        let now = Instant::now();
        let owner = {
            let workers = self.ears.workers.lock();
            let (flow, version) = (asked.flow.as_bytes(), asked.version);
            let owner = workers.owner(&self.pool, flow, version, now);
            let another =
                owner.filter(|_| for_another).and_then(|owner| workers.owner_after(owner, flow, version, now));
            another.or(owner).map(str::to_owned)
        };
        let worker = owner.ok_or_else(|| NotPublished::Refused("no worker is there".to_owned()))?;
        let left = asked.deadline.saturating_duration_since(now);
        let head = WorkHead {
            version: asked.version,
            id: asked.id.clone(),
            attempt,
            member: self.member.clone(),
            left_ms: left.as_millis() as u64,
            units: asked.units,
        };
        let content = head.write(&(asked.content)(attempt));
        let lane = Lane { queue: asked.queue, pool: self.pool.clone(), worker };
        self.broker.publish(&Message { lane, flow: asked.flow.clone(), content, left }, before).await
    }

    /// Tells something to all members, and waits until every worker that is there has answered with its name under this id, at
    /// most this long. Returns whether all have answered.
    pub async fn collect(&self, id: &str, topic: Topic, content: Bytes, most: Duration) -> bool {
        let (tell, mut hears) = mpsc::unbounded_channel();
        let begun = Instant::now();
        self.waiting.lock().insert(id.to_owned(), Waiting { tell, done: Some(0), begun });
        let _listed = Listed { asker: self, id: id.to_owned() };
        let mut silent: HashSet<String> =
            self.ears.workers.lock().live(begun).map(|worker| worker.worker.clone()).collect();
        if self.broker.tell(topic, content).await.is_err() {
            return false;
        }
        let all = async {
            while !silent.is_empty() {
                if let Some(Word::Ended(worker)) = hears.recv().await {
                    silent.retain(|name| name.as_bytes() != &worker[..]);
                }
            }
        };
        time::timeout(most, all).await.is_ok()
    }

    /// Takes a worker's word. A word about work that no caller waits for is dropped.
    pub fn hear(&self, Answer { id, word }: Answer) {
        if let Some(waiting) = self.waiting.lock().get_mut(&id) {
            if let Word::Runs(done) = word {
                waiting.done = Some(done);
            }
            // the receiver may have been dropped
            let _ = waiting.tell.send(word);
        }
    }

    /// Returns how many units of some work are done. `None`: the work does not run, or another member asked for it.
    pub fn done(&self, id: &str) -> Option<u64> {
        self.waiting.lock().get(id).and_then(|waiting| waiting.done)
    }

    /// Tells all workers to drop some work.
    pub async fn cancel(&self, id: &str) {
        let _ = self.broker.tell(Topic::Cancel, Bytes::copy_from_slice(id.as_bytes())).await;
    }

    /// Returns how long the oldest work has waited that no worker has taken. In seconds.
    pub fn oldest_waiting_s(&self) -> f64 {
        let waiting = self.waiting.lock();
        let oldest = waiting.values().filter(|waiting| waiting.done.is_none()).map(|waiting| waiting.begun).min();
        oldest.map_or(0.0, |begun| begun.elapsed().as_secs_f64())
    }
}
