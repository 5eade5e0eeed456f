//! Forms of published records.

use serde_json::{Value, json};

use super::*;

fn read(value: Value) -> Result<Snapshot, String> {
    let mut snapshot = Snapshot::default();
    let read = Records(&mut snapshot, Limit::NONE).deserialize(value);
    read.map(|()| snapshot).map_err(|error| error.to_string())
}

fn number(text: &str) -> RegistrationNumber {
    RegistrationNumber::read(text).unwrap()
}

fn record() -> Value {
    json!({"sequenceNumber": "1", "registratedNumber": "T7000012050002", "process": "01", "correct": "0", "kind": "2",
        "registrationDate": "2023-10-01", "updateDate": "2023-10-01", "disposalDate": "", "expireDate": null, "name": "国税庁"})
}

#[test]
fn b37_records_come_in_three_forms() {
    let of_list = read(json!([record()])).unwrap();
    let entry = of_list.of(number("T7000012050002"))[0];
    assert_eq!((entry.name.as_str(), entry.registration.registered_on.to_string().as_str()), ("国税庁", "2023-10-01"));
    let announced =
        read(json!({"lastUpdateDate": "2025-11-30", "count": "1", "divideNumber": "1", "announcement": [record()]}));
    let announced = announced.unwrap();
    assert_eq!(
        (announced.histories.clone(), announced.last_update.unwrap().to_string()),
        (of_list.histories.clone(), "2025-11-30".to_owned())
    );
    let one = json!({"registration_date": "2023-10-01", "Name": "国税庁", "process": 1});
    for mapped in [json!({"T7000012050002": one}), json!({"7000012050002": [one]})] {
        let mapped = read(mapped).unwrap();
        assert_eq!(mapped.of(number("T7000012050002")), of_list.of(number("T7000012050002")));
    }
    assert!(read(json!({"count": "0", "announcement": []})).unwrap().is_empty());
}

#[test]
fn the_authority_s_lines_are_read_with_and_without_the_line_about_the_file() {
    let line = "1,T7000012050002,01,0,2,1,1,2023-10-01,2023-10-01,,,\"東京都千代田区, 霞が関\",13,101,,,,コクゼイチョウ,国税庁,,,,,\n";
    let plain = Snapshot::from_csv(line.as_bytes()).unwrap();
    let headed = Snapshot::from_csv(format!("\u{feff}2025-11-30,1,1,1\n{line}").as_bytes()).unwrap();
    let registrations =
        |snapshot: &Snapshot| snapshot.of(number("T7000012050002")).into_iter().cloned().collect::<Vec<_>>();
    assert_eq!((plain.len(), registrations(&plain)), (1, registrations(&headed)));
    let joined = format!("\u{feff}{line}\u{feff}2025-11-30,1,1,1\r\n{}", line.replace('\n', "\r\n"));
    let joined = Snapshot::from_csv(joined.as_bytes()).unwrap();
    assert_eq!((joined.len(), registrations(&joined)), (2, registrations(&plain)));
    assert_eq!(joined.last_update, headed.last_update);
    assert_eq!(plain.of(number("T7000012050002"))[0].name, "国税庁");
    assert_eq!(headed.last_update.unwrap().to_string(), "2025-11-30");
    for (file, message) in [
        ("a,b\n", "line 1: has 2 columns, not 24"),
        (
            &format!("{line}{}", line.replace("2023-10-01", "2023-13-01")),
            "line 2: not a date of the form 2025-11-30: 2023-13-01",
        ),
        (&line.replace("T7000012050002", "x"), "line 1: a registration number is T and 13 digits: X"),
    ] {
        assert_eq!(Snapshot::from_csv(file.as_bytes()).unwrap_err(), message);
    }
    assert!(Snapshot::from_csv(&b"\xff\xfe,1\n"[..]).is_err());
}

#[test]
fn deleted_records_do_not_count_and_an_end_without_a_day_is_known() {
    let with = |process: &str| {
        let mut one = record();
        one["process"] = json!(process);
        read(json!([one])).unwrap().of(number("T7000012050002")).into_iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(with("99"), []);
    assert!(with("04")[0].is_date_missing && with("04")[0].registration.revoked_on.is_some());
    assert!(with("3")[0].is_date_missing && with("3")[0].registration.expired_on.is_some());
}

#[test]
fn what_are_no_records_is_refused_with_its_place() {
    for (value, message) in [
        (json!(7), "a list of records"),
        (json!({"foo": 1}), "expected a list of records"),
        (json!([record(), 7]), "record 1: "),
        (json!([record(), {"name": "x"}]), "record 1: has no number"),
        (json!([{"number": "T7000012050002"}]), "record 0: T7000012050002 has no registrationDate"),
        (
            json!([{"number": "T1", "registrationDate": "2023-10-01"}]),
            "record 0: a registration number is T and 13 digits: T1",
        ),
        (json!([{"number": "T7000012050002", "registrationDate": "soon"}]), "not a date"),
        (json!([{"number": ["T7000012050002"]}]), "a text"),
    ] {
        let error = read(value.clone()).unwrap_err();
        assert!(error.contains(message), "{value}: {error}");
    }
}

#[test]
fn a1_a_number_has_a_bounded_number_of_registrations() {
    let of = |count: i64| {
        let day = |at: i64| (time::macros::date!(2000 - 01 - 01) + time::Duration::days(at)).to_string();
        let record = |at: i64| json!({"number": "T7000012050002", "registrationDate": day(at)});
        read(json!((0..count).map(record).collect::<Vec<_>>()))
    };
    assert_eq!(of(100).unwrap().of(number("T7000012050002")).len(), 100);
    assert_eq!(of(200).unwrap_err(), "record 101: T7000012050002 has more than 100 days of registration");
}
