//! The first and last day of a period that is given as text.

use time::{Date, Month};
use unicode_normalization::UnicodeNormalization;

/// Finds the first and last day of `2025年11月1日〜11月30日`, `2025-11-01/2025-11-30`, `2025年11月分` or a single day. `None`:
/// the text names no days, the last day is before the first, or the year is before 2000.
pub(super) fn days(period: &str) -> Option<(Date, Date)> {
    let plain: String = period.nfkc().collect();
    let groups = plain.split(|character: char| !character.is_ascii_digit()).filter(|digits| !digits.is_empty());
    // a group of more than 4 digits is not part of a date
    let numbers: Vec<i32> =
        groups.map(|digits| digits.parse().ok().filter(|_| digits.len() <= 4)).collect::<Option<_>>()?;
    let day = |year: i32, month: i32, day: i32| {
        let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
        Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()
    };
    let (first, last) = match *numbers.as_slice() {
        [year, month] => {
            let first = day(year, month, 1)?;
            (first, first.replace_day(first.month().length(year)).ok()?)
        }
        [year, month, date] => (day(year, month, date)?, day(year, month, date)?),
        [year, month, date, last_month, last_date] => (day(year, month, date)?, day(year, last_month, last_date)?),
        [year, month, date, last_year, last_month, last_date] => {
            (day(year, month, date)?, day(last_year, last_month, last_date)?)
        }
        _ => return None,
    };
    (first <= last && first.year() >= 2000).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_found_in_words() {
        let found = |period| days(period).map(|(first, last)| format!("{first} {last}"));
        for (period, expected) in [
            ("2025年11月1日〜11月30日", Some("2025-11-01 2025-11-30")),
            ("２０２５年１２月１日～２０２６年１月３１日", Some("2025-12-01 2026-01-31")),
            ("2025-11-01/2025-11-30", Some("2025-11-01 2025-11-30")),
            ("2024年2月分", Some("2024-02-01 2024-02-29")),
            ("2025/11/03", Some("2025-11-03 2025-11-03")),
            ("令和7年11月分", None),
            ("2025年11月30日〜11月1日", None),
            ("2025年13月分", None),
            ("第7期", None),
            ("", None),
            ("20251130", None),
        ] {
            assert_eq!(found(period).as_deref(), expected, "{period}");
        }
    }
}
