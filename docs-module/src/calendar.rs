//! Legal dates: calendar dates in Tokyo, which has no daylight saving, and years of the era.

use time::{Date, OffsetDateTime, UtcOffset};

/// Offset of Tokyo from UTC.
const TOKYO: UtcOffset = match UtcOffset::from_hms(9, 0, 0) {
    Ok(offset) => offset,
    Err(_) => panic!("9 hours are an offset"),
};
/// The year before the first of the era Reiwa, which began on 1 May 2019.
pub(crate) const BEFORE_REIWA: i32 = 2018;

/// Converts a time in seconds since 1970 (UTC) to the date in Tokyo. `None`: the year is outside 1 to 9999.
pub fn tokyo_date(unix_seconds: i64) -> Option<Date> {
    let moment = OffsetDateTime::from_unix_timestamp(unix_seconds).ok()?;
    moment.checked_to_offset(TOKYO).map(OffsetDateTime::date).filter(|date| (1..=9999).contains(&date.year()))
}

/// Converts a year to the year of the era Reiwa, as statutory records write it: 2025 is 7. `None`: the year is before
/// 2019.
pub fn reiwa_year(year: i32) -> Option<i32> {
    (year > BEFORE_REIWA).then_some(year - BEFORE_REIWA)
}

/// `2025年11月30日`.
pub fn date(date: Date) -> String {
    format!("{}年{}月{}日", date.year(), u8::from(date.month()), date.day())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_tokyo() {
        for (seconds, date) in [
            (1_767_193_199, "2025-12-31"),
            (1_767_193_200, "2026-01-01"),
            (1_735_657_199, "2024-12-31"),
            (1_735_657_200, "2025-01-01"),
            (1_764_514_800, "2025-12-01"),
        ] {
            assert_eq!(tokyo_date(seconds).unwrap().to_string(), date);
        }
        assert_eq!((tokyo_date(i64::MAX), tokyo_date(i64::MIN)), (None, None));
    }

    #[test]
    fn years_of_the_era_begin_with_2019() {
        assert_eq!([2018, 2019, 2025, 2026, 2027].map(reiwa_year), [None, Some(1), Some(7), Some(8), Some(9)]);
    }
}
