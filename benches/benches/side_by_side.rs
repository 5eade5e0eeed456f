//! Sixteen sessions with a gate each, compared with one session with sixteen gates, on the CPU's threads. Prints a
//! table.
//!
//! `cargo bench --workspace --bench side_by_side`. Each key must be read from memory once for its single gate. The last
//! row shows the least time that this takes: all threads read as many bytes as the keys have.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use benches::{median, only_once};
use client::SecretKey;
use engine::{AccountId, Config, Device, Engine, GateList, LweList, SessionId};
use kernels::Backend;
use kernels::cpu::Cpu;
use kernels::tfhe::{EvaluationKey, Gate, Gates, Preset, SlotGate};
use rayon::prelude::*;

const PRESET: Preset = Preset::Fast128;
const SESSIONS: usize = 16;
const ROUNDS: usize = 31;

fn main() {
    let sessions = if only_once() { 2 } else { SESSIONS };
    let secret = SecretKey::generate(PRESET);
    let keys: Vec<EvaluationKey> = (0..sessions).map(|_| secret.evaluation_key()).collect();
    let cpu = Cpu::open();
    let info = cpu.info().clone();
    let (key_bytes, threads) = (cpu.key_bytes(&PRESET.params()), rayon::current_num_threads());
    println!(
        "Processor: {}, {threads} threads; backend {}; {} keys a call; a key of {:.1} MB.\n",
        info.name,
        info.backend,
        info.keys_together_max,
        key_bytes as f64 / 1e6
    );

    let alone = Alone::new(&cpu, &keys, &secret);
    let config = Config { resident_bytes_max: Some(2 * key_bytes * sessions as u64), ..Config::default() };
    let engine = Engine::with_devices(config, vec![Device::new(Cpu::open())]).expect("the processor serves");
    let open = |key: EvaluationKey| engine.open(std::sync::Arc::new(key), AccountId(1), 1).expect("there is room");
    let opened: Vec<SessionId> = keys.into_iter().map(open).collect();
    let gates = |count: usize| {
        let mut operands = LweList::with_capacity(PRESET.params().lwe_dimension, 2 * count);
        (0..2 * count).for_each(|at| operands.push(secret.encrypt(at % 3 == 0).words()));
        GateList::new(vec![Gate::Nand; count], operands)
    };
    let (together, single) = (gates(sessions), gates(1));
    let memory = vec![1u64; sessions * key_bytes as usize / 8];

    let mut work: [(&str, &mut dyn FnMut()); 4] = [
        ("one session with all gates", &mut || run(&engine, &[opened[0]], &together)),
        ("sessions with a gate each", &mut || run(&engine, &opened, &single)),
        ("the same, one call after another", &mut || alone.run()),
        ("reading as many bytes as their keys", &mut || read(&memory)),
    ];
    let mut times = work.each_ref().map(|_| Vec::new());
    // the first round loads keys and is not counted
    for round in 0..if only_once() { 1 } else { ROUNDS + 1 } {
        for ((_, work), times) in work.iter_mut().zip(&mut times) {
            let started = Instant::now();
            work();
            if round > 0 || only_once() {
                times.push(started.elapsed());
            }
        }
    }
    engine.shutdown();
    if only_once() {
        return;
    }
    println!("| {sessions} gates | median ms | fastest ms | times one session |");
    println!("|---|---|---|---|");
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let reference = median(times[0].clone());
    for ((name, _), times) in work.iter().zip(times) {
        let fastest = times.iter().min().copied().expect("rounds");
        let median = median(times);
        println!("| {name} | {:.1} | {:.1} | {:.2} |", ms(median), ms(fastest), ms(median) / ms(reference));
    }
}

/// Submits the gates to every session without waiting in between, then waits for all results.
fn run(engine: &Engine, sessions: &[SessionId], gates: &GateList) {
    let (say, done) = channel();
    for &session in sessions {
        let say = say.clone();
        let outcome = Box::new(move |outcome: Result<engine::Done, engine::Failed>| {
            say.send(outcome.is_ok()).expect("it is waited for");
        });
        engine.submit(session, gates.clone(), None, outcome).expect("there is room");
    }
    drop(say);
    assert_eq!(done.iter().filter(|&succeeded| succeeded).count(), sessions.len());
}

/// The keys of all sessions on a device without an engine. The device evaluates a gate under each key, in a separate
/// call.
struct Alone<'a> {
    cpu: &'a Cpu,
    keys: Vec<<Cpu as Gates>::Key>,
    operands: Vec<u32>,
}

impl<'a> Alone<'a> {
    fn new(cpu: &'a Cpu, keys: &[EvaluationKey], secret: &SecretKey) -> Self {
        let keys = keys.iter().map(|key| cpu.load_key(key).expect("there is room")).collect();
        let operands = [true, false].map(|bit| secret.encrypt(bit).into_words()).concat();
        Alone { cpu, keys, operands }
    }

    fn run(&self) {
        for key in &self.keys {
            let mut arena = self.cpu.arena(PRESET.params().lwe_dimension + 1, 3).expect("there is room");
            self.cpu.write(&mut arena, 0, &self.operands).expect("a processor does not fail");
            let gate = SlotGate { gate: Gate::Nand, operands: [0, 1, 0], result: 2 };
            let pending = self.cpu.evaluate(key, &mut arena, &[gate], &[2]).expect("a processor does not fail");
            assert!(!self.cpu.finish(pending).expect("a processor does not fail").is_empty());
        }
    }
}

/// Reads the memory once, with all threads.
fn read(memory: &[u64]) {
    let sum: u64 = memory.par_chunks(1 << 20).map(|part| part.iter().sum::<u64>()).sum();
    assert_eq!(sum, memory.len() as u64);
}
