//! The second listener: metrics and probes for operators. It needs no authentication and is on loopback by default.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics::{counter, gauge};
use store::LockoutKind;

use super::{Docs, health};
use crate::compute::engine::DeviceState;

/// Makes the routes of the second listener.
pub fn router(docs: Arc<Docs>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(docs)
}

async fn metrics(State(docs): State<Arc<Docs>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page(&docs))
}

/// Writes the page of metrics, with the present figures.
pub fn page(docs: &Docs) -> String {
    let Docs { web, access, compute, .. } = docs;
    let (usage, devices) = (compute.engine.usage(), compute.engine.devices());
    let (connections, locked) = (compute.store.connections(), access.limits.locked(access.clock.now()));
    web.telemetry.record(|| {
        counter!("ango_bootstraps_total").absolute(usage.units_done);
        counter!("ango_batches_total").absolute(usage.batches_done);
        for (name, value) in [
            ("ango_sessions", usage.sessions),
            ("ango_operations", usage.operations),
            ("ango_queue_rows", usage.queued_rows),
            ("ango_running_rows", usage.running_rows),
            ("ango_resident_bytes", usage.resident_bytes),
            ("ango_resident_bytes_max", usage.resident_bytes_max),
            ("ango_key_bytes", compute.keys.used()),
            ("ango_key_bytes_max", compute.keys.total()),
            ("ango_encryption_key_bytes", compute.vault.key_bytes()),
            ("ango_encryption_key_bytes_max", compute.vault.config.stored_key_bytes_max),
            ("ango_ciphertext_bytes", compute.vault.ciphertext_bytes()),
            ("ango_ciphertext_bytes_max", compute.vault.config.ciphertext_bytes_max),
            ("ango_circuits", usage.circuits),
            ("ango_arena_bytes", usage.arena_bytes),
            ("ango_value_bytes", compute.sessions.values.used()),
            ("ango_value_bytes_max", compute.sessions.values.total()),
            ("ango_body_bytes", web.bodies.used()),
            ("ango_body_bytes_max", web.bodies.total()),
            ("ango_database_connections_max", connections.max.into()),
        ] {
            gauge!(name).set(value as f64);
        }
        for (state, count) in [("in_use", connections.in_use), ("idle", connections.idle)] {
            gauge!("ango_database_connections", "state" => state).set(f64::from(count));
        }
        for kind in LockoutKind::ALL {
            let count = locked.get(&kind).copied().unwrap_or_default();
            gauge!("ango_lockouts", "kind" => kind.as_str()).set(count as f64);
        }
        for state in [DeviceState::InService, DeviceState::StandIn, DeviceState::Lost] {
            let count = devices.iter().filter(|device| device.state == state).count();
            gauge!("ango_devices", "state" => state.as_str()).set(count as f64);
        }
        if let Some(cache) = &access.cache_store {
            gauge!("ango_cache_store_open").set(f64::from(u8::from(cache.is_open())));
        }
    });
    web.telemetry.render()
}

/// Answers 200 unless the node is stopping or its database does not answer.
async fn readyz(State(docs): State<Arc<Docs>>) -> (StatusCode, &'static str) {
    if docs.web.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else if health::database(&docs).await.status == api::health::HealthStatus::Unavailable {
        (StatusCode::SERVICE_UNAVAILABLE, "database unavailable\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}
