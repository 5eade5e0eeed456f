//! A batch of gates on one device: linear parts, bootstraps, MUX sums, one key switch a result.

use crate::backend::Backend;
use crate::error::Result;
use crate::tfhe::gates::{self, Gate, GateRow};
use crate::tfhe::lwe::{EIGHTH, Lwe};
use crate::tfhe::params::Params;

/// Evaluates gates under one key; one ciphertext a row, in order. NOT is a negation, MUX two bootstraps whose extracted
/// samples are added before one key switch, all others one bootstrap and one key switch (docs/wire-format.md 8).
///
/// # Errors
/// What the device reports.
///
/// # Panics
/// When a row has not as many operands as its gate, or an operand is not of dimension n.
pub fn evaluate<B: Backend>(backend: &B, key: &B::Key, params: &Params, rows: &[GateRow]) -> Result<Vec<Lwe>> {
    let words = params.lwe_dimension + 1;
    let mut inputs = Vec::with_capacity(rows.iter().map(|row| row.gate.bootstraps()).sum::<usize>() * words);
    for row in rows {
        assert_eq!(row.operands.len(), row.gate.arity(), "{}", row.gate.name());
        assert!(row.operands.iter().all(|operand| operand.words().len() == words), "operand of another dimension");
        for (operands, linear) in gates::bootstraps(row.gate) {
            let [x, y] = operands.map(|operand| row.operands[operand].words());
            let at = inputs.len();
            inputs.resize(at + words, 0);
            gates::linear(*linear, x, y, &mut inputs[at..]);
        }
    }

    let samples = if inputs.is_empty() { Vec::new() } else { backend.bootstrap(key, &inputs)? };
    let sums = add_mux_halves(rows, samples, params.extracted_dimension() + 1);
    let switched = if sums.is_empty() { Vec::new() } else { backend.key_switch(key, &sums)? };

    let mut switched = switched.chunks_exact(words);
    let results = rows.iter().map(|row| match row.gate {
        Gate::Not => row.operands[0].words().iter().map(|word| word.wrapping_neg()).collect(),
        _ => switched.next().expect("one switched sample a bootstrapped gate").to_vec(),
    });
    Ok(results.map(Lwe::new).collect())
}

/// `[bootstraps][kN + 1]` samples to `[bootstrapped gates][kN + 1]`: a MUX's two become `u1 + u2 + 1/8`.
fn add_mux_halves(rows: &[GateRow], samples: Vec<u32>, words: usize) -> Vec<u32> {
    if rows.iter().all(|row| row.gate != Gate::Mux) {
        return samples;
    }
    let mut sums = Vec::with_capacity(samples.len());
    let mut samples = samples.chunks_exact(words);
    for row in rows.iter().filter(|row| row.gate != Gate::Not) {
        let at = sums.len();
        sums.extend_from_slice(samples.next().expect("a sample a bootstrap"));
        if row.gate == Gate::Mux {
            let second = samples.next().expect("a sample a bootstrap");
            for (sum, &word) in sums[at..].iter_mut().zip(second) {
                *sum = sum.wrapping_add(word);
            }
            let body = sums.last_mut().expect("a sample has a body");
            *body = body.wrapping_add(EIGHTH);
        }
    }
    sums
}
