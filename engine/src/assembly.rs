//! A batch as one device call: its parts side by side over the slots of the session's arena.

use std::borrow::Cow;

use kernels::SlotGate;
use kernels::tfhe::{GateList, Lwe, LweList};

use crate::batch::{Batch, Part};
use crate::device::Work;
use crate::operation::{Job, Load};

/// What a device writes, evaluates and reads for a batch.
pub(crate) struct Assembly<'a> {
    /// `n + 1`.
    row_words: usize,
    /// First slot and whole rows of words; as few and as long as the slots' numbers allow, copied only to be joined.
    pub(crate) writes: Vec<(u32, Cow<'a, [u32]>)>,
    pub(crate) gates: Vec<SlotGate>,
    /// Slots, part by part.
    pub(crate) reads: Vec<u32>,
}

impl<'a> Assembly<'a> {
    pub(crate) fn of(batch: &Batch, loads: &'a [Load], lwe_dimension: usize) -> Assembly<'a> {
        let gates = Vec::with_capacity(batch.rows());
        let mut assembly = Assembly { row_words: lwe_dimension + 1, writes: Vec::new(), gates, reads: Vec::new() };
        for (part, load) in batch.parts.iter().zip(loads) {
            match load {
                Load::Gates(list) => assembly.add_gates(part, list),
                Load::Circuit(job) => assembly.add_circuit(part, job),
            }
        }
        assembly
    }

    fn add_gates(&mut self, part: &Part, list: &'a GateList) {
        let (operand_slots, result_slots) = part.slots.split_at(part.slots.len() - part.rows.len());
        let first = list.operands_of(part.rows.clone()).start;
        self.write(operand_slots, list.operands(), first);
        for (row, &result) in part.rows.clone().zip(result_slots) {
            let mut operands = [0; 3];
            for (slot, operand) in operands.iter_mut().zip(list.operands_of(row..row + 1)) {
                *slot = operand_slots[operand - first];
            }
            self.gates.push(SlotGate { gate: list.gates()[row], operands, result });
        }
        self.reads.extend(result_slots);
    }

    fn add_circuit(&mut self, part: &Part, job: &'a Job) {
        let at = |slot: u32| part.slots[slot as usize];
        if part.rows.start == 0 {
            let inputs: Vec<u32> = job.plan.inputs().iter().map(|&slot| at(slot)).collect();
            self.write(&inputs, &job.inputs, 0);
            for &(slot, bit) in job.plan.constants() {
                self.write_run(at(slot), Lwe::trivial(self.row_words - 1, bit).into_words().into());
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

    /// Writes ciphertexts, from the list's `first` on, to these slots.
    fn write(&mut self, slots: &[u32], list: &'a LweList, mut first: usize) {
        for run in slots.chunk_by(|a, b| a + 1 == *b) {
            self.write_run(run[0], list.rows(first..first + run.len()).into());
            first += run.len();
        }
    }

    fn write_run(&mut self, slot: u32, words: Cow<'a, [u32]>) {
        match self.writes.last_mut() {
            Some((first, run)) if *first as usize + run.len() / self.row_words == slot as usize => {
                run.to_mut().extend_from_slice(&words);
            }
            _ => self.writes.push((slot, words)),
        }
    }
}

/// Cuts the words that a call has read into the results of each batch's parts. `lwe_dimension` is that of a batch's key.
pub(crate) fn results(call: &[Work], words: Vec<u32>, lwe_dimension: impl Fn(&Work) -> usize) -> Vec<Vec<LweList>> {
    let count = |(part, load): (&Part, &Load)| match load {
        Load::Gates(_) => part.rows.len(),
        Load::Circuit(job) if part.completes => job.plan.outputs().len(),
        Load::Circuit(_) => 0,
    };
    let counts = |work: &Work| work.batch.parts.iter().zip(&work.loads).map(count).collect::<Vec<_>>();
    let shapes: Vec<_> = call.iter().map(|work| (lwe_dimension(work), counts(work))).collect();
    let expected: usize = shapes.iter().map(|(dimension, counts)| (dimension + 1) * counts.iter().sum::<usize>()).sum();
    assert_eq!(words.len(), expected, "a device reads what it was told to");
    if let [(dimension, counts)] = &shapes[..]
        && counts.len() == 1
    {
        return vec![vec![LweList::from_words(*dimension, words)]];
    }
    let mut rest = &words[..];
    let mut take = |dimension: usize, rows: usize| {
        let (taken, left) = rest.split_at(rows * (dimension + 1));
        rest = left;
        LweList::from_words(dimension, taken.to_vec())
    };
    shapes.iter().map(|(dimension, counts)| counts.iter().map(|&rows| take(*dimension, rows)).collect()).collect()
}
