//! Reports of devices, and the reactions to failures.

use std::collections::VecDeque;
use std::time::Duration;

use super::devices::{Call, FAILURES_MAX, Loading};
use super::{Cause, Command, Failure, OperationBooks, Phase, QueuedRows, Scheduler};
use crate::batch::{Batch, BatchPart};
use crate::error::Error;
use crate::ids::{BatchId, DeviceId, OperationId, Prepared, SessionId};

/// The owner of rows in a reported batch.
enum RowsOwner {
    /// An operation that has ended, so nothing follows.
    Ended,
    /// A list that has not ended.
    List,
    /// A circuit that has not ended.
    Circuit,
}

/// Reports about keys.
impl Scheduler {
    pub(super) fn loaded(&mut self, device: DeviceId, session: SessionId) {
        let parts = self.device_was_loading(device, session);
        self.devices[device.0].residency.loaded(&parts);
        self.devices[device.0].failures = 0;
        self.session(session).load_failed_on = None;
        self.advance_close(session);
    }

    pub(super) fn load_failed(&mut self, device: DeviceId, session: SessionId, failure: Failure) {
        let parts = self.device_was_loading(device, session);
        self.devices[device.0].residency.load_failed(&parts);
        self.count_failure(device, &failure);
        if self.devices[device.0].failure.is_some() {
            // the device itself failed for good, not the key, so the session goes on with other devices
        } else if failure.cause == Cause::Key {
            self.end_what_can_be_stopped(session, Error::Key(failure.reason));
        } else if self.session(session).load_failed_on.replace(device).is_some() {
            self.session(session).load_failed_on = None;
            self.loaded_in_vain(device, session, &failure);
        } else if failure.cause == Cause::OutOfMemory {
            self.clear(device);
        }
        self.advance_close(session);
    }

    pub(super) fn evicted(&mut self, device: DeviceId, part: Prepared) {
        self.devices[device.0].residency.evicted(part);
        self.heard(device);
        match part {
            Prepared::Part(session, _) => self.advance_close(session),
            // a closing session waits for the tables if no other session needs them
            Prepared::Tables(params) => {
                let sharing: Vec<_> = self.sharing.get(&params).into_iter().flatten().copied().collect();
                sharing.into_iter().for_each(|session| self.advance_close(session));
            }
        }
    }

    /// After the second failed load: ends the operations that the device serves, or sets them aside if the device lacks
    /// memory. Operations whose rows have all started need no load.
    fn loaded_in_vain(&mut self, device: DeviceId, session: SessionId, failure: &Failure) {
        let is_stuck = |operation: &OperationBooks| {
            operation.session == session && operation.can_be_stopped() && self.serves(operation, device)
        };
        for operation in self.ids_of(is_stuck) {
            if self.operations[&operation].circuit.is_some() {
                self.restart_when_quiet(operation, device, true, failure);
            } else if let Some(error) = self.reason_not_to_retry(operation, device, true, failure) {
                self.end(operation, error);
            }
        }
    }

    /// Ends the device's load and returns the parts that were being loaded.
    fn device_was_loading(&mut self, device: DeviceId, session: SessionId) -> Vec<Prepared> {
        let books = &mut self.devices[device.0];
        let loading = books.loading.take().filter(|loading| loading.session == session);
        let Loading { parts, pinned, .. } =
            loading.unwrap_or_else(|| panic!("{session:?} was reported, but the device was not loading it"));
        books.residency.unpin(&pinned);
        self.heard(device);
        parts
    }

    /// The device ran out of memory although the records allowed the load. Evicts everything possible before the
    /// second try.
    fn clear(&mut self, device: DeviceId) {
        if self.devices[device.0].failure.is_none() {
            self.free_idle_arenas(device);
            self.make_room(device, self.devices[device.0].limits.resident_bytes_max);
        }
    }
}

/// Reports about batches.
impl Scheduler {
    pub(super) fn batch_done(&mut self, now: Duration, batch: BatchId) {
        let batch = self.device_was_running(now, batch);
        self.devices[batch.device.0].failures = 0;
        self.totals.rows_done += batch.rows() as u64;
        self.totals.units_done += batch.units;
        self.totals.batches_done += 1;
        for part in &batch.parts {
            let rows = part.rows.len();
            match self.take_off_device(&batch, part) {
                RowsOwner::Ended => {}
                RowsOwner::Circuit => self.circuit_rows_done(now, part.operation, rows),
                RowsOwner::List => {
                    self.release_rows(batch.session, rows);
                    let operation = self.operations.get_mut(&part.operation).expect("it has not ended");
                    operation.finished_rows += rows;
                    if operation.finished_rows == operation.units.len() {
                        let outcome = Ok(operation.finished(now));
                        self.finish(part.operation, outcome);
                    }
                }
            }
        }
        self.advance_close(batch.session);
    }

    pub(super) fn batch_failed(&mut self, now: Duration, batch: BatchId, failure: Failure) {
        // the batches of a call fail together, so only the first is recorded as a failure of the device; a loss of the
        // device is always recorded
        let first = self.call_of(batch).is_some_and(|call| !std::mem::replace(&mut call.failed, true));
        let batch = self.device_was_running(now, batch);
        if first || failure.cause == Cause::Lost {
            self.count_failure(batch.device, &failure);
        }
        // The last part is queued first, so that the rows are at the head of the queue in the same sequence as before.
        for part in batch.parts.iter().rev() {
            match self.take_off_device(&batch, part) {
                RowsOwner::Ended => {}
                RowsOwner::Circuit => self.circuit_failed(part.operation, batch.device, &failure),
                RowsOwner::List => self.list_failed(&batch, part, &failure),
            }
        }
        self.devices[batch.device.0].drop_values(batch.session);
        if failure.cause == Cause::OutOfMemory {
            // the key that the second try needs is pinned while all other keys are evicted
            self.devices[batch.device.0].residency.pin(&batch.key);
            self.clear(batch.device);
            self.devices[batch.device.0].residency.unpin(&batch.key);
        }
        self.advance_close(batch.session);
    }

    fn circuit_failed(&mut self, operation: OperationId, device: DeviceId, failure: &Failure) {
        let restarted = self.operations[&operation].circuit.as_ref().is_some_and(|circuit| circuit.restarted);
        self.restart_when_quiet(operation, device, restarted, failure);
    }

    fn list_failed(&mut self, batch: &Batch, part: &BatchPart, failure: &Failure) {
        if let Some(error) = self.reason_not_to_retry(part.operation, batch.device, part.retried, failure) {
            self.release_rows(batch.session, part.rows.len());
            self.end(part.operation, error);
        } else {
            let (operation, rows) = (part.operation, part.rows.clone());
            self.enqueue(QueuedRows { operation, rows, failed_on: Some(batch.device) }, VecDeque::push_front);
            self.make_ready(batch.session);
        }
    }

    /// Returns an error if an operation that failed on this device must not be tried again. An operation for which a
    /// device was out of memory again, after everything was evicted, is set aside: the device lacks the memory, and the
    /// operation is not to blame.
    pub(super) fn reason_not_to_retry(
        &mut self,
        operation: OperationId,
        device: DeviceId,
        retried: bool,
        failure: &Failure,
    ) -> Option<Error> {
        let books = &self.operations[&operation];
        // rows of an operation that was set aside while they ran elsewhere were not tried on a stand-in before
        let retried = retried && self.is_stand_in(device) == books.aside;
        if self.sessions[&books.session].closing {
            Some(Error::Gone)
        } else if self.phase == Phase::Abandoning {
            Some(Error::ShuttingDown)
        } else if !retried && self.devices_for(books).next().is_some() {
            None
        } else if failure.cause == Cause::OutOfMemory && !books.aside && self.a_stand_in_holds(books) {
            self.set_aside(operation);
            None
        } else {
            Some(Error::Device(failure.reason.clone()))
        }
    }

    /// The call that this batch runs in.
    fn call_of(&mut self, batch: BatchId) -> Option<&mut Call> {
        let mut calls = self.devices.iter_mut().flat_map(|device| &mut device.calls);
        calls.find(|call| call.batches.iter().any(|running| running.id == batch))
    }

    /// Removes a batch from its device's records. The last batch of a successful call updates the pace.
    fn device_was_running(&mut self, now: Duration, id: BatchId) -> Batch {
        let call = self.call_of(id).unwrap_or_else(|| panic!("{id:?} was reported, but no device runs it"));
        let at = call.batches.iter().position(|running| running.id == id).expect("it runs in this call");
        let batch = call.batches.remove(at);
        let device = &mut self.devices[batch.device.0];
        device.residency.unpin(&batch.key);
        device.silent_since = None;
        if let Some(at) = device.calls.iter().position(|call| call.batches.is_empty()) {
            let call = device.calls.remove(at);
            let since = call.since.max(std::mem::replace(&mut device.reported, now));
            let took = now.saturating_sub(since);
            self.totals.busy += took;
            if !call.failed {
                self.pace.observe(call.cost, took);
                self.devices[batch.device.0].level_paces.observe(&call.levels, took);
            }
        }
        batch
    }

    /// Removes rows of a reported batch from the device's records. Returns the state of their operation.
    fn take_off_device(&mut self, batch: &Batch, part: &BatchPart) -> RowsOwner {
        let rows = part.rows.len();
        if let Some(left) = self.leaving.get_mut(&part.operation) {
            left.running_rows -= rows;
            if left.running_rows == 0 {
                let left = self.leaving.remove(&part.operation).expect("it was just there");
                self.release_circuit(&left, false);
            }
            return RowsOwner::Ended;
        }
        let operation = self.operations.get_mut(&part.operation);
        let of = match operation {
            Some(operation) => {
                operation.running_rows -= rows;
                if operation.circuit.is_some() {
                    return RowsOwner::Circuit;
                }
                RowsOwner::List
            }
            None => {
                self.release_rows(batch.session, rows);
                RowsOwner::Ended
            }
        };
        self.devices[batch.device.0].give_back(batch.session, &part.slots);
        of
    }
}

/// Devices that fail for good.
impl Scheduler {
    fn count_failure(&mut self, device: DeviceId, failure: &Failure) {
        let another = (0..self.devices.len()).any(|at| at != device.0 && self.devices[at].failure.is_none());
        let books = &mut self.devices[device.0];
        books.failures += u32::from(failure.cause == Cause::Device);
        if failure.cause == Cause::Lost || (books.failures >= FAILURES_MAX && another) {
            self.lose(device, &failure.reason);
        }
    }

    /// Takes a device out of service.
    pub(super) fn lose(&mut self, device: DeviceId, reason: &str) {
        if self.devices[device.0].failure.is_some() {
            return;
        }
        self.devices[device.0].failure = Some(reason.to_owned());
        self.free_idle_arenas(device);
        self.commands.push(Command::Retire(device));
        let needs_stand_in = |operation: &OperationBooks| !operation.aside && self.belongs_aside(operation);
        self.ids_of(needs_stand_in).into_iter().for_each(|operation| self.set_aside(operation));
        let is_home =
            |operation: &OperationBooks| operation.circuit.as_ref().is_some_and(|circuit| circuit.home == Some(device));
        let failure = Failure { cause: Cause::Lost, reason: reason.to_owned() };
        for operation in self.ids_of(is_home) {
            self.circuit_failed(operation, device, &failure);
        }
        let has_no_device =
            |operation: &OperationBooks| operation.can_be_stopped() && self.devices_for(operation).next().is_none();
        for operation in self.ids_of(has_no_device) {
            self.end(operation, Error::Device(reason.to_owned()));
        }
    }

    /// The operations with this property that have not ended.
    fn ids_of(&self, has: impl Fn(&OperationBooks) -> bool) -> Vec<OperationId> {
        self.operations.iter().filter(|(_, operation)| has(operation)).map(|(&id, _)| id).collect()
    }

    pub(super) fn retired(&mut self, device: DeviceId) {
        assert!(self.devices[device.0].failure.is_some(), "{device:?} was not told to retire");
        self.devices[device.0].retire();
        let sessions: Vec<_> = self.sessions.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.advance_close(session));
    }
}
