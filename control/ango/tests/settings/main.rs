//! Settings: their allowed values, their sources, and the pages made from them.

mod pages;

use std::time::Duration;

use control::caller::Plan;
use control::config::{Config, ConfigError, CorsOrigins, Origin, Setting, command};
use proptest::prelude::*;

fn config(given: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variable = |name: &str| given.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string());
    Ok(Config::read(|_| None, variable)?.0)
}

/// Reads the settings from a file with this text, from these flags and from these environment variables.
fn with_file(text: &str, flags: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<(Config, Vec<Setting>), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    std::fs::write(&path, text).unwrap();
    let variables = [variables, &[("ANGO_CONFIG", path.to_str().unwrap())]].concat();
    let given = |list: &[(&str, &str)], name: &str| {
        list.iter().find(|(known, _)| *known == name).map(|(_, text)| text.to_string())
    };
    let read = Config::read(|name| given(flags, name), |name| given(&variables, name));
    read.map_err(|error| error.to_string().replace(path.to_str().unwrap(), "FILE"))
}

#[test]
fn a_flag_comes_before_a_variable_that_before_the_file_that_before_the_default() {
    let file = "session-ttl-s = 1\nrequest-deadline-s = 1\ncircuit-deadline-s = 1";
    let variables = [("ANGO_SESSION_TTL_S", "2"), ("ANGO_REQUEST_DEADLINE_S", "2"), ("ANGO_TRIALS", " ")];
    let (config, settings) = with_file(file, &[("ANGO_SESSION_TTL_S", "3")], &variables).unwrap();
    let seconds = [config.sessions.ttl, config.requests.deadline, config.circuits.deadline].map(|time| time.as_secs());
    assert_eq!((seconds, config.trials), ([3, 2, 1], true));
    let from = |name: &str| settings.iter().find(|setting| setting.name() == name).unwrap().origin.clone();
    assert_eq!(
        ["ANGO_SESSION_TTL_S", "ANGO_REQUEST_DEADLINE_S", "ANGO_CIRCUIT_DEADLINE_S", "ANGO_TRIALS"].map(from),
        [Origin::Flag, Origin::Environment, Origin::File(config.file.unwrap()), Origin::Default]
    );
}

#[test]
fn a_file_has_lists_switches_texts_and_plans() {
    let file = r#"
        trusted-proxies = ["10.0.0.0/8", "::1"]
        auth-allow-signup = true
        public-url = "https://a.example"
        secret = "0707070707070707070707070707070707070707070707070707070707070707"
        [plans.free]
        requests-a-day = 5
    "#;
    let (config, _) = with_file(file, &[], &[]).unwrap();
    assert_eq!((config.trusted_proxies.len(), config.auth.allow_signup), (2, true));
    assert_eq!((config.public_url.as_deref(), config.secret.unwrap().0[0]), (Some("https://a.example"), 7));
    assert_eq!(config.plan_limits.of(Plan::Free).requests_a_day, 5);
}

#[test]
fn a_wrong_file_is_refused_in_one_line_that_names_it() {
    for (file, told) in [
        ("lisen = 1", "FILE: there is no setting \"lisen\"; did you mean \"listen\"?"),
        ("session_ttl_s = 60", "did you mean \"session-ttl-s\"?"),
        ("[plan.free]", "did you mean \"plans\"?"),
        ("\nlisten = hunter2", "FILE: line 2: "),
        ("listen = 1.5", "FILE: listen must be a text"),
        ("config = \"other.toml\"", "FILE: config decides where this file is"),
        ("[plans.gold]", "FILE: plans: there is no plan \"gold\""),
        ("plans = 1", "FILE: plans: invalid type"),
        (
            "session-ttl-s = \"1h\"",
            "ANGO_SESSION_TTL_S: must be a whole number from 1 to 604800, not \"1h\" (from the file FILE)",
        ),
        ("secret = \"hunter2\"", "ANGO_SECRET: must be 64 hexadecimal characters"),
    ] {
        let error = with_file(file, &[], &[]).err().unwrap();
        assert!(error.contains(told) && error.contains("FILE"), "{error}");
        assert!(!error.contains('\n') && !error.contains("hunter2"), "{error}");
    }
    let variable = config(&[("ANGO_SESSION_TTL_S", "1h")]).unwrap_err().to_string();
    assert!(variable.ends_with("not \"1h\" (from the environment)"), "{variable}");
    let flag = Config::read(|name| (name == "ANGO_TRIALS").then(|| "yes".to_owned()), |_| None).err().unwrap();
    assert_eq!(flag.to_string(), "ANGO_TRIALS: must be on or off, not \"yes\" (from the flag --trials)");
    let missing = Config::read(|_| None, |name| (name == "ANGO_CONFIG").then(|| "/no/such/file".to_owned()));
    assert!(missing.err().unwrap().to_string().starts_with("/no/such/file: "));
}

#[test]
fn a_data_folder_may_hold_its_node_s_settings() {
    let folder = tempfile::tempdir().unwrap();
    let read = || {
        let folder = folder.path().to_str().unwrap().to_owned();
        Config::read(|name| (name == "ANGO_DATA_DIR").then(|| folder.clone()), |_| None)
    };
    assert_eq!(read().unwrap().0.file, None);
    let path = folder.path().join("ango.toml");
    std::fs::write(&path, "session-ttl-s = 60").unwrap();
    let config = read().unwrap().0;
    assert_eq!((config.sessions.ttl, config.file), (Duration::from_secs(60), Some(path.clone())));
    std::fs::write(&path, "data-dir = \"elsewhere\"").unwrap();
    assert!(read().err().unwrap().to_string().contains("data-dir decides where this file is"));
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
        ("ANGO_PAYMENTS_CALLS_PER_SECOND", "0"),
        ("ANGO_PAYMENTS_CALLS_PER_SECOND", "1001"),
        ("ANGO_PAYMENTS_PROVIDER", "paypal"),
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
        ("ANGO_REQUEST_DEADLINE_S", "-1"),
        ("ANGO_CONNECTIONS_MAX", "0"),
        ("ANGO_BODY_MEMORY_MB", "1"),
        ("ANGO_QUEUE_ROWS_MAX", "1023"),
        ("ANGO_SESSION_ROWS_MAX", "1"),
        ("ANGO_BATCH_WAIT_US", "x"),
        ("ANGO_KEY_MEMORY_MB", "0"),
        ("ANGO_RESIDENT_MEMORY_MB", "much"),
        ("ANGO_ALLOW_SERVER_HELD_KEY", "yes"),
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
    assert!(config.office.admin_key.is_some());
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
        (bucket.url.bucket.as_str(), bucket.url.prefix.as_str(), bucket.region.as_str()),
        ("ango", "tokyo", "us-east-1")
    );
    assert!(config(&[]).unwrap().bucket.is_none());
    assert!(config(&[url]).unwrap().bucket.unwrap().access_key_id.is_none());
    for (given, named) in [
        (&[url, id][..], "ANGO_S3_ACCESS_KEY_ID"),
        (&[url, secret], "ANGO_S3_SECRET_ACCESS_KEY"),
        (&[id, secret], "ANGO_S3_ACCESS_KEY_ID"),
        (&[("ANGO_OBJECTS_URL", "file:///x")], "ANGO_OBJECTS_URL"),
        (&[url, ("ANGO_S3_ENDPOINT", "minio")], "ANGO_S3_ENDPOINT"),
    ] {
        let error = config(given).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{named}: ")), "{error}");
    }
}

#[test]
fn g13_a_member_of_a_fleet_has_a_broker_a_bucket_and_the_secret_of_its_role_alone() {
    let (broker, bucket) = (("ANGO_NATS_URL", "nats://api:hunter2@10.0.0.1:4222"), ("ANGO_OBJECTS_URL", "s3://ango"));
    let (digits, other) = ("0aF1".repeat(16), "ab".repeat(32));
    let (key, secret) = (("ANGO_FLEET_KEY", digits.as_str()), ("ANGO_SECRET", other.as_str()));
    let (api, worker) = (("ANGO_ROLE", "api"), ("ANGO_ROLE", "worker"));
    for given in [&[broker, bucket][..], &[api, broker, bucket, secret], &[worker, broker, bucket, key]] {
        let read = config(given).unwrap();
        assert!(read.fleet.is_member() && !format!("{read:?}").contains("hunter2"));
    }
    assert!(!config(&[]).unwrap().fleet.is_member());
    for (given, named) in [
        (&[api][..], "ANGO_NATS_URL"),
        (&[worker, bucket, key], "ANGO_NATS_URL"),
        (&[api, broker], "ANGO_NATS_URL"),
        (&[worker, broker, bucket], "ANGO_FLEET_KEY"),
        (&[worker, broker, bucket, key, secret], "ANGO_SECRET"),
        (&[api, broker, bucket, key], "ANGO_FLEET_KEY"),
        (&[("ANGO_ROLE", "boss")], "ANGO_ROLE"),
        (&[("ANGO_NATS_URL", "http://10.0.0.1")], "ANGO_NATS_URL"),
        (&[("ANGO_FLEET_NAME", "a.b")], "ANGO_FLEET_NAME"),
        (&[("ANGO_WORKER_NAME", "a b")], "ANGO_WORKER_NAME"),
        (&[("ANGO_INTERNAL_URL", "10.0.0.1:9465")], "ANGO_INTERNAL_URL"),
        (&[("ANGO_NATS_REPLICAS", "6")], "ANGO_NATS_REPLICAS"),
    ] {
        let error = config(given).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{named}: ")) && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a10_an_external_issuer_needs_an_audience_and_a_safe_address() {
    let issuer = ("ANGO_OIDC_ISSUER", "https://id.example.org");
    let audience = ("ANGO_OIDC_AUDIENCE", "ango");
    let error = config(&[issuer]).unwrap_err().to_string();
    assert_eq!(error, "ANGO_OIDC_ISSUER: has no effect without ANGO_OIDC_AUDIENCE");
    let jwks_url = ("ANGO_OIDC_JWKS_URL", "http://id.example.org/keys");
    assert!(config(&[issuer, audience, jwks_url]).unwrap_err().to_string().starts_with("ANGO_OIDC_JWKS_URL: "));
    let external = config(&[issuer, audience]).unwrap().auth.external_issuer.unwrap();
    assert!(!external.trusts_account_ids, "only if the operator sets it");
    for (name, text) in [("ANGO_OIDC_TRUST_ACCOUNT_IDS", "yes"), ("ANGO_OIDC_ACCOUNTS_MAX", "0")] {
        assert!(config(&[issuer, audience, (name, text)]).unwrap_err().to_string().starts_with(name));
    }
    assert!(config(&[]).unwrap().auth.external_issuer.is_none());
}

#[test]
fn x13_origins_are_listed_as_browsers_write_them() {
    let origins = |text| config(&[("ANGO_CORS_ORIGINS", text)]).unwrap().cors_origins;
    assert_eq!([origins(""), origins("none")], [CorsOrigins::None, CorsOrigins::None]);
    assert_eq!([origins(" "), origins("*")], [CorsOrigins::None, CorsOrigins::Any]);
    let listed = ["https://console.example.org", "http://localhost:3000"].map(str::to_owned).to_vec();
    assert_eq!(origins("https://console.example.org, http://localhost:3000"), CorsOrigins::Listed(listed));
}

#[test]
fn beyond_loopback_needs_a_named_proxy() {
    let config = config(&[("ANGO_LISTEN", "0.0.0.0:8080"), ("ANGO_TRUSTED_PROXIES", "10.0.0.0/8, ::1")]).unwrap();
    assert_eq!(config.trusted_proxies.len(), 2);
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    assert_eq!(config(&[("ANGO_SESSION_TTL_S", " ")]).unwrap().sessions.ttl, Duration::from_secs(3600));
}

proptest! {
    #[test]
    fn any_text_is_a_setting_or_refused_in_one_line_that_names_it(
        which in 0..command().get_arguments().count(),
        text in prop_oneof![".{0,40}", "[0-9]{1,25}", "-?[0-9]{1,20}[smh]?", "[a-z]{1,8}=[0-9a-z]{1,12}(,[a-z=]{0,9}){0,3}"],
    ) {
        let command = command();
        let name = command.get_arguments().nth(which).and_then(|arg| arg.get_env()?.to_str()).unwrap();
        // the test skips these two settings, because the text would be the path of a file that they open
        prop_assume!(!["ANGO_CONFIG", "SERVICE_AUDIT_LOG"].contains(&name));
        if let Err(error) = config(&[(name, &text)]) {
            let error = error.to_string();
            prop_assert!(error.contains(name) && error.lines().count() == 1, "{error}");
        }
    }
}
