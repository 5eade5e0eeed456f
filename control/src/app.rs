//! A node from start to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior};
use zeroize::Zeroizing;

use crate::access::api_key::ApiKeys;
use crate::access::issuer::EmbeddedIssuer;
use crate::access::key_set::IssuerKeys;
use crate::access::limits::Limits;
use crate::access::passwords::Passwords;
use crate::access::session_token::{Issuer, SessionTokens};
use crate::access::trials::Trials;
use crate::access::{Access, users};
use crate::billing::ledger::Ledger;
use crate::billing::mail::Mailer;
use crate::billing::{self, Billing, payments};
use crate::blobs::{self, Blobs, ObjectKind, Unclaimed};
use crate::cache_store::{self, CacheStore};
use crate::clock::{Clock, Timestamp};
use crate::compute::bits::circuits::StoredNetlists;
use crate::compute::bits::sessions::Sessions;
use crate::compute::numbers::arithmetic::open_keys::OpenKeys;
use crate::compute::numbers::vault::Vault;
use crate::compute::operation::record;
use crate::compute::operation::running::RunningOperations;
use crate::compute::{Compute, lease};
use crate::config::Config;
use crate::data_dir::{DataDir, NodeLock};
use crate::docs::health::{self, LostDevices};
use crate::docs::{Docs, operations};
use crate::events::{Events, deliver};
use crate::in_flight::InFlight;
use crate::office::audit_log::AuditLog;
use crate::office::{self, Office};
use crate::probe::Probe;
use crate::resource::Resource;
use crate::router::{self, Areas};
use crate::sealing::{AccountSeals, Seal};
use crate::secrets::{Purpose, Secrets};
use crate::telemetry::Telemetry;
use crate::tls::Tls;
use crate::web::Web;
use crate::web::body::LARGEST_UPLOAD_BYTES;
use crate::web::idempotency::Answers;
use crate::web::offload::Offload;
use crate::work::{EngineDevice, Here, KeyStore, Worker};
use crate::{database, fail_point, listener};

/// Time between two searches for expired sessions. The time is short, because a key must be overwritten within 5 s
/// after its session expired (readings G3).
const SWEEP_PERIOD: Duration = Duration::from_secs(1);
/// How often the times of keys' last use are recorded.
const USE_PERIOD: Duration = Duration::from_secs(60);
/// Old records are removed once in this many `USE_PERIOD`s: every hour.
const FORGET_TICKS: u64 = 60;
/// Largest number of open connections of the listener for metrics and probes.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

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
        let tls = config.tls.clone().map(Tls::open).transpose()?;
        let data_dir = DataDir::open(&config.data_dir)?;
        let lock = data_dir.lock()?;
        let store = database::open_to_serve(&config).await?;
        let has_api_keys = store.has_api_keys().await?;
        let secrets = Secrets::load(config.secret.as_ref(), &data_dir, has_api_keys)?;
        secrets.check(&store, has_api_keys).await?;
        let api_listener = bind("ANGO_LISTEN", config.listen).await?;
        let metrics_listener = bind("ANGO_METRICS_LISTEN", config.metrics_listen).await?;
        let (api_addr, metrics_addr) = (api_listener.local_addr()?, metrics_listener.local_addr()?);

        let node_id = data_dir.node_id()?;
        // idempotency claims of an earlier process of this node belong to requests that no longer run
        store.release_claims_of(&node_id).await?;
        let database_id = store.database_id().await?;
        if let Some(bucket) = &config.bucket {
            match blobs::claim(bucket, &database_id).await {
                Err(error @ Unclaimed::OtherDatabase) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "the bucket does not answer; the node removes no objects until the bucket answers")
                }
                Ok(()) => {}
            }
        }
        let seals = AccountSeals::new(secrets.key(Purpose::Accounts));
        let blobs = |kind| match &config.bucket {
            Some(bucket) => Blobs::in_bucket(bucket, &database_id, kind, seals.clone()),
            None => Blobs::in_folder(data_dir.path(), kind, seals.clone())
                .context("ANGO_DATA_DIR: cannot make a folder for objects"),
        };
        let answers = Answers::new(store.clone(), seals.clone(), blobs(ObjectKind::Answers)?, node_id.clone());
        // only this node can read its folder, so objects in it need a database that only this node uses
        let is_shared = config.bucket.is_some() || store.database() == "sqlite";
        let netlists = is_shared.then(|| blobs(ObjectKind::Circuits)).transpose()?;
        let vault_blobs = [blobs(ObjectKind::EncryptionKeys)?, blobs(ObjectKind::Ciphertexts)?];
        record::fail_unfinished(&store, &node_id, clock.now()).await?;
        let (bounds, kernel_cache) = (config.compute.clone(), data_dir.kernel_cache());
        let accounts = secrets.key(Purpose::WorkAccounts);
        let here = tokio::task::spawn_blocking(move || match devices {
            None => Here::start(&bounds, kernel_cache, accounts),
            Some(devices) => Here::start_on(&bounds, devices, accounts),
        });
        let here = here.await??;
        let keys = KeyStore::open(data_dir.path(), &config.compute)?;
        let telemetry = Arc::new(Telemetry::new()?);
        let offload = Offload::new();
        let vault_config = config.vault.clone();
        let vault = Vault::open(store.clone(), offload.clone(), vault_blobs, &node_id, is_shared, vault_config).await?;
        lease::renew(&store, &node_id, clock.now()).await?;
        let sessions = Sessions::start(
            store.clone(),
            node_id,
            here.clone(),
            clock.clone(),
            telemetry.clone(),
            config.sessions.clone(),
            config.circuits.clone(),
            Seal::new(&secrets.key(Purpose::SessionIds)),
        )
        .await?;
        if !config.trusted_proxies.is_empty() && config.public_url.is_none() {
            tracing::warn!(
                "ANGO_PUBLIC_URL is not set behind a proxy: documentation links, setup links and tokens contain the internal address"
            );
        }
        let base_url = config.public_url.clone().unwrap_or_else(|| url(&config, api_addr));
        let issuer = issuer(&config, &store, &secrets, &base_url, clock.now()).await?;
        let cache_store = config.cache_store.clone().map(CacheStore::new).transpose().context("ANGO_REDIS_URL")?;

        let events =
            Events::new(clock.clone(), store.clone(), seals.clone(), config.webhooks.clone(), telemetry.clone());
        let (in_flight, unfinished) = (InFlight::new(), InFlight::new());
        let rate = config.billing.usd_jpy;
        let ledger = Ledger::new(store.clone(), sessions.node_id.clone(), rate, clock.clone(), unfinished.clone());
        let ledger = Arc::new(ledger);
        ledger.give_back_lost().await?;
        let limits = Limits::new(clock.clone(), config.plan_limits, store.clone(), &secrets, cache_store.clone());
        let web = Arc::new(Web {
            clock: clock.clone(),
            base_url: base_url.clone(),
            deadline: config.requests.deadline,
            trusted_proxies: config.trusted_proxies.clone(),
            bodies: Resource::memory(config.requests.body_memory_bytes, LARGEST_UPLOAD_BYTES),
            offload: offload.clone(),
            cursors: secrets.key(Purpose::Cursors),
            answers,
            in_flight: in_flight.clone(),
            telemetry: telemetry.clone(),
            unnamed_proxy_logged: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        });
        let access = Arc::new(Access {
            clock: clock.clone(),
            store: store.clone(),
            config: config.auth.clone(),
            trial_keys: config.trials,
            api_keys: ApiKeys::new(store.clone(), secrets.pepper(), config.believed_for),
            session_tokens: SessionTokens::new(store.clone(), issuer, config.believed_for),
            passwords: Passwords::new(telemetry.clone()),
            limits: Arc::new(limits),
            trials: Arc::new(Trials::new(store.clone())),
            token_pepper: users::token_pepper(&secrets),
            refresh_seal: Seal::new(&secrets.key(Purpose::RefreshTokens)),
            cache_store,
        });
        let compute = Arc::new(Compute {
            netlists: StoredNetlists::new(store.clone(), offload.clone(), netlists),
            vault: Arc::new(vault),
            open_keys: OpenKeys::new(),
            operations: RunningOperations::default(),
            ledger,
            allow_sk_in_response: config.allow_sk_in_response,
            clock,
            store,
            worker: through(here.clone()),
            here,
            keys,
            sessions,
            circuits: config.circuits.clone(),
            limits: access.limits.clone(),
            trials: access.trials.clone(),
            offload,
            in_flight,
            unfinished,
            telemetry,
        });
        let provider = payments::provider(&config.payments)?;
        let billing = Arc::new(Billing {
            clock: compute.clock.clone(),
            store: compute.store.clone(),
            node_id: compute.sessions.node_id.clone(),
            base_url,
            payments: config.payments.clone(),
            provider: provider.clone(),
            access: access.clone(),
            mailer: Mailer::new(&config.mail).context("ANGO_SMTP_URL")?,
            unfinished: compute.unfinished.clone(),
            seals: seals.clone(),
            telemetry: compute.telemetry.clone(),
            pages: secrets.key(Purpose::InvoicePages),
            told: Notify::new(),
            told_of_invoices: Notify::new(),
        });
        let docs = Arc::new(Docs {
            searches: crate::docs::params::Searches::new(),
            web: web.clone(),
            access: access.clone(),
            compute: compute.clone(),
            hide_gpu: config.hide_gpu,
            started: Instant::now(),
            database_probe: Probe::new("database", health::DATABASE_SLOW),
            cache_store_probe: Probe::new("cache store", health::CACHE_STORE_SLOW),
            provider,
            provider_probe: Probe::new("payment provider", health::PROVIDER_SLOW)
                .believed_for(health::PROVIDER_BELIEVED),
        });
        let office = Arc::new(Office {
            clock: compute.clock.clone(),
            store: compute.store.clone(),
            node_id: compute.sessions.node_id.clone(),
            audit_log: config.office.audit_log.as_deref().map(|path| Arc::new(AuditLog::at(path))),
            config: config.office.clone(),
            seals,
            sends_mail: config.mail.smtp_url.is_some(),
            told: Notify::new(),
            rate,
            web: web.clone(),
            access: access.clone(),
        });
        let areas = Areas { web, access, billing, events, compute, office, docs };

        fail_point::watch();
        // read the lockouts before the first request, so that lockouts from before the start still hold
        let Areas { access, compute, .. } = &areas;
        access.limits.exchange_lockouts(access.clock.now()).await;

        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        if let Some(cache) = access.cache_store.clone() {
            let (tell_tried, tried) = oneshot::channel();
            tasks.push(tokio::spawn(cache_store::keep(cache, access.clone(), tell_tried, stopped.clone())));
            tasks.push(tokio::spawn(access.limits.clone().look(stopped.clone())));
            // wait for the first attempt to connect, so that the first request can use the cache store
            let _ = tried.await;
        }
        tasks.extend([
            tokio::spawn(listener::serve(
                api_listener,
                tls,
                router::router(areas.clone(), &config.cors_origins),
                config.requests.connections_max,
                stopped.clone(),
            )),
            tokio::spawn(listener::serve(
                metrics_listener,
                None,
                operations::router(areas.docs.clone()),
                OPERATIONS_CONNECTIONS_MAX,
                stopped.clone(),
            )),
            tokio::spawn(access.limits.clone().keep(config.believed_for, stopped.clone())),
            tokio::spawn(lease::keep(compute.clone(), stopped.clone())),
            tokio::spawn(erase(compute.clone(), stopped.clone())),
            tokio::spawn(record_ends(compute.clone(), stopped.clone())),
            tokio::spawn(deliver::keep(areas.events.clone(), stopped.clone())),
            tokio::spawn(office::jobs::keep(areas.office.clone(), stopped.clone())),
            tokio::spawn(keep_house(areas.clone(), stopped.clone())),
        ]);
        tasks.extend(billing::jobs::start(&areas.billing, &stopped));
        Ok(Running {
            api_addr,
            metrics_addr,
            base_url: areas.web.base_url.clone(),
            backend: compute.here.backend().to_owned(),
            device_name: compute.here.device_name().to_owned(),
            has_api_keys,
            config,
            areas,
            stop,
            tasks,
            _lock: lock,
        })
    }
}

impl Running {
    /// The API's URL: `http://`, or `https://` if the node serves TLS, and the listening address.
    pub fn url(&self) -> String {
        url(self.config(), self.api_addr)
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
        let _ = self.stop.send(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the node failed");
            }
        }
        compute.sessions.lose_all().await;
        // circuits that ran in the background have ended with their sessions; wait until their ends, and the results of
        // e-mails that are being sent, are recorded
        compute.unfinished.idle().await;
        access.api_keys.record_use().await;
        let here = compute.here.clone();
        if tokio::task::spawn_blocking(move || here.shutdown()).await.is_err() {
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

/// Returns the issuer of session tokens: the external issuer that the settings name, otherwise the node itself.
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
            keys: IssuerKeys::new(external.address.clone(), external.jwks_url.clone())?,
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

/// Erases the keys of expired sessions until the node stops. Also does other periodic work that never blocks.
async fn erase(compute: Arc<Compute>, stopped: watch::Receiver<bool>) {
    let (mut ticks, mut lost_devices) = (Ticks::new(SWEEP_PERIOD, stopped), LostDevices::default());
    while ticks.next().await.is_some() {
        compute.sessions.erase_expired();
        lost_devices.watch(&compute.here.devices());
        compute.telemetry.upkeep();
    }
}

/// Records the ends of sessions and trials, and bounds the database's log. A separate task, so that a database that hangs delays nothing else.
async fn record_ends(compute: Arc<Compute>, stopped: watch::Receiver<bool>) {
    let mut ticks = Ticks::new(SWEEP_PERIOD, stopped);
    while ticks.next().await.is_some() {
        compute.sessions.record_expired().await;
        compute.end_trials().await;
        compute.vault.look_after(compute.clock.now()).await;
        compute.open_keys.look_after(&compute).await;
        if let Err(error) = compute.store.bound_wal().await {
            tracing::warn!(cause = %error, "the database's write-ahead log could not be shortened");
        }
    }
}

/// Records the keys' times of last use. Every hour, removes expired records and files.
async fn keep_house(Areas { web, access, events, compute, .. }: Areas, stopped: watch::Receiver<bool>) {
    let mut ticks = Ticks::new(USE_PERIOD, stopped);
    while let Some(tick) = ticks.next().await {
        if tick > 0 {
            access.api_keys.record_use().await;
        }
        if tick % FORGET_TICKS == 0 {
            compute.forget_old().await;
            web.answers.forget_old(web.clock.now()).await;
            access.forget_old().await;
            deliver::forget_old(&events).await;
        }
    }
}

/// Periodic ticks until the node stops.
struct Ticks {
    interval: Interval,
    stopped: watch::Receiver<bool>,
    ticks: u64,
}

impl Ticks {
    /// Creates ticks: the first at once, then one in every period.
    fn new(period: Duration, stopped: watch::Receiver<bool>) -> Ticks {
        let mut interval = tokio::time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ticks { interval, stopped, ticks: 0 }
    }

    /// Waits for the next tick. Returns how many ticks came before it. `None`: the node stops.
    async fn next(&mut self) -> Option<u64> {
        tokio::select! {
            _ = self.interval.tick() => {}
            _ = self.stopped.wait_for(|stopped| *stopped) => return None,
        }
        self.ticks += 1;
        Some(self.ticks - 1)
    }
}
