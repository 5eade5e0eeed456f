//! Several toy devices under one engine: shared work, lost devices, and a stand-in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Config, Device, Engine, Error, Failed, Gate, GateList, SessionId};

use crate::client::{Sum, bits, close, eventually, open, prompt, soon, submit};
use crate::dice::{Dice, for_each_seed};
use crate::toy::{self, Behaviour, KEY_BYTES, Script, Toy};

/// An engine with two devices of eight bootstraps a batch.
fn start_two() -> (Engine, [Arc<Script>; 2]) {
    let (one, two) = (Toy::new(8), Toy::new(8));
    let devices = vec![Device::new(one.0), Device::new(two.0)];
    (Engine::with_devices(prompt(), devices).expect("toys start"), [one.1, two.1])
}

/// For each device, whether it is in service, and the failure if it is not.
fn health(engine: &Engine) -> Vec<(bool, Option<String>)> {
    engine.devices().into_iter().map(|device| (device.in_service, device.failure)).collect()
}

#[test]
fn two_devices_work_at_the_same_time_for_one_session() {
    let (engine, scripts) = start_two();
    let session = open(&engine).unwrap();
    let held = scripts.each_ref().map(|script| script.hold_next_batch());
    let outcomes = [(); 2].map(|()| submit(&engine, session, toy::rows(8)));
    for (begun, _) in &held {
        soon(begun);
    }
    assert_eq!((engine.usage().running_rows, engine.usage().resident_bytes), (16, 2 * KEY_BYTES));
    drop(held);
    outcomes.iter().for_each(|outcome| assert_eq!(bits(soon(outcome)), [false; 8]));
    soon(&close(&engine, session));
    assert_eq!(scripts.map(|script| script.counts().bytes), [0, 0]);
}

#[test]
fn a_session_alone_stays_on_the_device_that_has_its_key() {
    let (engine, scripts) = start_two();
    let session = open(&engine).unwrap();
    for _ in 0..20 {
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
    }
    assert_eq!(scripts.map(|script| script.counts().keys_loaded), [1, 0]);
}

#[test]
fn circuits_run_right_on_several_devices_of_different_kinds() {
    for_each_seed(20, |seed| {
        let mut dice = Dice::new(seed);
        let toys = [(1, 1), (8, 2), (100, 2)].map(|(rows, in_flight)| Toy::with_in_flight(rows, in_flight));
        let (devices, scripts): (Vec<_>, Vec<_>) =
            toys.into_iter().map(|(toy, script)| (Device::new(toy), script)).unzip();
        let engine = Engine::with_devices(prompt(), devices).unwrap();
        let sessions = [(); 3].map(|()| open(&engine).unwrap());
        let running: Vec<_> = (0..15)
            .map(|_| {
                let (gates, reach) = (dice.between(1, 150), dice.pick(&[1, 5, 50]));
                let sum = Sum::random(&mut dice, 5, gates as usize, reach);
                let outcome = sum.submit(&engine, dice.pick(&sessions));
                (sum, outcome)
            })
            .collect();
        running.iter().for_each(|(sum, outcome)| sum.check(outcome));
        sessions.iter().for_each(|&session| soon(&close(&engine, session)));
        assert!(scripts.iter().all(|script| script.counts().bytes == 0));
    });
}

#[test]
fn what_ran_on_a_device_that_is_lost_runs_right_on_the_other() {
    let (engine, [one, two]) = start_two();
    let session = open(&engine).unwrap();
    // the first device is lost while it runs a batch that has both gates and rows of a half-finished circuit
    (0..3).for_each(|_| one.next_batch(Behaviour::Work));
    let (begun, go_on) = one.hold_next_batch();
    (0..3).for_each(|_| one.next_finish(Behaviour::Work));
    one.next_finish(Behaviour::Lose);
    let sum = Sum::block(10, 5);
    let circuit = sum.submit(&engine, session);
    soon(&begun);
    let gates = submit(&engine, session, toy::rows(20));
    go_on.send(()).unwrap();
    sum.check(&circuit);
    assert_eq!(bits(soon(&gates)), [false; 20]);
    assert_eq!(health(&engine), [(false, Some("device lost: smoke".into())), (true, None)]);
    assert_eq!((engine.usage().devices_in_service, engine.usage().devices_lost), (1, 1));
    eventually("the lost device's memory", || one.counts().bytes == 0);
    assert!(two.counts().batches >= 10);
    soon(&close(&engine, session));
    assert_eq!(two.counts().bytes, 0);
}

#[test]
fn an_operation_that_loses_two_devices_ends() {
    let (three, script) = Toy::new(8);
    let toys = [Toy::new(8), Toy::new(8)];
    let scripts = toys.each_ref().map(|(_, script)| script.clone());
    let mut devices: Vec<_> = toys.into_iter().map(|(toy, _)| Device::new(toy)).collect();
    devices.push(Device::new(three));
    let engine = Engine::with_devices(prompt(), devices).unwrap();
    let session = open(&engine).unwrap();
    scripts.iter().for_each(|script| script.next_batch(Behaviour::Lose));
    let failed = soon(&Sum::chain(5).submit(&engine, session)).unwrap_err();
    assert_eq!(failed, Failed { error: Error::Device("device lost: smoke".into()), completed: vec![] });
    let sum = Sum::chain(5);
    sum.check(&sum.submit(&engine, session));
    assert_eq!(script.counts().batches, 5);
}

#[test]
fn a_stand_in_works_only_when_nobody_else_does() {
    let ((gpu, script), (cpu, stand_in)) = (Toy::new(8), Toy::new(8));
    let engine = Engine::with_devices(prompt(), vec![Device::new(gpu), Device::stand_in(cpu)]).unwrap();
    let session = open(&engine).unwrap();
    let outcomes: Vec<_> = (0..10).map(|_| submit(&engine, session, toy::rows(8))).collect();
    outcomes.iter().for_each(|outcome| assert_eq!(bits(soon(outcome)), [false; 8]));
    assert_eq!(stand_in.counts().keys_loaded, 0);
    assert_eq!(health(&engine), [(true, None), (false, None)]);
    assert_eq!(engine.devices().iter().map(|device| device.stand_in).collect::<Vec<_>>(), [false, true]);

    script.next_batch(Behaviour::Lose);
    let sum = Sum::block(5, 20);
    sum.check(&sum.submit(&engine, session));
    assert_eq!(health(&engine), [(false, Some("device lost: smoke".into())), (true, None)]);
    assert_eq!(stand_in.counts().batches, 15);
}

#[test]
fn what_a_card_has_no_memory_for_runs_right_on_the_stand_in_and_other_sessions_stay_on_the_card() {
    let ((gpu, script), (cpu, stand_in)) = (Toy::new(8), Toy::new(8));
    let engine = Engine::with_devices(prompt(), vec![Device::new(gpu), Device::stand_in(cpu)]).unwrap();
    let [session, other] = [(); 2].map(|()| open(&engine).unwrap());
    let sum = Sum::block(5, 20);
    // the first levels of the circuit run on the card before the card is out of memory
    (0..4).for_each(|_| script.next_batch(Behaviour::Work));
    (0..2).for_each(|_| script.next_batch(Behaviour::OutOfMemory));
    sum.check(&sum.submit(&engine, session));
    assert_eq!((script.counts().batches, stand_in.counts().batches), (4, 15));
    script.next_batch(Behaviour::Work);
    (0..2).for_each(|_| script.next_batch(Behaviour::OutOfMemory));
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(20)))), [false; 20]);
    assert_eq!((script.counts().batches, stand_in.counts().batches), (5, 17));
    sum.check(&sum.submit(&engine, other));
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(8)))), [false; 8], "later work tries the card");
    assert_eq!((script.counts().batches, stand_in.counts().batches), (21, 17));
    assert_eq!(health(&engine), [(true, None), (false, None)]);
    [session, other].iter().for_each(|&session| soon(&close(&engine, session)));
    assert_eq!([script, stand_in].map(|script| script.counts().bytes), [0, 0]);
}

#[test]
fn a_circuit_too_large_for_the_card_runs_right_on_the_stand_in() {
    let ((gpu, script), (cpu, stand_in)) = (Toy::with_memory(8, 8 << 10), Toy::new(8));
    let engine = Engine::with_devices(prompt(), vec![Device::new(gpu), Device::stand_in(cpu)]).unwrap();
    let session = open(&engine).unwrap();
    let (wide, narrow) = (Sum::block(3, 40), Sum::block(3, 8));
    let outcomes = [wide.submit(&engine, session), narrow.submit(&engine, session)];
    wide.check(&outcomes[0]);
    narrow.check(&outcomes[1]);
    assert_eq!((script.counts().batches, stand_in.counts().batches), (3, 15));
    soon(&close(&engine, session));
    assert_eq!([script, stand_in].map(|script| script.counts().bytes), [0, 0]);
}

#[test]
fn a_device_that_fails_again_and_again_is_given_up_if_there_is_another() {
    let ((gpu, script), (cpu, _)) = (Toy::new(8), Toy::new(8));
    let engine = Engine::with_devices(prompt(), vec![Device::new(gpu), Device::stand_in(cpu)]).unwrap();
    let session = open(&engine).unwrap();
    (0..3).for_each(|_| script.next_batch(Behaviour::Fail));
    let first = soon(&submit(&engine, session, toy::rows(1)));
    assert_eq!(first.unwrap_err(), Error::Device("device failed: smoke".into()), "two failures are two tries");
    assert_eq!(health(&engine)[0], (true, None));
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false], "the third takes the device out");
    assert_eq!(health(&engine), [(false, Some("device failed: smoke".into())), (true, None)]);
}

#[test]
fn a_batch_that_failed_on_one_device_is_tried_on_another() {
    let (engine, [one, two]) = start_two();
    let session = open(&engine).unwrap();
    one.next_batch(Behaviour::Fail);
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(5)))), [false; 5]);
    assert_eq!((one.counts().batches, two.counts().batches), (0, 1));
    assert_eq!(health(&engine), [(true, None), (true, None)]);
}

#[test]
fn without_a_device_everything_ends_and_nothing_begins() {
    let (toy, script) = Toy::new(8);
    let engine = Engine::with_backend(prompt(), toy).unwrap();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    script.next_finish(Behaviour::Lose);
    let outcomes = [submit(&engine, session, toy::rows(20)), submit(&engine, session, toy::rows(1))];
    soon(&begun);
    go_on.send(()).unwrap();
    outcomes.iter().for_each(|outcome| assert!(matches!(soon(outcome), Err(Error::Device(_)))));
    let reason = "no device is in service: device lost: smoke";
    assert_eq!(open(&engine).unwrap_err(), Error::Device(reason.into()));
    let refused = Sum::chain(2).submit_until(&engine, session, None).map(|_| ());
    assert_eq!(refused.unwrap_err(), Error::Device(reason.into()));
    soon(&close(&engine, session));
    eventually("the lost device's memory", || script.counts().bytes == 0);
    engine.shutdown();
}

#[test]
fn the_next_batch_starts_before_the_last_one_is_finished() {
    let (toy, script) = Toy::with_in_flight(8, 2);
    let engine = Engine::with_backend(prompt(), toy).unwrap();
    let session = open(&engine).unwrap();
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(64)))), [false; 64]);
    let counts = script.counts();
    assert_eq!((counts.in_flight, counts.in_flight_max, counts.batches), (0, 2, 8));
    // a device whose limit is one call in flight gets one call at a time
    let (toy, script) = Toy::new(8);
    let engine = Engine::with_backend(prompt(), toy).unwrap();
    let session = open(&engine).unwrap();
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(64)))), [false; 64]);
    assert_eq!(script.counts().in_flight_max, 1);
}

/// Two devices of eight bootstraps a batch. The engine gives them up after two seconds.
fn start_impatient() -> (Engine, [Arc<Script>; 2]) {
    let (one, two) = (Toy::new(8), Toy::new(8));
    let devices = vec![Device::new(one.0), Device::new(two.0)];
    let config = Config { device_silence_s_max: 2, ..prompt() };
    (Engine::with_devices(config, devices).expect("toys start"), [one.1, two.1])
}

#[test]
fn g3_a_card_that_hangs_is_given_up_its_work_goes_on_elsewhere_and_its_session_is_erased() {
    let (engine, [one, two]) = start_impatient();
    let session = open(&engine).unwrap();
    let (begun, go_on) = one.hold_next_batch();
    let sum = Sum::block(5, 5);
    let circuit = sum.submit(&engine, session);
    soon(&begun);
    let gates = submit(&engine, session, toy::rows(20));
    sum.check(&circuit);
    assert_eq!(bits(soon(&gates)), [false; 20]);
    let failure = health(&engine)[0].1.clone().expect("the device was given up");
    assert!(failure.starts_with("device lost: the device did not report for "), "{failure}");
    assert_eq!(health(&engine)[1], (true, None));
    soon(&close(&engine, session));
    assert_eq!(two.counts().bytes, 0);
    assert!(one.counts().bytes > 0, "memory cannot be freed while the device hangs");

    // the device wakes up: the engine ignores its late report, and the device frees its memory
    let session = open(&engine).unwrap();
    go_on.send(()).unwrap();
    eventually("the memory of the card that woke up", || one.counts().bytes == 0);
    sum.check(&sum.submit(&engine, session));
    engine.shutdown();
}

#[test]
fn a_card_that_hangs_stops_neither_a_shutdown_nor_what_waits_for_an_erasure() {
    let (toy, script) = Toy::new(8);
    let config = Config { device_silence_s_max: 2, ..prompt() };
    let engine = Engine::with_backend(config, toy).unwrap();
    let session = open(&engine).unwrap();
    let (begun, _go_on) = script.hold_next_batch();
    let outcome = submit(&engine, session, toy::rows(8));
    soon(&begun);
    let erased = close(&engine, session);
    engine.shutdown();
    soon(&erased);
    assert!(matches!(soon(&outcome), Err(Error::Gone)));
}

#[test]
fn a_driver_that_panics_where_memory_is_given_back_loses_its_device_and_nothing_else() {
    for arena in [false, true] {
        let (engine, [one, two]) = start_two();
        let session = open(&engine).unwrap();
        if arena {
            one.next_drop(Behaviour::Panic);
        }
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(5)))), [false; 5]);
        if !arena {
            eventually("the arena's end", || one.counts().bytes == KEY_BYTES);
            one.next_drop(Behaviour::Panic);
            soon(&close(&engine, session));
        }
        eventually("the loss", || !health(&engine)[0].0);
        let failure = health(&engine)[0].1.clone().expect("the device is lost");
        assert!(failure.contains("while memory was freed"), "{failure}");
        let session = open(&engine).unwrap();
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(5)))), [false; 5]);
        assert_eq!(two.counts().batches, 1);
        soon(&close(&engine, session));
        engine.shutdown();
    }
}

#[test]
fn a_devices_thread_that_panics_loses_its_device_and_nothing_else() {
    let (engine, [one, two]) = start_two();
    let session = open(&engine).unwrap();
    one.next_finish(Behaviour::ShortResult);
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(5)))), [false; 5]);
    let failure = health(&engine)[0].1.clone().expect("the device is lost");
    assert!(failure.contains("the device's thread panicked"), "{failure}");
    assert_eq!((two.counts().batches, one.counts().bytes), (1, 0));
    soon(&close(&engine, session));
    engine.shutdown();
}

#[test]
fn what_is_tried_a_second_time_has_the_device_to_itself() {
    let (toy, script) = Toy::with_in_flight(8, 2);
    let engine = Engine::with_backend(prompt(), toy).unwrap();
    let [a, b] = [(); 2].map(|()| open(&engine).unwrap());
    [a, b].iter().for_each(|&session| drop(soon(&submit(&engine, session, toy::rows(1))).unwrap()));
    let (begun, go_on) = script.hold_next_batch();
    let first = submit(&engine, a, toy::rows(8));
    soon(&begun);
    script.next_batch(Behaviour::Fail);
    script.next_batch(Behaviour::CheckAlone);
    let second = submit(&engine, b, toy::rows(8));
    go_on.send(()).unwrap();
    assert_eq!(bits(soon(&first)), [false; 8]);
    assert_eq!(bits(soon(&second)), [false; 8]);
}

#[test]
fn a_device_whose_self_test_fails_is_lost_and_its_work_goes_on_elsewhere() {
    let ((one, script), (two, _)) = (Toy::new(8), Toy::new(8));
    let (fails, tests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (failing, testing) = (fails.clone(), tests.clone());
    let check = move |_: &Toy| {
        testing.fetch_add(1, Ordering::Relaxed);
        if failing.load(Ordering::Relaxed) { Err(kernels::Error::Device("a wrong word".into())) } else { Ok(()) }
    };
    let devices = vec![Device::checked(one, Duration::from_millis(1), check), Device::new(two)];
    let engine = Engine::with_devices(prompt(), devices).unwrap();
    let session = open(&engine).unwrap();
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(20)))), [false; 20]);
    eventually("self-tests", || tests.load(Ordering::Relaxed) > 3);
    assert!(health(&engine)[0].0 && script.counts().batches > 0);

    fails.store(true, Ordering::Relaxed);
    eventually("the loss", || !health(&engine)[0].0);
    let failure = health(&engine)[0].1.clone().expect("the device is lost");
    assert_eq!(failure, "device lost: the device failed its self-test: device failed: a wrong word");
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(20)))), [false; 20]);
    soon(&close(&engine, session));
    engine.shutdown();
}

/// Sixteen sessions whose keys are on a device that takes `keys_together_max` keys in one call.
fn sixteen(keys_together_max: usize) -> (Engine, Arc<Script>, Vec<SessionId>) {
    let (toy, script) = Toy::with_keys_together(64, keys_together_max);
    let engine = Engine::with_backend(prompt(), toy).expect("the toy starts");
    let sessions: Vec<_> = (0..16).map(|_| open(&engine).unwrap()).collect();
    for &session in &sessions {
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
    }
    (engine, script, sessions)
}

#[test]
fn sixteen_sessions_with_a_gate_each_run_in_two_calls() {
    for (keys_together_max, calls) in [(1, 16), (5, 1 + 3), (16, 2)] {
        let (engine, script, sessions) = sixteen(keys_together_max);
        let before = script.counts().calls;
        let (begun, go_on) = script.hold_next_batch();
        let first = submit(&engine, sessions[0], toy::rows(1));
        soon(&begun);
        let outcomes: Vec<_> = sessions[1..].iter().map(|&session| submit(&engine, session, toy::rows(1))).collect();
        go_on.send(()).unwrap();
        outcomes.iter().chain([&first]).for_each(|outcome| assert_eq!(bits(soon(outcome)), [false]));
        assert_eq!(script.counts().calls - before, calls, "the first alone, the others in full calls");
        sessions.iter().for_each(|&session| soon(&close(&engine, session)));
        assert_eq!(script.counts().bytes, 0);
    }
}

#[test]
fn each_session_of_a_call_gets_its_own_results() {
    let (engine, script, sessions) = sixteen(16);
    let (begun, go_on) = script.hold_next_batch();
    let first = submit(&engine, sessions[0], toy::rows(1));
    soon(&begun);
    let work = sessions.iter().enumerate().map(|(at, &session)| {
        let inputs: Vec<_> = (0..1 + at % 3).map(|bit| (at + bit) % 2 == 0).collect();
        let rows: Vec<_> = inputs.iter().map(|&bit| toy::row(Gate::And, &[bit, true])).collect();
        (inputs, submit(&engine, session, GateList::of_rows(&rows)))
    });
    let work: Vec<_> = work.collect();
    go_on.send(()).unwrap();
    assert_eq!(bits(soon(&first)), [false]);
    work.iter().for_each(|(inputs, outcome)| assert_eq!(&bits(soon(outcome)), inputs));
}

#[test]
fn what_fails_with_others_runs_alone_and_right() {
    let (engine, script, sessions) = sixteen(16);
    for behaviour in [Behaviour::Fail, Behaviour::Panic, Behaviour::OutOfMemory] {
        let (begun, go_on) = script.hold_next_batch();
        let first = submit(&engine, sessions[0], toy::rows(1));
        soon(&begun);
        script.next_batch(behaviour);
        let before = script.counts();
        let outcomes: Vec<_> = sessions[1..].iter().map(|&session| submit(&engine, session, toy::rows(1))).collect();
        go_on.send(()).unwrap();
        outcomes.iter().chain([&first]).for_each(|outcome| assert_eq!(bits(soon(outcome)), [false]));
        let after = script.counts();
        assert_eq!((after.calls - before.calls, after.batches - before.batches), (1 + 15, 1 + 15));
    }
    assert_eq!(health(&engine), [(true, None)]);
}

#[test]
fn a_device_starts_the_next_call_while_it_is_waited_for() {
    let (toy, script) = Toy::with_in_flight(8, 2);
    let engine = Engine::with_backend(prompt(), toy).expect("the toy starts");
    let session = open(&engine).unwrap();
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
    script.set_ready(false);
    let first = submit(&engine, session, toy::rows(8));
    eventually("the first call", || script.counts().calls == 2);
    let second = submit(&engine, session, toy::rows(8));
    eventually("the second call", || script.counts().calls == 3);
    assert_eq!(script.counts().in_flight, 2);
    script.set_ready(true);
    [first, second].iter().for_each(|outcome| assert_eq!(bits(soon(outcome)), [false; 8]));
}

#[test]
fn a_batch_beside_a_long_load_waits_for_one_piece_and_the_load_for_one_batch() {
    for batches_in_flight_max in [1, 2] {
        let (toy, script) = Toy::with_in_flight(8, batches_in_flight_max);
        let engine = Engine::with_backend(prompt(), toy).expect("the toy starts");
        let [short, long] = [(); 2].map(|()| open(&engine).unwrap());
        assert_eq!(bits(soon(&submit(&engine, short, toy::rows(1)))), [false]);
        script.load_in_pieces(10);
        let (begun, mut go_on) = script.hold_next_piece();
        let waiting = submit(&engine, long, toy::rows(1));
        soon(&begun);
        // during each piece of the load, two batches are waiting
        let mut batches = VecDeque::from([submit(&engine, short, toy::rows(8))]);
        for _ in 1..10 {
            batches.push_back(submit(&engine, short, toy::rows(8)));
            let (begun, next) = script.hold_next_piece();
            std::mem::replace(&mut go_on, next).send(()).unwrap();
            let first = batches.pop_front().expect("a batch was submitted before");
            assert_eq!(bits(soon(&first)), [false; 8], "before the next piece is done");
            soon(&begun);
            assert_eq!(script.counts().keys_loaded, 1, "after one batch the next piece has begun");
            assert!(waiting.try_recv().is_err());
        }
        go_on.send(()).unwrap();
        batches.iter().for_each(|outcome| assert_eq!(bits(soon(outcome)), [false; 8]));
        assert_eq!(bits(soon(&waiting)), [false]);
        assert_eq!(script.counts().keys_loaded, 2);
        [short, long].iter().for_each(|&session| soon(&close(&engine, session)));
        assert_eq!(script.counts().bytes, 0);
    }
}

#[test]
fn a_load_that_fails_half_way_leaves_nothing_and_begins_again() {
    for behaviour in [Behaviour::Fail, Behaviour::Panic, Behaviour::OutOfMemory] {
        let (engine, script) = crate::client::start();
        let session = open(&engine).unwrap();
        script.load_in_pieces(3);
        script.next_piece(Behaviour::Work);
        script.next_piece(behaviour);
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
        assert_eq!(script.counts().keys_loaded, 1);
        soon(&close(&engine, session));
        assert_eq!((script.counts().bytes, engine.devices()[0].in_service), (0, true));
    }
}

#[test]
fn a_device_that_is_lost_while_it_loads_reports_the_load_and_gives_all_back() {
    let (engine, [one, two]) = start_two();
    let session = open(&engine).unwrap();
    one.load_in_pieces(3);
    one.next_piece(Behaviour::Work);
    one.next_piece(Behaviour::Lose);
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
    eventually("the lost device's memory", || one.counts().bytes == 0);
    assert_eq!((one.counts().keys_loaded, two.counts().keys_loaded), (0, 1));
    soon(&close(&engine, session));
    engine.shutdown();
}
