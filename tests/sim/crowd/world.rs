//! Clients, the device and the clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use engine::batch::Batch;
use engine::scheduler::{Command, Event, Limits, Scheduler};
use engine::{Error, OPERATION_ROWS_MAX, OperationId, SessionId};

use super::books::Books;
use crate::dice::Dice;

/// What the clients do before somebody says it is enough.
const ACTIONS: usize = 400;

/// Steps after which a world that has not come to its end never will.
const STEPS_MAX: usize = 100_000;

/// How often things were seen, so that a quiet simulation cannot pass for a good one.
#[derive(Debug, Default)]
pub struct Tally {
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn see(&mut self, what: &'static str) {
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
            "key too large",
            "done after a failure",
            "batch failed",
            "load failed",
            "evicted for another",
            "shared batch",
            "slice",
            "closed while running",
            "closed while loading",
            "dead device",
            "hang",
        ] {
            assert!(self.counts.get(what).is_some_and(|&count| count >= 10), "{what} was hardly seen: {self:?}");
        }
    }
}

enum Order {
    Load(SessionId),
    Evict(SessionId),
    Run(Batch),
}

/// A device that does one thing at a time, in order.
struct Device {
    orders: VecDeque<Order>,
    /// When the first order is carried out.
    busy_until: Duration,
    keys: BTreeMap<SessionId, u64>,
    /// Failures in a hundred.
    failing: u64,
    /// From here on everything fails.
    dies_at: Duration,
    row_us: u64,
}

pub struct World {
    dice: Dice,
    now: Duration,
    scheduler: Scheduler,
    books: Books,
    device: Device,
    /// When a client does something next.
    next_action: Duration,
    actions_left: usize,
    ids: u64,
    tally: Tally,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let session_rows_max = dice.pick(&[OPERATION_ROWS_MAX, 1500, 4096]);
        let limits = Limits {
            queue_rows_max: session_rows_max + dice.pick(&[0, 500, 4096]),
            session_rows_max,
            batch_rows_max: dice.pick(&[1, 2, 8, 64, 300]),
            wait: Duration::from_micros(dice.pick(&[0, 200, 5000])),
            key_bytes_max: dice.pick(&[300, 1000]),
            resident_bytes_max: dice.pick(&[100, 250, 2000]),
        };
        let device = Device {
            orders: VecDeque::new(),
            busy_until: Duration::ZERO,
            keys: BTreeMap::new(),
            failing: dice.pick(&[0, 0, 5, 30]),
            dies_at: if dice.percent(10) { Duration::from_millis(dice.below(2000)) } else { Duration::MAX },
            row_us: dice.pick(&[1, 100, 2000]),
        };
        Self {
            now: Duration::ZERO,
            scheduler: Scheduler::new(limits.clone()),
            books: Books::new(limits),
            device,
            next_action: Duration::ZERO,
            actions_left: ACTIONS,
            ids: 0,
            tally: Tally::default(),
            dice,
        }
    }

    /// Lets everything happen until the scheduler has stopped.
    pub fn run(mut self) -> Tally {
        for _ in 0..STEPS_MAX {
            if self.books.stopped {
                self.nothing_follows();
                return self.tally;
            }
            self.live();
            self.books.check(self.now, &self.scheduler.usage(), !self.device.works());
        }
        panic!("the engine never stops");
    }

    /// The next thing in time: the device, a client, or nothing but time.
    fn live(&mut self) {
        let device = (!self.device.orders.is_empty()).then_some(self.device.busy_until);
        let client = (self.actions_left > 0).then_some(self.next_action);
        let wake = self.scheduler.next_wake();
        let next = [device, client, wake].into_iter().flatten().min().expect("something is always to come");
        self.now = self.now.max(next);
        if device == Some(next) {
            self.device_reports();
        } else if client == Some(next) {
            self.client_acts();
            self.actions_left -= 1;
            self.next_action = self.now + Duration::from_micros(self.dice.pick(&[0, 0, 0, 20, 1000, 50_000]));
        } else {
            let due = self.scheduler.next_wake();
            self.feed(Event::Tick);
            assert_ne!(self.scheduler.next_wake(), due, "a tick takes its reason away");
        }
    }

    fn feed(&mut self, event: Event) {
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
                Command::RefuseSession { .. } | Command::Refuse { .. } => {} // the client has read it
                Command::Load(session) => self.order(Order::Load(session)),
                Command::Evict(session) => {
                    if self.books.sessions[&session].patience.is_none() && !self.books.draining {
                        self.tally.see("evicted for another");
                    }
                    self.order(Order::Evict(session));
                }
                Command::Run(batch) => {
                    self.books.started(&batch);
                    self.tally.see(if batch.parts.len() > 1 { "shared batch" } else { "slice" });
                    self.order(Order::Run(batch));
                }
                Command::Finish { operation, outcome } => {
                    self.books.finished(self.now, operation, &outcome);
                    self.tally.see(match outcome {
                        Ok(_) if self.books.failures > 0 => "done after a failure",
                        Ok(_) => "done",
                        Err(Error::Cancelled) => "cancelled",
                        Err(Error::DeadlinePassed) => "deadline",
                        Err(Error::Gone) => "gone",
                        Err(Error::Device(_)) => "device error",
                        Err(_) => "abandoned",
                    });
                }
                Command::Erase(session) => {
                    assert!(!self.device.keys.contains_key(&session), "{session:?} is still on the device");
                    self.books.erased(session);
                }
                Command::Stop => self.books.stopped = true,
            }
        }
    }

    /// After the end: whatever is said, nothing is ordered.
    fn nothing_follows(&mut self) {
        assert!(self.books.operations.is_empty() && self.books.sessions.is_empty());
        assert!(self.device.orders.is_empty() && self.device.keys.is_empty());
        assert_eq!(self.scheduler.next_wake(), None);
        self.client_submits(SessionId(1));
        self.client_opens();
        for event in [Event::Tick, Event::Drain, Event::Abandon, Event::Closed(SessionId(1))] {
            self.feed(event);
        }
    }
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

/// Clients.
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

    /// One that is open, or was, or never will be.
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
        let weight = self.dice.pick(&[1, 2, 4, 8, 64]);
        let (host_bytes, device_bytes) = (self.dice.between(10, 30), self.dice.between(20, 101));
        let commands = self.step(Event::Opened { session, weight, host_bytes, device_bytes });
        let refusal = refusal(&commands);
        if matches!(refusal, Some(Error::KeyTooLarge { .. })) {
            self.tally.see("key too large");
        }
        self.books.opened(session, host_bytes, device_bytes, refusal);
        self.carry_out(commands);
    }

    fn client_submits(&mut self, session: SessionId) {
        let operation = OperationId(self.next_id());
        let rows = match self.dice.below(10) {
            0..6 => 1,
            6..9 => self.dice.between(2, 40),
            _ if self.books.limits.batch_rows_max < 8 => self.dice.between(1, 64), // or it takes for ever
            _ => self.dice.between(1, OPERATION_ROWS_MAX as u64),
        };
        let bootstraps: Vec<u8> = (0..rows).map(|_| self.dice.pick(&[0, 1, 1, 1, 2])).collect();
        let lives = self.dice.pick(&[0, 1, 100, 100, 10_000]);
        let deadline = self.dice.percent(30).then(|| self.now + Duration::from_millis(lives));
        let event = Event::Submitted { session, operation, bootstraps: bootstraps.clone(), deadline };
        let commands = self.step(event);
        let refusal = refusal(&commands);
        if matches!(refusal, Some(Error::Busy { .. })) {
            self.tally.see("busy");
        }
        self.books.submitted(self.now, session, operation, bootstraps, deadline, refusal);
        self.carry_out(commands);
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
            // What the device works on. Evictions, its own and those of others, are quick and do not count.
            books.patience = Some(usize::from(self.device.works()));
            match self.device.orders.front() {
                Some(Order::Run(batch)) if batch.session == session => self.tally.see("closed while running"),
                Some(Order::Load(loading)) if *loading == session => self.tally.see("closed while loading"),
                _ => {}
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

/// The device.
impl World {
    fn order(&mut self, order: Order) {
        assert!(matches!(order, Order::Evict(_)) || !self.device.works(), "one thing at a time");
        self.device.orders.push_back(order);
        if self.device.orders.len() == 1 {
            self.start_order();
        }
    }

    fn start_order(&mut self) {
        let Some(order) = self.device.orders.front() else { return };
        let us = match order {
            Order::Evict(_) => 10,
            Order::Load(_) => 1000,
            Order::Run(batch) => self.device.row_us * batch.rows() as u64,
        };
        let mut duration = Duration::from_micros(self.dice.between(us / 2, us * 2));
        if self.dice.percent(1) {
            self.tally.see("hang");
            duration += Duration::from_secs(20);
        }
        self.device.busy_until = self.now + duration;
    }

    fn device_reports(&mut self) {
        let order = self.device.orders.pop_front().expect("something was ordered");
        let dead = self.now >= self.device.dies_at;
        if dead {
            self.tally.see("dead device");
        }
        let failed = dead || self.dice.percent(self.device.failing);
        let reason = String::from("smoke");
        self.start_order();
        if !matches!(order, Order::Evict(_)) {
            self.books.count_down();
        }
        self.feed_report(order, failed, reason);
    }

    fn feed_report(&mut self, order: Order, failed: bool, reason: String) {
        let keys = &mut self.device.keys;
        match order {
            Order::Evict(session) => {
                keys.remove(&session).expect("what is evicted was there");
                self.feed(Event::Evicted(session));
            }
            Order::Load(session) => {
                let bytes = self.books.sessions[&session].device_bytes;
                assert!(keys.values().sum::<u64>() + bytes <= self.books.limits.resident_bytes_max);
                if failed {
                    self.tally.see("load failed");
                    self.books.failures += 1;
                    let out_of_memory = self.dice.percent(30);
                    self.feed(Event::LoadFailed { session, out_of_memory, reason });
                } else {
                    assert!(keys.insert(session, bytes).is_none());
                    self.feed(Event::Loaded(session));
                }
            }
            Order::Run(batch) => {
                assert!(keys.contains_key(&batch.session), "the key of a batch is on the device");
                self.books.ran(&batch, !failed);
                if failed {
                    self.tally.see("batch failed");
                    self.books.failures += 1;
                    self.feed(Event::BatchFailed { batch: batch.id, reason });
                } else {
                    self.feed(Event::BatchDone(batch.id));
                }
            }
        }
    }
}

impl Device {
    /// Loads or runs something, or is about to.
    fn works(&self) -> bool {
        self.orders.iter().any(|order| !matches!(order, Order::Evict(_)))
    }
}
