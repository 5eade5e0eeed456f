//! The records of one device: the key that it loads, its batches, its keys and arenas, its failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::values::Values;
use super::windows::{CallLevels, LevelPaces};
use super::{DeviceLimits, OperationBooks, Scheduler};
use crate::batch::Batch;
use crate::error::Error;
use crate::ids::{BatchId, DeviceId, OperationId, Prepared, SessionId, ValueId};
use crate::residency::Residency;
use crate::slots::Slots;
use crate::work::{LIST_SLOTS_OF_A_ROW_MAX, LIST_SLOTS_OF_A_UNIT_MAX, SlotKind};

/// Number of failures without a success after which a device is taken out of service, if another device has not failed.
pub(super) const FAILURES_MAX: u32 = 3;

/// An arena without lists may grow to this part of the room for all arenas because of values.
const VALUES_SHARE: u64 = 16;

#[derive(Debug)]
pub(super) struct DeviceBooks {
    pub(super) limits: DeviceLimits,
    pub(super) residency: Residency,
    pub(super) loading: Option<Loading>,
    /// Calls that the device must run and has not reported, oldest first. The last may be [`Call::open`].
    pub(super) calls: Vec<Call>,
    /// The session whose batch or load comes next on this device.
    pub(super) reserved_for: Option<SessionId>,
    arenas: BTreeMap<SessionId, ArenaBooks>,
    /// Arenas that became empty, unless they are in use again.
    pub(super) emptied: BTreeSet<SessionId>,
    /// Empty arenas that are kept for the session's next request, by the time at which they are freed.
    idle: BTreeSet<(Duration, SessionId)>,
    idle_bytes: u64,
    /// Time of the last batch report. The next call has run alone on the device since then, so its duration counts from
    /// this time.
    pub(super) reported: Duration,
    /// The measured durations of levels on this device.
    pub(super) level_paces: LevelPaces,
    /// Failed calls since the last success.
    pub(super) failures: u32,
    /// The failure that took the device out of service.
    pub(super) failure: Option<String>,
    /// Whether the device has reported that nothing is on it any more, or was given up.
    pub(super) retired: bool,
    /// The time since which the device owes a report; `None` if it owes no report.
    pub(super) silent_since: Option<Duration>,
    /// Whether the device was given up; its later reports are ignored.
    pub(super) given_up: bool,
    /// Batches that the device had when it was given up.
    pub(super) unreported: BTreeSet<BatchId>,
}

/// A set of parts that is being loaded.
#[derive(Debug)]
pub(super) struct Loading {
    pub(super) session: SessionId,
    /// The parts to load.
    pub(super) parts: Vec<Prepared>,
    /// The parts of the set that were on the device before. They are pinned during the load.
    pub(super) pinned: Vec<Prepared>,
}

/// Batches of different sessions that run side by side.
#[derive(Debug)]
pub(super) struct Call {
    /// The batches whose reports have not come yet.
    pub(super) batches: Vec<Batch>,
    /// Cost of all batches of the call.
    pub(super) cost: u64,
    pub(super) levels: CallLevels,
    /// How much of [`DeviceLimits::batch_units_max`] the batches leave free.
    pub(super) room: usize,
    /// Whether the command to run the call has not been given yet. An open call may get batches of other sessions until
    /// the end of the step.
    pub(super) open: bool,
    /// Whether a batch of the call has failed.
    pub(super) failed: bool,
    pub(super) since: Duration,
}

/// A session's arena. The arena exists while it is in use or reserved, and is kept for some time afterwards.
#[derive(Debug)]
pub(super) struct ArenaBooks {
    kind: SlotKind,
    slots: Slots,
    /// Ciphertexts that later circuits may use.
    pub(super) values: Values,
    /// Slots of all circuits that have their home here, whether they have begun or not.
    reserved: usize,
    /// The time at which an idle arena is freed.
    idle_until: Option<Duration>,
}

impl ArenaBooks {
    fn bytes(&self) -> u64 {
        self.slots.capacity() as u64 * self.kind.bytes
    }

    /// Whether no rows and no circuits have slots. Values may have some.
    fn is_unused(&self) -> bool {
        self.slots.used() == self.values.slots()
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
            level_paces: LevelPaces::default(),
            failures: 0,
            failure: None,
            retired: false,
            silent_since: None,
            given_up: false,
            unreported: BTreeSet::new(),
            limits,
        }
    }

    /// Whether the device has reported all loads and calls, and has retired if it failed.
    pub(super) fn is_at_rest(&self) -> bool {
        self.works() == 0 && (self.failure.is_none() || self.retired)
    }

    /// Whether the device must still report that a command was carried out.
    pub(super) fn owes_report(&self) -> bool {
        let retires = self.failure.is_some() && !self.retired;
        self.works() > 0 || self.residency.is_evicting() || retires
    }

    /// The number of loads and calls that the device has received and not yet reported.
    pub(super) fn works(&self) -> usize {
        self.calls.len() + usize::from(self.loading.is_some())
    }

    /// The batches that the device has received and not yet reported.
    pub(super) fn running(&self) -> impl Iterator<Item = &Batch> {
        self.calls.iter().flat_map(|call| &call.batches)
    }

    pub(super) fn running_rows(&self) -> usize {
        self.running().map(Batch::rows).sum()
    }

    /// Whether the device has reported all calls of earlier steps.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.iter().all(|call| call.open)
    }

    /// Whether the device can take another call. A load does not matter, because the device loads in pieces between
    /// batches.
    pub(super) fn has_place(&self) -> bool {
        self.calls.len() < self.limits.batches_in_flight_max
    }

    /// Whether the device loads parts of this session's key.
    pub(super) fn loads(&self, session: SessionId) -> bool {
        self.loading.as_ref().is_some_and(|loading| loading.session == session)
    }

    /// For a session that is closing. If the device is loading key parts for the session, unpins the parts of the load's
    /// set that were on the device before, at once, because nothing will use the set. Otherwise does nothing.
    pub(super) fn add_nothing_to(&mut self, session: SessionId) {
        if let Some(loading) = self.loading.as_mut().filter(|loading| loading.session == session) {
            self.residency.unpin(&std::mem::take(&mut loading.pinned));
        }
    }

    /// The call that another small batch may join.
    pub(super) fn open_call(&self) -> Option<&Call> {
        let keys_max = self.limits.keys_together_max;
        self.calls.last().filter(|call| call.open && call.room > 0 && call.batches.len() < keys_max)
    }

    pub(super) fn arena_bytes(&self) -> u64 {
        self.arenas.values().map(ArenaBooks::bytes).sum()
    }

    /// Largest number of slots that rows of lists in running batches can take.
    fn list_slots_max(&self, kind: SlotKind) -> usize {
        let of_a_batch = LIST_SLOTS_OF_A_UNIT_MAX * self.limits.batch_units_max;
        let of_all = self.limits.batches_in_flight_max * of_a_batch.max(LIST_SLOTS_OF_A_ROW_MAX);
        if kind.for_lists { of_all } else { 0 }
    }

    /// Number of slots claimed for an arena, if `more` slots are reserved in it. An arena that is kept for later
    /// circuits claims no slots. A session with lists and without circuits claims none, because its running batches
    /// bound the size of its arena.
    fn claim(&self, arena: &ArenaBooks, more: usize) -> usize {
        let (reserved, capacity) = (arena.reserved + more, arena.slots.capacity());
        let for_lists = self.list_slots_max(arena.kind);
        if reserved == 0 && (arena.idle_until.is_some() || capacity <= for_lists) {
            return 0;
        }
        capacity.max(for_lists + reserved)
    }

    fn claimed_bytes_of(&self, arena: &ArenaBooks) -> u64 {
        self.claim(arena, 0) as u64 * arena.kind.bytes
    }

    fn claims_but_of(&self, session: SessionId) -> u64 {
        let others = self.arenas.iter().filter(|&(&other, _)| other != session);
        others.map(|(_, arena)| self.claimed_bytes_of(arena)).sum()
    }

    /// Number of bytes that are claimed for all arenas.
    pub(super) fn claimed_bytes(&self) -> u64 {
        self.arenas.values().map(|arena| self.claimed_bytes_of(arena)).sum()
    }

    /// Number of bytes that a circuit claims on an otherwise empty device.
    pub(super) fn bytes_alone(&self, slots: usize, kind: SlotKind) -> u64 {
        (self.list_slots_max(kind) as u64).saturating_add(slots as u64).saturating_mul(kind.bytes)
    }

    /// Whether a circuit of this many slots may have its home here.
    pub(super) fn has_room(&self, session: SessionId, slots: usize, kind: SlotKind) -> bool {
        let claimed = match self.arenas.get(&session) {
            Some(arena) => self.claim(arena, slots) as u64 * kind.bytes,
            None => self.bytes_alone(slots, kind),
        };
        self.claims_but_of(session).saturating_add(claimed) <= self.limits.arena_bytes_max
    }

    /// Reserves slots for a circuit with its home here.
    pub(super) fn reserve(&mut self, session: SessionId, slots: usize, kind: SlotKind) {
        self.not_idle(session);
        self.arena(session, kind).reserved += slots;
    }

    /// Cancels the reservation of a circuit that leaves.
    pub(super) fn unreserve(&mut self, session: SessionId, slots: usize) {
        self.arena_of(session).reserved -= slots;
        self.give_back(session, &[]);
    }

    /// The arena of a session that has reserved or taken slots.
    pub(super) fn arena_of(&mut self, session: SessionId) -> &mut ArenaBooks {
        self.arenas.get_mut(&session).expect("the session has an arena")
    }

    pub(super) fn arena(&mut self, session: SessionId, kind: SlotKind) -> &mut ArenaBooks {
        self.arenas.entry(session).or_insert_with(|| ArenaBooks {
            kind,
            slots: Slots::default(),
            values: Values::default(),
            reserved: 0,
            idle_until: None,
        })
    }

    /// Takes slots for a part of a batch, or for a circuit that begins.
    pub(super) fn take_slots(&mut self, session: SessionId, count: usize, kind: SlotKind) -> Arc<[u32]> {
        self.not_idle(session);
        let with_values = self.slots_with_values(session, kind);
        let needed = loop {
            let arena = self.arena(session, kind);
            let needed = arena.slots.used() + count;
            if needed <= arena.slots.capacity().max(with_values) || !self.drop_oldest_value(session) {
                break needed;
            }
        };
        let arena = self.arena(session, kind);
        let (capacity, reserved) = (arena.slots.capacity(), arena.reserved);
        if needed > capacity {
            // Each growth adds a chunk of memory, and on some cards copies the arena. The capacity is doubled, so that
            // an arena seldom grows.
            let (wanted, room) = if reserved > 0 {
                let unclaimed = self.limits.arena_bytes_max.saturating_sub(self.claims_but_of(session));
                (reserved.max(2 * capacity), (unclaimed / kind.bytes) as usize)
            } else {
                (2 * capacity, self.list_slots_max(kind))
            };
            // no arena grows beyond what is kept only because values are in it
            let room = if needed <= with_values { room.min(with_values) } else { room };
            self.arena(session, kind).slots.grow(needed.max(wanted.min(room)));
        }
        self.arena(session, kind).slots.take(count)
    }

    /// Number of slots up to which an arena may grow because of values. An arena for lists has the room of lists. Another
    /// arena has a sixteenth of the room for all arenas, as long as half of that room is left to circuits.
    fn slots_with_values(&self, session: SessionId, kind: SlotKind) -> usize {
        if kind.for_lists {
            return self.list_slots_max(kind);
        }
        let all = self.limits.arena_bytes_max;
        let left = (all / 2).saturating_sub(self.claims_but_of(session));
        (left.min(all / VALUES_SHARE) / kind.bytes) as usize
    }

    /// Whether the device has this value of a session.
    pub(super) fn has_value(&self, session: SessionId, value: ValueId) -> bool {
        self.arenas.get(&session).is_some_and(|arena| arena.values.contains(value))
    }

    /// Drops the values of a session that no circuit reads.
    pub(super) fn drop_values(&mut self, session: SessionId) {
        while self.drop_oldest_value(session) {}
    }

    /// Drops the value of a session that was not used for the longest time. Returns false if there is none.
    fn drop_oldest_value(&mut self, session: SessionId) -> bool {
        let arena = self.arenas.get_mut(&session);
        let Some(dropped) = arena.and_then(|arena| arena.values.drop_oldest()) else { return false };
        self.give_back(session, &dropped);
        true
    }

    /// Gives back the slots of ended rows or of an ended circuit.
    pub(super) fn give_back(&mut self, session: SessionId, slots: &[u32]) {
        let arena = self.arena_of(session);
        arena.slots.give_back(slots);
        if arena.is_unused() {
            self.emptied.insert(session);
        }
    }

    /// Keeps an emptied arena until `until`, for the session's next list, or for a circuit that finds values in it.
    /// Returns false if the arena must be freed instead, because circuits have reserved slots in it, or because it is
    /// too large or is on a device out of service. Kept arenas take at most a quarter of
    /// [`DeviceLimits::arena_bytes_max`] and claim nothing.
    pub(super) fn keep_idle(&mut self, session: SessionId, until: Duration) -> bool {
        let Some(arena) = self.arenas.get(&session).filter(|arena| arena.is_unused()) else { return true };
        let too_large = arena.kind.for_lists && arena.slots.capacity() > self.list_slots_max(arena.kind);
        let too_large = too_large || arena.bytes() > self.limits.arena_bytes_max / 4;
        if arena.reserved > 0 || too_large || self.failure.is_some() {
            return false;
        }
        let arena = self.arena_of(session);
        arena.idle_until = Some(until);
        let bytes = arena.bytes();
        self.idle_bytes += bytes;
        self.idle.insert((until, session));
        true
    }

    /// The next idle arena to free, because its time is over or because newer arenas need the memory.
    pub(super) fn next_to_free(&self, now: Duration) -> Option<SessionId> {
        let &(until, session) = self.idle.first()?;
        (until <= now || self.idle_bytes > self.limits.arena_bytes_max / 4).then_some(session)
    }

    /// Sessions whose empty arenas are kept.
    pub(super) fn idle_arenas(&self) -> Vec<SessionId> {
        self.idle.iter().map(|&(_, session)| session).collect()
    }

    /// The time at which the next idle arena is freed.
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

    /// Removes the session's arena from the records if nothing but values is in it. Returns true if device memory must be
    /// freed.
    pub(super) fn strike_arena(&mut self, session: SessionId) -> bool {
        self.emptied.remove(&session);
        if self.arenas.get(&session).is_none_or(|arena| !arena.is_unused()) {
            return false;
        }
        self.not_idle(session);
        self.drop_values(session);
        self.emptied.remove(&session);
        let arena = self.arenas.get_mut(&session).expect("it was just there");
        let existed = std::mem::take(&mut arena.slots).capacity() > 0;
        if arena.reserved == 0 {
            self.arenas.remove(&session);
        }
        // a retiring device frees its arenas without a command
        existed && self.failure.is_none()
    }

    /// The number of slots that the session's arena must have.
    pub(super) fn arena_slots(&self, session: SessionId) -> usize {
        self.arenas.get(&session).map_or(0, |arena| arena.slots.capacity())
    }

    /// Records that the device has forgotten all keys and arenas.
    pub(super) fn retire(&mut self) {
        assert!(self.works() == 0 && self.arenas.is_empty(), "all was reported before");
        self.residency.clear();
        self.retired = true;
    }
}

/// Size of the largest part of a key, in bytes.
pub(super) fn largest(parts: &[u64]) -> u64 {
    parts.iter().copied().max().unwrap_or(0)
}

/// Of pairs of a needed size and its bound, returns the pair that lacks least.
pub(super) fn nearest(sizes: impl Iterator<Item = (u64, u64)>) -> Option<(u64, u64)> {
    sizes.min_by_key(|(needed, max)| needed.saturating_sub(*max))
}

/// The devices that take work.
impl Scheduler {
    /// Whether the device is healthy and, if it is a stand-in, all others have failed.
    pub(super) fn in_service(&self, device: DeviceId) -> bool {
        let device = &self.devices[device.0];
        let needed = || !self.devices.iter().any(|other| other.failure.is_none() && !other.limits.stand_in);
        device.failure.is_none() && (!device.limits.stand_in || needed())
    }

    pub(super) fn devices_in_service(&self) -> impl Iterator<Item = DeviceId> + Clone + '_ {
        (0..self.devices.len()).map(DeviceId).filter(|&device| self.in_service(device))
    }

    /// The devices that have not failed, stand-ins included.
    pub(super) fn healthy(&self) -> impl Iterator<Item = DeviceId> + Clone + '_ {
        (0..self.devices.len()).map(DeviceId).filter(|device| self.devices[device.0].failure.is_none())
    }

    /// Whether a device may get rows of this operation.
    pub(super) fn serves(&self, operation: &OperationBooks, device: DeviceId) -> bool {
        let books = &self.devices[device.0];
        books.failure.is_none() && books.limits.stand_in == operation.aside && self.holds(operation, device)
    }

    /// The devices that may get rows of this operation.
    pub(super) fn devices_for<'a>(
        &'a self,
        operation: &'a OperationBooks,
    ) -> impl Iterator<Item = DeviceId> + Clone + 'a {
        (0..self.devices.len()).map(DeviceId).filter(|&device| self.serves(operation, device))
    }

    /// Whether the device could hold the operation if it held nothing else.
    fn holds(&self, operation: &OperationBooks, device: DeviceId) -> bool {
        let (needed, max) = self.arena_bytes_alone(operation, device);
        (operation.slots == 0 || needed <= max) && self.fits(operation, device)
    }

    /// Whether the device can hold the parts of the key that the operation needs together.
    pub(super) fn fits(&self, operation: &OperationBooks, device: DeviceId) -> bool {
        self.bytes_of_set(operation, device) <= self.resident_bytes_max(device)
    }

    /// The bytes that a circuit claims on an otherwise empty device, and the device's bound.
    pub(super) fn arena_bytes_alone(&self, circuit: &OperationBooks, device: DeviceId) -> (u64, u64) {
        let (books, kind) = (&self.devices[device.0], self.sessions[&circuit.session].slot_kind);
        (books.bytes_alone(circuit.slots, kind), books.limits.arena_bytes_max)
    }

    /// Size of a part on a device, among the parts that the session needs.
    pub(super) fn bytes_of_part(&self, session: SessionId, part: Prepared, device: DeviceId) -> u64 {
        self.sessions[&session].device_bytes[device.0][part.index().0 as usize]
    }

    /// Size of the parts that the operation needs together.
    pub(super) fn bytes_of_set(&self, operation: &OperationBooks, device: DeviceId) -> u64 {
        let sizes = operation.key.iter().map(|&part| self.bytes_of_part(operation.session, part, device));
        sizes.fold(0, u64::saturating_add)
    }

    pub(super) fn resident_bytes_max(&self, device: DeviceId) -> u64 {
        self.devices[device.0].limits.resident_bytes_max
    }

    pub(super) fn devices_that_take_work(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let any_aside = self.totals.aside > 0;
        self.healthy().filter(move |&id| {
            let device = &self.devices[id.0];
            (!device.limits.stand_in || any_aside) && (device.has_place() || device.open_call().is_some())
        })
    }

    /// Returns the error for work that no healthy device can do.
    pub(super) fn no_device_serves(&self) -> Error {
        let reasons: Vec<_> = self.devices.iter().filter_map(|device| device.failure.as_deref()).collect();
        Error::Device(format!("no device is in service: {}", reasons.join("; ")))
    }
}

/// Operations that are aside.
impl Scheduler {
    /// Whether an operation must be aside because a stand-in can hold it and no other healthy device can.
    pub(super) fn belongs_aside(&self, operation: &OperationBooks) -> bool {
        let other_holds = |device: DeviceId| !self.is_stand_in(device) && self.holds(operation, device);
        self.a_stand_in_holds(operation) && !self.healthy().any(other_holds)
    }

    /// Whether an operation can run on a healthy stand-in.
    pub(super) fn a_stand_in_holds(&self, operation: &OperationBooks) -> bool {
        self.healthy().any(|device| self.is_stand_in(device) && self.holds(operation, device))
    }

    pub(super) fn is_stand_in(&self, device: DeviceId) -> bool {
        self.devices[device.0].limits.stand_in
    }

    /// Sets an operation aside. The rows that wait run on a stand-in. Rows that run elsewhere at this moment go on.
    pub(super) fn set_aside(&mut self, operation: OperationId) {
        let operation = self.operations.get_mut(&operation).expect("it has not ended");
        self.totals.aside += usize::from(!operation.aside);
        operation.aside = true;
    }
}
