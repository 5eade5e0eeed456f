//! Residency: the parts of keys and the tables on a device, their sizes, and the choice of those to evict when others
//! need room. In this file, tables are parts too.
//!
//! The state of a part changes along `Absent -> Loading -> Resident <-> Pinned`, and from `Resident` through `Evicting`
//! back to `Absent`. Bytes are taken when a load is commanded and given back when an eviction is commanded. The device
//! carries out its commands one after another, so a load after an eviction finds the room.
//!
//! Work needs a set of parts, which is loaded as a whole. Parts of the set that are already on the device are pinned
//! meanwhile. Otherwise two sessions whose sets do not fit together could evict each other's parts for ever.

use std::collections::BTreeMap;

use crate::ids::{PartId, Prepared, SessionId};

/// The residency of a part on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartState {
    /// Not on the device.
    Absent,
    /// The device has the command to load the part and has not reported yet.
    Loading,
    /// On the device, and may be evicted.
    Resident,
    /// On the device, and needed by batches or by a load of further parts of its set.
    Pinned,
    /// The device has the command to evict the part and has not reported yet.
    Evicting,
}

/// The parts on one device.
#[derive(Debug)]
pub(crate) struct Residency {
    bytes: u64,
    bytes_max: u64,
    parts: BTreeMap<Prepared, PartBooks>,
    /// The number of parts in [`PartState::Evicting`].
    evicting: usize,
    uses: u64,
}

/// The record of a part that is on the device or on its way.
#[derive(Debug)]
struct PartBooks {
    state: PartState,
    bytes: u64,
    last_use: u64,
    /// The number of batches and loads that need the part.
    pins: usize,
}

impl Residency {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes: 0, bytes_max, parts: BTreeMap::new(), evicting: 0, uses: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn state(&self, part: Prepared) -> PartState {
        self.parts.get(&part).map_or(PartState::Absent, |part| part.state)
    }

    /// The state of a set of parts: `Resident` if all of them are on the device; otherwise the first of `Evicting`,
    /// `Loading` and `Absent` that a part has.
    pub(crate) fn state_of_set(&self, set: &[Prepared]) -> PartState {
        let any = |state: PartState| set.iter().any(|&part| self.state(part) == state);
        let awaited =
            [PartState::Evicting, PartState::Loading, PartState::Absent].into_iter().find(|&state| any(state));
        awaited.unwrap_or(PartState::Resident)
    }

    /// The parts of a session's key that are on the device, or on their way to or from it.
    pub(crate) fn parts_of(&self, session: SessionId) -> impl Iterator<Item = (Prepared, PartState)> + '_ {
        let all = Prepared::Part(session, PartId(0))..=Prepared::Part(session, PartId(u32::MAX));
        self.parts.range(all).map(|(&part, books)| (part, books.state))
    }

    /// Whether a set would fit if everything else that may be evicted were evicted. `set` includes the size of each
    /// part.
    pub(crate) fn could_hold(&self, set: &[(Prepared, u64)]) -> bool {
        let is_kept = |part: &Prepared, books: &PartBooks| {
            let of_set = set.iter().any(|(of, _)| of == part);
            matches!(books.state, PartState::Pinned | PartState::Loading) && !of_set
        };
        let kept = self.parts.iter().filter(|(part, books)| is_kept(part, books)).map(|(_, books)| books.bytes);
        let needed = kept.chain(set.iter().map(|&(_, bytes)| bytes)).fold(0, u64::saturating_add);
        needed <= self.bytes_max
    }

    /// Chooses parts to evict, least recently used first, until `bytes` more bytes fit on the device. Marks these parts
    /// as evicting and returns them. If `bytes` is `bytes_max`, everything that may be evicted is evicted.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Vec<Prepared> {
        let mut evicted = Vec::new();
        while self.bytes.saturating_add(bytes) > self.bytes_max {
            let candidates = self.parts.iter().filter(|(_, books)| books.state == PartState::Resident);
            let Some((&part, _)) = candidates.min_by_key(|(_, books)| books.last_use) else { break };
            self.evict(part);
            evicted.push(part);
        }
        evicted
    }

    /// Records that the device gets the command to load these parts. Room must have been made before.
    pub(crate) fn load(&mut self, parts: &[(Prepared, u64)]) {
        for &(part, bytes) in parts {
            assert!(self.bytes + bytes <= self.bytes_max, "room is made before a load");
            let books = PartBooks { state: PartState::Loading, bytes, last_use: self.uses, pins: 0 };
            let before = self.parts.insert(part, books);
            assert!(before.is_none(), "a part is loaded once");
            self.bytes += bytes;
        }
    }

    pub(crate) fn loaded(&mut self, parts: &[Prepared]) {
        for &part in parts {
            self.shift(part, PartState::Loading, PartState::Resident);
        }
    }

    pub(crate) fn load_failed(&mut self, parts: &[Prepared]) {
        for part in parts {
            let books = self.parts.remove(part).expect("the part was loading");
            assert_eq!(books.state, PartState::Loading);
            self.bytes -= books.bytes;
        }
    }

    /// Pins parts for a batch or a load. These parts are now the most recently used.
    pub(crate) fn pin(&mut self, parts: &[Prepared]) {
        self.uses += 1;
        for part in parts {
            let books = self.parts.get_mut(part).expect("the part is on the device");
            assert!(
                matches!(books.state, PartState::Resident | PartState::Pinned),
                "a needed part is not {:?}",
                books.state
            );
            (books.state, books.last_use) = (PartState::Pinned, self.uses);
            books.pins += 1;
        }
    }

    /// Unpins parts after the end of a batch or load that needed them.
    pub(crate) fn unpin(&mut self, parts: &[Prepared]) {
        for part in parts {
            let books = self.parts.get_mut(part).expect("the part is on the device");
            books.pins -= 1;
            if books.pins == 0 {
                books.state = PartState::Resident;
            }
        }
    }

    /// Records that the device gets the command to evict this part.
    pub(crate) fn evict(&mut self, part: Prepared) {
        let bytes = self.shift(part, PartState::Resident, PartState::Evicting).bytes;
        self.bytes -= bytes;
        self.evicting += 1;
    }

    /// Whether the device has not yet reported some evictions that were commanded.
    pub(crate) fn is_evicting(&self) -> bool {
        self.evicting > 0
    }

    /// Records that the device has overwritten the part.
    pub(crate) fn evicted(&mut self, part: Prepared) {
        let books = self.parts.remove(&part).expect("the part was evicting");
        assert_eq!(books.state, PartState::Evicting);
        self.evicting -= 1;
    }

    /// Removes all parts, because the device is gone.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        (self.bytes, self.evicting) = (0, 0);
    }

    fn shift(&mut self, part: Prepared, from: PartState, to: PartState) -> &mut PartBooks {
        let books = self.parts.get_mut(&part).expect("the part is on the device");
        assert_eq!(books.state, from, "on its way to {to:?}");
        books.state = to;
        books
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ParamsId;

    const A: Prepared = Prepared::Part(SessionId(1), PartId(0));
    const B: Prepared = Prepared::Part(SessionId(2), PartId(0));
    const C: Prepared = Prepared::Tables(ParamsId(3));
    /// Another part of the key of `A`.
    const A_TWO: Prepared = Prepared::Part(SessionId(1), PartId(1));

    fn holding(bytes_max: u64, parts: &[Prepared]) -> Residency {
        let mut residency = Residency::new(bytes_max);
        for &part in parts {
            residency.load(&[(part, 10)]);
            residency.loaded(&[part]);
            residency.pin(&[part]);
            residency.unpin(&[part]);
        }
        residency
    }

    #[test]
    fn the_least_recently_used_part_leaves_first() {
        let mut residency = holding(30, &[A, B, C]);
        residency.pin(&[A]);
        residency.unpin(&[A]);
        assert_eq!(residency.make_room(15), [B, C]);
        assert_eq!(residency.state(A), PartState::Resident);
        assert_eq!(residency.bytes(), 10);
    }

    #[test]
    fn a_pinned_part_stays() {
        let mut residency = holding(20, &[A, B]);
        residency.pin(&[A]);
        assert_eq!(residency.make_room(20), [B]);
        assert_eq!(residency.state(A), PartState::Pinned);
    }

    #[test]
    fn a_part_stays_until_the_last_batch_that_needs_it_has_ended() {
        let mut residency = holding(10, &[A]);
        residency.pin(&[A]);
        residency.pin(&[A]);
        assert!(!residency.could_hold(&[(B, 10)]));
        residency.unpin(&[A]);
        assert_eq!(residency.state(A), PartState::Pinned);
        residency.unpin(&[A]);
        assert_eq!(residency.state(A), PartState::Resident);
        assert!(residency.could_hold(&[(B, 10)]));
    }

    #[test]
    fn nothing_leaves_while_there_is_room() {
        let mut residency = holding(30, &[A, B]);
        assert_eq!(residency.make_room(10), []);
    }

    #[test]
    fn a_failed_load_gives_its_bytes_back() {
        let mut residency = holding(10, &[]);
        residency.load(&[(A, 7), (A_TWO, 3)]);
        residency.load_failed(&[A, A_TWO]);
        assert_eq!((residency.bytes(), residency.state(A)), (0, PartState::Absent));
    }

    #[test]
    fn an_evicted_part_is_absent_only_when_the_device_says_so() {
        let mut residency = holding(10, &[A]);
        residency.evict(A);
        assert_eq!((residency.bytes(), residency.state(A)), (0, PartState::Evicting));
        residency.evicted(A);
        assert_eq!(residency.state(A), PartState::Absent);
    }

    #[test]
    fn a_set_is_there_when_all_of_it_is_and_parts_of_it_that_are_there_count_once() {
        let mut residency = holding(30, &[A, B]);
        let set = [A, A_TWO];
        assert_eq!(residency.state_of_set(&set), PartState::Absent);
        assert!(residency.could_hold(&[(A, 10), (A_TWO, 20)]), "B may go");
        residency.pin(&[A]);
        assert!(residency.could_hold(&[(A, 10), (A_TWO, 20)]), "what is there counts once");
        residency.pin(&[B]);
        assert!(!residency.could_hold(&[(A, 10), (A_TWO, 20)]));
        residency.unpin(&[B]);
        assert_eq!(residency.make_room(20), [B], "what a load adds to is pinned");
        residency.load(&[(A_TWO, 20)]);
        assert_eq!(residency.state_of_set(&set), PartState::Loading);
        residency.loaded(&[A_TWO]);
        assert_eq!(residency.state_of_set(&set), PartState::Resident);
        assert_eq!(residency.parts_of(SessionId(1)).map(|(part, _)| part).collect::<Vec<_>>(), set);
    }
}
