//! Cells compared with the definition: on arenas in chunks, beside gates, under one key and under two.

use std::sync::OnceLock;

use kernels::Card;
use kernels::tfhe::cells::slots_of_wire;
use kernels::tfhe::{Amplitude, CellKind, EvaluationKey, Gate, GateRow, KeyedGates, Lwe, SlotCells, SlotGate};
use rand_chacha::rand_core::Rng;
use tests_compute::host_cuda::HostCuda;
use tests_compute::naive::gates;

use crate::Case;
use crate::any_backend::{AnyBackend, Opaque, any};
use crate::fixtures::{Bodies, Shape, generator, key};

/// Shapes for which a wire takes one slot or several slots, shapes with one or two mask polynomials, and the shapes of
/// the fast kernels with a short key.
const SHAPES: [Shape; 6] = [
    Shape(80, 1, 64, 8, 2, 3, 7),
    Shape(12, 1, 64, 8, 2, 3, 7),
    Shape(20, 2, 64, 9, 2, 5, 6),
    Shape(40, 1, 256, 6, 3, 4, 6),
    Shape(30, 1, 1024, 8, 2, 3, 7),
    Shape(30, 2, 512, 8, 2, 3, 7),
];
/// Number of inputs. The arena has the inputs first, then the wires, then the results.
const INPUTS: usize = 3;
const WIRES: usize = 4;

/// Terms of a sum, each with a factor and the number of a wire or input.
type Terms = &'static [(i32, usize)];
/// A cell: its constant, its wires, its inputs, and for a bootstrap two numbers: `p` if the amplitude is `1 / p` of a
/// turn, and the number of resulting wires. `None` means a key switch.
type Row = (i32, Terms, Terms, Option<(i128, usize)>);

/// A batch, the arena's contents before the batch, and the slots expected after it.
struct Run {
    key: EvaluationKey,
    slots: Vec<Vec<u32>>,
    cells: SlotCells,
    gates: Vec<SlotGate>,
    /// Slots to read, each with the words that it must begin with.
    expected: Vec<(u32, Vec<u32>)>,
}

impl Run {
    fn new(shape: Shape, seed: u64) -> Run {
        let key = key(shape.params(), Bodies::Random, seed);
        let p = &key.params;
        let (words, wire_slots, mut rng) = (p.lwe_dimension + 1, slots_of_wire(p), generator(seed + 1));
        let slots: Vec<Vec<u32>> =
            (0..INPUTS + WIRES * wire_slots).map(|_| (0..words).map(|_| rng.next_u32()).collect()).collect();
        // a wire's slots are given in reverse order, because they need not be consecutive
        let wire = |at: usize| -> Vec<u32> {
            (0..wire_slots).rev().map(|part| (INPUTS + at * wire_slots + part) as u32).collect()
        };
        let wires: Vec<Vec<u32>> = (0..WIRES).map(wire).collect();
        let of_wire = |at: usize| -> Vec<u32> {
            let parts = wires[at].iter().flat_map(|&slot| &slots[slot as usize]);
            parts.take(p.extracted_dimension() + 1).copied().collect()
        };
        let (mut cells, mut expected, mut next) = (SlotCells::new(wire_slots), Vec::new(), slots.len() as u32);
        let mut take = |count: usize| -> Vec<u32> {
            let taken = (next..next + count as u32).collect();
            next += count as u32;
            taken
        };
        let rows: [Row; 8] = [
            (-1, &[], &[(1, 0), (1, 2)], Some((8, 1))),
            (2, &[(2, 0), (-2, 3)], &[], Some((4, 2))),
            (0, &[(1, 1)], &[], None),
            (-3, &[(-1, 2), (1, 0), (2, 1), (1, 3)], &[(-2, 1), (1, 0)], Some((8, 2))),
            (1, &[], &[(-1, 1)], Some((4, 1))),
            (-1, &[(1, 0), (1, 3)], &[], None),
            (3, &[(1, 0)], &[(1, 0), (-1, 1), (1, 2)], Some((4, 1))),
            (0, &[(1, 2), (1, 1)], &[], Some((8, 1))),
        ];
        for (constant, of_wires, of_inputs, bootstrap) in rows {
            let wire_words: Vec<Vec<u32>> = of_wires.iter().map(|&(_, at)| of_wire(at)).collect();
            let wire_terms: Vec<(i64, &[u32])> =
                of_wires.iter().zip(&wire_words).map(|(&(factor, _), words)| (factor.into(), &words[..])).collect();
            let input_terms: Vec<(i64, &[u32])> =
                of_inputs.iter().map(|&(factor, at)| (factor.into(), &slots[at][..])).collect();
            let sum = gates::cell_sum(&key, constant.into(), &wire_terms, &input_terms);
            let (kind, results) = match bootstrap {
                None => {
                    let result = take(1);
                    expected.push((result[0], sum));
                    (CellKind::Switch, result)
                }
                Some((part, count)) => {
                    let results = take(count * wire_slots);
                    let found = gates::cell_wires(&key, &sum, part, count);
                    for (wire, slots) in found.iter().zip(results.chunks(wire_slots)) {
                        let parts = slots.iter().zip(wire.chunks(words));
                        expected.extend(parts.map(|(&slot, part)| (slot, part.to_vec())));
                    }
                    let amplitude = if part == 4 { Amplitude::Quarter } else { Amplitude::Eighth };
                    (CellKind::Bootstrap(amplitude), results)
                }
            };
            let of_wires = of_wires.iter().map(|&(factor, at)| (factor, &wires[at][..]));
            let of_inputs = of_inputs.iter().map(|&(factor, at)| (factor, at as u32));
            cells.push(kind, constant, of_wires, of_inputs, &results);
        }
        // besides the cells, the batch has gates
        let operands = [1, 0, 2];
        let lwes = operands.map(|slot| Lwe::new(slots[slot as usize].clone()));
        let mut gate = |gate: Gate| {
            let result = take(1)[0];
            let row = GateRow { gate, operands: lwes[..gate.arity()].to_vec() };
            expected.push((result, gates::formula(&key, &row).into_words()));
            SlotGate { gate, operands, result }
        };
        let gates = [Gate::Not, Gate::Nand, Gate::Mux, Gate::Xor].map(&mut gate).to_vec();
        Run { key, slots, cells, gates, expected }
    }

    fn arena(&self, backend: &AnyBackend) -> Opaque {
        let words = self.key.params.lwe_dimension + 1;
        let all = self.slots.len() + self.expected.len();
        // on devices that keep an arena in chunks, this arena has two chunks: `grow` adds the second
        let mut arena = backend.arena(words, INPUTS + 1).expect("a small arena fits");
        backend.grow(&mut arena, all).expect("a small arena fits");
        backend.write(&mut arena, 0, &self.slots.concat()).expect("a write");
        arena
    }
}

pub fn cases() -> impl Iterator<Item = Case> {
    let alone = SHAPES.into_iter().map(|shape| case(format!("cells/{}", shape.name()), shape, 1));
    let two_keys =
        [SHAPES[1], SHAPES[2]].into_iter().map(|shape| case(format!("cells/{}-two-keys", shape.name()), shape, 2));
    let in_parts = Case {
        on: |device| device.name == "cuda-host",
        ..Case::small("cells/in parts on a card with few groups", |_| {
            let host = HostCuda::open().expect("trials run only on machines with the backend");
            let backend = any(Card::new(host.with_properties(|properties| properties.groups_max[0] = 5)));
            check(&*backend, &runs(SHAPES[1], 2));
        })
    };
    alone.chain(two_keys).chain([in_parts])
}

/// Runs for this number of batches, each with its own key.
fn runs(shape: Shape, batches: usize) -> Vec<Run> {
    (0..batches).map(|at| Run::new(shape, 30 + 7 * at as u64)).collect()
}

/// A case with this number of batches in one call.
fn case(name: String, shape: Shape, batches: usize) -> Case {
    let all = OnceLock::new();
    Case {
        on: |_| true,
        ..Case::small(name, move |device| check(&*device.open(2), all.get_or_init(|| runs(shape, batches))))
    }
}

/// Evaluates the batches in one call and compares the words.
fn check(backend: &AnyBackend, runs: &[Run]) {
    let keys: Vec<Opaque> = runs.iter().map(|run| backend.load_key(&run.key).expect("a small key fits")).collect();
    let mut arenas: Vec<Opaque> = runs.iter().map(|run| run.arena(backend)).collect();
    let reads: Vec<Vec<u32>> = runs.iter().map(|run| run.expected.iter().map(|(slot, _)| *slot).collect()).collect();
    let sides = runs.iter().zip(&keys).zip(&mut arenas).zip(&reads);
    let mut batches: Vec<KeyedGates<'_, Opaque, Opaque>> = sides
        .map(|(((run, key), arena), reads)| KeyedGates {
            key,
            arena,
            gates: &run.gates,
            cells: &run.cells,
            ends: &[],
            reads,
        })
        .collect();
    let pending = backend.evaluate_together(&mut batches).expect("cells");
    let found = backend.finish(pending).expect("cells");
    let mut rest = &found[..];
    for run in runs {
        for (slot, expected) in &run.expected {
            let row;
            (row, rest) = rest.split_at(run.key.params.lwe_dimension + 1);
            assert!(row[..expected.len()] == expected[..], "slot {slot} differs from the definition");
        }
    }
}
