//! Circuits of gates: the Bristol Fashion netlist format, read, levelled and evaluated in the clear.
//!
//! A text has four parts: `gates wires`; `inputs width...`; `outputs width...`; then one line for each gate:
//! `fan_in fan_out in... out... OP`. Wires are numbered; inputs are the first wires in order, outputs the last. Format:
//! <https://nigelsmart.github.io/MPC-Circuits/>. XOR, AND and INV are gates, and MAND stands for several AND gates. EQW
//! (a copy) and EQ (a constant) are replaced by their values while reading, so a [`Circuit`] contains only gates.
//!
//! This module does no I/O. No text makes it panic or allocate more than a small multiple of the text's length.

mod mapped;
mod plan;
mod run;
mod table;
mod values;

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

/// A gate of a circuit: XOR, AND or NOT.
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
    /// wire twice; the error names the first such line. Also when a wire is never written, or a size is above
    /// [`GATES_MAX`] or [`PORT_BITS_MAX`].
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
        let gates_max = gates_max.min(GATES_MAX);
        let mut lines = Lines::new(text);
        let head = lines.next("gates and wires")?;
        let &[gate_lines, wire_count] = &head.numbers()?[..] else {
            return Err(head.error("the first line must be the number of gates and the number of wires"));
        };
        let inputs = lines.next("the inputs' widths")?;
        let input_widths = inputs.widths("inputs")?;
        let outputs = lines.next("the outputs' widths")?;
        let output_widths = outputs.widths("outputs")?;
        let (input_bits, output_bits) = (input_widths.iter().sum::<usize>(), output_widths.iter().sum::<usize>());

        if gate_lines > gates_max {
            return Err(head.error(format!("the circuit has {gate_lines} gates, more than {gates_max}")));
        }
        // a gate writes each wire that is not an input, and for each such wire its line has at least a digit and a space
        if wire_count < input_bits || wire_count - input_bits > text.len() / 2 {
            return Err(head.error(format!(
                "{wire_count} wires are too few for {input_bits} input bits, or too many for the gates in the text"
            )));
        }
        let Some(first_output) = wire_count.checked_sub(output_bits) else {
            return Err(outputs.error(format!("{output_bits} output bits are more than the {wire_count} wires")));
        };

        let mut reader = Reader { wires: Wires::new(input_bits, wire_count), gates: Vec::new(), gates_max };
        for read in 0..gate_lines {
            let line = lines.next(&format!("gate {} of {gate_lines}", read + 1))?;
            reader.gate(&line)?;
        }
        if let Some(line) = lines.next_any() {
            return Err(line.error(format!("the header announces {gate_lines} gates, but this line is a further gate")));
        }
        let Reader { wires, gates, .. } = reader;
        let signals = wires.all_written().map_err(|reason| lines.error_at_end(reason))?;
        Ok(Circuit { input_widths, output_widths, gates, outputs: signals[first_output..].to_vec() })
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

/// The wires and gates that were read until now.
struct Reader {
    wires: Wires,
    gates: Vec<CircuitGate>,
    gates_max: usize,
}

impl Reader {
    fn gate(&mut self, line: &Line<'_>) -> Result<(), CircuitError> {
        let Some((&operation, numbers)) = line.words.split_last() else {
            return Err(line.error("a gate is missing"));
        };
        let [fan_in, fan_out, operands @ ..] = numbers else {
            return Err(line.error("a gate line has the form `fan_in fan_out in... out... OP`"));
        };
        let (fan_in, fan_out) = (line.number(fan_in)?, line.number(fan_out)?);
        if fan_in.checked_add(fan_out) != Some(operands.len()) {
            let found = operands.len();
            return Err(line
                .error(format!("the line announces {fan_in} operands and {fan_out} results, but has {found} wires")));
        }
        let (operands, results) = operands.split_at(fan_in);
        let shape = |wanted: bool| match wanted {
            true => Ok(()),
            false => Err(line.error(format!("{operation} does not have {fan_in} operands and {fan_out} results"))),
        };
        match operation {
            "XOR" | "AND" => {
                shape(fan_in == 2 && fan_out == 1)?;
                let gate = if operation == "XOR" { Gate::Xor } else { Gate::And };
                self.push(line, gate, [operands[0], operands[1]], results[0])
            }
            "INV" => {
                shape(fan_in == 1 && fan_out == 1)?;
                self.push(line, Gate::Not, [operands[0]; 2], results[0])
            }
            "MAND" => {
                shape(fan_out >= 1 && fan_in == 2 * fan_out)?;
                // an operand must not be a result of the same line. All operands are read before the first result is
                // written, so the read of such an operand fails, because its wire is not yet written
                let (left, right) = operands.split_at(fan_out);
                let pairs = left.iter().zip(right).map(|(a, b)| Ok([self.read(line, a)?, self.read(line, b)?]));
                for (pair, result) in pairs.collect::<Result<Vec<_>, _>>()?.into_iter().zip(results) {
                    self.push_read(line, Gate::And, pair, result)?;
                }
                Ok(())
            }
            "EQW" => {
                shape(fan_in == 1 && fan_out == 1)?;
                let signal = self.read(line, operands[0])?;
                self.write(line, results[0], signal)
            }
            "EQ" => {
                shape(fan_in == 1 && fan_out == 1)?;
                let bit = match operands[0] {
                    "0" => false,
                    "1" => true,
                    other => return Err(line.error(format!("EQ takes the constant 0 or 1, not `{other}`"))),
                };
                self.write(line, results[0], Signal::Constant(bit))
            }
            other => Err(line.error(format!("`{other}` is not one of XOR, AND, INV, EQ, EQW, MAND"))),
        }
    }

    fn push(&mut self, line: &Line<'_>, gate: Gate, operands: [&str; 2], result: &str) -> Result<(), CircuitError> {
        let operands = [self.read(line, operands[0])?, self.read(line, operands[1])?];
        self.push_read(line, gate, operands, result)
    }

    fn push_read(
        &mut self,
        line: &Line<'_>,
        gate: Gate,
        operands: [Signal; 2],
        result: &str,
    ) -> Result<(), CircuitError> {
        if self.gates.len() == self.gates_max {
            return Err(line.error(format!("the circuit has more than {} gates", self.gates_max)));
        }
        self.write(line, result, Signal::Gate(self.gates.len() as u32))?;
        self.gates.push(CircuitGate { gate, operands });
        Ok(())
    }

    fn read(&self, line: &Line<'_>, wire: &str) -> Result<Signal, CircuitError> {
        let wire = line.number(wire)?;
        let signal = self.wires.0.get(wire).ok_or_else(|| line.error(self.no_wire(wire)))?;
        signal.ok_or_else(|| line.error(format!("wire {wire} is read before it is written")))
    }

    fn write(&mut self, line: &Line<'_>, wire: &str, signal: Signal) -> Result<(), CircuitError> {
        let wire = line.number(wire)?;
        match self.wires.0.get_mut(wire) {
            Some(place @ None) => *place = Some(signal),
            Some(Some(_)) => return Err(line.error(format!("wire {wire} is written a second time"))),
            None => return Err(line.error(self.no_wire(wire))),
        }
        Ok(())
    }

    fn no_wire(&self, wire: usize) -> String {
        format!("there is no wire {wire}: the header announces {} wires", self.wires.0.len())
    }
}

/// The signal of each wire; `None` until the wire is written.
struct Wires(Vec<Option<Signal>>);

impl Wires {
    fn new(input_bits: usize, wire_count: usize) -> Wires {
        let mut wires: Vec<_> = (0..input_bits as u32).map(|bit| Some(Signal::Input(bit))).collect();
        wires.resize(wire_count, None);
        Wires(wires)
    }

    fn all_written(self) -> Result<Vec<Signal>, String> {
        let written = self.0.into_iter().enumerate();
        written.map(|(wire, signal)| signal.ok_or_else(|| format!("wire {wire} is never written"))).collect()
    }
}

/// The lines of a text that are not blank, one after another.
struct Lines<'a> {
    rest: std::iter::Enumerate<std::str::Lines<'a>>,
    last: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.lines().enumerate(), last: 1 }
    }

    fn next_any(&mut self) -> Option<Line<'a>> {
        let (index, text) = self.rest.by_ref().find(|(_, text)| !text.trim_ascii().is_empty())?;
        self.last = index + 1;
        Some(Line { number: index + 1, words: text.split_ascii_whitespace().collect() })
    }

    fn next(&mut self, what: &str) -> Result<Line<'a>, CircuitError> {
        self.next_any().ok_or_else(|| self.error_at_end(format!("the text ends before {what}")))
    }

    fn error_at_end(&self, reason: String) -> CircuitError {
        CircuitError { line: self.last, reason }
    }
}

/// One line, split into words; never empty.
struct Line<'a> {
    number: usize,
    words: Vec<&'a str>,
}

impl Line<'_> {
    fn error(&self, reason: impl Into<String>) -> CircuitError {
        CircuitError { line: self.number, reason: reason.into() }
    }

    fn number(&self, word: &str) -> Result<usize, CircuitError> {
        // more than 9 digits are not needed, because every bound of the format is below 10^9. The sum of two such
        // numbers cannot overflow
        if word.is_empty() || word.len() > 9 || !word.bytes().all(|digit| digit.is_ascii_digit()) {
            let shown: String = word.chars().take(20).collect();
            return Err(self.error(format!("`{shown}` is not a number of at most 9 digits")));
        }
        Ok(word.bytes().fold(0, |value, digit| 10 * value + usize::from(digit - b'0')))
    }

    fn numbers(&self) -> Result<Vec<usize>, CircuitError> {
        self.words.iter().map(|word| self.number(word)).collect()
    }

    /// Reads `count width...`. Each width must be at least 1, and their sum at most [`PORT_BITS_MAX`].
    fn widths(&self, of: &str) -> Result<Vec<usize>, CircuitError> {
        let numbers = self.numbers()?;
        let Some((&count, widths)) = numbers.split_first() else {
            return Err(self.error(format!("the number of {of} is missing")));
        };
        if count == 0 || count != widths.len() {
            return Err(self.error(format!("the line announces {count} {of}, but has {} widths", widths.len())));
        }
        let mut bits = 0;
        for &width in widths {
            bits += width;
            if width == 0 || bits > PORT_BITS_MAX {
                return Err(
                    self.error(format!("{of} must have at least one bit each and at most {PORT_BITS_MAX} together"))
                );
            }
        }
        Ok(widths.to_vec())
    }
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
            ("1 4\n1 2\n1 1\n2 1 0 1 2 AND\n", 4, "wire 3 is never written"),
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
            ("1 3\n1 2\n1 1\n2 1 0 1 2 NAND\n", 4, "`NAND` is not one of"),
            ("1 3\n1 2\n1 1\n2 1 0 1 -2 AND\n", 4, "not a number"),
            ("1 3\n1 2\n1 1\n2 1 0 1 +2 AND\n", 4, "not a number"),
            ("1 3\n1 2\n1 1\nAND\n", 4, "fan_in"),
            ("9999999 3\n1 2\n1 1\n", 1, "more than 1048576"),
            ("1 999999999\n1 2\n1 1\n2 1 0 1 2 AND\n", 1, "too many for the gates"),
            ("99999999999999999999 3\n", 1, "not a number"),
        ] {
            let (at, why) = reason(text);
            assert!(at == line && why.contains(part), "{text:?}: line {at}: {why}");
        }
    }

    /// Texts of random circuits. Each gate reads only wires that are already written.
    pub(in crate::tfhe) fn texts() -> impl Strategy<Value = String> {
        (1usize..6, prop::collection::vec((0u8..5, any::<u16>(), any::<u16>()), 1..40)).prop_map(|(inputs, steps)| {
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
