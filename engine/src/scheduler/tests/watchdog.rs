//! Tests of devices that do not report.

use super::*;

const TWO: DeviceId = DeviceId(1);

/// A desk with two devices. The first holds the key of A.
fn desk() -> Desk {
    let mut limits = limits();
    limits.devices = vec![limits.devices[0].clone(); 2];
    let mut desk = Desk::with(limits, &[A, B]);
    desk.submit(A, op(1000), &[1; 8]);
    let batch = run_of(&desk.feed(loaded(A)));
    desk.done(&batch);
    desk
}

fn silence(desk: &mut Desk) -> Vec<Command> {
    assert_eq!(desk.scheduler.next_wake(), Some(desk.now + SILENCE));
    desk.now += SILENCE - Duration::from_nanos(1);
    assert_eq!(desk.feed(Event::Tick), []);
    desk.now += Duration::from_nanos(1);
    desk.feed(Event::Tick)
}

#[test]
fn a_device_that_never_reports_a_batch_is_given_up_and_the_batch_runs_elsewhere() {
    let mut desk = desk();
    let batch = run_of(&desk.submit(A, op(1), &[1; 8]));
    let commands = silence(&mut desk);
    let load = Command::Load { device: TWO, session: A, parts: vec![key_of(A)] };
    assert_eq!(commands, [Command::GiveUp(ONE), Command::Retire(ONE), load]);
    assert_eq!(desk.scheduler.service(ONE), (false, Some("device lost: the device did not report for 60 s".into())));

    let second = run_of(&desk.feed(Event::Loaded { device: TWO, session: A }));
    assert!(!desk.scheduler.awaits(batch.id) && desk.scheduler.awaits(second.id));
    let late = [Event::BatchDone(batch.id), evicted(A), loaded(B), Event::Retired(ONE)];
    late.into_iter().for_each(|late| assert_eq!(desk.feed(late), [], "what comes late is ignored"));
    assert_eq!(finished(&desk.done(&second)), [op(1)]);
    assert_eq!(desk.scheduler.next_wake(), None, "nothing is owed");
}

#[test]
fn a_device_that_never_reports_a_load_or_an_eviction_is_given_up_and_the_session_erased() {
    let mut desk = desk();
    // this batch goes to the first device, because the second is busy
    let batch = run_of(&desk.submit(A, op(1), &[1; 8]));
    assert_eq!(desk.submit(B, op(2), &[1; 8]), [Command::Load { device: TWO, session: B, parts: vec![key_of(B)] }]);
    desk.done(&batch);
    assert_eq!(desk.feed(Event::Closed(A)), [evict(A)]);
    assert_eq!(desk.feed(Event::Closed(B)), [ends(op(2), Error::Gone)]);
    let commands = silence(&mut desk);
    let given_up = [Command::GiveUp(ONE), Command::Retire(ONE), Command::GiveUp(TWO), Command::Retire(TWO)];
    assert!(given_up.iter().all(|command| commands.contains(command)), "{commands:?}");
    assert!([A, B].iter().all(|&session| commands.contains(&Command::Erase(session))), "{commands:?}");
    assert_eq!(desk.feed(Event::Drain), [Command::Stop]);
}

#[test]
fn a_report_ends_the_silence_and_a_costly_batch_has_more_time() {
    let mut desk = Desk::with(limits(), &[A]);
    desk.submit(A, op(1), &[1; 80]);
    let first = run_of(&desk.feed(loaded(A)));
    desk.now += SILENCE / 2;
    let second = run_of(&desk.done(&first));
    assert!(desk.scheduler.next_wake() > Some(desk.now + SILENCE), "the pace is a batch in half a minute");
    desk.now += 2 * SILENCE;
    assert_eq!(desk.feed(Event::Tick), []);
    run_of(&desk.done(&second));
}

#[test]
fn a_device_that_was_told_to_retire_and_does_not_is_given_up() {
    let mut desk = desk();
    let lost = Event::Lost { device: ONE, reason: "smoke".into() };
    assert_eq!(desk.feed(lost), [Command::Retire(ONE)]);
    assert_eq!(desk.feed(Event::Drain), []);
    let commands = silence(&mut desk);
    assert_eq!(commands[0], Command::GiveUp(ONE));
    assert_eq!(commands.last(), Some(&Command::Stop));
}

#[test]
fn a_thread_that_dies_is_given_up_at_once() {
    let mut desk = desk();
    run_of(&desk.submit(A, op(1), &[1; 8]));
    let commands = desk.feed(Event::Died { device: ONE, reason: "smoke".into() });
    assert_eq!(
        commands,
        [Command::GiveUp(ONE), Command::Retire(ONE), Command::Load { device: TWO, session: A, parts: vec![key_of(A)] }]
    );
}
