//! Value numbering: removes the gates that a circuit's outputs do not need.
//!
//! A value's name says how the value is computed. Equal input words have one name. The name of a result is its gate and
//! the names of its operands, in any order. A negation belongs to the operand and is not a value. A gate folds if its
//! operands share a name or are constant ([`crate::tfhe::fold`]). Gates with equal names are computed once, and a gate
//! that nothing reads is not computed. No rewrite changes a word, because a sum does not depend on its order and a
//! double negation cancels. So the outputs have the same words as if the gates were evaluated one by one, each folded
//! according to its operands' words.
//!
//! So the operands of every remaining gate are different values. Two different values may still be the same bit, for
//! example `a xor b` and `not ((not a) xor b)`. But such values come from bootstraps of different inputs, so their
//! noise is independent.

use super::table::Table;
use super::{Circuit, CircuitGate, Signal};
use crate::tfhe::fold::{Bit, Folded, fold};
use crate::tfhe::gates::Gate;

/// The circuit after value numbering.
pub(in crate::tfhe) struct Numbered {
    /// The gates that remain.
    pub circuit: Circuit,
    /// For each remaining gate, how many XOR, AND and NOT gates of the original circuit this gate stands for.
    pub kinds: Vec<[u32; 3]>,
}

/// Numbers the values of a circuit on these inputs and keeps only what its outputs need.
///
/// # Panics
/// When `inputs` does not have one entry for each input bit of the circuit.
pub(in crate::tfhe) fn numbered(circuit: &Circuit, inputs: &[Bit]) -> Numbered {
    assert_eq!(inputs.len(), circuit.input_widths().iter().sum::<usize>(), "a bit an input");
    let values = Values::of(circuit, inputs);
    let outputs: Vec<Bit> = circuit.outputs().iter().map(|&signal| values.bit(signal)).collect();
    let mut left = Left::of(&values, &outputs);
    let outputs = outputs.iter().map(|&bit| left.signal(bit)).collect();
    let mut kinds = vec![[0; 3]; left.gates.len()];
    for (gate, &bit) in circuit.gates().iter().zip(&values.results) {
        if let Some(Signal::Gate(index)) = left.place(bit) {
            for (all, own) in kinds[index as usize].iter_mut().zip(gate.of_kind()) {
                *all += own;
            }
        }
    }
    let circuit = Circuit {
        input_widths: circuit.input_widths.clone(),
        output_widths: circuit.output_widths.clone(),
        gates: left.gates,
        outputs,
    };
    Numbered { circuit, kinds }
}

/// A bit encoded as a word to hash.
fn word(bit: Bit) -> u32 {
    match bit {
        Bit::Constant(bit) => u32::from(bit),
        Bit::Value { id, negated } => id << 1 | u32::from(negated),
    }
}

/// The values of all inputs and of all gates' results.
struct Values<'a> {
    inputs: &'a [Bit],
    /// Names below this number are names of inputs. All other names are names of gates.
    input_names: u32,
    gates: Vec<(Gate, [Bit; 2])>,
    /// The result of each gate of the circuit.
    results: Vec<Bit>,
}

impl<'a> Values<'a> {
    fn of(circuit: &Circuit, inputs: &'a [Bit]) -> Self {
        let name = |bit: &Bit| if let Bit::Value { id, .. } = *bit { id + 1 } else { 0 };
        let input_names = inputs.iter().map(name).max().unwrap_or(0);
        let mut values = Values { inputs, input_names, gates: Vec::new(), results: Vec::new() };
        let mut known = Table::new(circuit.gates().len(), circuit.gates().len());
        for gate in circuit.gates() {
            let operands = gate.operands.map(|signal| values.bit(signal));
            let bit = match fold(gate.gate, &operands[..gate.gate.arity()]) {
                Folded::Bit(bit) => bit,
                Folded::Binary(gate, mut operands) => {
                    operands.sort_unstable();
                    let words = [gate as u32, word(operands[0]), word(operands[1])];
                    let same = known.find(&words, |index| values.gates[index as usize] == (gate, operands));
                    let index = same.unwrap_or_else(|| {
                        let index = values.gates.len() as u32;
                        known.insert(&words, index);
                        values.gates.push((gate, operands));
                        index
                    });
                    Bit::value(values.input_names + index)
                }
                Folded::Mux(_) => unreachable!("a netlist has no MUX"),
            };
            values.results.push(bit);
        }
        values
    }

    fn bit(&self, signal: Signal) -> Bit {
        match signal {
            Signal::Input(bit) => self.inputs[bit as usize],
            Signal::Gate(index) => self.results[index as usize],
            Signal::Constant(bit) => Bit::Constant(bit),
        }
    }

    /// The place of the gate with this name among the gates; `None` if the name is an input's.
    fn gate(&self, id: u32) -> Option<usize> {
        id.checked_sub(self.input_names).map(|index| index as usize)
    }

    /// For each gate, whether the outputs need it.
    fn needed(&self, outputs: &[Bit]) -> Vec<bool> {
        let mut needed = vec![false; self.gates.len()];
        let need = |needed: &mut [bool], bit: Bit| {
            if let Bit::Value { id, .. } = bit
                && let Some(index) = self.gate(id)
            {
                needed[index] = true;
            }
        };
        outputs.iter().for_each(|&bit| need(&mut needed, bit));
        for (index, (_, operands)) in self.gates.iter().enumerate().rev() {
            if needed[index] {
                operands.iter().for_each(|&bit| need(&mut needed, bit));
            }
        }
        needed
    }
}

/// The necessary gates, including negations, in an order in which they can be computed.
struct Left {
    gates: Vec<CircuitGate>,
    /// For each name, the signals of its value and of its negation; `None` if the signal does not exist yet.
    places: Vec<[Option<Signal>; 2]>,
}

impl Left {
    fn of(values: &Values<'_>, outputs: &[Bit]) -> Self {
        let names = values.input_names as usize + values.gates.len();
        let mut left = Left { gates: Vec::new(), places: vec![[None; 2]; names] };
        for (at, &bit) in values.inputs.iter().enumerate() {
            if let Bit::Value { id, negated } = bit {
                left.places[id as usize][usize::from(negated)].get_or_insert(Signal::Input(at as u32));
            }
        }
        for (index, needed) in values.needed(outputs).into_iter().enumerate() {
            if needed {
                let (gate, operands) = values.gates[index];
                let operands = operands.map(|bit| left.signal(bit));
                left.places[values.input_names as usize + index][0] = Some(left.push(gate, operands));
            }
        }
        left
    }

    /// The signal of a bit. If only the opposite bit has a signal, a negation is added.
    fn signal(&mut self, bit: Bit) -> Signal {
        match (self.place(bit), bit) {
            (Some(signal), _) => signal,
            (None, Bit::Value { id, negated }) => {
                let opposite = self.place(!bit).expect("a value is computed before it is read");
                let signal = self.push(Gate::Not, [opposite; 2]);
                self.places[id as usize][usize::from(negated)] = Some(signal);
                signal
            }
            (None, Bit::Constant(_)) => unreachable!("a constant has its place"),
        }
    }

    /// The signal of a bit, if the bit has one.
    fn place(&self, bit: Bit) -> Option<Signal> {
        match bit {
            Bit::Constant(bit) => Some(Signal::Constant(bit)),
            Bit::Value { id, negated } => self.places[id as usize][usize::from(negated)],
        }
    }

    fn push(&mut self, gate: Gate, operands: [Signal; 2]) -> Signal {
        self.gates.push(CircuitGate { gate, operands });
        Signal::Gate(self.gates.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::texts;
    use super::*;

    /// A different value for each input bit of the circuit.
    fn different(circuit: &Circuit) -> Vec<Bit> {
        (0..circuit.input_widths().iter().sum::<usize>() as u32).map(Bit::value).collect()
    }

    fn gates_left(text: &str) -> Vec<(Gate, u64)> {
        let circuit = Circuit::parse(text).unwrap();
        numbered(&circuit, &different(&circuit)).circuit.gate_counts()
    }

    #[test]
    fn equal_gates_are_computed_once_whatever_the_order_of_their_operands() {
        assert_eq!(gates_left("3 5\n1 2\n1 1\n2 1 0 1 2 XOR\n2 1 1 0 3 XOR\n2 1 2 3 4 AND\n"), [(Gate::Xor, 1)]);
        // the text computes `(not a) and b` twice, each time with its own negation
        let text = "5 7\n1 2\n1 1\n1 1 0 2 INV\n1 1 0 3 INV\n2 1 2 1 4 AND\n2 1 1 3 5 AND\n2 1 4 5 6 XOR\n";
        assert_eq!(gates_left(text), []);
    }

    #[test]
    fn a_gate_that_reads_a_value_and_its_negation_is_a_constant() {
        let text = "3 5\n1 2\n1 2\n1 1 0 2 INV\n2 1 0 2 3 AND\n2 1 2 0 4 XOR\n";
        let circuit = Circuit::parse(text).unwrap();
        let left = numbered(&circuit, &different(&circuit));
        assert_eq!(left.circuit.outputs(), [Signal::Constant(false), Signal::Constant(true)]);
        assert_eq!((left.circuit.gates().len(), left.kinds.len()), (0, 0));
    }

    #[test]
    fn constants_go_through_gates_and_what_nothing_reads_is_not_computed() {
        // `a and b` is read only by an AND with 0, so the circuit does not need it
        let text = "4 6\n1 2\n1 2\n1 1 0 2 EQ\n2 1 0 1 3 AND\n2 1 3 2 4 AND\n2 1 4 1 5 XOR\n";
        let circuit = Circuit::parse(text).unwrap();
        let left = numbered(&circuit, &different(&circuit));
        assert_eq!(left.circuit.outputs(), [Signal::Constant(false), Signal::Input(1)]);
        assert_eq!(left.circuit.gates().len(), 0);
    }

    #[test]
    fn inputs_of_equal_and_of_opposite_words_are_one_value() {
        let text = "3 6\n1 3\n1 3\n2 1 0 1 3 AND\n2 1 0 2 4 AND\n2 1 1 2 5 XOR\n";
        let circuit = Circuit::parse(text).unwrap();
        let a = Bit::value(0);
        let left = numbered(&circuit, &[a, a, !a]);
        assert_eq!(left.circuit.outputs(), [Signal::Input(0), Signal::Constant(false), Signal::Constant(true)]);
        let left = numbered(&circuit, &[a, Bit::Constant(true), Bit::value(1)]);
        assert_eq!(left.circuit.gate_counts(), [(Gate::And, 1), (Gate::Not, 1)]);
        assert_eq!(left.circuit.outputs()[0], Signal::Input(0));
    }

    #[test]
    fn a_circuit_of_different_gates_stays_gate_for_gate() {
        let text = "4 6\n1 2\n1 1\n2 1 0 1 2 XOR\n2 1 0 2 3 AND\n1 1 3 4 INV\n2 1 4 1 5 XOR\n";
        let circuit = Circuit::parse(text).unwrap();
        let left = numbered(&circuit, &different(&circuit));
        assert_eq!(left.circuit.levels(), circuit.levels());
        assert_eq!(left.kinds, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]);
        assert_eq!(left.circuit.gate_counts(), circuit.gate_counts());
    }

    proptest! {
        #[test]
        fn what_is_left_computes_the_same_and_no_gate_reads_one_value_twice(
            text in texts(),
            bits in any::<u8>(),
            names in prop::collection::vec((0u32..3, any::<bool>()), 5),
        ) {
            let circuit = Circuit::parse(&text).unwrap();
            let width = circuit.input_widths()[0];
            // up to 5 inputs share 2 names and the constants
            let inputs: Vec<Bit> = names[..width]
                .iter()
                .map(|&(id, negated)| {
                    let bit = if id == 2 { Bit::Constant(false) } else { Bit::value(id) };
                    if negated { !bit } else { bit }
                })
                .collect();
            let plain: Vec<bool> = inputs
                .iter()
                .map(|&bit| match bit {
                    Bit::Constant(bit) => bit,
                    Bit::Value { id, negated } => (bits >> id & 1 == 1) != negated,
                })
                .collect();
            let left = numbered(&circuit, &inputs);
            prop_assert_eq!(left.circuit.evaluate(std::slice::from_ref(&plain)), circuit.evaluate(&[plain]));
            prop_assert!(left.circuit.levels().len() <= circuit.levels().len());
            prop_assert!(left.circuit.gates().len() <= circuit.gates().len());
            prop_assert!(left.kinds.iter().flatten().map(|&gates| gates as usize).sum::<usize>() <= circuit.gates().len());
            for gate in left.circuit.gates().iter().filter(|gate| gate.gate() != Gate::Not) {
                prop_assert!(gate.operands()[0] != gate.operands()[1]);
                prop_assert!(!gate.operands().iter().any(|signal| matches!(signal, Signal::Constant(_))));
            }
        }
    }
}
