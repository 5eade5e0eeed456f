//! Blind rotation with the modulus switch before it and the extraction after it, and whole gates, compared with the
//! definition.

use std::sync::OnceLock;

use kernels::tfhe::{EvaluationKey, Gate, GateRow, Lwe, bootstrap};
use rand_chacha::rand_core::Rng;
use tests_compute::naive::gates;

use crate::Case;
use crate::fixtures::{Bodies, Shape, generator, imported_key, key, torus_rows};

/// Shapes of every kind: rings smaller than a square of the widest vectors, one to four mask polynomials, few and many
/// digits, and values at the bounds of what a shape may have; then the shapes of the presets with a short key.
const SHAPES: [Shape; 16] = [
    Shape(12, 1, 64, 8, 2, 3, 7),
    Shape(12, 1, 128, 6, 3, 4, 6),
    Shape(12, 1, 256, 10, 1, 16, 3),
    Shape(13, 2, 64, 9, 2, 5, 6),
    Shape(12, 2, 128, 4, 5, 8, 4),
    Shape(7, 3, 128, 9, 2, 7, 5),
    Shape(12, 3, 64, 3, 8, 10, 4),
    Shape(5, 4, 64, 7, 4, 2, 16),
    Shape(12, 1, 128, 1, 8, 6, 6),
    Shape(12, 1, 64, 24, 1, 65536, 2),
    Shape(1, 1, 2048, 14, 2, 3, 20),
    Shape(2, 1, 1024, 8, 2, 3, 7),
    Shape(3, 1, 1024, 8, 2, 8, 4),
    Shape(2, 3, 512, 9, 2, 5, 6),
    Shape(3, 2, 512, 8, 2, 3, 7),
    Shape(2, 2, 512, 8, 2, 8, 4),
];
/// The smallest ring for which a CPU uses the double-precision transform, with digits of three levels.
const OF_256: Shape = Shape(4, 2, 256, 6, 3, 4, 6);
/// An odd number of rows, so that the last row has no partner where several rows are computed in step.
const ROWS: usize = 5;

pub fn cases() -> impl Iterator<Item = Case> {
    let random = SHAPES.into_iter().map(|shape| (shape.name(), key(shape.params(), Bodies::Random, 1)));
    // CPUs use the double-precision transform for the last six of these shapes
    let largest = [SHAPES[0], SHAPES[6], SHAPES[7], OF_256, SHAPES[11], SHAPES[12], SHAPES[13], SHAPES[14], SHAPES[15]]
        .into_iter()
        .map(|shape| (format!("{}-largest", shape.name()), key(shape.params(), Bodies::Largest, 2)));
    let imported = [SHAPES[1], SHAPES[4], OF_256, SHAPES[11], SHAPES[13], SHAPES[14]]
        .into_iter()
        .map(|shape| (format!("{}-imported", shape.name()), imported_key(shape.params(), 3)));
    let rotations = random.chain(largest).chain(imported).map(|(name, key)| blind_rotate(name, key));
    rotations.chain([SHAPES[0], SHAPES[3]].into_iter().map(gates)).chain([folded_gates(SHAPES[0])])
}

fn blind_rotate(name: String, key: EvaluationKey) -> Case {
    let words = key.params.lwe_dimension + 1;
    let inputs = torus_rows(ROWS, words, 4);
    let expected = OnceLock::new();
    Case::small(format!("blind_rotate/{name}"), move |device| {
        let backend = device.open(1);
        let loaded = backend.load_key(&key).expect("a small key fits");
        let found = backend.bootstrap(&loaded, &inputs).expect("a bootstrap");
        let expected: &Vec<u32> =
            expected.get_or_init(|| inputs.chunks_exact(words).flat_map(|row| gates::bootstrap(&key, row)).collect());
        assert!(found == *expected, "words differ from the definition's");
    })
}

/// A case with every gate in one batch, so that the halves of a MUX and gates without a bootstrap are among other
/// gates.
fn gates(shape: Shape) -> Case {
    let key = key(shape.params(), Bodies::Random, 5);
    let mut rng = generator(6);
    let words = shape.params().lwe_dimension + 1;
    let rows: Vec<GateRow> = [Gate::Not, Gate::Mux]
        .into_iter()
        .chain(Gate::ALL)
        .map(|gate| {
            let operand = |_| Lwe::new((0..words).map(|_| rng.next_u32()).collect());
            GateRow { gate, operands: (0..gate.arity()).map(operand).collect() }
        })
        .collect();
    whole_gates(format!("gates/{}", shape.name()), key, rows)
}

/// A case with every way in which a gate folds: operands may be equal, opposite or constant.
fn folded_gates(shape: Shape) -> Case {
    let key = key(shape.params(), Bodies::Random, 7);
    let mut rng = generator(8);
    let n = shape.params().lwe_dimension;
    let [a, b, c] = [(); 3].map(|()| Lwe::new((0..=n).map(|_| rng.next_u32()).collect()));
    let not = |lwe: &Lwe| Lwe::new(lwe.words().iter().map(|word| word.wrapping_neg()).collect());
    let (not_a, not_b, yes, no) = (not(&a), not(&b), Lwe::trivial(n, true), Lwe::trivial(n, false));
    let binary = Gate::ALL.into_iter().filter(|gate| gate.arity() == 2);
    let binary = binary.flat_map(|gate| {
        [[&a, &a], [&not_a, &a], [&a, &yes], [&no, &a], [&yes, &yes]].map(|operands| (gate, operands.to_vec()))
    });
    let mux = [
        [&a, &a, &c],
        [&a, &not_a, &c],
        [&a, &b, &a],
        [&a, &b, &not_a],
        [&a, &b, &b],
        [&not_a, &b, &not_b],
        [&yes, &b, &c],
        [&no, &b, &c],
        [&a, &yes, &c],
        [&a, &no, &c],
        [&yes, &no, &c],
        [&a, &b, &yes],
        [&a, &not_a, &a],
        [&a, &not_b, &c],
    ];
    let rows = binary.chain(mux.map(|operands| (Gate::Mux, operands.to_vec())));
    let rows = rows.map(|(gate, operands)| GateRow { gate, operands: operands.into_iter().cloned().collect() });
    whole_gates(format!("gates/{}-folded", shape.name()), key, rows.collect())
}

/// A case that evaluates a batch of gates.
fn whole_gates(name: String, key: EvaluationKey, rows: Vec<GateRow>) -> Case {
    let expected = OnceLock::new();
    Case::small(name, move |device| {
        let backend = device.open(2);
        let loaded = backend.load_key(&key).expect("a small key fits");
        let found = bootstrap::evaluate(&*backend, &loaded, &key.params, &rows).expect("gates");
        let expected: &Vec<Lwe> = expected.get_or_init(|| rows.iter().map(|row| gates::gate(&key, row)).collect());
        for ((row, found), expected) in rows.iter().zip(&found).zip(expected) {
            assert!(found == expected, "{} differs from the definition", row.gate.name());
        }
    })
}
