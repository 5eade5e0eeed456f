//! Tests of arenas that are kept for a session's next request.

use super::*;

const IDLE: Duration = Duration::from_secs(5);
/// Slots of eight gates: two operands and a result each. A slot takes one byte.
const BATCH_SLOTS: usize = 24;

fn free(session: SessionId) -> Command {
    Command::FreeArena { device: ONE, session }
}

/// A desk whose device holds the keys of these sessions and no arena.
fn desk(sessions: &[SessionId]) -> Desk {
    let mut limits = limits_of(KEY * sessions.len() as u64);
    limits.arena_idle = IDLE;
    let mut desk = Desk::with(limits, sessions);
    for (at, &session) in sessions.iter().enumerate() {
        desk.submit(session, op(1000 + at as u64), &[1; 8]);
        let batch = run_of(&desk.feed(loaded(session)));
        desk.done(&batch);
    }
    desk.now += IDLE;
    desk.feed(Event::Tick);
    assert_eq!(desk.scheduler.usage().arena_bytes, 0);
    desk
}

/// Runs a batch of eight gates.
fn run(desk: &mut Desk, session: SessionId, operation: OperationId) -> Vec<Command> {
    let batch = run_of(&desk.submit(session, operation, &[1; 8]));
    assert_eq!(batch.arena_slots, BATCH_SLOTS);
    let commands = desk.feed_whole(Event::BatchDone(batch.id));
    assert_eq!(finished(&commands), [operation]);
    commands
}

#[test]
fn an_arena_stays_for_the_next_request_and_is_given_back_when_its_time_is_over() {
    let mut desk = desk(&[A]);
    assert_eq!(run(&mut desk, A, op(1)).len(), 1, "nothing is given back");
    assert_eq!(desk.scheduler.next_wake(), Some(desk.now + IDLE));
    assert_eq!(desk.scheduler.usage().arena_bytes, BATCH_SLOTS as u64);
    desk.now += IDLE / 2;
    assert_eq!(run(&mut desk, A, op(2)).len(), 1, "the same arena serves");
    assert_eq!(desk.scheduler.next_wake(), Some(desk.now + IDLE), "its time begins again");
    desk.now += IDLE;
    assert_eq!(desk.feed_whole(Event::Tick), [free(A)]);
    assert_eq!((desk.scheduler.next_wake(), desk.scheduler.usage().arena_bytes), (None, 0));
}

#[test]
fn an_arena_for_lists_doubles_up_to_what_their_batches_may_need() {
    let mut desk = desk(&[A]);
    let sizes = (1..=8).map(|rows| {
        let batch = run_of(&desk.submit(A, op(rows as u64), &vec![1; rows]));
        desk.done(&batch);
        batch.arena_slots
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [3, 6, 12, 12, BATCH_SLOTS, BATCH_SLOTS, BATCH_SLOTS, BATCH_SLOTS]);
}

#[test]
fn a_kept_arena_is_given_back_when_its_session_closes() {
    let mut desk = desk(&[A]);
    run(&mut desk, A, op(1));
    assert_eq!(desk.feed_whole(Event::Closed(A)), [free(A), evict(A)]);
    assert_eq!(desk.feed_whole(evicted(A)), [Command::Erase(A)]);
    assert_eq!(desk.scheduler.next_wake(), None);
}

#[test]
fn a_kept_arena_is_given_back_when_its_key_makes_room_for_another() {
    let mut desk = desk(&[A]);
    run(&mut desk, A, op(1));
    desk.open(B, 10);
    let work = list(&[1; 8]);
    let submitted = Event::Submitted { session: B, operation: op(2), work, deadline: None };
    assert_eq!(desk.feed_whole(submitted), [free(A), evict(A), load(B)]);
}

#[test]
fn kept_arenas_are_given_back_when_the_device_is_out_of_memory() {
    let mut desk = desk(&[A, B]);
    run(&mut desk, A, op(1));
    let batch = run_of(&desk.submit(B, op(2), &[1; 8]));
    let failure = smoke(Cause::OutOfMemory);
    let commands = desk.feed_whole(Event::BatchFailed { batch: batch.id, failure });
    assert_eq!(commands[..2], [free(A), evict(A)]);
    assert_eq!(run_of(&commands).session, B);
}

#[test]
fn kept_arenas_take_a_quarter_of_the_arenas_memory_at_most_and_the_oldest_goes_first() {
    let sessions: Vec<_> = (1..=12).map(SessionId).collect();
    let mut desk = desk(&sessions);
    // kept arenas may take 250 bytes together, enough for ten arenas of 24 bytes but not for eleven
    for (at, &session) in sessions[..10].iter().enumerate() {
        desk.now += Duration::from_millis(1);
        assert_eq!(run(&mut desk, session, op(at as u64)).len(), 1);
    }
    assert_eq!(run(&mut desk, sessions[10], op(10))[1..], [free(sessions[0])]);
    assert_eq!(desk.scheduler.usage().arena_bytes, 240);
}

#[test]
fn a_device_that_retires_is_not_told_of_the_arenas_it_kept() {
    let mut desk = desk(&[A, B]);
    run(&mut desk, A, op(1));
    let batch = run_of(&desk.submit(B, op(2), &[1; 8]));
    let commands = desk.feed_whole(Event::BatchFailed { batch: batch.id, failure: smoke(Cause::Lost) });
    assert_eq!(commands[0], Command::Retire(ONE));
    assert!(!commands.contains(&free(A)), "{commands:?}");
    desk.feed(Event::Retired(ONE));
    assert_eq!(desk.scheduler.next_wake(), None);
}
