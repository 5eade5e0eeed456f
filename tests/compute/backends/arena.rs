//! Ciphertexts that stay on the device: slots are written, read and reused, and results are operands of the next batch.

use kernels::tfhe::{EvaluationKey, Gate, GateRow, Lwe, SlotGate};
use kernels::{Backend, Card, Error};
use rand_chacha::rand_core::Rng;
use tests_compute::host_cuda::HostCuda;
use tests_compute::naive::gates;

use crate::Case;
use crate::any_backend::{AnyBackend, Opaque, any};
use crate::device::Device;
use crate::fixtures::{Bodies, Shape, generator, key};

const SHAPE: Shape = Shape(5, 1, 64, 8, 2, 3, 7);

/// Gates, each with the slots of its operands and the slot of its result.
type Batch<'a> = &'a [(Gate, &'a [u32], u32)];

/// An arena on a device, and the words that its slots should hold.
struct Bench {
    backend: Box<AnyBackend>,
    key: EvaluationKey,
    loaded: Opaque,
    arena: Opaque,
    expected: Vec<Lwe>,
}

impl Bench {
    fn new(backend: Box<AnyBackend>, slots: usize) -> Bench {
        let key = key(SHAPE.params(), Bodies::Random, 11);
        let loaded = backend.load_key(&key).expect("a small key fits");
        let arena = backend.arena(key.params.lwe_dimension + 1, slots).expect("room");
        let zero = Lwe::new(vec![0; key.params.lwe_dimension + 1]);
        Bench { backend, key, loaded, arena, expected: vec![zero; slots] }
    }

    /// A bench whose arena has grown to each of these numbers of slots.
    fn grown(backend: Box<AnyBackend>, sizes: &[usize]) -> Bench {
        let mut bench = Bench::new(backend, sizes[0]);
        sizes[1..].iter().for_each(|&slots| bench.grow(slots));
        bench
    }

    fn grow(&mut self, slots: usize) {
        self.backend.grow(&mut self.arena, slots).expect("room");
        self.expected.resize(slots, Lwe::new(vec![0; self.key.params.lwe_dimension + 1]));
    }

    /// Writes random ciphertexts to the slots from `first` on.
    fn write(&mut self, first: u32, count: usize, seed: u64) {
        let words = self.key.params.lwe_dimension + 1;
        let mut rng = generator(seed);
        let rows: Vec<u32> = (0..count * words).map(|_| rng.next_u32()).collect();
        self.backend.write(&mut self.arena, first, &rows).expect("a copy");
        for (slot, row) in self.expected[first as usize..].iter_mut().zip(rows.chunks_exact(words)) {
            *slot = Lwe::new(row.to_vec());
        }
    }

    /// Starts a batch. Also returns the words that the definition gives. A backend does not fold gates, because folding
    /// is the caller's task.
    fn start(&mut self, gates: Batch, reads: &[u32]) -> (Opaque, Vec<u32>) {
        let slot_gates: Vec<SlotGate> = gates
            .iter()
            .map(|&(gate, operands, result)| {
                // slots of operands that a gate does not have must be ignored, so they are invalid here
                let mut slots = [u32::MAX; 3];
                slots[..operands.len()].copy_from_slice(operands);
                SlotGate { gate, operands: slots, result }
            })
            .collect();
        let pending =
            self.backend.evaluate(&self.loaded, &mut self.arena, &slot_gates, reads).expect("a batch is started");
        let results: Vec<(u32, Lwe)> = gates
            .iter()
            .map(|&(gate, operands, result)| {
                let operands = operands.iter().map(|&slot| self.expected[slot as usize].clone()).collect();
                (result, gates::formula(&self.key, &GateRow { gate, operands }))
            })
            .collect();
        for (slot, result) in results {
            self.expected[slot as usize] = result;
        }
        let read = reads.iter().flat_map(|&slot| self.expected[slot as usize].words()).copied().collect();
        (pending, read)
    }

    /// Evaluates a batch and compares its words.
    fn check(&mut self, gates: Batch, reads: &[u32]) {
        let (pending, expected) = self.start(gates, reads);
        assert_eq!(self.backend.finish(pending).expect("a batch"), expected);
    }
}

pub fn cases() -> impl Iterator<Item = Case> {
    let batches_in_parts = Case {
        on: |device: &Device| device.name == "cuda-host",
        ..Case::small("arena/a batch in parts on a card with few groups", |_: &Device| {
            let host = HostCuda::open().expect("trials run only on machines with the backend");
            let backend = Card::new(host.with_properties(|properties| properties.groups_max[0] = 3));
            mixed(Bench::new(any(backend), 16));
            let backend = Card::new(
                HostCuda::open().expect("as before").with_properties(|properties| properties.groups_max[0] = 3),
            );
            mixed(Bench::grown(any(backend), &CHUNKS));
        })
    };
    let too_large = Case {
        on: |device: &Device| device.name == "cuda-host",
        ..Case::small("arena/more slots than the card has room for are out of memory", |_: &Device| {
            // 16 pages of 512 rows, at reserved addresses and in a buffer
            let bytes = 16 << 17;
            let small = |host: HostCuda| {
                Card::new(host.with_properties(|properties| {
                    (properties.memory_bytes, properties.buffer_bytes_max) = (bytes, bytes);
                }))
            };
            let open = || HostCuda::open().expect("trials run only on machines with the backend");
            for (backend, reserves) in [(small(open()), true), (small(open().without_reserved_addresses()), false)] {
                let (words, rows) = (SHAPE.params().lwe_dimension + 1, 16 * 512);
                let mut arena = backend.arena(words, rows / 2).expect("the arena fits");
                backend.write(&mut arena, rows as u32 / 2 - 1, &vec![1; words]).expect("a row");
                assert!(matches!(backend.grow(&mut arena, rows + 1), Err(Error::OutOfMemory(_))));
                let ends = [rows as u32 / 2 - 1, 0, 1];
                let found = backend.finish(backend.read(&arena, &ends).expect("a read")).expect("words");
                assert_eq!(found, [vec![1; words], vec![0; 2 * words]].concat(), "the arena is unchanged");
                let mut other = backend.arena(words, rows / 2).expect("the other half");
                backend.write(&mut other, 0, &vec![2; rows / 2 * words]).expect("all rows");
                // without reserved addresses, a further session gets a further buffer
                let none_left = matches!(backend.arena(words, 1).map(drop), Err(Error::OutOfMemory(_)));
                assert_eq!(none_left, reserves, "a page beyond the last one");
                drop(other);
                // a page that another session had is zero
                let next = backend.arena(words, rows / 2).expect("the pages that were given back");
                let all: Vec<u32> = (0..rows as u32 / 2).collect();
                let found = backend.finish(backend.read(&next, &all).expect("a read")).expect("words");
                assert!(found.iter().all(|&word| word == 0), "words of the session before");
            }
        })
    };
    [
        Case::small("arena/gates of all kinds in one batch", |device| mixed(Bench::new(device.open(2), 16))),
        Case::small("arena/results are operands of the next batch", chained),
        Case::small("arena/slots keep their words when an arena grows", grown),
        Case::small("arena/gates whose ciphertexts are in several chunks", chunked),
        Case::small("arena/an arena that cannot grow is unchanged", too_much),
        Case::small("arena/rows are read without a batch", read),
        Case::small("arena/scattered rows are read with a batch", scattered),
        Case::small("arena/a batch without gates and reads", nothing),
        Case::small("arena/a slot beyond the arena", beyond),
        batches_in_parts,
        too_large,
    ]
    .into_iter()
}

/// Checks one batch with bootstraps, both halves of a MUX and negations. Results replace operands, and slots are read
/// in any order.
fn mixed(mut bench: Bench) {
    bench.write(0, 8, 1);
    bench.check(
        &[
            (Gate::Not, &[0], 8),
            (Gate::Mux, &[1, 2, 3], 9),
            (Gate::Nand, &[4, 5], 10),
            (Gate::Not, &[6], 6),
            (Gate::Xor, &[7, 7], 7),
            (Gate::Mux, &[0, 0, 5], 15),
            (Gate::And, &[1, 2], 11),
        ],
        &[6, 7, 15, 8, 9, 10, 11, 11, 0, 12],
    );
}

/// Checks batches that are started one after another. As many batches are in flight as the device allows.
fn chained(device: &Device) {
    let mut bench = Bench::new(device.open(2), 6);
    bench.write(0, 3, 2);
    let in_flight_max = bench.backend.info().batches_in_flight_max;
    let batches: [(Batch, &[u32]); 4] = [
        (&[(Gate::Or, &[0, 1], 3), (Gate::Not, &[2], 4)], &[]),
        (&[(Gate::Mux, &[3, 4, 0], 5), (Gate::Xnor, &[3, 4], 0)], &[5, 3]),
        // the batch before reads slots 3 and 4; this batch overwrites slot 3, and the next batch overwrites slot 4
        (&[(Gate::Nor, &[5, 0], 3)], &[3]),
        (&[(Gate::Not, &[3], 4), (Gate::And, &[3, 5], 1)], &[0, 1, 2, 3, 4, 5]),
    ];
    let mut pending = std::collections::VecDeque::new();
    for (gates, reads) in batches {
        if pending.len() == in_flight_max {
            let (oldest, expected) = pending.pop_front().expect("a batch is pending");
            assert_eq!(bench.backend.finish(oldest).expect("a batch"), expected);
        }
        pending.push_back(bench.start(gates, reads));
    }
    for (batch, expected) in pending {
        assert_eq!(bench.backend.finish(batch).expect("a batch"), expected);
    }
}

fn grown(device: &Device) {
    let mut bench = Bench::new(device.open(1), 2);
    bench.write(0, 2, 3);
    bench.check(&[(Gate::Not, &[0], 1)], &[]);
    bench.grow(5);
    bench.write(3, 1, 4);
    bench.check(&[(Gate::Not, &[1], 4)], &[0, 1, 2, 3, 4]);
}

/// Sizes of a growing arena. The sizes put the operands and the result of one gate, and the slots of the two halves of
/// a MUX, into different chunks of [`mixed`]'s arena.
const CHUNKS: [usize; 9] = [1, 2, 3, 5, 6, 7, 9, 10, 16];

/// Checks that an arena in chunks gives the same words as an arena in one piece. Batches run before, between and after
/// growths.
fn chunked(device: &Device) {
    mixed(Bench::grown(device.open(2), &CHUNKS));
    let mut bench = Bench::new(device.open(1), 3);
    bench.write(0, 3, 6);
    bench.check(&[(Gate::Xor, &[0, 1], 2)], &[]);
    let slots: [u32; 4] = [2, 5, 11, 13];
    for (before, slot) in slots.into_iter().zip(&slots[1..]) {
        bench.grow(*slot as usize + 1);
        // gates read from the new chunk and write to an earlier one; others read from an earlier chunk and write to the
        // new one
        bench.write(*slot, 1, u64::from(*slot));
        bench.check(&[(Gate::Mux, &[0, *slot, before], 1), (Gate::Not, &[before], *slot - 1)], &[]);
        bench.check(&[(Gate::Nand, &[*slot, 1], before), (Gate::Not, &[1], 0)], &[*slot, 0, before, 1, *slot]);
    }
    // one write crosses the ends of several chunks
    bench.write(1, 12, 7);
    bench.check(&[], &(0..14).rev().collect::<Vec<u32>>());
}

fn too_much(device: &Device) {
    let mut bench = Bench::grown(device.open(1), &[2, 3]);
    bench.write(0, 3, 8);
    for slots in [1 << 50, usize::MAX / 64] {
        assert!(matches!(bench.backend.grow(&mut bench.arena, slots), Err(Error::OutOfMemory(_))), "{slots}");
    }
    bench.check(&[(Gate::And, &[0, 2], 1)], &[0, 1, 2]);
    bench.grow(5);
    bench.check(&[(Gate::And, &[0, 2], 4)], &[4, 3, 1]);
}

/// Checks batches that read more pieces of memory than a CUDA card reads one by one, from one chunk and from several.
fn scattered(device: &Device) {
    for sizes in [&[16][..], &[3, 5, 16]] {
        let mut bench = Bench::grown(device.open(1), sizes);
        bench.write(0, 16, 9);
        let reads = [15, 0, 2, 4, 6, 8, 10, 12, 14, 1, 1];
        bench.check(&[(Gate::Not, &[2], 2), (Gate::And, &[0, 3], 10)], &reads);
        bench.check(&[], &reads);
    }
}

/// Checks reads without a batch, from one chunk and from several chunks. They read rows in any order, the same row
/// repeatedly, or no row at all.
fn read(device: &Device) {
    for sizes in [&[4][..], &[1, 3, 4]] {
        let mut bench = Bench::grown(device.open(1), sizes);
        bench.write(0, 3, 5);
        bench.check(&[(Gate::Not, &[2], 3)], &[]);
        for slots in [&[3, 0, 1, 1][..], &[0, 3, 0, 2, 1, 2], &[2], &[]] {
            let pending = bench.backend.read(&bench.arena, slots).expect("a read");
            let expected: Vec<u32> =
                slots.iter().flat_map(|&slot| bench.expected[slot as usize].words()).copied().collect();
            assert_eq!(bench.backend.finish(pending).expect("a read"), expected);
        }
    }
}

fn nothing(device: &Device) {
    let mut bench = Bench::new(device.open(1), 1);
    bench.check(&[], &[]);
    bench.check(&[], &[0]);
}

fn beyond(device: &Device) {
    let in_vain = |gate: Gate, operands: [u32; 3], result: u32, reads: &[u32]| {
        let mut bench = Bench::new(device.open(1), 2);
        let gates = [SlotGate { gate, operands, result }];
        let start = std::panic::AssertUnwindSafe(|| {
            let _ = bench.backend.evaluate(&bench.loaded, &mut bench.arena, &gates, reads);
        });
        assert!(std::panic::catch_unwind(start).is_err(), "{gate:?} was accepted");
    };
    in_vain(Gate::Not, [2, 0, 0], 0, &[]);
    in_vain(Gate::And, [0, 2, 0], 0, &[]);
    in_vain(Gate::And, [0, 1, 0], 2, &[]);
    in_vain(Gate::Not, [0, 0, 0], 1, &[2]);
}
