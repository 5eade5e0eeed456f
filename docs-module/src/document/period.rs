//! The first and last day of a period that is given as text.

use std::str::FromStr;

use time::{Date, Month};
use unicode_normalization::UnicodeNormalization;

use crate::calendar::{BEFORE_REIWA, date};

/// Finds the first and last day of a period: `2026年11月1日〜11月30日`, `2026-11-01/2026-11-30`, `2026年11月分`,
/// `令和8年11月分`, `R8.11`, or a single day. `None`: the text names no days with a year, names more than one period, the
/// last day is before the first, or the year is before 2000.
pub(super) fn days(period: &str) -> Option<(Date, Date)> {
    let plain = plain(period);
    let vague = ["旬", "以降", "以前", "年度"];
    if vague.iter().any(|word| plain.contains(word)) {
        return None;
    }
    let (first, last) = match halves(&plain).as_slice() {
        [whole] => {
            let part = Part::read(whole, None)?;
            (part, part)
        }
        [from, to] => {
            let from = Part::read(from, None)?;
            (from, Part::read(to, Some(from))?)
        }
        _ => return None,
    };
    let (first, last) = (first.first()?, last.last()?);
    (first <= last && first.year() >= 2000).then_some((first, last))
}

/// Writes a text that has only numbers of dates, such as `2026-10-31` or `R8.10`, in the words of the other dates of a
/// document. Any other text stays, because its author chose the words.
pub(super) fn in_words(text: &str) -> String {
    let is_numeric = text.nfkc().all(|c| c.is_ascii_digit() || "-/.~〜–RH ".contains(c));
    match days(text) {
        Some((first, last)) if is_numeric && first == last => date(first),
        Some((first, last)) if is_numeric && first.day() == 1 && last == end_of(first) => {
            format!("{}年{}月分", first.year(), u8::from(first.month()))
        }
        Some((first, last)) if is_numeric => format!("{}〜{}", date(first), date(last)),
        _ => text.to_owned(),
    }
}

/// Writes a period with one kind of dash and of range mark, without spaces, and with eras as letters.
fn plain(period: &str) -> String {
    let folded: String = period.nfkc().map(|c| if is_dash(c) { '-' } else { c.to_ascii_uppercase() }).collect();
    let mut plain = folded.replace(" - ", "~").replace("元年", "1年");
    for mark in ["〜", "から", "より", "至", "→", "--"] {
        plain = plain.replace(mark, "~");
    }
    for (name, letter) in [("令和", "R"), ("平成", "H"), ("令", "R"), ("平", "H")] {
        plain = plain.replace(name, letter);
    }
    plain.retain(|c| !c.is_whitespace());
    plain
}

/// Whether a character is written for a hyphen.
pub(super) fn is_dash(character: char) -> bool {
    matches!(character, '-' | '－' | '\u{2010}'..='\u{2015}' | '\u{2212}' | 'ー')
}

/// Splits a period at its range mark. A hyphen is a range mark where dates have other separators, and a slash where
/// they have hyphens.
fn halves(plain: &str) -> Vec<&str> {
    let separator =
        plain.trim_start_matches(|c: char| !c.is_ascii_digit()).trim_start_matches(|c: char| c.is_ascii_digit());
    let mark = match separator.chars().next() {
        _ if plain.contains('~') => '~',
        Some('-') => '/',
        _ => '-',
    };
    plain.split(mark).collect()
}

/// A day, a month or a year.
#[derive(Clone, Copy)]
struct Part {
    year: i32,
    month: Option<u8>,
    day: Option<u8>,
}

impl Part {
    /// Reads one side of a period. What the last side leaves out is that of the first side: `before`.
    fn read(text: &str, before: Option<Part>) -> Option<Part> {
        let numbers = numbers(text)?;
        let (year, rest) = match numbers.as_slice() {
            [year, rest @ ..] if year.is_year() => (Some(year.as_year()?), rest),
            rest => (None, rest),
        };
        let (year, before) = match (year, before) {
            (Some(year), _) => (year, None),
            (None, Some(before)) => (before.year, Some(before)),
            (None, None) => return None,
        };
        // with words of dates, each number has the right one
        let is_named = numbers.iter().any(|number| "年月日".contains(number.unit));
        let is = |number: &Number, unit: char| !is_named || number.unit == unit;
        let small = |number: &Number| u8::from_str(number.digits).ok();
        match rest {
            [] if before.is_none() => Some(Part { year, month: None, day: None }),
            [month] if is(month, '月') && before.is_none_or(|before| before.day.is_none()) => {
                Some(Part { year, month: small(month), day: None })
            }
            [day] if is(day, '日') => Some(Part { year, month: before?.month, day: small(day) }),
            [month, day] if is(month, '月') && is(day, '日') => {
                Some(Part { year, month: small(month), day: small(day) })
            }
            _ => None,
        }
    }

    fn first(self) -> Option<Date> {
        Date::from_calendar_date(self.year, month(self.month.unwrap_or(1))?, self.day.unwrap_or(1)).ok()
    }

    fn last(self) -> Option<Date> {
        let first = Part { month: Some(self.month.unwrap_or(12)), ..self }.first()?;
        Some(if self.day.is_some() { first } else { end_of(first) })
    }
}

fn month(number: u8) -> Option<Month> {
    Month::try_from(number).ok()
}

/// The last day of the month of a day.
fn end_of(day: Date) -> Date {
    day.replace_day(day.month().length(day.year())).expect("a month has its last day")
}

/// A number with its neighbours.
struct Number<'a> {
    /// `R` (令和) or `H` (平成), if the number is a year of an era.
    era: Option<char>,
    digits: &'a str,
    /// The character behind the number; a space at the end of the text.
    unit: char,
}

impl Number<'_> {
    fn is_year(&self) -> bool {
        self.era.is_some() || self.digits.len() == 4
    }

    fn as_year(&self) -> Option<i32> {
        let year: i32 = self.digits.parse().ok()?;
        let is_two = self.digits.len() <= 2;
        match self.era {
            Some('R') if is_two => Some(BEFORE_REIWA + year),
            Some('H') if is_two => Some(1988 + year),
            Some(_) => None,
            // a year is not followed by a month's or a day's word
            None => (!matches!(self.unit, '月' | '日')).then_some(year),
        }
    }
}

/// Finds the numbers of a text. Eight and six digits are a date and a month. `None`: a number is no part of a date.
fn numbers(text: &str) -> Option<Vec<Number<'_>>> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = None;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        before = rest[..at].chars().next_back().or(before);
        let digits_end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| at + length);
        let (digits, behind) = (&rest[at..digits_end], &rest[digits_end..]);
        let unit = behind.chars().next().unwrap_or(' ');
        let era = match before {
            Some(letter @ ('R' | 'H')) => Some(letter),
            Some(letter) if letter.is_ascii_alphabetic() => return None,
            _ => None,
        };
        match digits.len() {
            1 | 2 | 4 => found.push(Number { era, digits, unit }),
            6 | 8 if era.is_none() && found.is_empty() => {
                let pairs = [&digits[..4], &digits[4..6], &digits[6..]].into_iter().filter(|digits| !digits.is_empty());
                found.extend(pairs.map(|digits| Number { era: None, digits, unit: ' ' }));
            }
            _ => return None,
        }
        before = Some(unit);
        rest = behind;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_days_are_found_in_words() {
        let found = |period| days(period).map(|(first, last)| format!("{first} {last}"));
        for (period, expected) in [
            ("2025年11月1日〜11月30日", Some("2025-11-01 2025-11-30")),
            ("２０２５年１２月１日～２０２６年１月３１日", Some("2025-12-01 2026-01-31")),
            ("2025年11月1日から30日まで", Some("2025-11-01 2025-11-30")),
            ("自 2025年11月1日 至 2025年11月30日", Some("2025-11-01 2025-11-30")),
            ("2025 年 11 月 1 日(土)－11 月 30 日(日)", Some("2025-11-01 2025-11-30")),
            ("2025-11-01/2025-11-30", Some("2025-11-01 2025-11-30")),
            ("2025-11-01 - 2025-11-30", Some("2025-11-01 2025-11-30")),
            ("2025/11/1-11/30", Some("2025-11-01 2025-11-30")),
            ("2025.11.1–11.30", Some("2025-11-01 2025-11-30")),
            ("2025/11/1~30", Some("2025-11-01 2025-11-30")),
            ("2024年2月分", Some("2024-02-01 2024-02-29")),
            ("2025年10月〜11月", Some("2025-10-01 2025-11-30")),
            ("2025年12月〜2026年1月分", Some("2025-12-01 2026-01-31")),
            ("2025-11", Some("2025-11-01 2025-11-30")),
            ("2025/11ご利用分", Some("2025-11-01 2025-11-30")),
            ("2025/11/03", Some("2025-11-03 2025-11-03")),
            ("20251130", Some("2025-11-30 2025-11-30")),
            ("2025年分", Some("2025-01-01 2025-12-31")),
            ("令和8年11月分", Some("2026-11-01 2026-11-30")),
            ("令和８年１１月１日〜令和８年１１月３０日", Some("2026-11-01 2026-11-30")),
            ("㋿8年11月", Some("2026-11-01 2026-11-30")),
            ("令和元年5月分", Some("2019-05-01 2019-05-31")),
            ("平成31年4月分", Some("2019-04-01 2019-04-30")),
            ("R8/11", Some("2026-11-01 2026-11-30")),
            ("R8.11", Some("2026-11-01 2026-11-30")),
            ("r08.11.01〜11.30", Some("2026-11-01 2026-11-30")),
            ("H31.4.30", Some("2019-04-30 2019-04-30")),
            ("2025年11月30日〜11月1日", None),
            ("2025年13月分", None),
            ("2025年2月30日", None),
            ("2025年11月分（第2回）", None),
            ("2025年11月1日〜15日、12月1日〜5日", None),
            ("2025年11月上旬", None),
            ("2025年度", None),
            ("第7期", None),
            ("11月分", None),
            ("Nov 2025", None),
            ("2025-11-01/P1M", None),
            ("1999年12月分", None),
            ("11/30/2025", None),
            ("", None),
        ] {
            assert_eq!(found(period).as_deref(), expected, "{period}");
        }
    }

    #[test]
    fn c3_numbers_of_dates_become_words() {
        for (given, words) in [
            ("2026-10-31", "2026年10月31日"),
            ("２０２６／１０／３１", "2026年10月31日"),
            ("R8.10.31", "2026年10月31日"),
            ("2026-10", "2026年10月分"),
            ("2026-10-01/2026-10-15", "2026年10月1日〜2026年10月15日"),
            ("令和8年10月分", "令和8年10月分"),
            ("2026年10月1日〜31日", "2026年10月1日〜31日"),
            ("2026-10-31 納品", "2026-10-31 納品"),
            ("2026-13-01", "2026-13-01"),
        ] {
            assert_eq!(in_words(given), words);
        }
    }
}
