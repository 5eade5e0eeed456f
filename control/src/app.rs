//! A node from start to stop.

mod api;
mod ground;
mod jobs;
mod storage;
mod worker;
mod worker_node;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use store::Store;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use self::api::Listeners;
use self::ground::Ground;
use self::storage::Storage;
use crate::access::{Access, users};
use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::{DataDir, NodeLock};
use crate::docs::operations;
use crate::events::deliver;
use crate::router::Areas;
use crate::secrets::Purpose;
use crate::work::fleet::{Fleet, Member, NodeRole, WorkerPart, start_worker};
use crate::work::{AccountDigests, EngineDevice, Here, KeyStore, Worker, Workers};
use crate::{cache_store, database_clock, fail_point, periodic};

/// Longest time in which a stopping worker of a fleet finishes its work.
pub const DRAIN_MAX: Duration = Duration::from_secs(10 * 60);

pub use self::worker_node::WorkerNode;

/// Starts nodes.
pub struct App;

/// A running node.
pub struct Running {
    /// The address of the API's listener.
    pub api_addr: SocketAddr,
    /// The address of the listener for metrics and probes.
    pub metrics_addr: SocketAddr,
    /// Base URL of links to the documentation.
    pub base_url: String,
    /// Name of the backend that computes, such as `cpu-avx512`.
    pub backend: String,
    /// Name of the computing device.
    pub device_name: String,
    /// Whether the database has ever had an API key.
    pub has_api_keys: bool,
    config: Config,
    areas: Areas,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    /// The part that computes for a fleet.
    part: Option<Arc<WorkerPart>>,
    // the last field, because the fields are dropped in this order and the folder must stay locked while the others
    // exist
    _lock: NodeLock,
}

impl App {
    /// Starts a node with these settings.
    pub async fn start(config: Config) -> anyhow::Result<Running> {
        App::start_at(config, fail_point::clock()).await
    }

    /// Starts a node that reads the time from this clock.
    pub async fn start_at(config: Config, clock: Clock) -> anyhow::Result<Running> {
        App::start_with(config, clock, None, |here| Arc::new(here)).await
    }

    /// Starts a node for tests and benches. With `devices`, these devices compute, and the settings choose none.
    /// `through` makes the worker that the node asks, from the worker of this process.
    pub async fn start_with(
        config: Config,
        clock: Clock,
        devices: Option<Vec<EngineDevice>>,
        through: fn(Here) -> Arc<dyn Worker>,
    ) -> anyhow::Result<Running> {
        let ground = Ground::open(&config, clock)?;
        let storage = Storage::open(&config, &ground).await?;
        database_clock::follow(&storage.store, &ground.clock).await?;
        let listeners = Listeners::bind(&config).await?;
        storage.end_earlier_process(&ground.node_id, ground.clock.now()).await?;
        let (api_addr, metrics_addr) = (listeners.api_addr, listeners.metrics_addr);
        let Computing { workers, asked, part } =
            computing(&config, &ground, &storage, devices, through, listeners.internal_addr).await?;
        let keys = KeyStore::open(ground.data_dir.path(), &config.compute)?;
        let areas = api::areas(&config, &ground, &storage, (workers, keys), (asked, part.clone()), api_addr).await?;

        fail_point::watch();
        areas.web.answers.begin_generation().await?;
        // read the lockouts before the first request, so that lockouts from before the start still hold
        areas.access.limits.exchange_lockouts(ground.clock.now()).await;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = follow_news(&areas, &stopped).await;
        tasks.extend(listeners.serve(&config, ground.tls, &areas, &stopped));
        tasks.push(tokio::spawn(deliver::keep(areas.events.clone(), stopped.clone())));
        tasks.extend(periodic::start(jobs::list(&areas, config.believed_for), &stopped));
        Ok(Running {
            api_addr,
            metrics_addr,
            base_url: areas.web.base_url.clone(),
            backend: areas.compute.workers.backend().to_owned(),
            device_name: areas.compute.workers.device_name().to_owned(),
            has_api_keys: storage.has_api_keys,
            config,
            areas,
            stop,
            tasks,
            part,
            _lock: ground.lock,
        })
    }
}

/// The workers of a node, and the worker that is asked.
struct Computing {
    workers: Arc<Workers>,
    asked: Arc<dyn Worker>,
    part: Option<Arc<WorkerPart>>,
}

/// Starts the worker of this process, unless the process only takes requests, and connects to the fleet, if the settings name
/// one.
async fn computing(
    config: &Config,
    ground: &Ground,
    storage: &Storage,
    devices: Option<Vec<EngineDevice>>,
    through: fn(Here) -> Arc<dyn Worker>,
    internal_addr: Option<SocketAddr>,
) -> anyhow::Result<Computing> {
    let accounts = || storage.secrets.key(Purpose::WorkAccounts);
    let own = match config.fleet.role {
        NodeRole::Api => None,
        NodeRole::All | NodeRole::Worker => Some(worker::start(&config.compute, ground, devices, accounts()).await?),
    };
    let member = Member::connect(&config.fleet, &ground.node_id, true).await?;
    let (Some(member), Some(address)) = (member, internal_addr) else {
        let here = own.context("an API node needs a broker")?;
        let asked = through(here.clone());
        return Ok(Computing { workers: Arc::new(Workers::here(here)), asked, part: None });
    };
    let url = config.fleet.internal_url.clone().unwrap_or_else(|| format!("http://{address}"));
    let fleet = Fleet::new(&member, url);
    let bucket = config.bucket.as_ref().context("a fleet needs a bucket")?;
    let (key, offload) = (storage.secrets.key(Purpose::Fleet), ground.offload.clone());
    let start = |here: &Here| {
        let key_bytes_max = config.compute.key_bytes_max;
        start_worker(&member, &config.fleet, here, &key, bucket, key_bytes_max, offload)
    };
    let part = own.as_ref().map(start).transpose()?.map(Arc::new);
    let workers = Workers::of_fleet(fleet.clone(), own, Arc::new(AccountDigests::new(accounts())));
    Ok(Computing { workers: Arc::new(workers), asked: Arc::new(fleet), part })
}

/// Starts to follow the news of other nodes, if the node has a cache store or is a member of a fleet. Returns after the
/// first attempt to connect to the cache store, so that the first request can use it.
async fn follow_news(Areas { access, compute, .. }: &Areas, stopped: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    let looking = || tokio::spawn(access.limits.clone().look(stopped.clone()));
    if let Some(cache) = access.cache_store.clone() {
        let (tell_tried, tried) = oneshot::channel();
        let keeping = tokio::spawn(cache_store::keep(cache, access.clone(), tell_tried, stopped.clone()));
        let _ = tried.await;
        return vec![keeping, looking()];
    }
    let Some(fleet) = compute.workers.fleet() else { return Vec::new() };
    fleet.follow(access);
    vec![looking()]
}

impl Running {
    /// The API's URL: `http://`, or `https://` if the node serves TLS, and the listening address.
    pub fn url(&self) -> String {
        api::url(self.config(), self.api_addr)
    }

    /// The node's settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes the link that creates the first administrator. `None`: an external issuer signs users in, or a user or a
    /// link exists already.
    pub async fn first_setup_link(&self) -> anyhow::Result<Option<Zeroizing<String>>> {
        let Access { store, session_tokens, token_pepper, clock, .. } = &*self.areas.access;
        let embedded = session_tokens.embedded().is_some();
        if !embedded || store.has_users().await? || store.has_setup_link().await? {
            return Ok(None);
        }
        Ok(Some(users::new_setup_link(store, token_pepper, &self.base_url, clock.now()).await?))
    }

    /// Writes a setup link to a file in the data folder with mode 0600.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep_setup_link(&self, link: &str) -> anyhow::Result<PathBuf> {
        DataDir::at(&self.config.data_dir).keep_setup_link(link)
    }

    /// Returns the page of metrics.
    pub fn metrics(&self) -> String {
        operations::page(&self.areas.docs)
    }

    /// Returns how many workers of the fleet the node hears. 0: the node is no member of a fleet.
    pub fn workers_heard(&self) -> usize {
        let fleet = self.areas.compute.workers.fleet();
        fleet.map_or(0, |fleet| fleet.ears().workers.lock().live(Instant::now()).count())
    }

    /// Returns how many workers of the fleet are ready, as the node hears them.
    pub fn workers_ready(&self) -> usize {
        let fleet = self.areas.compute.workers.fleet();
        let ready = |fleet: &Fleet| {
            let ears = fleet.ears();
            let workers = ears.workers.lock();
            workers.live(Instant::now()).filter(|worker| worker.is_ready()).count()
        };
        fleet.map_or(0, ready)
    }

    /// The node's database.
    pub fn store(&self) -> &Store {
        &self.areas.compute.store
    }

    /// Stops the node: refuses new requests with 503, finishes running requests, overwrites all keys, closes
    /// everything.
    pub async fn shutdown(self) {
        let Areas { web, access, compute, .. } = self.areas;
        web.drain();
        // this wait ends, because every request has a deadline
        web.in_flight.idle().await;
        if let Some(part) = &self.part {
            part.drain(DRAIN_MAX).await;
        }
        let _ = self.stop.send(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the node failed");
            }
        }
        if let Some(line) = &compute.line {
            line.stop();
        }
        compute.sessions.lose_all().await;
        // circuits that ran in the background have ended with their sessions; wait until their ends, and the results of
        // e-mails that are being sent, are recorded
        compute.unfinished.idle().await;
        access.api_keys.record_use().await;
        if let Some(here) = compute.workers.own().cloned()
            && tokio::task::spawn_blocking(move || here.shutdown()).await.is_err()
        {
            tracing::error!("the engine failed during its shutdown");
        }
        access.limits.close(access.clock.now()).await;
        if let Err(error) = compute.store.end_lease(&compute.sessions.node_id).await {
            tracing::warn!(
                cause = %error,
                "the node's lease could not be ended: other nodes count the node as running until the lease expires"
            );
        }
        compute.store.close().await;
    }
}
