//! The state of each area, and the listeners that serve the areas.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::ground::Ground;
use super::storage::Storage;
use crate::access::api_key::ApiKeys;
use crate::access::issuer::EmbeddedIssuer;
use crate::access::key_set::IssuerKeys;
use crate::access::limits::Limits;
use crate::access::passwords::Passwords;
use crate::access::session_token::{Issuer, SessionTokens};
use crate::access::trials::Trials;
use crate::access::{Access, users};
use crate::billing::Billing;
use crate::billing::ledger::Ledger;
use crate::billing::mail::Mailer;
use crate::billing::payments::{self, PaymentProvider};
use crate::cache_store::{CacheStore, Teller};
use crate::compute::bits::circuits::StoredNetlists;
use crate::compute::bits::sessions::{Sessions, SharedKeys};
use crate::compute::bits::workbench::SharedValues;
use crate::compute::keys_at_rest::{KeysOfFleet, KeysOfNode};
use crate::compute::numbers::vault::{DataKeys, Vault};
use crate::compute::operation::checkpoints::CheckpointsOfLine;
use crate::compute::operation::life::line::Line;
use crate::compute::operation::running::RunningOperations;
use crate::compute::{Compute, lease};
use crate::config::Config;
use crate::docs::health;
use crate::docs::params::Searches;
use crate::docs::{Docs, operations};
use crate::events::Events;
use crate::listener;
use crate::office::Office;
use crate::office::audit_log::AuditLog;
use crate::probe::Probe;
use crate::resource::Resource;
use crate::router::{self, Areas};
use crate::sealing::Seal;
use crate::secrets::Purpose;
use crate::tls::Tls;
use crate::web::Web;
use crate::web::body::LARGEST_UPLOAD_BYTES;
use crate::web::idempotency::Answers;
use crate::work::fleet::{Fleet, FleetSeal, WorkerPart, internal};
use crate::work::{KeyStore, Worker, Workers};

/// Largest number of open connections of the listener for metrics and probes.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

/// The listeners of a node, which accept connections from the time they are bound.
pub struct Listeners {
    api: TcpListener,
    metrics: TcpListener,
    /// The internal listener of a member of a fleet.
    internal: Option<TcpListener>,
    /// The address of the API's listener.
    pub api_addr: SocketAddr,
    /// The address of the listener for metrics and probes.
    pub metrics_addr: SocketAddr,
    /// The address of the internal listener.
    pub internal_addr: Option<SocketAddr>,
}

impl Listeners {
    /// Listens on the addresses in the settings.
    ///
    /// # Errors
    /// When an address cannot be used.
    pub async fn bind(config: &Config) -> anyhow::Result<Listeners> {
        let api = bind("ANGO_LISTEN", config.listen).await?;
        let metrics = bind("ANGO_METRICS_LISTEN", config.metrics_listen).await?;
        let internal = match config.fleet.is_member() {
            true => Some(bind("ANGO_INTERNAL_LISTEN", config.fleet.internal_listen).await?),
            false => None,
        };
        let (api_addr, metrics_addr) = (api.local_addr()?, metrics.local_addr()?);
        let internal_addr = internal.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(Listeners { api, metrics, internal, api_addr, metrics_addr, internal_addr })
    }

    /// Starts to serve the areas until the node stops. Returns a task for each listener.
    pub fn serve(
        self,
        config: &Config,
        tls: Option<Tls>,
        areas: &Areas,
        stopped: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let api = router::router(areas.clone(), &config.cors_origins);
        let metrics = operations::router(areas.docs.clone());
        let mut tasks = vec![
            tokio::spawn(listener::serve(self.api, tls, api, config.requests.connections_max, stopped.clone())),
            tokio::spawn(listener::serve(self.metrics, None, metrics, OPERATIONS_CONNECTIONS_MAX, stopped.clone())),
        ];
        if let (Some(internal), Some(fleet)) = (self.internal, areas.compute.workers.fleet()) {
            let routes = internal::router(fleet.internal());
            let served = listener::serve(internal, None, routes, config.requests.connections_max, stopped.clone());
            tasks.push(tokio::spawn(served));
        }
        tasks
    }
}

async fn bind(variable: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{variable}: cannot listen on {address}"))
}

/// Returns the URL of this address: `https://` if the node serves TLS, otherwise `http://`.
pub fn url(config: &Config, address: SocketAddr) -> String {
    format!("{}://{address}", if config.tls.is_some() { "https" } else { "http" })
}

/// Makes the states of all areas. `asked`: the worker that the areas ask to compute. `workers`: the workers that open keys.
/// `keys`: the keys of sessions of this process. `part`: the worker part of
/// this process, if it computes for a fleet. Records that the sessions of an earlier process of this node are lost, and gives its reservations
/// back.
///
/// # Errors
/// When the database does not answer, or when a part of the settings cannot be used.
pub async fn areas(
    config: &Config,
    ground: &Ground,
    storage: &Storage,
    (workers, keys): (Arc<Workers>, KeyStore),
    (asked, part): (Arc<dyn Worker>, Option<Arc<WorkerPart>>),
    api_addr: SocketAddr,
) -> anyhow::Result<Areas> {
    if !config.trusted_proxies.is_empty() && config.public_url.is_none() {
        tracing::warn!(
            "ANGO_PUBLIC_URL is not set behind a proxy: documentation links, setup links and tokens contain the internal address"
        );
    }
    let making = Making { config, ground, storage };
    let base_url = config.public_url.clone().unwrap_or_else(|| url(config, api_addr));
    let provider = payments::provider(&config.payments)?;
    let web = making.web(&base_url);
    let access = making.access(&base_url, &workers).await?;
    let compute = making.compute(&access, workers, keys, asked).await?;
    Ok(Areas {
        events: making.events(),
        billing: making.billing(&access, provider.clone(), base_url)?,
        office: making.office(&web, &access),
        docs: making.docs(&web, &access, &compute, provider, part),
        web,
        access,
        compute,
    })
}

/// The parts that the states of the areas are made of.
#[derive(Clone, Copy)]
struct Making<'a> {
    config: &'a Config,
    ground: &'a Ground,
    storage: &'a Storage,
}

impl Making<'_> {
    fn web(self, base_url: &str) -> Arc<Web> {
        let Making { config, ground, storage } = self;
        let Storage { store, seals, answers, .. } = storage;
        Arc::new(Web {
            clock: ground.clock.clone(),
            base_url: base_url.to_owned(),
            deadline: config.requests.deadline,
            trusted_proxies: config.trusted_proxies.clone(),
            bodies: Resource::memory(config.requests.body_memory_bytes, LARGEST_UPLOAD_BYTES),
            offload: ground.offload.clone(),
            cursors: storage.secrets.key(Purpose::Cursors),
            answers: Answers::new(store.clone(), seals.clone(), answers.clone(), ground.node_id.clone()),
            in_flight: ground.in_flight.clone(),
            telemetry: ground.telemetry.clone(),
            unnamed_proxy_logged: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        })
    }

    async fn access(self, base_url: &str, workers: &Workers) -> anyhow::Result<Arc<Access>> {
        let Making { config, ground, storage: Storage { store, secrets, .. } } = self;
        let clock = &ground.clock;
        let issuer = self.issuer(base_url).await?;
        let cache_store = config.cache_store.clone().map(CacheStore::new).transpose().context("ANGO_REDIS_URL")?;
        let through_fleet = || Some(Arc::new(workers.fleet()?.clone()) as Arc<dyn Teller>);
        let through_cache = cache_store.clone().map(|cache| Arc::new(cache) as Arc<dyn Teller>);
        let others = through_cache.or_else(through_fleet);
        let plans = config.plan_limits;
        let limits = Limits::new(clock.clone(), plans, store.clone(), secrets, cache_store.clone(), others.clone());
        Ok(Arc::new(Access {
            clock: clock.clone(),
            store: store.clone(),
            config: config.auth.clone(),
            trial_keys: config.trials,
            api_keys: ApiKeys::new(store.clone(), secrets.pepper(), config.believed_for),
            session_tokens: SessionTokens::new(store.clone(), issuer, config.believed_for),
            passwords: Passwords::new(ground.telemetry.clone()),
            limits: Arc::new(limits),
            trials: Arc::new(Trials::new(store.clone())),
            token_pepper: users::token_pepper(secrets),
            refresh_seal: Seal::new(&secrets.key(Purpose::RefreshTokens)),
            cache_store,
            others,
        }))
    }

    /// Returns the issuer of session tokens: the external issuer that the settings name, otherwise the node itself.
    async fn issuer(self, base_url: &str) -> anyhow::Result<Issuer> {
        let Making { config, ground, storage: Storage { store, secrets, .. } } = self;
        Ok(match &config.auth.external_issuer {
            None => {
                let now = ground.clock.now();
                Issuer::Embedded(EmbeddedIssuer::open(store, secrets, base_url.to_owned(), now).await?)
            }
            Some(external) => Issuer::External {
                address: external.address.clone(),
                audience: external.audience.clone(),
                keys: IssuerKeys::new(external.address.clone(), external.jwks_url.clone())?,
                trusts_account_ids: external.trusts_account_ids,
                made_max: external.accounts_max,
            },
        })
    }

    /// Makes the place of the keys of the fleet's sessions.
    fn shared_keys(self) -> anyhow::Result<Arc<SharedKeys>> {
        let Storage { store, session_keys, session_values, secrets, .. } = self.storage;
        let [objects, values] =
            [session_keys, session_values].map(|blobs| blobs.clone().context("a fleet needs a bucket"));
        let offload = self.ground.offload.clone();
        Ok(Arc::new(SharedKeys {
            seal: Arc::new(FleetSeal::new(&secrets.key(Purpose::Fleet))),
            objects: objects?,
            bytes_max: self.config.compute.key_storage_bytes_max,
            values: Arc::new(SharedValues { store: store.clone(), objects: values?, offload }),
        }))
    }

    /// Makes the waiting line of the fleet.
    fn line(self, fleet: &Fleet) -> anyhow::Result<Arc<Line>> {
        let objects = self.storage.operations.clone().context("a fleet needs a bucket")?;
        let (store, offload) = (self.storage.store.clone(), self.ground.offload.clone());
        let checkpoints = CheckpointsOfLine::new(store, objects.clone(), offload);
        Ok(Arc::new(Line::new(fleet.clone(), objects, checkpoints)))
    }

    async fn compute(
        self,
        access: &Access,
        workers: Arc<Workers>,
        keys: KeyStore,
        asked: Arc<dyn Worker>,
    ) -> anyhow::Result<Arc<Compute>> {
        let Making { config, ground, storage } = self;
        let Storage { store, secrets, netlists, vault, is_shared, .. } = storage;
        let Ground { clock, node_id, telemetry, offload, in_flight, unfinished, .. } = ground;
        let data_keys =
            DataKeys { seal: FleetSeal::new(&secrets.key(Purpose::Fleet)), are_made: workers.fleet().is_some() };
        let (place, config_of_vault) = ((node_id.as_str(), *is_shared), config.vault.clone());
        let vault = Vault::open(store.clone(), offload.clone(), vault.clone(), data_keys, place, config_of_vault);
        let vault = vault.await?;
        lease::renew(store, node_id, clock.now()).await?;
        let sessions = Sessions::start(
            store.clone(),
            node_id.clone(),
            workers.clone(),
            clock.clone(),
            telemetry.clone(),
            (config.sessions.clone(), config.circuits.clone()),
            Seal::new(&secrets.key(Purpose::SessionIds)),
            workers.fleet().is_some().then(|| self.shared_keys()).transpose()?,
        )
        .await?;
        let rate = config.billing.usd_jpy;
        let ledger = Ledger::new(store.clone(), node_id.clone(), rate, clock.clone(), unfinished.clone());
        ledger.give_back_lost().await?;
        let compute = Arc::new(Compute {
            netlists: StoredNetlists::new(store.clone(), offload.clone(), netlists.clone()),
            vault: Arc::new(vault),
            line: workers.fleet().map(|fleet| self.line(fleet)).transpose()?,
            operations: RunningOperations::default(),
            ledger: Arc::new(ledger),
            allow_sk_in_response: config.allow_sk_in_response,
            clock: clock.clone(),
            store: store.clone(),
            worker: asked,
            workers,
            keys,
            sessions,
            circuits: config.circuits.clone(),
            limits: access.limits.clone(),
            trials: access.trials.clone(),
            offload: offload.clone(),
            in_flight: in_flight.clone(),
            unfinished: unfinished.clone(),
            telemetry: telemetry.clone(),
        });
        let keys = KeysOfNode::of(&compute);
        if let Some(fleet) = compute.workers.fleet() {
            fleet.find_keys_in(Arc::new(KeysOfFleet(keys.clone())));
        }
        compute.workers.find_keys_in(keys);
        Ok(compute)
    }

    fn events(self) -> Arc<Events> {
        let Making { config, ground, storage } = self;
        let (clock, telemetry) = (ground.clock.clone(), ground.telemetry.clone());
        Events::new(clock, storage.store.clone(), storage.seals.clone(), config.webhooks.clone(), telemetry)
    }

    fn billing(
        self,
        access: &Arc<Access>,
        provider: Option<Arc<dyn PaymentProvider>>,
        base_url: String,
    ) -> anyhow::Result<Arc<Billing>> {
        let Making { config, ground, storage } = self;
        Ok(Arc::new(Billing {
            clock: ground.clock.clone(),
            store: storage.store.clone(),
            node_id: ground.node_id.clone(),
            base_url,
            payments: config.payments.clone(),
            provider,
            access: access.clone(),
            mailer: Mailer::new(&config.mail).context("ANGO_SMTP_URL")?,
            unfinished: ground.unfinished.clone(),
            seals: storage.seals.clone(),
            telemetry: ground.telemetry.clone(),
            pages: storage.secrets.key(Purpose::InvoicePages),
            told: Arc::new(Notify::new()),
            told_of_invoices: Arc::new(Notify::new()),
        }))
    }

    fn office(self, web: &Arc<Web>, access: &Arc<Access>) -> Arc<Office> {
        let Making { config, ground, storage } = self;
        Arc::new(Office {
            clock: ground.clock.clone(),
            store: storage.store.clone(),
            node_id: ground.node_id.clone(),
            audit_log: config.office.audit_log.as_deref().map(|path| Arc::new(AuditLog::at(path))),
            config: config.office.clone(),
            seals: storage.seals.clone(),
            sends_mail: config.mail.smtp_url.is_some(),
            told: Arc::new(Notify::new()),
            rate: config.billing.usd_jpy,
            web: web.clone(),
            access: access.clone(),
        })
    }

    fn docs(
        self,
        web: &Arc<Web>,
        access: &Arc<Access>,
        compute: &Arc<Compute>,
        provider: Option<Arc<dyn PaymentProvider>>,
        part: Option<Arc<WorkerPart>>,
    ) -> Arc<Docs> {
        Arc::new(Docs {
            searches: Searches::new(),
            web: web.clone(),
            access: access.clone(),
            compute: compute.clone(),
            hide_gpu: self.config.hide_gpu,
            started: Instant::now(),
            database_probe: Probe::new("database", health::DATABASE_SLOW),
            cache_store_probe: Probe::new("cache store", health::CACHE_STORE_SLOW),
            broker_probe: Probe::new("broker", health::BROKER_SLOW),
            object_store_probe: Probe::new("object store", health::OBJECT_STORE_SLOW),
            provider,
            provider_probe: Probe::new("payment provider", health::PROVIDER_SLOW)
                .believed_for(health::PROVIDER_BELIEVED),
            part,
            line_counted: Default::default(),
        })
    }
}
