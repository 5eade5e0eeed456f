//! The books: what is queued, held, gathering and ready, kept in step with each other.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::{Command, Finished, Scheduler, Session};
use crate::batch::Part;
use crate::error::Error;
use crate::fair;
use crate::operation::OperationId;
use crate::session::SessionId;

impl Scheduler {
    pub(super) fn session(&mut self, session: SessionId) -> &mut Session {
        self.sessions.get_mut(&session).expect("the session is open")
    }

    pub(super) fn enqueue(&mut self, part: Part, push: fn(&mut VecDeque<Part>, Part)) {
        let operation = self.operations.get_mut(&part.operation).expect("its operation has not ended");
        operation.queued_rows += part.rows.len();
        self.totals.queued_rows += part.rows.len();
        let bootstraps = &operation.bootstraps[part.rows.clone()];
        self.totals.queued_cost += cost_of(bootstraps);
        let session = self.sessions.get_mut(&operation.session).expect("the session is open");
        session.queued_size += size_of(bootstraps);
        push(&mut session.queue, part);
    }

    /// Takes `rows` rows from the part at the head of the queue.
    pub(super) fn dequeue(&mut self, session: SessionId, rows: usize) -> Part {
        let queue = &mut self.session(session).queue;
        let mut part = queue.pop_front().expect("the queue has a head");
        let rest = part.rows.start + rows..part.rows.end;
        part.rows.end = rest.start;
        if !rest.is_empty() {
            queue.push_front(Part { rows: rest, ..part.clone() });
        }
        self.count_dequeued(session, &part);
        part
    }

    fn count_dequeued(&mut self, session: SessionId, part: &Part) {
        let operation = self.operations.get_mut(&part.operation).expect("queued operations have not ended");
        operation.queued_rows -= part.rows.len();
        self.totals.queued_rows -= part.rows.len();
        let bootstraps = &operation.bootstraps[part.rows.clone()];
        self.totals.queued_cost -= cost_of(bootstraps);
        self.sessions.get_mut(&session).expect("the session is open").queued_size -= size_of(bootstraps);
    }

    pub(super) fn release_rows(&mut self, session: SessionId, rows: usize) {
        self.session(session).held_rows -= rows;
        self.totals.held_rows -= rows;
    }

    /// Ends every operation of the session that still waits for something.
    pub(super) fn end_queued(&mut self, session: SessionId, error: Error) {
        let dropped = std::mem::take(&mut self.session(session).queue);
        let operations: BTreeSet<_> = dropped.iter().map(|part| part.operation).collect();
        self.drop_parts(session, dropped.into());
        operations.into_iter().for_each(|operation| self.finish(operation, Err(error.clone())));
    }

    /// Ends an operation without result: drops what of it is queued.
    pub(super) fn end(&mut self, operation: OperationId, error: Error) {
        let session = self.operations[&operation].session;
        if self.operations[&operation].queued_rows > 0 {
            let mut dropped = Vec::new();
            self.session(session).queue.retain(|part| {
                let kept = part.operation != operation;
                if !kept {
                    dropped.push(part.clone());
                }
                kept
            });
            self.drop_parts(session, dropped);
        }
        self.finish(operation, Err(error));
    }

    /// Strikes parts that were taken out of the session's queue from the books.
    fn drop_parts(&mut self, session: SessionId, dropped: Vec<Part>) {
        for part in dropped {
            self.count_dequeued(session, &part);
            self.release_rows(session, part.rows.len());
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
        self.commands.push(Command::Finish { operation, outcome });
    }

    /// After a submission: a full batch is ready at once, less waits for company.
    pub(super) fn gather_or_make_ready(&mut self, now: Duration, session: SessionId) {
        let wait = self.limits.wait;
        let full = self.sessions[&session].queued_size >= self.limits.batch_rows_max;
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

/// What these rows take of [`super::Limits::batch_rows_max`].
pub(super) fn size_of(bootstraps: &[u8]) -> usize {
    bootstraps.iter().map(|&count| size_of_row(count)).sum()
}

/// How many of these rows, from the first on, take at most `room`.
pub(super) fn rows_that_fit(bootstraps: &[u8], room: usize) -> usize {
    let sizes = bootstraps.iter().map(|&count| size_of_row(count));
    let ends = sizes.scan(0, |end, size| {
        *end += size;
        Some(*end)
    });
    ends.take_while(|&end| end <= room).count()
}

fn size_of_row(bootstraps: u8) -> usize {
    usize::from(bootstraps.max(1))
}

/// What these rows count against their session's share.
pub(super) fn cost_of(bootstraps: &[u8]) -> u64 {
    bootstraps.iter().map(|&count| fair::cost_of_row(count)).sum()
}
