//! The page for operators names the metrics, and the reasons in metrics, that a node has.

use std::collections::BTreeSet;

use client::Preset;
use control::cache_store::CacheStoreConfig;
use tests_service::TestServer;
use tests_service::http::Request;

use tests_service::gates::{Account, GATE};
use tests_store::Kind;

const PAGE: &str = include_str!("../../../docs/operate.md");

/// Returns all words of the operators' page that begin with this text and are longer than it.
fn words(beginning: &str) -> BTreeSet<&'static str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    PAGE.split(|c: char| !is_part(c))
        .filter(|word| word.starts_with(beginning) && word.len() > beginning.len())
        .collect()
}

#[tokio::test]
async fn every_metric_of_the_page_is_on_the_page_of_metrics() {
    let server = TestServer::with(|config| {
        // a cache store that cannot be reached
        config.cache_store = Some(CacheStoreConfig::at("redis://127.0.0.1:9").unwrap());
    })
    .await;
    let account = Account::open(&server, Preset::Fast128).await;
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
    server.send(Request::get("/api/v1/tfhe/circuits").key("svc_live_no")).await.error(401, "INVALID_API_KEY");
    server.send(Request::get("/api/v1/models").header("X-Forwarded-For", "192.0.2.1")).await.ok(200);
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    server.metric_becomes("ango_key_bytes", |bytes| bytes == 0.0).await;

    let metrics = server.operations_get("/metrics").await;
    let mut named = words("ango_");
    if Kind::chosen() == Kind::Postgres {
        // only SQLite has this log
        assert!(named.remove("ango_database_wal_bytes"));
    }
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        let there = metrics.text().lines().any(|line| line.starts_with(name) && !line.starts_with('#'));
        assert!(there, "{name} is no metric of a node:\n{}", metrics.text());
    }
    // each reason for a refusal has its own time series
    let refused = "ango_refusals_total{code=\"INVALID_API_KEY\",reason=\"\"} 1";
    assert!(metrics.text().contains(refused), "{}", metrics.text());
    assert!(metrics.text().contains("ango_database_connections{state=\"idle\"}"));
}

#[tokio::test]
async fn refusals_for_too_many_requests_are_told_apart_by_reason() {
    let server = TestServer::with(|config| config.plan_limits.anonymous.requests_a_day = 1).await;
    server.send(Request::get("/api/v1/models")).await.ok(200);
    server.send(Request::get("/api/v1/models")).await.error(429, "RATE_LIMITED");
    let metrics = server.operations_get("/metrics").await;
    assert!(
        metrics.text().contains("ango_refusals_total{code=\"RATE_LIMITED\",reason=\"daily\"} 1"),
        "{}",
        metrics.text()
    );
}

#[tokio::test]
async fn lockouts_are_counted_by_kind() {
    let server = TestServer::start().await;
    let guess = || server.send(Request::get("/api/v1/tfhe/circuits").key("svc_live_no"));
    for _ in 0..10 {
        guess().await.error(401, "INVALID_API_KEY");
    }
    guess().await.error(429, "BRUTE_FORCE_LOCKOUT");
    let metrics = server.operations_get("/metrics").await;
    assert!(metrics.text().contains("ango_lockouts{kind=\"key\"} 1"), "{}", metrics.text());
}

#[test]
fn every_setting_of_the_page_is_a_setting() {
    for name in words("ANGO_") {
        assert!(
            control::config::command().get_arguments().any(|setting| setting.get_env() == Some(name.as_ref())),
            "{name}"
        );
    }
}
