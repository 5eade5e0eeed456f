//! Runs a plan on one device from its inputs to its outputs, for callers that hold all inputs.

use super::Plan;
use crate::error::Result;
use crate::tfhe::backend::{Gates, KeyedGates};
use crate::tfhe::cells::SlotCells;
use crate::tfhe::lwe::Lwe;
use crate::tfhe::lwe_list::LweList;

/// Evaluates a plan under one key, level by level over a new arena. The result is one ciphertext for each output bit,
/// in order.
///
/// A plan with cells works only for keys with the parameters that the plan was made for. `level_done` is called after
/// each level with the number of finished levels.
///
/// # Errors
/// The error of the device.
///
/// # Panics
/// When the number of inputs is not the plan's.
pub fn run_plan<B: Gates + ?Sized>(
    backend: &B,
    key: &B::Key,
    plan: &Plan,
    inputs: &LweList,
    level_done: &mut dyn FnMut(usize),
) -> Result<LweList> {
    assert_eq!(inputs.len(), plan.inputs().len(), "a ciphertext an input bit");
    let dimension = inputs.dimension();
    let mut arena = backend.arena(dimension + 1, plan.slots())?;
    for (&slot, words) in plan.inputs().iter().zip(inputs.iter()) {
        backend.write(&mut arena, slot, words)?;
    }
    for &(slot, bit) in plan.constants() {
        backend.write(&mut arena, slot, Lwe::trivial(dimension, bit).words())?;
    }
    for (level, rows) in plan.levels().enumerate() {
        let (all, of_level) = plan.cells_of(rows.clone());
        let mut cells = SlotCells::new(all.wire_slots());
        cells.extend_from(all, of_level, |slot| slot);
        let batch =
            KeyedGates { key, arena: &mut arena, gates: plan.gates_of(rows), cells: &cells, ends: &[], reads: &[] };
        let pending = backend.evaluate_together(&mut [batch])?;
        backend.finish(pending)?;
        level_done(level + 1);
    }
    let mut outputs = backend.finish(backend.read(&arena, plan.outputs())?)?;
    plan.negate_outputs(&mut outputs);
    Ok(LweList::from_words(dimension, outputs))
}
