//! The scheduler: a pure state machine. An event and the time go in, commands come out.
//!
//! No clock, no thread, no I/O, no key and no ciphertext: ids, row counts, byte counts and weights only. Hence the
//! simulator in `tests/engine/sim` can run through years of failures in seconds. Time is counted since the engine's
//! start.
//!
//! - Work: rows queue by session, first come, first served. While the devices are busy, a session with less than a full
//!   batch waits up to `SchedulerLimits::wait` for more rows (it gathers), then becomes ready; an idle device starts at
//!   once. [`crate::fair`] chooses the next ready session. A batch holds rows of one session; small batches of several
//!   sessions run on a device side by side, in one call.
//! - Circuits (`circuits`, `windows`): a device gets several levels at a time, as many as take about 2 ms. The next
//!   level queues when the rows of the level before have started, so that circuits, lists and other sessions take turns.
//!   A circuit stays on the device where it began, because its bits are in the arena there.
//! - Values (`values`): the inputs and results of circuits of numbers may stay in the arena for later circuits.
//! - Devices (`devices`, `dispatch`): each loads parts of one key at a time, in pieces between batches, and takes calls
//!   up to its limit. A part of a key may be on several devices.
//! - End: an operation ends exactly once, by [`Command::Finish`]: with its last row, or at the first failure,
//!   cancellation, deadline or close. In the latter cases, none of its results are delivered.
//! - Failure (`reports`): after a failed batch, the rows of lists run once more, each part in a separate batch, so that
//!   one bad operation does not affect its neighbours. Circuits restart once with their inputs. Retries prefer another
//!   device. A device that is lost, or fails several times without a success, is retired for good.
//! - Stand-ins: an operation is aside if it runs on stand-ins only, because no other device can hold it, or because
//!   another device was twice out of memory for it. All other operations never run on a stand-in.
//! - Silence (`watchdog`): a device that does not report in time is given up. That is like a lost device, except that no
//!   more reports are awaited from it.

mod books;
mod circuits;
mod devices;
mod dispatch;
mod protocol;
mod reports;
#[cfg(test)]
mod tests;
mod values;
mod watchdog;
mod windows;

pub use crate::work::{Form, Levels, NamedInput, NamedSlots, SlotKind, Work};
pub use protocol::{Cause, Command, DeviceLimits, Event, Failure, Finished, SchedulerLimits};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::fair::FairQueue;
use crate::ids::{AccountId, DeviceId, OperationId, ParamsId, Prepared, SessionId};
use crate::residency::PartState;
use crate::usage::{Pace, Usage};
use crate::work::units_of;
use circuits::CircuitBooks;
use devices::{DeviceBooks, largest, nearest};

/// How long a client should wait when the host has no room for another key. There is room when a session ends, and the
/// engine cannot predict this time.
const KEY_RETRY_AFTER: Duration = Duration::from_secs(30);

/// The scheduler of a node's devices.
#[derive(Debug)]
pub struct Scheduler {
    limits: SchedulerLimits,
    phase: Phase,
    sessions: BTreeMap<SessionId, SessionBooks>,
    /// The sessions that share the tables of each parameter set. A set without sessions has no entry.
    sharing: BTreeMap<ParamsId, BTreeSet<SessionId>>,
    operations: BTreeMap<OperationId, OperationBooks>,
    /// Ended circuits with rows that still run. They keep their slots until those rows end.
    leaving: BTreeMap<OperationId, OperationBooks>,
    /// Circuits that begin anew when a device has room for them.
    homeless: BTreeSet<OperationId>,
    /// Sessions that wait for a full batch (gather), by the end of their wait.
    gathering: BTreeSet<(Duration, SessionId)>,
    /// Ready sessions.
    fair: FairQueue,
    deadlines: BTreeSet<(Duration, OperationId)>,
    devices: Vec<DeviceBooks>,
    pace: Pace,
    totals: Totals,
    /// Commands of the current step.
    commands: Vec<Command>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Draining,
    Abandoning,
    Stopped,
}

/// The scheduler's record of a session.
#[derive(Debug)]
struct SessionBooks {
    host_bytes: u64,
    /// Bytes of each part of the prepared key, on each device.
    device_bytes: Vec<Vec<u64>>,
    slot_kind: SlotKind,
    /// The cost of a unit of work on each device.
    unit_costs: Vec<u32>,
    /// The parameter set whose tables the key shares with other sessions.
    tables: Option<ParamsId>,
    /// Waiting rows. Parts of one operation are in the order of its rows.
    queue: VecDeque<QueuedRows>,
    /// Size of the queue, in the unit of [`DeviceLimits::batch_units_max`].
    queued_size: usize,
    /// Rows of lists that wait or run. Rows of ended operations count while they run.
    held_rows: usize,
    /// Circuits that have not ended.
    circuits: BTreeSet<OperationId>,
    /// Rows of the session's circuits. Rows of an ended circuit count while some of them run.
    circuit_rows: usize,
    /// Size of the inputs and outputs of the session's circuits, in bytes. A circuit counts here as long as its rows
    /// count in `circuit_rows`.
    circuit_bytes: u64,
    gathers_until: Option<Duration>,
    /// The device where the last load failed, if no load has succeeded since.
    load_failed_on: Option<DeviceId>,
    closing: bool,
}

/// Consecutive rows of an operation, in their session's queue.
#[derive(Clone, Debug)]
struct QueuedRows {
    operation: OperationId,
    rows: Range<usize>,
    /// The device on which a batch with these rows failed.
    failed_on: Option<DeviceId>,
}

/// The scheduler's record of an operation.
#[derive(Debug)]
struct OperationBooks {
    session: SessionId,
    units: Vec<u32>,
    /// The parts that the operation needs.
    key: Arc<[Prepared]>,
    /// For each row of a list, its number of slots. Empty for a circuit.
    list_slots: Vec<u32>,
    /// The number of slots that a circuit holds. 0 for a list.
    slots: usize,
    /// The inputs of a circuit that have names. None for a list.
    inputs: Vec<NamedInput>,
    /// Whether the operation runs on stand-ins only. An operation that is aside stays aside.
    aside: bool,
    queued_rows: usize,
    running_rows: usize,
    finished_rows: usize,
    started: Option<Duration>,
    deadline: Option<Duration>,
    /// The circuit's record; `None` for a list.
    circuit: Option<CircuitBooks>,
}

#[derive(Debug, Default)]
struct Totals {
    held_rows: usize,
    queued_rows: usize,
    queued_cost: u64,
    key_bytes: u64,
    /// The number of operations that are aside.
    aside: usize,
    circuits: u64,
    circuit_rows: usize,
    circuit_bytes: u64,
    rows_done: u64,
    units_done: u64,
    busy: Duration,
    batches_started: u64,
    batches_done: u64,
    inputs_found: u64,
    inputs_written: u64,
}

impl Scheduler {
    /// A scheduler without work.
    pub fn new(limits: SchedulerLimits) -> Self {
        assert!(!limits.devices.is_empty(), "there is a device");
        Self {
            phase: Phase::Open,
            sessions: BTreeMap::new(),
            sharing: BTreeMap::new(),
            operations: BTreeMap::new(),
            leaving: BTreeMap::new(),
            homeless: BTreeSet::new(),
            gathering: BTreeSet::new(),
            fair: FairQueue::default(),
            deadlines: BTreeSet::new(),
            devices: limits.devices.iter().map(|limits| DeviceBooks::new(limits.clone())).collect(),
            pace: Pace::default(),
            totals: Totals::default(),
            commands: Vec::new(),
            limits,
        }
    }

    /// Processes an event that happened at `now` and returns the commands that follow. `now` must never go back.
    ///
    /// # Panics
    /// When an event contradicts earlier ones: an id is used twice, or a report matches no order.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Command> {
        // The event is processed before the timeouts, so a result that arrives at its deadline is delivered.
        let just_loaded = if self.is_late(&event) { None } else { self.take_in(now, event) };
        self.give_up_silent_devices(now);
        self.expire(now);
        self.end_gathering(now);
        self.dispatch(now, just_loaded);
        self.free_arenas(now);
        // the arenas that were freed may have made room
        while self.house_the_homeless() {
            self.dispatch(now, None);
            self.free_arenas(now);
        }
        self.stop_when_done();
        self.watch(now);
        std::mem::take(&mut self.commands)
    }

    /// The time at which an [`Event::Tick`] is due if nothing else happens before.
    pub fn next_wake(&self) -> Option<Duration> {
        // While all devices are busy, a session that waits for a full batch cannot start. Then no timer is needed,
        // because the next report of a device starts the session.
        let gathered = match self.devices_that_take_work().next() {
            Some(_) => self.gathering.first().map(|&(until, _)| until),
            None => None,
        };
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline);
        let arenas = self.devices.iter().filter_map(DeviceBooks::idle_end);
        gathered.into_iter().chain(deadline).chain(arenas).chain(self.next_silence()).min()
    }

    /// The current figures.
    pub fn usage(&self) -> Usage {
        let in_service = || self.devices_in_service().map(|device| &self.devices[device.0]);
        // `resident_bytes_max` is the sum over the devices in service and over those out of service that hold keys,
        // such as a stand-in with keys of operations that are aside
        let idle = |at: usize| !self.in_service(DeviceId(at)) && self.devices[at].residency.bytes() == 0;
        let holding = (0..self.devices.len()).filter(|&at| !idle(at)).map(|at| &self.devices[at]);
        Usage {
            sessions: self.sessions.len() as u64,
            operations: self.operations.len() as u64,
            queued_rows: self.totals.queued_rows as u64,
            running_rows: self.devices.iter().map(DeviceBooks::running_rows).sum::<usize>() as u64,
            resident_bytes: self.devices.iter().map(|device| device.residency.bytes()).sum(),
            resident_bytes_max: holding.map(|device| device.residency.bytes_max()).sum(),
            arena_bytes: self.devices.iter().map(DeviceBooks::arena_bytes).sum(),
            arena_bytes_max: in_service().map(|device| device.limits.arena_bytes_max).max().unwrap_or(0),
            circuits: self.totals.circuits,
            devices_in_service: in_service().count() as u64,
            devices_lost: self.devices.iter().filter(|device| device.failure.is_some()).count() as u64,
            key_bytes: self.totals.key_bytes,
            rows_done: self.totals.rows_done,
            units_done: self.totals.units_done,
            busy: self.totals.busy,
            batches_done: self.totals.batches_done,
            inputs_found: self.totals.inputs_found,
            inputs_written: self.totals.inputs_written,
        }
    }

    /// Whether a device takes work, and the failure that took it out of service, if any.
    pub fn service(&self, device: DeviceId) -> (bool, Option<String>) {
        (self.in_service(device), self.devices[device.0].failure.clone())
    }

    /// Processes an event. If the event reports that parts of a key are loaded, returns the device and the key's
    /// session.
    fn take_in(&mut self, now: Duration, event: Event) -> Option<(DeviceId, SessionId)> {
        match event {
            Event::Opened { session, account, weight, unit_costs, tables, host_bytes, device_bytes, slot_kind } => {
                let opened = SessionBooks::new(host_bytes, device_bytes, slot_kind, unit_costs, tables);
                self.open(session, opened, account, weight);
            }
            Event::Submitted { session, operation, work, deadline } => {
                work.check();
                let Work { units, key, form } = work;
                let tables = self.sessions.get(&session).and_then(|session| session.tables);
                let key = key.into_iter().map(|part| Prepared::of(session, part, tables)).collect();
                let rows = OperationBooks::new(session, units, key, deadline);
                match form {
                    Form::List { slots } => {
                        self.submit_list(now, operation, OperationBooks { list_slots: slots, ..rows })
                    }
                    Form::Circuit(levels) => {
                        self.submit_circuit(operation, OperationBooks { slots: levels.slots, ..rows }, levels)
                    }
                }
            }
            Event::Cancelled(operation) => self.cancel(operation),
            Event::Closed(session) => self.close(session),
            Event::Loaded { device, session } => {
                self.loaded(device, session);
                return Some((device, session));
            }
            Event::LoadFailed { device, session, failure } => self.load_failed(device, session, failure),
            Event::Evicted { device, part } => self.evicted(device, part),
            Event::BatchDone(batch) => self.batch_done(now, batch),
            Event::BatchFailed { batch, failure } => self.batch_failed(now, batch, failure),
            Event::Retired(device) => self.retired(device),
            Event::Lost { device, reason } => self.lose(device, &reason),
            Event::Died { device, reason } => self.give_up(now, device, &reason),
            Event::Tick => {}
            Event::Drain => self.drain(),
            Event::Abandon => self.abandon(),
        }
        None
    }
}

/// Events of clients: open, submit, cancel, close.
impl Scheduler {
    fn open(&mut self, session: SessionId, opened: SessionBooks, account: AccountId, weight: u32) {
        assert_eq!(opened.device_bytes.len(), self.devices.len(), "a key has a size on every device");
        assert_eq!(opened.unit_costs.len(), self.devices.len(), "a unit has a cost on every device");
        if let Err(error) = self.admit_session(opened.host_bytes, &opened.device_bytes) {
            self.commands.push(Command::RefuseSession { session, error });
            return;
        }
        self.totals.key_bytes += opened.host_bytes;
        self.fair.add(session, account, weight);
        if let Some(params) = opened.tables {
            self.sharing.entry(params).or_default().insert(session);
        }
        let before = self.sessions.insert(session, opened);
        assert!(before.is_none(), "{session:?} is opened once");
    }

    fn admit_session(&self, host_bytes: u64, device_bytes: &[Vec<u64>]) -> Result<(), Error> {
        if self.phase != Phase::Open {
            return Err(Error::ShuttingDown);
        }
        let needs = self.healthy().map(|at| (largest(&device_bytes[at.0]), self.resident_bytes_max(at)));
        let Some((bytes, bytes_max)) = nearest(needs) else { return Err(self.no_device_serves()) };
        if bytes > bytes_max {
            Err(Error::KeyTooLarge { bytes, bytes_max })
        } else if self.totals.key_bytes.saturating_add(host_bytes) > self.limits.key_bytes_max {
            Err(Error::Busy { retry_after: KEY_RETRY_AFTER })
        } else {
            Ok(())
        }
    }

    fn submit_list(&mut self, now: Duration, operation: OperationId, mut list: OperationBooks) {
        let (session, rows) = (list.session, list.units.len());
        let has_lists = self.sessions.get(&session).is_none_or(|session| session.slot_kind.for_lists);
        assert!(has_lists, "{session:?} was opened without lists");
        if let Err(error) = self.admit_list(&list) {
            self.commands.push(Command::Refuse { operation, error });
            return;
        }
        list.aside = self.belongs_aside(&list);
        self.accept(operation, list);
        self.totals.held_rows += rows;
        self.session(session).held_rows += rows;
        self.enqueue(QueuedRows { operation, rows: 0..rows, failed_on: None }, VecDeque::push_back);
        self.gather_or_make_ready(now, session);
    }

    fn admit_list(&self, list: &OperationBooks) -> Result<(), Error> {
        let rows = list.units.len();
        let fits = self.admit(list)?.held_rows + rows <= self.limits.session_rows_max
            && self.totals.held_rows + rows <= self.limits.queue_rows_max;
        if fits { Ok(()) } else { Err(self.busy(self.totals.queued_cost)) }
    }

    /// The operation's session, if the session is open and a device can hold the parts of the key that the operation
    /// needs.
    fn admit(&self, operation: &OperationBooks) -> Result<&SessionBooks, Error> {
        if self.phase != Phase::Open {
            return Err(Error::ShuttingDown);
        }
        let open = self.sessions.get(&operation.session).filter(|session| !session.closing).ok_or(Error::Gone)?;
        if self.healthy().any(|device| self.fits(operation, device)) {
            return Ok(open);
        }
        // lost devices are compared too: if one of them could have held the set, the set is not too large
        let devices = (0..self.devices.len()).map(DeviceId);
        let sizes = devices.map(|device| (self.bytes_of_set(operation, device), self.resident_bytes_max(device)));
        let (bytes, bytes_max) = nearest(sizes).expect("there is a device");
        Err(if bytes > bytes_max { Error::KeyTooLarge { bytes, bytes_max } } else { self.no_device_serves() })
    }

    /// Returns the refusal [`Error::Busy`]. The suggested wait is the time that work of this cost takes.
    fn busy(&self, cost: u64) -> Error {
        let devices = self.devices_in_service().count().max(1) as u64;
        Error::Busy { retry_after: self.pace.retry_after(cost / devices) }
    }

    fn cancel(&mut self, operation: OperationId) {
        // An operation whose rows have all started cannot be stopped; its results will be delivered.
        if self.operations.get(&operation).is_some_and(OperationBooks::can_be_stopped) {
            self.end(operation, Error::Cancelled);
        }
    }

    fn close(&mut self, session: SessionId) {
        if !self.sessions.contains_key(&session) {
            return;
        }
        self.session(session).closing = true;
        self.end_what_can_be_stopped(session, Error::Gone);
        self.advance_close(session);
    }

    /// Advances the erasure of a closing session's key by one step: first from the devices, then from the host. The last
    /// session of a parameter set takes the set's tables with it.
    fn advance_close(&mut self, session: SessionId) {
        if !self.sessions.get(&session).is_some_and(|session| session.closing) {
            return;
        }
        let last_of = self.sessions[&session].tables.filter(|params| self.sharing[params].len() == 1);
        let mut gone = true;
        for device in (0..self.devices.len()).map(DeviceId) {
            self.free_arena(device, session);
            self.devices[device.0].add_nothing_to(session);
            let books = &mut self.devices[device.0];
            // A retiring device may still have the session's arena although the key is already gone.
            let retires = books.failure.is_some() && !books.retired;
            let mut there: Vec<_> = books.residency.parts_of(session).collect();
            if let Some(tables) = last_of.map(Prepared::Tables) {
                there.extend(
                    Some((tables, books.residency.state(tables))).filter(|(_, state)| *state != PartState::Absent),
                );
            }
            // a batch or a load that needs only shared tables holds no part of the session
            let works = books.loads(session) || books.running().any(|batch| batch.session == session);
            gone &= there.is_empty() && !retires && !works;
            // A part that is loading, in use or being evicted needs no command now: when the device reports the end of
            // that, this method is called again. It is also called again when a retiring device has retired.
            if books.failure.is_none() {
                for (part, _) in there.into_iter().filter(|&(_, state)| state == PartState::Resident) {
                    books.residency.evict(part);
                    self.commands.push(Command::Evict { device, part });
                }
            }
        }
        if gone {
            let erased = self.sessions.remove(&session).expect("the session is open");
            self.totals.key_bytes -= erased.host_bytes;
            self.fair.remove(session);
            if let Some(params) = erased.tables {
                let sharing = self.sharing.get_mut(&params).expect("the session shares the tables");
                sharing.remove(&session);
                if sharing.is_empty() {
                    self.sharing.remove(&params);
                }
            }
            self.commands.push(Command::Erase(session));
        }
    }
}

impl SessionBooks {
    fn new(
        host_bytes: u64,
        device_bytes: Vec<Vec<u64>>,
        slot_kind: SlotKind,
        unit_costs: Vec<u32>,
        tables: Option<ParamsId>,
    ) -> Self {
        Self {
            host_bytes,
            device_bytes,
            slot_kind,
            unit_costs,
            tables,
            queue: VecDeque::new(),
            queued_size: 0,
            held_rows: 0,
            circuits: BTreeSet::new(),
            circuit_rows: 0,
            circuit_bytes: 0,
            gathers_until: None,
            load_failed_on: None,
            closing: false,
        }
    }

    /// The cost of a unit that waits: the cost on the device where the unit is cheapest.
    fn queue_cost(&self) -> u32 {
        self.unit_costs.iter().copied().min().unwrap_or(0)
    }
}

impl OperationBooks {
    /// The record of a new operation. The caller adds the slots of a list, or the record of a circuit.
    fn new(session: SessionId, units: Vec<u32>, key: Arc<[Prepared]>, deadline: Option<Duration>) -> Self {
        Self {
            session,
            units,
            key,
            list_slots: Vec::new(),
            slots: 0,
            inputs: Vec::new(),
            aside: false,
            queued_rows: 0,
            running_rows: 0,
            finished_rows: 0,
            started: None,
            deadline,
            circuit: None,
        }
    }

    /// Whether some rows of the operation have not started.
    fn can_be_stopped(&self) -> bool {
        self.queued_rows > 0 || self.circuit.as_ref().is_some_and(CircuitBooks::restarts)
    }

    /// The figures of an operation whose last row has run.
    fn finished(&self, now: Duration) -> Finished {
        let started = self.started.expect("its rows ran");
        Finished { compute: now.saturating_sub(started), units: units_of(&self.units) }
    }
}

/// The shutdown.
impl Scheduler {
    fn expire(&mut self, now: Duration) {
        while let Some(&(deadline, operation)) = self.deadlines.first()
            && deadline <= now
        {
            self.end(operation, Error::DeadlinePassed);
        }
    }

    fn drain(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
            while let Some(&(_, session)) = self.gathering.first() {
                self.make_ready(session); // no more rows will come to fill a batch
            }
        }
    }

    fn abandon(&mut self) {
        if matches!(self.phase, Phase::Open | Phase::Draining) {
            self.phase = Phase::Abandoning;
            let sessions: Vec<_> = self.sessions.keys().copied().collect();
            sessions.into_iter().for_each(|session| self.end_what_can_be_stopped(session, Error::ShuttingDown));
        }
    }

    fn stop_when_done(&mut self) {
        if !matches!(self.phase, Phase::Draining | Phase::Abandoning) || !self.operations.is_empty() {
            return;
        }
        let open: Vec<_> = self.sessions.iter().filter(|(_, session)| !session.closing).map(|(&id, _)| id).collect();
        open.into_iter().for_each(|session| self.close(session));
        if self.sessions.is_empty() && self.devices.iter().all(DeviceBooks::is_at_rest) {
            self.phase = Phase::Stopped;
            self.commands.push(Command::Stop);
        }
    }
}
