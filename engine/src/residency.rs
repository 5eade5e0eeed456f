//! Residency: which parts of keys are on a device, how many bytes they take, and which parts are evicted when others
//! need room.
//!
//! The state of a part changes along `Absent -> Loading -> Resident <-> Pinned`, and from `Resident` through `Evicting`
//! back to `Absent`. Bytes are taken when a load is commanded and given back when an eviction is commanded. The device
//! carries out its commands one after another, so a load after an eviction finds the room.
//!
//! Work needs a set of parts, which is loaded as a whole. Parts of the set that are already on the device are pinned
//! meanwhile. Otherwise two sessions whose sets do not fit together could evict each other's parts for ever.

use std::collections::BTreeMap;

use crate::ids::{PartId, SessionId};

/// The residency of a part of a session's key on the device.
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

/// The parts of keys on one device.
#[derive(Debug)]
pub(crate) struct Residency {
    bytes: u64,
    bytes_max: u64,
    parts: BTreeMap<(SessionId, PartId), PartBooks>,
    /// The number of parts in [`PartState::Evicting`].
    evicting: usize,
    uses: u64,
}

/// The record of a part of a key that is on the device or on its way.
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

    pub(crate) fn state(&self, session: SessionId, part: PartId) -> PartState {
        self.parts.get(&(session, part)).map_or(PartState::Absent, |part| part.state)
    }

    /// The state of a set of parts: `Resident` if all of them are on the device; otherwise the first of `Evicting`,
    /// `Loading` and `Absent` that a part has.
    pub(crate) fn state_of_set(&self, session: SessionId, set: &[PartId]) -> PartState {
        let any = |state: PartState| set.iter().any(|&part| self.state(session, part) == state);
        let awaited =
            [PartState::Evicting, PartState::Loading, PartState::Absent].into_iter().find(|&state| any(state));
        awaited.unwrap_or(PartState::Resident)
    }

    /// The parts of a session that are on the device, or on their way to or from it.
    pub(crate) fn parts_of(&self, session: SessionId) -> impl Iterator<Item = (PartId, PartState)> + '_ {
        let all = (session, PartId(0))..=(session, PartId(u32::MAX));
        self.parts.range(all).map(|(&(_, id), part)| (id, part.state))
    }

    /// Whether a set would fit if everything else that may be evicted were evicted. `set` includes the size of each
    /// part.
    pub(crate) fn could_hold(&self, session: SessionId, set: &[(PartId, u64)]) -> bool {
        let is_kept = |key: &(SessionId, PartId), part: &PartBooks| {
            let of_set = key.0 == session && set.iter().any(|&(id, _)| id == key.1);
            matches!(part.state, PartState::Pinned | PartState::Loading) && !of_set
        };
        let kept = self.parts.iter().filter(|(key, part)| is_kept(key, part)).map(|(_, part)| part.bytes);
        let needed = kept.chain(set.iter().map(|&(_, bytes)| bytes)).fold(0, u64::saturating_add);
        needed <= self.bytes_max
    }

    /// Chooses parts to evict, least recently used first, until `bytes` more bytes fit on the device. Marks these parts
    /// as evicting and returns them. If `bytes` is `bytes_max`, everything that may be evicted is evicted.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Vec<(SessionId, PartId)> {
        let mut evicted = Vec::new();
        while self.bytes.saturating_add(bytes) > self.bytes_max {
            let candidates = self.parts.iter().filter(|(_, part)| part.state == PartState::Resident);
            let Some((&(session, id), _)) = candidates.min_by_key(|(_, part)| part.last_use) else { break };
            self.evict(session, id);
            evicted.push((session, id));
        }
        evicted
    }

    /// Records that the device gets the command to load these parts. Room must have been made before.
    pub(crate) fn load(&mut self, session: SessionId, parts: &[(PartId, u64)]) {
        for &(id, bytes) in parts {
            assert!(self.bytes + bytes <= self.bytes_max, "room is made before a load");
            let part = PartBooks { state: PartState::Loading, bytes, last_use: self.uses, pins: 0 };
            let before = self.parts.insert((session, id), part);
            assert!(before.is_none(), "a part is loaded once");
            self.bytes += bytes;
        }
    }

    pub(crate) fn loaded(&mut self, session: SessionId, parts: &[PartId]) {
        for &id in parts {
            self.shift(session, id, PartState::Loading, PartState::Resident);
        }
    }

    pub(crate) fn load_failed(&mut self, session: SessionId, parts: &[PartId]) {
        for &id in parts {
            let part = self.parts.remove(&(session, id)).expect("the part was loading");
            assert_eq!(part.state, PartState::Loading);
            self.bytes -= part.bytes;
        }
    }

    /// Pins parts for a batch or a load. These parts are now the most recently used.
    pub(crate) fn pin(&mut self, session: SessionId, parts: &[PartId]) {
        self.uses += 1;
        for &id in parts {
            let part = self.parts.get_mut(&(session, id)).expect("the part is on the device");
            assert!(
                matches!(part.state, PartState::Resident | PartState::Pinned),
                "a needed part is not {:?}",
                part.state
            );
            (part.state, part.last_use) = (PartState::Pinned, self.uses);
            part.pins += 1;
        }
    }

    /// Unpins parts after the end of a batch or load that needed them.
    pub(crate) fn unpin(&mut self, session: SessionId, parts: &[PartId]) {
        for &id in parts {
            let part = self.parts.get_mut(&(session, id)).expect("the part is on the device");
            part.pins -= 1;
            if part.pins == 0 {
                part.state = PartState::Resident;
            }
        }
    }

    /// Records that the device gets the command to evict this part.
    pub(crate) fn evict(&mut self, session: SessionId, part: PartId) {
        let bytes = self.shift(session, part, PartState::Resident, PartState::Evicting).bytes;
        self.bytes -= bytes;
        self.evicting += 1;
    }

    /// Whether the device has not yet reported some evictions that were commanded.
    pub(crate) fn is_evicting(&self) -> bool {
        self.evicting > 0
    }

    /// Records that the device has overwritten the part.
    pub(crate) fn evicted(&mut self, session: SessionId, part: PartId) {
        let part = self.parts.remove(&(session, part)).expect("the part was evicting");
        assert_eq!(part.state, PartState::Evicting);
        self.evicting -= 1;
    }

    /// Removes all parts, because the device is gone.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        (self.bytes, self.evicting) = (0, 0);
    }

    fn shift(&mut self, session: SessionId, id: PartId, from: PartState, to: PartState) -> &mut PartBooks {
        let part = self.parts.get_mut(&(session, id)).expect("the part is on the device");
        assert_eq!(part.state, from, "on its way to {to:?}");
        part.state = to;
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const C: SessionId = SessionId(3);
    const ONE: PartId = PartId(0);
    const TWO: PartId = PartId(1);

    fn holding(bytes_max: u64, sessions: &[SessionId]) -> Residency {
        let mut residency = Residency::new(bytes_max);
        for &session in sessions {
            residency.load(session, &[(ONE, 10)]);
            residency.loaded(session, &[ONE]);
            residency.pin(session, &[ONE]);
            residency.unpin(session, &[ONE]);
        }
        residency
    }

    #[test]
    fn the_least_recently_used_part_leaves_first() {
        let mut residency = holding(30, &[A, B, C]);
        residency.pin(A, &[ONE]);
        residency.unpin(A, &[ONE]);
        assert_eq!(residency.make_room(15), [(B, ONE), (C, ONE)]);
        assert_eq!(residency.state(A, ONE), PartState::Resident);
        assert_eq!(residency.bytes(), 10);
    }

    #[test]
    fn a_pinned_part_stays() {
        let mut residency = holding(20, &[A, B]);
        residency.pin(A, &[ONE]);
        assert_eq!(residency.make_room(20), [(B, ONE)]);
        assert_eq!(residency.state(A, ONE), PartState::Pinned);
    }

    #[test]
    fn a_part_stays_until_the_last_batch_that_needs_it_has_ended() {
        let mut residency = holding(10, &[A]);
        residency.pin(A, &[ONE]);
        residency.pin(A, &[ONE]);
        assert!(!residency.could_hold(B, &[(ONE, 10)]));
        residency.unpin(A, &[ONE]);
        assert_eq!(residency.state(A, ONE), PartState::Pinned);
        residency.unpin(A, &[ONE]);
        assert_eq!(residency.state(A, ONE), PartState::Resident);
        assert!(residency.could_hold(B, &[(ONE, 10)]));
    }

    #[test]
    fn nothing_leaves_while_there_is_room() {
        let mut residency = holding(30, &[A, B]);
        assert_eq!(residency.make_room(10), []);
    }

    #[test]
    fn a_failed_load_gives_its_bytes_back() {
        let mut residency = holding(10, &[]);
        residency.load(A, &[(ONE, 7), (TWO, 3)]);
        residency.load_failed(A, &[ONE, TWO]);
        assert_eq!((residency.bytes(), residency.state(A, ONE)), (0, PartState::Absent));
    }

    #[test]
    fn an_evicted_part_is_absent_only_when_the_device_says_so() {
        let mut residency = holding(10, &[A]);
        residency.evict(A, ONE);
        assert_eq!((residency.bytes(), residency.state(A, ONE)), (0, PartState::Evicting));
        residency.evicted(A, ONE);
        assert_eq!(residency.state(A, ONE), PartState::Absent);
    }

    #[test]
    fn a_set_is_there_when_all_of_it_is_and_parts_of_it_that_are_there_count_once() {
        let mut residency = holding(30, &[A, B]);
        let set = [ONE, TWO];
        assert_eq!(residency.state_of_set(A, &set), PartState::Absent);
        assert!(residency.could_hold(A, &[(ONE, 10), (TWO, 20)]), "B may go");
        residency.pin(A, &[ONE]);
        assert!(residency.could_hold(A, &[(ONE, 10), (TWO, 20)]), "what is there counts once");
        residency.pin(B, &[ONE]);
        assert!(!residency.could_hold(A, &[(ONE, 10), (TWO, 20)]));
        residency.unpin(B, &[ONE]);
        assert_eq!(residency.make_room(20), [(B, ONE)], "what a load adds to is pinned");
        residency.load(A, &[(TWO, 20)]);
        assert_eq!(residency.state_of_set(A, &set), PartState::Loading);
        residency.loaded(A, &[TWO]);
        assert_eq!(residency.state_of_set(A, &set), PartState::Resident);
        assert_eq!(residency.parts_of(A).map(|(part, _)| part).collect::<Vec<_>>(), set);
    }
}
