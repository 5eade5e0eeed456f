//! Tests of values: inputs and results that stay in the arena for later circuits.

use super::*;
use crate::ids::ValueId;
use crate::scheduler::{Levels, NamedInput, NamedSlots};

const IDLE: Duration = Duration::from_secs(5);
/// Slots that the device keeps for lists: eight gates of two operands and a result.
const LIST_SLOTS: usize = 24;
/// Slots of a value in these tests.
const ROWS: usize = 2;

/// A circuit of one row. Each input and the result have a name and two slots.
fn sum(inputs: &[u128], result: u128) -> Work {
    let named = |at: usize, value| NamedSlots {
        value: ValueId(value),
        slots: (0..ROWS).map(|row| (ROWS * at + row) as u32).collect(),
    };
    let levels = Levels {
        ends: vec![1],
        slots: ROWS * (inputs.len() + 1),
        host_bytes: 1,
        inputs: (0..).zip(inputs).map(|(input, &value)| NamedInput { input, named: named(input, value) }).collect(),
        results: vec![named(inputs.len(), result)],
    };
    Work { units: vec![1], key: vec![KEY_PART], form: Form::Circuit(levels) }
}

/// A desk whose device holds the key of A and keeps arenas for some time.
fn desk() -> Desk {
    let mut limits = limits();
    limits.arena_idle = IDLE;
    let mut desk = Desk::with(limits, &[A, B]);
    desk.submit(A, op(1000), &[1]);
    let batch = run_of(&desk.feed(loaded(A)));
    desk.done(&batch);
    desk
}

fn start(desk: &mut Desk, number: u64, work: Work) -> Batch {
    run_of(&desk.feed_whole(Event::Submitted { session: A, operation: op(number), work, deadline: None }))
}

/// Runs a circuit. Returns the inputs that were there, and the slots.
fn run(desk: &mut Desk, number: u64, work: Work) -> (Vec<usize>, Vec<u32>) {
    let batch = start(desk, number, work);
    assert_eq!(finished(&desk.done(&batch)), [op(number)]);
    (batch.parts[0].there.to_vec(), batch.parts[0].slots.to_vec())
}

#[test]
fn a_chain_of_50_circuits_writes_its_first_inputs_only() {
    let mut desk = desk();
    let (there, slots) = run(&mut desk, 1, sum(&[1, 2], 3));
    assert_eq!(there, []);
    let mut result = slots[2 * ROWS..].to_vec();
    for number in 2..=50 {
        let (there, slots) = run(&mut desk, number, sum(&[1, number as u128 + 1], number as u128 + 2));
        assert_eq!((there, &slots[ROWS..2 * ROWS]), (vec![0, 1], &result[..]), "circuit {number}");
        result = slots[2 * ROWS..].to_vec();
    }
}

#[test]
fn values_leave_with_their_arena_when_its_time_is_over_or_the_session_closes() {
    let mut desk = desk();
    run(&mut desk, 1, sum(&[1], 2));
    desk.now += IDLE;
    assert_eq!(desk.feed_whole(Event::Tick), [Command::FreeArena { device: ONE, session: A }]);
    assert_eq!((run(&mut desk, 2, sum(&[1], 3)).0, desk.scheduler.usage().arena_bytes), (vec![], 4));
    let commands = desk.feed_whole(Event::Closed(A));
    assert_eq!(commands, [Command::FreeArena { device: ONE, session: A }, evict(A)]);
    assert_eq!(desk.feed_whole(evicted(A)), [Command::Erase(A)]);
}

#[test]
fn a_session_that_closes_while_its_circuit_reads_a_value_keeps_nothing() {
    let mut desk = desk();
    run(&mut desk, 1, sum(&[1], 2));
    let batch = start(&mut desk, 2, sum(&[2], 3));
    assert_eq!(batch.parts[0].there[..], [0]);
    assert_eq!(desk.feed_whole(Event::Closed(A)), []);
    let commands = desk.feed_whole(Event::BatchDone(batch.id));
    assert_eq!(commands[1..], [Command::FreeArena { device: ONE, session: A }, evict(A)]);
}

#[test]
fn after_a_failure_everything_is_written_again() {
    let mut desk = desk();
    run(&mut desk, 1, sum(&[1], 2));
    let batch = start(&mut desk, 2, sum(&[1, 2], 3));
    assert_eq!(batch.parts[0].there[..], [0, 1]);
    let again = run_of(&desk.failed(&batch));
    assert_eq!((&again.parts[0].there[..], again.parts[0].retried), (&[][..], true));
    desk.done(&again);
    assert_eq!(run(&mut desk, 3, sum(&[1, 2, 3], 4)).0, [0, 1, 2], "the second try leaves values too");
}

#[test]
fn a_circuit_that_was_cancelled_leaves_no_values() {
    let mut desk = desk();
    let Form::Circuit(levels) = sum(&[1], 2).form else { unreachable!() };
    let form = Form::Circuit(Levels { ends: vec![1, 2], ..levels });
    let batch = start(&mut desk, 1, Work { units: vec![1; 2], key: vec![KEY_PART], form });
    assert_eq!(desk.feed(Event::Cancelled(op(1))), [ends(op(1), Error::Cancelled)]);
    desk.done(&batch);
    assert_eq!(run(&mut desk, 2, sum(&[1, 2], 3)).0, []);
}

#[test]
fn values_take_no_more_room_than_lists_and_the_oldest_leave_first() {
    let mut desk = desk();
    for number in 1..=20 {
        let batch = start(&mut desk, number, sum(&[1], number as u128 + 1));
        assert!(batch.arena_slots <= LIST_SLOTS, "{} slots", batch.arena_slots);
        assert_eq!(batch.parts[0].there.len(), usize::from(number > 1), "a value that is used stays");
        desk.done(&batch);
    }
    assert_eq!(run(&mut desk, 30, sum(&[21, 2], 40)).0, [0]);
    // a list may use the same room, and values leave for it
    let batch = run_of(&desk.submit(A, op(31), &[1; 8]));
    assert_eq!((batch.arena_slots, batch.parts[0].slots.len()), (LIST_SLOTS, LIST_SLOTS));
    desk.done(&batch);
    assert_eq!(run(&mut desk, 32, sum(&[40], 41)).0, []);
}

/// A desk with a session C that has no lists, on a device with this much memory for arenas.
fn without_lists(arena_bytes_max: u64) -> Desk {
    let mut limits = limits();
    limits.arena_idle = IDLE;
    limits.devices[0].arena_bytes_max = arena_bytes_max;
    let mut desk = Desk::with(limits, &[A]);
    let mut opening = opening(C, 10, vec![KEY]);
    let Event::Opened { slot_kind, .. } = &mut opening else { unreachable!() };
    slot_kind.for_lists = false;
    assert_eq!(desk.feed(opening), []);
    desk.feed(Event::Submitted { session: C, operation: op(900), work: sum(&[1], 2), deadline: None });
    let batch = run_of(&desk.feed(loaded(C)));
    desk.done(&batch);
    desk
}

fn submit_for_c(desk: &mut Desk, number: u64, work: Work) -> Vec<Command> {
    desk.feed(Event::Submitted { session: C, operation: op(number), work, deadline: None })
}

#[test]
fn a_session_without_lists_claims_what_its_circuits_need_and_no_room_for_lists() {
    // less than the lists of a session would take
    let mut desk = without_lists(LIST_SLOTS as u64 - 4);
    let batch = run_of(&submit_for_c(&mut desk, 1, circuits::circuit(&[1], LIST_SLOTS - 4)));
    desk.done(&batch);
    let refused = submit_for_c(&mut desk, 2, circuits::circuit(&[1], LIST_SLOTS));
    assert!(matches!(refused[..], [Command::Refuse { error: Error::CircuitTooLarge { .. }, .. }]), "{refused:?}");
}

#[test]
fn without_lists_values_may_take_a_sixteenth_of_the_memory_for_arenas() {
    let mut desk = without_lists(16 * 40);
    for number in 1..=60 {
        let batch = run_of(&submit_for_c(&mut desk, number, sum(&[1], 100 + u128::from(number))));
        assert_eq!((batch.arena_slots <= 40, &batch.parts[0].there[..]), (true, &[0][..]), "{}", batch.arena_slots);
        desk.done(&batch);
    }
    assert_eq!(desk.scheduler.usage().arena_bytes, 40);
    let batch = run_of(&submit_for_c(&mut desk, 70, sum(&[160, 159, 102], 300)));
    assert_eq!(batch.parts[0].there[..], [0, 1], "the oldest have left");
}

#[test]
fn where_circuits_claim_half_of_the_memory_values_make_no_arena_grow() {
    let mut desk = without_lists(16 * 40);
    // a circuit of another session that runs
    let claims = 16 * 20 - LIST_SLOTS;
    let work = circuits::circuit(&[1], claims);
    desk.feed(Event::Submitted { session: A, operation: op(1), work, deadline: None });
    let running = run_of(&desk.feed(loaded(A)));
    submit_for_c(&mut desk, 2, sum(&[1], 3));
    submit_for_c(&mut desk, 3, sum(&[1], 4));
    let mut commands = desk.done(&running);
    while commands.iter().any(|command| matches!(command, Command::Run { .. })) {
        let batch = run_of(&commands);
        assert!(batch.arena_slots <= 8, "two circuits of four slots: {}", batch.arena_slots);
        commands = desk.done(&batch);
    }
}

#[test]
fn values_keep_no_other_circuit_from_the_device() {
    let mut desk = desk();
    run(&mut desk, 1, sum(&[1], 2));
    let most = 1000 - LIST_SLOTS;
    let work = circuits::circuit(&[1], most);
    let commands = desk.feed(Event::Submitted { session: B, operation: op(2), work, deadline: None });
    assert_eq!(commands, [load(B)]);
}

#[test]
fn a_circuit_goes_to_the_device_that_has_its_inputs() {
    let mut limits = limits();
    limits.arena_idle = IDLE;
    limits.devices = vec![limits.devices[0].clone(); 2];
    let mut desk = Desk::with(limits, &[A]);
    let two = DeviceId(1);
    // a circuit keeps the first device busy, so that the next one begins on the second
    desk.feed(Event::Submitted { session: A, operation: op(1), work: circuits::circuit(&[1], 5), deadline: None });
    let first = run_of(&desk.feed(loaded(A)));
    let load = desk.feed(Event::Submitted { session: A, operation: op(2), work: sum(&[1], 2), deadline: None });
    assert_eq!(load, [Command::Load { device: two, session: A, parts: vec![key_of(A)] }]);
    let second = run_of(&desk.feed(Event::Loaded { device: two, session: A }));
    desk.done(&first);
    desk.done(&second);
    for number in 3..6 {
        let batch = start(&mut desk, number, sum(&[u128::from(number) - 1], u128::from(number)));
        assert_eq!((batch.device, &batch.parts[0].there[..]), (two, &[0][..]));
        desk.done(&batch);
    }
    assert_eq!(start(&mut desk, 9, sum(&[900], 901)).device, ONE, "no device has the input");
}

#[test]
fn one_value_that_is_both_inputs_is_kept_once() {
    let mut desk = desk();
    assert_eq!(run(&mut desk, 1, sum(&[1, 1], 2)).0, []);
    let (there, slots) = run(&mut desk, 2, sum(&[1, 1], 3));
    assert_eq!((there, &slots[..ROWS]), (vec![0, 1], &slots[ROWS..2 * ROWS]));
    desk.now += IDLE;
    assert_eq!(desk.feed_whole(Event::Tick), [Command::FreeArena { device: ONE, session: A }]);
}

#[test]
fn a_value_of_another_session_is_not_found() {
    let mut desk = desk();
    run(&mut desk, 1, sum(&[1], 2));
    desk.feed(Event::Submitted { session: B, operation: op(2), work: sum(&[1], 2), deadline: None });
    let batch = run_of(&desk.feed(loaded(B)));
    assert_eq!(batch.parts[0].there[..], []);
}
