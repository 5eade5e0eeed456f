//! The key switch compared with the definition: odd and even bases, and columns that end on both sides of a tile.

use std::sync::OnceLock;

use tests_compute::naive::gates;

use crate::Case;
use crate::fixtures::{Bodies, Shape, key, torus_rows};

const SHAPES: [Shape; 12] = [
    Shape(12, 1, 64, 8, 2, 3, 7),
    Shape(12, 1, 64, 8, 2, 8, 4),
    Shape(12, 2, 64, 8, 2, 5, 6),
    Shape(12, 3, 64, 8, 2, 4, 6),
    // tiles have 32 or 64 columns; these rows have one column less than whole tiles (63), whole tiles (64, 128), or one
    // column more (65, 129)
    Shape(62, 1, 64, 8, 1, 7, 3),
    Shape(63, 1, 64, 8, 1, 7, 3),
    Shape(64, 1, 64, 8, 1, 7, 3),
    Shape(127, 1, 64, 8, 1, 6, 5),
    Shape(128, 1, 64, 8, 1, 3, 5),
    // the largest bases and the most levels; in the first and the last of these shapes, the digits cover a word exactly
    Shape(12, 1, 64, 8, 2, 65536, 2),
    Shape(12, 1, 64, 8, 2, 2, 24),
    Shape(12, 1, 64, 8, 2, 4, 16),
];
/// Numbers of rows in a batch: rows for a whole tile and a part of another tile; and so few rows that the kernel
/// computes each row alone.
const ROWS: [usize; 2] = [11, 3];

pub fn cases() -> impl Iterator<Item = Case> {
    SHAPES.into_iter().map(|shape| {
        let key = key(shape.params(), Bodies::Random, 7);
        let words = key.params.extracted_dimension() + 1;
        let inputs = torus_rows(ROWS[0], words, 8);
        let expected = OnceLock::new();
        Case::small(format!("lwe_key_switch/{}", shape.name()), move |device| {
            let backend = device.open(2);
            let loaded = backend.load_key(&key).expect("a small key fits");
            let expected: &Vec<u32> = expected
                .get_or_init(|| inputs.chunks_exact(words).flat_map(|row| gates::key_switch(&key, row)).collect());
            for rows in ROWS {
                let found = backend.key_switch(&loaded, &inputs[..rows * words]).expect("a key switch");
                let expected = &expected[..rows * (key.params.lwe_dimension + 1)];
                assert!(found == expected, "{rows} rows: words differ from the definition's");
            }
        })
    })
}
