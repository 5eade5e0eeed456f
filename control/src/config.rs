//! Settings of a node, checked before anything starts. Nothing below this crate reads the environment.

mod addresses;
pub mod settings;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use api::gates::BATCH_GATES_MAX;
use ipnet::IpNet;
use zeroize::Zeroizing;

pub use crate::blobs::BucketConfig;
use crate::cache_store::CacheStoreConfig;
use crate::caller::{Plan, PlanTable};
use crate::compute::engine::{GATES_MAX, PORT_BITS_MAX, key_bytes_max_default, memory_bytes};
use crate::data_dir::OWN_DATABASE;

pub use crate::access::AuthConfig;
pub use crate::access::key_set::ExternalIssuer;
pub use crate::compute::engine::ComputeConfig;
pub use crate::compute::{CircuitsConfig, SessionsConfig};
pub use crate::secrets::ServerSecret;
pub use crate::tls::TlsConfig;
pub use crate::web::RequestsConfig;
pub use crate::web::cors::CorsOrigins;

use addresses::{cors_origins, external_issuer, networks, public_url};

pub use settings::{SETTINGS, Setting};

/// A setting that is refused, in one line that names its variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// A node's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the API.
    pub listen: SocketAddr,
    /// Address of metrics and probes.
    pub metrics_listen: SocketAddr,
    /// Folder of everything the node keeps.
    pub data_dir: PathBuf,
    /// `sqlite:` or `postgres:` URL; the data folder's `ango.db` by default. May hold a password.
    pub database_url: String,
    /// Whether a node that starts may bring the schema of a database that others share up to date.
    pub migrate_at_start: bool,
    /// The cache store that nodes share, if they do.
    pub cache_store: Option<CacheStoreConfig>,
    /// Where large kept answers are, which outlive requests; the data folder when unset.
    pub bucket: Option<BucketConfig>,
    /// How long a node believes what it read of keys, session tokens and lockouts (readings A17: at most 1 s). Longer only
    /// where a test is about what nodes tell each other.
    pub believed_for: Duration,
    /// The server's secret; that of the data folder when unset.
    pub secret: Option<ServerSecret>,
    /// Base address in documentation links; from `listen` when unset.
    pub public_url: Option<String>,
    /// The certificate, where the node speaks TLS itself (readings X12).
    pub tls: Option<TlsConfig>,
    /// Networks of proxies that speak TLS for the node (readings X12).
    pub trusted_proxies: Vec<IpNet>,
    /// Whose pages may call the API from a browser (readings X13).
    pub cors_origins: CorsOrigins,
    /// Users and their tokens.
    pub auth: AuthConfig,
    /// Whether trial keys are given.
    pub trials: bool,
    /// Gate sessions.
    pub sessions: SessionsConfig,
    /// Bounds on requests.
    pub requests: RequestsConfig,
    /// Whether health says that there is no GPU (readings O6).
    pub hide_gpu: bool,
    /// Bounds on computing.
    pub compute: ComputeConfig,
    /// Bounds on circuits.
    pub circuits: CircuitsConfig,
    /// What plans allow (readings section 16).
    pub plan_limits: PlanTable,
    /// Administrator's secret (readings B3); no endpoint of this build reads it.
    pub admin_key: Option<AdminKey>,
    /// File of the audit chain (readings B39); no endpoint of this build writes it.
    pub audit_log: Option<PathBuf>,
    /// Whether key generation may return a secret key (readings K9); no endpoint of this build does.
    pub allow_sk_in_response: bool,
    /// Logging.
    pub log: LogConfig,
}

/// The administrator's secret. It hides itself from logs.
#[derive(Clone)]
pub struct AdminKey(pub Zeroizing<String>);

impl std::fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminKey(..)")
    }
}

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Filter directives.
    pub filter: String,
    /// JSON lines instead of text.
    pub json: bool,
}

impl Config {
    /// Checks settings. `lookup` gives a setting's text by its variable's name; an empty text is unset.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let read = Reader { lookup };
        let data_dir: PathBuf = read.text("ANGO_DATA_DIR").into();
        let eighth = memory_bytes() / 8;
        let value_bytes_max = read.memory("ANGO_VALUE_MEMORY_MB", 1, 24, eighth.min(1 << 30))?;
        let config = Config {
            listen: read.parsed("ANGO_LISTEN", "an address such as 127.0.0.1:8080")?,
            metrics_listen: read.parsed("ANGO_METRICS_LISTEN", "an address such as 127.0.0.1:9464")?,
            database_url: database_url(read.text("ANGO_DATABASE_URL"), &data_dir)?,
            data_dir,
            migrate_at_start: read.switch("ANGO_MIGRATE_AT_START")?,
            cache_store: cache_store(&read.text("ANGO_REDIS_URL"))?,
            bucket: bucket(&read)?,
            believed_for: Duration::from_secs(1),
            secret: server_secret(&read.text("ANGO_SECRET"))?,
            public_url: public_url(read.text("ANGO_PUBLIC_URL"))?,
            tls: tls(&read)?,
            trusted_proxies: networks(&read.text("ANGO_TRUSTED_PROXIES"))?,
            cors_origins: cors_origins(&read.text("ANGO_CORS_ORIGINS"))?,
            auth: AuthConfig {
                allow_signup: read.switch("ANGO_AUTH_ALLOW_SIGNUP")?,
                allow_dev_keys: read.switch("ANGO_API_KEYS_ALLOW_DEV")?,
                external_issuer: external_issuer(&read)?,
            },
            hide_gpu: read.switch("ANGO_HEALTH_HIDE_GPU")?,
            trials: read.choice("ANGO_TRIALS", &["on", "off"])? == "on",
            sessions: SessionsConfig {
                ttl: Duration::from_secs(read.number("ANGO_SESSION_TTL_S", 1, 7 * 24 * 3600)?),
                allow_server_held_key: read.switch("ANGO_ALLOW_SERVER_HELD_KEY")?,
                open_max: sessions_max(&read.text("ANGO_SESSIONS_MAX"))?,
            },
            requests: RequestsConfig {
                deadline: Duration::from_secs(read.number("ANGO_REQUEST_DEADLINE_S", 1, 3600)?),
                connections_max: read.number("ANGO_CONNECTIONS_MAX", 1, 1 << 20)? as usize,
                // two uploads of the largest key at once, at least
                body_memory_bytes: read.memory("ANGO_BODY_MEMORY_MB", 96, 20, eighth.clamp(96 << 20, 512 << 20))?,
            },
            compute: ComputeConfig {
                backend: read.text("ANGO_BACKEND").parse().map_err(|why: String| wrong("ANGO_BACKEND", &why))?,
                queue_rows_max: read.number("ANGO_QUEUE_ROWS_MAX", BATCH_GATES_MAX as u64, 1 << 24)? as usize,
                session_rows_max: read.number("ANGO_SESSION_ROWS_MAX", BATCH_GATES_MAX as u64, 1 << 24)? as usize,
                wait_us_max: read.number("ANGO_BATCH_WAIT_US", 0, 1_000_000)?,
                key_bytes_max: read.memory("ANGO_KEY_MEMORY_MB", 16, 24, key_bytes_max_default())?,
                resident_bytes_max: match read.text("ANGO_RESIDENT_MEMORY_MB").as_str() {
                    "" => None,
                    _ => Some(read.number("ANGO_RESIDENT_MEMORY_MB", 128, 1 << 24)? << 20),
                },
            },
            circuits: CircuitsConfig {
                gates_max: read.number("ANGO_CIRCUIT_GATES_MAX", 1, GATES_MAX as u64)?,
                gates_max_trial: read.number("ANGO_CIRCUIT_GATES_MAX_TRIAL", 1, GATES_MAX as u64)?,
                bits_max: read.number("ANGO_CIRCUIT_BITS_MAX", 1, PORT_BITS_MAX as u64)? as usize,
                deadline: Duration::from_secs(read.number("ANGO_CIRCUIT_DEADLINE_S", 1, 7 * 24 * 3600)?),
                running_max: read.number("ANGO_CIRCUITS_RUNNING_MAX", 1, 1 << 10)? as usize,
                kept_max: read.number("ANGO_CIRCUITS_KEPT_MAX", 1, 1 << 20)?,
                kept_bytes_max: read.number("ANGO_CIRCUITS_KEPT_MB", 1, 1 << 20)? << 20,
                value_bytes_max,
                session_value_bytes_max: read.memory("ANGO_SESSION_VALUE_MEMORY_MB", 1, 24, value_bytes_max / 4)?,
            },
            plan_limits: plan_limits(&read.text("ANGO_PLAN_LIMITS"))?,
            admin_key: admin_key(read.text("SERVICE_ADMIN_KEY"))?,
            audit_log: audit_log(read.text("SERVICE_AUDIT_LOG"))?,
            allow_sk_in_response: read.switch("SERVICE_ALLOW_SK_IN_RESPONSE")?,
            log: LogConfig {
                filter: log_filter(read.text("ANGO_LOG"))?,
                json: read.choice("ANGO_LOG_FORMAT", &["text", "json"])? == "json",
            },
        };
        if config.compute.queue_rows_max < config.compute.session_rows_max {
            return Err(wrong("ANGO_QUEUE_ROWS_MAX", "must be at least ANGO_SESSION_ROWS_MAX"));
        }
        if !config.listen.ip().is_loopback() && config.trusted_proxies.is_empty() && config.tls.is_none() {
            return Err(wrong(
                "ANGO_LISTEN",
                "the node would speak plain HTTP: beyond loopback give it a certificate (ANGO_TLS_CERTIFICATE), or put a TLS proxy \
                 in front and name it in ANGO_TRUSTED_PROXIES",
            ));
        }
        Ok(config)
    }

    /// Whether the database is the file in the data folder.
    pub fn has_own_database(&self) -> bool {
        self.database_url == own_database_url(&self.data_dir)
    }

    /// Defaults, in this folder, on free loopback ports: for a node inside another program.
    pub fn in_folder(data_dir: impl Into<PathBuf>) -> Config {
        let data_dir: PathBuf = data_dir.into();
        let folder = data_dir.to_string_lossy().into_owned();
        let mut config = Config::from_lookup(|name| match name {
            "ANGO_LISTEN" | "ANGO_METRICS_LISTEN" => Some("127.0.0.1:0".to_owned()),
            "ANGO_DATA_DIR" => Some(folder.clone()),
            _ => None,
        })
        .expect("the defaults are valid");
        config.data_dir = data_dir;
        config
    }
}

/// Both files or none.
fn tls(read: &Reader<impl Fn(&str) -> Option<String>>) -> Result<Option<TlsConfig>, ConfigError> {
    let (certificate, key) = (read.text("ANGO_TLS_CERTIFICATE"), read.text("ANGO_TLS_KEY"));
    match (certificate.is_empty(), key.is_empty()) {
        (true, true) => Ok(None),
        (false, false) => Ok(Some(TlsConfig { certificate: certificate.into(), key: key.into() })),
        (false, true) => Err(wrong("ANGO_TLS_KEY", "is needed with ANGO_TLS_CERTIFICATE")),
        (true, false) => Err(wrong("ANGO_TLS_CERTIFICATE", "is needed with ANGO_TLS_KEY")),
    }
}

/// Reads settings by name and fills in defaults.
struct Reader<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// The setting's text, or its default.
    fn text(&self, name: &str) -> String {
        let setting = SETTINGS.iter().find(|setting| setting.name == name).expect("the setting is in the list");
        (self.lookup)(name)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| setting.default.to_owned())
    }

    fn parsed<T: FromStr>(&self, name: &str, wanted: &str) -> Result<T, ConfigError> {
        let text = self.text(name);
        text.parse().map_err(|_| wrong(name, &format!("{text:?} is not {wanted}")))
    }

    fn number(&self, name: &str, min: u64, max: u64) -> Result<u64, ConfigError> {
        let wanted = format!("a whole number from {min} to {max}");
        let number = self.parsed(name, &wanted)?;
        if !(min..=max).contains(&number) {
            return Err(wrong(name, &format!("{number} is not {wanted}")));
        }
        Ok(number)
    }

    /// Bytes, of a setting in MB from `least` to 2 to the power of `most_log`; `default` bytes where it is not given.
    fn memory(&self, name: &str, least: u64, most_log: u32, default: u64) -> Result<u64, ConfigError> {
        if self.text(name).is_empty() { Ok(default) } else { Ok(self.number(name, least, 1 << most_log)? << 20) }
    }

    fn switch(&self, name: &str) -> Result<bool, ConfigError> {
        Ok(self.choice(name, &["true", "false"])? == "true")
    }

    fn choice(&self, name: &str, allowed: &[&str]) -> Result<String, ConfigError> {
        let text = self.text(name);
        if !allowed.contains(&text.as_str()) {
            return Err(wrong(name, &format!("{text:?} is not one of {}", allowed.join(", "))));
        }
        Ok(text)
    }
}

fn wrong(name: &str, why: &str) -> ConfigError {
    ConfigError(format!("{name}: {why}"))
}

fn database_url(text: String, data_dir: &Path) -> Result<String, ConfigError> {
    if text.is_empty() {
        return Ok(own_database_url(data_dir));
    }
    // the text may hold a password: it is not repeated
    store::Url::parse(&text).map_err(|error| wrong("ANGO_DATABASE_URL", &error.to_string()))?;
    Ok(text)
}

fn own_database_url(data_dir: &Path) -> String {
    format!("sqlite:{}", data_dir.join(OWN_DATABASE).display())
}

fn cache_store(url: &str) -> Result<Option<CacheStoreConfig>, ConfigError> {
    if url.is_empty() {
        return Ok(None);
    }
    CacheStoreConfig::at(url).map(Some).map_err(|why| wrong("ANGO_REDIS_URL", why))
}

/// The bucket of the objects, if they are in one.
fn bucket(read: &Reader<impl Fn(&str) -> Option<String>>) -> Result<Option<BucketConfig>, ConfigError> {
    let url = read.text("ANGO_OBJECTS_URL");
    let [endpoint, id] = ["ANGO_S3_ENDPOINT", "ANGO_S3_ACCESS_KEY_ID"].map(|name| read.text(name));
    let secret = Zeroizing::new(read.text("ANGO_S3_SECRET_ACCESS_KEY"));
    for (name, is_given, needed, there) in [
        ("ANGO_S3_ENDPOINT", !endpoint.is_empty(), "ANGO_OBJECTS_URL", !url.is_empty()),
        ("ANGO_S3_ACCESS_KEY_ID", !id.is_empty(), "ANGO_OBJECTS_URL", !url.is_empty()),
        ("ANGO_S3_ACCESS_KEY_ID", !id.is_empty(), "ANGO_S3_SECRET_ACCESS_KEY", !secret.is_empty()),
        ("ANGO_S3_SECRET_ACCESS_KEY", !secret.is_empty(), "ANGO_S3_ACCESS_KEY_ID", !id.is_empty()),
    ] {
        if is_given && !there {
            return Err(wrong(name, &format!("means nothing without {needed}")));
        }
    }
    if url.is_empty() {
        return Ok(None);
    }
    let bucket = BucketConfig::at(&url).map_err(|why| wrong("ANGO_OBJECTS_URL", why))?;
    if !endpoint.is_empty() && !["https://", "http://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
        return Err(wrong("ANGO_S3_ENDPOINT", "must be an address such as https://s3.example.org"));
    }
    Ok(Some(BucketConfig {
        endpoint: Some(endpoint).filter(|endpoint| !endpoint.is_empty()),
        region: read.text("ANGO_S3_REGION"),
        credentials: Some((id, secret)).filter(|(id, _)| !id.is_empty()),
        ..bucket
    }))
}

/// The defaults with what the text says of some plans.
fn sessions_max(text: &str) -> Result<[Option<u32>; Plan::ALL.len()], ConfigError> {
    let mut max = [Some(1), Some(2), Some(10), Some(10), Some(50), Some(200), None];
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let read = || {
            let (plan, number) = entry.split_once('=')?;
            let number = match number.trim() {
                "unlimited" => None,
                number => Some(number.parse().ok()?),
            };
            Some((Plan::from_name(plan.trim())?, number))
        };
        let (plan, number) = read()
            .ok_or_else(|| wrong("ANGO_SESSIONS_MAX", &format!("{entry:?} is not like pro=50 or scale=unlimited")))?;
        max[plan as usize] = number;
    }
    Ok(max)
}

fn plan_limits(path: &str) -> Result<PlanTable, ConfigError> {
    if path.is_empty() {
        return Ok(PlanTable::default());
    }
    let told = |why: String| wrong("ANGO_PLAN_LIMITS", &format!("{path}: {why}"));
    let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
    PlanTable::from_json(&text).map_err(told)
}

fn admin_key(text: String) -> Result<Option<AdminKey>, ConfigError> {
    match text.chars().count() {
        0 => Ok(None),
        1..32 => Err(wrong("SERVICE_ADMIN_KEY", "must have at least 32 characters")),
        _ => Ok(Some(AdminKey(Zeroizing::new(text)))),
    }
}

/// The text may be nearly right: it is not repeated.
fn server_secret(text: &str) -> Result<Option<ServerSecret>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut secret = ServerSecret(Zeroizing::default());
    hex::decode_to_slice(text, &mut secret.0[..])
        .map_err(|_| wrong("ANGO_SECRET", "must be 64 hexadecimal characters, as `openssl rand -hex 32` prints"))?;
    Ok(Some(secret))
}

fn audit_log(text: String) -> Result<Option<PathBuf>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let path = PathBuf::from(text);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !folder.is_dir() {
        return Err(wrong("SERVICE_AUDIT_LOG", &format!("{} is not a file in an existing folder", path.display())));
    }
    Ok(Some(path))
}

fn log_filter(text: String) -> Result<String, ConfigError> {
    tracing_subscriber::EnvFilter::try_new(&text).map_err(|_| {
        wrong("ANGO_LOG", &format!("{text:?} is not a level or a list such as control=debug,sqlx=warn"))
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config(given: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_lookup(|name| given.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string()))
    }

    #[test]
    fn defaults_are_those_of_the_list() {
        let config = config(&[]).unwrap();
        assert_eq!(config.listen, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(config.metrics_listen, "127.0.0.1:9464".parse().unwrap());
        assert_eq!(config.database_url, "sqlite:./ango-data/ango.db");
        assert_eq!(config.sessions.ttl, Duration::from_secs(3600));
        assert_eq!(config.requests.deadline, Duration::from_secs(300));
        assert!(!config.allow_sk_in_response && config.sessions.allow_server_held_key);
    }

    #[test]
    fn a_wrong_setting_is_refused_in_one_line_that_names_it() {
        for (name, text) in [
            ("ANGO_LISTEN", "localhost"),
            ("ANGO_LISTEN", "0.0.0.0:8080"),
            ("ANGO_METRICS_LISTEN", "9464"),
            ("ANGO_DATABASE_URL", "postgres://user:word@host:port/db"),
            ("ANGO_DATABASE_URL", "sqlite::memory:"),
            ("ANGO_DATABASE_URL", "ango.db"),
            ("ANGO_REDIS_URL", "host:6379"),
            ("ANGO_REDIS_URL", "redis://:word@host:port"),
            ("ANGO_REDIS_URL", "rediss://host#insecure"),
            ("ANGO_SECRET", "0123"),
            ("ANGO_SECRET", &"g".repeat(64)),
            ("ANGO_MIGRATE_AT_START", "yes"),
            ("ANGO_BACKEND", "fpga"),
            ("ANGO_BACKEND", "CUDA"),
            ("ANGO_CIRCUIT_GATES_MAX", "1048577"),
            ("ANGO_CIRCUIT_GATES_MAX_TRIAL", "0"),
            ("ANGO_CIRCUIT_BITS_MAX", "65537"),
            ("ANGO_CIRCUIT_DEADLINE_S", "0"),
            ("ANGO_CIRCUITS_RUNNING_MAX", "0"),
            ("ANGO_CIRCUITS_KEPT_MAX", "none"),
            ("ANGO_CIRCUITS_KEPT_MB", "0"),
            ("ANGO_VALUE_MEMORY_MB", "0"),
            ("ANGO_SESSION_VALUE_MEMORY_MB", "-1"),
            ("ANGO_PUBLIC_URL", "fhe.example.org"),
            ("ANGO_CORS_ORIGINS", "console.example.org"),
            ("ANGO_CORS_ORIGINS", "https://console.example.org/"),
            ("ANGO_CORS_ORIGINS", "https://Console.example.org"),
            ("ANGO_CORS_ORIGINS", "https://console.example.org, *"),
            ("ANGO_CORS_ORIGINS", "null"),
            ("ANGO_TRUSTED_PROXIES", "10.0.0.0/33"),
            ("ANGO_TRUSTED_PROXIES", "0.0.0.0/0"),
            ("ANGO_TRUSTED_PROXIES", "10.0.0.0/8, ::/0"),
            ("ANGO_AUTH_ALLOW_SIGNUP", "yes"),
            ("ANGO_API_KEYS_ALLOW_DEV", "1"),
            ("ANGO_HEALTH_HIDE_GPU", "yes"),
            ("ANGO_OIDC_ISSUER", "http://id.example.org"),
            ("ANGO_OIDC_AUDIENCE", "ango"),
            ("ANGO_OIDC_JWKS_URL", "https://id.example.org/keys"),
            ("ANGO_SESSION_TTL_S", "0"),
            ("ANGO_SESSION_TTL_S", "1h"),
            ("ANGO_TRIALS", "true"),
            ("ANGO_SESSIONS_MAX", "50"),
            ("ANGO_SESSIONS_MAX", "pro=-1"),
            ("ANGO_SESSIONS_MAX", "gold=5"),
            ("ANGO_REQUEST_DEADLINE_S", "-1"),
            ("ANGO_CONNECTIONS_MAX", "0"),
            ("ANGO_BODY_MEMORY_MB", "1"),
            ("ANGO_QUEUE_ROWS_MAX", "1023"),
            ("ANGO_SESSION_ROWS_MAX", "1"),
            ("ANGO_BATCH_WAIT_US", "x"),
            ("ANGO_KEY_MEMORY_MB", "0"),
            ("ANGO_RESIDENT_MEMORY_MB", "much"),
            ("ANGO_ALLOW_SERVER_HELD_KEY", "yes"),
            ("ANGO_PLAN_LIMITS", "/no/such/file.json"),
            ("SERVICE_ADMIN_KEY", "short"),
            ("SERVICE_AUDIT_LOG", "/no/such/folder/audit.log"),
            ("SERVICE_ALLOW_SK_IN_RESPONSE", "1"),
            ("ANGO_LOG", "ango=loudly"),
            ("ANGO_LOG_FORMAT", "xml"),
        ] {
            let error = config(&[(name, text)]).expect_err(name).to_string();
            assert!(error.starts_with(&format!("{name}: ")) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_repeated_in_errors() {
        let error = config(&[("ANGO_DATABASE_URL", "postgres://user:word@host:port/db")]).unwrap_err().to_string();
        assert!(!error.contains("word"));
        let error = config(&[("ANGO_REDIS_URL", "redis://:word@host:port")]).unwrap_err().to_string();
        assert!(!error.contains("word@"));
        let error = config(&[("SERVICE_ADMIN_KEY", "hunter2")]).unwrap_err().to_string();
        assert!(!error.contains("hunter2"));
        let error = config(&[("ANGO_SECRET", &"0ab".repeat(21))]).unwrap_err().to_string();
        assert!(!error.contains("0ab"));
    }

    #[test]
    fn x16_the_administrator_s_key_hides_itself_from_logs() {
        let config = config(&[("SERVICE_ADMIN_KEY", &"hunter2!".repeat(4))]).unwrap();
        assert!(config.admin_key.is_some());
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn x16_the_server_s_secret_is_read_and_hides_itself_from_logs() {
        let config = config(&[("ANGO_SECRET", &"0aF1".repeat(16))]).unwrap();
        assert_eq!(config.secret.as_ref().unwrap().0[..2], [0x0a, 0xf1]);
        assert!(format!("{config:?}").contains("ServerSecret(..)"));
    }

    #[test]
    fn x16_the_cache_store_s_url_is_taken_in_three_forms_and_hides_itself_from_logs() {
        for url in ["redis://:hunter2@host:6380/1", "rediss://host", "redis+unix:///run/redis.sock"] {
            let config = config(&[("ANGO_REDIS_URL", url)]).unwrap();
            assert_eq!(config.cache_store.as_ref().unwrap().url.as_str(), url);
            assert!(!format!("{config:?}").contains("hunter2"));
        }
        assert!(config(&[]).unwrap().cache_store.is_none());
    }

    #[test]
    fn x16_a_bucket_has_an_address_and_both_parts_of_its_credentials_and_hides_its_secret_from_logs() {
        let url = ("ANGO_OBJECTS_URL", "s3://ango/tokyo");
        let (id, secret) = (("ANGO_S3_ACCESS_KEY_ID", "id"), ("ANGO_S3_SECRET_ACCESS_KEY", "hunter2"));
        let read = config(&[url, id, secret, ("ANGO_S3_ENDPOINT", "http://minio:9000")]).unwrap();
        assert!(!format!("{read:?}").contains("hunter2"));
        let bucket = read.bucket.unwrap();
        assert_eq!(
            (bucket.bucket.as_str(), bucket.prefix.as_str(), bucket.region.as_str()),
            ("ango", "tokyo", "us-east-1")
        );
        assert!(config(&[]).unwrap().bucket.is_none());
        assert!(config(&[url]).unwrap().bucket.unwrap().credentials.is_none());
        for (given, named) in [
            (&[url, id][..], "ANGO_S3_ACCESS_KEY_ID"),
            (&[url, secret], "ANGO_S3_SECRET_ACCESS_KEY"),
            (&[id, secret], "ANGO_S3_ACCESS_KEY_ID"),
            (&[("ANGO_OBJECTS_URL", "file:///x")], "ANGO_OBJECTS_URL"),
            (&[url, ("ANGO_S3_ENDPOINT", "minio")], "ANGO_S3_ENDPOINT"),
        ] {
            assert!(config(given).unwrap_err().to_string().starts_with(&format!("{named}: ")));
        }
    }

    #[test]
    fn a10_an_external_issuer_needs_an_audience_and_a_safe_address() {
        let issuer = ("ANGO_OIDC_ISSUER", "https://id.example.org");
        let audience = ("ANGO_OIDC_AUDIENCE", "ango");
        assert!(config(&[issuer]).unwrap_err().to_string().starts_with("ANGO_OIDC_AUDIENCE: "));
        let jwks_url = ("ANGO_OIDC_JWKS_URL", "http://id.example.org/keys");
        assert!(config(&[issuer, audience, jwks_url]).unwrap_err().to_string().starts_with("ANGO_OIDC_JWKS_URL: "));
        let external = config(&[issuer, audience]).unwrap().auth.external_issuer.unwrap();
        assert!(!external.trusts_account_ids, "only where the operator says so");
        for (name, text) in [("ANGO_OIDC_TRUST_ACCOUNT_IDS", "yes"), ("ANGO_OIDC_ACCOUNTS_MAX", "0")] {
            assert!(config(&[issuer, audience, (name, text)]).unwrap_err().to_string().starts_with(name));
        }
        assert!(config(&[]).unwrap().auth.external_issuer.is_none());
    }

    #[test]
    fn x13_origins_are_listed_as_browsers_write_them() {
        let origins = |text| config(&[("ANGO_CORS_ORIGINS", text)]).unwrap().cors_origins;
        assert_eq!([origins(""), origins("*")], [CorsOrigins::None, CorsOrigins::Any]);
        let listed = ["https://console.example.org", "http://localhost:3000"].map(str::to_owned).to_vec();
        assert_eq!(origins("https://console.example.org, http://localhost:3000"), CorsOrigins::Listed(listed));
    }

    #[test]
    fn beyond_loopback_needs_a_named_proxy() {
        let config = config(&[("ANGO_LISTEN", "0.0.0.0:8080"), ("ANGO_TRUSTED_PROXIES", "10.0.0.0/8, ::1")]).unwrap();
        assert_eq!(config.trusted_proxies.len(), 2);
    }

    #[test]
    fn l9_open_sessions_of_some_plans_can_be_set() {
        let sessions = |text| config(&[("ANGO_SESSIONS_MAX", text)]).unwrap().sessions;
        let defaults = Plan::ALL.map(|plan| sessions("").open_max(plan));
        assert_eq!(defaults, [Some(1), Some(2), Some(10), Some(10), Some(50), Some(200), None]);
        let changed = sessions("free=5, scale=unlimited,");
        assert_eq!([Plan::Free, Plan::Scale, Plan::Pro].map(|plan| changed.open_max(plan)), [Some(5), None, Some(50)]);
    }

    #[test]
    fn an_empty_variable_is_an_unset_one() {
        assert_eq!(config(&[("ANGO_SESSION_TTL_S", " ")]).unwrap().sessions.ttl, Duration::from_secs(3600));
    }

    proptest! {
        #[test]
        fn any_text_is_a_setting_or_refused_in_one_line_that_names_it(
            which in 0..SETTINGS.len(),
            text in prop_oneof![".{0,40}", "[0-9]{1,25}", "-?[0-9]{1,20}[smh]?", "[a-z]{1,8}=[0-9a-z]{1,12}(,[a-z=]{0,9}){0,3}"],
        ) {
            let name = SETTINGS[which].name;
            // these open what they name
            prop_assume!(!matches!(name, "ANGO_PLAN_LIMITS" | "SERVICE_AUDIT_LOG"));
            if let Err(error) = config(&[(name, &text)]) {
                let error = error.to_string();
                prop_assert!(error.contains(name) && error.lines().count() == 1, "{error}");
            }
        }
    }
}
