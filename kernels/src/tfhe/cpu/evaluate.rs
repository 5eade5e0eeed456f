//! Gates over ciphertexts in slots: sums of operands, bootstraps, MUX sums, and one key switch for each result. A MUX is
//! then refreshed.

use crate::cpu::{Arena, Cpu};
use crate::error::Result;
use crate::tfhe::backend::{SlotGate, Stems};
use crate::tfhe::cpu::Key;
use crate::tfhe::cpu::cells::{add, add_constant};
use crate::tfhe::cpu::sample_extract::add_mux_half;
use crate::tfhe::gates::{self, Gate, REFRESH};

/// Evaluates `gates`. No gate may read a slot that another gate writes.
pub(super) fn evaluate(cpu: &Cpu, key: &Key, arena: &mut Arena, gates: &[SlotGate]) -> Result<()> {
    let sums = gates.iter().flat_map(|gate| {
        gates::sums(gate.gate).iter().map(|(operands, sum)| (*sum, operands.map(|operand| gate.operands[operand])))
    });
    let samples = bootstrap(cpu, key, arena, sums)?;
    let samples = add_mux_halves(gates, samples, key.params().extracted_dimension() + 1);
    let bootstrapped = gates.iter().filter(|gate| gate.gate != Gate::Not);
    key_switch(cpu, key, arena, &samples, bootstrapped.map(|gate| gate.result))?;

    let muxes = || gates.iter().filter(|gate| gate.gate == Gate::Mux).map(|gate| gate.result);
    let samples = bootstrap(cpu, key, arena, muxes().map(|result| (REFRESH, [result; 2])))?;
    key_switch(cpu, key, arena, &samples, muxes())?;

    for gate in gates.iter().filter(|gate| gate.gate == Gate::Not) {
        let mut negated = vec![0; arena.row_words];
        add(-1, arena.row(gate.operands[0]), &mut negated);
        arena.row_mut(gate.result).copy_from_slice(&negated);
    }
    Ok(())
}

/// Bootstraps sums of two slots each. The samples are `[sums][kN + 1]` words.
fn bootstrap(
    cpu: &Cpu,
    key: &Key,
    arena: &Arena,
    sums: impl Iterator<Item = (gates::Linear, [u32; 2])>,
) -> Result<Vec<u32>> {
    let words = arena.row_words;
    let mut inputs = Vec::new();
    for (sum, operands) in sums {
        let at = inputs.len();
        inputs.resize(at + words, 0);
        for (factor, operand) in sum.factors.into_iter().zip(operands) {
            add(factor, arena.row(operand), &mut inputs[at..]);
        }
        add_constant(sum.constant, &mut inputs[at..]);
    }
    if inputs.is_empty() { Ok(Vec::new()) } else { cpu.bootstrap(key, &inputs) }
}

/// Key-switches samples, `[results][kN + 1]` words, to the slots of the results.
fn key_switch(
    cpu: &Cpu,
    key: &Key,
    arena: &mut Arena,
    samples: &[u32],
    results: impl Iterator<Item = u32>,
) -> Result<()> {
    if samples.is_empty() {
        return Ok(());
    }
    let switched = cpu.key_switch(key, samples)?;
    for (result, switched) in results.zip(switched.chunks_exact(arena.row_words)) {
        arena.row_mut(result).copy_from_slice(switched);
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
