//! Which prepared keys are on a device, by bytes; who must leave when another needs room.
//!
//! A key walks `Absent -> Loading -> Resident <-> Pinned`, and from `Resident` through `Evicting` back to `Absent`. Bytes are
//! taken when a load is ordered and given back when an eviction is ordered: the device carries out its orders one after
//! another, so what is loaded after an eviction finds the room.

use std::collections::BTreeMap;

use crate::session::SessionId;

/// Where a session's key is with respect to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not there.
    Absent,
    /// Ordered, not there yet.
    Loading,
    /// There, and may be evicted.
    Resident,
    /// There and in use by batches.
    Pinned,
    /// To be overwritten; the device has not yet said that it is.
    Evicting,
}

/// The keys on one device.
#[derive(Debug)]
pub(crate) struct Residency {
    bytes: u64,
    bytes_max: u64,
    keys: BTreeMap<SessionId, Key>,
    /// Keys whose place is [`Place::Evicting`].
    evicting: usize,
    uses: u64,
}

#[derive(Debug)]
struct Key {
    place: Place,
    bytes: u64,
    last_use: u64,
    /// Batches that use it.
    batches: usize,
}

impl Residency {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes: 0, bytes_max, keys: BTreeMap::new(), evicting: 0, uses: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn place(&self, session: SessionId) -> Place {
        self.keys.get(&session).map_or(Place::Absent, |key| key.place)
    }

    /// Whether there would be room for a key of this size if every key that may go went.
    pub(crate) fn could_hold(&self, bytes: u64) -> bool {
        let kept = self.keys.values().filter(|key| matches!(key.place, Place::Pinned | Place::Loading));
        kept.map(|key| key.bytes).sum::<u64>().saturating_add(bytes) <= self.bytes_max
    }

    /// The keys that must go so that `bytes` more fit, least recently used first; they count as evicting from now on.
    /// Asking for all of `bytes_max` clears the device of everything that is not pinned.
    pub(crate) fn make_room(&mut self, bytes: u64) -> Vec<SessionId> {
        let mut evicted = Vec::new();
        while self.bytes + bytes > self.bytes_max {
            let candidates = self.keys.iter().filter(|(_, key)| key.place == Place::Resident);
            let Some((&session, _)) = candidates.min_by_key(|(_, key)| key.last_use) else { break };
            self.evict(session);
            evicted.push(session);
        }
        evicted
    }

    /// A load is ordered. Room was made before.
    pub(crate) fn load(&mut self, session: SessionId, bytes: u64) {
        assert!(self.bytes + bytes <= self.bytes_max, "room is made before a load");
        let key = Key { place: Place::Loading, bytes, last_use: self.uses, batches: 0 };
        let before = self.keys.insert(session, key);
        assert!(before.is_none(), "a key is loaded once");
        self.bytes += bytes;
    }

    pub(crate) fn loaded(&mut self, session: SessionId) {
        self.shift(session, Place::Loading, Place::Resident);
    }

    pub(crate) fn load_failed(&mut self, session: SessionId) {
        let key = self.keys.remove(&session).expect("the key was loading");
        assert_eq!(key.place, Place::Loading);
        self.bytes -= key.bytes;
    }

    /// A batch starts: the key stays, and is now the most recently used.
    pub(crate) fn pin(&mut self, session: SessionId) {
        self.uses += 1;
        let key = self.keys.get_mut(&session).expect("the key is on the device");
        assert!(matches!(key.place, Place::Resident | Place::Pinned), "a batch's key is there, not {:?}", key.place);
        (key.place, key.last_use) = (Place::Pinned, self.uses);
        key.batches += 1;
    }

    /// A batch has ended.
    pub(crate) fn unpin(&mut self, session: SessionId) {
        let key = self.keys.get_mut(&session).expect("the key is on the device");
        key.batches -= 1;
        if key.batches == 0 {
            key.place = Place::Resident;
        }
    }

    /// An eviction is ordered.
    pub(crate) fn evict(&mut self, session: SessionId) {
        let bytes = self.shift(session, Place::Resident, Place::Evicting).bytes;
        self.bytes -= bytes;
        self.evicting += 1;
    }

    /// Whether evictions were ordered and not reported.
    pub(crate) fn is_evicting(&self) -> bool {
        self.evicting > 0
    }

    /// The device has overwritten the key.
    pub(crate) fn evicted(&mut self, session: SessionId) {
        let key = self.keys.remove(&session).expect("the key was evicting");
        assert_eq!(key.place, Place::Evicting);
        self.evicting -= 1;
    }

    /// The device is no more, and with it all keys.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        (self.bytes, self.evicting) = (0, 0);
    }

    fn shift(&mut self, session: SessionId, from: Place, to: Place) -> &mut Key {
        let key = self.keys.get_mut(&session).expect("the key is on the device");
        assert_eq!(key.place, from, "on its way to {to:?}");
        key.place = to;
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const C: SessionId = SessionId(3);

    fn holding(bytes_max: u64, sessions: &[SessionId]) -> Residency {
        let mut residency = Residency::new(bytes_max);
        for &session in sessions {
            residency.load(session, 10);
            residency.loaded(session);
            residency.pin(session);
            residency.unpin(session);
        }
        residency
    }

    #[test]
    fn the_least_recently_used_key_leaves_first() {
        let mut residency = holding(30, &[A, B, C]);
        residency.pin(A);
        residency.unpin(A);
        assert_eq!(residency.make_room(15), [B, C]);
        assert_eq!(residency.place(A), Place::Resident);
        assert_eq!(residency.bytes(), 10);
    }

    #[test]
    fn a_pinned_key_stays() {
        let mut residency = holding(20, &[A, B]);
        residency.pin(A);
        assert_eq!(residency.make_room(20), [B]);
        assert_eq!(residency.place(A), Place::Pinned);
    }

    #[test]
    fn a_key_stays_until_the_last_of_its_batches_has_ended() {
        let mut residency = holding(10, &[A]);
        residency.pin(A);
        residency.pin(A);
        assert!(!residency.could_hold(10));
        residency.unpin(A);
        assert_eq!(residency.place(A), Place::Pinned);
        residency.unpin(A);
        assert_eq!(residency.place(A), Place::Resident);
        assert!(residency.could_hold(10));
    }

    #[test]
    fn nothing_leaves_while_there_is_room() {
        let mut residency = holding(30, &[A, B]);
        assert_eq!(residency.make_room(10), []);
    }

    #[test]
    fn a_failed_load_gives_its_bytes_back() {
        let mut residency = holding(10, &[]);
        residency.load(A, 10);
        residency.load_failed(A);
        assert_eq!((residency.bytes(), residency.place(A)), (0, Place::Absent));
    }

    #[test]
    fn an_evicted_key_is_absent_only_when_the_device_says_so() {
        let mut residency = holding(10, &[A]);
        residency.evict(A);
        assert_eq!((residency.bytes(), residency.place(A)), (0, Place::Evicting));
        residency.evicted(A);
        assert_eq!(residency.place(A), Place::Absent);
    }
}
