//! Published records of registrations: the authority's own JSON and CSV (resource definition of May 2024), a list of
//! records, or a map from numbers to records.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use time::Date;
use time::macros::format_description;

use super::{Registration, RegistrationNumber};

/// Largest number of records.
pub const RECORDS_MAX: usize = 10_000_000;
/// Columns of a line of the authority's CSV.
const COLUMNS: usize = 24;

/// A record of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The dates of the registration.
    pub registration: Registration,
    /// Name; empty for individuals in the public files.
    pub name: String,
    /// Whether the record says that the registration ended, but not when it ended. Such a registration is treated as
    /// never in force.
    pub is_date_missing: bool,
}

/// Published records by number. The records of one number are its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    entries: HashMap<RegistrationNumber, Vec<Entry>>,
    /// The date of the last update, if the file states it.
    pub last_update: Option<Date>,
    records: usize,
}

impl Snapshot {
    /// Returns the records of a number.
    pub fn of(&self, number: RegistrationNumber) -> &[Entry] {
        self.entries.get(&number).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many records were read.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Reads the authority's CSV: the file for download, or the answer of the Web-API, whose first line describes the
    /// file.
    ///
    /// # Errors
    /// When a line has another form; the message begins with the number of the line.
    pub fn from_csv(file: impl Read) -> Result<Snapshot, String> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
        let mut snapshot = Snapshot::default();
        let mut line = csv::StringRecord::new();
        let mut at = 0;
        loop {
            at += 1;
            let in_line = |message: String| format!("line {at}: {message}");
            if !reader.read_record(&mut line).map_err(|error| in_line(error.to_string()))? {
                return Ok(snapshot);
            }
            if at == 1 && line.len() == 4 {
                snapshot.last_update = date(line[0].trim_start_matches('\u{feff}')).map_err(in_line)?;
                continue;
            }
            if line.len() != COLUMNS {
                return Err(in_line(format!("has {} columns, not {COLUMNS}", line.len())));
            }
            let column = |number: usize| Some(line[number - 1].to_owned()).filter(|text| !text.is_empty());
            let record = Record {
                number: column(2),
                process: column(3),
                registered: column(8),
                disposed: column(10),
                expired: column(11),
                name: column(19),
            };
            snapshot.add(record).map_err(in_line)?;
        }
    }

    fn add(&mut self, record: Record) -> Result<(), String> {
        self.records += 1;
        if self.records > RECORDS_MAX {
            return Err(format!("there are more than {RECORDS_MAX} records"));
        }
        // 99 means that the record was deleted
        if matches!(record.process.as_deref(), Some("99")) {
            return Ok(());
        }
        let number = record.number.as_deref().map(super::normalized).ok_or("has no number")?;
        let number = RegistrationNumber::read(&number).map_err(|error| format!("{error}: {number}"))?;
        let registered_on = record.registered.as_deref().map(date).transpose()?.flatten();
        let registered_on = registered_on.ok_or_else(|| format!("{number} has no registrationDate"))?;
        let mut revoked_on = record.disposed.as_deref().map(date).transpose()?.flatten();
        let mut expired_on = record.expired.as_deref().map(date).transpose()?.flatten();
        let ended_how = record.process.as_deref().map(|process| process.trim_start_matches('0'));
        let is_date_missing = revoked_on.is_none() && expired_on.is_none() && matches!(ended_how, Some("3" | "4"));
        if is_date_missing {
            let end = if ended_how == Some("4") { &mut revoked_on } else { &mut expired_on };
            *end = Some(registered_on);
        }
        let registration = Registration { registered_on, revoked_on, expired_on };
        let entry = Entry { registration, name: record.name.unwrap_or_default(), is_date_missing };
        self.entries.entry(number).or_default().push(entry);
        Ok(())
    }
}

/// Reads a date of the form `YYYY-MM-DD`; `None`: the text is empty.
fn date(text: &str) -> Result<Option<Date>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = Date::parse(text, format_description!("[year]-[month]-[day]"));
    found.map(Some).map_err(|_| format!("not a date of the form 2025-11-30: {text}"))
}

/// The members that are read from a record.
#[derive(Default)]
struct Record {
    number: Option<String>,
    process: Option<String>,
    registered: Option<String>,
    disposed: Option<String>,
    expired: Option<String>,
    name: Option<String>,
}

/// A text, a number as text, or `None` for null and the empty text.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        struct OfText;
        impl<'de> Visitor<'de> for OfText {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text((!text.is_empty()).then(|| text.to_owned())))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(Some(number.to_string())))
            }

            fn visit_unit<E: Error>(self) -> Result<Text, E> {
                Ok(Text(None))
            }
        }
        deserializer.deserialize_any(OfText)
    }
}

/// Writes a member's name in lower case without underscores, because files write `registrationDate`, `RegistrationDate`
/// and `registration_date`.
fn plain(name: &str) -> String {
    name.chars().filter(|character| *character != '_').map(|character| character.to_ascii_lowercase()).collect()
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Record, D::Error> {
        struct OfRecord;
        impl<'de> Visitor<'de> for OfRecord {
            type Value = Record;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
                let mut record = Record::default();
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    let member = match plain(&name).as_str() {
                        // `registratedNumber` is the authority's misspelling
                        "registratednumber" | "registerednumber" | "registrationnumber" | "number" => {
                            &mut record.number
                        }
                        "process" => &mut record.process,
                        "registrationdate" => &mut record.registered,
                        "disposaldate" => &mut record.disposed,
                        "expiredate" => &mut record.expired,
                        "name" => &mut record.name,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *member = map.next_value::<Text>()?.0;
                }
                Ok(record)
            }
        }
        deserializer.deserialize_map(OfRecord)
    }
}

/// A list of records.
struct List(Snapshot);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List, D::Error> {
        deserializer.deserialize_seq(OfSnapshot).map(List)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Snapshot, D::Error> {
        deserializer.deserialize_any(OfSnapshot)
    }
}

struct OfSnapshot;

impl<'de> Visitor<'de> for OfSnapshot {
    type Value = Snapshot;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records, an object with `announcement`, or a map from numbers to records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Snapshot, A::Error> {
        let mut snapshot = Snapshot::default();
        loop {
            let at = snapshot.records;
            let in_record = |error: &dyn fmt::Display| A::Error::custom(format!("record {at}: {error}"));
            match list.next_element::<Record>().map_err(|error| in_record(&error))? {
                Some(record) => snapshot.add(record).map_err(|error| in_record(&error))?,
                None => return Ok(snapshot),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Snapshot, A::Error> {
        let mut snapshot = Snapshot::default();
        let (mut last_update, mut is_known) = (None, false);
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match plain(&name).as_str() {
                "announcement" => {
                    snapshot = map.next_value::<List>()?.0;
                    is_known = true;
                }
                "lastupdatedate" => {
                    let text = map.next_value::<Text>()?.0.unwrap_or_default();
                    last_update = date(&text).map_err(A::Error::custom)?;
                }
                _ if RegistrationNumber::read(&super::normalized(&name)).is_ok() => {
                    let record = Record { number: Some(name.into_owned()), ..map.next_value()? };
                    snapshot.add(record).map_err(A::Error::custom)?;
                    is_known = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if !is_known {
            return Err(A::Error::custom(format!("expected {}", Expected)));
        }
        snapshot.last_update = last_update;
        Ok(snapshot)
    }
}

struct Expected;

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OfSnapshot.expecting(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<Snapshot, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
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
        let entry = &of_list.of(number("T7000012050002"))[0];
        assert_eq!(
            (entry.name.as_str(), entry.registration.registered_on.to_string().as_str()),
            ("国税庁", "2023-10-01")
        );
        let announced = read(
            json!({"lastUpdateDate": "2025-11-30", "count": "1", "divideNumber": "1", "announcement": [record()]}),
        );
        let announced = announced.unwrap();
        assert_eq!(
            (announced.entries.clone(), announced.last_update.unwrap().to_string()),
            (of_list.entries.clone(), "2025-11-30".to_owned())
        );
        let mapped = json!({"T7000012050002": {"registration_date": "2023-10-01", "Name": "国税庁", "process": 1}});
        assert_eq!(read(mapped).unwrap().entries, of_list.entries);
        assert!(read(json!({"count": "0", "announcement": []})).unwrap().is_empty());
    }

    #[test]
    fn the_authority_s_lines_are_read_with_and_without_the_line_about_the_file() {
        let line = "1,T7000012050002,01,0,2,1,1,2023-10-01,2023-10-01,,,\"東京都千代田区, 霞が関\",13,101,,,,コクゼイチョウ,国税庁,,,,,\n";
        let plain = Snapshot::from_csv(line.as_bytes()).unwrap();
        let headed = Snapshot::from_csv(format!("\u{feff}2025-11-30,1,1,1\n{line}").as_bytes()).unwrap();
        assert_eq!((plain.len(), plain.entries.clone()), (1, headed.entries));
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
            read(json!([one])).unwrap().of(number("T7000012050002")).to_vec()
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
}
