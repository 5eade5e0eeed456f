//! Circuits: admitted where their slots fit, run in windows of levels (`windows`), restarted once after a failure of
//! their device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::devices::DeviceBooks;
use super::{Command, OperationBooks, QueuedRows, Scheduler};
use crate::error::{CircuitBound, Error};
use crate::fair::COST_OF_UNIT;
use crate::ids::{DeviceId, OperationId, Prepared, SessionId};
use crate::residency::PartState;
use crate::work::Levels;

/// The scheduler's record of a circuit besides its [`super::OperationBooks`].
#[derive(Debug)]
pub(super) struct CircuitBooks {
    level_ends: Vec<usize>,
    /// The level whose rows wait: the first level whose rows have not all started.
    level: usize,
    slots: usize,
    host_bytes: u64,
    /// The device where the circuit's slots are reserved.
    pub(super) home: DeviceId,
    /// The circuit's slots on that device, once its first rows have started.
    pub(super) taken: Option<Arc<[u32]>>,
    /// The device's message about its failure, if the circuit must restart as soon as none of the circuit's rows run
    /// any more.
    restarting: Option<String>,
    pub(super) restarted: bool,
}

impl CircuitBooks {
    /// Whether the circuit restarts, so that its rows will wait again.
    pub(super) fn restarts(&self) -> bool {
        self.restarting.is_some()
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
    pub(super) fn submit_circuit(&mut self, operation: OperationId, rows: OperationBooks, levels: Levels) {
        let (session, count) = (rows.session, rows.units.len());
        let home = match self.admit_circuit(session, count, &rows.key, &levels) {
            Ok(home) => home,
            Err(error) => return self.commands.push(Command::Refuse { operation, error }),
        };
        let Levels { ends, slots, host_bytes } = levels;
        self.totals.circuits += 1;
        self.totals.circuit_rows += count;
        self.totals.circuit_bytes += host_bytes;
        let books = self.session(session);
        books.circuit_rows += count;
        books.circuit_bytes += host_bytes;
        let slot_bytes = books.slot_bytes;
        self.devices[home.0].reserve(session, slots, slot_bytes);
        let circuit = CircuitBooks {
            level_ends: ends,
            level: 0,
            slots,
            host_bytes,
            home,
            taken: None,
            restarting: None,
            restarted: false,
        };
        self.accept(operation, OperationBooks { circuit: Some(circuit), ..rows });
        self.session(session).circuits.insert(operation);
        self.enqueue_level(operation);
    }

    fn admit_circuit(
        &self,
        session: SessionId,
        rows: usize,
        key: &[Prepared],
        levels: &Levels,
    ) -> Result<DeviceId, Error> {
        let books = self.admit(session, key)?;
        let (limits, totals) = (&self.limits, &self.totals);
        let (rows, bytes) = (rows as u64, levels.host_bytes);
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
        self.home_for(session, key, levels.slots, None)
    }

    fn busy_with_circuits(&self) -> Error {
        self.busy(self.totals.circuit_rows as u64 * u64::from(COST_OF_UNIT))
    }

    /// Chooses the device for a circuit. The device must have room. The function prefers, in this order: a device other
    /// than `avoid`, a device with the key, the device with the least claimed memory.
    fn home_for(
        &self,
        session: SessionId,
        key: &[Prepared],
        slots: usize,
        avoid: Option<DeviceId>,
    ) -> Result<DeviceId, Error> {
        let slot_bytes = self.sessions[&session].slot_bytes;
        let fit = self.devices_for(session, key).map(|id| (id, &self.devices[id.0]));
        let best = fit.clone().filter(|(_, device)| device.has_room(session, slots, slot_bytes)).min_by_key(
            |&(id, device)| {
                let no_key = device.residency.state_of_set(key) == PartState::Absent;
                (Some(id) == avoid, no_key, device.claimed_bytes())
            },
        );
        if let Some((id, _)) = best {
            return Ok(id);
        }
        let bytes = |device: &DeviceBooks| (device.bytes_alone(slots, slot_bytes), device.limits.arena_bytes_max);
        let lacks = |device: &DeviceBooks| {
            let (needed, max) = bytes(device);
            needed.saturating_sub(max)
        };
        match fit.min_by_key(|&(_, device)| lacks(device)) {
            None => Err(self.no_device_serves()),
            Some((_, device)) if lacks(device) > 0 => {
                let (needed, max) = bytes(device);
                Err(Error::CircuitTooLarge { of: CircuitBound::DeviceBytes, needed, max })
            }
            Some(_) => Err(self.busy_with_circuits()),
        }
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
        if circuit.restarting.is_some() {
            if running == 0 {
                self.restart(operation);
            }
        } else if finished == circuit_of.units.len() {
            let outcome = Ok(circuit_of.finished(now));
            self.finish(operation, outcome);
        }
    }

    /// Releases everything that a circuit holds.
    pub(super) fn release_circuit(&mut self, operation: &OperationBooks) {
        let circuit = operation.circuit.as_ref().expect("it is one");
        self.totals.circuit_rows -= operation.units.len();
        self.totals.circuit_bytes -= circuit.host_bytes;
        let books = self.sessions.get_mut(&operation.session).expect("the session is open");
        books.circuit_rows -= operation.units.len();
        books.circuit_bytes -= circuit.host_bytes;
        self.leave_home(operation.session, circuit.home, circuit.slots, circuit.taken.clone());
    }

    fn leave_home(&mut self, session: SessionId, home: DeviceId, slots: usize, taken: Option<Arc<[u32]>>) {
        self.devices[home.0].unreserve(session, slots, taken.as_deref());
    }

    /// Returns the slots of a circuit whose rows start on `device`. If the circuit has not begun before, this device
    /// becomes its home, and the slots are taken there.
    pub(super) fn begin(&mut self, operation: OperationId, device: DeviceId) -> Arc<[u32]> {
        let OperationBooks { session, circuit, .. } = self.operations.get_mut(&operation).expect("it has not ended");
        let (session, circuit) = (*session, circuit.as_mut().expect("it is one"));
        if let Some(taken) = &circuit.taken {
            return taken.clone();
        }
        let (before, slots) = (std::mem::replace(&mut circuit.home, device), circuit.slots);
        let slot_bytes = self.sessions[&session].slot_bytes;
        if before != device {
            self.leave_home(session, before, slots, None);
            self.devices[device.0].reserve(session, slots, slot_bytes);
        }
        let taken = self.devices[device.0].take_slots(session, slots, slot_bytes);
        self.circuit(operation).taken = Some(taken.clone());
        taken
    }

    /// Whether rows of a circuit may start on a device: the circuit's home or, before the circuit has begun, also an
    /// idle device with room.
    pub(super) fn may_run_on(&self, session: SessionId, circuit: &CircuitBooks, device: DeviceId) -> bool {
        let (at, slot_bytes) = (&self.devices[device.0], self.sessions[&session].slot_bytes);
        circuit.home == device
            || (circuit.taken.is_none()
                && at.running().next().is_none()
                && at.has_room(session, circuit.slots, slot_bytes))
    }

    fn circuit(&mut self, operation: OperationId) -> &mut CircuitBooks {
        let operation = self.operations.get_mut(&operation).expect("it has not ended");
        operation.circuit.as_mut().expect("it is one")
    }
}

/// Circuits after a failure of their device.
impl Scheduler {
    /// Restarts a circuit as soon as none of its rows run. If the circuit was restarted before, ends it with an error.
    pub(super) fn restart_when_quiet(&mut self, operation: OperationId, reason: &str) {
        let failed = &self.operations[&operation];
        let (session, running, circuit) = (failed.session, failed.running_rows, failed.circuit.as_ref());
        let circuit = circuit.expect("it is one");
        if circuit.restarting.is_none() {
            if let Some(error) = self.reason_not_to_retry(session, &failed.key, circuit.restarted, reason) {
                return self.end(operation, error);
            }
            self.drop_queued(operation);
            self.circuit(operation).restarting = Some(reason.to_owned());
        }
        if running == 0 {
            self.restart(operation);
        }
    }

    fn restart(&mut self, operation: OperationId) {
        let circuit = self.circuit(operation);
        let reason = circuit.restarting.take().expect("it is to begin anew");
        let begun = circuit.taken.is_some();
        circuit.restarted |= begun;
        circuit.level = 0;
        let (home, slots, taken) = (circuit.home, circuit.slots, circuit.taken.take());
        let (session, key) = (self.operations[&operation].session, self.operations[&operation].key.clone());
        self.leave_home(session, home, slots, taken);
        let next = self.home_for(session, &key, slots, Some(home));
        let slot_bytes = self.sessions[&session].slot_bytes;
        // If no device has room, the circuit ends below, and its end gives back the reservation at its home. In that
        // case, the slots are reserved at the old home once more, so that the end has a reservation to give back.
        let home = *next.as_ref().unwrap_or(&home);
        self.circuit(operation).home = home;
        self.devices[home.0].reserve(session, slots, slot_bytes);
        if next.is_err() {
            return self.end(operation, Error::Device(reason));
        }
        self.operations.get_mut(&operation).expect("it has not ended").finished_rows = 0;
        if begun {
            self.commands.push(Command::Restart(operation));
        }
        self.enqueue_level(operation);
    }
}
