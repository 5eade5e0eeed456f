//! Health (specification, Health; readings O1-O7).

use std::sync::Arc;
use std::time::Duration;

use api::health::{BriefHealth, Dependency, Health, HealthStatus, Storage};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::Docs;
use crate::probe::Probed;
use crate::web::openapi::VERSION;
use crate::work::{DeviceFacts, DeviceState};

/// A database that takes longer than this to answer is degraded (specification, Health).
pub const DATABASE_SLOW: Duration = Duration::from_millis(500);
/// A cache store that takes longer than this to answer is degraded (specification, Health).
pub const CACHE_STORE_SLOW: Duration = Duration::from_secs(1);
/// A payment provider that takes longer than this to answer is degraded.
pub const PROVIDER_SLOW: Duration = Duration::from_secs(1);
/// A broker that takes longer than this to answer is degraded.
pub const BROKER_SLOW: Duration = Duration::from_millis(500);
/// An object store that takes longer than this to answer is degraded.
pub const OBJECT_STORE_SLOW: Duration = Duration::from_secs(1);
/// How long the payment provider's state is cached. The state is cached because the provider limits requests.
pub const PROVIDER_BELIEVED: Duration = Duration::from_secs(60);
/// If at least this percentage of the space for ciphertexts is used, ciphertexts will soon be evicted (readings O7).
const CACHE_WARNING_PCT: f64 = 90.0;

/// Seconds to wait before a retry after a 503.
const RETRY_AFTER_S: u64 = 2;

/// Returns the state of the database. A database that takes no writes is unavailable (readings O2).
pub async fn database(docs: &Docs) -> Probed {
    docs.database_probe.ask(docs.access.store.probe()).await
}

/// Returns the state of the cache store, if one is configured.
async fn cache_store(docs: &Docs) -> Option<Probed> {
    let cache = docs.access.cache_store.as_ref()?;
    Some(docs.cache_store_probe.ask(cache.probe()).await)
}

/// Returns the state of the broker, if the node is a member of a fleet. Critical there (readings O2).
pub async fn broker(docs: &Docs) -> Option<Probed> {
    let fleet = docs.compute.workers.fleet()?;
    Some(docs.broker_probe.ask(fleet.probe()).await)
}

/// Returns the state of the object store, if the node is a member of a fleet. Critical there (readings O2).
pub async fn object_store(docs: &Docs) -> Option<Probed> {
    let shared = docs.compute.sessions.shared()?;
    Some(docs.object_store_probe.ask(shared.objects.probe()).await)
}

/// The states of all dependencies.
struct Dependencies {
    database: Probed,
    broker: Option<Probed>,
    object_store: Option<Probed>,
    cache_store: Option<Probed>,
    provider: Option<Probed>,
}

impl Dependencies {
    async fn of(docs: &Docs) -> Dependencies {
        let (database, broker, object_store, cache_store, provider) =
            tokio::join!(database(docs), broker(docs), object_store(docs), cache_store(docs), provider(docs));
        Dependencies { database, broker, object_store, cache_store, provider }
    }

    /// Returns the node's health with these dependencies.
    fn overall(&self, docs: &Docs) -> HealthStatus {
        let Dependencies { database, broker, object_store, cache_store, provider } = self;
        let statuses = |probed: &[&Option<Probed>]| -> Vec<HealthStatus> {
            probed.iter().filter_map(|probed| probed.as_ref()).map(|probed| probed.status).collect()
        };
        let critical = [vec![database.status], statuses(&[broker, object_store])].concat();
        let others = statuses(&[cache_store, provider]);
        worst(&critical, &others, &docs.compute.workers.devices(), docs.web.is_draining())
    }
}

/// Returns the state of the payment provider, if one is configured (readings P19).
async fn provider(docs: &Docs) -> Option<Probed> {
    let provider = docs.provider.as_ref()?;
    Some(docs.provider_probe.ask(provider.probe()).await)
}

/// The node's health in short, for load balancers.
#[utoipa::path(
    get,
    path = "/health",
    operation_id = "getBriefHealth",
    tag = "Health, models, pricing",
    responses(
        (status = 200, description = "The node works.", body = BriefHealth),
        (status = 503, description = "A critical dependency does not answer.", body = BriefHealth),
    ),
    extensions(("x-errors" = json!([])))
)]
pub async fn brief(State(docs): State<Arc<Docs>>) -> Response {
    let status = Dependencies::of(&docs).await.overall(&docs);
    let word = match status {
        HealthStatus::Healthy => "ok",
        HealthStatus::Degraded => "degraded",
        HealthStatus::Unavailable => "unavailable",
    };
    answer(status, BriefHealth { status: word.to_owned(), version: VERSION.to_owned() })
}

/// The node's health in full, with its devices and dependencies.
#[utoipa::path(
    get,
    path = "/api/v1/health",
    operation_id = "getHealth",
    tag = "Health, models, pricing",
    responses(
        (status = 200, description = "The node works.", body = Health),
        (status = 503, description = "A critical dependency does not answer.", body = Health),
    ),
    extensions(("x-errors" = json!([])))
)]
pub async fn full(State(docs): State<Arc<Docs>>) -> Response {
    let probed = Dependencies::of(&docs).await;
    let status = probed.overall(&docs);
    let Dependencies { database, broker, object_store, cache_store, provider } = probed;
    let usage = docs.compute.workers.usage();
    let devices = docs.compute.workers.devices();
    let computes = computing(&devices);
    let gpu = shown_gpu(&devices, docs.hide_gpu);
    let vault = &docs.compute.vault;
    let cache_pct = cache_pct(vault.ciphertext_bytes(), vault.config.ciphertext_bytes_max);
    // an embedded database is not a dependency (readings O3)
    let (mut dependencies, storage) = match docs.access.store.database() {
        name @ "postgres" => (vec![dependency(name, database.clone())], None),
        name => (Vec::new(), Some(storage(name, &database))),
    };
    dependencies.extend(broker.map(|probed| dependency("nats", probed)));
    dependencies.extend(object_store.map(|probed| dependency("object_store", probed)));
    dependencies.extend(cache_store.map(|probed| dependency("redis", probed)));
    dependencies.extend(provider.map(|probed| dependency("provider", probed)));
    let health = Health {
        status,
        version: VERSION.to_owned(),
        uptime_seconds: docs.started.elapsed().as_millis() as f64 / 1000.0,
        fhe_engine: shown_engine(computes, docs.hide_gpu),
        gpu_available: gpu.is_some(),
        gpu_name: gpu.map(|device| device.name.clone()),
        gpu_schemes: gpu.map(|device| device.schemes.iter().map(|&scheme| scheme.to_owned()).collect()),
        active_sessions: usage.sessions,
        active_jobs: usage.operations,
        ciphertext_cache_usage_pct: Some(cache_pct),
        ciphertext_cache_warning: cache_pct >= CACHE_WARNING_PCT,
        dependencies,
        storage,
    };
    answer(health.status, health)
}

/// Returns the used share of the space for ciphertexts in percent, rounded to one decimal.
fn cache_pct(bytes: u64, bytes_max: u64) -> f64 {
    (1000.0 * bytes as f64 / bytes_max.max(1) as f64).round() / 10.0
}

fn dependency(name: &str, Probed { status, latency_ms, error }: Probed) -> Dependency {
    Dependency { name: name.to_owned(), status, latency_ms, error: error.map(str::to_owned) }
}

fn storage(backend: &str, probed: &Probed) -> Storage {
    Storage { backend: backend.to_owned(), status: probed.status, latency_ms: probed.latency_ms }
}

/// Returns a node's health (readings O2). A stopping node is unavailable. The health of any other node is the worst of its
/// critical dependencies: the database, and in a fleet the broker and the object store. If the cache store or the payment
/// provider is slow or does not answer, or a device was taken out of service, the node is at best degraded.
fn worst(critical: &[HealthStatus], others: &[HealthStatus], devices: &[DeviceFacts], draining: bool) -> HealthStatus {
    let is_any = |wanted| critical.contains(&wanted);
    let storage = match () {
        () if is_any(HealthStatus::Unavailable) => HealthStatus::Unavailable,
        () if is_any(HealthStatus::Degraded) => HealthStatus::Degraded,
        () => HealthStatus::Healthy,
    };
    let lost = devices.iter().any(|device| device.state == DeviceState::Lost);
    let without = others.iter().any(|status| *status != HealthStatus::Healthy);
    match storage {
        _ if draining => HealthStatus::Unavailable,
        HealthStatus::Healthy if lost || without => HealthStatus::Degraded,
        status => status,
    }
}

/// Returns the device that computes: the first device in service, otherwise the first stand-in.
fn computing(devices: &[DeviceFacts]) -> Option<&DeviceFacts> {
    let first = |state| devices.iter().find(move |device| device.state == state);
    first(DeviceState::InService).or_else(|| first(DeviceState::StandIn))
}

/// Returns the engine's name that health shows. If the operator hides the GPU, nodes with and without a GPU show the
/// same name.
fn shown_engine(computes: Option<&DeviceFacts>, hidden: bool) -> String {
    match computes {
        None => "none".to_owned(),
        Some(_) if hidden => "cpu".to_owned(),
        Some(device) => device.backend.clone(),
    }
}

/// Returns the GPU that health shows: the first GPU in service, or none if the operator hides it (readings O6).
fn shown_gpu(devices: &[DeviceFacts], hidden: bool) -> Option<&DeviceFacts> {
    devices.iter().find(|device| !hidden && device.state == DeviceState::InService && is_gpu(device))
}

/// Whether a device is a GPU: not the processor, and not a driver that computes on the processor.
fn is_gpu(device: &DeviceFacts) -> bool {
    !device.backend.starts_with("cpu") && !device.backend.ends_with("-software")
}

/// Logs once, for each device, that the device was taken out of service.
#[derive(Default)]
pub struct LostDevices {
    told: Vec<bool>,
}

impl LostDevices {
    /// Looks at the devices again. Returns how many devices were lost since the last look.
    pub fn watch(&mut self, devices: &[DeviceFacts]) -> usize {
        self.told.resize(devices.len(), false);
        let told_before = self.told.iter().filter(|&&told| told).count();
        for (device, told) in devices.iter().zip(&mut self.told) {
            if device.state == DeviceState::Lost && !std::mem::replace(told, true) {
                let cause = device.failure.as_deref().unwrap_or("unknown");
                tracing::error!(
                    device = device.name,
                    backend = device.backend,
                    cause,
                    "A DEVICE WAS TAKEN OUT OF SERVICE; the node does not use it until a restart"
                );
            }
        }
        self.told.iter().filter(|&&told| told).count() - told_before
    }
}

fn answer(status: HealthStatus, body: impl Serialize) -> Response {
    match status {
        HealthStatus::Unavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, RETRY_AFTER_S.to_string())], Json(body))
                .into_response()
        }
        _ => Json(body).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(backend: &str, state: DeviceState) -> DeviceFacts {
        let failure = (state == DeviceState::Lost).then(|| "it fell off the bus".to_owned());
        DeviceFacts { backend: backend.into(), name: "a card".into(), schemes: vec!["tfhe", "ckks"], state, failure }
    }

    #[test]
    fn what_computes_is_the_first_in_service_else_what_stands_in() {
        let card = |state| device("cuda", state);
        let stand_in = device("cpu-avx2", DeviceState::StandIn);
        let both = [card(DeviceState::InService), stand_in.clone()];
        assert_eq!(computing(&both), Some(&both[0]));
        let alone = [card(DeviceState::Lost), stand_in.clone()];
        assert_eq!(computing(&alone), Some(&stand_in));
        assert_eq!(computing(&[card(DeviceState::Lost)]), None);
    }

    #[test]
    fn o6_a_driver_that_computes_on_the_processor_is_no_gpu() {
        for (backend, gpu) in [("cuda", true), ("wgpu", true), ("wgpu-software", false), ("cpu-portable", false)] {
            assert_eq!(is_gpu(&device(backend, DeviceState::InService)), gpu, "{backend}");
        }
    }

    #[test]
    fn o6_the_gpu_that_is_told_of_works_and_is_not_hidden() {
        let devices = [device("cuda", DeviceState::Lost), device("cuda", DeviceState::InService)];
        assert_eq!(shown_gpu(&devices, false), Some(&devices[1]));
        assert_eq!(shown_gpu(&devices, true), None);
        assert_eq!(shown_gpu(&devices[..1], false), None);
    }

    #[test]
    fn o6_a_hidden_gpu_does_not_show_in_the_engine_s_name() {
        for backend in ["cuda", "wgpu", "cpu-avx512"] {
            let device = device(backend, DeviceState::InService);
            assert_eq!(shown_engine(Some(&device), false), backend);
            assert_eq!(shown_engine(Some(&device), true), "cpu");
        }
        assert_eq!(shown_engine(None, true), "none");
    }

    #[test]
    fn a_lost_device_degrades_a_healthy_node_and_no_other() {
        let lost = [device("cuda", DeviceState::Lost), device("cuda", DeviceState::InService)];
        let (healthy, degraded, unavailable) =
            (HealthStatus::Healthy, HealthStatus::Degraded, HealthStatus::Unavailable);
        for (storage, devices, draining, expected) in [
            (healthy, &lost[1..], false, healthy),
            (healthy, &lost[..], false, degraded),
            (degraded, &lost[1..], false, degraded),
            (unavailable, &lost[..], false, unavailable),
            (healthy, &lost[..], true, unavailable),
        ] {
            assert_eq!(worst(&[storage], &[], devices, draining), expected);
        }
    }

    #[test]
    fn o2_a_cache_store_that_is_slow_or_away_degrades_a_healthy_node_and_no_more() {
        let (healthy, degraded, unavailable) =
            (HealthStatus::Healthy, HealthStatus::Degraded, HealthStatus::Unavailable);
        for (storage, cache_store, expected) in [
            (healthy, healthy, healthy),
            (healthy, degraded, degraded),
            (healthy, unavailable, degraded),
            (unavailable, unavailable, unavailable),
        ] {
            assert_eq!(worst(&[storage], &[cache_store], &[], false), expected);
        }
    }

    #[test]
    fn o2_the_broker_and_the_object_store_of_a_fleet_are_critical() {
        let (healthy, degraded, unavailable) =
            (HealthStatus::Healthy, HealthStatus::Degraded, HealthStatus::Unavailable);
        for (critical, expected) in [
            ([healthy, healthy, healthy], healthy),
            ([healthy, degraded, healthy], degraded),
            ([healthy, unavailable, degraded], unavailable),
            ([healthy, degraded, unavailable], unavailable),
        ] {
            assert_eq!(worst(&critical, &[], &[], false), expected);
        }
    }

    #[test]
    fn a_lost_device_is_told_once() {
        let mut lost = LostDevices::default();
        let works = [device("cuda", DeviceState::InService), device("cuda", DeviceState::InService)];
        let one = [device("cuda", DeviceState::Lost), device("cuda", DeviceState::InService)];
        assert_eq!([&works, &one, &one].map(|devices| lost.watch(devices)), [0, 1, 0]);
        let both = [device("cuda", DeviceState::Lost), device("cuda", DeviceState::Lost)];
        assert_eq!(lost.watch(&both), 1);
    }
}
