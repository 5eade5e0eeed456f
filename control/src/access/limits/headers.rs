//! The six rate-limit headers (specification, Limits; readings L3-L5).

use axum::http::{HeaderMap, HeaderName};

use super::{Period, UsedQuota};
use crate::caller::{PlanLimits, UNLIMITED};

/// Names of the headers: limit, remaining and reset, for day and month.
pub const NAMES: [HeaderName; 6] = [
    HeaderName::from_static("x-ratelimit-daily-limit"),
    HeaderName::from_static("x-ratelimit-daily-remaining"),
    HeaderName::from_static("x-ratelimit-daily-reset"),
    HeaderName::from_static("x-ratelimit-monthly-limit"),
    HeaderName::from_static("x-ratelimit-monthly-remaining"),
    HeaderName::from_static("x-ratelimit-monthly-reset"),
];

/// The values of the six headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitValues {
    values: [u64; 6],
}

impl RateLimitValues {
    /// Computes the values for these limits and the units used of them.
    pub fn new(limits: PlanLimits, used: UsedQuota, period: Period) -> RateLimitValues {
        RateLimitValues {
            values: [
                limits.requests_a_day,
                remaining(limits.requests_a_day, used.day),
                period.day_reset_s(),
                limits.requests_a_month,
                remaining(limits.requests_a_month, used.month),
                period.month_reset_s(),
            ],
        }
    }

    /// Computes the values for a trial key: its operations are the limit of the day and of the month (readings L1).
    pub fn of_trial(operations: u64, left: u64, period: Period) -> RateLimitValues {
        RateLimitValues { values: [operations, left, period.day_reset_s(), operations, left, period.month_reset_s()] }
    }

    /// Writes the headers.
    pub fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in NAMES.into_iter().zip(self.values) {
            headers.insert(name, value.into());
        }
    }
}

fn remaining(limit: u64, used: u64) -> u64 {
    if limit == UNLIMITED { UNLIMITED } else { limit.saturating_sub(used) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l5_unlimited_stays_unlimited_and_nothing_is_below_zero() {
        assert_eq!(remaining(UNLIMITED, 7), UNLIMITED);
        assert_eq!((remaining(10, 7), remaining(10, 11)), (3, 0));
    }
}
