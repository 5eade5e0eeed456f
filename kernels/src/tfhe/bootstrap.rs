//! A batch of gates on one device, for callers that hold all operands.

use crate::error::Result;
use crate::tfhe::backend::{Gates, SlotGate};
use crate::tfhe::gate_list::{GateList, GateRow};
use crate::tfhe::gates::Gate;
use crate::tfhe::lwe::Lwe;
use crate::tfhe::lwe_list::LweList;
use crate::tfhe::params::Params;

/// Folds gates ([`GateList::folded`]) and evaluates them under one key. The result has one ciphertext for each row, in
/// order. See [`Gates::evaluate`].
///
/// # Errors
/// The error of the device.
///
/// # Panics
/// When a row has the wrong number of operands, or an operand is not of dimension n.
pub fn evaluate<B: Gates + ?Sized>(backend: &B, key: &B::Key, params: &Params, rows: &[GateRow]) -> Result<Vec<Lwe>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let list = GateList::of_rows(rows).folded();
    assert_eq!(list.dimension(), params.lwe_dimension, "operands of another dimension");
    let needed = list.needed_by(0..rows.len());
    let results_from = needed.len() as u32;
    let mut arena = backend.arena(params.lwe_dimension + 1, needed.len() + rows.len())?;
    let words: Vec<u32> = needed.iter().flat_map(|&place| list.at(place)).copied().collect();
    backend.write(&mut arena, 0, &words)?;
    let slot = |place| needed.binary_search(place).expect("every operand is needed") as u32;
    let slot_gate = |(at, &gate): (usize, &Gate)| {
        let mut operands = [0; 3];
        for (operand, place) in operands.iter_mut().zip(list.places_of(at..at + 1)) {
            *operand = slot(place);
        }
        SlotGate { gate, operands, result: results_from + at as u32 }
    };
    let gates: Vec<SlotGate> = list.gates().iter().enumerate().map(slot_gate).collect();
    let reads: Vec<u32> = gates.iter().map(|gate| gate.result).collect();
    let results = backend.finish(backend.evaluate(key, &mut arena, &gates, &reads)?)?;
    Ok(LweList::from_words(params.lwe_dimension, results).to_lwes())
}
