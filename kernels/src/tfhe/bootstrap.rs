//! A batch of gates on one device, for callers that have their operands at hand.

use crate::backend::{Backend, SlotGate};
use crate::error::Result;
use crate::tfhe::gates::GateRow;
use crate::tfhe::lwe::Lwe;
use crate::tfhe::params::Params;

/// Evaluates gates under one key; one ciphertext a row, in order. See [`Backend::evaluate`].
///
/// # Errors
/// What the device reports.
///
/// # Panics
/// When a row has not as many operands as its gate, or an operand is not of dimension n.
pub fn evaluate<B: Backend>(backend: &B, key: &B::Key, params: &Params, rows: &[GateRow]) -> Result<Vec<Lwe>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let words = params.lwe_dimension + 1;
    let operand_count: usize = rows.iter().map(|row| row.operands.len()).sum();
    let mut operands = Vec::with_capacity(operand_count * words);
    let mut gates = Vec::with_capacity(rows.len());
    for (row, result) in rows.iter().zip(operand_count as u32..) {
        assert_eq!(row.operands.len(), row.gate.arity(), "{}", row.gate.name());
        let mut slots = [0; 3];
        for (slot, operand) in slots.iter_mut().zip(&row.operands) {
            assert_eq!(operand.words().len(), words, "operand of another dimension");
            *slot = (operands.len() / words) as u32;
            operands.extend_from_slice(operand.words());
        }
        gates.push(SlotGate { gate: row.gate, operands: slots, result });
    }
    let mut arena = backend.arena(params, operand_count + rows.len())?;
    backend.write(&mut arena, 0, &operands)?;
    let reads: Vec<u32> = gates.iter().map(|gate| gate.result).collect();
    let results = backend.finish(backend.evaluate(key, &mut arena, &gates, &reads)?)?;
    Ok(results.chunks_exact(words).map(|words| Lwe::new(words.to_vec())).collect())
}
