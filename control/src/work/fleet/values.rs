//! Operands and results that a worker remembers by their names, so that a chain of requests under one key need not send them
//! again. What is stored under a name never changes, so the worker may forget any of them at any time: it then fetches the
//! work with all operands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::work::key::{KeyName, Operand};
use crate::work::named::NamedBytes;

/// The remembered values of all keys. Clones share them.
#[derive(Clone)]
pub struct RememberedValues {
    shared: Arc<Shared>,
}

struct Shared {
    /// Largest size in bytes of all values together.
    bytes_max: usize,
    list: Mutex<List>,
    found: AtomicU64,
    missed: AtomicU64,
}

#[derive(Default)]
struct List {
    values: HashMap<(KeyName, Operand), Value>,
    /// The names in the order of their use, with the number of the use. A name that was used again stands there more than once.
    order: VecDeque<(u64, (KeyName, Operand))>,
    uses: u64,
    bytes: usize,
    /// Keys that have ended, oldest first. Work that ends late leaves no values under them.
    ended: VecDeque<KeyName>,
}

/// Largest number of ended keys that are remembered.
const ENDED_MAX: usize = 4096;

struct Value {
    bytes: NamedBytes,
    last_use: u64,
}

impl RememberedValues {
    /// Remembers values of at most this size in bytes together.
    pub fn new(bytes_max: usize) -> RememberedValues {
        let (list, found, missed) = Default::default();
        RememberedValues { shared: Arc::new(Shared { bytes_max, list, found, missed }) }
    }

    /// Returns the value of this name under this key, if the worker remembers it.
    pub fn find(&self, key: &KeyName, operand: &Operand) -> Option<NamedBytes> {
        let found = self.shared.list.lock().find(&(*key, operand.clone()));
        let count = if found.is_some() { &self.shared.found } else { &self.shared.missed };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Remembers a value. If there is no room, the values that were unused for longest are forgotten.
    pub fn remember(&self, key: KeyName, operand: Operand, bytes: NamedBytes) {
        self.shared.list.lock().put((key, operand), bytes, self.shared.bytes_max);
    }

    /// Forgets the values of a key that has ended. They are overwritten once their last reader has ended.
    pub fn end(&self, key: &KeyName) {
        let mut list = self.shared.list.lock();
        list.forget(|of| of == key);
        if list.ended.len() >= ENDED_MAX {
            list.ended.pop_front();
        }
        list.ended.push_back(*key);
    }

    /// Forgets the values of all keys of sessions.
    pub fn forget_sessions(&self) {
        self.shared.list.lock().forget(|of| of.numbers_key_id().is_none());
    }

    /// Returns how often a value was looked for and found, and how often it was not.
    pub fn counts(&self) -> [u64; 2] {
        [&self.shared.found, &self.shared.missed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the size in bytes of the remembered values.
    pub fn bytes(&self) -> u64 {
        self.shared.list.lock().bytes as u64
    }
}

impl List {
    fn find(&mut self, name: &(KeyName, Operand)) -> Option<NamedBytes> {
        let value = self.values.get_mut(name)?;
        self.uses += 1;
        value.last_use = self.uses;
        self.order.push_back((self.uses, name.clone()));
        let bytes = value.bytes.clone();
        self.shorten();
        Some(bytes)
    }

    fn put(&mut self, name: (KeyName, Operand), bytes: NamedBytes, bytes_max: usize) {
        if bytes.len() > bytes_max || self.values.contains_key(&name) || self.ended.contains(&name.0) {
            return;
        }
        while self.bytes + bytes.len() > bytes_max {
            let Some((used, oldest)) = self.order.pop_front() else { return };
            if self.values.get(&oldest).is_some_and(|value| value.last_use == used) {
                self.drop_value(&oldest);
            }
        }
        self.uses += 1;
        self.bytes += bytes.len();
        self.order.push_back((self.uses, name.clone()));
        self.values.insert(name, Value { bytes, last_use: self.uses });
    }

    fn forget(&mut self, is_of: impl Fn(&KeyName) -> bool) {
        let names: Vec<_> = self.values.keys().filter(|(key, _)| is_of(key)).cloned().collect();
        names.iter().for_each(|name| self.drop_value(name));
        self.shorten();
    }

    fn drop_value(&mut self, name: &(KeyName, Operand)) {
        if let Some(value) = self.values.remove(name) {
            self.bytes -= value.bytes.len();
        }
    }

    /// Drops the marks of earlier uses, once they are most of the list.
    fn shorten(&mut self) {
        if self.order.len() > 2 * self.values.len() + 16 {
            let values = &self.values;
            self.order.retain(|(used, name)| values.get(name).is_some_and(|value| value.last_use == *used));
        }
    }
}

#[cfg(test)]
mod tests {
    use api::HandleId;
    use zeroize::Zeroizing;

    use super::*;

    fn key(kind: &str, digit: &str) -> KeyName {
        KeyName::of_label(&format!("{kind}{}", digit.repeat(64))).unwrap()
    }

    fn value(number: u128) -> Operand {
        Operand::Value(HandleId::from_bits(number))
    }

    fn bytes(length: usize) -> NamedBytes {
        Arc::new(Zeroizing::new(vec![7; length]))
    }

    #[test]
    fn values_that_were_used_last_are_remembered_within_the_bound() {
        let values = RememberedValues::new(100);
        let one = key("s", "1");
        for number in 0..10 {
            values.remember(one, value(number), bytes(10));
        }
        assert!(values.find(&one, &value(0)).is_some());
        values.remember(one, value(10), bytes(15));
        // the two that were unused for longest made room
        let there: Vec<u128> = (0..11).filter(|&number| values.find(&one, &value(number)).is_some()).collect();
        assert_eq!((there, values.bytes()), (vec![0, 3, 4, 5, 6, 7, 8, 9, 10], 95));
        values.remember(one, value(11), bytes(101));
        assert!(values.find(&one, &value(11)).is_none());
        assert_eq!((values.bytes(), values.counts()), (95, [10, 3]));
        values.remember(one, value(12), bytes(100));
        assert_eq!(values.bytes(), 100);
    }

    #[test]
    fn a_name_means_nothing_under_another_key_and_ends_with_its_key() {
        let values = RememberedValues::new(1000);
        let [one, other, numbers] = [key("s", "1"), key("s", "2"), key("n", "1")];
        for of in [one, other, numbers] {
            values.remember(of, value(1), bytes(3));
        }
        values.remember(one, value(2), bytes(3));
        values.end(&one);
        // work under an ended key ends late
        values.remember(one, value(3), bytes(3));
        let found = |of| values.find(of, &value(1)).is_some();
        assert_eq!([found(&one), found(&other), found(&numbers)], [false, true, true]);
        assert!(values.find(&one, &value(3)).is_none());
        values.forget_sessions();
        assert_eq!([found(&other), found(&numbers)], [false, true]);
        assert_eq!(values.bytes(), 3);
    }

    #[test]
    fn marks_of_uses_stay_few() {
        let values = RememberedValues::new(1000);
        values.remember(key("s", "1"), value(1), bytes(3));
        for _ in 0..1000 {
            assert!(values.find(&key("s", "1"), &value(1)).is_some());
        }
        assert!(values.shared.list.lock().order.len() < 32);
    }
}
