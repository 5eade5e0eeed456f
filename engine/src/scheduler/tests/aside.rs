//! Tests of operations that run on a stand-in, because no other device can hold them or has memory for them.

use std::collections::{BTreeSet, VecDeque};

use super::circuits::circuit;
use super::*;
use crate::CircuitBound;

const STAND_IN: DeviceId = DeviceId(1);

/// A device that takes eight rows a batch, and a stand-in with these bounds.
fn limits_with(resident_bytes_max: u64, arena_bytes_max: u64) -> SchedulerLimits {
    let mut limits = SchedulerLimits { wait: Duration::ZERO, ..limits() };
    let stand_in = DeviceLimits { stand_in: true, resident_bytes_max, arena_bytes_max, ..limits.devices[0].clone() };
    limits.devices.push(stand_in);
    limits
}

/// A desk whose stand-in has ten times the memory of its other device.
fn desk(sessions: &[SessionId]) -> Desk {
    Desk::with(limits_with(20 * KEY, 10_000), sessions)
}

fn submit(desk: &mut Desk, session: SessionId, operation: OperationId, work: Work) -> Vec<Command> {
    desk.feed(Event::Submitted { session, operation, work, deadline: None })
}

fn load_aside(session: SessionId) -> Command {
    Command::Load { device: STAND_IN, session, parts: vec![key_of(session)] }
}

fn loaded_aside(session: SessionId) -> Event {
    Event::Loaded { device: STAND_IN, session }
}

fn without_memory(desk: &mut Desk, batch: &Batch) -> Vec<Command> {
    desk.feed(Event::BatchFailed { batch: batch.id, failure: smoke(Cause::OutOfMemory) })
}

/// The batches that these commands run.
fn runs_of(commands: &[Command]) -> Vec<Batch> {
    let batches = commands.iter().filter_map(|command| match command {
        Command::Run { batches, .. } => Some(batches),
        _ => None,
    });
    batches.flatten().cloned().collect()
}

#[test]
fn a_circuit_too_large_for_the_card_runs_on_the_stand_in_and_other_work_on_the_card() {
    let mut desk = desk(&[A, B]);
    // a circuit of 976 slots is the largest that the card holds
    assert_eq!(submit(&mut desk, A, op(1), circuit(&[8], 977)), [load_aside(A)]);
    assert_eq!(submit(&mut desk, B, op(2), circuit(&[8], 976)), [load(B)]);
    let aside = run_of(&desk.feed(loaded_aside(A)));
    let on_card = run_of(&desk.feed(loaded(B)));
    assert_eq!((aside.device, on_card.device), (STAND_IN, ONE));
    assert_eq!((finished(&desk.done(&aside)), finished(&desk.done(&on_card))), (vec![op(1)], vec![op(2)]));
    assert_eq!(submit(&mut desk, A, op(3), circuit(&[8], 976)), [load(A)], "one circuit says nothing of the next");
    let error = Error::CircuitTooLarge { of: CircuitBound::DeviceBytes, needed: 10_001, max: 10_000 };
    assert_eq!(submit(&mut desk, A, op(4), circuit(&[8], 9977)), [Command::Refuse { operation: op(4), error }]);
}

#[test]
fn parts_of_a_key_too_large_for_the_card_together_are_used_on_the_stand_in() {
    let key = |parts: &[u32]| Work { key: parts.iter().copied().map(PartId).collect(), ..list(&[1; 8]) };
    for bytes_max in [230, 229] {
        let mut desk = Desk::with(limits_with(bytes_max, 1000), &[]);
        let mut opening = opening(A, 10, vec![0, 0]);
        let Event::Opened { device_bytes, .. } = &mut opening else { unreachable!() };
        *device_bytes = vec![vec![80, 80, 70]; 2];
        assert_eq!(desk.feed(opening), []);
        let commands = submit(&mut desk, A, op(1), key(&[0, 1, 2]));
        if bytes_max == 229 {
            let error = Error::KeyTooLarge { bytes: 230, bytes_max };
            assert_eq!(commands, [Command::Refuse { operation: op(1), error }]);
            continue;
        }
        assert!(matches!(commands[..], [Command::Load { device: STAND_IN, .. }]), "{commands:?}");
        assert_eq!(run_of(&desk.feed(loaded_aside(A))).device, STAND_IN);
        let commands = submit(&mut desk, A, op(2), key(&[0, 1]));
        assert!(matches!(commands[..], [Command::Load { device: ONE, .. }]), "{commands:?}");
    }
}

#[test]
fn a_circuit_for_which_the_card_is_out_of_memory_again_begins_anew_on_the_stand_in() {
    let mut desk = desk(&[A, B]);
    submit(&mut desk, A, op(1), circuit(&[8, 8], 100));
    let first = run_of(&desk.feed(loaded(A)));
    let second = run_of(&desk.done(&first));
    let again = run_of(&without_memory(&mut desk, &second));
    assert_eq!((again.device, again.parts[0].rows.clone()), (ONE, 0..8), "the card is tried again");
    assert_eq!(without_memory(&mut desk, &again), [Command::Restart(op(1)), load_aside(A)]);
    assert_eq!(submit(&mut desk, B, op(2), circuit(&[8], 900)), [load(B)], "the card's slots are free");
    let aside = run_of(&desk.feed(loaded_aside(A)));
    assert_eq!((aside.device, aside.parts[0].rows.clone()), (STAND_IN, 0..8));
    let last = run_of(&desk.done(&aside));
    assert_eq!(finished(&desk.done(&last)), [op(1)]);
    assert_eq!(desk.scheduler.totals.aside, 0);
    assert_eq!(run_of(&desk.feed(loaded(B))).device, ONE);
}

#[test]
fn a_circuit_that_the_stand_in_fails_too_ends() {
    let mut desk = desk(&[A]);
    submit(&mut desk, A, op(1), circuit(&[8], 100));
    let first = run_of(&desk.feed(loaded(A)));
    let again = run_of(&without_memory(&mut desk, &first));
    without_memory(&mut desk, &again);
    let aside = run_of(&desk.feed(loaded_aside(A)));
    assert_eq!(without_memory(&mut desk, &aside)[0], ends(op(1), Error::Device("smoke".into())));
}

#[test]
fn without_a_stand_in_that_can_hold_it_a_circuit_ends_when_the_card_is_out_of_memory_again() {
    for limits in [SchedulerLimits { wait: Duration::ZERO, ..limits() }, limits_with(20 * KEY, 100)] {
        let mut desk = Desk::with(limits, &[A]);
        submit(&mut desk, A, op(1), circuit(&[8], 100));
        let first = run_of(&desk.feed(loaded(A)));
        let again = run_of(&without_memory(&mut desk, &first));
        assert_eq!(without_memory(&mut desk, &again)[0], ends(op(1), Error::Device("smoke".into())));
    }
}

#[test]
fn rows_of_a_list_that_are_left_run_on_the_stand_in() {
    let mut desk = desk(&[A]);
    desk.submit(A, op(1), &[1; 20]);
    let first = run_of(&desk.feed(loaded(A)));
    let second = run_of(&desk.done(&first));
    let again = run_of(&without_memory(&mut desk, &second));
    assert_eq!(without_memory(&mut desk, &again), [load_aside(A)]);
    let failed = run_of(&desk.feed(loaded_aside(A)));
    let rest = run_of(&desk.done(&failed));
    let rows = [&failed, &rest].map(|batch| (batch.device, batch.parts[0].rows.clone()));
    assert_eq!(rows, [(STAND_IN, 8..16), (STAND_IN, 16..20)]);
    assert_eq!(finished(&desk.done(&rest)), [op(1)]);
    assert_eq!(desk.scheduler.totals.held_rows, 0);
}

#[test]
fn rows_that_fail_on_the_card_after_their_list_was_set_aside_follow_it() {
    let mut limits = limits_with(20 * KEY, 1000);
    limits.devices[0].batches_in_flight_max = 2;
    let mut desk = Desk::with(limits, &[A]);
    desk.submit(A, op(1), &[1; 16]);
    let first = runs_of(&desk.feed(loaded(A)));
    let again: Vec<_> = first.iter().flat_map(|batch| runs_of(&without_memory(&mut desk, batch))).collect();
    assert_eq!(again.len(), 2);
    assert_eq!(without_memory(&mut desk, &again[0]), [load_aside(A)]);
    assert_eq!(without_memory(&mut desk, &again[1]), []);
    let aside = run_of(&desk.feed(loaded_aside(A)));
    let rest = run_of(&desk.done(&aside));
    assert_eq!(finished(&desk.done(&rest)), [op(1)]);
}

#[test]
fn a_key_for_which_the_card_is_out_of_memory_again_is_loaded_on_the_stand_in() {
    let mut desk = desk(&[A]);
    submit(&mut desk, A, op(1), circuit(&[8], 100));
    desk.submit(A, op(2), &[1; 8]);
    let fail = || Event::LoadFailed { device: ONE, session: A, failure: smoke(Cause::OutOfMemory) };
    assert_eq!(desk.feed(fail()), [load(A)]);
    assert_eq!(desk.feed(fail()), [load_aside(A)]);
    let first = run_of(&desk.feed(loaded_aside(A)));
    let commands = desk.done(&first);
    let second = run_of(&commands);
    // the circuit begins anew, so it is behind the list
    assert_eq!((finished(&commands), finished(&desk.done(&second))), (vec![op(2)], vec![op(1)]));
    assert_eq!((second.device, desk.scheduler.totals.aside), (STAND_IN, 0));
}

#[test]
fn a_circuit_waits_until_the_stand_in_has_room_and_new_circuits_do_not_overtake() {
    let mut desk = Desk::with(limits_with(20 * KEY, 600), &[A, B]);
    for (session, number) in [(A, 1), (B, 2)] {
        submit(&mut desk, session, op(number), circuit(&[8, 8], 400));
        let first = run_of(&desk.feed(loaded(session)));
        let again = run_of(&without_memory(&mut desk, &first));
        let commands = without_memory(&mut desk, &again);
        assert!(commands.contains(&Command::Restart(op(number))), "{commands:?}");
        assert_eq!(commands.contains(&load_aside(session)), session == A, "the stand-in has room for one");
    }
    assert_eq!(desk.scheduler.devices[0].claimed_bytes(), 0, "the circuit that waits holds nothing");
    let mut wide = opening(C, 10, vec![0, 0]);
    let Event::Opened { device_bytes, .. } = &mut wide else { unreachable!() };
    *device_bytes = vec![vec![3 * KEY], vec![KEY]];
    assert_eq!(desk.feed(wide), []);
    let refused = submit(&mut desk, C, op(3), circuit(&[8], 10));
    assert!(matches!(refused[..], [Command::Refuse { error: Error::Busy { .. }, .. }]), "{refused:?}");
    let first = run_of(&desk.feed(loaded_aside(A)));
    let second = run_of(&desk.done(&first));
    let commands = desk.done(&second);
    assert_eq!(finished(&commands), [op(1)]);
    assert!(commands.contains(&load_aside(B)), "{commands:?}");
    let first = run_of(&desk.feed(loaded_aside(B)));
    let second = run_of(&desk.done(&first));
    assert_eq!(finished(&desk.done(&second)), [op(2)]);
}

/// The devices of a desk, which report their orders one after another. The card has no memory for any batch of A.
struct Reports {
    desk: Desk,
    orders: VecDeque<Command>,
    lost: BTreeSet<DeviceId>,
    ended: Vec<OperationId>,
    done: Vec<OperationId>,
    stopped: bool,
}

impl Reports {
    fn feed(&mut self, event: Event) {
        for command in self.desk.feed_whole(event) {
            match command {
                Command::Finish { operation, outcome } => {
                    self.ended.push(operation);
                    self.done.extend(outcome.ok().map(|_| operation));
                }
                Command::Stop => self.stopped = true,
                Command::Load { .. } | Command::Evict { .. } | Command::Run { .. } | Command::Retire(_) => {
                    self.orders.push_back(command);
                }
                _ => {}
            }
        }
    }

    /// The device of the oldest order reports. Returns false if no order is left.
    fn report(&mut self) -> bool {
        self.desk.now += Duration::from_millis(1);
        match self.orders.pop_front() {
            None => return false,
            Some(Command::Load { device, session, .. }) if self.lost.contains(&device) => {
                self.feed(Event::LoadFailed { device, session, failure: smoke(Cause::Lost) });
            }
            Some(Command::Load { device, session, .. }) => self.feed(Event::Loaded { device, session }),
            Some(Command::Evict { device, part }) => self.feed(Event::Evicted { device, part }),
            Some(Command::Run { device, batches }) => {
                for batch in batches {
                    let cause = match () {
                        () if self.lost.contains(&device) => Some(Cause::Lost),
                        () => (device == ONE && batch.session == A).then_some(Cause::OutOfMemory),
                    };
                    let failed = |cause| Event::BatchFailed { batch: batch.id, failure: smoke(cause) };
                    self.feed(cause.map_or(Event::BatchDone(batch.id), failed));
                }
            }
            Some(Command::Retire(device)) => self.feed(Event::Retired(device)),
            Some(other) => unreachable!("{other:?} is not reported"),
        }
        true
    }
}

/// Runs a circuit and a list of A, for which the card has no memory, and a list of B, for which it has. After `reports`
/// reports, `between` happens. Returns the operations that were done, and whether the end came before that.
fn run_with(reports: usize, between: &dyn Fn(&mut Reports)) -> (Vec<OperationId>, bool) {
    let mut limits = limits_with(20 * KEY, 1000);
    limits.devices[0].batches_in_flight_max = 2;
    let desk = Desk::with(limits, &[A, B]);
    let (orders, lost) = (VecDeque::new(), BTreeSet::new());
    let mut world = Reports { desk, orders, lost, ended: Vec::new(), done: Vec::new(), stopped: false };
    let deadline = Some(Duration::from_secs(1));
    let works = [(A, 1, circuit(&[8, 3], 100)), (A, 2, list(&[1; 20])), (B, 3, list(&[1; 20]))];
    for (session, number, work) in works {
        world.feed(Event::Submitted { session, operation: op(number), work, deadline });
    }
    let ended_before = !(0..reports).all(|_| world.report());
    between(&mut world);
    while world.report() {}
    world.feed(Event::Drain);
    while world.report() {}
    world.ended.sort();
    assert_eq!(world.ended, [op(1), op(2), op(3)], "each ends once");
    let usage = world.desk.scheduler.usage();
    let left = [usage.arena_bytes, usage.resident_bytes, usage.circuits, usage.queued_rows, usage.running_rows];
    let totals = &world.desk.scheduler.totals;
    assert_eq!((left, totals.aside, totals.held_rows, totals.circuit_rows), ([0; 5], 0, 0, 0));
    assert!(world.stopped && world.desk.scheduler.homeless.is_empty());
    world.done.sort();
    (world.done, ended_before)
}

#[test]
fn whatever_happens_in_between_each_operation_ends_once_and_nothing_is_left() {
    fn lose(world: &mut Reports, device: DeviceId) {
        world.lost.insert(device);
        world.feed(Event::Lost { device, reason: "smoke".into() });
    }
    type Between = (&'static str, Box<dyn Fn(&mut Reports)>, &'static [u64]);
    // what happens, and the operations that are done whenever it happens
    let all: [Between; 8] = [
        ("nothing", Box::new(|_| ()), &[1, 2, 3]),
        ("the card is lost", Box::new(|world| lose(world, ONE)), &[]),
        ("the stand-in is lost", Box::new(|world| lose(world, STAND_IN)), &[3]),
        (
            "the card dies",
            Box::new(|world| {
                // the orders of a device that was given up are not reported
                world.orders.retain(|order| {
                    !matches!(
                        order,
                        Command::Load { device: ONE, .. }
                            | Command::Evict { device: ONE, .. }
                            | Command::Run { device: ONE, .. }
                    )
                });
                world.feed(Event::Died { device: ONE, reason: "smoke".into() });
                world.orders.retain(|order| *order != Command::Retire(ONE));
            }),
            &[],
        ),
        ("the session is closed", Box::new(|world| world.feed(Event::Closed(A))), &[3]),
        (
            "operations are cancelled",
            Box::new(|world| {
                (1..3).for_each(|number| world.feed(Event::Cancelled(op(number))));
            }),
            &[3],
        ),
        (
            "the deadline passes",
            Box::new(|world| {
                world.desk.now += Duration::from_secs(1);
                world.feed(Event::Tick);
            }),
            &[],
        ),
        ("the engine is abandoned", Box::new(|world| world.feed(Event::Abandon)), &[]),
    ];
    for (what, between, always_done) in all {
        for reports in 0.. {
            println!("{what} after {reports} reports");
            let (done, ended_before) = run_with(reports, &between);
            assert!(always_done.iter().all(|&number| done.contains(&op(number))), "{done:?}");
            if ended_before {
                assert_eq!(done, [op(1), op(2), op(3)]);
                assert!(reports > 15, "{reports} reports are few");
                break;
            }
        }
    }
}
