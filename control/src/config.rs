//! Settings of a node, checked before anything starts. No crate below this one reads the environment.
//!
//! A setting is a field. Its attribute gives its flag, its variable, its default and its parser. Its comment is its
//! description. The command line, the settings file, `.env.sample` and docs/settings.md are made from these fields.

mod addresses;
mod flags;
mod layers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use tracing_subscriber::filter::Targets;

pub use crate::access::AuthConfig;
pub use crate::access::key_set::ExternalIssuer;
pub use crate::billing::compute_units::BillingConfig;
pub use crate::billing::mail::{MailConfig, SmtpUrl};
pub use crate::billing::payments::{PaymentSecret, PaymentsConfig, ProviderChoice};
pub use crate::blobs::{BucketConfig, BucketUrl};
use crate::cache_store::CacheStoreConfig;
use crate::caller::PlanTable;
pub use crate::compute::bits::{CircuitsConfig, SessionsConfig};
pub use crate::compute::numbers::vault::VaultConfig;
use crate::data_dir::OWN_DATABASE;
pub use crate::events::address::WebhooksConfig;
pub use crate::office::{AdminKey, OfficeConfig};
use crate::parsers::{either, megabytes_or_auto, number, parsed, seconds};
pub use crate::secrets::ServerSecret;
pub use crate::tls::TlsConfig;
pub use crate::web::cors::CorsOrigins;
pub use crate::work::ComputeConfig;
pub use crate::work::fleet::{BrokerUrl, FleetConfig, NodeRole};
use crate::work::memory_bytes;

use addresses::{cors_origins, network, public_url};

pub use flags::Flags;
pub use layers::{ConfigError, Origin, Setting, command};

/// A node's settings.
#[derive(Clone, Debug, clap::Args)]
pub struct Config {
    /// TOML file with settings. When unset, ango.toml in the data folder, if that file exists.
    #[arg(env = "ANGO_CONFIG")]
    pub file: Option<PathBuf>,
    // readings X12
    /// Address of the API. An address beyond loopback needs a certificate (ANGO_TLS_CERTIFICATE) or a TLS proxy
    /// (ANGO_TRUSTED_PROXIES).
    #[arg(env = "ANGO_LISTEN", default_value = "127.0.0.1:8080")]
    #[arg(value_parser = parsed::<SocketAddr>("an address such as 127.0.0.1:8080"))]
    pub listen: SocketAddr,
    /// The certificate, if the node itself serves TLS.
    #[command(flatten)]
    pub tls: Option<TlsConfig>,
    /// Address of /metrics, /livez and /readyz. These routes have no authentication: keep the address private.
    #[arg(env = "ANGO_METRICS_LISTEN", default_value = "127.0.0.1:9464")]
    #[arg(value_parser = parsed::<SocketAddr>("an address such as 127.0.0.1:9464"))]
    pub metrics_listen: SocketAddr,
    /// Folder for all files of the node, made with mode 0700. Each node needs its own folder. A settings file inside
    /// the data folder cannot set it.
    #[arg(env = "ANGO_DATA_DIR", default_value = "./ango-data")]
    pub data_dir: PathBuf,
    /// sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE. When unset, the file ango.db in the data folder. Other users of the
    /// machine can read flags: give a password in the variable or in the settings file.
    #[arg(env = "ANGO_DATABASE_URL", default_value = "", hide_default_value = true, hide_env_values = true)]
    #[arg(value_parser = database_url)]
    pub database_url: String,
    /// Whether a starting node migrates an older schema in PostgreSQL. With false, use `ango migrate`. An empty
    /// database and an SQLite file are migrated at every start.
    #[arg(env = "ANGO_MIGRATE_AT_START", default_value = "false")]
    pub migrate_at_start: bool,
    /// The server's secret, the same on all nodes of a database. When unset, the node makes a secret and stores it in
    /// the data folder.
    #[arg(env = "ANGO_SECRET", hide = true, value_parser = ServerSecret::read)]
    pub secret: Option<ServerSecret>,
    /// redis://USER:PASSWORD@HOST, rediss:// (TLS) or redis+unix://SOCKET. Through this Redis the nodes of a database
    /// share token buckets and announce revoked keys to each other at once. Without it they read revocations from the
    /// database within a second, and each node has its own token buckets. A fleet does both without a Redis. Give a
    /// password in the variable or in the settings file.
    #[arg(env = "ANGO_REDIS_URL", hide_env_values = true, value_parser = CacheStoreConfig::at)]
    pub cache_store: Option<CacheStoreConfig>,
    /// Where large stored answers and other lasting objects are: a bucket, or the data folder when unset.
    #[command(flatten)]
    pub bucket: Option<BucketConfig>,
    /// How long a node caches keys, session tokens and lockouts from the database (readings A17: at most 1 s). Longer
    /// only in tests about news between nodes.
    #[arg(skip = Duration::from_secs(1))]
    pub believed_for: Duration,
    /// Address that clients use, in links to the documentation, setup links and tokens. When unset, http:// (https:// with a
    /// certificate) and the listening address. Set it behind a proxy.
    #[arg(env = "ANGO_PUBLIC_URL", value_parser = public_url)]
    pub public_url: Option<String>,
    // readings X12
    /// Networks of the TLS proxies in front of the node, separated by commas. The node trusts their X-Forwarded-For.
    #[arg(env = "ANGO_TRUSTED_PROXIES", value_delimiter = ',', value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,
    // readings X13
    /// Origins whose pages may call the API from a browser, separated by commas; * for all origins. The node never
    /// accepts cookies.
    #[arg(env = "ANGO_CORS_ORIGINS", default_value = "none", value_parser = cors_origins)]
    pub cors_origins: CorsOrigins,
    /// Users and their tokens.
    #[command(flatten)]
    pub auth: AuthConfig,
    /// Whether POST /onboarding/temp-key makes trial keys, for which no operator is needed. With off the
    /// endpoint answers 403, and existing trial keys work until they expire.
    #[arg(env = "ANGO_TRIALS", default_value = "on", value_parser = either(["on", "off"]))]
    pub trials: bool,
    /// Gate sessions.
    #[command(flatten)]
    pub sessions: SessionsConfig,
    /// Bounds on requests.
    #[command(flatten)]
    pub requests: RequestsConfig,
    // readings O6
    /// Whether health hides that the node has a GPU. For operators of a public cloud.
    #[arg(env = "ANGO_HEALTH_HIDE_GPU", default_value = "false")]
    pub hide_gpu: bool,
    /// A service of several machines.
    #[command(flatten)]
    pub fleet: FleetConfig,
    /// Bounds on computing.
    #[command(flatten)]
    pub compute: ComputeConfig,
    /// Bounds on circuits.
    #[command(flatten)]
    pub circuits: CircuitsConfig,
    /// Storage for arithmetic on encrypted numbers.
    #[command(flatten)]
    pub vault: VaultConfig,
    /// Prices.
    #[command(flatten)]
    pub billing: BillingConfig,
    /// Settings of payments.
    #[command(flatten)]
    pub payments: PaymentsConfig,
    /// Settings of e-mail.
    #[command(flatten)]
    pub mail: MailConfig,
    /// Settings of webhooks.
    #[command(flatten)]
    pub webhooks: WebhooksConfig,
    /// The limits of plans (readings section 16): the tables `[plans.NAME]` of the settings file.
    #[arg(skip)]
    pub plan_limits: PlanTable,
    /// Settings of the back office.
    #[command(flatten)]
    pub office: OfficeConfig,
    // readings K9
    /// Whether POST /keys/generate returns the secret key, for local tests.
    #[arg(env = "SERVICE_ALLOW_SK_IN_RESPONSE", default_value = "false")]
    pub allow_sk_in_response: bool,
    /// Logging.
    #[command(flatten)]
    pub log: LogConfig,
}

/// Bounds on requests.
#[derive(Clone, Debug, clap::Args)]
pub struct RequestsConfig {
    // readings E9
    /// Longest time for a request in seconds. Work that takes longer is dropped and not charged.
    #[arg(env = "ANGO_REQUEST_DEADLINE_S", default_value = "300", value_parser = seconds(1..=3600))]
    pub deadline: Duration,
    /// Largest number of open connections. Further connections wait until one is closed.
    #[arg(env = "ANGO_CONNECTIONS_MAX", default_value = "4096", value_parser = number::<usize>(1..=1 << 20))]
    pub connections_max: usize,
    /// Memory in MB for the bodies of requests in transit. When this memory is full, uploads are answered 503. `auto`
    /// is an eighth of the memory that the process may use, at most 512. All trials together may use a tenth of this
    /// memory (at least one upload of the largest key), and a tenth of ANGO_KEY_STORAGE_MB, ANGO_KEY_MEMORY_MB and
    /// ANGO_VALUE_MEMORY_MB.
    // the minimum, 96 MB, has room for two uploads of the largest key
    #[arg(env = "ANGO_BODY_MEMORY_MB", default_value = "auto")]
    #[arg(value_parser = megabytes_or_auto(96..=1 << 20, || (memory_bytes() / 8).clamp(96 << 20, 512 << 20)))]
    pub body_memory_bytes: u64,
}

/// Settings of the log.
#[derive(Clone, Debug, clap::Args)]
pub struct LogConfig {
    /// Level of the log: error, warn, info, debug or trace, or levels of modules such as control=debug,sqlx=warn.
    #[arg(env = "ANGO_LOG", default_value = "info", value_parser = log_filter)]
    pub filter: Targets,
    /// Form of the log: json writes one JSON object for each line, text is for reading.
    #[arg(env = "ANGO_LOG_FORMAT", default_value = "text", value_parser = either(["json", "text"]))]
    pub json: bool,
}

impl Config {
    /// Fills in settings whose defaults depend on others, and checks settings against each other.
    fn complete(mut self) -> Result<Config, ConfigError> {
        if self.database_url.is_empty() {
            self.database_url = own_database_url(&self.data_dir);
        }
        if self.circuits.session_value_bytes_max == 0 {
            self.circuits.session_value_bytes_max = self.circuits.value_bytes_max / 4;
        }
        self.compute.operand_bytes_max = self.circuits.value_bytes_max / 2;
        self.compute.session_operand_bytes_max = self.circuits.session_value_bytes_max / 2;
        if self.compute.queue_rows_max < self.compute.session_rows_max {
            return Err(ConfigError::new("ANGO_QUEUE_ROWS_MAX", "must be at least ANGO_SESSION_ROWS_MAX"));
        }
        if let Some(BucketConfig { access_key_id, secret_access_key, .. }) = &self.bucket {
            let [id, secret] = ["ANGO_S3_ACCESS_KEY_ID", "ANGO_S3_SECRET_ACCESS_KEY"];
            match (access_key_id, secret_access_key) {
                (Some(_), None) => return Err(ConfigError::needs(id, secret)),
                (None, Some(_)) => return Err(ConfigError::needs(secret, id)),
                _ => {}
            }
        }
        self.check_fleet()?;
        if self.payments.payments_provider == ProviderChoice::Stripe {
            let of_stripe = |name| ConfigError::new(name, "must be set if ANGO_PAYMENTS_PROVIDER is stripe");
            if self.payments.stripe_secret_key.is_none() {
                return Err(of_stripe("ANGO_PAYMENTS_STRIPE_SECRET_KEY"));
            }
            if self.payments.stripe_webhook_secrets.is_empty() {
                return Err(of_stripe("ANGO_PAYMENTS_STRIPE_WEBHOOK_SECRET"));
            }
        }
        // a worker does not listen there
        let listens = self.fleet.role != NodeRole::Worker;
        if listens && !self.listen.ip().is_loopback() && self.trusted_proxies.is_empty() && self.tls.is_none() {
            return Err(ConfigError::new(
                "ANGO_LISTEN",
                "the node would serve plain HTTP beyond loopback: give it a certificate (ANGO_TLS_CERTIFICATE), or put a TLS \
                 proxy in front and name it in ANGO_TRUSTED_PROXIES",
            ));
        }
        Ok(self)
    }

    /// Checks the settings of a fleet against each other.
    fn check_fleet(&self) -> Result<(), ConfigError> {
        let FleetConfig { role, broker, key, .. } = &self.fleet;
        let role_needs = |name| Err(ConfigError::new(name, "must be set if ANGO_ROLE is api or worker"));
        match (role, broker) {
            (NodeRole::All, None) => return Ok(()),
            (_, None) => return role_needs("ANGO_NATS_URL"),
            (_, Some(_)) if self.bucket.is_none() => {
                return Err(ConfigError::needs("ANGO_NATS_URL", "ANGO_OBJECTS_URL"));
            }
            _ => {}
        }
        match (role, key, &self.secret) {
            (NodeRole::Worker, None, _) => Err(ConfigError::new(
                "ANGO_FLEET_KEY",
                "must be set if ANGO_ROLE is worker: `ango admin fleet-key` prints it",
            )),
            (NodeRole::Worker, _, Some(_)) => Err(ConfigError::new(
                "ANGO_SECRET",
                "must not be set if ANGO_ROLE is worker: give the worker ANGO_FLEET_KEY",
            )),
            (NodeRole::All | NodeRole::Api, Some(_), _) => {
                Err(ConfigError::new("ANGO_FLEET_KEY", "is for workers alone: other roles derive it from ANGO_SECRET"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the database is the file in the data folder.
    pub fn has_own_database(&self) -> bool {
        self.database_url == own_database_url(&self.data_dir)
    }

    /// Makes the default settings, with this data folder and free loopback ports, for a node inside another program.
    /// Reads no settings file.
    pub fn in_folder(data_dir: impl Into<PathBuf>) -> Config {
        let config = layers::parse(&layers::settings(|_| None, |_| None)).expect("the defaults are valid");
        let (data_dir, free) = (data_dir.into(), SocketAddr::from(([127, 0, 0, 1], 0)));
        let fleet = FleetConfig { internal_listen: free, ..config.fleet };
        let database_url = own_database_url(&data_dir);
        Config { listen: free, metrics_listen: free, database_url, data_dir, fleet, ..config }
    }
}

fn own_database_url(data_dir: &Path) -> String {
    format!("sqlite:{}", data_dir.join(OWN_DATABASE).display())
}

fn database_url(text: &str) -> Result<String, &'static str> {
    match store::Url::parse(text) {
        Err(_) if !text.is_empty() => Err("must be a sqlite: URL of a file or a postgres: URL"),
        _ => Ok(text.to_owned()),
    }
}

fn log_filter(text: &str) -> Result<Targets, &'static str> {
    let filter: Targets = text.parse().map_err(|_| "must be a level or a list such as control=debug,sqlx=warn")?;
    #[cfg(feature = "nats")]
    let filter = without_messages(filter);
    Ok(filter)
}

/// Leaves out what the broker's library logs from the level debug on: whole messages, with ciphertexts and tokens of requests.
#[cfg(feature = "nats")]
fn without_messages(filter: Targets) -> Targets {
    use fleet::nats::LIBRARY;
    use tracing::Level;
    let tells_messages = filter.would_enable(LIBRARY, &Level::DEBUG);
    if tells_messages { filter.with_target(LIBRARY, Level::INFO) } else { filter }
}

#[cfg(all(test, feature = "nats"))]
mod tests {
    use fleet::nats::LIBRARY;
    use tracing::Level;

    use super::*;

    #[test]
    fn a_log_of_any_level_has_no_messages_of_the_broker() {
        for (text, info) in [("trace", true), ("debug", true), ("info", true), ("warn", false)] {
            let filter = log_filter(text).unwrap();
            assert!(!filter.would_enable(&format!("{LIBRARY}::connection"), &Level::DEBUG), "{text}");
            assert_eq!(filter.would_enable(LIBRARY, &Level::INFO), info, "{text}");
        }
        assert!(log_filter("debug").unwrap().would_enable("control", &Level::DEBUG));
    }
}
