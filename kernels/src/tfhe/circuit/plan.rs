//! A plan prepares a circuit for a device: gates or cells ordered by level, over as few slots as the lifetimes of
//! values allow.

use std::ops::Range;

use super::values::{Numbered, numbered};
use super::{Circuit, Signal};
use crate::tfhe::backend::SlotGate;
use crate::tfhe::cells::{NO_CELLS, SlotCells};
use crate::tfhe::fold::Bit;
use crate::tfhe::gates::Gate;

/// The part of a circuit that its outputs need (`circuit/values.rs`), with a slot for each value. The first slots hold
/// the inputs, in order. The next slots hold the constants that gates or outputs read, and the slots after these hold
/// the results of gates.
///
/// A slot is reused only after the level of its last reader. The slot of an input is never reused in the first level.
/// So no gate of a level writes a slot that another gate of that level reads or writes. The gates of a level may
/// therefore run in any order, together or in parts. The outputs' slots are never reused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The gates. They are the first rows of the plan.
    pub(super) gates: Vec<SlotGate>,
    /// The cells ([`super::mapped`]). They are the rows after the gates.
    pub(super) cells: SlotCells,
    /// For each row, how many XOR, AND and NOT gates of the circuit the row stands for.
    pub(super) stands_for: Vec<[u32; 3]>,
    pub(super) gates_asked: u64,
    pub(super) gates_free: u64,
    /// For each level, the index after the level's last row.
    pub(super) level_ends: Vec<usize>,
    pub(super) inputs: Vec<u32>,
    pub(super) constants: Vec<(u32, bool)>,
    pub(super) outputs: Vec<u32>,
    /// For each output, whether the output is the negation of the bit in its slot.
    pub(super) negated: Vec<bool>,
    pub(super) slots: usize,
}

/// The kinds of gates that an entry of `stands_for` counts, in the order of the counts.
const KINDS: [Gate; 3] = [Gate::Xor, Gate::And, Gate::Not];

impl Plan {
    /// Plans a circuit whose inputs are unknown. The plan assumes that all inputs are different.
    pub fn new(circuit: &Circuit) -> Plan {
        let inputs = circuit.input_widths().iter().sum::<usize>() as u32;
        Plan::of(&numbered(circuit, &(0..inputs).map(Bit::value).collect::<Vec<_>>()), circuit.gates().len())
    }

    /// Orders the remaining gates by level and assigns a slot to every wire.
    pub(in crate::tfhe) fn of(Numbered { circuit, kinds, .. }: &Numbered, gates_asked: usize) -> Plan {
        let levels = circuit.levels();
        let lives = Lives::of(circuit, &levels);
        let input_bits = circuit.input_widths().iter().sum::<usize>();
        let mut slots = SlotPool::default();
        let inputs: Vec<u32> = (0..input_bits).map(|_| slots.take()).collect();
        let constants: Vec<(u32, bool)> = [false, true]
            .into_iter()
            .filter(|&bit| lives.constants[usize::from(bit)].is_some())
            .map(|bit| (slots.take(), bit))
            .collect();
        let mut results = vec![0; circuit.gates().len()];
        let slot_of = |signal: Signal, results: &[u32]| match signal {
            Signal::Input(bit) => inputs[bit as usize],
            Signal::Gate(index) => results[index as usize],
            Signal::Constant(bit) => constants.iter().find(|&&(_, of)| of == bit).expect("it is read").0,
        };

        // for each level, the signals whose slots become free
        let mut freed: Vec<Vec<Signal>> = vec![Vec::new(); levels.len().max(1) + 1];
        lives.for_each(|signal, from_level| freed[from_level].push(signal));
        let mut gates = Vec::with_capacity(circuit.gates().len());
        let mut stands_for = Vec::with_capacity(circuit.gates().len());
        let mut level_ends = Vec::with_capacity(levels.len());
        for (level, freed) in levels.iter().zip(&freed) {
            freed.iter().for_each(|&signal| slots.give_back(slot_of(signal, &results)));
            for &index in level {
                let gate = &circuit.gates()[index];
                let mut operands = [0; 3];
                for (slot, &signal) in operands.iter_mut().zip(gate.operands()) {
                    *slot = slot_of(signal, &results);
                }
                results[index] = slots.take();
                gates.push(SlotGate { gate: gate.gate(), operands, result: results[index] });
                stands_for.push(kinds[index]);
            }
            level_ends.push(gates.len());
        }
        let outputs: Vec<u32> = circuit.outputs().iter().map(|&signal| slot_of(signal, &results)).collect();
        let negated = vec![false; outputs.len()];
        let computed: u64 = stands_for.iter().flatten().map(|&gates| u64::from(gates)).sum();
        let (gates_asked, slots) = (gates_asked as u64, slots.count as usize);
        let (gates_free, cells) = (gates_asked - computed, NO_CELLS.clone());
        Plan {
            gates,
            cells,
            stands_for,
            gates_asked,
            gates_free,
            level_ends,
            inputs,
            constants,
            outputs,
            negated,
            slots,
        }
    }

    /// The number of rows: gates, then cells.
    pub fn rows(&self) -> usize {
        self.gates.len() + self.cells.len()
    }

    /// The gates in this range of rows.
    ///
    /// # Panics
    /// When the range is outside the plan.
    pub fn gates_of(&self, rows: Range<usize>) -> &[SlotGate] {
        let end = self.gates.len();
        &self.gates[rows.start.min(end)..rows.end.min(end)]
    }

    /// Returns the list of all cells, and the part of this list that lies in these rows.
    pub fn cells_of(&self, rows: Range<usize>) -> (&SlotCells, Range<usize>) {
        let first = self.gates.len();
        (&self.cells, rows.start.saturating_sub(first)..rows.end.saturating_sub(first))
    }

    /// The number of bootstraps of a row.
    ///
    /// # Panics
    /// When the row does not exist.
    pub fn bootstraps_of(&self, row: usize) -> usize {
        match self.gates.get(row) {
            Some(gate) => gate.gate.bootstraps(),
            None => self.cells.cell(row - self.gates.len()).bootstraps(),
        }
    }

    /// The range of rows of each level. A level's rows read only inputs and results of earlier levels.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        (0..self.level_ends.len()).map(|level| match level {
            0 => 0..self.level_ends[0],
            _ => self.level_ends[level - 1]..self.level_ends[level],
        })
    }

    /// For each level, the index after its last row.
    pub fn level_ends(&self) -> &[usize] {
        &self.level_ends
    }

    /// The number of slots that the plan needs.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slot of each input bit, for all inputs in order, bit 0 of the first input first.
    pub fn inputs(&self) -> &[u32] {
        &self.inputs
    }

    /// The slots that hold a constant from the start, each with the constant's bit.
    pub fn constants(&self) -> &[(u32, bool)] {
        &self.constants
    }

    /// The slot of each output bit after the last level, for all outputs in order, bit 0 of the first output first.
    /// [`Plan::negate_outputs`] makes the outputs of the ciphertexts in these slots.
    pub fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// Negates the ciphertexts of the outputs that are negations of the bits in their slots. `words` are the
    /// ciphertexts of all outputs, in order.
    ///
    /// An output and its negation are exact opposites in this way. So a later gate of both is folded, as a gate of two
    /// operands with dependent noise must be.
    pub fn negate_outputs(&self, words: &mut [u32]) {
        let row_words = words.len() / self.outputs.len().max(1);
        for (at, _) in self.negated.iter().enumerate().filter(|&(_, &negated)| negated) {
            words[at * row_words..][..row_words].iter_mut().for_each(|word| *word = word.wrapping_neg());
        }
    }

    /// The number of circuit gates that a row stands for, by kind. A row stands for the gates that it computes, and for
    /// all gates that equal one of these.
    ///
    /// # Panics
    /// When the row does not exist.
    pub fn stands_for(&self, row: usize) -> impl Iterator<Item = (Gate, u32)> + '_ {
        KINDS.into_iter().zip(self.stands_for[row]).filter(|&(_, gates)| gates > 0)
    }

    /// The number of gates in the circuit's text.
    pub fn gates_asked(&self) -> u64 {
        self.gates_asked
    }

    /// The number of gates that no row stands for, because they are constants or inputs, or nothing reads them.
    pub fn gates_free(&self) -> u64 {
        self.gates_free
    }

    /// The number of levels with a bootstrap.
    pub fn bootstrap_levels(&self) -> u64 {
        self.levels().filter(|level| level.clone().any(|row| self.bootstraps_of(row) > 0)).count() as u64
    }

    /// The number of bootstraps of all rows.
    pub fn bootstraps(&self) -> u64 {
        (0..self.rows()).map(|row| self.bootstraps_of(row) as u64).sum()
    }
}

/// For each value, the first level in which its slot is free again: the level after the last reader. [`NEVER`] for
/// outputs. `None` for constants that nothing reads.
struct Lives {
    inputs: Vec<Option<usize>>,
    gates: Vec<Option<usize>>,
    /// The entries of the constants false and true.
    constants: [Option<usize>; 2],
}

/// The level of a slot that is never free, because it holds an output.
const NEVER: usize = usize::MAX;

impl Lives {
    fn of(circuit: &Circuit, levels: &[Vec<usize>]) -> Lives {
        let input_bits = circuit.input_widths().iter().sum::<usize>();
        let mut lives =
            Lives { inputs: vec![Some(1); input_bits], gates: vec![None; circuit.gates().len()], constants: [None; 2] };
        for (level, gates) in levels.iter().enumerate() {
            for &index in gates {
                // if no gate reads the result, its slot is free from the next level on
                lives.last(Signal::Gate(index as u32), level + 1);
                for &signal in circuit.gates()[index].operands() {
                    lives.last(signal, level + 1);
                }
            }
        }
        for &signal in circuit.outputs() {
            lives.last(signal, NEVER);
        }
        lives
    }

    fn last(&mut self, signal: Signal, from_level: usize) {
        let life = match signal {
            Signal::Input(bit) => &mut self.inputs[bit as usize],
            Signal::Gate(index) => &mut self.gates[index as usize],
            Signal::Constant(bit) => &mut self.constants[usize::from(bit)],
        };
        *life = Some(life.map_or(from_level, |before| before.max(from_level)));
    }

    /// Calls `free` for every value whose slot becomes free, with the level from which the slot is free.
    fn for_each(&self, mut free: impl FnMut(Signal, usize)) {
        let mut all = |lives: &[Option<usize>], signal: fn(u32) -> Signal| {
            for (index, life) in lives.iter().enumerate() {
                if let Some(from_level) = life.filter(|&from_level| from_level != NEVER) {
                    free(signal(index as u32), from_level);
                }
            }
        };
        all(&self.inputs, Signal::Input);
        all(&self.gates, Signal::Gate);
        all(&self.constants, |index| Signal::Constant(index == 1));
    }
}

/// Assigns slot numbers. Numbers that were given back are assigned again.
#[derive(Default)]
pub(super) struct SlotPool {
    pub count: u32,
    free: Vec<u32>,
}

impl SlotPool {
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }

    pub fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::texts;
    use super::*;
    use crate::tfhe::fold::Names;
    use crate::tfhe::lwe_list::LweList;
    use crate::tfhe::mapping::plan_plainly;

    /// Runs a plan on plain bits, level by level. Within a level, the rows run in reverse order. Slots are `None` until
    /// they are written.
    fn run(plan: &Plan, inputs: &[bool]) -> Vec<bool> {
        let mut slots = vec![None; plan.slots()];
        for (&slot, &bit) in plan.inputs().iter().zip(inputs) {
            slots[slot as usize] = Some(bit);
        }
        for &(slot, bit) in plan.constants() {
            slots[slot as usize] = Some(bit);
        }
        for level in plan.levels() {
            for gate in plan.gates_of(level).iter().rev() {
                let operands: Vec<bool> =
                    gate.operands[..gate.gate.arity()].iter().map(|&slot| slots[slot as usize].unwrap()).collect();
                slots[gate.result as usize] = Some(gate.gate.plain(&operands));
            }
        }
        plan.outputs().iter().map(|&slot| slots[slot as usize].unwrap()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_plan_in_parts_gives_what_the_whole_plan_gives(text in texts(), cuts in any::<[u8; 3]>(), bits in any::<u64>()) {
            let plan = Plan::new(&Circuit::parse(&text).unwrap());
            let inputs: Vec<bool> = (0..plan.inputs().len()).map(|at| bits >> (at % 64) & 1 == 1).collect();
            let levels = plan.levels().len();
            let mut ends: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut) % (levels + 1)).collect();
            ends.push(levels);
            ends.sort_unstable();
            let (mut values, mut at, mut first) = (inputs.clone(), 0, true);
            for end in ends {
                // a plan without levels has one part, which hands inputs and constants on
                if end > at || (levels == 0 && std::mem::take(&mut first)) {
                    let part = plan.part(at..end);
                    prop_assert_eq!(part.inputs().len(), values.len());
                    values = run(&part, &values);
                    at = end;
                }
            }
            prop_assert_eq!(values, run(&plan, &inputs));
        }
    }

    #[test]
    fn a_part_takes_and_gives_only_values_that_are_still_read() {
        let mut text = String::from("100 102\n1 2\n1 1\n\n");
        for gate in 0..100 {
            text += &format!("2 1 {gate} {} {} XOR\n", gate + 1, gate + 2);
        }
        let plan = Plan::new(&Circuit::parse(&text).unwrap());
        let [first, middle, last] = [0..40, 40..41, 41..100].map(|levels| plan.part(levels));
        assert_eq!([first.rows(), middle.rows(), last.rows()], [40, 1, 59]);
        assert_eq!([first.inputs().len(), middle.inputs().len(), last.inputs().len()], [2, 2, 2]);
        assert_eq!((middle.outputs(), last.outputs()), (last.inputs(), plan.outputs()));
        assert_eq!(plan.part(0..100), Plan { gates_asked: 100, gates_free: 0, ..plan.clone() });
        assert!(plan.fingerprint() == plan.clone().fingerprint() && plan.fingerprint() != first.fingerprint());
    }

    #[test]
    fn a_long_chain_needs_three_slots() {
        let mut text = String::from("100 102\n1 2\n1 1\n\n");
        for gate in 0..100 {
            text += &format!("2 1 {gate} {} {} XOR\n", gate + 1, gate + 2);
        }
        let plan = Plan::new(&Circuit::parse(&text).unwrap());
        assert_eq!((plan.levels().len(), plan.rows(), plan.slots()), (100, 100, 3));
    }

    #[test]
    fn gates_are_counted_as_they_are_written_and_run_as_they_are_needed() {
        let text = "4 6\n1 2\n1 1\n2 1 0 1 2 XOR\n2 1 0 1 3 XOR\n2 1 2 3 4 AND\n1 1 4 5 INV\n";
        let circuit = Circuit::parse(text).unwrap();
        assert_eq!(circuit.gate_counts(), [(Gate::And, 1), (Gate::Xor, 2), (Gate::Not, 1)]);
        let plan = Plan::new(&circuit);
        assert_eq!((plan.gates_asked(), plan.gates_free(), plan.bootstraps()), (4, 0, 1));
        assert_eq!(plan.levels().collect::<Vec<_>>(), [0..1, 1..2]);
        let stands_for = |row: usize| plan.stands_for(row).collect::<Vec<_>>();
        assert_eq!(stands_for(0), [(Gate::Xor, 2), (Gate::And, 1)]);
        assert_eq!(stands_for(1), [(Gate::Not, 1)]);
    }

    #[test]
    fn a_plan_of_named_inputs_takes_equal_words_for_one_value() {
        let circuit = Circuit::parse("2 4\n2 1 1\n1 2\n2 1 0 1 2 AND\n2 1 0 1 3 XOR\n").unwrap();
        let plan = |words: [u32; 4]| plan_plainly(&circuit, &Names::of(&LweList::from_words(1, words.to_vec()))).0;
        assert_eq!(plan([5, 6, 5, 7]), Plan::new(&circuit));
        let same = plan([5, 6, 5, 6]);
        assert_eq!((same.rows(), same.outputs(), same.constants()), (0, &[0, 2][..], &[(2, false)][..]));
        assert_eq!(run(&same, &[true, true]), [true, false]);
    }

    #[test]
    fn a_circuit_without_gates_has_its_inputs_and_constants_as_outputs() {
        let plan = Plan::new(&Circuit::parse("1 3\n1 2\n1 2\n\n1 1 1 2 EQ\n").unwrap());
        assert_eq!((plan.levels().len(), plan.constants()), (0, &[(2, true)][..]));
        assert_eq!(run(&plan, &[true, false]), [false, true]);
    }

    #[test]
    fn a_mux_of_few_wires_takes_a_slot_more_than_it_has_wires() {
        let circuit = Circuit::parse("1 3\n1 2\n1 1\n\n3 1 1 0 1 2 MUX\n").unwrap();
        let plan = Plan::new(&circuit);
        assert_eq!((plan.rows(), plan.slots()), (3, 4));
        for inputs in [[false, false], [false, true], [true, false], [true, true]] {
            assert_eq!(run(&plan, &inputs), circuit.evaluate(&[inputs.to_vec()]).concat());
        }
    }

    proptest! {
        #[test]
        fn a_plan_computes_what_its_circuit_does_in_at_most_a_slot_a_wire_and_two_a_mux(text in texts(), bits in any::<u8>()) {
            let circuit = Circuit::parse(&text).unwrap();
            let inputs: Vec<bool> = (0..circuit.input_widths()[0]).map(|bit| bits >> bit & 1 == 1).collect();
            let plan = Plan::new(&circuit);
            prop_assert_eq!(run(&plan, &inputs), circuit.evaluate(std::slice::from_ref(&inputs)).concat());
            // the text has a line for every wire that is not an input, and four other lines; so this allows at most a
            // slot for each wire, and one more for each MUX, whose first two results are read at the same time
            let muxes = text.matches("MUX").count();
            prop_assert!(plan.slots() <= inputs.len() + text.lines().count() - 4 + muxes);
            prop_assert!(plan.rows() <= circuit.gates().len());
        }

        #[test]
        fn no_gate_writes_what_another_of_its_level_touches(text in texts()) {
            let plan = Plan::new(&Circuit::parse(&text).unwrap());
            for level in plan.levels() {
                let gates = plan.gates_of(level);
                for (at, gate) in gates.iter().enumerate() {
                    for (other_at, other) in gates.iter().enumerate() {
                        prop_assert!(!other.operands[..other.gate.arity()].contains(&gate.result));
                        prop_assert!(at == other_at || gate.result != other.result);
                    }
                }
            }
        }
    }
}
