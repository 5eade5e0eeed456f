//! Values: ciphertexts that stay in a session's arena between the circuits that use them.
//!
//! A circuit that has an input with a name finds the value in the arena, if an earlier circuit has left it there. Then
//! the device need not write it. At the end of a circuit, its inputs and results with names become values. The caller
//! has the words of every value, so a value that no circuit reads may be dropped at any time. Values take room that
//! circuits leave: no circuit waits, and none is refused, because of a value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::circuits::{CircuitBooks, Taken};
use super::devices::DeviceBooks;
use crate::ids::{SessionId, ValueId};
use crate::work::{NamedInput, NamedSlots, SlotKind};

/// An arena without lists may grow to this part of the room for all arenas because of values.
const VALUES_SHARE: u64 = 16;

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

    /// Finds a value for a circuit that reads it. [`Values::let_go`] must follow.
    fn read(&mut self, named: &NamedSlots) -> Option<Arc<[u32]>> {
        let books = self.of.get_mut(&named.value).filter(|books| books.slots.len() == named.slots.len())?;
        self.unread.remove(&(books.last_use, named.value));
        books.readers += 1;
        Some(books.slots.clone())
    }

    /// Ends the use of a value by a circuit.
    fn let_go(&mut self, value: ValueId) {
        self.uses += 1;
        let books = self.of.get_mut(&value).expect("a value that is read stays");
        books.readers -= 1;
        books.last_use = self.uses;
        if books.readers == 0 {
            self.unread.insert((self.uses, value));
        }
    }

    /// Keeps a value in these slots. Returns false, and keeps nothing, if the value is there already.
    fn keep(&mut self, value: ValueId, slots: Vec<u32>) -> bool {
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

/// The values of circuits on a device.
impl DeviceBooks {
    /// Takes the slots of a circuit that begins. Inputs that are values keep their slots.
    pub(super) fn begin_circuit(
        &mut self,
        session: SessionId,
        count: usize,
        kind: SlotKind,
        inputs: &[NamedInput],
    ) -> Taken {
        let mut slots = vec![None; count];
        let mut there = Vec::new();
        for NamedInput { input, named } in inputs {
            let Some(found) = self.arena(session, kind).values.read(named) else { continue };
            named.slots.iter().zip(&*found).for_each(|(&at, &slot)| slots[at as usize] = Some(slot));
            there.push(*input);
        }
        let own = self.take_slots(session, slots.iter().filter(|slot| slot.is_none()).count(), kind);
        let mut own = own.iter().copied();
        let slots = slots.into_iter().map(|slot| slot.or_else(|| own.next()).expect("a slot for each")).collect();
        Taken { slots, there: there.into() }
    }

    /// Ends a circuit that had this many slots reserved here. `keeps`: the circuit's inputs and results with names
    /// become values.
    pub(super) fn end_circuit(&mut self, session: SessionId, reserved: usize, circuit: &CircuitBooks, keeps: bool) {
        let Some(Taken { slots, there }) = &circuit.taken else { return self.unreserve(session, reserved) };
        let keeps = keeps && self.failure.is_none();
        let arena = self.arena_of(session);
        let mut stay: BTreeSet<u32> = BTreeSet::new();
        for NamedInput { input, named } in &circuit.inputs {
            if there.contains(input) {
                arena.values.let_go(named.value);
                stay.extend(&named.slots);
            }
        }
        let written = circuit.inputs.iter().filter(|named| !there.contains(&named.input)).map(|named| &named.named);
        for named in written.chain(&circuit.results).filter(|_| keeps) {
            let is_free = named.slots.iter().all(|slot| !stay.contains(slot));
            let slots_of = || named.slots.iter().map(|&at| slots[at as usize]).collect();
            if is_free && arena.values.keep(named.value, slots_of()) {
                stay.extend(&named.slots);
            }
        }
        let left: Vec<u32> = (0..).zip(&**slots).filter(|(at, _)| !stay.contains(at)).map(|(_, &slot)| slot).collect();
        self.give_back(session, &left);
        self.unreserve(session, reserved);
    }

    /// Number of slots up to which an arena may grow because of values. An arena for lists has the room of lists. Another
    /// arena has a sixteenth of the room for all arenas, as long as half of that room is left to circuits.
    pub(super) fn slots_with_values(&self, session: SessionId, kind: SlotKind) -> usize {
        if kind.for_lists {
            return self.list_slots_max(kind);
        }
        let all = self.limits.arena_bytes_max;
        let left = (all / 2).saturating_sub(self.claims_but_of(session));
        (left.min(all / VALUES_SHARE) / kind.bytes) as usize
    }

    /// Drops the values of a session that no circuit reads.
    pub(super) fn drop_values(&mut self, session: SessionId) {
        while self.drop_oldest_value(session) {}
    }

    /// Drops the value of a session that was not used for the longest time. Returns false if there is none.
    pub(super) fn drop_oldest_value(&mut self, session: SessionId) -> bool {
        let Some(dropped) = self.arena_if_any(session).and_then(|arena| arena.values.drop_oldest()) else {
            return false;
        };
        self.give_back(session, &dropped);
        true
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
