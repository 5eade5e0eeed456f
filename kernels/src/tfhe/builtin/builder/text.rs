//! The text of a netlist: the gates to write, and the number of each wire.

use std::fmt::Write as _;

use super::{Builder, Gate, Wire};

/// A netlist and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    text: String,
    cells: usize,
    depth: usize,
}

impl Built {
    /// The netlist in Bristol Fashion.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the netlist in Bristol Fashion.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The number of cells. A node that computes each cell with one bootstrap needs this many bootstraps.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The number of cells on the longest path from an input to an output.
    pub fn depth(&self) -> usize {
        self.depth
    }
}

impl Builder {
    /// Writes the netlist and counts its cells and levels.
    pub(in super::super) fn finish(self) -> Built {
        let outputs = self.outputs.concat();
        let is_live = self.live(&outputs);
        let live = || (0..self.gates.len()).filter(|&index| is_live[index]);
        let numbers = Numbers::of(&self, &outputs, live());

        let mut text = String::new();
        let lines = live().count() + numbers.copies.len();
        let _ = writeln!(text, "{lines} {}", numbers.first_output + outputs.len());
        let output_widths: Vec<usize> = self.outputs.iter().map(Vec::len).collect();
        for widths in [&self.input_widths, &output_widths] {
            let widths: Vec<String> = widths.iter().map(usize::to_string).collect();
            let _ = writeln!(text, "{} {}", widths.len(), widths.join(" "));
        }
        text.push('\n');
        for index in live() {
            let result = numbers.gates[index];
            let _ = match self.gates[index].numbered(|wire| numbers.of_wire(wire)) {
                (a, Some(b), name) => writeln!(text, "2 1 {a} {b} {result} {name}"),
                (a, None, name) => writeln!(text, "1 1 {a} {result} {name}"),
            };
        }
        for &(wire, result) in &numbers.copies {
            let _ = match wire {
                Wire::Constant(bit) => writeln!(text, "1 1 {} {result} EQ", u8::from(bit)),
                _ => writeln!(text, "1 1 {} {result} EQW", numbers.of_wire(wire)),
            };
        }
        let depth = outputs.iter().map(|&wire| self.depth(wire)).max().unwrap_or(0);
        Built { text, cells: live().filter(|&index| self.ends_a_cell(index)).count(), depth }
    }

    /// For each gate, whether an output needs it.
    fn live(&self, outputs: &[Wire]) -> Vec<bool> {
        let mut live = vec![false; self.gates.len()];
        let mark = |wire: Wire, live: &mut Vec<bool>| {
            if let Wire::Gate(index) = wire {
                live[index] = true;
            }
        };
        outputs.iter().for_each(|&wire| mark(wire, &mut live));
        for index in (0..self.gates.len()).rev() {
            if live[index] {
                self.gates[index].operands().into_iter().for_each(|wire| mark(wire, &mut live));
            }
        }
        live
    }

    fn ends_a_cell(&self, index: usize) -> bool {
        let gate = self.gates[index];
        let below = gate.operands().into_iter().map(|wire| self.depth(wire)).max();
        !matches!(gate, Gate::Inv(_)) && Some(self.depths[index]) > below
    }
}

impl Gate {
    /// Returns the numbers of the gate's operands, and the gate's name in the text. `number` gives the number of a
    /// wire.
    fn numbered(self, number: impl Fn(Wire) -> usize) -> (usize, Option<usize>, &'static str) {
        match self {
            Gate::Xor(a, b) => (number(a), Some(number(b)), "XOR"),
            Gate::And(a, b) => (number(a), Some(number(b)), "AND"),
            Gate::Inv(a) => (number(a), None, "INV"),
        }
    }
}

/// The number that each wire has in the text. Inputs have the first numbers, outputs the last.
struct Numbers {
    gates: Vec<usize>,
    first_output: usize,
    /// The outputs that no gate writes: for each, the wire that is copied to the output (with EQW, or with EQ for a
    /// constant), and the output's number. Such an output is an input, a constant, or a result that is already another
    /// output.
    copies: Vec<(Wire, usize)>,
}

impl Numbers {
    fn of(builder: &Builder, outputs: &[Wire], live: impl Iterator<Item = usize> + Clone) -> Numbers {
        const NONE: usize = usize::MAX;
        let mut gates = vec![NONE; builder.gates.len()];
        let mut copied = Vec::new();
        // until the number of the first output wire is known, an output's number is its place among the outputs, from 0
        for (place, &wire) in outputs.iter().enumerate() {
            match wire {
                Wire::Gate(index) if gates[index] == NONE => gates[index] = place,
                _ => copied.push((wire, place)),
            }
        }
        let inputs: usize = builder.input_widths.iter().sum();
        let first_output = inputs + live.clone().filter(|&index| gates[index] == NONE).count();
        let mut next = inputs;
        for index in live {
            if gates[index] == NONE {
                gates[index] = next;
                next += 1;
            } else {
                gates[index] += first_output;
            }
        }
        let copies = copied.into_iter().map(|(wire, place)| (wire, first_output + place)).collect();
        Numbers { gates, first_output, copies }
    }

    /// The number of a wire. Constants have no number, because no written gate has a constant operand.
    fn of_wire(&self, wire: Wire) -> usize {
        match wire {
            Wire::Input(bit) => bit,
            Wire::Gate(index) => self.gates[index],
            Wire::Constant(_) => unreachable!("constants are folded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ZERO;
    use super::*;
    use crate::tfhe::Circuit;

    #[test]
    fn outputs_are_the_last_wires_even_where_no_gate_writes_them() {
        let mut builder = Builder::default();
        let a = builder.input(2);
        let both = builder.and(a[0], a[1]);
        let _unused = builder.xor(a[0], a[1]);
        builder.output(vec![both, a[1]]);
        builder.output(vec![both, Wire::Constant(true), ZERO]);
        let built = builder.finish();
        let text = "5 7\n1 2\n2 2 3\n\n2 1 0 1 2 AND\n1 1 1 3 EQW\n1 1 2 4 EQW\n1 1 1 5 EQ\n1 1 0 6 EQ\n";
        assert_eq!(built.text(), text);
        let circuit = Circuit::parse(text).unwrap();
        assert_eq!(circuit.evaluate(&[vec![true, true]]), [vec![true, true], vec![true, true, false]]);
    }
}
