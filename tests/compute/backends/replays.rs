//! Repeated batches: a card may replay their launches, and the words equal those of single launches.

use kernels::cpu::{Cpu, Isa};
use kernels::gpu::{Gpu, Language};
use kernels::tfhe::{EvaluationKey, Gate, Gates, SlotGate};
use kernels::{Backend, Card, Result};
use tests_compute::host_cuda::HostCuda;

use crate::Case;
use crate::device::Device;
use crate::fixtures::{Bodies, Shape, key, torus_rows};
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

/// Checks the number of recordings. A card records only launches that repeat. It drops a recording when the recording's
/// arena or key is dropped, and when scratch memory has to grow.
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
    assert_eq!(recorded(&backend), 4);
    drop(first);
    assert_eq!(recorded(&backend), 2, "after an arena was dropped");
    backend.grow(&mut second, SLOTS + 1).expect("room");
    // CUDA still has the recordings of the arena's first chunk; they are not replayed any more, and are dropped with
    // the chunk
    let stayed = match backend.gpu().properties().language {
        Language::Cuda => 2,
        Language::Wgsl => 0,
    };
    assert_eq!(recorded(&backend), stayed, "after an arena has grown");
    evaluated(&backend, &loaded, &mut second).expect("batches");
    assert_eq!(recorded(&backend), stayed + 2);
    let many: Vec<SlotGate> = (0..9).map(|_| SlotGate { gate: Gate::Or, operands: [0, 1, 2], result: 3 }).collect();
    let pending = backend.evaluate(&loaded, &mut second, &many, &[]).expect("a batch");
    backend.finish(pending).expect("a batch");
    assert_eq!(recorded(&backend), 0, "after scratch memory has moved");
    evaluated(&backend, &loaded, &mut second).expect("batches");
    drop(loaded);
    assert_eq!(recorded(&backend), 0, "after a key was dropped");
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
    ]
    .into_iter()
}
