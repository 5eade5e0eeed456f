//! The records of one number: which of them are registrations.
//!
//! Records of one day of registration are successive states of one registration, of which the newest counts. Records of
//! different days are different registrations.

use time::Date;

use super::Registration;

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

/// The age of a record among the records of its number; the greatest is the newest. The order of the members is the
/// order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age {
    /// `latest`: the record is the authority's latest of the number.
    pub is_latest: bool,
    /// `updateDate`.
    pub updated_on: Option<Date>,
    /// Which of several files, in the order in which they were read.
    pub file: u32,
    /// `sequenceNumber`, which counts within a file.
    pub sequence: Option<u64>,
    /// The place of the record in the file.
    pub place: usize,
}

/// A record that deletes records before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deletion {
    age: Age,
    /// Whether the record says anything of `latest`. Published deletions leave members empty, which then says nothing.
    has_latest: bool,
}

/// The states of one registration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct States {
    registered_on: Date,
    newest: Option<(Age, Entry)>,
    /// The oldest record, and whether it is a correction (`correct`).
    oldest: Option<(Age, bool)>,
    deletion: Option<Deletion>,
}

/// The records of one number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    registrations: Vec<States>,
    /// A deletion of all registrations of the number before it.
    deletion: Option<Deletion>,
}

impl Deletion {
    /// Compares what the deletion says with the same of a record.
    fn is_newer_than(&self, other: Age) -> bool {
        let age = self.age;
        let other = Age {
            is_latest: if self.has_latest { other.is_latest } else { age.is_latest },
            updated_on: age.updated_on.and(other.updated_on),
            sequence: age.sequence.and(other.sequence),
            ..other
        };
        age > other
    }
}

impl History {
    /// Adds a state of the registration of its day. `is_correction`: the record corrects published ones.
    pub fn add(&mut self, age: Age, is_correction: bool, entry: Entry) {
        let states = self.of_day(entry.registration.registered_on);
        if states.oldest.is_none_or(|(oldest, _)| age < oldest) {
            states.oldest = Some((age, is_correction));
        }
        if states.newest.as_ref().is_none_or(|(newest, _)| age > *newest) {
            states.newest = Some((age, entry));
        }
    }

    /// Adds a deletion of the registration of a day, or of all registrations of the number. `has_latest`: the record
    /// says whether it is the latest.
    pub fn delete(&mut self, registered_on: Option<Date>, age: Age, has_latest: bool) {
        let deletion = match registered_on {
            Some(day) => &mut self.of_day(day).deletion,
            None => &mut self.deletion,
        };
        if deletion.is_none_or(|known| age > known.age) {
            *deletion = Some(Deletion { age, has_latest });
        }
    }

    /// The newest state of each registration that was not deleted and whose day was not corrected.
    pub fn registrations(&self) -> impl Iterator<Item = &Entry> {
        self.registrations.iter().filter_map(|states| {
            let (age, entry) = states.newest.as_ref()?;
            let is_deleted = [states.deletion, self.deletion].iter().flatten().any(|gone| gone.is_newer_than(*age));
            (!is_deleted && !self.is_day_corrected(*age, entry.registration)).then_some(entry)
        })
    }

    /// Whether another registration begins with a correction that is newer. A number has no second registration while
    /// one is in force, so the correction replaces the day of a registration without an end.
    fn is_day_corrected(&self, age: Age, registration: Registration) -> bool {
        let is_open = registration.revoked_on.is_none() && registration.expired_on.is_none();
        let mut others = self.registrations.iter().filter(|states| states.registered_on != registration.registered_on);
        is_open && others.any(|states| states.oldest.is_some_and(|(begun, is_correction)| is_correction && begun > age))
    }

    /// The number of registrations, with deleted ones.
    pub fn len(&self) -> usize {
        self.registrations.len()
    }

    fn of_day(&mut self, day: Date) -> &mut States {
        let at = self.registrations.iter().position(|states| states.registered_on == day).unwrap_or_else(|| {
            self.registrations.push(States { registered_on: day, newest: None, oldest: None, deletion: None });
            self.registrations.len() - 1
        });
        &mut self.registrations[at]
    }
}

#[cfg(test)]
mod tests;
