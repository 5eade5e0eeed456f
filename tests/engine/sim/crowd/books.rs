//! An observer that keeps simple books of events and commands, and the rules that the scheduler must obey.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::batch::{Batch, BatchPart, DeviceId};
use engine::scheduler::{Cause, Finished, Form, Levels, SchedulerLimits, SlotKind, Work};
use engine::{AccountId, Error, OperationId, ParamsId, PartId, Prepared, SessionId, Usage};

use super::operation::{ObservedOperation, RowState};

pub struct ObservedSession {
    pub account: AccountId,
    pub host_bytes: u64,
    pub device_bytes: Vec<Vec<u64>>,
    pub slot_kind: SlotKind,
    /// The parameter set whose tables are part 0 of the session's key.
    pub tables: Option<ParamsId>,
    pub closed: bool,
    /// How many loads failed since the last one that succeeded, or that ended the session's work.
    pub loads_failed: usize,
    /// For a closed session: how many loads and batches each device may still end before it must drop the session's
    /// key.
    pub patience: Option<Vec<usize>>,
    /// The cost of the session's batches that ran beside loads of other sessions.
    pub ahead: Ahead,
    /// The cost served to each account since this session last ran, while rows of this session were due.
    pub waits: Option<BTreeMap<AccountId, u64>>,
}

/// The cost of batches that ran beside loads of other sessions and that has not been made up for. A session makes up
/// for this cost by waiting until other sessions have run. When the session gets its next turn, the cost from before
/// its last turn is made up for. The cost since its last turn is not, because the session may have got the new turn
/// before the latest load.
#[derive(Clone, Copy, Default)]
pub struct Ahead {
    since_turn: u64,
    before: u64,
}

impl Ahead {
    fn cost(self) -> u64 {
        self.since_turn + self.before
    }

    fn turn(&mut self) {
        *self = Ahead { since_turn: 0, before: self.since_turn };
    }
}

/// The largest cost of a batch: a full batch of the most expensive units, or the one row that may exceed the limit.
fn cost_max(batch_units_max: usize) -> u64 {
    batch_units_max.max(2) as u64 * 112
}

/// The observer's books.
pub struct Books {
    pub limits: SchedulerLimits,
    pub sessions: BTreeMap<SessionId, ObservedSession>,
    /// The cost of each account's batches that ran beside loads of other accounts.
    ahead: BTreeMap<AccountId, Ahead>,
    /// Accepted operations that have not ended.
    pub operations: BTreeMap<OperationId, ObservedOperation>,
    /// Operations that have ended, each once.
    pub ended: BTreeSet<OperationId>,
    /// Operations that have ended while some of their rows still run.
    orphans: BTreeMap<OperationId, ObservedOperation>,
    /// For every arena, the number of its slots, and the slots in use.
    pub arenas: BTreeMap<(DeviceId, SessionId), (usize, BTreeSet<u32>)>,
    /// Devices that were ordered to retire.
    pub lost: BTreeSet<DeviceId>,
    rows_done: u64,
    pub draining: bool,
    pub abandoned: bool,
    pub stopped: bool,
    /// Number of failures of devices.
    pub failures: usize,
}

impl Books {
    pub fn new(limits: SchedulerLimits) -> Self {
        Self {
            limits,
            sessions: BTreeMap::new(),
            ahead: BTreeMap::new(),
            operations: BTreeMap::new(),
            ended: BTreeSet::new(),
            orphans: BTreeMap::new(),
            arenas: BTreeMap::new(),
            lost: BTreeSet::new(),
            rows_done: 0,
            draining: false,
            abandoned: false,
            stopped: false,
            failures: 0,
        }
    }

    pub fn in_service(&self, device: DeviceId) -> bool {
        let all = || (0..self.limits.devices.len()).map(DeviceId).filter(|device| !self.lost.contains(device));
        let stands_in = |device: DeviceId| self.limits.devices[device.0].stand_in;
        all().any(|other| other == device) && (!stands_in(device) || all().all(stands_in))
    }

    fn healthy(&self) -> impl Iterator<Item = DeviceId> {
        (0..self.limits.devices.len()).map(DeviceId).filter(|device| !self.lost.contains(device))
    }

    fn is_stand_in(&self, device: DeviceId) -> bool {
        self.limits.devices[device.0].stand_in
    }

    /// Whether the device gets rows of this operation.
    fn serves(&self, operation: &ObservedOperation, device: DeviceId) -> bool {
        !self.lost.contains(&device) && self.is_stand_in(device) == operation.aside && self.holds(operation, device)
    }

    /// Whether the device gets rows of an operation of the session.
    pub fn serves_some(&self, session: SessionId, device: DeviceId) -> bool {
        let of = self.operations.values().filter(|operation| operation.session == session);
        of.into_iter().any(|operation| self.serves(operation, device))
    }

    /// Whether an operation fits on a device that holds nothing else.
    fn holds(&self, operation: &ObservedOperation, device: DeviceId) -> bool {
        let slots_fit = |(levels, _): &(Levels, _)| self.slots_fit(operation.session, levels, device);
        self.fits(operation.session, &operation.key, device) && operation.circuit.as_ref().is_none_or(slots_fit)
    }

    fn slots_fit(&self, session: SessionId, levels: &Levels, device: DeviceId) -> bool {
        let SlotKind { bytes, for_lists } = self.sessions[&session].slot_kind;
        let bytes = (levels.slots + usize::from(for_lists) * self.list_slots_max(device)) as u64 * bytes;
        bytes <= self.limits.devices[device.0].arena_bytes_max
    }

    fn fits(&self, session: SessionId, key: &[PartId], device: DeviceId) -> bool {
        self.bytes_of(session, key, device) <= self.limits.devices[device.0].resident_bytes_max
    }

    fn stand_in_holds(&self, operation: &ObservedOperation) -> bool {
        self.healthy().any(|device| self.is_stand_in(device) && self.holds(operation, device))
    }

    fn only_stand_ins_hold(&self, operation: &ObservedOperation) -> bool {
        let other_holds = |device| !self.is_stand_in(device) && self.holds(operation, device);
        self.stand_in_holds(operation) && !self.healthy().any(other_holds)
    }

    /// The size of these parts of a session's key on a device.
    fn bytes_of(&self, session: SessionId, key: &[PartId], device: DeviceId) -> u64 {
        let sizes = &self.sessions[&session].device_bytes[device.0];
        key.iter().map(|part| sizes[part.0 as usize]).sum()
    }

    fn serviceable(&self, session: SessionId, key: &[PartId]) -> bool {
        self.healthy().any(|device| self.fits(session, key, device))
    }

    pub fn opened(&mut self, session: SessionId, opened: ObservedSession, refusal: Option<&Error>) {
        let none_left = self.healthy().next().is_none();
        let bytes_max = |device: DeviceId| self.limits.devices[device.0].resident_bytes_max;
        let each_fits =
            |device: DeviceId| opened.device_bytes[device.0].iter().all(|&bytes| bytes <= bytes_max(device));
        let too_large = !self.healthy().any(each_fits);
        let full = self.key_bytes() + opened.host_bytes > self.limits.key_bytes_max;
        match refusal {
            None => {
                assert!(!too_large && !full && !self.draining, "{session:?} should have been refused");
                self.sessions.insert(session, opened);
            }
            Some(Error::KeyTooLarge { .. }) => assert!(too_large && !none_left),
            Some(Error::Busy { .. }) => assert!(full),
            Some(Error::ShuttingDown) => assert!(self.draining),
            Some(Error::Device(_)) => assert!(none_left),
            Some(other) => panic!("{session:?} refused with {other:?}"),
        }
    }

    pub fn submitted(
        &mut self,
        now: Duration,
        session: SessionId,
        id: OperationId,
        work: Work,
        deadline: Option<Duration>,
        refusal: Option<&Error>,
    ) {
        let gone = self.sessions.get(&session).is_none_or(|session| session.closed);
        let rows = work.units.len();
        let (full, too_large) = match &work.form {
            Form::List { .. } => (!self.has_room_for_list(session, rows), false),
            Form::Circuit(levels) if gone => (levels.slots == 0, false),
            Form::Circuit(levels) => (self.may_be_full(), self.is_too_large(session, rows, &work.key, levels)),
        };
        match refusal {
            None => {
                assert!(!gone && !too_large && !self.draining, "{id:?} should have been refused");
                assert!(!full || matches!(work.form, Form::Circuit(_)), "{id:?} should have been refused");
                let mut operation = ObservedOperation::new(now, session, work, deadline);
                operation.aside = self.only_stand_ins_hold(&operation);
                self.operations.insert(id, operation);
            }
            Some(Error::Gone) => assert!(gone),
            Some(Error::CircuitTooLarge { .. }) => assert!(too_large),
            Some(Error::Busy { retry_after }) => {
                assert!(full);
                assert!((1..=60).contains(&retry_after.as_secs()), "{retry_after:?}");
            }
            Some(Error::ShuttingDown) => assert!(self.draining),
            Some(Error::Device(_)) => assert!(!self.serviceable(session, &work.key)),
            Some(Error::KeyTooLarge { .. }) => {
                let bytes_max = self.limits.devices.iter().map(|device| device.resident_bytes_max);
                let mut devices = (0..).map(DeviceId).zip(bytes_max);
                assert!(devices.all(|(device, bytes_max)| self.bytes_of(session, &work.key, device) > bytes_max));
            }
            Some(other) => panic!("{id:?} refused with {other:?}"),
        }
    }

    fn has_room_for_list(&self, session: SessionId, count: usize) -> bool {
        self.held_rows(|_| true) + count <= self.limits.queue_rows_max
            && self.held_rows(|of| of == session) + count <= self.limits.session_rows_max
    }

    /// Whether the engine may have no room now. An idle engine has room for any operation that is not too large.
    fn may_be_full(&self) -> bool {
        self.circuits().next().is_some() || !self.arenas.is_empty()
    }

    fn is_too_large(&self, session: SessionId, rows: usize, key: &[PartId], levels: &Levels) -> bool {
        let devices: Vec<_> = self.healthy().filter(|&device| self.fits(session, key, device)).collect();
        let fits = |device: &DeviceId| self.slots_fit(session, levels, *device);
        rows > self.limits.circuit_rows_max.min(self.limits.session_circuit_rows_max)
            || levels.host_bytes > self.limits.circuit_bytes_max.min(self.limits.session_circuit_bytes_max)
            || (!devices.is_empty() && !devices.iter().any(fits))
    }

    /// Largest number of slots that running batches of lists may need on a device.
    fn list_slots_max(&self, device: DeviceId) -> usize {
        let limits = &self.limits.devices[device.0];
        limits.batches_in_flight_max * (3 * limits.batch_units_max).max(4)
    }

    fn circuits(&self) -> impl Iterator<Item = &ObservedOperation> {
        self.operations.values().chain(self.orphans.values()).filter(|operation| operation.circuit.is_some())
    }

    /// Notes a cancellation. Returns `true` if the operation must end now, because some of its rows have not started.
    pub fn cancelled(&mut self, operation: OperationId) -> bool {
        let Some(operation) = self.operations.get_mut(&operation) else { return false };
        operation.cancelled = operation.rows.iter().any(|row| !matches!(row, RowState::Running | RowState::Done));
        operation.cancelled
    }

    /// Checks the batches that a device is to run side by side.
    pub fn called(&self, device: DeviceId, batches: &[Batch]) {
        let limits = &self.limits.devices[device.0];
        let sessions: BTreeSet<_> = batches.iter().map(|batch| batch.session).collect();
        assert!(sessions.len() == batches.len() && batches.len() <= limits.keys_together_max, "{batches:?}");
        assert!(batches.iter().all(|batch| batch.device == device) && !batches.is_empty());
        let size: usize = batches.iter().map(|batch| self.size_of(batch)).sum();
        let rows: usize = batches.iter().map(Batch::rows).sum();
        assert!(rows == 1 || size <= limits.batch_units_max, "{size} units side by side");
        let retried = batches.iter().flat_map(|batch| &batch.parts).any(|part| part.retried);
        assert!(!retried || batches.len() == 1, "a row that failed before runs alone");
    }

    fn size_of(&self, batch: &Batch) -> usize {
        let units = |part: &BatchPart| self.operations[&part.operation].units[part.rows.clone()].to_vec();
        batch.parts.iter().flat_map(units).map(|units| units.max(1) as usize).sum()
    }

    pub fn started(&mut self, now: Duration, batch: &Batch) {
        let of = batch.parts.iter().map(|part| &self.operations[&part.operation]);
        of.for_each(|operation| assert!(self.serves(operation, batch.device), "{:?} gets {operation:?}", batch.device));
        let mut size = 0;
        let tables = self.sessions[&batch.session].tables;
        for part in &batch.parts {
            let operation = self.operations.get_mut(&part.operation).expect("an operation that starts has not ended");
            assert_eq!(operation.session, batch.session, "a batch holds rows of one session");
            assert!(
                operation.key.iter().all(|&part| batch.key.contains(&Prepared::of(batch.session, part, tables))),
                "a batch holds the parts that its rows need"
            );
            assert!(!part.rows.is_empty());
            for (at, rows) in operation.levels_of(part.rows.clone()).into_iter().enumerate() {
                let is_whole = at == 0 || operation.is_level(&rows);
                assert!(is_whole, "levels after the first one of a window are whole");
                for row in &mut operation.rows[rows] {
                    // the later levels of a window were not queued
                    let starts = matches!((at, &row), (0, RowState::Queued(_)) | (1.., RowState::Later));
                    assert!(starts, "a {row:?} row starts in level {at} of a window");
                    *row = RowState::Running;
                }
            }
            if operation.circuit.is_some() {
                operation.queue_next_level(now);
            }
            let units = &operation.units[part.rows.clone()];
            size += units.iter().map(|&units| units.max(1) as usize).sum::<usize>();
            let all_under_way = operation.rows.iter().all(|row| matches!(row, RowState::Running | RowState::Done));
            assert_eq!(part.completes, operation.circuit.is_some() && all_under_way);

            let (arena_slots, in_use) = self.arenas.entry((batch.device, batch.session)).or_default();
            *arena_slots = (*arena_slots).max(batch.arena_slots);
            let mut take = |slots: &[u32]| {
                for &slot in slots {
                    assert!((slot as usize) < *arena_slots && in_use.insert(slot), "slot {slot} is taken");
                }
            };
            match &mut operation.circuit {
                None => {
                    let needed: u32 = operation.list_slots[part.rows.clone()].iter().sum();
                    assert_eq!(part.slots.len(), needed as usize);
                    take(&part.slots);
                }
                Some((levels, _)) if operation.slots.is_empty() => {
                    assert_eq!(part.slots.len(), levels.slots);
                    let of_values = operation.begin(batch.device, part);
                    take(&operation.own_slots);
                    assert!(
                        of_values.iter().all(|slot| !in_use.contains(slot)),
                        "no other operation has a value's slots"
                    );
                }
                Some((_, None)) => panic!("a circuit with slots has a place"),
                Some((_, Some(place))) => {
                    assert_eq!(*place, batch.device, "a circuit stays where it began");
                    assert_eq!(operation.slots[..], part.slots[..]);
                }
            }
        }
        assert!(batch.rows() == 1 || size <= self.limits.devices[batch.device.0].batch_units_max, "a batch of {size}");
        assert!(batch.rows() > 0);
    }

    /// Notes a batch that runs beside a load. Sessions before the batch's session in the queue could not use that time,
    /// but the batch's cost is still noted for its session and account.
    pub fn ran_beside_load(&mut self, batch: &Batch) {
        let session = self.sessions.get_mut(&batch.session).expect("the session has work");
        session.ahead.since_turn += batch.cost;
        self.ahead.entry(session.account).or_default().since_turn += batch.cost;
    }

    /// Checks that no session starves while other sessions are served, no matter which keys fit on the device. While
    /// rows of a session are due, each other account is served at most the share that fair queueing allows. A batch
    /// beside a load is left out, because sessions before the batch's session in the queue could not use that time. The
    /// check is for one device only, because with several devices other sessions run while one device drains or loads.
    /// Returns whether a session waited.
    pub fn served(&mut self, now: Duration, batch: &Batch) -> bool {
        let [limits] = &self.limits.devices[..] else { return false };
        let (cost_max, wait) = (cost_max(limits.batch_units_max), self.limits.wait);
        let weight = |account: AccountId| account.0 as u64;
        let served = self.sessions[&batch.session].account;
        let due = |operation: &ObservedOperation| {
            let due = |row: &RowState| matches!(row, RowState::Queued(since) if *since + wait < now);
            operation.rows.iter().any(due).then_some(operation.session)
        };
        let waiting: BTreeSet<_> = self.operations.values().filter_map(due).filter(|id| *id != batch.session).collect();
        let mates = |account| self.sessions.values().filter(|session| session.account == account).count() as u64;
        let bounds: Vec<_> = waiting
            .iter()
            .map(|id| {
                let (account, ahead) = (self.sessions[id].account, self.sessions[id].ahead.cost());
                let account_ahead = self.ahead.get(&account).map_or(0, |ahead| ahead.cost());
                // Between two batches of the session, each other session of its account runs at most twice. `mates`
                // lacks sessions that have been erased since; the added 2 makes room for these.
                let own = (2 * mates(account) + 2) * (2 * cost_max + ahead);
                let others = own + cost_max + account_ahead;
                if account == served { own } else { others * weight(served) / weight(account) + 2 * cost_max }
            })
            .collect();
        self.ahead.entry(served).or_default().turn();
        self.sessions.get_mut(&batch.session).expect("the session has work").ahead.turn();
        self.sessions.iter_mut().filter(|(id, _)| !waiting.contains(id)).for_each(|(_, session)| session.waits = None);
        for (id, bound) in waiting.iter().zip(bounds) {
            let waits = self.sessions.get_mut(id).expect("the session has work").waits.get_or_insert_default();
            let cost = waits.entry(served).or_default();
            *cost += batch.cost;
            assert!(*cost <= bound, "{id:?} waits while {served:?} is served {cost}, more than {bound}");
        }
        !waiting.is_empty()
    }

    pub fn ran(&mut self, now: Duration, batch: &Batch, failure: Option<Cause>) {
        let succeeded = failure.is_none();
        if succeeded {
            self.rows_done += batch.rows() as u64;
        }
        for part in &batch.parts {
            let id = part.operation;
            let alive = self.operations.contains_key(&id);
            if !succeeded && alive {
                self.operations
                    .entry(id)
                    .and_modify(|books| books.failed_aside |= self.limits.devices[batch.device.0].stand_in);
            }
            if failure == Some(Cause::OutOfMemory) && part.retried && alive {
                self.set_aside(id);
            }
            let of = if alive { &mut self.operations } else { &mut self.orphans };
            let operation = of.get_mut(&id).expect("rows of the operation run");
            for row in &mut operation.rows[part.rows.clone()] {
                assert_eq!(*row, RowState::Running);
                *row = match (succeeded, operation.circuit.is_some()) {
                    (true, _) => RowState::Done,
                    // A failed row is due at once, because it waited before its first try.
                    (false, false) => RowState::Queued(Duration::ZERO),
                    (false, true) => RowState::Failed,
                };
            }
            if operation.circuit.is_none() {
                self.give_back(batch.device, batch.session, &part.slots);
            } else if succeeded {
                operation.queue_next_level(now);
            } else {
                operation.stop();
            }
            self.bury(id);
        }
    }

    /// Notes that a device was out of memory for an operation again. A stand-in goes on if it can hold the operation.
    fn set_aside(&mut self, id: OperationId) {
        let operation = &self.operations[&id];
        let stays = operation.aside || self.abandoned || self.sessions[&operation.session].closed;
        if !stays && self.stand_in_holds(operation) {
            let operation = self.operations.get_mut(&id).expect("it has not ended");
            (operation.aside, operation.moved, operation.lacked_memory) = (true, true, true);
        }
    }

    /// Notes a failed load, before the scheduler learns of it. After the second one in a row, a device without memory
    /// sets aside what it serves.
    pub fn load_failed(&mut self, device: DeviceId, session: SessionId, cause: Cause) {
        let stands_in = self.is_stand_in(device);
        self.operations.values_mut().filter(|of| of.session == session).for_each(|of| of.failed_aside |= stands_in);
        let again = self.sessions.get_mut(&session).is_some_and(|books| books.loads_failed > 0);
        if cause != Cause::OutOfMemory || !again || self.lost.contains(&device) {
            return;
        }
        let is_stuck = |operation: &ObservedOperation| {
            let restarts = operation.is_circuit() && operation.rows.contains(&RowState::Failed);
            operation.session == session
                && !restarts
                && operation.rows.iter().any(|row| !matches!(row, RowState::Running | RowState::Done))
                && self.serves(operation, device)
        };
        let stuck: Vec<_> = self.operations.iter().filter(|(_, books)| is_stuck(books)).map(|(&id, _)| id).collect();
        for id in stuck {
            self.set_aside(id);
            let operation = self.operations.get_mut(&id).expect("it was just there");
            if operation.moved && operation.circuit.as_ref().is_some_and(|(_, place)| place.is_some()) {
                operation.stop();
            }
        }
    }

    /// Counts the failed loads of a session since the last load that succeeded or ended the session's work.
    pub fn count_load(&mut self, device: DeviceId, session: SessionId, failed: bool) {
        let lost = self.lost.contains(&device);
        let Some(books) = self.sessions.get_mut(&session).filter(|_| !failed || !lost) else { return };
        books.loads_failed = if failed { (books.loads_failed + 1) % 2 } else { 0 };
    }

    /// Drops an ended operation when none of its rows runs any more.
    fn bury(&mut self, id: OperationId) {
        if self.orphans.get(&id).is_some_and(|orphan| !orphan.rows.contains(&RowState::Running)) {
            let orphan = self.orphans.remove(&id).expect("the orphan was found above");
            self.leave(&orphan);
        }
    }

    /// Frees the slots of a circuit on its device.
    fn leave(&mut self, operation: &ObservedOperation) {
        if let Some((_, Some(device))) = &operation.circuit {
            self.give_back(*device, operation.session, &operation.own_slots);
        }
    }

    /// An operation whose rows run or wait.
    pub fn operation(&self, id: OperationId) -> &ObservedOperation {
        self.operations.get(&id).unwrap_or_else(|| &self.orphans[&id])
    }

    fn give_back(&mut self, device: DeviceId, session: SessionId, slots: &[u32]) {
        // the arena is missing if the device was lost
        if let Some((_, in_use)) = self.arenas.get_mut(&(device, session)) {
            slots.iter().for_each(|slot| assert!(in_use.remove(slot)));
        }
    }

    /// Notes that a device must retire.
    pub fn lost(&mut self, device: DeviceId) {
        assert!(self.lost.insert(device), "{device:?} retires once");
        let there =
            |operation: &&mut ObservedOperation| operation.circuit.as_ref().is_some_and(|at| at.1 == Some(device));
        self.operations.values_mut().filter(there).for_each(ObservedOperation::stop);
        let moves = |operation: &ObservedOperation| !operation.aside && self.only_stand_ins_hold(operation);
        let moved: Vec<_> = self.operations.iter().filter(|(_, books)| moves(books)).map(|(&id, _)| id).collect();
        for id in moved {
            self.operations.entry(id).and_modify(|operation| (operation.aside, operation.moved) = (true, true));
        }
    }

    pub fn restarted(&mut self, now: Duration, id: OperationId) {
        let mut operation = self.operations.remove(&id).expect("an operation that restarts has not ended");
        assert!(!operation.rows.contains(&RowState::Running), "{id:?} restarts while some of its rows run");
        let (levels, place) = operation.circuit.clone().expect("lists do not restart");
        let lost = place.is_some_and(|device| self.lost.contains(&device));
        assert!(operation.rows.contains(&RowState::Failed) || lost, "{id:?} restarts without need");
        operation.restarts += 1;
        assert!(operation.restarts <= 1 + usize::from(operation.moved), "{id:?} restarts too often");
        self.leave(&operation);
        operation.circuit = Some((levels, None));
        (operation.slots, operation.own_slots) = (Vec::new(), Vec::new());
        operation.rows.fill(RowState::Later);
        operation.queue_next_level(now);
        self.operations.insert(id, operation);
    }

    pub fn finished(&mut self, now: Duration, id: OperationId, outcome: &Result<Finished, Error>) {
        let operation = self.operations.remove(&id).unwrap_or_else(|| panic!("{id:?} ends, but is not running"));
        assert!(self.ended.insert(id), "{id:?} ended twice");
        match outcome {
            Ok(finished) => {
                assert!(
                    operation.rows.iter().all(|&row| row == RowState::Done),
                    "{id:?} is done without all of its rows"
                );
                let units: u64 = operation.units.iter().map(|&units| u64::from(units)).sum();
                assert_eq!(finished.units, units);
                assert!(finished.compute <= now);
            }
            Err(Error::Cancelled) => assert!(operation.cancelled),
            Err(Error::Gone) => assert!(self.sessions[&operation.session].closed),
            Err(Error::DeadlinePassed) => assert!(operation.deadline.is_some_and(|deadline| deadline <= now)),
            Err(Error::Device(_)) => {
                // the client gets this error only after a second failure, or after the loss of a device
                assert!(self.failures >= 2 || !self.lost.is_empty());
                // an operation that was set aside gets the error only after a failure of the stand-in too
                let stand_in_lost = self.lost.iter().any(|&device| self.is_stand_in(device));
                assert!(!operation.moved || operation.failed_aside || stand_in_lost, "{id:?} was not tried aside");
            }
            Err(Error::ShuttingDown) => assert!(self.abandoned),
            Err(other) => panic!("{id:?} ended with {other:?}"),
        }
        self.orphans.insert(id, operation);
        self.bury(id);
    }

    pub fn freed(&mut self, device: DeviceId, session: SessionId) {
        let (_, in_use) = self.arenas.remove(&(device, session)).expect("a freed arena existed");
        assert!(in_use.is_empty(), "{in_use:?} are in use");
    }

    /// Notes that a session is erased. Returns its parameter set if no other session shares the set's tables.
    pub fn erased(&mut self, session: SessionId) -> Option<ParamsId> {
        let erased = self.sessions.remove(&session).expect("a session is erased once");
        assert!(erased.closed || self.draining, "{session:?} was open");
        assert!(self.operations.values().all(|operation| operation.session != session), "{session:?} had work");
        assert!(self.arenas.keys().all(|&(_, of)| of != session), "{session:?} has an arena");
        erased.tables.filter(|&params| self.sharing(params) == 0)
    }

    /// The number of sessions that share the tables of a parameter set.
    pub fn sharing(&self, params: ParamsId) -> usize {
        self.sessions.values().filter(|session| session.tables == Some(params)).count()
    }

    /// Whether all sessions that share the tables of a parameter set are closed.
    pub fn all_closed(&self, params: ParamsId) -> bool {
        self.sessions.values().filter(|session| session.tables == Some(params)).all(|session| session.closed)
    }

    /// Notes that a device has carried out a load or a call. So each erasure that waits for this device has one order
    /// less to wait for. An erasure never waits for orders that came after it.
    pub fn count_down(&mut self, device: DeviceId, keys: &BTreeMap<Prepared, u64>) {
        for (session, books) in &mut self.sessions {
            if let Some(patience) = &mut books.patience {
                let is_there = keys.keys().any(|part| matches!(part, Prepared::Part(of, _) if of == session));
                assert!(patience[device.0] > 0 || !is_there, "{session:?} should have been evicted");
                patience[device.0] = patience[device.0].saturating_sub(1);
            }
        }
    }

    /// Notes that a load has ended. The erasure of the loaded key then waits for the orders that the device has at this
    /// moment.
    pub fn load_ends(&mut self, device: DeviceId, session: SessionId, works: usize) {
        if let Some(patience) = self.sessions.get_mut(&session).and_then(|session| session.patience.as_mut()) {
            patience[device.0] = works;
        }
    }

    /// Checks the invariants, after every step. Returns whether a circuit waits for room.
    pub fn check(&self, now: Duration, usage: &Usage, devices_idle: bool) -> bool {
        let held = self.held_rows(|_| true);
        assert!(held <= self.limits.queue_rows_max, "{held} rows are held");
        for &session in self.sessions.keys() {
            assert!(self.held_rows(|of| of == session) <= self.limits.session_rows_max);
        }
        assert!(self.key_bytes() <= self.limits.key_bytes_max);
        assert_eq!(usage.key_bytes, self.key_bytes());
        assert_eq!(usage.sessions, self.sessions.len() as u64);
        assert_eq!(usage.operations, self.operations.len() as u64);
        let (rows, may_wait) = (self.rows_under_way(), self.rows_that_may_wait_for_room());
        let counted = (usage.queued_rows + usage.running_rows) as usize;
        assert!((rows - may_wait..=rows).contains(&counted), "{counted} of {rows} rows");
        assert_eq!(usage.rows_done, self.rows_done);
        self.check_circuits(usage);
        self.check_devices(usage);

        for (id, operation) in &self.operations {
            // at the deadline itself, another event of the same instant may come before the timeout
            assert!(operation.deadline.is_none_or(|deadline| deadline >= now), "{id:?} outlived its deadline");
            assert!(!operation.cancelled, "{id:?} outlived its cancellation");
            let waits = |row: &RowState| matches!(row, RowState::Queued(_));
            assert!(!(devices_idle && operation.rows.iter().any(waits)), "{id:?} waits for an idle device");
            let moves = operation.rows.iter().any(|row| matches!(row, RowState::Queued(_) | RowState::Running));
            assert!(moves, "{id:?} stands still: {:?}", operation.rows);
        }
        counted < rows
    }

    fn check_circuits(&self, usage: &Usage) {
        let live = self.operations.values().filter(|operation| operation.circuit.is_some()).count();
        assert_eq!(usage.circuits, live as u64);
        let gates = self.circuits().map(|circuit| circuit.rows.len()).sum::<usize>();
        assert!(gates <= self.limits.circuit_rows_max);
        for &session in self.sessions.keys() {
            let own = || self.circuits().filter(|circuit| circuit.session == session);
            assert!(own().map(|circuit| circuit.rows.len()).sum::<usize>() <= self.limits.session_circuit_rows_max);
            let bytes = own().filter_map(|circuit| circuit.circuit.as_ref()).map(|(levels, _)| levels.host_bytes);
            assert!(bytes.sum::<u64>() <= self.limits.session_circuit_bytes_max);
        }
        let shapes = self.circuits().filter_map(|operation| operation.circuit.as_ref());
        assert!(shapes.map(|(levels, _)| levels.host_bytes).sum::<u64>() <= self.limits.circuit_bytes_max);
    }

    fn check_devices(&self, usage: &Usage) {
        let in_service: Vec<_> =
            (0..self.limits.devices.len()).map(DeviceId).filter(|&id| self.in_service(id)).collect();
        assert_eq!(usage.devices_in_service, in_service.len() as u64);
        assert_eq!(usage.devices_lost, self.lost.len() as u64);
        let bytes_of = |device: DeviceId| {
            let here = self.arenas.iter().filter(move |((of, _), _)| *of == device);
            here.map(|((_, session), (slots, _))| *slots as u64 * self.sessions[session].slot_kind.bytes).sum::<u64>()
        };
        let slot_bytes_max = self.sessions.values().map(|session| session.slot_kind.bytes).max().unwrap_or(0);
        for device in 0..self.limits.devices.len() {
            let limits = &self.limits.devices[device];
            let gates = limits.batches_in_flight_max * self.list_slots_max(DeviceId(device));
            let bound = limits.arena_bytes_max + limits.arena_bytes_max / 4 + gates as u64 * slot_bytes_max;
            assert!(bytes_of(DeviceId(device)) <= bound, "arenas of {} bytes", bytes_of(DeviceId(device)));
        }
        if self.lost.is_empty() {
            let arenas: u64 = (0..self.limits.devices.len()).map(|device| bytes_of(DeviceId(device))).sum();
            assert_eq!(usage.arena_bytes, arenas);
            assert!(usage.resident_bytes <= usage.resident_bytes_max);
        }
    }

    /// Rows of lists that wait or run, including those of ended operations.
    fn held_rows(&self, of: impl Fn(SessionId) -> bool) -> usize {
        let gates = |operation: &&ObservedOperation| operation.circuit.is_none() && of(operation.session);
        let operations = self
            .operations
            .values()
            .filter(gates)
            .map(|operation| operation.rows.iter().filter(|&&row| row != RowState::Done).count());
        operations.sum::<usize>() + self.orphans.values().filter(gates).map(ObservedOperation::running).sum::<usize>()
    }

    /// Rows that wait or run.
    fn rows_under_way(&self) -> usize {
        let waiting = self
            .operations
            .values()
            .map(|operation| operation.rows.iter().filter(|row| matches!(row, RowState::Queued(_))).count());
        let running = self.operations.values().chain(self.orphans.values()).map(ObservedOperation::running);
        waiting.sum::<usize>() + running.sum::<usize>()
    }

    /// Rows of circuits that begin anew. The scheduler queues them when a device has room.
    fn rows_that_may_wait_for_room(&self) -> usize {
        let waits = |operation: &&ObservedOperation| {
            let unsettled = operation.restarts > 0 || operation.moved || !self.lost.is_empty();
            unsettled && operation.circuit.as_ref().is_some_and(|(_, place)| place.is_none())
        };
        let queued = |operation: &ObservedOperation| {
            operation.rows.iter().filter(|row| matches!(row, RowState::Queued(_))).count()
        };
        self.operations.values().filter(waits).map(queued).sum()
    }

    fn key_bytes(&self) -> u64 {
        self.sessions.values().map(|session| session.host_bytes).sum()
    }
}
