//! A builder of netlists.
//!
//! The gates of a netlist are XOR, AND and INV. A cell is a group of gates in a fixed shape that a node computes with
//! one bootstrap: AND and OR with any negations, XOR of two or three bits, the majority of three bits, `c ^ (a & b)`.
//! Each method of [`Builder`] writes one cell, so the shapes are the same in every circuit. Structural hashing writes
//! equal gates once, constants are folded, and gates that no output needs are left out.

mod text;

pub use text::Built;

use std::collections::HashMap;

/// The source of a bit of the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Wire {
    /// A constant.
    Constant(bool),
    /// The input bit with this number. The bits of all inputs are numbered in order.
    Input(usize),
    /// The result of the gate with this index.
    Gate(usize),
}

/// False.
pub(super) const ZERO: Wire = Wire::Constant(false);
/// True.
pub(super) const ONE: Wire = Wire::Constant(true);

/// The bits of a number, bit 0 first.
pub(super) type Word = Vec<Wire>;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Gate {
    Xor(Wire, Wire),
    And(Wire, Wire),
    Inv(Wire),
}

/// Collects the gates, inputs and outputs of a netlist (see the module).
#[derive(Default)]
pub(super) struct Builder {
    input_widths: Vec<usize>,
    outputs: Vec<Word>,
    gates: Vec<Gate>,
    /// Number of cells on the longest path to each gate. A gate inside a cell has the depth of the cell's operands.
    depths: Vec<usize>,
    /// The index of each gate.
    known: HashMap<Gate, usize>,
}

impl Builder {
    /// Adds an input and returns its bits.
    pub(super) fn input(&mut self, width: usize) -> Word {
        let first: usize = self.input_widths.iter().sum();
        self.input_widths.push(width);
        (first..first + width).map(Wire::Input).collect()
    }

    /// Adds an output with these bits.
    pub(super) fn output(&mut self, word: Word) {
        self.outputs.push(word);
    }

    /// Number of cells on the longest path to a wire.
    pub(super) fn depth(&self, wire: Wire) -> usize {
        match self.without_inv(wire).0 {
            Wire::Gate(index) => self.depths[index],
            Wire::Constant(_) | Wire::Input(_) => 0,
        }
    }

    /// not a. A negation takes no cell.
    pub(super) fn not(&mut self, a: Wire) -> Wire {
        match (a, self.without_inv(a)) {
            (Wire::Constant(bit), _) => Wire::Constant(!bit),
            (_, (plain, true)) => plain,
            (_, (_, false)) => self.gate(Gate::Inv(a)),
        }
    }

    /// a ^ b.
    pub(super) fn xor(&mut self, a: Wire, b: Wire) -> Wire {
        let result = self.xor_gate(a, b);
        self.end_cell(result, &[a, b])
    }

    /// a & b.
    pub(super) fn and(&mut self, a: Wire, b: Wire) -> Wire {
        let result = self.and_gate(a, b);
        self.end_cell(result, &[a, b])
    }

    /// a | b, written as an AND of negations.
    pub(super) fn or(&mut self, a: Wire, b: Wire) -> Wire {
        let (a, b) = (self.not(a), self.not(b));
        let neither = self.and(a, b);
        self.not(neither)
    }

    /// a ^ b ^ c.
    pub(super) fn xor3(&mut self, a: Wire, b: Wire, c: Wire) -> Wire {
        if !self.distinct(&[a, b, c]) {
            let a_b = self.xor(a, b);
            return self.xor(a_b, c);
        }
        let a_b = self.xor_gate(a, b);
        let result = self.xor_gate(a_b, c);
        self.end_cell(result, &[a, b, c])
    }

    /// c ^ (a & b).
    pub(super) fn xor_and(&mut self, c: Wire, a: Wire, b: Wire) -> Wire {
        if !self.distinct(&[a, b, c]) {
            let a_b = self.and(a, b);
            return self.xor(c, a_b);
        }
        let a_b = self.and_gate(a, b);
        let result = self.xor_gate(c, a_b);
        self.end_cell(result, &[a, b, c])
    }

    /// The majority of three bits: one AND and three XOR. The gate `a ^ b` is shared with [`Builder::xor3`].
    pub(super) fn maj(&mut self, a: Wire, b: Wire, c: Wire) -> Wire {
        match (a, b, c) {
            (Wire::Constant(bit), x, y) | (x, Wire::Constant(bit), y) | (x, y, Wire::Constant(bit)) => {
                return if bit { self.or(x, y) } else { self.and(x, y) };
            }
            _ if a == b || a == c => return a,
            _ if b == c => return b,
            _ => {}
        }
        let [(a, not_a), (b, not_b), (c, not_c)] = [a, b, c].map(|wire| self.without_inv(wire));
        if !self.distinct(&[a, b, c]) {
            // two of the three operands are opposite, so the third decides
            let (other, negated) = if a == b {
                (c, not_c)
            } else if a == c {
                (b, not_b)
            } else {
                (a, not_a)
            };
            return if negated { self.not(other) } else { other };
        }
        // x, y and z are the operands a, b and c in another order: either y and z are both negated, or neither of them
        // is. So the cell has no INV inside; if `negated`, one INV follows the cell's result
        let (x, y, z, x_differs, negated) = match (not_a == not_b, not_b == not_c) {
            (true, true) => (a, b, c, false, not_a),
            (false, true) => (a, b, c, true, not_b),
            (false, false) => (b, a, c, true, not_a),
            (true, false) => (c, b, a, true, not_a),
        };
        let (x_y, y_z) = (self.xor_gate(x, y), self.xor_gate(y, z));
        let change = self.and_gate(x_y, y_z);
        let result = self.xor_gate(if x_differs { z } else { y }, change);
        let result = self.end_cell(result, &[a, b, c]);
        if negated { self.not(result) } else { result }
    }

    /// sel ? a : b.
    pub(super) fn select(&mut self, sel: Wire, a: Wire, b: Wire) -> Wire {
        let difference = self.xor(a, b);
        self.xor_and(b, sel, difference)
    }

    /// sel ? a : b for numbers, bit by bit.
    pub(super) fn select_word(&mut self, sel: Wire, a: &[Wire], b: &[Wire]) -> Word {
        a.iter().zip(b).map(|(&a, &b)| self.select(sel, a, b)).collect()
    }

    /// Adds the gate `a ^ b` as part of a cell. INVs of the operands become one INV of the result.
    fn xor_gate(&mut self, a: Wire, b: Wire) -> Wire {
        let ((a, not_a), (b, not_b)) = (self.without_inv(a), self.without_inv(b));
        let (plain, negated) = match (a, b) {
            (Wire::Constant(bit), other) | (other, Wire::Constant(bit)) => (other, bit),
            _ if a == b => (ZERO, false),
            _ => (self.gate(Gate::Xor(a.min(b), a.max(b))), false),
        };
        if negated ^ not_a ^ not_b { self.not(plain) } else { plain }
    }

    /// Adds the gate `a & b` as part of a cell.
    fn and_gate(&mut self, a: Wire, b: Wire) -> Wire {
        match (a, b) {
            (Wire::Constant(bit), other) | (other, Wire::Constant(bit)) => {
                if bit {
                    other
                } else {
                    ZERO
                }
            }
            _ if a == b => a,
            _ if self.without_inv(a).0 == self.without_inv(b).0 => ZERO,
            _ => self.gate(Gate::And(a.min(b), a.max(b))),
        }
    }

    /// Returns the wire of this gate. Equal gates are written only once.
    fn gate(&mut self, gate: Gate) -> Wire {
        if let Some(&index) = self.known.get(&gate) {
            return Wire::Gate(index);
        }
        let depth = gate.operands().iter().map(|&wire| self.depth(wire)).max().unwrap_or(0);
        let index = self.gates.len();
        self.gates.push(gate);
        self.depths.push(depth);
        self.known.insert(gate, index);
        Wire::Gate(index)
    }

    /// Sets the depth of `result`, the result of a cell with these operands. If the cell folded to an operand or a
    /// constant, no cell is counted.
    fn end_cell(&mut self, result: Wire, operands: &[Wire]) -> Wire {
        if let (true, Wire::Gate(index)) = (self.distinct(operands), self.without_inv(result).0) {
            let depth = operands.iter().map(|&wire| self.depth(wire)).max().unwrap_or(0) + 1;
            self.depths[index] = self.depths[index].max(depth);
        }
        result
    }

    /// True if no wire is a constant, and no two wires are equal or negations of each other.
    fn distinct(&self, wires: &[Wire]) -> bool {
        let plain: Vec<Wire> = wires.iter().map(|&wire| self.without_inv(wire).0).collect();
        let differs = |(at, wire)| !matches!(wire, &Wire::Constant(_)) && !plain[..at].contains(wire);
        plain.iter().enumerate().all(differs)
    }

    /// If the wire is the result of an INV, returns the INV's operand and true; else returns the wire itself and false.
    fn without_inv(&self, wire: Wire) -> (Wire, bool) {
        if let Wire::Gate(index) = wire
            && let Gate::Inv(plain) = self.gates[index]
        {
            return (plain, true);
        }
        (wire, false)
    }
}

impl Gate {
    /// Returns the gate's operands. The only operand of an INV is returned twice.
    fn operands(self) -> [Wire; 2] {
        match self {
            Gate::Xor(a, b) | Gate::And(a, b) => [a, b],
            Gate::Inv(a) => [a, a],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::Circuit;

    /// The truth table of a circuit with three 1-bit inputs: its output for the inputs 000 to 111. Input 0 is the low
    /// bit.
    fn table(built: &Built) -> Vec<bool> {
        let circuit = Circuit::parse(built.text()).unwrap();
        let row = |word: usize| circuit.evaluate(&[0, 1, 2].map(|bit| vec![word >> bit & 1 == 1])).concat()[0];
        (0..8).map(row).collect()
    }

    /// Checks every cell with every choice of operands: inputs, their negations and constants.
    #[test]
    fn cells_compute_what_they_say_whatever_their_operands_are() {
        type Write = fn(&mut Builder, [Wire; 3]) -> Wire;
        type Mean = fn([bool; 3]) -> bool;
        let cells: [(Write, Mean); 7] = [
            (|b, [x, y, _]| b.xor(x, y), |[x, y, _]| x ^ y),
            (|b, [x, y, _]| b.and(x, y), |[x, y, _]| x & y),
            (|b, [x, y, _]| b.or(x, y), |[x, y, _]| x | y),
            (|b, [x, y, z]| b.xor3(x, y, z), |[x, y, z]| x ^ y ^ z),
            (|b, [x, y, z]| b.maj(x, y, z), |[x, y, z]| (x & y) | (x & z) | (y & z)),
            (|b, [x, y, z]| b.xor_and(x, y, z), |[x, y, z]| x ^ (y & z)),
            (|b, [x, y, z]| b.select(x, y, z), |[x, y, z]| if x { y } else { z }),
        ];
        for (write, mean) in cells {
            for choice in 0..8 * 8 * 8 {
                let choice = [choice % 8, choice / 8 % 8, choice / 64];
                let mut builder = Builder::default();
                let inputs: Word = (0..3).flat_map(|_| builder.input(1)).collect();
                let operands = choice.map(|kind| match kind {
                    0..3 => inputs[kind],
                    3..6 => builder.not(inputs[kind - 3]),
                    _ => Wire::Constant(kind == 7),
                });
                let result = write(&mut builder, operands);
                builder.output(vec![result]);
                let expected = (0..8).map(|word| {
                    mean(choice.map(|kind| match kind {
                        0..6 => (word >> (kind % 3) & 1 == 1) ^ (kind >= 3),
                        _ => kind == 7,
                    }))
                });
                assert_eq!(table(&builder.finish()), expected.collect::<Vec<_>>(), "{choice:?}");
            }
        }
    }

    #[test]
    fn a_full_adder_is_two_cells_of_five_gates() {
        let mut builder = Builder::default();
        let [a, b, c] = [0; 3].map(|_| builder.input(1)[0]);
        let outputs = vec![builder.xor3(a, b, c), builder.maj(a, b, c)];
        builder.output(outputs);
        let built = builder.finish();
        assert_eq!((built.cells(), built.depth()), (2, 1));
        let text = "5 8\n3 1 1 1\n1 2\n\n2 1 0 1 3 XOR\n2 1 2 3 6 XOR\n2 1 1 2 4 XOR\n2 1 3 4 5 AND\n2 1 1 5 7 XOR\n";
        assert_eq!(built.text(), text);
    }

    /// A majority with negated operands has at most one INV, at its end.
    #[test]
    fn a_majority_of_negations_is_as_small_as_one_of_inputs() {
        for signs in 0..8 {
            let mut builder = Builder::default();
            let inputs = [0; 3].map(|_| builder.input(1)[0]);
            let mut sign = 0;
            let [a, b, c] = inputs.map(|wire| {
                sign += 1;
                if signs >> (sign - 1) & 1 == 1 { builder.not(wire) } else { wire }
            });
            let majority = builder.maj(a, b, c);
            builder.output(vec![majority]);
            let built = builder.finish();
            let inverters = built.text().matches("INV").count();
            assert_eq!((built.cells(), built.depth()), (1, 1));
            assert_eq!(built.text().matches("XOR").count() + built.text().matches("AND").count(), 4);
            assert!(inverters <= 1, "{inverters}");
        }
    }
}
