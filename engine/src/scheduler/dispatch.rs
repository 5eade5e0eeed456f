//! Dispatch: the next work of each device.

use std::sync::Arc;
use std::time::Duration;

use super::circuits::Taken;
use super::devices::{Call, Loading};
use super::windows::{CallLevels, Kind};
use super::{Command, OperationBooks, QueuedRows, Scheduler};
use crate::batch::{Batch, BatchPart};
use crate::ids::{BatchId, DeviceId, Prepared, SessionId};
use crate::residency::PartState;
use crate::work::{cost_of, rows_that_fit, size_of, split_by_levels, units_of};

impl Scheduler {
    pub(super) fn dispatch(&mut self, now: Duration, just_loaded: Option<(DeviceId, SessionId)>) {
        // A loaded set is used before another set can evict it. Otherwise a stream of newcomers could keep the device
        // loading for ever. If batches occupy all places, the next free place is reserved for the set's session.
        if let Some((device, session)) = just_loaded
            && self.fair.is_ready(session)
            && self.key_state(session, device) == PartState::Resident
        {
            if self.devices[device.0].has_place() {
                self.run(now, session, device);
            } else {
                self.devices[device.0].reserved_for = Some(session);
            }
        }
        while self.devices_that_take_work().next().is_some() {
            let Some((session, device)) = self.next_in_turn() else {
                // No ready session can start. If a device is idle, a session that still waits for a full batch need not
                // wait longer.
                match self.gathering_for_an_idle_device() {
                    Some(session) => self.make_ready(session),
                    None => break,
                }
                continue;
            };
            match self.key_state(session, device) {
                PartState::Absent => self.load(session, device),
                _ => self.run(now, session, device),
            }
        }
        (0..self.devices.len()).map(DeviceId).for_each(|device| self.order_open_call(device));
    }

    /// Returns the next session that can get work, and the device for this work. A session may be passed over because
    /// its key has no room now or its device is full. Then a device is reserved for that session and gives it the next
    /// place. Otherwise sessions with loaded keys would be served again and again, and the passed-over session never.
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

    /// The session for which a device is reserved, if that session still waits.
    fn reservation(&self, device: DeviceId) -> Option<SessionId> {
        let reserved = self.devices[device.0].reserved_for;
        reserved.filter(|&session| self.fair.is_ready(session) && self.has_work_for(session, device))
    }

    /// Chooses the device to reserve for a ready session that no device can serve now: one with room for its key, else
    /// one that must drain first. Among several such devices, chooses the one with the least work.
    fn device_to_reserve(&self, session: SessionId, reserved: &[Option<SessionId>]) -> Option<DeviceId> {
        if self.devices.iter().any(|device| device.loads(session)) {
            return None; // needs no reservation: the session will be served on the device that loads its key
        }
        let must_drain = |id: DeviceId| match self.key_state(session, id) {
            PartState::Resident | PartState::Pinned => false,
            PartState::Absent => !self.could_hold_next(session, id),
            PartState::Loading | PartState::Evicting => true,
        };
        let devices = (0..self.devices.len()).map(DeviceId);
        let free = devices.filter(|id| reserved[id.0].is_none());
        // a device that is loading is reserved only for a session whose key it already holds. A session without its key
        // there would have to wait for the end of the load; during the load, the reservation would keep out other
        // sessions, which can run beside the load.
        let may_wait_for =
            |id: DeviceId| self.devices[id.0].loading.is_none() || self.key_state(session, id) == PartState::Resident;
        let candidates = free.filter(|&id| self.has_work_for(session, id) && may_wait_for(id));
        candidates.min_by_key(|&id| (must_drain(id), self.devices[id.0].works()))
    }

    /// Removes the reservations of a session that is served.
    fn release_reservations(&mut self, session: SessionId) {
        let held = self.devices.iter_mut().filter(|device| device.reserved_for == Some(session));
        held.for_each(|device| device.reserved_for = None);
    }

    /// Chooses one of the devices `open` for a ready session. The order of preference is: an idle device with the
    /// session's key, a device with the key where a batch can join a call, an idle device without the key, a busy
    /// device with the key, a busy device without the key, and last the device where loading the key failed.
    fn device_for(&self, session: SessionId, open: &[DeviceId]) -> Option<DeviceId> {
        let books = &self.sessions[&session];
        let loading = self.devices.iter().any(|device| device.loads(session));
        let rank = |id: DeviceId| {
            let device = &self.devices[id.0];
            let idle = device.calls.is_empty();
            match self.key_state(session, id) {
                PartState::Resident | PartState::Pinned if self.may_join(session, id) => Some(1),
                _ if !device.has_place() => None,
                PartState::Resident | PartState::Pinned => Some(if idle { 0 } else { 3 }),
                // A device loads for one session at a time. A session's key is loaded on one device at a time, because
                // the first device may be able to run all waiting rows of the session.
                PartState::Absent if device.loading.is_some() => None,
                PartState::Absent if loading || !self.could_hold_next(session, id) => None,
                PartState::Absent if books.load_failed_on == Some(id) => Some(5),
                PartState::Absent => Some(if idle { 2 } else { 4 }),
                PartState::Loading | PartState::Evicting => None, // the device's report starts the next dispatch
            }
        };
        // of two devices that are alike, the home of a circuit has its inputs
        let is_away = |id: DeviceId| {
            let next = self.next_rows(session, id).map(|next| &self.operations[&next.operation]);
            next.and_then(|operation| operation.circuit.as_ref()).is_some_and(|circuit| circuit.home != Some(id))
        };
        let candidates = open.iter().copied().filter(|&id| self.has_work_for(session, id));
        candidates.filter_map(|id| Some((rank(id)?, is_away(id), id))).min().map(|(.., id)| id)
    }

    /// Whether a batch of the session may join the open call of a device. All waiting rows must fit, or at least half a
    /// batch, because the key is the costly operand, so rows under one key should not be scattered over many batches.
    /// Rows that failed before run alone.
    fn may_join(&self, session: SessionId, device: DeviceId) -> bool {
        let books = &self.devices[device.0];
        let Some(call) = books.open_call() else { return false };
        let waiting = &self.sessions[&session];
        let all_fit = waiting.queued_size <= call.room;
        let next = self.next_rows(session, device);
        let next = next.filter(|next| !self.failed_before(next));
        (all_fit || call.room >= books.limits.batch_units_max / 2)
            && next.is_some_and(|next| rows_that_fit(self.units_of(next), call.room) > 0)
            && call.batches.iter().all(|batch| batch.session != session)
    }

    fn units_of(&self, waiting: &QueuedRows) -> &[u32] {
        &self.operations[&waiting.operation].units[waiting.rows.clone()]
    }

    /// Whether a batch with these rows (or with rows of their circuit) failed before.
    fn failed_before(&self, waiting: &QueuedRows) -> bool {
        let circuit = self.operations[&waiting.operation].circuit.as_ref();
        waiting.failed_on.is_some() || circuit.is_some_and(|circuit| circuit.restarted)
    }

    /// The session that has waited longest, among the sessions that wait for a full batch and that an idle device could
    /// serve.
    fn gathering_for_an_idle_device(&self) -> Option<SessionId> {
        let unreserved = self.devices_that_take_work().filter(|id| self.devices[id.0].reserved_for.is_none());
        let idle: Vec<_> = unreserved.filter(|id| self.devices[id.0].is_idle()).collect();
        let mut sessions = self.gathering.iter().map(|&(_, session)| session);
        sessions.find(|&session| self.device_for(session, &idle).is_some())
    }

    fn has_work_for(&self, session: SessionId, device: DeviceId) -> bool {
        self.next_key(session, device).is_some()
    }

    /// The parts of the key that the session's next rows on this device need; `None` if the session has no rows for the
    /// device.
    fn next_key(&self, session: SessionId, device: DeviceId) -> Option<Arc<[Prepared]>> {
        Some(self.operations[&self.next_rows(session, device)?.operation].key.clone())
    }

    /// The session's next rows on this device.
    fn next_rows(&self, session: SessionId, device: DeviceId) -> Option<&QueuedRows> {
        self.sessions[&session].queue.iter().find(|waiting| self.may_start(waiting, device))
    }

    /// The state of the parts that the session's next rows on this device need: `Resident` if all are on the device.
    fn key_state(&self, session: SessionId, device: DeviceId) -> PartState {
        let key = self.next_key(session, device);
        key.map_or(PartState::Absent, |key| self.devices[device.0].residency.state_of_set(&key))
    }

    /// Whether the parts that the session's next rows need would fit on the device if everything else that may be
    /// evicted were evicted.
    fn could_hold_next(&self, session: SessionId, device: DeviceId) -> bool {
        let sizes = |key: Arc<[Prepared]>| self.sizes(session, &key, device);
        let set = self.next_key(session, device).map(sizes);
        set.is_some_and(|set| self.devices[device.0].residency.could_hold(&set))
    }

    /// The parts with their sizes on a device.
    fn sizes(&self, session: SessionId, key: &[Prepared], device: DeviceId) -> Vec<(Prepared, u64)> {
        key.iter().map(|&part| (part, self.bytes_of_part(session, part, device))).collect()
    }

    /// Whether these rows may run on this device. Rows that failed on a device run on another one if possible.
    fn may_start(&self, waiting: &QueuedRows, device: DeviceId) -> bool {
        let operation = &self.operations[&waiting.operation];
        let may_run = match &operation.circuit {
            Some(circuit) => self.may_run_on(operation, circuit, device),
            None => waiting.failed_on != Some(device) || self.devices_for(operation).all(|other| other == device),
        };
        may_run && self.serves(operation, device)
    }

    fn load(&mut self, session: SessionId, device: DeviceId) {
        let key = self.next_key(session, device).expect("it has rows for the device");
        self.release_reservations(session);
        // the command for the open call is given before the command for the load, so that the call runs beside the load
        self.order_open_call(device);
        let residency = &mut self.devices[device.0].residency;
        let is_absent = |part: &Prepared| residency.state(*part) == PartState::Absent;
        let (mut parts, pinned): (Vec<_>, Vec<_>) = key.iter().copied().partition(is_absent);
        parts.sort_unstable_by_key(|part| part.index());
        residency.pin(&pinned);
        let sizes = self.sizes(session, &parts, device);
        self.make_room(device, sizes.iter().map(|(_, bytes)| bytes).sum());
        let books = &mut self.devices[device.0];
        books.residency.load(&sizes);
        books.loading = Some(Loading { session, parts: parts.clone(), pinned });
        self.commands.push(Command::Load { device, session, parts });
    }

    pub(super) fn make_room(&mut self, device: DeviceId, bytes: u64) {
        let evicted = self.devices[device.0].residency.make_room(bytes);
        for part in evicted {
            if let Prepared::Part(session, _) = part {
                self.free_arena(device, session);
            }
            self.commands.push(Command::Evict { device, part });
        }
    }

    /// Starts a batch: in the open call of this step, or in a new call.
    fn run(&mut self, now: Duration, session: SessionId, device: DeviceId) {
        let joins = self.may_join(session, device);
        if !joins {
            self.order_open_call(device);
            let room = self.devices[device.0].limits.batch_units_max;
            let (batches, cost, levels, open, failed) = (Vec::new(), 0, CallLevels::default(), true, false);
            self.devices[device.0].calls.push(Call { batches, cost, levels, room, open, failed, since: now });
        }
        let batch = self.next_batch(now, session, device);
        self.release_reservations(session);
        let in_turn = self.devices[device.0].loading.is_none();
        self.fair.charge(session, batch.cost, in_turn);
        if self.sessions[&session].queue.is_empty() {
            self.fair.set_ready(session, false);
        }
        self.devices[device.0].residency.pin(&batch.key);
        let rides_alone = batch.parts.iter().any(|part| part.retried);
        let call = self.devices[device.0].calls.last_mut().expect("it was just put there");
        call.cost += batch.cost;
        call.batches.push(batch);
        if rides_alone {
            self.order_open_call(device);
        }
    }

    /// Gives the command for the open call of this step; no more batches join the call.
    fn order_open_call(&mut self, device: DeviceId) {
        let Some(call) = self.devices[device.0].calls.last_mut().filter(|call| call.open) else { return };
        call.open = false;
        self.commands.push(Command::Run { device, batches: call.batches.clone() });
    }

    /// Takes rows from the queue, first come, first served, as many as fit in the device's last call. The first batch
    /// of a call takes at least one row. A circuit whose next level fits whole gives further levels, as many as fit in
    /// the window.
    fn next_batch(&mut self, now: Duration, session: SessionId, device: DeviceId) -> Batch {
        let id = BatchId(self.totals.batches_started);
        self.totals.batches_started += 1;
        let mut batch =
            Batch { id, device, session, parts: Vec::new(), key: Vec::new(), arena_slots: 0, units: 0, cost: 0 };
        let call = self.devices[device.0].calls.last().expect("a batch is of a call");
        let (mut room, first_of_call) = (call.room, call.batches.is_empty());
        let mut at = 0;
        while let Some(waiting) = self.sessions[&session].queue.get(at) {
            // the level that follows a level of this batch waits for the next call
            let follows = batch.parts.iter().any(|part| part.operation == waiting.operation)
                && self.operations[&waiting.operation].circuit.is_some();
            if follows || !self.may_start(waiting, device) {
                at += 1;
                continue;
            }
            // Each part of a failed batch runs again in a separate batch.
            let alone = waiting.failed_on.is_some();
            if batch.parts.first().is_some_and(|first| first.retried || alone)
                || (!first_of_call && self.failed_before(waiting))
            {
                break;
            }
            let key = self.operations[&waiting.operation].key.clone();
            if self.devices[device.0].residency.state_of_set(&key) != PartState::Resident {
                break; // these rows wait for their key, and later rows do not overtake them: first come, first served
            }
            let operation = self.operations.get_mut(&waiting.operation).expect("queued operations have not ended");
            let fits = rows_that_fit(&operation.units[waiting.rows.clone()], room);
            let rows = if batch.parts.is_empty() && first_of_call { fits.max(1) } else { fits };
            if rows == 0 {
                break;
            }
            operation.started.get_or_insert(now);
            let part = self.start(session, device, at, rows, room);
            self.count_levels(session, device, &part);
            let units = &self.operations[&part.operation].units[part.rows.clone()];
            room = room.saturating_sub(size_of(units));
            batch.units += units_of(units);
            batch.cost += cost_of(units, self.sessions[&session].unit_costs[device.0]);
            batch.parts.push(part);
            batch.key.extend(&*key);
        }
        batch.key.sort_unstable();
        batch.key.dedup();
        batch.arena_slots = self.devices[device.0].arena_slots(session);
        self.devices[device.0].calls.last_mut().expect("it was there before").room = room;
        batch
    }

    /// Takes rows from the queue, and slots for these rows. A circuit's level that is taken whole brings further levels,
    /// as long as all rows together have at most the size `room`.
    fn start(&mut self, session: SessionId, device: DeviceId, at: usize, rows: usize, room: usize) -> BatchPart {
        let mut taken = self.dequeue(session, at, rows);
        let end = self.end_of_window(device, &taken, room);
        let QueuedRows { operation, ref rows, failed_on } = taken;
        let started = self.operations.get_mut(&operation).expect("queued operations have not ended");
        started.running_rows += end - rows.start;
        let Some(circuit) = &started.circuit else {
            let count = started.list_slots[rows.clone()].iter().map(|&slots| slots as usize).sum();
            let kind = self.sessions[&session].slot_kind;
            let slots = self.devices[device.0].take_slots(session, count, kind);
            let retried = failed_on.is_some();
            let (there, completes) = ([].into(), false);
            return BatchPart { operation, rows: taken.rows, retried, slots, there, completes };
        };
        let retried = failed_on.is_some() || circuit.restarted;
        taken.rows.end = end;
        let Taken { slots, there } = self.begin(operation, device);
        let completes = self.circuit_rows_started(operation, end);
        BatchPart { operation, rows: taken.rows, retried, slots, there, completes }
    }

    /// Returns the end of the rows that start with these rows: further levels of a circuit, if these rows end a level.
    fn end_of_window(&self, device: DeviceId, taken: &QueuedRows, room: usize) -> usize {
        let OperationBooks { session, units, circuit, queued_rows, .. } = &self.operations[&taken.operation];
        let Some(circuit) = circuit.as_ref().filter(|_| *queued_rows == 0) else { return taken.rows.end };
        let (kind, books) = (self.kind_of(*session, device), &self.devices[device.0]);
        let mut call = books.calls.last().expect("a batch is of a call").levels.clone();
        call.add(kind, 0, cost_of(&units[taken.rows.clone()], kind.unit_cost));
        let firsts = std::iter::once(taken.rows.end).chain(circuit.later_levels().iter().copied());
        let levels = firsts.zip(circuit.later_levels()).map(|(first, &end)| &units[first..end]);
        let mut room = room.saturating_sub(size_of(&units[taken.rows.clone()]));
        let fit = levels.map_while(|units| {
            room = room.checked_sub(size_of(units))?;
            Some(cost_of(units, kind.unit_cost))
        });
        match books.level_paces.levels_that_fit(&call, kind, fit, self.limits.window) {
            0 => taken.rows.end,
            levels => circuit.later_levels()[levels - 1],
        }
    }

    /// Counts a part that starts among the levels of its call.
    fn count_levels(&mut self, session: SessionId, device: DeviceId, part: &BatchPart) {
        let kind = self.kind_of(session, device);
        let OperationBooks { units, circuit, .. } = &self.operations[&part.operation];
        let ends = circuit.as_ref().map_or(&[][..], |circuit| circuit.level_ends());
        let call = self.devices[device.0].calls.last_mut().expect("a batch is of a call");
        for (level, rows) in split_by_levels(ends, part.rows.clone()).into_iter().enumerate() {
            call.levels.add(kind, level, cost_of(&units[rows], kind.unit_cost));
        }
    }

    fn kind_of(&self, session: SessionId, device: DeviceId) -> Kind {
        let books = &self.sessions[&session];
        Kind { unit_cost: books.unit_costs[device.0], has_tables: books.tables.is_some() }
    }

    pub(super) fn end_gathering(&mut self, now: Duration) {
        while let Some(&(until, session)) = self.gathering.first()
            && until <= now
        {
            self.make_ready(session);
        }
    }
}
