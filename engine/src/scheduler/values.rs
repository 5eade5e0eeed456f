//! Values: ciphertexts that stay in a session's arena between the circuits that use them.
//!
//! A circuit that has an input with a name finds the value in the arena, if an earlier circuit has left it there. Then
//! the device need not write it. At the end of a circuit, its inputs and results with names become values. The caller
//! has the words of every value, so a value that no circuit reads may be dropped at any time. Values take room that
//! circuits leave: no circuit waits, and none is refused, because of a value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::ValueId;
use crate::work::NamedSlots;

/// The values in one arena.
#[derive(Debug, Default)]
pub(super) struct Values {
    of: BTreeMap<ValueId, ValueBooks>,
    /// The values that no circuit reads, least recently used first.
    unread: BTreeSet<(u64, ValueId)>,
    /// Slots of all values together.
    slots: usize,
    uses: u64,
}

/// The record of a value.
#[derive(Debug)]
struct ValueBooks {
    slots: Arc<[u32]>,
    last_use: u64,
    /// Number of circuits that read the value.
    readers: usize,
}

impl Values {
    /// The number of slots that the values have.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Whether a value is here.
    pub(super) fn contains(&self, value: ValueId) -> bool {
        self.of.contains_key(&value)
    }

    /// Finds a value for a circuit that reads it. [`Values::let_go`] must follow.
    pub(super) fn read(&mut self, named: &NamedSlots) -> Option<Arc<[u32]>> {
        let books = self.of.get_mut(&named.value).filter(|books| books.slots.len() == named.slots.len())?;
        self.unread.remove(&(books.last_use, named.value));
        books.readers += 1;
        Some(books.slots.clone())
    }

    /// Ends the use of a value by a circuit.
    pub(super) fn let_go(&mut self, value: ValueId) {
        self.uses += 1;
        let books = self.of.get_mut(&value).expect("a value that is read stays");
        books.readers -= 1;
        books.last_use = self.uses;
        if books.readers == 0 {
            self.unread.insert((self.uses, value));
        }
    }

    /// Keeps a value in these slots. Returns false, and keeps nothing, if the value is there already.
    pub(super) fn keep(&mut self, value: ValueId, slots: Vec<u32>) -> bool {
        if self.of.contains_key(&value) {
            return false;
        }
        self.uses += 1;
        self.slots += slots.len();
        self.unread.insert((self.uses, value));
        self.of.insert(value, ValueBooks { slots: slots.into(), last_use: self.uses, readers: 0 });
        true
    }

    /// Drops the value that was not used for the longest time. Returns its slots; `None` if all values are read.
    pub(super) fn drop_oldest(&mut self) -> Option<Arc<[u32]>> {
        let (_, value) = self.unread.pop_first()?;
        let dropped = self.of.remove(&value).expect("a value on the list is there").slots;
        self.slots -= dropped.len();
        Some(dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(value: u128, slots: &[u32]) -> NamedSlots {
        NamedSlots { value: ValueId(value), slots: slots.to_vec() }
    }

    fn values(kept: &[(u128, &[u32])]) -> Values {
        let mut values = Values::default();
        kept.iter().for_each(|&(value, slots)| assert!(values.keep(ValueId(value), slots.to_vec())));
        values
    }

    #[test]
    fn the_value_that_was_not_used_for_the_longest_time_is_dropped_first() {
        let mut values = values(&[(1, &[0, 1]), (2, &[2]), (3, &[3])]);
        assert_eq!(values.read(&named(1, &[7, 8])).as_deref(), Some(&[0, 1][..]));
        values.let_go(ValueId(1));
        assert_eq!(values.slots(), 4);
        let dropped: Vec<_> = std::iter::from_fn(|| values.drop_oldest()).collect();
        assert_eq!(dropped.iter().map(|slots| &slots[..]).collect::<Vec<_>>(), [&[2][..], &[3], &[0, 1]]);
        assert_eq!(values.slots(), 0);
    }

    #[test]
    fn a_value_stays_until_its_last_reader_lets_it_go() {
        let mut values = values(&[(1, &[5])]);
        assert!(values.read(&named(1, &[0])).is_some() && values.read(&named(1, &[3])).is_some());
        values.let_go(ValueId(1));
        assert_eq!(values.drop_oldest(), None);
        values.let_go(ValueId(1));
        assert_eq!(values.drop_oldest().as_deref(), Some(&[5][..]));
        assert_eq!(values.read(&named(1, &[0])), None);
    }

    #[test]
    fn a_value_is_kept_once_and_is_not_found_in_another_size() {
        let mut values = values(&[(1, &[5])]);
        assert!(!values.keep(ValueId(1), vec![6]));
        assert_eq!(values.read(&named(1, &[0, 1])), None);
        assert_eq!(values.slots(), 1);
    }
}
