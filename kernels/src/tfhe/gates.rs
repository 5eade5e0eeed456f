//! The gate table: what each gate adds up before its bootstrap.
//!
//! Every gate is a row of this table: a constant and a factor for its operands. Binary gates share one bootstrap to
//! `+-1/8`, MUX takes two and one key switch, NOT none (readings P29: the tariff is another matter and lives in the service).

use std::ops::Range;

use super::fold::{Bit, Folded, fold, names_of_few};
use super::lwe::Lwe;
use super::lwe_list::LweList;

/// A Boolean gate (specification, gate sessions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gate {
    /// not (a and b)
    Nand,
    /// a and b
    And,
    /// a or b
    Or,
    /// a xor b
    Xor,
    /// not (a or b)
    Nor,
    /// not (a xor b)
    Xnor,
    /// not a
    Not,
    /// sel ? a : b
    Mux,
}

impl Gate {
    /// All gates, in the specification's order.
    pub const ALL: [Gate; 8] =
        [Gate::Nand, Gate::And, Gate::Or, Gate::Xor, Gate::Nor, Gate::Xnor, Gate::Not, Gate::Mux];

    /// The specification's name, upper case.
    pub fn name(self) -> &'static str {
        match self {
            Gate::Nand => "NAND",
            Gate::And => "AND",
            Gate::Or => "OR",
            Gate::Xor => "XOR",
            Gate::Nor => "NOR",
            Gate::Xnor => "XNOR",
            Gate::Not => "NOT",
            Gate::Mux => "MUX",
        }
    }

    /// The gate of this name; case matters (readings G9).
    pub fn from_name(name: &str) -> Option<Gate> {
        Gate::ALL.into_iter().find(|gate| gate.name() == name)
    }

    /// Number of operands: 1 for NOT, 3 for MUX (a, b, sel), else 2.
    pub fn arity(self) -> usize {
        match self {
            Gate::Not => 1,
            Gate::Mux => 3,
            _ => 2,
        }
    }

    /// Bootstraps the engine really does: 0 for NOT, 2 for MUX, else 1.
    pub fn bootstraps(self) -> usize {
        match self {
            Gate::Not => 0,
            Gate::Mux => 2,
            _ => 1,
        }
    }

    /// The gate on plain bits, operands in the order a, b, sel.
    ///
    /// # Panics
    /// When `operands` is not of length [`Gate::arity`].
    pub fn plain(self, operands: &[bool]) -> bool {
        assert_eq!(operands.len(), self.arity());
        match (self, operands) {
            (Gate::Nand, [a, b]) => !(a & b),
            (Gate::And, [a, b]) => a & b,
            (Gate::Or, [a, b]) => a | b,
            (Gate::Xor, [a, b]) => a ^ b,
            (Gate::Nor, [a, b]) => !(a | b),
            (Gate::Xnor, [a, b]) => !(a ^ b),
            (Gate::Not, [a]) => !a,
            (Gate::Mux, [a, b, sel]) => *(if *sel { a } else { b }),
            _ => unreachable!("arity was checked"),
        }
    }
}

/// One gate to evaluate and its operands in the order a, b, sel; as many as [`Gate::arity`], all of one dimension.
#[derive(Clone, Debug)]
pub struct GateRow {
    /// The gate.
    pub gate: Gate,
    /// Its operands, each `[n + 1]` words.
    pub operands: Vec<Lwe>,
}

/// Gates that do not depend on one another, with all their operands in one block.
#[derive(Clone, Debug)]
pub struct GateList {
    gates: Vec<Gate>,
    /// Of each gate its first operand, and where the last gate's end.
    starts: Vec<usize>,
    operands: LweList,
}

impl GateList {
    /// These gates on these operands: gate after gate, each in the order a, b, sel.
    ///
    /// # Panics
    /// When there are not as many operands as the gates take.
    pub fn new(gates: Vec<Gate>, operands: LweList) -> Self {
        let mut starts = Vec::with_capacity(gates.len() + 1);
        let mut end = 0;
        starts.push(end);
        for gate in &gates {
            end += gate.arity();
            starts.push(end);
        }
        assert_eq!(operands.len(), end, "operands of {} gates", gates.len());
        Self { gates, starts, operands }
    }

    /// The same gates, their operands gathered.
    ///
    /// # Panics
    /// When a row has not as many operands as its gate, or operands differ in dimension; without rows.
    pub fn of_rows(rows: &[GateRow]) -> Self {
        let operands: Vec<&Lwe> = rows.iter().flat_map(|row| &row.operands).collect();
        let mut list = LweList::with_capacity(operands[0].dimension(), operands.len());
        operands.iter().for_each(|operand| list.push(operand.words()));
        for row in rows {
            assert_eq!(row.operands.len(), row.gate.arity(), "{}", row.gate.name());
        }
        Self::new(rows.iter().map(|row| row.gate).collect(), list)
    }

    /// The gates that are left when each is folded by its operands' words: as many, with the same results in the same
    /// order, but no bootstrap adds words to themselves (docs/wire-format.md 8, "Folding"). A gate that needs no bootstrap
    /// becomes the NOT of its result's negation. The list itself, uncopied, when there is nothing to fold.
    pub fn folded(self) -> GateList {
        let folds: Vec<Folded> = (0..self.gates.len()).map(|at| self.fold(at)).collect();
        let as_it_is = |(&gate, folded): (&Gate, &Folded)| match folded {
            Folded::Bit(_) => gate == Gate::Not,
            Folded::Binary(..) => gate != Gate::Mux,
            Folded::Mux(_) => true,
        };
        if self.gates.iter().zip(&folds).all(as_it_is) {
            return self;
        }
        let mut gates = Vec::with_capacity(folds.len());
        let mut operands = LweList::with_capacity(self.operands.dimension(), self.operands.len());
        for (at, folded) in folds.into_iter().enumerate() {
            let mut push = |bit| self.push(self.starts[at], bit, &mut operands);
            gates.push(match folded {
                Folded::Bit(bit) => {
                    push(!bit);
                    Gate::Not
                }
                Folded::Binary(gate, bits) => {
                    bits.into_iter().for_each(&mut push);
                    gate
                }
                Folded::Mux(bits) => {
                    bits.into_iter().for_each(&mut push);
                    Gate::Mux
                }
            });
        }
        GateList::new(gates, operands)
    }

    /// What a gate of the list folds to; a value's name is its place among the gate's operands.
    fn fold(&self, at: usize) -> Folded {
        let operands = self.operands_of(at..at + 1);
        let names = names_of_few(operands.clone().map(|operand| self.operands.row(operand)));
        fold(self.gates[at], &names[..operands.len()])
    }

    /// Appends the words of an operand that a fold names.
    fn push(&self, first: usize, bit: Bit, out: &mut LweList) {
        match bit {
            Bit::Constant(bit) => out.push(Lwe::trivial(self.operands.dimension(), bit).words()),
            Bit::Value { id, negated: false } => out.push(self.operands.row(first + id as usize)),
            Bit::Value { id, negated: true } => {
                let words = self.operands.row(first + id as usize);
                out.push(&words.iter().map(|word| word.wrapping_neg()).collect::<Vec<_>>());
            }
        }
    }

    /// The gates.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// Their operands.
    pub fn operands(&self) -> &LweList {
        &self.operands
    }

    /// Which of the operands are those of these gates.
    ///
    /// # Panics
    /// When there are not so many gates.
    pub fn operands_of(&self, gates: Range<usize>) -> Range<usize> {
        self.starts[gates.start]..self.starts[gates.end]
    }
}

/// A bootstrap's input: `constant + factor_a * x + factor_b * y`, constant in units of 1/8 of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    pub constant: i32,
    pub factors: [i32; 2],
}

/// The bootstraps of a gate: each names two operands by index and how they are added up (docs/wire-format.md 8).
///
/// MUX(a, b, sel): `BR(-1/8 + sel + a)` and `BR(-1/8 - sel + b)`, whose sum plus 1/8 is the bit.
pub(crate) fn bootstraps(gate: Gate) -> &'static [([usize; 2], Linear)] {
    const fn row(operands: [usize; 2], constant: i32, x: i32, y: i32) -> ([usize; 2], Linear) {
        (operands, Linear { constant, factors: [x, y] })
    }
    match gate {
        Gate::Nand => const { &[row([0, 1], 1, -1, -1)] },
        Gate::And => const { &[row([0, 1], -1, 1, 1)] },
        Gate::Or => const { &[row([0, 1], 1, 1, 1)] },
        Gate::Nor => const { &[row([0, 1], -1, -1, -1)] },
        Gate::Xor => const { &[row([0, 1], 2, 2, 2)] },
        Gate::Xnor => const { &[row([0, 1], -2, -2, -2)] },
        Gate::Mux => const { &[row([2, 0], -1, 1, 1), row([2, 1], -1, -1, 1)] },
        Gate::Not => &[],
    }
}
