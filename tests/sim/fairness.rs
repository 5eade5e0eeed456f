//! Shares under saturation: every session always has more work than it gets.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::batch::Batch;
use engine::fair::COST_OF_BOOTSTRAP;
use engine::scheduler::{Cause, Command, DeviceLimits, Event, Failure, Limits, Scheduler, Work};
use engine::{OperationId, SessionId};

use crate::dice::{Dice, for_each_seed};

const KEY_BYTES: u64 = 10;

/// Sessions that submit more whenever they run low.
struct Mill {
    scheduler: Scheduler,
    dice: Dice,
    batch_rows_max: usize,
    weights: BTreeMap<SessionId, u32>,
    waiting_rows: BTreeMap<SessionId, usize>,
    operations: u64,
    /// Failures in a hundred.
    failing: u64,
}

impl Mill {
    fn new(mut dice: Dice, weights: BTreeMap<SessionId, u32>, failing: u64) -> Self {
        let batch_rows_max = dice.pick(&[1, 8, 64]);
        let limits = Limits {
            queue_rows_max: 1_000_000,
            session_rows_max: 10_000,
            wait: Duration::from_micros(200),
            arena_idle: Duration::from_secs(5),
            key_bytes_max: 1000,
            circuit_gates_max: 1,
            circuit_bytes_max: 1,
            devices: vec![DeviceLimits {
                batch_rows_max,
                batches_in_flight_max: 1,
                resident_bytes_max: KEY_BYTES * dice.between(1, 10), // with fewer than sessions, batches may need loads
                arena_bytes_max: 1,
                stand_in: false,
            }],
        };
        let mut scheduler = Scheduler::new(limits);
        for (&session, &weight) in &weights {
            let (host_bytes, device_bytes) = (KEY_BYTES, vec![KEY_BYTES]);
            let event = Event::Opened { session, weight, host_bytes, device_bytes, slot_bytes: 1 };
            assert_eq!(scheduler.step(Duration::ZERO, event), []);
        }
        let waiting_rows = weights.keys().map(|&session| (session, 0)).collect();
        Self { scheduler, dice, batch_rows_max, weights, waiting_rows, operations: 0, failing }
    }

    /// Tops every session up; from the first submission the device may get an order.
    fn top_up(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        for session in self.weights.keys().copied().collect::<Vec<_>>() {
            while self.waiting_rows[&session] < 2 * self.batch_rows_max {
                self.operations += 1;
                let rows = self.dice.between(1, 150) as usize;
                let work = Work::Gates((0..rows).map(|_| self.dice.pick(&[0, 1, 1, 1, 1, 2])).collect());
                let operation = OperationId(self.operations);
                let event = Event::Submitted { session, operation, work, deadline: None };
                commands.extend(self.scheduler.step(Duration::ZERO, event));
                *self.waiting_rows.get_mut(&session).expect("it is open") += rows;
            }
        }
        commands
    }

    /// The next batch that runs, all device work in between done.
    fn next_batch(&mut self, mut commands: Vec<Command>) -> Batch {
        loop {
            let mut follow = Vec::new();
            for command in commands {
                match command {
                    Command::Run(batch) => {
                        *self.waiting_rows.get_mut(&batch.session).expect("it is open") -= batch.rows();
                        return batch;
                    }
                    Command::Load { device, session } => {
                        follow.extend(self.scheduler.step(Duration::ZERO, Event::Loaded { device, session }))
                    }
                    Command::Evict { device, session } => {
                        follow.extend(self.scheduler.step(Duration::ZERO, Event::Evicted { device, session }))
                    }
                    Command::Finish { .. } | Command::FreeArena { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(!follow.is_empty(), "saturated sessions keep the device busy");
            commands = follow;
        }
    }

    fn end_of(&mut self, batch: &Batch) -> Vec<Command> {
        let retried = batch.parts.iter().any(|part| part.retried);
        if !retried && self.dice.percent(self.failing) {
            *self.waiting_rows.get_mut(&batch.session).expect("it is open") += batch.rows();
            let failure = Failure { cause: Cause::Device, reason: "smoke".into() };
            return self.scheduler.step(Duration::ZERO, Event::BatchFailed { batch: batch.id, failure });
        }
        self.scheduler.step(Duration::ZERO, Event::BatchDone(batch.id))
    }
}

#[test]
fn served_cost_per_weight_never_differs_by_more_than_a_batch_of_each() {
    for_each_seed(60, |seed| {
        let mut dice = Dice::new(seed);
        let count = dice.between(2, 8);
        let weights = (1..=count).map(|id| (SessionId(id), dice.pick(&[1, 2, 4, 8, 63, 64]))).collect();
        let failing = dice.pick(&[0, 0, 10]);
        let mut mill = Mill::new(dice, weights, failing);

        // All sessions have work before the first batch that counts.
        let commands = mill.top_up();
        let mut batch = mill.next_batch(commands);
        let mut served: BTreeMap<SessionId, u64> = mill.weights.keys().map(|&session| (session, 0)).collect();
        // The limit of a batch, or the one row that may exceed it.
        let cost_max = (mill.batch_rows_max.max(2) as u64 * COST_OF_BOOTSTRAP) as f64;
        for _ in 0..400 {
            let mut commands = mill.end_of(&batch);
            commands.extend(mill.top_up());
            batch = mill.next_batch(commands);
            *served.get_mut(&batch.session).expect("it is open") += batch.cost;

            for (a, &weight_a) in &mill.weights {
                for (b, &weight_b) in &mill.weights {
                    let [a, b] =
                        [(a, weight_a), (b, weight_b)].map(|(id, weight)| served[id] as f64 / f64::from(weight));
                    let bound = cost_max / f64::from(weight_a) + cost_max / f64::from(weight_b);
                    // Tags are whole numbers: a batch may be off by a 4096th.
                    assert!((a - b).abs() <= bound + 0.1, "{a} and {b} differ by more than {bound}: {served:?}");
                }
            }
        }
    });
}

#[test]
fn four_times_the_weight_gets_four_times_the_work() {
    let [light, heavy] = [SessionId(1), SessionId(2)];
    let mut mill = Mill::new(Dice::new(1), BTreeMap::from([(light, 1), (heavy, 4)]), 0);
    let mut served = BTreeMap::from([(light, 0), (heavy, 0)]);
    let mut commands = mill.top_up();
    for _ in 0..5000 {
        let batch = mill.next_batch(commands);
        *served.get_mut(&batch.session).expect("it is open") += batch.cost;
        commands = mill.end_of(&batch);
        commands.extend(mill.top_up());
    }
    let ratio = served[&heavy] as f64 / served[&light] as f64;
    assert!((3.95..4.05).contains(&ratio), "{ratio}");
}
