//! The sums of gates and cells, over the slots of an arena (cells are defined in `kernels/src/tfhe/cells.rs`).

use std::ops::Range;

use crate::cpu::{Arena, Cpu};
use crate::error::Result;
use crate::tfhe::backend::Stems;
use crate::tfhe::cells::{Amplitude, CellKind, CellView, SlotCells};
use crate::tfhe::cpu::sample_extract::extract_coefficient;
use crate::tfhe::cpu::{Key, blind_rotate};
use crate::tfhe::lwe::EIGHTH;

/// Evaluates the cells in this range of `all`. No cell may read a slot that another cell of the range writes.
pub(super) fn evaluate(cpu: &Cpu, key: &Key, arena: &mut Arena, all: &SlotCells, range: Range<usize>) -> Result<()> {
    let p = *key.params();
    let cells = || range.clone().map(|at| all.cell(at));
    let (words, wire_words) = (arena.row_words, p.extracted_dimension() + 1);
    let mut sums = Vec::new();
    for cell in cells().filter(|cell| cell.wires().len() > 0) {
        let at = sums.len();
        sums.resize(at + wire_words, 0);
        wire_sum(arena, cell, &mut sums[at..]);
    }
    let switched = if sums.is_empty() { Vec::new() } else { cpu.key_switch(key, &sums)? };
    drop(sums);
    let mut switched = switched.chunks_exact(words);
    let (mut inputs, mut amplitudes) = (Vec::new(), Vec::new());
    for cell in cells() {
        let switched = (cell.wires().len() > 0).then(|| switched.next().expect("a row a sum of wires"));
        match cell.kind() {
            CellKind::Switch => {
                let result = cell.results().next().expect("a switch has a result");
                arena.row_mut(result[0]).copy_from_slice(switched.expect("a result is made of wires"));
            }
            CellKind::Bootstrap(amplitude) => {
                let at = inputs.len();
                match switched {
                    Some(row) => inputs.extend_from_slice(row),
                    None => inputs.resize(at + words, 0),
                }
                input_sum(arena, cell, &mut inputs[at..]);
                amplitudes.push(amplitude);
            }
        }
    }
    if inputs.is_empty() {
        return Ok(());
    }
    let accumulators = cpu.rotate(key, &inputs, &amplitudes)?;
    let mut accumulators = accumulators.chunks_exact(p.accumulator_words());
    let mut wire = vec![0; wire_words];
    for cell in cells().filter(|cell| cell.bootstraps() == 1) {
        let accumulator = accumulators.next().expect("an accumulator a bootstrap");
        // the second sample is a quarter turn after the first, at coefficient N / 2
        for (slots, coefficient) in cell.results().zip([0, p.polynomial_size / 2]) {
            extract_coefficient(&p, accumulator, coefficient, &mut wire);
            for (&slot, part) in slots.iter().zip(wire.chunks(words)) {
                arena.row_mut(slot)[..part.len()].copy_from_slice(part);
            }
        }
    }
    Ok(())
}

/// Adds the wires of a cell's sum, each times its factor, to `out`, `[kN + 1]` words. For a key switch, also adds the
/// constant to the body.
fn wire_sum(arena: &Arena, cell: CellView<'_>, out: &mut [u32]) {
    for (factor, slots) in cell.wires() {
        for (&slot, out) in slots.iter().zip(out.chunks_mut(arena.row_words)) {
            add(factor, arena.row(slot), out);
        }
    }
    if cell.kind() == CellKind::Switch {
        add_constant(cell.constant(), out);
    }
}

/// Adds the inputs of a cell's sum, each times its factor, and the constant (in eighths of a turn) to `out`, `[n + 1]`
/// words.
fn input_sum(arena: &Arena, cell: CellView<'_>, out: &mut [u32]) {
    for (factor, slot) in cell.inputs() {
        add(factor, arena.row(slot), out);
    }
    add_constant(cell.constant(), out);
}

/// Adds `factor` times a value to `out`.
pub(super) fn add(factor: i32, value: &[u32], out: &mut [u32]) {
    for (out, &word) in out.iter_mut().zip(value) {
        // (1) plus factor value, word by word
        *out = out.wrapping_add(word.wrapping_mul(factor as u32));
    }
}

/// Adds a constant, in units of 1/8 of a turn, to the body of `out`.
pub(super) fn add_constant(constant: i32, out: &mut [u32]) {
    let body = out.last_mut().expect("a row has a body");
    // (2) plus the constant in the body
    *body = body.wrapping_add(EIGHTH.wrapping_mul(constant as u32));
}

/// Returns the exponent of a body, with the mark if the rotation starts with amplitude 1/4.
pub(super) fn marked(exponent: u32, amplitude: Amplitude) -> u32 {
    match amplitude {
        Amplitude::Eighth => exponent,
        // (3) a mark in the word of the body's exponent: the rotation starts with amplitude 1/4
        Amplitude::Quarter => exponent | blind_rotate::QUARTER,
    }
}
