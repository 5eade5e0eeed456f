//! Circuits of gates: the Bristol Fashion netlist format, read, levelled and evaluated in the clear.
//!
//! A text has four parts: `gates wires`; `inputs width...`; `outputs width...`; then one line for each gate:
//! `fan_in fan_out in... out... OP`. Wires are numbered; inputs are the first wires in order, outputs the last. Format:
//! <https://nigelsmart.github.io/MPC-Circuits/>. XOR, AND and INV are gates, and MAND stands for several AND gates. EQW
//! (a copy) and EQ (a constant) are replaced by their values while reading, so a [`Circuit`] contains only gates.
//!
//! Two extensions: the older Bristol format, whose second line has the widths of two inputs and of the output, with no
//! third line (<https://homes.esat.kuleuven.be/~nsmart/MPC/old-circuits.html>); and the gates OR, NAND, NOR, XNOR, NOT
//! and MUX (operands `a b sel`), which converters write.
//!
//! This module does no I/O. No text makes it panic or allocate more than a small multiple of the text's length.

mod groups;
mod mapped;
mod part;
mod plan;
mod reader;
mod run;
mod table;
mod values;
mod writer;

pub use groups::CircuitGroup;
pub use plan::Plan;
pub use run::run_plan;
pub(in crate::tfhe) use table::Table;
pub(in crate::tfhe) use values::{Numbered, numbered};

use super::gates::Gate;

/// Largest number of gates in one circuit.
pub const GATES_MAX: usize = 1 << 20;
/// Largest number of bits of all inputs together, and of all outputs together.
pub const PORT_BITS_MAX: usize = 1 << 16;

/// The reason why a text is not a circuit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct CircuitError {
    /// Line of the text, from 1.
    pub line: usize,
    /// Description of the fault in this line.
    pub reason: String,
}

/// The value on a wire: an operand of a gate, or an output bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The input bit with this number. The bits of all inputs are numbered in order, bit 0 of the first input first.
    Input(u32),
    /// Result of the gate with this index in [`Circuit::gates`].
    Gate(u32),
    /// A constant of the circuit.
    Constant(bool),
}

/// A gate of a circuit: NOT, or a gate of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitGate {
    gate: Gate,
    /// The operands. NOT ignores the second.
    operands: [Signal; 2],
}

impl CircuitGate {
    /// The gate.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// The operands, [`Gate::arity`] of them. Operands that are gates have smaller indices than this gate.
    pub fn operands(&self) -> &[Signal] {
        &self.operands[..self.gate.arity()]
    }

    /// Counts of XOR, AND and NOT: 1 for this gate's kind, and 0 for the other kinds.
    pub(in crate::tfhe) fn of_kind(&self) -> [u32; 3] {
        match self.gate {
            Gate::Xor | Gate::Xnor => [1, 0, 0],
            Gate::Not => [0, 0, 1],
            _ => [0, 1, 0],
        }
    }
}

/// A checked circuit: every wire is written before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    input_widths: Vec<usize>,
    output_widths: Vec<usize>,
    gates: Vec<CircuitGate>,
    outputs: Vec<Signal>,
}

impl Circuit {
    /// Reads a Bristol Fashion text.
    ///
    /// # Errors
    /// When a line contradicts the header, names an unknown operation, reads a wire before it is written, or writes a
    /// wire twice; the error names the first such line. Also when a wire of an output is never written, or a size is
    /// above [`GATES_MAX`] or [`PORT_BITS_MAX`].
    pub fn parse(text: &str) -> Result<Circuit, CircuitError> {
        Circuit::parse_within(text, GATES_MAX)
    }

    /// Like [`Circuit::parse`], with a smaller limit on the number of gates. If the header announces more than
    /// `gates_max` gate lines, the text is refused before any gate is read, so only the text's first three lines are
    /// read.
    ///
    /// # Errors
    /// The errors of [`Circuit::parse`]. Also an error when the text has more than `gates_max` gate lines or gates (a
    /// MAND line is several gates).
    pub fn parse_within(text: &str, gates_max: usize) -> Result<Circuit, CircuitError> {
        reader::read(text, gates_max.min(GATES_MAX))
    }

    /// Width in bits of each input.
    pub fn input_widths(&self) -> &[usize] {
        &self.input_widths
    }

    /// Width in bits of each output.
    pub fn output_widths(&self) -> &[usize] {
        &self.output_widths
    }

    /// The gates. Each gate comes after all gates that it reads.
    pub fn gates(&self) -> &[CircuitGate] {
        &self.gates
    }

    /// The signal of each output bit, for all outputs in order, bit 0 of the first output first.
    pub fn outputs(&self) -> &[Signal] {
        &self.outputs
    }

    /// The number of gates of each kind, in the order of [`Gate::ALL`]. Kinds without gates are left out.
    pub fn gate_counts(&self) -> Vec<(Gate, u64)> {
        let of = |gate| self.gates.iter().filter(|counted| counted.gate == gate).count() as u64;
        Gate::ALL.into_iter().map(|gate| (gate, of(gate))).filter(|&(_, count)| count > 0).collect()
    }

    /// For each gate, whether an output reads it, directly or through other gates.
    pub(in crate::tfhe) fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.gates.len()];
        let need = |needed: &mut [bool], signals: &[Signal]| {
            for signal in signals {
                if let Signal::Gate(index) = *signal {
                    needed[index as usize] = true;
                }
            }
        };
        need(&mut needed, &self.outputs);
        for (index, gate) in self.gates.iter().enumerate().rev() {
            if needed[index] {
                need(&mut needed, gate.operands());
            }
        }
        needed
    }

    /// Indices of gates by level. The gates of a level read only inputs, constants and gates of earlier levels, so they
    /// may run together. Each gate is in the first possible level.
    pub fn levels(&self) -> Vec<Vec<usize>> {
        let mut level_of = Vec::with_capacity(self.gates.len());
        let mut levels: Vec<Vec<usize>> = Vec::new();
        for (index, gate) in self.gates.iter().enumerate() {
            let level = gate.operands().iter().map(|signal| match *signal {
                Signal::Gate(earlier) => level_of[earlier as usize] + 1,
                Signal::Input(_) | Signal::Constant(_) => 0,
            });
            let level = level.max().unwrap_or(0);
            level_of.push(level);
            if level == levels.len() {
                levels.push(Vec::new());
            }
            levels[level].push(index);
        }
        levels
    }

    /// Evaluates the circuit on plain bits, bit 0 of each value first.
    ///
    /// # Panics
    /// When the widths of `inputs` differ from [`Circuit::input_widths`].
    pub fn evaluate(&self, inputs: &[Vec<bool>]) -> Vec<Vec<bool>> {
        assert!(inputs.iter().map(Vec::len).eq(self.input_widths.iter().copied()), "inputs have the circuit's widths");
        let inputs = inputs.concat();
        let mut results: Vec<bool> = Vec::with_capacity(self.gates.len());
        let bit = |signal: &Signal, results: &[bool]| match *signal {
            Signal::Input(index) => inputs[index as usize],
            Signal::Gate(index) => results[index as usize],
            Signal::Constant(bit) => bit,
        };
        for gate in &self.gates {
            let operands = gate.operands.map(|signal| bit(&signal, &results));
            results.push(gate.gate.plain(&operands[..gate.gate.arity()]));
        }
        let outputs: Vec<bool> = self.outputs.iter().map(|signal| bit(signal, &results)).collect();
        split(&outputs, &self.output_widths)
    }
}

/// Cuts a row of bits (or of their ciphertexts) into values of these widths. The sum of the widths must be the length
/// of the row.
pub fn split<T: Clone>(row: &[T], widths: &[usize]) -> Vec<Vec<T>> {
    let mut rest = row;
    let values = widths.iter().map(|&width| {
        let (value, after) = rest.split_at(width);
        rest = after;
        value.to_vec()
    });
    values.collect()
}

#[cfg(test)]
pub(in crate::tfhe) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// out0 = (a & b) ^ !c, out1 = 1, out2 = a. Input 0 is a, and input 1 is b and c.
    const SMALL: &str = "5 8\n2 1 2\n2 2 1\n\n2 1 0 1 3 AND\n1 1 2 4 INV\n2 1 3 4 5 XOR\n1 1 1 6 EQ\n1 1 0 7 EQW\n";

    fn reason(text: &str) -> (usize, String) {
        let error = Circuit::parse(text).expect_err("must be refused");
        (error.line, error.reason)
    }

    #[test]
    fn a_circuit_beyond_its_bound_is_refused_by_its_header() {
        // with a bound of 4, the error must name line 1, because the bound is checked before the invalid line `no gate`
        // is read
        let announced = "5 7\n1 2\n1 1\nno gate\n";
        let error = Circuit::parse_within(announced, 4).unwrap_err();
        assert_eq!((error.line, error.reason.as_str()), (1, "the circuit has 5 gates, more than 4"));
        assert_eq!(Circuit::parse_within(announced, 5).unwrap_err().line, 4);
        // if a line stands for several gates, each of them counts
        let wide = "1 6\n2 2 2\n1 2\n4 2 0 1 2 3 4 5 MAND\n";
        let error = Circuit::parse_within(wide, 1).unwrap_err();
        assert_eq!((error.line, error.reason.as_str()), (4, "the circuit has more than 1 gates"));
        assert_eq!(Circuit::parse_within(wide, 2), Circuit::parse(wide));
    }

    #[test]
    fn a_small_circuit_computes_its_truth_table() {
        let circuit = Circuit::parse(SMALL).unwrap();
        assert_eq!((circuit.input_widths(), circuit.output_widths()), (&[1, 2][..], &[2, 1][..]));
        assert_eq!(circuit.gates().len(), 3);
        for word in 0..8 {
            let [a, b, c] = [0, 1, 2].map(|bit| word >> bit & 1 == 1);
            assert_eq!(circuit.evaluate(&[vec![a], vec![b, c]]), [vec![(a & b) ^ !c, true], vec![a]]);
        }
    }

    #[test]
    fn copies_and_constants_are_no_gates_and_levels_follow_the_longest_path() {
        let circuit = Circuit::parse(SMALL).unwrap();
        assert_eq!(circuit.levels(), [vec![0, 1], vec![2]]);
        assert_eq!(circuit.outputs(), [Signal::Gate(2), Signal::Constant(true), Signal::Input(0)]);
        // a copy of a gate's result does not add a level
        let chain = Circuit::parse("4 6\n1 2\n1 1\n2 1 0 1 2 XOR\n1 1 2 3 EQW\n2 1 3 0 4 AND\n1 1 4 5 INV\n").unwrap();
        assert_eq!(chain.levels(), [vec![0], vec![1], vec![2]]);
    }

    #[test]
    fn mand_is_one_and_gate_a_result() {
        let circuit = Circuit::parse("1 6\n2 2 2\n1 2\n4 2 0 1 2 3 4 5 MAND\n").unwrap();
        assert_eq!(circuit.gates().len(), 2);
        for word in 0..16 {
            let bits: Vec<bool> = (0..4).map(|bit| word >> bit & 1 == 1).collect();
            assert_eq!(circuit.evaluate(&split(&bits, &[2, 2])), [vec![bits[0] & bits[2], bits[1] & bits[3]]]);
        }
        // an operand must not be a result of the same line
        let (line, why) = reason("1 4\n1 2\n1 2\n4 2 0 2 1 1 2 3 MAND\n");
        assert_eq!((line, why.as_str()), (4, "wire 2 is read before it is written"));
    }

    #[test]
    fn a_circuit_without_gates_hands_its_inputs_through() {
        let circuit = Circuit::parse("0 2\n1 2\n1 2\n").unwrap();
        assert!(circuit.levels().is_empty());
        assert_eq!(circuit.evaluate(&[vec![true, false]]), [vec![true, false]]);
    }

    #[test]
    fn line_ends_and_spaces_of_other_systems_are_read() {
        let other = SMALL.replace('\n', " \r\n\t");
        assert_eq!(Circuit::parse(&other), Circuit::parse(SMALL));
    }

    #[test]
    fn the_older_format_is_read() {
        // two inputs, then one input; outputs 2 and 3 are one value
        let older = Circuit::parse("2 4\n1 1   2\n\n2 1 0 1 2 XOR\n2 1 0 1 3 AND\n").unwrap();
        assert_eq!(older, Circuit::parse("2 4\n2 1 1\n1 2\n2 1 0 1 2 XOR\n2 1 0 1 3 AND\n").unwrap());
        let one = Circuit::parse("1 3\n2 0 1\n2 1 0 1 2 AND\n").unwrap();
        assert_eq!(one, Circuit::parse("1 3\n1 2\n1 1\n2 1 0 1 2 AND\n").unwrap());
    }

    #[test]
    fn gates_of_converters_compute_their_truth_tables() {
        type Table = fn(bool, bool) -> bool;
        let gates: [(&str, Table); 6] = [
            ("AND", |a, b| a & b),
            ("OR", |a, b| a | b),
            ("NAND", |a, b| !(a & b)),
            ("NOR", |a, b| !(a | b)),
            ("XOR", |a, b| a ^ b),
            ("XNOR", |a, b| a == b),
        ];
        let bits = [false, true];
        for (a, b) in bits.into_iter().flat_map(|a| bits.map(|b| (a, b))) {
            for (name, table) in gates {
                let circuit = Circuit::parse(&format!("1 3\n1 2\n1 1\n2 1 0 1 2 {name}\n")).unwrap();
                assert_eq!(circuit.evaluate(&[vec![a, b]]), [[table(a, b)]], "{name} of {a} and {b}");
            }
            for sel in bits {
                let mux = Circuit::parse("1 4\n3 1 1 1\n1 1\n3 1 0 1 2 3 MUX\n").unwrap();
                assert_eq!(mux.evaluate(&[vec![a], vec![b], vec![sel]]), [[if sel { a } else { b }]]);
            }
        }
        let not = Circuit::parse("2 4\n1 2\n1 1\n2 1 0 1 2 XOR\n1 1 2 3 NOT\n").unwrap();
        assert_eq!(not, Circuit::parse("2 4\n1 2\n1 1\n2 1 0 1 2 XOR\n1 1 2 3 INV\n").unwrap());
    }

    #[test]
    fn gaps_between_wires_and_a_byte_order_mark_change_nothing() {
        let dense = Circuit::parse("2 4\n2 1 1\n1 1\n2 1 0 1 2 AND\n1 1 2 3 INV\n").unwrap();
        for text in [
            "2 6\n2 1 1\n1 1\n2 1 0 1 2 AND\n1 1 2 5 INV\n",
            "2 999999999\n2 1 1\n1 1\n2 1 0 1 2 AND\n1 1 2 999999998 INV\n",
            "2 999999999\n2 1 1\n1 1\n2 1 0 1 999999997 AND\n1 1 999999997 999999998 INV\n",
            "\u{feff}2 4\n2 1 1\n1 1\n2 1 0 1 2 AND\n1 1 2 3 INV\n",
        ] {
            assert_eq!(Circuit::parse(text).as_ref(), Ok(&dense), "{text}");
        }
    }

    #[test]
    fn what_contradicts_the_header_is_refused_with_its_line() {
        for (text, line, part) in [
            ("", 1, "ends before gates and wires"),
            ("1\n", 1, "number of wires"),
            ("1 2 3\n", 1, "number of wires"),
            ("1 3\n", 1, "ends before the inputs"),
            ("1 3\n1 2\n", 2, "ends before the outputs"),
            ("1 3\n1 2\n1 1\n", 3, "ends before gate 1 of 1"),
            ("1 3\n2 2\n1 1\n2 1 0 1 2 AND\n", 2, "the line announces 2 inputs, but has 1 widths"),
            ("1 3\n0\n1 1\n2 1 0 1 2 AND\n", 2, "0 inputs"),
            ("1 3\n1 2\n1 0\n2 1 0 1 2 AND\n", 3, "one bit each"),
            ("1 3\n1 70000\n1 1\n2 1 0 1 2 AND\n", 2, "one bit each"),
            ("1 3\n1 2\n1 4\n2 1 0 1 2 AND\n", 3, "4 output bits are more than the 3 wires"),
            ("1 1\n1 2\n1 1\n2 1 0 1 2 AND\n", 1, "1 wires are too few"),
            ("1 4\n1 2\n1 1\n2 1 0 1 2 AND\n", 4, "wire 3, an output, is never written"),
            ("1 3\n2 1\n2 1 0 1 2 AND\n", 2, "older format"),
            ("1 3\n1 1 4\n2 1 0 1 2 AND\n", 2, "4 output bits are more than the 3 wires"),
            ("1 3\n1 1 0\n2 1 0 1 2 AND\n", 2, "one bit each"),
            ("0 3\n1 1 1\n2 1 0 1 2 AND\n", 3, "a further gate"),
            ("2 3\n1 1 1\n2 1 0 1 2 AND\n", 3, "ends before gate 2 of 2"),
            ("1 3\n1 2\n1 1\n2 1 0 1 2 AND\n2 1 0 1 2 AND\n", 5, "a further gate"),
            ("2 3\n1 2\n1 1\n2 1 0 1 2 AND\n2 1 0 1 2 AND\n", 5, "written a second time"),
            ("1 3\n1 2\n1 1\n2 1 0 1 1 AND\n", 4, "written a second time"),
            ("1 3\n1 2\n1 1\n2 1 0 2 2 AND\n", 4, "read before it is written"),
            ("1 3\n1 2\n1 1\n2 1 0 3 2 AND\n", 4, "there is no wire 3"),
            ("1 3\n1 2\n1 1\n2 1 0 1 9 AND\n", 4, "there is no wire 9"),
            ("1 3\n1 2\n1 1\n2 1 0 2 AND\n", 4, "but has 2 wires"),
            ("1 3\n1 2\n1 1\n1 1 0 2 AND\n", 4, "AND does not have 1 operands"),
            ("1 3\n1 2\n1 1\n2 1 0 1 2 INV\n", 4, "INV does not have"),
            ("1 4\n1 3\n1 1\n3 1 0 1 2 3 MAND\n", 4, "MAND does not have 3 operands"),
            ("1 3\n1 2\n1 1\n1 1 2 2 EQ\n", 4, "EQ takes the constant"),
            ("1 3\n1 2\n1 1\n2 1 0 1 2 nand\n", 4, "`nand` is not one of"),
            ("1 3\n1 2\n1 1\n2 1 0 1 2 MUX\n", 4, "MUX does not have 2 operands"),
            ("1 3\n1 2\n1 1\n1 1 0 2 NAND\n", 4, "NAND does not have 1 operands"),
            ("1 9\n1 2\n1 1\n2 1 0 8 2 AND\n", 4, "wire 8 is read before it is written"),
            ("1 900000000\n1 2\n1 1\n2 1 0 899999998 2 AND\n", 4, "wire 899999998 is read before"),
            ("1 3\n1 2\n1 1\n2 1 0 1 -2 AND\n", 4, "not a number"),
            ("1 3\n1 2\n1 1\n2 1 0 1 +2 AND\n", 4, "not a number"),
            ("1 3\n1 2\n1 1\nAND\n", 4, "fan_in"),
            ("9999999 3\n1 2\n1 1\n", 1, "more than 1048576"),
            ("1 999999999\n1 2\n1 1\n2 1 0 1 2 AND\n", 4, "wire 999999998, an output, is never written"),
            ("99999999999999999999 3\n", 1, "not a number"),
        ] {
            let (at, why) = reason(text);
            assert!(at == line && why.contains(part), "{text:?}: line {at}: {why}");
        }
    }

    /// Texts of random circuits. Each gate reads only wires that are already written.
    pub(in crate::tfhe) fn texts() -> impl Strategy<Value = String> {
        (1usize..6, prop::collection::vec((0u8..10, any::<u16>(), any::<u16>()), 1..40)).prop_map(|(inputs, steps)| {
            let (gates, wires) = (steps.len(), inputs + steps.len());
            let mut text = format!("{gates} {wires}\n1 {inputs}\n1 {}\n\n", 1 + gates / 3);
            for (index, (kind, a, b)) in steps.into_iter().enumerate() {
                let out = inputs + index;
                let (a, b) = (usize::from(a) % out, usize::from(b) % out);
                text += &match kind {
                    0 => format!("2 1 {a} {b} {out} XOR\n"),
                    1 => format!("2 1 {a} {b} {out} AND\n"),
                    2 => format!("1 1 {a} {out} INV\n"),
                    3 => format!("1 1 {a} {out} EQW\n"),
                    4 => format!("2 1 {a} {b} {out} OR\n"),
                    5 => format!("2 1 {a} {b} {out} NAND\n"),
                    6 => format!("2 1 {a} {b} {out} NOR\n"),
                    7 => format!("2 1 {a} {b} {out} XNOR\n"),
                    8 => format!("3 1 {a} {b} {} {out} MUX\n", (a + b) % out),
                    _ => format!("1 1 {} {out} EQ\n", b % 2),
                };
            }
            text
        })
    }

    /// Evaluates a text wire by wire, without a [`Circuit`].
    fn wire_by_wire(text: &str, inputs: &[bool]) -> Vec<bool> {
        let mut wires = inputs.to_vec();
        for line in text.lines().skip(4) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<usize>().unwrap();
            wires.push(match *words.last().unwrap() {
                "XOR" => wires[number(2)] ^ wires[number(3)],
                "AND" => wires[number(2)] & wires[number(3)],
                "INV" => !wires[number(2)],
                "EQW" => wires[number(2)],
                "OR" => wires[number(2)] | wires[number(3)],
                "NAND" => !(wires[number(2)] & wires[number(3)]),
                "NOR" => !(wires[number(2)] | wires[number(3)]),
                "XNOR" => wires[number(2)] == wires[number(3)],
                "MUX" => wires[number(if wires[number(4)] { 2 } else { 3 })],
                _ => number(2) == 1,
            });
        }
        wires
    }

    proptest! {
        #[test]
        fn random_circuits_mean_what_their_lines_say(text in texts(), bits in any::<u8>()) {
            let circuit = Circuit::parse(&text).unwrap();
            let inputs: Vec<bool> = (0..circuit.input_widths()[0]).map(|bit| bits >> bit & 1 == 1).collect();
            let wires = wire_by_wire(&text, &inputs);
            let outputs = circuit.evaluate(&[inputs]).concat();
            prop_assert_eq!(&outputs[..], &wires[wires.len() - outputs.len()..]);
        }

        #[test]
        fn levels_hold_every_gate_once_and_only_read_earlier_levels(text in texts()) {
            let circuit = Circuit::parse(&text).unwrap();
            let mut done = vec![false; circuit.gates().len()];
            for level in circuit.levels() {
                prop_assert!(!level.is_empty());
                for &index in &level {
                    for signal in circuit.gates()[index].operands() {
                        prop_assert!(!matches!(signal, Signal::Gate(earlier) if !done[*earlier as usize]));
                    }
                }
                for index in level {
                    prop_assert!(!std::mem::replace(&mut done[index], true));
                }
            }
            prop_assert!(done.into_iter().all(|done| done));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = Circuit::parse(&text);
        }

        #[test]
        fn no_text_of_the_format_s_own_words_makes_the_parser_panic(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "0", "1", "2", "3", "4", "7", "64", "999999999", "\n", "\n", "\n", "XOR", "AND", "INV", "EQ", "EQW",
                    "MAND", "-1", "1 2", "2 1 0 1 2 AND\n", "1 3\n1 2\n1 1\n",
                ]),
                0..60,
            ),
        ) {
            let _ = Circuit::parse(&words.join(" "));
        }

        #[test]
        fn a_changed_byte_gives_a_circuit_or_an_error(text in texts(), at in any::<usize>(), byte in 32u8..127) {
            let mut bytes = text.into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(circuit) = Circuit::parse(std::str::from_utf8(&bytes).unwrap()) {
                let inputs: Vec<_> = circuit.input_widths().iter().map(|&width| vec![true; width]).collect();
                circuit.evaluate(&inputs);
                circuit.levels();
            }
        }
    }
}
