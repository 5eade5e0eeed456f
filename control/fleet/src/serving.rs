//! Takes work from the lanes and computes it. The worker pulls its own lane first, the lanes of which it is the second when its
//! own lane has been empty for a moment, and any lane for which an API node asks for help.
//!
//! A worker pulls only if it has room. A pull takes a place before the message comes, so a worker never hoards.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time;

use crate::broker::{Broker, Delivery, Heard, Lane, Queue, Rank, Ticket, Topic, Unreachable, is_name};
use crate::member::Ears;
use crate::message::{Answer, Word, WorkHead, read_help};
use crate::presence::{self, Presence};
use crate::taking::{DELIVERIES_MAX, OPERATION_DELIVERIES_MAX, Take, Taking, gives_back};

/// The second's lanes are pulled when the own lane has been empty for this long. At load 0.8 a lane is rarely empty for
/// 20 ms, so seconds would help too late.
pub const OWN_EMPTY: Duration = Duration::from_millis(5);
/// Longest time of one pull of the own lane, of a lane as its second, and of a lane that needs help. A pull at a server of the broker
/// that dies hears nothing more, so the own lane is not pulled for this time.
const OWN_WAIT: Duration = Duration::from_secs(2);
const SECOND_WAIT: Duration = Duration::from_millis(100);
const HELP_WAIT: Duration = Duration::from_millis(20);
/// A broker that does not answer is asked again after this time.
const RETRY: Duration = Duration::from_millis(200);
/// Work that runs longer than this tells so, and again after each [`BEAT`].
const FIRST_BEAT: Duration = Duration::from_millis(100);
const BEAT: Duration = Duration::from_millis(500);

/// Work that a worker took.
pub struct Taken {
    /// The head of the message.
    pub head: WorkHead,
    /// The queue from which the work came.
    pub queue: Queue,
    /// The content of the message.
    pub content: Bytes,
    /// When the work must be done.
    pub deadline: Instant,
}

/// How a worker's work ended.
pub enum Handled {
    /// The answer.
    Answer(Bytes),
    /// The answer went to the member in another way.
    Delivered,
    /// The message is no use: the member must publish the work again.
    Again,
    /// The worker cannot compute the work now. The lane delivers the message again after this time.
    GiveBack(Duration),
}

/// The computation of a handler.
pub type Handling = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// Computes work.
pub trait Handler: Send + Sync {
    /// Computes.
    fn handle(&self, taken: Taken) -> Handling;

    /// Makes the answer for work that several workers did not finish.
    fn poison(&self, id: &str) -> Bytes;

    /// Another message of work that runs came, from another member: its content says how that member is answered.
    fn asked_again(&self, id: &str, content: Bytes);

    /// Returns how many units of some work are done.
    fn done(&self, id: &str) -> u64;

    /// Stops some work, because the work was cancelled.
    fn cancel(&self, id: &str);

    /// Describes the worker for the other members.
    fn presence(&self) -> Presence;
}

/// How much work a worker takes at the same time.
#[derive(Clone, Copy, Debug)]
pub struct RoomMax {
    /// Messages.
    pub messages: u64,
    /// Units of work. The last message may exceed this.
    pub units: u64,
}

/// The part of a worker that takes work.
pub struct Serving {
    broker: Arc<dyn Broker>,
    ears: Arc<Ears>,
    handler: Arc<dyn Handler>,
    lane: Lane,
    room: Arc<Room>,
    taking: Mutex<Taking>,
    /// Who waits for the work that runs: the member whose message came last, and its attempt.
    askers: Mutex<HashMap<String, (String, u32)>>,
    /// Since when the pull of the own lane waits.
    own_waits_since: Mutex<Option<Instant>>,
    helps: AtomicBool,
    draining: AtomicBool,
    left: AtomicBool,
    /// Messages that were delivered more than once.
    pub redelivered: AtomicU64,
    /// Work that failed because several workers did not finish it.
    pub given_up: AtomicU64,
}

struct Room {
    used: Mutex<[u64; 2]>,
    max: RoomMax,
    freed: Notify,
}

/// A place for one message, given back on drop.
struct Place {
    room: Arc<Room>,
    units: u64,
}

impl Room {
    fn try_take(self: &Arc<Room>) -> Option<Place> {
        let mut used = self.used.lock();
        let [messages, units] = *used;
        let has_room = messages < self.max.messages && units < self.max.units;
        has_room.then(|| {
            used[0] += 1;
            Place { room: self.clone(), units: 0 }
        })
    }

    async fn take(self: &Arc<Room>) -> Place {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_take() {
                return place;
            }
            freed.await;
        }
    }
}

/// Work that runs. Its end is noted on drop, because a handler may panic.
struct Running<'a> {
    serving: &'a Serving,
    id: &'a str,
    kept: Option<Bytes>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.serving.taking.lock().end(self.id, self.kept.take(), Instant::now());
        self.serving.askers.lock().remove(self.id);
    }
}

impl Place {
    fn fill(&mut self, units: u64) {
        self.units = units;
        self.room.used.lock()[1] += units;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut used = self.room.used.lock();
        used[0] -= 1;
        used[1] -= self.units;
        drop(used);
        self.room.freed.notify_waiters();
    }
}

impl Serving {
    /// Starts to take work of a queue, until [`Serving::drain`]. The part for [`Queue::Run`] also tells the presence of the
    /// worker.
    pub fn start(
        broker: Arc<dyn Broker>,
        ears: Arc<Ears>,
        handler: Arc<dyn Handler>,
        queue: Queue,
        max: RoomMax,
    ) -> Arc<Serving> {
        let taking = match queue {
            Queue::Run => Taking::new(DELIVERIES_MAX, true),
            Queue::Operations => Taking::new(OPERATION_DELIVERIES_MAX, false),
        };
        let Presence { worker, pool, .. } = handler.presence();
        let serving = Arc::new(Serving {
            broker,
            ears: ears.clone(),
            handler,
            lane: Lane { queue, pool, worker },
            room: Arc::new(Room { used: Mutex::default(), max, freed: Notify::new() }),
            taking: Mutex::new(taking),
            askers: Mutex::default(),
            own_waits_since: Mutex::default(),
            helps: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            left: AtomicBool::new(false),
            redelivered: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
        });
        let hearing = Arc::downgrade(&serving);
        ears.add(Box::new(move |heard| {
            if let (Heard::Told(topic, bytes), Some(serving)) = (heard, hearing.upgrade()) {
                serving.hear(*topic, bytes);
            }
        }));
        if queue == Queue::Run {
            tokio::spawn(serving.clone().tell_presence());
        }
        tokio::spawn(serving.clone().pull_own());
        tokio::spawn(serving.clone().pull_as_second());
        serving
    }

    /// Takes no more work. Returns when all work has ended, at the latest after `most`. Returns whether all has ended.
    pub async fn drain(&self, most: Duration) -> bool {
        self.draining.store(true, Ordering::Relaxed);
        if self.lane.queue == Queue::Run {
            self.say_presence().await;
        }
        let ended = async {
            loop {
                let freed = self.room.freed.notified();
                // a pull holds a place too: a message that it gets now would wait for the end of its lease
                if self.room.used.lock()[0] == 0 {
                    return;
                }
                let _ = time::timeout(BEAT, freed).await;
            }
        };
        time::timeout(most, ended).await.is_ok()
    }

    /// Tells the presence of the worker no more, so that the other members forget the worker.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Returns the number of pieces of work that this worker computes.
    pub fn running(&self) -> u64 {
        self.taking.lock().running() as u64
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Hears a call for help, or that some work is cancelled.
    fn hear(self: &Arc<Self>, topic: Topic, content: &[u8]) {
        if topic == Topic::Help {
            return self.hear_call(content);
        }
        let Some(name) = std::str::from_utf8(content).ok().filter(|name| is_name(name)) else { return };
        match topic {
            Topic::Cancel if self.taking.lock().cancel(name, Instant::now()) => self.handler.cancel(name),
            _ => {}
        }
    }

    fn hear_call(self: &Arc<Self>, content: &[u8]) {
        let Some((queue, worker)) = read_help(content) else { return };
        let is_other = queue == self.lane.queue && worker != self.lane.worker;
        if is_other && self.may_help() && !self.helps.swap(true, Ordering::Relaxed) {
            let (serving, lane) = (self.clone(), Lane { worker: worker.to_owned(), ..self.lane.clone() });
            tokio::spawn(async move {
                serving.help(&lane).await;
                serving.helps.store(false, Ordering::Relaxed);
            });
        }
    }

    /// Whether the own lane has been empty for a moment.
    fn is_idle(&self) -> bool {
        let empty = self.own_waits_since.lock().is_some_and(|since| since.elapsed() >= OWN_EMPTY);
        empty && !self.is_draining()
    }

    /// Whether nothing runs, and no work waits in the own lane.
    fn may_help(&self) -> bool {
        self.running() == 0 && self.own_waits_since.lock().is_some() && !self.is_draining()
    }

    /// Takes work of a lane, one piece after another, until the lane is empty or this worker has work. A worker that helped
    /// has the lane's keys, so another helper would load them for little.
    async fn help(self: &Arc<Self>, lane: &Lane) {
        while self.may_help()
            && let Some(place) = self.room.try_take()
            && let Ok(true) = self.pull(lane, Rank::Helper, HELP_WAIT, place).await
        {
            loop {
                let freed = self.room.freed.notified();
                if self.running() == 0 {
                    break;
                }
                freed.await;
            }
        }
    }

    async fn tell_presence(self: Arc<Self>) {
        let mut beat = time::interval(presence::PERIOD);
        // a worker that drains still tells its presence, so that its lane keeps an owner while its work ends
        loop {
            beat.tick().await;
            if self.left.load(Ordering::Relaxed) {
                return;
            }
            self.say_presence().await;
            self.ears.workers.lock().forget_gone(Instant::now());
        }
    }

    /// Tells the presence of the worker now.
    pub async fn say_presence(&self) {
        let mut presence = self.handler.presence();
        presence.draining = self.is_draining();
        presence.load.taken = self.running();
        if let Err(error) = self.broker.tell(Topic::Presence, presence.write().into()).await {
            tracing::debug!(%error, "the presence of this worker was not told");
        }
    }

    async fn pull_own(self: Arc<Self>) {
        while !self.is_draining() {
            let place = self.room.take().await;
            *self.own_waits_since.lock() = Some(Instant::now());
            let pulled = self.pull(&self.lane, Rank::Owner, OWN_WAIT, place).await;
            *self.own_waits_since.lock() = None;
            if pulled.is_err() {
                time::sleep(RETRY).await;
            }
        }
    }

    async fn pull_as_second(self: Arc<Self>) {
        let (mut at, mut lanes, mut found) = (0, Vec::new(), None::<Instant>);
        while !self.is_draining() {
            if !self.is_idle() {
                time::sleep(OWN_EMPTY).await;
                continue;
            }
            // a search hashes each lane with each worker
            if found.is_none_or(|found| found.elapsed() >= presence::PERIOD) {
                let (workers, now) = (self.ears.workers.lock(), Instant::now());
                lanes = workers.seconded_by(&self.lane.worker, &self.lane.pool, now);
                found = Some(now);
            }
            let place = if lanes.is_empty() { None } else { self.room.try_take() };
            let Some(place) = place else {
                time::sleep(OWN_EMPTY).await;
                continue;
            };
            at += 1;
            let lane = Lane { worker: lanes[at % lanes.len()].clone(), ..self.lane.clone() };
            if self.pull(&lane, Rank::Second, SECOND_WAIT, place).await.is_err() {
                time::sleep(RETRY).await;
            }
        }
    }

    /// Pulls once, and begins the work that comes. Returns whether a message came.
    async fn pull(
        self: &Arc<Self>,
        lane: &Lane,
        rank: Rank,
        wait: Duration,
        mut place: Place,
    ) -> Result<bool, Unreachable> {
        let Some(Delivery { content, deliveries, ticket }) = self.broker.pull(lane, rank, wait).await? else {
            return Ok(false);
        };
        let (head, content) = match WorkHead::read(content) {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "work is not readable and was dropped");
                return self.broker.done(&ticket).await.map(|()| true);
            }
        };
        if deliveries > 1 {
            self.redelivered.fetch_add(1, Ordering::Relaxed);
        }
        let take = self.taking.lock().take(&head.id, deliveries, Instant::now());
        let ended = |content| Answer { id: head.id.clone(), word: Word::Ended(content) };
        match take {
            Take::Compute => {
                place.fill(head.units.max(1));
                tokio::spawn(self.clone().compute(head, content, deliveries, ticket, place));
                return Ok(true);
            }
            Take::Runs => {
                let asker = (head.member.clone(), head.attempt);
                let before = self.askers.lock().insert(head.id.clone(), asker.clone());
                if before.is_some_and(|before| before.0 != asker.0) {
                    self.handler.asked_again(&head.id, content);
                }
            }
            Take::Drop => {}
            Take::Answer(end) => self.broker.answer(&head.member, ended(end).write()).await?,
            Take::Poison => {
                tracing::error!(
                    id = head.id,
                    deliveries,
                    "several workers did not finish some work, so the work fails"
                );
                self.given_up.fetch_add(1, Ordering::Relaxed);
                self.broker.answer(&head.member, ended(self.handler.poison(&head.id)).write()).await?;
            }
        }
        self.broker.done(&ticket).await.map(|()| true)
    }

    async fn compute(self: Arc<Self>, head: WorkHead, content: Bytes, deliveries: u64, ticket: Ticket, place: Place) {
        let WorkHead { id, member, attempt, .. } = head.clone();
        self.askers.lock().insert(id.clone(), (member.clone(), attempt));
        let asker = || self.askers.lock().get(&id).cloned().unwrap_or_else(|| (member.clone(), attempt));
        let deadline = Instant::now() + head.left();
        let mut running = Running { serving: &self, id: &id, kept: None };
        let mut handling = self.handler.handle(Taken { head, queue: self.lane.queue, content, deadline });
        let mut beat = time::interval_at(time::Instant::now() + FIRST_BEAT, BEAT);
        let handled = loop {
            tokio::select! {
                handled = &mut handling => break handled,
                _ = beat.tick() => {
                    let runs = Answer { id: id.clone(), word: Word::Runs(self.handler.done(&id)) };
                    let _ = self.broker.progress(&ticket).await;
                    let _ = self.broker.answer(&asker().0, runs.write()).await;
                }
            }
        };
        let answer = |word| Answer { id: id.clone(), word }.write();
        let (member, attempt) = asker();
        let said = match handled {
            Handled::Answer(end) => {
                running.kept = Some(end.clone());
                self.broker.answer(&member, answer(Word::Ended(end))).await
            }
            Handled::Delivered => Ok(()),
            Handled::Again | Handled::GiveBack(_) => {
                // the end comes first, because the next message may come to this worker before the word's call returns
                drop(running);
                drop(place);
                if let Handled::GiveBack(after) = handled {
                    if gives_back(deliveries) {
                        let _ = self.broker.give_back(&ticket, after).await;
                        return;
                    }
                    time::sleep(after).await;
                }
                let said = self.broker.answer(&member, answer(Word::Again(attempt))).await;
                return self.note_end(&ticket, said).await;
            }
        };
        drop(running);
        drop(place);
        self.note_end(&ticket, said).await;
    }

    /// Removes a message whose end was said. A message that is not removed comes again, and gets the same answer.
    async fn note_end(&self, ticket: &Ticket, said: Result<(), Unreachable>) {
        let ended = match said {
            Ok(()) => self.broker.done(ticket).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "the end of some work was not told");
        }
    }
}
