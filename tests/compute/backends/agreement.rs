//! The presets at full size, for which the definition would take minutes. So for every backend, number of threads and
//! size of batch, the results are compared with the results of plain Rust on one thread.

use std::sync::OnceLock;

use kernels::cpu::{Cpu, Isa};
use kernels::tfhe::{EvaluationKey, Gates, Preset, Stems};

use crate::Case;
use crate::any_backend::AnyBackend;
use crate::fixtures::{Bodies, key, torus_rows};

/// Numbers of rows in a batch: one, two, three, more than fit in one group, and more than fit in one group for each
/// thread.
const ROWS: [usize; 5] = [1, 2, 3, 17, 33];
const ROWS_MAX: usize = 33;

struct Expected {
    key: EvaluationKey,
    inputs: Vec<u32>,
    samples: Vec<u32>,
    outputs: Vec<u32>,
}

impl Expected {
    fn new(preset: Preset) -> Expected {
        let key = key(preset.params(), Bodies::Random, 9);
        let inputs = torus_rows(ROWS_MAX, key.params.lwe_dimension + 1, 10);
        let backend = Cpu::with(Isa::Portable, 1);
        let loaded = backend.load_key(&key).expect("a key fits");
        let samples = backend.bootstrap(&loaded, &inputs).expect("a bootstrap");
        let outputs = backend.key_switch(&loaded, &samples).expect("a key switch");
        Expected { key, inputs, samples, outputs }
    }
}

pub fn cases() -> impl Iterator<Item = Case> {
    Preset::ALL.into_iter().map(|preset| {
        let expected = OnceLock::new();
        Case::large(format!("agreement/{}", preset.name()), move |device| {
            let Expected { key, inputs, samples, outputs } = expected.get_or_init(|| Expected::new(preset));
            let row_in = key.params.lwe_dimension + 1;
            let sample = key.params.extracted_dimension() + 1;
            let backends = device.threads.iter().map(|&threads| (threads, device.open(threads)));
            let backends: Vec<(usize, Box<AnyBackend>)> = backends.collect();
            let loaded = backends[backends.len() / 2].1.load_key(key).expect("a key fits");
            for (threads, backend) in backends {
                // also a batch of more than `rows_max` rows, because cards use other kernels for large batches than for
                // small ones
                let full = device.is_gpu().then(|| backend.info().rows_max + 1);
                for rows in ROWS.into_iter().chain(full) {
                    let found = backend.bootstrap(&loaded, &repeated(inputs, row_in, rows)).expect("a bootstrap");
                    let expected = repeated(samples, sample, rows);
                    assert!(found == expected, "{rows} rows on {threads} threads, bootstrap");
                    let found = backend.key_switch(&loaded, &expected).expect("a key switch");
                    let expected = repeated(outputs, row_in, rows);
                    assert!(found == expected, "{rows} rows on {threads} threads, key switch");
                }
            }
        })
    })
}

/// The rows of `words`, repeated until there are `rows` of them.
fn repeated(words: &[u32], row_words: usize, rows: usize) -> Vec<u32> {
    words.chunks_exact(row_words).cycle().take(rows).flatten().copied().collect()
}
