//! Each test checks one situation. `tests/engine/sim` simulates long runs with many failures.

mod arenas;
mod aside;
mod circuits;
mod parts;
mod side_by_side;
mod values;
mod watchdog;

use std::time::Duration;

use super::{Cause, Command, DeviceLimits, Event, Failure, Finished, Form, Scheduler, SchedulerLimits, SlotKind, Work};
use crate::batch::Batch;
use crate::error::Error;
use crate::ids::{AccountId, BatchId, DeviceId, OperationId, ParamsId, PartId, Prepared, SessionId};

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const C: SessionId = SessionId(3);

const KEY: u64 = 100;
const KEY_PART: PartId = PartId(0);
const WAIT: Duration = Duration::from_micros(200);
const SILENCE: Duration = Duration::from_secs(60);

fn op(number: u64) -> OperationId {
    OperationId(number)
}

/// Slots of a byte.
const SLOTS: SlotKind = SlotKind { bytes: 1, for_lists: true };

/// The only device.
const ONE: DeviceId = DeviceId(0);

/// Limits under which two keys fit on the device, and a batch has at most eight bootstraps.
fn limits() -> SchedulerLimits {
    limits_of(2 * KEY)
}

fn limits_of(resident_bytes_max: u64) -> SchedulerLimits {
    SchedulerLimits {
        queue_rows_max: 3000,
        session_rows_max: 1024,
        wait: WAIT,
        window: Duration::ZERO,
        arena_idle: Duration::ZERO,
        key_bytes_max: 1000,
        circuit_rows_max: 100,
        circuit_bytes_max: 100,
        session_circuit_rows_max: 100,
        session_circuit_bytes_max: 100,
        silence_max: SILENCE,
        devices: vec![DeviceLimits {
            batch_units_max: 8,
            batches_in_flight_max: 1,
            keys_together_max: 1,
            resident_bytes_max,
            arena_bytes_max: 1000,
            stand_in: false,
        }],
    }
}

/// The only part of a session's key.
fn key_of(session: SessionId) -> Prepared {
    Prepared::Part(session, KEY_PART)
}

fn load(session: SessionId) -> Command {
    Command::Load { device: ONE, session, parts: vec![key_of(session)] }
}

fn evict(session: SessionId) -> Command {
    Command::Evict { device: ONE, part: key_of(session) }
}

fn loaded(session: SessionId) -> Event {
    Event::Loaded { device: ONE, session }
}

fn evicted(session: SessionId) -> Event {
    Event::Evicted { device: ONE, part: key_of(session) }
}

fn smoke(cause: Cause) -> Failure {
    Failure { cause, reason: "smoke".into() }
}

/// The event that opens a session of weight 1 in a separate account.
fn opening(session: SessionId, host_bytes: u64, device_bytes: Vec<u64>) -> Event {
    let device_bytes: Vec<_> = device_bytes.into_iter().map(|bytes| vec![bytes]).collect();
    let (account, unit_costs) = (AccountId(u128::from(session.0)), vec![32; device_bytes.len()]);
    let tables = None;
    Event::Opened { session, account, weight: 1, unit_costs, tables, host_bytes, device_bytes, slot_kind: SLOTS }
}

/// A list whose rows have these numbers of units.
fn list(units: &[u32]) -> Work {
    let slots = units.iter().map(|units| units + 2).collect();
    Work { units: units.to_vec(), key: vec![KEY_PART], form: Form::List { slots } }
}

/// A scheduler with a manual clock.
struct Desk {
    scheduler: Scheduler,
    now: Duration,
}

impl Desk {
    /// A desk with open sessions of weight 1.
    fn with(limits: SchedulerLimits, sessions: &[SessionId]) -> Self {
        let mut desk = Desk { scheduler: Scheduler::new(limits), now: Duration::ZERO };
        for &session in sessions {
            assert_eq!(desk.open(session, 10), []);
        }
        desk
    }

    /// Like [`Desk::with`], but the sessions' keys are already on the device.
    fn resident(sessions: &[SessionId]) -> Self {
        let mut desk = Desk::with(limits(), sessions);
        for (at, &session) in sessions.iter().enumerate() {
            let operation = op(1000 + at as u64);
            assert_eq!(desk.submit(session, operation, &[1; 8]), [load(session)]);
            let batch = run_of(&desk.feed(loaded(session)));
            assert_eq!(finished(&desk.done(&batch)), [operation]);
        }
        desk
    }

    /// A desk whose device holds the session's key, runs one batch of the session, and has a place for another one.
    fn half_busy(session: SessionId) -> Self {
        Desk::half_busy_with(limits(), session)
    }

    fn half_busy_with(mut limits: SchedulerLimits, session: SessionId) -> Self {
        limits.devices[0].batches_in_flight_max = 2;
        let mut desk = Desk::with(limits, &[session]);
        assert_eq!(desk.submit(session, op(1000), &[1; 8]), [load(session)]);
        run_of(&desk.feed(loaded(session)));
        desk
    }

    /// Feeds the scheduler an event. Returns the commands without [`Command::FreeArena`], which has separate tests in
    /// `arenas` and `circuits`.
    fn feed(&mut self, event: Event) -> Vec<Command> {
        let mut commands = self.feed_whole(event);
        commands.retain(|command| !matches!(command, Command::FreeArena { .. }));
        commands
    }

    fn feed_whole(&mut self, event: Event) -> Vec<Command> {
        self.scheduler.step(self.now, event)
    }

    fn open(&mut self, session: SessionId, host_bytes: u64) -> Vec<Command> {
        let device_bytes = vec![KEY; self.scheduler.devices.len()];
        self.feed(opening(session, host_bytes, device_bytes))
    }

    fn submit(&mut self, session: SessionId, operation: OperationId, units: &[u32]) -> Vec<Command> {
        let work = list(units);
        self.feed(Event::Submitted { session, operation, work, deadline: None })
    }

    fn submit_until(
        &mut self,
        session: SessionId,
        operation: OperationId,
        rows: usize,
        deadline: Duration,
    ) -> Vec<Command> {
        let work = list(&vec![1; rows]);
        self.feed(Event::Submitted { session, operation, work, deadline: Some(deadline) })
    }

    fn done(&mut self, batch: &Batch) -> Vec<Command> {
        self.feed(Event::BatchDone(batch.id))
    }

    fn failed(&mut self, batch: &Batch) -> Vec<Command> {
        self.feed(Event::BatchFailed { batch: batch.id, failure: smoke(Cause::Device) })
    }
}

/// The only batch in these commands.
fn run_of(commands: &[Command]) -> Batch {
    let batches = commands.iter().filter_map(|command| match command {
        Command::Run { batches, .. } => Some(batches),
        _ => None,
    });
    let mut batches = batches.flatten().cloned();
    let batch = batches.next().unwrap_or_else(|| panic!("no batch in {commands:?}"));
    assert_eq!(batches.next(), None);
    batch
}

fn operations(batch: &Batch) -> Vec<(OperationId, usize)> {
    batch.parts.iter().map(|part| (part.operation, part.rows.len())).collect()
}

fn finished(commands: &[Command]) -> Vec<OperationId> {
    commands
        .iter()
        .filter_map(|command| match command {
            Command::Finish { operation, outcome: Ok(_) } => Some(*operation),
            _ => None,
        })
        .collect()
}

fn ends(operation: OperationId, error: Error) -> Command {
    Command::Finish { operation, outcome: Err(error) }
}

#[test]
fn single_gates_that_arrive_while_the_device_is_busy_ride_in_one_batch() {
    let mut desk = Desk::resident(&[A, B]);
    let running = run_of(&desk.submit(B, op(1), &[1; 8]));
    assert_eq!(desk.submit(A, op(2), &[1]), []);
    assert_eq!(desk.submit(B, op(3), &[1]), []);
    desk.now += WAIT / 2;
    assert_eq!(desk.submit(A, op(4), &[1]), []);
    let commands = desk.done(&running);
    assert_eq!(finished(&commands), [op(1)]);
    let batch = run_of(&commands);
    assert_eq!((batch.session, operations(&batch)), (A, vec![(op(2), 1), (op(4), 1)]), "A has gathered longest");
    let commands = desk.done(&batch);
    assert_eq!(finished(&commands), [op(2), op(4)]);
    assert_eq!(operations(&run_of(&commands)), [(op(3), 1)]);
}

#[test]
fn an_idle_device_starts_a_lone_gate_at_once() {
    let mut desk = Desk::resident(&[A]);
    assert_eq!(operations(&run_of(&desk.submit(A, op(1), &[1]))), [(op(1), 1)]);
    assert_eq!(desk.scheduler.next_wake(), Some(desk.now + SILENCE));
}

#[test]
fn an_idle_device_that_lacks_the_key_loads_it_at_once() {
    let mut desk = Desk::with(limits(), &[A]);
    assert_eq!(desk.submit(A, op(1), &[1]), [load(A)]);
    assert_eq!(desk.submit(A, op(2), &[1]), []);
    assert_eq!(operations(&run_of(&desk.feed(loaded(A)))), [(op(1), 1), (op(2), 1)]);
}

#[test]
fn what_is_ready_starts_before_what_gathers() {
    let mut desk = Desk::resident(&[A, B]);
    let running = run_of(&desk.submit(A, op(1), &[1; 8]));
    desk.submit(A, op(2), &[1]);
    desk.submit(B, op(3), &[1; 8]);
    assert_eq!(run_of(&desk.done(&running)).session, B);
}

#[test]
fn a_lone_gate_waits_its_time_for_a_device_that_is_busy_and_has_room() {
    let mut desk = Desk::half_busy(A);
    assert_eq!(desk.submit(A, op(1), &[1]), []);
    assert_eq!(desk.scheduler.next_wake(), Some(desk.now + WAIT));
    desk.now += WAIT - Duration::from_nanos(1);
    assert_eq!(desk.feed(Event::Tick), []);
    desk.now += Duration::from_nanos(1);
    assert_eq!(operations(&run_of(&desk.feed(Event::Tick))), [(op(1), 1)]);
    assert_eq!(desk.scheduler.next_wake(), Some(SILENCE), "the first batch is still to be reported");
}

#[test]
fn a_full_batch_does_not_wait() {
    let mut desk = Desk::half_busy(A);
    assert_eq!(desk.submit(A, op(1), &[1; 7]), []);
    assert_eq!(operations(&run_of(&desk.submit(A, op(2), &[1]))), [(op(1), 7), (op(2), 1)]);
}

#[test]
fn nothing_waits_where_the_wait_is_zero() {
    let mut desk = Desk::half_busy_with(SchedulerLimits { wait: Duration::ZERO, ..limits() }, A);
    assert_eq!(operations(&run_of(&desk.submit(A, op(1), &[1]))), [(op(1), 1)]);
}

#[test]
fn a_large_operation_is_sliced_and_others_come_in_between() {
    let mut desk = Desk::resident(&[A, B]);
    let first = run_of(&desk.submit(A, op(1), &[1; 20]));
    desk.submit(B, op(2), &[1; 8]);
    let second = run_of(&desk.done(&first));
    let third = run_of(&desk.done(&second));
    let fourth = run_of(&desk.done(&third));
    let sizes = [&first, &second, &third, &fourth].map(|batch| (batch.session, batch.rows()));
    assert_eq!(sizes, [(A, 8), (B, 8), (A, 8), (A, 4)]);
    assert_eq!(fourth.parts[0].rows, 16..20);
    assert_eq!(finished(&desk.done(&fourth)), [op(1)]);
}

#[test]
fn a_batch_is_measured_in_bootstraps() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[2, 2, 2, 1, 2]));
    assert_eq!((batch.rows(), batch.units), (4, 7), "the fifth row would make nine");
    let mut narrow_limits = limits();
    narrow_limits.devices[0].batch_units_max = 1;
    let mut narrow = Desk::with(narrow_limits, &[A]);
    narrow.submit(A, op(1), &[2, 2]);
    assert_eq!(run_of(&narrow.feed(loaded(A))).rows(), 1, "one row runs whatever its size");
}

#[test]
fn rows_without_unit_cost_little_but_not_nothing() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[0; 20]));
    assert_eq!((batch.rows(), batch.units, batch.cost), (8, 0, 8));
}

#[test]
fn a_batch_counts_what_bootstraps_cost_under_its_key() {
    let mut desk = Desk::with(limits(), &[]);
    let mut opening = opening(A, 10, vec![KEY]);
    let Event::Opened { unit_costs, .. } = &mut opening else { unreachable!() };
    *unit_costs = vec![100];
    desk.feed(opening);
    desk.submit(A, op(1), &[2, 1, 0, 1, 1, 1, 1]);
    assert_eq!(run_of(&desk.feed(loaded(A))).cost, 701);
    assert_eq!(desk.scheduler.totals.queued_cost, 0);
}

#[test]
fn a_head_of_line_that_waits_for_room_closes_the_device_to_those_behind_it() {
    let mut limits = limits();
    limits.devices[0].batches_in_flight_max = 2;
    let mut desk = Desk::with(limits, &[A, C]);
    desk.feed(opening(B, 10, vec![2 * KEY]));
    desk.submit(A, op(1), &[1; 8]);
    let first = run_of(&desk.feed(loaded(A)));
    assert_eq!(desk.submit(C, op(3), &[1; 80]), [load(C)]);
    let second = run_of(&desk.feed(loaded(C)));
    desk.submit(A, op(4), &[1; 80]);
    desk.submit(B, op(2), &[1; 8]);
    assert_eq!(desk.done(&first).len(), 1, "only an end: the key of C is pinned, and A is behind B");
    assert_eq!(desk.done(&second), [evict(A), evict(C), load(B)]);
    desk.feed(evicted(A));
    desk.feed(evicted(C));
    assert_eq!(run_of(&desk.feed(loaded(B))).session, B);
}

#[test]
fn a_finished_operation_tells_its_time_and_bootstraps() {
    let mut desk = Desk::resident(&[A]);
    let first = run_of(&desk.submit(A, op(1), &[2, 2, 2, 2, 0, 1]));
    desk.now += Duration::from_millis(3);
    let second = run_of(&desk.done(&first));
    desk.now += Duration::from_millis(4);
    let outcome = Ok(Finished { compute: Duration::from_millis(7), units: 9 });
    assert_eq!(desk.done(&second), [Command::Finish { operation: op(1), outcome }]);
}

#[test]
fn a_full_queue_refuses_with_a_wait_from_the_measured_pace() {
    let mut desk = Desk::with(limits(), &[A]);
    desk.submit(A, op(1), &[1; 1024]);
    let batch = run_of(&desk.feed(loaded(A)));
    desk.now += Duration::from_millis(300);
    run_of(&desk.done(&batch));
    // the first batch of 8 bootstraps took 300 ms; at this pace, the 1008 bootstraps that still wait take 37.8 s
    let error = Error::Busy { retry_after: Duration::from_secs(38) };
    assert_eq!(desk.submit(A, op(2), &[1; 9]), [Command::Refuse { operation: op(2), error }]);
    assert_eq!(desk.submit(A, op(3), &[1; 8]), [], "what has run made room");
}

#[test]
fn an_empty_queue_takes_the_largest_operation_and_all_sessions_share_one_bound() {
    let mut desk = Desk::with(limits(), &[A, B, C]);
    assert_eq!(desk.submit(A, op(1), &[2; 1024]), [load(A)]);
    assert_eq!(desk.submit(B, op(2), &[2; 1024]), []);
    let refused = desk.submit(C, op(3), &[2; 1024]);
    assert!(matches!(refused[..], [Command::Refuse { error: Error::Busy { .. }, .. }]), "{refused:?}");
    assert_eq!(desk.submit(C, op(4), &[2; 952]), []);
    assert_eq!(desk.scheduler.usage().queued_rows, 3000);
}

#[test]
fn keys_are_refused_when_the_host_is_full_or_the_device_too_small() {
    let mut desk = Desk::with(limits(), &[A]);
    let busy = desk.open(B, 991);
    assert!(matches!(busy[..], [Command::RefuseSession { session: B, error: Error::Busy { .. } }]), "{busy:?}");
    assert_eq!(desk.open(B, 990), []);
    let too_large = opening(C, 0, vec![2 * KEY + 1]);
    let error = Error::KeyTooLarge { bytes: 201, bytes_max: 200 };
    assert_eq!(desk.feed(too_large), [Command::RefuseSession { session: C, error }]);
    assert_eq!(desk.feed(Event::Closed(B)), [Command::Erase(B)]);
    assert_eq!(desk.open(C, 990), [], "an erased key made room");
}

#[test]
fn unknown_and_closed_sessions_take_no_work() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[1; 8]));
    desk.feed(Event::Closed(A));
    for (session, operation) in [(A, op(2)), (B, op(3))] {
        assert_eq!(desk.submit(session, operation, &[1]), [Command::Refuse { operation, error: Error::Gone }]);
    }
    desk.done(&batch);
}

#[test]
fn what_is_queued_can_be_cancelled_and_what_runs_cannot() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[1; 8]));
    desk.submit(A, op(2), &[1; 8]);
    assert_eq!(desk.feed(Event::Cancelled(op(1))), []);
    assert_eq!(desk.feed(Event::Cancelled(op(2))), [ends(op(2), Error::Cancelled)]);
    assert_eq!(desk.feed(Event::Cancelled(op(2))), [], "it has ended");
    assert_eq!(finished(&desk.done(&batch)), [op(1)]);
    assert_eq!(desk.scheduler.usage().queued_rows, 0);
}

#[test]
fn a_half_run_operation_that_is_cancelled_delivers_nothing() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[1; 9]));
    assert_eq!(desk.feed(Event::Cancelled(op(1))), [ends(op(1), Error::Cancelled)]);
    assert_eq!(desk.done(&batch), []);
    assert_eq!(desk.submit(A, op(2), &[1; 1024]).len(), 1, "all of its rows were given back");
}

#[test]
fn a_deadline_ends_what_waits_and_what_runs() {
    let mut desk = Desk::resident(&[A]);
    let deadline = desk.now + Duration::from_secs(1);
    let batch = run_of(&desk.submit_until(A, op(1), 8, deadline));
    desk.submit_until(A, op(2), 4, deadline);
    assert_eq!(desk.scheduler.next_wake(), Some(deadline));
    desk.now = deadline;
    let ended = [ends(op(1), Error::DeadlinePassed), ends(op(2), Error::DeadlinePassed)];
    assert_eq!(desk.feed(Event::Tick), ended);
    assert_eq!(desk.done(&batch), []);
    assert_eq!(desk.scheduler.next_wake(), None);
}

#[test]
fn a_result_that_is_there_at_its_deadline_is_delivered() {
    let mut desk = Desk::resident(&[A]);
    let deadline = desk.now + Duration::from_secs(1);
    let batch = run_of(&desk.submit_until(A, op(1), 8, deadline));
    desk.now = deadline;
    assert_eq!(finished(&desk.done(&batch)), [op(1)]);
}

#[test]
fn a_deadline_that_has_passed_ends_the_operation_at_once() {
    let mut desk = Desk::resident(&[A]);
    let now = desk.now;
    assert_eq!(desk.submit_until(A, op(1), 8, now), [ends(op(1), Error::DeadlinePassed)]);
}

#[test]
fn a_failed_batch_runs_once_more_part_by_part() {
    let mut desk = Desk::resident(&[A]);
    let before = run_of(&desk.submit(A, op(3), &[1; 8]));
    desk.submit(A, op(1), &[1; 3]);
    desk.submit(A, op(2), &[1; 6]);
    let both = run_of(&desk.done(&before));
    assert_eq!(operations(&both), [(op(1), 3), (op(2), 5)]);
    let first = run_of(&desk.failed(&both));
    assert_eq!(operations(&first), [(op(1), 3)]);
    let commands = desk.failed(&first);
    assert_eq!(commands[0], ends(op(1), Error::Device("smoke".into())));
    let second = run_of(&commands);
    assert_eq!((operations(&second), second.parts[0].rows.clone()), (vec![(op(2), 5)], 0..5));
    let rest = run_of(&desk.done(&second));
    assert_eq!(rest.parts[0].rows, 5..6);
    assert_eq!(finished(&desk.done(&rest)), [op(2)]);
}

#[test]
fn the_second_failure_ends_the_whole_operation() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[1; 1000]));
    let again = run_of(&desk.failed(&batch));
    assert_eq!(desk.failed(&again), [ends(op(1), Error::Device("smoke".into()))]);
    assert_eq!(desk.scheduler.usage().queued_rows, 0);
}

#[test]
fn a_key_is_erased_after_the_running_batch_and_only_when_the_device_has_overwritten_it() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[1; 8]));
    desk.submit(A, op(2), &[1; 8]);
    assert_eq!(desk.feed(Event::Closed(A)), [ends(op(2), Error::Gone)]);
    assert_eq!(desk.feed(Event::Closed(A)), [], "closing is closing");
    let commands = desk.done(&batch);
    assert_eq!(finished(&commands), [op(1)]);
    assert_eq!(commands[1..], [evict(A)]);
    assert_eq!(desk.feed(evicted(A)), [Command::Erase(A)]);
    assert_eq!(desk.scheduler.usage().sessions, 0);
}

#[test]
fn a_session_that_closes_while_its_key_loads_or_its_batch_fails_is_erased_too() {
    let mut desk = Desk::with(limits(), &[A, B]);
    desk.submit(A, op(1), &[1; 8]);
    assert_eq!(desk.feed(Event::Closed(A)), [ends(op(1), Error::Gone)]);
    assert_eq!(desk.feed(loaded(A)), [evict(A)]);
    assert_eq!(desk.feed(evicted(A)), [Command::Erase(A)]);

    desk.submit(B, op(2), &[1; 8]);
    let batch = run_of(&desk.feed(loaded(B)));
    desk.feed(Event::Closed(B));
    assert_eq!(desk.failed(&batch), [ends(op(2), Error::Gone), evict(B)]);
}

#[test]
fn closing_another_session_does_not_wait_for_the_running_batch() {
    let mut desk = Desk::resident(&[A, B]);
    run_of(&desk.submit(A, op(1), &[1; 8]));
    assert_eq!(desk.feed(Event::Closed(B)), [evict(B)]);
}

#[test]
fn the_least_recently_used_key_makes_room() {
    let mut desk = Desk::resident(&[A, B]);
    desk.open(C, 10);
    assert_eq!(desk.submit(C, op(1), &[1; 8]), [evict(A), load(C)]);
    assert_eq!(desk.feed(evicted(A)), []);
    let batch = run_of(&desk.feed(loaded(C)));
    desk.done(&batch);
    assert_eq!(desk.submit(A, op(2), &[1; 8]), [evict(B), load(A)]);
    assert_eq!(desk.scheduler.usage().resident_bytes, 2 * KEY);
}

#[test]
fn batches_run_beside_a_load_and_the_next_place_after_it_is_its_own() {
    let mut desk = Desk::resident(&[A]);
    desk.open(B, 10);
    desk.open(C, 10);
    let first = run_of(&desk.submit(A, op(1), &[1; 80]));
    desk.submit(B, op(2), &[1; 8]);
    desk.submit(C, op(3), &[1; 8]);
    let commands = desk.done(&first);
    assert_eq!(commands[0], load(B));
    let second = run_of(&commands);
    assert_eq!(second.session, A, "C waits for the end of the load, and A does not wait for C");
    let third = run_of(&desk.done(&second));
    assert_eq!(third.session, A);
    assert_eq!(desk.feed(loaded(B)), [], "the only place is taken");
    assert_eq!(run_of(&desk.done(&third)).session, B);
}

#[test]
fn a_key_that_was_loaded_is_used_before_another_can_push_it_out() {
    let mut desk = Desk::with(limits_of(KEY), &[A, B]);
    assert_eq!(desk.submit(B, op(1), &[1; 8]), [load(B)]);
    // if only the tags decided, A would be next, because the tags are equal and A is older
    desk.submit(A, op(2), &[1; 8]);
    let batch = run_of(&desk.feed(loaded(B)));
    assert_eq!(batch.session, B);
    assert_eq!(desk.done(&batch)[1..], [evict(B), load(A)]);
}

#[test]
fn a_load_that_fails_twice_ends_the_sessions_work_and_harms_no_one_else() {
    let mut desk = Desk::resident(&[A]);
    desk.open(B, 10);
    let fail = || Event::LoadFailed { device: ONE, session: B, failure: smoke(Cause::Device) };
    assert_eq!(desk.submit(B, op(1), &[1; 8]), [load(B)]);
    assert_eq!(desk.feed(fail()), [load(B)]);
    assert_eq!(desk.feed(fail()), [ends(op(1), Error::Device("smoke".into()))]);
    run_of(&desk.submit(A, op(2), &[1; 8]));
}

#[test]
fn a_device_without_memory_is_cleared_before_the_second_try() {
    let mut desk = Desk::resident(&[A]);
    desk.open(B, 10);
    desk.submit(B, op(1), &[1; 8]);
    let fail = Event::LoadFailed { device: ONE, session: B, failure: smoke(Cause::OutOfMemory) };
    assert_eq!(desk.feed(fail), [evict(A), load(B)]);
}

#[test]
fn draining_finishes_what_is_queued_then_erases_every_key_and_stops() {
    let mut desk = Desk::resident(&[A, B]);
    let before = run_of(&desk.submit(B, op(3), &[1; 8]));
    desk.submit(A, op(1), &[1]);
    assert_eq!(desk.feed(Event::Drain), []);
    let batch = run_of(&desk.done(&before));
    let refused = Command::Refuse { operation: op(2), error: Error::ShuttingDown };
    assert_eq!(desk.submit(A, op(2), &[1]), [refused]);
    assert_eq!(desk.open(C, 10), [Command::RefuseSession { session: C, error: Error::ShuttingDown }]);
    let commands = desk.done(&batch);
    assert_eq!(finished(&commands), [op(1)]);
    assert_eq!(commands[1..], [evict(A), evict(B)]);
    assert_eq!(desk.feed(evicted(A)), [Command::Erase(A)]);
    assert_eq!(desk.feed(evicted(B)), [Command::Erase(B), Command::Stop]);
    assert_eq!(desk.feed(Event::Tick), [], "it stops once");
}

#[test]
fn an_abandoned_engine_ends_what_is_queued_and_lets_what_runs_finish() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[1; 8]));
    desk.submit(A, op(2), &[1]);
    assert_eq!(desk.feed(Event::Abandon), [ends(op(2), Error::ShuttingDown)]);
    assert_eq!(finished(&desk.done(&batch)), [op(1)]);
}

#[test]
fn an_abandoned_engine_does_not_retry() {
    let mut desk = Desk::resident(&[A]);
    let batch = run_of(&desk.submit(A, op(1), &[1; 8]));
    desk.feed(Event::Abandon);
    assert_eq!(desk.failed(&batch), [ends(op(1), Error::ShuttingDown), evict(A)]);
}

#[test]
fn an_idle_engine_stops_at_once() {
    assert_eq!(Desk::with(limits(), &[]).feed(Event::Drain), [Command::Stop]);
}

#[test]
fn a_newcomer_runs_after_at_most_one_batch_of_each_other_session_of_its_weight() {
    let others: Vec<_> = (10..20).map(SessionId).collect();
    let mut desk = Desk::with(limits_of(100 * KEY), &others);
    desk.open(A, 10);
    for (at, &session) in others.iter().enumerate() {
        desk.submit(session, op(at as u64), &[1; 250]);
    }
    let mut running = run_of(&desk.feed(loaded(others[0])));
    let mut batches_before = 0;
    for round in 0.. {
        if round == 25 {
            desk.submit(A, op(100), &[1; 8]);
        }
        if round > 25 {
            batches_before += 1;
        }
        let mut commands = desk.done(&running);
        let load = commands.iter().find_map(|command| match command {
            Command::Load { session, .. } => Some(*session),
            _ => None,
        });
        commands.extend(load.map_or(Vec::new(), |session| desk.feed(loaded(session))));
        running = run_of(&commands);
        if running.session == A {
            break;
        }
    }
    assert!(batches_before <= others.len(), "{batches_before} batches before the newcomer's");
}

#[test]
#[should_panic(expected = "was reported, but no device runs it")]
fn a_report_of_what_was_not_ordered_is_a_bug() {
    Desk::with(limits(), &[A]).feed(Event::BatchDone(BatchId(7)));
}
