//! The cache store that nodes may share, a Redis server: shared token buckets, and messages between nodes. In a fleet without
//! a cache store, the broker carries the messages ([`Teller`]).
//!
//! No result depends on the cache store (readings L10, O2). The database is the authority; while the cache store does
//! not answer, every node uses the database and its own memory. All callers share one connection, and no request waits
//! for a connection. A call that fails closes the connection, and [`keep`] opens the next one, at most once a second.

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
pub use news::{News, Teller, ping_once, publish_once};

/// Timeout for opening a connection.
const OPEN_PATIENCE: Duration = Duration::from_secs(1);

/// The address and settings of the cache store.
#[derive(Clone)]
pub struct CacheStoreConfig {
    /// A `redis:`, `rediss:` or `redis+unix:` URL. May contain a password.
    pub url: Zeroizing<String>,
    /// Prefix of all keys and channels.
    pub prefix: String,
    /// Timeout of a call.
    pub patience: Duration,
}

impl CacheStoreConfig {
    /// Makes the settings of the cache store at this URL.
    ///
    /// # Errors
    /// The rule that the URL breaks, without the URL.
    pub fn at(url: &str) -> Result<CacheStoreConfig, &'static str> {
        let is_redis = ["redis://", "rediss://", "redis+unix://"].iter().any(|scheme| url.starts_with(scheme));
        // refuse a fragment, because with #insecure the client would not check certificates
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

/// The cache store does not answer. The cause is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable;

/// A node's access to the cache store. Clones share the same connection.
#[derive(Clone)]
pub struct CacheStore(Arc<Shared>);

struct Shared {
    config: CacheStoreConfig,
    client: Client,
    /// This node's name in its messages.
    name: String,
    current: Mutex<Current>,
    /// Notified when a call has closed the connection.
    closed: Notify,
    /// Whether the present outage was logged.
    told: AtomicBool,
    take_token: Script,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    /// Number of connections opened so far.
    number: u64,
}

impl CacheStore {
    /// Creates an access to the cache store, without a connection. [`keep`] opens the connection.
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

    /// Sends a PING. The caller sets the timeout.
    ///
    /// # Errors
    /// Why no answer came.
    pub async fn probe(&self) -> Result<(), String> {
        let connection = self.0.current.lock().connection.clone();
        let mut connection = connection.ok_or("there is no connection")?;
        redis::cmd("PING").exec_async(&mut connection).await.map_err(|error| error.to_string())
    }

    /// Makes a call on the connection, if there is one. If the call fails or times out, the connection is closed.
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
            Err(_) => "no answer in time".to_owned(),
        };
        if self.close(number, &failure) {
            self.0.closed.notify_one();
        }
        Err(Unreachable)
    }

    /// Opens a connection and subscribes to the channel of news. Requests do not use the connection yet.
    async fn connect(&self) -> Result<(MultiplexedConnection, impl Stream<Item = redis::Msg> + use<>), String> {
        let config = &self.0.config;
        let opening = async {
            // no timeouts here, because each call has its own
            let unlimited = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            let connection = self.0.client.get_multiplexed_async_connection_with_config(&unlimited).await?;
            let mut news = self.0.client.get_async_pubsub().await?;
            news.subscribe(config.name(news::CHANNEL)).await?;
            Ok::<_, RedisError>((connection, news.into_on_message()))
        };
        let opened = timeout(OPEN_PATIENCE, opening).await.map_err(|_| "no answer in time")?;
        opened.map_err(|error| error.to_string())
    }

    /// Puts a connection into use for all callers, if it is fast enough and may write.
    async fn begin(&self, mut connection: MultiplexedConnection) -> Result<u64, String> {
        let config = &self.0.config;
        let mut write = redis::cmd("SET");
        write.arg(config.name("last_opened")).arg(&self.0.name);
        let written = timeout(config.patience, write.exec_async(&mut connection)).await;
        written.map_err(|_| "the cache store is too slow")?.map_err(|error| error.to_string())?;
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

    /// Checks the connection, so that a dead one is closed before a request uses it.
    async fn check(&self) {
        let _ = self.call(async |mut connection| redis::cmd("PING").exec_async(&mut connection).await).await;
    }

    /// Closes the connection with this number. False: it was closed before.
    fn close(&self, number: u64, failure: &str) -> bool {
        let mut current = self.0.current.lock();
        let closes = current.number == number && current.connection.take().is_some();
        drop(current);
        if closes {
            self.log_outage(failure);
        }
        closes
    }

    /// Logs the beginning of an outage once.
    fn log_outage(&self, failure: &str) {
        if !self.0.told.swap(true, Ordering::Relaxed) {
            tracing::error!(cause = failure, "the cache store does not answer, so the node uses only the database");
        }
    }
}
