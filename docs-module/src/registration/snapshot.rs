//! Published records of registrations: the authority's own JSON and CSV (resource definition of May 2024), a list of
//! records, or a map from numbers to records.
//!
//! The reader uses the number, the dates, `process`, `latest`, `correct`, `sequenceNumber` and the name. The other
//! members say nothing of the state of a registration: `kind` (a person or a corporation), `country`, the addresses
//! with their codes, `kana`, the trade name and the former name. Of the members about an answer, only `lastUpdateDate`
//! counts, because the records themselves tell how many they are.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Read;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use time::Date;
use time::macros::format_description;

use super::history::{Age, Entry, History};
use super::{Registration, RegistrationNumber};
use crate::limit::Limit;

/// Largest number of records that are kept.
pub const RECORDS_MAX: usize = 10_000_000;
/// Largest number of registrations of a number. The work on a number grows with their square.
const REGISTRATIONS_MAX: usize = 100;
/// Columns of a line of the authority's CSV, and of the line about the file: date, count, number and size of parts.
const COLUMNS: usize = 24;
const HEAD_COLUMNS: usize = 4;

/// Published records by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    histories: HashMap<RegistrationNumber, History>,
    /// The numbers whose records are kept. `None`: all.
    only: Option<HashSet<RegistrationNumber>>,
    /// The date of the last update, if a file states it; the latest of several files.
    pub last_update: Option<Date>,
    records: usize,
    kept: usize,
    files: u32,
}

impl Snapshot {
    /// A snapshot that keeps only the records of these numbers, so the memory does not grow with the files.
    pub fn of_numbers(numbers: impl IntoIterator<Item = RegistrationNumber>) -> Snapshot {
        Snapshot { only: Some(numbers.into_iter().collect()), ..Snapshot::default() }
    }

    /// Returns the registrations of a number: for each day of registration the newest record.
    pub fn of(&self, number: RegistrationNumber) -> Vec<&Entry> {
        self.histories.get(&number).map(|history| history.registrations().collect()).unwrap_or_default()
    }

    /// How many records were read.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Reads one file of the authority's CSV: see [`Snapshot::read_csv`].
    ///
    /// # Errors
    /// When a line has another form; the message begins with the number of the line.
    pub fn from_csv(file: impl Read) -> Result<Snapshot, String> {
        let mut snapshot = Snapshot::default();
        snapshot.read_csv(file)?;
        Ok(snapshot)
    }

    /// Adds the records of a file of the authority's CSV: the file for download, or the answer of the Web-API, whose
    /// first line describes the file. Files may be joined. Of records that are equally new, those of the file that was
    /// read later count.
    ///
    /// # Errors
    /// When a line has another form; the message begins with the number of the line. The records before it are added.
    pub fn read_csv(&mut self, file: impl Read) -> Result<(), String> {
        self.files += 1;
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
        let mut line = csv::StringRecord::new();
        loop {
            if !reader.read_record(&mut line).map_err(|error| error.to_string())? {
                return Ok(());
            }
            let at = line.position().map_or(0, csv::Position::line);
            let in_line = |message: String| format!("line {at}: {message}");
            if line.len() == HEAD_COLUMNS {
                self.updated(date(line[0].trim_start_matches('\u{feff}')).map_err(in_line)?);
                continue;
            }
            if line.len() != COLUMNS {
                return Err(in_line(format!("has {} columns, not {COLUMNS}", line.len())));
            }
            let column = |number: usize| Some(line[number - 1].to_owned()).filter(|text| !text.is_empty());
            let record = Record {
                sequence: column(1),
                number: column(2),
                process: column(3),
                correct: column(4),
                latest: column(7),
                registered: column(8),
                updated: column(9),
                disposed: column(10),
                expired: column(11),
                name: column(19),
            };
            self.add(record).map_err(in_line)?;
        }
    }

    /// Reads records in JSON, in one of the forms of a request's `records`.
    ///
    /// # Errors
    /// When the text has another form, or the limit stops the work.
    pub fn from_json(text: &str, limit: Limit<'_>) -> serde_json::Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Records(&mut snapshot, limit).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(snapshot)
    }

    /// Adds the records of a file in JSON, in one of the forms of a request's `records`.
    ///
    /// # Errors
    /// When the file has another form. The records before the fault are added.
    pub fn read_json(&mut self, file: impl Read) -> Result<(), String> {
        let mut deserializer = serde_json::Deserializer::from_reader(file);
        let read = Records(self, Limit::NONE).deserialize(&mut deserializer).and_then(|()| deserializer.end());
        read.map_err(|error| error.to_string())
    }

    /// Notes the date of an update of the records.
    pub fn updated(&mut self, on: Option<Date>) {
        self.last_update = self.last_update.max(on);
    }

    fn add(&mut self, record: Record) -> Result<(), String> {
        self.records += 1;
        let number = record.number.as_deref().map(super::normalized).ok_or("has no number")?;
        let number = RegistrationNumber::read(&number).map_err(|error| format!("{error}: {number}"))?;
        if self.only.as_ref().is_some_and(|only| !only.contains(&number)) {
            return Ok(());
        }
        self.kept += 1;
        if self.kept > RECORDS_MAX {
            return Err(format!("there are more than {RECORDS_MAX} records"));
        }
        let day = |text: &Option<String>| text.as_deref().map(date).transpose().map(Option::flatten);
        let registered_on = day(&record.registered)?;
        let age = Age {
            is_latest: record.latest.as_deref() == Some("1"),
            updated_on: day(&record.updated)?,
            file: self.files,
            sequence: record.sequence.as_deref().and_then(|text| text.parse().ok()),
            place: self.records,
        };
        let process = record.process.as_deref().map(|process| process.trim_start_matches('0'));
        let history = self.histories.entry(number).or_default();
        if history.len() > REGISTRATIONS_MAX {
            return Err(format!("{number} has more than {REGISTRATIONS_MAX} days of registration"));
        }
        if process == Some("99") {
            history.delete(registered_on, age, record.latest.is_some());
            return Ok(());
        }
        let registered_on = registered_on.ok_or_else(|| format!("{number} has no registrationDate"))?;
        let (mut revoked_on, mut expired_on) = (day(&record.disposed)?, day(&record.expired)?);
        let is_date_missing = revoked_on.is_none() && expired_on.is_none() && matches!(process, Some("3" | "4"));
        if is_date_missing {
            let end = if process == Some("4") { &mut revoked_on } else { &mut expired_on };
            *end = Some(registered_on);
        }
        let registration = Registration { registered_on, revoked_on, expired_on };
        let entry = Entry { registration, name: record.name.unwrap_or_default(), is_date_missing };
        history.add(age, record.correct.as_deref() == Some("1"), entry);
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
    sequence: Option<String>,
    number: Option<String>,
    process: Option<String>,
    correct: Option<String>,
    latest: Option<String>,
    registered: Option<String>,
    updated: Option<String>,
    disposed: Option<String>,
    expired: Option<String>,
    name: Option<String>,
}

/// A text, a number or a truth value as text (`1` and `0`), or `None` for null and the empty text.
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
                let text = text.trim();
                Ok(Text((!text.is_empty()).then(|| text.to_owned())))
            }

            fn visit_bool<E: Error>(self, is_true: bool) -> Result<Text, E> {
                self.visit_u64(u64::from(is_true))
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
                        "sequencenumber" => &mut record.sequence,
                        "process" => &mut record.process,
                        "correct" => &mut record.correct,
                        "latest" => &mut record.latest,
                        "registrationdate" => &mut record.registered,
                        "updatedate" => &mut record.updated,
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

/// The records of a number in a map: one, or a list of them.
struct OneOrMore(Vec<Record>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMore, D::Error> {
        struct OfRecords;
        impl<'de> Visitor<'de> for OfRecords {
            type Value = OneOrMore;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record, or a list of records")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMore, A::Error> {
                Record::deserialize(MapAccessDeserializer::new(map)).map(|record| OneOrMore(vec![record]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMore, A::Error> {
                let mut records = Vec::new();
                while let Some(record) = list.next_element()? {
                    records.push(record);
                }
                Ok(OneOrMore(records))
            }
        }
        deserializer.deserialize_any(OfRecords)
    }
}

const EXPECTED: &str = "a list of records, an object with `announcement`, or a map from numbers to records";

/// Adds records to a snapshot while they are read, within a limit.
struct Records<'s>(&'s mut Snapshot, Limit<'s>);

impl<'de> DeserializeSeed<'de> for Records<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.files += 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Records<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        List(self.0, self.1).visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut is_known = false;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            self.1.check().map_err(A::Error::custom)?;
            match plain(&name).as_str() {
                "announcement" => {
                    map.next_value_seed(List(self.0, self.1))?;
                    is_known = true;
                }
                "lastupdatedate" => {
                    let text = map.next_value::<Text>()?.0.unwrap_or_default();
                    self.0.updated(date(&text).map_err(A::Error::custom)?);
                }
                _ if RegistrationNumber::read(&super::normalized(&name)).is_ok() => {
                    for record in map.next_value::<OneOrMore>()?.0 {
                        let record = Record { number: Some(name.to_string()), ..record };
                        self.0.add(record).map_err(A::Error::custom)?;
                    }
                    is_known = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if is_known { Ok(()) } else { Err(A::Error::custom(format!("expected {EXPECTED}"))) }
    }
}

/// Adds a list of records to a snapshot, within a limit.
struct List<'s>(&'s mut Snapshot, Limit<'s>);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for at in 0usize.. {
            self.1.check().map_err(A::Error::custom)?;
            let in_record = |error: &dyn fmt::Display| A::Error::custom(format!("record {at}: {error}"));
            match list.next_element::<Record>().map_err(|error| in_record(&error))? {
                Some(record) => self.0.add(record).map_err(|error| in_record(&error))?,
                None => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
