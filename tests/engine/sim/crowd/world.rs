//! The clients and the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::batch::{Batch, BatchPart, DeviceId};
use engine::scheduler::{
    Command, DeviceLimits, Event, Form, Levels, NamedInput, NamedSlots, Scheduler, SchedulerLimits, SlotKind, Work,
};
use engine::{AccountId, Error, OPERATION_ROWS_MAX, OperationId, ParamsId, PartId, Prepared, SessionId, ValueId};

use super::books::{Ahead, Books, ObservedSession};
use super::devices::{Order, SimulatedDevice};
use crate::dice::Dice;

/// Number of the clients' actions before the world is drained.
const ACTIONS: usize = 400;

/// Number of steps after which a world counts as hung.
const STEPS_MAX: usize = 100_000;

/// Accounts. The number of an account is also its weight.
const ACCOUNTS: [AccountId; 5] = [AccountId(1), AccountId(2), AccountId(4), AccountId(8), AccountId(64)];

/// Counts how often each kind of event happened. A simulation in which too little happened fails.
#[derive(Debug, Default)]
pub struct Tally {
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn see(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    pub fn assert_everything_was_seen(&self) {
        for what in [
            "done",
            "cancelled",
            "deadline",
            "gone",
            "device error",
            "abandoned",
            "busy",
            "busy circuit",
            "key too large",
            "set too large",
            "loaded beside what was there",
            "circuit too large",
            "done after a failure",
            "circuit done",
            "circuit done after a failure",
            "circuit cancelled half-way",
            "circuit begins anew",
            "batch failed",
            "load failed",
            "out of memory",
            "evicted for another",
            "tables evicted for another",
            "tables left",
            "tables shared",
            "shared batch",
            "batch with circuits and lists",
            "slice",
            "side by side",
            "two batches in flight",
            "window of levels",
            "run beside a load",
            "closed while running",
            "closed while loading",
            "dead device",
            "lost device",
            "stand-in works",
            "stand-in works beside others",
            "nobody serves",
            "no memory for a session",
            "moved to the stand-in",
            "no memory, then done",
            "no memory, then cancelled",
            "no memory, then deadline",
            "no memory, then gone",
            "no memory, then device error",
            "waited for room",
            "hang",
            "never answers",
            "given up",
            "late report",
            "failed drop",
            "dead thread",
            "waited while others ran",
            "value was there",
            "value written",
        ] {
            assert!(self.counts.get(what).is_some_and(|&count| count >= 10), "{what} was rarely seen: {self:?}");
        }
    }
}

pub struct World {
    pub dice: Dice,
    pub now: Duration,
    pub scheduler: Scheduler,
    pub books: Books,
    pub devices: Vec<SimulatedDevice>,
    /// The time of the clients' next action.
    next_action: Duration,
    actions_left: usize,
    ids: u64,
    /// The names of values of each session.
    values: BTreeMap<SessionId, Vec<ValueId>>,
    pub tally: Tally,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let session_rows_max = dice.pick(&[OPERATION_ROWS_MAX, 1500, 4096]);
        let limits = SchedulerLimits {
            queue_rows_max: session_rows_max + dice.pick(&[0, 500, 4096]),
            session_rows_max,
            wait: Duration::from_micros(dice.pick(&[0, 200, 5000])),
            window: Duration::from_micros(dice.pick(&[0, 2000, 50_000])),
            arena_idle: Duration::from_micros(dice.pick(&[0, 1000, 100_000])),
            key_bytes_max: dice.pick(&[300, 1000]),
            circuit_rows_max: dice.pick(&[150, 2000]),
            circuit_bytes_max: dice.pick(&[50, 1000]),
            session_circuit_rows_max: dice.pick(&[100, 1000]),
            session_circuit_bytes_max: dice.pick(&[60, 500]),
            silence_max: Duration::from_secs(dice.pick(&[10, 60, 60, 60])),
            devices: device_limits(&mut dice),
        };
        let devices = (0..limits.devices.len()).map(|_| SimulatedDevice::new(&mut dice)).collect();
        Self {
            now: Duration::ZERO,
            scheduler: Scheduler::new(limits.clone()),
            books: Books::new(limits),
            devices,
            next_action: Duration::ZERO,
            actions_left: ACTIONS,
            ids: 0,
            values: BTreeMap::new(),
            tally: Tally::default(),
            dice,
        }
    }

    /// Runs the world until the scheduler has stopped.
    pub fn run(mut self) -> Tally {
        for _ in 0..STEPS_MAX {
            if self.books.stopped {
                self.nothing_follows();
                return self.tally;
            }
            self.live();
            let idle = self.devices.iter().all(|device| !device.is_busy() || device.given_up);
            if self.books.check(self.now, &self.scheduler.usage(), idle) {
                self.tally.see("waited for room");
            }
        }
        panic!("the engine never stops");
    }

    /// Advances the clock to the next event: of a device, of a client, or a timeout.
    fn live(&mut self) {
        let answers = |at: &usize| self.devices[*at].busy_until != Duration::MAX;
        let working = (0..self.devices.len()).filter(|&at| self.devices[at].is_busy()).filter(answers);
        let device = working.map(|at| (self.devices[at].busy_until, at)).min();
        let client = (self.actions_left > 0).then_some(self.next_action);
        let wake = self.scheduler.next_wake();
        let times = [device.map(|(at, _)| at), client, wake];
        let next = times.into_iter().flatten().min().expect("an event always follows");
        self.now = self.now.max(next);
        if let Some((at, device)) = device
            && at == next
        {
            self.device_reports(DeviceId(device));
        } else if client == Some(next) {
            self.client_acts();
            self.actions_left -= 1;
            self.next_action = self.now + Duration::from_micros(self.dice.pick(&[0, 0, 0, 20, 1000, 50_000]));
        } else {
            let due = self.scheduler.next_wake();
            self.feed(Event::Tick);
            assert_ne!(self.scheduler.next_wake(), due, "a tick moves the next wake time");
        }
    }

    pub fn feed(&mut self, event: Event) {
        let commands = self.step(event);
        assert_eq!(refusal(&commands), None);
        self.carry_out(commands);
    }

    fn step(&mut self, event: Event) -> Vec<Command> {
        let commands = self.scheduler.step(self.now, event);
        assert!(!self.books.stopped || commands.iter().all(is_refusal), "{commands:?} after the end");
        commands
    }

    fn carry_out(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                // the method that fed the event has already handled this refusal
                Command::RefuseSession { .. } | Command::Refuse { .. } => {}
                Command::Load { device, session, parts } => {
                    assert!(self.books.serves_some(session, device), "{device:?} gets a load, but does not serve");
                    self.order(device, Order::Load(session, parts));
                }
                Command::Evict { device, part } => {
                    let closed = match part {
                        Prepared::Part(session, _) => self.books.sessions[&session].patience.is_some(),
                        Prepared::Tables(params) => self.books.all_closed(params),
                    };
                    if !closed && !self.books.draining {
                        self.tally.see("evicted for another");
                    }
                    if matches!(part, Prepared::Tables(_)) {
                        self.tally.see(if closed { "tables left" } else { "tables evicted for another" });
                    }
                    self.order(device, Order::Evict(part));
                }
                Command::Run { device, batches } => {
                    self.books.called(device, &batches);
                    batches.iter().for_each(|batch| self.started(batch));
                    if batches.len() > 1 {
                        self.tally.see("side by side");
                    }
                    self.order(device, Order::Run(batches));
                }
                Command::FreeArena { device, session } => {
                    self.books.freed(device, session);
                    self.order(device, Order::FreeArena(session));
                }
                Command::GiveUp(device) => self.give_up(device),
                Command::Retire(device) => {
                    self.tally.see("lost device");
                    self.books.lost(device);
                    self.order(device, Order::Retire);
                }
                Command::Restart(operation) => {
                    self.tally.see("circuit begins anew");
                    self.books.restarted(self.now, operation);
                }
                Command::Finish { operation, outcome } => {
                    self.tally.see(self.name_of(operation, outcome.as_ref().err()));
                    if self.books.operations.get(&operation).is_some_and(|operation| operation.lacked_memory) {
                        self.tally.see(name_without_memory(outcome.as_ref().err()));
                    }
                    self.books.finished(self.now, operation, &outcome);
                }
                Command::Erase(session) => {
                    let left = self.books.erased(session);
                    let devices = self.devices.iter().filter(|device| !device.given_up);
                    let mut there = devices.flat_map(|device| device.keys.keys());
                    let is_left = |part: &Prepared| match *part {
                        Prepared::Part(of, _) => of == session,
                        Prepared::Tables(params) => left == Some(params),
                    };
                    assert!(!there.any(is_left), "{session:?} is still on a device");
                }
                Command::Stop => self.books.stopped = true,
            }
        }
    }

    fn started(&mut self, batch: &Batch) {
        self.books.started(self.now, batch);
        if self.devices[batch.device.0].loads().is_some() {
            self.books.ran_beside_load(batch);
        } else if self.books.served(self.now, batch) {
            self.tally.see("waited while others ran");
        }
        self.tally.see(if batch.parts.len() > 1 { "shared batch" } else { "slice" });
        let levels = |part: &BatchPart| self.books.operations[&part.operation].levels_of(part.rows.clone()).len();
        if batch.parts.iter().any(|part| levels(part) > 1) {
            self.tally.see("window of levels");
        }
        let is_circuit = |id| self.books.operations[id].is_circuit();
        let circuits = batch.parts.iter().filter(|part| is_circuit(&part.operation)).count();
        if circuits > 0 && circuits < batch.parts.len() {
            self.tally.see("batch with circuits and lists");
        }
        let mut of = batch.parts.iter().map(|part| &self.books.operations[&part.operation]);
        if of.any(|operation| operation.moved) {
            self.tally.see("moved to the stand-in");
        }
        if self.books.limits.devices[batch.device.0].stand_in {
            let alone = self.books.in_service(batch.device);
            self.tally.see(if alone { "stand-in works" } else { "stand-in works beside others" });
        }
    }

    /// The name under which the tally counts this end of an operation.
    fn name_of(&self, operation: OperationId, error: Option<&Error>) -> &'static str {
        let circuit = self.books.operations.get(&operation).filter(|operation| operation.is_circuit());
        match (error, circuit) {
            (None, Some(_)) if self.books.failures > 0 => "circuit done after a failure",
            (None, Some(_)) => "circuit done",
            (None, None) if self.books.failures > 0 => "done after a failure",
            (None, None) => "done",
            (Some(Error::Cancelled), Some(circuit)) if circuit.is_half_way() => "circuit cancelled half-way",
            (Some(Error::Cancelled), _) => "cancelled",
            (Some(Error::DeadlinePassed), _) => "deadline",
            (Some(Error::Gone), _) => "gone",
            (Some(Error::Device(_)), _) => "device error",
            (Some(_), _) => "abandoned",
        }
    }

    /// Checks that after the end no event leads to an order, and that no device holds anything.
    fn nothing_follows(&mut self) {
        assert!(self.books.operations.is_empty() && self.books.sessions.is_empty() && self.books.arenas.is_empty());
        for device in self.devices.iter_mut().filter(|device| !device.given_up) {
            // devices do not report that they have freed an arena, so orders to free one may be left over
            for order in device.orders.drain(..) {
                let Order::FreeArena(session) = order else { panic!("an order is left after the end") };
                device.arenas.remove(&session);
            }
            assert!(device.keys.is_empty() && device.arenas.is_empty());
        }
        let usage = self.scheduler.usage();
        let left = [usage.resident_bytes, usage.arena_bytes, usage.queued_rows, usage.running_rows, usage.circuits];
        assert_eq!((left, usage.key_bytes), ([0; 5], 0));
        assert_eq!(self.scheduler.next_wake(), None);
        self.client_submits(SessionId(1));
        self.client_opens();
        for event in [Event::Tick, Event::Drain, Event::Abandon, Event::Closed(SessionId(1))] {
            self.feed(event);
        }
    }
}

/// The name under which the tally counts this end of an operation for which a device was twice out of memory.
fn name_without_memory(error: Option<&Error>) -> &'static str {
    match error {
        None => "no memory, then done",
        Some(Error::Cancelled) => "no memory, then cancelled",
        Some(Error::DeadlinePassed) => "no memory, then deadline",
        Some(Error::Gone) => "no memory, then gone",
        Some(Error::Device(_)) => "no memory, then device error",
        Some(_) => "no memory, then abandoned",
    }
}

/// The limits of one device, of several, or of several and a stand-in.
fn device_limits(dice: &mut Dice) -> Vec<DeviceLimits> {
    let count = dice.pick(&[1, 1, 2, 2, 3, 4]);
    let with_stand_in = count > 1 && dice.percent(50);
    let batch_units_max = dice.pick(&[1, 2, 8, 64, 300]);
    let devices = (0..count).map(|at| DeviceLimits {
        batch_units_max: if dice.percent(80) { batch_units_max } else { dice.pick(&[8, 64]) },
        batches_in_flight_max: dice.pick(&[1, 2, 2]),
        keys_together_max: dice.pick(&[1, 2, 8]),
        resident_bytes_max: dice.pick(&[100, 250, 2000]),
        arena_bytes_max: dice.pick(&[500, 4000, 20_000]),
        stand_in: with_stand_in && at + 1 == count,
    });
    devices.collect()
}

fn refusal(commands: &[Command]) -> Option<&Error> {
    commands.iter().find_map(|command| match command {
        Command::RefuseSession { error, .. } | Command::Refuse { error, .. } => Some(error),
        _ => None,
    })
}

fn is_refusal(command: &Command) -> bool {
    matches!(command, Command::RefuseSession { .. } | Command::Refuse { .. })
}

/// The clients.
impl World {
    fn client_acts(&mut self) {
        if self.actions_left == 1 {
            return self.everybody_leaves();
        }
        let session = self.any_session();
        match self.dice.below(100) {
            0..10 => self.client_opens(),
            10..75 => self.client_submits(session),
            75..85 => self.client_cancels(),
            85..92 => self.client_closes(session),
            99 if self.dice.percent(5) => self.everybody_leaves(),
            _ => self.feed(Event::Tick),
        }
    }

    /// A session that is open, was open, or never existed.
    fn any_session(&mut self) -> SessionId {
        let open: Vec<_> = self.books.sessions.keys().copied().collect();
        if open.is_empty() || self.dice.percent(3) {
            SessionId(self.dice.below(self.ids + 2))
        } else {
            self.dice.pick(&open)
        }
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn client_opens(&mut self) {
        let session = SessionId(self.next_id());
        let account = self.dice.pick(&ACCOUNTS);
        let weight = account.0 as u32;
        let unit_costs = self.devices.iter().map(|_| self.dice.pick(&[32, 32, 112])).collect();
        let host_bytes = self.dice.between(10, 30);
        let parts = self.dice.pick(&[1, 1, 2, 4]);
        let mut device_bytes: Vec<Vec<u64>> =
            self.devices.iter().map(|_| (0..parts).map(|_| self.dice.between(20, 101)).collect()).collect();
        let tables = self.dice.percent(50).then(|| ParamsId(self.dice.below(3)));
        if let Some(ParamsId(params)) = tables {
            // the tables of a parameter set have the same size for all its sessions
            device_bytes.iter_mut().zip(0..).for_each(|(sizes, device)| sizes[0] = 20 + 10 * params + 7 * device);
        }
        let for_lists = tables.is_none() || self.dice.percent(80);
        let slot_kind = SlotKind { bytes: self.dice.pick(&[1, 3]), for_lists };
        let opened = ObservedSession {
            account,
            host_bytes,
            device_bytes: device_bytes.clone(),
            slot_kind,
            tables,
            closed: false,
            loads_failed: 0,
            patience: None,
            ahead: Ahead::default(),
            waits: None,
        };
        let event = Event::Opened { session, account, weight, unit_costs, tables, host_bytes, device_bytes, slot_kind };
        let commands = self.step(event);
        let refusal = refusal(&commands);
        match refusal {
            Some(Error::KeyTooLarge { .. }) => self.tally.see("key too large"),
            Some(Error::Device(_)) => self.tally.see("nobody serves"),
            _ => {}
        }
        self.books.opened(session, opened, refusal);
        self.carry_out(commands);
    }

    fn client_submits(&mut self, session: SessionId) {
        let operation = OperationId(self.next_id());
        let for_lists = self.books.sessions.get(&session).is_none_or(|session| session.slot_kind.for_lists);
        let is_circuit = !for_lists || self.dice.percent(25);
        let work = if is_circuit { self.any_circuit(session) } else { self.any_list(session) };
        let lives = self.dice.pick(&[0, 1, 100, 100, 10_000]);
        let deadline = self.dice.percent(30).then(|| self.now + Duration::from_millis(lives));
        let commands = self.step(Event::Submitted { session, operation, work: work.clone(), deadline });
        let refusal = refusal(&commands);
        match (refusal, &work.form) {
            (Some(Error::Busy { .. }), Form::List { .. }) => self.tally.see("busy"),
            (Some(Error::Busy { .. }), Form::Circuit(_)) => self.tally.see("busy circuit"),
            (Some(Error::KeyTooLarge { .. }), _) => self.tally.see("set too large"),
            (Some(Error::CircuitTooLarge { .. }), _) => self.tally.see("circuit too large"),
            (Some(Error::Device(_)), _) => self.tally.see("nobody serves"),
            _ => {}
        }
        self.books.submitted(self.now, session, operation, work, deadline, refusal);
        self.carry_out(commands);
    }

    fn any_list(&mut self, session: SessionId) -> Work {
        let rows = match self.dice.below(10) {
            0..6 => 1,
            6..9 => self.dice.between(2, 40),
            _ if self.has_narrow_batches() => self.dice.between(1, 64), // else the run would take too long
            _ => self.dice.between(1, OPERATION_ROWS_MAX as u64),
        };
        let units: Vec<u32> = (0..rows).map(|_| self.dice.pick(&[0, 1, 1, 1, 2])).collect();
        let slots = units.iter().map(|units| units + 2).collect();
        Work { units, key: self.any_set(session), form: Form::List { slots } }
    }

    fn any_circuit(&mut self, session: SessionId) -> Work {
        let width = if self.has_narrow_batches() { 8 } else { self.dice.pick(&[3, 40]) };
        let mut ends = Vec::new();
        let mut rows = 0;
        for _ in 0..self.dice.pick(&[0, 1, 2, 5, 10]) {
            rows += self.dice.between(1, width) as usize;
            ends.push(rows);
        }
        let units = (0..rows).map(|_| self.dice.pick(&[0, 1, 1, 1])).collect();
        let slots = self.dice.between(2, 3 * width) as usize;
        let (inputs, results) = self.any_names(session, slots);
        let levels = Levels { ends, slots, host_bytes: self.dice.between(1, 60), inputs, results };
        Work { units, key: self.any_set(session), form: Form::Circuit(levels) }
    }

    /// Some inputs and results with names, for a circuit of so many slots. An input may be a result of an earlier
    /// circuit, and may come twice.
    fn any_names(&mut self, session: SessionId, slots: usize) -> (Vec<NamedInput>, Vec<NamedSlots>) {
        // the size of a value follows from its name
        let rows_of = |value: ValueId| 1 + (value.0 % 3) as u32;
        let mut free = 0..slots as u32;
        let mut place = |value: ValueId| {
            let rows = rows_of(value);
            let is_room = free.len() as u32 > rows;
            is_room.then(|| NamedSlots { value, slots: free.by_ref().take(rows as usize).collect() })
        };
        let mut inputs = Vec::new();
        for input in 0..self.dice.pick(&[0, 1, 2, 3]) {
            let known = self.values.entry(session).or_insert_with(|| (0..3).map(ValueId).collect());
            let latest = known.len().saturating_sub(3);
            let value = self.dice.pick(&known[latest..]);
            inputs.extend(place(value).map(|named| NamedInput { input, named }));
        }
        let result = ValueId(u128::from(self.next_id()) + 3);
        let results: Vec<_> = place(result).into_iter().collect();
        if !results.is_empty() {
            self.values.entry(session).or_default().push(result);
        }
        (inputs, results)
    }

    /// Some parts of the session's key, at least one.
    fn any_set(&mut self, session: SessionId) -> Vec<PartId> {
        let parts = self.books.sessions.get(&session).map_or(1, |session| session.device_bytes[0].len() as u64);
        let first = self.dice.below(parts);
        (first..self.dice.between(first + 1, parts)).map(|part| PartId(part as u32)).collect()
    }

    fn has_narrow_batches(&self) -> bool {
        self.books.limits.devices.iter().any(|device| device.batch_units_max < 8)
    }

    fn client_cancels(&mut self) {
        let running: Vec<_> = self.books.operations.keys().copied().collect();
        let operation = if running.is_empty() || self.dice.percent(10) {
            OperationId(self.dice.below(self.ids + 2))
        } else {
            self.dice.pick(&running)
        };
        let must_end = self.books.cancelled(operation);
        self.feed(Event::Cancelled(operation));
        assert!(!must_end || self.books.ended.contains(&operation));
    }

    fn client_closes(&mut self, session: SessionId) {
        if let Some(books) = self.books.sessions.get_mut(&session)
            && !books.closed
        {
            books.closed = true;
            // The erasure waits for the loads and calls that the device has now, and for those that start before the
            // eviction is ordered: at most `batches_in_flight_max - 1` calls, and one load. Evictions are quick and do
            // not count.
            let limits = self.books.limits.devices.iter();
            let patience = self.devices.iter().zip(limits).map(|(device, limits)| match device.works() {
                0 => 0,
                works => works + limits.batches_in_flight_max,
            });
            books.patience = Some(patience.collect());
            for device in &self.devices {
                match device.orders.front() {
                    Some(Order::Run(batches)) if batches.iter().any(|batch| batch.session == session) => {
                        self.tally.see("closed while running");
                    }
                    _ => {}
                }
                if device.loads() == Some(session) {
                    self.tally.see("closed while loading");
                }
            }
        }
        self.feed(Event::Closed(session));
    }

    fn everybody_leaves(&mut self) {
        self.books.draining = true;
        self.books.abandoned |= self.dice.percent(50);
        let event = if self.books.abandoned { Event::Abandon } else { Event::Drain };
        self.feed(event);
    }
}
