//! The cost of the scheduler itself (criterion; no peer). The scheduler works under the engine's lock, so a step must
//! stay far below a bootstrap's 2 ms, even with thousands of sessions and a full queue.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engine::scheduler::{Command, DeviceLimits, Event, Form, Scheduler, SchedulerLimits, SlotKind, Work};
use engine::{AccountId, OperationId, PartId, SessionId};

const QUEUE_ROWS_MAX: usize = 16_384;

/// A scheduler with a simulated device. The sessions are open, and the device has room for their keys.
struct Desk {
    scheduler: Scheduler,
    sessions: u64,
    operations: u64,
}

impl Desk {
    fn new(sessions: u64, wait: Duration) -> Self {
        let limits = SchedulerLimits {
            queue_rows_max: QUEUE_ROWS_MAX,
            session_rows_max: QUEUE_ROWS_MAX,
            wait,
            window: std::time::Duration::from_millis(2),
            arena_idle: std::time::Duration::from_secs(5),
            key_bytes_max: u64::MAX,
            circuit_rows_max: usize::MAX,
            circuit_bytes_max: u64::MAX,
            session_circuit_rows_max: usize::MAX,
            session_circuit_bytes_max: u64::MAX,
            silence_max: Duration::from_secs(60),
            devices: vec![DeviceLimits {
                batch_units_max: 64,
                batches_in_flight_max: 1,
                keys_together_max: 1,
                resident_bytes_max: u64::MAX,
                arena_bytes_max: u64::MAX,
                stand_in: false,
            }],
        };
        let mut scheduler = Scheduler::new(limits);
        for session in 0..sessions {
            let weight = 1 + (session % 8) as u32;
            let (session, device_bytes) = (SessionId(session), vec![vec![1]]);
            let account = AccountId(u128::from(session.0));
            let (unit_costs, tables, host_bytes) = (vec![32], None, 1);
            let slot_kind = SlotKind { bytes: 1, for_lists: true };
            let event =
                Event::Opened { session, account, weight, unit_costs, tables, host_bytes, device_bytes, slot_kind };
            assert!(scheduler.step(Duration::ZERO, event).is_empty());
        }
        Self { scheduler, sessions, operations: 0 }
    }

    fn submit(&mut self, rows: usize) -> Vec<Command> {
        self.operations += 1;
        let session = SessionId(self.operations % self.sessions);
        let work = Work { units: vec![1; rows], key: vec![PartId(0)], form: Form::List { slots: vec![3; rows] } };
        let operation = OperationId(self.operations);
        self.scheduler.step(Duration::ZERO, Event::Submitted { session, operation, work, deadline: None })
    }

    /// Carries out the commands to the device until none is left or `batches` batches have run.
    fn work(&mut self, mut commands: Vec<Command>, batches: usize) -> Vec<Command> {
        let mut done = 0;
        let is_order = |command: &Command| matches!(command, Command::Load { .. } | Command::Run { .. });
        while done < batches {
            let Some(at) = commands.iter().position(is_order) else { break };
            let report = match commands.remove(at) {
                Command::Run { batches, .. } => Event::BatchDone(batches[0].id),
                Command::Load { device, session, .. } => Event::Loaded { device, session },
                _ => unreachable!("neither a load nor a call"),
            };
            done += usize::from(matches!(report, Event::BatchDone(_)));
            // a step may return a load and a batch: the bench carries out one of them, and the other stays in the list
            commands.retain(is_order);
            commands.extend(self.scheduler.step(Duration::ZERO, report));
        }
        commands
    }
}

/// Measures the steps in which, on an idle engine, a gate arrives, runs and ends.
fn lone_gate(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler/lone_gate");
    for sessions in [1, 100, 10_000] {
        let mut desk = Desk::new(sessions, Duration::ZERO);
        group.bench_function(BenchmarkId::new("sessions", sessions), |b| {
            b.iter(|| {
                let commands = desk.submit(1);
                desk.work(commands, 1)
            })
        });
    }
}

/// Measures the steps in which an operation of 1024 gates arrives, runs in slices and ends.
fn large_operation(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler/large_operation");
    group.throughput(Throughput::Elements(1024));
    let mut desk = Desk::new(1, Duration::ZERO);
    group.bench_function("gates", |b| {
        b.iter(|| {
            let commands = desk.submit(1024);
            desk.work(commands, usize::MAX)
        })
    });
}

/// Measures steps while the queue is full of single gates: a batch ends, the next batch starts, and as many new gates
/// arrive.
fn full_queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler/full_queue");
    for sessions in [1, 100, 10_000] {
        let mut desk = Desk::new(sessions, Duration::ZERO);
        let mut running = desk.submit(1);
        for _ in 1..QUEUE_ROWS_MAX {
            desk.submit(1);
        }
        group.bench_function(BenchmarkId::new("sessions", sessions), |b| {
            b.iter(|| {
                let next = desk.work(std::mem::take(&mut running), 1);
                let finished = next.iter().filter(|command| matches!(command, Command::Finish { .. })).count();
                for _ in 0..finished {
                    desk.submit(1);
                }
                running = next;
            })
        });
    }
}

criterion_group!(scheduler, lone_gate, large_operation, full_queue);
criterion_main!(scheduler);
