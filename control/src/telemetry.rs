//! Metrics of one node for Prometheus. Labels hold route patterns and names from fixed lists, never ids (readings X16).

use std::time::Duration;

use api::Code;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// Bounds of the histograms' buckets, in seconds: from a probe to the deadline.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0];

/// One node's metrics. Not global, because several nodes may run in one process.
pub struct Telemetry {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Telemetry {
    /// Creates all metrics, at zero.
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
            describe_gauge!("ango_lockouts", "Lockouts in force, by kind.");
            describe_gauge!("ango_database_connections", "Connections to the database, by state: in_use or idle.");
            describe_gauge!("ango_database_connections_max", "Limit of ango_database_connections.");
            describe_gauge!(
                "ango_database_wal_bytes",
                "Bytes of SQLite's write-ahead log, which grows while someone reads for long; absent on PostgreSQL."
            );
            describe_gauge!(
                "ango_clock_correction_seconds",
                "Seconds by which the node corrects its machine's clock, because the database's is another; 0 on SQLite."
            );
            describe_gauge!("ango_body_bytes", "Bytes of memory that bodies in transit hold.");
            describe_gauge!("ango_body_bytes_max", "Limit of ango_body_bytes.");
            describe_histogram!(
                "ango_queue_seconds",
                "Time that gate requests waited for a device: from submission to results, minus the computing time."
            );
            describe_counter!("ango_gates_total", "Gates charged, by gate.");
            describe_counter!("ango_arithmetic_operations_total", "Operations on numbers charged, by operation.");
            describe_counter!("ango_fcu_total", "Compute units (FCU) charged, by operation.");
            describe_histogram!("ango_arithmetic_seconds", "Wall time of operations on numbers, by operation.");
            describe_counter!(
                "ango_webhook_attempts_total",
                "Attempts to deliver an event, by outcome: taken, refused, broken."
            );
            describe_counter!(
                "ango_provider_events_total",
                "Events of the payment provider, by outcome: done, put_off, stuck."
            );
            describe_gauge!(
                "ango_oldest_reservation_seconds",
                "Age of the oldest reservation of work that has not ended."
            );
            describe_gauge!(
                "ango_overdue_seconds",
                "How long the most overdue work waits, by kind: provider_event, email, delivery."
            );
            describe_gauge!("ango_stuck_provider_events", "Events of the payment provider that cannot be processed.");
            describe_gauge!("ango_open_invoices", "Invoices that are not paid.");
            describe_gauge!("ango_overdue_accounts", "Accounts with an overdue payment, suspended accounts included.");
            describe_gauge!("ango_suspended_accounts", "Accounts that are suspended because they have not paid.");
            describe_gauge!("ango_unbilled_months", "Months that are over and not billed for every account.");
            describe_counter!("ango_emails_total", "E-mails, by outcome: sent, put_off, given_up.");
            describe_counter!("ango_bootstraps_total", "Bootstraps computed; a folded gate has none.");
            describe_counter!("ango_batches_total", "Batches run on the device.");
            describe_counter!(
                "ango_ciphertexts_on_device_total",
                "Stored ciphertexts that operations on numbers took, by whether the device had them from an earlier operation."
            );
            describe_histogram!("ango_key_erase_seconds", "Time from a session's end to its key being overwritten.");
            describe_counter!(
                "ango_untrusted_forwarded_total",
                "Requests with X-Forwarded-For from an address that is not a trusted proxy."
            );
            describe_counter!(
                "ango_password_hashes_total",
                "Password hashes computed: to sign in or to set a password."
            );
            describe_gauge!("ango_sessions", "Gate sessions that are open, or whose key is not overwritten yet.");
            describe_gauge!("ango_operations", "Operations in progress.");
            describe_gauge!("ango_queue_rows", "Gates that wait for a device.");
            describe_gauge!("ango_running_rows", "Gates in the batch on the device.");
            describe_gauge!(
                "ango_resident_bytes",
                "Bytes of prepared keys on the devices, and of the tables of their parameters."
            );
            describe_gauge!("ango_resident_bytes_max", "Limit of ango_resident_bytes.");
            describe_gauge!("ango_key_bytes", "Bytes of evaluation keys of open sessions in the data folder.");
            describe_gauge!("ango_key_bytes_max", "Bytes of evaluation keys that may be in the data folder.");
            describe_gauge!("ango_circuits", "Circuits in progress.");
            describe_gauge!("ango_arena_bytes", "Bytes of ciphertexts on devices.");
            describe_gauge!("ango_value_bytes", "Bytes of inputs and results of circuits in host memory.");
            describe_gauge!("ango_value_bytes_max", "Limit of ango_value_bytes.");
            describe_gauge!("ango_devices", "Devices, by state: in_service, stand_in or lost.");
            describe_gauge!(
                "ango_cache_store_open",
                "1 while the cache store is in use, else 0; absent without a configured one."
            );
            describe_fleet();
        });
        Ok(telemetry)
    }

    /// Counts an answered request.
    pub fn answered(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        self.record(|| {
            let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
            counter!("ango_http_requests_total", &labels).increment(1);
            histogram!("ango_http_request_seconds", "route" => route.to_owned()).record(took.as_secs_f64());
        });
    }

    /// Counts a request that was refused or failed.
    pub fn refused(&self, code: Code, reason: &'static str) {
        let labels = [("code", code.as_str()), ("reason", reason)];
        self.record(|| counter!("ango_refusals_total", &labels).increment(1));
    }

    /// Records how long a request's gates waited for a device.
    pub fn queued(&self, waited: Duration) {
        self.record(|| histogram!("ango_queue_seconds").record(waited.as_secs_f64()));
    }

    /// Counts charged gates.
    pub fn gates_charged(&self, counts: impl Iterator<Item = (&'static str, u64)>) {
        self.record(|| {
            for (gate, count) in counts {
                counter!("ango_gates_total", "gate" => gate).increment(count);
            }
        });
    }

    /// Counts a charged operation on numbers.
    pub fn operation_charged(&self, operation: &'static str, units: u64, took: Duration) {
        self.record(|| {
            counter!("ango_arithmetic_operations_total", "operation" => operation).increment(1);
            counter!("ango_fcu_total", "operation" => operation).increment(units);
            histogram!("ango_arithmetic_seconds", "operation" => operation).record(took.as_secs_f64());
        });
    }

    /// Counts an attempt to deliver an event.
    pub fn webhook_attempted(&self, outcome: &'static str) {
        self.record(|| counter!("ango_webhook_attempts_total", "outcome" => outcome).increment(1));
    }

    /// Counts an event of the payment provider that was processed or put off.
    pub fn provider_event(&self, outcome: &'static str) {
        self.record(|| counter!("ango_provider_events_total", "outcome" => outcome).increment(1));
    }

    /// Counts an e-mail that was sent, put off or given up.
    pub fn email(&self, outcome: &'static str) {
        self.record(|| counter!("ango_emails_total", "outcome" => outcome).increment(1));
    }

    /// Records the time from the end of a session until its key was overwritten.
    pub fn key_erased(&self, after: Duration) {
        self.record(|| histogram!("ango_key_erase_seconds").record(after.as_secs_f64()));
    }

    /// Counts a request with `X-Forwarded-For` from a peer that is not a trusted proxy.
    pub fn forwarded_untrusted(&self) {
        self.record(|| counter!("ango_untrusted_forwarded_total").increment(1));
    }

    /// Counts a computed password hash.
    pub fn password_hashed(&self) {
        self.record(|| counter!("ango_password_hashes_total").increment(1));
    }

    /// Writes the metrics in Prometheus's text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Moves the histograms' samples into their buckets. Call this every few seconds, because samples accumulate
    /// otherwise.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Runs `what` with this node's recorder for the macros of the crate `metrics`.
    pub fn record(&self, what: impl FnOnce()) {
        metrics::with_local_recorder(&self.recorder, what);
    }
}

/// Describes the metrics that only members of a fleet have.
fn describe_fleet() {
    describe_gauge!("ango_fleet_broker_up", "1 while the member hears the broker, else 0.");
    describe_gauge!("ango_fleet_objects_up", "1 while the API node reaches the bucket, else 0.");
    describe_gauge!("ango_fleet_workers", "Workers that the API node hears, by pool and state: ready or draining.");
    describe_gauge!(
        "ango_fleet_oldest_waiting_seconds",
        "How long the oldest work that this API node asked for has waited for a worker, by pool."
    );
    describe_counter!("ango_fleet_published_total", "Messages with work that this API node published.");
    describe_counter!("ango_fleet_published_again_total", "Messages with work that was published before.");
    describe_counter!("ango_fleet_helps_total", "Calls of this API node for help of any worker.");
    describe_gauge!(
        "ango_fleet_operations",
        "Operations of the waiting line, by state: waiting or released. The same on all API nodes."
    );
    describe_gauge!(
        "ango_fleet_oldest_operation_seconds",
        "How long ago the oldest operation that waits entered the waiting line. The same on all API nodes."
    );
    describe_counter!(
        "ango_fleet_operations_released_total",
        "Releases of operations of the waiting line by this API node to the workers."
    );
    describe_counter!(
        "ango_fleet_operations_released_again_total",
        "Releases of operations by this API node that were not the operation's first."
    );
    describe_counter!(
        "ango_fleet_given_up_total",
        "Work that failed because it was tried as often as may be, by work: requests or operations, and by who gave up."
    );
    describe_counter!("ango_fleet_key_misses_total", "How often the worker had to open a key when its work came.");
    describe_counter!("ango_fleet_device_busy_seconds_total", "Time in which devices of the worker computed.");
    describe_counter!("ango_fleet_redeliveries_total", "Messages that the worker got and that were delivered before.");
    describe_counter!(
        "ango_fleet_operands_remembered_total",
        "Operands that messages left out and the worker remembered."
    );
    describe_counter!(
        "ango_fleet_operand_misses_total",
        "Operands that messages left out and the worker did not remember."
    );
    describe_gauge!("ango_fleet_remembered_bytes", "Size of the operands and results that the worker remembers.");
    describe_gauge!("ango_fleet_taken", "Requests and operations that the worker computes.");
}
