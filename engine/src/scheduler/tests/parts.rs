//! Tests of sessions whose keys have several parts, where each operation needs only some of the parts.

use super::*;

/// Sizes of the parts of a key, in bytes. 200 bytes fit on the device.
const PARTS: [u64; 3] = [60, 60, 30];

fn desk(sessions: &[SessionId]) -> Desk {
    desk_of(200, sessions)
}

fn desk_of(resident_bytes_max: u64, sessions: &[SessionId]) -> Desk {
    let limits = SchedulerLimits { wait: Duration::ZERO, ..limits_of(resident_bytes_max) };
    let mut desk = Desk::with(limits, &[]);
    for &session in sessions {
        let Event::Opened { account, weight, unit_cost, host_bytes, slot_bytes, .. } = opening(session, 10, vec![])
        else {
            unreachable!()
        };
        let device_bytes = vec![PARTS.to_vec()];
        let opened = Event::Opened { session, account, weight, unit_cost, host_bytes, device_bytes, slot_bytes };
        assert_eq!(desk.feed(opened), []);
    }
    desk
}

fn parts(of: &[u32]) -> Vec<PartId> {
    of.iter().copied().map(PartId).collect()
}

/// Submits a list of eight rows that need these parts of the key.
fn submit(desk: &mut Desk, session: SessionId, operation: OperationId, key: &[u32]) -> Vec<Command> {
    let work = Work { key: parts(key), ..list(&[1; 8]) };
    desk.feed(Event::Submitted { session, operation, work, deadline: None })
}

fn load_of(session: SessionId, of: &[u32]) -> Command {
    Command::Load { device: ONE, session, parts: parts(of) }
}

fn evict_of(session: SessionId, part: u32) -> Command {
    Command::Evict { device: ONE, session, part: PartId(part) }
}

#[test]
fn what_of_a_set_is_not_there_is_loaded_and_a_batch_pins_the_set() {
    let mut desk = desk(&[A]);
    assert_eq!(submit(&mut desk, A, op(1), &[0]), [load_of(A, &[0])]);
    let batch = run_of(&desk.feed(loaded(A)));
    assert_eq!(batch.key, parts(&[0]));
    desk.done(&batch);
    assert_eq!(submit(&mut desk, A, op(2), &[0, 2]), [load_of(A, &[2])]);
    assert_eq!(run_of(&desk.feed(loaded(A))).key, parts(&[0, 2]));
    assert_eq!(desk.scheduler.usage().resident_bytes, 90);
}

#[test]
fn rows_whose_parts_are_not_there_wait_for_them_and_those_behind_wait_too() {
    let mut desk = desk(&[A]);
    submit(&mut desk, A, op(1), &[0]);
    let running = run_of(&desk.feed(loaded(A)));
    for (operation, key) in [(2, 0), (3, 1), (4, 0)] {
        let work = Work { key: parts(&[key]), ..list(&[1]) };
        desk.feed(Event::Submitted { session: A, operation: op(operation), work, deadline: None });
    }
    let second = run_of(&desk.done(&running));
    assert_eq!(operations(&second), [(op(2), 1)]);
    assert_eq!(desk.done(&second).last(), Some(&load_of(A, &[1])));
    let third = run_of(&desk.feed(loaded(A)));
    assert_eq!((operations(&third), third.key), (vec![(op(3), 1), (op(4), 1)], parts(&[0, 1])));
}

#[test]
fn a_set_makes_room_for_itself_and_keeps_what_it_has() {
    let mut desk = desk(&[A, B]);
    submit(&mut desk, A, op(1), &[0]);
    let batch = run_of(&desk.feed(loaded(A)));
    desk.done(&batch);
    submit(&mut desk, B, op(2), &[0, 1]);
    let batch = run_of(&desk.feed(loaded(B)));
    desk.done(&batch);
    // 180 of 200 bytes are in use. A's part is the least recently used, but is not evicted, because the set needs it.
    let commands = submit(&mut desk, A, op(3), &[0, 1]);
    assert_eq!(commands, [evict_of(B, 0), load_of(A, &[1])]);
}

#[test]
fn a_set_that_never_fits_is_refused_where_it_is_asked_for() {
    let mut desk = desk_of(149, &[A]);
    let error = Error::KeyTooLarge { bytes: 150, bytes_max: 149 };
    assert_eq!(submit(&mut desk, A, op(1), &[0, 1, 2]), [Command::Refuse { operation: op(1), error }]);
    assert_eq!(submit(&mut desk, A, op(2), &[0, 1]), [load_of(A, &[0, 1])]);
}

#[test]
fn two_sessions_whose_sets_do_not_fit_together_take_turns() {
    let mut desk = desk(&[A, B]);
    for operation in 0..20 {
        submit(&mut desk, A, op(operation), &[0, 1]);
        submit(&mut desk, B, op(100 + operation), &[0, 1]);
    }
    let mut turns = Vec::new();
    let mut commands = desk.feed(loaded(A));
    while turns.len() < 40 {
        for command in commands.clone() {
            if let Command::Evict { session, part, .. } = command {
                desk.feed(Event::Evicted { device: ONE, session, part });
            }
        }
        commands = match commands.last() {
            Some(&Command::Load { session, .. }) => desk.feed(loaded(session)),
            _ => {
                let batch = run_of(&commands);
                turns.push(batch.session);
                desk.done(&batch)
            }
        };
    }
    assert!(turns.chunks(2).all(|pair| pair.contains(&A) && pair.contains(&B)), "{turns:?}");
}

#[test]
fn what_is_there_of_a_set_goes_when_the_session_closes_and_not_when_its_load_ends() {
    let mut desk = desk(&[A]);
    submit(&mut desk, A, op(1), &[0]);
    let batch = run_of(&desk.feed(loaded(A)));
    desk.done(&batch);
    assert_eq!(submit(&mut desk, A, op(2), &[0, 1]), [load_of(A, &[1])]);
    assert_eq!(desk.feed(Event::Closed(A)), [ends(op(2), Error::Gone), evict_of(A, 0)]);
    assert_eq!(desk.feed(Event::Evicted { device: ONE, session: A, part: PartId(0) }), []);
    assert_eq!(desk.feed(loaded(A)), [evict_of(A, 1)]);
    assert_eq!(desk.feed(Event::Evicted { device: ONE, session: A, part: PartId(1) }), [Command::Erase(A)]);
}

#[test]
fn every_part_is_erased_when_the_session_closes() {
    let mut desk = desk(&[A]);
    submit(&mut desk, A, op(1), &[0, 1]);
    let batch = run_of(&desk.feed(loaded(A)));
    desk.done(&batch);
    assert_eq!(desk.feed(Event::Closed(A)), [evict_of(A, 0), evict_of(A, 1)]);
    assert_eq!(desk.feed(Event::Evicted { device: ONE, session: A, part: PartId(1) }), []);
    assert_eq!(desk.feed(Event::Evicted { device: ONE, session: A, part: PartId(0) }), [Command::Erase(A)]);
}
