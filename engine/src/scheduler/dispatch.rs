//! What each device does next.

use std::time::Duration;

use super::books::{cost_of, rows_that_fit, size_of, slots_of};
use super::devices::Running;
use super::{Command, Scheduler, Waiting};
use crate::batch::{Batch, BatchId, DeviceId, Part};
use crate::residency::Place;
use crate::session::SessionId;

impl Scheduler {
    pub(super) fn dispatch(&mut self, now: Duration, just_loaded: Option<(DeviceId, SessionId)>) {
        // A key that was loaded is used before another can push it out; else a stream of newcomers could keep the device
        // loading for ever.
        if let Some((device, session)) = just_loaded
            && self.fair.is_ready(session)
            && self.devices_that_take_work().any(|takes_work| takes_work == device)
            && self.has_work_for(session, device)
        {
            self.run(now, session, device);
        }
        while self.devices_that_take_work().next().is_some() {
            let Some((session, device)) = self.next_in_turn() else {
                // nothing that is ready can start: what gathers has nothing to wait for where a device idles
                match self.gathering_for_an_idle_device() {
                    Some(session) => self.make_ready(session),
                    None => return,
                }
                continue;
            };
            match self.devices[device.0].residency.place(session) {
                Place::Absent => self.load(session, device),
                _ => self.run(now, session, device),
            }
        }
    }

    /// The next session that can be given work, and where. A session that is passed over, since its key has no room now or
    /// its device is full, reserves a device: the next place there is its own. Else those whose keys are there would be
    /// served again and again, and it never.
    fn next_in_turn(&mut self) -> Option<(SessionId, DeviceId)> {
        let mut open: Vec<_> = self.devices_that_take_work().collect();
        let mut reserved: Vec<_> = (0..self.devices.len()).map(|at| self.reservation(DeviceId(at))).collect();
        let mut next = None;
        for session in self.fair.in_order() {
            if open.is_empty() {
                break;
            }
            let may_use = |id: &DeviceId| reserved[id.0].is_none_or(|other| other == session);
            let devices: Vec<_> = open.iter().copied().filter(may_use).collect();
            if let Some(device) = self.device_for(session, &devices) {
                next = Some((session, device));
                break;
            }
            let held = reserved.iter().position(|&other| other == Some(session)).map(DeviceId);
            if let Some(device) = held.or_else(|| self.device_to_reserve(session, &reserved)) {
                reserved[device.0] = Some(session);
                open.retain(|&other| other != device);
            }
        }
        self.devices.iter_mut().zip(reserved).for_each(|(device, session)| device.reserved_for = session);
        next
    }

    /// For which session a device is reserved, if it still waits for it.
    fn reservation(&self, device: DeviceId) -> Option<SessionId> {
        let reserved = self.devices[device.0].reserved_for;
        reserved.filter(|&session| {
            self.in_service(device) && self.fair.is_ready(session) && self.has_work_for(session, device)
        })
    }

    /// Of a ready session that can be given no work now: the device whose next place is to be its own. One where it has room
    /// as soon as there is a place, else one that must drain; of those, the one with the least to do.
    fn device_to_reserve(&self, session: SessionId, reserved: &[Option<SessionId>]) -> Option<DeviceId> {
        if self.devices.iter().any(|device| device.residency.place(session) == Place::Loading) {
            return None; // it is served where it is loaded
        }
        let needs = &self.sessions[&session].device_bytes;
        let must_drain = |id: DeviceId| match self.devices[id.0].residency.place(session) {
            Place::Resident | Place::Pinned => false,
            Place::Absent => !self.devices[id.0].residency.could_hold(needs[id.0]),
            Place::Loading | Place::Evicting => true,
        };
        let free = self.devices_for(session).filter(|id| reserved[id.0].is_none());
        let candidates = free.filter(|&id| self.has_work_for(session, id));
        candidates.min_by_key(|&id| (must_drain(id), self.devices[id.0].works()))
    }

    /// A session is served: it waits for no device any more.
    fn release_reservations(&mut self, session: SessionId) {
        let held = self.devices.iter_mut().filter(|device| device.reserved_for == Some(session));
        held.for_each(|device| device.reserved_for = None);
    }

    /// Where a ready session goes, of these devices: to an idle one that has its key, else to an idle one, else to one that
    /// has its key.
    fn device_for(&self, session: SessionId, open: &[DeviceId]) -> Option<DeviceId> {
        let books = &self.sessions[&session];
        let loading = self.devices.iter().any(|device| device.residency.place(session) == Place::Loading);
        let needs = &books.device_bytes;
        let fits = |id: &DeviceId| needs[id.0] <= self.devices[id.0].limits.resident_bytes_max;
        let rank = |id: DeviceId| {
            let device = &self.devices[id.0];
            let idle = device.running.is_empty();
            match device.residency.place(session) {
                Place::Resident | Place::Pinned => Some(if idle { 0 } else { 2 }),
                // One load at a time: the first rows may well be all.
                Place::Absent if loading || !device.residency.could_hold(needs[id.0]) => None,
                Place::Absent if books.load_failed_on == Some(id) => Some(4),
                Place::Absent => Some(if idle { 1 } else { 3 }),
                Place::Loading | Place::Evicting => None, // the device's report brings us back here
            }
        };
        let candidates = open.iter().copied().filter(|id| fits(id) && self.has_work_for(session, *id));
        candidates.filter_map(|id| Some((rank(id)?, id))).min().map(|(_, id)| id)
    }

    /// The session that has gathered longest among those that an idle device could serve.
    fn gathering_for_an_idle_device(&self) -> Option<SessionId> {
        let unreserved = self.devices_that_take_work().filter(|id| self.devices[id.0].reserved_for.is_none());
        let idle: Vec<_> = unreserved.filter(|id| self.devices[id.0].running.is_empty()).collect();
        let mut sessions = self.gathering.iter().map(|&(_, session)| session);
        sessions.find(|&session| self.device_for(session, &idle).is_some())
    }

    fn has_work_for(&self, session: SessionId, device: DeviceId) -> bool {
        self.sessions[&session].queue.iter().any(|waiting| self.may_start(session, waiting, device))
    }

    /// Whether these rows may run on this device. What failed on one goes to another if there is another.
    fn may_start(&self, session: SessionId, waiting: &Waiting, device: DeviceId) -> bool {
        match &self.operations[&waiting.operation].circuit {
            Some(circuit) => self.may_run_on(session, circuit, device),
            None => waiting.failed_on != Some(device) || self.devices_for(session).all(|other| other == device),
        }
    }

    fn load(&mut self, session: SessionId, device: DeviceId) {
        let bytes = self.sessions[&session].device_bytes[device.0];
        self.release_reservations(session);
        self.make_room(device, bytes);
        let books = &mut self.devices[device.0];
        books.residency.load(session, bytes);
        books.loading = Some(session);
        self.commands.push(Command::Load { device, session });
    }

    pub(super) fn make_room(&mut self, device: DeviceId, bytes: u64) {
        let evicted = self.devices[device.0].residency.make_room(bytes);
        for session in evicted {
            self.free_arena(device, session);
            self.commands.push(Command::Evict { device, session });
        }
    }

    fn run(&mut self, now: Duration, session: SessionId, device: DeviceId) {
        let batch = self.next_batch(now, session, device);
        self.release_reservations(session);
        self.fair.charge(session, batch.cost);
        if self.sessions[&session].queue.is_empty() {
            self.fair.set_ready(session, false);
        }
        let books = &mut self.devices[device.0];
        books.residency.pin(session);
        self.commands.push(Command::Run(batch.clone()));
        books.running.push(Running { batch, since: now });
    }

    /// Takes from the queue, first come, first served, as many rows as a batch of this device may have, at least one.
    fn next_batch(&mut self, now: Duration, session: SessionId, device: DeviceId) -> Batch {
        let id = BatchId(self.totals.batches_started);
        self.totals.batches_started += 1;
        let (bootstraps, cost) = (0, 0);
        let mut batch = Batch { id, device, session, parts: Vec::new(), arena_slots: 0, bootstraps, cost };
        let mut room = self.devices[device.0].limits.batch_rows_max;
        let mut at = 0;
        while let Some(waiting) = self.sessions[&session].queue.get(at) {
            if !self.may_start(session, waiting, device) {
                at += 1;
                continue;
            }
            let retried = waiting.failed_on.is_some();
            // What failed before rides alone.
            if batch.parts.first().is_some_and(|first| first.retried || retried) {
                break;
            }
            let operation = self.operations.get_mut(&waiting.operation).expect("queued operations have not ended");
            let fits = rows_that_fit(&operation.bootstraps[waiting.rows.clone()], room);
            let rows = if batch.parts.is_empty() { fits.max(1) } else { fits };
            if rows == 0 {
                break;
            }
            operation.started.get_or_insert(now);
            let part = self.start(session, device, at, rows);
            let bootstraps = &self.operations[&part.operation].bootstraps[part.rows.clone()];
            room = room.saturating_sub(size_of(bootstraps));
            batch.bootstraps += bootstraps.iter().map(|&count| u64::from(count)).sum::<u64>();
            batch.cost += cost_of(bootstraps, self.sessions[&session].bootstrap_cost);
            batch.parts.push(part);
        }
        batch.arena_slots = self.devices[device.0].arena_slots(session);
        batch
    }

    /// Takes rows off the queue, and slots for them.
    fn start(&mut self, session: SessionId, device: DeviceId, at: usize, rows: usize) -> Part {
        let Waiting { operation, rows, failed_on } = self.dequeue(session, at, rows);
        let started = self.operations.get_mut(&operation).expect("queued operations have not ended");
        started.running_rows += rows.len();
        let completes = started.circuit.is_some() && !started.can_be_stopped();
        let restarted = started.circuit.as_ref().is_some_and(|circuit| circuit.restarted);
        let slots = if started.circuit.is_some() {
            self.begin(operation, device)
        } else {
            let count = slots_of(&started.bootstraps[rows.clone()]);
            let slot_bytes = self.sessions[&session].slot_bytes;
            self.devices[device.0].take_slots(session, count, slot_bytes)
        };
        Part { operation, rows, retried: failed_on.is_some() || restarted, slots, completes }
    }

    pub(super) fn end_gathering(&mut self, now: Duration) {
        while let Some(&(until, session)) = self.gathering.first()
            && until <= now
        {
            self.make_ready(session);
        }
    }
}
