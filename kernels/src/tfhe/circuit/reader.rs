//! Reads netlists.

use std::collections::HashMap;

use super::{Circuit, CircuitError, CircuitGate, PORT_BITS_MAX, Signal};
use crate::tfhe::gates::Gate;

/// Reads a netlist of at most `gates_max` gates.
pub(super) fn read(text: &str, gates_max: usize) -> Result<Circuit, CircuitError> {
    let mut lines = Lines::new(text);
    let head = lines.next("gates and wires")?;
    let &[gate_lines, wire_count] = &head.numbers()?[..] else {
        return Err(head.error("the first line must be the number of gates and the number of wires"));
    };
    let inputs = lines.next("the inputs' widths")?;
    let third = lines.next("the outputs' widths")?;
    // the third line of the older format is a gate
    let line_of_outputs = if third.is_gate() { inputs.number } else { third.number };
    let (mut first_gate, [input_widths, output_widths]) = match third.is_gate() {
        true => (Some(third), inputs.older_widths()?),
        false => (None, [inputs.widths("inputs")?, third.widths("outputs")?]),
    };
    let (input_bits, output_bits) = (input_widths.iter().sum::<usize>(), output_widths.iter().sum::<usize>());

    if gate_lines > gates_max {
        return Err(head.error(format!("the circuit has {gate_lines} gates, more than {gates_max}")));
    }
    if wire_count < input_bits {
        return Err(head.error(format!("{wire_count} wires are too few for {input_bits} input bits")));
    }
    let Some(first_output) = wire_count.checked_sub(output_bits) else {
        let reason = format!("{output_bits} output bits are more than the {wire_count} wires");
        return Err(CircuitError { line: line_of_outputs, reason });
    };

    let wires = Wires::new(input_bits, wire_count, text.len());
    let mut reader = Reader { wires, gates: Vec::new(), gates_max };
    for read in 0..gate_lines {
        let line = match first_gate.take() {
            Some(line) => line,
            None => lines.next(&format!("gate {} of {gate_lines}", read + 1))?,
        };
        reader.gate(&line)?;
    }
    if let Some(line) = first_gate.or_else(|| lines.next_any()) {
        return Err(line.error(format!("the header announces {gate_lines} gates, but this line is a further gate")));
    }
    let Reader { wires, gates, .. } = reader;
    let output = |wire: usize| {
        wires.get(wire).ok_or_else(|| lines.error_at_end(format!("wire {wire}, an output, is never written")))
    };
    let outputs = (first_output..wire_count).map(output).collect::<Result<_, _>>()?;
    Ok(Circuit { input_widths, output_widths, gates, outputs })
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
            "INV" | "NOT" => {
                shape(fan_in == 1 && fan_out == 1)?;
                self.push(line, Gate::Not, [operands[0]; 2], results[0])
            }
            "MUX" => {
                shape(fan_in == 3 && fan_out == 1)?;
                let [a, b, sel] = [0, 1, 2].map(|at| self.read(line, operands[at]));
                let (a, b, sel) = (a?, b?, sel?);
                // b xor (sel and (a xor b))
                let differ = self.gate_of(line, Gate::Xor, [a, b])?;
                let chosen = self.gate_of(line, Gate::And, [sel, differ])?;
                self.push_read(line, Gate::Xor, [chosen, b], results[0])
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
            other => match Gate::from_name(other) {
                Some(gate) => {
                    shape(fan_in == 2 && fan_out == 1)?;
                    self.push(line, gate, [operands[0], operands[1]], results[0])
                }
                None => Err(line.error(format!(
                    "`{other}` is not one of XOR, AND, INV, NOT, OR, NAND, NOR, XNOR, MUX, EQ, EQW, MAND"
                ))),
            },
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
        let signal = self.gate_of(line, gate, operands)?;
        self.write(line, result, signal)
    }

    /// Adds a gate and returns its result.
    fn gate_of(&mut self, line: &Line<'_>, gate: Gate, operands: [Signal; 2]) -> Result<Signal, CircuitError> {
        if self.gates.len() == self.gates_max {
            return Err(line.error(format!("the circuit has more than {} gates", self.gates_max)));
        }
        self.gates.push(CircuitGate { gate, operands });
        Ok(Signal::Gate(self.gates.len() as u32 - 1))
    }

    fn read(&self, line: &Line<'_>, wire: &str) -> Result<Signal, CircuitError> {
        let wire = line.number(wire)?;
        let signal = self.wires.get(wire);
        signal.ok_or_else(|| match wire < self.wires.count {
            true => line.error(format!("wire {wire} is read before it is written")),
            false => line.error(self.no_wire(wire)),
        })
    }

    fn write(&mut self, line: &Line<'_>, wire: &str, signal: Signal) -> Result<(), CircuitError> {
        let wire = line.number(wire)?;
        if wire >= self.wires.count {
            return Err(line.error(self.no_wire(wire)));
        }
        match self.wires.set(wire, signal) {
            None => Ok(()),
            Some(_) => Err(line.error(format!("wire {wire} is written a second time"))),
        }
    }

    fn no_wire(&self, wire: usize) -> String {
        format!("there is no wire {wire}: the header announces {} wires", self.wires.count)
    }
}

/// The signals of the wires that are written. Netlists may leave gaps in the numbers of wires, so memory follows the
/// text's length and not the number of wires.
struct Wires {
    /// How many wires the header announces.
    count: usize,
    /// The wires of small numbers; `None` until a wire is written.
    low: Vec<Option<Signal>>,
    /// The written wires of larger numbers.
    high: HashMap<usize, Signal>,
}

impl Wires {
    /// The wires of a circuit whose text has `text_bytes` bytes.
    fn new(input_bits: usize, count: usize, text_bytes: usize) -> Wires {
        let mut low: Vec<_> = (0..input_bits as u32).map(|bit| Some(Signal::Input(bit))).collect();
        low.resize(count.min(input_bits + text_bytes), None);
        Wires { count, low, high: HashMap::new() }
    }

    fn get(&self, wire: usize) -> Option<Signal> {
        self.low.get(wire).copied().unwrap_or_else(|| self.high.get(&wire).copied())
    }

    /// Writes a wire. Returns the signal that the wire had before.
    fn set(&mut self, wire: usize, signal: Signal) -> Option<Signal> {
        match self.low.get_mut(wire) {
            Some(place) => place.replace(signal),
            None => self.high.insert(wire, signal),
        }
    }
}

/// The lines of a text that are not blank, one after another.
struct Lines<'a> {
    rest: std::iter::Enumerate<std::str::Lines<'a>>,
    last: usize,
}

impl<'a> Lines<'a> {
    /// The lines of a text, whose byte order mark is skipped.
    fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate(), last: 1 }
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

    /// Whether the line describes a gate, which ends with the name of an operation.
    fn is_gate(&self) -> bool {
        self.words.last().is_some_and(|word| word.starts_with(|first: char| first.is_ascii_alphabetic()))
    }

    fn numbers(&self) -> Result<Vec<usize>, CircuitError> {
        self.words.iter().map(|word| self.number(word)).collect()
    }

    /// Reads `count width...`.
    fn widths(&self, of: &str) -> Result<Vec<usize>, CircuitError> {
        let numbers = self.numbers()?;
        let Some((&count, widths)) = numbers.split_first() else {
            return Err(self.error(format!("the number of {of} is missing")));
        };
        if count == 0 || count != widths.len() {
            return Err(self.error(format!("the line announces {count} {of}, but has {} widths", widths.len())));
        }
        self.bounded(of, widths)
    }

    /// Reads the second line of the older format: the widths of both inputs and of the output. A second width of 0 means
    /// that there is one input.
    fn older_widths(&self) -> Result<[Vec<usize>; 2], CircuitError> {
        let &[first, second, output] = &self.numbers()?[..] else {
            return Err(self.error(
                "a gate follows this line, so it must have the form of the older format: the widths of two inputs and of the output",
            ));
        };
        let inputs = if second == 0 { &[first][..] } else { &[first, second] };
        Ok([self.bounded("inputs", inputs)?, self.bounded("outputs", &[output])?])
    }

    /// Checks widths: each must be at least 1, and their sum at most [`PORT_BITS_MAX`].
    fn bounded(&self, of: &str, widths: &[usize]) -> Result<Vec<usize>, CircuitError> {
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
