//! Checks registration numbers: their form, their check digit, and their state in published records (B36, B38).

use time::Date;

use super::{Entry, Registration, RegistrationNumber, Snapshot, Status, normalized, status_on};
use crate::limit::{Limit, Stopped};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Not `T` and 13 digits.
    FormatError,
    /// No record, and a wrong check digit: almost surely a typing error.
    CheckDigitMismatch,
    /// Well formed, and no records were given to compare with.
    FormatOk,
    /// The number's state in the records.
    Status(Status),
}

impl Finding {
    /// The value of `status` in answers.
    pub fn name(self) -> &'static str {
        match self {
            Finding::FormatError => "format_error",
            Finding::CheckDigitMismatch => "check_digit_mismatch",
            Finding::FormatOk => "format_ok",
            Finding::Status(Status::Active { .. }) => "active",
            Finding::Status(Status::NotYetEffective) => "not_yet_effective",
            Finding::Status(Status::Revoked) => "revoked",
            Finding::Status(Status::Expired) => "expired",
            Finding::Status(Status::NotFound) => "not_found",
        }
    }

    /// The value of `status_ja` in answers.
    pub fn name_ja(self) -> &'static str {
        match self {
            Finding::FormatError => "形式不正",
            Finding::CheckDigitMismatch => "検査数字不一致",
            Finding::FormatOk => "形式確認のみ",
            Finding::Status(Status::Active { .. }) => "登録",
            Finding::Status(Status::NotYetEffective) => "登録前",
            Finding::Status(Status::Revoked) => "取消",
            Finding::Status(Status::Expired) => "失効",
            Finding::Status(Status::NotFound) => "該当なし",
        }
    }

    /// Whether a watch raises an alert: the registration was revoked or lapsed.
    pub fn is_alert(self) -> bool {
        matches!(self, Finding::Status(Status::Revoked | Status::Expired))
    }
}

/// A number with the result of its check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<'a> {
    /// The number as given.
    pub given: String,
    /// The number in half-width, without spaces and hyphens, with its `T`.
    pub normalized: String,
    /// Whether the check digit is right; `None`: the number is not well formed.
    pub is_check_digit_valid: Option<bool>,
    /// The result.
    pub finding: Finding,
    /// The record that decides the state; `None`: no record decides the state.
    pub entry: Option<&'a Entry>,
    /// Warnings: `date_missing`, `snapshot_older_than_as_of`.
    pub warnings: Vec<&'static str>,
}

/// Checks a number as of a date. Without records (`None`), only the number's form and check digit are checked.
pub fn check<'a>(given: &str, snapshot: Option<&'a Snapshot>, as_of: Date) -> Checked<'a> {
    let normalized = normalized(given);
    let given = given.to_owned();
    let Ok(number) = RegistrationNumber::read(&normalized) else {
        let (finding, entry) = (Finding::FormatError, None);
        return Checked { given, normalized, is_check_digit_valid: None, finding, entry, warnings: Vec::new() };
    };
    let is_valid = number.has_valid_check_digit();
    let entries = snapshot.map(|snapshot| snapshot.of(number)).unwrap_or_default();
    let finding = match snapshot {
        Some(_) if !entries.is_empty() => {
            let registrations: Vec<Registration> = entries.iter().map(|entry| entry.registration).collect();
            Finding::Status(status_on(&registrations, as_of))
        }
        _ if !is_valid => Finding::CheckDigitMismatch,
        Some(_) => Finding::Status(Status::NotFound),
        None => Finding::FormatOk,
    };
    let entry = deciding(&entries, finding, as_of);
    let mut warnings = Vec::new();
    if entry.is_some_and(|entry| entry.is_date_missing) {
        warnings.push("date_missing");
    }
    if snapshot.and_then(|snapshot| snapshot.last_update).is_some_and(|last| last < as_of) {
        warnings.push("snapshot_older_than_as_of");
    }
    Checked { given, normalized, is_check_digit_valid: Some(is_valid), finding, entry, warnings }
}

/// Finds the record whose own state on the date is the state of the number. If several records have this state, returns
/// the record that was registered last.
fn deciding<'a>(entries: &[&'a Entry], finding: Finding, as_of: Date) -> Option<&'a Entry> {
    let decides = |entry: &&Entry| Finding::Status(status_on(&[entry.registration], as_of)) == finding;
    entries.iter().copied().filter(decides).max_by_key(|entry| entry.registration.registered_on)
}

/// The numbers of a watch, grouped by the result of their check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Monitored<'a> {
    /// Revoked or lapsed.
    pub alerts: Vec<Checked<'a>>,
    /// In force.
    pub ok: Vec<Checked<'a>>,
    /// Without a record, not in force yet, or not well formed.
    pub not_found: Vec<Checked<'a>>,
    /// Without records, all numbers: nobody looked whether they are registered.
    pub format_only: Vec<Checked<'a>>,
}

impl<'a> Monitored<'a> {
    /// All numbers, group by group.
    pub fn all(&self) -> impl Iterator<Item = &Checked<'a>> {
        self.alerts.iter().chain(&self.ok).chain(&self.not_found).chain(&self.format_only)
    }
}

/// Checks all numbers of a watch. Without records (`None`), only the numbers' form and check digit are checked.
///
/// # Errors
/// When the limit stops the work.
pub fn monitor<'a, S: AsRef<str>>(
    watch: &[S],
    snapshot: Option<&'a Snapshot>,
    as_of: Date,
    limit: Limit<'_>,
) -> Result<Monitored<'a>, Stopped> {
    let mut monitored = Monitored::default();
    for given in watch {
        limit.check()?;
        let checked = check(given.as_ref(), snapshot, as_of);
        let group = match checked.finding {
            _ if snapshot.is_none() => &mut monitored.format_only,
            finding if finding.is_alert() => &mut monitored.alerts,
            Finding::Status(Status::Active { .. }) => &mut monitored.ok,
            _ => &mut monitored.not_found,
        };
        group.push(checked);
    }
    Ok(monitored)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::date;

    use super::*;

    fn snapshot() -> Snapshot {
        let records = json!({"lastUpdateDate": "2025-11-30", "announcement": [
            {"number": "T7000012050002", "registrationDate": "2023-10-01", "name": "国税庁"},
            {"number": "T1180301018771", "registrationDate": "2023-10-01", "disposalDate": "2025-04-01", "name": "甲"},
            {"number": "T1180301018771", "registrationDate": "2025-10-01", "name": "甲"},
            {"number": "T9011001029597", "registrationDate": "2023-10-01", "expireDate": "2026-01-01", "name": "乙"},
            {"number": "T1000011000005", "registrationDate": "2023-10-01", "process": "04"},
        ]});
        Snapshot::from_json(&records.to_string(), Limit::NONE).unwrap()
    }

    #[test]
    fn b36_numbers_are_normalised() {
        for (given, normal) in [
            ("Ｔ７０００－０１２０－５０００２", "T7000012050002"),
            (" t7000012050002 ", "T7000012050002"),
            ("7000012050002", "T7000012050002"),
            ("700001205000", "700001205000"),
            ("", ""),
        ] {
            assert_eq!(normalized(given), normal);
        }
        assert!(normalized(&"9".repeat(1 << 20)).len() <= 64);
    }

    #[test]
    fn b36_findings_with_and_without_records() {
        let snapshot = snapshot();
        let with = |number, as_of| check(number, Some(&snapshot), as_of).finding.name();
        let without = |number| check(number, None, date!(2025 - 11 - 30)).finding.name();
        assert_eq!(
            ["T7000012050002", "T1234567890123", "T123"].map(without),
            ["format_ok", "check_digit_mismatch", "format_error"]
        );
        for (number, as_of, name) in [
            ("T7000012050002", date!(2025 - 11 - 30), "active"),
            ("T7000012050002", date!(2023 - 09 - 30), "not_yet_effective"),
            // the number was registered again after a revocation
            ("T1180301018771", date!(2025 - 03 - 31), "active"),
            ("T1180301018771", date!(2025 - 05 - 01), "revoked"),
            ("T1180301018771", date!(2025 - 11 - 30), "active"),
            // the registration lapses in the future, so the registration is still in force
            ("T9011001029597", date!(2025 - 12 - 31), "active"),
            ("T9011001029597", date!(2026 - 01 - 01), "expired"),
            ("T1000011000005", date!(2025 - 11 - 30), "revoked"),
            ("T1000020012131", date!(2025 - 11 - 30), "not_found"),
            ("T1234567890123", date!(2025 - 11 - 30), "check_digit_mismatch"),
            ("x", date!(2025 - 11 - 30), "format_error"),
        ] {
            assert_eq!(with(number, as_of), name, "{number} {as_of}");
        }
        let old = check("T7000012050002", Some(&snapshot), date!(2025 - 12 - 01));
        assert_eq!((old.warnings, old.entry.unwrap().name.as_str()), (vec!["snapshot_older_than_as_of"], "国税庁"));
        assert_eq!(check("T1000011000005", Some(&snapshot), date!(2025 - 11 - 30)).warnings, ["date_missing"]);
    }

    #[test]
    fn b38_a_watch_warns_of_what_ended() {
        let snapshot = snapshot();
        let watch = ["T7000012050002", "T9011001029597", "T1000011000005", "T1000020012131", "x"];
        let found = monitor(&watch, Some(&snapshot), date!(2026 - 01 - 01), Limit::NONE).unwrap();
        let names = |group: &[Checked<'_>]| group.iter().map(|one| one.given.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found.alerts), ["T9011001029597", "T1000011000005"]);
        assert_eq!(names(&found.ok), ["T7000012050002"]);
        assert_eq!(names(&found.not_found), ["T1000020012131", "x"]);
        assert_eq!((found.format_only.len(), found.all().count()), (0, watch.len()));
    }

    #[test]
    fn a10_a_watch_without_records_says_of_nobody_that_he_is_not_registered() {
        let found =
            monitor(&["T7000012050002", "T1234567890123", "x"], None, date!(2026 - 01 - 01), Limit::NONE).unwrap();
        let names: Vec<&str> = found.format_only.iter().map(|one| one.finding.name()).collect();
        assert_eq!(names, ["format_ok", "check_digit_mismatch", "format_error"]);
        assert_eq!(found.all().count(), 3);
    }
}
