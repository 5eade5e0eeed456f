//! The second listener: metrics and probes for operators. It needs no authentication and is on loopback by default.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::health::HealthStatus;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use fleet::presence::Presence;
use metrics::{counter, gauge};
use store::{Backlog, LineLength, LockoutKind};
use tokio::time::timeout;

use super::{Docs, health};
use crate::access::limits::Period;
use crate::clock::Timestamp;
use crate::compute::operation::life::line::Line;
use crate::work::fleet::{Fleet, POOL, WorkerPart};
use crate::work::{DeviceFacts, DeviceState, Usage};

/// Timeout for reading what waits in the database.
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(2);
/// The length of the waiting line is counted at most once in this time, because every API node counts the rows of all.
const LINE_COUNTED: Duration = Duration::from_secs(5);

/// Makes the routes of the second listener.
pub fn router(docs: Arc<Docs>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(docs)
}

async fn metrics(State(docs): State<Arc<Docs>>) -> impl IntoResponse {
    if let Some(objects) = health::object_store(&docs).await {
        let is_up = objects.status != HealthStatus::Unavailable;
        docs.web.telemetry.record(|| gauge!("ango_fleet_objects_up").set(f64::from(u8::from(is_up))));
    }
    // without the database the page has the other figures, and the last ones of the backlog
    if let Ok(Ok(backlog)) = timeout(BACKLOG_TIMEOUT, docs.compute.store.backlog()).await {
        show_backlog(&docs, &backlog);
    }
    if docs.compute.line.is_some() {
        look_at_line(&docs).await;
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page(&docs))
}

fn show_backlog(docs: &Docs, backlog: &Backlog) {
    let now = docs.access.clock.now();
    let seconds = |since: Option<i64>| since.map_or(0.0, |since| now.since(Timestamp(since)).as_secs_f64());
    docs.web.telemetry.record(|| {
        gauge!("ango_oldest_reservation_seconds").set(seconds(backlog.reservation));
        for (kind, due_at) in
            [("provider_event", backlog.provider_event), ("email", backlog.email), ("delivery", backlog.delivery)]
        {
            gauge!("ango_overdue_seconds", "kind" => kind).set(seconds(due_at));
        }
        gauge!("ango_stuck_provider_events").set(backlog.stuck_events as f64);
        gauge!("ango_open_invoices").set(backlog.open_invoices as f64);
        gauge!("ango_overdue_accounts").set(backlog.overdue_accounts as f64);
        gauge!("ango_suspended_accounts").set(backlog.suspended_accounts as f64);
        let unbilled = backlog.billed_through.map_or(0, |through| Period::of(now).month - 1 - through);
        gauge!("ango_unbilled_months").set(unbilled as f64);
    });
}

/// Counts the waiting line of the fleet, unless it was counted a moment ago. Without the database the page has the last figures.
async fn look_at_line(docs: &Docs) {
    // another scrape counts at the moment
    let Ok(mut counted) = docs.line_counted.try_lock() else { return };
    if counted.is_some_and(|at| at.elapsed() < LINE_COUNTED) {
        return;
    }
    *counted = Some(Instant::now());
    if let Ok(Ok(length)) = timeout(BACKLOG_TIMEOUT, docs.compute.store.line_length()).await {
        show_line_length(docs, &length);
    }
}

fn show_line_length(docs: &Docs, LineLength { waiting, released, oldest_us }: &LineLength) {
    docs.web.telemetry.record(|| {
        for (state, count) in [("waiting", waiting), ("released", released)] {
            gauge!("ango_fleet_operations", "state" => state).set(*count as f64);
        }
        gauge!("ango_fleet_oldest_operation_seconds").set(oldest_us.unwrap_or(0).max(0) as f64 / 1e6);
    });
}

/// Writes the page of metrics, with the present figures.
pub fn page(docs: &Docs) -> String {
    let Docs { web, access, compute, .. } = docs;
    let (usage, devices) = (compute.workers.usage(), compute.workers.devices());
    let (connections, locked) = (compute.store.connections(), access.limits.locked(access.clock.now()));
    web.telemetry.record(|| {
        show_engine(&usage, &devices);
        for (name, value) in [
            ("ango_key_bytes", compute.keys.used()),
            ("ango_key_bytes_max", compute.keys.total()),
            ("ango_encryption_key_bytes", compute.vault.key_bytes()),
            ("ango_encryption_key_bytes_max", compute.vault.config.stored_key_bytes_max),
            ("ango_ciphertext_bytes", compute.vault.ciphertext_bytes()),
            ("ango_ciphertext_bytes_max", compute.vault.config.ciphertext_bytes_max),
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
        gauge!("ango_clock_correction_seconds").set(access.clock.correction_s());
        if let Some(bytes) = compute.store.wal_bytes() {
            gauge!("ango_database_wal_bytes").set(bytes as f64);
        }
        for kind in LockoutKind::ALL {
            let count = locked.get(&kind).copied().unwrap_or_default();
            gauge!("ango_lockouts", "kind" => kind.as_str()).set(count as f64);
        }
        if let Some(fleet) = compute.workers.fleet() {
            show_fleet(fleet);
        }
        if let Some(line) = &compute.line {
            show_line(line);
        }
        if let Some(part) = &docs.part {
            show_part(part, &usage);
        }
        if let Some(cache) = &access.cache_store {
            gauge!("ango_cache_store_open").set(f64::from(u8::from(cache.is_open())));
        }
    });
    web.telemetry.render()
}

/// Sets the metrics of a process's engine and devices. Call this within `Telemetry::record`.
pub fn show_engine(usage: &Usage, devices: &[DeviceFacts]) {
    counter!("ango_bootstraps_total").absolute(usage.units_done);
    counter!("ango_batches_total").absolute(usage.batches_done);
    for (found, count) in [("true", usage.inputs_found), ("false", usage.inputs_written)] {
        counter!("ango_ciphertexts_on_device_total", "found" => found).absolute(count);
    }
    for (name, value) in [
        ("ango_sessions", usage.sessions),
        ("ango_operations", usage.operations),
        ("ango_queue_rows", usage.queued_rows),
        ("ango_running_rows", usage.running_rows),
        ("ango_resident_bytes", usage.resident_bytes),
        ("ango_resident_bytes_max", usage.resident_bytes_max),
        ("ango_circuits", usage.circuits),
        ("ango_arena_bytes", usage.arena_bytes),
    ] {
        gauge!(name).set(value as f64);
    }
    for state in [DeviceState::InService, DeviceState::StandIn, DeviceState::Lost] {
        let count = devices.iter().filter(|device| device.state == state).count();
        gauge!("ango_devices", "state" => state.as_str()).set(count as f64);
    }
}

/// Shows the fleet as this API node hears it.
fn show_fleet(fleet: &Fleet) {
    let (ears, asker, now) = (fleet.ears(), fleet.asker(), Instant::now());
    let (ready, warming, draining) = {
        let workers = ears.workers.lock();
        let count = |is_counted: fn(&&Presence) -> bool| workers.live(now).filter(is_counted).count();
        (
            count(|worker| worker.is_ready()),
            count(|worker| worker.warming && !worker.draining),
            count(|worker| worker.draining),
        )
    };
    for (state, count) in [("ready", ready), ("warming", warming), ("draining", draining)] {
        gauge!("ango_fleet_workers", "pool" => POOL, "state" => state).set(count as f64);
    }
    gauge!("ango_fleet_oldest_waiting_seconds", "pool" => POOL).set(asker.oldest_waiting_s());
    gauge!("ango_fleet_broker_up").set(f64::from(u8::from(fleet.hears())));
    for (name, count) in [
        ("ango_fleet_published_total", &asker.counts.published),
        ("ango_fleet_published_again_total", &asker.counts.repeated),
        ("ango_fleet_helps_total", &asker.counts.helps),
    ] {
        counter!(name).absolute(count.load(Ordering::Relaxed));
    }
}

/// Shows what this API node did with operations of the waiting line.
fn show_line(line: &Line) {
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    counter!("ango_fleet_operations_released_total").absolute(count(&line.counts.released));
    counter!("ango_fleet_operations_released_again_total").absolute(count(&line.counts.released_again));
    counter!("ango_fleet_given_up_total", "work" => "operations", "by" => "api").absolute(count(&line.counts.given_up));
}

/// Sets the metrics of a worker of a fleet. Call this within `Telemetry::record`.
pub fn show_part(part: &WorkerPart, usage: &Usage) {
    counter!("ango_fleet_key_misses_total").absolute(part.key_misses());
    counter!("ango_fleet_device_busy_seconds_total").absolute(usage.busy.as_secs());
    counter!("ango_fleet_redeliveries_total").absolute(part.redelivered());
    for (work, count) in ["requests", "operations"].into_iter().zip(part.given_up()) {
        counter!("ango_fleet_given_up_total", "work" => work, "by" => "worker").absolute(count);
    }
    let [remembered, missed] = part.operands_remembered();
    counter!("ango_fleet_operands_remembered_total").absolute(remembered);
    counter!("ango_fleet_operand_misses_total").absolute(missed);
    gauge!("ango_fleet_remembered_bytes").set(part.remembered_bytes() as f64);
    gauge!("ango_fleet_taken").set(part.running() as f64);
}

/// Answers 200 unless the node is stopping or its database does not answer or takes no writes (readings O2).
async fn readyz(State(docs): State<Arc<Docs>>) -> (StatusCode, &'static str) {
    if docs.web.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else if health::database(&docs).await.status == HealthStatus::Unavailable {
        (StatusCode::SERVICE_UNAVAILABLE, "database unavailable\n")
    } else if health::broker(&docs).await.is_some_and(|probed| probed.status == HealthStatus::Unavailable) {
        (StatusCode::SERVICE_UNAVAILABLE, "broker unavailable\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}
