//! The one list of settings: name, default, one line of why. The command line, `.env.sample` and the checks read it.
//!
//! What only tests of debug builds use is none (`fail_point.rs`): an operator could do nothing with it but harm.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// The flag of `ango serve`; none for secrets, which other users of a machine could read in its process list.
    pub flag: Option<&'static str>,
    /// The value when it is not given; empty: unset.
    pub default: &'static str,
    /// What it is for.
    pub why: &'static str,
}

const fn setting(name: &'static str, flag: &'static str, default: &'static str, why: &'static str) -> Setting {
    Setting { name, flag: Some(flag), default, why }
}

/// Every setting, in the order of `.env.sample`.
pub const SETTINGS: &[Setting] = &[
    setting(
        "ANGO_LISTEN",
        "listen",
        "127.0.0.1:8080",
        "Address of the API. Beyond loopback only with a certificate (ANGO_TLS_CERTIFICATE) or behind a TLS proxy (ANGO_TRUSTED_PROXIES).",
    ),
    setting(
        "ANGO_TLS_CERTIFICATE",
        "tls-certificate",
        "",
        "File with the node's TLS certificate and its intermediate certificates, PEM: then the node speaks HTTPS itself. New contents are used from the next connection on. By default plain HTTP, for a proxy.",
    ),
    setting("ANGO_TLS_KEY", "tls-key", "", "File with the private key of ANGO_TLS_CERTIFICATE, PEM."),
    setting(
        "ANGO_METRICS_LISTEN",
        "metrics-listen",
        "127.0.0.1:9464",
        "Address of /metrics, /livez and /readyz. No authentication: keep it private.",
    ),
    setting(
        "ANGO_DATA_DIR",
        "data-dir",
        "./ango-data",
        "Folder of everything the node keeps; made with mode 0700. One node a folder.",
    ),
    setting(
        "ANGO_DATABASE_URL",
        "database-url",
        "",
        "sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE; by default ango.db in the data folder. With a password give it as a variable: flags are seen by other users of the machine.",
    ),
    setting(
        "ANGO_MIGRATE_AT_START",
        "migrate-at-start",
        "false",
        "Whether a start brings an older schema in PostgreSQL up to date; else `ango migrate` does. An empty database and an SQLite file are brought up to date at every start.",
    ),
    Setting {
        name: "ANGO_SECRET",
        flag: None,
        default: "",
        why: "The server's secret, 64 hexadecimal characters, the same on all nodes of a database; by default the data folder's own.",
    },
    setting(
        "ANGO_REDIS_URL",
        "redis-url",
        "",
        "redis://USER:PASSWORD@HOST, rediss:// (TLS) or redis+unix://SOCKET: what nodes of one database share bursts and counts by, and tell each other revocations at once. Without it, and while it is away, they do by the database, and bursts are each node's own. With a password give it as a variable.",
    ),
    setting(
        "ANGO_OBJECTS_URL",
        "objects-url",
        "",
        "s3://BUCKET/PREFIX: where nodes of one database keep large bytes together, sealed: bodies of kept answers. By default each in its own data folder, and a large answer can be repeated by the node that gave it only.",
    ),
    setting(
        "ANGO_S3_ENDPOINT",
        "s3-endpoint",
        "",
        "Address of the server with the bucket of ANGO_OBJECTS_URL, such as https://minio.example.org; by default Amazon's of the region.",
    ),
    setting("ANGO_S3_REGION", "s3-region", "us-east-1", "Region of the bucket."),
    setting(
        "ANGO_S3_ACCESS_KEY_ID",
        "s3-access-key-id",
        "",
        "Access key for the bucket; by default that of the machine's role.",
    ),
    Setting { name: "ANGO_S3_SECRET_ACCESS_KEY", flag: None, default: "", why: "The secret of ANGO_S3_ACCESS_KEY_ID." },
    setting(
        "ANGO_BACKEND",
        "backend",
        "auto",
        "Where gates are computed: auto, cuda, wgpu or cpu. auto takes CUDA, else a real GPU of another kind, else the CPU. `ango devices` shows what there is.",
    ),
    setting(
        "ANGO_PUBLIC_URL",
        "public-url",
        "",
        "Address that clients see, in documentation links, setup links and tokens; by default http:// (https:// with a certificate) and the listening address. Give it where a proxy is in front.",
    ),
    setting(
        "ANGO_TRUSTED_PROXIES",
        "trusted-proxies",
        "",
        "Networks of TLS proxies in front, as CIDR list. Needed to listen beyond loopback without a certificate.",
    ),
    setting(
        "ANGO_CORS_ORIGINS",
        "cors-origins",
        "",
        "Origins whose pages may call the API from a browser, as a list such as https://console.example.org, or * for all; by default only the API's own. Never with cookies.",
    ),
    setting(
        "ANGO_AUTH_ALLOW_SIGNUP",
        "auth-allow-signup",
        "false",
        "Whether anybody may become a user with an account of their own; else the operator makes users.",
    ),
    setting(
        "ANGO_API_KEYS_ALLOW_DEV",
        "api-keys-allow-dev",
        "true",
        "Whether users may make API keys of the environment dev.",
    ),
    setting(
        "ANGO_HEALTH_HIDE_GPU",
        "health-hide-gpu",
        "false",
        "Whether health tells nobody that there is a GPU: for operators of a public cloud.",
    ),
    setting(
        "ANGO_OIDC_ISSUER",
        "oidc-issuer",
        "",
        "Address of an OpenID issuer whose tokens the dashboard takes; by default the node issues its own.",
    ),
    setting(
        "ANGO_OIDC_AUDIENCE",
        "oidc-audience",
        "",
        "The `aud` that tokens of ANGO_OIDC_ISSUER carry for this node.",
    ),
    setting(
        "ANGO_OIDC_JWKS_URL",
        "oidc-jwks-url",
        "",
        "Where the keys of ANGO_OIDC_ISSUER are; by default its discovery document says it.",
    ),
    setting(
        "ANGO_OIDC_TRUST_ACCOUNT_IDS",
        "oidc-trust-account-ids",
        "false",
        "Whether a token of ANGO_OIDC_ISSUER whose `account_id` claim is one of this node's account ids opens that account. Only for an issuer whose users cannot change the claim; else the claim names accounts of the issuer's own.",
    ),
    setting(
        "ANGO_OIDC_ACCOUNTS_MAX",
        "oidc-accounts-max",
        "10000",
        "Users and accounts together that tokens of ANGO_OIDC_ISSUER may bring into being; further ones are refused.",
    ),
    setting(
        "ANGO_SESSION_TTL_S",
        "session-ttl-s",
        "3600",
        "Life of a gate session in seconds, fixed from its creation.",
    ),
    setting(
        "ANGO_SESSIONS_MAX",
        "sessions-max",
        "",
        "Open gate sessions of an account, where a plan shall have others than trial=1,free=2,payg=10,starter=10,pro=50,scale=200,enterprise=unlimited.",
    ),
    setting(
        "ANGO_TRIALS",
        "trials",
        "on",
        "on or off: whether POST /onboarding/temp-key gives trial keys, which need no operator. off answers 403; keys that were given go on to their end.",
    ),
    setting(
        "ANGO_ALLOW_SERVER_HELD_KEY",
        "allow-server-held-key",
        "true",
        "Whether POST /tfhe/session may make and hold a secret key (demonstrations). Set false in production.",
    ),
    setting(
        "ANGO_REQUEST_DEADLINE_S",
        "request-deadline-s",
        "300",
        "Longest time for one request in seconds; work that takes longer is dropped and not charged.",
    ),
    setting("ANGO_CONNECTIONS_MAX", "connections-max", "4096", "Open connections at most; further ones wait."),
    setting(
        "ANGO_BODY_MEMORY_MB",
        "body-memory-mb",
        "",
        "Memory for request bodies in transit, in MB; beyond it uploads get 503. By default an eighth of the memory that the process may use, at most 512. All trials together have a tenth of it (at least one upload of the largest key), and so of ANGO_KEY_MEMORY_MB and ANGO_VALUE_MEMORY_MB.",
    ),
    setting(
        "ANGO_QUEUE_ROWS_MAX",
        "queue-rows-max",
        "16384",
        "Gates waiting on the whole node; beyond it requests get 503.",
    ),
    setting(
        "ANGO_SESSION_ROWS_MAX",
        "session-rows-max",
        "4096",
        "Gates waiting for one session; at least a full batch of 1024.",
    ),
    setting("ANGO_CIRCUIT_GATES_MAX", "circuit-gates-max", "1048576", "Gates of one circuit at most."),
    setting("ANGO_CIRCUIT_GATES_MAX_TRIAL", "circuit-gates-max-trial", "1024", "The same for trial keys."),
    setting(
        "ANGO_CIRCUIT_BITS_MAX",
        "circuit-bits-max",
        "16384",
        "Bits that a circuit takes at most, and bits that it gives; each is a ciphertext of 2.5 to 3.3 KB.",
    ),
    setting(
        "ANGO_CIRCUIT_DEADLINE_S",
        "circuit-deadline-s",
        "3600",
        "Longest time in seconds for a circuit that nobody waits for (Prefer: respond-async); others have ANGO_REQUEST_DEADLINE_S.",
    ),
    setting(
        "ANGO_CIRCUITS_RUNNING_MAX",
        "circuits-running-max",
        "8",
        "Circuits of one session at once; further ones get 429.",
    ),
    setting("ANGO_CIRCUITS_KEPT_MAX", "circuits-kept-max", "64", "Uploaded circuits of one account at most."),
    setting(
        "ANGO_CIRCUITS_KEPT_MB",
        "circuits-kept-mb",
        "128",
        "Bytes of the uploaded circuits of one account at most, in MB.",
    ),
    setting(
        "ANGO_VALUE_MEMORY_MB",
        "value-memory-mb",
        "",
        "Memory for inputs and results of circuits and for results under handles, of all sessions, in MB; beyond it requests get 503. By default an eighth of the memory that the process may use, at most 1024.",
    ),
    setting(
        "ANGO_SESSION_VALUE_MEMORY_MB",
        "session-value-memory-mb",
        "",
        "The same for one session, by default a quarter; beyond it requests get 402 until handles are deleted.",
    ),
    setting(
        "ANGO_BATCH_WAIT_US",
        "batch-wait-us",
        "200",
        "How long a lone gate waits at most for company of its session while the devices are busy, in microseconds.",
    ),
    setting(
        "ANGO_KEY_MEMORY_MB",
        "key-memory-mb",
        "",
        "Memory for uploaded keys of open sessions, in MB; beyond it new sessions get 503. By default an eighth of the memory that the process may use (its container's limit, if it has one), at most 4096.",
    ),
    setting(
        "ANGO_RESIDENT_MEMORY_MB",
        "resident-memory-mb",
        "",
        "Memory for keys prepared for computing, in MB; by default what the device offers.",
    ),
    setting(
        "ANGO_PLAN_LIMITS",
        "plan-limits",
        "",
        "JSON file that replaces numbers of plans: {\"free\": {\"requests_a_day\": 2000, \"requests_a_month\": \"unlimited\", \"burst_a_second\": 20}, \"anonymous\": {..}}. Operations of trial keys are fixed.",
    ),
    Setting {
        name: "SERVICE_ADMIN_KEY",
        flag: None,
        default: "",
        why: "Administrator's secret for key issuing over HTTP, at least 32 characters. Checked, not used yet.",
    },
    setting("SERVICE_AUDIT_LOG", "audit-log", "", "File of the audit chain. Checked, not used yet."),
    setting(
        "SERVICE_ALLOW_SK_IN_RESPONSE",
        "allow-sk-in-response",
        "false",
        "Whether key generation may return a secret key (local tests). Checked, not used yet.",
    ),
    setting(
        "ANGO_LOG",
        "log",
        "info",
        "What is logged: error, warn, info, debug, trace, or per module as in control=debug,sqlx=warn.",
    ),
    setting("ANGO_LOG_FORMAT", "log-format", "text", "text for people, json for machines."),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `.env.sample` as the list says it should be.
    fn sample() -> String {
        let mut text = String::from(
            "# Every setting of ango with its default, as an environment variable: nothing reads this file itself.\n\
                # Each but the secrets is also a flag: see `ango serve --help`.\n",
        );
        for setting in SETTINGS {
            text += &format!("\n# {}\n#{}={}\n", setting.why, setting.name, setting.default);
        }
        text
    }

    #[test]
    fn env_sample_lists_every_setting_with_default_and_reason() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../.env.sample");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(path, sample()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == sample(), ".env.sample is not up to date: run this test with UPDATE_SNAPSHOTS=1");
    }
}
