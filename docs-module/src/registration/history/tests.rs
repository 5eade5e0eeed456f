//! Which of several published records of a number count (A3).

use proptest::prelude::*;
use serde_json::{Value, json};
use time::Date;
use time::macros::{date, format_description};

use super::super::{Snapshot, check};
use crate::limit::Limit;

const NUMBER: &str = "T7000012050002";

/// A record of [`NUMBER`] with the members `process`, `latest`, `registrationDate`, `updateDate`, `disposalDate` and
/// `expireDate`; empty texts are empty members.
fn record([process, latest, registered, updated, disposed, expired]: [&str; 6]) -> Value {
    json!({
        "registratedNumber": NUMBER, "process": process, "correct": "0", "kind": "2", "country": "1", "latest": latest,
        "registrationDate": registered, "updateDate": updated, "disposalDate": disposed, "expireDate": expired,
    })
}

fn status_of(records: &[Value], as_of: Date) -> &'static str {
    let snapshot = Snapshot::from_json(&json!(records).to_string(), Limit::NONE).unwrap();
    check(NUMBER, Some(&snapshot), as_of).finding.name()
}

fn day(text: &str) -> Date {
    Date::parse(text, format_description!("[year]-[month]-[day]")).unwrap()
}

#[test]
fn a3_the_newest_record_of_a_registration_counts() {
    let first = ["01", "0", "2023-10-01", "2023-09-01", "", ""];
    for (records, as_of, status) in [
        // a revocation and a lapse after the registration, as `history=1` gives them
        (vec![first, ["04", "1", "2023-10-01", "2025-04-02", "2025-04-01", ""]], "2025-03-31", "active"),
        (vec![first, ["04", "1", "2023-10-01", "2025-04-02", "2025-04-01", ""]], "2025-04-01", "revoked"),
        (vec![first, ["03", "1", "2023-10-01", "2025-04-02", "", "2025-03-31"]], "2025-11-30", "expired"),
        // full files call every record the latest, so the day of the update decides
        (
            vec![
                ["01", "1", "2023-10-01", "2023-09-01", "", ""],
                ["04", "1", "2023-10-01", "2025-04-02", "2025-04-01", ""],
            ],
            "2025-11-30",
            "revoked",
        ),
        // without `latest` and `updateDate`, the record that was read last counts
        (
            vec![["01", "", "2023-10-01", "", "", ""], ["04", "", "2023-10-01", "", "2025-04-01", ""]],
            "2025-11-30",
            "revoked",
        ),
        // an end that was published and taken back
        (
            vec![
                first,
                ["03", "0", "2023-10-01", "2024-01-05", "", "2024-01-01"],
                ["02", "1", "2023-10-01", "2024-02-01", "", ""],
            ],
            "2025-11-30",
            "active",
        ),
        // an end in the future, and a day before the registration
        (vec![first, ["03", "1", "2023-10-01", "2025-04-02", "", "2027-01-01"]], "2026-12-31", "active"),
        (vec![first, ["03", "1", "2023-10-01", "2025-04-02", "", "2027-01-01"]], "2023-09-30", "not_yet_effective"),
        // an end without a day
        (vec![first, ["04", "1", "2023-10-01", "2025-04-02", "", ""]], "2025-11-30", "revoked"),
        // registered again after a revocation: two registrations
        (
            vec![
                ["04", "0", "2023-10-01", "2024-04-02", "2024-04-01", ""],
                ["01", "1", "2025-01-01", "2024-12-20", "", ""],
            ],
            "2024-12-31",
            "revoked",
        ),
        (
            vec![
                first,
                ["04", "0", "2023-10-01", "2024-04-02", "2024-04-01", ""],
                ["01", "1", "2025-01-01", "2024-12-20", "", ""],
            ],
            "2025-01-01",
            "active",
        ),
        (
            vec![
                first,
                ["04", "0", "2023-10-01", "2024-04-02", "2024-04-01", ""],
                ["01", "1", "2025-01-01", "2024-12-20", "", ""],
            ],
            "2024-03-31",
            "active",
        ),
        (
            vec![
                ["04", "0", "2023-10-01", "2024-04-02", "2024-04-01", ""],
                ["01", "0", "2025-01-01", "2024-12-20", "", ""],
                ["03", "1", "2025-01-01", "2025-07-02", "", "2025-07-01"],
            ],
            "2025-11-30",
            "expired",
        ),
    ] {
        let mut all: Vec<Value> = records.iter().map(|one| record(*one)).collect();
        assert_eq!(status_of(&all, day(as_of)), status, "{records:?} {as_of}");
        // with the days of the updates, the order of the records does not matter
        if records.iter().all(|one| !one[3].is_empty()) {
            all.reverse();
            assert_eq!(status_of(&all, day(as_of)), status, "reversed {records:?} {as_of}");
        }
    }
}

#[test]
fn a3_a_deletion_ends_the_records_before_it() {
    let first = ["01", "1", "2023-10-01", "2023-09-01", "", ""];
    let again = ["01", "1", "2025-01-01", "2025-02-01", "", ""];
    for (records, status) in [
        (vec![first, ["99", "1", "2023-10-01", "2024-01-01", "", ""]], "not_found"),
        // published deletions leave members empty
        (vec![first, ["99", "", "2023-10-01", "2024-01-01", "", ""]], "not_found"),
        (vec![first, ["99", "", "2023-10-01", "", "", ""]], "not_found"),
        (vec![first, ["99", "", "", "", "", ""], again], "active"),
        (vec![["01", "", "2023-10-01", "", "", ""], ["99", "", "2023-10-01", "", "", ""]], "not_found"),
        (vec![first, ["99", "", "", "2024-01-01", "", ""]], "not_found"),
        // the deletion of one registration leaves the other one
        (vec![first, ["99", "", "2023-10-01", "2024-01-01", "", ""], again], "active"),
        (vec![first, ["99", "", "", "2024-01-01", "", ""], again], "active"),
        (vec![first, again, ["99", "", "", "2025-06-01", "", ""]], "not_found"),
        // published again after the deletion
        (
            vec![
                first,
                ["99", "", "2023-10-01", "2024-01-01", "", ""],
                ["02", "1", "2023-10-01", "2024-02-01", "", ""],
            ],
            "active",
        ),
        // a deletion that says of itself that it is history
        (vec![first, ["99", "0", "2023-10-01", "2024-01-01", "", ""]], "active"),
        // only a deletion is known
        (vec![["99", "", "2023-10-01", "2024-01-01", "", ""]], "not_found"),
    ] {
        let all: Vec<Value> = records.iter().map(|one| record(*one)).collect();
        assert_eq!(status_of(&all, date!(2025 - 11 - 30)), status, "{records:?}");
    }
}

#[test]
fn a3_a_correction_replaces_a_day_of_registration_and_nothing_else() {
    let corrected = |mut record: Value| {
        record["correct"] = json!("1");
        record
    };
    let first = record(["01", "0", "2023-10-01", "2023-09-01", "", ""]);
    // the day itself was wrong: only the corrected registration was ever in force
    let day_corrected = corrected(record(["02", "1", "2023-11-01", "2023-12-01", "", ""]));
    for (as_of, status) in [(date!(2023 - 10 - 15), "not_yet_effective"), (date!(2023 - 11 - 01), "active")] {
        assert_eq!(status_of(&[first.clone(), day_corrected.clone()], as_of), status);
    }
    let mut history = day_corrected.clone();
    history["latest"] = json!("");
    let revoked = record(["04", "1", "2023-11-01", "2025-04-02", "2025-04-01", ""]);
    assert_eq!(status_of(&[first.clone(), history, revoked], date!(2025 - 11 - 30)), "revoked");
    // a correction of another member of the same registration
    let ended = corrected(record(["04", "1", "2023-10-01", "2025-04-02", "2025-04-01", ""]));
    assert_eq!(status_of(&[first.clone(), ended], date!(2025 - 11 - 30)), "revoked");
    // a correction within a later registration leaves the former one with its end
    let former = record(["03", "0", "2023-10-01", "2024-04-02", "", "2024-04-01"]);
    let later = record(["01", "0", "2025-01-01", "2024-12-20", "", ""]);
    let renamed = corrected(record(["02", "1", "2025-01-01", "2025-02-01", "", ""]));
    assert_eq!(status_of(&[former, later, renamed], date!(2024 - 01 - 01)), "active");
}

#[test]
fn e1_the_case_of_a_lapse_in_the_history_is_a_lapse() {
    let answer = json!({
        "lastUpdateDate": "2025-06-01", "count": "2", "divideNumber": "1", "divideSize": "1",
        "announcement": [
            record(["01", "0", "2023-10-01", "2023-09-01", "", ""]), record(["03", "1", "2023-10-01", "2025-04-02", "", "2025-03-31"]),
        ],
    });
    let snapshot = Snapshot::from_json(&answer.to_string(), Limit::NONE).unwrap();
    let found = check(NUMBER, Some(&snapshot), date!(2025 - 11 - 30));
    assert_eq!((found.finding.name(), found.warnings), ("expired", vec!["snapshot_older_than_as_of"]));
}

#[test]
fn a3_members_are_read_in_all_their_forms() {
    let old =
        json!({"Registrated_Number": NUMBER, "registration_date": "2023-10-01", "update_date": null, "latest": null});
    for latest in [json!("1"), json!(1), json!(true)] {
        for ended in [
            json!({"registeredNumber": NUMBER, "Latest": latest, "RegistrationDate": "2023-10-01", "DisposalDate": "2025-04-01"}),
            json!({"number": NUMBER, "latest": latest, "registration_date": "2023-10-01", "process": 4, "expire_date": "",
                "disposal_date": "2025-04-01", "correct": 0, "sequence_number": 7}),
        ] {
            assert_eq!(status_of(&[ended.clone(), old.clone()], date!(2025 - 11 - 30)), "revoked", "{ended}");
        }
    }
    for history in [json!(""), json!("0"), json!(0), json!(false), Value::Null] {
        let one =
            json!({"number": NUMBER, "latest": history, "registrationDate": "2023-10-01", "sequenceNumber": "10"});
        let other = json!({"number": NUMBER, "latest": "", "registrationDate": "2023-10-01", "sequenceNumber": "9", "expireDate": "2024-01-01"});
        assert_eq!(status_of(&[one, other], date!(2025 - 11 - 30)), "active", "{history}");
    }
    // as lines, with and without the line about the file, a byte-order mark and CRLF
    let line = |at: u32, process: &str, latest: &str, updated: &str, disposed: &str| {
        format!("{at},{NUMBER},{process},0,1,1,{latest},2023-10-01,{updated},{disposed},,,,,,,,,,,,,,")
    };
    let lines = [line(1, "01", "", "2023-09-01", ""), line(2, "04", "1", "2025-04-02", "2025-04-01")];
    for (begin, end) in
        [("", "\n"), ("\u{feff}", "\r\n"), ("2025-11-30,2,1,1\n", "\n"), ("\u{feff}2025-11-30,2,1,1\r\n", "\r\n")]
    {
        let file = format!("{begin}{}{end}{}{end}", lines[0], lines[1]);
        let snapshot = Snapshot::from_csv(file.as_bytes()).unwrap();
        assert_eq!(check(NUMBER, Some(&snapshot), date!(2025 - 11 - 30)).finding.name(), "revoked", "{file}");
    }
}

proptest! {
    /// The definition: of each day the newest record by `latest`, `updateDate`, `sequenceNumber` and place, and the
    /// number is active where one of these is in force.
    #[test]
    fn a3_the_status_is_that_of_the_definition(
        records in proptest::collection::vec(
            (0usize..3, any::<bool>(), 0usize..4, 0u64..3, proptest::option::of(0usize..6)), 1..8,
        ),
        on in 0usize..8,
    ) {
        let days = ["2023-10-01", "2024-02-01", "2024-06-01", "2024-10-01", "2025-02-01", "2025-06-01", "2025-10-01", "2026-02-01"];
        let of = |(registered, is_latest, updated, sequence, ended): &(usize, bool, usize, u64, Option<usize>)| json!({
            "number": NUMBER, "registrationDate": days[*registered], "latest": if *is_latest { "1" } else { "0" }, "updateDate": days[*updated],
            "sequenceNumber": sequence.to_string(), "expireDate": ended.map(|at| days[at]),
        });
        let all: Vec<Value> = records.iter().map(of).collect();
        let is_active = (0..3).any(|registered| {
            let of_day = records.iter().enumerate().filter(|(_, one)| one.0 == registered);
            let newest = of_day.max_by_key(|(place, one)| (one.1, one.2, one.3, *place)).map(|(_, one)| one);
            newest.is_some_and(|one| registered <= on && one.4.is_none_or(|end| on < end))
        });
        prop_assert_eq!(status_of(&all, day(days[on])) == "active", is_active);
    }
}
