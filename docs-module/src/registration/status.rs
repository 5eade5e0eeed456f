//! The state of a registration on a date. A registration is in force from the day of registration until the day before
//! its revocation or lapse.

use time::Date;

/// A record of a number, as published. The records of one number are its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The first day in force.
    pub registered_on: Date,
    /// 取消: the first day without effect, if the registration was revoked.
    pub revoked_on: Option<Date>,
    /// 失効: the first day without effect, if the registration lapsed.
    pub expired_on: Option<Date>,
}

/// The state of a number on a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// In force.
    Active {
        /// The first day without effect; `None`: no end is published.
        ends_on: Option<Date>,
    },
    /// Not in force yet.
    NotYetEffective,
    /// 取消.
    Revoked,
    /// 失効.
    Expired,
    /// The number has no record.
    NotFound,
}

impl Registration {
    /// The first day without effect: the earlier of revocation and lapse.
    fn ends_on(&self) -> Option<Date> {
        self.revoked_on.into_iter().chain(self.expired_on).min()
    }

    fn is_active(&self, date: Date) -> bool {
        self.registered_on <= date && self.ends_on().is_none_or(|end| date < end)
    }

    /// How the registration ended: by the earlier of revocation and lapse, or by revocation if both are on one day.
    fn end(&self) -> Status {
        match (self.revoked_on, self.expired_on) {
            (Some(revoked), Some(expired)) if expired < revoked => Status::Expired,
            (Some(_), _) => Status::Revoked,
            _ => Status::Expired,
        }
    }
}

/// Determines the state of a number on a date. If any record is active, the state is active. Otherwise only the records
/// that were registered by the date matter: the record with the latest end decides whether the state is revoked or
/// lapsed.
pub fn status_on(records: &[Registration], date: Date) -> Status {
    if let Some(active) = records.iter().find(|record| record.is_active(date)) {
        return Status::Active { ends_on: active.ends_on() };
    }
    let ended = records.iter().filter(|record| record.registered_on <= date).max_by_key(|record| record.ends_on());
    match ended {
        Some(record) => record.end(),
        None if records.is_empty() => Status::NotFound,
        None => Status::NotYetEffective,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn date(text: &str) -> Date {
        let part = |range: std::ops::Range<usize>| text[range].parse::<u16>().unwrap();
        let month = time::Month::try_from(part(5..7) as u8).unwrap();
        Date::from_calendar_date(i32::from(part(0..4)), month, part(8..10) as u8).unwrap()
    }

    fn record(registered: &str, revoked: &str, expired: &str) -> Registration {
        let some = |text: &str| (!text.is_empty()).then(|| date(text));
        Registration { registered_on: date(registered), revoked_on: some(revoked), expired_on: some(expired) }
    }

    #[test]
    fn states_are_those_of_the_fact_sheet() {
        let until = |text: &str| Status::Active { ends_on: Some(date(text)) };
        for (revoked, expired, on, status) in [
            ("", "", "2025-11-30", Status::Active { ends_on: None }),
            ("", "", "2023-09-30", Status::NotYetEffective),
            ("", "", "2023-10-01", Status::Active { ends_on: None }),
            ("2025-04-01", "", "2025-03-31", until("2025-04-01")),
            ("2025-04-01", "", "2025-04-01", Status::Revoked),
            ("", "2026-01-01", "2025-12-31", until("2026-01-01")),
            ("", "2026-01-01", "2026-01-01", Status::Expired),
            ("2025-06-01", "2025-04-01", "2025-05-01", Status::Expired),
        ] {
            assert_eq!(status_on(&[record("2023-10-01", revoked, expired)], date(on)), status, "{on}");
        }
        assert_eq!(status_on(&[], date("2025-01-01")), Status::NotFound);
    }

    #[test]
    fn a_number_that_was_registered_again_is_judged_by_all_its_records() {
        let history = [record("2023-10-01", "", "2024-04-01"), record("2025-01-01", "2025-07-01", "")];
        for (on, status) in [
            ("2023-09-30", Status::NotYetEffective),
            ("2024-03-31", Status::Active { ends_on: Some(date("2024-04-01")) }),
            ("2024-12-31", Status::Expired),
            ("2025-01-01", Status::Active { ends_on: Some(date("2025-07-01")) }),
            ("2025-07-01", Status::Revoked),
        ] {
            assert_eq!(status_on(&history, date(on)), status, "{on}");
            let reversed = [history[1], history[0]];
            assert_eq!(status_on(&reversed, date(on)), status, "{on}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_active_where_one_of_its_records_is(
            records in proptest::collection::vec((0i64..2000, proptest::option::of(0i64..2000), proptest::option::of(0i64..2000)), 0..4),
            day in 0i64..2000,
        ) {
            let at = |day: i64| date("2023-01-01") + time::Duration::days(day);
            let records: Vec<Registration> = records
                .into_iter()
                .map(|(registered, revoked, expired)| Registration {
                    registered_on: at(registered),
                    revoked_on: revoked.map(at),
                    expired_on: expired.map(at),
                })
                .collect();
            let active = records.iter().any(|record| {
                let ends = [record.revoked_on, record.expired_on];
                record.registered_on <= at(day) && ends.into_iter().flatten().all(|end| at(day) < end)
            });
            prop_assert_eq!(matches!(status_on(&records, at(day)), Status::Active { .. }), active);
        }
    }
}
