//! Keeps a node connected to the cache store.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::{CacheStore, News};

/// Pause between two attempts to open a connection.
const RETRY: Duration = Duration::from_secs(1);
/// Time between two checks of an idle connection.
const CHECK: Duration = Duration::from_secs(1);

/// Reacts to the news of other nodes.
pub trait Follower: Send + Sync + 'static {
    /// Called when this node has missed news, because it had no connection. Any record may have changed.
    fn missed(&self);

    /// Applies news.
    fn hear(&self, news: News);
}

/// Opens connections and applies the news that arrives on them, until the node stops. `tried` is sent after the first
/// attempt.
pub async fn keep(
    cache: CacheStore,
    follower: Arc<impl Follower>,
    tried: oneshot::Sender<()>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tried = Some(tried);
    loop {
        let opened = open(&*follower, &cache).await;
        tried.take().map(|tried| tried.send(()));
        match opened {
            Err(failure) => cache.log_outage(&failure),
            Ok((number, news)) => tokio::select! {
                () = follow(&*follower, &cache, news) => drop(cache.close(number, "the connection ended")),
                () = closed(&cache) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            },
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

/// Waits until the connection is closed. A call on the connection closes it if the call fails.
async fn closed(cache: &CacheStore) {
    while cache.is_open() {
        cache.0.closed.notified().await;
    }
}

async fn open<F: Follower>(
    follower: &F,
    cache: &CacheStore,
) -> Result<(u64, impl Stream<Item = redis::Msg> + use<F>), String> {
    let (connection, news) = cache.connect().await?;
    let number = cache.begin(connection).await?;
    follower.missed();
    Ok((number, news))
}

/// Applies news until the connection ends.
async fn follow(follower: &impl Follower, cache: &CacheStore, news: impl Stream<Item = redis::Msg>) {
    let mut news = pin!(news);
    let mut check = tokio::time::interval(CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = news.next() => message,
            _ = check.tick() => {
                cache.check().await;
                continue;
            }
        };
        let Some(message) = message else { return };
        match cache.read(message.get_payload_bytes()) {
            Ok(None) => {}
            Ok(Some(news)) => follower.hear(news),
            Err(why) => tracing::warn!(why, "ignored a message on the cache store's channel"),
        }
    }
}
