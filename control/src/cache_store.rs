//! The cache store that nodes may share, a Redis: shared bursts, and messages among them.
//!
//! Nothing depends on it (readings L10, O2): the database is the authority, and while the cache store does not answer every
//! node goes by the database and by what it knows itself. Either there is a connection, which all callers share, or there is
//! none, and no request waits for one: a call that fails closes the connection, and [`keep`] opens the next one, at most
//! once a second.

mod bursts;
mod keep;
mod news;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::Stream;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult, Script};
use tokio::sync::Notify;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::ids;

pub use keep::{Follower, keep};
pub use news::{News, ping_once, publish_once};

/// Longest time for opening a connection.
const OPEN_PATIENCE: Duration = Duration::from_secs(1);

/// Where the cache store is and how it is used.
#[derive(Clone)]
pub struct CacheStoreConfig {
    /// `redis:`, `rediss:` or `redis+unix:` URL. May hold a password.
    pub url: Zeroizing<String>,
    /// What all names of ours begin with.
    pub prefix: String,
    /// Longest time for a call.
    pub patience: Duration,
}

impl CacheStoreConfig {
    /// The one at this URL.
    ///
    /// # Errors
    /// What the URL must be, without repeating it.
    pub fn at(url: &str) -> Result<CacheStoreConfig, &'static str> {
        let is_redis = ["redis://", "rediss://", "redis+unix://"].iter().any(|scheme| url.starts_with(scheme));
        // with #insecure the client would not check certificates
        if !is_redis || url.contains('#') || Client::open(url).is_err() {
            return Err("must be a redis:, rediss: or redis+unix: URL without a fragment");
        }
        let patience = Duration::from_millis(100);
        Ok(CacheStoreConfig { url: Zeroizing::new(url.to_owned()), prefix: "ango:".to_owned(), patience })
    }

    fn name(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }
}

impl std::fmt::Debug for CacheStoreConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CacheStoreConfig(..)")
    }
}

/// The cache store does not answer; the log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable;

/// A node's way to the cache store; cheap to clone.
#[derive(Clone)]
pub struct CacheStore(Arc<Shared>);

struct Shared {
    config: CacheStoreConfig,
    client: Client,
    /// This node's name in its messages.
    name: String,
    current: Mutex<Current>,
    /// A call has closed the connection.
    closed: Notify,
    /// The outage is in the log.
    told: AtomicBool,
    take_token: Script,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    /// Connections so far.
    number: u64,
}

impl CacheStore {
    /// Not connected yet: that is what [`keep`] does.
    pub fn new(config: CacheStoreConfig) -> RedisResult<CacheStore> {
        Ok(CacheStore(Arc::new(Shared {
            client: Client::open(config.url.as_str())?,
            config,
            name: ids::random_hex::<8>("").to_string(),
            current: Mutex::default(),
            closed: Notify::new(),
            told: AtomicBool::new(false),
            take_token: Script::new(bursts::SCRIPT),
        })))
    }

    /// Whether there is a connection.
    pub fn is_open(&self) -> bool {
        self.0.current.lock().connection.is_some()
    }

    /// Sends the smallest possible question. The caller bounds the time.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn probe(&self) -> Result<(), String> {
        let connection = self.0.current.lock().connection.clone();
        let mut connection = connection.ok_or("there is no connection")?;
        redis::cmd("PING").exec_async(&mut connection).await.map_err(|error| error.to_string())
    }

    /// Makes a call on the connection, if there is one. If it fails or takes too long there is none any more.
    async fn call<T, F>(&self, call: impl FnOnce(MultiplexedConnection) -> F) -> Result<T, Unreachable>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let (connection, number) = {
            let current = self.0.current.lock();
            (current.connection.clone().ok_or(Unreachable)?, current.number)
        };
        let failure = match timeout(self.0.config.patience, call(connection)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it did not answer in time".to_owned(),
        };
        if self.close(number, &failure) {
            self.0.closed.notify_one();
        }
        Err(Unreachable)
    }

    /// A new connection and what comes over the channel of news, neither in use yet.
    async fn connect(&self) -> Result<(MultiplexedConnection, impl Stream<Item = redis::Msg> + use<>), String> {
        let config = &self.0.config;
        let opening = async {
            // calls have a limit of their own
            let unlimited = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            let connection = self.0.client.get_multiplexed_async_connection_with_config(&unlimited).await?;
            let mut news = self.0.client.get_async_pubsub().await?;
            news.subscribe(config.name(news::CHANNEL)).await?;
            Ok::<_, RedisError>((connection, news.into_on_message()))
        };
        let opened = timeout(OPEN_PATIENCE, opening).await.map_err(|_| "it did not answer in time")?;
        opened.map_err(|error| error.to_string())
    }

    /// Has all callers use a connection that is quick enough and may write.
    async fn begin(&self, mut connection: MultiplexedConnection) -> Result<u64, String> {
        let config = &self.0.config;
        let mut write = redis::cmd("SET");
        write.arg(config.name("last_opened")).arg(&self.0.name);
        let written = timeout(config.patience, write.exec_async(&mut connection)).await;
        written.map_err(|_| "it is too slow")?.map_err(|error| error.to_string())?;
        let mut current = self.0.current.lock();
        current.connection = Some(connection);
        current.number += 1;
        let number = current.number;
        drop(current);
        if self.0.told.swap(false, Ordering::Relaxed) {
            tracing::info!("the cache store answers again");
        }
        Ok(number)
    }

    /// Notices a connection that does not answer before a request does.
    async fn check(&self) {
        let _ = self.call(async |mut connection| redis::cmd("PING").exec_async(&mut connection).await).await;
    }

    /// Closes the connection of this number; false: it was closed before.
    fn close(&self, number: u64, failure: &str) -> bool {
        let mut current = self.0.current.lock();
        let closes = current.number == number && current.connection.take().is_some();
        drop(current);
        if closes {
            self.log_outage(failure);
        }
        closes
    }

    /// Logs an outage once.
    fn log_outage(&self, failure: &str) {
        if !self.0.told.swap(true, Ordering::Relaxed) {
            tracing::error!(
                cause = failure,
                "the cache store does not answer: the node goes on with the database alone"
            );
        }
    }
}
