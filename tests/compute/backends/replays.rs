//! Repeated batches: a card may replay their launches, and the words equal those of single launches.

use kernels::cpu::{Cpu, Isa};
use kernels::gpu::Gpu;
use kernels::tfhe::{EvaluationKey, Gate, Gates, SlotGate};
use kernels::{Backend, Card, Result};
use tests_compute::host_cuda::HostCuda;

use crate::Case;
use crate::device::Device;
use crate::fixtures::{Bodies, Shape, key, torus_rows};
use crate::numbers::NumbersCase;
use crate::wgpu::open_software;

const SHAPE: Shape = Shape(5, 1, 64, 8, 2, 3, 7);
const SLOTS: usize = 8;
/// Number of turns. A turn has two batches: a single gate, and a level of two gates. The slots differ from turn to
/// turn.
const TURNS: u32 = 5;

/// The batches of a turn, each with the slots that it reads.
fn turn(turn: u32) -> [(Vec<SlotGate>, Vec<u32>); 2] {
    let gate = |gate, operands: [u32; 3], result| SlotGate { gate, operands: operands.map(|slot| slot % 4), result };
    let kind = [Gate::And, Gate::Xor, Gate::Nor][turn as usize % 3];
    let lone = vec![gate(kind, [turn, turn + 1, 0], 4 + turn % 4)];
    let level = vec![gate(Gate::Mux, [turn, turn + 2, turn + 1], turn % 4), gate(Gate::Nand, [turn + 3, turn, 0], 5)];
    [(lone, vec![4 + turn % 4]), (level, vec![turn % 4, 5])]
}

/// Runs the batches of all turns and returns the words that each batch reads.
fn evaluated<B: Gates + ?Sized>(backend: &B, key: &B::Key, arena: &mut B::Arena) -> Result<Vec<Vec<u32>>> {
    let batches = (0..TURNS).flat_map(turn);
    batches.map(|(gates, reads)| backend.finish(backend.evaluate(key, arena, &gates, &reads)?)).collect()
}

fn arena<B: Gates + ?Sized>(backend: &B, key: &EvaluationKey) -> B::Arena {
    let row_words = key.params.lwe_dimension + 1;
    let mut arena = backend.arena(row_words, SLOTS).expect("room");
    backend.write(&mut arena, 0, &torus_rows(SLOTS, row_words, 31)).expect("a copy");
    arena
}

fn expected(key: &EvaluationKey) -> Vec<Vec<u32>> {
    let cpu = Cpu::with(Isa::Portable, 1);
    let loaded = cpu.load_key(key).expect("a key fits");
    evaluated(&cpu, &loaded, &mut arena(&cpu, key)).expect("a CPU does not fail")
}

/// Checks the words of repeated batches, on every backend.
fn words(device: &Device) {
    let key = key(SHAPE.params(), Bodies::Random, 30);
    let backend = device.open(1);
    let loaded = backend.load_key(&key).expect("a key fits");
    let found = evaluated(&*backend, &loaded, &mut arena(&*backend, &key)).expect("batches");
    assert!(found == expected(&key), "words differ from those of a CPU");
}

/// Checks the number of recordings. A card records only launches that repeat. All sessions share them. The card drops its
/// recordings when scratch memory has to grow, and keeps them when an arena or a key is dropped.
fn kept<G: Gpu>(gpu: G, recorded: impl Fn(&G) -> usize) {
    let key = key(SHAPE.params(), Bodies::Random, 30);
    let expected = expected(&key);
    let backend = Card::new(gpu);
    let recorded = |backend: &Card<G>| recorded(backend.gpu());
    let loaded = backend.load_key(&key).expect("a key fits");
    let mut first = arena(&backend, &key);
    assert_eq!(recorded(&backend), 0);
    assert!(evaluated(&backend, &loaded, &mut first).expect("batches") == expected);
    assert_eq!(recorded(&backend), 2, "a lone gate and a level");
    let mut second = arena(&backend, &key);
    assert!(evaluated(&backend, &loaded, &mut second).expect("batches") == expected);
    assert_eq!(recorded(&backend), 2, "the same launches with another arena");
    drop(first);
    backend.grow(&mut second, SLOTS + 1).expect("room");
    evaluated(&backend, &loaded, &mut second).expect("batches");
    drop(loaded);
    assert_eq!(recorded(&backend), 2, "after an arena and a key were dropped");
    let loaded = backend.load_key(&key).expect("a key fits");
    let many: Vec<SlotGate> = (0..9).map(|_| SlotGate { gate: Gate::Or, operands: [0, 1, 2], result: 3 }).collect();
    let pending = backend.evaluate(&loaded, &mut second, &many, &[]).expect("a batch");
    backend.finish(pending).expect("a batch");
    assert_eq!(recorded(&backend), 0, "after scratch memory has moved");
}

/// Checks the number of replays, which the emulated card counts.
fn counted(_: &Device) {
    let host = HostCuda::open().expect("trials run only on machines with the backend");
    let key = key(SHAPE.params(), Bodies::Random, 30);
    let backend = Card::new(host);
    let loaded = backend.load_key(&key).expect("a key fits");
    let mut arena = arena(&backend, &key);
    evaluated(&backend, &loaded, &mut arena).expect("batches");
    // the bootstrap that refreshes a MUX has the launches of a single gate. The first level needs more scratch memory, so
    // the recording of the first single gate is dropped, and the second is recorded again: all single gates but two and
    // all levels but one are replayed
    assert_eq!(backend.gpu().recorded(), (2, u64::from(2 * TURNS - 2 + TURNS - 1)));
}

/// Checks that every turn after the second is replayed with 200 sessions, each with its own key and arena, as with one.
/// Two shapes of batches come in turns. Every turn has another session, and some sessions end and others begin.
fn sessions(_: &Device) {
    const SESSIONS: usize = 200;
    let backend = Card::new(HostCuda::open().expect("trials run only on machines with the backend"));
    let keys = [0, 1, 2].map(|i| key(SHAPE.params(), Bodies::Random, 30 + i));
    let words = keys.each_ref().map(expected);
    let mut opened: Vec<_> = (0..SESSIONS)
        .map(|i| (backend.load_key(&keys[i % 3]).expect("a key fits"), arena(&backend, &keys[i % 3])))
        .collect();
    // the largest batch first, so that scratch memory does not move later
    let batches: Vec<(Vec<SlotGate>, Vec<u32>)> = turn(0).into_iter().rev().collect();
    let mut turns = 0;
    for at in 0..SESSIONS {
        if at % 7 == 3 {
            opened[at] = (backend.load_key(&keys[at % 3]).expect("a key fits"), arena(&backend, &keys[at % 3]));
        }
        let (key, arena) = &mut opened[at];
        for (gates, reads) in &batches {
            let pending = backend.evaluate(key, arena, gates, reads).expect("a batch");
            backend.finish(pending).expect("a batch");
        }
        turns += 1;
    }
    // a turn has three sequences: the level, the bootstrap that refreshes its MUX, and the single gate, which has the
    // launches of that bootstrap
    let (recorded, replays) = backend.gpu().recorded();
    assert_eq!((recorded, replays), (2, 3 * turns - 2));
    // the sessions computed with their own keys
    for (at, (key, _)) in opened.iter().enumerate().step_by(29) {
        let found = evaluated(&backend, key, &mut arena(&backend, &keys[at % 3])).expect("batches");
        assert!(found == words[at % 3], "session {at}");
    }
}

/// Checks that operations of other keys and arenas are replayed. Every turn has another session.
fn numbers(_: &Device) {
    let backend = Card::new(HostCuda::open().expect("trials run only on machines with the backend"));
    NumbersCase::short().in_turns(&backend, 6);
    // the first turn is launched, the second one is recorded, and it and all others are replayed; the recording ended with
    // the tables
    assert_eq!(backend.gpu().recorded(), (0, 5));
}

pub fn cases() -> impl Iterator<Item = Case> {
    [
        Case::small("replays/words equal those of a CPU", words),
        Case {
            on: |device| device.name == "cuda-host",
            ..Case::small("replays/recordings are dropped with their parts", |_| {
                kept(HostCuda::open().expect("trials run only on machines with the backend"), |host| host.recorded().0);
            })
        },
        Case {
            on: |device| device.name == "wgpu-software",
            ..Case::small("replays/recordings are dropped with their parts", |_| {
                kept(open_software().expect("trials run only on machines with the backend"), |card| card.recorded());
            })
        },
        Case { on: |device| device.name == "cuda-host", ..Case::small("replays/how often", counted) },
        Case { on: |device| device.name == "cuda-host", ..Case::small("replays/200 sessions in turns", sessions) },
        Case { on: |device| device.name == "cuda-host", ..Case::small("replays/numbers in turns", numbers) },
    ]
    .into_iter()
}
