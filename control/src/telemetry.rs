//! Figures of one node for Prometheus. Labels hold route patterns and names from fixed lists, never ids (readings X16).

use std::collections::BTreeMap;
use std::time::Duration;

use api::Code;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use store::Connections;

use crate::compute::engine::{Device, DeviceState, Gate, Usage};

/// Bounds of the histograms' buckets, in seconds: from a probe to the deadline.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0];

/// One node's figures. Several nodes may live in one process, so nothing global is used.
pub struct Telemetry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Telemetry {
    /// All figures at zero.
    pub fn new() -> anyhow::Result<Self> {
        let recorder = PrometheusBuilder::new().set_buckets(&SECONDS)?.build_recorder();
        let handle = recorder.handle();
        let telemetry = Self { recorder, handle };
        telemetry.record(|| {
            describe_counter!("ango_http_requests_total", "Requests answered, by method, route and status.");
            describe_histogram!("ango_http_request_seconds", "Time from a request's head to its answer, by route.");
            describe_counter!(
                "ango_refusals_total",
                "Requests refused or failed, by the error's code and, where a code has several causes, its reason."
            );
            describe_gauge!("ango_lockouts", "Locked now, by kind of what is locked.");
            describe_gauge!("ango_database_connections", "Connections to the database, by state: in_use or idle.");
            describe_gauge!("ango_database_connections_max", "Bound of ango_database_connections.");
            describe_gauge!("ango_body_bytes", "Bytes of memory that bodies in transit hold.");
            describe_gauge!("ango_body_bytes_max", "Bound of ango_body_bytes.");
            describe_histogram!(
                "ango_queue_seconds",
                "Time that gate requests waited for a device: from submission to results, less the time of computing."
            );
            describe_counter!("ango_gates_total", "Gates charged, by gate.");
            describe_counter!("ango_bootstraps_total", "Bootstraps really done.");
            describe_counter!("ango_batches_total", "Batches run on the device.");
            describe_histogram!("ango_key_erase_seconds", "Time from a session's end to its key being overwritten.");
            describe_counter!(
                "ango_untrusted_forwarded_total",
                "Requests with X-Forwarded-For from an address that is no trusted proxy."
            );
            describe_counter!(
                "ango_password_hashes_total",
                "Password hashes computed: to sign in or to set a password."
            );
            describe_gauge!("ango_sessions", "Gate sessions open, or ended and not yet overwritten.");
            describe_gauge!("ango_operations", "Operations submitted and not ended.");
            describe_gauge!("ango_queue_rows", "Gates waiting.");
            describe_gauge!("ango_running_rows", "Gates in the batch on the device.");
            describe_gauge!("ango_resident_bytes", "Bytes of prepared keys on the device.");
            describe_gauge!("ango_resident_bytes_max", "Bound of ango_resident_bytes.");
            describe_gauge!("ango_key_bytes", "Bytes of uploaded keys in host memory.");
            describe_gauge!("ango_circuits", "Circuits submitted and not ended.");
            describe_gauge!("ango_arena_bytes", "Bytes of ciphertexts on devices.");
            describe_gauge!("ango_value_bytes", "Bytes of inputs and results of circuits in host memory.");
            describe_gauge!("ango_value_bytes_max", "Bound of ango_value_bytes.");
            describe_gauge!("ango_devices", "Devices, by state: in_service, stand_in or lost.");
            describe_gauge!("ango_cache_store_open", "1 while the shared cache store is in use; absent without one.");
        });
        Ok(telemetry)
    }

    /// A request was answered.
    pub fn answered(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        self.record(|| {
            let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
            counter!("ango_http_requests_total", &labels).increment(1);
            histogram!("ango_http_request_seconds", "route" => route.to_owned()).record(took.as_secs_f64());
        });
    }

    /// A request was refused or failed.
    pub fn refused(&self, code: Code, reason: &'static str) {
        let labels = [("code", code.as_str()), ("reason", reason)];
        self.record(|| counter!("ango_refusals_total", &labels).increment(1));
    }

    /// A request's gates waited so long for a device.
    pub fn queued(&self, waited: Duration) {
        self.record(|| histogram!("ango_queue_seconds").record(waited.as_secs_f64()));
    }

    /// Gates were charged.
    pub fn gates_charged(&self, counts: impl Iterator<Item = (Gate, u64)>) {
        self.record(|| {
            for (gate, count) in counts {
                counter!("ango_gates_total", "gate" => gate.name()).increment(count);
            }
        });
    }

    /// A key was overwritten this long after its session ended.
    pub fn key_erased(&self, after: Duration) {
        self.record(|| histogram!("ango_key_erase_seconds").record(after.as_secs_f64()));
    }

    /// A peer that is no trusted proxy says whom it forwards.
    pub fn forwarded_untrusted(&self) {
        self.record(|| counter!("ango_untrusted_forwarded_total").increment(1));
    }

    /// The hash of a password is computed.
    pub fn password_hashed(&self) {
        self.record(|| counter!("ango_password_hashes_total").increment(1));
    }

    /// Who is locked, by kind, what the database's connections do, and bytes of bodies with their bound.
    pub fn watched(&self, locked: &BTreeMap<String, u64>, connections: Connections, [bodies, bodies_max]: [u64; 2]) {
        self.record(|| {
            for kind in ["address", "key", "sign_up", "user"] {
                let count = locked.get(kind).copied().unwrap_or_default();
                gauge!("ango_lockouts", "kind" => kind).set(count as f64);
            }
            gauge!("ango_database_connections", "state" => "in_use").set(f64::from(connections.in_use));
            gauge!("ango_database_connections", "state" => "idle").set(f64::from(connections.idle));
            gauge!("ango_database_connections_max").set(f64::from(connections.max));
            gauge!("ango_body_bytes").set(bodies as f64);
            gauge!("ango_body_bytes_max").set(bodies_max as f64);
        });
    }

    /// Whether the cache store is in use.
    pub fn cache_store(&self, open: bool) {
        self.record(|| gauge!("ango_cache_store_open").set(f64::from(u8::from(open))));
    }

    /// The text that Prometheus reads, with the figures of the moment: the engine's, its devices', and bytes of values
    /// with their bound.
    pub fn render(&self, usage: &Usage, devices: &[Device], [values, values_max]: [u64; 2]) -> String {
        self.record(|| {
            counter!("ango_bootstraps_total").absolute(usage.bootstraps_done);
            counter!("ango_batches_total").absolute(usage.batches_done);
            for (name, value) in [
                ("ango_sessions", usage.sessions),
                ("ango_operations", usage.operations),
                ("ango_queue_rows", usage.queued_rows),
                ("ango_running_rows", usage.running_rows),
                ("ango_resident_bytes", usage.resident_bytes),
                ("ango_resident_bytes_max", usage.resident_bytes_max),
                ("ango_key_bytes", usage.key_bytes),
                ("ango_circuits", usage.circuits),
                ("ango_arena_bytes", usage.arena_bytes),
                ("ango_value_bytes", values),
                ("ango_value_bytes_max", values_max),
            ] {
                gauge!(name).set(value as f64);
            }
            for state in [DeviceState::InService, DeviceState::StandIn, DeviceState::Lost] {
                let count = devices.iter().filter(|device| device.state == state).count();
                gauge!("ango_devices", "state" => state.as_str()).set(count as f64);
            }
        });
        self.handle.render()
    }

    /// Folds histograms' samples into their buckets; to be called every few seconds, or they pile up.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    fn record(&self, what: impl FnOnce()) {
        metrics::with_local_recorder(&self.recorder, what);
    }
}
