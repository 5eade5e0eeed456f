//! Windows of levels: a scheduler in front of a simulated card that needs time for each call, and a host that needs time
//! for each report.

use std::collections::VecDeque;
use std::time::Duration;

use engine::batch::Batch;
use engine::scheduler::{
    Command, DeviceLimits, Event, Finished, Form, Levels, Scheduler, SchedulerLimits, SlotKind, Work,
};
use engine::{AccountId, Error, OperationId, PartId, SessionId};

use crate::dice::{Dice, for_each_seed};

const WINDOW: Duration = Duration::from_millis(2);
/// Largest size of a batch, as of a card that is an H200.
const BATCH_UNITS_MAX: usize = 1056;

/// The time that the card needs for a level.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The time of a level of any size.
    level: Duration,
    /// The time of a unit, beside `level`.
    unit: Duration,
}

/// A lone gate takes 1.1 ms, and the card computes 100,000 gates a second.
const GATES: Pace = Pace { level: Duration::from_micros(1100), unit: Duration::from_micros(10) };
/// A bootstrap of numbers: levels of 5 to 30 us.
const NUMBERS: Pace = Pace { level: Duration::from_micros(5), unit: Duration::from_nanos(600) };

/// A call on the card.
struct Call {
    batches: Vec<Batch>,
    took: Duration,
}

/// The figures of a call.
#[derive(Debug)]
struct Done {
    took: Duration,
    /// The time of the first level. A call has at least one level, so this time cannot be shorter.
    first: Duration,
    levels: usize,
}

struct Bench {
    scheduler: Scheduler,
    dice: Dice,
    now: Duration,
    pace: Pace,
    /// The time between the end of a call and the scheduler's answer to it.
    host: Duration,
    works: Vec<(OperationId, Vec<usize>)>,
    /// Calls that the card has, oldest first, and the time at which the oldest ends.
    calls: VecDeque<Call>,
    ends: Duration,
    /// The calls that were started.
    done: Vec<Done>,
    outcomes: Vec<(OperationId, Result<Finished, Error>)>,
    operations: u64,
}

impl Bench {
    /// A card with the keys of `sessions` sessions.
    fn new(seed: u64, pace: Pace, host: Duration, sessions: u64) -> Bench {
        let card = DeviceLimits {
            batch_units_max: BATCH_UNITS_MAX,
            batches_in_flight_max: 2,
            keys_together_max: 16,
            resident_bytes_max: 1000,
            arena_bytes_max: 1 << 40,
            stand_in: false,
        };
        let limits = SchedulerLimits {
            queue_rows_max: 100_000,
            session_rows_max: 10_000,
            wait: Duration::ZERO,
            window: WINDOW,
            arena_idle: Duration::ZERO,
            key_bytes_max: 1000,
            circuit_rows_max: 1 << 24,
            circuit_bytes_max: 1 << 24,
            session_circuit_rows_max: 1 << 24,
            session_circuit_bytes_max: 1 << 24,
            silence_max: Duration::from_secs(60),
            devices: vec![card],
        };
        let (scheduler, dice) = (Scheduler::new(limits), Dice::new(seed));
        let mut bench = Bench {
            scheduler,
            dice,
            now: Duration::ZERO,
            pace,
            host,
            works: Vec::new(),
            calls: VecDeque::new(),
            ends: Duration::ZERO,
            done: Vec::new(),
            outcomes: Vec::new(),
            operations: 0,
        };
        for session in (1..=sessions).map(SessionId) {
            let account = AccountId(u128::from(session.0));
            let (weight, unit_costs, tables) = (1, vec![32], None);
            let (host_bytes, device_bytes) = (1, vec![vec![1]]);
            let slot_kind = SlotKind { bytes: 1, for_lists: true };
            bench.feed(Event::Opened {
                session,
                account,
                weight,
                unit_costs,
                tables,
                host_bytes,
                device_bytes,
                slot_kind,
            });
            bench.list(session, 1);
        }
        bench.run_until_idle();
        bench
    }

    /// Submits a circuit with levels of these numbers of rows, each of one unit.
    fn circuit(&mut self, session: SessionId, widths: Vec<usize>) -> OperationId {
        let ends: Vec<usize> = widths
            .iter()
            .scan(0, |end, width| {
                *end += width;
                Some(*end)
            })
            .collect();
        let units = vec![1; *ends.last().expect("a circuit has levels")];
        let form = Form::Circuit(Levels { ends: ends.clone(), slots: 1, host_bytes: 1, ..Levels::default() });
        self.submit(session, ends, Work { units, key: vec![PartId(0)], form })
    }

    /// Submits a list of rows of one unit.
    fn list(&mut self, session: SessionId, rows: usize) -> OperationId {
        let form = Form::List { slots: vec![3; rows] };
        self.submit(session, vec![rows], Work { units: vec![1; rows], key: vec![PartId(0)], form })
    }

    fn submit(&mut self, session: SessionId, ends: Vec<usize>, work: Work) -> OperationId {
        self.operations += 1;
        let operation = OperationId(self.operations);
        self.works.push((operation, ends));
        self.feed(Event::Submitted { session, operation, work, deadline: None });
        operation
    }

    fn feed(&mut self, event: Event) {
        for command in self.scheduler.step(self.now, event) {
            match command {
                Command::Run { batches, .. } => self.start(batches),
                Command::Finish { operation, outcome } => self.outcomes.push((operation, outcome)),
                Command::Load { device, session, .. } => self.feed(Event::Loaded { device, session }),
                Command::FreeArena { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The card gets a call: the first levels of all parts together, then the second ones, and so on.
    fn start(&mut self, batches: Vec<Batch>) {
        let mut rows: Vec<usize> = Vec::new();
        for part in batches.iter().flat_map(|batch| &batch.parts) {
            let (_, ends) = self.works.iter().find(|(id, _)| *id == part.operation).expect("it was submitted");
            let first = ends.partition_point(|&end| end <= part.rows.start);
            let mut start = part.rows.start;
            for (level, &end) in ends[first..].iter().enumerate() {
                if start >= part.rows.end {
                    break;
                }
                rows.resize(rows.len().max(level + 1), 0);
                rows[level] += end.min(part.rows.end) - start;
                start = end;
            }
        }
        let Pace { level, unit } = self.pace;
        let times: Vec<Duration> = rows.iter().map(|&rows| level.max(unit * rows as u32)).collect();
        // a card's clock and its neighbours change the time of a call a little
        let percent = self.dice.between(80, 125) as u32;
        let took = times.iter().sum::<Duration>() * percent / 100;
        self.done.push(Done { took, first: times[0] * percent / 100, levels: rows.len() });
        if self.calls.is_empty() {
            self.ends = self.now + took;
        }
        self.calls.push_back(Call { batches, took });
    }

    /// The oldest call ends, and the host answers a little later. Meanwhile the card works on its next call.
    fn step(&mut self) {
        let call = self.calls.pop_front().expect("the card works");
        let ended = self.ends;
        if let Some(next) = self.calls.front() {
            self.ends = ended + next.took;
        }
        self.now = self.now.max(ended + self.host);
        call.batches.iter().for_each(|batch| self.feed(Event::BatchDone(batch.id)));
    }

    fn run_until_idle(&mut self) {
        while !self.calls.is_empty() {
            self.step();
        }
    }
}

fn only(session: u64) -> SessionId {
    SessionId(session)
}

#[test]
fn a_lone_circuit_keeps_the_card_busy_whatever_the_host_needs() {
    // 160 levels of 1 to 40 gates, as AES-128 has, and a host that takes 100 us for each report
    let host = Duration::from_micros(100);
    for_each_seed(20, |seed| {
        let mut bench = Bench::new(seed, GATES, host, 1);
        let widths: Vec<usize> = (0..160).map(|_| bench.dice.between(1, 40) as usize).collect();
        (bench.done, bench.outcomes) = (Vec::new(), Vec::new());
        let started = bench.now;
        bench.circuit(only(1), widths);
        bench.run_until_idle();
        let work: Duration = bench.done.iter().map(|done| done.took).sum();
        let idle = bench.now - started - work;
        assert!(idle <= 2 * host, "the card waited {idle:?} for the host");
        assert!(matches!(bench.outcomes[..], [(_, Ok(_))]));
    });
}

#[test]
fn a_bootstrap_of_numbers_has_few_calls_once_its_levels_are_measured() {
    for_each_seed(20, |seed| {
        let mut bench = Bench::new(seed, NUMBERS, Duration::from_micros(100), 1);
        // 855 levels of 5 to 24 us, 12 ms in all
        let widths: Vec<usize> = (0..855).map(|_| bench.dice.between(1, 40) as usize).collect();
        let mut calls = Vec::new();
        for _ in 0..3 {
            bench.done.clear();
            bench.circuit(only(1), widths.clone());
            bench.run_until_idle();
            assert_eq!(bench.done.iter().map(|done| done.levels).sum::<usize>(), 855);
            calls.push(bench.done.len());
        }
        assert!(calls[2] <= 20, "calls of the first, second and third bootstrap: {calls:?}");
        // the first one starts with single levels and doubles
        assert!(calls[0] <= 40, "{calls:?}");
    });
}

#[test]
fn cancellation_and_other_sessions_wait_for_one_level_or_a_short_window() {
    for_each_seed(50, |seed| {
        let mut dice = Dice::new(1000 + seed);
        // cards of all kinds: slow and fast levels, narrow and wide
        let pace = Pace {
            level: Duration::from_micros(dice.pick(&[2, 20, 200, 1100, 8000])),
            unit: Duration::from_nanos(dice.pick(&[100, 1000, 10_000, 100_000])),
        };
        let mut bench = Bench::new(seed, pace, Duration::from_micros(dice.pick(&[10, 100, 5000])), 4);
        for _ in 0..200 {
            let session = only(dice.between(1, 4));
            match dice.below(5) {
                0 => drop(bench.list(session, dice.between(1, 64) as usize)),
                1 | 2 => {
                    let width = dice.pick(&[1, 5, 40, 300]);
                    let levels = dice.between(1, 60) as usize;
                    bench.circuit(session, (0..levels).map(|_| dice.between(1, width) as usize).collect());
                }
                3 if bench.operations > 0 => {
                    let operation = OperationId(dice.between(1, bench.operations));
                    bench.feed(Event::Cancelled(operation));
                }
                _ => {}
            }
            for _ in 0..dice.below(20).min(bench.calls.len() as u64) {
                bench.step();
            }
        }
        bench.run_until_idle();
        for call in &bench.done {
            assert!(call.took - call.first <= 2 * WINDOW, "{call:?} with {pace:?}");
        }
        assert_eq!(bench.outcomes.len() as u64, bench.operations, "each operation ends once");
    });
}
