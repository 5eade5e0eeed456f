//! Shares of the device when every session always has more work than it gets. Keys of different sizes evict each other
//! from devices with one or two batches in flight.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use engine::batch::{Batch, DeviceId};
use engine::scheduler::{
    Cause, Command, DeviceLimits, Event, Failure, Form, Scheduler, SchedulerLimits, SlotKind, Work,
};
use engine::{AccountId, OperationId, PartId, SessionId};

use crate::dice::{Dice, for_each_seed};

/// The largest cost of a unit of work.
const UNIT_COST_MAX: u32 = 112;

/// A session that always has work.
struct Miller {
    account: AccountId,
    weight: u32,
    unit_cost: u32,
    /// Size of each part of the session's key. An operation needs some of the parts.
    key_bytes: Vec<u64>,
    waiting_rows: usize,
    /// The cost of the session's batches.
    served: u64,
    /// The cost of the session's batches that ran beside a load for another account. That account could not use this
    /// time.
    beside_loads: u64,
    /// The part of `beside_loads` from before the measurement. The session is ahead by this cost at the start.
    ahead: u64,
    /// The cost of all other sessions' batches since the last batch of this session.
    waits: u64,
}

/// Sessions that submit more work whenever they run low, and devices that carry out one order after another.
struct Mill {
    scheduler: Scheduler,
    dice: Dice,
    batch_units_max: usize,
    sessions: BTreeMap<SessionId, Miller>,
    orders: Vec<VecDeque<Command>>,
    operations: u64,
    /// Percentage of orders that fail.
    failing: u64,
}

impl Mill {
    fn new(dice: Dice, devices: Vec<DeviceLimits>, sessions: Vec<Miller>, failing: u64) -> Self {
        let batch_units_max = devices[0].batch_units_max;
        let orders = devices.iter().map(|_| VecDeque::new()).collect();
        let limits = SchedulerLimits {
            queue_rows_max: 1_000_000,
            session_rows_max: 10_000,
            wait: Duration::from_micros(200),
            window: Duration::from_millis(2),
            arena_idle: Duration::from_secs(5),
            key_bytes_max: 10_000,
            circuit_rows_max: 1,
            circuit_bytes_max: 1,
            session_circuit_rows_max: 1,
            session_circuit_bytes_max: 1,
            silence_max: Duration::from_secs(60),
            devices,
        };
        let sessions = (1..).map(SessionId).zip(sessions).collect();
        let scheduler = Scheduler::new(limits);
        let mut mill = Self { scheduler, dice, batch_units_max, sessions, orders, operations: 0, failing };
        mill.open();
        mill
    }

    /// Opens all sessions and gives each of them work.
    fn open(&mut self) {
        for (&session, miller) in &self.sessions {
            let Miller { account, weight, unit_cost, .. } = *miller;
            let device_bytes = vec![miller.key_bytes.clone(); self.orders.len()];
            let (unit_costs, tables) = (vec![unit_cost; self.orders.len()], None);
            let (host_bytes, slot_kind) = (1, SlotKind { bytes: 1, for_lists: true });
            let event =
                Event::Opened { session, account, weight, unit_costs, tables, host_bytes, device_bytes, slot_kind };
            assert_eq!(self.scheduler.step(Duration::ZERO, event), []);
        }
        self.top_up();
    }

    fn top_up(&mut self) {
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            while self.sessions[&session].waiting_rows < 4 * self.batch_units_max {
                self.operations += 1;
                let rows = self.dice.between(1, 150) as usize;
                let units: Vec<u32> = (0..rows).map(|_| self.dice.pick(&[0, 1, 1, 1, 1, 2])).collect();
                let slots = units.iter().map(|units| units + 2).collect();
                let parts = self.sessions[&session].key_bytes.len() as u64;
                let first = self.dice.below(parts);
                let key = (first..self.dice.between(first + 1, parts)).map(|part| PartId(part as u32)).collect();
                let work = Work { units, key, form: Form::List { slots } };
                let operation = OperationId(self.operations);
                self.sessions.get_mut(&session).expect("the session is open").waiting_rows += rows;
                self.feed(Event::Submitted { session, operation, work, deadline: None });
            }
        }
    }

    fn feed(&mut self, event: Event) {
        for command in self.scheduler.step(Duration::ZERO, event) {
            let device = match &command {
                Command::Load { device, .. } | Command::Evict { device, .. } => *device,
                Command::Run { device, batches } => {
                    let loads = self.orders[device.0].iter().any(|order| matches!(order, Command::Load { .. }));
                    batches.iter().for_each(|batch| self.serve(batch, loads));
                    *device
                }
                Command::Finish { .. } | Command::FreeArena { .. } => continue,
                other => panic!("{other:?}"),
            };
            self.orders[device.0].push_back(command);
        }
    }

    fn serve(&mut self, batch: &Batch, beside_load: bool) {
        if !beside_load {
            self.sessions.values_mut().for_each(|miller| miller.waits += batch.cost);
        }
        let miller = self.sessions.get_mut(&batch.session).expect("the session is open");
        (miller.served, miller.waits) = (miller.served + batch.cost, 0);
        miller.beside_loads += if beside_load { batch.cost } else { 0 };
        miller.waiting_rows -= batch.rows();
    }

    /// A device reports the end of its first order.
    fn report(&mut self, device: DeviceId) {
        let events = match self.orders[device.0].pop_front() {
            None => return,
            Some(Command::Load { device, session, .. }) => vec![Event::Loaded { device, session }],
            Some(Command::Evict { device, part }) => vec![Event::Evicted { device, part }],
            Some(Command::Run { batches, .. }) => batches.iter().map(|batch| self.end_of(batch)).collect(),
            Some(other) => panic!("{other:?}"),
        };
        events.into_iter().for_each(|event| self.feed(event));
        self.top_up();
    }

    fn end_of(&mut self, batch: &Batch) -> Event {
        let retried = batch.parts.iter().any(|part| part.retried);
        if !retried && self.dice.percent(self.failing) {
            self.sessions.get_mut(&batch.session).expect("the session is open").waiting_rows += batch.rows();
            let failure = Failure { cause: Cause::Device, reason: "smoke".into() };
            return Event::BatchFailed { batch: batch.id, failure };
        }
        Event::BatchDone(batch.id)
    }

    /// Starts the measurement: resets the served costs.
    fn begin(&mut self) {
        for miller in self.sessions.values_mut() {
            miller.ahead = miller.beside_loads;
            (miller.served, miller.beside_loads, miller.waits) = (0, 0, 0);
        }
    }

    /// The cost of a full batch, or of the one row that may exceed the limit.
    fn cost_max(&self) -> f64 {
        (self.batch_units_max.max(2) as u64 * u64::from(UNIT_COST_MAX)) as f64
    }

    /// Checks the shares of accounts, and of the sessions of one account. Between two of them, the served cost per
    /// weight differs by at most the cost per weight of a full batch of each, plus the cost of batches beside loads.
    fn check_shares(&self) {
        // the cost served to the session, the part of that cost served beside loads, and the cost by which the session
        // was ahead when the measurement began
        let figures = |miller: &Miller| [miller.served, miller.beside_loads, miller.ahead].map(|cost| cost as f64);
        let mut accounts: BTreeMap<AccountId, (f64, [f64; 3])> = BTreeMap::new();
        for miller in self.sessions.values() {
            let (_, sums) = accounts.entry(miller.account).or_insert((f64::from(miller.weight), [0.0; 3]));
            sums.iter_mut().zip(figures(miller)).for_each(|(sum, figure)| *sum += figure);
        }
        let near = |flows: Vec<(f64, [f64; 3])>, what: &dyn std::fmt::Debug| {
            for &(weight_a, [a, beside, _]) in &flows {
                for &(weight_b, [b, _, ahead]) in &flows {
                    let bound =
                        self.cost_max() * (1.0 / weight_a + 1.0 / weight_b) + beside / weight_a + ahead / weight_b;
                    // Tags are whole numbers, so the cost of a batch is rounded, by up to 1/4096 of the unit of cost.
                    let ahead = a / weight_a - b / weight_b;
                    assert!(ahead <= bound + 0.1, "{what:?}: {a} is ahead of {b} by more than {bound}");
                }
            }
        };
        near(accounts.values().copied().collect(), &accounts);
        for account in accounts.keys() {
            let sessions = self.sessions.values().filter(|miller| miller.account == *account);
            near(sessions.map(|miller| (1.0, figures(miller))).collect(), account);
        }
    }

    /// Checks that no session waits for ever: between two batches of a session, the cost served to other sessions is
    /// bounded in proportion to the weights.
    fn check_waits(&self) {
        let weights: BTreeMap<_, _> = self.sessions.values().map(|miller| (miller.account, miller.weight)).collect();
        let weights: u32 = weights.values().sum();
        for (id, miller) in &self.sessions {
            let mates = self.sessions.values().filter(|other| other.account == miller.account).count() as f64;
            // Before a turn of the session, each other session of its account may take a turn; during each turn of the
            // account, all accounts get their shares. Besides, a device may drain and load for the session at the head
            // of the queue and then not run it after all. While the device drains and loads, the other device runs a
            // few batches of the sessions behind that session.
            let bound = 8.0 * mates * f64::from(weights) / f64::from(miller.weight) * self.cost_max();
            assert!(miller.waits as f64 <= bound, "{id:?} waits while {} is served, more than {bound}", miller.waits);
        }
    }
}

/// Sessions of accounts, each with its weight, cost and key.
fn millers(dice: &mut Dice, weights: &[u32]) -> Vec<Miller> {
    let accounts = dice.between(2, 5);
    let weights: Vec<u32> = (0..accounts).map(|_| dice.pick(weights)).collect();
    let sessions = accounts + dice.below(4);
    let miller = |at| {
        let account = if at < accounts { at } else { dice.below(accounts) };
        Miller {
            account: AccountId(u128::from(account)),
            weight: weights[account as usize],
            unit_cost: dice.pick(&[32, 32, UNIT_COST_MAX]),
            key_bytes: dice.pick(&[&[10][..], &[10], &[30], &[60], &[10, 20, 30], &[30, 30]]).to_vec(),
            waiting_rows: 0,
            served: 0,
            beside_loads: 0,
            ahead: 0,
            waits: 0,
        }
    };
    (0..sessions).map(miller).collect()
}

fn device(batch_units_max: usize, batches_in_flight_max: usize, resident_bytes_max: u64) -> DeviceLimits {
    let (keys_together_max, arena_bytes_max, stand_in) = (4, 1, false);
    DeviceLimits {
        batch_units_max,
        batches_in_flight_max,
        keys_together_max,
        resident_bytes_max,
        arena_bytes_max,
        stand_in,
    }
}

#[test]
fn served_cost_per_weight_never_differs_by_more_than_a_batch_of_each() {
    for_each_seed(100, |seed| {
        let mut dice = Dice::new(seed);
        let sessions = millers(&mut dice, &[1, 2, 4, 8, 63, 64]);
        // the device barely holds the largest key alone, or has room for others beside it
        let device = device(dice.pick(&[1, 8, 64]), dice.pick(&[1, 2, 2]), dice.between(60, 150));
        let failing = dice.pick(&[0, 0, 10]);
        let mut mill = Mill::new(dice, vec![device], sessions, failing);
        // the measurement begins later, because the first batches ran before all sessions had work
        (0..4).for_each(|_| mill.report(DeviceId(0)));
        mill.begin();
        for _ in 0..600 {
            mill.report(DeviceId(0));
            mill.check_shares();
        }
    });
}

#[test]
fn nobody_starves_where_keys_push_each_other_out_of_several_devices() {
    for_each_seed(20, |seed| {
        let mut dice = Dice::new(seed);
        let sessions = millers(&mut dice, &[1, 2]);
        let rows = dice.pick(&[1, 8]);
        let devices = [(); 2].map(|()| device(rows, 2, dice.between(60, 100)));
        let mut mill = Mill::new(dice, devices.to_vec(), sessions, 0);
        (0..4).for_each(|at| mill.report(DeviceId(at % 2)));
        mill.begin();
        for round in 0..3000 {
            mill.report(DeviceId(round % 2));
            mill.check_waits();
        }
    });
}

#[test]
fn four_times_the_weight_gets_four_times_the_work() {
    let miller = |weight| Miller {
        account: AccountId(u128::from(weight)),
        weight,
        unit_cost: 32,
        key_bytes: vec![10],
        waiting_rows: 0,
        served: 0,
        beside_loads: 0,
        ahead: 0,
        waits: 0,
    };
    let mut mill = Mill::new(Dice::new(1), vec![device(8, 1, 10)], vec![miller(1), miller(4)], 0);
    (0..20_000).for_each(|_| mill.report(DeviceId(0)));
    let served: Vec<_> = mill.sessions.values().map(|miller| miller.served as f64).collect();
    let ratio = served[1] / served[0];
    assert!((3.95..4.05).contains(&ratio), "{ratio}");
}
