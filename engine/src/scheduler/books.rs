//! The books: consistent records of the rows that are queued or held, and of the sessions that gather (wait for a full
//! batch) or are ready.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::{Command, Finished, OperationBooks, QueuedRows, Scheduler, SessionBooks};
use crate::error::Error;
use crate::ids::{DeviceId, OperationId, SessionId};
use crate::work::{cost_of, size_of};

impl Scheduler {
    pub(super) fn session(&mut self, session: SessionId) -> &mut SessionBooks {
        self.sessions.get_mut(&session).expect("the session is open")
    }

    pub(super) fn accept(&mut self, id: OperationId, operation: OperationBooks) {
        self.deadlines.extend(operation.deadline.map(|deadline| (deadline, id)));
        self.totals.aside += usize::from(operation.aside);
        let before = self.operations.insert(id, operation);
        assert!(before.is_none(), "{id:?} is submitted once");
    }

    pub(super) fn enqueue(&mut self, waiting: QueuedRows, push: fn(&mut VecDeque<QueuedRows>, QueuedRows)) {
        let operation = self.operations.get_mut(&waiting.operation).expect("its operation has not ended");
        operation.queued_rows += waiting.rows.len();
        self.totals.queued_rows += waiting.rows.len();
        let units = &operation.units[waiting.rows.clone()];
        let session = self.sessions.get_mut(&operation.session).expect("the session is open");
        self.totals.queued_cost += cost_of(units, session.queue_cost());
        session.queued_size += size_of(units);
        push(&mut session.queue, waiting);
    }

    /// Takes `rows` rows from the front of entry `at` of the session's queue.
    pub(super) fn dequeue(&mut self, session: SessionId, at: usize, rows: usize) -> QueuedRows {
        let queue = &mut self.session(session).queue;
        let whole = &mut queue[at];
        let end = whole.rows.start + rows;
        let taken = QueuedRows { rows: whole.rows.start..end, ..whole.clone() };
        whole.rows.start = end;
        if whole.rows.is_empty() {
            queue.remove(at);
        }
        self.count_dequeued(session, &taken);
        taken
    }

    fn count_dequeued(&mut self, session: SessionId, waiting: &QueuedRows) {
        let operation = self.operations.get_mut(&waiting.operation).expect("queued operations have not ended");
        operation.queued_rows -= waiting.rows.len();
        self.totals.queued_rows -= waiting.rows.len();
        let units = &operation.units[waiting.rows.clone()];
        let session = self.sessions.get_mut(&session).expect("the session is open");
        self.totals.queued_cost -= cost_of(units, session.queue_cost());
        session.queued_size -= size_of(units);
    }

    pub(super) fn release_rows(&mut self, session: SessionId, rows: usize) {
        self.session(session).held_rows -= rows;
        self.totals.held_rows -= rows;
    }

    /// Runs after the next batches have started. Marks arenas without used slots as idle, and frees arenas that have
    /// been idle for too long.
    pub(super) fn free_arenas(&mut self, now: Duration) {
        let idle = self.limits.arena_idle;
        for device in (0..self.devices.len()).map(DeviceId) {
            for session in std::mem::take(&mut self.devices[device.0].emptied) {
                if idle.is_zero() || !self.devices[device.0].keep_idle(session, now + idle) {
                    self.free_arena(device, session);
                }
            }
            while let Some(session) = self.devices[device.0].next_to_free(now) {
                self.free_arena(device, session);
            }
        }
    }

    /// Frees the empty arenas that are kept on a device.
    pub(super) fn free_idle_arenas(&mut self, device: DeviceId) {
        for session in self.devices[device.0].idle_arenas() {
            self.free_arena(device, session);
        }
    }

    pub(super) fn free_arena(&mut self, device: DeviceId, session: SessionId) {
        if self.devices[device.0].strike_arena(session) {
            self.commands.push(Command::FreeArena { device, session });
        }
    }

    /// Ends every operation of the session that still has rows to start.
    pub(super) fn end_what_can_be_stopped(&mut self, session: SessionId, error: Error) {
        let dropped = std::mem::take(&mut self.session(session).queue);
        let circuits = self.sessions[&session].circuits.iter().copied();
        let operations: BTreeSet<_> = dropped.iter().map(|waiting| waiting.operation).chain(circuits).collect();
        let stopped: Vec<_> = operations.into_iter().filter(|id| self.operations[id].can_be_stopped()).collect();
        self.strike(session, dropped.into());
        stopped.into_iter().for_each(|operation| self.finish(operation, Err(error.clone())));
    }

    /// Ends an operation without a result and drops its queued rows.
    pub(super) fn end(&mut self, operation: OperationId, error: Error) {
        self.drop_queued(operation);
        self.finish(operation, Err(error));
    }

    /// Removes an operation's rows from the queue.
    pub(super) fn drop_queued(&mut self, operation: OperationId) {
        let OperationBooks { session, queued_rows, .. } = self.operations[&operation];
        if queued_rows > 0 {
            let mut dropped = Vec::new();
            self.session(session).queue.retain(|waiting| {
                let kept = waiting.operation != operation;
                if !kept {
                    dropped.push(waiting.clone());
                }
                kept
            });
            self.strike(session, dropped);
        }
    }

    /// Removes dropped rows from the session's counts.
    fn strike(&mut self, session: SessionId, dropped: Vec<QueuedRows>) {
        for waiting in dropped {
            self.count_dequeued(session, &waiting);
            if self.operations[&waiting.operation].circuit.is_none() {
                self.release_rows(session, waiting.rows.len());
            }
        }
        if self.sessions[&session].queue.is_empty() {
            self.stop_gathering(session);
            self.fair.set_ready(session, false);
        }
    }

    pub(super) fn finish(&mut self, operation: OperationId, outcome: Result<Finished, Error>) {
        let ended = self.operations.remove(&operation).expect("an operation ends once");
        if let Some(deadline) = ended.deadline {
            self.deadlines.remove(&(deadline, operation));
        }
        self.totals.aside -= usize::from(ended.aside);
        if ended.circuit.is_some() {
            self.homeless.remove(&operation);
            self.session(ended.session).circuits.remove(&operation);
            self.totals.circuits -= 1;
            if ended.running_rows > 0 {
                self.leaving.insert(operation, ended);
            } else {
                self.release_circuit(&ended, outcome.is_ok());
            }
        }
        self.commands.push(Command::Finish { operation, outcome });
    }

    /// After a submission: makes the session ready if it has a full batch, else lets it wait for more rows (gather).
    pub(super) fn gather_or_make_ready(&mut self, now: Duration, session: SessionId) {
        let wait = self.limits.wait;
        let batch = self.devices_in_service().map(|device| self.devices[device.0].limits.batch_units_max).max();
        let full = batch.is_none_or(|batch| self.sessions[&session].queued_size >= batch);
        if full || wait.is_zero() {
            self.make_ready(session);
        } else if !self.fair.is_ready(session) && self.sessions[&session].gathers_until.is_none() {
            self.session(session).gathers_until = Some(now + wait);
            self.gathering.insert((now + wait, session));
        }
    }

    pub(super) fn make_ready(&mut self, session: SessionId) {
        self.stop_gathering(session);
        self.fair.set_ready(session, true);
    }

    fn stop_gathering(&mut self, session: SessionId) {
        if let Some(until) = self.session(session).gathers_until.take() {
            self.gathering.remove(&(until, session));
        }
    }
}
