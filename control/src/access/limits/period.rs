//! The days and months by which requests are counted, in UTC (readings L3, X3).

use time::{Date, Month};

use crate::clock::Timestamp;

const DAY_S: i64 = 86_400;

/// A day and its month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Days since 1970.
    pub day: i64,
    /// Months since year 0.
    pub month: i64,
}

impl Period {
    /// The day and month of this moment.
    pub fn of(now: Timestamp) -> Period {
        let day = now.0.div_euclid(DAY_S * 1_000_000);
        let date = time::OffsetDateTime::UNIX_EPOCH.date() + time::Duration::days(day);
        Period { day, month: i64::from(date.year()) * 12 + i64::from(u8::from(date.month())) - 1 }
    }

    /// When the day ends, in seconds since 1970.
    pub fn day_reset_s(self) -> u64 {
        ((self.day + 1) * DAY_S).max(0) as u64
    }

    /// When the month begins, in seconds since 1970.
    pub fn month_start_s(self) -> u64 {
        first_moment_s(self.month)
    }

    /// When the month ends, in seconds since 1970.
    pub fn month_reset_s(self) -> u64 {
        first_moment_s(self.month + 1)
    }
}

/// The first moment of a month. `month`: months since year 0.
pub fn month_start(month: i64) -> Timestamp {
    Timestamp(first_moment_s(month) as i64 * 1_000_000)
}

/// When a month begins, in seconds since 1970.
fn first_moment_s(month: i64) -> u64 {
    let of_year = Month::try_from((month % 12 + 1) as u8).expect("one of twelve");
    let first =
        Date::from_calendar_date((month / 12) as i32, of_year, 1).expect("the clock shows a year of four digits");
    first.midnight().assume_utc().unix_timestamp().max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_days_and_months_end_at_midnight_utc() {
        for (now_s, day_reset_s, month_reset_s) in [
            // 2026-01-31T23:59:59Z: the day and the month end together
            (1_769_903_999, 1_769_904_000, 1_769_904_000),
            // 2024-02-29T00:00:00Z
            (1_709_164_800, 1_709_251_200, 1_709_251_200),
            // 2025-12-05T12:00:00Z: the next month is in the next year
            (1_764_936_000, 1_764_979_200, 1_767_225_600),
        ] {
            let period = Period::of(Timestamp(now_s * 1_000_000));
            assert_eq!((period.day_reset_s(), period.month_reset_s()), (day_reset_s, month_reset_s), "{now_s}");
        }
    }
}
