//! Circuits run by an engine with its threads, on one toy device.

use std::time::{Duration, Instant};

use engine::{CircuitBound, Config, Engine, Error, Failed, Gate, LweList, Task, Usage};

use crate::client::{Sum, bits, close, eventually, open, soon, start, start_with, submit};
use crate::dice::{Dice, for_each_seed};
use crate::toy::{self, Behaviour, KEY_BYTES, Toy};

/// Bytes of a device that has loaded one key and has nothing to do.
const AT_REST: u64 = KEY_BYTES;

#[test]
fn random_circuits_come_to_what_they_do_in_the_clear_and_leave_nothing_behind() {
    for_each_seed(30, |seed| {
        let mut dice = Dice::new(seed);
        let (toy, script) = Toy::with_in_flight(dice.pick(&[1, 3, 8, 100]), dice.pick(&[1, 2]));
        let engine = Engine::with_backend(
            Config { window_us_max: dice.pick(&[0, 2000, 50_000]), arena_idle_ms: 0, ..Config::default() },
            toy,
        )
        .unwrap();
        let sessions = [(); 3].map(|()| open(&engine).unwrap());
        let running: Vec<_> = (0..12)
            .map(|_| {
                let (inputs, gates, reach) = (dice.between(1, 9), dice.between(1, 200), dice.pick(&[1, 5, 50]));
                let sum = Sum::random(&mut dice, inputs as usize, gates as usize, reach);
                let session = dice.pick(&sessions);
                let outcome = sum.submit(&engine, session);
                (sum, outcome, submit(&engine, session, toy::rows(3)))
            })
            .collect();
        for (sum, outcome, gates) in running {
            sum.check(&outcome);
            assert_eq!(bits(soon(&gates)), [false; 3]);
        }
        let keys = script.counts().keys_loaded as u64; // the keys of the sessions that got work
        eventually("the memory of arenas", || script.counts().bytes == keys * KEY_BYTES);
        sessions.iter().for_each(|&session| soon(&close(&engine, session)));
        assert_eq!(script.counts().bytes, 0);
        let Usage { arena_bytes, circuits, operations, resident_bytes, .. } = engine.usage();
        assert_eq!((arena_bytes, circuits, operations, resident_bytes), (0, 0, 0, 0));
    });
}

#[test]
fn only_inputs_constants_and_outputs_cross_the_border_of_the_device() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    // 20 levels of 20 gates; a batch has eight gates, so a level takes three batches
    let sum = Sum::block(20, 20);
    sum.check(&sum.submit(&engine, session));
    let counts = script.counts();
    assert_eq!((counts.rows_written, counts.rows_read, counts.batches), (20, 20, 60));
}

#[test]
fn constants_and_inputs_that_are_handed_through_come_out() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let sum = Sum::of("4 7\n2 2 1\n1 4\n\n1 1 1 3 EQ\n1 1 2 4 EQW\n2 1 0 3 5 AND\n1 1 5 6 INV\n");
    sum.check(&sum.submit(&engine, session));
    let without_gates = Sum::of("2 4\n1 2\n1 2\n\n1 1 0 2 EQ\n1 1 1 3 EQW\n");
    let batches = script.counts().batches;
    without_gates.check(&without_gates.submit(&engine, session));
    assert_eq!(script.counts().batches, batches, "the device has no work");
}

#[test]
fn a_circuit_takes_turns_with_others() {
    let (engine, script) = start();
    let [a, b] = [(); 2].map(|()| open(&engine).unwrap());
    // B's key is loaded before the test begins, because a load would let batches of other sessions run meanwhile
    soon(&submit(&engine, b, toy::rows(1))).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let long = Sum::block(50, 8);
    let circuit = long.submit(&engine, a);
    soon(&begun);
    let (gates, stranger) = (submit(&engine, a, toy::rows(1)), submit(&engine, b, toy::rows(8)));
    let before = script.counts().batches;
    // let 20 batches run and hold the 21st, which comes before the circuit ends; when it is held, all operations
    // outside the circuit must have been served
    (0..20).for_each(|_| script.next_batch(Behaviour::Work));
    let (late, end) = script.hold_next_batch();
    go_on.send(()).unwrap();
    soon(&late);
    assert_eq!((bits(soon(&gates)), bits(soon(&stranger))), (vec![false], vec![false; 8]));
    assert!(circuit.try_recv().is_err() && script.counts().batches > before);
    end.send(()).unwrap();
    long.check(&circuit);
}

#[test]
fn circuits_and_gates_of_a_session_share_batches() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let first = submit(&engine, session, toy::rows(1));
    soon(&begun);
    let sums = [(); 3].map(|()| Sum::chain(10));
    let outcomes = sums.each_ref().map(|sum| sum.submit(&engine, session));
    go_on.send(()).unwrap();
    soon(&first).unwrap();
    sums.iter().zip(&outcomes).for_each(|(sum, outcome)| sum.check(outcome));
    assert_eq!(script.counts().batches, 1 + 10, "three circuits, a level of each in every batch");
}

#[test]
fn a_circuit_that_is_cancelled_tells_what_was_done_and_gives_its_memory_back() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    submit(&engine, session, toy::rows(1)).recv().unwrap().unwrap();
    (0..5).for_each(|_| script.next_batch(Behaviour::Work));
    let (begun, go_on) = script.hold_next_batch();
    let (operation, outcome) = Sum::block(30, 8).submit_until(&engine, session, None).unwrap();
    soon(&begun);
    let progress = engine.progress(operation).unwrap();
    assert_eq!((progress.done, progress.total), (40, 240));
    engine.cancel(operation);
    assert_eq!(soon(&outcome).unwrap_err(), Failed { error: Error::Cancelled, completed: vec![(Gate::Xor, 40)] });
    assert_eq!(engine.progress(operation), None);
    assert!(script.counts().bytes > AT_REST, "the batch still runs");
    go_on.send(()).unwrap();
    eventually("the memory of the circuit", || script.counts().bytes == AT_REST);
    assert_eq!(engine.usage().arena_bytes, 0);
}

#[test]
fn a_deadline_and_the_end_of_a_session_give_a_circuits_memory_back() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let deadline = Instant::now() + Duration::from_millis(20);
    let (_, outcome) = Sum::block(30, 8).submit_until(&engine, session, Some(deadline)).unwrap();
    soon(&begun);
    assert_eq!(soon(&outcome).unwrap_err().error, Error::DeadlinePassed);
    go_on.send(()).unwrap();
    eventually("the memory of the circuit", || script.counts().bytes == AT_REST);

    let (begun, go_on) = script.hold_next_batch();
    let outcome = Sum::block(30, 8).submit(&engine, session);
    soon(&begun);
    let erased = close(&engine, session);
    assert_eq!(soon(&outcome).unwrap_err(), Failed { error: Error::Gone, completed: vec![] });
    go_on.send(()).unwrap();
    soon(&erased);
    assert_eq!(script.counts().bytes, 0);
}

#[test]
fn a_circuit_whose_device_fails_once_begins_anew_and_one_whose_device_fails_twice_ends() {
    for behaviour in [Behaviour::Fail, Behaviour::Panic, Behaviour::OutOfMemory] {
        let (engine, script) = start();
        let session = open(&engine).unwrap();
        (0..4).for_each(|_| script.next_batch(Behaviour::Work));
        script.next_batch(behaviour);
        let sum = Sum::block(3, 20);
        sum.check(&sum.submit(&engine, session));
        let counts = script.counts();
        assert_eq!((counts.batches, counts.rows_written), (4 + 9, 2 * 20), "the whole circuit is computed again");

        (0..2).for_each(|_| script.next_batch(Behaviour::Fail));
        let failed = soon(&sum.submit(&engine, session)).unwrap_err();
        assert_eq!(failed.error, Error::Device("device failed: smoke".into()));
        eventually("the memory of the circuit", || script.counts().bytes == AT_REST);
    }
}

#[test]
fn a_batch_that_finds_no_room_is_tried_again_without_the_keys_of_others() {
    let (engine, script) = start();
    let [a, b] = [(); 2].map(|()| open(&engine).unwrap());
    [a, b].iter().for_each(|&session| drop(soon(&submit(&engine, session, toy::rows(1))).unwrap()));
    script.next_batch(Behaviour::OutOfMemory);
    assert_eq!(bits(soon(&submit(&engine, a, toy::rows(1)))), [false]);
    eventually("the eviction", || script.counts().keys_overwritten == 1);
    assert_eq!(bits(soon(&submit(&engine, b, toy::rows(1)))), [false], "the session's key is loaded again");
    assert_eq!(script.counts().keys_loaded, 3);
}

#[test]
fn circuits_that_never_fit_are_refused_and_those_that_do_not_fit_now_wait_at_the_client() {
    let sum = Sum::block(3, 40);
    // a slot takes 16 bytes, and the device keeps 24 slots for gates
    let bytes = 16 * (sum.plan.slots() as u64 + 24);
    for (config, of) in [
        (Config { circuit_rows_max: 119, ..Config::default() }, CircuitBound::Rows),
        (Config { circuit_bytes_max: 80 * 16 - 1, ..Config::default() }, CircuitBound::HostBytes),
        (Config { arena_bytes_max: Some(bytes - 1), ..Config::default() }, CircuitBound::DeviceBytes),
    ] {
        let (engine, _) = start_with(config);
        let session = open(&engine).unwrap();
        match sum.submit_until(&engine, session, None) {
            Err(Error::CircuitTooLarge { of: bound, needed, max }) => assert!(bound == of && needed == max + 1),
            other => panic!("{of}: {:?}", other.map(|_| ())),
        }
    }
    for config in [
        Config { circuit_rows_max: 239, ..Config::default() },
        Config { circuit_bytes_max: 160 * 16 - 1, ..Config::default() },
        Config { arena_bytes_max: Some(bytes), ..Config::default() },
    ] {
        let (engine, script) = start_with(config);
        let session = open(&engine).unwrap();
        let (begun, go_on) = script.hold_next_batch();
        let first = sum.submit(&engine, session);
        soon(&begun);
        assert!(matches!(sum.submit_until(&engine, session, None), Err(Error::Busy { .. })));
        go_on.send(()).unwrap();
        sum.check(&first);
        sum.check(&sum.submit(&engine, session));
    }
}

#[test]
fn shutdown_finishes_circuits() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let sum = Sum::block(10, 20);
    let outcome = sum.submit(&engine, session);
    engine.shutdown();
    sum.check(&outcome);
    assert_eq!(script.counts().bytes, 0);
}

#[test]
#[should_panic(expected = "a ciphertext an input bit")]
fn a_circuit_without_its_inputs_is_a_bug_of_the_caller() {
    let (engine, _) = start();
    let session = open(&engine).unwrap();
    let task = Task::circuit(Sum::chain(3).plan, LweList::with_capacity(toy::LWE_DIMENSION, 0));
    let _ = engine.submit(session, task, None, Box::new(|_| {}));
}
