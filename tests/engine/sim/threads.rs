//! An engine with its threads, on a toy device. Tests do not sleep: channels hold back the calls that must happen
//! later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use engine::{
    AccountId, Config, Engine, Error, Gate, GateList, KeyParams, KeyPart, KeySource, LweList, OnDone, PartId,
    SessionId, Usage,
};

use crate::client::{bits, callback, close, open, soon, start, start_with, submit, submit_named};
use crate::toy::{self, Behaviour, KEY_BYTES, Toy};

#[test]
fn all_gates_on_all_inputs_come_back_in_order() {
    let (engine, _) = start();
    let session = open(&engine).unwrap();
    let mut rows = Vec::new();
    let mut expected = Vec::new();
    for gate in Gate::ALL {
        for inputs in 0..1 << gate.arity() {
            let operands: Vec<_> = (0..gate.arity()).map(|at| inputs >> at & 1 == 1).collect();
            rows.push(toy::row(gate, &operands));
            expected.push(gate.plain(&operands));
        }
    }
    let done = soon(&submit(&engine, session, GateList::of_rows(&rows))).unwrap();
    assert_eq!(done.units, 6 * 4 + 3 * 8);
    assert_eq!(toy::decrypt(&done.results), expected);
}

#[test]
fn a_crowd_of_threads_gets_every_result_once() {
    let (engine, _) = start_with(Config { resident_bytes_max: Some(2 * KEY_BYTES), ..Config::default() });
    const THREADS: usize = 6;
    const OPERATIONS: usize = 40;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = engine.clone();
            scope.spawn(move || {
                let session = engine.open(Arc::new(toy::key()), AccountId(thread as u128), 1 + thread as u32).unwrap();
                let outcomes: Vec<_> = (0..OPERATIONS)
                    .map(|at| {
                        let inputs: Vec<_> = (0..1 + at % 20).map(|bit| (thread + at + bit) % 3 == 0).collect();
                        let rows: Vec<_> = inputs.iter().map(|&bit| toy::row(Gate::And, &[bit, true])).collect();
                        (inputs, submit(&engine, session, GateList::of_rows(&rows)))
                    })
                    .collect();
                for (inputs, outcome) in outcomes {
                    assert_eq!(bits(soon(&outcome)), inputs);
                    assert!(outcome.recv().is_err(), "said once, then dropped");
                }
                soon(&close(&engine, session));
            });
        }
    });
    let gates = (THREADS * (0..OPERATIONS).map(|at| 1 + at % 20).sum::<usize>()) as u64;
    let usage = engine.usage();
    assert_eq!((usage.rows_done, usage.units_done), (gates, gates));
    let idle = Usage {
        resident_bytes_max: 2 * KEY_BYTES,
        // an eighth of the memory of the test's device
        arena_bytes_max: 1 << 17,
        devices_in_service: 1,
        rows_done: gates,
        units_done: gates,
        ..Usage::default()
    };
    assert!(usage.busy > Duration::ZERO);
    assert_eq!(Usage { batches_done: 0, busy: Duration::ZERO, ..usage }, idle);
}

#[test]
fn a_key_is_overwritten_after_the_running_batch_and_before_erased_is_called() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let running = submit(&engine, session, toy::rows(8));
    soon(&begun);
    let queued = submit(&engine, session, toy::rows(1));

    let (say, erased) = channel();
    engine.close(session, {
        let (engine, script) = (engine.clone(), script.clone());
        Box::new(move || say.send((script.keys_overwritten(), engine.usage())).expect("the test listens"))
    });
    assert_eq!(soon(&queued).unwrap_err(), Error::Gone);
    let (done, _) = callback();
    assert_eq!(engine.submit(session, toy::rows(1), None, done).unwrap_err(), Error::Gone);
    assert!(erased.try_recv().is_err(), "the batch still uses the key");
    assert_eq!(script.keys_overwritten(), 0);

    go_on.send(()).unwrap();
    assert_eq!(bits(soon(&running)), [false; 8]);
    let (overwritten, usage) = soon(&erased);
    assert_eq!((overwritten, usage.sessions, usage.key_bytes, usage.resident_bytes), (1, 0, 0, 0));
}

#[test]
fn closing_twice_or_what_was_never_open_tells_everyone() {
    let (engine, _) = start();
    let session = open(&engine).unwrap();
    let receivers = [close(&engine, session), close(&engine, session), close(&engine, SessionId(u64::MAX))];
    receivers.iter().for_each(soon);
}

#[test]
fn a_batch_that_fails_or_panics_once_is_run_again() {
    for behaviour in [Behaviour::Fail, Behaviour::Panic] {
        let (engine, script) = start();
        let session = open(&engine).unwrap();
        script.next_batch(behaviour);
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(5)))), [false; 5]);
    }
}

#[test]
fn a_batch_that_fails_twice_ends_its_operation_and_nothing_else() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    script.next_batch(Behaviour::Fail);
    script.next_batch(Behaviour::Panic);
    match soon(&submit(&engine, session, toy::rows(20))) {
        Err(Error::Device(reason)) => assert!(reason.contains("as scripted"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(20)))), [false; 20]);
}

#[test]
fn a_key_that_cannot_be_loaded_ends_its_sessions_work() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    script.next_load(Behaviour::Panic);
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false], "the second try succeeds");
    let session = open(&engine).unwrap();
    script.next_load(Behaviour::Fail);
    script.next_load(Behaviour::Fail);
    let outcome = soon(&submit(&engine, session, toy::rows(1)));
    assert_eq!(outcome.unwrap_err(), Error::Device("device failed: smoke".into()));
    soon(&close(&engine, session));
}

/// A key whose first reads fail, one of them with a panic.
struct Stubborn {
    key: Arc<engine::EvaluationKey>,
    failures_left: AtomicUsize,
}

impl KeySource for Stubborn {
    fn params(&self) -> KeyParams {
        self.key.params()
    }

    fn host_bytes(&self) -> u64 {
        0
    }

    fn fetch(&self, part: PartId) -> Result<KeyPart, String> {
        let left = self.failures_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Err(_) => self.key.fetch(part),
            Ok(1) => panic!("the key's source panics, as scripted"),
            Ok(_) => Err("the key cannot be read".into()),
        }
    }
}

#[test]
fn a_key_that_cannot_be_read_ends_its_sessions_work_and_harms_neither_the_device_nor_others() {
    let (engine, script) = start();
    let other = open(&engine).unwrap();
    let key = Stubborn { key: Arc::new(toy::key()), failures_left: AtomicUsize::new(5) };
    let session = engine.open(key, AccountId(1), 1).unwrap();
    let reasons = ["the key cannot be read"; 4].into_iter().chain(["panicked: the key's source panics, as scripted"]);
    for reason in reasons {
        let outcome = soon(&submit(&engine, session, toy::rows(1)));
        assert_eq!(outcome.unwrap_err(), Error::Key(reason.into()), "the key is read once");
        assert_eq!(bits(soon(&submit(&engine, other, toy::rows(1)))), [false]);
    }
    assert!(engine.devices()[0].in_service, "failures of a key do not count as failures of the device");
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
    assert_eq!(engine.usage().key_bytes, toy::key().memory_bytes() as u64, "a key in a file takes no memory");
    soon(&close(&engine, session));
    assert_eq!(script.keys_overwritten(), 1);
}

#[test]
fn what_a_key_s_shape_needs_is_compiled_by_the_thread_that_opens_it_while_the_device_goes_on() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel());
    script.next_preparation(Behaviour::Wait(begun, may_go_on));
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| open(&engine).unwrap());
        soon(&has_begun);
        assert_eq!(
            bits(soon(&submit(&engine, session, toy::rows(1)))),
            [false],
            "the session runs while the device compiles"
        );
        go_on.send(()).unwrap();
        let opened = opening.join().unwrap();
        assert_eq!(bits(soon(&submit(&engine, opened, toy::rows(1)))), [false]);
    });
    // opening a session does not report a failure to compile kernels; compiling is tried again when the key is loaded
    for behaviour in [Behaviour::Fail, Behaviour::Panic] {
        script.next_preparation(behaviour);
        let session = open(&engine).unwrap();
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
    }
}

#[test]
fn what_has_not_started_can_be_cancelled() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let (first, running) = submit_named(&engine, session, toy::rows(8));
    soon(&begun);
    let (second, queued) = submit_named(&engine, session, toy::rows(8));
    engine.cancel(first);
    engine.cancel(second);
    assert_eq!(soon(&queued).unwrap_err(), Error::Cancelled);
    go_on.send(()).unwrap();
    assert_eq!(bits(soon(&running)), [false; 8]);
}

#[test]
fn a_deadline_is_kept_even_when_the_device_hangs() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let (_begun, go_on) = script.hold_next_batch();
    let (done, held) = callback();
    let deadline = Instant::now() + Duration::from_millis(20);
    engine.submit(session, toy::rows(8), Some(deadline), done).unwrap();
    assert_eq!(soon(&held).unwrap_err(), Error::DeadlinePassed);
    drop(go_on);
    assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
}

#[test]
fn lone_gates_of_a_burst_share_batches() {
    let (engine, script) = start_with(Config { wait_us_max: 1_000_000, ..Config::default() });
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let first = submit(&engine, session, toy::rows(1));
    soon(&begun);
    let outcomes: Vec<_> = (0..16).map(|_| submit(&engine, session, toy::rows(1))).collect();
    go_on.send(()).unwrap();
    outcomes.iter().chain([&first]).for_each(|outcome| assert_eq!(bits(soon(outcome)), [false]));
    assert_eq!(engine.usage().batches_done, 3, "the first alone, then eight bootstraps a batch");
}

#[test]
fn a_lone_gate_runs_when_nobody_joins_it() {
    let (engine, _) = start_with(Config { wait_us_max: 50, ..Config::default() });
    let session = open(&engine).unwrap();
    // each gate is submitted after the gate before it has ended; at that time, the engine's loop sleeps without an
    // alarm
    for _ in 0..20 {
        assert_eq!(bits(soon(&submit(&engine, session, toy::rows(1)))), [false]);
    }
}

#[test]
fn an_idle_engine_shuts_down() {
    for _ in 0..20 {
        let (engine, _) = start();
        let session = open(&engine).unwrap();
        soon(&close(&engine, session));
        engine.shutdown();
    }
}

#[test]
fn a_full_queue_and_a_full_host_say_busy() {
    let host_bytes = toy::key().memory_bytes() as u64;
    let (engine, script) = start_with(Config {
        session_rows_max: 1024,
        queue_rows_max: 1024,
        key_bytes_max: host_bytes,
        ..Config::default()
    });
    let session = open(&engine).unwrap();
    assert!(matches!(open(&engine), Err(Error::Busy { .. })));
    let (begun, go_on) = script.hold_next_batch();
    let running = submit(&engine, session, toy::rows(1024));
    soon(&begun);
    let (done, outcome) = callback();
    match engine.submit(session, toy::rows(1), None, done) {
        Err(Error::Busy { retry_after }) => assert!(retry_after >= Duration::from_secs(1)),
        other => panic!("{other:?}"),
    }
    assert!(outcome.recv().is_err(), "a refused callback is dropped uncalled");
    drop(go_on);
    assert_eq!(bits(soon(&running)).len(), 1024);
}

#[test]
fn a_key_that_the_device_can_never_hold_is_refused_at_once() {
    let (engine, _) = start_with(Config { resident_bytes_max: Some(KEY_BYTES - 1), ..Config::default() });
    let error = Error::KeyTooLarge { bytes: KEY_BYTES, bytes_max: KEY_BYTES - 1 };
    assert_eq!(open(&engine).unwrap_err(), error);
}

#[test]
fn callbacks_may_use_the_engine_and_one_that_panics_harms_no_other() {
    let (engine, _) = start();
    let session = open(&engine).unwrap();
    engine.submit(session, toy::rows(1), None, Box::new(|_| panic!("a callback panics, as scripted"))).unwrap();
    let (say, outcome) = channel();
    let inner = engine.clone();
    let done: OnDone = Box::new(move |_| say.send(submit(&inner, session, toy::rows(2))).expect("the test listens"));
    engine.submit(session, toy::rows(1), None, done).unwrap();
    assert_eq!(bits(soon(&soon(&outcome))), [false; 2]);
}

#[test]
fn shutdown_finishes_what_is_queued_overwrites_keys_and_takes_nothing_new() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let outcomes: Vec<_> = (0..3).map(|_| submit(&engine, session, toy::rows(20))).collect();
    soon(&begun);
    let stopping = [engine.clone(), engine.clone()].map(|engine| std::thread::spawn(move || engine.shutdown()));
    go_on.send(()).unwrap();
    stopping.into_iter().for_each(|thread| thread.join().unwrap());

    outcomes
        .into_iter()
        .for_each(|outcome| assert_eq!(bits(outcome.try_recv().expect("the callback was called")), [false; 20]));
    assert_eq!(script.keys_overwritten(), 1);
    assert_eq!(open(&engine).unwrap_err(), Error::ShuttingDown);
    let (done, _) = callback();
    assert!(engine.submit(session, toy::rows(1), None, done).is_err());
    soon(&close(&engine, session));
    engine.shutdown();
}

#[test]
fn dropping_the_last_handle_in_a_callback_ends_everything() {
    let (mut toy, script) = Toy::new(8);
    let (alive, is_alive) = channel();
    toy.alive = Some(alive);
    let engine = Engine::with_backend(Config { wait_us_max: 0, ..Config::default() }, toy).unwrap();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let (say, dropped) = channel();
    let last = engine.clone();
    let done: OnDone = Box::new(move |outcome| {
        drop(last);
        say.send(bits(outcome.map_err(|failed| failed.error))).expect("the test listens");
    });
    engine.submit(session, toy::rows(8), None, done).unwrap();
    soon(&begun);
    drop(engine);
    go_on.send(()).unwrap();
    assert_eq!(soon(&dropped), [false; 8]);
    // The device's thread drops the device when the thread ends.
    let ended = is_alive.recv_timeout(Duration::from_secs(60));
    assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    assert_eq!(script.keys_overwritten(), 1);
}

#[test]
fn dropping_the_engine_ends_what_is_queued() {
    let (engine, script) = start();
    let session = open(&engine).unwrap();
    let (begun, go_on) = script.hold_next_batch();
    let running = submit(&engine, session, toy::rows(8));
    soon(&begun);
    let queued = submit(&engine, session, toy::rows(8));
    drop(engine);
    assert_eq!(soon(&queued).unwrap_err(), Error::ShuttingDown);
    go_on.send(()).unwrap();
    assert_eq!(bits(soon(&running)), [false; 8]);
}

#[test]
fn shutdown_in_a_callback_does_not_wait_for_itself() {
    let (engine, _) = start();
    let session = open(&engine).unwrap();
    let (say, stopped) = channel();
    let inner = engine.clone();
    let done: OnDone = Box::new(move |_| {
        inner.shutdown();
        say.send(()).expect("the test listens");
    });
    engine.submit(session, toy::rows(1), None, done).unwrap();
    soon(&stopped);
    engine.shutdown();
}

#[test]
fn a_wrong_setting_is_refused_at_start() {
    let (toy, _) = Toy::new(8);
    let config = Config { session_rows_max: 1, ..Config::default() };
    assert!(matches!(Engine::with_backend(config, toy), Err(Error::Config(_))));
}

#[test]
#[should_panic(expected = "operands have the session's dimension")]
fn operands_of_another_dimension_are_a_bug_of_the_caller() {
    let (engine, _) = start();
    let session = open(&engine).unwrap();
    let row = GateList::new(vec![Gate::Not], LweList::from_words(5, engine::Lwe::trivial(5, true).into_words()));
    let (done, _) = callback();
    let _ = engine.submit(session, row, None, done);
}
