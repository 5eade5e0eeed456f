//! The keys for which an API node asked lately. Workers that warm up are told the keys that they will need, each with a token
//! with which the worker asks where the key is. Sealed data keys never pass the broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::broker::{Broker, Heard, Topic};
use fleet::member::Ears;
use fleet::presence::Presence;
use fleet::warming::{Popular, Telling, WARMING_MAX, wanted};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::member::POOL;
use super::news::{News, WarmKey};
use super::pending::Pending;
use crate::work::key::KeyName;

/// The tokens of a told key are of use for this time: a worker may begin to open its last key when its time is over.
const TOKENS_LAST: Duration = WARMING_MAX.saturating_add(Duration::from_secs(5));

/// The popular keys of an API node.
pub struct Popularity {
    broker: Arc<dyn Broker>,
    ears: Arc<Ears>,
    pending: Arc<Pending>,
    /// Base URL of this node's internal listener.
    url: String,
    /// The name of each key, and the weight of its account.
    popular: Mutex<Popular<(KeyName, u32)>>,
    telling: Mutex<Telling>,
}

impl Popularity {
    /// Starts to listen to workers that warm up.
    pub fn start(broker: Arc<dyn Broker>, ears: Arc<Ears>, pending: Arc<Pending>, url: String) -> Arc<Popularity> {
        let (popular, telling) = Default::default();
        let popularity = Arc::new(Popularity { broker, ears: ears.clone(), pending, url, popular, telling });
        let (hearing, runtime) = (Arc::downgrade(&popularity), Handle::current());
        ears.add(Box::new(move |heard| {
            let (Heard::Told(topic, bytes), Some(popularity)) = (heard, hearing.upgrade()) else { return };
            match topic {
                Topic::Presence => {
                    let Some(presence) = Presence::read(bytes).filter(|presence| presence.pool == POOL) else { return };
                    if popularity.telling.lock().hear(&presence, Instant::now()) {
                        runtime.spawn(popularity.tell(presence));
                    }
                }
                Topic::News => {
                    if let Some(name) = News::read(bytes).and_then(|news| news.ended()) {
                        popularity.popular.lock().forget(&name.label());
                    }
                }
                Topic::Help | Topic::Cancel => {}
            }
        }));
        popularity
    }

    /// Notes that work under a key is asked for. `weight`: the weight of the key's account.
    pub fn asked(&self, key: KeyName, weight: u32) {
        self.popular.lock().asked(&key.label(), (key, weight), Instant::now());
    }

    /// Tells a worker which keys it will need.
    async fn tell(self: Arc<Self>, worker: Presence) {
        let now = Instant::now();
        let (ranks, hottest) = (self.ears.workers.lock().ranks_of(&worker, now), self.popular.lock().hottest(now));
        let Ok(wanted) = spawn_blocking(move || wanted(&ranks, hottest)).await else { return };
        let wanted: Vec<(KeyName, u32)> = wanted.into_iter().map(|(_, key)| key).collect();
        if wanted.is_empty() {
            return;
        }
        let tokens: Vec<_> = wanted
            .iter()
            .map(|(name, _)| self.pending.begin(format!("warm-{}", worker.worker), *name, Bytes::new()))
            .collect();
        let keys = wanted.iter().zip(&tokens).map(|((name, weight), tokens)| WarmKey {
            key: name.label(),
            weight: *weight,
            token: tokens.new_token(),
        });
        let news = News::Warm { worker: worker.worker, url: self.url.clone(), keys: keys.collect() };
        if let Err(error) = self.broker.tell(Topic::News, news.write().into()).await {
            tracing::debug!(%error, "a worker that warms up was not told its keys");
        }
        tokio::time::sleep(TOKENS_LAST).await;
    }
}
