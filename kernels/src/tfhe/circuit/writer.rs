//! Writes circuits as Bristol Fashion texts.

use std::fmt::Write as _;

use super::{Circuit, Signal};
use crate::tfhe::gates::Gate;

impl Circuit {
    /// Writes the circuit as a text. [`Circuit::parse`] reads the same circuit from the text.
    ///
    /// The text has a line more for each output that is an input, a constant or an earlier output, and for each
    /// constant that gates read. With these lines, a text of a circuit near [`super::GATES_MAX`] may be too long for a
    /// reader.
    pub fn to_text(&self) -> String {
        let inputs: usize = self.input_widths.iter().sum();
        let constants = self.constants_read();
        let direct = self.direct_outputs();
        let others = self.gates.len() - direct.iter().flatten().count();
        let first_output = inputs + constants.len() + others;
        let wires = first_output + self.outputs.len();
        let copies = self.outputs.len() - direct.iter().flatten().count();
        let mut inner = inputs + constants.len()..first_output;
        let results: Vec<usize> = direct
            .iter()
            .map(|output| match output {
                Some(output) => first_output + *output as usize,
                None => inner.next().expect("as many as there are such gates"),
            })
            .collect();
        let wire = |signal: Signal| match signal {
            Signal::Input(bit) => bit as usize,
            Signal::Gate(index) => results[index as usize],
            Signal::Constant(bit) => inputs + constants.iter().position(|&of| of == bit).expect("it is in the list"),
        };

        let mut text = String::with_capacity(24 * (self.gates.len() + copies) + 64);
        let lines = constants.len() + self.gates.len() + copies;
        let widths = |widths: &[usize]| widths.iter().map(|width| format!(" {width}")).collect::<String>();
        let _ = writeln!(text, "{lines} {wires}");
        for of in [&self.input_widths, &self.output_widths] {
            let _ = writeln!(text, "{}{}", of.len(), widths(of));
        }
        text.push('\n');
        for (at, &bit) in constants.iter().enumerate() {
            let _ = writeln!(text, "1 1 {} {} EQ", u8::from(bit), inputs + at);
        }
        for (gate, result) in self.gates.iter().zip(&results) {
            let [a, b] = gate.operands;
            let _ = match gate.gate {
                Gate::Not => writeln!(text, "1 1 {} {result} INV", wire(a)),
                other => writeln!(text, "2 1 {} {} {result} {}", wire(a), wire(b), other.name()),
            };
        }
        for (&signal, result) in self.outputs.iter().zip(first_output..) {
            let _ = match signal {
                Signal::Gate(index) if results[index as usize] == result => Ok(()),
                Signal::Constant(bit) => writeln!(text, "1 1 {} {result} EQ", u8::from(bit)),
                other => writeln!(text, "1 1 {} {result} EQW", wire(other)),
            };
        }
        text
    }

    /// The constants that gates read.
    fn constants_read(&self) -> Vec<bool> {
        let reads = |bit| self.gates.iter().any(|gate| gate.operands().contains(&Signal::Constant(bit)));
        [false, true].into_iter().filter(|&bit| reads(bit)).collect()
    }

    /// For each gate, the first output that is its result.
    fn direct_outputs(&self) -> Vec<Option<u32>> {
        let mut direct = vec![None; self.gates.len()];
        for (output, &signal) in self.outputs.iter().enumerate() {
            if let Signal::Gate(index) = signal {
                direct[index as usize].get_or_insert(output as u32);
            }
        }
        direct
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::texts;
    use super::*;
    use crate::tfhe::builtin;

    proptest! {
        #[test]
        fn a_written_circuit_is_read_as_the_same(text in texts()) {
            let circuit = Circuit::parse(&text).unwrap();
            prop_assert_eq!(Circuit::parse(&circuit.to_text()), Ok(circuit));
        }
    }

    #[test]
    fn outputs_that_no_gate_makes_or_that_stand_twice_are_written() {
        // out = a, 1, a & 1, a & 1, 0
        let text =
            "6 7\n1 1\n5 1 1 1 1 1\n\n1 1 1 1 EQ\n1 1 0 2 EQW\n1 1 1 3 EQ\n2 1 0 1 4 AND\n1 1 4 5 EQW\n1 1 0 6 EQ\n";
        let circuit = Circuit::parse(text).unwrap();
        let written = circuit.to_text();
        assert_eq!(Circuit::parse(&written), Ok(circuit));
        assert!(written.starts_with("6 7\n1 1\n5 1 1 1 1 1\n\n1 1 1 1 EQ\n2 1 0 1 4 AND\n"), "{written}");
    }

    #[test]
    fn built_in_circuits_are_read_as_they_were_written() {
        for name in ["add16", "mul8_full", "div8", "sort4x8"] {
            let Ok(text) = builtin::netlist(&format!("{}{name}", builtin::PREFIX)) else { panic!("{name}") };
            let circuit = Circuit::parse(&text).unwrap();
            assert_eq!(Circuit::parse(&circuit.to_text()), Ok(circuit), "{name}");
        }
    }
}
