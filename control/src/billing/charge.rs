//! Books completed gates: a row of the usage record and the posting of their reservation (readings G14, P3).

use std::collections::BTreeMap;
use std::time::Duration;

use store::{GateUsage, Unit};

use crate::billing::ledger::{PaidBy, Reservation};
use crate::billing::tariff::Price;
use crate::clock::Timestamp;
use crate::ids;
use crate::telemetry::Telemetry;
use crate::web::error::ApiError;
use crate::work::Gate;

/// The account and session that an operation is charged to.
#[derive(Clone, Debug)]
pub struct ChargeTo {
    /// SHA-256 of the session's id.
    pub digest: [u8; 32],
    /// The account that pays, with its plan and environment.
    pub paid_by: PaidBy,
}

/// Completed gates and their price.
pub struct Charge<'a> {
    /// The number of gates of each kind.
    pub counts: &'a [(Gate, u64)],
    /// The price of these gates.
    pub price: &'a Price,
    /// Number of bootstraps that the engine executed.
    pub bootstraps: u64,
    /// Wall time of the evaluation.
    pub compute: Duration,
}

impl Charge<'_> {
    /// Writes `unit`, the usage row and the posting of the reservation in one transaction, then counts the gates in the
    /// metrics. A circuit without gates has no usage row.
    pub async fn book(
        &self,
        now: Timestamp,
        telemetry: &Telemetry,
        to: &ChargeTo,
        reservation: &Reservation,
        unit: Unit,
    ) -> Result<(), ApiError> {
        let gates = total(self.counts);
        let usage = GateUsage {
            usage_id: ids::usage(now).as_str().to_owned(),
            transfer_id: reservation.transfer_id(),
            session_digest: to.digest,
            account_id: to.paid_by.account.as_str().to_owned(),
            environment: to.paid_by.environment,
            gates: gates as i64,
            by_gate: by_gate(self.counts)?,
            bootstrap_ops: self.price.bootstrap_ops as i64,
            bootstraps_done: self.bootstraps as i64,
            cost_milli_yen: self.price.cost.0,
            compute_us: microseconds(self.compute),
            created_at: now.0,
        };
        let unit = Unit { charge: (gates > 0).then_some(usage), ..unit };
        reservation.book(unit, named(self.counts), now).await?;
        telemetry.gates_charged(self.counts.iter().map(|(gate, count)| (gate.name(), *count)));
        Ok(())
    }
}

/// Counts the gates of each kind.
pub fn count(gates: &[Gate]) -> Vec<(Gate, u64)> {
    let mut counts: BTreeMap<Gate, u64> = BTreeMap::new();
    for gate in gates {
        *counts.entry(*gate).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Replaces the kinds of gates in the counts by the names that the usage record uses.
fn named(counts: &[(Gate, u64)]) -> Vec<(String, i64)> {
    counts.iter().map(|(gate, count)| (format!("gate_{}", gate.name().to_lowercase()), *count as i64)).collect()
}

/// Adds up the counts of all kinds of gates.
pub fn total(counts: &[(Gate, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

/// Writes the counts of gates as the database stores them: a JSON object from gate name to count.
pub fn by_gate(counts: &[(Gate, u64)]) -> Result<String, ApiError> {
    let named: BTreeMap<&str, u64> = counts.iter().map(|(gate, count)| (gate.name(), *count)).collect();
    serde_json::to_string(&named).map_err(ApiError::internal)
}

/// Converts a duration to microseconds, as the database stores it.
pub fn microseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Converts a duration to milliseconds with three decimals, as answers show it (readings G12).
pub fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
