//! `ango config check`: shows the settings that a node would have, and checks the folders, files and services that they
//! name.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Table;
use serde_json::{Value, json};

use crate::config::{Config, Flags, Setting};
use crate::tls::Tls;
use crate::{blobs, cache_store, database};

/// Timeout for the check of one dependency.
const PATIENCE: Duration = Duration::from_secs(10);
/// The exit code if a dependency fails its check. Refused settings exit with 1, like all errors.
const NOT_READY: u8 = 3;

/// The commands on settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    Check(Check),
}

/// Print the settings that a node would have, and the origin of each: a flag, the environment, the settings file or the
/// default. Check the things that they name: data folder, database, Redis, bucket, OpenID issuer, certificate. The command changes
/// nothing and prints no secret. Exits with 0 if a node can start, with 1 if a setting is refused, with 3 if a check
/// fails.
#[derive(Debug, Args)]
pub struct Check {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags,
}

/// The result of checking one thing that settings name.
struct Finding {
    what: &'static str,
    fine: bool,
    words: String,
}

/// Runs the command.
///
/// # Errors
/// When settings are refused.
pub async fn run(command: ConfigCommand) -> anyhow::Result<ExitCode> {
    let ConfigCommand::Check(args) = command;
    let (config, settings) = args.settings.read()?;
    let findings = findings(&config).await;
    if args.json {
        let member = |setting: &Setting| {
            (setting.name().to_owned(), json!({ "value": shown(setting), "from": setting.origin.to_string() }))
        };
        let settings: serde_json::Map<String, Value> = settings.iter().map(member).collect();
        let check = |finding: &Finding| json!({ "what": finding.what, "fine": finding.fine, "words": finding.words });
        let checks: Vec<Value> = findings.iter().map(check).collect();
        println!("{}", json!({ "settings": settings, "checks": checks }));
    } else {
        let mut table = Table::new();
        table.load_preset(comfy_table::presets::NOTHING).set_header(["setting", "from", "value"]);
        for setting in &settings {
            table.add_row([setting.name().to_owned(), setting.origin.to_string(), shown(setting)]);
        }
        println!("{}\n", table.trim_fmt());
        for Finding { what, fine, words } in &findings {
            println!("{} {what}: {words}", if *fine { "ok  " } else { "FAIL" });
        }
    }
    Ok(if findings.iter().all(|finding| finding.fine) { ExitCode::SUCCESS } else { ExitCode::from(NOT_READY) })
}

/// Returns the text that is shown for a setting's value. The text contains no secret and no password of a URL.
fn shown(setting: &Setting) -> String {
    let value = setting.text.clone();
    if value.is_empty() {
        return value;
    }
    if setting.is_secret() {
        return "(given, not shown)".to_owned();
    }
    let Ok(mut url) = reqwest::Url::parse(&value) else { return value };
    if url.password().is_none() && !url.query_pairs().any(|(name, _)| name.contains("pass")) {
        return value;
    }
    // the query may contain a password too
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
        findings.push(finding("bucket", outcome.map(|()| "stores objects and returns them".to_owned())));
    }
    if let Some(issuer) = &config.auth.external_issuer {
        let outcome = within(crate::access::key_set::fetch_once(issuer)).await;
        findings.push(finding("OpenID issuer", outcome.map(|keys| format!("has {keys} usable keys"))));
    }
    if let Some(tls) = &config.tls {
        let words = "the certificate and its key belong together".to_owned();
        findings.push(finding("TLS", Tls::open(tls.clone()).map(|_| words)));
    }
    findings.push(front(config));
    findings
}

fn data_dir(config: &Config) -> Finding {
    let path = config.data_dir.display();
    let outcome = match std::fs::metadata(&config.data_dir) {
        Ok(found) if !found.is_dir() => Err(anyhow::anyhow!("{path} is not a folder")),
        Ok(found) if found.permissions().readonly() => Err(anyhow::anyhow!("{path} is read-only")),
        Ok(_) => Ok(format!("{path} exists")),
        Err(_) => Ok(format!("{path} does not exist yet: the node creates the folder at startup")),
    };
    finding("data folder", outcome)
}

async fn database(config: &Config) -> Finding {
    finding("database", within(database::standing(config)).await)
}

/// Checks the settings about proxies. The proxies themselves cannot be checked from here.
fn front(config: &Config) -> Finding {
    let outcome = match (config.trusted_proxies.as_slice(), &config.public_url) {
        ([], _) => {
            Ok("no proxy is named: the client is the address that connects, and X-Forwarded-For is ignored".to_owned())
        }
        (_, None) => Err(anyhow::anyhow!(
            "ANGO_PUBLIC_URL is not set: links in answers, and the setup link, would show the node's internal address"
        )),
        (networks, Some(url)) => {
            Ok(format!("trusted proxies: {} networks; clients reach the node at {url}", networks.len()))
        }
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
        let setting = |name: &'static str, value: &'static str| {
            let variable = |asked: &str| (asked == name).then(|| value.to_owned());
            let (_, settings) = Config::read(|_| None, variable).unwrap();
            shown(settings.iter().find(|setting| setting.name() == name).unwrap())
        };
        for (name, value) in [
            ("ANGO_SECRET", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
            ("SERVICE_ADMIN_KEY", "hunter2hunter2hunter2hunter2hunter2"),
            ("ANGO_DATABASE_URL", "postgres://ango:hunter2@db/ango"),
            ("ANGO_DATABASE_URL", "postgres://db/ango?user=ango&password=hunter2"),
            ("ANGO_REDIS_URL", "redis://:hunter2@host:6380/1"),
        ] {
            let shown = setting(name, value);
            assert!(!shown.contains("hunter2") && !shown.contains("0123") && !shown.is_empty(), "{shown}");
        }
        assert_eq!(setting("ANGO_LISTEN", "127.0.0.1:1"), "127.0.0.1:1");
        assert_eq!(setting("ANGO_PUBLIC_URL", "https://a.example"), "https://a.example");
    }
}
