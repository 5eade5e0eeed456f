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
        let mut opening = opening(session, 10, vec![0]);
        let Event::Opened { device_bytes, .. } = &mut opening else { unreachable!() };
        *device_bytes = vec![PARTS.to_vec()];
        assert_eq!(desk.feed(opening), []);
    }
    desk
}

fn parts(of: &[u32]) -> Vec<PartId> {
    of.iter().copied().map(PartId).collect()
}

fn prepared(session: SessionId, of: &[u32]) -> Vec<Prepared> {
    parts(of).into_iter().map(|part| Prepared::Part(session, part)).collect()
}

/// Submits a list of eight rows that need these parts of the key.
fn submit(desk: &mut Desk, session: SessionId, operation: OperationId, key: &[u32]) -> Vec<Command> {
    let work = Work { key: parts(key), ..list(&[1; 8]) };
    desk.feed(Event::Submitted { session, operation, work, deadline: None })
}

fn load_of(session: SessionId, of: &[u32]) -> Command {
    Command::Load { device: ONE, session, parts: prepared(session, of) }
}

fn evict_of(session: SessionId, part: u32) -> Command {
    Command::Evict { device: ONE, part: Prepared::Part(session, PartId(part)) }
}

fn evicted_of(session: SessionId, part: u32) -> Event {
    Event::Evicted { device: ONE, part: Prepared::Part(session, PartId(part)) }
}

#[test]
fn what_of_a_set_is_not_there_is_loaded_and_a_batch_pins_the_set() {
    let mut desk = desk(&[A]);
    assert_eq!(submit(&mut desk, A, op(1), &[0]), [load_of(A, &[0])]);
    let batch = run_of(&desk.feed(loaded(A)));
    assert_eq!(batch.key, prepared(A, &[0]));
    desk.done(&batch);
    assert_eq!(submit(&mut desk, A, op(2), &[0, 2]), [load_of(A, &[2])]);
    assert_eq!(run_of(&desk.feed(loaded(A))).key, prepared(A, &[0, 2]));
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
    assert_eq!((operations(&third), third.key), (vec![(op(3), 1), (op(4), 1)], prepared(A, &[0, 1])));
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
            if let Command::Evict { part, .. } = command {
                desk.feed(Event::Evicted { device: ONE, part });
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
    assert_eq!(desk.feed(evicted_of(A, 0)), []);
    assert_eq!(desk.feed(loaded(A)), [evict_of(A, 1)]);
    assert_eq!(desk.feed(evicted_of(A, 1)), [Command::Erase(A)]);
}

#[test]
fn every_part_is_erased_when_the_session_closes() {
    let mut desk = desk(&[A]);
    submit(&mut desk, A, op(1), &[0, 1]);
    let batch = run_of(&desk.feed(loaded(A)));
    desk.done(&batch);
    assert_eq!(desk.feed(Event::Closed(A)), [evict_of(A, 0), evict_of(A, 1)]);
    assert_eq!(desk.feed(evicted_of(A, 1)), []);
    assert_eq!(desk.feed(evicted_of(A, 0)), [Command::Erase(A)]);
}

/// The parameter set of the sessions of [`sharing`].
const PARAMS: ParamsId = ParamsId(7);

/// A scheduler with sessions whose keys are of one parameter set: part 0 is the tables of the set.
fn sharing(sessions: &[SessionId]) -> Desk {
    let mut desk = desk(&[]);
    for &session in sessions {
        let mut opening = opening(session, 10, vec![0]);
        let Event::Opened { device_bytes, tables, .. } = &mut opening else { unreachable!() };
        (*device_bytes, *tables) = (vec![PARTS.to_vec()], Some(PARAMS));
        assert_eq!(desk.feed(opening), []);
    }
    desk
}

/// Runs an operation that needs the tables and another part of the session's key. Both are on the device afterwards.
fn use_tables(desk: &mut Desk, session: SessionId, operation: OperationId, part: u32) -> Vec<Command> {
    let commands = submit(desk, session, operation, &[part, 0]);
    let batch = run_of(&desk.feed(loaded(session)));
    assert_eq!(finished(&desk.done(&batch)), [operation]);
    commands
}

const EVICT_TABLES: Command = Command::Evict { device: ONE, part: Prepared::Tables(PARAMS) };

#[test]
fn sessions_of_one_parameter_set_share_its_tables() {
    let mut desk = sharing(&[A, B]);
    let parts = vec![Prepared::Tables(PARAMS), Prepared::Part(A, PartId(1))];
    assert_eq!(use_tables(&mut desk, A, op(1), 1), [Command::Load { device: ONE, session: A, parts }]);
    assert_eq!(use_tables(&mut desk, B, op(2), 2), [load_of(B, &[2])], "the tables are there");
    assert_eq!(desk.scheduler.usage().resident_bytes, 60 + 60 + 30, "the tables count once");
}

#[test]
fn the_last_session_of_a_parameter_set_takes_the_tables_with_it() {
    let mut desk = sharing(&[A, B]);
    use_tables(&mut desk, A, op(1), 1);
    use_tables(&mut desk, B, op(2), 2);
    assert_eq!(desk.feed(Event::Closed(A)), [evict_of(A, 1)]);
    assert_eq!(desk.feed(evicted_of(A, 1)), [Command::Erase(A)]);
    assert_eq!(desk.feed(Event::Closed(B)), [evict_of(B, 2), EVICT_TABLES]);
    assert_eq!(desk.feed(evicted_of(B, 2)), []);
    let tables = Event::Evicted { device: ONE, part: Prepared::Tables(PARAMS) };
    assert_eq!(desk.feed(tables), [Command::Erase(B)]);
    assert_eq!(desk.scheduler.usage().resident_bytes, 0);
}

#[test]
fn a_session_that_closes_while_the_tables_are_evicted_waits_only_if_it_is_the_last() {
    for last in [true, false] {
        let mut desk = sharing(if last { &[A] } else { &[A, B] });
        use_tables(&mut desk, A, op(1), 1);
        // the whole device is needed by another session, so everything of A is evicted
        desk.feed(opening(C, 10, vec![200]));
        assert_eq!(submit(&mut desk, C, op(2), &[0]), [evict_of(A, 1), EVICT_TABLES, load(C)]);
        desk.feed(Event::Closed(A));
        let erased = desk.feed(evicted_of(A, 1));
        assert_eq!(erased.is_empty(), last);
        let tables = Event::Evicted { device: ONE, part: Prepared::Tables(PARAMS) };
        assert_eq!(desk.feed(tables), if last { vec![Command::Erase(A)] } else { vec![] });
    }
}

#[test]
fn a_session_is_not_erased_while_its_batch_runs_with_shared_tables_alone() {
    let mut desk = sharing(&[A, B]);
    let work = submit(&mut desk, A, op(1), &[0]);
    let parts = vec![Prepared::Tables(PARAMS)];
    assert_eq!(work, [Command::Load { device: ONE, session: A, parts }]);
    assert_eq!(desk.feed(Event::Closed(A)), [ends(op(1), Error::Gone)], "the load is under way");
    assert_eq!(desk.feed(loaded(A)), [Command::Erase(A)]);
    let batch = run_of(&submit(&mut desk, B, op(2), &[0]));
    desk.feed(opening(C, 10, vec![200]));
    let Event::Opened { session, account, weight, unit_costs, host_bytes, slot_kind, .. } = opening(A, 10, vec![0])
    else {
        unreachable!()
    };
    let (device_bytes, tables) = (vec![PARTS.to_vec()], Some(PARAMS));
    desk.feed(Event::Opened { session, account, weight, unit_costs, tables, host_bytes, device_bytes, slot_kind });
    assert_eq!(desk.feed(Event::Closed(B)), [], "the batch runs");
    let commands = desk.done(&batch);
    assert_eq!(commands.last(), Some(&Command::Erase(B)));
    assert_eq!(desk.scheduler.usage().resident_bytes, 60, "the tables stay for A");
}
