//! Tests of circuits, arenas and several devices.

use super::*;
use crate::scheduler::Levels;

const TWO: DeviceId = DeviceId(1);

fn load_on_two(session: SessionId) -> Command {
    Command::Load { device: TWO, session, parts: vec![key_of(session)] }
}

/// A circuit with levels of these widths. A slot takes a byte; the device keeps 24 slots for gates.
pub(super) fn circuit(widths: &[usize], slots: usize) -> Work {
    let ends: Vec<usize> = widths
        .iter()
        .scan(0, |end, width| {
            *end += width;
            Some(*end)
        })
        .collect();
    let levels = Levels { ends, slots, host_bytes: 1, ..Levels::default() };
    Work { units: vec![1; widths.iter().sum()], key: vec![KEY_PART], form: Form::Circuit(levels) }
}

/// A desk whose first device holds the key of A. A second device, if any, does not.
fn desk(devices: usize) -> Desk {
    let mut limits = limits();
    limits.devices = vec![limits.devices[0].clone(); devices];
    let mut desk = Desk::with(limits, &[A]);
    desk.submit(A, op(1000), &[1; 8]);
    let batch = run_of(&desk.feed(loaded(A)));
    assert_eq!(finished(&desk.done(&batch)), [op(1000)]);
    desk
}

fn submit(desk: &mut Desk, operation: OperationId, work: Work) -> Vec<Command> {
    desk.feed_whole(Event::Submitted { session: A, operation, work, deadline: None })
}

fn fail(desk: &mut Desk, batch: &Batch, cause: Cause) -> Vec<Command> {
    desk.feed_whole(Event::BatchFailed { batch: batch.id, failure: smoke(cause) })
}

#[test]
fn levels_run_in_order_and_the_last_part_brings_the_outputs() {
    let mut desk = desk(1);
    let first = run_of(&submit(&mut desk, op(1), circuit(&[10, 1], 5)));
    let second = run_of(&desk.done(&first));
    let third = run_of(&desk.done(&second));
    let parts = [&first, &second, &third].map(|batch| (batch.parts[0].rows.clone(), batch.parts[0].completes));
    assert_eq!(parts, [(0..8, false), (8..10, false), (10..11, true)]);
    assert_eq!((first.arena_slots, &first.parts[0].slots), (5, &third.parts[0].slots));
    let commands = desk.feed_whole(Event::BatchDone(third.id));
    assert_eq!(finished(&commands), [op(1)]);
    assert_eq!(commands[1..], [Command::FreeArena { device: ONE, session: A }]);
    assert_eq!(desk.scheduler.usage().arena_bytes, 0);
}

#[test]
fn a_level_is_given_while_the_one_before_runs_if_the_device_takes_two_calls() {
    let mut limits = limits();
    limits.devices[0].batches_in_flight_max = 2;
    let mut desk = Desk::with(limits, &[A]);
    submit(&mut desk, op(1), circuit(&[3, 2, 1], 5));
    let rows = |batch: &Batch| (batch.parts[0].rows.clone(), batch.parts[0].completes);
    let commands = desk.feed(loaded(A));
    let [first, second] = [0, 1].map(|at| run_of(&commands[at..=at]));
    assert_eq!([&first, &second].map(rows), [(0..3, false), (3..5, false)]);
    let third = run_of(&desk.done(&first));
    assert_eq!(rows(&third), (5..6, true));
    // all rows have started, so the circuit cannot be stopped any more
    assert_eq!(desk.feed(Event::Cancelled(op(1))), []);
    assert_eq!(finished(&desk.done(&second)), []);
    assert_eq!(finished(&desk.done(&third)), [op(1)]);
}

/// A desk that gives windows of 2 ms. Its device has the key of A and has run levels of one row, each in 0.5 ms.
fn desk_of_windows() -> Desk {
    let mut limits = limits();
    limits.window = Duration::from_millis(2);
    let mut desk = Desk::with(limits, &[A]);
    submit(&mut desk, op(1000), circuit(&[1; 15], 5));
    let mut batch = run_of(&desk.feed(loaded(A)));
    let mut rows = Vec::new();
    loop {
        rows.push(batch.rows());
        desk.now += Duration::from_micros(500) * batch.rows() as u32;
        let commands = desk.feed(Event::BatchDone(batch.id));
        if finished(&commands) == [op(1000)] {
            break;
        }
        batch = run_of(&commands);
    }
    assert_eq!(rows, [1, 2, 4, 4, 4], "calls double until they fill the window");
    desk
}

#[test]
fn a_window_of_levels_that_fails_counts_as_not_done() {
    let mut desk = desk_of_windows();
    let first = run_of(&submit(&mut desk, op(1), circuit(&[1, 1, 2, 1, 1], 5)));
    // a level of two rows is expected to take twice as long as a level of one row
    assert_eq!((first.parts[0].rows.clone(), first.parts[0].completes), (0..4, false));
    desk.now += Duration::from_millis(2);
    let second = run_of(&desk.done(&first));
    assert_eq!((second.parts[0].rows.clone(), second.parts[0].completes), (4..6, true));
    let commands = fail(&mut desk, &second, Cause::Device);
    assert_eq!((&commands[0], run_of(&commands).parts[0].rows.start), (&Command::Restart(op(1)), 0));
}

#[test]
fn a_session_that_closes_in_a_window_is_erased_when_the_window_has_run() {
    let mut desk = desk_of_windows();
    let window = run_of(&submit(&mut desk, op(1), circuit(&[1; 9], 5)));
    assert_eq!(window.rows(), 4);
    assert_eq!(desk.feed(Event::Closed(A)), [ends(op(1), Error::Gone)]);
    assert_eq!(desk.done(&window), [evict(A)]);
    assert_eq!(desk.feed(evicted(A)), [Command::Erase(A)]);
}

#[test]
fn a_window_has_no_more_rows_than_a_batch() {
    let mut desk = desk_of_windows();
    desk.scheduler.limits.window = Duration::from_secs(1);
    let window = run_of(&submit(&mut desk, op(1), circuit(&[1; 20], 5)));
    assert_eq!(window.rows(), 8);
}

#[test]
fn slots_of_a_cancelled_circuit_are_held_until_its_rows_have_run() {
    let mut desk = desk(1);
    let batch = run_of(&submit(&mut desk, op(1), circuit(&[8, 8], 5)));
    assert_eq!(desk.feed_whole(Event::Cancelled(op(1))), [ends(op(1), Error::Cancelled)]);
    assert_eq!(desk.scheduler.usage().arena_bytes, 5);
    let free = Command::FreeArena { device: ONE, session: A };
    assert_eq!(desk.feed_whole(Event::BatchDone(batch.id)), [free]);
}

#[test]
fn a_circuit_in_its_last_batch_cannot_be_stopped() {
    let mut desk = desk(1);
    let batch = run_of(&submit(&mut desk, op(1), circuit(&[8], 5)));
    assert_eq!(desk.feed(Event::Cancelled(op(1))), []);
    assert_eq!(finished(&desk.done(&batch)), [op(1)]);
}

#[test]
fn room_is_promised_to_a_circuit_before_it_begins() {
    let mut desk = desk(1);
    submit(&mut desk, op(1), circuit(&[8, 8], 500));
    assert_eq!(submit(&mut desk, op(2), circuit(&[8, 8], 400)), []);
    let refused = submit(&mut desk, op(3), circuit(&[8, 8], 77));
    assert!(matches!(refused[..], [Command::Refuse { error: Error::Busy { .. }, .. }]), "{refused:?}");
    assert_eq!(submit(&mut desk, op(4), circuit(&[8, 8], 76)), []);
    let error = Error::CircuitTooLarge { of: crate::CircuitBound::DeviceBytes, needed: 1001, max: 1000 };
    assert_eq!(submit(&mut desk, op(5), circuit(&[8], 977)), [Command::Refuse { operation: op(5), error }]);
}

#[test]
fn a_circuit_stays_on_its_device_and_gates_go_to_the_idle_one() {
    let mut desk = desk(2);
    let first = run_of(&submit(&mut desk, op(1), circuit(&[8, 8], 5)));
    assert_eq!(desk.submit(A, op(2), &[1; 8]), [load_on_two(A)]);
    let gates = run_of(&desk.feed(Event::Loaded { device: TWO, session: A }));
    assert_eq!((first.device, gates.device), (ONE, TWO));
    desk.submit(A, op(3), &[1; 8]);
    let commands = desk.done(&gates);
    assert_eq!((finished(&commands), run_of(&commands).device), (vec![op(2)], TWO));
    let second = run_of(&desk.done(&first));
    assert_eq!((second.device, operations(&second)), (ONE, vec![(op(1), 8)]));
}

#[test]
fn a_circuit_that_has_not_begun_moves_to_the_device_that_is_idle() {
    let mut desk = desk(2);
    let first = run_of(&submit(&mut desk, op(1), circuit(&[8, 8], 5)));
    assert_eq!(submit(&mut desk, op(2), circuit(&[8], 5)), [load_on_two(A)]);
    let moved = run_of(&desk.feed(Event::Loaded { device: TWO, session: A }));
    assert_eq!((first.device, moved.device, operations(&moved)), (ONE, TWO, vec![(op(2), 8)]));
}

#[test]
fn a_lost_device_retires_and_its_circuit_begins_anew_elsewhere_once() {
    let mut desk = desk(2);
    let first = run_of(&submit(&mut desk, op(1), circuit(&[8, 8], 5)));
    let second = run_of(&desk.done(&first));
    let anew = [Command::Retire(ONE), Command::Restart(op(1)), load_on_two(A)];
    assert_eq!(fail(&mut desk, &second, Cause::Lost), anew);
    assert_eq!(desk.scheduler.service(ONE), (false, Some("smoke".into())));
    assert_eq!(desk.feed(Event::Retired(ONE)), []);
    let again = run_of(&desk.feed(Event::Loaded { device: TWO, session: A }));
    assert_eq!((again.device, again.parts[0].rows.clone()), (TWO, 0..8));
    assert_eq!(fail(&mut desk, &again, Cause::Device)[0], ends(op(1), Error::Device("smoke".into())));
}

#[test]
fn rows_that_still_run_come_back_before_a_circuit_begins_anew() {
    let mut limits = limits();
    limits.devices[0].batches_in_flight_max = 2;
    let mut desk = Desk::with(limits, &[A]);
    submit(&mut desk, op(1), circuit(&[16], 5));
    let commands = desk.feed(loaded(A));
    let [first, second] = [0, 1].map(|at| run_of(&commands[at..=at]));
    assert_eq!(fail(&mut desk, &first, Cause::Device), []);
    let commands = desk.done(&second);
    assert_eq!(commands[0], Command::Restart(op(1)));
    assert!(matches!(commands[1..], [Command::Run { .. }, Command::Run { .. }]), "{commands:?}");
}

#[test]
fn a_stand_in_gets_work_when_the_last_of_the_others_is_lost() {
    let mut limits = limits();
    limits.devices.push(DeviceLimits { stand_in: true, ..limits.devices[0].clone() });
    let mut desk = Desk::with(limits, &[A]);
    desk.submit(A, op(1), &[1; 8]);
    let batch = run_of(&desk.feed(loaded(A)));
    assert!(!desk.scheduler.service(TWO).0);
    let commands = fail(&mut desk, &batch, Cause::Lost);
    assert_eq!(commands, [Command::Retire(ONE), load_on_two(A)]);
    let usage = desk.scheduler.usage();
    assert_eq!((usage.devices_in_service, usage.devices_lost), (1, 1));
}

#[test]
fn a_stand_in_has_the_sessions_whose_key_no_other_device_holds() {
    let mut limits = limits();
    limits.devices.push(DeviceLimits { stand_in: true, ..limits.devices[0].clone() });
    let mut desk = Desk::with(limits, &[A]);
    // u64::MAX is the size that a card reports for a CKKS key
    assert_eq!(desk.feed(opening(B, 10, vec![u64::MAX, KEY])), []);
    desk.submit(A, op(1), &[1; 8]);
    let on_card = run_of(&desk.feed(loaded(A)));
    let commands = desk.submit(B, op(2), &[1; 8]);
    assert_eq!(commands, [load_on_two(B)], "beside what the card computes");
    let beside = run_of(&desk.feed(Event::Loaded { device: TWO, session: B }));
    assert_eq!((on_card.device, beside.device), (ONE, TWO));
    // work under keys that the card can hold waits for the card
    assert_eq!(desk.submit(A, op(3), &[1; 8]), []);
    assert_eq!(finished(&desk.done(&beside)), [op(2)]);
    let next = desk.done(&on_card);
    assert_eq!(finished(&next), [op(1)]);
    let runs = next.iter().filter(|command| matches!(command, Command::Run { device: ONE, .. }));
    assert_eq!(runs.count(), 1, "{next:?}");
    assert_eq!(desk.scheduler.usage().devices_in_service, 1);
    // a key that no device can hold is refused
    let refused = desk.feed(opening(C, 10, vec![u64::MAX, u64::MAX]));
    assert!(matches!(refused[..], [Command::RefuseSession { error: Error::KeyTooLarge { .. }, .. }]), "{refused:?}");
}

#[test]
fn four_circuits_of_a_million_gates_of_one_session_leave_room_for_others() {
    let config = crate::Config::default();
    let mut limits = limits();
    (limits.circuit_rows_max, limits.circuit_bytes_max) = (config.circuit_rows_max, config.circuit_bytes_max);
    limits.session_circuit_rows_max = config.session_circuit_rows_max;
    limits.session_circuit_bytes_max = config.session_circuit_bytes_max;
    let mut desk = Desk::with(limits, &[A, B]);
    let circuit = |rows, host_bytes| Work {
        units: vec![1; rows],
        key: vec![KEY_PART],
        form: Form::Circuit(Levels { ends: vec![rows], slots: 5, host_bytes, ..Levels::default() }),
    };
    let mut submit = |session, number, work| {
        let commands = desk.feed(Event::Submitted { session, operation: op(number), work, deadline: None });
        commands.iter().any(|command| matches!(command, Command::Refuse { error: Error::Busy { .. }, .. }))
    };
    let refused = [1, 2, 3, 4].map(|number| submit(A, number, circuit(crate::GATES_MAX, 1)));
    assert_eq!(refused, [false, true, true, true]);
    let refused = [5, 6, 7, 8].map(|number| submit(B, number, circuit(1, config.session_circuit_bytes_max / 2)));
    assert_eq!(refused, [false, false, true, true], "bytes likewise");
    assert!(submit(A, 9, circuit(1, 1)), "its gates are given back when they end");
    desk.feed(Event::Cancelled(op(1)));
    let again = Event::Submitted { session: A, operation: op(10), work: circuit(9, 1), deadline: None };
    assert!(!desk.feed(again).iter().any(|command| matches!(command, Command::Refuse { .. })));
}
