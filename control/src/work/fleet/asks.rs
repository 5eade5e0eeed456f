//! The workers of a fleet, as an API node asks them.

mod apart;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::OperationId;
use bytes::Bytes;
use engine::Error;
use fleet::asker::{Asked, Asker};
use fleet::asking::NotAnswered;
use fleet::broker::{Broker, Heard, Queue, Topic, Unreachable};
use fleet::member::Ears;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::OPERATIONS_MAX;
use super::access::{Checkpoints, FleetKeys};
use super::content::{self, Callback, INLINE_BYTES_MAX};
use super::internal::Internal;
use super::member::{Member, POOL};
use super::news::News;
use super::pace::Pace;
use super::parts::{PartsList, WithParts};
use super::pending::Pending;
use super::popularity::Popularity;
use crate::cache_store::{self, Follower, Teller};
use crate::ids;
use crate::web::error::ApiError;
use crate::work::at_rest::{KeysAtRest, RestingKey};
use crate::work::key::{KeyName, Share};
use crate::work::memory_bytes;
use crate::work::numbers::{NumbersShape, OpenNumbersKey, SharedPlaintexts};
use crate::work::octets::{read_end, write_short_work, write_work};
use crate::work::question::{Ending, Question, Work, WorkEnd, WorkError, Worker};

/// Time after which a client should try again when a session has as many requests as may wait.
const FLOW_RETRY: Duration = Duration::from_secs(1);
/// Longest time that the end of a session waits for the workers' word that its key is overwritten (readings G3).
const ERASE_WAIT: Duration = Duration::from_secs(5);
/// A broker that was not heard for this long is away.
const HEARD: Duration = Duration::from_secs(4);
/// Longest time of the probe of a job.
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks at whether a probe was heard.
const PROBE_LOOK: Duration = Duration::from_millis(2);
/// Largest number of shapes of keys for numbers that an API node remembers.
const SHAPES_MAX: usize = 256;
/// The matrices of bootstrapping may take this part of the process's memory, for plans.
const MATRICES_SHARE: u64 = 16;
/// Since this version of messages, work names its results and leaves out operands that have a name.
const LEAVES_OUT: u32 = 2;
/// The size of a circuit and of an operation on numbers, for a worker's room. The engine computes them between gates.
const CIRCUIT_UNITS: u64 = 64;
const NUMBERS_UNITS: u64 = 64;

/// The workers of a fleet. A clone asks the same workers.
#[derive(Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
}

struct Shared {
    broker: Arc<dyn Broker>,
    ears: Arc<Ears>,
    asker: Arc<Asker>,
    pending: Arc<Pending>,
    popularity: Arc<Popularity>,
    parts: PartsList,
    internal: Arc<Internal>,
    /// Base URL of this node's internal listener.
    url: String,
    member: String,
    plaintexts: Arc<SharedPlaintexts>,
    shapes: Mutex<Vec<(KeyName, Arc<NumbersShape>)>>,
    pace: Pace,
}

impl Fleet {
    /// Makes the asking part of a member. `url`: how workers reach the internal listener.
    pub fn new(Member { broker, ears, name }: &Member, url: String) -> Fleet {
        let (broker, ears, member) = (broker.clone(), ears.clone(), name.clone());
        let plaintexts = Arc::new(SharedPlaintexts::new(memory_bytes() / MATRICES_SHARE));
        let asker = Asker::new(broker.clone(), ears.clone(), member.clone(), POOL.to_owned());
        let pending = Arc::new(Pending::default());
        let popularity = Popularity::start(broker.clone(), ears.clone(), pending.clone(), url.clone());
        let (keys, checkpoints, turns) = Default::default();
        let internal = Internal { pending: pending.clone(), asker: asker.clone(), keys, checkpoints, turns };
        let internal = Arc::new(internal);
        let (parts, shapes, pace) = Default::default();
        let shared =
            Shared { broker, ears, asker, pending, popularity, parts, internal, url, member, plaintexts, shapes, pace };
        let fleet = Fleet { shared: Arc::new(shared) };
        fleet.hear_cancels();
        fleet
    }

    /// Chooses where the internal listener finds keys. Only the first call counts.
    pub fn find_keys_in(&self, keys: Arc<dyn FleetKeys>) {
        self.shared.internal.keys.get_or_init(|| keys);
    }

    /// Chooses where checkpoints of operations are kept. Only the first call counts.
    pub fn keep_checkpoints_in(&self, checkpoints: Arc<dyn Checkpoints>) {
        let list = self.shared.parts.clone();
        self.shared.internal.checkpoints.get_or_init(|| Arc::new(WithParts { checkpoints, list }));
    }

    /// Returns the state of the internal listener.
    pub fn internal(&self) -> Arc<Internal> {
        self.shared.internal.clone()
    }

    /// Returns the part that asks, for metrics.
    pub fn asker(&self) -> Arc<Asker> {
        self.shared.asker.clone()
    }

    /// Returns what this member hears.
    pub fn ears(&self) -> Arc<Ears> {
        self.shared.ears.clone()
    }

    fn heard_at(&self) -> Instant {
        self.shared.broker.heard_at()
    }

    /// Whether the broker was heard a moment ago. A job probes the broker every second.
    pub fn hears(&self) -> bool {
        self.heard_at().elapsed() < HEARD
    }

    /// Tells something and waits until this member hears it.
    ///
    /// # Errors
    /// When the broker takes nothing.
    pub async fn probe(&self) -> Result<(), Unreachable> {
        let asked = Instant::now();
        // no member reads this as news
        self.shared.broker.tell(Topic::News, Bytes::from_static(b"probe")).await?;
        while self.heard_at() < asked {
            tokio::time::sleep(PROBE_LOOK).await;
        }
        Ok(())
    }

    /// Probes the broker, so that [`Fleet::hears`] is true while the broker answers.
    pub async fn listen(&self) {
        let _ = tokio::time::timeout(PROBE_WAIT, self.probe()).await;
    }

    /// Finds the shape of a stored key, so that operations can be planned under it.
    ///
    /// # Errors
    /// When no such key is stored, or when its records cannot be read.
    pub async fn numbers_key(
        &self,
        at_rest: &dyn KeysAtRest,
        name: KeyName,
        share: Share,
    ) -> Result<OpenNumbersKey, ApiError> {
        let known =
            || self.shared.shapes.lock().iter().find(|(known, _)| *known == name).map(|(_, shape)| shape.clone());
        if let Some(shape) = known() {
            return Ok(OpenNumbersKey::of(name, share, shape));
        }
        let Some(RestingKey::Numbers(stored)) = at_rest.find(name).await? else {
            return Err(super::super::refused(Error::Gone));
        };
        let shape = Arc::new(NumbersShape::of(&stored, self.shared.plaintexts.clone()));
        let mut shapes = self.shared.shapes.lock();
        if shapes.len() >= SHAPES_MAX {
            shapes.remove(0);
        }
        shapes.push((name, shape.clone()));
        Ok(OpenNumbersKey::of(name, share, shape))
    }

    /// Tells all workers that a key has ended, and waits until all of them have overwritten it, at most 5 seconds. Returns
    /// whether all have: a silent worker overwrites its keys by the rule about silence.
    pub async fn end_key(&self, name: KeyName) -> bool {
        self.shared.shapes.lock().retain(|(known, _)| *known != name);
        let id = format!("end-{}", hex::encode(ids::random::<16>()));
        let news = News::KeyEnded { key: name.label(), member: self.shared.member.clone(), id: id.clone() };
        self.shared.asker.collect(&id, Topic::News, news.write().into(), ERASE_WAIT).await
    }

    /// Like [`Fleet::end_key`], without waiting for answers.
    pub async fn tell_end(&self, name: KeyName) {
        self.shared.shapes.lock().retain(|(known, _)| *known != name);
        let news = News::KeyEnded { key: name.label(), member: self.shared.member.clone(), id: "none".to_owned() };
        let _ = self.shared.broker.tell(Topic::News, news.write().into()).await;
    }
}

impl Fleet {
    /// Passes what other API nodes tell about changed records to a part of this node, while the part exists.
    pub fn follow(&self, follower: &Arc<impl Follower>) {
        let (follower, own) = (Arc::downgrade(follower), self.shared.member.clone());
        self.shared.ears.add(Box::new(move |heard| {
            let Heard::Told(Topic::News, bytes) = heard else { return };
            let (Some(news), Some(follower)) = (News::read(bytes), follower.upgrade()) else { return };
            match news {
                // the news say not which callers, as if news had been missed
                News::CallersChanged { member } if member != own => follower.missed(),
                News::LockoutsChanged { member } if member != own => follower.hear(cache_store::News::Lockouts),
                _ => {}
            }
        }));
    }
}

impl Teller for Fleet {
    fn is_open(&self) -> bool {
        self.hears()
    }

    fn tell(&self, records: cache_store::News) -> BoxFuture<'_, ()> {
        let news = News::changed(&records, self.shared.member.clone());
        let told = async move {
            let _ = self.shared.broker.tell(Topic::News, news.write().into()).await;
        };
        told.boxed()
    }
}

/// The workers of a fleet, asked for operations that the waiting line has released. They have a separate queue, so requests
/// whose client waits do not wait behind them.
pub struct ForOperations(pub Fleet);

impl Worker for ForOperations {
    fn ask(&self, work: Work) -> Result<Ending, WorkError> {
        Ok(self.0.ask_one_or_several(Queue::Operations, work))
    }

    fn done(&self, id: &OperationId) -> Option<u64> {
        self.0.done(id)
    }

    fn cancel(&self, id: &OperationId) {
        self.0.cancel(id);
    }
}

impl Worker for Fleet {
    fn ask(&self, work: Work) -> Result<Ending, WorkError> {
        Ok(self.ask_one_or_several(Queue::Run, work))
    }

    fn done(&self, id: &OperationId) -> Option<u64> {
        self.done_of(id)
    }

    fn cancel(&self, id: &OperationId) {
        let (asker, ids) = (self.shared.asker.clone(), self.ids_at_workers(id));
        tokio::spawn(async move {
            for id in ids {
                asker.cancel(id.as_str()).await;
            }
        });
    }
}

impl Fleet {
    /// Returns how many operations the workers that are there compute at the same time.
    pub fn operations_room(&self) -> u64 {
        let workers = self.shared.ears.workers.lock();
        workers.in_use(POOL, Instant::now()).count() as u64 * OPERATIONS_MAX
    }

    /// Estimates the time that the workers take for a circuit with so many bootstraps.
    pub fn time_of(&self, bootstraps: u64) -> Duration {
        self.shared.pace.of(bootstraps)
    }

    /// Asks the workers. `flow`: the flow whose owner shall compute the work.
    fn ask_in(&self, queue: Queue, flow: String, mut work: Work) -> Ending {
        let version = self.shared.asker.version();
        if version < LEAVES_OUT {
            work.results.clear();
        }
        let (shared, id, deadline) = (self.shared.clone(), work.id.clone(), work.deadline);
        let units = units(&work.question);
        let is_circuit = matches!(work.question, Question::Circuit(_));
        shared.popularity.asked(work.key, work.weight);
        let bytes = Bytes::from(write_work(&work));
        let leaves_out = version >= LEAVES_OUT && bytes.len() > INLINE_BYTES_MAX;
        let short = if leaves_out { write_short_work(&work).map(Bytes::from) } else { None };
        let tokens = Arc::new(shared.pending.begin(id.as_str().to_owned(), work.key, bytes.clone()));
        drop(work);
        let (url, held) = (shared.url.clone(), tokens.clone());
        let content = move |_attempt: u32| {
            // a worker that lacks a named operand fetches the work with all operands
            let sent = short.as_ref().unwrap_or(&bytes);
            content::write(Callback { url: url.clone(), token: held.new_token() }, sent)
        };
        Box::pin(async move {
            let (id_text, content) = (id.as_str().to_owned(), Box::new(content));
            let asked = Asked { id: id_text, queue, flow, units, deadline, version, content };
            let answer = shared.asker.ask(asked).await;
            // the tokens are of no use from now on
            drop(tokens);
            match answer {
                Ok(bytes) => {
                    let end = read_end(&id, &bytes).unwrap_or_else(|error| {
                        tracing::error!(%error, "a worker's answer is not readable");
                        WorkEnd::Failed(WorkError::Unfit(error.to_string()))
                    });
                    if let (true, WorkEnd::Completed { figures, .. }) = (is_circuit, &end) {
                        shared.pace.note(figures);
                    }
                    end
                }
                Err(NotAnswered::DeadlinePassed) => WorkEnd::Failed(Error::DeadlinePassed.into()),
                Err(error @ NotAnswered::NotFinished) => WorkEnd::Failed(Error::Device(error.to_string()).into()),
                Err(NotAnswered::FlowFull) => WorkEnd::Failed(Error::Busy { retry_after: FLOW_RETRY }.into()),
                Err(NotAnswered::Unavailable(cause)) => {
                    tracing::warn!(cause, "no worker could be asked");
                    WorkEnd::Failed(WorkError::Away)
                }
            }
        })
    }
}

/// Returns the size of work, for the room of a worker.
fn units(question: &Question) -> u64 {
    match question {
        Question::Gates(gates) => gates.list.gates().len() as u64,
        Question::Circuit(_) => CIRCUIT_UNITS,
        Question::Numbers(_) => NUMBERS_UNITS,
    }
}
