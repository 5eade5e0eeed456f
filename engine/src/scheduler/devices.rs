//! One device's books: the key it loads, the batches it has, the keys and arenas on it, its failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{DeviceLimits, Scheduler};
use crate::batch::Batch;
use crate::error::Error;
use crate::ids::{BatchId, DeviceId, PartId, SessionId};
use crate::residency::Residency;
use crate::slots::Slots;
use crate::work::{LIST_SLOTS_OF_A_ROW_MAX, LIST_SLOTS_OF_A_UNIT_MAX};

/// Failures in a row after which a device is given up, if there is another.
pub(super) const FAILURES_MAX: u32 = 3;

#[derive(Debug)]
pub(super) struct DeviceBooks {
    pub(super) limits: DeviceLimits,
    pub(super) residency: Residency,
    pub(super) loading: Option<Loading>,
    /// Calls that were ordered and not reported, in the order in which they were. The last may be [`Call::open`].
    pub(super) calls: Vec<Call>,
    /// The session whose batch or load is next here.
    pub(super) reserved_for: Option<SessionId>,
    arenas: BTreeMap<SessionId, ArenaBooks>,
    /// Arenas in which nothing is, unless something has come since.
    pub(super) emptied: BTreeSet<SessionId>,
    /// Empty arenas that are kept for the session's next request, by when they are given back.
    idle: BTreeSet<(Duration, SessionId)>,
    idle_bytes: u64,
    /// When the last batch was reported: the next one has had the device for itself since then.
    pub(super) reported: Duration,
    /// Calls that failed since one succeeded.
    pub(super) failures: u32,
    /// Why it was taken out of service.
    pub(super) failure: Option<String>,
    /// It has reported that nothing is on it any more, or it was given up.
    pub(super) retired: bool,
    /// Since when it owes a report.
    pub(super) silent_since: Option<Duration>,
    /// It was given up: what it reports is late.
    pub(super) given_up: bool,
    /// Batches that it had when it was given up.
    pub(super) unreported: BTreeSet<BatchId>,
}

/// A set of parts that is loaded.
#[derive(Debug)]
pub(super) struct Loading {
    pub(super) session: SessionId,
    /// The parts that are loaded.
    pub(super) parts: Vec<PartId>,
    /// The parts that were on the device before, pinned meanwhile.
    pub(super) pinned: Vec<PartId>,
}

/// Batches of different sessions that run side by side.
#[derive(Debug)]
pub(super) struct Call {
    /// The batches that were not reported yet.
    pub(super) batches: Vec<Batch>,
    /// Cost of all its batches.
    pub(super) cost: u64,
    /// The part of [`DeviceLimits::batch_units_max`] that its batches leave free.
    pub(super) room: usize,
    /// Whether it is not ordered yet: batches of other sessions may join until the end of the step.
    pub(super) open: bool,
    /// A batch of it has failed.
    pub(super) failed: bool,
    pub(super) since: Duration,
}

/// A session's arena. It is there while something of the session is in it, or will be, and a while longer.
#[derive(Debug)]
struct ArenaBooks {
    slot_bytes: u64,
    slots: Slots,
    /// Slots of all circuits that have their home here, begun or not.
    reserved: usize,
    /// When it is given back, if nothing comes before.
    idle_until: Option<Duration>,
}

impl ArenaBooks {
    fn bytes(&self) -> u64 {
        self.slots.capacity() as u64 * self.slot_bytes
    }
}

impl DeviceBooks {
    pub(super) fn new(limits: DeviceLimits) -> Self {
        assert!(limits.batch_units_max > 0 && limits.batches_in_flight_max > 0, "a device takes batches with rows");
        Self {
            residency: Residency::new(limits.resident_bytes_max),
            loading: None,
            calls: Vec::new(),
            reserved_for: None,
            arenas: BTreeMap::new(),
            emptied: BTreeSet::new(),
            idle: BTreeSet::new(),
            idle_bytes: 0,
            reported: Duration::ZERO,
            failures: 0,
            failure: None,
            retired: false,
            silent_since: None,
            given_up: false,
            unreported: BTreeSet::new(),
            limits,
        }
    }

    /// Nothing was ordered that was not reported.
    pub(super) fn is_at_rest(&self) -> bool {
        self.works() == 0 && (self.failure.is_none() || self.retired)
    }

    /// Whether something was ordered that is to be reported.
    pub(super) fn owes_report(&self) -> bool {
        let retires = self.failure.is_some() && !self.retired;
        self.works() > 0 || self.residency.is_evicting() || retires
    }

    /// Loads and calls that were ordered and not reported.
    pub(super) fn works(&self) -> usize {
        self.calls.len() + usize::from(self.loading.is_some())
    }

    /// Batches that were ordered and not reported.
    pub(super) fn running(&self) -> impl Iterator<Item = &Batch> {
        self.calls.iter().flat_map(|call| &call.batches)
    }

    pub(super) fn running_rows(&self) -> usize {
        self.running().map(Batch::rows).sum()
    }

    /// Nothing was ordered before this step that was not reported.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.iter().all(|call| call.open)
    }

    /// Whether another call may be ordered, also beside a load: the device loads in pieces, between batches.
    pub(super) fn has_place(&self) -> bool {
        self.calls.len() < self.limits.batches_in_flight_max
    }

    /// Whether it loads parts of this session's key.
    pub(super) fn loads(&self, session: SessionId) -> bool {
        self.loading.as_ref().is_some_and(|loading| loading.session == session)
    }

    /// A session closes: what of its key is there goes now, not when the load that was to add to it ends.
    pub(super) fn add_nothing_to(&mut self, session: SessionId) {
        if let Some(loading) = self.loading.as_mut().filter(|loading| loading.session == session) {
            self.residency.unpin(session, &std::mem::take(&mut loading.pinned));
        }
    }

    /// The call that another batch may join, if it is small enough.
    pub(super) fn open_call(&self) -> Option<&Call> {
        let keys_max = self.limits.keys_together_max;
        self.calls.last().filter(|call| call.open && call.room > 0 && call.batches.len() < keys_max)
    }

    pub(super) fn arena_bytes(&self) -> u64 {
        self.arenas.values().map(ArenaBooks::bytes).sum()
    }

    /// Slots that rows of lists in running batches take at most.
    fn list_slots_max(&self) -> usize {
        let of_a_batch = LIST_SLOTS_OF_A_UNIT_MAX * self.limits.batch_units_max;
        self.limits.batches_in_flight_max * of_a_batch.max(LIST_SLOTS_OF_A_ROW_MAX)
    }

    /// Slots that must be there for an arena. A session without circuits claims nothing: what its batches need is bounded
    /// by their number.
    fn claim(&self, arena: &ArenaBooks, more: usize) -> usize {
        let (reserved, capacity) = (arena.reserved + more, arena.slots.capacity());
        if reserved == 0 && capacity <= self.list_slots_max() {
            return 0;
        }
        capacity.max(self.list_slots_max() + reserved)
    }

    fn claims_but_of(&self, session: SessionId) -> u64 {
        let others = self.arenas.iter().filter(|&(&other, _)| other != session);
        others.map(|(_, arena)| self.claim(arena, 0) as u64 * arena.slot_bytes).sum()
    }

    /// Bytes of arenas that are spoken for.
    pub(super) fn claimed_bytes(&self) -> u64 {
        self.arenas.values().map(|arena| self.claim(arena, 0) as u64 * arena.slot_bytes).sum()
    }

    /// Bytes that a circuit claims if nothing else does.
    pub(super) fn bytes_alone(&self, slots: usize, slot_bytes: u64) -> u64 {
        (self.list_slots_max() as u64).saturating_add(slots as u64).saturating_mul(slot_bytes)
    }

    /// Whether a circuit of this many slots may have its home here.
    pub(super) fn has_room(&self, session: SessionId, slots: usize, slot_bytes: u64) -> bool {
        let claimed = match self.arenas.get(&session) {
            Some(arena) => self.claim(arena, slots) as u64 * slot_bytes,
            None => self.bytes_alone(slots, slot_bytes),
        };
        self.claims_but_of(session).saturating_add(claimed) <= self.limits.arena_bytes_max
    }

    /// A circuit has its home here.
    pub(super) fn reserve(&mut self, session: SessionId, slots: usize, slot_bytes: u64) {
        self.not_idle(session);
        self.arena(session, slot_bytes).reserved += slots;
    }

    /// A circuit has its home here no more.
    pub(super) fn unreserve(&mut self, session: SessionId, slots: usize, taken: Option<&[u32]>) {
        self.arenas.get_mut(&session).expect("it was reserved").reserved -= slots;
        self.give_back(session, taken.unwrap_or(&[]));
    }

    fn arena(&mut self, session: SessionId, slot_bytes: u64) -> &mut ArenaBooks {
        self.arenas.entry(session).or_insert_with(|| ArenaBooks {
            slot_bytes,
            slots: Slots::default(),
            reserved: 0,
            idle_until: None,
        })
    }

    /// Slots for a part of a batch, or for a circuit that begins.
    pub(super) fn take_slots(&mut self, session: SessionId, count: usize, slot_bytes: u64) -> Arc<[u32]> {
        self.not_idle(session);
        let arena = self.arena(session, slot_bytes);
        let (needed, capacity, reserved) = (arena.slots.used() + count, arena.slots.capacity(), arena.reserved);
        if needed > capacity {
            // Each growth is one more chunk of memory, on some cards a copy: by doubling there are few.
            let (wanted, room) = if reserved > 0 {
                let unclaimed = self.limits.arena_bytes_max.saturating_sub(self.claims_but_of(session));
                (reserved.max(2 * capacity), (unclaimed / slot_bytes) as usize)
            } else {
                (2 * capacity, self.list_slots_max())
            };
            self.arena(session, slot_bytes).slots.grow(needed.max(wanted.min(room)));
        }
        self.arena(session, slot_bytes).slots.take(count)
    }

    /// Rows or a circuit have ended that were in these slots.
    pub(super) fn give_back(&mut self, session: SessionId, slots: &[u32]) {
        let arena = self.arenas.get_mut(&session).expect("slots are given back once");
        arena.slots.give_back(slots);
        if arena.slots.used() == 0 {
            self.emptied.insert(session);
        }
    }

    /// Keeps an emptied arena until `until`, for the session's next list. False where it is not worth its memory:
    /// that of a circuit, and any on a device out of service. Those that are kept hold a quarter of
    /// [`DeviceLimits::arena_bytes_max`] at most, and claim nothing.
    pub(super) fn keep_idle(&mut self, session: SessionId, until: Duration) -> bool {
        let (list_slots_max, bytes_max) = (self.list_slots_max(), self.limits.arena_bytes_max / 4);
        let Some(arena) = self.arenas.get_mut(&session).filter(|arena| arena.slots.used() == 0) else { return true };
        let for_lists = arena.reserved == 0 && arena.slots.capacity() <= list_slots_max;
        if !for_lists || self.failure.is_some() || arena.bytes() > bytes_max {
            return false;
        }
        arena.idle_until = Some(until);
        self.idle_bytes += arena.bytes();
        self.idle.insert((until, session));
        true
    }

    /// The idle arena that is given back next: its time is over, or those that came later need its bytes.
    pub(super) fn next_to_free(&self, now: Duration) -> Option<SessionId> {
        let &(until, session) = self.idle.first()?;
        (until <= now || self.idle_bytes > self.limits.arena_bytes_max / 4).then_some(session)
    }

    /// Sessions whose arenas are kept although nothing is in them.
    pub(super) fn idle_arenas(&self) -> Vec<SessionId> {
        self.idle.iter().map(|&(_, session)| session).collect()
    }

    /// When the next idle arena is to be given back.
    pub(super) fn idle_end(&self) -> Option<Duration> {
        self.idle.first().map(|&(until, _)| until)
    }

    fn not_idle(&mut self, session: SessionId) {
        let Some(arena) = self.arenas.get_mut(&session) else { return };
        if let Some(until) = arena.idle_until.take() {
            self.idle_bytes -= arena.bytes();
            self.idle.remove(&(until, session));
        }
    }

    /// Strikes the session's arena from the books if nothing is in it. True when there is memory to give back.
    pub(super) fn strike_arena(&mut self, session: SessionId) -> bool {
        self.emptied.remove(&session);
        if self.arenas.get(&session).is_none_or(|arena| arena.slots.used() > 0) {
            return false;
        }
        self.not_idle(session);
        let arena = self.arenas.get_mut(&session).expect("it was just there");
        let existed = std::mem::take(&mut arena.slots).capacity() > 0;
        if arena.reserved == 0 {
            self.arenas.remove(&session);
        }
        // a device that retires forgets its arenas without being told
        existed && self.failure.is_none()
    }

    /// Slots that the session's arena must have.
    pub(super) fn arena_slots(&self, session: SessionId) -> usize {
        self.arenas.get(&session).map_or(0, |arena| arena.slots.capacity())
    }

    /// It has forgotten all keys and arenas.
    pub(super) fn retire(&mut self) {
        assert!(self.works() == 0 && self.arenas.is_empty(), "all was reported before");
        self.residency.clear();
        self.retired = true;
    }
}

/// Bytes of the largest part of a key.
pub(super) fn largest(parts: &[u64]) -> u64 {
    parts.iter().copied().max().unwrap_or(0)
}

/// Which devices take work.
impl Scheduler {
    /// Healthy, and no stand-in unless all others have failed.
    pub(super) fn in_service(&self, device: DeviceId) -> bool {
        let device = &self.devices[device.0];
        let needed = || !self.devices.iter().any(|other| other.failure.is_none() && !other.limits.stand_in);
        device.failure.is_none() && (!device.limits.stand_in || needed())
    }

    /// Whether a device may be given work of this session: a stand-in also has the sessions whose key no other device holds, such as
    /// keys for numbers where all others are cards that do not compute on numbers.
    pub(super) fn serves(&self, session: SessionId, device: DeviceId) -> bool {
        self.in_service(device) || (self.sessions[&session].apart && self.devices[device.0].failure.is_none())
    }

    /// Whether a key whose parts have these sizes is too large for every device but stand-ins.
    pub(super) fn is_apart(&self, device_bytes: &[Vec<u64>]) -> bool {
        let holds = |(device, parts): (&DeviceBooks, &Vec<u64>)| {
            !device.limits.stand_in && largest(parts) <= device.limits.resident_bytes_max
        };
        !self.devices.iter().zip(device_bytes).any(holds)
    }

    pub(super) fn devices_in_service(&self) -> impl Iterator<Item = DeviceId> + Clone + '_ {
        (0..self.devices.len()).map(DeviceId).filter(|&device| self.in_service(device))
    }

    /// Devices that serve the session and can hold these parts of its key together.
    pub(super) fn devices_for<'a>(
        &'a self,
        session: SessionId,
        key: &'a [PartId],
    ) -> impl Iterator<Item = DeviceId> + Clone + 'a {
        let devices = (0..self.devices.len()).map(DeviceId);
        devices.filter(move |&device| self.serves(session, device) && self.fits(session, key, device))
    }

    /// Whether a device can hold these parts of the session's key together.
    pub(super) fn fits(&self, session: SessionId, key: &[PartId], device: DeviceId) -> bool {
        self.bytes_of_set(session, key, device) <= self.devices[device.0].limits.resident_bytes_max
    }

    /// Size of a part on a device.
    pub(super) fn bytes_of_part(&self, session: SessionId, part: PartId, device: DeviceId) -> u64 {
        self.sessions[&session].device_bytes[device.0][part.0 as usize]
    }

    /// Size of these parts together.
    pub(super) fn bytes_of_set(&self, session: SessionId, key: &[PartId], device: DeviceId) -> u64 {
        key.iter().map(|&part| self.bytes_of_part(session, part, device)).fold(0, u64::saturating_add)
    }

    pub(super) fn devices_that_take_work(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let (devices, any_apart) = ((0..self.devices.len()).map(DeviceId), self.totals.apart > 0);
        devices.filter(move |&id| {
            let device = &self.devices[id.0];
            let serves = self.in_service(id) || (any_apart && device.failure.is_none());
            serves && (device.has_place() || device.open_call().is_some())
        })
    }

    /// The refusal where no device in service can do the work.
    pub(super) fn no_device_serves(&self) -> Error {
        let reasons: Vec<_> = self.devices.iter().filter_map(|device| device.failure.as_deref()).collect();
        Error::Device(format!("no device is in service: {}", reasons.join("; ")))
    }
}
