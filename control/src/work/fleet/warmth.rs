//! A worker that starts opens the keys that API nodes name, and is used afterwards (`fleet::warming`).

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fleet::broker::{Heard, Topic};
use fleet::serving::Serving;
use fleet::warming::Warming;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};

use super::content::Callback;
use super::member::Member;
use super::news::{News, WarmKey};
use super::worker_keys::WorkerKeys;
use crate::work::here::Here;
use crate::work::key::KeyName;

/// Number of keys that are opened at the same time.
const OPENED_AT_ONCE: usize = 4;
/// Largest number of keys that a worker opens before it is used, whichever API nodes name them.
const KEYS_MAX: usize = 1024;
/// How often the worker looks whether it is used from now on.
const LOOK: Duration = Duration::from_millis(20);

/// The keys that a worker opens before it is used.
pub struct Warmth {
    warming: Mutex<Warming>,
    /// The keys that API nodes named.
    known: Mutex<HashSet<KeyName>>,
}

/// A key to open.
struct Named {
    name: KeyName,
    weight: u32,
    callback: Callback,
}

/// The keys that API nodes have named so far. The worker opens them with [`Waiting::open`].
pub struct Waiting {
    warmth: Arc<Warmth>,
    named: mpsc::UnboundedReceiver<Named>,
}

impl Warmth {
    /// Starts to listen to API nodes, before the worker of this name tells its presence.
    pub fn listen(member: &Member, worker: String) -> (Arc<Warmth>, Waiting) {
        let (warming, known) = (Mutex::new(Warming::begin(Instant::now())), Mutex::default());
        let warmth = Arc::new(Warmth { warming, known });
        let ((tell, named), hearing) = (mpsc::unbounded_channel(), Arc::downgrade(&warmth));
        member.ears.add(Box::new(move |heard| {
            let (Heard::Told(Topic::News, bytes), Some(warmth)) = (heard, hearing.upgrade()) else { return };
            match News::read(bytes) {
                Some(News::Warm { worker: told, url, keys }) if told == worker => warmth.hear(&url, keys, &tell),
                _ => {}
            }
        }));
        (warmth.clone(), Waiting { warmth, named })
    }

    /// Whether the worker is used from now on.
    pub fn is_over(&self) -> bool {
        self.warming.lock().is_over(Instant::now())
    }

    fn hear(&self, url: &str, keys: Vec<WarmKey>, tell: &mpsc::UnboundedSender<Named>) {
        if self.is_over() {
            return;
        }
        let (mut known, mut warming) = (self.known.lock(), self.warming.lock());
        for WarmKey { key, weight, token } in keys {
            let Some(name) = KeyName::of_label(&key) else { continue };
            if known.len() < KEYS_MAX && engine::WEIGHTS.contains(&weight) && known.insert(name) {
                warming.told(1);
                let callback = Callback { url: url.to_owned(), token };
                // the receiver is there until the worker is used
                let _ = tell.send(Named { name, weight, callback });
            }
        }
    }
}

impl Waiting {
    /// Opens the keys that are named, until the worker is used. Then tells this.
    pub async fn open(mut self, here: Here, keys: WorkerKeys, serving: Weak<Serving>) {
        let (mut look, turns) = (tokio::time::interval(LOOK), Arc::new(Semaphore::new(OPENED_AT_ONCE)));
        loop {
            tokio::select! {
                Some(named) = self.named.recv() => {
                    let (warmth, here, keys, turns) = (self.warmth.clone(), here.clone(), keys.clone(), turns.clone());
                    tokio::spawn(async move {
                        let _turn = turns.acquire_owned().await;
                        warmth.open(named, &here, &keys).await;
                    });
                }
                _ = look.tick() => {
                    if self.warmth.is_over() {
                        break;
                    }
                }
            }
        }
        if let Some(serving) = serving.upgrade() {
            serving.say_presence().await;
        }
    }
}

impl Warmth {
    /// Opens a key, unless the time is over or the keys before have taken their part of the memory.
    async fn open(&self, Named { name, weight, callback }: Named, here: &Here, keys: &WorkerKeys) {
        if !self.is_over() && keys.have_room_to_warm() {
            keys.begin_to_warm(name, callback);
            if let Err(error) = here.opened(name, weight).await {
                // the key's first work opens the key
                tracing::debug!(?error, "a key was not opened in advance");
            }
            keys.end_to_warm(&name);
        }
        self.warming.lock().opened();
    }
}
