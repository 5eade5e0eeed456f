//! A batch as one device call: its parts side by side over the slots of the session's arena.

use kernels::SlotGate;
use kernels::tfhe::{GateRow, Lwe};

use crate::batch::{Batch, Part};
use crate::operation::{Job, Load};

/// What a device writes, evaluates and reads for a batch.
#[derive(Default)]
pub(crate) struct Assembly {
    /// First slot and whole rows of words; as few and as long as the slots' numbers allow.
    pub(crate) writes: Vec<(u32, Vec<u32>)>,
    pub(crate) gates: Vec<SlotGate>,
    /// Slots, part by part.
    pub(crate) reads: Vec<u32>,
}

impl Assembly {
    /// `row_words`: words of a ciphertext, `n + 1`.
    pub(crate) fn of(batch: &Batch, loads: &[Load], row_words: usize) -> Assembly {
        let mut assembly = Assembly { gates: Vec::with_capacity(batch.rows()), ..Assembly::default() };
        for (part, load) in batch.parts.iter().zip(loads) {
            match load {
                Load::Gates(rows) => assembly.add_gates(part, rows),
                Load::Circuit(job) => assembly.add_circuit(part, job, row_words),
            }
        }
        assembly
    }

    fn add_gates(&mut self, part: &Part, rows: &[GateRow]) {
        let (operand_slots, result_slots) = part.slots.split_at(part.slots.len() - rows.len());
        let mut operand_slots = operand_slots.iter();
        for (row, &result) in rows.iter().zip(result_slots) {
            let mut operands = [0; 3];
            for (operand, lwe) in operands.iter_mut().zip(&row.operands) {
                *operand = *operand_slots.next().expect("a slot an operand");
                self.write(*operand, lwe);
            }
            self.gates.push(SlotGate { gate: row.gate, operands, result });
            self.reads.push(result);
        }
    }

    fn add_circuit(&mut self, part: &Part, job: &Job, row_words: usize) {
        let at = |slot: u32| part.slots[slot as usize];
        if part.rows.start == 0 {
            for (&slot, lwe) in job.plan.inputs().iter().zip(&job.inputs) {
                self.write(at(slot), lwe);
            }
            for &(slot, bit) in job.plan.constants() {
                self.write(at(slot), &Lwe::trivial(row_words - 1, bit));
            }
        }
        self.gates.extend(job.plan.gates()[part.rows.clone()].iter().map(|gate| SlotGate {
            gate: gate.gate,
            operands: std::array::from_fn(|i| if i < gate.gate.arity() { at(gate.operands[i]) } else { 0 }),
            result: at(gate.result),
        }));
        if part.completes {
            self.reads.extend(job.plan.outputs().iter().map(|&slot| at(slot)));
        }
    }

    fn write(&mut self, slot: u32, lwe: &Lwe) {
        let words = lwe.words();
        match self.writes.last_mut() {
            Some((first, run)) if *first as usize + run.len() / words.len() == slot as usize => {
                run.extend_from_slice(words);
            }
            _ => self.writes.push((slot, words.to_vec())),
        }
    }
}

/// Cuts the words of an assembly's reads into ciphertexts, part by part.
pub(crate) fn results(batch: &Batch, loads: &[Load], words: &[u32], row_words: usize) -> Vec<Vec<Lwe>> {
    let mut rows = words.chunks_exact(row_words).map(|words| Lwe::new(words.to_vec()));
    let parts = batch.parts.iter().zip(loads).map(|(part, load)| {
        let count = match load {
            Load::Gates(gates) => gates.len(),
            Load::Circuit(job) if part.completes => job.plan.outputs().len(),
            Load::Circuit(_) => 0,
        };
        let of_part: Vec<Lwe> = rows.by_ref().take(count).collect();
        assert_eq!(of_part.len(), count, "a device reads what it was told to");
        of_part
    });
    parts.collect()
}
