//! The operator's report on an account's use.

use std::time::Duration;

use anyhow::ensure;
use api::{AccountId, Environment};
use serde::Serialize;

use super::Operator;
use crate::access::limits::Period;
use crate::clock::Timestamp;

/// An account's use in a month (UTC) with keys of one environment.
#[derive(Debug, Serialize)]
pub struct UsageFacts {
    /// The month's first day.
    pub month: String,
    /// The environment of the keys.
    pub environment: Environment,
    /// Number of charged requests: gates, batches, circuits.
    pub operations: i64,
    /// Number of gates.
    pub gates: i64,
    /// Number of bootstraps that the tariff counts for the gates.
    pub bootstrap_ops: i64,
    /// Amount charged, in thousandths of a yen.
    pub cost_milli_yen: i64,
    /// Computing time of devices, in seconds.
    pub compute_s: f64,
}

impl Operator {
    /// Returns an account's use in this month and the months before, the newest month first. Months without use are
    /// left out.
    ///
    /// # Errors
    /// When the account does not exist.
    pub async fn usage(&self, account: &AccountId, months: u32) -> anyhow::Result<Vec<UsageFacts>> {
        ensure!(self.store.has_account(account.as_str()).await?, "there is no account {account}");
        let mut facts = Vec::new();
        let mut end = Period::of(self.clock.now()).month_reset_s();
        for _ in 0..months {
            // `last`, one second before `end`, is in the reported month. `before` is the month before it: the end of
            // `before` is the start of the reported month
            let last = Timestamp((end as i64 - 1) * 1_000_000);
            let before = Period { month: Period::of(last).month - 1, ..Period::of(last) };
            let (from, to) = (before.month_reset_s() as i64 * 1_000_000, end as i64 * 1_000_000);
            for totals in self.store.usage_between(account.as_str(), from, to).await? {
                facts.push(UsageFacts {
                    month: Timestamp(from).rfc3339()[..10].to_owned(),
                    environment: totals.environment,
                    operations: totals.operations,
                    gates: totals.gates,
                    bootstrap_ops: totals.bootstrap_ops,
                    cost_milli_yen: totals.cost_milli_yen,
                    compute_s: Duration::from_micros(totals.compute_us as u64).as_secs_f64(),
                });
            }
            end = before.month_reset_s();
        }
        Ok(facts)
    }
}
