//! The second listener: metrics and probes for operators. No authentication; on loopback unless told otherwise.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::app::Node;
use crate::docs::health;

/// The routes of the second listener.
pub fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(node)
}

async fn metrics(State(node): State<Arc<Node>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page(&node))
}

/// The figures of the moment, as Prometheus reads them.
pub fn page(node: &Node) -> String {
    let values = [node.sessions.values.used(), node.config.circuits.value_bytes_max];
    let bodies = [node.body_budget.used(), node.config.requests.body_memory_bytes];
    node.telemetry.watched(&node.limits.locked(node.clock.now()), node.store.connections(), bodies);
    if let Some(cache) = &node.cache_store {
        node.telemetry.cache_store(cache.is_open());
    }
    node.telemetry.render(&node.compute.usage(), &node.compute.devices(), values)
}

/// Ready: neither stopping nor without its database.
async fn readyz(State(node): State<Arc<Node>>) -> (StatusCode, &'static str) {
    if node.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else if health::database(&node).await.status == api::health::HealthStatus::Unavailable {
        (StatusCode::SERVICE_UNAVAILABLE, "database unavailable\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}
