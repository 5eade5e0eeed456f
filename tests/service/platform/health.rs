//! Health, models, pricing, parameters, and the second listener (readings O1-O8, P30).

use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_store::Kind;

#[tokio::test]
async fn o1_health_in_short_says_status_and_version() {
    let server = TestServer::start().await;
    let health = server.send(Request::get("/health")).await.ok(200);
    assert_eq!(health, json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}));
}

#[tokio::test]
async fn o1_to_o7_health_in_full_says_what_the_specification_lists() {
    let server = TestServer::start().await;
    let health = server.send(Request::get("/api/v1/health")).await.ok(200);
    assert_eq!(health["status"], "healthy");
    assert_eq!(health["gpu_available"], false);
    assert_eq!(health["gpu_name"], json!(null));
    assert_eq!((&health["active_sessions"], &health["active_jobs"]), (&json!(0), &json!(0)));
    assert_eq!(health["ciphertext_cache_warning"], false);
    // o3: an embedded database is shown as storage and not as a dependency
    let (database, others) = match Kind::chosen() {
        Kind::Sqlite => (&health["storage"], &health["dependencies"]),
        Kind::Postgres => (&health["dependencies"][0], &health["storage"]),
    };
    assert_eq!((&database["status"], others.as_array().is_none_or(Vec::is_empty)), (&json!("healthy"), true));
    assert!(database["latency_ms"].is_number() && (database["backend"] == "sqlite" || database["name"] == "postgres"));
    assert!(health["fhe_engine"].as_str().unwrap().starts_with("cpu-"));
    assert!(health["uptime_seconds"].is_number() && health["ciphertext_cache_usage_pct"].is_number());
    let version = health["version"].as_str().unwrap();
    assert_eq!(version.split('.').filter(|part| part.parse::<u64>().is_ok()).count(), 3, "{version}");
}

#[tokio::test]
async fn o8_no_models_unless_configured() {
    let server = TestServer::start().await;
    assert_eq!(server.send(Request::get("/api/v1/models")).await.ok(200), json!({"models": []}));
}

#[tokio::test]
async fn p30_the_price_list_holds_all_eight_gates_exactly() {
    let server = TestServer::start().await;
    let answer = server.send(Request::get("/api/v1/tfhe/pricing")).await;
    let rate = |ops: u64, yen: f64| json!({"bootstrapping_ops": ops, "cost_jpy": yen});
    assert_eq!(
        answer.ok(200),
        json!({
            "currency": "JPY",
            "rates": {
                "NAND": rate(1, 0.1), "AND": rate(1, 0.1), "OR": rate(1, 0.1), "NOR": rate(1, 0.1),
                "XOR": rate(4, 0.4), "XNOR": rate(4, 0.4), "MUX": rate(3, 0.3),
                "NOT": {"bootstrapping_ops": 0, "cost_jpy": 0},
            },
            "batch_discount": {"threshold_ops": 32, "discount_pct": 30, "effective_rate_jpy": 0.07},
        })
    );
    // prices in the text are short decimal numbers
    assert!(answer.text().contains("\"cost_jpy\":0.3}") && answer.text().contains("\"effective_rate_jpy\":0.07}"));
}

#[tokio::test]
async fn parameters_are_suggested_by_security_level() {
    let server = TestServer::start().await;
    for (query, presets) in [
        ("", 5),
        ("?security_level=testing", 5),
        ("?security_level=128-bit&depth=14&scale_bits=50&other=x", 5),
        ("?security_level=128%2Dbit&depth=%31", 5),
        ("?security_level=192-bit", 0),
        ("?security_level=256-bit", 0),
    ] {
        let answer = server.send(Request::get(format!("/api/v1/params/suggest{query}"))).await.ok(200);
        assert_eq!(answer["presets"].as_array().unwrap().len(), presets, "{query}");
    }
    let answer = server.send(Request::get("/api/v1/params/suggest")).await.ok(200);
    let fast = &answer["presets"][0];
    assert_eq!((&fast["preset"], &fast["n"], &fast["big_n"]), (&json!("fast_128"), &json!(636), &json!(1024)));
    assert_eq!(fast["failure_probability_log2"], -92.8);
    assert!(answer["arithmetic"][0]["bootstrap_needs"].is_null());
    // F1, F3: also the chains that bootstrapping takes
    let query = "security_level=testing&depth=3&bootstrap=true";
    let answer = server.send(Request::get(format!("/api/v1/params/suggest?{query}"))).await.ok(200);
    let found = answer["arithmetic"].as_array().unwrap();
    assert_eq!(found.iter().map(|facts| facts["poly_degree"].as_u64().unwrap()).collect::<Vec<_>>(), [64, 256, 32768]);
    assert_eq!(found[0]["levels"].as_array().unwrap().len(), 16, "three levels, and twelve of bootstrapping");
    let needs = |at: usize| found[at]["bootstrap_needs"]["prepared_key_bytes"].as_u64().unwrap();
    assert!(needs(0) < needs(1) && needs(2) > 100_000_000);
}

#[tokio::test]
async fn e3_query_parameters_are_refused_not_clamped() {
    let server = TestServer::start().await;
    for (query, code) in [
        ("security_level=512-bit", "INVALID_REQUEST"),
        ("depth=0", "INVALID_REQUEST"),
        ("depth=15", "INVALID_REQUEST"),
        ("scale_bits=9", "INVALID_REQUEST"),
        ("scale_bits=51", "INVALID_REQUEST"),
        ("depth=abc", "INVALID_REQUEST"),
        ("scale_bits=", "INVALID_REQUEST"),
        ("depth=1&depth=2", "INVALID_REQUEST"),
        ("bootstrap=yes", "INVALID_REQUEST"),
    ] {
        server.send(Request::get(format!("/api/v1/params/suggest?{query}"))).await.error(400, code);
    }
}

#[tokio::test]
async fn the_second_listener_shows_metrics_and_probes_and_the_first_does_not() {
    let server = TestServer::start().await;
    server.send(Request::get("/api/v1/tfhe/session/sess_secret")).await.error(401, "MISSING_AUTH_HEADER");
    assert_eq!(server.operations_get("/livez").await.status, 200);
    assert_eq!(server.operations_get("/readyz").await.status, 200);
    let metrics = server.operations_get("/metrics").await;
    assert_eq!(metrics.status, 200);
    let line = r#"ango_http_requests_total{method="GET",route="/api/v1/tfhe/session/{session_id}",status="401"} 1"#;
    assert!(metrics.text().contains(line), "{}", metrics.text());
    // x16: no metric label contains the requested path
    assert!(!metrics.text().contains("sess_secret"));
    for path in ["/metrics", "/livez", "/readyz"] {
        server.send(Request::get(path)).await.error(404, "NOT_FOUND");
    }
}
