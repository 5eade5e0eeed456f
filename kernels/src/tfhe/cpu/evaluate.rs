//! Gates over ciphertexts in slots: linear parts, bootstraps, MUX sums, and one key switch for each result.

use crate::cpu::{Arena, Cpu};
use crate::error::Result;
use crate::tfhe::backend::{SlotGate, Stems};
use crate::tfhe::cpu::sample_extract::add_mux_half;
use crate::tfhe::cpu::{Key, linear};
use crate::tfhe::gates::{self, Gate};

/// Evaluates `gates`. No gate may read a slot that another gate writes.
pub(super) fn evaluate(cpu: &Cpu, key: &Key, arena: &mut Arena, gates: &[SlotGate]) -> Result<()> {
    let words = arena.row_words;
    let mut inputs = Vec::with_capacity(gates.iter().map(|gate| gate.gate.bootstraps()).sum::<usize>() * words);
    for gate in gates {
        for (operands, row) in gates::bootstraps(gate.gate) {
            let [x, y] = operands.map(|operand| arena.row(gate.operands[operand]));
            let at = inputs.len();
            inputs.resize(at + words, 0);
            linear::linear(*row, x, y, &mut inputs[at..]);
        }
    }
    let samples = if inputs.is_empty() { Vec::new() } else { cpu.bootstrap(key, &inputs)? };
    let sums = add_mux_halves(gates, samples, key.params().extracted_dimension() + 1);
    let switched = if sums.is_empty() { Vec::new() } else { cpu.key_switch(key, &sums)? };

    let mut switched = switched.chunks_exact(words);
    for gate in gates {
        if gate.gate == Gate::Not {
            let negated = linear::negate(arena.row(gate.operands[0]));
            arena.row_mut(gate.result).copy_from_slice(&negated);
        } else {
            let result = switched.next().expect("one switched sample a bootstrapped gate");
            arena.row_mut(gate.result).copy_from_slice(result);
        }
    }
    Ok(())
}

/// Turns the samples of all bootstraps, `[bootstraps][kN + 1]`, into one sample for each bootstrapped gate,
/// `[bootstrapped gates][kN + 1]`: the two samples of a MUX become `u1 + u2 + 1/8`.
fn add_mux_halves(gates: &[SlotGate], samples: Vec<u32>, words: usize) -> Vec<u32> {
    if gates.iter().all(|gate| gate.gate != Gate::Mux) {
        return samples;
    }
    let mut sums = Vec::with_capacity(samples.len());
    let mut samples = samples.chunks_exact(words);
    for gate in gates.iter().filter(|gate| gate.gate != Gate::Not) {
        let at = sums.len();
        sums.extend_from_slice(samples.next().expect("a sample a bootstrap"));
        if gate.gate == Gate::Mux {
            add_mux_half(&mut sums[at..], samples.next().expect("a sample a bootstrap"));
        }
    }
    sums
}
