//! Simulated devices. Each carries out its orders one after another; some are slow, fail or die.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use engine::batch::{Batch, BatchPart, DeviceId};
use engine::scheduler::{Cause, Event, Failure};
use engine::{Prepared, SessionId, ValueId};

use super::operation::RowState;
use super::world::World;
use crate::dice::Dice;

pub enum Order {
    Load(SessionId, Vec<Prepared>),
    Evict(Prepared),
    /// The batches of one call.
    Run(Vec<Batch>),
    FreeArena(SessionId),
    Retire,
}

/// A load. Between any two other orders, the device carries out one piece of the load.
pub struct PartsLoad {
    session: SessionId,
    parts: Vec<Prepared>,
    pieces_left: u64,
}

pub struct SimulatedDevice {
    pub orders: VecDeque<Order>,
    pub load: Option<PartsLoad>,
    /// Whether the device is working on a piece of the load now; otherwise it works on its first order.
    at_piece: bool,
    /// The time at which the present work is done.
    pub busy_until: Duration,
    /// The loaded parts of keys and tables, with their sizes.
    pub keys: BTreeMap<Prepared, u64>,
    pub arenas: BTreeMap<SessionId, usize>,
    /// The value in each slot that has one.
    contents: BTreeMap<(SessionId, u32), ValueId>,
    /// Percentage of calls that fail.
    failing: u64,
    /// The device has no memory for any batch of every third session, those whose ids leave this remainder.
    no_memory_for: Option<u64>,
    /// Whether the device has no memory for the keys of these sessions either.
    no_memory_for_keys: bool,
    /// From this time on every call fails.
    dies_at: Duration,
    /// From this time on, the first failing call reports the device as lost.
    lost_at: Duration,
    /// From this time on the device reports nothing.
    hangs_at: Duration,
    /// Whether the scheduler has given the device up.
    pub given_up: bool,
    row_us: u64,
}

impl SimulatedDevice {
    pub fn new(dice: &mut Dice) -> SimulatedDevice {
        let mut some_day = |percent| match dice.percent(percent) {
            true => Duration::from_millis(dice.below(2000)),
            false => Duration::MAX,
        };
        let (dies_at, lost_at, hangs_at) = (some_day(10), some_day(20), some_day(10));
        SimulatedDevice {
            orders: VecDeque::new(),
            load: None,
            at_piece: false,
            busy_until: Duration::ZERO,
            keys: BTreeMap::new(),
            arenas: BTreeMap::new(),
            contents: BTreeMap::new(),
            failing: dice.pick(&[0, 0, 5, 30]),
            no_memory_for: dice.percent(60).then(|| dice.below(3)),
            no_memory_for_keys: dice.percent(30),
            dies_at,
            lost_at,
            hangs_at,
            given_up: false,
            row_us: dice.pick(&[1, 100, 2000]),
        }
    }

    /// Whether the device has work.
    pub fn is_busy(&self) -> bool {
        self.load.is_some() || !self.orders.is_empty()
    }

    /// The session whose key the device loads, or has the order to load.
    pub fn loads(&self) -> Option<SessionId> {
        let ordered = self.orders.iter().find_map(|order| match order {
            Order::Load(session, _) => Some(*session),
            _ => None,
        });
        self.load.as_ref().map(|load| load.session).or(ordered)
    }

    /// Number of calls that the device has.
    pub fn calls(&self) -> usize {
        self.orders.iter().filter(|order| matches!(order, Order::Run(_))).count()
    }

    /// Number of loads and calls that the device has.
    pub fn works(&self) -> usize {
        self.calls() + usize::from(self.loads().is_some())
    }
}

impl World {
    pub fn order(&mut self, id: DeviceId, order: Order) {
        let (device, limits) = (&mut self.devices[id.0], &self.books.limits.devices[id.0]);
        let loads = device.loads().is_some();
        let retires = device.orders.iter().any(|order| matches!(order, Order::Retire));
        assert!(!retires, "a device that retires gets no orders");
        if matches!(order, Order::Load(..) | Order::Run(_)) {
            assert!(device.calls() < limits.batches_in_flight_max, "the device has enough calls");
            assert!(!(loads && matches!(order, Order::Load(..))), "the device has a load already");
            if device.calls() > 0 {
                self.tally.see("two batches in flight");
            }
            if loads {
                self.tally.see("run beside a load");
            }
        }
        let idle = !device.is_busy();
        device.orders.push_back(order);
        if idle {
            self.start_order(id);
        }
    }

    fn start_order(&mut self, id: DeviceId) {
        let pieces_left = self.dice.pick(&[1, 1, 3, 10]);
        let device = &mut self.devices[id.0];
        if !device.given_up && matches!(device.orders.front(), Some(Order::Load(..))) {
            let Some(Order::Load(session, parts)) = device.orders.pop_front() else { unreachable!() };
            device.load = Some(PartsLoad { session, parts, pieces_left });
        }
        device.at_piece = device.load.is_some() && (device.orders.is_empty() || !device.at_piece);
        let us = match device.orders.front() {
            _ if device.at_piece => 500,
            None => return,
            Some(Order::Evict(..) | Order::FreeArena(_) | Order::Retire) => 10,
            Some(Order::Load(..)) => 1000,
            Some(Order::Run(batches)) => device.row_us * batches.iter().map(Batch::rows).sum::<usize>() as u64,
        };
        let mut duration = Duration::from_micros(self.dice.between(us / 2, us * 2));
        if self.dice.percent(1) {
            self.tally.see("hang");
            duration += Duration::from_secs(20);
        }
        let device = &mut self.devices[id.0];
        device.busy_until = self.now + duration;
        if self.now >= device.hangs_at {
            self.tally.see("never answers");
            device.busy_until = Duration::MAX;
        }
    }

    /// The scheduler gives a device up and waits for nothing from it any more. The device's work has failed, and its
    /// memory does not count. Some of these devices still report later.
    pub fn give_up(&mut self, id: DeviceId) {
        self.tally.see("given up");
        let device = &mut self.devices[id.0];
        assert!(!device.given_up, "a device is given up once");
        if let Some(PartsLoad { session, parts, .. }) = device.load.take() {
            device.orders.push_front(Order::Load(session, parts));
        }
        for order in &device.orders {
            self.books.failures += usize::from(matches!(order, Order::Load(..) | Order::Run(_)));
            if let Order::Run(batches) = order {
                batches.iter().for_each(|batch| self.books.ran(self.now, batch, Some(Cause::Lost)));
            }
        }
        (device.keys, device.arenas, device.given_up) = (BTreeMap::new(), BTreeMap::new(), true);
        self.books.arenas.retain(|&(of, _), _| of != id);
        if self.dice.percent(50) {
            device.hangs_at = Duration::MAX;
            device.busy_until = self.now + Duration::from_secs(self.dice.between(1, 10));
        }
    }

    fn report_late(&mut self, id: DeviceId) {
        let order = self.devices[id.0].orders.pop_front().expect("the device has an order");
        self.start_order(id);
        let (device, failure) = (id, Failure { cause: Cause::Lost, reason: "smoke".into() });
        let done = self.dice.percent(50);
        let event = match order {
            Order::FreeArena(_) => return,
            Order::Evict(part) => Event::Evicted { device, part },
            Order::Load(session, _) if done => Event::Loaded { device, session },
            Order::Load(session, _) => Event::LoadFailed { device, session, failure },
            Order::Run(batches) => {
                self.tally.see("late report");
                for Batch { id, .. } in batches {
                    let failure = failure.clone();
                    self.feed(if done { Event::BatchDone(id) } else { Event::BatchFailed { batch: id, failure } });
                }
                return;
            }
            Order::Retire => Event::Retired(device),
        };
        self.tally.see("late report");
        self.feed(event);
    }

    /// Frees memory. The driver may panic here.
    fn drop_may_fail(&mut self, id: DeviceId) {
        let device = &mut self.devices[id.0];
        if device.failing > 0 && self.dice.percent(1) {
            self.tally.see("failed drop");
            device.lost_at = self.now;
            self.books.failures += 1;
            self.feed(Event::Lost { device: id, reason: "smoke".into() });
        }
    }

    pub fn device_reports(&mut self, id: DeviceId) {
        if self.devices[id.0].given_up {
            return self.report_late(id);
        }
        if self.devices[id.0].failing > 0 && self.dice.below(500) == 0 {
            self.tally.see("dead thread");
            return self.feed(Event::Died { device: id, reason: "smoke".into() });
        }
        let device = &mut self.devices[id.0];
        let order = match &mut device.load {
            Some(load) if device.at_piece => {
                load.pieces_left -= 1;
                if load.pieces_left > 0 {
                    return self.start_order(id);
                }
                let PartsLoad { session, parts, .. } = device.load.take().expect("the device has a load");
                Order::Load(session, parts)
            }
            _ => device.orders.pop_front().expect("the device has an order"),
        };
        if matches!(order, Order::Retire)
            && let Some(PartsLoad { session, .. }) = self.devices[id.0].load.take()
        {
            let failure = Failure { cause: Cause::Device, reason: "smoke".into() };
            self.feed_report(id, Order::Load(session, Vec::new()), Some(failure));
        }
        let failure = match &order {
            Order::Load(session, _) if self.devices[id.0].no_memory_for_keys => self.lacks_memory(id, *session),
            _ => None,
        };
        let failure = failure.or_else(|| self.any_failure(id));
        self.start_order(id);
        if matches!(order, Order::Load(..) | Order::Run(_)) {
            self.books.count_down(id, &self.devices[id.0].keys);
        }
        if let Order::Load(session, _) = &order {
            // the eviction of a closed session's key is ordered when its load ends, so it waits only for the orders
            // that the device has at this moment
            let works = self.devices[id.0].works();
            self.books.load_ends(id, *session, works);
        }
        self.feed_report(id, order, failure);
    }

    fn any_failure(&mut self, id: DeviceId) -> Option<Failure> {
        let device = &self.devices[id.0];
        let lost = self.now >= device.lost_at;
        let dead = self.now >= device.dies_at;
        if dead {
            self.tally.see("dead device");
        }
        if !(lost || dead || self.dice.percent(device.failing)) {
            return None;
        }
        self.books.failures += 1;
        let cause = if lost {
            Cause::Lost
        } else if self.dice.percent(20) {
            self.tally.see("out of memory");
            Cause::OutOfMemory
        } else {
            Cause::Device
        };
        Some(Failure { cause, reason: "smoke".into() })
    }

    /// The failure of a call for this session, if the device has no memory for the session. A stand-in has.
    fn lacks_memory(&mut self, id: DeviceId, session: SessionId) -> Option<Failure> {
        let lacks = !self.books.limits.devices[id.0].stand_in
            && self.devices[id.0].no_memory_for.is_some_and(|remainder| session.0 % 3 == remainder);
        lacks.then(|| {
            self.tally.see("no memory for a session");
            self.books.failures += 1;
            Failure { cause: Cause::OutOfMemory, reason: "smoke".into() }
        })
    }

    fn feed_report(&mut self, id: DeviceId, order: Order, failure: Option<Failure>) {
        let device = &mut self.devices[id.0];
        match (order, failure) {
            (Order::Evict(part), _) => {
                device.keys.remove(&part).expect("an evicted part was loaded");
                self.drop_may_fail(id);
                self.feed(Event::Evicted { device: id, part });
            }
            (Order::FreeArena(session), _) => {
                device.arenas.remove(&session);
                device.contents.retain(|&(of, _), _| of != session);
                self.drop_may_fail(id);
            }
            (Order::Retire, _) => {
                (device.keys, device.arenas) = (BTreeMap::new(), BTreeMap::new());
                self.books.arenas.retain(|&(of, _), _| of != id);
                self.feed(Event::Retired(id));
            }
            (Order::Load(session, _), Some(failure)) => {
                self.tally.see("load failed");
                self.books.sessions.get_mut(&session).expect("the session was loading").waits = None;
                let cause = failure.cause;
                self.books.load_failed(id, session, cause);
                self.feed(Event::LoadFailed { device: id, session, failure });
                self.books.count_load(id, session, true);
            }
            (Order::Load(session, parts), None) => {
                if device.keys.keys().any(|part| matches!(part, Prepared::Part(of, _) if *of == session)) {
                    self.tally.see("loaded beside what was there");
                }
                let sizes = &self.books.sessions[&session].device_bytes[id.0];
                for part in parts {
                    assert!(device.keys.insert(part, sizes[part.index().0 as usize]).is_none());
                }
                assert!(device.keys.values().sum::<u64>() <= self.books.limits.devices[id.0].resident_bytes_max);
                self.feed(Event::Loaded { device: id, session });
                self.books.count_load(id, session, false);
            }
            (Order::Run(batches), failure) => {
                // sometimes only one batch of a call fails, as if there were no room for its operands
                let only = self.dice.percent(30).then(|| self.dice.below(batches.len() as u64) as usize);
                for (at, batch) in batches.into_iter().enumerate() {
                    let failure = failure.clone().filter(|_| only.is_none_or(|only| only == at));
                    let lacks_memory = || self.lacks_memory(id, batch.session);
                    let failure = failure.or_else(lacks_memory);
                    self.feed_batch_report(id, batch, failure);
                }
            }
        }
    }

    fn feed_batch_report(&mut self, id: DeviceId, batch: Batch, failure: Option<Failure>) {
        let device = &mut self.devices[id.0];
        let is_there = |part: &Prepared| device.keys.contains_key(part);
        assert!(batch.key.iter().all(is_there), "the parts that a batch needs are on its device");
        let shares = |part: &Prepared| match *part {
            Prepared::Part(session, _) => assert_eq!(session, batch.session, "a batch needs parts of its session"),
            Prepared::Tables(params) if self.books.sharing(params) > 1 => self.tally.see("tables shared"),
            Prepared::Tables(_) => {}
        };
        batch.key.iter().for_each(shares);
        let slots = device.arenas.entry(batch.session).or_default();
        *slots = (*slots).max(batch.arena_slots);
        assert_eq!(*slots, batch.arena_slots, "an arena never shrinks while its rows run");
        for part in &batch.parts {
            self.run_in_arena(id, batch.session, part, failure.is_none());
        }
        self.books.ran(self.now, &batch, failure.as_ref().map(|failure| failure.cause));
        match failure {
            Some(failure) => {
                self.tally.see("batch failed");
                self.feed(Event::BatchFailed { batch: batch.id, failure });
            }
            None => self.feed(Event::BatchDone(batch.id)),
        }
    }

    /// Notes what rows leave in the slots of their arena. The inputs of a circuit must be in their slots as long as its
    /// rows run, although other rows and circuits write to the same arena.
    fn run_in_arena(&mut self, id: DeviceId, session: SessionId, part: &BatchPart, succeeds: bool) {
        let operation = self.books.operation(part.operation);
        let contents = &mut self.devices[id.0].contents;
        let Some((levels, _)) = &operation.circuit else {
            contents.retain(|&(of, slot), _| of != session || !part.slots.contains(&slot));
            return;
        };
        let place_of = |at: &u32| (session, part.slots[*at as usize]);
        // the rows of a circuit that has failed compute with anything
        let has_failed = operation.rows.contains(&RowState::Failed);
        let written = operation.input_slots(part, false);
        let inputs: BTreeSet<u32> = operation.input_slots(part, true).union(&written).copied().collect();
        for (input, named) in levels.inputs.iter().map(|input| (input.input, &input.named)) {
            let is_there = part.there.contains(&input);
            self.tally.see(if is_there { "value was there" } else { "value written" });
            for place in named.slots.iter().map(place_of) {
                if part.rows.start == 0 && !is_there {
                    contents.insert(place, named.value);
                }
                let is_right = contents.get(&place) == Some(&named.value);
                assert!(is_right || (has_failed && !is_there), "{:?} is not in its slots", named.value);
            }
        }
        // a call that fails may leave anything but in the slots of values
        let changed =
            (0..part.slots.len() as u32).filter(|at| !inputs.contains(at) || (!succeeds && written.contains(at)));
        for at in changed {
            contents.remove(&place_of(&at));
        }
        if part.completes && succeeds {
            for named in &levels.results {
                contents.extend(named.slots.iter().map(|at| (place_of(at), named.value)));
            }
        }
    }
}
