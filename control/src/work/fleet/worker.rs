//! The worker part of a process: takes work from the broker, and overwrites keys whose time is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::broker::{Broker, Heard, Queue, Topic};
use fleet::message::{Answer, Word};
use fleet::serving::{RoomMax, Serving};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::caller::Caller;
use super::computes::Computes;
use super::member::{Member, POOL};
use super::news::News;
use super::session_key::FleetSeal;
use super::values::RememberedValues;
use super::warmth::Warmth;
use super::worker_keys::WorkerKeys;
use super::{FleetConfig, OPERATIONS_MAX};
use crate::blobs::{Blobs, BucketConfig, ObjectKind};
use crate::resource::Resource;
use crate::sealing::AccountSeals;
use crate::secrets::Key;
use crate::web::offload::Offload;
use crate::work::here::Here;
use crate::work::key::KeyName;
use crate::work::memory_bytes;

/// A worker that has not heard its broker for this long overwrites the keys of sessions, because it would not hear that a
/// session ends. With the time for the erasure this stays below 5 s (readings G3).
const SILENCE: Duration = Duration::from_secs(4);
/// How often the worker looks at the time.
const LOOK: Duration = Duration::from_millis(200);
/// Largest number of messages that a worker takes at the same time.
const MESSAGES_MAX: u64 = 64;
/// A worker takes so much work that each device has this many batches: one that runs and one that waits. The rest waits in the
/// lane, for any worker that has room.
const BATCHES: u64 = 2;
/// Remembered operands and results may take this part of the process's memory.
const VALUES_SHARE: u64 = 16;

/// The worker part of a process.
pub struct WorkerPart {
    /// Takes requests.
    serving: Arc<Serving>,
    /// Takes operations of the waiting line.
    operations: Arc<Serving>,
    broker: Arc<dyn Broker>,
    keys: WorkerKeys,
    values: RememberedValues,
    warmth: Arc<Warmth>,
    asked_to_leave: Arc<Notify>,
}

impl WorkerPart {
    /// Returns the number of requests and operations that this worker computes.
    pub fn running(&self) -> u64 {
        self.serving.running() + self.operations.running()
    }

    /// Returns how many messages were delivered more than once.
    pub fn redelivered(&self) -> u64 {
        [&self.serving, &self.operations].map(|part| part.redelivered.load(Ordering::Relaxed)).iter().sum()
    }

    /// Returns how many requests, and how many operations, failed because several workers did not finish them.
    pub fn given_up(&self) -> [u64; 2] {
        [&self.serving, &self.operations].map(|part| part.given_up.load(Ordering::Relaxed))
    }

    /// Returns how often a key was not open when its work came.
    pub fn key_misses(&self) -> u64 {
        self.keys.missed()
    }

    /// Returns how often a named operand that was left out was remembered, and how often it was not.
    pub fn operands_remembered(&self) -> [u64; 2] {
        self.values.counts()
    }

    /// Returns the size in bytes of the remembered values.
    pub fn remembered_bytes(&self) -> u64 {
        self.values.bytes()
    }

    /// Takes no more work, and waits until all work has ended, at most this long. Then the worker leaves the fleet.
    pub async fn drain(&self, most: Duration) {
        let (requests, operations) = tokio::join!(self.serving.drain(most), self.operations.drain(most));
        if !(requests && operations) {
            tracing::warn!("some work did not end in time; other workers compute it again");
        }
        self.serving.leave();
    }

    /// Waits until an operator lets the worker leave.
    pub async fn asked_to_leave(&self) {
        self.asked_to_leave.notified().await;
    }

    /// Whether the worker has opened the keys with which it begins, so that it is used from now on.
    pub fn is_warm(&self) -> bool {
        self.warmth.is_over()
    }

    /// Whether the broker was heard a moment ago.
    pub fn hears(&self) -> bool {
        self.broker.heard_at().elapsed() < SILENCE
    }
}

/// Starts to take work from the broker. `key`: the fleet's key. `bucket`: where the keys are. `key_bytes_max`:
/// bound on the bytes of keys in host memory.
///
/// # Errors
/// When the bucket's settings cannot be used.
pub fn start_worker(
    member: &Member,
    config: &FleetConfig,
    here: &Here,
    key: &Key,
    bucket: &BucketConfig,
    key_bytes_max: u64,
    offload: Offload,
) -> anyhow::Result<WorkerPart> {
    // objects of keys are sealed under their data keys, so the seals of accounts are not used
    let in_bucket = |kind| Blobs::in_bucket(bucket, "", kind, AccountSeals::new(Key::default()));
    let objects = [in_bucket(ObjectKind::Keys)?, in_bucket(ObjectKind::EncryptionKeys)?];
    let (caller, memory) = (Caller::new()?, Resource::memory(key_bytes_max, key_bytes_max));
    let keys = WorkerKeys::new(caller.clone(), FleetSeal::new(key), objects, offload, memory);
    here.find_keys_in(Arc::new(keys.clone()));
    let name = config.worker_name.clone().unwrap_or_else(|| member.name.clone());
    let values = RememberedValues::new(usize::try_from(memory_bytes() / VALUES_SHARE).unwrap_or(usize::MAX));
    hear_ends(member, here.clone(), values.clone(), name.clone());
    let asked_to_leave = hear_leave(member, name.clone());
    let (warmth, named) = Warmth::listen(member, name.clone());
    let (place, of_keys) = ((name, POOL.to_owned()), (keys.clone(), warmth.clone()));
    let computes = Computes::new(here.clone(), of_keys, caller, place, config.checkpoint_period, values.clone());
    let room = RoomMax { messages: MESSAGES_MAX, units: (BATCHES * here.batch_rows()).max(1) };
    let (broker, ears) = (&member.broker, &member.ears);
    let serving = Serving::start(broker.clone(), ears.clone(), computes.clone(), Queue::Run, room);
    let room = RoomMax { messages: OPERATIONS_MAX, units: u64::MAX };
    let operations = Serving::start(broker.clone(), ears.clone(), computes, Queue::Operations, room);
    tokio::spawn(named.open(here.clone(), keys.clone(), Arc::downgrade(&serving)));
    tokio::spawn(watch(Arc::downgrade(&serving), member.broker.clone(), here.clone(), keys.clone(), values.clone()));
    Ok(WorkerPart { serving, operations, broker: member.broker.clone(), keys, values, warmth, asked_to_leave })
}

/// Overwrites keys whose end the member hears of, and tells the member that waits.
fn hear_ends(member: &Member, here: Here, values: RememberedValues, worker: String) {
    let (broker, runtime) = (member.broker.clone(), Handle::current());
    member.ears.add(Box::new(move |heard| {
        let Heard::Told(Topic::News, bytes) = heard else { return };
        let Some(news) = News::read(bytes) else { return };
        let (Some(name), News::KeyEnded { member, id, .. }) = (news.ended(), news) else { return };
        let (broker, runtime, worker) = (broker.clone(), runtime.clone(), worker.clone());
        let erased = move || {
            let answer = Answer { id, word: Word::Ended(Bytes::from(worker)) };
            runtime.spawn(async move {
                let _ = broker.answer(&member, answer.write()).await;
            });
        };
        values.end(&name);
        end(&here, name, Box::new(erased));
    }));
}

/// Notifies when the member hears that this worker shall leave.
fn hear_leave(member: &Member, name: String) -> Arc<Notify> {
    let asked = Arc::<Notify>::default();
    let tells = asked.clone();
    member.ears.add(Box::new(move |heard| {
        let Heard::Told(Topic::News, bytes) = heard else { return };
        if matches!(News::read(bytes), Some(News::Leave { worker }) if worker == name) {
            tells.notify_one();
        }
    }));
    asked
}

fn end(here: &Here, name: KeyName, erased: engine::OnErased) {
    match name.numbers_key_id() {
        None => here.close_key(name, erased),
        Some(_) => {
            here.release(name);
            erased();
        }
    }
}

/// Overwrites the keys of sessions that have expired, and all of them when the broker is silent.
async fn watch(
    serving: std::sync::Weak<Serving>,
    broker: Arc<dyn Broker>,
    here: Here,
    keys: WorkerKeys,
    values: RememberedValues,
) {
    let mut look = tokio::time::interval(LOOK);
    let mut is_silent = false;
    while serving.strong_count() > 0 {
        look.tick().await;
        for name in keys.expired(Instant::now()) {
            values.end(&name);
            here.close_key(name, Box::new(|| {}));
        }
        here.close_idle();
        let was_silent = std::mem::replace(&mut is_silent, broker.heard_at().elapsed() >= SILENCE);
        if is_silent {
            if !was_silent {
                tracing::warn!("the broker was not heard for 4 s, so this worker overwrites the keys of sessions");
            }
            keys.sessions().into_iter().for_each(|name| here.overwrite(name));
            values.forget_sessions();
        }
    }
}
