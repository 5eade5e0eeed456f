//! `ango config check`: the settings that a node would have, and whether what they name is there.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Settings;
use crate::config::{Config, SETTINGS, Setting};
use crate::tls::Tls;
use crate::{blobs, cache_store, database};

/// Longest time for one dependency.
const PATIENCE: Duration = Duration::from_secs(10);
/// The exit code when a dependency is not as it should be; settings that are refused give 1, as every error does.
const NOT_READY: u8 = 3;

/// What may be done with settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    Check(Check),
}

/// Print the settings that a node would have, without secrets, and try what they name: data folder, database, Redis, the
/// keys of an OpenID issuer. Nothing is made or changed. Exits with 0 when a node can start, with 1 for a setting that is
/// refused, with 3 when something named does not answer.
#[derive(Debug, Args)]
pub struct Check {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// How one thing is that settings name.
struct Finding {
    what: &'static str,
    fine: bool,
    words: String,
}

/// Does it.
///
/// # Errors
/// For settings that are refused.
pub async fn run(command: ConfigCommand) -> anyhow::Result<ExitCode> {
    let ConfigCommand::Check(args) = command;
    let config = args.settings.config()?;
    let findings = findings(&config).await;
    let settings: Vec<(&Setting, String, bool)> = SETTINGS
        .iter()
        .map(|setting| {
            let given = args.settings.text(setting.name).filter(|text| !text.trim().is_empty());
            let is_given = given.is_some();
            (setting, shown(setting, given.unwrap_or_else(|| setting.default.to_owned())), is_given)
        })
        .collect();
    if args.json {
        let settings: serde_json::Map<String, Value> =
            settings.iter().map(|(setting, value, _)| (setting.name.to_owned(), json!(value))).collect();
        let checks: Vec<Value> = findings
            .iter()
            .map(|finding| json!({ "what": finding.what, "fine": finding.fine, "words": finding.words }))
            .collect();
        println!("{}", json!({ "settings": settings, "checks": checks }));
    } else {
        for (setting, value, is_given) in &settings {
            println!("{}{}={value}", if *is_given { "" } else { "#" }, setting.name);
        }
        println!();
        for Finding { what, fine, words } in &findings {
            println!("{} {what}: {words}", if *fine { "ok  " } else { "FAIL" });
        }
    }
    Ok(if findings.iter().all(|finding| finding.fine) { ExitCode::SUCCESS } else { ExitCode::from(NOT_READY) })
}

/// A value as it may be read over a shoulder: no secret, no password of a URL.
fn shown(setting: &Setting, value: String) -> String {
    if value.is_empty() {
        return value;
    }
    if setting.flag.is_none() {
        return "(given, not shown)".to_owned();
    }
    let Ok(mut url) = reqwest::Url::parse(&value) else { return value };
    if url.password().is_none() && !url.query_pairs().any(|(name, _)| name.contains("pass")) {
        return value;
    }
    // a password may also stand in the query
    url.set_query(None);
    match url.set_password(Some("...")) {
        Ok(()) => url.to_string(),
        Err(()) => "(given, not shown)".to_owned(),
    }
}

async fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![data_dir(config), database(config).await];
    if let Some(cache) = &config.cache_store {
        let outcome = within(cache_store::ping_once(cache)).await;
        findings.push(finding("redis", outcome.map(|()| "answers".to_owned())));
    }
    if let Some(bucket) = &config.bucket {
        let outcome = within(async { blobs::try_once(bucket, database::id(config).await?.as_deref()).await }).await;
        findings.push(finding("bucket", outcome.map(|()| "takes objects and gives them back".to_owned())));
    }
    if let Some(issuer) = &config.auth.external_issuer {
        let outcome = within(crate::access::key_set::fetch_once(issuer)).await;
        findings.push(finding("OpenID issuer", outcome.map(|keys| format!("has {keys} keys that can be used"))));
    }
    if let Some(tls) = &config.tls {
        let words = "the certificate and its key go together".to_owned();
        findings.push(finding("TLS", Tls::open(tls.clone()).map(|_| words)));
    }
    findings.push(front(config));
    findings
}

fn data_dir(config: &Config) -> Finding {
    let path = config.data_dir.display();
    let outcome = match std::fs::metadata(&config.data_dir) {
        Ok(found) if !found.is_dir() => Err(anyhow::anyhow!("{path} is not a folder")),
        Ok(found) if found.permissions().readonly() => Err(anyhow::anyhow!("{path} may not be written")),
        Ok(_) => Ok(format!("{path} is there")),
        Err(_) => Ok(format!("{path} is not there: the first start makes it")),
    };
    finding("data folder", outcome)
}

async fn database(config: &Config) -> Finding {
    finding("database", within(database::standing(config)).await)
}

/// What stands between clients and the node cannot be asked; what is known of it can be weighed.
fn front(config: &Config) -> Finding {
    let outcome = match (config.trusted_proxies.as_slice(), &config.public_url) {
        ([], _) => Ok("none is named: every client is who connects, X-Forwarded-For is not read".to_owned()),
        (networks, _) if networks.iter().any(|network| network.prefix_len() == 0) => {
            Err(anyhow::anyhow!("ANGO_TRUSTED_PROXIES names the whole internet: every client could say who it is"))
        }
        (_, None) => Err(anyhow::anyhow!(
            "ANGO_PUBLIC_URL is not set: links in answers, and the setup link, would show the node's inner address"
        )),
        (networks, Some(url)) => Ok(format!("{} networks of proxies, clients come to {url}", networks.len())),
    };
    finding("proxies", outcome)
}

async fn within<T>(asking: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(outcome) => outcome,
        Err(_) => anyhow::bail!("no answer in {} s", PATIENCE.as_secs()),
    }
}

fn finding(what: &'static str, outcome: anyhow::Result<String>) -> Finding {
    match outcome {
        Ok(words) => Finding { what, fine: true, words },
        Err(error) => Finding { what, fine: false, words: format!("{error:#}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x16_no_secret_and_no_password_is_shown() {
        let setting = |name: &str| SETTINGS.iter().find(|setting| setting.name == name).unwrap();
        for (name, value) in [
            ("ANGO_SECRET", "hunter2"),
            ("SERVICE_ADMIN_KEY", "hunter2"),
            ("ANGO_DATABASE_URL", "postgres://ango:hunter2@db/ango"),
            ("ANGO_DATABASE_URL", "postgres://db/ango?user=ango&password=hunter2"),
            ("ANGO_REDIS_URL", "redis://:hunter2@host:6380/1"),
        ] {
            let shown = shown(setting(name), value.to_owned());
            assert!(!shown.contains("hunter2") && !shown.is_empty(), "{shown}");
        }
        assert_eq!(shown(setting("ANGO_LISTEN"), "127.0.0.1:1".to_owned()), "127.0.0.1:1");
        assert_eq!(shown(setting("ANGO_PUBLIC_URL"), "https://a.example".to_owned()), "https://a.example");
    }
}
