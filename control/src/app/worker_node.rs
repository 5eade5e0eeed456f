//! A process of the role worker: computes for the API nodes of its fleet. The process has no database and no API. Its second
//! listener serves metrics and probes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics::gauge;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::DRAIN_MAX;
use super::ground::Ground;
use super::worker;
use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::NodeLock;
use crate::docs::operations;
use crate::listener;
use crate::secrets::Key;
use crate::telemetry::Telemetry;
use crate::work::fleet::{Member, WorkerPart, start_worker};
use crate::work::{EngineDevice, Here, Usage};

/// Largest number of open connections of the listener for metrics and probes.
const CONNECTIONS_MAX: usize = 64;

/// A running worker.
pub struct WorkerNode {
    /// The address of metrics and probes.
    pub metrics_addr: SocketAddr,
    state: Arc<WorkerState>,
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
    // the last field, because the folder must stay locked while the others exist
    _lock: NodeLock,
}

struct WorkerState {
    here: Here,
    part: WorkerPart,
    telemetry: Arc<Telemetry>,
    draining: AtomicBool,
}

impl WorkerNode {
    /// Starts a worker. With `devices`, these devices compute, and the settings choose none.
    ///
    /// # Errors
    /// When the settings cannot be used, or when no device computes.
    pub async fn start(config: &Config, devices: Option<Vec<EngineDevice>>) -> anyhow::Result<WorkerNode> {
        let ground = Ground::open(config, Clock::system())?;
        let listener = TcpListener::bind(config.metrics_listen).await;
        let listener =
            listener.with_context(|| format!("ANGO_METRICS_LISTEN: cannot listen on {}", config.metrics_listen))?;
        let metrics_addr = listener.local_addr()?;
        // a worker names no accounts: it reads their digests from messages
        let here = worker::start(&config.compute, &ground, devices, Key::default()).await?;
        let name = config.fleet.worker_name.as_deref().unwrap_or(&ground.node_id);
        let member = Member::connect(&config.fleet, name, false).await?;
        let member = member.context("a worker needs a broker")?;
        let bucket = config.bucket.as_ref().context("a fleet needs a bucket")?;
        let key = config.fleet.worker_key().context("a worker needs the fleet's key")?;
        let (bytes_max, offload) = (config.compute.key_bytes_max, ground.offload.clone());
        let part = start_worker(&member, &config.fleet, &here, &key, bucket, bytes_max, offload)?;
        let telemetry = ground.telemetry.clone();
        let state = Arc::new(WorkerState { here, part, telemetry, draining: AtomicBool::new(false) });
        let (stop, stopped) = watch::channel(false);
        let served = listener::serve(listener, None, router(state.clone()), CONNECTIONS_MAX, stopped);
        Ok(WorkerNode { metrics_addr, state, stop, served: tokio::spawn(served), _lock: ground.lock })
    }

    /// Returns the build string of the backend, and the name of the first device.
    pub fn device(&self) -> (&str, &str) {
        (self.state.here.backend(), self.state.here.device_name())
    }

    /// Returns the engine's present figures.
    pub fn usage(&self) -> Usage {
        self.state.here.usage()
    }

    /// Returns how often a key was not open when its work came.
    pub fn key_misses(&self) -> u64 {
        self.state.part.key_misses()
    }

    /// Waits until an operator lets the worker leave.
    pub async fn asked_to_leave(&self) {
        self.state.part.asked_to_leave().await;
    }

    /// Stops the worker: takes no more work, finishes its work within 10 minutes, and overwrites all keys.
    pub async fn shutdown(self) {
        self.state.draining.store(true, Ordering::Relaxed);
        self.state.part.drain(DRAIN_MAX).await;
        let here = self.state.here.clone();
        if tokio::task::spawn_blocking(move || here.shutdown()).await.is_err() {
            tracing::error!("the engine failed during its shutdown");
        }
        let _ = self.stop.send(true);
        let _ = self.served.await;
    }
}

fn router(state: Arc<WorkerState>) -> Router {
    Router::new()
        .route("/metrics", get(page))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(state)
}

async fn page(State(state): State<Arc<WorkerState>>) -> impl IntoResponse {
    let (usage, devices) = (state.here.usage(), state.here.devices());
    state.telemetry.record(|| {
        operations::show_engine(&usage, &devices);
        operations::show_part(&state.part, &usage);
        gauge!("ango_fleet_broker_up").set(f64::from(u8::from(state.part.hears())));
    });
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], state.telemetry.render())
}

/// Answers 200 unless the worker is stopping, warms up, or has not heard its broker.
async fn readyz(State(state): State<Arc<WorkerState>>) -> (StatusCode, &'static str) {
    if state.draining.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else if !state.part.hears() {
        (StatusCode::SERVICE_UNAVAILABLE, "broker unavailable\n")
    } else if !state.part.is_warm() {
        (StatusCode::SERVICE_UNAVAILABLE, "warming\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}
