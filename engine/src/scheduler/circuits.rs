//! Circuits: admitted where their slots fit, run in windows of levels (`windows`), restarted after a failure of their
//! device. A circuit that restarts waits for room if its device has none now.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::devices::{DeviceBooks, nearest};
use super::{Command, Failure, OperationBooks, QueuedRows, Scheduler};
use crate::error::{CircuitBound, Error};
use crate::fair::COST_OF_UNIT;
use crate::ids::{DeviceId, OperationId, SessionId};
use crate::residency::PartState;
use crate::work::{Levels, NamedInput, NamedSlots, SlotKind};

/// The scheduler's record of a circuit besides its [`super::OperationBooks`].
#[derive(Debug)]
pub(super) struct CircuitBooks {
    level_ends: Vec<usize>,
    /// The level whose rows wait: the first level whose rows have not all started.
    level: usize,
    host_bytes: u64,
    /// The device where the circuit's slots are reserved; `None` if the circuit waits for room.
    pub(super) home: Option<DeviceId>,
    /// The circuit's slots on that device, once its first rows have started.
    pub(super) taken: Option<Taken>,
    /// The results that have names.
    pub(super) results: Vec<NamedSlots>,
    /// Whether the circuit must restart as soon as none of its rows run any more.
    restarting: bool,
    pub(super) restarted: bool,
}

/// The slots of a circuit that has begun.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// For each slot of the circuit, the slot of the arena.
    pub(super) slots: Arc<[u32]>,
    /// The inputs that were in the arena already.
    pub(super) there: Arc<[usize]>,
}

impl CircuitBooks {
    /// Whether the circuit restarts, so that its rows will wait again.
    pub(super) fn restarts(&self) -> bool {
        self.restarting || self.home.is_none()
    }

    /// The first row of the level whose rows wait.
    fn level_start(&self) -> usize {
        self.level.checked_sub(1).map_or(0, |before| self.level_ends[before])
    }

    /// For each level, the index after its last row.
    pub(super) fn level_ends(&self) -> &[usize] {
        &self.level_ends
    }

    /// Lists the levels after the one whose rows wait, each as the index after its last row.
    pub(super) fn later_levels(&self) -> &[usize] {
        &self.level_ends[(self.level + 1).min(self.level_ends.len())..]
    }
}

/// A circuit from submission to end.
impl Scheduler {
    pub(super) fn submit_circuit(&mut self, operation: OperationId, mut rows: OperationBooks, levels: Levels) {
        let (session, count) = (rows.session, rows.units.len());
        let Levels { ends, slots, host_bytes, inputs, results } = levels;
        rows.inputs = inputs;
        let home = match self.admit_circuit(&mut rows, host_bytes) {
            Ok(home) => home,
            Err(error) => return self.commands.push(Command::Refuse { operation, error }),
        };
        self.totals.circuits += 1;
        self.totals.circuit_rows += count;
        self.totals.circuit_bytes += host_bytes;
        let books = self.session(session);
        books.circuit_rows += count;
        books.circuit_bytes += host_bytes;
        let kind = books.slot_kind;
        self.devices[home.0].reserve(session, slots, kind);
        let circuit = CircuitBooks {
            level_ends: ends,
            level: 0,
            host_bytes,
            home: Some(home),
            taken: None,
            results,
            restarting: false,
            restarted: false,
        };
        self.accept(operation, OperationBooks { circuit: Some(circuit), ..rows });
        self.session(session).circuits.insert(operation);
        self.enqueue_level(operation);
    }

    fn admit_circuit(&self, circuit: &mut OperationBooks, bytes: u64) -> Result<DeviceId, Error> {
        let books = self.admit(circuit)?;
        let (limits, totals) = (&self.limits, &self.totals);
        let rows = circuit.units.len() as u64;
        const ROWS: CircuitBound = CircuitBound::Rows;
        const BYTES: CircuitBound = CircuitBound::HostBytes;
        let bounds = [
            (ROWS, rows, books.circuit_rows as u64, limits.session_circuit_rows_max as u64),
            (ROWS, rows, totals.circuit_rows as u64, limits.circuit_rows_max as u64),
            (BYTES, bytes, books.circuit_bytes, limits.session_circuit_bytes_max),
            (BYTES, bytes, totals.circuit_bytes, limits.circuit_bytes_max),
        ];
        for (of, needed, taken, max) in bounds {
            if needed > max {
                return Err(Error::CircuitTooLarge { of, needed, max });
            } else if taken.saturating_add(needed) > max {
                return Err(self.busy_with_circuits());
            }
        }
        circuit.aside = self.belongs_aside(circuit);
        if self.devices_for(circuit).next().is_none() {
            let fit = self.healthy().filter(|&device| self.fits(circuit, device));
            let sizes = fit.map(|device| self.arena_bytes_alone(circuit, device));
            let (needed, max) = nearest(sizes).expect("the key fits on a device");
            return Err(Error::CircuitTooLarge { of: CircuitBound::DeviceBytes, needed, max });
        }
        // a new circuit must not take room before the circuits that wait for room
        let others_wait = self.homeless.iter().any(|other| self.operations[other].aside == circuit.aside);
        let home = if others_wait { None } else { self.home_for(circuit, None) };
        home.ok_or_else(|| self.busy_with_circuits())
    }

    fn busy_with_circuits(&self) -> Error {
        self.busy(self.totals.circuit_rows as u64 * u64::from(COST_OF_UNIT))
    }

    /// Chooses the device for a circuit. The device must have room. The function prefers, in this order: a device other
    /// than `avoid`, a device with the key, the device with the most inputs, the device with the least claimed memory.
    fn home_for(&self, circuit: &OperationBooks, avoid: Option<DeviceId>) -> Option<DeviceId> {
        let (session, kind) = (circuit.session, self.sessions[&circuit.session].slot_kind);
        let devices = self.devices_for(circuit).map(|id| (id, &self.devices[id.0]));
        let with_room = devices.filter(|(_, device)| device.has_room(session, circuit.slots, kind));
        let best = with_room.min_by_key(|&(id, device)| {
            let no_key = device.residency.state_of_set(&circuit.key) == PartState::Absent;
            let is_missing = |input: &&NamedInput| !device.has_value(session, input.named.value);
            let missing = circuit.inputs.iter().filter(is_missing).count();
            (Some(id) == avoid, no_key, missing, device.claimed_bytes())
        });
        best.map(|(id, _)| id)
    }

    /// Queues the rows of the circuit's level. A circuit without rows is done.
    fn enqueue_level(&mut self, operation: OperationId) {
        let OperationBooks { session, circuit, .. } = &self.operations[&operation];
        let session = *session;
        let circuit = circuit.as_ref().expect("levels are a circuit's");
        let first = circuit.level_start();
        let Some(&end) = circuit.level_ends.get(circuit.level) else {
            let outcome = Ok(super::Finished { compute: Duration::ZERO, units: 0 });
            return self.finish(operation, outcome);
        };
        self.enqueue(QueuedRows { operation, rows: first..end, failed_on: None }, VecDeque::push_back);
        // The session becomes ready without waiting for a full batch, because the circuit's later levels wait for this
        // level.
        self.make_ready(session);
    }

    /// Processes the start of the circuit's rows before `end`. If these rows end a level, queues the next level: the
    /// device runs its calls in order, so the next level need not wait until this one is done. Returns whether all rows
    /// have started.
    pub(super) fn circuit_rows_started(&mut self, operation: OperationId, end: usize) -> bool {
        let circuit = self.circuit(operation);
        circuit.level = circuit.level_ends.partition_point(|&level| level <= end);
        if circuit.level == circuit.level_ends.len() {
            return true;
        }
        if circuit.level_start() == end {
            self.enqueue_level(operation);
        }
        false
    }

    /// Processes finished rows of a circuit.
    pub(super) fn circuit_rows_done(&mut self, now: Duration, operation: OperationId, rows: usize) {
        let circuit_of = self.operations.get_mut(&operation).expect("it has not ended");
        circuit_of.finished_rows += rows;
        let (finished, running) = (circuit_of.finished_rows, circuit_of.running_rows);
        let circuit = circuit_of.circuit.as_mut().expect("it is one");
        if circuit.restarting {
            if running == 0 {
                self.restart(operation);
            }
        } else if finished == circuit_of.units.len() {
            let outcome = Ok(circuit_of.finished(now));
            self.finish(operation, outcome);
        }
    }

    /// Releases everything that a circuit holds. `completed`: its inputs and results with names stay as values.
    pub(super) fn release_circuit(&mut self, operation: &OperationBooks, completed: bool) {
        let circuit = operation.circuit.as_ref().expect("it is one");
        self.totals.circuit_rows -= operation.units.len();
        self.totals.circuit_bytes -= circuit.host_bytes;
        let books = self.sessions.get_mut(&operation.session).expect("the session is open");
        books.circuit_rows -= operation.units.len();
        books.circuit_bytes -= circuit.host_bytes;
        let keeps = completed && !books.closing;
        if let Some(home) = circuit.home {
            self.devices[home.0].end_circuit(operation, circuit, keeps);
        }
    }

    /// Returns the slots of a circuit whose rows start on `device`. If the circuit has not begun before, this device
    /// becomes its home, and the slots are taken there.
    pub(super) fn begin(&mut self, operation: OperationId, device: DeviceId) -> Taken {
        let books = self.operations.get_mut(&operation).expect("it has not ended");
        let (session, slots, circuit) = (books.session, books.slots, books.circuit.as_mut().expect("it is one"));
        if let Some(taken) = &circuit.taken {
            return taken.clone();
        }
        let before = circuit.home.replace(device).expect("rows wait only while the circuit has a home");
        let kind = self.sessions[&session].slot_kind;
        if before != device {
            self.devices[before.0].unreserve(session, slots);
            self.devices[device.0].reserve(session, slots, kind);
        }
        // after a failure, nothing that the device had before is relied on
        let inputs = if circuit.restarted { &[][..] } else { &books.inputs };
        let taken = self.devices[device.0].begin_circuit(session, slots, kind, inputs);
        circuit.taken = Some(taken.clone());
        self.totals.inputs_found += taken.there.len() as u64;
        self.totals.inputs_written += (books.inputs.len() - taken.there.len()) as u64;
        taken
    }

    /// Whether rows of a circuit may start on a device: the circuit's home or, before the circuit has begun, also an
    /// idle device with room.
    pub(super) fn may_run_on(&self, operation: &OperationBooks, circuit: &CircuitBooks, device: DeviceId) -> bool {
        let OperationBooks { session, slots, .. } = *operation;
        let (at, kind) = (&self.devices[device.0], self.sessions[&session].slot_kind);
        circuit.home == Some(device)
            || (circuit.taken.is_none() && at.running().next().is_none() && at.has_room(session, slots, kind))
    }

    fn circuit(&mut self, operation: OperationId) -> &mut CircuitBooks {
        let operation = self.operations.get_mut(&operation).expect("it has not ended");
        operation.circuit.as_mut().expect("it is one")
    }
}

/// The slots of circuits on a device.
impl DeviceBooks {
    /// Takes the slots of a circuit that begins. Inputs that are values keep their slots.
    fn begin_circuit(&mut self, session: SessionId, count: usize, kind: SlotKind, inputs: &[NamedInput]) -> Taken {
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

    /// Ends a circuit that has its home here. `keeps`: the circuit's inputs and results with names become values.
    fn end_circuit(&mut self, operation: &OperationBooks, circuit: &CircuitBooks, keeps: bool) {
        let OperationBooks { session, slots: reserved, ref inputs, .. } = *operation;
        let Some(Taken { slots, there }) = &circuit.taken else { return self.unreserve(session, reserved) };
        let keeps = keeps && self.failure.is_none();
        let arena = self.arena_of(session);
        let mut stay: BTreeSet<u32> = BTreeSet::new();
        for NamedInput { input, named } in inputs {
            if there.contains(input) {
                arena.values.let_go(named.value);
                stay.extend(&named.slots);
            }
        }
        let written = inputs.iter().filter(|named| !there.contains(&named.input)).map(|named| &named.named);
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
}

/// Circuits after a failure of their device.
impl Scheduler {
    /// Restarts a circuit as soon as none of its rows run, or ends it with an error if it must not be tried again.
    /// `failed_before` tells whether an earlier failure has restarted the circuit.
    pub(super) fn restart_when_quiet(
        &mut self,
        operation: OperationId,
        device: DeviceId,
        failed_before: bool,
        failure: &Failure,
    ) {
        if !self.circuit(operation).restarting {
            if let Some(error) = self.reason_not_to_retry(operation, device, failed_before, failure) {
                return self.end(operation, error);
            }
            self.drop_queued(operation);
            self.circuit(operation).restarting = true;
        }
        if self.operations[&operation].running_rows == 0 {
            self.restart(operation);
        }
    }

    /// Begins a circuit anew. A circuit that no device can hold any more has ended before ([`Scheduler::lose`]).
    fn restart(&mut self, operation: OperationId) {
        let books = self.operations.get_mut(&operation).expect("it has not ended");
        books.finished_rows = 0;
        let circuit = books.circuit.as_ref().expect("it is one");
        let (home, began) = (circuit.home, circuit.taken.is_some());
        if let Some(home) = home {
            self.devices[home.0].end_circuit(books, circuit, false);
        }
        let circuit = self.circuit(operation);
        (circuit.home, circuit.taken) = (None, None);
        circuit.restarted |= began;
        (circuit.restarting, circuit.level) = (false, 0);
        if began {
            self.commands.push(Command::Restart(operation));
        }
        if !self.house(operation, home) {
            self.homeless.insert(operation);
        }
    }

    /// Gives a circuit without a home to a device with room. Returns false if no device has room now.
    fn house(&mut self, operation: OperationId, avoid: Option<DeviceId>) -> bool {
        let OperationBooks { session, slots, .. } = self.operations[&operation];
        let Some(home) = self.home_for(&self.operations[&operation], avoid) else { return false };
        let kind = self.sessions[&session].slot_kind;
        self.devices[home.0].reserve(session, slots, kind);
        self.circuit(operation).home = Some(home);
        self.enqueue_level(operation);
        true
    }

    /// Gives homes to circuits that wait for room, the oldest first. Returns whether a circuit got a home.
    pub(super) fn house_the_homeless(&mut self) -> bool {
        let before = self.homeless.len();
        for operation in std::mem::take(&mut self.homeless) {
            if !self.house(operation, None) {
                self.homeless.insert(operation);
            }
        }
        self.homeless.len() < before
    }
}
