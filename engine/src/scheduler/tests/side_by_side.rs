//! Tests of batches of several sessions in one call.

use super::*;

const D: SessionId = SessionId(4);
const ALL: [SessionId; 4] = [A, B, C, D];

/// Limits with eight bootstraps and eight keys a call; sessions do not wait for full batches.
fn wide_limits(devices: usize) -> SchedulerLimits {
    let mut limits = limits_of(KEY * ALL.len() as u64);
    limits.wait = Duration::ZERO;
    limits.devices[0].keys_together_max = 8;
    limits.devices = vec![limits.devices[0].clone(); devices];
    limits
}

/// A desk with the keys of these sessions on the first device.
fn desk(limits: SchedulerLimits, sessions: &[SessionId]) -> Desk {
    let mut desk = Desk::with(limits, &ALL);
    for (at, &session) in sessions.iter().enumerate() {
        let operation = op(1000 + at as u64);
        assert_eq!(desk.submit(session, operation, &[1; 8]), [load(session)]);
        let batch = run_of(&desk.feed(loaded(session)));
        assert_eq!(finished(&desk.done(&batch)), [operation]);
    }
    desk
}

/// The batches of the only call in these commands.
fn call_of(commands: &[Command]) -> Vec<Batch> {
    let mut calls = commands.iter().filter_map(|command| match command {
        Command::Run { device: ONE, batches } => Some(batches.clone()),
        _ => None,
    });
    let call = calls.next().unwrap_or_else(|| panic!("no call in {commands:?}"));
    assert_eq!(calls.next(), None);
    call
}

fn sessions(call: &[Batch]) -> Vec<SessionId> {
    call.iter().map(|batch| batch.session).collect()
}

/// Runs a call of eight gates of D while the other sessions submit these numbers of gates, which wait.
fn behind_a_full_batch(desk: &mut Desk, rows: [usize; 3]) -> Batch {
    let running = run_of(&desk.submit(D, op(100), &[1; 8]));
    for (at, (session, rows)) in [A, B, C].into_iter().zip(rows).enumerate() {
        assert_eq!(desk.submit(session, op(at as u64), &vec![1; rows]), []);
    }
    running
}

#[test]
fn lone_gates_of_many_sessions_run_side_by_side() {
    let mut desk = desk(SchedulerLimits { wait: WAIT, ..wide_limits(1) }, &ALL);
    let running = behind_a_full_batch(&mut desk, [1, 1, 1]);
    let call = call_of(&desk.done(&running));
    assert_eq!(sessions(&call), [A, B, C], "what gathers, too");
    assert_eq!(desk.scheduler.usage().running_rows, 3);
    assert_eq!(
        desk.submit(D, op(101), &[1; 8]),
        [],
        "the call has the device's only place until all of it is reported"
    );
    assert_eq!(finished(&desk.done(&call[1])), [op(1)]);
    assert_eq!(finished(&desk.done(&call[0])), [op(0)]);
    let commands = desk.done(&call[2]);
    assert_eq!((finished(&commands), run_of(&commands).session), (vec![op(2)], D));
}

#[test]
fn a_call_has_no_more_keys_and_rows_than_the_device_takes() {
    let mut limits = wide_limits(1);
    limits.devices[0].keys_together_max = 2;
    let mut narrow = desk(limits, &ALL);
    let running = behind_a_full_batch(&mut narrow, [1, 1, 1]);
    assert_eq!(sessions(&call_of(&narrow.done(&running))), [A, B]);

    let mut desk = desk(wide_limits(1), &ALL);
    let running = behind_a_full_batch(&mut desk, [5, 3, 1]);
    assert_eq!(sessions(&call_of(&desk.done(&running))), [A, B], "eight bootstraps");
}

#[test]
fn rows_of_one_key_are_not_scattered_over_what_others_leave() {
    let mut desk = desk(wide_limits(1), &ALL);
    let running = behind_a_full_batch(&mut desk, [5, 8, 1]);
    let call = call_of(&desk.done(&running));
    assert_eq!((sessions(&call), call[0].rows()), (vec![A], 5), "the next place is B's: nobody joins before it");
    assert_eq!(run_of(&desk.done(&call[0])).session, B);
}

#[test]
fn half_a_batch_of_a_long_queue_joins() {
    let mut desk = desk(wide_limits(1), &ALL);
    let running = behind_a_full_batch(&mut desk, [4, 20, 1]);
    let call = call_of(&desk.done(&running));
    assert_eq!(call.iter().map(Batch::rows).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn a_gate_of_two_bootstraps_does_not_join_where_one_fits() {
    let mut desk = desk(wide_limits(1), &ALL);
    let running = run_of(&desk.submit(D, op(100), &[1; 8]));
    desk.submit(A, op(0), &[1; 7]);
    desk.submit(B, op(1), &[2]);
    assert_eq!(sessions(&call_of(&desk.done(&running))), [A]);
}

#[test]
fn a_session_without_its_key_there_does_not_join_and_nobody_joins_before_it() {
    let mut limits = wide_limits(1);
    limits.devices[0].batches_in_flight_max = 2;
    let mut desk = desk(limits, &[A, B]);
    let running = [0, 1].map(|at| run_of(&desk.submit(A, op(at), &[1; 8])));
    for (at, session) in [B, C, A].into_iter().enumerate() {
        assert_eq!(desk.submit(session, op(2 + at as u64), &[1]), []);
    }
    let with_b = call_of(&desk.done(&running[0]));
    assert_eq!(sessions(&with_b), [B]);
    let commands = desk.done(&running[1]);
    assert!(commands.contains(&load(C)));
    assert_eq!(sessions(&call_of(&commands)), [A], "beside the load");
    assert_eq!(desk.submit(B, op(5), &[1]), []);
    assert_eq!(desk.feed(loaded(C)), []);
    assert_eq!(sessions(&call_of(&desk.done(&with_b[0]))), [C, B], "the next place is its own");
}

#[test]
fn batches_that_fail_together_are_one_failure_and_each_is_tried_alone() {
    let mut limits = wide_limits(2);
    limits.devices[1].resident_bytes_max = 1;
    let mut desk = desk(limits, &ALL);
    let running = behind_a_full_batch(&mut desk, [1, 1, 1]);
    let call = call_of(&desk.done(&running));
    assert_eq!(sessions(&call), [A, B, C]);
    desk.failed(&call[0]);
    desk.failed(&call[1]);
    let mut commands = desk.failed(&call[2]);
    assert_eq!(desk.scheduler.service(ONE), (true, None), "three failures would be too many");
    for _ in &call {
        let again = run_of(&commands);
        assert!(again.parts[0].retried, "what failed before rides alone");
        commands = desk.done(&again);
    }
    assert_eq!(desk.scheduler.usage().operations, 0);
}

#[test]
fn a_device_that_is_lost_with_one_batch_of_a_call_is_lost() {
    let mut desk = desk(wide_limits(1), &ALL);
    let running = behind_a_full_batch(&mut desk, [1, 1, 1]);
    let call = call_of(&desk.done(&running));
    desk.failed(&call[0]);
    let commands = desk.feed(Event::BatchFailed { batch: call[1].id, failure: smoke(Cause::Lost) });
    assert!(commands.contains(&Command::Retire(ONE)), "{commands:?}");
}

#[test]
fn an_idle_device_is_used_before_another_is_shared() {
    let mut desk = desk(wide_limits(2), &[A, B]);
    assert_eq!(run_of(&desk.submit(A, op(1), &[1])).device, ONE);
    assert_eq!(
        desk.submit(B, op(2), &[1]),
        [Command::Load { device: DeviceId(1), session: B, parts: vec![key_of(B)] }]
    );
}
