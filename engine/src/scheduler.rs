//! The heart: a pure state machine. What happened goes in with the time, what is to be done comes out.
//!
//! No clock, no thread, no I/O, no key and no ciphertext: ids, row counts, byte counts and weights only. Hence the simulator
//! in `tests/sim` can live through years of bad luck in seconds. Time is counted since the engine's start.
//!
//! - Work: rows queue by session, first come, first served. A session with less than a full batch gathers for
//!   `Limits::wait`, then is ready; [`crate::fair`] says which ready session is next. One batch holds rows of one session.
//! - The device does one thing at a time: [`Command::Load`] and [`Command::Run`] are given only when it is idle.
//!   [`Command::Evict`] may come at any time and is carried out in its turn.
//! - An operation ends exactly once, by [`Command::Finish`]. All or nothing: with its last row, or at the first of failure,
//!   cancellation, deadline and close, and then what still runs of it is not delivered.
//! - A failed batch runs once more, each part on its own, so that one bad operation does not take its neighbours along.

mod books;
mod protocol;
#[cfg(test)]
mod tests;

pub use protocol::{Command, Event, Finished, Limits};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::batch::{Batch, BatchId, Part};
use crate::error::Error;
use crate::fair::FairQueue;
use crate::operation::{OPERATION_ROWS_MAX, OperationId};
use crate::residency::{Place, Residency};
use crate::session::SessionId;
use crate::usage::{Pace, Usage};
use books::{cost_of, rows_that_fit, size_of};

/// How long a client should wait when the host has no room for another key. Room comes with the end of a session, which
/// nobody can foresee.
const KEY_RETRY_AFTER: Duration = Duration::from_secs(30);

/// The scheduler of one device.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    phase: Phase,
    sessions: BTreeMap<SessionId, Session>,
    operations: BTreeMap<OperationId, Operation>,
    /// Sessions that gather, by the end of their wait.
    gathering: BTreeSet<(Duration, SessionId)>,
    /// Sessions that are ready.
    fair: FairQueue,
    deadlines: BTreeSet<(Duration, OperationId)>,
    device: Device,
    residency: Residency,
    pace: Pace,
    totals: Totals,
    /// Filled by a step, emptied at its end.
    commands: Vec<Command>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Draining,
    Abandoning,
    Stopped,
}

#[derive(Debug)]
struct Session {
    host_bytes: u64,
    device_bytes: u64,
    /// Rows waiting; parts of one operation are in the order of its rows.
    queue: VecDeque<Part>,
    /// Size of the queue, in the unit of [`Limits::batch_rows_max`].
    queued_size: usize,
    /// Rows waiting or running, of ended operations too as long as they run.
    held_rows: usize,
    gathers_until: Option<Duration>,
    load_failed_before: bool,
    closing: bool,
}

#[derive(Debug)]
struct Operation {
    session: SessionId,
    bootstraps: Vec<u8>,
    queued_rows: usize,
    finished_rows: usize,
    started: Option<Duration>,
    deadline: Option<Duration>,
}

#[derive(Debug)]
enum Device {
    Idle,
    Loading(SessionId),
    Running { batch: Batch, since: Duration },
}

#[derive(Debug, Default)]
struct Totals {
    held_rows: usize,
    queued_rows: usize,
    queued_cost: u64,
    key_bytes: u64,
    gates_done: u64,
    bootstraps_done: u64,
    batches_started: u64,
    batches_done: u64,
}

impl Scheduler {
    /// A scheduler with nothing to do.
    pub fn new(limits: Limits) -> Self {
        assert!(limits.batch_rows_max > 0, "a batch has rows");
        Self {
            phase: Phase::Open,
            sessions: BTreeMap::new(),
            operations: BTreeMap::new(),
            gathering: BTreeSet::new(),
            fair: FairQueue::default(),
            deadlines: BTreeSet::new(),
            device: Device::Idle,
            residency: Residency::new(limits.resident_bytes_max),
            pace: Pace::default(),
            totals: Totals::default(),
            commands: Vec::new(),
            limits,
        }
    }

    /// Takes in what happened at `now` and says what to do about it. `now` never goes back.
    ///
    /// # Panics
    /// On an event that contradicts earlier ones: an id used twice, a report of what was not ordered.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Command> {
        // What happened counts before what ran out meanwhile: a result that is there at its deadline is delivered.
        let just_loaded = self.take_in(now, event);
        self.expire(now);
        self.end_gathering(now);
        self.dispatch(now, just_loaded);
        self.stop_when_done();
        std::mem::take(&mut self.commands)
    }

    /// When a [`Event::Tick`] is due, if nothing else happens before.
    pub fn next_wake(&self) -> Option<Duration> {
        // A busy device cannot start what has gathered; its own report will.
        let gathered = match self.device {
            Device::Idle => self.gathering.first().map(|&(until, _)| until),
            Device::Loading(_) | Device::Running { .. } => None,
        };
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline);
        gathered.into_iter().chain(deadline).min()
    }

    /// Figures of the moment.
    pub fn usage(&self) -> Usage {
        let running_rows = match &self.device {
            Device::Running { batch, .. } => batch.rows(),
            Device::Idle | Device::Loading(_) => 0,
        };
        Usage {
            sessions: self.sessions.len() as u64,
            operations: self.operations.len() as u64,
            queued_rows: self.totals.queued_rows as u64,
            running_rows: running_rows as u64,
            resident_bytes: self.residency.bytes(),
            resident_bytes_max: self.residency.bytes_max(),
            arena_bytes: 0,
            circuits: 0,
            devices_in_service: 1,
            devices_lost: 0,
            key_bytes: self.totals.key_bytes,
            gates_done: self.totals.gates_done,
            bootstraps_done: self.totals.bootstraps_done,
            batches_done: self.totals.batches_done,
        }
    }

    /// Returns the session whose key has just become resident.
    fn take_in(&mut self, now: Duration, event: Event) -> Option<SessionId> {
        match event {
            Event::Opened { session, weight, host_bytes, device_bytes } => {
                self.open(session, weight, host_bytes, device_bytes);
            }
            Event::Submitted { session, operation, bootstraps, deadline } => {
                self.submit(now, session, operation, bootstraps, deadline);
            }
            Event::Cancelled(operation) => self.cancel(operation),
            Event::Closed(session) => self.close(session),
            Event::Loaded(session) => {
                self.loaded(session);
                return Some(session);
            }
            Event::LoadFailed { session, out_of_memory, reason } => self.load_failed(session, out_of_memory, reason),
            Event::Evicted(session) => {
                self.residency.evicted(session);
                self.advance_close(session);
            }
            Event::BatchDone(batch) => self.batch_done(now, batch),
            Event::BatchFailed { batch, reason } => self.batch_failed(batch, reason),
            Event::Tick => {}
            Event::Drain => self.drain(),
            Event::Abandon => self.abandon(),
        }
        None
    }
}

/// Clients: open, submit, cancel, close.
impl Scheduler {
    fn open(&mut self, session: SessionId, weight: u32, host_bytes: u64, device_bytes: u64) {
        if let Err(error) = self.admit_session(host_bytes, device_bytes) {
            self.commands.push(Command::RefuseSession { session, error });
            return;
        }
        self.totals.key_bytes += host_bytes;
        self.fair.add(session, weight);
        let opened = Session {
            host_bytes,
            device_bytes,
            queue: VecDeque::new(),
            queued_size: 0,
            held_rows: 0,
            gathers_until: None,
            load_failed_before: false,
            closing: false,
        };
        let before = self.sessions.insert(session, opened);
        assert!(before.is_none(), "{session:?} is opened once");
    }

    fn admit_session(&self, host_bytes: u64, device_bytes: u64) -> Result<(), Error> {
        let bytes_max = self.limits.resident_bytes_max;
        if self.phase != Phase::Open {
            Err(Error::ShuttingDown)
        } else if device_bytes > bytes_max {
            Err(Error::KeyTooLarge { bytes: device_bytes, bytes_max })
        } else if self.totals.key_bytes.saturating_add(host_bytes) > self.limits.key_bytes_max {
            Err(Error::Busy { retry_after: KEY_RETRY_AFTER })
        } else {
            Ok(())
        }
    }

    fn submit(
        &mut self,
        now: Duration,
        session: SessionId,
        operation: OperationId,
        bootstraps: Vec<u8>,
        deadline: Option<Duration>,
    ) {
        let rows = bootstraps.len();
        assert!(
            (1..=OPERATION_ROWS_MAX).contains(&rows),
            "an operation has 1 to {OPERATION_ROWS_MAX} rows, not {rows}"
        );
        if let Err(error) = self.admit(session, rows) {
            self.commands.push(Command::Refuse { operation, error });
            return;
        }
        let accepted = Operation { session, bootstraps, queued_rows: 0, finished_rows: 0, started: None, deadline };
        let before = self.operations.insert(operation, accepted);
        assert!(before.is_none(), "{operation:?} is submitted once");
        self.deadlines.extend(deadline.map(|deadline| (deadline, operation)));
        self.totals.held_rows += rows;
        self.session(session).held_rows += rows;
        self.enqueue(Part { operation, rows: 0..rows, retried: false }, VecDeque::push_back);
        self.gather_or_make_ready(now, session);
    }

    fn admit(&self, session: SessionId, rows: usize) -> Result<(), Error> {
        if self.phase != Phase::Open {
            return Err(Error::ShuttingDown);
        }
        let session = self.sessions.get(&session).filter(|session| !session.closing).ok_or(Error::Gone)?;
        let fits = session.held_rows + rows <= self.limits.session_rows_max
            && self.totals.held_rows + rows <= self.limits.queue_rows_max;
        if fits { Ok(()) } else { Err(Error::Busy { retry_after: self.pace.retry_after(self.totals.queued_cost) }) }
    }

    fn cancel(&mut self, operation: OperationId) {
        // What runs entirely cannot be stopped, and will be delivered.
        if self.operations.get(&operation).is_some_and(|operation| operation.queued_rows > 0) {
            self.end(operation, Error::Cancelled);
        }
    }

    fn close(&mut self, session: SessionId) {
        if !self.sessions.contains_key(&session) {
            return;
        }
        self.session(session).closing = true;
        self.end_queued(session, Error::Gone);
        self.advance_close(session);
    }

    /// Moves a closing session one step on the way of its key: off the device, then off the host.
    fn advance_close(&mut self, session: SessionId) {
        if !self.sessions.get(&session).is_some_and(|session| session.closing) {
            return;
        }
        match self.residency.place(session) {
            Place::Absent => {
                let erased = self.sessions.remove(&session).expect("the session is open");
                self.totals.key_bytes -= erased.host_bytes;
                self.fair.remove(session);
                self.commands.push(Command::Erase(session));
            }
            Place::Resident => {
                self.residency.evict(session);
                self.commands.push(Command::Evict(session));
            }
            Place::Loading | Place::Pinned | Place::Evicting => {} // the device's report brings us back here
        }
    }
}

/// The device's reports.
impl Scheduler {
    fn loaded(&mut self, session: SessionId) {
        self.device_was_loading(session);
        self.residency.loaded(session);
        self.session(session).load_failed_before = false;
        self.advance_close(session);
    }

    fn load_failed(&mut self, session: SessionId, out_of_memory: bool, reason: String) {
        self.device_was_loading(session);
        self.residency.load_failed(session);
        if std::mem::replace(&mut self.session(session).load_failed_before, true) {
            self.session(session).load_failed_before = false;
            self.end_queued(session, Error::Device(reason));
        } else if out_of_memory {
            // The device's books and ours differ. Clear it before the second try.
            self.make_room(self.limits.resident_bytes_max);
        }
        self.advance_close(session);
    }

    fn device_was_loading(&mut self, session: SessionId) {
        match std::mem::replace(&mut self.device, Device::Idle) {
            Device::Loading(expected) if expected == session => {}
            other => panic!("{session:?} was reported, but the device is {other:?}"),
        }
    }

    fn batch_done(&mut self, now: Duration, batch: BatchId) {
        let (batch, since) = self.device_was_running(batch);
        self.pace.observe(batch.cost, now.saturating_sub(since));
        self.totals.gates_done += batch.rows() as u64;
        self.totals.bootstraps_done += batch.bootstraps;
        self.totals.batches_done += 1;
        for part in &batch.parts {
            self.release_rows(batch.session, part.rows.len());
            // An operation that has ended meanwhile does not want them.
            let Some(operation) = self.operations.get_mut(&part.operation) else { continue };
            operation.finished_rows += part.rows.len();
            if operation.finished_rows == operation.bootstraps.len() {
                let started = operation.started.expect("its rows ran");
                let bootstraps = operation.bootstraps.iter().map(|&count| u64::from(count)).sum();
                let outcome = Ok(Finished { compute: now.saturating_sub(started), bootstraps });
                self.finish(part.operation, outcome);
            }
        }
        self.advance_close(batch.session);
    }

    fn batch_failed(&mut self, batch: BatchId, reason: String) {
        let (batch, _) = self.device_was_running(batch);
        // Last part first, so that the queue's head ends up in the old order.
        for part in batch.parts.into_iter().rev() {
            let rows = part.rows.len();
            if !self.operations.contains_key(&part.operation) {
                self.release_rows(batch.session, rows);
            } else if let Some(error) = self.reason_not_to_retry(batch.session, &part, &reason) {
                self.release_rows(batch.session, rows);
                self.end(part.operation, error);
            } else {
                self.enqueue(Part { retried: true, ..part }, VecDeque::push_front);
                self.make_ready(batch.session);
            }
        }
        self.advance_close(batch.session);
    }

    fn reason_not_to_retry(&self, session: SessionId, part: &Part, reason: &str) -> Option<Error> {
        if self.sessions[&session].closing {
            Some(Error::Gone)
        } else if self.phase == Phase::Abandoning {
            Some(Error::ShuttingDown)
        } else {
            part.retried.then(|| Error::Device(reason.to_owned()))
        }
    }

    fn device_was_running(&mut self, batch: BatchId) -> (Batch, Duration) {
        match std::mem::replace(&mut self.device, Device::Idle) {
            Device::Running { batch: running, since } if running.id == batch => {
                self.residency.unpin(running.session);
                (running, since)
            }
            other => panic!("{batch:?} was reported, but the device is {other:?}"),
        }
    }
}

/// What the device does next.
impl Scheduler {
    fn dispatch(&mut self, now: Duration, just_loaded: Option<SessionId>) {
        if !matches!(self.device, Device::Idle) {
            return;
        }
        // A key that was loaded is used before another can push it out; else a stream of newcomers could keep the device
        // loading for ever.
        let loaded_for = just_loaded.filter(|&session| self.fair.is_ready(session));
        let Some(session) = loaded_for.or_else(|| self.fair.front()) else { return };
        match self.residency.place(session) {
            Place::Resident => self.run(now, session),
            Place::Absent => self.load(session),
            Place::Loading | Place::Pinned | Place::Evicting => {} // the device's report brings us back here
        }
    }

    fn load(&mut self, session: SessionId) {
        let bytes = self.sessions[&session].device_bytes;
        self.make_room(bytes);
        self.residency.load(session, bytes);
        self.device = Device::Loading(session);
        self.commands.push(Command::Load(session));
    }

    fn make_room(&mut self, bytes: u64) {
        let evicted = self.residency.make_room(bytes);
        self.commands.extend(evicted.into_iter().map(Command::Evict));
    }

    fn run(&mut self, now: Duration, session: SessionId) {
        let batch = self.next_batch(now, session);
        self.fair.charge(session, batch.cost);
        if self.sessions[&session].queue.is_empty() {
            self.fair.set_ready(session, false);
        }
        self.residency.pin(session);
        self.commands.push(Command::Run(batch.clone()));
        self.device = Device::Running { batch, since: now };
    }

    /// Takes from the head of the queue as many rows as a batch may have, at least one.
    fn next_batch(&mut self, now: Duration, session: SessionId) -> Batch {
        let id = BatchId(self.totals.batches_started);
        self.totals.batches_started += 1;
        let mut batch = Batch { id, session, parts: Vec::new(), bootstraps: 0, cost: 0 };
        let mut room = self.limits.batch_rows_max;
        while let Some(front) = self.sessions[&session].queue.front() {
            // What failed before rides alone.
            if !batch.parts.is_empty() && (front.retried || batch.parts[0].retried) {
                break;
            }
            let operation = self.operations.get_mut(&front.operation).expect("queued operations have not ended");
            let fits = rows_that_fit(&operation.bootstraps[front.rows.clone()], room);
            let rows = if batch.parts.is_empty() { fits.max(1) } else { fits };
            if rows == 0 {
                break;
            }
            operation.started.get_or_insert(now);
            let part = self.dequeue(session, rows);
            let bootstraps = &self.operations[&part.operation].bootstraps[part.rows.clone()];
            room = room.saturating_sub(size_of(bootstraps));
            batch.bootstraps += bootstraps.iter().map(|&count| u64::from(count)).sum::<u64>();
            batch.cost += cost_of(bootstraps);
            batch.parts.push(part);
        }
        batch
    }

    fn end_gathering(&mut self, now: Duration) {
        while let Some(&(until, session)) = self.gathering.first()
            && until <= now
        {
            self.make_ready(session);
        }
    }

    fn expire(&mut self, now: Duration) {
        while let Some(&(deadline, operation)) = self.deadlines.first()
            && deadline <= now
        {
            self.end(operation, Error::DeadlinePassed);
        }
    }
}

/// The end of it all.
impl Scheduler {
    fn drain(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
            while let Some(&(_, session)) = self.gathering.first() {
                self.make_ready(session); // no company will come
            }
        }
    }

    fn abandon(&mut self) {
        if matches!(self.phase, Phase::Open | Phase::Draining) {
            self.phase = Phase::Abandoning;
            let sessions: Vec<_> = self.sessions.keys().copied().collect();
            sessions.into_iter().for_each(|session| self.end_queued(session, Error::ShuttingDown));
        }
    }

    fn stop_when_done(&mut self) {
        if !matches!(self.phase, Phase::Draining | Phase::Abandoning) || !self.operations.is_empty() {
            return;
        }
        let open: Vec<_> = self.sessions.iter().filter(|(_, session)| !session.closing).map(|(&id, _)| id).collect();
        open.into_iter().for_each(|session| self.close(session));
        if self.sessions.is_empty() && matches!(self.device, Device::Idle) {
            self.phase = Phase::Stopped;
            self.commands.push(Command::Stop);
        }
    }
}
