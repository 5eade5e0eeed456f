//! The gate table: the sum that each gate forms before its bootstrap.
//!
//! Every gate is a row of this table: one constant, and a factor for each operand. A binary gate takes one bootstrap to
//! `+-1/8` and one key switch, MUX takes three bootstraps and two key switches, and NOT takes neither (readings P29; the
//! service sets the prices).
//!
//! The third bootstrap of MUX refreshes the sum of the other two. Without it, the result would contain the error of
//! AND(sel, a) and of AND(NOT sel, b), and a later gate of this result and of such an AND would add one error twice.

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

    /// The gate's name in the specification, upper case.
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

    /// The gate with this name; case matters (readings G9).
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

    /// The number of bootstraps that the engine runs: 0 for NOT, 3 for MUX, else 1.
    pub fn bootstraps(self) -> usize {
        match self {
            Gate::Not => 0,
            Gate::Mux => 3,
            _ => 1,
        }
    }

    /// Evaluates the gate on plain bits in the order a, b, sel.
    ///
    /// # Panics
    /// When the length of `operands` is not [`Gate::arity`].
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

/// The sum that a bootstrap reads: `constant + factor_a * x + factor_b * y`. The constant is in units of 1/8 of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    pub constant: i32,
    pub factors: [i32; 2],
}

/// The sum of the bootstrap that refreshes the bit of a MUX: the bit itself.
pub(crate) const REFRESH: Linear = Linear { constant: 0, factors: [1, 0] };

/// The bootstraps that read a gate's operands. Each has the indices of two operands, and how these operands are added
/// (docs/wire-format.md 8).
///
/// MUX(a, b, sel) is `BR(-1/8 + sel + a)` and `BR(-1/8 - sel + b)`: their sum plus 1/8 is the bit, which [`REFRESH`]
/// then bootstraps.
pub(crate) fn sums(gate: Gate) -> &'static [([usize; 2], Linear)] {
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
