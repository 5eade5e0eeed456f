//! A node from start to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::auth::{ApiKeys, Pepper};
use crate::body::BodyBudget;
use crate::clock::Clock;
use crate::compute::Compute;
use crate::config::Config;
use crate::data_dir::{DataDir, NodeLock};
use crate::in_flight::InFlight;
use crate::offload::Offload;
use crate::platform::circuits;
use crate::platform::health::{LastProbe, LostDevices};
use crate::sessions::Sessions;
use crate::telemetry::Telemetry;
use crate::{listener, operations, router};

/// How often expired sessions are looked for; their keys must be gone within 5 s (readings G3).
const SWEEP_PERIOD: Duration = Duration::from_secs(1);
/// Sweeps from one removal of old records to the next.
const FORGET_TICKS: u64 = 3600;
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
    pub(crate) compute: Compute,
    pub(crate) api_keys: ApiKeys,
    pub(crate) sessions: Sessions,
    pub(crate) body_budget: BodyBudget,
    pub(crate) offload: Offload,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) in_flight: InFlight,
    /// Circuits of clients that wait and of clients that do not.
    pub(crate) circuits_running: InFlight,
    pub(crate) last_probe: LastProbe,
    draining: AtomicBool,
}

impl Node {
    /// The node finishes what it has and takes nothing new.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
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
        let data_dir = DataDir::open(&config.data_dir)?;
        let lock = data_dir.lock()?;
        let store = Store::open(&config.database_url).await.context("ANGO_DATABASE_URL: cannot open the database")?;
        let has_api_keys = store.has_api_keys().await?;
        let pepper = Pepper(data_dir.pepper(has_api_keys)?);
        let api_listener = bind("ANGO_LISTEN", config.listen).await?;
        let metrics_listener = bind("ANGO_METRICS_LISTEN", config.metrics_listen).await?;
        let (api_addr, metrics_addr) = (api_listener.local_addr()?, metrics_listener.local_addr()?);

        circuits::fail_unfinished(&store, clock.now()).await?;
        let (bounds, kernel_cache) = (config.compute.clone(), data_dir.kernel_cache());
        let compute = tokio::task::spawn_blocking(move || Compute::start(&bounds, kernel_cache)).await??;
        let telemetry = Arc::new(Telemetry::new()?);
        let (ttl, circuits) = (config.sessions.ttl, config.circuits.clone());
        let sessions =
            Sessions::start(store.clone(), compute.clone(), clock.clone(), telemetry.clone(), ttl, circuits).await?;
        let node = Arc::new(Node {
            base_url: config.public_url.clone().unwrap_or_else(|| format!("http://{api_addr}")),
            started: Instant::now(),
            api_keys: ApiKeys::new(store.clone(), pepper),
            body_budget: BodyBudget::new(config.requests.body_memory_bytes),
            offload: Offload::new(),
            in_flight: InFlight::new(),
            circuits_running: InFlight::new(),
            last_probe: LastProbe::default(),
            draining: AtomicBool::new(false),
            config,
            clock,
            store,
            compute,
            sessions,
            telemetry,
        });

        let (stop, stopped) = watch::channel(false);
        let connections_max = node.config.requests.connections_max;
        let tasks = vec![
            tokio::spawn(listener::serve(api_listener, router::router(node.clone()), connections_max, stopped.clone())),
            tokio::spawn(listener::serve(
                metrics_listener,
                operations::router(node.clone()),
                OPERATIONS_CONNECTIONS_MAX,
                stopped.clone(),
            )),
            tokio::spawn(keep_house(node.clone(), stopped)),
        ];
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
    /// Where the API is: `http://` and the listening address.
    pub fn url(&self) -> String {
        format!("http://{}", self.api_addr)
    }

    /// The node's settings.
    pub fn config(&self) -> &Config {
        &self.node.config
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
        let compute = self.node.compute.clone();
        if tokio::task::spawn_blocking(move || compute.shutdown()).await.is_err() {
            tracing::error!("the engine did not stop in order");
        }
        self.node.store.close().await;
    }
}

async fn bind(variable: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{variable}: cannot listen on {address}"))
}

/// Ends expired sessions and folds metrics until the node stops.
async fn keep_house(node: Arc<Node>, mut stopped: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(SWEEP_PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut lost_devices = LostDevices::default();
    for ticks in 0u64.. {
        tokio::select! {
            _ = tick.tick() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        if ticks % FORGET_TICKS == 0 {
            circuits::forget_old(&node).await;
        }
        lost_devices.watch(&node.compute.devices());
        node.sessions.sweep().await;
        node.telemetry.upkeep();
    }
}
