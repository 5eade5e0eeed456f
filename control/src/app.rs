//! A node from start to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior};
use zeroize::Zeroizing;

use crate::access::api_key::ApiKeys;
use crate::access::issuer::EmbeddedIssuer;
use crate::access::key_set::KeySet;
use crate::access::limits::{self, Limits};
use crate::access::passwords::Passwords;
use crate::access::session_token::{Issuer, SessionTokens};
use crate::access::{trial_keys, trials, users};
use crate::blobs::Blobs;
use crate::budget::Budget;
use crate::cache_store::{self, CacheStore, News};
use crate::clock::{Clock, Timestamp};
use crate::compute::engine::{Compute, EngineDevice};
use crate::compute::sessions::{self, Sessions};
use crate::compute::{circuits, lease};
use crate::config::{ComputeConfig, Config};
use crate::data_dir::{DataDir, NodeLock};
use crate::docs::health::{self, LostDevices};
use crate::docs::operations;
use crate::in_flight::InFlight;
use crate::probe::Probe;
use crate::sealing::Seal;
use crate::secrets::{Purpose, Secrets};
use crate::telemetry::Telemetry;
use crate::tls::Tls;
use crate::web::body::LARGEST_UPLOAD_BYTES;
use crate::web::idempotency::{self, Answers};
use crate::web::offload::Offload;
use crate::{database, fail_point, listener, router};

/// How often expired sessions are looked for; their keys must be gone within 5 s (readings G3).
const SWEEP_PERIOD: Duration = Duration::from_secs(1);
/// How often the last use of keys is put on record.
const USE_PERIOD: Duration = Duration::from_secs(60);
/// Records of used keys from one removal of old records to the next.
const FORGET_TICKS: u64 = 60;
/// Open connections of the second listener at most.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

/// What handlers share.
pub struct Node {
    /// Checked settings.
    pub(crate) config: Config,
    /// Base of documentation links.
    pub(crate) base_url: String,
    /// When the node started.
    pub(crate) started: Instant,
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) secrets: Secrets,
    pub(crate) compute: Compute,
    pub(crate) api_keys: ApiKeys,
    pub(crate) session_tokens: SessionTokens,
    pub(crate) passwords: Passwords,
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) answers: Answers,
    /// Memory for bodies in transit.
    pub(crate) body_budget: Budget,
    pub(crate) offload: Offload,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) in_flight: InFlight,
    /// Circuits of clients that wait and of clients that do not, and operations of trials that are given back.
    pub(crate) circuits_running: InFlight,
    pub(crate) database_probe: Probe,
    pub(crate) cache_store: Option<CacheStore>,
    pub(crate) cache_store_probe: Probe,
    /// A proxy that the settings do not name was noticed and told of.
    pub(crate) unnamed_proxy_told: AtomicBool,
    draining: AtomicBool,
}

impl Node {
    /// The node finishes what it has and takes nothing new.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Has every node ask the database about keys of this lineage: they were revoked or rotated.
    pub(crate) async fn forget_keys(&self, lineage: &str) {
        self.api_keys.forget(lineage);
        self.tell_others(News::Keys { lineage: lineage.to_owned() }).await;
    }

    /// Has every node ask the database about session tokens: some have ended.
    pub(crate) async fn forget_tokens(&self) {
        self.session_tokens.forget_checked();
        self.tell_others(News::Tokens).await;
    }

    /// Tells the other nodes what they would see in the database a second later.
    pub(crate) async fn tell_others(&self, news: News) {
        if let Some(cache) = &self.cache_store {
            cache.publish(news).await;
        }
    }

    /// What is stored of a refresh token or the token of a link.
    pub(crate) fn token_digest(&self, token: &str) -> [u8; 32] {
        users::token_digest(&self.secrets, token)
    }
}

/// Starts nodes.
pub struct App;

/// A node that serves.
pub struct Running {
    /// Where the API listens.
    pub api_addr: SocketAddr,
    /// Where metrics and probes listen.
    pub metrics_addr: SocketAddr,
    /// Base of documentation links.
    pub base_url: String,
    /// Build string of the backend.
    pub backend: String,
    /// Name of the device that computes.
    pub device_name: String,
    /// Whether any API key was ever made in this data folder.
    pub has_api_keys: bool,
    node: Arc<Node>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    // last: the folder is free when everything else is gone
    _lock: NodeLock,
}

impl App {
    /// Starts a node with these settings.
    pub async fn start(config: Config) -> anyhow::Result<Running> {
        App::start_at(config, Clock::system()).await
    }

    /// Starts a node that reads the time from this clock.
    pub async fn start_at(config: Config, clock: Clock) -> anyhow::Result<Running> {
        App::start_with(config, clock, Compute::start).await
    }

    /// Starts a node that computes on these devices: for tests and benches of what is not a device's.
    pub async fn start_on(config: Config, clock: Clock, devices: Vec<EngineDevice>) -> anyhow::Result<Running> {
        App::start_with(config, clock, |bounds, _| Compute::start_on(bounds, devices)).await
    }

    async fn start_with(
        config: Config,
        clock: Clock,
        compute: impl FnOnce(&ComputeConfig, PathBuf) -> anyhow::Result<Compute> + Send + 'static,
    ) -> anyhow::Result<Running> {
        let tls = config.tls.clone().map(Tls::open).transpose()?;
        let data_dir = DataDir::open(&config.data_dir)?;
        let lock = data_dir.lock()?;
        let store = database::open_to_serve(&config).await?;
        let has_api_keys = store.has_api_keys().await?;
        let secrets = Secrets::load(&config, &data_dir, has_api_keys)?;
        secrets.check(&store, has_api_keys).await?;
        let api_listener = bind("ANGO_LISTEN", config.listen).await?;
        let metrics_listener = bind("ANGO_METRICS_LISTEN", config.metrics_listen).await?;
        let (api_addr, metrics_addr) = (api_listener.local_addr()?, metrics_listener.local_addr()?);

        let node_id = data_dir.node_id()?;
        // this node's requests of an earlier process are gone
        store.release_claims_of(&node_id).await?;
        store.give_back_lost_trial_operations(&node_id).await?;
        let blobs = match &config.bucket {
            Some(bucket) => Blobs::in_bucket(bucket, "answers")?,
            None => Blobs::in_folder(data_dir.answers()).context("ANGO_DATA_DIR: cannot make a folder for answers")?,
        };
        let answers = Answers::new(&secrets.key(Purpose::KeptAnswers), blobs, node_id.clone());
        circuits::fail_unfinished(&store, &node_id, clock.now()).await?;
        let (bounds, kernel_cache) = (config.compute.clone(), data_dir.kernel_cache());
        let compute = tokio::task::spawn_blocking(move || compute(&bounds, kernel_cache)).await??;
        let telemetry = Arc::new(Telemetry::new()?);
        let (bounds, circuits) = (config.sessions.clone(), config.circuits.clone());
        let seal = Seal::new(&secrets.key(Purpose::SessionIds));
        lease::renew(&store, &node_id, clock.now()).await?;
        let sessions = Sessions::start(
            store.clone(),
            node_id,
            compute.clone(),
            clock.clone(),
            telemetry.clone(),
            bounds,
            circuits,
            seal,
        )
        .await?;
        if !config.trusted_proxies.is_empty() && config.public_url.is_none() {
            tracing::warn!(
                "ANGO_PUBLIC_URL is not set behind a proxy: documentation links, setup links and tokens name the inner address"
            );
        }
        let base_url = config.public_url.clone().unwrap_or_else(|| url(&config, api_addr));
        let issuer = issuer(&config, &store, &secrets, &base_url, clock.now()).await?;
        let cache_store = config.cache_store.clone().map(CacheStore::new).transpose().context("ANGO_REDIS_URL")?;
        let node = Arc::new(Node {
            base_url,
            started: Instant::now(),
            api_keys: ApiKeys::new(store.clone(), secrets.pepper(), config.believed_for),
            session_tokens: SessionTokens::new(store.clone(), issuer, config.believed_for),
            passwords: Passwords::new(telemetry.clone()),
            limits: Limits::new(config.plan_limits, store.clone(), &secrets, cache_store.clone()),
            body_budget: Budget::memory(config.requests.body_memory_bytes, LARGEST_UPLOAD_BYTES),
            offload: Offload::new(),
            in_flight: InFlight::new(),
            circuits_running: InFlight::new(),
            database_probe: Probe::new("database", health::DATABASE_SLOW),
            cache_store_probe: Probe::new("cache store", health::CACHE_STORE_SLOW),
            cache_store,
            unnamed_proxy_told: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            config,
            clock,
            store,
            secrets,
            compute,
            sessions,
            answers,
            telemetry,
        });

        fail_point::watch();
        // before the first request: who was locked stays locked
        node.limits.exchange_lockouts(node.clock.now()).await;

        let (stop, stopped) = watch::channel(false);
        let connections_max = node.config.requests.connections_max;
        let mut tasks = Vec::new();
        if let Some(cache) = node.cache_store.clone() {
            let (tell_tried, tried) = oneshot::channel();
            tasks.push(tokio::spawn(cache_store::keep(node.clone(), cache, tell_tried, stopped.clone())));
            tasks.push(tokio::spawn(limits::look(node.clone(), stopped.clone())));
            // with it from the first request on, if it is there
            let _ = tried.await;
        }
        tasks.extend([
            tokio::spawn(listener::serve(
                api_listener,
                tls,
                router::router(node.clone()),
                connections_max,
                stopped.clone(),
            )),
            tokio::spawn(listener::serve(
                metrics_listener,
                None,
                operations::router(node.clone()),
                OPERATIONS_CONNECTIONS_MAX,
                stopped.clone(),
            )),
            tokio::spawn(limits::keep(node.clone(), stopped.clone())),
            tokio::spawn(lease::keep(node.clone(), stopped.clone())),
            tokio::spawn(erase(node.clone(), stopped.clone())),
            tokio::spawn(record_ends(node.clone(), stopped.clone())),
            tokio::spawn(keep_house(node.clone(), stopped)),
        ]);
        Ok(Running {
            api_addr,
            metrics_addr,
            base_url: node.base_url.clone(),
            backend: node.compute.backend().to_owned(),
            device_name: node.compute.device_name().to_owned(),
            has_api_keys,
            node,
            stop,
            tasks,
            _lock: lock,
        })
    }
}

impl Running {
    /// Where the API is: `http://`, or `https://` where the node speaks TLS, and the listening address.
    pub fn url(&self) -> String {
        url(self.config(), self.api_addr)
    }

    /// The node's settings.
    pub fn config(&self) -> &Config {
        &self.node.config
    }

    /// The link that creates the first administrator, at the first start of a node with users of its own.
    pub async fn first_setup_link(&self) -> anyhow::Result<Option<Zeroizing<String>>> {
        let node = &self.node;
        let embedded = node.session_tokens.embedded().is_some();
        if !embedded || node.store.has_users().await? || node.store.has_setup_link().await? {
            return Ok(None);
        }
        let link = users::new_setup_link(&node.store, &node.secrets, &node.base_url, node.clock.now()).await?;
        Ok(Some(link))
    }

    /// Writes a setup link to a file of the data folder that only its owner may read.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_setup_link(&self, link: &str) -> anyhow::Result<PathBuf> {
        DataDir::at(&self.node.config.data_dir).keep_setup_link(link)
    }

    /// The page of metrics.
    pub fn metrics(&self) -> String {
        operations::page(&self.node)
    }

    /// The node's database.
    pub fn store(&self) -> &Store {
        &self.node.store
    }

    /// Takes nothing new (503), finishes what there is, overwrites all keys, closes everything.
    pub async fn shutdown(self) {
        self.node.draining.store(true, Ordering::Relaxed);
        // requests have their own deadline, so this ends
        self.node.in_flight.idle().await;
        let _ = self.stop.send(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the node failed");
            }
        }
        self.node.sessions.lose_all().await;
        // circuits that nobody waits for ended with their sessions; that must be on record
        self.node.circuits_running.idle().await;
        self.node.api_keys.record_use().await;
        let compute = self.node.compute.clone();
        if tokio::task::spawn_blocking(move || compute.shutdown()).await.is_err() {
            tracing::error!("the engine did not stop in order");
        }
        self.node.limits.close(self.node.clock.now()).await;
        if let Err(error) = self.node.store.end_lease(&self.node.answers.node_id).await {
            tracing::warn!(cause = %error, "other nodes take this one to be there for a moment more");
        }
        self.node.store.close().await;
    }
}

/// Who issues the session tokens: the one that the operator named, else the node itself.
async fn issuer(
    config: &Config,
    store: &Store,
    secrets: &Secrets,
    base_url: &str,
    now: Timestamp,
) -> anyhow::Result<Issuer> {
    Ok(match &config.auth.external_issuer {
        None => Issuer::Embedded(EmbeddedIssuer::open(store, secrets, base_url.to_owned(), now).await?),
        Some(external) => Issuer::External {
            address: external.address.clone(),
            audience: external.audience.clone(),
            keys: KeySet::new(external.address.clone(), external.jwks_url.clone())?,
            trusts_account_ids: external.trusts_account_ids,
            made_max: external.accounts_max,
        },
    })
}

fn url(config: &Config, address: SocketAddr) -> String {
    format!("{}://{address}", if config.tls.is_some() { "https" } else { "http" })
}

async fn bind(variable: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{variable}: cannot listen on {address}"))
}

/// Erases the keys of expired sessions, and does what else never waits for anything, until the node stops.
async fn erase(node: Arc<Node>, stopped: watch::Receiver<bool>) {
    let (mut ticks, mut lost_devices) = (Ticks::new(SWEEP_PERIOD, stopped), LostDevices::default());
    while ticks.next().await.is_some() {
        node.sessions.erase_expired();
        lost_devices.watch(&node.compute.devices());
        node.telemetry.upkeep();
    }
}

/// Puts ends of sessions and trials on record. A task of its own: a database that hangs holds up this one only.
async fn record_ends(node: Arc<Node>, stopped: watch::Receiver<bool>) {
    let mut ticks = Ticks::new(SWEEP_PERIOD, stopped);
    while ticks.next().await.is_some() {
        node.sessions.record_expired().await;
        trials::end_trials(&node).await;
    }
}

/// Records the last use of keys, and every hour removes records and files whose time is over.
async fn keep_house(node: Arc<Node>, stopped: watch::Receiver<bool>) {
    let mut ticks = Ticks::new(USE_PERIOD, stopped);
    while let Some(tick) = ticks.next().await {
        if tick > 0 {
            node.api_keys.record_use().await;
        }
        if tick % FORGET_TICKS == 0 {
            sessions::forget_old(&node).await;
            circuits::forget_old(&node).await;
            idempotency::forget_old(&node).await;
            users::forget_old(&node).await;
            trial_keys::forget_old(&node).await;
        }
    }
}

/// When to do something again, until the node stops.
struct Ticks {
    interval: Interval,
    stopped: watch::Receiver<bool>,
    ticks: u64,
}

impl Ticks {
    /// At once, and then every so often.
    fn new(period: Duration, stopped: watch::Receiver<bool>) -> Ticks {
        let mut interval = tokio::time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ticks { interval, stopped, ticks: 0 }
    }

    /// Waits for the next tick; how many came before. `None`: the node stops.
    async fn next(&mut self) -> Option<u64> {
        tokio::select! {
            _ = self.interval.tick() => {}
            _ = self.stopped.wait_for(|stopped| *stopped) => return None,
        }
        self.ticks += 1;
        Some(self.ticks - 1)
    }
}
